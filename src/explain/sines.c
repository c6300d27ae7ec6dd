/* sines.c - the rotation that moves a table of sines by k positions:
 *
 *     sin((i + k) f) =  cos(k f) sin(i f) + sin(k f) cos(i f)
 *     cos((i + k) f) = -sin(k f) sin(i f) + cos(k f) cos(i f) */
#include "explain/sines.h"

double sine_residual(const real *table, int64_t T, int64_t D, sine_layout layout, int64_t k)
{
    const int64_t half = D / 2;
    double missed = 0, whole = 0;
    for (int64_t j = 0; j < half; j++) {
        const double e = layout == SINES_FAIRSEQ ? (double)j / (double)(half > 1 ? half - 1 : 1)
                                                 : 2 * (double)j / (double)D;
        const double turn = (double)k * pow(10000, -e), c = cos(turn), s = sin(turn);
        const int64_t a = layout == SINES_INTERLEAVED ? 2 * j : j;
        const int64_t b = layout == SINES_INTERLEAVED ? 2 * j + 1 : half + j;
        for (int64_t i = 0; i + k < T; i++) {
            const real *now = table + i * D, *then = table + (i + k) * D;
            const double x = (double)now[a], y = (double)now[b];
            const double dx = (double)then[a] - (c * x + s * y);
            const double dy = (double)then[b] - (c * y - s * x);
            missed += dx * dx + dy * dy;
            whole += (double)then[a] * (double)then[a] + (double)then[b] * (double)then[b];
        }
    }
    return whole > 0 ? sqrt(missed / whole) : NAN;
}
