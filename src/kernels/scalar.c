/* scalar.c - the portable kernels: the reference for every other table, and the definition of
 * order.
 *
 * A sum over a row of n numbers runs in LANES interleaved partial sums, lane j taking the elements
 * k with k mod LANES = j in ascending order; the lanes are then added in a balanced tree. That is
 * one fixed order, so one row and many rows, one thread and four, give the same bits, and compilers
 * can map it to whatever vectors the target has without being allowed to reorder anything. */
#include "kernels/kernels.h"

#define LANES 16

static real tree(real s[LANES])
{
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int j = 0; j < half; j++)
            s[j] += s[j + half];
    return s[0];
}

static real dot(const real *a, const real *b, int64_t n)
{
    real s[LANES] = { 0 };
    int64_t k = 0;
    for (; k + LANES <= n; k += LANES)
        for (int j = 0; j < LANES; j++)
            s[j] += a[k + j] * b[k + j];
    for (int j = 0; k < n; j++, k++)
        s[j] += a[k] * b[k];
    return tree(s);
}

static real sum(const real *x, int64_t n)
{
    real s[LANES] = { 0 };
    int64_t k = 0;
    for (; k + LANES <= n; k += LANES)
        for (int j = 0; j < LANES; j++)
            s[j] += x[k + j];
    for (int j = 0; k < n; j++, k++)
        s[j] += x[k];
    return tree(s);
}

static void axpy(real *y, real a, const real *x, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        y[k] += a * x[k];
}

/* A tile of one output's weights is produced once and multiplied with every row of x. Tiles are
 * summed in ascending order into y itself. */
static void matmul(real *y, int64_t y_stride, const real *x, int64_t x_stride, int64_t N, int64_t K,
                   const void *w, size_t w_bytes, tile_fn *tile, const real *bias, int64_t o0,
                   int64_t o1)
{
    real buffer[TILE_COLS];
    for (int64_t o = o0; o < o1; o++) {
        const void *row = (const char *)w + (size_t)o * w_bytes;
        for (int64_t k = 0; k < K; k += TILE_COLS) {
            const int64_t n = K - k < TILE_COLS ? K - k : TILE_COLS;
            const real *t = tile(buffer, row, k, n);
            for (int64_t i = 0; i < N; i++) {
                const real part = dot(x + i * x_stride + k, t, n);
                real *to = &y[i * y_stride + o];
                *to = k == 0 ? part : *to + part;
            }
        }
        for (int64_t i = 0; bias && i < N; i++)
            y[i * y_stride + o] += bias[o];
    }
}

/* Rows of dx collect the rows of W in ascending order of the output they belong to. */
static void matmul_dx(real *dx, int64_t dx_stride, bool add, const real *dy, int64_t dy_stride,
                      int64_t i0, int64_t i1, int64_t O, int64_t K, const void *w, size_t w_bytes,
                      tile_fn *tile)
{
    real buffer[TILE_COLS];
    for (int64_t i = i0; !add && i < i1; i++)
        for (int64_t k = 0; k < K; k++)
            dx[i * dx_stride + k] = 0;
    for (int64_t k = 0; k < K; k += TILE_COLS) {
        const int64_t n = K - k < TILE_COLS ? K - k : TILE_COLS;
        for (int64_t o = 0; o < O; o++) {
            const real *t = tile(buffer, (const char *)w + (size_t)o * w_bytes, k, n);
            for (int64_t i = i0; i < i1; i++)
                axpy(dx + i * dx_stride + k, dy[i * dy_stride + o], t, n);
        }
    }
}

/* Rows of dw collect the rows of x in ascending order. */
static void matmul_dw(real *dw, bool add, const real *dy, int64_t dy_stride, const real *x,
                      int64_t x_stride, int64_t N, int64_t K, int64_t o0, int64_t o1)
{
    for (int64_t o = o0; o < o1; o++) {
        real *to = dw + o * K;
        for (int64_t k = 0; !add && k < K; k++)
            to[k] = 0;
        for (int64_t i = 0; i < N; i++)
            axpy(to, dy[i * dy_stride + o], x + i * x_stride, K);
    }
}

static void rmsnorm(real *y, const real *x, const real *w, real eps, int64_t n)
{
    const real scale = 1 / sqrt(dot(x, x, n) / (real)n + eps);
    for (int64_t k = 0; k < n; k++)
        y[k] = x[k] * scale * w[k];
}

/* Two passes: the variance of centred numbers does not cancel. The output holds the centred row
 * between. */
static void layernorm(real *y, const real *x, const real *w, const real *b, real eps, int64_t n)
{
    const real mean = sum(x, n) / (real)n;
    for (int64_t k = 0; k < n; k++)
        y[k] = x[k] - mean;
    const real scale = 1 / sqrt(dot(y, y, n) / (real)n + eps);
    for (int64_t k = 0; k < n; k++)
        y[k] = y[k] * scale * w[k] + (b ? b[k] : 0);
}

static real gelu(real x)
{
    return (real)0.5 * x * (1 + erf(x * (real)0.70710678118654752440));
}

static real gelu_tanh(real x)
{
    const real inner = (real)0.79788456080286535588 * (x + (real)0.044715 * x * x * x);
    return (real)0.5 * x * (1 + tanh(inner));
}

static void act(real *y, const real *x, act_kind kind, int64_t n)
{
    switch (kind) {
    case ACT_NONE:
        for (int64_t k = 0; k < n; k++)
            y[k] = x[k];
        break;
    case ACT_RELU:
        for (int64_t k = 0; k < n; k++)
            y[k] = x[k] > 0 ? x[k] : 0;
        break;
    case ACT_SILU:
        for (int64_t k = 0; k < n; k++)
            y[k] = x[k] / (1 + exp(-x[k]));
        break;
    case ACT_GELU:
        for (int64_t k = 0; k < n; k++)
            y[k] = gelu(x[k]);
        break;
    case ACT_GELU_TANH:
        for (int64_t k = 0; k < n; k++)
            y[k] = gelu_tanh(x[k]);
        break;
    case ACT_TANH:
        for (int64_t k = 0; k < n; k++)
            y[k] = tanh(x[k]);
        break;
    }
}

/* d/dx x Phi(x) = Phi(x) + x phi(x) */
static real gelu_slope(real x)
{
    const real phi = (real)0.39894228040143267794 * exp((real)-0.5 * x * x);
    return (real)0.5 * (1 + erf(x * (real)0.70710678118654752440)) + x * phi;
}

static real gelu_tanh_slope(real x)
{
    const real c = (real)0.79788456080286535588;
    const real t = tanh(c * (x + (real)0.044715 * x * x * x));
    return (real)0.5 * (1 + t) + (real)0.5 * x * (1 - t * t) * c * (1 + 3 * (real)0.044715 * x * x);
}

static real silu_slope(real x)
{
    const real s = 1 / (1 + exp(-x));
    return s * (1 + x * (1 - s));
}

static void act_back(real *dx, const real *x, const real *dy, act_kind kind, int64_t n)
{
    for (int64_t k = 0; k < n; k++) {
        real slope = 1;
        switch (kind) {
        case ACT_NONE:
            break;
        case ACT_RELU:
            slope = x[k] > 0 ? 1 : 0;
            break;
        case ACT_SILU:
            slope = silu_slope(x[k]);
            break;
        case ACT_GELU:
            slope = gelu_slope(x[k]);
            break;
        case ACT_GELU_TANH:
            slope = gelu_tanh_slope(x[k]);
            break;
        case ACT_TANH:
            slope = 1 - tanh(x[k]) * tanh(x[k]);
            break;
        }
        dx[k] = dy[k] * slope;
    }
}

static void add(real *y, const real *a, const real *b, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        y[k] = a[k] + b[k];
}

static void mul(real *y, const real *a, const real *b, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        y[k] = a[k] * b[k];
}

static void rope(real *y, const real *x, const real *turn, int64_t n_pair, rope_pairing pairing)
{
    const int64_t step = pairing == ROPE_ADJACENT ? 2 : 1,
                  apart = pairing == ROPE_ADJACENT ? 1 : n_pair;
    for (int64_t k = 0; k < n_pair; k++) {
        const real c = turn[2 * k], s = turn[2 * k + 1];
        const real a = x[k * step], b = x[k * step + apart];
        y[k * step] = a * c - b * s;
        y[k * step + apart] = a * s + b * c;
    }
}

static real exp_block(real *s, int64_t n, real *max)
{
    real m = s[0];
    for (int64_t k = 1; k < n; k++)
        m = s[k] > m ? s[k] : m;
    for (int64_t k = 0; k < n; k++)
        s[k] = exp(s[k] - m);
    *max = m;
    return sum(s, n);
}

const kernels kernels_scalar = {
    .name = "scalar",
    .dot = dot,
    .axpy = axpy,
    .matmul = matmul,
    .matmul_dx = matmul_dx,
    .matmul_dw = matmul_dw,
    .rmsnorm = rmsnorm,
    .layernorm = layernorm,
    .act = act,
    .act_back = act_back,
    .add = add,
    .mul = mul,
    .rope = rope,
    .exp_block = exp_block,
};
