/* rng.c - Philox, distributions drawn from it, and rng_entropy, the only function without a key. */
#include "base/rng.h"

#include <math.h>
#include <stdatomic.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

rng_block rng_draw(uint64_t key, uint64_t stream, uint64_t counter)
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t c0 = (uint32_t)counter, c1 = (uint32_t)(counter >> 32);
    uint32_t c2 = (uint32_t)stream, c3 = (uint32_t)(stream >> 32);

    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return (rng_block){ { c0, c1, c2, c3 } };
}

float rng_uniform(uint64_t key, uint64_t stream, uint64_t i)
{
    const rng_block b = rng_draw(key, stream, i >> 2);
    return rng_unit(b.word[i & 3]);
}

double rng_normal(uint64_t key, uint64_t stream, uint64_t i)
{
    const rng_block b = rng_draw(key, stream, i);
    const double u = ((double)b.word[0] + 1) * 0x1p-32; /* (0, 1]: log is finite */
    const double v = (double)b.word[1] * 0x1p-32;
    return sqrt(-2 * log(u)) * cos(2 * 3.14159265358979323846 * v);
}

#define ROUNDS 8

/* A Feistel network: two halves of `bits` each; every round changes one by a function of the other.
 * Each round is invertible, so the whole is a permutation. */
static uint64_t feistel(uint64_t key, uint64_t stream, unsigned bits, uint64_t i)
{
    const uint64_t mask = ((uint64_t)1 << bits) - 1;
    uint64_t left = i >> bits, right = i & mask;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        const rng_block b = rng_draw(key, stream, round << 32 | right);
        const uint64_t next = left ^ (b.word[0] & mask);
        left = right;
        right = next;
    }
    return left << bits | right;
}

/* The network permutes 0 ... 4^bits - 1, at most 4 n of them; a result outside of 0 ... n - 1 goes
 * through again until it is inside. */
uint64_t rng_permute(uint64_t key, uint64_t stream, uint64_t n, uint64_t i)
{
    unsigned bits = 1;
    while (bits < 32 && (n - 1) >> (2 * bits) != 0)
        bits++;
    do
        i = feistel(key, stream, bits, i);
    while (i >= n);
    return i;
}

/* Without the system's generator (an old kernel, a sandbox): time, process and address, mixed. */
uint64_t rng_entropy(void)
{
    static _Atomic uint64_t calls;
    uint64_t bits;
    struct timespec t;
    if (getrandom(&bits, sizeof bits, GRND_NONBLOCK) == (ssize_t)sizeof bits)
        return bits;
    clock_gettime(CLOCK_REALTIME, &t);
    const uint64_t key = (uint64_t)t.tv_nsec << 32 ^ (uint64_t)t.tv_sec;
    const rng_block b = rng_draw(key, (uint64_t)getpid() ^ (uint64_t)(uintptr_t)&bits, calls++);
    return (uint64_t)b.word[0] << 32 | b.word[1];
}
