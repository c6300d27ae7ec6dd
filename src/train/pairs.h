/* pairs.h - samples for encoder-decoders: makes a source and a target from a piece of the corpus.
 *
 *     pairs     the prompt is the source, the completion is the target
 *     spans     T5: spans are cut out of the source, where sentinels stand for them; the target is
 *               each sentinel and its span
 *                   one two [three four] five [six]      source  one two <0> five <1> </s>
 *                                                        target  <0> three four <1> six </s>
 *     infill    BART: spans of the source become one mask each; the target is the whole
 *
 * Spans are drawn as in T5: a share of all ids (0.15; BART 0.3), in spans of 3 on average, the
 * first of which is not at the start. The number of targets of a piece depends only on its length;
 * the positions of the spans depend on the key. */
#ifndef WEFT_TRAIN_PAIRS_H
#define WEFT_TRAIN_PAIRS_H

#include "tensor/batch.h"
#include "weft.h"

#define MAX_SENTINEL 100

typedef struct pairing {
    bool encodes; /* the model has an encoder; otherwise pairing is off */
    weft_objective objective;
    int32_t start, eos, mask; /* the id that starts a target; ends both sides, or -1; the mask for
                               * infill, or -1 */
    int32_t sentinel[MAX_SENTINEL];
    int n_sentinel;
} pairing;

/* Number of targets of a piece of n ids, the first `n_prompt` of which have no loss. */
int64_t pair_targets(const pairing *p, int64_t n, int64_t n_prompt);

/* Takes the ids of a pair one by one; b and src have room for n - 1 rows each. */
typedef struct pair_writer {
    const pairing *of;
    batch *b, *src;
    uint64_t key, number, n_draw;
    int64_t n_prompt, at, n; /* ids so far, and in total */
    int64_t n_noise, n_kept; /* ids left for spans, and for the gaps between them, */
    int64_t n_span, n_gap;   /* and the number of spans left */
    int64_t left;            /* ids left in the current one */
    bool noise;
    int sentinel;
} pair_writer;

void pair_begin(pair_writer *p, const pairing *of, batch *b, batch *src, int64_t n,
                int64_t n_prompt, uint64_t key, uint64_t number);
void pair_add(pair_writer *p, int32_t id);
void pair_end(pair_writer *p);

#endif
