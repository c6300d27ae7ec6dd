/* tape.h - what apply() records, and how it is unwound.
 *
 * The tape is a list of nodes, newest first, in the arena of headers. Unwinding calls each op's
 * backward. The first that writes a tensor's gradient stores, later ones add (tensor.grad_written):
 * nothing is cleared first.
 *
 * A block of a model is one node on the tape, with a list of its own:
 *
 *     embed <- block 0 <- block 1 <- ... <- block L-1 <- take_rows <- norm <- head
 *                 |
 *                 +- rmsnorm <- linear <- linear <- ... <- residual
 *
 * so that the gradients inside a block take their memory when it is unwound and give it back at its
 * end. With recomputation the inner list does not exist either: the forward keeps only what entered
 * the block, and unwinding calls the block once more to make it. Both ways give the same bits.
 *
 * The tape counts how often each parameter is used. When the last use is unwound its gradient is
 * complete, and `ready` is told: there a reduction over processes can start while backward goes on.
 * A shared weight needs no special case.
 *
 * A block of a decoder also reads the encoder's output (run.at.encoder_out): it is an input of the
 * block's node, whose gradient all these blocks add to. Nodes keep the batch they worked on, because
 * the two parts of such a model work on different rows. */
#ifndef WEFT_TENSOR_TAPE_H
#define WEFT_TENSOR_TAPE_H

#include "tensor/run.h"

struct tape {
    node *last;
    bool recompute; /* blocks are called again in backward instead of kept */
    void (*ready)(void *ud, tensor *param);
    void *ud;
    int64_t block; /* being unwound: from outside it reads its x and the encoder's output */
};

/* From here on, forwards of r are recorded on t. */
void tape_begin(run *r, tape *t);

/* Called by apply(): counts the parameters n uses, and books n if its output needs a gradient. */
void tape_count(const node *n);
void tape_record(run *r, node *n);

/* run_block() when there is a tape. */
tensor *tape_block(run *r, block_fn *fn, const void *model, int layer, tensor *x);

/* Unwinds everything from y back, starting with dy as the gradient of y (rows(y) x cols(y) numbers;
 * NULL in a dry run). Afterwards the tape is empty and r no longer records. */
void tape_backward(run *r, tensor *y, const real *dy);

/* For an op that had nothing to add: the gradient is zero unless somebody has written it. */
void grad_clear(tensor *t);

/* dst = v, or dst += v. */
static inline void grad_put(real *dst, bool add, real v)
{
    *dst = add ? *dst + v : v;
}

#endif
