/* fuzz_gguf_lora.c - bytes as a GGUF adapter for a small model. */
#include "adapter_life.h"
#include "hostile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    adapter_life_gguf(data, size);
    return 0;
}
