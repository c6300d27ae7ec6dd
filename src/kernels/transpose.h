/* transpose.h - packs rows of x, and rows of weights into panels, by transposing them. Written over
 * the vectors of avx2.h, avx512.h or neon.h. */
#ifndef WEFT_KERNELS_TRANSPOSE_H
#define WEFT_KERNELS_TRANSPOSE_H

/* Every height of a block of rows. */
#define EACH_HEIGHT(DO, arg) DO(1, arg) DO(2, arg) DO(3, arg) DO(4, arg) DO(5, arg) DO(6, arg)

/* How many of n numbers a vector holds: 0 to WIDTH. */
static inline int part_of(int64_t n)
{
    return n < 0 ? 0 : n < WIDTH ? (int)n : WIDTH;
}

/* Transposes R rows of n numbers: WIDTH rows of WIDTH columns at a time in registers. */
static void pack_transposed(real *to, const real *from, int64_t step, int64_t n, int64_t R)
{
    const int64_t first = R == ROWS ? pack_full(to, from, step, n) : 0;
    for (int64_t i0 = 0; i0 < R; i0 += WIDTH) {
        const int rows = (int)min64(WIDTH, R - i0);
        for (int64_t j = first; j < n; j += WIDTH) {
            const int part = (int)min64(WIDTH, n - j);
            vec block[WIDTH];
            for (int i = 0; i < WIDTH; i++)
                block[i] = i < rows ? v_load_part(from + (i0 + i) * step + j, part) : v_zero();
            v_transpose(block);
            for (int i = 0; i < part; i++)
                v_store_part(to + (j + i) * R + i0, block[i], rows);
        }
    }
}

/* Transposes n >= 4 words of WIDTH rows, starting at byte `at`. The last group of four may overlap
 * the one before. */
static inline void transpose_words(uint8_t *to, const uint8_t *const row[], size_t at, int64_t n)
{
    for (int64_t j = 0; j < n; j += 4) {
        const int64_t k = min64(j, n - 4);
        vec t[4];
        for (int i = 0; i < 4; i++)
            t[i] = v_rows16(row, i, at + (size_t)k * 4);
        v_transpose4(t);
        for (int i = (int)(j - k); i < 4; i++)
            v_store((real *)(void *)(to + (k + i) * PANEL_ROWS * 4), t[i]);
    }
}

/* Fifth bits of 32 columns in 16 words: bit 4 j + c becomes bit j of byte c. Gathers every fourth
 * bit: bits 4 apart become neighbours, then those 8 and 16 apart. */
static void transpose_bits(uint8_t *word)
{
    typedef uint32_t bits __attribute__((vector_size(sizeof(vec))));
    for (int i = 0; i < PANEL_ROWS; i += WIDTH) {
        real *at = (real *)(void *)(word + 4 * i);
        const bits from = (bits)v_load(at);
        bits to = { 0 };
        for (int c = 0; c < 4; c++) {
            bits b = from >> c & 0x11111111;
            b = (b | b >> 3) & 0x03030303;
            b = (b | b >> 6) & 0x000F000F;
            b = (b | b >> 12) & 0x000000FF;
            to |= b << 8 * c;
        }
        v_store(at, (vec)to);
    }
}

static void vec_pack_panel(void *panel, const row_set *w, int64_t o, int64_t rows, int64_t b0,
                           int64_t n)
{
    const size_t odd = (size_t)w->block_bytes % 4; /* bytes beyond words */
    const bool apart = odd || w->fifth >= 0;       /* block by block */
    const int64_t runs = apart ? n : 1, words = (apart ? 1 : n) * (w->block_bytes / 4);
    const uint8_t *row[PANEL_ROWS];
    uint8_t *to = panel;
    for (int i = 0; i < PANEL_ROWS; i++)
        row[i] = (const uint8_t *)w->data + (size_t)(o + min64(i, rows - 1)) * w->row_bytes +
                 (size_t)b0 * (size_t)w->block_bytes;
    for (int64_t r = 0; r < runs; r++) {
        const size_t at = (size_t)r * (size_t)w->block_bytes;
        for (int i = 0; odd && i < PANEL_ROWS; i++)
            memcpy(to + odd * (size_t)i, row[i] + at + w->odd, odd);
        to += odd * PANEL_ROWS;
        for (int i = 0; i < PANEL_ROWS; i += WIDTH)
            transpose_words(to + 4 * i, row + i, at + (w->odd == 0 ? odd : 0), words);
        if (w->fifth >= 0)
            transpose_bits(to + w->fifth * PANEL_ROWS * 4);
        to += words * PANEL_ROWS * 4;
    }
}

#endif
