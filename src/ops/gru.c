/* gru: gated recurrent unit: a state carried from row to row of a sequence, with gates r, z and a
 * candidate n:
 *
 *     r = sigmoid(x_r + U_r h + b_r)    n = tanh(x_n + r (U_n h + b_n))
 *     z = sigmoid(x_z + U_z h + b_z)    h' = (1 - z) n + z h
 *
 * as in PyTorch; x [3 D] is the input's part of r, z and n, computed before by one product for all
 * rows. The initial state is 0.
 *
 * gru_attend is Bahdanau's decoder. A row's query depends on the previous state, so attention is
 * part of the recurrence:
 *
 *     c = additive(W_q h; keys, memory)    x + W_c c takes the place of x
 *
 * Its initial state is the last state of the source. State h' is stored as a row of the cache, and
 * the next row reads it from there in the cache's format, as it would in a later call.
 *
 * Rows are processed in steps: the first of every sequence, the second of every sequence, ... The
 * data of a step is contiguous in `kept`, so its products have one row per sequence.
 *
 * Backward, from the last step to the first, with dh' of the row and of the step after it:
 *
 *     dn = dh' (1 - z) (1 - n^2)             dz = dh' (h - n) z (1 - z)
 *     dr = dn (U_n h + b_n) r (1 - r)        dx = (dr, dz, dn)      du = (dr, dz, r dn)
 *     dh = dh' z + du U + dq W_q             dc = dx W_c, and dq from it as in additive
 *
 * and then dU = du^T H, dW_q = dq^T H, dW_c = dx^T C over all rows at once. */
#include "ops/adapt.h"
#include "ops/additive.h"
#include "ops/maps.h"

#include "tensor/tape.h"

#include <assert.h>
#include <string.h>

enum { X, STATE, BIAS, MEMORY, KEYS, QUERY, SCORE, CONTEXT };
enum { STREAM_STATE, STREAM_KEY };
enum { KEPT, GRADS }; /* saved: forward's values, always; backward's, when recording */

/* ---- saved values ---------------------------------------------------------------------------- */

/* D, and A if the recurrence attends, otherwise 0. */
static int64_t width_of(const node *n)
{
    return n->i[1];
}

static int64_t gru_keys(const node *n)
{
    return n->i[2];
}

/* Columns of kept: h, the gates (first U h + b), U_n h + b_n, W_c c, c, W_q h, log sum exp. */
enum { AT_H = 0, AT_GATES = 1, AT_CANDIDATE = 4, AT_INPUT = 5, AT_SEEN = 8, AT_ASK = 9 };
/* Columns of grads: dx, du, dh, dc, dq, and that of the score. */
enum { AT_DX = 0, AT_DU = 3, AT_DH = 6, AT_DSEEN = 7, AT_DASK = 8 };

static int64_t kept_width(int64_t D, int64_t A)
{
    return A ? AT_ASK * D + A + 1 : AT_INPUT * D;
}

static int64_t grads_width(int64_t D, int64_t A)
{
    return A ? AT_DASK * D + 2 * A : AT_DSEEN * D;
}

/* From column `at` D of row i on. */
static real *gru_columns(const node *n, int saved, int64_t i, int at)
{
    return row(n->save[saved], i) + at * width_of(n);
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* A row of the step: its index in the batch, in `kept`, and in `kept` at the next step or -1. */
typedef struct place {
    const sequence *seq;
    int64_t row, at, after;
} place;

typedef void place_fn(const run *r, const node *n, const place *p);

typedef struct step {
    const node *of;
    int64_t t, first, count; /* rows [first, first + count) of `kept` */
    place_fn *fn;
} step;

static int64_t count_at(const batch *b, int64_t t)
{
    int64_t count = 0;
    for (int64_t s = 0; s < b->n_seq; s++)
        count += b->seq[s].n > t;
    return count;
}

static void some_places(const run *r, const void *ctx, int64_t i0, int64_t i1)
{
    const step *s = ctx;
    int64_t i = 0, after = s->first + s->count;
    for (const sequence *q = r->at.batch->seq; i < i1; q++) {
        if (q->n <= s->t)
            continue;
        const bool more = q->n > s->t + 1;
        const place p = { q, q->first + s->t, s->first + i, more ? after : -1 };
        if (i >= i0)
            s->fn(r, s->of, &p);
        i++;
        after += more;
    }
}

static void all_places(const run *r, step s, place_fn *fn, int64_t each)
{
    s.fn = fn;
    parallel(r, s.count, each, some_places, &s);
}

/* Columns of `kept` for a step. */
static matrix gru_matrix(const step *s, int saved, int at, int64_t width)
{
    const tensor *t = s->of->save[saved];
    return (matrix){ .at = gru_columns(s->of, saved, s->first, at),
                     .rows = s->count,
                     .cols = width,
                     .stride = t->stride };
}

/* ---- the source ------------------------------------------------------------------------------ */

static const sequence *source_seq(const run *r, const sequence *q)
{
    return &r->at.src->seq[q->source];
}

static source_view gru_source(const run *r, const node *n, const sequence *q)
{
    const sequence *s = source_seq(r, q);
    const int layer = (int)n->i[0];
    if (!s->cache)
        return source_rows(s, n->in[KEYS], n->in[MEMORY]);
    const int64_t end = s->n > 0 ? s->n : s->cache->length;
    return (source_view){ cache_view(s->cache, layer, STREAM_KEY, end),
                          cache_view(s->cache, layer, STREAM_STATE, end), end, gru_keys(n),
                          width_of(n) };
}

static int64_t source_work(const run *r, const node *n)
{
    int64_t most = 0;
    for (int64_t s = 0; s < r->at.src->n_seq; s++) {
        const sequence *q = &r->at.src->seq[s];
        const int64_t end = q->n > 0 ? q->n : q->cache ? q->cache->length : 0;
        most = end > most ? end : most;
    }
    return most * (8 * gru_keys(n) + width_of(n));
}

/* Writes this call's sources to their caches before any are read. */
static void gru_store_source(const run *r, const node *n)
{
    for (int64_t i = 0; n->in[MEMORY] && i < rows(n->in[MEMORY]); i++) {
        const batch_row *at = &r->at.src->row[i];
        const cache *c = r->at.src->seq[at->seq].cache;
        if (!c)
            continue;
        cache_store(c, (int)n->i[0], STREAM_STATE, at->pos, row(n->in[MEMORY], i));
        cache_store(c, (int)n->i[0], STREAM_KEY, at->pos, row(n->in[KEYS], i));
    }
}

/* ---- forward --------------------------------------------------------------------------------- */

static void copy_state(const view *v, int64_t pos, real *h, int64_t D)
{
    const real *from = view_part(v, pos, 0, D, h);
    if (from != h)
        memcpy(h, from, (size_t)D * sizeof *h);
}

/* h: the previous state. */
static void gru_load_state(const run *r, const node *n, const place *p)
{
    const int64_t D = width_of(n), pos = r->at.batch->row[p->row].pos;
    real *h = gru_columns(n, KEPT, p->at, AT_H);
    const cache *c = gru_keys(n) ? p->seq->cache : NULL;
    memset(h, 0, (size_t)D * sizeof *h);
    if (c && pos > 0) {
        const view states = cache_view(c, (int)n->i[0], STREAM_STATE, pos);
        copy_state(&states, pos - 1, h, D);
    } else if (p->row > p->seq->first) {
        memcpy(h, row(n->out, p->row - 1), (size_t)D * sizeof *h);
    } else if (gru_keys(n)) {
        const source_view s = gru_source(r, n, p->seq);
        if (s.n > 0)
            copy_state(&s.v, s.n - 1, h, D);
    }
}

static void gru_attend_row(const run *r, const node *n, const place *p)
{
    const source_view s = gru_source(r, n, p->seq);
    real *ask = gru_columns(n, KEPT, p->at, AT_ASK);
    ask[gru_keys(n)] = additive_pool(r, ask, values(n->in[SCORE]), &s,
                                     gru_columns(n, KEPT, p->at, AT_SEEN));
}

static void gru_update(const run *r, const node *n, const place *p)
{
    const int64_t D = width_of(n);
    const real *x = row(n->in[X], p->row), *h = gru_columns(n, KEPT, p->at, AT_H);
    const real *more = gru_keys(n) ? gru_columns(n, KEPT, p->at, AT_INPUT) : NULL;
    real *gate = gru_columns(n, KEPT, p->at, AT_GATES), *y = row(n->out, p->row);
    memcpy(gru_columns(n, KEPT, p->at, AT_CANDIDATE), gate + 2 * D, (size_t)D * sizeof *gate);
    for (int64_t k = 0; k < 2 * D; k++)
        gate[k] = x[k] + (more ? more[k] : 0) + gate[k];
    r->kern->activate(gate, gate, ACT_SIGMOID, 2 * D);
    for (int64_t k = 0; k < D; k++) {
        const real x_n = x[2 * D + k] + (more ? more[2 * D + k] : 0);
        gate[2 * D + k] = x_n + gate[k] * gate[2 * D + k];
    }
    r->kern->activate(gate + 2 * D, gate + 2 * D, ACT_TANH, D);
    for (int64_t k = 0; k < D; k++)
        y[k] = (1 - gate[D + k]) * gate[2 * D + k] + gate[D + k] * h[k];
    if (gru_keys(n) && p->seq->cache)
        cache_store(p->seq->cache, (int)n->i[0], STREAM_STATE, r->at.batch->row[p->row].pos, y);
}

static void gru_forward(run *r, const node *n)
{
    const int64_t D = width_of(n), A = gru_keys(n), seen = A ? source_work(r, n) : 0;
    step s = { .of = n };
    if (A)
        gru_store_source(r, n);
    for (; s.first < rows(n->out); s.t++, s.first += s.count) {
        s.count = count_at(r->at.batch, s.t);
        all_places(r, s, gru_load_state, D);
        product(r, gru_matrix(&s, KEPT, AT_GATES, 3 * D), gru_matrix(&s, KEPT, AT_H, D),
                n->in[STATE], n->in[BIAS]);
        if (A) {
            product(r, gru_matrix(&s, KEPT, AT_ASK, A), gru_matrix(&s, KEPT, AT_H, D), n->in[QUERY],
                    NULL);
            all_places(r, s, gru_attend_row, seen);
            product(r, gru_matrix(&s, KEPT, AT_INPUT, 3 * D), gru_matrix(&s, KEPT, AT_SEEN, D),
                    n->in[CONTEXT], NULL);
        }
        all_places(r, s, gru_update, 24 * D);
    }
}

/* ---- backward -------------------------------------------------------------------------------- */

/* dx, du, and the part of dh that bypasses the gates. */
static void gru_gates_back(const run *r, const node *n, const place *p)
{
    (void)r;
    const int64_t D = width_of(n);
    const real *h = gru_columns(n, KEPT, p->at, AT_H),
               *gate = gru_columns(n, KEPT, p->at, AT_GATES);
    const real *candidate = gru_columns(n, KEPT, p->at, AT_CANDIDATE);
    const real *later = p->after < 0 ? NULL : gru_columns(n, GRADS, p->after, AT_DH);
    real *dx = gru_columns(n, GRADS, p->at, AT_DX), *du = gru_columns(n, GRADS, p->at, AT_DU);
    real *dh = gru_columns(n, GRADS, p->at, AT_DH);
    for (int64_t k = 0; k < D; k++) {
        const real dy = grad_row(n->out, p->row)[k] + (later ? later[k] : 0);
        const real r_k = gate[k], z = gate[D + k], c = gate[2 * D + k];
        const real dn = dy * (1 - z) * (1 - c * c);
        dx[k] = du[k] = dn * candidate[k] * r_k * (1 - r_k);
        dx[D + k] = du[D + k] = dy * (h[k] - c) * z * (1 - z);
        dx[2 * D + k] = dn;
        du[2 * D + k] = dn * r_k;
        dh[k] = dy * z;
    }
}

/* Sources [s0, s1) and the rows of the step that attend to them, as in additive. */
static void gru_attend_back(const run *r, const void *ctx, int64_t s0, int64_t s1)
{
    const step *s = ctx;
    const node *n = s->of;
    const int64_t A = gru_keys(n);
    int64_t at = s->first;
    for (const sequence *q = r->at.batch->seq; q < r->at.batch->seq + r->at.batch->n_seq; q++) {
        if (q->n <= s->t)
            continue;
        const sequence *from = source_seq(r, q);
        const real *ask = gru_columns(n, KEPT, at, AT_ASK);
        real *dask = gru_columns(n, GRADS, at, AT_DASK);
        const additive_grad g = { ask,
                                  values(n->in[SCORE]),
                                  gru_columns(n, KEPT, at, AT_SEEN),
                                  gru_columns(n, GRADS, at, AT_DSEEN),
                                  ask[A],
                                  dask,
                                  dask + A,
                                  n->in[KEYS],
                                  n->in[MEMORY],
                                  from->first,
                                  from->n };
        if (q->source >= s0 && q->source < s1)
            additive_back(r, &g);
        at++;
    }
}

/* The initial state was the last state of the source. */
static void gru_begin_back(const run *r, const node *n, const step *s)
{
    int64_t at = s->first;
    for (const sequence *q = r->at.batch->seq; q < r->at.batch->seq + r->at.batch->n_seq; q++) {
        if (q->n <= s->t)
            continue;
        const sequence *from = source_seq(r, q);
        if (from->n > 0 && n->in[MEMORY]->needs_grad)
            r->kern->axpy(grad_row(n->in[MEMORY], from->first + from->n - 1), 1,
                          gru_columns(n, GRADS, at, AT_DH), width_of(n));
        at++;
    }
}

static void gru_step_back(run *r, const node *n, step s)
{
    const int64_t D = width_of(n), A = gru_keys(n);
    const matrix dx = gru_matrix(&s, GRADS, AT_DX, 3 * D), dh = gru_matrix(&s, GRADS, AT_DH, D);
    all_places(r, s, gru_gates_back, 16 * D);
    product_dx(r, dh, true, gru_matrix(&s, GRADS, AT_DU, 3 * D), n->in[STATE]);
    if (A == 0)
        return;
    product_dx(r, gru_matrix(&s, GRADS, AT_DSEEN, D), false, dx, n->in[CONTEXT]);
    parallel(r, r->at.src->n_seq, 3 * source_work(r, n), gru_attend_back, &s);
    product_dx(r, dh, true, gru_matrix(&s, GRADS, AT_DASK, A), n->in[QUERY]);
    if (s.t == 0)
        gru_begin_back(r, n, &s);
}

/* dx is in the order of steps. */
static void gru_scatter(const run *r, const node *n, const place *p)
{
    (void)r;
    const tensor *x = n->in[X];
    for (int64_t k = 0; k < cols(x); k++)
        grad_put(grad_row(x, p->row) + k, x->grad_written, gru_columns(n, GRADS, p->at, AT_DX)[k]);
}

static void gru_weight_back(run *r, tensor *w, matrix dy, matrix x)
{
    if (w->needs_grad)
        product_dw(r, w, w->grad_written, dy, x);
}

static void gru_weights_back(run *r, const node *n)
{
    const int64_t D = width_of(n), A = gru_keys(n);
    const step all = { .of = n, .count = rows(n->out) };
    const matrix h = gru_matrix(&all, KEPT, AT_H, D), dx = gru_matrix(&all, GRADS, AT_DX, 3 * D);
    const matrix du = gru_matrix(&all, GRADS, AT_DU, 3 * D);
    gru_weight_back(r, n->in[STATE], du, h);
    if (n->in[BIAS] && n->in[BIAS]->needs_grad)
        product_db(r, n->in[BIAS], n->in[BIAS]->grad_written, du);
    if (A == 0)
        return;
    matrix dask = gru_matrix(&all, GRADS, AT_DASK, A);
    gru_weight_back(r, n->in[CONTEXT], dx, gru_matrix(&all, KEPT, AT_SEEN, D));
    gru_weight_back(r, n->in[QUERY], dask, h);
    dask.at += A; /* the score's gradient follows */
    if (n->in[SCORE]->needs_grad)
        product_db(r, n->in[SCORE], n->in[SCORE]->grad_written, dask);
}

static void gru_backward(run *r, const node *n)
{
    step s = { .of = n, .first = rows(n->out) };
    while (count_at(r->at.batch, s.t) > 0)
        s.t++;
    grad_clear(n->in[MEMORY]);
    grad_clear(n->in[KEYS]);
    while (s.t-- > 0) {
        s.count = count_at(r->at.batch, s.t);
        s.first -= s.count;
        gru_step_back(r, n, s);
        if (n->in[X]->needs_grad)
            all_places(r, s, gru_scatter, 3 * width_of(n));
    }
    gru_weights_back(r, n);
}

static cost gru_cost(const run *r, const node *n)
{
    const double N = (double)rows(n->out), D = (double)width_of(n), A = (double)gru_keys(n);
    const double seen = A > 0 ? (double)source_work(r, n) + 2 * D * A + 6 * D * D : 0;
    return (cost){ .flops = N * (6 * D * D + seen), .bytes = cost_streaming(n, 0).bytes };
}

extern const op gru_op, gru_attend_op;
const op gru_op = { "gru", "h' = (1 - z) n + z h,  r, z, n of x and U h", gru_forward, gru_backward,
                    gru_cost };
const op gru_attend_op = { "gru_attend", "h' = (1 - z) n + z h,  r, z, n of x + W c(h) and U h",
                           gru_forward, gru_backward, gru_cost };

/* ---- maps, only for a trace ------------------------------------------------------------------ */

static void scores_of(const run *r, const node *n, const place *p)
{
    const source_view s = gru_source(r, n, p->seq);
    for (int64_t j = 0; j < cols(n->out); j++)
        row(n->out, p->row)[j] = j < s.n ? additive_score(r, gru_columns(n, KEPT, p->at, AT_ASK),
                                                          values(n->in[SCORE]), &s, j)
                                         : (real)-INFINITY;
}

static void show_places(run *r, const node *n, place_fn *fn)
{
    step s = { .of = n };
    for (; s.first < rows(n->out); s.t++, s.first += s.count) {
        s.count = count_at(r->at.batch, s.t);
        all_places(r, s, fn, 1);
    }
}

static void gru_scores_forward(run *r, const node *n)
{
    show_places(r, n, scores_of);
}

static cost gru_scores_cost(const run *r, const node *n)
{
    (void)r;
    return cost_streaming(n, 8 * (double)gru_keys(n));
}

extern const op additive_scores_op;
const op additive_scores_op = { "additive_scores", "s_j = w . tanh(q + k_j)", gru_scores_forward,
                                NULL, gru_scores_cost };

static void gru_show_maps(run *r, const node *of)
{
    int64_t T = 1;
    for (int64_t i = 0; i < r->at.batch->n_seq && r->at.batch->n_row > 0; i++) {
        const sequence *s = source_seq(r, &r->at.batch->seq[i]);
        const int64_t end = s->n > 0 ? s->n : s->cache ? s->cache->length : 0;
        T = end > T ? end : T;
    }
    attention_maps(r, of, &additive_scores_op, rows(of->out), T, true, NULL);
}

/* ---- opened, only for a trace ---------------------------------------------------------------- */

static void gates_of(const run *r, const node *n, const place *p)
{
    (void)r;
    memcpy(row(n->out, p->row), gru_columns(n, KEPT, p->at, AT_GATES),
           (size_t)cols(n->out) * sizeof(real));
}

static void context_of(const run *r, const node *n, const place *p)
{
    (void)r;
    memcpy(row(n->out, p->row), gru_columns(n, KEPT, p->at, AT_SEEN),
           (size_t)cols(n->out) * sizeof(real));
}

static void gru_gates_forward(run *r, const node *n)
{
    show_places(r, n, gates_of);
}

static void gru_context_forward(run *r, const node *n)
{
    show_places(r, n, context_of);
}

static cost gru_show_cost(const run *r, const node *n)
{
    (void)r;
    return cost_streaming(n, 0);
}

extern const op gru_gates_op, gru_context_op;
const op gru_gates_op = { "gru_gates", "r, z = sigmoid(..),  n = tanh(..)", gru_gates_forward, NULL,
                          gru_show_cost };
const op gru_context_op = { "gru_context", "c = sum_j p_j memory_j", gru_context_forward, NULL,
                            gru_show_cost };

static void gru_show_inside(run *r, const node *of)
{
    const aside was = aside_begin(r);
    node gates = *of, context = *of;
    gates.op = &gru_gates_op;
    gates.local = "gru.gates";
    gates.out = tensor_new(r, rows(of->out), 3 * width_of(of));
    apply(r, &gates);
    if (gru_keys(of) > 0) {
        context.op = &gru_context_op;
        context.local = "gru.context";
        context.out = tensor_new(r, rows(of->out), width_of(of));
        apply(r, &context);
    }
    aside_end(r, was);
}

/* ---- the ops --------------------------------------------------------------------------------- */

static tensor *apply_gru(run *r, node *n, const weight *state, int64_t A)
{
    const int64_t D = cols(state->w), N = rows(n->in[X]);
    assert(N == r->at.batch->n_row && cols(n->in[X]) == 3 * D && rows(state->w) == 3 * D);
    n->i[1] = D;
    n->i[2] = A;
    n->out = tensor_new(r, N, D);
    n->save[KEPT] = tensor_new(r, N, kept_width(D, A));
    if (r->tape)
        n->save[GRADS] = tensor_new(r, N, grads_width(D, A));
    product_plan(r, N, state->w);
    tensor *y = apply(r, n);
    if (r->show.open)
        gru_show_inside(r, n);
    return y;
}

tensor *gru(run *r, tensor *x, const weight *state)
{
    node n = { .op = &gru_op, .local = "gru", .in = { x, state->w, state->b } };
    return apply_gru(r, &n, state, 0);
}

tensor *gru_attend(run *r, tensor *x, tensor *memory, tensor *keys, const weight *state,
                   const additive_attn *a, int layer)
{
    const int64_t A = cols(a->score);
    assert(A <= MAX_HEAD && rows(a->query.w) == A && !memory == !keys);
    assert(!r->tape || r->at.batch->n_seq == 0 || !r->at.batch->seq[0].cache);
    node n = { .op = &gru_attend_op, .local = "gru_attend", .i = { layer } };
    tensor *in[MAX_INPUT] = { x,    state->w,   state->b, memory,
                              keys, a->query.w, a->score, a->context.w };
    memcpy(n.in, in, sizeof in);
    product_plan(r, rows(x), a->query.w);
    product_plan(r, rows(x), a->context.w);
    tensor *y = apply_gru(r, &n, state, A);
    if (r->show.maps)
        gru_show_maps(r, &n);
    return y;
}
