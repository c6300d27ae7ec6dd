/* Every kernel of every table this CPU can run against the scalar one, within the policy of
 * docs/NUMERICS.md; and a row's result does not depend on the other rows. */
#include "support.h"

#include "base/rng.h"
#include "gguf_build.h"
#include "tensor/dtype.h"

enum { MOST = 3000 };

static const int lengths[] = { 1,  2,  7,   8,   9,    15,   16,   17,  31,
                               33, 64, 100, 257, 1023, 1024, 1025, 2080 };
#define N_LENGTH (sizeof lengths / sizeof *lengths)

static real *numbers(int64_t n, uint64_t stream)
{
    real *x = malloc((size_t)n * sizeof *x);
    fill_normal(x, n, 51, stream, 1);
    return x;
}

/* 4 sqrt(n) 2^-24 sum |a b|, for either of two sums. */
static double dot_bound(const real *a, const real *b, int64_t n)
{
    double size = 0;
    for (int64_t k = 0; k < n; k++)
        size += fabs((double)a[k] * (double)b[k]);
    return 8 * sqrt((double)n) * 0x1p-24 * size;
}

static void check_near(const char *what, const kernels *t, const real *a, const real *b, int64_t n,
                       double tolerance)
{
    char name[64];
    snprintf(name, sizeof name, "%s of %s", what, t->name);
    assert_close(name, a, b, n, tolerance);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void rows_of_numbers(const kernels *t, int64_t n)
{
    const kernels *s = &kernels_scalar;
    real *a = numbers(n, 1), *b = numbers(n, 2), *y = numbers(n, 3), *z = numbers(n, 3);
    assert_true(fabs((double)(t->dot(a, b, n) - s->dot(a, b, n))) <= dot_bound(a, b, n));
    t->axpy(y, 0.7f, a, n), s->axpy(z, 0.7f, a, n);
    check_near("axpy", t, y, z, n, 2e-7);
    t->add(y, a, b, n), s->add(z, a, b, n);
    assert_memory_equal(y, z, (size_t)n * sizeof *y);
    t->mul(y, a, b, n), s->mul(z, a, b, n);
    assert_memory_equal(y, z, (size_t)n * sizeof *y);
    t->blend(y, 0.7f, a, -0.3f, n), s->blend(z, 0.7f, a, -0.3f, n);
    assert_memory_equal(y, z, (size_t)n * sizeof *y);
    t->softmax_back(y, b, 0.7f, -0.3f, n), s->softmax_back(z, b, 0.7f, -0.3f, n);
    assert_memory_equal(y, z, (size_t)n * sizeof *y);
    t->rmsnorm(y, a, b, 1e-5f, n), s->rmsnorm(z, a, b, 1e-5f, n);
    check_near("rmsnorm", t, y, z, n, 2e-6);
    t->layernorm(y, a, b, a, 1e-5f, n), s->layernorm(z, a, b, a, 1e-5f, n);
    check_near("layernorm", t, y, z, n, 4e-6);
    t->layernorm(y, a, b, NULL, 1e-5f, n), s->layernorm(z, a, b, NULL, 1e-5f, n);
    check_near("layernorm", t, y, z, n, 4e-6);
    real max, want;
    memcpy(y, a, (size_t)n * sizeof *y), memcpy(z, a, (size_t)n * sizeof *z);
    const real sum = t->exp_block(y, n, 0.7f, &max), want_sum = s->exp_block(z, n, 0.7f, &want);
    assert_true(max == want);
    assert_true(fabs((double)(sum / want_sum) - 1) < 2e-6);
    check_near("exp_block", t, y, z, n, 3e-7);
    assert_true(fabs((double)(t->log_sum_exp(a, n) - s->log_sum_exp(a, n))) < 2e-6);
    memcpy(y, a, (size_t)n * sizeof *y), memcpy(z, a, (size_t)n * sizeof *z);
    assert_true(fabs((double)(t->exp_less(y, n, 1) / s->exp_less(z, n, 1)) - 1) < 2e-6);
    check_near("exp_less", t, y, z, n, 3e-7);
    free(a), free(b), free(y), free(z);
}

static void rows_equal_scalar(void **state)
{
    (void)state;
    for (int i = 0; table_f32(i); i++)
        for (size_t k = 0; k < N_LENGTH; k++)
            rows_of_numbers(table_f32(i), lengths[k]);
}

/* Each value separately: relative error unless the function is near zero, and the ends of the
 * range. */
static void activations_equal_scalar(void **state)
{
    (void)state;
    const act_kind kinds[] = { ACT_NONE,      ACT_RELU, ACT_SILU,   ACT_GELU,
                               ACT_GELU_TANH, ACT_TANH, ACT_SIGMOID };
    enum { N = 20001 };
    real *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y), *z = malloc(N * sizeof *z),
         one = 1;
    for (int i = 0; i < N; i++)
        x[i] = (real)(i - N / 2) / 100; /* -100 to 100 */
    for (int t = 0; table_f32(t); t++)
        for (size_t k = 0; k < 7; k++) {
            table_f32(t)->activate(y, x, kinds[k], N);
            kernels_scalar.activate(z, x, kinds[k], N);
            for (int i = 0; i < N; i++)
                if (!(fabs((double)(y[i] - z[i])) <=
                      1e-6 * fabs((double)z[i]) + (kinds[k] == ACT_GELU ? 1e-6 : 3e-7)))
                    fail_msg("%s: activation %d of %g is %.9g, expected %.9g", table_f32(t)->name,
                             (int)kinds[k], (double)x[i], (double)y[i], (double)z[i]);
            real nan = NAN, out = 0, slope[2];
            table_f32(t)->activate(&out, &nan, kinds[k], 1);
            assert_true(isnan(out) || kinds[k] == ACT_RELU);
            for (int i = 0; i < N; i += 7) {
                table_f32(t)->activate_back(&slope[0], &x[i], &one, kinds[k], 1);
                kernels_scalar.activate_back(&slope[1], &x[i], &one, kinds[k], 1);
                if (!(fabs((double)(slope[0] - slope[1])) < 2e-6))
                    fail_msg("%s: slope %d at %g is %.9g, expected %.9g", table_f32(t)->name,
                             (int)kinds[k], (double)x[i], (double)slope[0], (double)slope[1]);
            }
        }
    free(x), free(y), free(z);
}

static void exponentials_at_the_ends(void **state)
{
    (void)state;
    for (int t = 0; table_f32(t); t++) {
        real s[40], max;
        for (int k = 0; k < 40; k++)
            s[k] = k == 3 ? 0 : k % 4 == 1 ? -INFINITY : (real)(-3 * k);
        table_f32(t)->exp_block(s, 40, 1, &max);
        assert_true(max == 0 && s[3] == 1);
        for (int k = 0; k < 40; k++) {
            const double want = k == 3 ? 1 : k % 4 == 1 ? 0 : exp(-3.0 * k);
            assert_true(fabs((double)s[k] - want) <= 3e-7 * want + 1e-37);
        }
    }
}

static void ropes_equal_scalar(void **state)
{
    (void)state;
    for (int t = 0; table_f32(t); t++)
        for (int pairs = 1; pairs < 70; pairs += 3)
            for (int p = ROPE_ADJACENT; p <= ROPE_HALVES; p++) {
                real *x = numbers(2 * pairs, 4), *rotation = numbers(2 * pairs, 5), y[140], z[140];
                table_f32(t)->rope(y, x, rotation, pairs, (rope_pairing)p);
                kernels_scalar.rope(z, x, rotation, pairs, (rope_pairing)p);
                check_near("rope", table_f32(t), y, z, 2 * pairs, 3e-7);
                free(x), free(rotation);
            }
}

/* ---- products -------------------------------------------------------------------------------- */

static const dtype *const types[] = { &dtype_f32,  &dtype_f16,   &dtype_bf16,   &dtype_q8_0,
                                      &dtype_q4_0, &dtype_q4_1,  &dtype_q5_0,   &dtype_q5_1,
                                      &dtype_q2_k, &dtype_q3_k,  &dtype_q4_k,   &dtype_q5_k,
                                      &dtype_q6_k, &dtype_mxfp4, &dtype_iq4_nl, &dtype_iq4_xs };
#define N_TYPE (int)(sizeof types / sizeof *types)

/* At least n values: whole blocks. */
static int64_t whole_blocks(const dtype *type, int64_t n)
{
    return (n + type->block - 1) / type->block * type->block;
}

/* Producers give exactly the values of the format's own decoder. */
static void producers_are_exact(void **state)
{
    (void)state;
    for (int t = 0; table_f32(t); t++)
        for (int d = 0; d < N_TYPE; d++) {
            real *x = numbers(MOST, 6), want[TILE], buffer[TILE];
            uint8_t *row = malloc(MOST * 4);
            const int64_t n = MOST / types[d]->block * types[d]->block;
            types[d]->encode(row, x, n);
            for (int64_t k = 0; k < n; k += TILE) {
                const int64_t width = n - k < TILE ? n - k : TILE;
                types[d]->decode(want, row, k, width);
                const real *got =
                    dtype_rows(types[d], table_f32(t), row, n).tile(buffer, row, k, width);
                assert_memory_equal(got, want, (size_t)width * sizeof *want);
            }
            free(x), free(row);
        }
}

typedef struct product {
    int64_t N, K, O;
    real *x, *bias, *dy;
    uint8_t *w;
    size_t w_bytes;
    const dtype *type;
    bool biased; /* the bias is added */
} product;

static void product_init(product *p, const dtype *type, int64_t N, int64_t K, int64_t O)
{
    *p = (product){ N,
                    K,
                    O,
                    numbers(N * K, 7),
                    numbers(O, 8),
                    numbers(N * O, 9),
                    NULL,
                    dtype_row_bytes(type, K),
                    type,
                    false };
    p->w = malloc((size_t)O * p->w_bytes);
    for (int64_t o = 0; o < O; o++) {
        real *row = numbers(K, 100 + (uint64_t)o);
        type->encode(p->w + (size_t)o * p->w_bytes, row, K);
        free(row);
    }
}

static void product_free(product *p)
{
    free(p->x), free(p->bias), free(p->dy), free(p->w);
}

/* Rows [i, i + N) of x times outputs [o0, o1), in the format's class or in class f32. */
static void multiply(const kernels *t, const product *p, bool i8, int64_t i, int64_t N, int64_t o0,
                     int64_t o1, real *y)
{
    row_set w = dtype_rows(p->type, t, p->w, p->K);
    const real *x = p->x + i * p->K;
    w.bias = p->biased ? p->bias : NULL;
    void *packed = aligned_alloc(64, (size_t)(N * p->K) * sizeof(real) + 4096);
    if (i8) {
        t->pack_i8(packed, x, p->K, N, p->K, 0, row_blocks(N, t->rows_i8));
        t->product_i8(y, p->O, packed, N, p->K, &w, o0, o1);
    } else {
        t->pack(packed, x, p->K, 1, N, p->K, 0, row_blocks(N, t->rows));
        t->product(y, p->O, false, packed, N, p->K, &w, true, 0, row_blocks(N, t->rows), o0, o1);
    }
    free(packed);
}

/* In class f32 two tables differ by the rounding of their sums. */
static void check_f32(const product *p, const real *y, const real *z)
{
    real *w = malloc((size_t)p->K * sizeof *w);
    for (int64_t o = 0; o < p->O; o++) {
        p->type->decode(w, p->w + (size_t)o * p->w_bytes, 0, p->K);
        for (int64_t i = 0; i < p->N; i++)
            assert_true(fabs((double)(y[i * p->O + o] - z[i * p->O + o])) <=
                        dot_bound(p->x + i * p->K, w, p->K));
    }
    free(w);
}

/* The error of rounding x to integers: half a step of each block's scale for every weight. */
static void check_i8(const product *p, const real *y, const real *z)
{
    real w[TILE];
    for (int64_t u = 0; u < p->N * p->O; u++) {
        const int64_t i = u / p->O, o = u % p->O;
        double bound = 1e-5;
        for (int64_t k = 0; k < p->K; k += BLOCK_I8) {
            double most = 0, size = 0;
            p->type->decode(w, p->w + (size_t)o * p->w_bytes, k, BLOCK_I8);
            for (int j = 0; j < BLOCK_I8; j++) {
                most = fmax(most, fabs((double)p->x[i * p->K + k + j]));
                size += fabs((double)w[j]);
            }
            bound += 0.5001 * most / 127 * size;
        }
        assert_true(fabs((double)(y[u] - z[u])) <= bound);
    }
}

/* With a bias, all rows at once or each alone: the same bits as y with the bias added
 * afterwards. */
static void check_biased(const kernels *t, const product *p, bool i8, const real *y)
{
    const int64_t n = p->N * p->O;
    const product with = {
        p->N, p->K, p->O, p->x, p->bias, p->dy, p->w, p->w_bytes, p->type, true
    };
    real *after = numbers(n, 1), *all = numbers(n, 1), *alone = numbers(n, 1);
    for (int64_t u = 0; u < n; u++)
        after[u] = y[u] + p->bias[u % p->O];
    multiply(t, &with, i8, 0, p->N, 0, p->O, all);
    for (int64_t i = 0; i < p->N; i++)
        multiply(t, &with, i8, i, 1, 0, p->O, alone + i * p->O);
    assert_memory_equal(all, after, (size_t)n * sizeof *y);
    assert_memory_equal(alone, after, (size_t)n * sizeof *y);
    free(after), free(all), free(alone);
}

/* Against scalar: within the bound of a sum in class f32, bit for bit in class i8. Then every row
 * alone, and every cut of the outputs: the same bits as all at once. */
static void check_product(const kernels *t, const product *p, bool i8)
{
    const int64_t n = p->N * p->O;
    real *y = numbers(n, 1), *z = numbers(n, 1), *alone = numbers(n, 1);
    multiply(t, p, i8, 0, p->N, 0, p->O, y);
    multiply(&kernels_scalar, p, i8, 0, p->N, 0, p->O, z);
    if (i8) {
        assert_memory_equal(y, z, (size_t)n * sizeof *y);
        multiply(&kernels_scalar, p, false, 0, p->N, 0, p->O, z);
        check_i8(p, y, z);
    } else {
        check_f32(p, y, z);
    }
    for (int64_t i = 0; i < p->N; i++)
        multiply(t, p, i8, i, 1, 0, p->O, alone + i * p->O);
    assert_memory_equal(alone, y, (size_t)n * sizeof *y);
    for (int64_t o = 0; o < p->O; o += 3)
        multiply(t, p, i8, 0, p->N, o, o + 3 < p->O ? o + 3 : p->O, alone);
    assert_memory_equal(alone, y, (size_t)n * sizeof *y);
    check_biased(t, p, i8, y);
    free(y), free(z), free(alone);
}

static void products_equal_scalar(void **state)
{
    (void)state;
    const int64_t shapes[][3] = {
        { 1, 32, 1 },   { 3, 64, 5 },    { 4, 96, 4 },   { 7, 1056, 9 },
        { 9, 2080, 6 }, { 1, 2080, 13 }, { 25, 64, 70 }, { 2, 1120, 33 }
    };
    for (int t = 0; table_i8(t); t++)
        for (int d = 0; d < N_TYPE; d++)
            for (size_t s = 0; s < 8; s++) {
                product p;
                product_init(&p, types[d], shapes[s][0], whole_blocks(types[d], shapes[s][1]),
                             shapes[s][2]);
                check_product(table_i8(t), &p, false);
                if (types[d]->quants)
                    check_product(table_i8(t), &p, true);
                product_free(&p);
            }
}

/* Rows with a NaN, an infinity, and values just below and just above the quantisation threshold:
 * every table equals scalar. */
static void strange_rows_equal_scalar(void **state)
{
    (void)state;
    enum { N = 7, K = 20 * BLOCK_I8, O = 5 };
    product p;
    product_init(&p, &dtype_q8_0, N, K, O);
    p.x[1 * K + 17 * BLOCK_I8 + 3] = (real)NAN;
    p.x[3 * K + 2] = (real)-INFINITY;
    for (int64_t k = 0; k < K; k++)
        p.x[5 * K + k] = k / BLOCK_I8 % 2 ? 1e-30f : nextafterf(1e-30f, 1);
    real y[N * O], z[N * O];
    multiply(&kernels_scalar, &p, true, 0, N, 0, O, z);
    for (int t = 0; table_i8(t); t++) {
        multiply(table_i8(t), &p, true, 0, N, 0, O, y);
        for (int64_t u = 0; u < N * O; u++)
            assert_true(u / O == 1 || u / O == 3 ? isnan(y[u]) && isnan(z[u]) : y[u] == z[u]);
    }
    product_free(&p);
}

/* dx and dW of one shape by a table and by scalar. */
static void check_gradients(const kernels *t, const dtype *type, const int64_t shape[3], bool add)
{
    const kernels *table[] = { t, &kernels_scalar };
    const int64_t N = shape[0], K = whole_blocks(type, shape[1]), O = shape[2];
    real *dx[2], *dw[2];
    product p;
    product_init(&p, type, N, K, O);
    for (int i = 0; i < 2; i++) {
        dx[i] = numbers(N * K, 20);
        dw[i] = numbers(O * K, 21);
        const row_set w = dtype_rows(type, table[i], p.w, K);
        const row_set x = dtype_rows(&dtype_f32, table[i], p.x, K);
        real *packed = numbers(N * O, 1);
        table[i]->pack(packed, p.dy, O, 1, N, O, 0, row_blocks(N, table[i]->rows));
        table[i]->product(dx[i], K, add, packed, N, O, &w, false, 0, row_blocks(N, table[i]->rows),
                          0, K);
        table[i]->pack(packed, p.dy, 1, O, O, N, 0, row_blocks(O, table[i]->rows));
        table[i]->product(dw[i], K, add, packed, O, N, &x, false, 0, row_blocks(O, table[i]->rows),
                          0, K);
        free(packed);
    }
    check_near("dx", t, dx[0], dx[1], N * K, 2e-6);
    check_near("dw", t, dw[0], dw[1], O * K, 2e-6);
    for (int i = 0; i < 2; i++)
        free(dx[i]), free(dw[i]);
    product_free(&p);
}

static void gradients_equal_scalar(void **state)
{
    (void)state;
    const int64_t shapes[][3] = { { 1, 5, 3 }, { 3, 33, 5 }, { 5, 70, 4 }, { 30, 1030, 7 } };
    for (int t = 0; table_f32(t); t++)
        for (int d = 0; d < N_TYPE; d++)
            for (int add = 0; add < 2; add++)
                for (size_t s = 0; s < 4; s++)
                    check_gradients(table_f32(t), types[d], shapes[s], add);
}

int main(void)
{
    static _Alignas(SIDE_ALIGN) char memory[SIDE_BYTES];
    side_begin(memory);
    for (int t = 0; kernels_table(t); t++)
        print_message("%s%s", t ? ", " : "kernels here: ", kernels_table(t)->name);
    print_message("\n");
    const struct CMUnitTest tests[] = {
        TEST("kernels: sums, norms and exponentials of every table equal scalar",
             rows_equal_scalar),
        TEST("kernels: activations of every table equal scalar, NaN is preserved",
             activations_equal_scalar),
        TEST("kernels: exponentials are correct at the ends of their range",
             exponentials_at_the_ends),
        TEST("kernels: rotations of every table equal scalar", ropes_equal_scalar),
        TEST("kernels: producers of every table give the format's own values", producers_are_exact),
        TEST("kernels: products of every table equal scalar, and a row alone is the same bits",
             products_equal_scalar),
        TEST("kernels: rows with NaN, infinity and tiny values are the same in every table",
             strange_rows_equal_scalar),
        TEST("kernels: gradients of products of every table equal scalar", gradients_equal_scalar),
    };
    return RUN(tests);
}
