/* params.h - all weights of a model in one flat block, and their gradients in another.
 *
 *     value  | token_embd | output_norm | blk.0.attn_norm | blk.0.attn_q | ...
 *     grad   | the same, in the order of binding
 *
 * The gradients of a step may be made in G groups, a power of two, each in a block of its own. Groups
 * are summed by the binary tree over their numbers, whoever computes them: the order of a sum is part
 * of the recipe, not of the machine. One process merges blocks like a binary counter,
 *
 *     group 0   1   2   3        waiting[0]  the sum of one group
 *            \ /     \ /         waiting[1]  of two
 *             +---+---+          waiting[2]  of four ...
 *
 * and needs log2 G + 1 of them.
 *
 * Each tensor begins at a multiple of 64 bytes; the space between is zero and stays zero. What
 * optimises, clips, reduces over processes or saves works on ranges of the blocks and needs to know
 * no model. */
#ifndef WEFT_TRAIN_PARAMS_H
#define WEFT_TRAIN_PARAMS_H

#include "models/arch.h"

#define MAX_GROUP     1024
#define MAX_GROUP_LOG 10

typedef struct params {
    mem *mem;
    real *value;
    real *grad;    /* of the group that is being made, or of all */
    uint16_t *low; /* the values as bf16, for products; or NULL */
    int64_t n;     /* numbers in a block, the space between included */
    tensor **tensor;
    int64_t n_tensor;
    int64_t *at; /* where tensor i begins; at[n_tensor] = n */

    int n_group, n_made;              /* of a step; and so far */
    real *waiting[MAX_GROUP_LOG + 1]; /* sums of 1, 2, 4 ... groups, or NULL */
    real *spare[MAX_GROUP_LOG + 1];
    int n_spare;
    double *chunk_sum; /* of the norm */
} params;

/* Moves the weights of m, which nobody else may be using, into a block of real numbers. With bf16,
 * products use copies of the matrices in that format, made anew after every step. n_group is a power
 * of two up to MAX_GROUP. */
weft_status params_init(params *p, model *m, bool bf16, int n_group, weft_error *err);
void params_free(params *p);

/* For a dry run of a model that has no weights: they are as params_init makes them, but nowhere.
 * Returns the numbers in a block. */
int64_t params_sketch(model *m, bool bf16);

/* Weights whose names fit the pattern ("blk.0.*") stay as they are; returns how many these are. */
int64_t params_freeze(params *p, const char *pattern);

/* Before the first backward of a step: gradients are forgotten, the next writer stores. */
void params_begin(params *p);

/* After the last backward of a group: its gradients join those of the groups before it. */
void params_group_end(params *p, pool *threads);

/* Blocks of gradients that n_group takes. */
int params_blocks(int n_group);

/* After the last backward: the gradients of weights that were not used are zero. */
void params_end(params *p);

/* Makes the copies of values [k0, k1) anew. */
void params_round(params *p, int64_t k0, int64_t k1);

/* sqrt(sum g^2), in double: chunk by chunk, chunks in order, whoever sums them. */
double params_norm(const params *p, pool *threads);

/* Numbers a thread takes at a time; fixed, because sums over chunks are part of the arithmetic. */
#define PARAM_CHUNK 65536

#endif
