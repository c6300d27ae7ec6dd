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
 * Outputs lie in the lanes, so no sum is ever taken across a vector, and which rows and columns
 * share a block decides nothing but speed. A panel is produced from its stored format once for all
 * rows of x, a whole tile at a time: long runs of the stored rows are what memory likes to give, and
 * the second cache keeps what is made of them. */

#define PANEL (VECS * WIDTH)
#define PIECE 128 /* numbers of a stored row that are produced at a time */
#define FAR   512 /* bytes of a stored row that are, where one row is multiplied */

/* sums[i][c] = sum_j a[j, i] p[j, c] for R rows and V vectors, both constants where it is inlined.
 * The outer loops ask to be unrolled so that sums are registers from the start: without it gcc 12 for
 * Arm also stores every sum in every turn. Nothing is asked for in advance: where another thread has
 * the other half of the core, it is instructions that are short. */
static inline __attribute__((always_inline)) void
multiply_rows(int R, int V, real *sums, const real *a, const real *p, int64_t n)
{
    vec s[ROWS][VECS];
#pragma GCC unroll 16
    for (int i = 0; i < R; i++)
        for (int v = 0; v < V; v++)
            s[i][v] = v_zero();
    for (int64_t j = 0; j < n; j++) {
        vec w[VECS];
        for (int v = 0; v < V; v++)
            w[v] = v_load(p + j * PANEL + v * WIDTH);
        for (int i = 0; i < R; i++) {
            const vec x = v_set(a[j * R + i]);
            for (int v = 0; v < V; v++)
                s[i][v] = v_fma(x, w[v], s[i][v]);
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < R; i++)
        for (int v = 0; v < V; v++)
            v_store(sums + i * PANEL + v * WIDTH, s[i][v]);
}

/* A function for each height of a block, for whole panels and for those of one or two vectors, as
 * keys of short texts and narrow heads are. */
typedef void multiply_fn(real *sums, const real *a, const real *p, int64_t n);

#define SHAPE(R, V, name)                                                                          \
    static void multiply_##R##_##name(real *sums, const real *a, const real *p, int64_t n)         \
    {                                                                                              \
        multiply_rows(R, V, sums, a, p, n);                                                        \
    }
#define HEIGHT(R) SHAPE(R, 1, one) SHAPE(R, 2, two) SHAPE(R, VECS, all)
HEIGHT(1)
HEIGHT(2)
HEIGHT(3)
HEIGHT(4)
HEIGHT(5)
HEIGHT(6)
#undef HEIGHT
#undef SHAPE

#define HEIGHT(R)                                                                                  \
    {                                                                                              \
        multiply_##R##_one, multiply_##R##_two, multiply_##R##_all                                 \
    }
static multiply_fn *const multiply[ROWS + 1][3] = {
    { NULL }, HEIGHT(1), HEIGHT(2), HEIGHT(3), HEIGHT(4), HEIGHT(5), HEIGHT(6),
};
#undef HEIGHT

/* R rows of n numbers, turned: WIDTH rows of WIDTH columns at a time in registers, but for columns
 * of full blocks that the processor turns in a way of its own. */
static void pack_turned(real *to, const real *from, int64_t step, int64_t n, int64_t R)
{
    const int64_t first = R == ROWS ? pack_full(to, from, step, n) : 0;
    for (int64_t i0 = 0; i0 < R; i0 += WIDTH) {
        const int rows = (int)least(WIDTH, R - i0);
        for (int64_t j = first; j < n; j += WIDTH) {
            const int part = (int)least(WIDTH, n - j);
            vec block[WIDTH];
            for (int i = 0; i < WIDTH; i++)
                block[i] = i < rows ? v_load_part(from + (i0 + i) * step + j, part) : v_zero();
            v_transpose(block);
            for (int i = 0; i < part; i++)
                v_store_part(to + (j + i) * R + i0, block[i], rows);
        }
    }
}

/* Columns of a are rows of the left side. Some rows of a at a time go through a buffer: every line
 * of memory is read once and written once, whatever power of two lies between them. */
#define STAGE 16 /* rows of a */
#define SIDE  16 /* blocks of columns */

static void pack_along(real *to, const real *a, int64_t j_step, int64_t N, int64_t j0, int64_t n,
                       int64_t block0, int64_t block1)
{
    real stage[STAGE][SIDE * ROWS + WIDTH];
    const row_cut rows_of = cut_rows(N, ROWS);
    const int64_t first = block_row(&rows_of, block0), end = block_row(&rows_of, block1);
    for (int64_t j = 0; j < n; j += STAGE) {
        const int64_t count = least(STAGE, n - j);
        for (int64_t k = 0; k < count; k++)
            for (int64_t i = first; i < end; i += WIDTH)
                v_store(stage[k] + i - first,
                        v_load_part(a + (j0 + j + k) * j_step + i, (int)least(WIDTH, end - i)));
        for (int64_t b = block0; b < block1; b++) {
            const int64_t i0 = block_row(&rows_of, b), R = block_row(&rows_of, b + 1) - i0;
            real *at = to + packed_at(N, j0, n, i0) + j * R;
            for (int64_t i = 0; i < R; i += WIDTH)
                for (int64_t k = 0; k < count; k++)
                    v_store_part(at + k * R + i, v_load(stage[k] + i0 - first + i),
                                 (int)least(WIDTH, R - i));
        }
    }
}

/* Rows or columns of a lie side by side: one of the steps is 1. */
static void pack(real *to, const real *a, int64_t i_step, int64_t j_step, int64_t N, int64_t J,
                 bool bf16, int64_t block0, int64_t block1)
{
    const row_cut rows_of = cut_rows(N, ROWS);
    for (int64_t j0 = 0; j0 < J; j0 += TILE) {
        const int64_t n = least(TILE, J - j0);
        for (int64_t b = block0; j_step != 1 && b < block1; b += SIDE)
            pack_along(to, a, j_step, N, j0, n, b, least(b + SIDE, block1));
        for (int64_t b = block0; b < block1; b++) {
            const int64_t i0 = block_row(&rows_of, b), R = block_row(&rows_of, b + 1) - i0;
            real *at = to + packed_at(N, j0, n, i0);
            if (j_step == 1)
                pack_turned(at, a + i0 * i_step + j0, i_step, n, R);
            if (bf16)
                produce_rounded(at, at, 0, n * R);
        }
    }
}

/* WIDTH numbers of a stored row from column k. */
static inline __attribute__((always_inline)) vec v_stored(tile_kind kind, const void *row,
                                                          int64_t k)
{
    return kind == TILE_F16       ? v_from_f16((const uint16_t *)row + k)
           : kind == TILE_BF16    ? v_from_bf16((const uint16_t *)row + k)
           : kind == TILE_ROUNDED ? v_bf16(v_load((const real *)row + k))
                                  : v_load((const real *)row + k);
}

/* WIDTH rows of n numbers, turned: p[j, i] = row i, column k + j. */
static inline __attribute__((always_inline)) void
turn(tile_kind kind, real *p, const void *const row[WIDTH], int64_t k, int64_t n)
{
    for (int64_t j = 0; j < n; j += WIDTH) {
        vec block[WIDTH];
        for (int i = 0; i < WIDTH; i++)
            block[i] = v_stored(kind, row[i], k + j);
        v_transpose(block);
        for (int i = 0; i < WIDTH; i++)
            v_store(p + (j + i) * PANEL, block[i]);
    }
}

/* The same for any format and any n: what is short of a vector goes through memory. */
static void turn_any(real *p, const row_set *w, const void *const row[WIDTH], int64_t k, int64_t n)
{
    _Alignas(64) real buffer[WIDTH][PIECE];
    const void *made[WIDTH];
    const int64_t even = n / WIDTH * WIDTH;
    for (int i = 0; i < WIDTH; i++)
        made[i] = w->tile(buffer[i], row[i], k, n);
    turn(TILE_F32, p, made, 0, even);
    for (int64_t j = even; j < n; j++)
        for (int i = 0; i < WIDTH; i++)
            p[j * PANEL + i] = ((const real *)made[i])[j];
}

/* Rows c0 + v WIDTH and on; beyond the width the last one again, and nobody looks. */
static void strip_rows(const void *row[WIDTH], const row_set *w, int64_t c0, int64_t v,
                       int64_t width)
{
    for (int i = 0; i < WIDTH; i++)
        row[i] = (const char *)w->data +
                 (size_t)(c0 + least(v * WIDTH + i, width - 1)) * w->row_bytes;
}

/* p[j, c] from row c0 + c of w, column j0 + j. Beyond the width a panel repeats the last row, and
 * nobody looks. */
static void panel_across(real *p, const row_set *w, int64_t j0, int64_t n, int64_t c0,
                         int64_t width)
{
    for (int v = 0; v * WIDTH < width; v++) {
        const void *row[WIDTH];
        strip_rows(row, w, c0, v, width);
        for (int64_t j = 0; j < n; j += PIECE) {
            real *to = p + j * PANEL + v * WIDTH;
            const int64_t m = least(PIECE, n - j), k = w->k0 + j0 + j;
            if (m % WIDTH != 0)
                turn_any(to, w, row, k, m);
            else if (w->kind == TILE_F32)
                turn(TILE_F32, to, row, k, m);
            else if (w->kind == TILE_F16)
                turn(TILE_F16, to, row, k, m);
            else if (w->kind == TILE_BF16)
                turn(TILE_BF16, to, row, k, m);
            else
                turn_any(to, w, row, k, m);
        }
    }
}

/* p[j, c] from row j0 + j of w, column c0 + c: whole panels of numbers that stand alone ... */
static inline __attribute__((always_inline)) void lift(tile_kind kind, real *p, const row_set *w,
                                                       int64_t j0, int64_t n, int64_t c0)
{
    const char *row = (const char *)w->data + (size_t)j0 * w->row_bytes;
    for (int64_t j = 0; j < n; j++, row += w->row_bytes)
        for (int v = 0; v < VECS; v++)
            v_store(p + j * PANEL + v * WIDTH, v_stored(kind, row, w->k0 + c0 + v * WIDTH));
}

/* ... parts of a panel, as narrow heads are ... */
static void lift_part(real *p, const row_set *w, int64_t j0, int64_t n, int64_t c0, int64_t width)
{
    for (int64_t j = 0; j < n; j++) {
        const char *row = (const char *)w->data + (size_t)(j0 + j) * w->row_bytes;
        const real *from = (const real *)(const void *)row + w->k0 + c0;
        for (int64_t c = 0; c < width; c += WIDTH)
            v_store(p + j * PANEL + c, v_load_part(from + c, (int)least(WIDTH, width - c)));
    }
}

/* ... and anything else. Formats in blocks are produced from a block's beginning. */
static void panel_along(real *p, const row_set *w, int64_t j0, int64_t n, int64_t c0, int64_t width)
{
    real buffer[PANEL + 2 * BLOCK_I8];
    const int64_t first = (w->k0 + c0) % BLOCK_I8;
    if (width == PANEL && w->kind == TILE_F32)
        lift(TILE_F32, p, w, j0, n, c0);
    else if (width == PANEL && w->kind == TILE_F16)
        lift(TILE_F16, p, w, j0, n, c0);
    else if (width == PANEL && w->kind == TILE_BF16)
        lift(TILE_BF16, p, w, j0, n, c0);
    else if (width == PANEL && w->kind == TILE_ROUNDED)
        lift(TILE_ROUNDED, p, w, j0, n, c0);
    else if (w->kind == TILE_F32)
        lift_part(p, w, j0, n, c0, width);
    else
        for (int64_t j = 0; j < n; j++) {
            const char *row = (const char *)w->data + (size_t)(j0 + j) * w->row_bytes;
            const real *t = w->tile(buffer, row, w->k0 + c0 - first, width + first) + first;
            for (int64_t c = 0; c < width; c += WIDTH)
                v_store(p + j * PANEL + c, v_load_part(t + c, (int)least(WIDTH, width - c)));
        }
}

static void add_sums(real *y, int64_t y_stride, bool add, const real *sums, int64_t R,
                     int64_t width, const real *bias)
{
    for (int64_t i = 0; i < R; i++)
        for (int64_t c = 0; c < width; c += WIDTH) {
            real *to = y + i * y_stride + c;
            const int part = (int)least(WIDTH, width - c);
            vec s = v_load(sums + i * PANEL + c);
            s = add ? v_add(v_load_part(to, part), s) : s;
            v_store_part(to, bias ? v_add(s, v_load_part(bias + c, part)) : s, part);
        }
}

/* ---- one row of x: what is turned is multiplied at once ------------------------------------- */

/* The sums of WIDTH stored rows with n numbers of x, in the same order as multiply_rows. Two numbers
 * of 16 bits are turned as one: a lane's lower half comes first. What is asked for beyond the end of
 * a row is the beginning of the row that its lane takes up next. */
static inline __attribute__((always_inline)) vec one_strip(tile_kind kind, const row_set *w,
                                                           int64_t c, int64_t width, int64_t k,
                                                           int64_t n, const real *x)
{
    typedef uint32_t bits __attribute__((vector_size(sizeof(vec))));
    const int step = kind == TILE_F32 ? WIDTH : 2 * WIDTH, bytes = kind == TILE_F32 ? 4 : 2;
    const void *row[WIDTH];
    vec s = v_zero();
    strip_rows(row, w, c, 0, width);
    for (int64_t j = 0; j < n; j += step) {
        vec t[WIDTH];
        const size_t at = (size_t)(k + j) * bytes, far = at + FAR;
        const size_t wish = far < w->row_bytes ? far : far + (WIDTH - 1) * w->row_bytes;
        for (int i = 0; i < WIDTH; i++) {
            t[i] = v_load((const real *)(const void *)((const char *)row[i] + at));
            __builtin_prefetch((const char *)row[i] + wish);
        }
        v_transpose(t);
        for (int i = 0; i < WIDTH; i++) {
            if (kind == TILE_F32) {
                s = v_fma(v_set(x[j + i]), t[i], s);
                continue;
            }
            const bits u = (bits)t[i];
            const vec low = kind == TILE_F16 ? v_low_f16(u) : (vec)(u << 16);
            const vec high = kind == TILE_F16 ? v_low_f16(u >> 16) : (vec)(u & 0xFFFF0000u);
            s = v_fma(v_set(x[j + 2 * i]), low, s);
            s = v_fma(v_set(x[j + 2 * i + 1]), high, s);
        }
    }
    return s;
}

/* Columns [c0, c1) of y. Every stored row is read from end to end, WIDTH of them side by side. */
static void one_row_across(real *y, bool add, const real *x, int64_t J, const row_set *w,
                           int64_t c0, int64_t c1)
{
    for (int64_t c = c0; c < c1; c += WIDTH) {
        const int part = (int)least(WIDTH, c1 - c);
        vec sum = add ? v_load_part(y + c, part) : v_zero();
        for (int64_t j0 = 0; j0 < J; j0 += TILE) {
            const int64_t n = least(TILE, J - j0), k = w->k0 + j0;
            const vec s = w->kind == TILE_BF16  ? one_strip(TILE_BF16, w, c, part, k, n, x + j0)
                          : w->kind == TILE_F16 ? one_strip(TILE_F16, w, c, part, k, n, x + j0)
                                                : one_strip(TILE_F32, w, c, part, k, n, x + j0);
            sum = add || j0 > 0 ? v_add(sum, s) : s;
        }
        if (w->bias)
            sum = v_add(sum, v_load_part(w->bias + c, part));
        v_store_part(y + c, sum, part);
    }
}

/* ---- any number of rows ---------------------------------------------------------------------- */

static void fetch_sums(const real *y, int64_t y_stride, int64_t R, int64_t width)
{
    for (int64_t i = 0; i < R; i++)
        for (int64_t c = 0; c < width; c += WIDTH)
            __builtin_prefetch(y + i * y_stride + c, 1);
}

/* What n terms of every sum, which are a tile, add to a panel of the blocks [block0, block1); with
 * the last one, the bias. */
static void tile_product(real *y, int64_t y_stride, bool add, const real *a, int64_t N, int64_t j0,
                         int64_t n, const row_set *w, bool across, int64_t block0, int64_t block1,
                         int64_t c, int64_t width, const real *bias, real *panel)
{
    _Alignas(64) real sums[ROWS * PANEL];
    const row_cut rows_of = cut_rows(N, ROWS);
    const int shape = width > 2 * WIDTH ? 2 : width > WIDTH;
    (across ? panel_across : panel_along)(panel, w, j0, n, c, width);
    for (int64_t b = block0; b < block1; b++) {
        const int64_t i0 = block_row(&rows_of, b), R = block_row(&rows_of, b + 1) - i0;
        real *to = y + i0 * y_stride + c;
        fetch_sums(to, y_stride, R, width);
        multiply[R][shape](sums, a + packed_at(N, j0, n, i0), panel, n);
        add_sums(to, y_stride, add, sums, R, width, bias);
    }
}

/* Panel by panel, in memory for one of as many terms as a tile has. */
static void panel_products(real *y, int64_t y_stride, bool add, const real *a, int64_t N, int64_t J,
                           const row_set *w, bool across, int64_t block0, int64_t block1,
                           int64_t c0, int64_t c1)
{
    real *panel = side_take((size_t)(least(TILE, J) * PANEL) * sizeof(real));
    for (int64_t c = c0; c < c1; c += PANEL)
        for (int64_t j0 = 0; j0 < J; j0 += TILE)
            tile_product(y, y_stride, add || j0 > 0, a, N, j0, least(TILE, J - j0), w, across,
                         block0, block1, c, least(PANEL, c1 - c),
                         w->bias && j0 + TILE >= J ? w->bias + c : NULL, panel);
    side_give(panel);
}

static void product(real *y, int64_t y_stride, bool add, const real *a, int64_t N, int64_t J,
                    const row_set *w, bool across, int64_t block0, int64_t block1, int64_t c0,
                    int64_t c1)
{
    const bool alone = w->kind == TILE_F32 || w->kind == TILE_F16 || w->kind == TILE_BF16;
    if (across && N == 1 && alone && J % (2 * WIDTH) == 0)
        one_row_across(y, add, a, J, w, c0, c1);
    else
        panel_products(y, y_stride, add, a, N, J, w, across, block0, block1, c0, c1);
}
