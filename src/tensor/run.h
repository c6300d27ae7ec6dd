/* run.h - where a forward happens, and the one place where an op executes.
 *
 * A model is a straight-line function that calls ops. Each op describes itself as a node and hands
 * it to apply(), which names the output, and then runs, records or merely counts it:
 *
 *     model -> op -> apply -+- name it            "blk.3.attn_q.rope"
 *                           +- dry run?           stop here: the arenas have counted, and so
 *                                                 may whoever asks what an op costs
 *                           +- forward            under the no-allocation guard, timed
 *                           +- record             if a tape is there
 *                           +- hunt for NaN       if asked
 *                           +- trace              if anyone listens
 *
 * Two arenas: headers are always real, data has no memory behind it in a dry run. So the same
 * function, called on a batch that does not exist, predicts to the byte what a step takes. */
#ifndef WEFT_TENSOR_RUN_H
#define WEFT_TENSOR_RUN_H

#include "base/arena.h"
#include "base/comm.h"
#include "base/pool.h"
#include "base/side_stack.h"
#include "tensor/batch.h"

#define MAX_INPUT 8

typedef struct run run;
typedef struct node node;

typedef struct cost {
    double flops, bytes;
    const dtype *type; /* of weights that are no inputs of the node, or NULL; ... */
    double read;       /* ... and the bytes of them that are read */
} cost;

typedef struct op {
    const char *name;
    const char *formula; /* in one line, as a trace shows it */
    void (*forward)(run *r, const node *n);

    /* Stores into, or adds to, the gradients of those inputs that need one, from the gradient of
     * the output. NULL for what only a trace asks for. */
    void (*backward)(run *r, const node *n);
    cost (*cost)(const run *r, const node *n);
} op;

struct node {
    const op *op;
    const char
        *label; /* the weight that names its output: "blk.3.attn_q" or "blk.3.attn_norm.weight" */
    const char
        *local; /* without one, a name inside the scope: "attention"; without both, input.op */
    tensor *in[MAX_INPUT], *out;
    tensor *const *more; /* weights beside those of in, as a layer has of experts: n_more of them */
    int64_t n_more;
    real f[2];
    int64_t i[3];
    const void *arg;    /* the op's own parameters; lives until the node is unwound */
    tensor *save[2];    /* what backward needs beside inputs and output; made only when recording */
    const batch *batch; /* on the tape: the rows it works on */
    node *before;
};

/* All inputs of a node, some of which are NULL. */
static inline int64_t n_input(const node *n)
{
    return MAX_INPUT + n->n_more;
}

static inline tensor *node_input(const node *n, int64_t i)
{
    return i < MAX_INPUT ? n->in[i] : n->more[i - MAX_INPUT];
}

/* Both directions of an op have an entry each. Backward's cost is counted as twice forward's. */
typedef struct op_profile {
    const op *op;
    bool backward;
    int64_t calls;
    double seconds, flops, bytes;
} op_profile;

#define MAX_PROFILE 48

typedef struct profile {
    int n;
    op_profile entry[MAX_PROFILE];
} profile;

typedef struct tape tape;

typedef void trace_fn(void *ud, const tensor *t, const op *by);

/* Logits of the wanted rows from `first` on, as they are made. */
typedef void logits_fn(void *ud, const tensor *z, int64_t first);

/* Where a forward has come to. run_begin sets it anew. */
typedef struct run_place {
    const batch *batch;         /* the rows ops work on now */
    const batch *src;           /* encoder rows, for cross-attention */
    tensor *encoder_out;        /* what blocks read beside their x, or NULL */
    const char *name_prefix;    /* "", or "enc." and "dec." of a model of two */
    char scope[32];             /* "blk.3" */
    int64_t block;              /* how many blocks have begun: tensors carry it as `born` */
    int64_t n_drop;             /* dropouts so far in this block: part of their key */
    char first_nan[NAME_BYTES]; /* with hunt_nan: the first tensor that is not finite */
} run_place;

/* A left side of a product that lies packed in the scratch memory; id 0: none does. */
typedef enum packed_form { PACKED_REAL, PACKED_BF16, PACKED_I8 } packed_form;

typedef struct packed_rows {
    int64_t id; /* of the tensor */
    packed_form form;
} packed_rows;

struct run {
    /* Memory, of all forwards: */
    arena meta, data;
    void *work; /* what an op uses while it runs, so large ... */
    size_t work_bytes;
    size_t scratch_peak; /* ... as the hungriest op said so far */
    packed_rows packed;  /* ... and what is still there */
    void *side;          /* the calling thread's while an op executes: SIDE_BYTES */
    int64_t n_tensor;    /* made so far: the last id */

    /* Set by whoever owns the run, and only read by a forward: */
    const kernels *kern;
    pool *pool;           /* NULL: the calling thread alone */
    comm *comm;           /* NULL: this process alone */
    int64_t fork_cost;    /* work below this stays on the calling thread */
    bool training;        /* the model's end is a loss, and residual branches drop out */
    real dropout;         /* rate, in training */
    real smoothing;       /* of the loss's targets */
    uint64_t key;         /* of this step's random numbers */
    int64_t loss_numbers; /* logits that exist at once, of the loss or of `read`; 0: 2^22 */
    int64_t *load;   /* rows that experts got, [layer, expert]: forwards of training add to it; or
                      NULL */
    logits_fn *read; /* takes the logits a part at a time; NULL: they are all made at once */
    void *read_ud;
    trace_fn *trace;
    void *trace_ud;
    void (*tally)(void *ud, const run *r, const node *n); /* in a dry run: every op, or NULL */
    void *tally_ud;
    bool trace_maps;  /* attention also shows scores and probabilities */
    bool hunt_nan;    /* remember the first tensor that is not finite */
    profile *profile; /* per-op cost and time, or NULL */

    /* Of the forward that runs: */
    run_place at;
    tape *tape;    /* records for backward, or NULL */
    bool counting; /* uses of parameters are counted: this forward will be unwound */
};

static inline bool is_dry(const run *r)
{
    return r->data.kind == ARENA_COUNTING;
}

/* Is this forward recorded, or part of a training in which others are? */
static inline bool is_learning(const run *r)
{
    return r->tape || r->training;
}

/* Arenas sized for `meta` and `data` bytes, and scratch memory. A dry run counts the data and takes
 * headers for as many blocks as it holds at once: one, or all when it records. */
weft_status run_init(run *r, mem *m, size_t meta, size_t data, size_t scratch, weft_error *err);
weft_status run_init_dry(run *r, mem *m, int n_block, weft_error *err);
void run_free(run *r);

/* Begins a step: both arenas empty. Their peaks are those of all steps so far. */
void run_begin(run *r, const batch *b);

/* From here on ops work on the rows of b, for this part of the model. */
void run_part(run *r, const batch *b, const char *part);

/* A new activation. */
tensor *tensor_new(run *r, int64_t n_row, int64_t n_col);

/* Said by an op when it is called: executing it, in either direction, takes so much scratch. */
void scratch_need(run *r, size_t bytes);

/* Executes n and returns n->out. */
tensor *apply(run *r, node *n);

/* For the profile, around an op: the time before it, and the note after it. Without a profile
 * neither does anything. */
double profile_begin(const run *r);
void profile_end(const run *r, const node *n, bool backward, double began);

/* Calls a block of a model. Between blocks only x survives: its successor takes its place in
 * memory. */
typedef tensor *block_fn(run *r, const void *model, int layer, tensor *x);
tensor *run_block(run *r, block_fn *fn, const void *model, int layer, tensor *x);

/* Cuts [0, items) among the threads. `each` is the work of one item, in numbers touched. fn must
 * write only what belongs to its items. */
typedef void range_fn(const run *r, const void *ctx, int64_t i0, int64_t i1);
void parallel(const run *r, int64_t items, int64_t each, range_fn *fn, const void *ctx);

#endif
