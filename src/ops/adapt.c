/* adapt.c - what adapters add, group by group: neighbouring rows with one adapter. */
#include "ops/adapt.h"

#include "tensor/tape.h"

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

/* Scratch memory for n rows: A x, then a left side as products pack it. */
static size_t adapt_bytes(const run *r, int64_t n_row, const tensor *w)
{
    const int64_t rank = w->slot && r->at.batch ? r->at.batch->rank : 0;
    const int64_t each = rank > 0 ? 2 * rank + cols(w) : 0;
    return (size_t)(n_row * each) * sizeof(real) + (rank > 0 ? 2 * SIDE_ALIGN : 0);
}

static void *aligned(void *at)
{
    return (void *)(((uintptr_t)at + SIDE_ALIGN - 1) / SIDE_ALIGN * SIDE_ALIGN);
}

/* y += s B t (+ s c), then y *= g; t is overwritten. */
static void add_low_rank(run *r, matrix y, matrix t, const group *g, void *room)
{
    const lora *p = g->p;
    for (int64_t i = 0; i < t.rows; i++)
        for (int64_t k = 0; k < t.cols; k++)
            t.at[i * t.stride + k] *= g->scale;
    product_f32(r, y, true, t, &p->b, room);
    for (int64_t i = 0; i < y.rows; i++) {
        real *row = y.at + i * y.stride;
        if (p->bias)
            r->kern->axpy(row, g->scale, p->bias, y.cols);
        if (p->gain)
            r->kern->mul(row, row, p->gain, y.cols);
    }
}

static matrix low_rank_of(void *room, const group *g)
{
    const int64_t rank = rows(&g->p->a);
    return (matrix){ .at = aligned(room), .rows = g->n, .cols = rank, .stride = rank };
}

static void *after(matrix t)
{
    return aligned(t.at + t.rows * t.cols);
}

static void add_bias(run *r, matrix y, const tensor *bias)
{
    for (int64_t i = 0; bias && i < y.rows; i++)
        r->kern->add(y.at + i * y.stride, y.at + i * y.stride, values(bias), y.cols);
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
            const matrix t = low_rank_of(room, &g);
            product_f32(r, t, false, some_rows(x, g.first, g.n), &g.p->a, after(t));
            add_low_rank(r, to, t, &g, after(t));
        }
        add_bias(r, to, gain ? bias : NULL);
    }
}

/* ---- for ops --------------------------------------------------------------------------------- */

void product_plan(run *r, int64_t n_row, const tensor *w)
{
    scratch_need(r, product_bytes(r, n_row, w) + adapt_bytes(r, n_row, w));
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
    adapt(r, y, x, w, later ? bias : NULL, (char *)r->work + product_bytes(r, x.rows, w));
}

void table_plan(run *r, int64_t n_row, const tensor *table)
{
    scratch_need(r, adapt_bytes(r, n_row, table));
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
        const tensor *a = &g.p->a;
        const size_t row_bytes = dtype_row_bytes(a->type, cols(a));
        const matrix t = low_rank_of(r->work, &g);
        for (int64_t i = 0; i < g.n; i++)
            for (int64_t c = 0; c < t.cols; c++)
                a->type->decode(t.at + i * t.stride + c,
                                (const char *)a->data + (size_t)c * row_bytes,
                                index_of(r, ctx, g.first + i), 1);
        add_low_rank(r, some_rows(y, g.first, g.n), t, &g, after(t));
    }
}
