/* 16-bit floats, over all codes. test_quants.c has the block formats. */
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
 * chosen. Beyond the largest finite code the next one counts as if the exponent continued. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("f16: all 65536 codes decode by definition and encode back", f16_all_codes),
        TEST("bf16: all 65536 codes decode by definition and encode back", bf16_all_codes),
        TEST("f16, bf16: encoding rounds to nearest, ties to even", halves_round_to_nearest),
    };
    return RUN(tests);
}
