/* hash.h - hash functions for strings and pairs of ids.
 *
 * Tables filled from a file or a text are keyed with a per-process secret, so that their author
 * cannot choose entries that collide. The secret affects speed only, never results. */
#ifndef WEFT_TEXT_HASH_H
#define WEFT_TEXT_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define NO_ID UINT32_MAX

/* Products may wrap here, and only here; the fuzzers' builds trap all others. */
#if defined(__clang__)
#define WRAPS __attribute__((no_sanitize("integer")))
#else
#define WRAPS
#endif

#define HASH_A 0x9E3779B97F4A7C15u
#define HASH_B 0xD6E8FEB86659FD93u

WRAPS static inline uint64_t hash_mix(uint64_t a, uint64_t b)
{
    const uint64_t h = (a ^ HASH_A) * HASH_B + (b ^ (a >> 31)) * HASH_A;
    return h ^ (h >> 32);
}

/* The bytes of s and their number as two numbers, for n of at most 15: distinct for distinct
 * strings. Built in registers: bytes just copied to memory could not be reloaded at once. */
static inline void hash_key(const char *s, size_t n, uint64_t key[2])
{
    uint64_t a = 0, b = 0;
    if (n >= 8) {
        memcpy(&a, s, 8);
        memcpy(&b, s + n - 8, 8);
        b = n > 8 ? b >> (8 * (16 - n)) : 0;
    } else if (n >= 4) {
        uint32_t lo, hi;
        memcpy(&lo, s, 4);
        memcpy(&hi, s + n - 4, 4);
        a = (uint64_t)hi << 32 | lo;
    } else if (n > 0) {
        a = (uint64_t)(uint8_t)s[0] | (uint64_t)(uint8_t)s[n / 2] << 8 |
            (uint64_t)(uint8_t)s[n - 1] << 16;
    }
    key[0] = a;
    key[1] = b | (uint64_t)n << 56;
}

/* The same value in every process, for hashes that are stored. */
WRAPS static inline uint64_t hash_bytes(const char *s, size_t n)
{
    uint64_t h = n * HASH_A, x;
    for (; n >= 8; s += 8, n -= 8) {
        memcpy(&x, s, 8);
        h = hash_mix(h, x);
    }
    x = 0;
    memcpy(&x, s, n);
    return hash_mix(h, x);
}

/* ---- keyed ----------------------------------------------------------------------------------- */

typedef struct hash_secret {
    uint64_t a, b;
} hash_secret;

/* Random, the same for the whole process. Each table keeps a copy. */
hash_secret hash_secret_draw(void);

__extension__ typedef unsigned __int128 hash_wide;

/* Folds both halves of a product: every bit of a and b reaches the low bits. */
static inline uint64_t hash_fold(uint64_t a, uint64_t b)
{
    const hash_wide p = (hash_wide)a * b;
    return (uint64_t)p ^ (uint64_t)(p >> 64);
}

static inline uint64_t hash_number(const hash_secret *k, uint64_t x)
{
    return hash_fold(x ^ k->a, k->b);
}

static inline uint64_t hash_text(const hash_secret *k, const char *s, size_t n)
{
    uint64_t h = k->a, x[2];
    for (; n > 15; s += 16, n -= 16) {
        memcpy(x, s, 16);
        h = hash_fold(x[0] ^ h, x[1] ^ k->b);
    }
    hash_key(s, n, x);
    return hash_fold(x[0] ^ h, x[1] ^ k->b);
}

/* ---------------------------------------------------------------------------------------------- */

/* The smallest power of two that leaves a table of n entries at most half full. */
static inline uint64_t hash_size(uint64_t n)
{
    uint64_t size = 16;
    while (size / 2 < n)
        size *= 2;
    return size;
}

#endif
