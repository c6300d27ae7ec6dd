/* fuzz_unpack.c - bytes as a gzip or zstd file: counting, unpacking and reading the head must
 * agree. */
#include "formats/unpack.h"
#include "hostile.h"

#include <stdlib.h>
#include <string.h>

#define CAP ((size_t)16 << 20)

static void agrees(const uint8_t *data, size_t size, uint64_t n, mem *m)
{
    weft_error err = { 0 };
    uint8_t head[4],
        *to = malloc(n ? (size_t)n : 1); /* exact size: a sanitizer reports an overrun */
    uint64_t made = n;
    holds(unpack_into("fuzz", data, size, to, &made, m, &err) == WEFT_OK, "it unpacks only once");
    holds(made == n, "it unpacks to another length than was counted");
    const size_t n_head = unpack_head(data, size, head, sizeof head, m);
    holds(n_head == (n < sizeof head ? n : sizeof head), "its head is too short");
    holds(memcmp(head, to, n_head) == 0, "its head is another");
    if (n > 0) {
        made = n - 1;
        holds(unpack_into("fuzz", data, size, to, &made, m, &err) == WEFT_EINVAL, "it has no room");
    }
    free(to);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mem m;
    uint64_t n = 0;
    weft_error err = { 0 };
    mem_init(&m, CAP, NULL);
    const weft_status status = unpack_count("fuzz", data, size, size % 2 ? "text" : NULL, &m, &n,
                                            &err);
    if (status == WEFT_OK) {
        holds(is_packed(data, size), "it is not packed");
        holds(n <= CAP, "more than memory holds");
        agrees(data, size, n, &m);
    } else {
        holds(err.code == status && strncmp(err.message, "fuzz: ", 6) == 0,
              "an error does not name the file");
    }
    holds(atomic_load(&m.used) == 0, "memory is left");
    holds(atomic_load(&m.peak) <= CAP, "the cap was passed");
    return 0;
}
