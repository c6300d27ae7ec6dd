/* int8_rows.h - rows of x in class i8, over the vectors that int8.h names: bytes from -127 to 127
 * with a scale for every 32, packed as kernels.h describes. */

/* n <= WIDTH blocks of a row: the largest magnitudes of the blocks form one vector, and so do the
 * scales. NaN is handled as in scalar.c. */
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
        _Alignas(64) char room[WIDTH * (BLOCK_I8 + 16)];
        const rows_i8 row = packed_i8(room, 1, n * BLOCK_I8);
        kernels_scalar.pack_i8(room, x, 0, 1, n * BLOCK_I8, 0, 1);
        memcpy(q, row.q, (size_t)(n * BLOCK_I8));
        memcpy(scale, row.scale, (size_t)n * sizeof *scale);
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
static void sum_halves(int32_t half[2 * WIDTH], const int8_t *q)
{
    for (int at = 0; at < 8; at++) {
        _Alignas(64) int32_t four[WIDTH];
        i_store(four, i_dot(i_set(0), i_set(0x01010101), i_load(q + at * 4 * WIDTH)));
        for (int k = 0; k < WIDTH; k += 4)
            half[(at * WIDTH + k) / 4] = four[k] + four[k + 1] + four[k + 2] + four[k + 3];
    }
}

/* Blocks [b0, b0 + n), n <= WIDTH, of the R rows from i0. Four bytes are transposed like one
 * float. */
static void pack_blocks_i8(rows_i8 to, const real *x, int64_t x_stride, int64_t K, int64_t i0,
                           int64_t R, int64_t b0, int64_t n)
{
    _Alignas(64) int8_t q[ROWS_I8][WIDTH * BLOCK_I8];
    const int64_t first = i0 * (K / BLOCK_I8) + b0 * R;
    for (int64_t i = 0; i < R; i++) {
        int32_t half[2 * WIDTH];
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
    pack_transposed((real *)(void *)(to.q + first * BLOCK_I8), (const real *)(const void *)q,
                    WIDTH * BLOCK_I8 / 4, n * BLOCK_I8 / 4, R);
}

void I8_NAME(pack_i8)(void *to, const real *x, int64_t x_stride, int64_t N, int64_t K,
                      int64_t block0, int64_t block1)
{
    const rows_i8 p = packed_i8(to, N, K);
    const row_cut rows_of = cut_rows(N, ROWS_I8);
    for (int64_t rb = block0; rb < block1; rb++) {
        const int64_t i0 = block_row(&rows_of, rb), R = block_row(&rows_of, rb + 1) - i0;
        for (int64_t b = 0; b < K / BLOCK_I8; b += WIDTH)
            pack_blocks_i8(p, x, x_stride, K, i0, R, b, min64(WIDTH, K / BLOCK_I8 - b));
    }
}
