/* order.h - scores from best to worst, sorted lazily.
 *
 * A place of the order is one integer, so that sorting compares no floats and no two places are
 * equal:
 *
 *      63                 32 31                0
 *     +---------------------+-------------------+
 *     | score, inverted     | id                |    smaller is better, the lower id among equals
 *     +---------------------+-------------------+
 *
 * Scores of -inf have no place. The first `led` places are sorted; access beyond them scans the
 * scores again, for sixteen times as many. So the first forty of a vocabulary cost one pass. */
#ifndef WEFT_ENGINE_ORDER_H
#define WEFT_ENGINE_ORDER_H

#include <stdint.h>
#include <string.h>

typedef struct order {
    const float *z; /* [V] scores */
    int64_t n_vocab;
    int64_t n;    /* number of scores above -inf, which is the number of places */
    uint64_t *at; /* [V] */
    int64_t led;
} order;

/* at: room for n_vocab places. No score is NaN. */
void order_begin(order *o, const float *z, int64_t n_vocab, uint64_t *at);

/* Sorts the first m places, or all. */
void order_lead(order *o, int64_t m);

/* The place of a score. */
static inline uint64_t order_place(float z, int64_t id)
{
    const float plain = z + 0.0f; /* -0 is 0 */
    uint32_t bits;
    memcpy(&bits, &plain, sizeof bits);
    const uint32_t flipped = bits >> 31 ? bits : ~(bits | 0x80000000u);
    return (uint64_t)flipped << 32 | (uint32_t)id;
}

static inline int32_t order_id(const order *o, int64_t i)
{
    return (int32_t)(uint32_t)o->at[i];
}

static inline float order_score(const order *o, int64_t i)
{
    return o->z[order_id(o, i)];
}

#endif
