/* points.h - reads points from a CSV: two columns of numbers, x and y, with or without a line of names. */
#ifndef WEFT_FORMATS_POINTS_H
#define WEFT_FORMATS_POINTS_H

#include "base/host.h"

#include <stdint.h>

#define POINTS_LEAST 2
#define POINTS_MOST  256
#define POINTS_REACH 1e9 /* the largest magnitude of a number */

typedef struct points {
    int64_t n;
    float x[POINTS_MOST], y[POINTS_MOST]; /* by x, and as in the file where x is the same */
    char name[2][32];                     /* of the columns: "x" and "y" without a line of names */
} points;

weft_status points_parse(points *p, const char *text, size_t size, const char *path,
                         weft_error *err);

#endif
