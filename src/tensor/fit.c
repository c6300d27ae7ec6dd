/* fit.c - starts with a choice that covers every value, for which the bounds of fit.h are proven.
 * Then tries others, and takes each only if the squared error of its group is smaller.
 *
 * Covering, x = a q - b with a = d s and b = e m: with S steps, e is the largest -x / S, rounded
 * up. m is rounded up too. So -b <= x for all x of the group, and b exceeds the exact value by less
 * than e. Then d is the largest (x + b) / (S top), rounded up, and s too, so that all x <= a top -
 * b, and a exceeds the exact value by less than d. A number between two codes is half a step from
 * one of them:
 *
 *     |x - (a q - b)| <= a / 2 <= (R + e) / (2 top) + d / 2
 *
 * where e <= M / S (1 + 2^-10) + 2^-24 and d <= (R + e) / (S top) (1 + 2^-10) + 2^-24, which gives
 * the first bound. Without minima, d is the largest |x| / (S top), rounded up, s is rounded up too,
 * and |x - a q| <= a / 2 <= A / (2 top) + d / 2, which gives the second.
 *
 * Searching: d and e stay fixed, and a group tries the steps near the one that covers its range;
 * these are few, as s is an integer. The offset of the codes matters as much as their spacing, so
 * with minima each step is tried at five offsets. docs/NUMERICS.md has the gains.
 *
 * With few codes (Q2_K, Q3_K) the error is so large that its distribution matters. Codes of least
 * squared error clip the largest values of a group, and the best codes y for x are all a little
 * small: sum x y = sum y y < sum x x. The deficit is 2 % with three bits and 7 % with two, so
 * products shrink layer after layer. Two measures bring the logits closer to the original model's,
 * at the cost of some squared error (docs/NUMERICS.md has both):
 *
 *     weights      the error of a number counts 1 + |x| / rms; over a block that is 2 at most, on
 *                  average, and 1 at least, so the squared error is at most twice that of covering
 *     stretching   d and e grow until sum x y = sum x x; where this would take more than a quarter
 *                  of the squared error, they stay
 *
 * If the caller gives an importance of each value, it multiplies the weights and the sums of
 * stretching. The bounds hold only without it. */
#include "tensor/fit.h"

/* Four values at a time, which compilers map to the target's vectors: one order of sums, and so one
 * choice of codes, everywhere. */
#define LANES 4
typedef float vec __attribute__((vector_size(LANES * sizeof(float))));
typedef int32_t mask __attribute__((vector_size(LANES * sizeof(int32_t))));

/* Adding and subtracting it rounds to the nearest integer, ties to even. */
#define ROUNDER 0x1.8p23f

#define SMALL 16 /* values in the smallest groups */

/* Values that share a, b and a range of codes. */
typedef struct group {
    const float *x, *w; /* w: weight of each value's error */
    int n;
    float low, high; /* low <= 0 <= high */
} group;

/* max(x, 0). */
static inline vec positive(vec x)
{
    return (vec)((x > 0) & (mask)x);
}

/* The codes nearest to a group's values with x = a q - b, 0 <= q <= top, unless `q` is NULL;
 * returns the weighted squared error. */
static inline __attribute__((always_inline)) float round_group(float *q, const group *g, float a,
                                                               float b, float top)
{
    const float inverse = a != 0 ? 1 / a : 0;
    vec sum = { 0 };
    for (int k = 0; k < g->n; k += LANES) {
        vec x, w;
        memcpy(&x, g->x + k, sizeof x);
        memcpy(&w, g->w + k, sizeof w);
        vec code = positive((x + b) * inverse);
        code = top - positive(top - code);
        code = (code + ROUNDER) - ROUNDER;
        if (q)
            memcpy(q + k, &code, sizeof code);
        const vec off = x - (a * code - b);
        sum += off * off * w;
    }
    return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}

/* The smallest 16-bit float >= x, x >= 0. */
static float up_to_f16(float x)
{
    const uint16_t h = f16_encode(x);
    return f16_decode(f16_decode(h) < x ? (uint16_t)(h + 1) : h);
}

/* x truncated and clamped to [low, high]. */
static int clamp(float x, int low, int high)
{
    return x >= (float)high ? high : x > (float)low ? (int)x : low;
}

/* x / step, rounded up, clamped to [0, most]. */
static int whole_steps(float x, float step, int most)
{
    return step > 0 ? clamp(ceilf(x / step), 0, most) : 0;
}

/* Converts the values to floats, in groups, each with a weight of 1; returns the largest magnitude,
 * or NaN if a value is NaN. */
static float take_groups(float *x, float *w, group *g, int n, const real *from)
{
    float size = 0, poison = 0;
    for (int k = 0; k < LONG; k++) {
        group *of = &g[k / n];
        if (k % n == 0)
            *of = (group){ x + k, w + k, n, 0, 0 };
        x[k] = (float)from[k];
        w[k] = 1;
        of->low = x[k] < of->low ? x[k] : of->low;
        of->high = x[k] > of->high ? x[k] : of->high;
        size = fabsf(x[k]) > size ? fabsf(x[k]) : size;
        poison += x[k] * 0;
    }
    return size + poison;
}

/* Below this, no multiple of a 16-bit float is nearer than zero. */
#define NOTHING 0x1p-40f

static void fit_weights(float *w, const float *x)
{
    double sum = 0;
    for (int k = 0; k < LONG; k++)
        sum += (double)x[k] * (double)x[k];
    const float inverse = (float)(1 / sqrt(sum / LONG));
    for (int k = 0; k < LONG; k++)
        w[k] = 1 + fabsf(x[k]) * inverse;
}

/* What the caller knows of the columns goes into the weights. */
static void weigh(float *w, const float *importance)
{
    for (int k = 0; importance && k < LONG; k++)
        w[k] *= importance[k];
}

/* Values and what they matter; importance is NULL if they matter alike. */
typedef struct target {
    const float *x, *importance;
} target;

static double matters(const target *t, int k)
{
    return t->importance ? (double)t->importance[k] : 1;
}

/* The factor that makes sum x y equal to sum x x. */
static double stretch_of(const target *t, const float *y)
{
    double xx = 0, xy = 0;
    for (int k = 0; k < LONG; k++) {
        const double x = (double)t->x[k];
        xx += matters(t, k) * x * x;
        xy += matters(t, k) * x * (double)y[k];
    }
    return xy > 0 ? xx / xy : 1;
}

static double fit_loss(const target *t, const float *y)
{
    double sum = 0;
    for (int k = 0; k < LONG; k++) {
        const double off = (double)t->x[k] - (double)y[k];
        sum += matters(t, k) * off * off;
    }
    return sum;
}

static float stretched(float d, double by)
{
    return f16_decode(f16_encode((float)((double)d * by)));
}

#define DEAREST 1.25 /* squared error after stretching, relative to that before */

/* ---- with minima ----------------------------------------------------------------------------- */

/* Finds s and m of group i, given d and e. */
static void search_asymmetric(asymmetric_fit *f, int i, const group *g, const fit_shape *shape)
{
    const int steps = shape->steps;
    const float top = (float)shape->top;
    const float middle = (g->high + g->low) / 2, finer = f->e > 0 ? 1 / f->e : 0;
    const float like = f->d > 0 ? (g->high - g->low) / (f->d * top) : 0;
    const int last = clamp(shape->max_step * like + 2, 0, steps);
    float best = round_group(NULL, g, f->d * (float)f->s[i], f->e * (float)f->m[i], top);
    for (int s = clamp(shape->min_step * like - 1, 0, steps); s <= last; s++)
        for (int place = -2, before = -1; place <= 2; place++) {
            const float a = f->d * (float)s, begin = top / 2 + (float)place / 5;
            const int m = clamp((a * begin - middle) * finer + 0.5f, 0, steps);
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

/* Finds d, e and m that cover every value; returns false if d or e would overflow a 16-bit
 * float. */
static bool cover_asymmetric(asymmetric_fit *f, const group *g, int n_group, const fit_shape *shape)
{
    const float steps = (float)shape->steps, top = (float)shape->top;
    float deepest = 0, widest = 0;
    for (int i = 0; i < n_group; i++)
        deepest = -g[i].low > deepest ? -g[i].low : deepest;
    f->e = up_to_f16(deepest / steps);
    for (int i = 0; i < n_group; i++) {
        f->m[i] = (uint8_t)whole_steps(-g[i].low, f->e, shape->steps);
        const float above = g[i].high + f->e * (float)f->m[i];
        widest = above > widest ? above : widest;
    }
    f->d = up_to_f16(widest / (steps * top));
    return isfinite(f->d) && isfinite(f->e);
}

static void read_asymmetric(float *y, const asymmetric_fit *f, int n)
{
    for (int k = 0; k < LONG; k++)
        y[k] = f->d * (float)f->s[k / n] * (float)f->q[k] - f->e * (float)f->m[k / n];
}

static void stretch_asymmetric(asymmetric_fit *f, const target *t, int n)
{
    float y[LONG], z[LONG];
    asymmetric_fit more = *f;
    read_asymmetric(y, f, n);
    more.d = stretched(f->d, stretch_of(t, y));
    more.e = stretched(f->e, stretch_of(t, y));
    read_asymmetric(z, &more, n);
    if (fit_loss(t, z) <= DEAREST * fit_loss(t, y))
        *f = more;
}

void fit_asymmetric(asymmetric_fit *f, const real *from, const float *importance,
                    const fit_shape *shape)
{
    float x[LONG], w[LONG], q[GROUP];
    group g[LONG / SMALL];
    const int n_group = LONG / shape->n;
    const float size = take_groups(x, w, g, shape->n, from), top = (float)shape->top;
    *f = (asymmetric_fit){ 0 };
    if (size < NOTHING)
        return;
    if (!cover_asymmetric(f, g, n_group, shape) || !isfinite(size)) {
        f->d = f->e = NAN;
        return;
    }
    if (shape->few)
        fit_weights(w, x);
    weigh(w, importance);
    for (int i = 0; i < n_group; i++) {
        const float above = g[i].high + f->e * (float)f->m[i];
        f->s[i] = (uint8_t)whole_steps(above / top, f->d, shape->steps);
        search_asymmetric(f, i, &g[i], shape);
        round_group(q, &g[i], f->d * (float)f->s[i], f->e * (float)f->m[i], top);
        for (int k = 0; k < shape->n; k++)
            f->q[i * shape->n + k] = (uint8_t)q[k];
    }
    if (shape->few)
        stretch_asymmetric(f, &(target){ x, importance }, shape->n);
}

/* ---- without --------------------------------------------------------------------------------- */

/* Codes from -(top + 1) to top are those from 0 to 2 top + 1 with a minimum of top + 1 steps. */
static inline float round_signed(float *q, const group *g, float a, int top)
{
    return round_group(q, g, a, (float)(top + 1) * a, (float)(2 * top + 1));
}

/* Finds s of a group, given d, with either sign: codes reach further on one side. */
static int search_signed(float d, const group *g, const fit_shape *shape)
{
    const int top = shape->top, steps = shape->steps;
    const float size = -g->low > g->high ? -g->low : g->high;
    const float like = size / ((float)(top + 1) * d);
    const int last = clamp(shape->max_step * like + 2, 0, steps);
    int found = whole_steps(size / (float)top, d, steps);
    float best = round_signed(NULL, g, d * (float)found, top);
    for (int s = clamp(shape->min_step * like - 1, 0, steps); s <= last; s++)
        for (int sign = -1; sign <= 1; sign += 2) {
            const float error = round_signed(NULL, g, d * (float)(sign * s), top);
            if (error < best) {
                best = error;
                found = sign * s;
            }
        }
    return found;
}

static void read_signed(float *y, const signed_fit *f, int n)
{
    for (int k = 0; k < LONG; k++)
        y[k] = f->d * (float)f->s[k / n] * (float)f->q[k];
}

static void stretch_signed(signed_fit *f, const target *t, int n)
{
    float y[LONG], z[LONG];
    signed_fit more = *f;
    read_signed(y, f, n);
    more.d = stretched(f->d, stretch_of(t, y));
    read_signed(z, &more, n);
    if (fit_loss(t, z) <= DEAREST * fit_loss(t, y))
        *f = more;
}

void fit_signed(signed_fit *f, const real *from, const float *importance, const fit_shape *shape)
{
    float x[LONG], w[LONG], q[GROUP];
    group g[LONG / SMALL];
    const int n = shape->n, top = shape->top;
    const float size = take_groups(x, w, g, n, from);
    *f = (signed_fit){ 0 };
    if (size < NOTHING)
        return;
    f->d = up_to_f16(size / (float)(top * shape->steps));
    if (!isfinite(f->d)) {
        f->d = NAN;
        return;
    }
    if (shape->few)
        fit_weights(w, x);
    weigh(w, importance);
    for (int i = 0; i < LONG / n; i++) {
        const int s = search_signed(f->d, &g[i], shape);
        f->s[i] = (int8_t)s;
        round_signed(q, &g[i], f->d * (float)s, top);
        for (int k = 0; k < n; k++)
            f->q[i * n + k] = (int8_t)(q[k] - (float)(top + 1));
    }
    if (shape->few)
        stretch_signed(f, &(target){ x, importance }, n);
}
