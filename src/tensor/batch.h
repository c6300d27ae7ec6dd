/* batch.h - which rows a forward computes.
 *
 * There is no batch dimension. A row is one token (or image patch) of one sequence; rows of one
 * sequence are neighbours in ascending, gapless positions. Training is B sequences of T rows;
 * serving is any mix of prompt chunks and single tokens. Only embed, rope, attention and pooling
 * read it. */
#ifndef WEFT_TENSOR_BATCH_H
#define WEFT_TENSOR_BATCH_H

#include "base/mem.h"
#include "tensor/cache.h"
#include "tensor/lora.h"

#define NO_TARGET (-100)

typedef struct batch_row {
    int32_t id;     /* token, if the model takes tokens */
    int32_t seq;    /* index into batch.seq */
    int32_t pos;    /* position in its sequence */
    int32_t type;   /* token type (BERT's segments) */
    int32_t target; /* target of the loss, or NO_TARGET */
    real weight;    /* weight of this row's loss */
    bool wanted;    /* its logits are requested */
} batch_row;

typedef struct sequence {
    int32_t first, n; /* its rows in this batch; n may be 0 for a source encoded earlier */
    int32_t source;   /* the sequence of the batch's src that cross-attention reads, or -1 */
    cache *cache;     /* NULL: the whole sequence is in this batch */
    adaption adapted;
} sequence;

/* Sequences in pairs, of which the first is preferred to the second (DPO): the loss of a pair is
 *
 *     -log sigma(m)      m = beta ((log p_0 - ref_0) - (log p_1 - ref_1))
 *
 * where log p is the sum over a sequence's targets. */
typedef struct preference {
    real beta;
    int32_t *document; /* [n_seq] a number of each, for whoever filled the batch */
    double *reference; /* [n_seq] log p of the model that the trained one is compared with */
    double *logp;      /* [n_seq] the loss writes log p, */
    double *slope;     /* [n_seq] and what its derivative multiplies that of a row's loss by */
} preference;

typedef struct batch {
    int32_t n_row, n_seq, n_wanted;
    batch_row *row;
    sequence *seq;
    const real *features;    /* [n_row, d] if the model takes vectors instead of tokens, or NULL */
    const struct batch *src; /* batch with the sources of its sequences, or NULL */
    preference *prefer;      /* its sequences are pairs; or NULL */
    int64_t rank;            /* the largest of adapters that its sequences may have; 0: none has */
    const lora_set *whole;   /* its parameters are in place of the model's; or NULL */
} batch;

/* Makes an empty batch with this capacity. */
weft_status batch_init(batch *b, int64_t n_row, int64_t n_seq, mem *m, weft_error *err);
void batch_free(batch *b, mem *m);

#endif
