/* iq4_xs.c - 256 numbers as the codes of IQ4_NL, eight groups of 32 with a 6-bit scale each: x = d
 * (s - 32) v[q].
 *
 *      0    2         4         8                         136
 *     +----+---------+---------+--------------------------+
 *     | d  | bits    | bits    | q[0] | q[16] << 4   ...  |    d: f16
 *     |    | 4, 5 s  | 0-3 s   | 32 numbers in 16 bytes   |
 *     +----+---------+---------+--------------------------+
 *
 * The upper bits of the eight scales are a 16-bit number, the first in its lowest bits; byte 4 + i
 * holds the lower bits of the scales 2 i and, above them, 2 i + 1. 136 bytes a block, 4.25 bits a
 * number.
 *
 * First d is the largest cover of a group / 31, rounded up, and each group takes the multiple that
 * covers it. Then all multiples near its best scale are tried, of both signs, and d is fitted to
 * the codes once. The root mean square error of a group is at most 14 / 127 A 1.034 + 2^-20, with A
 * the largest magnitude of the block. A block with a NaN or an infinity becomes all NaN. */
#include "tensor/fit_iq4.h"

#define BYTES 136
#define STEPS 31

static void iq4_xs_quants(block_i8 *to, const void *row, int64_t b)
{
    const uint8_t *block = (const uint8_t *)row + b / GROUPS * BYTES;
    const int g = (int)(b % GROUPS);
    const int low = block[4 + g / 2] >> g % 2 * 4 & 15, high = block[2 + g / 4] >> g % 4 * 2 & 3;
    uint8_t q[GROUP];
    take_nibbles(q, block + 8 + g * (GROUP / 2));
    for (int k = 0; k < GROUP; k++)
        to->q[k] = iq4_values[q[k]];
    to->scale[0] = f16_at(block) * (real)((low | high << 4) - 32);
}

/* x, clamped. */
static int within(float x, int low, int high)
{
    return x >= (float)high ? high : x > (float)low ? (int)x : low;
}

/* The multiple of d nearest to the group, among those that cover it and those near `best`. */
static int search_multiple(const iq4_group *g, float d, float best)
{
    const float cover = iq4_cover(g) / d;
    int found = within(cover < 0 ? floorf(cover) : ceilf(cover), -STEPS - 1, STEPS);
    float least = iq4_round(NULL, g, d * (float)found);
    for (int sign = -1; sign <= 1; sign += 2) {
        const int like = within(floorf((float)sign * best / d), -STEPS - 1, STEPS);
        for (int s = like - 2 > -STEPS - 1 ? like - 2 : -STEPS - 1; s <= like + 3 && s <= STEPS;
             s++) {
            const float error = iq4_round(NULL, g, d * (float)s);
            if (error < least) {
                least = error;
                found = s;
            }
        }
    }
    return found;
}

/* The best d for the codes that d and s give. */
static float refit_d(const iq4_group *g, const int *s, float d)
{
    double xv = 0, vv = 0;
    for (int i = 0; i < GROUPS; i++) {
        uint8_t q[GROUP];
        iq4_round(q, &g[i], d * (float)s[i]);
        for (int k = 0; k < GROUP; k++) {
            const double v = (double)s[i] * iq4_values[q[k]], w = (double)g[i].w[k];
            xv += w * v * (double)g[i].x[k];
            vv += w * v * v;
        }
    }
    return vv > 0 ? f16_decode(f16_encode((float)(xv / vv))) : d;
}

static float block_error(const iq4_group *g, const int *s, float d)
{
    float sum = 0;
    for (int i = 0; i < GROUPS; i++)
        sum += iq4_round(NULL, &g[i], d * (float)s[i]);
    return sum;
}

static void put_codes(uint8_t *block, const iq4_group *g, const int *s, float d)
{
    memset(block, 0, 8);
    put_f16(block, d);
    for (int i = 0; i < GROUPS; i++) {
        uint8_t q[GROUP];
        const unsigned six = (unsigned)(s[i] + 32);
        block[2 + i / 4] |= (uint8_t)((six >> 4) << i % 4 * 2);
        block[4 + i / 2] |= (uint8_t)((six & 15) << i % 2 * 4);
        iq4_round(q, &g[i], d * (float)s[i]);
        put_nibbles(block + 8 + i * (GROUP / 2), q);
    }
}

static void iq4_xs_put_block(uint8_t *block, const real *x, const float *importance)
{
    iq4_group g[GROUPS];
    float best[GROUPS], most = 0, poison = 0;
    int s[GROUPS] = { 0 };
    for (int i = 0; i < GROUPS; i++) {
        iq4_take(&g[i], x + i * GROUP, importance ? importance + i * GROUP : NULL);
        poison += g[i].size * 0;
        best[i] = g[i].size > 0 && isfinite(g[i].size) ? iq4_scale(&g[i]) : 0;
        most = g[i].size > most ? g[i].size : most;
    }
    const uint16_t h = f16_encode(most / (IQ4_FIRST * STEPS));
    float d = f16_decode(h);
    d = f16_decode(d * (IQ4_FIRST * STEPS) < most ? (uint16_t)(h + 1) : h);
    if (!isfinite(d + poison) || d == 0) {
        put_codes(block, g, s, d == 0 ? 0 : NAN);
        return;
    }
    for (int i = 0; i < GROUPS; i++)
        s[i] = search_multiple(&g[i], d, best[i]);
    const float finer = refit_d(g, s, d);
    put_codes(block, g, s, block_error(g, s, finer) < block_error(g, s, d) ? finer : d);
}

DECODES(iq4_xs, I8_BYTES)
FITS(iq4_xs, LONG)

const dtype dtype_iq4_xs = { .name = "iq4_xs",
                             .gguf = 23,
                             .block = LONG,
                             .bytes = BYTES,
                             .kind = TILE_IQ4_XS,
                             .decode = iq4_xs_decode,
                             .tile = iq4_xs_decode,
                             .encode = iq4_xs_encode,
                             .quants = iq4_xs_quants,
                             .form = I8_BYTES,
                             .fit = iq4_xs_fit };
