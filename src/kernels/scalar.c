/* scalar.c - the portable kernels: the reference for every other table, and the definition of
 * order.
 *
 * A sum over a row of n numbers runs in LANES interleaved partial sums. Lane j takes the elements k
 * with k mod LANES = j in ascending order; the lanes are then added in a balanced tree. That is one
 * fixed order, so one row and many rows, one thread and four, give the same bits, and compilers can
 * map it to the target's vectors without reordering anything. */
#include "kernels/half.h"
#include "kernels/kernels.h"

#define LANES 16

static real tree(real s[LANES])
{
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int j = 0; j < half; j++)
            s[j] += s[j + half];
    return s[0];
}

/* sum_k a[k] b[k]; without b, sum_k a[k] */
static inline real scalar_add_up(const real *a, const real *b, int64_t n)
{
    real s[LANES] = { 0 };
    int64_t k = 0;
    for (; k + LANES <= n; k += LANES)
        for (int j = 0; j < LANES; j++)
            s[j] += b ? a[k + j] * b[k + j] : a[k + j];
    for (int j = 0; k < n; j++, k++)
        s[j] += b ? a[k] * b[k] : a[k];
    return tree(s);
}

static real scalar_dot(const real *a, const real *b, int64_t n)
{
    return scalar_add_up(a, b, n);
}

static real scalar_sum(const real *x, int64_t n)
{
    return scalar_add_up(x, NULL, n);
}

static void scalar_axpy(real *y, real a, const real *x, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        y[k] += a * x[k];
}

/* ---- products -------------------------------------------------------------------------------- */

/* A block is one row, so packed rows are plain rows, tile by tile. */
static void scalar_pack(real *to, const real *a, int64_t i_step, int64_t j_step, int64_t N,
                        int64_t J, int64_t i0, int64_t i1)
{
    for (int64_t j0 = 0; j0 < J; j0 += TILE) {
        const int64_t n = J - j0 < TILE ? J - j0 : TILE;
        for (int64_t i = i0; i < i1; i++)
            for (int64_t j = 0; j < n; j++)
                to[packed_at(N, j0, n, i) + j] = a[i * i_step + (j0 + j) * j_step];
    }
}

static void scalar_put(real *to, bool add, real x)
{
    *to = add ? *to + x : x;
}

/* One row of W gives column c of the sums. */
static void scalar_product_transposed(real *y, int64_t y_stride, bool add, const real *a, int64_t N,
                                      int64_t i0, int64_t i1, int64_t J, const row_set *w,
                                      int64_t c)
{
    real buffer[TILE];
    const void *row = (const char *)w->data + (size_t)c * w->row_bytes;
    for (int64_t j0 = 0; j0 < J; j0 += TILE) {
        const int64_t n = J - j0 < TILE ? J - j0 : TILE;
        const real *t = w->tile(buffer, row, w->k0 + j0, n);
        for (int64_t i = i0; i < i1; i++)
            scalar_put(&y[i * y_stride + c], add || j0 > 0,
                       scalar_dot(a + packed_at(N, j0, n, i), t, n));
    }
    for (int64_t i = i0; w->bias && i < i1; i++)
        y[i * y_stride + c] += w->bias[c];
}

/* Adds rows of W, columns [c, c + width) at a time, for several rows of sums together. */
#define TOGETHER 8
static void scalar_product_as_stored(real *y, int64_t y_stride, bool add, const real *a, int64_t N,
                                     int64_t i0, int64_t R, int64_t j0, int64_t n, const row_set *w,
                                     int64_t c, int64_t width)
{
    real *buffer = side_take(TILE * sizeof *buffer);
    real(*part)[TILE] = side_take(TOGETHER * sizeof *part);
    for (int64_t i = 0; i < R; i++)
        for (int64_t k = 0; k < width; k++)
            part[i][k] = 0;
    for (int64_t j = 0; j < n; j++) {
        const char *row = (const char *)w->data + (size_t)(j0 + j) * w->row_bytes;
        const real *t = w->tile(buffer, row, w->k0 + c, width);
        for (int64_t i = 0; i < R; i++)
            scalar_axpy(part[i], a[packed_at(N, j0, n, i0 + i) + j], t, width);
    }
    for (int64_t i = 0; i < R; i++)
        for (int64_t k = 0; k < width; k++)
            scalar_put(&y[(i0 + i) * y_stride + c + k], add, part[i][k]);
    side_give(buffer);
}

static void scalar_product(real *y, int64_t y_stride, bool add, const real *a, int64_t N, int64_t J,
                           const row_set *w, bool w_transposed, int64_t i0, int64_t i1, int64_t c0,
                           int64_t c1)
{
    for (int64_t c = c0; w_transposed && c < c1; c++)
        scalar_product_transposed(y, y_stride, add, a, N, i0, i1, J, w, c);
    for (int64_t j0 = 0; !w_transposed && j0 < J; j0 += TILE)
        for (int64_t c = c0; c < c1; c += TILE)
            for (int64_t i = i0; i < i1; i += TOGETHER)
                scalar_product_as_stored(y, y_stride, add || j0 > 0, a, N, i,
                                         min64(TOGETHER, i1 - i), j0, min64(TILE, J - j0), w, c,
                                         min64(TILE, c1 - c));
}

/* ---- products, class bf16 -------------------------------------------------------------------- */

#define GROUP 32 /* terms in two chains */

static real rounded(real x)
{
    return bf16_decode(bf16_encode((float)x));
}

static void scalar_pack_bf16(void *to, const real *a, int64_t i_step, int64_t j_step, int64_t N,
                             int64_t J, int64_t i0, int64_t i1)
{
    (void)N;
    for (int64_t i = i0; i < i1; i++)
        for (int64_t j = 0; j < J; j++)
            ((real *)to)[i * J + j] = rounded(a[i * i_step + j * j_step]);
}

/* Adds n <= GROUP terms to columns [0, width) of a row of y; b[j] is the row of term j. */
static void scalar_group(real *y, const real *a, real (*b)[GROUP], int64_t n, int64_t width)
{
    real s[2][GROUP] = { 0 };
    for (int64_t j = 0; j < n; j++)
        scalar_axpy(s[j % 2], a[j], b[j], width);
    for (int64_t c = 0; c < width; c++)
        y[c] += s[0][c] + s[1][c];
}

/* b[j, c]: terms [j0, j0 + n), columns [c0, c0 + width). */
static void scalar_terms(real (*b)[GROUP], const row_set *w, bool w_transposed, int64_t j0,
                         int64_t n, int64_t c0, int64_t width)
{
    const int64_t first = w_transposed ? c0 : j0, count = w_transposed ? width : n;
    for (int64_t i = 0; i < count; i++) {
        real buffer[GROUP];
        const real *t = w->tile(buffer, (const char *)w->data + (size_t)(first + i) * w->row_bytes,
                                w->k0 + (w_transposed ? j0 : c0), w_transposed ? n : width);
        for (int64_t k = 0; k < (w_transposed ? n : width); k++)
            b[w_transposed ? k : i][w_transposed ? i : k] = rounded(t[k]);
    }
}

static void scalar_product_bf16(real *y, int64_t y_stride, bool add, const void *a, int64_t N,
                                int64_t J, const row_set *w, bool w_transposed, int64_t i0,
                                int64_t i1, int64_t c0, int64_t c1)
{
    (void)N;
    real(*b)[GROUP] = side_take(GROUP * sizeof *b);
    for (int64_t i = i0; i < i1 && !add; i++)
        for (int64_t c = c0; c < c1; c++)
            y[i * y_stride + c] = 0;
    for (int64_t c = c0; c < c1; c += GROUP) {
        const int64_t width = min64(GROUP, c1 - c);
        for (int64_t j = 0; j < J; j += GROUP) {
            const int64_t n = min64(GROUP, J - j);
            scalar_terms(b, w, w_transposed, j, n, c, width);
            for (int64_t i = i0; i < i1; i++)
                scalar_group(y + i * y_stride + c, (const real *)a + i * J + j, b, n, width);
        }
        for (int64_t i = i0; w->bias && i < i1; i++)
            scalar_axpy(y + i * y_stride + c, 1, w->bias + c, width);
    }
    side_give(b);
}

/* ---- products, class i8 ---------------------------------------------------------------------- */

/* Values too small to represent become zero. If one is NaN, the scale is NaN, and so is every sum
 * that uses it. */
static void quantise(int8_t *q, real *scale, int32_t *sum, int32_t half[2], const real *x)
{
    real most = 0, poison = 0;
    for (int k = 0; k < BLOCK_I8; k++) {
        const real size = fabs(x[k]);
        most = size > most ? size : most;
        poison += x[k] * 0;
    }
    const real up = most > (real)1e-30 ? 127 / most : 0;
    *scale = (up > 0 ? most / 127 : 0) + poison;
    half[0] = half[1] = 0;
    for (int k = 0; k < BLOCK_I8; k++) {
        q[k] = poison == 0 ? (int8_t)rint(x[k] * up) : 0;
        half[k / (BLOCK_I8 / 2)] += q[k];
    }
    *sum = half[0] + half[1];
}

static void scalar_pack_i8(void *to, const real *x, int64_t x_stride, int64_t N, int64_t K,
                           int64_t i0, int64_t i1)
{
    const rows_i8 p = packed_i8(to, N, K);
    const int64_t n = K / BLOCK_I8;
    for (int64_t i = i0; i < i1; i++)
        for (int64_t b = 0; b < n; b++)
            quantise(p.q + i * K + b * BLOCK_I8, p.scale + i * n + b, p.sum + i * n + b,
                     p.half + 2 * (i * n + b), x + i * x_stride + b * BLOCK_I8);
}

/* One block of a row of x, of scale d and sums `scalar_sum`, one per group, times one block of weights. */
static real add_block_i8(real y, const int8_t *x, real d, const int32_t *sum, const block_i8 *w,
                         i8_form form)
{
    const int groups = groups_i8(form), n = BLOCK_I8 / groups;
    for (int g = 0; g < groups; g++) {
        int32_t a = 0;
        for (int k = g * n; k < (g + 1) * n; k++)
            a += (int32_t)x[k] * w->q[k];
        const real s = form & I8_ASYMMETRIC ? fma((real)a, w->scale[g], (real)sum[g] * w->offset[g])
                                            : (real)a * w->scale[g];
        y = fma(s, d, y);
    }
    return y;
}

static void scalar_product_i8(real *y, int64_t y_stride, const void *x, int64_t N, int64_t K,
                              const row_set *w, int64_t o0, int64_t o1)
{
    const rows_i8 p = packed_i8(x, N, K);
    const int64_t n = K / BLOCK_I8;
    for (int64_t o = o0; o < o1; o++) {
        for (int64_t i = 0; i < N; i++)
            y[i * y_stride + o] = 0;
        for (int64_t b = 0; b < n; b++) {
            block_i8 block;
            w->quants(&block, (const char *)w->data + (size_t)o * w->row_bytes, b);
            for (int64_t i = 0; i < N; i++) {
                const int64_t at = i * n + b;
                const int32_t *sum = w->form & I8_HALVES ? p.half + 2 * at : p.sum + at;
                real *to = &y[i * y_stride + o];
                *to = add_block_i8(*to, p.q + at * BLOCK_I8, p.scale[at], sum, &block, w->form);
            }
        }
        for (int64_t i = 0; w->bias && i < N; i++)
            y[i * y_stride + o] += w->bias[o];
    }
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void scalar_rmsnorm(real *y, const real *x, const real *w, real eps, int64_t n)
{
    const real scale = 1 / sqrt(scalar_dot(x, x, n) / (real)n + eps);
    for (int64_t k = 0; k < n; k++)
        y[k] = x[k] * scale * w[k];
}

/* Two passes: the variance of centred values does not cancel. The output holds the centred row in
 * between. */
static norm_stats scalar_layernorm(real *y, const real *x, const real *w, const real *b, real eps,
                                   int64_t n)
{
    const real mean = scalar_sum(x, n) / (real)n;
    for (int64_t k = 0; k < n; k++)
        y[k] = x[k] - mean;
    const real scale = 1 / sqrt(scalar_dot(y, y, n) / (real)n + eps);
    for (int64_t k = 0; k < n; k++)
        y[k] = y[k] * scale * w[k] + (b ? b[k] : 0);
    return (norm_stats){ mean, scale };
}

static real sigmoid(real x)
{
    return 1 / (1 + exp(-x));
}

/* Phi(x) */
static real phi(real x)
{
    return (real)0.5 * (1 + erf(x * (real)0.70710678118654752440));
}

/* Near 2 Phi(x) - 1 */
static real phi_tanh(real x)
{
    return tanh((real)0.79788456080286535588 * (x + (real)0.044715 * x * x * x));
}

static real act_of(act_kind kind, real x)
{
    switch (kind) {
    case ACT_RELU:
        return x > 0 ? x : 0;
    case ACT_SILU:
        return x / (1 + exp(-x));
    case ACT_GELU:
        return x * phi(x);
    case ACT_GELU_TANH:
        return (real)0.5 * x * (1 + phi_tanh(x));
    case ACT_TANH:
        return tanh(x);
    case ACT_SIGMOID:
        return sigmoid(x);
    default:
        return x;
    }
}

static void scalar_act(real *y, const real *x, act_kind kind, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        y[k] = act_of(kind, x[k]);
}

static real gelu_tanh_slope(real x)
{
    const real c = (real)0.79788456080286535588, t = phi_tanh(x);
    return (real)0.5 * (1 + t) + (real)0.5 * x * (1 - t * t) * c * (1 + 3 * (real)0.044715 * x * x);
}

static real silu_slope(real x)
{
    const real s = sigmoid(x);
    return s * (1 + x * (1 - s));
}

static real slope_of(act_kind kind, real x)
{
    switch (kind) {
    case ACT_RELU:
        return x > 0 ? 1 : 0;
    case ACT_SILU:
        return silu_slope(x);
    case ACT_GELU:
        return phi(x) + x * (real)0.39894228040143267794 * exp((real)-0.5 * x * x);
    case ACT_GELU_TANH:
        return gelu_tanh_slope(x);
    case ACT_TANH:
        return 1 - tanh(x) * tanh(x);
    case ACT_SIGMOID:
        return sigmoid(x) * (1 - sigmoid(x));
    default:
        return 1;
    }
}

static void scalar_act_back(real *dx, const real *x, const real *dy, act_kind kind, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        dx[k] = dy[k] * slope_of(kind, x[k]);
}

static void scalar_add(real *y, const real *a, const real *b, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        y[k] = a[k] + b[k];
}

static void scalar_mul(real *y, const real *a, const real *b, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        y[k] = a[k] * b[k];
}

static void scalar_blend(real *y, real a, const real *x, real b, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        y[k] = y[k] * a + x[k] * b;
}

static void scalar_rope(real *y, const real *x, const real *rotation, int64_t n_pair,
                        rope_pairing pairing)
{
    const int64_t step = pairing == ROPE_ADJACENT ? 2 : 1,
                  apart = pairing == ROPE_ADJACENT ? 1 : n_pair;
    for (int64_t k = 0; k < n_pair; k++) {
        const real c = rotation[2 * k], s = rotation[2 * k + 1];
        const real a = x[k * step], b = x[k * step + apart];
        y[k * step] = a * c - b * s;
        y[k * step + apart] = a * s + b * c;
    }
}

static real scalar_exp_less(real *s, int64_t n, real by)
{
    for (int64_t k = 0; k < n; k++)
        s[k] = exp(s[k] - by);
    return scalar_sum(s, n);
}

static real scalar_top(const real *x, int64_t n)
{
    real m = x[0];
    for (int64_t k = 1; k < n; k++)
        m = x[k] > m ? x[k] : m;
    return m;
}

static real scalar_exp_block(real *s, int64_t n, real scale, real *max)
{
    for (int64_t k = 0; k < n; k++)
        s[k] *= scale;
    *max = scalar_top(s, n);
    return scalar_exp_less(s, n, *max);
}

static void scalar_softmax_back(real *ds, const real *p, real by, real delta, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        ds[k] = by * p[k] * (ds[k] - delta);
}

static real scalar_log_of(real x)
{
    return log(x);
}

static real scalar_log_sum_exp(const real *x, int64_t n)
{
    const real max = scalar_top(x, n);
    real total = 0;
    for (int64_t k = 0; k < n; k++)
        total += exp(x[k] - max);
    return max + log(total);
}

const kernels kernels_scalar = {
    .name = "scalar",
    .dot = scalar_dot,
    .axpy = scalar_axpy,
    .rows = 1,
    .panel = 1,
    .pack = scalar_pack,
    .product = scalar_product,
    .rows_bf16 = 1,
    .pack_bf16 = scalar_pack_bf16,
    .product_bf16 = scalar_product_bf16,
    .rows_i8 = 1,
    .pack_i8 = scalar_pack_i8,
    .product_i8 = scalar_product_i8,
    .rmsnorm = scalar_rmsnorm,
    .layernorm = scalar_layernorm,
    .activate = scalar_act,
    .activate_back = scalar_act_back,
    .add = scalar_add,
    .mul = scalar_mul,
    .blend = scalar_blend,
    .rope = scalar_rope,
    .exp_less = scalar_exp_less,
    .exp_block = scalar_exp_block,
    .softmax_back = scalar_softmax_back,
    .log_of = scalar_log_of,
    .log_sum_exp = scalar_log_sum_exp,
};
