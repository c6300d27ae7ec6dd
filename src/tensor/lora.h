/* lora.h - what an adapter changes in the products of a model: matrices of low rank that are added
 * to weights, and weights in place of others.
 *
 * Rows of a batch may have different adapters, sequence by sequence. Weights in place of others hold
 * for a batch as a whole. Everything is found by a parameter's number, tensor.slot.
 *
 * A and B of an adapter that is trained are parameters (tensor.needs_grad), and so are the
 * magnitudes m of its gains: g = m / |W + s B A| is made of them before a forward, and backward takes
 * the norm for a constant. All sequences of a batch that is recorded have the same one, or none. */
#ifndef WEFT_TENSOR_LORA_H
#define WEFT_TENSOR_LORA_H

#include "tensor/tensor.h"

#include <stdatomic.h>

/* y = g (W x + s B A x + s c) + b; in a table, x is 1 at an index: A x is a column of A. */
typedef struct lora {
    tensor *a, *b; /* [r, I], [O, r]; parts of one stored matrix may share an A */
    real scale;
    const real *gain; /* g [O], or NULL: 1 */
    tensor *m;        /* [O], if the gain is trained; or NULL */
    const real *bias; /* c [O], or NULL: 0 */
} lora;

typedef struct lora_set {
    const lora **matrix;   /* [n_param + 1] by slot: where a parameter is multiplied with ... */
    const lora **table;    /* ... and where rows are taken from it; or NULLs */
    tensor **whole;        /* [n_param + 1] parameters in place of the model's, or NULLs; ... */
    tensor **whole_table;  /* ... where rows are taken from them */
    bool replaces, scales; /* is there any of those; any gain? */
    int64_t rank;          /* the largest */
    uint64_t serial;       /* no other set of this process has it */
    uint64_t fingerprint;  /* of its numbers: equal for equal adapters, in any process */
    atomic_int n_holder;
    void (*release)(struct lora_set *); /* called when nobody holds it any more */
} lora_set;

static inline lora_set *lora_set_hold(lora_set *p)
{
    if (p)
        atomic_fetch_add(&p->n_holder, 1);
    return p;
}

static inline void lora_set_drop(lora_set *p)
{
    if (p && atomic_fetch_sub(&p->n_holder, 1) == 1)
        p->release(p);
}

/* How a sequence is adapted: strength 0 or no set: not at all. */
typedef struct adaption {
    lora_set *set;
    real strength; /* multiplies every scale */
} adaption;

static inline bool same_adaption(adaption a, adaption b)
{
    return a.set == b.set && (a.strength == b.strength || !a.set);
}

/* The adapter, if it has weights in place of the model's; or NULL. */
static inline const lora_set *adaption_whole(adaption a)
{
    return a.set && a.set->replaces && a.strength != 0 ? a.set : NULL;
}

#endif
