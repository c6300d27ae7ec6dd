/* fit.c - a choice that covers every number, for which the bounds of fit.h are proven; then others,
 * each of which is taken only if the squared error of its group is smaller.
 *
 * Covering, x = a q - b with a = d s and b = e m: e is the largest -x / 63, rounded up; m is rounded
 * up, so that -b <= x for all x of the group, and b exceeds what is needed by less than e. Then d is
 * the largest (x + b) / (63 top), rounded up, and s too, so that all x <= a top - b, and a exceeds
 * what is needed by less than d. A number between two codes is half a step from one of them:
 *
 *     |x - (a q - b)| <= a / 2 <= (R + e) / (2 top) + d / 2
 *
 * where e <= M / 63 (1 + 2^-10) + 2^-24 and d <= (R + e) / (63 top) (1 + 2^-10) + 2^-24, which
 * gives the first bound. Without minima, d is the largest |x| / (31 127), rounded up, s is rounded
 * up too, and |x - a q| <= a / 2 <= A / 62 + d / 2, which gives the second.
 *
 * Searching: d and e stay, and a group tries the steps around the one that its range asks for, which
 * are few, as s is a whole number. Where codes begin matters as much as how far apart they are, so
 * with minima each step is tried from five places. What this gains is in docs/NUMERICS.md. */
#include "tensor/fit.h"

/* Four numbers at a time, which compilers map to what the processor has: one order of sums, and so
 * one choice of codes, everywhere. */
#define LANES 4
typedef float vec __attribute__((vector_size(LANES * sizeof(float))));
typedef int32_t mask __attribute__((vector_size(LANES * sizeof(int32_t))));

/* Adding and subtracting it leaves the nearest whole number, ties to even. */
#define ROUNDER 0x1.8p23f

/* Numbers that are to share a, b and a range of codes. */
typedef struct group {
    const float *x;
    int n;
    float low, high; /* low <= 0 <= high */
} group;

/* x where it is above zero, else zero. */
static inline vec positive(vec x)
{
    return (vec)((x > 0) & (mask)x);
}

/* The codes nearest to a group's numbers where x = a q - b, 0 <= q <= top, unless `q` is NULL;
 * returns the squared error. */
static inline __attribute__((always_inline)) float round_group(float *q, const group *g, float a,
                                                               float b, float top)
{
    const float inverse = a != 0 ? 1 / a : 0;
    vec sum = { 0 };
    for (int k = 0; k < g->n; k += LANES) {
        vec x;
        memcpy(&x, g->x + k, sizeof x);
        vec code = positive((x + b) * inverse);
        code = top - positive(top - code);
        code = (code + ROUNDER) - ROUNDER;
        if (q)
            memcpy(q + k, &code, sizeof code);
        const vec off = x - (a * code - b);
        sum += off * off;
    }
    return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}

/* The least 16-bit float that is not below x >= 0. */
static float up_to_f16(float x)
{
    const uint16_t h = f16_encode(x);
    return f16_decode(f16_decode(h) < x ? (uint16_t)(h + 1) : h);
}

/* x cut off, but from low to high. */
static int clamp(float x, int low, int high)
{
    return x >= (float)high ? high : x > (float)low ? (int)x : low;
}

/* x / step, rounded up, from 0 to most. */
static int whole_steps(float x, float step, int most)
{
    return step > 0 ? clamp(ceilf(x / step), 0, most) : 0;
}

/* The numbers as floats, in groups; returns the largest size, NaN if something is no number. */
static float take_groups(float *x, group *g, int n, const real *from)
{
    float size = 0, poison = 0;
    for (int k = 0; k < LONG; k++) {
        group *of = &g[k / n];
        if (k % n == 0)
            *of = (group){ x + k, n, 0, 0 };
        x[k] = (float)from[k];
        of->low = x[k] < of->low ? x[k] : of->low;
        of->high = x[k] > of->high ? x[k] : of->high;
        size = fabsf(x[k]) > size ? fabsf(x[k]) : size;
        poison += x[k] * 0;
    }
    return size + poison;
}

/* Below this, nothing a 16-bit float can scale is nearer than zero. */
#define NOTHING 0x1p-40f

/* ---- with minima ----------------------------------------------------------------------------- */

/* s and m of group i, given d and e. */
static void search_lifted(lifted_fit *f, int i, const group *g, float top)
{
    const float middle = (g->high + g->low) / 2, finer = f->e > 0 ? 1 / f->e : 0;
    const float like = f->d > 0 ? (g->high - g->low) / (f->d * top) : 0;
    const int last = clamp(1.08f * like + 2, 0, 63);
    float best = round_group(NULL, g, f->d * (float)f->s[i], f->e * (float)f->m[i], top);
    for (int s = clamp(0.92f * like - 1, 0, 63); s <= last; s++)
        for (int place = -2, before = -1; place <= 2; place++) {
            const float a = f->d * (float)s, begin = top / 2 + (float)place / 5;
            const int m = clamp((a * begin - middle) * finer + 0.5f, 0, 63);
            if (m == before)
                continue;
            before = m;
            const float error = round_group(NULL, g, a, f->e * (float)m, top);
            if (error < best) {
                best = error;
                f->s[i] = (uint8_t)s;
                f->m[i] = (uint8_t)m;
            }
        }
}

void fit_lifted(lifted_fit *f, const real *from, int top)
{
    float x[LONG], q[GROUP], deepest = 0, widest = 0;
    group g[8];
    const float size = take_groups(x, g, GROUP, from);
    *f = (lifted_fit){ 0 };
    if (size < NOTHING)
        return;
    for (int i = 0; i < 8; i++)
        deepest = -g[i].low > deepest ? -g[i].low : deepest;
    f->e = up_to_f16(deepest / 63);
    for (int i = 0; i < 8; i++) {
        f->m[i] = (uint8_t)whole_steps(-g[i].low, f->e, 63);
        const float above = g[i].high + f->e * (float)f->m[i];
        widest = above > widest ? above : widest;
    }
    f->d = up_to_f16(widest / (63 * (float)top));
    if (!isfinite(size) || !isfinite(f->d) || !isfinite(f->e)) {
        f->d = f->e = NAN;
        return;
    }
    for (int i = 0; i < 8; i++) {
        const float above = g[i].high + f->e * (float)f->m[i];
        f->s[i] = (uint8_t)whole_steps(above / (float)top, f->d, 63);
        search_lifted(f, i, &g[i], (float)top);
        round_group(q, &g[i], f->d * (float)f->s[i], f->e * (float)f->m[i], (float)top);
        for (int k = 0; k < GROUP; k++)
            f->q[i * GROUP + k] = (uint8_t)q[k];
    }
}

/* ---- without --------------------------------------------------------------------------------- */

#define SMALL 16 /* numbers of a group */

/* Codes from -32 to 31 are those from 0 to 63 with a minimum of 32 steps. */
static inline float round_signed(float *q, const group *g, float a)
{
    return round_group(q, g, a, 32 * a, 63);
}

/* s of a group, given d. Of either sign: codes reach further on one side. */
static int search_signed(float d, const group *g)
{
    const float size = -g->low > g->high ? -g->low : g->high, like = size / (32 * d);
    const int last = clamp(1.12f * like + 2, 0, 127);
    int found = whole_steps(size / 31, d, 127);
    float best = round_signed(NULL, g, d * (float)found);
    for (int s = clamp(0.88f * like - 1, 0, 127); s <= last; s++)
        for (int sign = -1; sign <= 1; sign += 2) {
            const float error = round_signed(NULL, g, d * (float)(sign * s));
            if (error < best) {
                best = error;
                found = sign * s;
            }
        }
    return found;
}

void fit_signed(signed_fit *f, const real *from)
{
    float x[LONG], q[SMALL];
    group g[LONG / SMALL];
    const float size = take_groups(x, g, SMALL, from);
    *f = (signed_fit){ 0 };
    if (size < NOTHING)
        return;
    f->d = up_to_f16(size / (31 * 127));
    if (!isfinite(f->d)) {
        f->d = NAN;
        return;
    }
    for (int i = 0; i < LONG / SMALL; i++) {
        const int s = search_signed(f->d, &g[i]);
        f->s[i] = (int8_t)s;
        round_signed(q, &g[i], f->d * (float)s);
        for (int k = 0; k < SMALL; k++)
            f->q[i * SMALL + k] = (int8_t)(q[k] - 32);
    }
}
