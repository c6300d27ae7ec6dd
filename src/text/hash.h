/* hash.h - how strings and pairs of ids are spread over tables. Not keyed: what a file or a text
 * can do with chosen collisions is to be slow. */
#ifndef WEFT_TEXT_HASH_H
#define WEFT_TEXT_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define NO_ID UINT32_MAX

/* Products are meant to wrap here, and only here; the fuzzers' builds stop on all others. */
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

/* The bytes of s as two numbers, the last of them n; for n of at most 15. */
static inline void hash_key(const char *s, size_t n, uint64_t key[2])
{
    char b[16] = { 0 };
    memcpy(b, s, n);
    b[15] = (char)n;
    memcpy(key, b, sizeof b);
}

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

/* The smallest power of two that leaves a table of n entries at most half full. */
static inline uint64_t hash_size(uint64_t n)
{
    uint64_t size = 16;
    while (size / 2 < n)
        size *= 2;
    return size;
}

#endif
