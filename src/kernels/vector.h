/* vector.h - the kernels over a vector type, once for all processors that have one.
 *
 * The file that includes it (avx2.c, avx512.c, neon.c) has included avx2.h, avx512.h or neon.h, where are
 *
 *     WIDTH                  numbers in a vector
 *     ROWS, VECS             rows and vectors of outputs of a register block of `vec_product`
 *     vec, v_load v_store v_load_part v_store_part v_set v_zero
 *     v_add v_sub v_mul v_div v_fma v_min v_max v_sum v_top v_round v_pow2 v_keep v_abs
 *     v_transpose            WIDTH vectors, in place
 *     v_half                 one 16-bit float
 *     v_from_f16 v_from_bf16 v_from_i8      WIDTH stored numbers, made real
 *     v_low_f16              16-bit floats in the lower halves of 32-bit lanes, made real
 *     v_to_i8                WIDTH whole numbers, stored as bytes
 *
 *     v_tree                 the sum of 16 numbers in LANES / WIDTH vectors: halves are added until
 *                            one is left, lane j to j + 8, then to j + 4, j + 2, j + 1
 *
 * A sum over a row is 16 partial sums on every processor, lane j taking the elements k with k mod 16
 * = j in ascending order, added up by v_tree. With products whose terms are chains (panels.h), the
 * same polynomials and the same multiply-adds, that makes one answer of all tables but scalar's. */

#include "kernels/round.h"
#include "kernels/transpose.h"

#include <float.h>

/* ---- sums ------------------------------------------------------------------------------------ */

#define LANES 16
#define PARTS (LANES / WIDTH)

/* sum_k a[k] b[k]; without b, sum_k a[k] */
static inline __attribute__((always_inline)) real vec_add_up(const real *a, const real *b,
                                                             int64_t n)
{
    vec s[PARTS];
    int64_t k = 0;
    for (int p = 0; p < PARTS; p++)
        s[p] = v_zero();
    for (; k + LANES <= n; k += LANES)
        for (int p = 0; p < PARTS; p++) {
            const vec v = v_load(a + k + p * WIDTH);
            s[p] = b ? v_fma(v, v_load(b + k + p * WIDTH), s[p]) : v_add(s[p], v);
        }
    for (int p = 0; k < n && p < PARTS; p++) {
        const int part = part_of(n - k - p * WIDTH);
        const vec v = v_load_part(a + k + p * WIDTH, part);
        s[p] = b ? v_fma(v, v_load_part(b + k + p * WIDTH, part), s[p]) : v_add(s[p], v);
    }
    return v_tree(s);
}

static real vec_dot(const real *a, const real *b, int64_t n)
{
    return vec_add_up(a, b, n);
}

static real vec_sum(const real *x, int64_t n)
{
    return vec_add_up(x, NULL, n);
}

static void vec_axpy(real *y, real a, const real *x, int64_t n)
{
    const vec v = v_set(a);
    int64_t k = 0;
    for (; k + WIDTH <= n; k += WIDTH)
        v_store(y + k, v_fma(v, v_load(x + k), v_load(y + k)));
    if (k < n) {
        const int part = (int)(n - k);
        v_store_part(y + k, v_fma(v, v_load_part(x + k, part), v_load_part(y + k, part)), part);
    }
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* e^x = 2^n e^r, n = round(x / ln 2), |r| <= ln 2 / 2, by a polynomial; relative error below 2e-7.
 * Below -87.3 it is 0; NaN stays NaN. x is at most 88.3. */
static inline vec v_exp_below(vec x)
{
    const vec n = v_round(v_mul(x, v_set(1.44269504f)));
    vec r = v_fma(n, v_set(-0.693359375f), x);
    r = v_fma(n, v_set(2.12194440e-4f), r);
    vec p = v_set(1.9875691500e-4f);
    p = v_fma(p, r, v_set(1.3981999507e-3f));
    p = v_fma(p, r, v_set(8.3334519073e-3f));
    p = v_fma(p, r, v_set(4.1665795894e-2f));
    p = v_fma(p, r, v_set(1.6666665459e-1f));
    p = v_fma(p, r, v_set(5.0000001201e-1f));
    p = v_fma(p, v_mul(r, r), v_add(r, v_set(1)));
    return v_keep(v_mul(p, v_pow2(n)), x, v_set(-87.3365479f));
}

/* The same for any x: above 88.3 it stays at its largest. */
static inline vec v_exp(vec x)
{
    return v_exp_below(v_min(v_set(88.3762626f), x));
}

/* y = f(a, b) over n numbers, the last ones through a part of a vector. */
#define EACH(n, y, a, b, expression)                                                               \
    do {                                                                                           \
        int64_t e = 0;                                                                             \
        for (; e + WIDTH <= (n); e += WIDTH) {                                                     \
            const vec A = v_load((a) + e), B = v_load((b) + e);                                    \
            (void)B;                                                                               \
            v_store((y) + e, expression);                                                          \
        }                                                                                          \
        if (e < (n)) {                                                                             \
            const int part = (int)((n)-e);                                                         \
            const vec A = v_load_part((a) + e, part), B = v_load_part((b) + e, part);              \
            (void)B;                                                                               \
            v_store_part((y) + e, expression, part);                                               \
        }                                                                                          \
    } while (0)

static void vec_rmsnorm(real *y, const real *x, const real *w, real eps, int64_t n)
{
    const vec scale = v_set(1 / sqrtf(vec_dot(x, x, n) / (real)n + eps));
    EACH(n, y, x, w, v_mul(v_mul(A, scale), B));
}

static norm_stats vec_layernorm(real *y, const real *x, const real *w, const real *b, real eps,
                                int64_t n)
{
    const real mean = vec_sum(x, n) / (real)n;
    EACH(n, y, x, x, v_sub(A, v_set(mean)));
    const real scale = 1 / sqrtf(vec_dot(y, y, n) / (real)n + eps);
    EACH(n, y, y, w, v_mul(v_mul(A, v_set(scale)), B));
    if (b)
        EACH(n, y, y, b, v_add(A, B));
    return (norm_stats){ mean, scale };
}

static inline vec v_silu(vec x)
{
    return v_div(x, v_add(v_set(1), v_exp(v_sub(v_zero(), x))));
}

static inline vec v_sigmoid(vec x)
{
    return v_div(v_set(1), v_add(v_set(1), v_exp(v_sub(v_zero(), x))));
}

/* Near 0 by a polynomial, elsewhere 1 - 2 / (e^2x + 1), where that does not cancel. */
static inline vec v_tanh(vec x)
{
    const vec square = v_mul(x, x), size = v_abs(x);
    vec p = v_set(-5.70498872745e-3f);
    p = v_fma(p, square, v_set(2.06390887954e-2f));
    p = v_fma(p, square, v_set(-5.37397155531e-2f));
    p = v_fma(p, square, v_set(1.33314422036e-1f));
    p = v_fma(p, square, v_set(-3.33332819422e-1f));
    p = v_fma(v_mul(p, square), x, x);
    const vec e = v_add(v_exp(v_add(x, x)), v_set(1));
    const vec far = v_sub(v_set(1), v_div(v_set(2), e));
    return v_add(v_keep(far, size, v_set(0.625f)),
                 v_keep(p, v_sub(v_zero(), size), v_set(-0.62499994f)));
}

/* (1 + tanh u) / 2 = sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3) */
static inline vec v_phi_tanh(vec x)
{
    const vec cube = v_mul(v_mul(x, x), x);
    return v_sigmoid(v_mul(v_set(1.59576912f), v_fma(v_set(0.044715f), cube, x)));
}

/* Phi(x) = (1 + erf(x / sqrt 2)) / 2; erf by a rational function of degree 13 over 8 on
 * [-4, 4]. Below -5.4, where Phi(x) is 3e-8, it is 0. */
static inline vec v_phi(vec x)
{
    static const real top[] = { -2.72614225801306e-10f, 2.77068142495902e-08f,
                                -2.10102402082508e-06f, -5.69250639462346e-05f,
                                -7.34990630326855e-04f, -2.95459980854025e-03f,
                                -1.60960333262415e-02f };
    static const real low[] = { -1.45660718464996e-05f, -2.13374055278905e-04f,
                                -1.68282697438203e-03f, -7.37332916720468e-03f,
                                -1.42647390514189e-02f };
    const vec u = v_max(v_set(-4), v_min(v_set(4), v_mul(x, v_set(0.70710678f))));
    const vec v = v_mul(u, u);
    vec p = v_set(top[0]), q = v_set(low[0]);
    for (int k = 1; k < 7; k++)
        p = v_fma(p, v, v_set(top[k]));
    for (int k = 1; k < 5; k++)
        q = v_fma(q, v, v_set(low[k]));
    return v_keep(v_fma(v_set(0.5f), v_div(v_mul(u, p), q), v_set(0.5f)), x, v_set(-5.4f));
}

/* s (1 + x (1 - s)), s = sigmoid(x) */
static inline vec v_silu_slope(vec x)
{
    const vec s = v_sigmoid(x);
    return v_mul(s, v_fma(x, v_sub(v_set(1), s), v_set(1)));
}

/* p + 2 x p (1 - p) u', p = sigmoid(2u) and 1 - p = p e^(-2u), which does not cancel */
static inline vec v_gelu_tanh_slope(vec x)
{
    const vec square = v_mul(x, x), twice = v_mul(v_set(1.59576912f), x);
    const vec e = v_exp(v_sub(v_zero(), v_mul(twice, v_fma(v_set(0.044715f), square, v_set(1)))));
    const vec p = v_div(v_set(1), v_add(v_set(1), e)), both = v_mul(p, v_mul(p, e));
    return v_fma(v_mul(twice, both), v_fma(v_set(0.134145f), square, v_set(1)), p);
}

/* Phi(x) + x e^(-x^2/2) / sqrt(2 pi) */
static inline vec v_gelu_slope(vec x)
{
    const vec bell = v_exp(v_mul(v_set(-0.5f), v_mul(x, x)));
    return v_fma(v_mul(x, v_set(0.39894228f)), bell, v_phi(x));
}

#define CASE(kind, y, a, b, expression)                                                            \
    case kind:                                                                                     \
        EACH(n, y, a, b, expression);                                                              \
        break

static void vec_act(real *y, const real *x, act_kind kind, int64_t n)
{
    switch (kind) {
        CASE(ACT_RELU, y, x, x, v_max(v_zero(), A));
        CASE(ACT_SILU, y, x, x, v_silu(A));
        CASE(ACT_GELU, y, x, x, v_mul(A, v_phi(A)));
        CASE(ACT_GELU_TANH, y, x, x, v_mul(A, v_phi_tanh(A)));
        CASE(ACT_TANH, y, x, x, v_tanh(A));
        CASE(ACT_SIGMOID, y, x, x, v_sigmoid(A));
    default:
        kernels_scalar.activate(y, x, kind, n);
    }
}

static void vec_act_back(real *dx, const real *x, const real *dy, act_kind kind, int64_t n)
{
    switch (kind) {
        CASE(ACT_SILU, dx, x, dy, v_mul(B, v_silu_slope(A)));
        CASE(ACT_GELU, dx, x, dy, v_mul(B, v_gelu_slope(A)));
        CASE(ACT_GELU_TANH, dx, x, dy, v_mul(B, v_gelu_tanh_slope(A)));
        CASE(ACT_TANH, dx, x, dy, v_mul(B, v_sub(v_set(1), v_mul(v_tanh(A), v_tanh(A)))));
        CASE(ACT_SIGMOID, dx, x, dy, v_mul(B, v_mul(v_sigmoid(A), v_sub(v_set(1), v_sigmoid(A)))));
    default:
        kernels_scalar.activate_back(dx, x, dy, kind, n);
    }
}
#undef CASE

static void vec_add(real *y, const real *a, const real *b, int64_t n)
{
    EACH(n, y, a, b, v_add(A, B));
}

static void vec_mul(real *y, const real *a, const real *b, int64_t n)
{
    EACH(n, y, a, b, v_mul(A, B));
}

/* y = a y + b x, each product rounded */
static void vec_blend(real *y, real a, const real *x, real b, int64_t n)
{
    const vec keep = v_set(a), take = v_set(b);
    EACH(n, y, y, x, v_add(v_mul(A, keep), v_mul(B, take)));
}

/* s becomes exp(scale s - by); returns the sum, in the order of vec_sum. With `below`, no exponent is
 * above 0. */
static inline __attribute__((always_inline)) real exp_sum(real *s, int64_t n, vec scale, vec by,
                                                          bool below)
{
    vec sum[PARTS];
    int64_t k = 0;
    for (int p = 0; p < PARTS; p++)
        sum[p] = v_zero();
    for (; k + LANES <= n; k += LANES)
        for (int p = 0; p < PARTS; p++) {
            real *at = s + k + p * WIDTH;
            const vec x = v_sub(v_mul(v_load(at), scale), by);
            const vec e = below ? v_exp_below(x) : v_exp(x);
            v_store(at, e);
            sum[p] = v_add(sum[p], e);
        }
    for (int p = 0; k < n && p < PARTS; p++) {
        real *at = s + k + p * WIDTH;
        const int part = part_of(n - k - p * WIDTH);
        v_store_part(at, v_exp(v_sub(v_mul(v_load_part(at, part), scale), by)), part);
        sum[p] = v_add(sum[p], v_load_part(at, part));
    }
    return v_tree(sum);
}

static real vec_exp_less(real *s, int64_t n, real by)
{
    return exp_sum(s, n, v_set(1), v_set(by), false);
}

static real vec_top(const real *x, int64_t n)
{
    real m = x[0];
    int64_t k = 0;
    if (n >= WIDTH) {
        vec most[4]; /* chains, to wait less for each other */
        for (int c = 0; c < 4; c++)
            most[c] = v_load(x);
        for (; k + 4 * WIDTH <= n; k += 4 * WIDTH)
            for (int c = 0; c < 4; c++)
                most[c] = v_max(most[c], v_load(x + k + c * WIDTH));
        for (; k + WIDTH <= n; k += WIDTH)
            most[0] = v_max(most[0], v_load(x + k));
        m = v_top(v_max(v_max(most[0], most[1]), v_max(most[2], most[3])));
    }
    for (; k < n; k++)
        m = x[k] > m ? x[k] : m;
    return m;
}

/* Multiplying by a positive number keeps the order, so the largest is scaled alone. */
static real vec_exp_block(real *s, int64_t n, real scale, real *max)
{
    *max = vec_top(s, n) * scale;
    return exp_sum(s, n, v_set(scale), v_set(*max), true);
}

static void vec_softmax_back(real *ds, const real *p, real by, real delta, int64_t n)
{
    const vec scale = v_set(by), less = v_set(delta);
    EACH(n, ds, ds, p, v_mul(v_mul(scale, B), v_sub(A, less)));
}

/* log x for x >= 1, by a polynomial around 1; relative error below 2e-7. Not the C library's, of which
 * there are several. */
static real vec_log_of(real x)
{
    static const real by[] = { 7.0376836292e-2f,  -1.1514610310e-1f, 1.1676998740e-1f,
                               -1.2420140846e-1f, 1.4249322787e-1f,  -1.6668057665e-1f,
                               2.0000714765e-1f,  -2.4999993993e-1f, 3.3333331174e-1f };
    if (!(x <= FLT_MAX))
        return x;
    const uint32_t bits = float_bits(x) -
                          0x3F3504F3; /* of the root of 1/2: 2^e m, m from there on */
    const real e = (real)((int32_t)bits >> 23);
    const real r = bits_float((bits & 0x7FFFFF) + 0x3F3504F3) - 1, square = r * r;
    real p = by[0];
    for (int k = 1; k < 9; k++)
        p = fmaf(p, r, by[k]);
    p = fmaf(p * r, square, fmaf(e, -2.12194440e-4f, square * -0.5f));
    return fmaf(e, 0.693359375f, r + p);
}

static real vec_log_sum_exp(const real *x, int64_t n)
{
    const real max = vec_top(x, n);
    vec s[PARTS];
    for (int p = 0; p < PARTS; p++)
        s[p] = v_zero();
    for (int64_t k = 0; k < n; k += LANES)
        for (int p = 0; p < PARTS; p++) {
            const int part = part_of(n - k - p * WIDTH);
            const vec e = v_exp(v_sub(v_load_part(x + k + p * WIDTH, part), v_set(max)));
            real own[WIDTH] = { 0 };
            v_store_part(own, e, part);
            s[p] = v_add(s[p], part == WIDTH ? e : v_load(own));
        }
    return max + vec_log_of(v_tree(s));
}

/* Two loops that the compiler maps to vectors by itself. The multiply-adds are written out, as gcc 12
 * makes some of neighbours' products whatever -ffp-contract says. */
static void vec_rope(real *restrict y, const real *restrict x, const real *restrict rotation,
                     int64_t n_pair, rope_pairing pairing)
{
    for (int64_t k = 0; pairing == ROPE_ADJACENT && k < n_pair; k++) {
        const real c = rotation[2 * k], s = rotation[2 * k + 1], a = x[2 * k], b = x[2 * k + 1];
        y[2 * k] = fmaf(a, c, -(b * s));
        y[2 * k + 1] = fmaf(a, s, b * c);
    }
    for (int64_t k = 0; pairing == ROPE_HALVES && k < n_pair; k++) {
        const real c = rotation[2 * k], s = rotation[2 * k + 1], a = x[k], b = x[k + n_pair];
        y[k] = fmaf(a, c, -(b * s));
        y[k + n_pair] = fmaf(a, s, b * c);
    }
}

/* ---- producers ------------------------------------------------------------------------------- */

#define PRODUCES(name)                                                                             \
    static const real *produce_##name(real *to, const void *row, int64_t k0, int64_t n)            \
    {                                                                                              \
        const uint16_t *h = (const uint16_t *)row + k0;                                            \
        int64_t k = 0;                                                                             \
        for (; k + WIDTH <= n; k += WIDTH)                                                         \
            v_store(to + k, v_from_##name(h + k));                                                 \
        for (; k < n; k++)                                                                         \
            to[k] = name##_decode(h[k]);                                                           \
        return to;                                                                                 \
    }
PRODUCES(f16)
PRODUCES(bf16)
#undef PRODUCES

/* `to` may be the row. */
static const real *produce_rounded(real *to, const void *row, int64_t k0, int64_t n)
{
    const real *x = (const real *)row + k0;
    EACH(n, to, x, x, v_bf16(A));
    return to;
}

/* 34 bytes a block of 32: see tensor/q8_0.c. */
static const real *produce_q8_0(real *to, const void *row, int64_t k0, int64_t n)
{
    const uint8_t *block = (const uint8_t *)row + k0 / 32 * 34;
    for (int64_t k = 0; k < n; k += 32, block += 34) {
        const vec d = v_set(v_half((uint16_t)(block[0] | block[1] << 8)));
        for (int part = 0; part < 32; part += WIDTH)
            v_store(to + k + part, v_mul(d, v_from_i8(block + 2 + part)));
    }
    return to;
}

/* Class bf16: the functions of pairs.h, or those of tiles.h with this prefix; block formats become
 * pairs by the functions of int8_pairs.h for `set`. */
#define PAIR_KERNELS(set)                                                                          \
    .rows_bf16 = ROWS, .pack_bf16 = vec_pack_bf16, .product_bf16 = vec_product_bf16,               \
    .pairs = pairs_##set
#define TILE_KERNELS(prefix, set)                                                                  \
    .rows_bf16 = 2 * TILE_ROWS, .pack_bf16 = prefix##_pack_bf16_tiles,                             \
    .product_bf16 = prefix##_product_bf16_tiles, .pairs = pairs_##set

/* The functions of this file and of panels.h, for a table. */
#define VECTOR_KERNELS                                                                             \
    .dot = vec_dot, .axpy = vec_axpy, .rows = ROWS, .panel = PANEL, .pack = vec_pack,              \
    .product = vec_product, .pack_panel = vec_pack_panel, .rmsnorm = vec_rmsnorm,                  \
    .layernorm = vec_layernorm, .activate = vec_act, .activate_back = vec_act_back,                \
    .add = vec_add, .mul = vec_mul, .blend = vec_blend, .rope = vec_rope,                          \
    .exp_less = vec_exp_less, .exp_block = vec_exp_block, .softmax_back = vec_softmax_back,        \
    .log_of = vec_log_of, .log_sum_exp = vec_log_sum_exp,                                          \
    .tile = { [TILE_F16] = produce_f16,                                                            \
              [TILE_BF16] = produce_bf16,                                                          \
              [TILE_Q8_0] = produce_q8_0,                                                          \
              [TILE_ROUNDED] = produce_rounded }
