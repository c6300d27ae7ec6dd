/* panels.h - products in class f32, over the vectors of vector.h.
 *
 *     a: blocks of up to ROWS rows        w: panels of PANEL columns        y: ROWS x VECS vectors
 *
 *            j ->                               c ->
 *          +-----------+                      +------------+
 *        i | packed    |                    j | produced   |        each number is one chain of
 *          +-----------+                      |            |        multiply-adds along j
 *                                             +------------+
 *
 * Outputs lie in the lanes, so no sum runs across a vector, and the assignment of rows and columns
 * to blocks only affects speed. Float weights in panels of 16 rows (kernels.h) are multiplied in
 * place; other formats are decoded a tile at a time, once for all rows of x. Operands that are not
 * in panels are transposed: keys, values and trainable parameters. */

#define PANEL (VECS * WIDTH)

/* Vector v of column j of a panel of PANEL columns: panels of 16, which are `apart`. */
#define AT(p, apart, j, v)                                                                         \
    ((p) + (v)*WIDTH / PANEL_ROWS * (apart) + (j)*PANEL_ROWS + (v)*WIDTH % PANEL_ROWS)

#define PIECE 128 /* values of a stored row produced at a time */

/* y[i, c] (+)= sum_j a[j, i] p[j, c] for R rows and V vectors, both constants where it is inlined.
 * The outer loops request unrolling, so that sums are in registers from the start: otherwise gcc 12
 * for Arm also stores every sum in every iteration. There is no prefetch: with a second thread on
 * the core, instruction slots are the bottleneck. */
static inline __attribute__((always_inline)) void multiply_rows(int R, int V, real *y,
                                                                int64_t y_stride, bool add,
                                                                const real *a, const real *p,
                                                                int64_t apart, int64_t n)
{
    vec s[ROWS][VECS];
#pragma GCC unroll 16
    for (int i = 0; i < R; i++)
        for (int v = 0; v < V; v++)
            s[i][v] = v_zero();
    for (int64_t j = 0; j < n; j++) {
        vec w[VECS];
        for (int v = 0; v < V; v++)
            w[v] = v_load(AT(p, apart, j, v));
        for (int i = 0; i < R; i++) {
            const vec x = v_set(a[j * R + i]);
            for (int v = 0; v < V; v++)
                s[i][v] = v_fma(x, w[v], s[i][v]);
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < R; i++)
        for (int v = 0; v < V; v++) {
            real *to = y + i * y_stride + v * WIDTH;
            v_store(to, add ? v_add(v_load(to), s[i][v]) : s[i][v]);
        }
}

typedef void multiply_fn(int64_t R, real *y, int64_t y_stride, bool add, const real *a,
                         const real *p, int64_t apart, int64_t n);

/* A function for whole panels, and for panels of one or two vectors, such as keys of short texts
 * and narrow heads; each has a case for every height of a block. */
#define HEIGHT(R, V)                                                                               \
    case R:                                                                                        \
        multiply_rows(R, V, y, y_stride, add, a, p, apart, n);                                     \
        break;
#define SHAPE(name, V)                                                                             \
    static void multiply_##name(int64_t R, real *y, int64_t y_stride, bool add, const real *a,     \
                                const real *p, int64_t apart, int64_t n)                           \
    {                                                                                              \
        switch (R) {                                                                               \
            EACH_HEIGHT(HEIGHT, V)                                                                 \
        }                                                                                          \
    }
SHAPE(one, 1)
SHAPE(two, 2)
SHAPE(all, VECS)
#undef SHAPE
#undef HEIGHT

/* Columns of a are rows of the left side. Some rows of a at a time go through a buffer: every cache
 * line is read once and written once, even if the stride is a power of two. */
#define STAGE 16 /* rows of a */
#define SIDE  16 /* blocks of columns */

static void pack_along(real *to, const real *a, int64_t j_step, int64_t N, int64_t j0, int64_t n,
                       int64_t block0, int64_t block1)
{
    real stage[STAGE][SIDE * ROWS + WIDTH];
    const row_cut rows_of = cut_rows(N, ROWS);
    const int64_t first = block_row(&rows_of, block0), end = block_row(&rows_of, block1);
    for (int64_t j = 0; j < n; j += STAGE) {
        const int64_t count = min64(STAGE, n - j);
        for (int64_t k = 0; k < count; k++)
            for (int64_t i = first; i < end; i += WIDTH)
                v_store(stage[k] + i - first,
                        v_load_part(a + (j0 + j + k) * j_step + i, (int)min64(WIDTH, end - i)));
        for (int64_t b = block0; b < block1; b++) {
            const int64_t i0 = block_row(&rows_of, b), R = block_row(&rows_of, b + 1) - i0;
            real *at = to + packed_at(N, j0, n, i0) + j * R;
            for (int64_t i = 0; i < R; i += WIDTH)
                for (int64_t k = 0; k < count; k++)
                    v_store_part(at + k * R + i, v_load(stage[k] + i0 - first + i),
                                 (int)min64(WIDTH, R - i));
        }
    }
}

/* Either rows or columns of a are contiguous: one of the steps is 1. */
static void vec_pack(real *to, const real *a, int64_t i_step, int64_t j_step, int64_t N, int64_t J,
                     int64_t block0, int64_t block1)
{
    const row_cut rows_of = cut_rows(N, ROWS);
    for (int64_t j0 = 0; j0 < J; j0 += TILE) {
        const int64_t n = min64(TILE, J - j0);
        for (int64_t b = block0; j_step != 1 && b < block1; b += SIDE)
            pack_along(to, a, j_step, N, j0, n, b, min64(b + SIDE, block1));
        for (int64_t b = block0; b < block1; b++) {
            const int64_t i0 = block_row(&rows_of, b), R = block_row(&rows_of, b + 1) - i0;
            real *at = to + packed_at(N, j0, n, i0);
            if (j_step == 1)
                pack_transposed(at, a + i0 * i_step + j0, i_step, n, R);
        }
    }
}

/* WIDTH values of a stored row from column k. */
static inline __attribute__((always_inline)) vec v_stored(tile_kind kind, const void *row,
                                                          int64_t k)
{
    return kind == TILE_F16       ? v_from_f16((const uint16_t *)row + k)
           : kind == TILE_BF16    ? v_from_bf16((const uint16_t *)row + k)
           : kind == TILE_ROUNDED ? v_bf16(v_load((const real *)row + k))
                                  : v_load((const real *)row + k);
}

/* WIDTH rows of n values, transposed: p[j, i] = row i, column k + j. */
static inline __attribute__((always_inline)) void
transpose_rows(tile_kind kind, real *p, const void *const row[WIDTH], int64_t k, int64_t n)
{
    for (int64_t j = 0; j < n; j += WIDTH) {
        vec block[WIDTH];
        for (int i = 0; i < WIDTH; i++)
            block[i] = v_stored(kind, row[i], k + j);
        v_transpose(block);
        for (int i = 0; i < WIDTH; i++)
            v_store(p + (j + i) * PANEL_ROWS, block[i]);
    }
}

/* The same for any format and any n: a remainder shorter than a vector goes through memory. */
static void transpose_any(real *p, const row_set *w, const void *const row[WIDTH], int64_t k,
                          int64_t n)
{
    _Alignas(64) real buffer[WIDTH][PIECE];
    const void *made[WIDTH];
    const int64_t even = n / WIDTH * WIDTH;
    for (int i = 0; i < WIDTH; i++)
        made[i] = w->tile(buffer[i], row[i], k, n);
    transpose_rows(TILE_F32, p, made, 0, even);
    for (int64_t j = even; j < n; j++)
        for (int i = 0; i < WIDTH; i++)
            p[j * PANEL_ROWS + i] = ((const real *)made[i])[j];
}

/* p[j, c] from row c0 + c of w, column j0 + j. Beyond the width a panel repeats the last row, which
 * is never read. */
static void panel_transposed(real *p, const row_set *w, int64_t j0, int64_t n, int64_t c0,
                             int64_t width)
{
    for (int v = 0; v * WIDTH < width; v++) {
        const void *row[WIDTH];
        for (int i = 0; i < WIDTH; i++)
            row[i] = (const char *)w->data +
                     (size_t)(c0 + min64(v * WIDTH + i, width - 1)) * w->row_bytes;
        for (int64_t j = 0; j < n; j += PIECE) {
            real *to = AT(p, n * PANEL_ROWS, j, v);
            const int64_t m = min64(PIECE, n - j), k = w->k0 + j0 + j;
            if (m % WIDTH != 0)
                transpose_any(to, w, row, k, m);
            else if (w->kind == TILE_F32)
                transpose_rows(TILE_F32, to, row, k, m);
            else if (w->kind == TILE_F16)
                transpose_rows(TILE_F16, to, row, k, m);
            else if (w->kind == TILE_BF16)
                transpose_rows(TILE_BF16, to, row, k, m);
            else
                transpose_any(to, w, row, k, m);
        }
    }
}

/* p[j, c] from row j0 + j of w, column c0 + c: whole panels of formats without blocks ... */
static inline __attribute__((always_inline)) void
widen_rows(tile_kind kind, real *p, const row_set *w, int64_t j0, int64_t n, int64_t c0)
{
    const char *row = (const char *)w->data + (size_t)j0 * w->row_bytes;
    for (int64_t j = 0; j < n; j++, row += w->row_bytes)
        for (int v = 0; v < VECS; v++)
            v_store(AT(p, n * PANEL_ROWS, j, v), v_stored(kind, row, w->k0 + c0 + v * WIDTH));
}

/* ... and anything else. Block formats are produced from the start of a block. */
static void panel_as_stored(real *p, const row_set *w, int64_t j0, int64_t n, int64_t c0,
                            int64_t width)
{
    real buffer[PANEL + 2 * BLOCK_I8];
    const int64_t first = (w->k0 + c0) % BLOCK_I8;
    if (width == PANEL && w->kind == TILE_F32)
        widen_rows(TILE_F32, p, w, j0, n, c0);
    else if (width == PANEL && w->kind == TILE_F16)
        widen_rows(TILE_F16, p, w, j0, n, c0);
    else if (width == PANEL && w->kind == TILE_BF16)
        widen_rows(TILE_BF16, p, w, j0, n, c0);
    else if (width == PANEL && w->kind == TILE_ROUNDED)
        widen_rows(TILE_ROUNDED, p, w, j0, n, c0);
    else
        for (int64_t j = 0; j < n; j++) {
            const char *row = (const char *)w->data + (size_t)(j0 + j) * w->row_bytes;
            const real *t = w->tile(buffer, row, w->k0 + c0 - first, width + first) + first;
            for (int v = 0; v * WIDTH < width; v++)
                v_store(AT(p, n * PANEL_ROWS, j, v),
                        v_load_part(t + v * WIDTH, (int)min64(WIDTH, width - v * WIDTH)));
        }
}

static void add_sums(real *y, int64_t y_stride, bool add, const real *sums, int64_t R,
                     int64_t width, const real *bias)
{
    for (int64_t i = 0; i < R; i++)
        for (int64_t c = 0; c < width; c += WIDTH) {
            real *to = y + i * y_stride + c;
            const int part = (int)min64(WIDTH, width - c);
            vec s = v_load(sums + i * PANEL + c);
            s = add ? v_add(v_load_part(to, part), s) : s;
            v_store_part(to, bias ? v_add(s, v_load_part(bias + c, part)) : s, part);
        }
}

/* ---- few rows of x and weights in panels ------------------------------------------------------- */

#define FAR_PANEL 4096 /* prefetch distance in bytes of a panel */
#define STREAMS   4    /* panels side by side: several memory streams are faster than one */
#define MANY_SUMS (WIDTH == 8 ? 8 : 16) /* vectors of sums that leave registers for other uses */

/* Panels of block formats are for class i8. */
static bool in_panels(const row_set *w)
{
    return w->panels && !w->quants;
}

/* A word of WIDTH rows: two 16-bit values, the lower half first. */
static inline __attribute__((always_inline)) void two_numbers(tile_kind kind, vec *low, vec *high,
                                                              const uint8_t *from)
{
    typedef uint32_t bits __attribute__((vector_size(sizeof(vec))));
    const bits u = (bits)v_load((const real *)(const void *)from);
    *low = kind == TILE_F16 ? v_low_f16(u) : (vec)(u << 16);
    *high = kind == TILE_F16 ? v_low_f16(u >> 16) : (vec)(u & 0xFFFF0000u);
}

/* n terms, at most a tile, of the sums of R rows of x, packed together, and P panels. */
static inline __attribute__((always_inline)) void few_terms(tile_kind kind, int R, int P, vec *s,
                                                            const uint8_t *from, size_t apart,
                                                            const real *x, int64_t n)
{
    const int V = PANEL_ROWS / WIDTH, step = kind == TILE_F32 ? 1 : 2;
#pragma GCC unroll 16
    for (int i = 0; i < R * P * V; i++)
        s[i] = v_zero();
    for (int64_t j = 0; j < n; j += step, from += 4 * PANEL_ROWS)
#pragma GCC unroll 16
        for (int v = 0; v < P * V; v++) {
            const uint8_t *at = from + (size_t)(v / V) * apart + v % V * WIDTH * 4;
            vec w[2];
            if (v % V == 0)
                __builtin_prefetch(at + FAR_PANEL);
            if (kind == TILE_F32)
                w[0] = v_load((const real *)(const void *)at);
            else
                two_numbers(kind, &w[0], &w[1], at);
            for (int k = 0; k < step; k++)
#pragma GCC unroll 4
                for (int i = 0; i < R; i++)
                    s[i * P * V + v] = v_fma(v_set(x[(j + k) * R + i]), w[k], s[i * P * V + v]);
        }
}

/* A product of one block of rows. */
typedef struct few {
    real *y; /* of its first row */
    int64_t y_stride;
    bool add;
    const real *x; /* all rows, packed: N of J values; the block begins at i0 */
    int64_t N, J, i0;
    const row_set *w;
} few;

/* Columns [c, c1) of y that P panels cover, tile by tile in the order of multiply_rows. */
static inline __attribute__((always_inline)) void few_columns(tile_kind kind, int R, int P,
                                                              const few *f, int64_t c, int64_t c1)
{
    const int V = PANEL_ROWS / WIDTH;
    const row_set *w = f->w;
    for (int64_t j0 = 0; j0 < f->J; j0 += TILE) {
        const int64_t n = min64(TILE, f->J - j0);
        vec s[ROWS * STREAMS * PANEL_ROWS / WIDTH];
        few_terms(kind, R, P, s, panel_of(w, c, j0 / w->block), PANEL_ROWS * w->row_bytes,
                  f->x + packed_at(f->N, j0, n, f->i0), n);
        for (int i = 0; i < R * P * V; i++) {
            const int64_t o = c + i % (P * V) * WIDTH;
            const int part = part_of(c1 - o);
            real *to = f->y + i / (P * V) * f->y_stride + o;
            vec sum = f->add || j0 > 0 ? v_add(v_load_part(to, part), s[i]) : s[i];
            if (w->bias && j0 + n == f->J)
                sum = v_add(sum, v_load_part(w->bias + o, part));
            v_store_part(to, sum, part);
        }
    }
}

/* Columns [c0, c1), with as many panels side by side as registers can hold sums for R rows. */
static inline __attribute__((always_inline)) void few_block(tile_kind kind, int R, const few *f,
                                                            int64_t c0, int64_t c1)
{
    const int most = MANY_SUMS * WIDTH / PANEL_ROWS / R;
    const int P = most > STREAMS ? STREAMS : most > 1 ? most : 1;
    int64_t c = c0;
    for (; c + (P - 1) * PANEL_ROWS < c1; c += P * PANEL_ROWS)
        few_columns(kind, R, P, f, c, c1);
    for (; c < c1; c += PANEL_ROWS)
        few_columns(kind, R, 1, f, c, c1);
}

#define HEIGHT(R, kind)                                                                            \
    case R:                                                                                        \
        few_block(TILE_##kind, R, f, c0, c1);                                                      \
        break;
#define FEW(kind)                                                                                  \
    static void few_##kind(int64_t R, const few *f, int64_t c0, int64_t c1)                        \
    {                                                                                              \
        switch (R) {                                                                               \
            EACH_HEIGHT(HEIGHT, kind)                                                              \
        }                                                                                          \
    }
FEW(F32)
FEW(F16)
FEW(BF16)
#undef FEW
#undef HEIGHT

#define FEW_ROWS 8 /* in two blocks: reading weights twice is no slower than decoding them */

/* Columns [c0, c1) of all blocks. */
static void few_rows(few f, int64_t c0, int64_t c1)
{
    const row_cut rows_of = cut_rows(f.N, ROWS);
    real *y = f.y;
    for (int64_t b = 0; b < rows_of.n; b++) {
        f.i0 = block_row(&rows_of, b);
        f.y = y + f.i0 * f.y_stride;
        (f.w->kind == TILE_F32   ? few_F32
         : f.w->kind == TILE_F16 ? few_F16
                                 : few_BF16)(block_row(&rows_of, b + 1) - f.i0, &f, c0, c1);
    }
}

/* ---- any number of rows ---------------------------------------------------------------------- */

static void fetch_sums(const real *y, int64_t y_stride, int64_t R, int64_t width)
{
    for (int64_t i = 0; i < R; i++)
        for (int64_t c = 0; c < width; c += WIDTH)
            __builtin_prefetch(y + i * y_stride + c, 1);
}

/* Decodes n terms of a panel that holds 16-bit floats in pairs. */
static inline __attribute__((always_inline)) void widen_panel(tile_kind kind, real *to,
                                                              const uint8_t *from, int64_t n)
{
    for (int64_t j = 0; j < n; j += 2, from += 4 * PANEL_ROWS) {
        __builtin_prefetch(from + FAR_PANEL);
        for (int i = 0; i < PANEL_ROWS; i += WIDTH) {
            vec low, high;
            two_numbers(kind, &low, &high, from + 4 * i);
            v_store(to + j * PANEL_ROWS + i, low);
            v_store(to + (j + 1) * PANEL_ROWS + i, high);
        }
    }
}

/* Terms [j0, j0 + n) of the panels of `width` columns from c on. */
static inline __attribute__((always_inline)) void widen_panels(tile_kind kind, real *p,
                                                               const row_set *w, int64_t j0,
                                                               int64_t n, int64_t c, int64_t width)
{
    for (int64_t o = 0; o < width; o += PANEL_ROWS)
        widen_panel(kind, p + o * n, panel_of(w, c + o, j0 / 2), n);
}

/* The panel of terms [j0, j0 + n), in place or in `room`; and the distance of its panels of 16. */
static const real *find_panel(real *room, const row_set *w, bool w_transposed, int64_t j0,
                              int64_t n, int64_t c, int64_t width, int64_t *apart)
{
    *apart = n * PANEL_ROWS;
    if (w_transposed && in_panels(w) && w->kind == TILE_F32) {
        *apart = (int64_t)(PANEL_ROWS * w->row_bytes / sizeof(real));
        return (const real *)(const void *)panel_of(w, c, j0);
    }
    if (w_transposed && in_panels(w) && w->kind == TILE_F16)
        widen_panels(TILE_F16, room, w, j0, n, c, width);
    else if (w_transposed && in_panels(w))
        widen_panels(TILE_BF16, room, w, j0, n, c, width);
    else
        (w_transposed ? panel_transposed : panel_as_stored)(room, w, j0, n, c, width);
    return room;
}

/* Adds n terms of every sum, one tile, to a panel of the blocks [block0, block1); after the last
 * tile, the bias. Whole vectors without a bias go from registers to y. */
static void tile_product(real *y, int64_t y_stride, bool add, const real *a, int64_t N, int64_t j0,
                         int64_t n, const row_set *w, bool w_transposed, int64_t block0,
                         int64_t block1, int64_t c, int64_t width, const real *bias, real *room)
{
    _Alignas(64) real sums[ROWS * PANEL];
    const row_cut rows_of = cut_rows(N, ROWS);
    int64_t apart;
    const real *panel = find_panel(room, w, w_transposed, j0, n, c, width, &apart);
    const int vecs = width > 2 * WIDTH ? VECS : width > WIDTH ? 2 : 1;
    multiply_fn *multiply = vecs == VECS ? multiply_all : vecs == 2 ? multiply_two : multiply_one;
    const bool direct = width == vecs * WIDTH && !bias;
    for (int64_t b = block0; b < block1; b++) {
        const int64_t i0 = block_row(&rows_of, b), R = block_row(&rows_of, b + 1) - i0;
        real *to = y + i0 * y_stride + c;
        fetch_sums(to, y_stride, R, width);
        multiply(R, direct ? to : sums, direct ? y_stride : PANEL, direct && add,
                 a + packed_at(N, j0, n, i0), panel, apart, n);
        if (!direct)
            add_sums(to, y_stride, add, sums, R, width, bias);
    }
}

/* Columns to compute at a time, of the `left` that remain: all, or for panels in memory at most as
 * many as there are and as there is a function for. */
static int64_t panel_width(const row_set *w, int64_t left)
{
    const bool some = PANEL > PANEL_ROWS && in_panels(w);
    return left >= PANEL ? PANEL : some ? min64(2 * PANEL_ROWS, left) : left;
}

typedef void panel_tile_fn(real *y, int64_t y_stride, bool add, const real *a, int64_t N,
                           int64_t j0, int64_t n, const row_set *w, bool w_transposed,
                           int64_t block0, int64_t block1, int64_t c, int64_t width,
                           const real *bias, real *room);

/* Panel by panel, in a buffer for one panel of a tile's terms. */
static void panel_products(panel_tile_fn *tile, real *y, int64_t y_stride, bool add, const real *a,
                           int64_t N, int64_t J, const row_set *w, bool w_transposed,
                           int64_t block0, int64_t block1, int64_t c0, int64_t c1)
{
    real *room = side_take((size_t)(min64(TILE, J) * PANEL) * sizeof(real));
    for (int64_t c = c0, width; c < c1; c += width) {
        width = panel_width(w, c1 - c);
        for (int64_t j0 = 0; j0 < J; j0 += TILE)
            tile(y, y_stride, add || j0 > 0, a, N, j0, min64(TILE, J - j0), w, w_transposed, block0,
                 block1, c, width, w->bias && j0 + TILE >= J ? w->bias + c : NULL, room);
    }
    side_give(room);
}

static void vec_product(real *y, int64_t y_stride, bool add, const real *a, int64_t N, int64_t J,
                        const row_set *w, bool w_transposed, int64_t block0, int64_t block1,
                        int64_t c0, int64_t c1)
{
    const bool few_of_all = N <= FEW_ROWS && block0 == 0 && block1 == row_blocks(N, ROWS);
    if (w_transposed && few_of_all && in_panels(w))
        few_rows((few){ y, y_stride, add, a, N, J, 0, w }, c0, c1);
    else
        panel_products(tile_product, y, y_stride, add, a, N, J, w, w_transposed, block0, block1, c0,
                       c1);
}
