/* fuzz_gguf.c - bytes as a GGUF file. */
#include "hostile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_parser(gguf_parse, data, size);
    return 0;
}
