/* chart.h - metrics of a run over its steps, as an SVG that only needs the colours of the page. */
#ifndef WEFT_EXPLAIN_CHART_H
#define WEFT_EXPLAIN_CHART_H

#include "base/buffer.h"
#include "explain/metrics.h"

typedef enum series_kind {
    SERIES_CLOUD, /* all values, thin: if many share a pixel, their minimum and maximum */
    SERIES_LINE,  /* if many share a pixel, their mean */
    SERIES_DOTS,  /* few values: a line with a dot for each */
} series_kind;

typedef struct series {
    series_kind kind;
    size_t field;      /* field of a metric: offsetof(metric, loss) */
    const char *color; /* a CSS class of the page: "a", "b" or "c" */
    const char *label; /* at its end, with the last value; NULL: none */
} series;

typedef struct chart {
    const char *title;
    int width, height;
    int right;      /* margin for labels */
    bool from_zero; /* the axis begins at 0 */
    series series[3];
    int n_series;
} chart;

/* Does any metric have a value of the series? */
bool chart_has(const series *s, const metrics *m);

/* Draws nothing if no series has a value. */
void chart_draw(const chart *c, const metrics *m, buffer *b);

/* "1.23", "4.5k", "12M" */
void chart_number(double x, char *to, size_t size);

#endif
