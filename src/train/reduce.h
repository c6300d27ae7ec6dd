/* reduce.h - one gradient from those of all ranks, and the same values on all of them (ZeRO, stage 1:
 * Rajbhandari et al., 2020).
 *
 * The flat block is cut into buckets, and each bucket into a slice for each rank, which sums its
 * slices, has their optimiser state, and updates them:
 *
 *     bucket       0                    1               ...
 *     slice    | 0 | 1 | 2 | 3 |   | 0 | 1 | 2 | 3 |
 *
 *     every rank sends slice s of its gradient to rank s          (R - 1) / R of the block
 *     rank s adds the R slices by the binary tree over ranks      and steps AdamW
 *     rank s sends the new values of slice s to all others        (R - 1) / R of the block
 *
 * A rank's groups are a subtree of the step's (params.h), and the tree over ranks is the rest of it:
 * R ranks give the bits of one. Slices are cut between chunks, so that the norm has one order, too.
 *
 * Backward completes gradients from the end of the block to its begin. A bucket leaves as soon as
 * all of it is complete, in this order on every rank, while backward continues. */
#ifndef WEFT_TRAIN_REDUCE_H
#define WEFT_TRAIN_REDUCE_H

#include "dist/ranks.h"
#include "tensor/tape.h"
#include "train/params.h"

#define N_FLIGHT      2   /* buckets that travel at once */
#define BUCKET_CHUNKS 128 /* 32 MiB */

typedef struct reduce_options {
    ranks *ranks; /* NULL, or without a comm: this process is alone */
    bool fast;    /* sum in the order of the comm: other bits for another number of ranks */
    int64_t bucket_chunks; /* 0: BUCKET_CHUNKS */
} reduce_options;

typedef struct flight {
    int64_t bucket; /* -1: none */
    real *block;    /* that it is a part of */
    real *from;     /* [rank][slice]: this rank's slice, as the others have it */
    int *in, *out;  /* [rank] tickets; -1: over, or none */
} flight;

typedef struct reduce {
    reduce_options opt;
    params *p;
    pool *threads;
    int64_t n_bucket;
    int64_t *own;    /* chunks */
    int *n_tensor;   /* [bucket] that get a gradient in it */
    int *missing;    /* [bucket] that are not complete yet */
    int64_t started; /* buckets from here on have left */
    bool armed;      /* backward completes gradients */
    bool all;        /* all gradients are complete */
    flight flight[N_FLIGHT];
    double *sums;       /* [rank][chunks of a rank] for the norm */
    weft_status status; /* of what happened between ops, which cannot report it */
    weft_error err;
    double hidden, exposed; /* seconds with buckets under way during backward, and after it */
    double since;           /* the first of those under way left, ... */
    int n_flying;           /* ... and how many there are */
} reduce;

/* Gives each rank its chunks: p->own. Alone it does nothing, as do all the others. */
weft_status reduce_init(reduce *r, const reduce_options *o, params *p, pool *threads,
                        weft_error *err);
void reduce_free(reduce *r);

/* Bytes that reduce_init allocates for n floats. */
uint64_t reduce_bytes(const reduce_options *o, int64_t n);

/* Floats of optimiser state that this rank keeps of n. */
int64_t reduce_own(const reduce_options *o, int64_t n);

/* For a forecast: the buckets of n floats; what this rank sends of one in a step, in bytes, and the
 * floats of it that it owns; and the bytes that it sends to each other rank for the norm. */
typedef struct bucket_traffic {
    uint64_t gradients, values;
    int64_t own;
} bucket_traffic;

int64_t reduce_buckets(const reduce_options *o, int64_t n);
bucket_traffic reduce_traffic(const reduce_options *o, int64_t n, int64_t bucket);
uint64_t reduce_shared(const reduce_options *o, int64_t n);

/* Call before the last backward of the step. */
void reduce_arm(reduce *r);

/* For the tape: the gradient of t is complete. For the run: called between ops. */
void reduce_ready(void *reduce_of, tensor *t);
void reduce_poll(void *reduce_of);

/* After the last group: the rest of the gradient, and the chunks' sums for the norm. */
weft_status reduce_finish(reduce *r, weft_error *err);

/* After the update: the values of all slices. */
weft_status reduce_values(reduce *r, weft_error *err);

/* Moments of all slices for rank 0: `own` has those of this rank; `to` is a block of p->n floats on
 * rank 0. */
weft_status reduce_collect(reduce *r, const real *own, real *to, weft_error *err);

/* The part of a block that this rank has the moments of. */
void reduce_pick(const reduce *r, const real *block, real *own);

#endif
