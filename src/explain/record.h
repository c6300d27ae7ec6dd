/* record.h - one forward as it was seen: every tensor with its op, its inputs and its cost, and the
 * numbers of those that a page shows.
 *
 * A record is filled by apply() through record_add. It keeps the numbers of the tensors outside of
 * blocks, of all attention probabilities, and of the requested layers; of every other
 * tensor it keeps statistics. */
#ifndef WEFT_EXPLAIN_RECORD_H
#define WEFT_EXPLAIN_RECORD_H

#include "ops/ops.h"

typedef struct seen {
    char name[NAME_BYTES];
    const op *op;
    int64_t layer; /* -1: outside of blocks */
    int64_t rows, cols;
    double flops;
    char input[MAX_INPUT][NAME_BYTES]; /* tensors and weights */
    int n_input;
    attn attention;        /* of the scores of an attention; n_head 0: none */
    const rope_spec *rope; /* of a rotation; NULL: it is none */
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
    bool keep_all;      /* layers ... */
    int64_t keep_layer; /* ... or this one */
    float *stream;      /* [n_layer, cols] the last row after each layer, or NULL */
    int64_t n_layer;
    seen *at;
    int64_t n, room;
    struct row_stats *stats; /* of the rows of one tensor */
    int64_t stats_room;
} record;

/* An observe_fn; ud is the record. */
void record_add(void *ud, const run *r, const node *n);
void record_free(record *s);

/* The last tensor of this name, or NULL. */
const seen *record_find(const record *s, const char *name);

/* The same for "blk.3." and the rest of the name. */
const seen *record_in(const record *s, int64_t layer, const char *rest);

/* Row i of a tensor whose numbers were kept, or NULL. */
const float *seen_row(const seen *t, int64_t i);

#endif
