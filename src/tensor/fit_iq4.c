/* fit_iq4.c - finds scales for codes of uneven steps.
 *
 * For given codes v the best scale is a = sum w x v / sum w v v, and the squared error is then sum w
 * x x - (sum w x v)^2 / sum w v v. So for each trial scale the codes are found, and the trial with
 * the largest quotient wins. Trials put the largest magnitude on or near either end of the codes:
 * these are the scales at which a code of a large value changes. */
#include "tensor/fit_iq4.h"

#define SAME(n) (n)
const int8_t iq4_values[16] = { IQ4_VALUES(SAME) };

/* Half way from each value to the next. */
static const float between[15] = { -115.5f, -93.5f, -74,   -57,   -42, -28.5f, -16, -4.5f,
                                   7,       19,     31.5f, 45.5f, 61,  79,     101 };

/* The code of the nearest value, by bisection. */
static inline int nearest_code(float v)
{
    int code = v > between[7] ? 8 : 0;
    code += v > between[code + 3] ? 4 : 0;
    code += v > between[code + 1] ? 2 : 0;
    return code + (v > between[code]);
}

void iq4_take(iq4_group *g, const real *x, const float *importance)
{
    float size = 0, poison = 0;
    for (int k = 0; k < GROUP; k++) {
        g->x[k] = (float)x[k];
        g->w[k] = importance ? importance[k] : 1;
        size = fabsf(g->x[k]) > size ? fabsf(g->x[k]) : size;
        poison += g->x[k] * 0;
    }
    g->size = size + poison;
}

float iq4_round(uint8_t *q, const iq4_group *g, float a)
{
    const float inverse = a != 0 ? 1 / a : 0;
    float sum = 0;
    for (int k = 0; k < GROUP; k++) {
        const int code = nearest_code(g->x[k] * inverse);
        const float off = g->x[k] - a * (float)iq4_values[code];
        if (q)
            q[k] = (uint8_t)code;
        sum += off * off * g->w[k];
    }
    return sum;
}

float iq4_cover(const iq4_group *g)
{
    float most = 0;
    for (int k = 0; k < GROUP; k++)
        most = fabsf(g->x[k]) > fabsf(most) ? g->x[k] : most;
    return most / -IQ4_FIRST;
}

/* The best scale for the codes that a gives, and its gain: by how much it reduces the error. */
static float refit(const iq4_group *g, float a, float *gain)
{
    const float inverse = 1 / a;
    float xv = 0, vv = 0;
    for (int k = 0; k < GROUP; k++) {
        const float v = (float)iq4_values[nearest_code(g->x[k] * inverse)];
        xv += g->w[k] * g->x[k] * v;
        vv += g->w[k] * v * v;
    }
    *gain = vv > 0 ? xv * xv / vv : 0;
    return vv > 0 ? xv / vv : 0;
}

float iq4_scale(const iq4_group *g)
{
    const float cover = iq4_cover(g);
    float best = 0, found = cover;
    for (int end = 0; end < 2; end++)
        for (int place = -9; place <= 27; place += 3) {
            const float first = end ? -113 : IQ4_FIRST, trial = cover * IQ4_FIRST;
            float gain;
            const float a = refit(g, trial / (first + (float)(end ? -place : place)), &gain);
            if (gain > best) {
                best = gain;
                found = a;
            }
        }
    return found;
}
