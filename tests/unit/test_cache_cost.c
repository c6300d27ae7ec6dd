/* test_cache_cost.c - what a cache saves (cli/cache_cost.c): which rows are evaluated, counted by
 * the kernels, and the FLOPs of tokens and texts. No test looks at times. */
#include "small_model.h"

#include "api/api.h"
#include "cache_cost.h"
#include "engine/estimate.h"

enum { D = 64, K = 32, F = 96, V = 61, L = 2 }; /* K: of keys, and of values */

static const double row_weights = 2 * D * D + 2 * D * K + 3 * D * F;

/* ---- kernels that count rows ----------------------------------------------------------------- */

/* ffn_down is the only product with rows of F; the head, with V outputs, ends a forward. */
static double down_flops;
static int64_t rows_of[2]; /* that a forward may have */
static int n_of[2], n_other;

static void end_forward(void)
{
    const int64_t rows = (int64_t)(down_flops / (2.0 * F * D * L));
    down_flops = 0;
    if (rows == rows_of[CACHE_ON])
        n_of[CACHE_ON]++;
    else if (rows == rows_of[CACHE_OFF])
        n_of[CACHE_OFF]++;
    else
        n_other++;
}

static void counted_product(real *y, int64_t y_stride, bool add, const real *a, int64_t N,
                            int64_t J, const row_set *w, bool w_transposed, int64_t block0,
                            int64_t block1, int64_t c0, int64_t c1)
{
    const row_cut c = cut_rows(N, kernels_scalar.rows);
    kernels_scalar.product(y, y_stride, add, a, N, J, w, w_transposed, block0, block1, c0, c1);
    if (J == F && N != rows_of[CACHE_ON] && N != rows_of[CACHE_OFF])
        n_other++;
    if (J == F)
        down_flops += 2.0 *
                      (double)((block_row(&c, block1) - block_row(&c, block0)) * J * (c1 - c0));
    if (J == D && c1 == V)
        end_forward();
}

static void count_from_now(int64_t t)
{
    down_flops = 0;
    n_other = n_of[0] = n_of[1] = 0;
    rows_of[CACHE_ON] = 1;
    rows_of[CACHE_OFF] = t + 1;
}

/* ---- a model --------------------------------------------------------------------------------- */

static weft_model *open_small(void)
{
    weft_error err;
    llama_shape s = small_shape;
    s.type = &dtype_f32;
    bytes b = gguf_llama(&s);
    const char *path = temp_file("model.gguf", b.at, b.n);
    const weft_model_options o = { .struct_size = sizeof o, .no_pack = true };
    weft_model *m = weft_model_open(path, &o, &err);
    free(b.at);
    if (!m)
        fail_msg("%s", err.message);
    return m;
}

static cache_work work_of(const int64_t *lengths, int n, bool on, bool off)
{
    cache_work w = { .engine = { .struct_size = sizeof w.engine, .threads = 1 },
                     .n_length = n,
                     .n_turn = 2,
                     .way = { on, off } };
    for (int i = 0; i < n; i++)
        w.length[i] = lengths[i];
    return w;
}

static void measure(weft_model *m, const cache_work *w, cache_table *t)
{
    weft_error err;
    if (cache_measure(m, w, t, &err) != WEFT_OK)
        fail_msg("%s", err.message);
}

/* ---- the tests ------------------------------------------------------------------------------- */

/* Forwards have 1 row or t + 1 rows, whatever is measured; one of each is traced. */
static void rows_as_said(void **state)
{
    (void)state;
    static cache_table t;
    const int64_t length = 40;
    kernels k = kernels_scalar;
    k.product = counted_product;
    weft_model *m = open_small();
    m->model.kern = &k;

    cache_work w = work_of(&length, 1, true, true);
    count_from_now(length);
    measure(m, &w, &t);
    assert_int_equal(n_other, 0);
    assert_true(n_of[CACHE_ON] >= 1 + w.n_turn && n_of[CACHE_OFF] >= 1 + w.n_turn);
    assert_int_equal(t.cost[0][CACHE_ON].rows, 1);
    assert_int_equal(t.cost[0][CACHE_OFF].rows, length + 1);

    w = work_of(&length, 1, false, true); /* without a cache no row of a prefix is ever reused */
    count_from_now(length);
    measure(m, &w, &t);
    assert_int_equal(n_other, 0);
    assert_int_equal(n_of[CACHE_ON], 1); /* the trace's */
    assert_true(n_of[CACHE_OFF] >= 1 + w.n_turn);
    assert_true(t.cost[0][CACHE_ON].rows == 0 && t.cost[0][CACHE_ON].median == 0);
    assert_true(t.cost[0][CACHE_OFF].rows == length + 1 && t.cost[0][CACHE_OFF].median > 0);

    w = work_of(&length, 1, true, false); /* with one, the prefix is evaluated once a turn */
    count_from_now(length);
    measure(m, &w, &t);
    assert_int_equal(n_other, 0);
    assert_int_equal(n_of[CACHE_OFF], 1 + w.n_turn);
    assert_true(n_of[CACHE_ON] >= 1 + w.n_turn);
    assert_true(t.cost[0][CACHE_ON].rows == 1 && t.cost[0][CACHE_OFF].rows == 0);
    weft_model_close(m);
}

static void add_flops(void *ud, const run *r, const node *n)
{
    *(double *)ud += n->op->cost(r, n).flops;
}

/* One forward of n rows up to position `last`. */
static double forward_flops(const weft_model *m, int n, int64_t last)
{
    weft_error err;
    double flops = 0;
    assert_int_equal(engine_tally(&m->model, n, last, 1, add_flops, &flops, &err), WEFT_OK);
    return flops;
}

static void flops_as_tallied(void **state)
{
    (void)state;
    static cache_table t;
    const int64_t lengths[] = { 40, 1, 5, 300 }; /* in any order */
    weft_model *m = open_small();
    cache_work w = work_of(lengths, 4, true, true);
    w.n_turn = 1;
    measure(m, &w, &t);
    for (int i = 0; i < 4; i++) {
        const cache_cost *c = t.cost[i];
        const int64_t n = lengths[i];
        double on = 0, off = 0;
        for (int64_t at = 0; at < n; at++) {
            on += forward_flops(m, 1, at);
            off += forward_flops(m, (int)at + 1, at);
        }
        assert_true(c[CACHE_ON].flops == forward_flops(m, 1, n));
        assert_true(c[CACHE_OFF].flops == forward_flops(m, (int)n + 1, n));
        assert_true(c[CACHE_ON].text_flops == on);
        assert_true(c[CACHE_OFF].text_flops == off);
        assert_int_equal(c[CACHE_OFF].rows, n + 1);
    }
    assert_false(t.window);
    weft_model_close(m);
}

/* FLOPs are exactly a line with a cache and a parabola without one. A row takes P for matrices,
 * norms and the like; each key that it sees takes 4 D in each of L layers, two per number of a key
 * and of a value:
 *
 *     with      P + 4 D L (t + 1) + head
 *     without   P (t + 1) + 4 D L (t + 1) (t + 2) / 2 + head */
static void curves(void **state)
{
    (void)state;
    static cache_table t;
    const int64_t lengths[] = { 10, 50, 100, 200 }, few[] = { 10, 50, 10, 50 };
    weft_model *m = open_small();
    cache_work w = work_of(lengths, 4, true, true);
    w.n_turn = 1;
    measure(m, &w, &t);
    assert_true(t.fits[CACHE_ON] && t.fits[CACHE_OFF]);
    const double *on = t.flops[CACHE_ON].at, *off = t.flops[CACHE_OFF].at, P = off[1] - 6 * D * L;
    assert_true(fabs(on[1] - 4 * D * L) < 1e-6 && fabs(off[2] - 2 * D * L) < 1e-6);
    assert_true(fabs(on[0] - off[0]) < 1e-4);
    assert_true(P >= 2 * L * row_weights && P <= 1.05 * 2 * L * row_weights);
    assert_true(on[0] - P >= 4 * D * L + 2 * V * D && on[0] - P <= 4 * D * L + 1.1 * 2 * V * D);
    assert_true(t.flops[CACHE_ON].r2 > 1 - 1e-12 && t.flops[CACHE_OFF].r2 > 1 - 1e-12);
    assert_true(t.seconds[CACHE_ON].at[1] >= 0 && t.seconds[CACHE_OFF].at[2] >= 0);

    w = work_of(lengths, 3, true, true); /* a parabola always goes through three points */
    measure(m, &w, &t);
    assert_true(t.fits[CACHE_ON] && !t.fits[CACHE_OFF]);
    w = work_of(few, 4, true, true);
    measure(m, &w, &t);
    assert_false(t.fits[CACHE_ON] || t.fits[CACHE_OFF]);
    weft_model_close(m);
}

/* Attention over a full window costs no more from there on. */
static void windows(void **state)
{
    (void)state;
    static cache_table t;
    const int64_t lengths[] = { 20, 30, 40, 60 }, within = 3;
    weft_error err;
    weft_model *m = weft_model_open(fixture("golden/mistral-window"), NULL, &err);
    assert_non_null(m);
    cache_work w = work_of(lengths, 4, true, true);
    w.n_turn = 1;
    measure(m, &w, &t);
    assert_true(t.window && t.fits[CACHE_ON]);
    assert_true(t.flops[CACHE_ON].at[1] == 0);
    w = work_of(&within, 1, true, true);
    measure(m, &w, &t);
    assert_false(t.window);
    weft_model_close(m);
}

static void errors(void **state)
{
    (void)state;
    static cache_table t;
    const int64_t longest = small_shape.n_ctx - 1, beyond = small_shape.n_ctx;
    weft_error err;
    weft_model *m = open_small();
    cache_work w = work_of(&longest, 1, true, false);
    w.n_turn = 1;
    measure(m, &w, &t);
    assert_int_equal(t.cost[0][CACHE_ON].rows, 1);
    w = work_of(&beyond, 1, true, false);
    assert_int_equal(cache_measure(m, &w, &t, &err), WEFT_EINVAL);
    assert_non_null(strstr(err.message, "context"));
    weft_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("cache cost: without a cache every row is evaluated again, with it one", rows_as_said),
        TEST("cache cost: FLOPs of tokens and texts are those of the forwards", flops_as_tallied),
        TEST("cache cost: FLOPs are a line with a cache and a parabola without", curves),
        TEST("cache cost: a sliding window ends the growth", windows),
        TEST("cache cost: a text that does not fit is refused", errors),
    };
    return RUN(tests);
}
