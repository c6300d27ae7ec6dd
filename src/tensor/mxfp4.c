/* mxfp4.c - 32 numbers as 4-bit floats with a power of two: x = 2^(e - 128) v[q].
 *
 *      0   1                        17
 *     +---+-------------------------+
 *     | e | q[0] | q[16] << 4   ... |    e: E8M0, the exponent of a float; 0 and 1 are subnormal
 *     +---+-------------------------+    q: E2M1, a sign, two bits of exponent, one of mantissa
 *
 *     v[0] to v[7]    0 1 2 3 4 6 8 12, and with bit 3 of q their negatives
 *
 * 17 bytes a block, 4.25 bits a number: the format of OCP's microscaling specification, with the
 * values of E2M1 doubled and the power halved, so that both are integers.
 *
 * The usual rule takes the power that puts the largest magnitude A between 8 and 16 steps. Above 12
 * it is clipped, so here the powers beside it are tried too, and the one of smallest squared error
 * is taken. With the usual rule no value is more than A / 4 off, so the root mean square of a block is not
 * either. No scale means NaN: a block with a NaN or an infinity becomes all infinite. */
#include "tensor/blocks.h"

#define BYTES 17

#define SAME(n) (n)
static const int8_t mxfp4_values[16] = { MXFP4_VALUES(SAME) };

/* 2^(e - 128); below the normal floats, the bits are shifted. */
static float half_power(unsigned e)
{
    const uint32_t bits = e < 2 ? 0x00200000u << e : (e - 1) << 23;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void mxfp4_quants(block_i8 *to, const void *row, int64_t b)
{
    const uint8_t *block = (const uint8_t *)row + b * BYTES;
    uint8_t q[GROUP];
    take_nibbles(q, block + 1);
    for (int k = 0; k < GROUP; k++)
        to->q[k] = mxfp4_values[q[k]];
    to->scale[0] = half_power(block[0]);
}

/* The code nearest to v, the smaller one of two; zero has no sign. */
static uint8_t code_of(float v)
{
    static const float between[7] = { 0.5f, 1.5f, 2.5f, 3.5f, 5, 7, 10 };
    const float size = fabsf(v);
    int code = 0;
    for (int i = 0; i < 7; i++)
        code += size > between[i];
    return (uint8_t)(code && v < 0 ? code | 8 : code);
}

/* Codes with the power e; returns the squared error, weighted by importance if given. */
static double codes_with(uint8_t *q, const real *x, const float *importance, int e)
{
    const float d = half_power((unsigned)e);
    double sum = 0;
    for (int k = 0; k < GROUP; k++) {
        q[k] = code_of((float)x[k] / d);
        const double off = (double)x[k] - (double)(d * (float)mxfp4_values[q[k]]);
        sum += off * off * (importance ? (double)importance[k] : 1);
    }
    return sum;
}

static void mxfp4_put_block(uint8_t *block, const real *x, const float *importance)
{
    const float most = fabsf(largest(x));
    if (!isfinite(most)) {
        memset(block, 0x77, BYTES);
        block[0] = 0xFF;
        return;
    }
    const int power = most > 0 ? ilogbf(most) + 125 : 0, usual = power > 0 ? power : 0;
    uint8_t q[GROUP];
    double least = codes_with(q, x, importance, usual);
    int best = usual;
    for (int e = usual > 0 ? usual - 1 : 0; e <= usual + 1; e++) {
        const double error = codes_with(q, x, importance, e);
        if (error < least) {
            least = error;
            best = e;
        }
    }
    codes_with(q, x, importance, best);
    block[0] = (uint8_t)best;
    put_nibbles(block + 1, q);
}

DECODES(mxfp4, I8_SCALED)
FITS(mxfp4, GROUP)

const dtype dtype_mxfp4 = { .name = "mxfp4",
                            .gguf = 39,
                            .block = GROUP,
                            .bytes = BYTES,
                            .kind = TILE_MXFP4,
                            .decode = mxfp4_decode,
                            .tile = mxfp4_decode,
                            .encode = mxfp4_encode,
                            .quants = mxfp4_quants,
                            .form = I8_SCALED,
                            .fit = mxfp4_fit };
