/* vector.h - the kernels over a vector type, once for all processors that have one.
 *
 * The file that includes it (avx2.c, avx512.c, neon.c) has defined
 *
 *     WIDTH                  numbers in a vector
 *     ROWS, VECS             rows and vectors of outputs of a register block of `product`
 *     vec, v_load v_store v_load_part v_store_part v_set v_zero
 *     v_add v_sub v_mul v_div v_fma v_min v_max v_sum v_top v_round v_pow2 v_keep v_abs
 *     v_transpose            WIDTH vectors, in place
 *     v_half                 one 16-bit float
 *     v_from_f16 v_from_bf16 v_from_i8      WIDTH stored numbers, made real
 *     v_to_i8                WIDTH whole numbers, stored as bytes
 *
 * A sum over a row is one vector of partial sums, lane j taking the elements k with k mod WIDTH = j
 * in ascending order, added up at its end. */

static inline int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- sums ------------------------------------------------------------------------------------ */

static real dot(const real *a, const real *b, int64_t n)
{
    vec s = v_zero();
    int64_t k = 0;
    for (; k + WIDTH <= n; k += WIDTH)
        s = v_fma(v_load(a + k), v_load(b + k), s);
    if (k < n) {
        const int part = (int)(n - k);
        s = v_fma(v_load_part(a + k, part), v_load_part(b + k, part), s);
    }
    return v_sum(s);
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

/* 18 bytes a block of 32: see tensor/q4_0.c. */
static const real *produce_q4_0(real *to, const void *row, int64_t k0, int64_t n)
{
    const uint8_t *block = (const uint8_t *)row + k0 / 32 * 18;
    for (int64_t k = 0; k < n; k += 32, block += 18) {
        int8_t q[32];
        for (int i = 0; i < 16; i++) {
            q[i] = (int8_t)((block[2 + i] & 15) - 8);
            q[i + 16] = (int8_t)((block[2 + i] >> 4) - 8);
        }
        const vec d = v_set(v_half((uint16_t)(block[0] | block[1] << 8)));
        for (int part = 0; part < 32; part += WIDTH)
            v_store(to + k + part, v_mul(d, v_from_i8(q + part)));
    }
    return to;
}

/* The functions of this file and of panels.h, for a table. */
#define VECTOR_KERNELS                                                                             \
    .dot = dot, .axpy = axpy, .rows = ROWS, .panel = PANEL, .pack = pack, .product = product,      \
    .rmsnorm = rmsnorm, .layernorm = layernorm, .act = act, .act_back = act_back, .add = add,      \
    .mul = mul, .rope = rope, .exp_block = exp_block,                                              \
    .tile = {                                                                                      \
        [TILE_F16] = produce_f16,                                                                  \
        [TILE_BF16] = produce_bf16,                                                                \
        [TILE_Q8_0] = produce_q8_0,                                                                \
        [TILE_Q4_0] = produce_q4_0,                                                                \
    }
