/* fuzz_points.c - bytes as the CSV of a kernel regression. */
#include "formats/points.h"
#include "hostile.h"

#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static points p;
    weft_error err = { 0 };
    if (points_parse(&p, (const char *)data, size, "fuzz", &err) != WEFT_OK) {
        holds(err.message[0], "an error without a message");
        return 0;
    }
    holds(p.n >= POINTS_LEAST && p.n <= POINTS_MOST, "too few points or too many");
    holds(p.x[0] < p.x[p.n - 1], "all are at one place");
    for (int64_t i = 0; i < p.n; i++) {
        holds(isfinite(p.x[i]) && isfinite(p.y[i]), "a number is none");
        holds(i == 0 || p.x[i - 1] <= p.x[i], "out of order");
    }
    return 0;
}
