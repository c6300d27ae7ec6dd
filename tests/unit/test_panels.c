/* Weights in panels: their layout by definition; and products read the same bits from panels as
 * from stored rows, in every table, for any number of rows. */
#include "support.h"

#include "base/rng.h"
#include "gguf_build.h"
#include "tensor/dtype.h"

#include <stdlib.h>
#include <string.h>

static const dtype *const types[] = { &dtype_f32,  &dtype_f16,   &dtype_bf16,   &dtype_q8_0,
                                      &dtype_q4_0, &dtype_q4_1,  &dtype_q5_0,   &dtype_q5_1,
                                      &dtype_q2_k, &dtype_q3_k,  &dtype_q4_k,   &dtype_q5_k,
                                      &dtype_q6_k, &dtype_mxfp4, &dtype_iq4_nl, &dtype_iq4_xs };
#define N_TYPE (sizeof types / sizeof *types)

static real *numbers(int64_t n, uint64_t stream)
{
    real *x = malloc((size_t)n * sizeof *x);
    fill_normal(x, n, 61, stream, 1);
    return x;
}

/* O rows of K values, and their panels from a table, between guard bytes. */
typedef struct matrix {
    const dtype *type;
    int64_t O, K;
    size_t row_bytes, panel_bytes; /* of one row; of all panels */
    uint8_t *rows, *panels;
} matrix;

#define GUARD 64

static void matrix_init(matrix *m, const dtype *type, int64_t O, int64_t K)
{
    *m = (matrix){ type, O, K, dtype_row_bytes(type, K), 0, NULL, NULL };
    m->panel_bytes = (size_t)row_blocks(O, PANEL_ROWS) * PANEL_ROWS * m->row_bytes;
    m->rows = malloc((size_t)O * m->row_bytes);
    m->panels = aligned_alloc(64, (m->panel_bytes + 2 * GUARD + 63) / 64 * 64);
    for (int64_t o = 0; o < O; o++) {
        uint8_t *row = m->rows + (size_t)o * m->row_bytes;
        real *x = numbers(K, 100 + (uint64_t)o);
        type->encode(row, x, K);
        free(x);
    }
}

static void matrix_free(matrix *m)
{
    free(m->rows), free(m->panels);
}

/* A few blocks at a time, as for products without panels. */
static row_set pack(const matrix *m, const kernels *t, int64_t blocks)
{
    row_set w = dtype_rows(m->type, t, m->rows, m->K);
    const int64_t n = m->K / w.block;
    memset(m->panels, 0xA5, m->panel_bytes + 2 * GUARD);
    for (int64_t o = 0; o < m->O; o += PANEL_ROWS)
        for (int64_t b = 0; b < n; b += blocks)
            t->pack_panel(m->panels + GUARD + (size_t)o * m->row_bytes +
                              (size_t)b * (size_t)w.block_bytes * PANEL_ROWS,
                          &w, o, min64(PANEL_ROWS, m->O - o), b, min64(blocks, n - b));
    w.panels = m->panels + GUARD;
    return w;
}

/* Bit j of byte c was bit 4 j + c. */
static void unturn(uint8_t word[4])
{
    uint8_t was[4] = { 0 };
    for (int c = 0; c < 4; c++)
        for (int j = 0; j < 8; j++)
            was[(4 * j + c) / 8] |= (uint8_t)((word[c] >> j & 1) << (4 * j + c) % 8);
    memcpy(word, was, 4);
}

/* Reconstructs stored row o byte by byte, by the definition in kernels.h. */
static void unpack(uint8_t *row, const row_set *w, const matrix *m, int64_t o)
{
    const uint8_t *panel = (const uint8_t *)w->panels +
                           (size_t)(o / PANEL_ROWS * PANEL_ROWS) * m->row_bytes;
    const int block = w->block_bytes, words = block / 4, lane = (int)(o % PANEL_ROWS);
    const int odd = block % 4;
    for (int64_t b = 0; b < m->K / w->block; b++, row += block, panel += block * PANEL_ROWS) {
        const uint8_t *at = panel + odd * PANEL_ROWS;
        uint8_t *to = row + (w->odd == 0 ? odd : 0);
        if (odd)
            memcpy(row + w->odd, panel + odd * lane, (size_t)odd);
        for (int i = 0; i < words; i++)
            memcpy(to + 4 * i, at + (i * PANEL_ROWS + lane) * 4, 4);
        if (w->fifth >= 0)
            unturn(to + 4 * w->fifth);
    }
}

/* The number of blocks divides nothing, so part of a block's words is transposed alone. */
static void packing_has_an_inverse(void **state)
{
    (void)state;
    if (!table_i8(0)->pack_panel)
        skip(); /* no table but the scalar one */
    const int64_t heights[] = { 1, 5, 16, 17, 40 };
    for (int t = 0; table_i8(t); t++)
        for (size_t d = 0; table_i8(t)->pack_panel && d < N_TYPE; d++)
            for (size_t h = 0; h < 5; h++)
                for (int part = 0; part < 2; part++) {
                    matrix m;
                    matrix_init(&m, types[d], heights[h], types[d]->block > 1 ? 768 : 74);
                    const row_set w = pack(&m, table_i8(t),
                                           !part                 ? 768
                                           : types[d]->block > 1 ? 1
                                                                 : 8);
                    uint8_t *row = malloc(m.row_bytes), guard[GUARD];
                    for (int64_t o = 0; o < m.O; o++) {
                        unpack(row, &w, &m, o);
                        assert_memory_equal(row, m.rows + (size_t)o * m.row_bytes, m.row_bytes);
                    }
                    memset(guard, 0xA5, GUARD);
                    assert_memory_equal(m.panels, guard, GUARD);
                    assert_memory_equal(m.panels + GUARD + m.panel_bytes, guard, GUARD);
                    free(row);
                    matrix_free(&m);
                }
}

/* N rows times outputs [o0, o1) of w. */
static void multiply(const kernels *t, const row_set *w, const real *x, int64_t N, const matrix *m,
                     int64_t o0, int64_t o1, real *y)
{
    void *packed = aligned_alloc(64, ((size_t)(N * m->K) * sizeof(real) + 4096) / 64 * 64);
    if (m->type->quants) {
        t->pack_i8(packed, x, m->K, N, m->K, 0, row_blocks(N, t->rows_i8));
        t->product_i8(y, m->O, packed, N, m->K, w, o0, o1);
    } else {
        const int64_t blocks = row_blocks(N, t->rows);
        t->pack(packed, x, m->K, 1, N, m->K, 0, blocks);
        t->product(y, m->O, false, packed, N, m->K, w, true, 0, blocks, o0, o1);
    }
    free(packed);
}

/* A table with panels and without, all at once and in two parts: class i8 gives scalar's bits,
 * class f32 those of stored rows. */
static void check(const kernels *t, const matrix *m, const real *x, const real *bias, int64_t N)
{
    const size_t n = (size_t)(N * m->O);
    real *want = malloc(n * sizeof *want), *y = malloc(n * sizeof *y);
    row_set rows = dtype_rows(m->type, t, m->rows, m->K), w = pack(m, t, 768);
    rows.bias = w.bias = bias;
    const kernels *by = m->type->quants ? &kernels_scalar : t;
    multiply(by, &rows, x, N, m, 0, m->O, want);
    memset(y, 0xFF, n * sizeof *y);
    multiply(t, &w, x, N, m, 0, m->O, y);
    assert_memory_equal(y, want, n * sizeof *y);
    memset(y, 0xFF, n * sizeof *y);
    multiply(t, &rows, x, N, m, 0, m->O, y);
    assert_memory_equal(y, want, n * sizeof *y);
    memset(y, 0xFF, n * sizeof *y);
    multiply(t, &w, x, N, m, 0, min64(48, m->O), y);
    multiply(t, &w, x, N, m, min64(48, m->O), m->O, y);
    assert_memory_equal(y, want, n * sizeof *y);
    free(want), free(y);
}

static void products_from_panels(void **state)
{
    (void)state;
    if (!table_i8(0)->pack_panel)
        skip(); /* no table but the scalar one */
    const int64_t heights[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 50, 600 };
    const int64_t widths[] = { 31, 64, 118, 45 }; /* with remainders of panels of all sizes */
    real *x = numbers(600 * 1280, 7), *bias = numbers(118, 8);
    for (int t = 0; table_i8(t); t++)
        for (size_t d = 0; table_i8(t)->pack_panel && d < N_TYPE; d++)
            for (int o = 0; o < (quick() ? 2 : 4); o++) {
                matrix m;
                matrix_init(&m, types[d], widths[o], 1280);
                for (int h = 0; h < (o == 1 && !quick() ? 15 : 13); h++)
                    check(table_i8(t), &m, x, h % 2 ? bias : NULL, heights[h]);
                matrix_free(&m);
            }
    free(x), free(bias);
}

int main(void)
{
    static _Alignas(SIDE_ALIGN) char memory[SIDE_BYTES];
    side_begin(memory);
    const struct CMUnitTest tests[] = {
        TEST("panels: every byte of every format is where the definition puts it",
             packing_has_an_inverse),
        TEST("panels: products have the same bits with panels and without, in every table",
             products_from_panels),
    };
    return RUN(tests);
}
