/* fuzz_rx.c - an ECMA-262 pattern, a zero byte, and a text: parsed for a whole text and for a search,
 * for plain text or, if the text has an odd number of bytes, for JSON strings, and followed through the
 * text. What matches must live, and a text that matches as a whole is found by a search. */
#include "hostile.h"
#include "text/constrain/rx.h"

#include <stdlib.h>
#include <string.h>

#define LIMIT 3000

/* Whether all of the text matches. */
static bool follow(rx_pool *p, rx a, const uint8_t *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint8_t class_of[256];
        const rx next = rx_derive(p, a, text[i]);
        if (i < 8 && rx_classes(p, a, class_of) > 1) {
            const uint8_t other = (uint8_t)(text[i] ^ 1);
            holds(class_of[other] != class_of[text[i]] || rx_derive(p, a, other) == next ||
                      rx_failed(p, NULL) != WEFT_OK,
                  "bytes of one class differ");
        }
        a = next;
    }
    const bool good = rx_matches_empty(p, a);
    holds(!good || rx_alive(p, a) || rx_failed(p, NULL) != WEFT_OK, "what matches is dead");
    return good;
}

static void run(const char *pattern, size_t n, const uint8_t *text, size_t n_text, mem *m)
{
    bool whole = false;
    const int json = n_text % 2 ? RX_JSON : 0;
    for (int search = 0; search <= RX_SEARCH; search += RX_SEARCH) {
        weft_error err = { 0 };
        rx_pool *p = rx_pool_new(m, LIMIT, &err);
        const rx a = rx_parse(p, pattern, n, json | search, &err);
        holds(err.code == WEFT_OK || (err.message[0] && a == RX_NOTHING),
              "refused without a sentence");
        const bool good = follow(p, a, text, n_text) && rx_failed(p, NULL) == WEFT_OK;
        if (!search)
            whole = good;
        const bool ended = err.code != WEFT_OK || rx_failed(p, NULL) != WEFT_OK;
        holds(!(search && whole) || good || ended, "a search does not find the whole");
        if (!search)
            rx_alive(p, rx_and(p, a, rx_not(p, rx_repeat(p, a, 2, 3))));
        rx_pool_free(p);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mem m;
    const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
    const size_t n = zero ? (size_t)(zero - data) : size;
    mem_init(&m, (size_t)64 << 20, &plain_hooks);
    char *pattern = malloc(n ? n : 1);
    if (n)
        memcpy(pattern, data, n);
    run(pattern, n, zero ? zero + 1 : data, zero ? size - n - 1 : 0, &m);
    free(pattern);
    holds(atomic_load(&m.used) == 0, "memory is left");
    return 0;
}
