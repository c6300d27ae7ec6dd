/* moe: mixture of experts: a router chooses a few experts for every row.
 *
 *     s = softmax(Wr x + br), or sigmoid           e_1 .. e_k: where s + bias is largest
 *     w_j = c s_e_j, or c s_e_j / sum_l s_e_l      y = sum_j w_j D_e_j (silu(G_e_j x) U_e_j x)
 *
 * The bias only affects the choice (V3 balances its experts that way), so it has no gradient here.
 * N rows make N k pairs of a row and an expert for any choice, so the memory is known before the
 * first score:
 *
 *     rows          0       1       2              pairs in the order of experts, then of rows:
 *     experts     2, 5    0, 2    2, 7             (0,1) | (2,0) (2,1) (2,2) | (5,0) | (7,2)
 *
 * A row's output is the sum over its experts in ascending order; other rows of the same experts do
 * not affect it.
 *
 *     dw_j = dy . y_j    dy_j = w_j dy    ds_e_j = c dw_j, or c (dw_j - sum_l dw_l s_l / S) / S
 *     dz = s (ds - sum_e ds_e s_e), or ds s (1 - s)    dx = dz Wr + sum_j dx_j    dWr = dz^T x
 *
 * and each expert as in glu.c. Backward overwrites forward's saved values: y with dy, a, g, u and x
 * with their gradients, s with dz. */
#include "ops/adapt.h"
#include "ops/ops.h"

#include "tensor/tape.h"

#include <assert.h>
#include <string.h>

enum { X, ROUTER, ROUTER_BIAS, BIAS };

typedef struct pairs {
    const experts *w;
    const routing *how;
    int layer;
    int32_t *chosen;       /* [N, k] experts of a row, ascending */
    int32_t *place;        /* [N, k] position of the pair in the sorted order */
    int32_t *first;        /* [n_expert + 1] the first pair of every expert */
    tensor *score;         /* [N, n_expert] */
    tensor *share;         /* [N, k] w */
    tensor *x, *y;         /* [N k, D] for every pair; shared memory, unless recorded */
    tensor *gate, *up, *a; /* [N k, F]; gate and a likewise */
} pairs;

/* ---- route ----------------------------------------------------------------------------------- */

/* The score of a group: its best expert, or its two best. */
static real group_score(const routing *how, const real *s, int64_t n)
{
    real best = -INFINITY, second = -INFINITY;
    for (int64_t e = 0; e < n; e++) {
        second = s[e] > best ? best : s[e] > second ? s[e] : second;
        best = s[e] > best ? s[e] : best;
    }
    return how->kind == ROUTE_SIGMOID && n > 1 ? best + second : best;
}

/* Marks the n best of s; the first of equals. */
static void mark_best(const real *s, int64_t of, int64_t n, bool *best)
{
    for (int64_t e = 0; e < of; e++)
        best[e] = false;
    for (int64_t i = 0; i < n; i++) {
        int64_t at = -1;
        for (int64_t e = 0; e < of; e++)
            if (!best[e] && (at < 0 || s[e] > s[at]))
                at = e;
        best[at] = true;
    }
}

/* Experts of groups that are not among the best cannot be chosen. */
static void close_groups(const routing *how, real *s)
{
    const int64_t G = how->n_group, n = how->n_expert / G;
    real score[MAX_EXPERT];
    bool open[MAX_EXPERT];
    if (how->n_group_used == G)
        return;
    for (int64_t g = 0; g < G; g++)
        score[g] = group_score(how, s + g * n, n);
    mark_best(score, G, how->n_group_used, open);
    for (int64_t e = 0; e < how->n_expert; e++)
        s[e] = open[e / n] ? s[e] : -INFINITY;
}

static void choose_experts(const routing *how, const real *score, const real *bias, int32_t *chosen)
{
    real s[MAX_EXPERT];
    bool best[MAX_EXPERT];
    for (int64_t e = 0; e < how->n_expert; e++)
        s[e] = score[e] + (bias ? bias[e] : 0);
    close_groups(how, s);
    mark_best(s, how->n_expert, how->n_used, best);
    for (int32_t e = 0; e < how->n_expert; e++)
        if (best[e])
            *chosen++ = e;
}

static real chosen_sum(const routing *how, const real *score, const int32_t *chosen)
{
    real sum = how->epsilon;
    for (int64_t j = 0; j < how->n_used; j++)
        sum += score[chosen[j]];
    return sum;
}

static void route_rows(const run *r, const void *ctx, int64_t i0, int64_t i1)
{
    const node *n = ctx;
    const pairs *p = n->arg;
    const routing *how = p->how;
    const int64_t k = how->n_used;
    for (int64_t i = i0; i < i1; i++) {
        real *s = row(p->score, i), max;
        int32_t *chosen = p->chosen + i * k;
        const real sum = how->kind == ROUTE_SOFTMAX ? r->kern->exp_block(s, how->n_expert, 1, &max)
                                                    : 0;
        if (how->kind == ROUTE_SIGMOID)
            r->kern->activate(s, s, ACT_SIGMOID, how->n_expert);
        for (int64_t e = 0; how->kind == ROUTE_SOFTMAX && e < how->n_expert; e++)
            s[e] /= sum;
        choose_experts(how, s, values(n->in[BIAS]), chosen);
        const real all = how->normalize ? chosen_sum(how, s, chosen) : 1;
        for (int64_t j = 0; j < k; j++)
            row(p->share, i)[j] = how->scale * s[chosen[j]] / all;
    }
}

/* Sorts pairs by expert, then by row. */
static void sort_pairs(const run *r, const pairs *p, int64_t N)
{
    const int64_t E = p->how->n_expert, n = N * p->how->n_used;
    memset(p->first, 0, (size_t)(E + 1) * sizeof *p->first);
    for (int64_t s = 0; s < n; s++)
        p->first[p->chosen[s] + 1]++;
    for (int64_t e = 0; r->load && r->counting && e < E; e++)
        r->load[p->layer * E + e] += p->first[e + 1];
    for (int64_t e = 0; e < E; e++)
        p->first[e + 1] += p->first[e];
    for (int64_t s = 0; s < n; s++)
        p->place[s] = p->first[p->chosen[s]]++;
    memmove(p->first + 1, p->first, (size_t)E * sizeof *p->first);
    p->first[0] = 0;
}

/* ---- forward --------------------------------------------------------------------------------- */

static void gather_rows(const run *r, const void *ctx, int64_t i0, int64_t i1)
{
    const node *n = ctx;
    (void)r;
    const pairs *p = n->arg;
    const int64_t k = p->how->n_used;
    for (int64_t s = i0 * k; s < i1 * k; s++)
        memcpy(row(p->x, p->place[s]), row(n->in[X], s / k), (size_t)cols(p->x) * sizeof(real));
}

#define PIECE 256 /* columns at a time, on the stack */
#define LIMIT ((real)7)
#define STEEP ((real)1.702)

static real limited(real x)
{
    return x > LIMIT ? LIMIT : x;
}

static real limited_both(real x)
{
    return x > LIMIT ? LIMIT : x < -LIMIT ? -LIMIT : x;
}

/* sigmoid(1.702 g) of limited gates, n <= PIECE */
static void steep_sigmoids(const run *r, const real *g, real *to, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        to[k] = STEEP * limited(g[k]);
    r->kern->activate(to, to, ACT_SIGMOID, n);
}

static void activate_limited(const run *r, real *a, const real *g, const real *u, int64_t n)
{
    real s[PIECE];
    steep_sigmoids(r, g, s, n);
    for (int64_t k = 0; k < n; k++)
        a[k] = limited(g[k]) * s[k] * (limited_both(u[k]) + 1);
}

static void activate_rows(const run *r, const void *ctx, int64_t s0, int64_t s1)
{
    const node *n = ctx;
    const pairs *p = n->arg;
    const int64_t F = cols(p->a);
    for (int64_t s = s0; s < s1; s++) {
        real *a = row(p->a, s);
        const real *g = row(p->gate, s), *u = row(p->up, s);
        for (int64_t c = 0; p->how->act == EXPERT_LIMITED && c < F; c += PIECE)
            activate_limited(r, a + c, g + c, u + c, F - c < PIECE ? F - c : PIECE);
        if (p->how->act == EXPERT_LIMITED)
            continue;
        r->kern->activate(a, g, ACT_SILU, F);
        r->kern->mul(a, a, u, F);
    }
}

static void combine_rows(const run *r, const void *ctx, int64_t i0, int64_t i1)
{
    const node *n = ctx;
    const pairs *p = n->arg;
    const int64_t k = p->how->n_used;
    for (int64_t i = i0; i < i1; i++) {
        real *y = row(n->out, i);
        memset(y, 0, (size_t)cols(n->out) * sizeof *y);
        for (int64_t j = 0; j < k; j++)
            r->kern->axpy(y, row(p->share, i)[j], row(p->y, p->place[i * k + j]), cols(n->out));
    }
}

/* The rows of expert e. */
static matrix of_expert(const pairs *p, const tensor *t, int64_t e)
{
    return some_rows(whole(t), p->first[e], p->first[e + 1] - p->first[e]);
}

static const tensor *gate_of(const pairs *p, int64_t e)
{
    return p->w->part[e];
}

static const tensor *up_of(const pairs *p, int64_t e)
{
    return p->w->part[p->how->n_expert + e];
}

static const tensor *down_of(const pairs *p, int64_t e)
{
    return p->w->part[2 * p->how->n_expert + e];
}

/* The bias of gate, up or down i of all 3 n_expert; or NULL. */
static const tensor *bias_of(const pairs *p, int64_t i)
{
    return p->w->biased ? p->w->part[3 * p->how->n_expert + i] : NULL;
}

static void moe_forward(run *r, const node *n)
{
    const pairs *p = n->arg;
    const int64_t N = rows(n->out), E = p->how->n_expert;
    product(r, whole(p->score), whole(n->in[X]), n->in[ROUTER], n->in[ROUTER_BIAS]);
    parallel(r, N, 8 * E, route_rows, n);
    sort_pairs(r, p, N);
    parallel(r, N, p->how->n_used * cols(p->x), gather_rows, n);
    for (int64_t e = 0; e < E; e++) {
        product(r, of_expert(p, p->gate, e), of_expert(p, p->x, e), gate_of(p, e), bias_of(p, e));
        product(r, of_expert(p, p->up, e), of_expert(p, p->x, e), up_of(p, e), bias_of(p, E + e));
    }
    parallel(r, rows(p->a), 8 * cols(p->a), activate_rows, n);
    for (int64_t e = 0; e < E; e++)
        product(r, of_expert(p, p->y, e), of_expert(p, p->a, e), down_of(p, e),
                bias_of(p, 2 * E + e));
    parallel(r, N, p->how->n_used * cols(p->y), combine_rows, n);
}

/* ---- backward -------------------------------------------------------------------------------- */

/* Overwrites s with dz, y_j with dy_j. */
static void unroute_rows(const run *r, const void *ctx, int64_t i0, int64_t i1)
{
    const node *n = ctx;
    const pairs *p = n->arg;
    const routing *how = p->how;
    const int64_t k = how->n_used, D = cols(n->out);
    for (int64_t i = i0; i < i1; i++) {
        const real *dy = grad_row(n->out, i);
        const int32_t *chosen = p->chosen + i * k;
        real *s = row(p->score, i), *share = row(p->share, i), ds[MAX_EXPERT] = { 0 }, sum = 0;
        const real all = how->normalize ? chosen_sum(how, s, chosen) : 1;
        for (int64_t j = 0; j < k; j++) {
            real *y = row(p->y, p->place[i * k + j]);
            ds[chosen[j]] = r->kern->dot(dy, y, D);
            sum += ds[chosen[j]] * s[chosen[j]] / all;
            for (int64_t c = 0; c < D; c++)
                y[c] = share[j] * dy[c];
        }
        for (int64_t j = 0; j < k; j++)
            ds[chosen[j]] = how->scale * (ds[chosen[j]] - (how->normalize ? sum : 0)) / all;
        const real mean = how->kind == ROUTE_SOFTMAX ? r->kern->dot(ds, s, how->n_expert) : 0;
        for (int64_t e = 0; e < how->n_expert; e++)
            s[e] *= how->kind == ROUTE_SOFTMAX ? ds[e] - mean : ds[e] * (1 - s[e]);
    }
}

/* The same for one piece of the other activation. */
static void unactivate_limited(const run *r, const real *da, real *g, real *u, int64_t n)
{
    real s[PIECE];
    steep_sigmoids(r, g, s, n);
    for (int64_t k = 0; k < n; k++) {
        const real gate = limited(g[k]), up = limited_both(u[k]) + 1;
        const bool flat_g = g[k] > LIMIT, flat_u = u[k] > LIMIT || u[k] < -LIMIT;
        g[k] = flat_g ? 0 : da[k] * up * s[k] * (1 + STEEP * gate * (1 - s[k]));
        u[k] = flat_u ? 0 : da[k] * gate * s[k];
    }
}

/* Overwrites g and u with dg and du; a is da. */
static void unactivate_rows(const run *r, const void *ctx, int64_t s0, int64_t s1)
{
    const node *n = ctx;
    const pairs *p = n->arg;
    const int64_t F = cols(p->a);
    for (int64_t s = s0; s < s1; s++)
        for (int64_t c = 0; c < F; c += PIECE) {
            real *g = row(p->gate, s) + c, *u = row(p->up, s) + c, a[PIECE], through[PIECE];
            const real *da = row(p->a, s) + c;
            const int64_t w = F - c < PIECE ? F - c : PIECE;
            if (p->how->act == EXPERT_LIMITED) {
                unactivate_limited(r, da, g, u, w);
                continue;
            }
            r->kern->activate(a, g, ACT_SILU, w);
            r->kern->mul(through, da, u, w);
            r->kern->activate_back(g, g, through, ACT_SILU, w);
            r->kern->mul(u, da, a, w);
        }
}

static void scatter_rows(const run *r, const void *ctx, int64_t i0, int64_t i1)
{
    const node *n = ctx;
    const pairs *p = n->arg;
    const int64_t k = p->how->n_used;
    for (int64_t s = i0 * k; s < i1 * k; s++) {
        real *dx = grad_row(n->in[X], s / k);
        r->kern->add(dx, dx, row(p->x, p->place[s]), cols(p->x));
    }
}

static void moe_weight_back(run *r, const tensor *w, const tensor *b, matrix dy, matrix x)
{
    if (w->needs_grad)
        product_dw(r, w, w->grad_written, dy, x);
    if (b && b->needs_grad)
        product_db(r, b, b->grad_written, dy);
}

static void moe_backward(run *r, const node *n)
{
    const pairs *p = n->arg;
    const tensor *x = n->in[X], *router = n->in[ROUTER];
    const int64_t N = rows(n->out), E = p->how->n_expert, k = p->how->n_used;
    grad_clear(n->in[BIAS]);
    parallel(r, N, 4 * k * cols(p->y), unroute_rows, n);
    for (int64_t e = 0; e < E; e++) {
        const matrix dy = of_expert(p, p->y, e), a = of_expert(p, p->a, e);
        moe_weight_back(r, down_of(p, e), bias_of(p, 2 * E + e), dy, a);
        product_dx(r, a, false, dy, down_of(p, e));
    }
    parallel(r, rows(p->a), 16 * cols(p->a), unactivate_rows, n);
    for (int64_t e = 0; e < E; e++) {
        const matrix dg = of_expert(p, p->gate, e), du = of_expert(p, p->up, e);
        const matrix in = of_expert(p, p->x, e);
        moe_weight_back(r, gate_of(p, e), bias_of(p, e), dg, in);
        moe_weight_back(r, up_of(p, e), bias_of(p, E + e), du, in);
        product_dx(r, in, false, dg, gate_of(p, e));
        product_dx(r, in, true, du, up_of(p, e));
    }
    moe_weight_back(r, router, n->in[ROUTER_BIAS], some_rows(whole(p->score), 0, N), whole(x));
    if (!x->needs_grad)
        return;
    product_dx(r, whole_grad(x), x->grad_written, some_rows(whole(p->score), 0, N), router);
    parallel(r, N, k * cols(x), scatter_rows, n);
}

/* Only chosen experts are read, each at most once. */
static cost moe_cost(const run *r, const node *n)
{
    (void)r;
    const pairs *p = n->arg;
    const double N = (double)rows(n->out), k = (double)p->how->n_used, D = (double)cols(n->out);
    const double F = (double)cols(p->a), E = (double)p->how->n_expert;
    const dtype *type = gate_of(p, 0)->type;
    const double read = (N * k < E ? N * k : E) * 3 * D * F * type->bytes / type->block;
    return (cost){ .flops = 2 * N * D * (3 * F * k + E),
                   .bytes = read + 2 * N * D * sizeof(real),
                   .type = type,
                   .read = read };
}

extern const op moe_op;
const op moe_op = { "moe", "y = sum_j w_j expert_j(x),  w, j = route(x)", moe_forward, moe_backward,
                    moe_cost };

/* ---- opened, only for a trace ---------------------------------------------------------------- */

static void show_scores(run *r, const node *n)
{
    (void)r;
    const pairs *p = n->arg;
    for (int64_t i = 0; i < rows(n->out); i++)
        memcpy(row(n->out, i), row(p->score, i), (size_t)cols(n->out) * sizeof(real));
}

static void show_shares(run *r, const node *n)
{
    (void)r;
    const pairs *p = n->arg;
    for (int64_t i = 0; i < rows(n->out); i++)
        memcpy(row(n->out, i), row(p->share, i), (size_t)cols(n->out) * sizeof(real));
}

static void show_chosen(run *r, const node *n)
{
    (void)r;
    const pairs *p = n->arg;
    const int64_t k = cols(n->out);
    for (int64_t s = 0; s < rows(n->out) * k; s++)
        row(n->out, s / k)[s % k] = (real)p->chosen[s];
}

/* Row i k + j is about the j-th expert of row i. */
static void show_pairs(run *r, const node *n)
{
    (void)r;
    const pairs *p = n->arg;
    for (int64_t s = 0; s < rows(n->out); s++)
        memcpy(row(n->out, s), row(n->in[0], p->place[s]), (size_t)cols(n->out) * sizeof(real));
}

static cost show_cost(const run *r, const node *n)
{
    (void)r;
    return cost_streaming(n, 0);
}

extern const op route_scores_op, route_chosen_op, route_shares_op, expert_gate_op, expert_up_op,
    expert_act_op, expert_out_op;
const op route_scores_op = { "route_scores", "s = softmax(Wr x + br), or sigmoid", show_scores,
                             NULL, show_cost };
const op route_chosen_op = { "route_chosen", "e_1 .. e_k where s + bias is largest", show_chosen,
                             NULL, show_cost };
const op route_shares_op = { "route_shares", "w_j = c s_e_j, or c s_e_j / sum_l s_e_l", show_shares,
                             NULL, show_cost };
const op expert_gate_op = { "expert_gate", "g = G_e x", show_pairs, NULL, show_cost };
const op expert_up_op = { "expert_up", "u = U_e x", show_pairs, NULL, show_cost };
const op expert_act_op = { "expert_act", "a = act(g) * u", show_pairs, NULL, show_cost };
const op expert_out_op = { "expert_out", "y = D_e a", show_pairs, NULL, show_cost };

static void show_part(run *r, const pairs *p, const op *by, const char *name, tensor *in,
                      int64_t n_row, int64_t n_col)
{
    node n = { .op = by, .local = name, .in = { in }, .arg = p };
    n.out = tensor_new(r, n_row, n_col);
    apply(r, &n);
}

static void moe_show(run *r, const pairs *p)
{
    const int64_t N = rows(p->score), k = p->how->n_used, F = cols(p->gate);
    const aside was = aside_begin(r);
    show_part(r, p, &route_scores_op, "moe.scores", p->score, N, p->how->n_expert);
    show_part(r, p, &route_chosen_op, "moe.chosen", p->share, N, k);
    show_part(r, p, &route_shares_op, "moe.shares", p->share, N, k);
    show_part(r, p, &expert_gate_op, "moe.gate", p->gate, N * k, F);
    show_part(r, p, &expert_up_op, "moe.up", p->up, N * k, F);
    show_part(r, p, &expert_act_op, "moe.act", p->a, N * k, F);
    show_part(r, p, &expert_out_op, "moe.out", p->y, N * k, cols(p->y));
    aside_end(r, was);
}

/* ---- the op ---------------------------------------------------------------------------------- */

static int32_t *indices(run *r, int64_t n)
{
    return arena_alloc(&r->data, (size_t)n * sizeof(int32_t), NULL);
}

static pairs *pairs_new(run *r, int64_t N, int64_t D, const experts *w, const routing *how)
{
    const int64_t E = how->n_expert, n = N * how->n_used, F = rows(w->part[0]);
    pairs *p = arena_alloc(&r->meta, sizeof *p, NULL);
    *p = (pairs){ .w = w, .how = how };
    p->chosen = indices(r, n);
    p->place = indices(r, n);
    p->first = indices(r, E + 1);
    p->score = tensor_new(r, N, E);
    p->share = tensor_new(r, N, how->n_used);
    p->x = tensor_new(r, n, D);
    p->gate = tensor_new(r, n, F);
    p->up = tensor_new(r, n, F);
    p->a = r->tape || r->show.open ? tensor_new(r, n, F) : p->gate;
    p->y = r->tape ? tensor_new(r, n, D) : p->x;
    return p;
}

tensor *moe(run *r, tensor *x, const experts *w, const routing *how, int layer)
{
    assert(how->n_used <= how->n_expert && how->n_expert <= MAX_EXPERT);
    assert(cols(x) == cols(w->router) && how->n_expert == rows(w->router));
    node n = { .op = &moe_op, .local = "moe", .in = { x, w->router, w->router_bias, w->bias } };
    n.more = w->part;
    n.n_more = (w->biased ? 6 : 3) * how->n_expert;
    n.out = tensor_new(r, rows(x), cols(x));
    pairs *p = pairs_new(r, rows(x), cols(x), w, how);
    p->layer = layer;
    n.arg = p;
    product_plan(r, rows(x), w->router);
    for (int64_t i = 0; i < 3 * how->n_expert; i++)
        product_plan(r, rows(x), w->part[i]);
    tensor *y = apply(r, &n);
    if (r->show.open)
        moe_show(r, p);
    return y;
}
