/* half.h - 16-bit floats by bit operations, for CPUs without an instruction for them.
 *
 *     f16    s eeeee mmmmmmmmmm          bf16   s eeeeeeee mmmmmmm  (the upper half of an f32)
 *
 * Encoding rounds to nearest, ties to even, as IEEE 754 and every peer do; a NaN stays a NaN. */
#ifndef WEFT_KERNELS_HALF_H
#define WEFT_KERNELS_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t float_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float bits_float(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static inline float bf16_decode(uint16_t h)
{
    return bits_float((uint32_t)h << 16);
}

static inline uint16_t bf16_encode(float x)
{
    const uint32_t u = float_bits(x);
    if ((u & 0x7FFFFFFFu) > 0x7F800000u)
        return (uint16_t)(u >> 16 | 0x40); /* quiet NaN */
    return (uint16_t)((u + 0x7FFFu + (u >> 16 & 1)) >> 16);
}

static inline float f16_decode(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16, exp = h >> 10 & 31, man = h & 0x3FF;
    if (exp == 31)
        return bits_float(sign | 0x7F800000u | man << 13);
    if (exp == 0) /* subnormal: man * 2^-24 is exact in float */
        return bits_float(sign | float_bits((float)man * 0x1p-24f));
    return bits_float(sign | (exp + 112) << 23 | man << 13);
}

static inline uint16_t f16_encode(float x)
{
    const uint32_t u = float_bits(x), sign = u >> 16 & 0x8000, mag = u & 0x7FFFFFFFu;
    if (mag > 0x7F800000u)
        return (uint16_t)(sign | 0x7E00);
    if (mag >= 0x477FF000u) /* 65520 and above round to infinity */
        return (uint16_t)(sign | 0x7C00);
    if (mag < 0x38800000u) { /* below 2^-14: adding 0.5 lines the ulp up with 2^-24 and rounds */
        const float shifted = bits_float(mag) + 0.5f;
        return (uint16_t)(sign | (float_bits(shifted) - 0x3F000000u));
    }
    return (uint16_t)(sign | ((mag - 0x38000000u + 0xFFFu + (mag >> 13 & 1)) >> 13));
}

#endif
