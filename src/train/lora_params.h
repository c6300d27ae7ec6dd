/* lora_params.h - the adapter that a run trains: A and B of chosen weights of an open model, as
 * parameters, and of DoRA the magnitudes m.
 *
 *     y = W x + s B (A x)        A [r, I] uniform in +-1/sqrt(I), as PEFT does it; B [O, r] zero
 *
 * so before the first step the model computes what it does without the adapter. For a table, A [r, V]
 * is zero and B [D, r] normal. Weights that are rows of one stored matrix, such as the q, k and v of
 * GPT-2, share an A, because files have one for all of them.
 *
 *     y = m / |W + s B A| (W x + s B (A x))        m [O] = |W|
 *
 * The gain is a number of its own, made of m, A and B before the first step and after each
 * (lora_params_renew). It begins at exactly 1.
 *
 * The set is what sessions compute with, so a session that adapts to it sees the training. */
#ifndef WEFT_TRAIN_LORA_PARAMS_H
#define WEFT_TRAIN_LORA_PARAMS_H

#include "adapt/ready.h"
#include "train/lora_spec.h"

typedef struct lora_params {
    ready_adapter *ready;
    lora_spec spec;
    mem *mem;
    tensor *tensor; /* every A, B and m once */
    tensor **list;
    lora *item; /* [ready->from.n_part] */
    int64_t n_tensor;
    real *gain; /* of all items, one after the other; or NULL */
    bool drawn; /* numbers come from a directory */
} lora_params;

/* directory: a PEFT directory to continue from; NULL: what the spec asks for, which is parsed
 * already. `ready` is empty and stays the caller's. The model must outlive both. Free it in any
 * case. */
weft_status lora_params_make(lora_params *p, ready_adapter *ready, const model *m,
                             const char *directory, weft_error *err);

/* Call it once the tensors have their memory (params.h): draws A and measures W, if they are new. */
void lora_params_settle(lora_params *p, const model *m, uint64_t seed, pool *threads);

/* Call it when they have changed: makes the gains, if there are any. */
void lora_params_renew(lora_params *p, const model *m, pool *threads);
void lora_params_free(lora_params *p);

#endif
