/* record.h - one forward as it was seen: every tensor with its op, its inputs and its cost, and the
 * numbers of those that a page shows.
 *
 * A record is filled by apply() through record_add. It keeps the numbers of the tensors outside of
 * blocks, of the requested layers, and of all attention probabilities if asked for; of every other
 * tensor it keeps statistics. */
#ifndef WEFT_EXPLAIN_RECORD_H
#define WEFT_EXPLAIN_RECORD_H

#include "ops/ops.h"

typedef struct seen {
    char name[NAME_BYTES];
    const op *op;
    int64_t layer; /* of the record, see below; -1: outside of blocks */
    int64_t rows, cols;
    double flops;
    char input[MAX_INPUT][NAME_BYTES]; /* tensors and weights */
    int n_input;
    attn attention;        /* of the scores of an attention; n_head 0: none */
    const rope_spec *rope; /* of a rotation; NULL: it is none */
    const tensor *table;   /* of a row that was looked up; NULL: it was not */
    double eps;            /* of a norm */
    double mean, min, max;
    double *mean_square; /* [rows] */
    double *row_mean;    /* [rows] */
    float *data;         /* [n_kept, cols], or NULL: not kept */
    int64_t n_kept;      /* number of rows, the last ones */
} seen;

typedef struct record {
    mem *mem;
    weft_error *err;
    bool failed;
    bool keep_maps;      /* attention probabilities of all layers */
    bool keep_all;       /* numbers of all layers ... */
    int64_t keep_layer;  /* ... or this one, of both stacks */
    int64_t n_layer_src; /* the encoder's layers come first, those of its decoder follow; 0: the
                            model has one stack */
    int64_t n_layer;     /* of the decoder, or of the only stack */
    float *stream;       /* [n_layer, d_model] the last row after each of these, or NULL */
    int64_t d_model;
    seen *at;
    int64_t n, room;
    struct row_stats *stats; /* of the rows of one tensor */
    int64_t stats_room;
} record;

/* An observe_fn; ud is the record. */
void record_add(void *ud, const run *r, const node *n);
void record_free(record *s);

/* Adds numbers that no forward made, such as a gradient, under the tensor's name; `by` belongs to
 * them. NULL on failure, which the record remembers. */
seen *record_put(record *s, const run *r, const op *by, const tensor *x);

/* Are the numbers of this layer kept? */
bool record_keeps(const record *s, int64_t layer);

/* The last tensor of this name, or NULL. */
const seen *record_find(const record *s, const char *name);

/* The same for "blk.3." and the rest of the name; with two stacks "enc.blk.3." or "dec.blk.3.". */
const seen *record_in(const record *s, int64_t layer, const char *rest);

/* Row i of a tensor whose numbers were kept, or NULL. */
const float *seen_row(const seen *t, int64_t i);

#endif
