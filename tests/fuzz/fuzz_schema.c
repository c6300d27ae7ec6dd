/* fuzz_schema.c - a letter of options, a JSON Schema, a zero byte, and bytes that choose how to write a
 * text that obeys it. Every finished text is JSON. */
#include "hostile.h"
#include "text/constrain/rows.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT 256

static const grammar_limits limits = {
    .expressions = 5000,
    .symbols = 5000,
    .items = 1000,
};

static void check_json(const char *text, size_t n)
{
    json_error_t why;
    json_t *v = json_loadb(text, n, JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL,
                           &why);
    const bool nul_key = !v && strstr(why.text, "NUL byte");
    if (!v && !nul_key) {
        fprintf(stderr, "%.*s\n", (int)n, text);
        holds(false, why.text);
    }
    json_decref(v);
}

/* The choice-th of the bytes in the set. */
static int pick(const uint64_t set[4], uint8_t choice)
{
    int n = 0;
    for (int i = 0; i < 4; i++)
        n += __builtin_popcountll(set[i]);
    if (n == 0)
        return -1;
    int left = choice % n;
    for (int b = 0;; b++)
        if (set[b / 64] >> b % 64 & 1 && left-- == 0)
            return b;
}

static void write_text(grammar *g, const uint8_t *choice, size_t n, mem *m)
{
    weft_error err = { 0 };
    char text[TEXT];
    earley r;
    uint32_t at = FIRST_ROW;
    size_t length = 0;
    if (rows_init(&r, m, g, &err) != WEFT_OK)
        return;
    rows_begin(&r, &err);
    while (length < n && length < TEXT) {
        uint64_t next[4] = { 0 };
        rows_next_bytes(&r, at, next);
        const int byte = pick(next, choice[length]);
        if (byte < 0)
            break;
        const uint32_t to = rows_step(&r, at, (uint8_t)byte);
        if (err.code != WEFT_OK)
            break;
        holds(to != NO_ROW, "a byte that may come next does not");
        text[length++] = (char)byte;
        at = to;
        if (row_at(&r, at)->accepts)
            check_json(text, length);
    }
    rows_free(&r);
}

static void count_ignored(void *user, const char *pointer, const char *keyword)
{
    holds(pointer && keyword && keyword[0], "an ignored keyword without its name");
    ++*(int *)user;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    mem m;
    weft_error err = { 0 };
    int n_ignored = 0;
    const uint8_t *text = data + 1, *zero = memchr(text, 0, size - 1);
    const size_t n = zero ? (size_t)(zero - text) : size - 1;
    const schema_options o = { .lenient = data[0] & 1,
                               .indent = data[0] & 2,
                               .openai_strict = data[0] & 4,
                               .ignored = count_ignored,
                               .user = &n_ignored };
    mem_init(&m, (size_t)64 << 20, &plain_hooks);
    char *copy = malloc(n ? n : 1);
    if (n)
        memcpy(copy, text, n);
    grammar *g = schema_read(&m, copy, n, &o, &limits, &err);
    holds(g || (err.code != WEFT_OK && err.message[0]), "refused without a sentence");
    holds(o.lenient || n_ignored == 0, "a keyword was ignored");
    if (g && zero)
        write_text(g, zero + 1, size - n - 2, &m);
    grammar_free(g);
    free(copy);
    holds(atomic_load(&m.used) == 0, "memory is left");
    return 0;
}
