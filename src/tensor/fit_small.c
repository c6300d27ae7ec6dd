/* fit_small.c - codes of Q4_0 and Q5_0 for columns of unequal importance.
 *
 * Without importance, these formats follow the rule of blocks.h, as every writer does. With it, the
 * scale is searched: x = d v with v from -half to half - 1. Each trial puts the value of largest
 * magnitude on or near an end of the codes, and the best scale for its codes is a quotient of sums,
 * as in fit_iq4.c. */
#include "tensor/fit_small.h"

/* v nearest to x / d. */
static inline float code_of(float x, float inverse, float half)
{
    const float v = rintf(x * inverse);
    return v < -half ? -half : v > half - 1 ? half - 1 : v;
}

/* The best scale for the codes that d gives; *gain is by how much it reduces the error. */
static float refit(const float *x, const float *w, float d, float half, float *gain)
{
    const float inverse = 1 / d;
    float xv = 0, vv = 0;
    for (int k = 0; k < GROUP; k++) {
        const float v = code_of(x[k], inverse, half);
        xv += w[k] * x[k] * v;
        vv += w[k] * v * v;
    }
    *gain = vv > 0 ? xv * xv / vv : 0;
    return vv > 0 ? xv / vv : d;
}

void fit_small(uint8_t *q, uint8_t *at, const real *from, const float *importance, int half)
{
    const float most = largest(from), end = (float)half;
    float x[GROUP], best = 0, d = most / -end;
    if (!isfinite(most) || most == 0 || !isfinite(1 / d)) {
        find_signed(q, at, from, half);
        return;
    }
    for (int k = 0; k < GROUP; k++)
        x[k] = (float)from[k];
    for (int sign = -1; sign <= 1; sign += 2)
        for (int place = -12; place <= 12; place++) {
            float gain;
            const float trial = refit(x, importance,
                                      (float)sign * most / (end + 0.1f * (float)place), end, &gain);
            if (gain > best) {
                best = gain;
                d = trial;
            }
        }
    put_scale(at, d);
    const float stored = f16_at(at), inverse = stored != 0 ? 1 / stored : 0;
    for (int k = 0; k < GROUP; k++)
        q[k] = (uint8_t)(int)(code_of(x[k], inverse, end) + end);
}
