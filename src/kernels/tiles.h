/* tiles.h - products in class bf16 on tiles of 16 x 16 sums, over vector.h and tile.h. Included
 * once for the instructions and once for their emulation:
 *
 *     T(name)    an operation on tiles
 *     A(name)    the name of a function
 *
 *     x: packed once, 16 rows of 32 terms           w: panels of 16 columns, 32 terms in pairs
 *
 *            +----+----+----+----+                       +----+----+
 *        rows|    |    |    |    | terms            terms|    |    |      two tiles of rows times
 *            +----+----+----+----+                       +----+----+      two of columns: four
 *            |    |    |    |    |                       |    |    |      sums in registers
 *            +----+----+----+----+                       +----+----+
 *
 * Sums of up to 512 rows and 128 columns wait in the second cache; two panels of 256 terms, in the
 * first, are multiplied by all rows before the next two. A sum that waits is the sum that was in the
 * tile, so no cut decides anything. bf16 weights in panels (kernels.h) lie as tiles in memory. */

#ifndef WEFT_KERNELS_TILES_ONCE
#define WEFT_KERNELS_TILES_ONCE

#define TILE_HALVES 512 /* numbers of a tile of bf16 */
#define TILE_SUMS   256
#define STRIP       128 /* columns whose sums wait together */
#define HIGH        32  /* tiles of rows of a strip */
#define DEEP        8   /* groups of terms of a panel */

static int64_t groups_of(int64_t J)
{
    return (J + TILE_TERMS - 1) / TILE_TERMS;
}

/* 16 x 16 words, in place. */
static void transpose_tile(uint32_t *m)
{
#if WIDTH == 16
    vec v[16];
    for (int i = 0; i < 16; i++)
        v[i] = v_load((const real *)(const void *)(m + 16 * i));
    v_transpose(v);
    for (int i = 0; i < 16; i++)
        v_store((real *)(void *)(m + 16 * i), v[i]);
#else
    for (int i = 0; i < 16; i++)
        for (int k = 0; k < i; k++) {
            const uint32_t was = m[16 * i + k];
            m[16 * i + k] = m[16 * k + i];
            m[16 * k + i] = was;
        }
#endif
}

/* 32 numbers of a row, rounded, of which n exist. */
static inline void round_terms(uint16_t *to, const real *from, int n)
{
#if WIDTH == 16
    for (int k = 0; k < TILE_TERMS; k += 16) {
        const vec x = v_bf16(v_load_part(from + k, part_of(n - k)));
        _mm256_storeu_si256((void *)(to + k),
                            _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_castps_si512(x), 16)));
    }
#else
    for (int k = 0; k < TILE_TERMS; k++)
        to[k] = k < n ? bf16_encode((float)from[k]) : 0;
#endif
}

/* ---- the left side --------------------------------------------------------------------------- */

/* A tile of the left side: [row, term]. Either rows or terms are contiguous in a. */
static void pack_tile(uint16_t *to, const real *a, int64_t i_step, int64_t j_step, int rows,
                      int terms)
{
    uint32_t *word = (uint32_t *)(void *)to;
    if (j_step == 1) {
        for (int i = 0; i < TILE_ROWS; i++)
            if (i < rows)
                round_terms(to + i * TILE_TERMS, a + i * i_step, terms);
            else
                memset(to + i * TILE_TERMS, 0, TILE_TERMS * sizeof *to);
        return;
    }
    for (int k = 0; k < TILE_TERMS / 2; k++)
        for (int i = 0; i < TILE_ROWS; i += WIDTH) {
            const real *low = a + 2 * k * j_step + i;
            const int part = part_of(rows - i);
            store_pairs(word + k * TILE_ROWS + i, v_load_part(low, 2 * k < terms ? part : 0),
                        v_load_part(low + j_step, 2 * k + 1 < terms ? part : 0));
        }
    transpose_tile(word);
}

/* Where tile t of rows begins; the tiles of its terms are two apart. */
static inline int64_t packed_tile(int64_t t, int64_t groups)
{
    return (t / 2 * groups * 2 + t % 2) * TILE_HALVES;
}

/* Of each block of 32 rows all terms: of a group of 32 the upper tile, then the lower. They are
 * made in the order in which a lies in memory. */
static void pack_tiles(void *to, const real *a, int64_t i_step, int64_t j_step, int64_t N,
                       int64_t J, int64_t block0, int64_t block1)
{
    const int64_t groups = groups_of(J), first = 2 * block0;
    const int64_t tiles = min64(2 * block1, row_blocks(N, TILE_ROWS)) - first;
    for (int64_t k = 0; k < groups * tiles; k++) {
        const int64_t t = first + (j_step == 1 ? k / groups : k % tiles);
        const int64_t g = j_step == 1 ? k % groups : k / tiles;
        pack_tile((uint16_t *)to + packed_tile(t, groups) + 2 * g * TILE_HALVES,
                  a + t * TILE_ROWS * i_step + g * TILE_TERMS * j_step, i_step, j_step,
                  (int)min64(TILE_ROWS, N - t * TILE_ROWS),
                  (int)min64(TILE_TERMS, J - g * TILE_TERMS));
    }
}

/* ---- the right side -------------------------------------------------------------------------- */

static const char *stored_row(const row_set *w, int64_t i)
{
    return (const char *)w->data + (size_t)i * w->row_bytes;
}

/* A tile of the right side, [pair of terms, column], of rows of w: a row is a column ... */
static void pairs_transposed(uint16_t *to, const row_set *w, int64_t j, int terms, int64_t c,
                             int64_t width)
{
    for (int i = 0; i < TILE_ROWS; i++) {
        const char *row = stored_row(w, c + min64(i, width - 1));
        uint16_t *at = to + i * TILE_TERMS;
        if (w->kind == TILE_BF16 && terms == TILE_TERMS) {
            memcpy(at, (const uint16_t *)(const void *)row + w->k0 + j, TILE_BYTES);
        } else {
            real made[TILE_TERMS];
            round_terms(at, w->tile(made, row, w->k0 + j, terms), terms);
        }
    }
    transpose_tile((uint32_t *)(void *)to);
}

/* ... or a term: whole tiles of floats and of bf16, ... */
static void pairs_of_floats(uint32_t *to, const row_set *w, int64_t j, int64_t c)
{
    const int64_t step = (int64_t)(w->row_bytes / sizeof(real));
    const real *low = (const real *)(const void *)stored_row(w, j) + w->k0 + c;
    for (int k = 0; k < TILE_TERMS / 2; k++, low += 2 * step)
        for (int i = 0; i < TILE_ROWS; i += WIDTH)
            store_pairs(to + k * TILE_ROWS + i, v_load(low + i), v_load(low + step + i));
}

static void pairs_of_bf16(uint32_t *to, const row_set *w, int64_t j, int64_t c)
{
    const int64_t step = (int64_t)(w->row_bytes / sizeof(uint16_t));
    const uint16_t *low = (const uint16_t *)(const void *)stored_row(w, j) + w->k0 + c;
    for (int k = 0; k < TILE_TERMS / 2; k++, low += 2 * step)
        for (int i = 0; i < TILE_ROWS; i += WIDTH)
            v_store((real *)(void *)(to + k * TILE_ROWS + i),
                    (vec)((pair_vec)v_from_bf16(low + i) >> 16 |
                          (pair_vec)v_from_bf16(low + step + i)));
}

/* ... and anything else. Block formats are produced from the start of a block. */
static inline vec take_columns(const row_set *w, int64_t j, int64_t c, int part, real *made)
{
    const char *row = stored_row(w, j);
    const int64_t first = (w->k0 + c) % BLOCK_I8;
    return v_load_part(w->tile(made, row, w->k0 + c - first, part + first) + first, part);
}

static void pairs_as_stored(uint16_t *to, const row_set *w, int64_t j, int terms, int64_t c,
                            int64_t width)
{
    real made[WIDTH + 2 * BLOCK_I8];
    uint32_t *word = (uint32_t *)(void *)to;
    const bool whole = terms == TILE_TERMS && width == TILE_ROWS;
    if (whole && w->kind == TILE_BF16) {
        pairs_of_bf16(word, w, j, c);
        return;
    }
    if (whole && (w->kind == TILE_ROUNDED || w->kind == TILE_F32)) {
        pairs_of_floats(word, w, j, c);
        return;
    }
    for (int k = 0; k < TILE_TERMS; k += 2)
        for (int i = 0; i < TILE_ROWS; i += WIDTH) {
            const int part = part_of(width - i);
            vec two[2] = { v_zero(), v_zero() };
            for (int odd = 0; part > 0 && odd < 2 && k + odd < terms; odd++)
                two[odd] = take_columns(w, j + k + odd, c + i, part, made);
            store_pairs(word + k / 2 * TILE_ROWS + i, two[0], two[1]);
        }
}

/* Makes groups [g0, g0 + n) of the panel of columns from c on. Tiles that are in memory are copied:
 * reading them there, even fetched in advance, keeps the left side waiting. */
static void make_pairs(uint16_t *to, const row_set *w, bool w_transposed, int64_t J, int64_t g0,
                       int64_t n, int64_t c, int64_t width)
{
    const bool tiles = w_transposed && in_panels(w) && w->kind == TILE_BF16 && w->k0 == 0;
    if (tiles && (g0 + n) * TILE_TERMS <= J) {
        memcpy(to, panel_of(w, c, g0 * TILE_TERMS / w->block),
               (size_t)n * TILE_HALVES * sizeof *to);
        return;
    }
    if (w_transposed && w->panels && w->pairs) {
        w->pairs((uint32_t *)(void *)to, w, c, g0, n);
        return;
    }
    for (int64_t g = 0; g < n; g++, to += TILE_HALVES) {
        const int64_t j = (g0 + g) * TILE_TERMS;
        const int terms = (int)min64(TILE_TERMS, J - j);
        (w_transposed ? pairs_transposed : pairs_as_stored)(to, w, j, terms, c, width);
    }
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* One strip of a product: tiles of rows [r0, r0 + n_row), columns [c, c + width). */
typedef struct strip {
    real *y;
    int64_t y_stride;
    int64_t N, r0, n_row, c, width;
    real *sums; /* [n_row, STRIP / 16] tiles */
} strip;

static inline real *sums_at(const strip *s, int64_t r, int64_t p)
{
    return s->sums + (r * (STRIP / TILE_ROWS) + p) * TILE_SUMS;
}

/* Calls for every vector of y: where it waits, where it belongs, how many of it exist. */
#define EACH_SUM(s, DO)                                                                            \
    for (int64_t r = 0; r < (s)->n_row; r++)                                                       \
        for (int64_t i = 0; i < TILE_ROWS && ((s)->r0 + r) * TILE_ROWS + i < (s)->N; i++)          \
            for (int64_t c = 0; c < (s)->width; c += WIDTH) {                                      \
                real *waits = sums_at(s, r, c / TILE_ROWS) + i * TILE_ROWS + c % TILE_ROWS;        \
                real *out = (s)->y + (((s)->r0 + r) * TILE_ROWS + i) * (s)->y_stride + (s)->c + c; \
                const int part = part_of((s)->width - c);                                          \
                DO                                                                                 \
            }

static void strip_take(const strip *s)
{
    EACH_SUM(s, v_store(waits, v_load_part(out, part));)
}

static void strip_give(const strip *s, const real *bias)
{
    EACH_SUM(s, {
        const vec y = v_load(waits);
        v_store_part(out, bias ? v_add(y, v_load_part(bias + s->c + c, part)) : y, part);
    })
}
#undef EACH_SUM

#endif

/* n groups of one or two tiles of rows times one or two panels. */
static inline __attribute__((always_inline)) void A(multiply)(bool rows2, bool cols2, real *sums,
                                                              const uint16_t *a, const uint16_t *b0,
                                                              const uint16_t *b1, int64_t n,
                                                              bool begin)
{
    real *low = sums + STRIP / TILE_ROWS * TILE_SUMS;
    if (begin) {
        T(zero)(0);
        T(zero)(1);
        T(zero)(2);
        T(zero)(3);
    } else {
        T(load)(0, sums, TILE_BYTES);
        if (cols2)
            T(load)(1, sums + TILE_SUMS, TILE_BYTES);
        if (rows2)
            T(load)(2, low, TILE_BYTES);
        if (rows2 && cols2)
            T(load)(3, low + TILE_SUMS, TILE_BYTES);
    }
    for (int64_t g = 0; g < n; g++, a += 2 * TILE_HALVES, b0 += TILE_HALVES, b1 += TILE_HALVES) {
        T(load)(4, a, TILE_BYTES);
        T(load)(6, b0, TILE_BYTES);
        T(multiply)(0, 4, 6);
        if (cols2) {
            T(load)(7, b1, TILE_BYTES);
            T(multiply)(1, 4, 7);
        }
        if (rows2) {
            T(load)(5, a + TILE_HALVES, TILE_BYTES);
            T(multiply)(2, 5, 6);
        }
        if (rows2 && cols2)
            T(multiply)(3, 5, 7);
    }
    T(store)(0, sums, TILE_BYTES);
    if (cols2)
        T(store)(1, sums + TILE_SUMS, TILE_BYTES);
    if (rows2)
        T(store)(2, low, TILE_BYTES);
    if (rows2 && cols2)
        T(store)(3, low + TILE_SUMS, TILE_BYTES);
}

/* Two panels of n groups in `b`, or the last one, times all rows of a strip. */
static void A(panels)(const strip *s, int64_t p, const uint16_t *a, int64_t groups,
                      const uint16_t *b, int64_t n, bool begin)
{
    const uint16_t *b1 = b + DEEP * TILE_HALVES;
    const bool two = (p + 1) * TILE_ROWS < s->width;
    for (int64_t r = 0; r < s->n_row; r += 2, a += 2 * groups * TILE_HALVES) {
        real *to = sums_at(s, r, p);
        if (r + 2 <= s->n_row && two)
            A(multiply)(true, true, to, a, b, b1, n, begin);
        else if (r + 2 <= s->n_row)
            A(multiply)(true, false, to, a, b, b1, n, begin);
        else if (two)
            A(multiply)(false, true, to, a, b, b1, n, begin);
        else
            A(multiply)(false, false, to, a, b, b1, n, begin);
    }
}

static void A(strip)(const strip *s, bool add, const uint16_t *a, int64_t J, const row_set *w,
                     bool w_transposed, uint16_t *room)
{
    const int64_t groups = groups_of(J);
    a += packed_tile(s->r0, groups);
    if (add)
        strip_take(s);
    for (int64_t g = 0; g < groups; g += DEEP) {
        const int64_t n = min64(DEEP, groups - g);
        for (int64_t p = 0; p * TILE_ROWS < s->width; p += 2) {
            for (int64_t o = p * TILE_ROWS, k = 0; k < 2 && o < s->width; k++, o += TILE_ROWS)
                make_pairs(room + k * DEEP * TILE_HALVES, w, w_transposed, J, g, n, s->c + o,
                           min64(TILE_ROWS, s->width - o));
            T(written)();
            A(panels)(s, p, a + 2 * g * TILE_HALVES, groups, room, n, g == 0 && !add);
        }
    }
    strip_give(s, w->bias);
}

static OWN_FRAME void A(strips)(real *y, int64_t y_stride, bool add, const uint16_t *a, int64_t N,
                                int64_t J, const row_set *w, bool w_transposed, int64_t block0,
                                int64_t block1, int64_t c0, int64_t c1)
{
    real *sums = side_take((size_t)HIGH * STRIP * TILE_ROWS * sizeof *sums);
    uint16_t *room = side_take((size_t)2 * DEEP * TILE_HALVES * sizeof *room);
    T(begin)();
    const int64_t end = min64(2 * block1, row_blocks(N, TILE_ROWS));
    for (int64_t r = 2 * block0; r < end; r += HIGH)
        for (int64_t c = c0; c < c1; c += STRIP) {
            const strip s = { .y = y,
                              .y_stride = y_stride,
                              .N = N,
                              .r0 = r,
                              .n_row = min64(HIGH, end - r),
                              .c = c,
                              .width = min64(STRIP, c1 - c),
                              .sums = sums };
            A(strip)(&s, add, a, J, w, w_transposed, room);
        }
    T(end)();
    side_give(sums);
}

/* Few rows are multiplied by vectors, with the same bits: a tile would read weights no faster. */
static void A(pack_bf16)(void *to, const real *a, int64_t i_step, int64_t j_step, int64_t N,
                         int64_t J, int64_t block0, int64_t block1)
{
    if (N <= FEW_ROWS)
        vec_pack_bf16(to, a, i_step, j_step, N, J, 0, row_blocks(N, ROWS));
    else
        pack_tiles(to, a, i_step, j_step, N, J, block0, block1);
}

static void A(product_bf16)(real *y, int64_t y_stride, bool add, const void *a, int64_t N,
                            int64_t J, const row_set *w, bool w_transposed, int64_t block0,
                            int64_t block1, int64_t c0, int64_t c1)
{
    const unsigned was = flush_begin();
    if (N <= FEW_ROWS)
        pair_products(y, y_stride, add, a, N, J, w, w_transposed, 0, row_blocks(N, ROWS), c0, c1);
    else
        A(strips)(y, y_stride, add, a, N, J, w, w_transposed, block0, block1, c0, c1);
    flush_end(was);
}
