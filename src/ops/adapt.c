/* adapt.c - what adapters add, group by group: neighbouring rows with one adapter. */
#include "ops/adapt.h"

#include "base/rng.h"
#include "tensor/tape.h"

#include <assert.h>

/* ---- groups ---------------------------------------------------------------------------------- */

/* The rows of a batch that the rows of a matrix belong to, in order. */
typedef struct row_walk {
    const batch *b;
    int64_t at; /* in the batch; n_row: there is none */
    bool wanted;
} row_walk;

static void walk_to_wanted(row_walk *k)
{
    while (k->wanted && k->at < k->b->n_row && !k->b->row[k->at].wanted)
        k->at++;
}

static void walk_on(row_walk *k)
{
    k->at++;
    walk_to_wanted(k);
}

static row_walk walk_from(row_range of)
{
    row_walk k = { .b = of.batch, .wanted = of.wanted };
    walk_to_wanted(&k);
    for (int64_t i = 0; i < of.first; i++)
        walk_on(&k);
    return k;
}

static adaption walk_adaption(const row_walk *k)
{
    return k->at < k->b->n_row ? k->b->seq[k->b->row[k->at].seq].adapted : (adaption){ 0 };
}

/* Rows [first, first + n) of a matrix, and what an adapter adds; NULL: they have none. */
typedef struct group {
    int64_t first, n;
    const lora *p;
    real scale;
} group;

static const lora *lora_of(adaption a, const tensor *w, bool table)
{
    return !a.set || a.strength == 0 ? NULL : (table ? a.set->table : a.set->matrix)[w->slot];
}

/* The next group of a matrix of `rows` rows; false: there is none. */
static bool next_group(row_walk *k, int64_t rows, const tensor *w, bool table, group *g)
{
    g->first += g->n;
    if (g->first >= rows)
        return false;
    const adaption a = walk_adaption(k);
    for (g->n = 0; g->first + g->n < rows && same_adaption(a, walk_adaption(k)); g->n++)
        walk_on(k);
    g->p = lora_of(a, w, table);
    g->scale = g->p ? g->p->scale * a.strength : 0;
    return true;
}

static bool any_group(row_range of, int64_t rows, const tensor *w, bool table, bool with_gain)
{
    if (!w->slot || !of.batch || of.batch->rank == 0)
        return false;
    row_walk k = walk_from(of);
    group g = { 0 };
    while (next_group(&k, rows, w, table, &g))
        if (g.p && (!with_gain || g.p->gain))
            return true;
    return false;
}

/* ---- arithmetic ------------------------------------------------------------------------------ */

/* Scratch memory for n rows: x with dropout, A x, in backward dy B, then a left side as products
 * pack it, at most `widest` numbers a row. */
static size_t adapt_bytes(const run *r, int64_t n_row, const tensor *w, int64_t widest)
{
    const int64_t rank = w->slot && r->at.batch ? r->at.batch->rank : 0;
    const int64_t dropped = r->lora_dropout > 0 ? cols(w) : 0;
    const int64_t each = rank > 0 ? dropped + 3 * rank + widest : 0;
    return (size_t)(n_row * each) * sizeof(real) + (rank > 0 ? 4 * SIDE_ALIGN : 0);
}

static void *aligned(void *at)
{
    return (void *)(((uintptr_t)at + SIDE_ALIGN - 1) / SIDE_ALIGN * SIDE_ALIGN);
}

static void multiply(matrix m, real by)
{
    for (int64_t i = 0; i < m.rows; i++)
        for (int64_t k = 0; k < m.cols; k++)
            m.at[i * m.stride + k] *= by;
}

/* What rows get after both products: s c, then g, then b. */
typedef struct row_end {
    matrix y;
    real scale;
    const real *shift, *gain, *bias; /* or NULL */
} row_end;

static void end_rows(const run *r, const void *ctx, int64_t i0, int64_t i1)
{
    const row_end *e = ctx;
    for (int64_t i = i0; i < i1; i++) {
        real *row = e->y.at + i * e->y.stride;
        if (e->shift)
            r->kern->axpy(row, e->scale, e->shift, e->y.cols);
        if (e->gain)
            r->kern->mul(row, row, e->gain, e->y.cols);
        if (e->bias)
            r->kern->add(row, row, e->bias, e->y.cols);
    }
}

/* y += s B t (+ s c), then y *= g and y += bias; t is overwritten. The outputs are those of W from row
 * `row0` on. */
static void add_low_rank(run *r, matrix y, matrix t, const group *g, int64_t row0,
                         const tensor *bias, void *room)
{
    const lora *p = g->p;
    const tensor b = tensor_rows(p->b, row0, y.cols);
    const row_end e = { .y = y,
                        .scale = g->scale,
                        .shift = p->bias ? p->bias + row0 : NULL,
                        .gain = p->gain ? p->gain + row0 : NULL,
                        .bias = values(bias) };
    multiply(t, g->scale);
    product_f32(r, y, true, t, &b, room);
    if (e.shift || e.gain || e.bias)
        parallel(r, y.rows, 3 * y.cols, end_rows, &e);
}

static matrix matrix_in(void *room, int64_t n_row, int64_t n_col)
{
    return (matrix){ .at = aligned(room), .rows = n_row, .cols = n_col, .stride = n_col };
}

static matrix low_rank_of(void *room, const group *g)
{
    return matrix_in(room, g->n, rows(g->p->a));
}

static void *after(matrix t)
{
    return aligned(t.at + t.rows * t.cols);
}

/* ---- dropout --------------------------------------------------------------------------------- */

#define LORA_STREAM ((uint64_t)1 << 62) /* its random numbers' streams; ops have smaller ones */

typedef struct dropping {
    matrix to, from;
    uint64_t stream;
    bool add;
} dropping;

static void drop_rows(const run *r, const void *ctx, int64_t i0, int64_t i1)
{
    const dropping *d = ctx;
    const real p = r->lora_dropout, keep = 1 / (1 - p);
    for (int64_t i = i0; i < i1; i++) {
        real *to = d->to.at + i * d->to.stride;
        const real *from = d->from.at + i * d->from.stride;
        const int64_t first = (d->from.of.first + i) * d->from.cols;
        for (int64_t k = 0; k < d->from.cols; k++) {
            const bool kept = (real)rng_uniform(r->key, d->stream, (uint64_t)(first + k)) >= p;
            grad_put(&to[k], d->add, kept ? from[k] * keep : 0);
        }
    }
}

/* to (+)= from m / (1 - p); the rows are those of x. */
static void drop(run *r, matrix to, bool add, matrix from, matrix x, const tensor *w)
{
    dropping d = { to, from, LORA_STREAM + (uint64_t)w->slot, add };
    d.from.of = x.of;
    parallel(r, from.rows, 8 * from.cols, drop_rows, &d);
}

/* x as A is multiplied with it: x itself, or a copy in *room, which moves past it. */
static matrix dropped(run *r, matrix x, const tensor *w, void **room)
{
    if (!(r->lora_dropout > 0))
        return x;
    const matrix to = matrix_in(*room, x.rows, x.cols);
    drop(r, to, false, x, x, w);
    *room = after(to);
    return to;
}

/* ---- forward --------------------------------------------------------------------------------- */

static void add_bias(run *r, matrix y, const tensor *bias)
{
    const row_end e = { .y = y, .bias = values(bias) };
    if (bias)
        parallel(r, y.rows, y.cols, end_rows, &e);
}

/* y is the product, with its bias unless that is given: it comes before what an adapter adds, but
 * after a gain. */
static void adapt(run *r, matrix y, matrix x, const tensor *w, const tensor *bias, void *room)
{
    row_walk k = walk_from(x.of);
    group g = { 0 };
    while (next_group(&k, x.rows, w, false, &g)) {
        const matrix to = some_rows(y, g.first, g.n);
        const bool gain = g.p && g.p->gain;
        add_bias(r, to, gain ? NULL : bias);
        if (g.p) {
            void *at = room;
            const matrix in = dropped(r, some_rows(x, g.first, g.n), w, &at);
            const matrix t = low_rank_of(at, &g);
            product_f32(r, t, false, in, g.p->a, after(t));
            add_low_rank(r, to, t, &g, w->slot_row, gain ? bias : NULL, after(t));
        }
    }
}

/* ---- backward -------------------------------------------------------------------------------- */

/* The adapter of w that the batch trains, or NULL. */
static const lora *trained_lora(const run *r, const tensor *w, bool table)
{
    const batch *b = r->at.batch;
    for (int32_t s = 0; b && b->rank > 0 && w->slot && s < b->n_seq; s++) {
        const lora *p = lora_of(b->seq[s].adapted, w, table);
        if (p)
            return p->a->needs_grad || p->b->needs_grad ? p : NULL;
    }
    return NULL;
}

void adapt_inputs(run *r, node *n, const tensor *w, bool table)
{
    const lora *p = r->tape || r->counting ? trained_lora(r, w, table) : NULL;
    if (!p)
        return;
    tensor **all = arena_alloc(&r->meta, (size_t)(n->n_more + 3) * sizeof *all, NULL);
    for (int64_t i = 0; i < n->n_more; i++)
        all[i] = n->more[i];
    all[n->n_more++] = p->a;
    all[n->n_more++] = p->b;
    if (p->m)
        all[n->n_more++] = p->m;
    n->more = all;
}

/* Outputs of one group, through their gains. */
typedef struct gain_job {
    matrix y, dy;
    const real *gain, *bias, *m;
    real *dm; /* or NULL */
    bool add;
} gain_job;

#define COLUMNS 64 /* one thread sums an output's rows, in ascending order */

static void gain_columns(const run *r, const void *ctx, int64_t o0, int64_t o1)
{
    (void)r;
    const gain_job *j = ctx;
    for (int64_t o = o0; o < o1; o += COLUMNS) {
        const int64_t width = o1 - o < COLUMNS ? o1 - o : COLUMNS;
        real sum[COLUMNS] = { 0 };
        for (int64_t i = 0; i < j->dy.rows; i++) {
            const real *y = j->y.at + i * j->y.stride + o;
            real *dy = j->dy.at + i * j->dy.stride + o;
            for (int64_t k = 0; k < width; k++) {
                sum[k] += dy[k] * (j->bias ? y[k] - j->bias[o + k] : y[k]);
                dy[k] *= j->gain[o + k];
            }
        }
        for (int64_t k = 0; j->dm && k < width; k++)
            grad_put(&j->dm[o + k], j->add, j->m[o + k] != 0 ? sum[k] / j->m[o + k] : 0);
    }
}

/* dm, then dy *= g, where there are gains. A group whose gains are trained has all rows. */
static void gains_back(run *r, const tensor *x, matrix y, matrix dy, const tensor *w,
                       const tensor *bias)
{
    row_walk k = walk_from(x->of);
    group g = { 0 };
    while (next_group(&k, dy.rows, w, false, &g)) {
        if (!g.p || !g.p->gain)
            continue;
        gain_job job = { .y = some_rows(y, g.first, g.n),
                         .dy = some_rows(dy, g.first, g.n),
                         .gain = g.p->gain + w->slot_row,
                         .bias = values(bias) };
        if (g.p->m && g.p->m->needs_grad) {
            assert(g.n == dy.rows);
            job.m = values(g.p->m) + w->slot_row;
            job.dm = g.p->m->grad + w->slot_row;
            job.add = g.p->m->grad_written;
        }
        parallel(r, dy.cols, 2 * g.n, gain_columns, &job);
    }
}

/* One group; t = s x A^T, u = s dy B. `more`: A's gradient holds the part of other outputs. */
static void group_back(run *r, matrix dx, matrix dy, matrix x, const tensor *w, const group *g,
                       bool more)
{
    const lora *p = g->p;
    const tensor b = tensor_rows(p->b, w->slot_row, dy.cols);
    void *room = r->work;
    const matrix in = dropped(r, x, w, &room), t = low_rank_of(room, g);
    const matrix u = low_rank_of(after(t), g);
    room = after(u);
    product_f32(r, t, false, in, p->a, room);
    multiply(t, g->scale);
    product_f32_dx(r, u, false, dy, &b, room);
    multiply(u, g->scale);
    if (b.needs_grad)
        product_f32_dw(r, &b, b.grad_written, dy, t, room);
    if (p->a->needs_grad)
        product_f32_dw(r, p->a, more || p->a->grad_written, u, in, room);
    if (!dx.at)
        return;
    if (in.at == x.at) {
        product_f32_dx(r, dx, true, u, p->a, room);
    } else {
        product_f32_dx(r, in, false, u, p->a, room);
        drop(r, dx, true, in, x, w);
    }
}

/* Gradients of all groups. A group that is trained has all rows. */
static void adapt_back(run *r, const tensor *x, matrix dy, const tensor *w, bool more)
{
    row_walk k = walk_from(x->of);
    group g = { 0 };
    r->packed = (packed_rows){ 0 };
    while (next_group(&k, dy.rows, w, false, &g)) {
        if (!g.p)
            continue;
        assert(g.n == dy.rows || !g.p->a->needs_grad);
        matrix dx = { 0 };
        if (x->needs_grad)
            dx = some_rows(whole_grad(x), g.first, g.n);
        group_back(r, dx, some_rows(dy, g.first, g.n), some_rows(whole(x), g.first, g.n), w, &g,
                   more);
    }
}

/* u [N, r] is added to the columns of dA that rows of the table were made of. */
typedef struct table_back {
    const lora *p;
    matrix u;
    index_fn *index_of;
    const void *ctx;
} table_back;

/* Threads split the rows of A, so one thread sums all occurrences of an index. */
static void collect_rank(const run *r, const void *ctx, int64_t k0, int64_t k1)
{
    const table_back *t = ctx;
    const tensor *a = t->p->a;
    for (int64_t k = k0; k < k1; k++) {
        for (int64_t v = 0; !a->grad_written && v < cols(a); v++)
            grad_row(a, k)[v] = 0;
        for (int64_t i = 0; i < t->u.rows; i++)
            grad_row(a, k)[t->index_of(r, t->ctx, i)] += t->u.at[i * t->u.stride + k];
    }
}

/* t = rows of A^T */
static void take_columns(const run *r, matrix t, const group *g, index_fn *index_of,
                         const void *ctx)
{
    const tensor *a = g->p->a;
    const size_t row_bytes = dtype_row_bytes(a->type, cols(a));
    for (int64_t i = 0; i < g->n; i++)
        for (int64_t c = 0; c < t.cols; c++)
            a->type->decode(t.at + i * t.stride + c, (const char *)a->data + (size_t)c * row_bytes,
                            index_of(r, ctx, g->first + i), 1);
}

/* ---- for ops --------------------------------------------------------------------------------- */

void product_plan(run *r, int64_t n_row, const tensor *w)
{
    const int64_t widest = r->tape && rows(w) > cols(w) ? rows(w) : cols(w);
    scratch_need(r, product_bytes(r, n_row, w) + adapt_bytes(r, n_row, w, widest));
}

void product_plan_both(run *r, int64_t n_row, const tensor *w)
{
    const int64_t widest = cols(w) > rows(w) ? cols(w) : rows(w);
    product_plan(r, n_row, w);
    scratch_need(r, pack_bf16_bytes(n_row, whole_groups(widest)));
}

void product(run *r, matrix y, matrix x, const tensor *w, const tensor *bias)
{
    if (!any_group(x.of, x.rows, w, false, false)) {
        product_plain(r, y, x, w, bias);
        return;
    }
    const bool later = any_group(x.of, x.rows, w, false, true); /* some row has a gain */
    product_plain(r, y, x, w, later ? NULL : bias);
    adapt(r, y, x, w, later ? bias : NULL, (char *)r->work + product_forward_bytes(x.rows, w));
}

bool product_has_gain(const run *r, const tensor *w)
{
    const batch *b = r->at.batch;
    for (int32_t s = 0; b && b->rank > 0 && w->slot && s < b->n_seq; s++) {
        const lora *p = lora_of(b->seq[s].adapted, w, false);
        if (p && p->gain)
            return true;
    }
    return false;
}

bool product_shares_a(const run *r, const tensor *w, const tensor *other)
{
    const lora *p = trained_lora(r, w, false), *q = trained_lora(r, other, false);
    return p && q && p->a == q->a;
}

void product_back(run *r, const tensor *x, bool add, matrix y, matrix dy, const tensor *w,
                  const tensor *b, bool more)
{
    if (b && b->needs_grad)
        product_db(r, b, b->grad_written, dy);
    if (product_has_gain(r, w))
        gains_back(r, x, y, dy, w, b);
    if (x->needs_grad)
        product_dx(r, whole_grad(x), add, dy, w);
    if (w->needs_grad)
        product_dw(r, w, w->grad_written, dy, whole(x));
    if (any_group(x->of, dy.rows, w, false, false))
        adapt_back(r, x, dy, w, more);
}

/* No product has the table's rows as terms: A's columns are looked up. */
void table_plan(run *r, int64_t n_row, const tensor *table)
{
    scratch_need(r, adapt_bytes(r, n_row, table, cols(table)));
}

void adapt_table(run *r, matrix y, const tensor *table, index_fn *index_of, const void *ctx)
{
    if (!any_group(y.of, y.rows, table, true, false))
        return;
    row_walk k = walk_from(y.of);
    group g = { 0 };
    r->packed = (packed_rows){ 0 };
    while (next_group(&k, y.rows, table, true, &g)) {
        if (!g.p)
            continue;
        const matrix t = low_rank_of(r->work, &g);
        take_columns(r, t, &g, index_of, ctx);
        add_low_rank(r, some_rows(y, g.first, g.n), t, &g, 0, NULL, after(t));
    }
}

void adapt_table_back(run *r, matrix dy, const tensor *table, index_fn *index_of, const void *ctx)
{
    const lora *p = trained_lora(r, table, true);
    row_walk k = walk_from(dy.of);
    group g = { 0 };
    if (!p || !next_group(&k, dy.rows, table, true, &g))
        return;
    assert(g.p == p && g.n == dy.rows && !p->gain);
    const matrix t = low_rank_of(r->work, &g), u = low_rank_of(after(t), &g);
    void *room = after(u);
    r->packed = (packed_rows){ 0 };
    take_columns(r, t, &g, index_of, ctx);
    multiply(t, g.scale);
    product_f32_dx(r, u, false, dy, p->b, room);
    multiply(u, g.scale);
    product_f32_dw(r, p->b, p->b->grad_written, dy, t, room);
    const table_back back = { p, u, index_of, ctx };
    parallel(r, u.cols, u.rows + cols(p->a), collect_rank, &back);
}
