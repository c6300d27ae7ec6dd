/* product.c - splits a product among threads, and packs its left side once for all of them.
 *
 *          panels of W (columns of y), `right` parts
 *          +-------+-------+-------+
 *     rows |  0,0  |  0,1  |  0,2  |    forward: a part makes its panels from W, so threads share
 *     of x +-------+-------+-------+    the columns, and cut the rows only where columns are few.
 *     `left`  1,0  |  1,1  |  1,2  |    backward: W lies ready, so the rows are cut first.
 *          +-------+-------+-------+
 *
 * No sum is split: one thread computes each value of y in one order, for any number of threads. */
#include "ops/product.h"

#include "tensor/tape.h"

#include <assert.h>

/* One product, shared by the parallel functions. */
typedef struct job {
    matrix y, x; /* the output; the left side */
    row_set w;
    int64_t i_step, j_step;       /* strides of the left side's rows and terms */
    int64_t N, J, C;              /* rows, terms of a sum, columns of y */
    bool w_transposed, add, bf16; /* w: see kernels.h; add to y; class bf16 */
    int64_t left, right;          /* parts of the rows and of the panels, for threads */
    void *packed;                 /* where the left side is packed */
} job;

bool product_in_bf16(const tensor *w)
{
    return w->bf16 || w->bf16_copy;
}

/* Integer formats multiply in class i8; not in double, which must be exact. */
static bool in_i8(const tensor *w)
{
    return !product_in_bf16(w) && w->type->quants != NULL && sizeof(real) == sizeof(float);
}

const char *product_class(const tensor *w)
{
    return in_i8(w) ? "i8" : product_in_bf16(w) ? "bf16" : "f32";
}

size_t product_bytes(const run *r, int64_t n_row, const tensor *w)
{
    const bool back = r->tape != NULL;
    const int64_t widest = back && rows(w) > cols(w) ? rows(w) : cols(w);
    const size_t codes = in_i8(w) ? pack_i8_bytes(n_row, cols(w)) : 0;
    const size_t numbers = (size_t)(n_row * widest) * sizeof(real);
    if (product_in_bf16(w))
        return pack_bf16_bytes(back ? whole_groups(n_row) : n_row, whole_groups(widest));
    return in_i8(w) && (!back || codes > numbers) ? codes : numbers;
}

size_t product_forward_bytes(int64_t n_row, const tensor *w)
{
    if (product_in_bf16(w))
        return pack_bf16_bytes(n_row, whole_groups(cols(w)));
    return in_i8(w) ? pack_i8_bytes(n_row, cols(w)) : (size_t)(n_row * cols(w)) * sizeof(real);
}

/* ---- on one thread --------------------------------------------------------------------------- */

static void pack_blocks(const run *r, const void *ctx, int64_t b0, int64_t b1)
{
    const job *j = ctx;
    r->kern->pack(j->packed, j->x.at, j->i_step, j->j_step, j->N, j->J, b0, b1);
}

static void pack_bf16_blocks(const run *r, const void *ctx, int64_t b0, int64_t b1)
{
    const job *j = ctx;
    r->kern->pack_bf16(j->packed, j->x.at, j->i_step, j->j_step, j->N, j->J, b0, b1);
}

static void pack_i8_blocks(const run *r, const void *ctx, int64_t b0, int64_t b1)
{
    const job *j = ctx;
    r->kern->pack_i8(j->packed, j->x.at, j->x.stride, j->N, j->J, b0, b1);
}

/* Rows of a block that one call takes as a whole. */
static int block_rows(const run *r, const job *j)
{
    return j->bf16 ? r->kern->rows_bf16 : r->kern->rows;
}

static int64_t panel_start(const run *r, const job *j, int64_t p)
{
    return p * r->kern->panel < j->C ? p * r->kern->panel : j->C;
}

static void multiply_parts(const run *r, const void *ctx, int64_t p0, int64_t p1)
{
    const job *j = ctx;
    const int64_t blocks = row_blocks(j->N, block_rows(r, j));
    const int64_t panels = row_blocks(j->C, r->kern->panel);
    for (int64_t p = p0; p < p1; p++) {
        const int64_t a = p / j->right, b = p % j->right;
        const int64_t block0 = blocks * a / j->left, block1 = blocks * (a + 1) / j->left;
        const int64_t c0 = panel_start(r, j, panels * b / j->right);
        const int64_t c1 = panel_start(r, j, panels * (b + 1) / j->right);
        if (j->bf16)
            r->kern->product_bf16(j->y.at, j->y.stride, j->add, j->packed, j->N, j->J, &j->w,
                                  j->w_transposed, block0, block1, c0, c1);
        else
            r->kern->product(j->y.at, j->y.stride, j->add, j->packed, j->N, j->J, &j->w,
                             j->w_transposed, block0, block1, c0, c1);
    }
}

static void outputs_i8(const run *r, const void *ctx, int64_t p0, int64_t p1)
{
    const job *j = ctx;
    r->kern->product_i8(j->y.at, j->y.stride, j->packed, j->N, j->J, &j->w, panel_start(r, j, p0),
                        panel_start(r, j, p1));
}

/* ---- on all threads -------------------------------------------------------------------------- */

/* The left side of an activation stays packed for the next product, unless it lies elsewhere. */
static void pack_left(run *r, const job *j, range_fn *fn, int rows)
{
    const packed_form form = fn == pack_i8_blocks ? PACKED_I8 : j->bf16 ? PACKED_BF16 : PACKED_REAL;
    const bool stays = j->packed == r->work;
    if (stays && j->x.id && r->packed.id == j->x.id && r->packed.form == form)
        return;
    const int64_t blocks = row_blocks(j->N, rows);
    parallel(r, blocks, j->N * j->J / blocks, fn, j);
    if (stays)
        r->packed = (packed_rows){ j->x.id, form };
}

/* Every part makes its own panels. In forward they are made of weights, so threads split the
 * columns; if these are few, a part has some hundred rows. In backward a gradient's rows are
 * contiguous, so the rows are split first. */
#define SOME_ROWS 96

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t divided_up(int64_t a, int64_t by)
{
    return (a + by - 1) / by;
}

static void cut_job(const run *r, job *j)
{
    const int64_t threads = r->pool ? pool_threads(r->pool) : 1, wish = 4 * threads;
    const int64_t panels = row_blocks(j->C, r->kern->panel);
    const int64_t high = j->N < 2 * SOME_ROWS ? 1 : j->N / SOME_ROWS;
    j->left = j->right = 1;
    if (threads == 1)
        return;
    if (j->w_transposed || j->bf16) {
        j->right = smaller(panels, wish);
        if (j->right < 2 * threads)
            j->left = smaller(high, divided_up(wish, j->right));
    } else {
        j->left = smaller(high, wish);
        j->right = smaller(panels, divided_up(wish, j->left));
        if (j->left * j->right < 2 * threads)
            j->left = smaller(row_blocks(j->N, block_rows(r, j)),
                              divided_up(2 * threads, j->right));
    }
}

static void multiply_real(run *r, job *j)
{
    pack_left(r, j, j->bf16 ? pack_bf16_blocks : pack_blocks, block_rows(r, j));
    cut_job(r, j);
    const int64_t parts = j->left * j->right;
    parallel(r, parts, j->N * j->J * j->C / parts, multiply_parts, j);
}

static void multiply_class_i8(run *r, const job *j)
{
    const int64_t panels = row_blocks(j->C, r->kern->panel);
    pack_left(r, j, pack_i8_blocks, r->kern->rows_i8);
    parallel(r, panels, j->N * j->J * r->kern->panel, outputs_i8, j);
}

static row_set weight_rows(const run *r, const tensor *w)
{
    row_set s = w->bf16_copy ? dtype_rows(&dtype_bf16, r->kern, w->bf16_copy, cols(w))
                             : dtype_rows(w->type, r->kern, w->data, cols(w));
    s.panels = w->bf16_copy ? NULL : w->panels;
    return s;
}

/* Rows of x, unchanged or rounded. */
static row_set number_rows(const run *r, matrix x, bool bf16)
{
    row_set s = dtype_rows(bf16 ? &dtype_rounded : &dtype_real, r->kern, x.at, x.cols);
    s.row_bytes = (size_t)x.stride * sizeof(real);
    return s;
}

/* x times w: transposed in forward, or as stored. */
static job by_weight(const run *r, matrix y, matrix x, const tensor *w, bool w_transposed)
{
    return (job){ .y = y,
                  .x = x,
                  .packed = r->work,
                  .w = weight_rows(r, w),
                  .i_step = x.stride,
                  .j_step = 1,
                  .N = x.rows,
                  .J = x.cols,
                  .C = w_transposed ? rows(w) : cols(w),
                  .w_transposed = w_transposed,
                  .bf16 = product_in_bf16(w) };
}

void product_plain(run *r, matrix y, matrix x, const tensor *w, const tensor *bias)
{
    job j = by_weight(r, y, x, w, true);
    j.w.bias = values(bias);
    if (x.rows == 0)
        return;
    if (in_i8(w))
        multiply_class_i8(r, &j);
    else
        multiply_real(r, &j);
}

static void multiply_f32(run *r, job j, bool add, void *room)
{
    j.add = add;
    j.packed = room;
    j.bf16 = false;
    multiply_real(r, &j);
}

void product_f32(run *r, matrix y, bool add, matrix x, const tensor *w, void *room)
{
    multiply_f32(r, by_weight(r, y, x, w, true), add, room);
}

void product_add(run *r, matrix y, matrix x, const tensor *w)
{
    job j = by_weight(r, y, x, w, true);
    j.add = true;
    if (x.rows == 0)
        return;
    multiply_real(r, &j);
}

void product_dx(run *r, matrix dx, bool add, matrix dy, const tensor *w)
{
    job j = by_weight(r, dx, dy, w, false);
    j.add = add;
    if (dy.rows > 0)
        multiply_real(r, &j);
}

void product_f32_dx(run *r, matrix dx, bool add, matrix dy, const tensor *w, void *room)
{
    multiply_f32(r, by_weight(r, dx, dy, w, false), add, room);
}

/* Rows of dW are the columns of dy; the sum runs over the rows of both. */
static job by_rows(const run *r, const tensor *w, matrix dy, matrix x, bool bf16)
{
    return (job){ .y = { w->grad, rows(w), cols(w), cols(w), 0, { 0 } },
                  .x = dy,
                  .w = number_rows(r, x, bf16),
                  .i_step = 1,
                  .j_step = dy.stride,
                  .N = dy.cols,
                  .J = dy.rows,
                  .C = x.cols,
                  .bf16 = bf16,
                  .packed = r->work };
}

void product_dw(run *r, const tensor *w, bool add, matrix dy, matrix x)
{
    job j = by_rows(r, w, dy, x, product_in_bf16(w));
    j.add = add;
    if (dy.rows == 0 && !add)
        grad_clear((tensor *)w);
    else if (dy.rows > 0)
        multiply_real(r, &j);
}

void product_f32_dw(run *r, const tensor *w, bool add, matrix dy, matrix x, void *room)
{
    multiply_f32(r, by_rows(r, w, dy, x, false), add, room);
}

#define COLUMNS 64 /* sums all columns in one pass, over the rows in ascending order */

static void bias_columns(const run *r, const void *ctx, int64_t o0, int64_t o1)
{
    (void)r;
    const job *j = ctx;
    for (int64_t o = o0; o < o1; o += COLUMNS) {
        const int64_t width = o1 - o < COLUMNS ? o1 - o : COLUMNS;
        real sum[COLUMNS] = { 0 };
        for (int64_t i = 0; i < j->x.rows; i++)
            for (int64_t k = 0; k < width; k++)
                sum[k] += j->x.at[i * j->x.stride + o + k];
        for (int64_t k = 0; k < width; k++)
            grad_put(&j->y.at[o + k], j->add, sum[k]);
    }
}

void product_db(run *r, const tensor *b, bool add, matrix dy)
{
    const job j = { .y = { .at = b->grad }, .x = dy, .add = add };
    parallel(r, dy.cols, dy.rows, bias_columns, &j);
}
