/* chart.h - numbers of a run over its steps, as an SVG that needs nothing beside the colours of the
 * page. */
#ifndef WEFT_EXPLAIN_CHART_H
#define WEFT_EXPLAIN_CHART_H

#include "base/buffer.h"
#include "explain/metrics.h"

typedef enum series_kind {
    SERIES_CLOUD, /* all numbers, thin: of many that fall on one place, the least and the greatest */
    SERIES_LINE,  /* of many that fall on one place, the mean */
    SERIES_DOTS,  /* few numbers: a line with a dot for each */
} series_kind;

typedef struct series {
    series_kind kind;
    size_t field;      /* of a metric: offsetof(metric, loss) */
    const char *color; /* a class of the page: "a", "b" or "c" */
    const char *label; /* at its end, with the last number; NULL: none */
} series;

typedef struct chart {
    const char *title;
    int width, height;
    int right;      /* of the width, for labels */
    bool from_zero; /* the axis begins at 0 */
    series series[3];
    int n_series;
} chart;

/* Does any metric have a number of the series? */
bool chart_has(const series *s, const metrics *m);

/* Nothing where no series has a number. */
void chart_draw(const chart *c, const metrics *m, buffer *b);

/* "1.23", "4.5k", "12M" */
void chart_number(double x, char *to, size_t size);

#endif
