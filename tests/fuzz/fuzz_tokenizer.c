/* fuzz_tokenizer.c - a hostile vocabulary and a hostile text: the kind of file, the length of the
 * text, the text, the file. */
#include "hostile.h"
#include "tokenizer_life.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    const size_t n = data[1] < size - 2 ? data[1] : size - 2;
    const char *wrong;
    weft_error err;
    host h = { .io = io_system };
    json_object_seed(1); /* hashing is random by default, findings must repeat */
    mem_init(&h.mem, (size_t)256 << 20, NULL);
    const weft_status status = tokenizer_life((life_kind)(data[0] % N_LIFE), data + 2 + n,
                                              size - 2 - n, (const char *)data + 2, n, &h, &wrong,
                                              &err);
    if (atomic_load(&h.mem.used) != 0)
        wrong = "memory was kept";
    if (wrong) {
        fprintf(stderr, "%s (status %d: %s)\n", wrong, (int)status, err.message);
        abort();
    }
    return 0;
}
