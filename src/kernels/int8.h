/* int8.h - products in class i8, over the vectors of vector.h and these of whole numbers:
 *
 *     ROWS_I8, VECS_I8       rows and vectors of outputs of a register block
 *     BIAS                   what bytes of weights are xor'ed with, to suit i_dot
 *     ivec, i_load i_store   32-bit lanes
 *     i_four, i_dot          four bytes in all lanes; a sum of products in each, four at a time
 *     i_begin(sums, scaled)  with a bias: what such sums begin with, which takes it back, from the
 *                            sums of x
 *     i_scaled(t, d)         d times the sums, made real, that began as `scaled`
 *     i_set i_add i_real     a whole number in all lanes; lanes added; lanes made real
 *     i_rows16(w, step)      16 bytes of WIDTH / 4 rows that are 4 steps apart; a quarter is what
 *                            one row has of a vector
 *     i_all16(x)             16 bytes in all quarters
 *     i_codes i_codes2       products of quarters of codes from 0 to 63 and of x, added up to 32-bit
 *                            lanes; the same for two quarters, added
 *     i_eights(v, at)        of every quarter, its byte `at` and the next one, eight times each
 *     i_quarters(t)          the sums of the quarters of four vectors
 *     i_turn(t)              four vectors whose quarters are turned as a matrix of 4 x 4
 *     i_q8_0                 WIDTH rows of weights times one block of x, straight from the file
 *     v_scales               the scales of WIDTH stored blocks
 *     I8                     what the functions here need of the compiler
 *
 * Rows i, i + 4, ... in vector i: what i_quarters and i_turn give lies in the order of the rows.
 *
 * Many rows: panels of weights as in panels.h, four columns of an output in a lane. One row: WIDTH
 * outputs at a time from where they are stored, at the speed of memory. Sums of a group are exact
 * either way, so both give the same bits, and so does scalar.c. */

#define PANEL_I8  (VECS_I8 * WIDTH)
#define BLOCKS_I8 32 /* blocks of columns in a panel: 1024 columns stay in the second cache */

typedef struct panel_i8 {
    _Alignas(64) uint8_t q[BLOCKS_I8 * BLOCK_I8 * PANEL_I8];
    _Alignas(64) real scale[BLOCKS_I8 * 2 * PANEL_I8]; /* of one or two groups a block */
    _Alignas(64) real least[BLOCKS_I8 * 2 * PANEL_I8];
} panel_i8;

/* What sums of products with a panel begin with, of n sums of x. Beside the registers, because a
 * number comes into all lanes for nothing only from memory. */
static inline __attribute__((always_inline)) I8 void begin_sums(int32_t *to, const int32_t *sum,
                                                                int64_t n, bool scaled)
{
    for (int64_t k = 0; k < n; k += WIDTH) {
        const int part = (int)least(WIDTH, n - k);
        const ivec x = (ivec)v_load_part((const real *)(const void *)(sum + k), part);
        i_store(to + k, i_begin(x, scaled));
    }
}

/* R rows of a packed block, columns of n blocks of 32, times a panel: y is added to unless it
 * begins. R and form are constants where it is inlined. */
static inline __attribute__((always_inline)) I8 void
multiply_i8_rows(int R, i8_form form, real *sums, bool begin, const int8_t *x, const real *x_scale,
                 const int32_t *x_sum, const panel_i8 *p, int64_t n)
{
    const int groups = groups_i8(form), fours = BLOCK_I8 / 4 / groups;
    _Alignas(64) int32_t first[BIAS ? BLOCKS_I8 * 2 * ROWS_I8 + WIDTH : 1];
    vec s[ROWS_I8][VECS_I8];
    if (BIAS)
        begin_sums(first, x_sum, n * groups * R, !(form & I8_LIFTED));
    for (int i = 0; i < R; i++)
        for (int v = 0; v < VECS_I8; v++)
            s[i][v] = begin ? v_zero() : v_load(sums + i * PANEL_I8 + v * WIDTH);
    for (int64_t g = 0; g < n * groups; g++) {
        ivec t[ROWS_I8][VECS_I8];
        for (int i = 0; i < R; i++)
            for (int v = 0; v < VECS_I8; v++)
                t[i][v] = i_set(BIAS ? first[g * R + i] : 0);
#pragma GCC unroll 8 /* as a loop, gcc 12 moves every sum to another register and back */
        for (int k = 0; k < fours; k++) {
            ivec w[VECS_I8];
            for (int v = 0; v < VECS_I8; v++)
                w[v] = i_load(p->q + ((g * fours + k) * PANEL_I8 + v * WIDTH) * 4);
            for (int i = 0; i < R; i++) {
                const ivec four = i_four(x + (g * fours + k) * 4 * R + 4 * i);
                for (int v = 0; v < VECS_I8; v++)
                    t[i][v] = i_dot(t[i][v], w[v], four);
            }
        }
        for (int v = 0; v < VECS_I8; v++) {
            const vec d = v_load(p->scale + g * PANEL_I8 + v * WIDTH);
            for (int i = 0; i < R; i++) {
                vec a;
                if (form & I8_LIFTED) {
                    const vec m = v_load(p->least + g * PANEL_I8 + v * WIDTH);
                    a = v_fma(i_real(t[i][v]), d, v_mul(i_real(i_set(x_sum[g * R + i])), m));
                } else {
                    a = i_scaled(t[i][v], d);
                }
                s[i][v] = v_fma(a, v_set(x_scale[g / groups * R + i]), s[i][v]);
            }
        }
    }
    for (int i = 0; i < R; i++)
        for (int v = 0; v < VECS_I8; v++)
            v_store(sums + i * PANEL_I8 + v * WIDTH, s[i][v]);
}

typedef void multiply_i8_fn(real *sums, bool begin, const int8_t *x, const real *x_scale,
                            const int32_t *x_sum, const panel_i8 *p, int64_t n);

#define HEIGHT(R, form)                                                                            \
    static I8 void multiply_i8_##R##_##form(real *sums, bool begin, const int8_t *x,               \
                                            const real *x_scale, const int32_t *x_sum,             \
                                            const panel_i8 *p, int64_t n)                          \
    {                                                                                              \
        multiply_i8_rows(R, (i8_form)form, sums, begin, x, x_scale, x_sum, p, n);                  \
    }
#define HEIGHTS(R) HEIGHT(R, 0) HEIGHT(R, 1) HEIGHT(R, 2) HEIGHT(R, 3)
HEIGHTS(1)
HEIGHTS(2)
HEIGHTS(3)
HEIGHTS(4)
#if ROWS_I8 == 6
HEIGHTS(5)
HEIGHTS(6)
#endif
#undef HEIGHTS
#undef HEIGHT

/* By rows and form: scaled, lifted, scaled in halves, lifted in halves. */
#define HEIGHTS(R)                                                                                 \
    {                                                                                              \
        multiply_i8_##R##_0, multiply_i8_##R##_1, multiply_i8_##R##_2, multiply_i8_##R##_3         \
    }
static multiply_i8_fn *const multiply_i8[ROWS_I8 + 1][N_I8_FORM] = {
    { NULL },   HEIGHTS(1), HEIGHTS(2), HEIGHTS(3), HEIGHTS(4),
#if ROWS_I8 == 6
    HEIGHTS(5), HEIGHTS(6),
#endif
};
#undef HEIGHTS

/* ---- rows of x ------------------------------------------------------------------------------- */

/* A block as in scalar.c: with something that is no number in it, its scale is none either. */
static void quantise(int8_t *q, real *scale, const real *x)
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
}

/* n <= WIDTH blocks of a row: the largest numbers of each become one vector, and so do the scales.
 * Where anything is no number, block by block. */
static void quantise_blocks(int8_t *q, real *scale, const real *x, int64_t n)
{
    const vec floor = v_set(1.0000001e-30f); /* the first above 1e-30 */
    vec most[WIDTH], poison = v_zero(), top = v_zero();
    real up[WIDTH];
    for (int64_t b = 0; b < WIDTH; b++) {
        most[b] = v_zero();
        for (int k = 0; b < n && k < BLOCK_I8; k += WIDTH) {
            const vec v = v_load(x + b * BLOCK_I8 + k);
            most[b] = v_max(v_abs(v), most[b]);
            poison = v_fma(v, v_zero(), poison);
        }
    }
    if (!(v_sum(poison) == 0)) {
        for (int64_t b = 0; b < n; b++)
            quantise(q + b * BLOCK_I8, scale + b, x + b * BLOCK_I8);
        return;
    }
    v_transpose(most);
    for (int i = 0; i < WIDTH; i++)
        top = v_max(most[i], top);
    v_store(up, v_keep(v_div(v_set(127), top), top, floor));
    v_store(scale, v_keep(v_div(top, v_set(127)), top, floor));
    for (int64_t b = 0; b < n; b++)
        for (int64_t k = b * BLOCK_I8; k < (b + 1) * BLOCK_I8; k += WIDTH)
            v_to_i8(q + k, v_mul(v_load(x + k), v_set(up[b])));
}

/* The sums of 16 bytes each, of WIDTH blocks. */
static I8 void sum_halves(int32_t half[2 * WIDTH], const int8_t *q)
{
    for (int v = 0; v < 2; v++) {
        ivec t[4];
        for (int i = 0; i < 4; i++)
            t[i] = i_codes(
                i_set(0x01010101),
                i_rows16((const uint8_t *)q + (v * WIDTH + i) * (BLOCK_I8 / 2), BLOCK_I8 / 2));
        i_store(half + v * WIDTH, i_quarters(t));
    }
}

/* Blocks [b0, b0 + n), n <= WIDTH, of the R rows from i0. Four bytes are turned like one number. */
static void pack_blocks_i8(rows_i8 to, const real *x, int64_t x_stride, int64_t K, int64_t i0,
                           int64_t R, int64_t b0, int64_t n)
{
    _Alignas(64) int8_t q[ROWS_I8][WIDTH * BLOCK_I8];
    const int64_t first = i0 * (K / BLOCK_I8) + b0 * R;
    for (int64_t i = 0; i < R; i++) {
        _Alignas(64) int32_t half[2 * WIDTH];
        real scale[WIDTH];
        quantise_blocks(q[i], scale, x + (i0 + i) * x_stride + b0 * BLOCK_I8, n);
        memset(q[i] + n * BLOCK_I8, 0, (size_t)((WIDTH - n) * BLOCK_I8));
        sum_halves(half, q[i]);
        for (int64_t b = 0; b < n; b++) {
            const int64_t at = first + b * R;
            to.scale[at + i] = scale[b];
            to.sum[at + i] = half[2 * b] + half[2 * b + 1];
            to.half[2 * at + i] = half[2 * b];
            to.half[2 * at + R + i] = half[2 * b + 1];
        }
    }
    pack_turned((real *)(void *)(to.q + first * BLOCK_I8), (const real *)(const void *)q,
                WIDTH * BLOCK_I8 / 4, n * BLOCK_I8 / 4, R);
}

static void pack_i8(void *to, const real *x, int64_t x_stride, int64_t N, int64_t K, int64_t block0,
                    int64_t block1)
{
    const rows_i8 p = packed_i8(to, N, K);
    const row_cut rows_of = cut_rows(N, ROWS_I8);
    for (int64_t rb = block0; rb < block1; rb++) {
        const int64_t i0 = block_row(&rows_of, rb), R = block_row(&rows_of, rb + 1) - i0;
        for (int64_t b = 0; b < K / BLOCK_I8; b += WIDTH)
            pack_blocks_i8(p, x, x_stride, K, i0, R, b, least(WIDTH, K / BLOCK_I8 - b));
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

/* Group g's number of one row of weights in a panel. */
#define AT(g) ((g)*PANEL_I8)

/* Of the twelve bytes a, b, c of a Q4_K or Q5_K block (tensor/blocks.h), eight scales, then eight
 * minima, four to a word: of one row, or of one row a lane. */
#define SIX_BITS(to, a, b, c)                                                                      \
    do {                                                                                           \
        (to)[0] = (a)&0x3F3F3F3F;                                                                  \
        (to)[1] = ((c)&0x0F0F0F0F) | ((a) >> 2 & 0x30303030);                                      \
        (to)[2] = (b)&0x3F3F3F3F;                                                                  \
        (to)[3] = ((c) >> 4 & 0x0F0F0F0F) | ((b) >> 2 & 0x30303030);                               \
    } while (0)

/* 16 bytes, made real. */
static inline void sixteen(real to[16], const void *from)
{
    for (int k = 0; k < 16; k += WIDTH)
        v_store(to + k, v_from_i8((const int8_t *)from + k));
}

static inline void bytes_out(uint8_t *to, bytes32 q)
{
    q ^= BIAS;
    memcpy(to, &q, sizeof q);
}

/* 32 codes of 4 bits, less `by`. */
static inline void nibbles_out(uint8_t *to, const uint8_t *from, uint8_t by)
{
    bytes16 two;
    memcpy(&two, from, sizeof two);
    const bytes16 low = ((two & 15) - by) ^ BIAS, high = ((two >> 4) - by) ^ BIAS;
    memcpy(to, &low, sizeof low);
    memcpy(to + sizeof low, &high, sizeof high);
}

/* 256 biased bytes and their 8 or 16 scales and least numbers, from one block of a K format. */
static inline __attribute__((always_inline)) void
unpack_lifted(tile_kind kind, uint8_t *to, real *scale, real *least_of, const uint8_t *block)
{
    const real d = scale_at(block), e = -scale_at(block + 2);
    bytes32 high = { 0 };
    uint32_t stored[3], six[4];
    real number[16];
    memcpy(stored, block + 4, sizeof stored);
    SIX_BITS(six, stored[0], stored[1], stored[2]);
    sixteen(number, six);
    for (int g = 0; g < 8; g++) {
        scale[AT(g)] = d * number[g];
        least_of[AT(g)] = e * number[g + 8];
    }
    if (kind == TILE_Q5_K)
        memcpy(&high, block + 16, sizeof high);
    const uint8_t *low = block + (kind == TILE_Q5_K ? 48 : 16);
    for (int g = 0; g < 8; g += 2, low += 32, high >>= 2) {
        bytes32 two;
        memcpy(&two, low, sizeof two);
        bytes_out(to + g * BLOCK_I8, (two & 15) | (high << 4 & 16));
        bytes_out(to + (g + 1) * BLOCK_I8, two >> 4 | (high << 3 & 16));
    }
}

static inline void unpack_q6_k(uint8_t *to, real *scale, const uint8_t *block)
{
    const real d = scale_at(block + 208);
    real number[16];
    sixteen(number, block + 192);
    for (int g = 0; g < 16; g++)
        scale[AT(g)] = d * number[g];
    for (int h = 0; h < 2; h++, to += 128) {
        bytes32 low[2], high;
        memcpy(low, block + 64 * h, sizeof low);
        memcpy(&high, block + 128 + 32 * h, sizeof high);
        for (int part = 0; part < 2; part++, high >>= 2) {
            bytes_out(to + part * 32, ((low[part] & 15) | (high << 4 & 48)) - 32);
            bytes_out(to + part * 32 + 64, (low[part] >> 4 | (high & 48)) - 32);
        }
    }
}

/* Blocks [b0, b0 + n) of a row: biased bytes, scales and least numbers. Of a K format they are
 * whole blocks of 256, as rows are. */
static void unpack(uint8_t *to, real *scale, real *least_of, const row_set *w, const uint8_t *row,
                   int64_t b0, int64_t n)
{
    const int groups = groups_i8(w->form);
    switch (w->kind) {
    case TILE_Q8_0:
        for (int64_t b = 0; b < n; b++) {
            const uint8_t *block = row + (b0 + b) * 34;
            bytes32 q;
            memcpy(&q, block + 2, sizeof q);
            bytes_out(to + b * BLOCK_I8, q);
            scale[AT(b)] = scale_at(block);
        }
        break;
    case TILE_Q4_0:
        for (int64_t b = 0; b < n; b++) {
            const uint8_t *block = row + (b0 + b) * 18;
            nibbles_out(to + b * BLOCK_I8, block + 2, 8);
            scale[AT(b)] = scale_at(block);
        }
        break;
    case TILE_Q4_1:
        for (int64_t b = 0; b < n; b++) {
            const uint8_t *block = row + (b0 + b) * 20;
            nibbles_out(to + b * BLOCK_I8, block + 4, 0);
            scale[AT(b)] = scale_at(block);
            least_of[AT(b)] = scale_at(block + 2);
        }
        break;
    case TILE_Q4_K:
        for (int64_t b = 0; b < n; b += 8)
            unpack_lifted(TILE_Q4_K, to + b * BLOCK_I8, scale + AT(b), least_of + AT(b),
                          row + (b0 + b) / 8 * 144);
        break;
    case TILE_Q5_K:
        for (int64_t b = 0; b < n; b += 8)
            unpack_lifted(TILE_Q5_K, to + b * BLOCK_I8, scale + AT(b), least_of + AT(b),
                          row + (b0 + b) / 8 * 176);
        break;
    case TILE_Q6_K:
        for (int64_t b = 0; b < n; b += 8)
            unpack_q6_k(to + b * BLOCK_I8, scale + AT(2 * b), row + (b0 + b) / 8 * 210);
        break;
    default:
        for (int64_t b = 0; b < n; b++) {
            block_i8 q;
            w->quants(&q, row, b0 + b);
            for (int k = 0; k < BLOCK_I8; k++)
                to[b * BLOCK_I8 + k] = (uint8_t)q.q[k] ^ BIAS;
            for (int g = 0; g < groups; g++) {
                scale[AT(b * groups + g)] = q.scale[g];
                if (w->form & I8_LIFTED)
                    least_of[AT(b * groups + g)] = q.least[g];
            }
        }
    }
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
            const int64_t lane = v * WIDTH + i;
            unpack(bytes[i], p->scale + lane, p->least + lane, w, row, b0, n);
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

/* Rows of numbers, with what is added to each of them or NULL. */
static void copy_rows(real *to, int64_t to_stride, const real *from, int64_t from_stride, int64_t R,
                      int64_t width, const real *bias)
{
    for (int64_t i = 0; i < R; i++)
        for (int64_t c = 0; c < width; c += WIDTH) {
            const int part = (int)least(WIDTH, width - c);
            const vec x = v_load_part(from + i * from_stride + c, part);
            v_store_part(to + i * to_stride + c, bias ? v_add(x, v_load_part(bias + c, part)) : x,
                         part);
        }
}

/* Outputs [o, o + width) of all rows. */
static void strip_i8(real *y, int64_t y_stride, const rows_i8 *x, int64_t N, int64_t K,
                     const row_set *w, int64_t o, int64_t width)
{
    _Alignas(64) real sums[ROWS_I8 * PANEL_I8];
    panel_i8 *p = side_take(sizeof *p);
    const int64_t all = K / BLOCK_I8, groups = groups_i8(w->form);
    const int32_t *x_sum = w->form & I8_HALVES ? x->half : x->sum;
    const row_cut rows_of = cut_rows(N, ROWS_I8);
    for (int64_t b = 0; b < all; b += BLOCKS_I8) {
        const int64_t n = least(BLOCKS_I8, all - b);
        const real *bias = w->bias && b + n == all ? w->bias + o : NULL;
        produce_i8(p, w, b, n, o, width);
        for (int64_t rb = 0; rb < rows_of.n; rb++) {
            const int64_t i0 = block_row(&rows_of, rb), R = block_row(&rows_of, rb + 1) - i0;
            const int64_t at = i0 * all + b * R;
            real *to = y + i0 * y_stride + o;
            fetch_sums(to, y_stride, R, width);
            if (b > 0)
                copy_rows(sums, PANEL_I8, to, y_stride, R, width, NULL);
            multiply_i8[R][w->form](sums, b == 0, x->q + i0 * K + b * BLOCK_I8 * R, x->scale + at,
                                    x_sum + at * groups, p, n);
            copy_rows(to, y_stride, sums, PANEL_I8, R, width, bias);
        }
    }
    side_give(p);
}

/* ---- one row --------------------------------------------------------------------------------- */

/* 16-bit floats of WIDTH rows. */
static inline vec row_halves(const uint8_t *w, size_t step)
{
    uint16_t h[WIDTH];
    for (size_t i = 0; i < WIDTH; i++)
        memcpy(&h[i], w + i * step, sizeof h[i]);
    return v_from_f16(h);
}

/* Vectors as the compiler's own, which it knows how to shift and mask. */
typedef uint8_t octets __attribute__((vector_size(sizeof(ivec))));
typedef uint16_t shorts __attribute__((vector_size(sizeof(ivec))));
typedef uint32_t words __attribute__((vector_size(sizeof(ivec))));

/* Of every byte, its lower and its upper half; and its bits moved up by so many, those of `at`. */
#define LOW4(v)         ((ivec)((octets)(v)&15))
#define HIGH4(v)        ((ivec)((octets)((shorts)(v) >> 4) & 15))
#define BITS(v, by, at) ((ivec)((octets)((shorts)(v) << (by)) & (at)))

/* 16-byte pieces of WIDTH rows: rows i, i + 4, ... in vector i. */
static inline I8 void take16(ivec to[4], const uint8_t *w, size_t step)
{
    for (size_t i = 0; i < 4; i++)
        to[i] = i_rows16(w + i * step, step);
}

/* Asks for piece k, of so many bytes, of the WIDTH rows that come next, which lie one after the
 * other: memory gives them faster in its own order than as they will be read. */
static inline void ask(const uint8_t *next, int64_t k, int64_t bytes)
{
    for (int64_t line = 0; line < bytes; line += 64)
        __builtin_prefetch(next + k * bytes + line);
}

/* Adds a group of WIDTH outputs to s: (a d + c m) d_x, c being the sum of x. */
static inline vec add_lifted(vec s, ivec a, vec d, vec m, int32_t c, real x_scale)
{
    return v_fma(v_fma(i_real(a), d, v_mul(i_real(i_set(c)), m)), v_set(x_scale), s);
}

/* The same of weights without a least number: a d d_x. */
static inline vec add_scaled(vec s, ivec a, vec d, real x_scale)
{
    return v_fma(v_mul(i_real(a), d), v_set(x_scale), s);
}

/* Bit k of the 16 at byte `at` of every quarter becomes bit 4 of byte k. */
static inline I8 ivec fifth_bits(ivec v, int at)
{
    static const uint8_t bit[16] = { 1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128 };
    const octets own = (octets)i_all16((const int8_t *)bit);
    return (ivec)((octets)(((octets)i_eights(v, at) & own) == own) & 16);
}

/* Blocks of 32 that begin with d, or d and m, and end with 4 bits a number. */
static inline __attribute__((always_inline)) I8 vec row_of_nibbles(tile_kind kind, const rows_i8 *x,
                                                                   int64_t n, const uint8_t *w,
                                                                   size_t step)
{
    const bool lifted = kind == TILE_Q4_1 || kind == TILE_Q5_1;
    const bool fifth = kind == TILE_Q5_0 || kind == TILE_Q5_1;
    const int bytes = 18 + 2 * lifted + 4 * fifth, middle = fifth ? 16 : 8;
    const uint8_t *next = w + WIDTH * step;
    vec s = v_zero();
    for (int64_t b = 0; b < n; b++, w += bytes) {
        const int8_t *q = x->q + b * BLOCK_I8;
        const ivec first = i_all16(q), second = i_all16(q + 16);
        const vec d = v_scales(w, step);
        ivec t[4];
        ask(next, b, WIDTH * bytes);
        for (size_t i = 0; i < 4; i++) {
            const uint8_t *codes = w + bytes - 16 + i * step;
            const ivec two = i_rows16(codes, step);
            ivec low = LOW4(two), high = HIGH4(two);
            if (fifth) {
                const ivec bits = i_rows16(codes - 4, step);
                low |= fifth_bits(bits, 0);
                high |= fifth_bits(bits, 2);
            }
            t[i] = i_codes2(low, first, high, second);
        }
        const ivec a = i_quarters(t);
        if (lifted)
            s = add_lifted(s, a, d, v_scales(w + 2, step), x->sum[b], x->scale[b]);
        else /* stored numbers are half their range too many */
            s = add_scaled(s, i_add(a, i_set(-middle * x->sum[b])), d, x->scale[b]);
    }
    return s;
}

static inline I8 vec row_of_q8_0(const rows_i8 *x, int64_t n, const uint8_t *w, size_t step)
{
    const uint8_t *next = w + WIDTH * step;
    vec s = v_zero();
    for (int64_t b = 0; b < n; b++, w += 34) {
        ask(next, b, WIDTH * 34);
        const vec d = v_scales(w, step);
        s = add_scaled(s, i_q8_0(w + 2, step, x->q + b * BLOCK_I8, x->sum[b]), d, x->scale[b]);
    }
    return s;
}

/* Q4_K and Q5_K: two groups of 32 in 32 bytes. */
static inline __attribute__((always_inline)) I8 vec row_of_lifted(tile_kind kind, const rows_i8 *x,
                                                                  int64_t n, const uint8_t *w,
                                                                  size_t step)
{
    const bool fifth = kind == TILE_Q5_K;
    const int bytes = fifth ? 176 : 144;
    const uint8_t *next = w + WIDTH * step;
    vec s = v_zero();
    for (int64_t b = 0; b < n; b += 8, w += bytes) {
        const vec d = row_halves(w, step), e = -row_halves(w + 2, step);
        words six[4];
        ivec head[4], high[2][4];
        take16(head, w, step);
        i_turn(head);
        SIX_BITS(six, (words)head[1], (words)head[2], (words)head[3]);
        for (int h = 0; fifth && h < 2; h++)
            take16(high[h], w + 16 + 16 * h, step);
        for (int g = 0; g < 8; g += 2) {
            const int8_t *q = x->q + (b + g) * BLOCK_I8;
            const uint8_t *low = w + (fifth ? 48 : 16) + g * 16;
            ivec t[2][4];
            ask(next, (b + g) / 2, WIDTH * bytes / 4);
            for (size_t i = 0; i < 4; i++) {
                ivec even[2], odd[2];
                for (int h = 0; h < 2; h++) {
                    const ivec two = i_rows16(low + 16 * h + i * step, step);
                    even[h] = LOW4(two);
                    odd[h] = HIGH4(two);
                    if (fifth) {
                        even[h] |= BITS(high[h][i], 4, 16);
                        odd[h] |= BITS(high[h][i], 3, 16);
                        high[h][i] = (ivec)((shorts)high[h][i] >> 2);
                    }
                }
                t[0][i] = i_codes2(even[0], i_all16(q), even[1], i_all16(q + 16));
                t[1][i] = i_codes2(odd[0], i_all16(q + 32), odd[1], i_all16(q + 48));
            }
            for (int o = 0; o < 2; o++) {
                const int by = 8 * (g % 4 + o);
                const vec scale = v_mul(d, i_real((ivec)(six[g / 4] >> by & 255)));
                const vec low_end = v_mul(e, i_real((ivec)(six[2 + g / 4] >> by & 255)));
                s = add_lifted(s, i_quarters(t[o]), scale, low_end, x->sum[b + g + o],
                               x->scale[b + g + o]);
            }
        }
    }
    return s;
}

/* Q6_K: four groups of 32 in 64 bytes of lower bits and 32 of upper ones; the first and the third
 * share bytes, and so do the second and the fourth. */
static inline I8 vec row_of_q6_k(const rows_i8 *x, int64_t n, const uint8_t *w, size_t step)
{
    const uint8_t *next = w + WIDTH * step;
    vec s = v_zero();
    for (int64_t b = 0; b < n; b += 8, w += 210) {
        const vec d = row_halves(w + 208, step);
        ivec scale[4];
        take16(scale, w + 192, step);
        i_turn(scale);
        for (int quad = 0; quad < 2; quad++) {
            const int8_t *q = x->q + (b + 4 * quad) * BLOCK_I8;
            ivec a[8]; /* of groups of 16 */
            ask(next, b / 4 + quad, WIDTH * 210 / 2);
            for (int part = 0; part < 4; part++) {
                const uint8_t *low = w + 64 * quad + 16 * part;
                const uint8_t *high = w + 128 + 32 * quad + 16 * (part % 2);
                ivec t[2][4];
                for (size_t i = 0; i < 4; i++) {
                    const ivec two = i_rows16(low + i * step, step);
                    ivec up = i_rows16(high + i * step, step);
                    up = part < 2 ? up : (ivec)((shorts)up >> 2);
                    t[0][i] = i_codes(LOW4(two) | BITS(up, 4, 48), i_all16(q + 16 * part));
                    t[1][i] = i_codes(HIGH4(two) | BITS(up, 0, 48), i_all16(q + 64 + 16 * part));
                }
                a[part] = i_quarters(t[0]);
                a[part + 4] = i_quarters(t[1]);
            }
            for (int g = 0; g < 8; g++) {
                const int64_t at = 2 * b + 8 * quad + g;
                const ivec eight = (ivec)((words)scale[2 * quad + g / 4] << (24 - g % 4 * 8));
                const vec by = v_mul(d, i_real(i_top8(eight)));
                const ivec sum = i_add(a[g], i_set(-32 * x->half[at])); /* codes are 32 too many */
                s = add_scaled(s, sum, by, x->scale[at / 2]);
            }
        }
    }
    return s;
}

/* Of the twelve bytes that begin in the middle of word 0, 16 scales of six bits (tensor/q3_k.c). */
static inline void q3_k_scales(words to[4], const ivec from[4])
{
    words part[3]; /* lower four bits of 0 to 3 and 8 to 11, of 4 to 7 and 12 to 15; upper two */
    for (int i = 0; i < 3; i++)
        part[i] = (words)from[i] >> 16 | (words)from[i + 1] << 16;
    for (int i = 0; i < 4; i++)
        to[i] = (part[i % 2] >> (4 * (i / 2)) & 0x0F0F0F0F) | (part[2] >> (2 * i) & 0x03030303)
                                                                  << 4;
}

/* Q2_K and Q3_K: two bits of four groups of 32 in 32 bytes; Q3_K has a third one elsewhere, of eight
 * groups in 32 bytes. */
static inline __attribute__((always_inline)) I8 vec row_of_pairs(tile_kind kind, const rows_i8 *x,
                                                                 int64_t n, const uint8_t *w,
                                                                 size_t step)
{
    const bool third = kind == TILE_Q3_K;
    const int bytes = third ? 110 : 84;
    const uint8_t *next = w + WIDTH * step;
    vec s = v_zero();
    for (int64_t b = 0; b < n; b += 8, w += bytes) {
        const vec d = row_halves(w + (third ? 108 : 80), step), e = -row_halves(w + 82, step);
        ivec head[4], a[8]; /* a: of groups of 16 */
        words scale[4];
        take16(head, w + (third ? 94 : 0), step);
        i_turn(head);
        if (third)
            q3_k_scales(scale, head);
        else
            memcpy(scale, head, sizeof scale);
        for (int quad = 0; quad < 2; quad++) {
            const int8_t *q = x->q + (b + 4 * quad) * BLOCK_I8;
            ask(next, b / 4 + quad, WIDTH * bytes / 2);
            for (int half = 0; half < 2; half++) {
                const uint8_t *low = w + (third ? 32 : 16) + 32 * quad + 16 * half;
                ivec t[4][4];
                for (size_t i = 0; i < 4; i++) {
                    const shorts two = (shorts)i_rows16(low + i * step, step);
                    const shorts one = (shorts)i_rows16(w + 16 * half + i * step, step);
                    for (int g = 0; g < 4; g++) {
                        ivec code = (ivec)((octets)(two >> (2 * g)) & 3);
                        if (third)
                            code |= BITS(one >> (4 * quad + g), 2, 4);
                        t[g][i] = i_codes(code, i_all16(q + 32 * g + 16 * half));
                    }
                }
                for (int g = 0; g < 4; g++)
                    a[2 * g + half] = i_quarters(t[g]);
            }
            for (int g = 0; g < 8; g++) {
                const int64_t at = 2 * b + 8 * quad + g;
                const words own = scale[2 * quad + g / 4] >> (8 * (g % 4)) & 255;
                const int32_t sum = x->half[at];
                if (third) /* codes are 4 too many, scales 32 */
                    s = add_scaled(s, i_add(a[g], i_set(-4 * sum)),
                                   v_mul(d, i_real(i_add((ivec)own, i_set(-32)))),
                                   x->scale[at / 2]);
                else
                    s = add_lifted(s, a[g], v_mul(d, i_real((ivec)(own & 15))),
                                   v_mul(e, i_real((ivec)(own >> 4))), sum, x->scale[at / 2]);
            }
        }
    }
    return s;
}

/* WIDTH outputs of one row of x, as the weights are stored. */
static I8 vec strip_of_one(const rows_i8 *x, int64_t n, tile_kind kind, const uint8_t *w,
                           size_t step)
{
    switch (kind) {
    case TILE_Q8_0:
        return row_of_q8_0(x, n, w, step);
    case TILE_Q4_0:
        return row_of_nibbles(TILE_Q4_0, x, n, w, step);
    case TILE_Q4_1:
        return row_of_nibbles(TILE_Q4_1, x, n, w, step);
    case TILE_Q5_0:
        return row_of_nibbles(TILE_Q5_0, x, n, w, step);
    case TILE_Q5_1:
        return row_of_nibbles(TILE_Q5_1, x, n, w, step);
    case TILE_Q2_K:
        return row_of_pairs(TILE_Q2_K, x, n, w, step);
    case TILE_Q3_K:
        return row_of_pairs(TILE_Q3_K, x, n, w, step);
    case TILE_Q4_K:
        return row_of_lifted(TILE_Q4_K, x, n, w, step);
    case TILE_Q5_K:
        return row_of_lifted(TILE_Q5_K, x, n, w, step);
    case TILE_Q6_K:
        return row_of_q6_k(x, n, w, step);
    default:
        return v_zero();
    }
}

static void product_i8(real *y, int64_t y_stride, const void *packed, int64_t N, int64_t K,
                       const row_set *w, int64_t o0, int64_t o1)
{
    const rows_i8 x = packed_i8(packed, N, K);
    int64_t o = o0;
    const bool alone = N == 1 && w->kind != TILE_OTHER && w->row_bytes < (1u << 26);
    for (; alone && o + WIDTH <= o1; o += WIDTH) {
        const vec s = strip_of_one(&x, K / BLOCK_I8, w->kind,
                                   (const uint8_t *)w->data + (size_t)o * w->row_bytes,
                                   w->row_bytes);
        v_store(y + o, w->bias ? v_add(s, v_load(w->bias + o)) : s);
    }
    for (; o < o1; o += PANEL_I8)
        strip_i8(y, y_stride, &x, N, K, w, o, least(PANEL_I8, o1 - o));
}
