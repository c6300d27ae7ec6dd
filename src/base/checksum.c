#include "base/checksum.h"

#include <string.h>

#define BLOCK (LANES * sizeof(uint64_t))

/* For one h every x gives another number, and for one x every h. */
static uint64_t stir(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0x9E3779B97F4A7C15u;
    return h ^ h >> 32;
}

static void stir_block(checksum *s, const void *block)
{
    uint64_t x[LANES];
    memcpy(x, block, BLOCK);
    for (int i = 0; i < LANES; i++)
        s->lane[i] = stir(s->lane[i], x[i]);
}

void checksum_begin(checksum *s)
{
    *s = (checksum){ .lane = { 1, 2, 3, 4 } };
}

void checksum_add(checksum *s, const void *bytes, size_t n)
{
    const char *at = bytes;
    const size_t held = s->n % BLOCK;
    s->n += n;
    if (held > 0) {
        const size_t take = n < BLOCK - held ? n : BLOCK - held;
        memcpy((char *)s->rest + held, at, take);
        if (held + take < BLOCK)
            return;
        stir_block(s, s->rest);
        at += take;
        n -= take;
    }
    for (; n >= BLOCK; at += BLOCK, n -= BLOCK)
        stir_block(s, at);
    memset(s->rest, 0, BLOCK);
    if (n > 0)
        memcpy(s->rest, at, n);
}

uint64_t checksum_end(const checksum *s)
{
    uint64_t h = s->n;
    for (int i = 0; i < LANES; i++)
        h = stir(h, stir(s->lane[i], s->rest[i]));
    return h;
}
