/* Stored numbers: 16-bit floats over all codes, blocks of 8-bit integers within their proven
 * bound. */
#include "support.h"

#include "base/rng.h"
#include "kernels/half.h"
#include "models/arch.h"

/* ---- 16-bit floats --------------------------------------------------------------------------- */

/* sign * 2^e * (1 + m/1024), written out from the definition. */
static double f16_by_definition(uint16_t h)
{
    const double sign = h & 0x8000 ? -1 : 1, man = h & 0x3FF;
    const int e = h >> 10 & 31;
    return e == 31 ? (man > 0 ? NAN : sign * INFINITY)
           : e     ? sign * ldexp(1 + man / 1024, e - 15)
                   : sign * ldexp(man, -24);
}

static void f16_all_codes(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        const float x = f16_decode((uint16_t)h);
        const double want = f16_by_definition((uint16_t)h);
        if (isnan(want)) {
            assert_true(isnan(x) && isnan(f16_decode(f16_encode(x))));
            continue;
        }
        assert_true((double)x == want && !signbit(x) == !signbit(want));
        assert_int_equal(f16_encode(x), h);
    }
}

static void bf16_all_codes(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        const float x = bf16_decode((uint16_t)h);
        assert_int_equal(float_bits(x), h << 16);
        if (isnan(x))
            assert_true(isnan(bf16_decode(bf16_encode(x))));
        else
            assert_int_equal(bf16_encode(x), h);
    }
}

/* Nearest, ties to even: no neighbouring code is nearer, and at equal distance the even one was
 * taken. Beyond the largest finite code the next one counts as if the exponent went on. */
static void check_nearest(float x, uint16_t code, float (*decode)(uint16_t), uint16_t infinity)
{
    const uint16_t mag = code & 0x7FFF;
    const double v = fabs((double)x);
#define AT(c)                                                                                      \
    ((c) == infinity                                                                               \
         ? 2 * (double)decode((uint16_t)(infinity - 1)) - (double)decode((uint16_t)(infinity - 2)) \
         : (double)decode((uint16_t)(c)))
    const double here = fabs(AT(mag) - v);
    const double below = mag > 0 ? fabs(AT(mag - 1) - v) : INFINITY;
    const double above = mag < infinity ? fabs(AT(mag + 1) - v) : INFINITY;
#undef AT
    if (mag == infinity && v > (double)decode((uint16_t)(infinity - 1)) * 2)
        return;
    assert_true(here <= below && here <= above);
    if (here == below || here == above)
        assert_int_equal(mag & 1, 0);
    assert_int_equal(code >> 15, signbit(x) != 0);
}

static void halves_round_to_nearest(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 2000000; i++) {
        const rng_block r = rng_draw(21, 0, i);
        const uint32_t bits = i & 1 ? r.word[0]
                                    : (r.word[0] & 0xFFFFE000u) | 0x1000u * (r.word[1] & 1);
        const float x = bits_float(bits);
        if (isnan(x) || isinf(x))
            continue;
        check_nearest(x, f16_encode(x), f16_decode, 0x7C00);
        check_nearest(x, bf16_encode(x), bf16_decode, 0x7F80);
    }
}

/* ---- q8_0, q4_0 ------------------------------------------------------------------------------ */

static const dtype *const blocks[] = { &dtype_q8_0, &dtype_q4_0 };

static void check_block(const dtype *type, const float *x)
{
    uint8_t block[34];
    float back[32], max = 0;
    type->encode(block, x, 32);
    type->decode(back, block, 0, 32);
    for (int k = 0; k < 32; k++)
        max = fmaxf(max, fabsf(x[k]));
    /* the scale is a 16-bit float: its smallest step, 2^-24, times 127 or 8 is the floor below which
     * nothing is promised */
    const double bound = type == &dtype_q8_0
                             ? (double)max / 254 + (double)max * 0x1p-11 + 127 * 0x1p-25
                             : (double)max / 8 + (double)max * 0x1p-11 + 8 * 0x1p-25;
    for (int k = 0; k < 32; k++)
        if (!(fabs((double)x[k] - (double)back[k]) <= bound))
            fail_msg("%g became %g, bound %g", (double)x[k], (double)back[k], bound);
}

static void block_bound(void **state)
{
    (void)state;
    const int n = quick() ? 20000 : 500000;
    for (int i = 0; i < n; i++) {
        float x[32];
        const float scale = exp2f((float)(rng_draw(22, 1, (uint64_t)i).word[0] % 40) - 25);
        for (int k = 0; k < 32; k++)
            x[k] = scale *
                   (i % 3 ? (float)rng_normal(22, (uint64_t)i, (uint64_t)k)
                          : (float)((int)(rng_draw(22, (uint64_t)i, (uint64_t)k).word[0] % 255) -
                                    127) /
                                127);
        check_block(blocks[i % 2], x);
    }
    for (int t = 0; t < 2; t++) {
        const float most = t == 0 ? 65504.0f * 127 : 65504.0f * 8; /* the largest scale there is */
        float zeros[32] = { 0 }, edge[32];
        check_block(blocks[t], zeros);
        for (int k = 0; k < 32; k++)
            edge[k] = k % 2 ? most : -most;
        check_block(blocks[t], edge);
    }
}

/* What is no number must not look like one afterwards, and what is too small becomes zero. */
static void blocks_of_strange_numbers(void **state)
{
    (void)state;
    const float strange[] = { NAN, INFINITY, -INFINITY };
    float x[32], back[32];
    uint8_t block[34];
    for (int i = 0; i < 6; i++) {
        fill_normal(x, 32, 24, 0, 1);
        x[7] = strange[i % 3];
        blocks[i / 3]->encode(block, x, 32);
        blocks[i / 3]->decode(back, block, 0, 32);
        assert_true(isnan(back[7]));
    }
    for (int k = 0; k < 32; k++)
        x[k] = k % 2 ? 1e-40f : -1e-38f;
    for (int t = 0; t < 2; t++) {
        blocks[t]->encode(block, x, 32);
        blocks[t]->decode(back, block, 0, 32);
        for (int k = 0; k < 32; k++)
            assert_true(back[k] == 0);
    }
}

/* Any piece of a row decodes to what the whole row gives: attention reads heads out of the middle
 * of blocks. */
static void pieces_equal_the_whole(void **state)
{
    (void)state;
    enum { N = 320 };
    const dtype *const types[] = { &dtype_f32, &dtype_f16, &dtype_bf16, &dtype_q8_0, &dtype_q4_0 };
    for (int t = 0; t < 5; t++) {
        float x[N], whole[N], piece[N];
        uint8_t stored_row[N * 4];
        fill_normal(x, N, 23, 0, 1);
        types[t]->encode(stored_row, x, N);
        types[t]->decode(whole, stored_row, 0, N);
        for (int64_t k0 = 0; k0 < N; k0 += 7)
            for (int64_t n = 1; k0 + n <= N; n += 13) {
                types[t]->decode(piece, stored_row, k0, n);
                assert_memory_equal(piece, whole + k0, (size_t)n * sizeof *piece);
            }
    }
}

static void hidden_widths(void **state)
{
    (void)state;
    assert_int_equal(llama_hidden_width(4096, 1, 256), 11008);
    assert_int_equal(llama_hidden_width(4096, 1.3, 1024), 14336);
    assert_int_equal(llama_hidden_width(2048, 1.5, 256), 8192);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("f16: all 65536 codes decode by definition and encode back", f16_all_codes),
        TEST("bf16: all 65536 codes decode by definition and encode back", bf16_all_codes),
        TEST("f16, bf16: encoding rounds to nearest, ties to even", halves_round_to_nearest),
        TEST("q8_0, q4_0: no number moves further than its bound", block_bound),
        TEST("q8_0, q4_0: NaN and infinity become NaN, the smallest numbers zero",
             blocks_of_strange_numbers),
        TEST("dtype: a piece of a row equals the same piece of the whole", pieces_equal_the_whole),
        TEST("llama: hidden widths are 11008, 14336 and 8192", hidden_widths),
    };
    return RUN(tests);
}
