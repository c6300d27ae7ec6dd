/* pairs.h - products in class bf16 by vectors, in the order of AMX's tiles (tile.h): of every 32
 * terms an even and an odd chain of multiply-adds, whose sum is added to y. Written over panels.h,
 * whose panels and packed rows it uses; only the sums differ.
 *
 * A chain that lacks terms at the end has zeros there, as a tile has. They matter for the sign of a
 * zero only. */

#define HALF_VECS (VECS / 2) /* two chains need twice the registers */

/* Tiles count subnormals as zeros; so do vectors here. On Arm they do not, and results differ from
 * other CPUs' by subnormals. */
#if defined(__x86_64__)
static unsigned flush_begin(void)
{
    const unsigned was = _mm_getcsr();
    _mm_setcsr(was | 0x8040); /* FTZ, DAZ */
    return was;
}
#define flush_end(was) _mm_setcsr(was)
#else
#define flush_begin()  0
#define flush_end(was) (void)(was)
#endif

/* The two chains of n <= 32 terms of R rows and V vectors, from vector v0 of the panel on. */
static inline __attribute__((always_inline)) void multiply_group(int R, int V, int v0,
                                                                 vec s[2][ROWS][HALF_VECS],
                                                                 const real *a, const real *p,
                                                                 int64_t apart, int64_t n)
{
#pragma GCC unroll 16
    for (int i = 0; i < R; i++)
        for (int v = 0; v < V; v++)
            s[0][i][v] = s[1][i][v] = v_zero();
    for (int64_t j = 0; j + 1 < n; j += 2)
#pragma GCC unroll 2
        for (int odd = 0; odd < 2; odd++) {
            vec w[HALF_VECS];
            for (int v = 0; v < V; v++)
                w[v] = v_load(AT(p, apart, j + odd, v0 + v));
#pragma GCC unroll 16
            for (int i = 0; i < R; i++) {
                const vec x = v_set(a[(j + odd) * R + i]);
                for (int v = 0; v < V; v++)
                    s[odd][i][v] = v_fma(x, w[v], s[odd][i][v]);
            }
        }
    if (n == TILE_TERMS)
        return;
    for (int i = 0; i < R; i++)
        for (int v = 0; v < V; v++) {
            if (n % 2 == 1)
                s[0][i][v] = v_fma(v_set(a[(n - 1) * R + i]), v_load(AT(p, apart, n - 1, v0 + v)),
                                   s[0][i][v]);
            if (n < TILE_TERMS - 1)
                s[0][i][v] = v_add(s[0][i][v], v_zero());
            s[1][i][v] = v_add(s[1][i][v], v_zero());
        }
}

/* Adds n terms to the sums of R rows, HALF_VECS vectors from v0 on. */
static inline __attribute__((always_inline)) void
multiply_groups(int R, int v0, real *sums, const real *a, const real *p, int64_t apart, int64_t n)
{
    for (int64_t j = 0; j < n; j += TILE_TERMS) {
        vec s[2][ROWS][HALF_VECS];
        const int64_t terms = min64(TILE_TERMS, n - j);
        if (terms == TILE_TERMS)
            multiply_group(R, HALF_VECS, v0, s, a + j * R, p + j * PANEL_ROWS, apart, TILE_TERMS);
        else
            multiply_group(R, HALF_VECS, v0, s, a + j * R, p + j * PANEL_ROWS, apart, terms);
        for (int i = 0; i < R; i++)
            for (int v = 0; v < HALF_VECS; v++) {
                real *to = sums + i * PANEL + (v0 + v) * WIDTH;
                v_store(to, v_add(v_load(to), v_add(s[0][i][v], s[1][i][v])));
            }
    }
}

#define HEIGHT(R, v0)                                                                              \
    case R:                                                                                        \
        multiply_groups(R, v0, sums, a, p, apart, n);                                              \
        break;
#define SHAPE(name, v0)                                                                            \
    static void name(int64_t R, real *sums, const real *a, const real *p, int64_t apart,           \
                     int64_t n)                                                                    \
    {                                                                                              \
        switch (R) {                                                                               \
            EACH_HEIGHT(HEIGHT, v0)                                                                \
        }                                                                                          \
    }
SHAPE(multiply_left, 0)
SHAPE(multiply_right, HALF_VECS)
#undef SHAPE
#undef HEIGHT

/* A tile's terms of a panel of a block format, as words of two bf16. */
#define WORDS_BYTES (TILE / 2 * PANEL_ROWS * sizeof(uint32_t))

static bool from_words(const row_set *w, bool w_transposed)
{
    return w_transposed && w->panels && w->pairs;
}

static void widen_words(real *p, const row_set *w, int64_t j0, int64_t n, int64_t c, int64_t width)
{
    uint32_t *word = side_take(WORDS_BYTES);
    for (int64_t o = 0; o < width; o += PANEL_ROWS) {
        w->pairs(word, w, c + o, j0 / TILE_TERMS, n / TILE_TERMS);
        widen_panel(TILE_BF16, p + o * n, (const uint8_t *)word, n);
    }
    side_give(word);
}

/* The panel of terms [j0, j0 + n), rounded to bf16. */
static const real *find_rounded(real *room, const row_set *w, bool w_transposed, int64_t j0,
                                int64_t n, int64_t c, int64_t width, int64_t *apart)
{
    if (from_words(w, w_transposed)) {
        widen_words(room, w, j0, n, c, width);
        *apart = n * PANEL_ROWS;
        return room;
    }
    const real *p = find_panel(room, w, w_transposed, j0, n, c, width, apart);
    if (w->kind == TILE_BF16 || w->kind == TILE_ROUNDED)
        return p;
    for (int64_t o = 0; o < width; o += PANEL_ROWS)
        produce_rounded(room + o * n, p + o / PANEL_ROWS * *apart, 0, n * PANEL_ROWS);
    *apart = n * PANEL_ROWS;
    return room;
}

static void take_sums(real *sums, const real *y, int64_t y_stride, bool add, int64_t R,
                      int64_t width)
{
    for (int64_t i = 0; i < R; i++)
        for (int64_t c = 0; c < width; c += WIDTH)
            v_store(sums + i * PANEL + c,
                    add ? v_load_part(y + i * y_stride + c, (int)min64(WIDTH, width - c))
                        : v_zero());
}

/* Like tile_product of class f32. */
static void tile_pairs(real *y, int64_t y_stride, bool add, const real *a, int64_t N, int64_t j0,
                       int64_t n, const row_set *w, bool w_transposed, int64_t block0,
                       int64_t block1, int64_t c, int64_t width, const real *bias, real *room)
{
    _Alignas(64) real sums[ROWS * PANEL];
    const row_cut rows_of = cut_rows(N, ROWS);
    int64_t apart;
    const real *panel = find_rounded(room, w, w_transposed, j0, n, c, width, &apart);
    for (int64_t b = block0; b < block1; b++) {
        const int64_t i0 = block_row(&rows_of, b), R = block_row(&rows_of, b + 1) - i0;
        const real *x = a + packed_at(N, j0, n, i0);
        real *to = y + i0 * y_stride + c;
        take_sums(sums, to, y_stride, add, R, width);
        multiply_left(R, sums, x, panel, apart, n);
        if (width > HALF_VECS * WIDTH)
            multiply_right(R, sums, x, panel, apart, n);
        add_sums(to, y_stride, false, sums, R, width, bias);
    }
}

/* ---- few rows of x and weights in panels ------------------------------------------------------- */

#define MANY_PAIRS (WIDTH == 8 ? 2 : 8) /* panels times rows whose chains fit the registers */

/* Adds n terms, at most a tile, to the sums s of R rows and P panels of bf16. */
static inline __attribute__((always_inline)) void
few_pair_terms(int R, int P, vec *s, const uint8_t *from, size_t apart, const real *x, int64_t n)
{
    const int V = PANEL_ROWS / WIDTH;
    for (int64_t j0 = 0; j0 < n; j0 += TILE_TERMS) {
        const int64_t terms = min64(TILE_TERMS, n - j0);
        vec e[2][ROWS * STREAMS * PANEL_ROWS / WIDTH];
#pragma GCC unroll 16
        for (int i = 0; i < R * P * V; i++)
            e[0][i] = e[1][i] = v_zero();
        for (int64_t j = j0; j < j0 + terms; j += 2, from += 4 * PANEL_ROWS)
#pragma GCC unroll 16
            for (int v = 0; v < P * V; v++) {
                const uint8_t *at = from + (size_t)(v / V) * apart + v % V * WIDTH * 4;
                vec w[2];
                if (v % V == 0)
                    __builtin_prefetch(at + FAR_PANEL);
                two_numbers(TILE_BF16, &w[0], &w[1], at);
#pragma GCC unroll 2
                for (int odd = 0; odd < 2; odd++)
#pragma GCC unroll 8
                    for (int i = 0; i < R; i++)
                        e[odd][i * P * V + v] = v_fma(v_set(x[(j + odd) * R + i]), w[odd],
                                                      e[odd][i * P * V + v]);
            }
#pragma GCC unroll 16
        for (int i = 0; i < R * P * V; i++) {
            if (terms < TILE_TERMS) { /* both chains are short: panels hold pairs */
                e[0][i] = v_add(e[0][i], v_zero());
                e[1][i] = v_add(e[1][i], v_zero());
            }
            s[i] = v_add(s[i], v_add(e[0][i], e[1][i]));
        }
    }
}

/* Columns [c, c1) of y that P panels cover. */
static inline __attribute__((always_inline)) void few_pair_columns(int R, int P, const few *f,
                                                                   int64_t c, int64_t c1)
{
    const int V = PANEL_ROWS / WIDTH;
    const row_set *w = f->w;
    vec s[ROWS * STREAMS * PANEL_ROWS / WIDTH];
    for (int i = 0; i < R * P * V; i++) {
        const int64_t o = c + i % (P * V) * WIDTH;
        s[i] = f->add ? v_load_part(f->y + i / (P * V) * f->y_stride + o, part_of(c1 - o))
                      : v_zero();
    }
    for (int64_t j0 = 0; j0 < f->J; j0 += TILE) {
        const int64_t n = min64(TILE, f->J - j0);
        const real *x = f->x + packed_at(f->N, j0, n, f->i0);
        if (P == 1 && w->pairs) {
            uint32_t *word = side_take(WORDS_BYTES);
            w->pairs(word, w, c, j0 / TILE_TERMS, n / TILE_TERMS);
            few_pair_terms(R, 1, s, (const uint8_t *)word, 0, x, n);
            side_give(word);
            continue;
        }
        few_pair_terms(R, P, s, panel_of(w, c, j0 / w->block), PANEL_ROWS * w->row_bytes, x, n);
    }
    for (int i = 0; i < R * P * V; i++) {
        const int64_t o = c + i % (P * V) * WIDTH;
        const int part = part_of(c1 - o);
        const vec sum = w->bias ? v_add(s[i], v_load_part(w->bias + o, part)) : s[i];
        v_store_part(f->y + i / (P * V) * f->y_stride + o, sum, part);
    }
}

static inline __attribute__((always_inline)) void few_pair_block(int R, const few *f, int64_t c0,
                                                                 int64_t c1)
{
    const int most = MANY_PAIRS / R, P = most > STREAMS ? STREAMS : most > 1 ? most : 1;
    int64_t c = c0;
    for (; !f->w->pairs && c + (P - 1) * PANEL_ROWS < c1; c += P * PANEL_ROWS)
        few_pair_columns(R, P, f, c, c1);
    for (; c < c1; c += PANEL_ROWS)
        few_pair_columns(R, 1, f, c, c1);
}

static void few_pairs(few f, int64_t c0, int64_t c1)
{
    const row_cut rows_of = cut_rows(f.N, ROWS);
    real *y = f.y;
    for (int64_t b = 0; b < rows_of.n; b++) {
        f.i0 = block_row(&rows_of, b);
        f.y = y + f.i0 * f.y_stride;
#define HEIGHT(R, f)                                                                               \
    case R:                                                                                        \
        few_pair_block(R, f, c0, c1);                                                              \
        break;
        switch (block_row(&rows_of, b + 1) - f.i0) {
            EACH_HEIGHT(HEIGHT, &f)
        }
#undef HEIGHT
    }
}

/* ---- any number of rows ---------------------------------------------------------------------- */

/* Rows packed as in class f32, but rounded. */
static void vec_pack_bf16(void *to, const real *a, int64_t i_step, int64_t j_step, int64_t N,
                          int64_t J, int64_t block0, int64_t block1)
{
    const row_cut rows_of = cut_rows(N, ROWS);
    vec_pack(to, a, i_step, j_step, N, J, block0, block1);
    for (int64_t j0 = 0; j0 < J; j0 += TILE) {
        const int64_t n = min64(TILE, J - j0), i0 = block_row(&rows_of, block0);
        real *at = (real *)to + packed_at(N, j0, n, i0);
        produce_rounded(at, at, 0, n * (block_row(&rows_of, block1) - i0));
    }
}

/* Not inlined: a compiler may move arithmetic across a change of MXCSR, but not out of a call. */
static OWN_FRAME void pair_products(real *y, int64_t y_stride, bool add, const real *a, int64_t N,
                                    int64_t J, const row_set *w, bool w_transposed, int64_t block0,
                                    int64_t block1, int64_t c0, int64_t c1)
{
    const bool few_of_all = N <= FEW_ROWS && block0 == 0 && block1 == row_blocks(N, ROWS);
    const bool words = from_words(w, w_transposed) ||
                       (w_transposed && in_panels(w) && w->kind == TILE_BF16);
    if (words && few_of_all)
        few_pairs((few){ y, y_stride, add, a, N, J, 0, w }, c0, c1);
    else
        panel_products(tile_pairs, y, y_stride, add, a, N, J, w, w_transposed, block0, block1, c0,
                       c1);
}

static void vec_product_bf16(real *y, int64_t y_stride, bool add, const void *a, int64_t N,
                             int64_t J, const row_set *w, bool w_transposed, int64_t block0,
                             int64_t block1, int64_t c0, int64_t c1)
{
    const unsigned was = flush_begin();
    pair_products(y, y_stride, add, a, N, J, w, w_transposed, block0, block1, c0, c1);
    flush_end(was);
}
