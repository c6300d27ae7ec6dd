/* int8.h - products in class i8, over the vectors of vector.h and these of whole numbers:
 *
 *     ROWS_I8, VECS_I8       rows and vectors of outputs of a register block
 *     BIAS                   what bytes of weights are xor'ed with, to suit i_dot
 *     ivec, i_load i_four    32-bit lanes; four bytes in all of them
 *     i_begin(sum) i_dot     a sum of 32 products in each lane, four at a time, which begins with
 *                            what takes the bias back
 *     i_real                 lanes made real
 *     i_q8_0 i_q4_0          WIDTH rows of weights times one block of x, straight from the file
 *     v_scales               the scales of WIDTH stored blocks
 *     I8                     what the functions here need of the compiler
 *
 * Many rows: panels of weights as in panels.h, four columns of an output in a lane. One row: WIDTH
 * outputs at a time from where they are stored, at the speed of memory. Sums of a block are exact
 * either way, so both give the same bits, and so does scalar.c. */

#define PANEL_I8  (VECS_I8 * WIDTH)
#define BLOCKS_I8 32 /* blocks of columns in a panel: 1024 columns stay in the second cache */

typedef struct panel_i8 {
    _Alignas(64) uint8_t q[BLOCKS_I8 * BLOCK_I8 * PANEL_I8];
    _Alignas(64) real scale[BLOCKS_I8 * PANEL_I8];
} panel_i8;

/* R rows of a packed block, columns of n blocks of 32, times a panel: y is added to unless it
 * begins. R is a constant where it is inlined. */
static inline __attribute__((always_inline)) I8 void
multiply_i8_rows(int R, real *sums, bool begin, const int8_t *x, const real *x_scale,
                 const int32_t *x_sum, const panel_i8 *p, int64_t n)
{
    vec s[ROWS_I8][VECS_I8];
    for (int i = 0; i < R; i++)
        for (int v = 0; v < VECS_I8; v++)
            s[i][v] = begin ? v_zero() : v_load(sums + i * PANEL_I8 + v * WIDTH);
    for (int64_t b = 0; b < n; b++) {
        ivec t[ROWS_I8][VECS_I8];
        for (int i = 0; i < R; i++)
            for (int v = 0; v < VECS_I8; v++)
                t[i][v] = i_begin(x_sum[b * R + i]);
#pragma GCC unroll 8 /* as a loop, gcc 12 moves every sum to another register and back */
        for (int k = 0; k < BLOCK_I8 / 4; k++) {
            ivec w[VECS_I8];
            for (int v = 0; v < VECS_I8; v++)
                w[v] = i_load(p->q + ((b * (BLOCK_I8 / 4) + k) * PANEL_I8 + v * WIDTH) * 4);
            for (int i = 0; i < R; i++) {
                const ivec four = i_four(x + (b * BLOCK_I8 / 4 + k) * 4 * R + 4 * i);
                for (int v = 0; v < VECS_I8; v++)
                    t[i][v] = i_dot(t[i][v], w[v], four);
            }
        }
        for (int v = 0; v < VECS_I8; v++) {
            const vec d = v_load(p->scale + b * PANEL_I8 + v * WIDTH);
            for (int i = 0; i < R; i++)
                s[i][v] = v_fma(v_mul(i_real(t[i][v]), d), v_set(x_scale[b * R + i]), s[i][v]);
        }
    }
    for (int i = 0; i < R; i++)
        for (int v = 0; v < VECS_I8; v++)
            v_store(sums + i * PANEL_I8 + v * WIDTH, s[i][v]);
}

typedef void multiply_i8_fn(real *sums, bool begin, const int8_t *x, const real *x_scale,
                            const int32_t *x_sum, const panel_i8 *p, int64_t n);

#define HEIGHT(R)                                                                                  \
    static I8 void multiply_i8_##R(real *sums, bool begin, const int8_t *x, const real *x_scale,   \
                                   const int32_t *x_sum, const panel_i8 *p, int64_t n)             \
    {                                                                                              \
        multiply_i8_rows(R, sums, begin, x, x_scale, x_sum, p, n);                                 \
    }
HEIGHT(1)
HEIGHT(2)
HEIGHT(3)
HEIGHT(4)
#if ROWS_I8 == 6
HEIGHT(5)
HEIGHT(6)
#endif
#undef HEIGHT

static multiply_i8_fn *const multiply_i8[ROWS_I8 + 1] = {
    NULL,          multiply_i8_1, multiply_i8_2, multiply_i8_3, multiply_i8_4,
#if ROWS_I8 == 6
    multiply_i8_5, multiply_i8_6,
#endif
};

/* ---- rows of x ------------------------------------------------------------------------------- */

/* As in scalar.c. */
static void quantise(int8_t *q, real *scale, int32_t *sum_of, const real *x)
{
    vec most = v_zero(), poison = v_zero();
    for (int k = 0; k < BLOCK_I8; k += WIDTH) {
        most = v_max(v_abs(v_load(x + k)), most);
        poison = v_fma(v_load(x + k), v_zero(), poison);
    }
    const real top = v_top(most), bad = v_sum(poison);
    const real up = top > 1e-30f && bad == 0 ? 127 / top : 0;
    *scale = (top > 1e-30f ? top / 127 : 0) + bad;
    for (int k = 0; k < BLOCK_I8; k += WIDTH)
        v_to_i8(q + k, bad == 0 ? v_mul(v_load(x + k), v_set(up)) : v_zero());
    int32_t s = 0;
    for (int k = 0; k < BLOCK_I8; k++)
        s += q[k];
    *sum_of = s;
}

static void pack_i8(void *to, const real *x, int64_t x_stride, int64_t N, int64_t K, int64_t block0,
                    int64_t block1)
{
    const rows_i8 p = packed_i8(to, N, K);
    const int64_t n = K / BLOCK_I8;
    const row_cut rows_of = cut_rows(N, ROWS_I8);
    for (int64_t rb = block0; rb < block1; rb++) {
        const int64_t i0 = block_row(&rows_of, rb), R = block_row(&rows_of, rb + 1) - i0;
        for (int64_t i = 0; i < R; i++)
            for (int64_t b = 0; b < n; b++) {
                const int64_t at = i0 * n + b * R + i;
                int32_t q[BLOCK_I8 / 4];
                quantise((int8_t *)q, p.scale + at, p.sum + at,
                         x + (i0 + i) * x_stride + b * BLOCK_I8);
                int8_t *four = p.q + i0 * K + (b * BLOCK_I8 / 4 * R + i) * 4;
                for (int k = 0; k < BLOCK_I8 / 4; k++)
                    memcpy(four + k * R * 4, &q[k], 4);
            }
    }
}

/* ---- panels of weights ----------------------------------------------------------------------- */

/* Bytes of a block, and of half a block, which the compiler maps to vectors. */
typedef uint8_t bytes32 __attribute__((vector_size(BLOCK_I8)));
typedef uint8_t bytes16 __attribute__((vector_size(BLOCK_I8 / 2)));

static inline real scale_at(const uint8_t *block)
{
    return v_half((uint16_t)(block[0] | block[1] << 8));
}

/* 32 biased bytes and their scale. */
static inline real unpack(uint8_t *to, const row_set *w, const uint8_t *row, int64_t b)
{
    if (w->kind == TILE_Q8_0) {
        const uint8_t *block = row + b * 34;
        bytes32 q;
        memcpy(&q, block + 2, sizeof q);
        q ^= BIAS;
        memcpy(to, &q, sizeof q);
        return scale_at(block);
    }
    if (w->kind == TILE_Q4_0) {
        const uint8_t *block = row + b * 18;
        bytes16 two;
        memcpy(&two, block + 2, sizeof two);
        const bytes16 low = ((two & 15) - 8) ^ BIAS, high = ((two >> 4) - 8) ^ BIAS;
        memcpy(to, &low, sizeof low);
        memcpy(to + sizeof low, &high, sizeof high);
        return scale_at(block);
    }
    const real d = w->quants((int8_t *)to, row, b);
    for (int k = 0; k < BLOCK_I8; k++)
        to[k] ^= BIAS;
    return d;
}

/* n blocks from block b0 of rows [o0, o0 + width), row by row as memory likes it; then 4 WIDTH
 * bytes of WIDTH rows are turned at a time. */
static void produce_i8(panel_i8 *p, const row_set *w, int64_t b0, int64_t n, int64_t o0,
                       int64_t width)
{
    _Alignas(64) uint8_t bytes[WIDTH][BLOCKS_I8 * BLOCK_I8];
    for (int v = 0; v * WIDTH < width; v++) {
        for (int i = 0; i < WIDTH; i++) {
            const int64_t o = least(v * WIDTH + i, width - 1); /* beyond it, nobody looks */
            const uint8_t *row = (const uint8_t *)w->data + (size_t)(o0 + o) * w->row_bytes;
            for (int64_t b = 0; b < n; b++)
                p->scale[b * PANEL_I8 + v * WIDTH + i] = unpack(bytes[i] + b * BLOCK_I8, w, row,
                                                                b0 + b);
        }
        for (int64_t at = 0; at < n * BLOCK_I8; at += 4 * WIDTH) {
            vec turned[WIDTH];
            for (int i = 0; i < WIDTH; i++)
                turned[i] = v_load((const real *)(const void *)(bytes[i] + at));
            v_transpose(turned);
            for (int64_t k = 0; k < least(WIDTH, (n * BLOCK_I8 - at) / 4); k++)
                v_store((real *)(void *)(p->q + (at / 4 + k) * PANEL_I8 * 4 + v * WIDTH * 4),
                        turned[k]);
        }
    }
}

static void copy_rows(real *to, int64_t to_stride, const real *from, int64_t from_stride, int64_t R,
                      int64_t width)
{
    for (int64_t i = 0; i < R; i++)
        for (int64_t c = 0; c < width; c += WIDTH) {
            const int part = (int)least(WIDTH, width - c);
            v_store_part(to + i * to_stride + c, v_load_part(from + i * from_stride + c, part),
                         part);
        }
}

/* Outputs [o, o + width) of all rows. */
static void strip_i8(real *y, int64_t y_stride, const rows_i8 *x, int64_t N, int64_t K,
                     const row_set *w, int64_t o, int64_t width)
{
    _Alignas(64) real sums[ROWS_I8 * PANEL_I8];
    panel_i8 p;
    const int64_t all = K / BLOCK_I8;
    const row_cut rows_of = cut_rows(N, ROWS_I8);
    for (int64_t b = 0; b < all; b += BLOCKS_I8) {
        const int64_t n = least(BLOCKS_I8, all - b);
        produce_i8(&p, w, b, n, o, width);
        for (int64_t rb = 0; rb < rows_of.n; rb++) {
            const int64_t i0 = block_row(&rows_of, rb), R = block_row(&rows_of, rb + 1) - i0;
            const int64_t at = i0 * all + b * R;
            real *to = y + i0 * y_stride + o;
            if (b > 0)
                copy_rows(sums, PANEL_I8, to, y_stride, R, width);
            multiply_i8[R](sums, b == 0, x->q + i0 * K + b * BLOCK_I8 * R, x->scale + at,
                           x->sum + at, &p, n);
            copy_rows(to, y_stride, sums, PANEL_I8, R, width);
        }
    }
}

/* ---- one row --------------------------------------------------------------------------------- */

/* WIDTH outputs of one row of x, as the weights are stored in blocks of `bytes`. */
static inline __attribute__((always_inline)) I8 vec one_row(tile_kind kind, const rows_i8 *x,
                                                            int64_t n, const uint8_t *w,
                                                            size_t row_bytes)
{
    const int bytes = kind == TILE_Q8_0 ? 34 : 18;
    const uint8_t *next = w + WIDTH * row_bytes; /* the rows after these, in the order of memory */
    vec s = v_zero();
    for (int64_t b = 0; b < n; b++, w += bytes) {
        for (int line = 0; line < WIDTH * bytes; line += 64)
            __builtin_prefetch(next + b * WIDTH * bytes + line);
        const ivec t = kind == TILE_Q8_0 ? i_q8_0(w + 2, row_bytes, x->q + b * BLOCK_I8, x->sum[b])
                                         : i_q4_0(w + 2, row_bytes, x->q + b * BLOCK_I8, x->sum[b]);
        s = v_fma(v_mul(i_real(t), v_scales(w, row_bytes)), v_set(x->scale[b]), s);
    }
    return s;
}

static I8 int64_t strips_of_one(real *y, const rows_i8 *x, int64_t K, const row_set *w, int64_t o0,
                                int64_t o1)
{
    int64_t o = o0;
    for (; o + WIDTH <= o1; o += WIDTH) {
        const uint8_t *at = (const uint8_t *)w->data + (size_t)o * w->row_bytes;
        v_store(y + o, w->kind == TILE_Q8_0
                           ? one_row(TILE_Q8_0, x, K / BLOCK_I8, at, w->row_bytes)
                           : one_row(TILE_Q4_0, x, K / BLOCK_I8, at, w->row_bytes));
    }
    return o;
}

static void product_i8(real *y, int64_t y_stride, const void *packed, int64_t N, int64_t K,
                       const row_set *w, int64_t o0, int64_t o1)
{
    const rows_i8 x = packed_i8(packed, N, K);
    const bool known = w->kind == TILE_Q8_0 || w->kind == TILE_Q4_0;
    if (N == 1 && known && w->row_bytes < (1u << 26))
        o0 = strips_of_one(y, &x, K, w, o0, o1);
    for (int64_t o = o0; o < o1; o += PANEL_I8)
        strip_i8(y, y_stride, &x, N, K, w, o, least(PANEL_I8, o1 - o));
}
