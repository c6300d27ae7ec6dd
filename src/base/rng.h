/* rng.h - counter-based random numbers: Philox 4x32-10 (Salmon, Moraes, Dror, Shaw, SC'11).
 *
 * A draw is a pure function of (key, counter), so dropout can be recomputed, a sample depends on
 * its seed and position only, and nothing has state to save. */
#ifndef WEFT_BASE_RNG_H
#define WEFT_BASE_RNG_H

#include <stdint.h>

typedef struct rng_block {
    uint32_t word[4];
} rng_block;

/* The 128 random bits at `counter` of the stream `key`. */
rng_block rng_draw(uint64_t key, uint64_t stream, uint64_t counter);

/* A word of a draw as a number in [0, 1), 24 bits. */
static inline float rng_unit(uint32_t word)
{
    return (float)(word >> 8) * 0x1p-24f;
}

/* Uniform in [0, 1); element i of a stream, where four share a draw. */
float rng_uniform(uint64_t key, uint64_t stream, uint64_t i);

/* Standard normal (Box-Muller on one block); element i of a stream. */
double rng_normal(uint64_t key, uint64_t stream, uint64_t i);

/* Unpredictable bits: for names and keys that others must not guess, never for results. */
uint64_t rng_entropy(void);

/* Element i < n of a permutation of 0 ... n - 1, without a table. */
uint64_t rng_permute(uint64_t key, uint64_t stream, uint64_t n, uint64_t i);

#endif
