/* vector.h - the kernels over a vector type, once for all processors that have one.
 *
 * The file that includes it (avx2.c, avx512.c) has defined
 *
 *     WIDTH, ROWS, OUTS      numbers in a vector; rows and outputs of a register block
 *     vec, v_load v_store v_load_part v_store_part v_set v_zero
 *     v_add v_sub v_mul v_div v_fma v_min v_max v_sum v_top v_round v_pow2 v_keep
 *     v_half                 one 16-bit float
 *     v_from_f16 v_from_bf16 v_from_i8      WIDTH stored numbers, made real
 *     TABLE, NAME            the table to fill and what it is called
 *
 * Order, as in scalar.c: an output of a product is one vector of partial sums, lane j taking the
 * columns k with k mod WIDTH = j of a tile in ascending order, added up at its end; tiles in
 * ascending order. Blocks of rows and outputs only decide which of these run side by side. So one
 * row and a thousand agree on a processor; two processors agree within the bounds of
 * NUMERICS.md. */

static inline int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- products -------------------------------------------------------------------------------- */

/* R x O dot products of n columns: out[i][o] = x_i . w_o. R and O are constants where it is
 * inlined. */
static inline __attribute__((always_inline)) void dots(int R, int O, const real *x,
                                                       int64_t x_stride, const real *const *w,
                                                       int64_t n, real (*out)[OUTS])
{
    vec sum[ROWS][OUTS];
    for (int i = 0; i < R; i++)
        for (int o = 0; o < O; o++)
            sum[i][o] = v_zero();
    int64_t k = 0;
    for (; k + WIDTH <= n; k += WIDTH)
        for (int o = 0; o < O; o++) {
            const vec v = v_load(w[o] + k);
            for (int i = 0; i < R; i++)
                sum[i][o] = v_fma(v_load(x + i * x_stride + k), v, sum[i][o]);
        }
    if (k < n)
        for (int o = 0; o < O; o++) {
            const vec v = v_load_part(w[o] + k, (int)(n - k));
            for (int i = 0; i < R; i++)
                sum[i][o] = v_fma(v_load_part(x + i * x_stride + k, (int)(n - k)), v, sum[i][o]);
        }
    for (int i = 0; i < R; i++)
        for (int o = 0; o < O; o++)
            out[i][o] = v_sum(sum[i][o]);
}

/* Any number of rows and outputs up to a register block; the two usual shapes are unrolled. */
static void block_dots(int R, int O, const real *x, int64_t x_stride, const real *const *w,
                       int64_t n, real (*out)[OUTS])
{
    if (R == ROWS && O == OUTS)
        dots(ROWS, OUTS, x, x_stride, w, n, out);
    else if (R == 1 && O == OUTS)
        dots(1, OUTS, x, x_stride, w, n, out);
    else
        for (int i = 0; i < R; i++)
            for (int o = 0; o < O; o++) {
                real one[1][OUTS];
                dots(1, 1, x + i * x_stride, x_stride, w + o, n, one);
                out[i][o] = one[0][0];
            }
}

static real dot(const real *a, const real *b, int64_t n)
{
    real out[1][OUTS];
    dots(1, 1, a, 0, &b, n, out);
    return out[0][0];
}

static void axpy(real *y, real a, const real *x, int64_t n)
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

/* Rows of x that stay in the second cache while the weights of a tile pass by. */
#define ROW_BLOCK 256

/* One tile of columns for some rows: OUTS rows of W are produced at a time, and multiplied with all
 * of them. */
static void tile_product(real *y, int64_t y_stride, const real *x, int64_t x_stride, int64_t N,
                         const char *w, size_t w_bytes, tile_fn *tile, int64_t k, int64_t n,
                         int64_t o0, int64_t o1)
{
    _Alignas(64) real buffer[OUTS][TILE_COLS];
    real out[ROWS][OUTS];
    const real *t[OUTS];
    for (int64_t o = o0; o < o1; o += OUTS) {
        const int O = (int)least(OUTS, o1 - o);
        for (int c = 0; c < O; c++)
            t[c] = tile(buffer[c], w + (size_t)(o + c) * w_bytes, k, n);
        for (int64_t i = 0; i < N; i += ROWS) {
            const int R = (int)least(ROWS, N - i);
            block_dots(R, O, x + i * x_stride + k, x_stride, t, n, out);
            for (int r = 0; r < R; r++)
                for (int c = 0; c < O; c++) {
                    real *to = &y[(i + r) * y_stride + o + c];
                    *to = k == 0 ? out[r][c] : *to + out[r][c];
                }
        }
    }
}

static void matmul(real *y, int64_t y_stride, const real *x, int64_t x_stride, int64_t N, int64_t K,
                   const void *w, size_t w_bytes, tile_fn *tile, const real *bias, int64_t o0,
                   int64_t o1)
{
    for (int64_t i = 0; i < N; i += ROW_BLOCK)
        for (int64_t k = 0; k < K; k += TILE_COLS)
            tile_product(y + i * y_stride, y_stride, x + i * x_stride, x_stride,
                         least(ROW_BLOCK, N - i), w, w_bytes, tile, k, least(TILE_COLS, K - k), o0,
                         o1);
    for (int64_t i = 0; bias && i < N; i++)
        for (int64_t o = o0; o < o1; o++)
            y[i * y_stride + o] += bias[o];
}

/* sum_j a[j a_step + i a_stride] b[j b_stride + k] for R values of i and up to two vectors of k:
 * the shape of both gradients. Each number is one sum in ascending order of j. */
static inline __attribute__((always_inline)) void gather(int R, real *to, int64_t to_stride,
                                                         bool add, const real *a, int64_t a_stride,
                                                         int64_t a_step, const real *b,
                                                         int64_t b_stride, int64_t n, int64_t width)
{
    vec sum[ROWS][2];
    const int64_t first = least(width, WIDTH), second = width - first;
    for (int i = 0; i < R; i++) {
        sum[i][0] = add ? v_load_part(to + i * to_stride, (int)first) : v_zero();
        sum[i][1] = add && second ? v_load_part(to + i * to_stride + WIDTH, (int)second) : v_zero();
    }
    for (int64_t j = 0; j < n; j++) {
        const vec p = v_load_part(b + j * b_stride, (int)first);
        const vec q = second ? v_load_part(b + j * b_stride + WIDTH, (int)second) : v_zero();
        for (int i = 0; i < R; i++) {
            const vec s = v_set(a[j * a_step + i * a_stride]);
            sum[i][0] = v_fma(s, p, sum[i][0]);
            sum[i][1] = v_fma(s, q, sum[i][1]);
        }
    }
    for (int i = 0; i < R; i++) {
        v_store_part(to + i * to_stride, sum[i][0], (int)first);
        if (second)
            v_store_part(to + i * to_stride + WIDTH, sum[i][1], (int)second);
    }
}

static void gather_rows(real *to, int64_t to_stride, bool add, const real *a, int64_t a_stride,
                        int64_t a_step, const real *b, int64_t b_stride, int64_t n, int64_t R,
                        int64_t K)
{
    for (int64_t k = 0; k < K; k += 2 * WIDTH) {
        const int64_t width = least(2 * WIDTH, K - k);
        int64_t i = 0;
        for (; i + ROWS <= R; i += ROWS)
            gather(ROWS, to + i * to_stride + k, to_stride, add, a + i * a_stride, a_stride, a_step,
                   b + k, b_stride, n, width);
        for (; i < R; i++)
            gather(1, to + i * to_stride + k, to_stride, add, a + i * a_stride, a_stride, a_step,
                   b + k, b_stride, n, width);
    }
}

/* Weights that learn are stored as real numbers and used where they lie; others are produced by
 * rows. */
static void matmul_dx(real *dx, int64_t dx_stride, bool add, const real *dy, int64_t dy_stride,
                      int64_t i0, int64_t i1, int64_t O, int64_t K, const void *w, size_t w_bytes,
                      tile_fn *tile)
{
    real buffer[TILE_COLS];
    const bool in_place = tile(buffer, w, 0, 0) != buffer;
    if (in_place) {
        gather_rows(dx + i0 * dx_stride, dx_stride, add, dy + i0 * dy_stride, dy_stride, 1, w,
                    (int64_t)(w_bytes / sizeof(real)), O, i1 - i0, K);
        return;
    }
    kernels_scalar.matmul_dx(dx, dx_stride, add, dy, dy_stride, i0, i1, O, K, w, w_bytes, tile);
}

static void matmul_dw(real *dw, bool add, const real *dy, int64_t dy_stride, const real *x,
                      int64_t x_stride, int64_t N, int64_t K, int64_t o0, int64_t o1)
{
    gather_rows(dw + o0 * K, K, add, dy + o0, 1, dy_stride, x, x_stride, N, o1 - o0, K);
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* e^x = 2^n e^r, n = round(x / ln 2), |r| <= ln 2 / 2, by a polynomial; relative error below 2e-7.
 * Below -87.3 it is 0, above 88.3 it stays at its largest; NaN stays NaN. */
static inline vec v_exp(vec x)
{
    const vec most = v_set(88.3762626f), x0 = x;
    x = v_max(v_set(-88.3762626f), v_min(most, x));
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
    return v_keep(v_mul(p, v_pow2(n)), x0, v_set(-87.3365479f));
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

static void rmsnorm(real *y, const real *x, const real *w, real eps, int64_t n)
{
    const vec scale = v_set(1 / sqrtf(dot(x, x, n) / (real)n + eps));
    EACH(n, y, x, w, v_mul(v_mul(A, scale), B));
}

static real sum(const real *x, int64_t n)
{
    vec s = v_zero();
    int64_t k = 0;
    for (; k + WIDTH <= n; k += WIDTH)
        s = v_add(s, v_load(x + k));
    if (k < n)
        s = v_add(s, v_load_part(x + k, (int)(n - k)));
    return v_sum(s);
}

static void layernorm(real *y, const real *x, const real *w, const real *b, real eps, int64_t n)
{
    const vec mean = v_set(sum(x, n) / (real)n);
    EACH(n, y, x, x, v_sub(A, mean));
    const vec scale = v_set(1 / sqrtf(dot(y, y, n) / (real)n + eps));
    EACH(n, y, y, w, v_mul(v_mul(A, scale), B));
    if (b)
        EACH(n, y, y, b, v_add(A, B));
}

static inline vec v_silu(vec x)
{
    return v_div(x, v_add(v_set(1), v_exp(v_sub(v_zero(), x))));
}

/* tanh u = 1 - 2 / (e^2u + 1) */
static inline vec v_gelu_tanh(vec x)
{
    const vec cube = v_mul(v_mul(x, x), x);
    const vec u = v_mul(v_set(0.79788456f), v_fma(v_set(0.044715f), cube, x));
    const vec e = v_exp(v_add(u, u));
    const vec t = v_sub(v_set(1), v_div(v_set(2), v_add(e, v_set(1))));
    return v_mul(v_mul(v_set(0.5f), x), v_add(v_set(1), t));
}

static void act(real *y, const real *x, act_kind kind, int64_t n)
{
    switch (kind) {
    case ACT_RELU:
        EACH(n, y, x, x, v_max(v_zero(), A));
        break;
    case ACT_SILU:
        EACH(n, y, x, x, v_silu(A));
        break;
    case ACT_GELU_TANH:
        EACH(n, y, x, x, v_gelu_tanh(A));
        break;
    default:
        kernels_scalar.act(y, x, kind, n);
    }
}

static void add(real *y, const real *a, const real *b, int64_t n)
{
    EACH(n, y, a, b, v_add(A, B));
}

static void mul(real *y, const real *a, const real *b, int64_t n)
{
    EACH(n, y, a, b, v_mul(A, B));
}

static real exp_block(real *s, int64_t n, real *max)
{
    real m = s[0];
    int64_t k = 0;
    if (n >= WIDTH) {
        vec top = v_load(s);
        for (k = WIDTH; k + WIDTH <= n; k += WIDTH)
            top = v_max(top, v_load(s + k));
        m = v_top(top);
    }
    for (; k < n; k++)
        m = s[k] > m ? s[k] : m;
    *max = m;
    EACH(n, s, s, s, v_exp(v_sub(A, v_set(m))));
    return sum(s, n);
}

static void rope(real *y, const real *x, const real *turn, int64_t n_pair, rope_pairing pairing)
{
    kernels_scalar.rope(y, x, turn, n_pair, pairing);
}

static void act_back(real *dx, const real *x, const real *dy, act_kind kind, int64_t n)
{
    kernels_scalar.act_back(dx, x, dy, kind, n);
}

/* ---- producers ------------------------------------------------------------------------------- */

static const real *produce_f16(real *to, const void *row, int64_t k0, int64_t n)
{
    const uint16_t *h = (const uint16_t *)row + k0;
    int64_t k = 0;
    for (; k + WIDTH <= n; k += WIDTH)
        v_store(to + k, v_from_f16(h + k));
    for (; k < n; k++)
        to[k] = f16_decode(h[k]);
    return to;
}

static const real *produce_bf16(real *to, const void *row, int64_t k0, int64_t n)
{
    const uint16_t *h = (const uint16_t *)row + k0;
    int64_t k = 0;
    for (; k + WIDTH <= n; k += WIDTH)
        v_store(to + k, v_from_bf16(h + k));
    for (; k < n; k++)
        to[k] = bf16_decode(h[k]);
    return to;
}

/* 34 bytes a block of 32: see tensor/q8_0.c. Tiles begin and end with whole blocks. */
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

const kernels TABLE = {
    .name = NAME,
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
    .tile = { [TILE_F16] = produce_f16, [TILE_BF16] = produce_bf16, [TILE_Q8_0] = produce_q8_0 },
};
