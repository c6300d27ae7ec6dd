/* fuzz_peft.c - bytes as a PEFT directory for a small model: adapter_config.json, a NUL, and
 * adapter_model.safetensors. */
#include "adapter_life.h"
#include "hostile.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *nul = memchr(data, 0, size);
    const size_t n = nul ? (size_t)(nul - data) : size;
    adapter_life_peft(data, n, data + n + (nul != NULL), size - n - (nul != NULL));
    return 0;
}

/* Three of four mutations correct the length of the header; otherwise hardly any input would get
 * past it. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed)
{
    size = LLVMFuzzerMutate(data, size, room);
    uint8_t *nul = memchr(data, 0, size);
    const size_t left = nul ? size - (size_t)(nul + 1 - data) : 0;
    const uint8_t *brace = left > 8 && seed % 4 ? memrchr(nul + 9, '}', left - 8) : NULL;
    if (brace) {
        const uint64_t n = (uint64_t)(brace + 1 - (nul + 9));
        memcpy(nul + 1, &n, sizeof n);
    }
    return size;
}
