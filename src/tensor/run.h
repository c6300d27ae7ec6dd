/* run.h - the state of a forward, and the one place where an op executes.
 *
 * A model is a straight-line function that calls ops. Each op describes itself as a node and hands
 * it to apply(), which names the output, then runs, records or only counts it:
 *
 *     model -> op -> apply -+- name it            "blk.3.attn_q.rope"
 *                           +- dry run?           stop here: the arenas have counted, and the
 *                                                 tally, if any, has the op's cost
 *                           +- forward            under the no-allocation guard, timed
 *                           +- record             if there is a tape
 *                           +- hook               if there is one: it may write the output
 *                           +- hunt for NaN       if asked
 *                           +- trace, observe     if there is a callback
 *
 * There are two arenas: headers always have memory, data has none in a dry run. So the same
 * function, called on a hypothetical batch, predicts the memory of a step to the byte. */
#ifndef WEFT_TENSOR_RUN_H
#define WEFT_TENSOR_RUN_H

#include "base/arena.h"
#include "base/pool.h"
#include "base/side_stack.h"
#include "tensor/batch.h"

#define MAX_INPUT 8

typedef struct run run;
typedef struct node node;

typedef struct cost {
    double flops, bytes;
    const dtype *type; /* type of weights that are not inputs of the node, or NULL; ... */
    double read;       /* ... and the bytes read of them */
} cost;

typedef struct op {
    const char *name;
    const char *formula; /* its formula in one line, for traces */
    void (*forward)(run *r, const node *n);

    /* Stores or adds the gradients of the inputs that need one, given the gradient of the output.
     * NULL for ops that only a trace uses. */
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
    tensor *const *more; /* further weights, such as a layer's experts: n_more of them */
    int64_t n_more;
    real f[2];
    int64_t i[3];
    const void *arg;    /* the op's own parameters; lives until the node is unwound */
    tensor *save[2];    /* saved for backward in addition to inputs and output; only when
                         * recording */
    const batch *batch; /* on the tape: its batch */
    node *before;
};

/* Number of inputs of a node, some of which may be NULL. */
static inline int64_t n_input(const node *n)
{
    return MAX_INPUT + n->n_more;
}

static inline tensor *node_input(const node *n, int64_t i)
{
    return i < MAX_INPUT ? n->in[i] : n->more[i - MAX_INPUT];
}

/* Forward and backward of an op have an entry each. Backward's cost is counted as twice
 * forward's. */
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

/* Sees an output before any other op does, and may write its values. */
typedef void hook_fn(void *ud, tensor *t, const op *by);

/* What a trace shows besides the outputs of all ops. Each part needs memory of its own. */
typedef struct trace_parts {
    bool maps;       /* scores and probabilities of attention */
    bool open;       /* what fused ops compute on the way */
    bool lens;       /* after every block, the model's output as if it were the last one */
    bool all_logits; /* the logits of every row, in one piece */
} trace_parts;

/* Shows the model's output for the stream after a block. */
typedef void lens_fn(run *r, const void *model, int layer, const tensor *x);

/* Sees an op that has run, with its inputs. */
typedef void observe_fn(void *ud, const run *r, const node *n);

/* Receives logits of the wanted rows from `first` on, as they are computed. */
typedef void logits_fn(void *ud, const tensor *z, int64_t first);

/* Current position of a forward. run_begin resets it. */
typedef struct run_place {
    const batch *batch;         /* the rows ops work on now */
    const batch *src;           /* encoder rows, for cross-attention */
    tensor *encoder_out;        /* second input of blocks, or NULL */
    const char *name_prefix;    /* "", or "enc." and "dec." in an encoder-decoder */
    char scope[32];             /* "blk.3" */
    int64_t block;              /* blocks begun so far: tensors carry it as `born` */
    int64_t n_drop;             /* dropouts so far in this block: part of their key */
    char first_nan[NAME_BYTES]; /* with hunt_nan: the first non-finite tensor */
    lens_fn *lens;              /* called after every block, or NULL */
    const void *lens_model;
    char lens_name[16]; /* inside it, what names begin with: "lens.3."; elsewhere "" */
    bool aside;         /* outputs are only shown; see aside_begin */
} run_place;

/* A left side of a product that is packed in scratch memory; id 0: none. */
typedef enum packed_form { PACKED_REAL, PACKED_BF16, PACKED_I8 } packed_form;

typedef struct packed_rows {
    int64_t id; /* of the tensor */
    packed_form form;
} packed_rows;

struct run {
    /* Memory, shared by all forwards: */
    arena meta, data;
    void *work; /* scratch of the running op, ... */
    size_t work_bytes;
    size_t scratch_peak; /* ... as large as the largest request so far */
    packed_rows packed;  /* ... and its packed contents */
    void *side;          /* side stack of the calling thread while an op executes: SIDE_BYTES */
    int64_t n_tensor;    /* last tensor id */

    /* Set by the run's owner, read-only in a forward: */
    const kernels *kern;
    pool *pool;             /* NULL: the calling thread alone */
    void (*poll)(void *ud); /* called between ops: moves messages to other processes; or NULL */
    void *poll_ud;
    int64_t fork_cost;    /* work below this stays on the calling thread */
    bool training;        /* the model ends with a loss, and residual branches use dropout */
    real dropout;         /* dropout rate, in training */
    real lora_dropout;    /* the same of rows that are multiplied with A of an adapter */
    real smoothing;       /* label smoothing */
    uint64_t key;         /* key of this step's random numbers */
    int64_t n_ctx;        /* most positions of a sequence; 0: as many as the model allows */
    int64_t loss_numbers; /* logits computed at once, for the loss or `read`; 0: 2^22 */
    int64_t *load;   /* rows per expert, [layer, expert], which training forwards add to; or NULL */
    logits_fn *read; /* receives the logits in parts; NULL: they are computed all at once */
    void *read_ud;
    trace_fn *trace; /* sees the output of every op that has rows, or NULL */
    void *trace_ud;
    hook_fn *hook; /* sees them before, unless they are only shown; or NULL */
    void *hook_ud;
    observe_fn *observe; /* called after every op, or NULL */
    void *observe_ud;
    void (*tally)(void *ud, const run *r, const node *n); /* in a dry run: called for every op, or
                                                           * NULL */
    void *tally_ud;
    trace_parts show; /* for a trace */
    bool hunt_nan;    /* remember the first non-finite tensor */
    profile *profile; /* per-op cost and time, or NULL */

    /* State of the current forward: */
    run_place at;
    tape *tape;    /* records for backward, or NULL */
    bool counting; /* counts the uses of parameters: this forward will be unwound */
};

static inline bool is_dry(const run *r)
{
    return r->data.kind == ARENA_COUNTING;
}

/* Is this forward recorded, or part of a training step in which others are? */
static inline bool is_learning(const run *r)
{
    return r->tape || r->training;
}

/* Allocates arenas of `meta` and `data` bytes, and scratch memory. A dry run counts the data, and
 * allocates headers for the blocks it holds at once: one, or all when it records. */
weft_status run_init(run *r, mem *m, size_t meta, size_t data, size_t scratch, weft_error *err);
weft_status run_init_dry(run *r, mem *m, int n_block, weft_error *err);
void run_free(run *r);

/* Begins a step with both arenas empty. Their peaks cover all steps so far. */
void run_begin(run *r, const batch *b);

/* From here on ops work on the rows of b, in this part of the model. */
void run_part(run *r, const batch *b, const char *part);

/* A new activation. */
tensor *tensor_new(run *r, int64_t n_row, int64_t n_col);

/* An op calls this: its execution, in either direction, needs this much scratch. */
void scratch_need(run *r, size_t bytes);

/* Executes n and returns n->out. */
tensor *apply(run *r, node *n);

/* Between these two, outputs are only shown: no later op of the model reads them, so they are not
 * recorded, and hooks do not see them. */
typedef struct aside {
    tape *tape;
    bool counting, before;
} aside;

aside aside_begin(run *r);
void aside_end(run *r, aside was);

/* Called around an op: the start time, and the entry after it. Without a profile both do
 * nothing. */
double profile_begin(const run *r);
void profile_end(const run *r, const node *n, bool backward, double began);

/* Calls a block of a model. Between blocks only x survives: its successor takes its place in
 * memory. */
typedef tensor *block_fn(run *r, const void *model, int layer, tensor *x);
tensor *run_block(run *r, block_fn *fn, const void *model, int layer, tensor *x);

/* Splits [0, items) among the threads. `each` is the work of one item, in values touched. fn must
 * write only to its own items. */
typedef void range_fn(const run *r, const void *ctx, int64_t i0, int64_t i1);
void parallel(const run *r, int64_t items, int64_t each, range_fn *fn, const void *ctx);

#endif
