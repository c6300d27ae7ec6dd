/* chart.c - axes, lines and labels of one chart, as SVG text. Steps of an axis are 1, 2 or 5 times
 * a power of ten, and a run of a million steps is thinned to what a screen can show. */
#include "explain/chart.h"

#include <math.h>
#include <stdio.h>

#define LEFT      52 /* for the axis labels */
#define TOP       12
#define BOTTOM    26
#define MAX_DOTS  80 /* more would be a line of dots */
#define LABEL     15 /* a label's height */
#define MAX_TICKS 16

/* A part of the plane, in data and in SVG coordinates. */
typedef struct frame {
    double x0, x1, y0, y1;
    double width, height;
} frame;

static double x_of(const frame *f, double x)
{
    return LEFT + (x - f->x0) / (f->x1 - f->x0) * f->width;
}

static double y_of(const frame *f, double y)
{
    return TOP + (1 - (y - f->y0) / (f->y1 - f->y0)) * f->height;
}

static double value(const metric *m, const series *s)
{
    return *(const double *)(const void *)((const char *)m + s->field);
}

bool chart_has(const series *s, const metrics *m)
{
    for (int64_t i = 0; i < m->n; i++)
        if (isfinite(value(&m->at[i], s)))
            return true;
    return false;
}

void chart_number(double x, char *to, size_t size)
{
    static const char units[] = "kMGT";
    int unit = -1;
    for (; fabs(x) >= (unit < 0 ? 9999.5 : 999.5) && unit < 3; unit++)
        x /= 1000;
    if (unit < 0)
        snprintf(to, size, fabs(x) >= 1000 ? "%.0f" : "%.4g", x);
    else
        snprintf(to, size, "%.3g%c", x, units[unit]);
}

/* ---- axes ------------------------------------------------------------------------------------ */

/* 1, 2 or 5 times a power of ten, so that about n of them fill the range. */
static double nice_step(double range, int n)
{
    const double raw = range / n, power = pow(10, floor(log10(raw))), first = raw / power;
    return power * (first <= 1 ? 1 : first <= 2 ? 2 : first <= 5 ? 5 : 10);
}

static void find_range(const chart *c, const metrics *m, frame *f)
{
    f->x0 = m->at[0].step;
    f->x1 = m->at[m->n - 1].step;
    f->y0 = INFINITY;
    f->y1 = -INFINITY;
    for (int k = 0; k < c->n_series; k++)
        for (int64_t i = 0; i < m->n; i++) {
            const double y = value(&m->at[i], &c->series[k]);
            f->y0 = isfinite(y) && y < f->y0 ? y : f->y0;
            f->y1 = isfinite(y) && y > f->y1 ? y : f->y1;
        }
    if (c->from_zero && f->y0 > 0)
        f->y0 = 0;
    if (f->x1 <= f->x0)
        f->x1 = f->x0 + 1;
    if (!(f->y1 - f->y0 >
          1e-12 * (fabs(f->y0) + fabs(f->y1)) + 1e-30)) { /* constant series: drawn in the middle */
        const double half = f->y0 != 0 ? fabs(f->y0) / 2 : 1;
        f->y0 -= c->from_zero && f->y0 == 0 ? 0 : half;
        f->y1 += half;
    }
    const double space = 0.04 * (f->y1 - f->y0);
    f->y0 -= c->from_zero && f->y0 == 0 ? 0 : space;
    f->y1 += space;
    f->width = c->width - LEFT - c->right;
    f->height = c->height - TOP - BOTTOM;
}

static void draw_axes(const frame *f, buffer *b)
{
    char text[32];
    const double dy = nice_step(f->y1 - f->y0, 6), dx = fmax(nice_step(f->x1 - f->x0, 6), 1);
    const double right = LEFT + f->width, bottom = TOP + f->height;
    for (int i = 0; i < MAX_TICKS; i++) {
        const double y = (ceil(f->y0 / dy) + i) * dy;
        if (y > f->y1)
            break;
        chart_number(fabs(y) < dy * 1e-6 ? 0 : y, text, sizeof text);
        buffer_format(b,
                      "<path class=\"grid\" d=\"M%d %.1fH%.1f\"/>"
                      "<text class=\"tick\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
                      LEFT, y_of(f, y), right, LEFT - 8, y_of(f, y) + 4, text);
    }
    for (int i = 0; i < MAX_TICKS; i++) {
        const double x = (ceil(f->x0 / dx) + i) * dx;
        if (x > f->x1)
            break;
        chart_number(x, text, sizeof text);
        buffer_format(b,
                      "<path class=\"mark\" d=\"M%.1f %.1fv5\"/>"
                      "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>"
                      "\n",
                      x_of(f, x), bottom, x_of(f, x), bottom + 19, text);
    }
    buffer_format(b, "<path class=\"axis\" d=\"M%d %.1fH%.1f\"/>\n", LEFT, bottom, right);
}

/* ---- series ---------------------------------------------------------------------------------- */

static void to_point(buffer *b, bool *begun, double x, double y)
{
    buffer_format(b, "%s%.1f %.1f", *begun ? "L" : "M", x, y);
    *begun = true;
}

/* The values that fall on one horizontal pixel. */
typedef struct column {
    double at, min, max, sum;
    int64_t n;
    bool rising; /* the minimum came first */
} column;

static void add_to_column(column *c, double y)
{
    if (c->n == 0 || y < c->min) {
        c->min = y;
        c->rising = c->n == 0;
    }
    if (c->n == 0 || y > c->max) {
        c->max = y;
        c->rising = c->n > 0;
    }
    c->sum += y;
    c->n++;
}

static void end_column(const column *c, series_kind kind, buffer *b, bool *begun)
{
    if (c->n == 0)
        return;
    if (kind == SERIES_CLOUD && c->n > 1) {
        to_point(b, begun, c->at, c->rising ? c->min : c->max);
        to_point(b, begun, c->at, c->rising ? c->max : c->min);
    } else {
        to_point(b, begun, c->at, c->sum / (double)c->n);
    }
}

static int64_t draw_line(const series *s, const metrics *m, const frame *f, buffer *b)
{
    bool begun = false;
    int64_t n = 0;
    column c = { .at = -1 };
    buffer_format(b, "<path class=\"%s %s\" d=\"", s->kind == SERIES_CLOUD ? "cloud" : "line",
                  s->color);
    for (int64_t i = 0; i < m->n; i++) {
        const double y = value(&m->at[i], s), x = x_of(f, m->at[i].step);
        if (!isfinite(y))
            continue;
        if (s->kind == SERIES_DOTS || floor(x) != floor(c.at)) {
            end_column(&c, s->kind, b, &begun);
            c = (column){ .at = x };
        }
        add_to_column(&c, y_of(f, y));
        n++;
    }
    end_column(&c, s->kind, b, &begun);
    buffer_text(b, "\"/>\n");
    return n;
}

static void draw_dots(const series *s, const metrics *m, const frame *f, buffer *b)
{
    for (int64_t i = 0; i < m->n; i++) {
        const double y = value(&m->at[i], s);
        if (isfinite(y))
            buffer_format(b, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>\n", s->color,
                          x_of(f, m->at[i].step), y_of(f, y));
    }
}

/* Next to the last value; below the previous label if they would overlap. */
static double draw_label(const series *s, const metrics *m, const frame *f, double taken, buffer *b)
{
    double last = NAN;
    for (int64_t i = m->n - 1; i >= 0 && !isfinite(last); i--)
        last = value(&m->at[i], s);
    if (!s->label || !isfinite(last))
        return taken;
    char text[32];
    double y = y_of(f, last) + 4;
    if (fabs(y - taken) < LABEL)
        y = y < taken ? taken - LABEL : taken + LABEL;
    chart_number(last, text, sizeof text);
    buffer_format(b,
                  "<text class=\"label %s\" x=\"%.1f\" y=\"%.1f\">%s<tspan class=\"name\"> %s"
                  "</tspan></text>\n",
                  s->color, LEFT + f->width + 8, y, text, s->label);
    return y;
}

void chart_draw(const chart *c, const metrics *m, buffer *b)
{
    frame f;
    bool any = false;
    double taken = -1e9;
    for (int k = 0; k < c->n_series; k++)
        any = any || chart_has(&c->series[k], m);
    if (!any)
        return;
    find_range(c, m, &f);
    buffer_format(b,
                  "<figure><figcaption>%s</figcaption>\n"
                  "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">\n",
                  c->title, c->width, c->height, c->title);
    draw_axes(&f, b);
    for (int k = 0; k < c->n_series; k++) {
        if (!chart_has(&c->series[k], m))
            continue;
        const int64_t n = draw_line(&c->series[k], m, &f, b);
        if (c->series[k].kind == SERIES_DOTS && n <= MAX_DOTS)
            draw_dots(&c->series[k], m, &f, b);
        taken = draw_label(&c->series[k], m, &f, taken, b);
    }
    buffer_text(b, "</svg></figure>\n");
}
