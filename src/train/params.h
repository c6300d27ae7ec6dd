/* params.h - all weights that a run trains in one flat block, and their gradients in another.
 *
 *     value  | token_embd | output_norm | blk.0.attn_norm | blk.0.attn_q | ...
 *     grad   | the same, in the order of binding
 *
 * The gradients of a step may be computed in G groups, a power of two, each in its own block.
 * Groups are summed by the binary tree over their indices, whichever process computes them: the
 * order of a sum is part of the recipe, not of the machine. One process merges blocks like a binary
 * counter,
 *
 *     group 0   1   2   3        waiting[0]  the sum of one group
 *            \ /     \ /         waiting[1]  of two
 *             +---+---+          waiting[2]  of four ...
 *
 * and needs log2 G + 1 of them. Of R processes each makes G / R neighbouring groups, which are a
 * subtree; reduce.h adds the rest of the tree.
 *
 * Each tensor begins at a multiple of 64 bytes; the padding is zero and stays zero. Optimiser,
 * clipping, reduction over processes and checkpoints work on ranges of the blocks, without knowing
 * the model. */
#ifndef WEFT_TRAIN_PARAMS_H
#define WEFT_TRAIN_PARAMS_H

#include "models/arch.h"

#define MAX_GROUP     1024
#define MAX_GROUP_LOG 10

typedef struct params {
    mem *mem;
    real *value;
    real *grad;          /* gradients of the current group, or of all */
    uint16_t *bf16_copy; /* bf16 copies of the values, for products; or NULL */
    int64_t n;           /* floats in a block, including padding */
    tensor **tensor;
    int64_t n_tensor;
    int64_t *at; /* offset of tensor i; at[n_tensor] = n */

    int n_group, n_made;              /* groups of a step; groups done so far */
    real *waiting[MAX_GROUP_LOG + 1]; /* sums of 1, 2, 4 ... groups, or NULL */
    real *spare[MAX_GROUP_LOG + 1];
    int n_spare;
    int64_t merged;    /* from here on, the current group is added to the earlier ones */
    double *chunk_sum; /* of the norm */

    const int64_t *own;      /* chunks that this process updates, in order; NULL: all */
    int64_t n_own, n_moment; /* their number, and the floats in them */
} params;

/* Moves n tensors, which nobody else may be using, into one block; those without data become 0. With
 * bf16, products use bf16 copies of the matrices, remade after every step. n_group is a power of two
 * up to MAX_GROUP. */
weft_status params_init(params *p, tensor **list, int64_t n, mem *from, bool bf16, int n_group,
                        weft_error *err);
void params_free(params *p);

/* For a dry run of a model without weights: sets up the tensors as params_init does, without
 * memory. Returns the floats in a block. */
int64_t params_sketch(model *m, bool bf16);

/* Freezes weights whose names match the pattern ("blk.0.*"); returns how many match. */
int64_t params_freeze(params *p, const char *pattern);

/* Call before the first backward of a step: the next gradient overwrites the old one. */
void params_begin(params *p);

/* Call after the last backward of a group: adds its gradients to those of the earlier groups. */
void params_group_end(params *p, pool *threads);

/* The same for a part, of gradients that are complete: [k0, merged), k0 a multiple of PARAM_CHUNK.
 * Returns the block that has the sums. */
real *params_merge(params *p, int64_t k0, pool *threads);

/* Gradient blocks that n_group groups need. */
int params_blocks(int n_group);

/* Call after the last backward: zeroes the gradients of unused weights. */
void params_end(params *p);

/* Remakes the bf16 copies of values [k0, k1). */
void params_round(params *p, int64_t k0, int64_t k1);

/* sqrt(sum g^2), in double: chunk by chunk, chunks in order, whichever thread sums them. With several
 * processes, each sums its own chunks, and the total is made of all. */
double params_norm(const params *p, pool *threads);
void params_norm_own(const params *p, pool *threads);
double params_norm_total(const params *p);

/* Floats per chunk of work; fixed, because sums over chunks are part of the arithmetic. */
#define PARAM_CHUNK 65536

static inline int64_t chunks_of(int64_t n)
{
    return (n + PARAM_CHUNK - 1) / PARAM_CHUNK;
}

static inline int64_t params_chunks(const params *p)
{
    return chunks_of(p->n);
}

/* The i-th chunk that this process updates. */
static inline int64_t own_chunk(const params *p, int64_t i)
{
    return p->own ? p->own[i] : i;
}

static inline int64_t chunk_end(const params *p, int64_t chunk)
{
    return (chunk + 1) * PARAM_CHUNK < p->n ? (chunk + 1) * PARAM_CHUNK : p->n;
}

#endif
