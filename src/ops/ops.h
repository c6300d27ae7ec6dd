/* ops.h - the vocabulary models are written in, in the order of a transformer.
 *
 * N rows, D model width, H heads, K kv heads, E head size, F hidden width, V vocabulary
 * (docs/NOTATION.md). Every op returns a new tensor, named after its weight or its input, and runs
 * through apply(). At most one op call per argument list: C does not order the evaluation of
 * arguments. */
#ifndef WEFT_OPS_OPS_H
#define WEFT_OPS_OPS_H

#include "tensor/run.h"

/* A matrix W [O, I] or a gain w [D], with an optional bias, and the name of its output. */
typedef struct weight {
    const char *name; /* "blk.3.attn_q"; a tied head keeps its own: "output" */
    tensor *w, *b;    /* b may be NULL */
} weight;

/* ---- in -------------------------------------------------------------------------------------- */

typedef enum embed_by { EMBED_TOKEN, EMBED_POSITION, EMBED_TYPE } embed_by;

/* y_i = table[index of row i]                                                             [N, D] */
tensor *embed(run *r, tensor *table, embed_by by);

/* The same for a table whose first rows belong to no index, such as BART's two extra positions: y_i
 * = table[first + index of row i] */
tensor *embed_from(run *r, tensor *table, embed_by by, int64_t first);

/* The vectors that rows bring instead of tokens, d numbers each.                          [N, d] */
tensor *features(run *r, int64_t d);

/* y_i = v where the row's position is pos, x_i elsewhere; v is one row.                   [N, D] */
tensor *put_row(run *r, tensor *x, tensor *v, int64_t pos);

/* y = c x */
tensor *scale(run *r, tensor *x, real c);

/* y = c tanh(x / c) */
tensor *softcap(run *r, tensor *x, real c);

/* ---- norms ----------------------------------------------------------------------------------- */

/* y = x / sqrt(mean x^2 + eps) * w    over groups as wide as w: whole rows, or heads of q and k */
tensor *rmsnorm(run *r, tensor *x, tensor *w, real eps);

/* y = (x - mean) / sqrt(var + eps) * w + b */
tensor *layernorm(run *r, tensor *x, const weight *w, real eps);

/* ---- attention ------------------------------------------------------------------------------- */

/* y = x W^T + b                                                                 [N, I] -> [N, O] */
tensor *linear(run *r, tensor *x, const weight *w);

/* Columns [c0, c0 + n) of x under its own name: a view without a copy. */
tensor *slice(run *r, tensor *x, const char *name, int64_t c0, int64_t n);

typedef enum rope_scaling {
    ROPE_PLAIN,
    ROPE_LINEAR,
    ROPE_LLAMA3,
    ROPE_YARN,
    ROPE_LONG
} rope_scaling;

/* The rotary position settings of a model file. */
typedef struct rope_spec {
    rope_pairing pairing;
    int64_t n_rot;  /* rotated columns of a head, even */
    int64_t d_head; /* columns of a head */
    int64_t skip;   /* ... before the rotated ones */
    double theta;
    rope_scaling scaling;
    double factor;               /* linear, llama3, yarn */
    double low_freq, high_freq;  /* llama3 */
    double beta_fast, beta_slow; /* yarn */
    bool even_ramp;              /* yarn: the ramp begins and ends at fractions of a pair too */
    double attn_factor;          /* yarn: multiplies cos and sin; 0: 0.1 ln(factor) + 1, or ...
                                  * long: 0: sqrt(1 + ln(context / old) / ln(old)) */
    double mscale, mscale_all;   /* yarn: ... the quotient of these magnitudes, if both are set */
    double old_ctx;              /* llama3, yarn, long: the context before scaling */
    const float *divisor;        /* [n_rot / 2] by which frequencies are divided, or NULL */
    const float *far_divisor;    /* long: the same for runs whose context is longer than old_ctx */
    double warmth;               /* multiplies cos and sin at position p by ... */
    double warm_ctx;             /* ... 1 + warmth ln(1 + floor(p / warm_ctx)); warmth 0: by 1 */
} rope_spec;

typedef struct rope_table rope_table; /* angles of all positions, see rope.c */

/* The table lives in `store`. NULL with err filled when memory is refused. */
const rope_table *rope_new(const rope_spec *spec, int64_t n_ctx, arena *store, weft_error *err);

/* Frequencies after scaling, in double, for tests and inspection; returns the factor of cos and
 * sin. */
double rope_frequencies(const rope_spec *spec, double *freq);

/* YaRN's 0.1 by ln(factor) + 1. */
double yarn_magnitude(double factor, double by);

/* Rotates the pairs of every head of row i by pos_i times their frequencies. Which of a long
 * table's frequencies depends on the run's context, never on positions.                 [N, H E] */
tensor *rope(run *r, tensor *x, const rope_table *table);

/* What a table was made of; of a long one, the part that this run uses. */
const rope_spec *rope_spec_in(const run *r, const rope_table *table);

typedef enum attn_kind {
    ATTN_CAUSAL, /* keys of the same sequence up to the query's position, cached ones included */
    ATTN_FULL,   /* all keys of the same sequence in this batch */
    ATTN_CROSS,  /* all keys of the source sequence, from run.at.src's rows or its cache */
} attn_kind;

/* T5's relative positions: score += table[bucket(j - i), h]. */
typedef struct attn_bias {
    tensor *table; /* [buckets, H], as files store it */
    bool two_sided;
    int64_t max_distance;
} attn_bias;

typedef struct attn {
    attn_kind kind;
    int64_t n_head, n_head_kv;
    int64_t d_key, d_value; /* per head */
    real scale;
    int64_t window; /* a query sees at most this many keys, itself included; 0: all */
    attn_bias bias; /* table NULL: none */
    real cap;       /* scores become cap tanh(score / cap); 0: they stay */
    tensor *sink;   /* [H] a score of each head that takes its share but has no value; NULL: none */
} attn;

#define MAX_HEAD 1024 /* largest d_key or d_value */

/* Heads of one width, scores divided by its root. */
static inline attn attn_of(attn_kind kind, int64_t n_head, int64_t n_head_kv, int64_t d_head)
{
    return (attn){ .kind = kind,
                   .n_head = n_head,
                   .n_head_kv = n_head_kv,
                   .d_key = d_head,
                   .d_value = d_head,
                   .scale = 1 / sqrt((real)d_head) };
}

/* y_i,h = sum_j softmax_j(scale q_i,h . k_j,h' + bias) v_j,h',   h' = h K / H             [N, H
 * d_value] Cap and sink are part of the softmax. With ATTN_CROSS, k and v are NULL once the source
 * is in its cache. Elsewhere, where v is NULL, values are the first d_value numbers of keys, and the
 * cache holds them once. */
tensor *attention(run *r, tensor *q, tensor *k, tensor *v, const attn *a, int layer);

/* Heads of x, each multiplied by its own rows of W. */
typedef struct head_map {
    int64_t n_head;
    int64_t x_at, x_pitch; /* head h of x starts at x_at + h x_pitch; pitch 0: all heads share it */
    int64_t w_at, w_pitch; /* the first row of W_h */
    int64_t d_in, d_out;
    bool transposed; /* W_h is [d_in, d_out] */
} head_map;

/* y_h = x_h W_h^T, or x_h W_h where it is transposed                                     [N, H d_out] */
tensor *linear_heads(run *r, tensor *x, tensor *w, const head_map *map, const char *name);

typedef struct join_map {
    int64_t n_head, d_a;
    int64_t b_at, b_pitch, d_b; /* head h of b begins at b_at + h b_pitch; pitch 0: all share one */
} join_map;

/* y_h = [a_h, b_h]                                                              [N, H (d_a + d_b)] */
tensor *join_heads(run *r, tensor *a, tensor *b, const join_map *map, const char *name);

typedef enum kernel_kind {
    KERNEL_GAUSSIAN,
    KERNEL_BOXCAR,
    KERNEL_EPANECHNIKOV,
    KERNEL_CONSTANT
} kernel_kind;

/* y_i = sum_j K_ij v_j / sum_j K_ij,  K_ij = K(|q_i - k_j| / e^log_width), over all rows of k, or
 * only over `others`: all but row i.                              [N, E], [M, E], [M, D] -> [N, D] */
tensor *kernel_pool(run *r, tensor *q, tensor *k, tensor *v, tensor *log_width, kernel_kind kind,
                    bool others);

/* y_i = sum_j softmax_j(score . tanh(q_i + k_j)) v_j over the rows of the source; score is one
 * row.                                                                 [N, A], [S, A], [S, D] -> [N, D] */
tensor *additive(run *r, tensor *q, tensor *k, tensor *v, tensor *score);

/* ---- recurrence ------------------------------------------------------------------------------ */

/* A state that goes from row to row of each sequence; x is the input's part of its gates, and state
 * is U with b.                                                                   [N, 3 D] -> [N, D] */
tensor *gru(run *r, tensor *x, const weight *state);

/* How a recurrence attends to its source: W_q [A, D] and a score [1, A]; W_c [3 D, D] maps the
 * context to the gates. */
typedef struct additive_attn {
    weight query, context;
    tensor *score;
} additive_attn;

/* The same with attention: each row first attends to its source by the previous state. memory [S,
 * D] and keys [S, A] are NULL once the source is in its cache. */
tensor *gru_attend(run *r, tensor *x, tensor *memory, tensor *keys, const weight *state,
                   const additive_attn *a, int layer);

/* ---- between --------------------------------------------------------------------------------- */

/* y = x m / (1 - p), m = 0 with probability p, drawn from the run's key. Only residual calls it. */
tensor *dropout(run *r, tensor *x, real p);

/* x += h. In place if x was made in this block and nothing is recorded; otherwise a new tensor. */
void residual(run *r, tensor **x, tensor *h);

/* ---- feed forward ---------------------------------------------------------------------------- */

tensor *act(run *r, tensor *x, act_kind kind);

/* y = act(x Wg^T + bg) * (x Wu^T + bu)                                                    [N, F] */
tensor *glu(run *r, tensor *x, const weight *gate, const weight *up, act_kind kind);

/* How experts are scored: a softmax over all, or a sigmoid each. */
typedef enum route_kind { ROUTE_SOFTMAX, ROUTE_SIGMOID } route_kind;

/* What an expert makes of its gate g and up u: silu(g) u; or, in gpt-oss, both limited to 7:
 * g sigmoid(1.702 g) (u + 1). */
typedef enum expert_act { EXPERT_SILU, EXPERT_LIMITED } expert_act;

typedef struct routing {
    route_kind kind;
    int64_t n_expert, n_used;      /* total; chosen per row */
    int64_t n_group, n_group_used; /* groups of adjacent experts; groups a row may choose from. The
                                      score of a group is its best expert, with sigmoids the sum of
                                      its two best */
    bool normalize;                /* normalise the weights of the chosen to sum 1 before scaling */
    real scale;
    real epsilon; /* added to that sum */
    expert_act act;
} routing;

#define MAX_EXPERT 1024

typedef struct experts {
    tensor *router;      /* [n_expert, D] */
    tensor *router_bias; /* [n_expert], or NULL */
    tensor *bias;        /* [n_expert], added to scores for the choice only; or NULL */
    tensor **part; /* [3 n_expert]: gates [F, D] of all, ups [F, D] of all, downs [D, F] of all; */
    bool biased;   /* ... then as many biases, [F], [F] and [D]: [6 n_expert] */
} experts;

/* y_i = sum over the experts e chosen for row i of w_ie down_e(act(gate_e(x_i), up_e(x_i))) [N, D] */
tensor *moe(run *r, tensor *x, const experts *w, const routing *how, int layer);

/* ---- out ------------------------------------------------------------------------------------- */

/* The rows whose logits are wanted, in order.                            [N, D] -> [n_wanted, D] */
tensor *take_rows(run *r, tensor *x);

typedef enum pool_kind { POOL_MEAN, POOL_MAX, POOL_FIRST, POOL_LAST } pool_kind;

/* One row per sequence.                                                     [N, D] -> [n_seq, D] */
tensor *pool_rows(run *r, tensor *x, pool_kind kind);

/* y = x / |x|, row by row                                                                        */
tensor *l2norm(run *r, tensor *x);

/* loss = sum_i w_i l_i / sum_i w_i over the wanted rows that have a target; l is the cross entropy
 * of their logits with the target smoothed over the vocabulary. [1, 1] */
tensor *cross_entropy(run *r, tensor *logits, real smoothing);

/* The same from the head's input, without computing all logits at once. */
tensor *linear_cross_entropy(run *r, tensor *x, const weight *w, real smoothing);

/* The same with logits that went through softcap; cap 0: they did not. */
tensor *linear_cross_entropy_capped(run *r, tensor *x, const weight *w, real smoothing, real cap);

/* The end of a model: the wanted rows' logits [n_wanted, V], or in training their loss [1, 1]. If
 * the run has a reader, it receives them in parts, and the op returns the last part. */
tensor *head(run *r, tensor *x, const weight *w);
tensor *head_capped(run *r, tensor *x, const weight *w, real cap);

/* Rows whose logits are computed at once, for losses and readers. */
static inline int64_t logits_at_once(const run *r, int64_t n_vocab)
{
    const int64_t fit = (r->loss_numbers ? r->loss_numbers : (int64_t)1 << 22) / n_vocab;
    return fit > 1 ? fit : 1;
}

tensor *softmax(run *r, tensor *x);

/* ---- the list, for tests and tools ----------------------------------------------------------- */

extern const op *const all_ops[]; /* ends with NULL */

/* Cost of an op that touches its inputs and output once, with `per` flops per output value. */
cost cost_streaming(const node *n, double per);

/* Splits the rows of n->out among the threads. */
void parallel_rows(const run *r, const node *n, range_fn *fn);

#endif
