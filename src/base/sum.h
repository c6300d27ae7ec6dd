/* sum.h - 64 bits that stand for bytes: whether a file is as it was written, whether a model is the
 * one it was. A change of any eight bytes that lie together at a multiple of eight always shows,
 * others all but always. No defence against those who mean it. */
#ifndef WEFT_BASE_SUM_H
#define WEFT_BASE_SUM_H

#include <stddef.h>
#include <stdint.h>

#define SUM_LANES 4 /* words that are summed side by side: one alone waits for its products */

typedef struct sum {
    uint64_t lane[SUM_LANES];
    uint64_t n; /* bytes so far */
    uint64_t rest[SUM_LANES];
} sum;

void sum_begin(sum *s);

/* The same in one piece or in several. */
void sum_add(sum *s, const void *bytes, size_t n);
uint64_t sum_end(const sum *s);

#endif
