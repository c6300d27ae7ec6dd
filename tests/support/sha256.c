#include "sha256.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static uint32_t rotate_right(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

/* The first 32 bits of the fractional parts of roots of primes: the standard's constants, computed
 * rather than copied. */
static uint32_t root_bits(int prime, int degree)
{
    double lo = 1, hi = prime;
    long double x = 1;
    for (int i = 0; i < 200; i++) {
        x = ((long double)lo + (long double)hi) / 2;
        const long double power = degree == 2 ? x * x : x * x * x;
        if (power > prime)
            hi = (double)x;
        else
            lo = (double)x;
    }
    x = (long double)lo; /* one Newton step for the bits that double lacks */
    const long double power = degree == 2 ? x * x : x * x * x;
    x -= (power - prime) / (degree == 2 ? 2 * x : 3 * x * x);
    const long double fraction = x - (long double)(uint64_t)x;
    return (uint32_t)(fraction * 4294967296.0L);
}

static int next_prime(int n)
{
    for (n++;; n++) {
        int divides = 0;
        for (int d = 2; d * d <= n; d++)
            divides |= n % d == 0;
        if (!divides)
            return n;
    }
}

static void block(uint32_t h[8], const uint32_t k[64], const uint8_t *p)
{
    uint32_t w[64], s[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 |
               (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
    for (int i = 16; i < 64; i++)
        w[i] = w[i - 16] + w[i - 7] +
               (rotate_right(w[i - 15], 7) ^ rotate_right(w[i - 15], 18) ^ w[i - 15] >> 3) +
               (rotate_right(w[i - 2], 17) ^ rotate_right(w[i - 2], 19) ^ w[i - 2] >> 10);
    memcpy(s, h, sizeof s);
    for (int i = 0; i < 64; i++) {
        const uint32_t a = s[7] +
                           (rotate_right(s[4], 6) ^ rotate_right(s[4], 11) ^
                            rotate_right(s[4], 25)) +
                           ((s[4] & s[5]) ^ (~s[4] & s[6])) + k[i] + w[i];
        const uint32_t b = (rotate_right(s[0], 2) ^ rotate_right(s[0], 13) ^
                            rotate_right(s[0], 22)) +
                           ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += a;
        s[0] = a + b;
    }
    for (int i = 0; i < 8; i++)
        h[i] += s[i];
}

void sha256_hex(const void *data, size_t n, char hex[65])
{
    uint32_t h[8], k[64];
    for (int i = 0, prime = 2; i < 64; i++, prime = next_prime(prime)) {
        k[i] = root_bits(prime, 3);
        if (i < 8)
            h[i] = root_bits(prime, 2);
    }
    const uint8_t *p = data;
    size_t left = n;
    for (; left >= 64; left -= 64, p += 64)
        block(h, k, p);
    uint8_t tail[128] = { 0 };
    memcpy(tail, p, left);
    tail[left] = 0x80;
    const size_t end = left < 56 ? 64 : 128;
    for (int i = 0; i < 8; i++)
        tail[end - 1 - (size_t)i] = (uint8_t)((uint64_t)n * 8 >> (8 * i));
    block(h, k, tail);
    if (end == 128)
        block(h, k, tail + 64);
    for (int i = 0; i < 8; i++)
        snprintf(hex + 8 * i, 9, "%08x", h[i]);
}
