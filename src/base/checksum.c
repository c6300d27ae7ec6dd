/* checksum.c - XXH64 over a stream, and over chunks of it. */
#include "base/checksum.h"

#include <string.h>

#define PRIME1 UINT64_C(0x9E3779B185EBCA87)
#define PRIME2 UINT64_C(0xC2B2AE3D27D4EB4F)
#define PRIME3 UINT64_C(0x165667B19E3779F9)
#define PRIME4 UINT64_C(0x85EBCA77C2B2AE63)
#define PRIME5 UINT64_C(0x27D4EB2F165667C5)

static uint64_t rotate(uint64_t x, int n)
{
    return x << n | x >> (64 - n);
}

/* Little-endian, as every machine here is. */
static uint64_t read_u64(const uint8_t *at)
{
    uint64_t x;
    memcpy(&x, at, sizeof x);
    return x;
}

static uint64_t round_of(uint64_t lane, uint64_t input)
{
    return rotate(lane + input * PRIME2, 31) * PRIME1;
}

static void stripe(uint64_t *lane, const uint8_t *at)
{
    for (int i = 0; i < 4; i++)
        lane[i] = round_of(lane[i], read_u64(at + 8 * i));
}

void xxh64_begin(xxh64 *x)
{
    *x = (xxh64){ .lane = { PRIME1 + PRIME2, PRIME2, 0, 0 - PRIME1 } };
}

void xxh64_add(xxh64 *x, const void *data, size_t size)
{
    const uint8_t *at = data;
    const size_t held = x->n % sizeof x->rest;
    x->n += size;
    if (held > 0) {
        const size_t more = sizeof x->rest - held < size ? sizeof x->rest - held : size;
        memcpy(x->rest + held, at, more);
        at += more;
        size -= more;
        if (held + more < sizeof x->rest)
            return;
        stripe(x->lane, x->rest);
    }
    for (; size >= sizeof x->rest; at += sizeof x->rest, size -= sizeof x->rest)
        stripe(x->lane, at);
    if (size > 0)
        memcpy(x->rest, at, size);
}

static uint64_t merged(const uint64_t *lane)
{
    uint64_t h = rotate(lane[0], 1) + rotate(lane[1], 7) + rotate(lane[2], 12) +
                 rotate(lane[3], 18);
    for (int i = 0; i < 4; i++)
        h = (h ^ round_of(0, lane[i])) * PRIME1 + PRIME4;
    return h;
}

uint64_t xxh64_end(const xxh64 *x)
{
    uint64_t h = (x->n >= sizeof x->rest ? merged(x->lane) : PRIME5) + x->n;
    const uint8_t *at = x->rest, *end = at + x->n % sizeof x->rest;
    for (; end - at >= 8; at += 8)
        h = rotate(h ^ round_of(0, read_u64(at)), 27) * PRIME1 + PRIME4;
    if (end - at >= 4) {
        uint32_t half;
        memcpy(&half, at, sizeof half);
        h = rotate(h ^ half * PRIME1, 23) * PRIME2 + PRIME3;
        at += 4;
    }
    for (; at < end; at++)
        h = rotate(h ^ *at * PRIME5, 11) * PRIME1;
    h = (h ^ h >> 33) * PRIME2;
    h = (h ^ h >> 29) * PRIME3;
    return h ^ h >> 32;
}

uint64_t xxh64_of(const void *data, size_t size)
{
    xxh64 x;
    xxh64_begin(&x);
    xxh64_add(&x, data, size);
    return xxh64_end(&x);
}

/* ---- chunks of a file ------------------------------------------------------------------------ */

void chunk_sums_begin(chunk_sums *c, mem *m, weft_error *err)
{
    *c = (chunk_sums){ 0 };
    buffer_begin(&c->sums, m, err);
    xxh64_begin(&c->now);
}

static void close_chunk(chunk_sums *c)
{
    const uint64_t sum = xxh64_end(&c->now);
    buffer_put(&c->sums, &sum, sizeof sum);
    xxh64_begin(&c->now);
}

void chunk_sums_add(chunk_sums *c, const void *data, size_t size)
{
    const uint8_t *at = data;
    while (size > 0) {
        const size_t left = CHUNK_BYTES - (size_t)c->now.n, n = size < left ? size : left;
        xxh64_add(&c->now, at, n);
        c->bytes += n;
        at += n;
        size -= n;
        if (c->now.n == CHUNK_BYTES)
            close_chunk(c);
    }
}

const uint64_t *chunk_sums_end(chunk_sums *c, uint64_t *n)
{
    if (c->now.n > 0)
        close_chunk(c);
    *n = c->sums.n / sizeof(uint64_t);
    return c->sums.failed ? NULL : (const uint64_t *)(const void *)c->sums.at;
}

void chunk_sums_free(chunk_sums *c)
{
    buffer_end(&c->sums);
}
