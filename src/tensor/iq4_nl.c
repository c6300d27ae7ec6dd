/* iq4_nl.c - 32 numbers as 4-bit codes of uneven steps with one 16-bit scale: x = d v[q].
 *
 *      0    2                        18
 *     +----+-------------------------+
 *     | d  | q[0] | q[16] << 4   ... |    d: f16
 *     +----+-------------------------+
 *
 *     v    -127 -104 -83 -65 -49 -35 -22 -10 1 13 25 38 53 69 89 113
 *
 * 18 bytes a block, 4.5 bits a number. fit_iq4.c chooses the scale; if one that puts the largest
 * magnitude A on -127 has a smaller error, it is taken. So the root mean square error of a block is
 * at most 14 / 127 A + A 2^-11 + 127 2^-25. A block with a NaN or an infinity becomes all NaN. */
#include "tensor/fit_iq4.h"

#define BYTES 18

static void iq4_nl_quants(block_i8 *to, const void *row, int64_t b)
{
    const uint8_t *block = (const uint8_t *)row + b * BYTES;
    uint8_t q[GROUP];
    take_nibbles(q, block + 2);
    for (int k = 0; k < GROUP; k++)
        to->q[k] = iq4_values[q[k]];
    to->scale[0] = f16_at(block);
}

static void iq4_nl_put_block(uint8_t *block, const real *x, const float *importance)
{
    iq4_group g;
    uint8_t q[GROUP];
    iq4_take(&g, x, importance);
    const float cover = f16_decode(f16_encode(iq4_cover(&g)));
    float d = cover;
    if (isfinite(g.size) && g.size > 0) {
        const float best = f16_decode(f16_encode(iq4_scale(&g)));
        d = iq4_round(NULL, &g, best) < iq4_round(NULL, &g, cover) ? best : cover;
    }
    put_f16(block, isfinite(d) && isfinite(g.size) ? d : NAN);
    iq4_round(q, &g, d);
    put_nibbles(block + 2, q);
}

DECODES(iq4_nl, I8_BYTES)
FITS(iq4_nl, GROUP)

const dtype dtype_iq4_nl = { .name = "iq4_nl",
                             .gguf = 20,
                             .block = GROUP,
                             .bytes = BYTES,
                             .kind = TILE_IQ4_NL,
                             .decode = iq4_nl_decode,
                             .tile = iq4_nl_decode,
                             .encode = iq4_nl_encode,
                             .quants = iq4_nl_quants,
                             .form = I8_BYTES,
                             .fit = iq4_nl_fit };
