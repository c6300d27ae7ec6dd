/* pairs.h - samples of encoder-decoders: a piece of the corpus becomes a source and a target.
 *
 *     pairs     what is only read is the source, what is learned is the target
 *     spans     T5: spans are cut out of the source, where sentinels stand for them; the target is
 *               each sentinel and its span
 *                   one two [three four] five [six]      source  one two <0> five <1> </s>
 *                                                        target  <0> three four <1> six </s>
 *     infill    BART: spans of the source become one mask each; the target is the whole
 *
 * Spans are drawn as T5 draws them: a share of all ids (0.15, and 0.3 of BART), in spans of 3 on
 * average, the first of which is not at the beginning. How many targets a piece has depends on its
 * length alone; where the spans are, on the key. */
#ifndef WEFT_TRAIN_PAIRS_H
#define WEFT_TRAIN_PAIRS_H

#include "tensor/batch.h"
#include "weft.h"

#define MAX_SENTINEL 100

typedef struct pairing {
    bool encodes; /* there is an encoder: otherwise nothing is paired */
    weft_objective objective;
    int32_t start, eos, mask; /* the id before a target; behind both, or -1; of infill, or -1 */
    int32_t sentinel[MAX_SENTINEL];
    int n_sentinel;
} pairing;

/* Targets of a piece of n ids, the first `quiet` of which are only read. */
int64_t pair_targets(const pairing *p, int64_t n, int64_t quiet);

/* A pair that is begun takes one id after the other; b and src have room for n - 1 rows each. */
typedef struct pair_writer {
    const pairing *of;
    batch *b, *src;
    uint64_t key, number, n_draw;
    int64_t quiet, at, n;    /* ids so far, and in all */
    int64_t n_noise, n_kept; /* ids that are still to be given to spans, and between them, */
    int64_t n_span, n_gap;   /* and how many of those */
    int64_t left;            /* ids of the present one */
    bool noise;
    int sentinel;
} pair_writer;

void pair_begin(pair_writer *p, const pairing *of, batch *b, batch *src, int64_t n, int64_t quiet,
                uint64_t key, uint64_t number);
void pair_add(pair_writer *p, int32_t id);
void pair_end(pair_writer *p);

#endif
