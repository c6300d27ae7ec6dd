/* tape.h - the nodes that apply() records, and how backward unwinds them.
 *
 * The tape is a list of nodes, newest first, in the arena of headers. Unwinding calls each op's
 * backward. The first writer of a tensor's gradient stores, later ones add (tensor.grad_written),
 * so nothing needs clearing.
 *
 * A block of a model is one node on the tape, with its own list:
 *
 *     embed <- block 0 <- block 1 <- ... <- block L-1 <- take_rows <- norm <- head
 *                 |
 *                 +- rmsnorm <- linear <- linear <- ... <- residual
 *
 * so the gradients inside a block are allocated when it is unwound and freed at its end. With
 * recomputation the inner list does not exist either: the forward keeps only the block's input, and
 * unwinding calls the block again to rebuild the list. Both ways give the same bits.
 *
 * After an op's backward the gradient of its output is complete, and so are those of inputs that it
 * alone reads: `observer` may look at them.
 *
 * The tape counts how often each parameter is used. When the last use is unwound, its gradient is
 * complete, and `ready` is called: a reduction over processes can start there while backward
 * continues. A shared weight needs no special case.
 *
 * A decoder block also reads the encoder's output (run.at.encoder_out). It is an input of the
 * block's node, and all these blocks add to its gradient. Nodes remember their batch, because
 * encoder and decoder work on different rows. */
#ifndef WEFT_TENSOR_TAPE_H
#define WEFT_TENSOR_TAPE_H

#include "tensor/run.h"

struct tape {
    node *last;
    bool recompute; /* recompute blocks in backward instead of keeping them */
    void (*ready)(void *ud, tensor *param);
    void *ud;
    void (*observer)(void *ud, run *r,
                     const node *n); /* called after the backward of every op; or NULL */
    void *observer_ud;
    int64_t block; /* the block being unwound: its outside inputs are x and the encoder's output */
};

/* From here on, forwards of r are recorded on t. */
void tape_begin(run *r, tape *t);

/* For apply(): counts the parameters n uses, and records n if its output needs a gradient. */
void tape_count(const node *n);
void tape_record(run *r, node *n);

/* run_block() with a tape. */
tensor *tape_block(run *r, block_fn *fn, const void *model, int layer, tensor *x);

/* Unwinds everything from y back, starting with dy as the gradient of y (rows(y) x cols(y) numbers;
 * NULL in a dry run). Afterwards the tape is empty and r no longer records. */
void tape_backward(run *r, tensor *y, const real *dy);

/* For an op with nothing to add: zeroes the gradient unless it has been written. */
void grad_clear(tensor *t);

/* dst = v, or dst += v. */
static inline void grad_put(real *dst, bool add, real v)
{
    *dst = add ? *dst + v : v;
}

#endif
