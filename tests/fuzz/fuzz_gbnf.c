/* fuzz_gbnf.c - a grammar, a zero byte, and a text: compiled, and walked byte by byte. What the
 * automaton says of the next byte agrees with the step that takes it. */
#include "hostile.h"
#include "text/constrain/rows.h"

#include <stdlib.h>
#include <string.h>

#define CAP   ((size_t)64 << 20)
#define STEPS 400

static void walk(earley *r, const uint8_t *text, size_t n, weft_error *err)
{
    uint32_t at = FIRST_ROW;
    for (size_t i = 0; i < n && i < STEPS && at != NO_ROW; i++) {
        uint64_t bytes[4];
        rows_begin(r, err);
        rows_next_bytes(r, at, bytes);
        const uint32_t to = rows_step(r, at, text[i]);
        if (err->code != WEFT_OK)
            return;
        holds((to != NO_ROW) == (bytes[text[i] / 64] >> text[i] % 64 & 1),
              "a step disagrees with the bytes that may come next");
        holds(to == rows_step(r, at, text[i]), "a step has two results");
        at = to;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
    const size_t n = zero ? (size_t)(zero - data) : size;
    const grammar_limits small = { .expressions = 4000, .symbols = 4000, .items = 500 };
    weft_error err = { 0 };
    mem m;
    mem_init(&m, CAP, NULL);
    grammar *g = gbnf_read(&m, (const char *)data, n, NULL, &small, &err);
    holds((g != NULL) == (err.code == WEFT_OK), "an error without a message");
    earley r = { 0 };
    if (g && rows_init(&r, &m, g, &err) == WEFT_OK && zero)
        walk(&r, zero + 1, size - n - 1, &err);
    rows_free(&r);
    grammar_free(g);
    holds(m.used == 0, "memory is left");
    return 0;
}
