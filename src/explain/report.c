/* report.c - the page: facts, charts, samples. Text from the run is escaped, nothing is fetched. */
#include "explain/report.h"

#include "explain/chart.h"
#include "models/arch.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define MAX_SAMPLES 6
#define MAX_SAMPLE  1200 /* bytes shown of one */

/* ---- text ------------------------------------------------------------------------------------ */

/* Shows control characters as U+FFFD, except line breaks and tabs. */
static void put_escaped(buffer *b, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (c == '&')
            buffer_text(b, "&amp;");
        else if (c == '<')
            buffer_text(b, "&lt;");
        else if (c == '>')
            buffer_text(b, "&gt;");
        else if (c == '"')
            buffer_text(b, "&quot;");
        else if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7F)
            buffer_text(b, "\xEF\xBF\xBD");
        else
            buffer_put(b, &c, 1);
    }
}

static const char style[] =
    "<style>\n"
    ":root{color-scheme:light dark;--page:#fbfaf8;--card:#fff;--ink:#1d1f24;--soft:#6b7280;"
    "--line:#e7e4de;--a:#2563c9;--b:#d9601a;--c:#0f8a6d}\n"
    "@media(prefers-color-scheme:dark){:root{--page:#14161a;--card:#1c1f25;--ink:#eceef2;"
    "--soft:#9aa3b2;--line:#2c3038;--a:#6ea8ff;--b:#ff9d5c;--c:#4fd1ae}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0 auto;max-width:1080px;padding:40px 28px;background:var(--page);"
    "color:var(--ink);font:15px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}\n"
    "h1{margin:0;font-size:30px;letter-spacing:-.02em;overflow-wrap:anywhere}\n"
    "h2{margin:36px 0 12px;font-size:18px}\n"
    "p{margin:4px 0 0;color:var(--soft)}\n"
    ".facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(138px,1fr));gap:12px;"
    "margin:26px 0 14px}\n"
    ".facts div,figure,.sample{background:var(--card);border:1px solid var(--line);"
    "border-radius:12px}\n"
    ".facts div{padding:13px 16px}\n"
    ".facts b{display:block;font-size:24px;line-height:1.25;letter-spacing:-.02em;"
    "font-variant-numeric:tabular-nums}\n"
    ".facts span{color:var(--soft);font-size:13px}\n"
    "figure{margin:0 0 14px;padding:16px 16px 10px}\n"
    "figcaption{font-weight:600;margin:0 0 8px}\n"
    ".three{display:grid;grid-template-columns:repeat(auto-fit,minmax(300px,1fr));gap:14px}\n"
    "svg{display:block;width:100%;height:auto;overflow:visible}\n"
    "svg path{fill:none}\n"
    ".grid{stroke:var(--line)}\n"
    ".axis,.mark{stroke:var(--soft)}\n"
    ".tick{fill:var(--soft);font-size:12px;font-variant-numeric:tabular-nums}\n"
    ".line{stroke-width:2.2;stroke-linejoin:round;stroke-linecap:round}\n"
    ".cloud{stroke-width:1;opacity:.28}\n"
    "path.a{stroke:var(--a)}path.b{stroke:var(--b)}path.c{stroke:var(--c)}\n"
    "circle{stroke:var(--card);stroke-width:1.5}\n"
    "text.a,circle.a{fill:var(--a)}text.b,circle.b{fill:var(--b)}text.c,circle.c{fill:var(--c)}\n"
    ".label{font-size:13px;font-weight:700}\n"
    ".name{font-weight:400;font-size:12px}\n"
    ".samples{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(400px,100%),1fr));"
    "gap:14px}\n"
    ".narrow{display:none}\n"
    ".sample{padding:14px 16px}\n"
    ".sample span{color:var(--soft);font-size:13px}\n"
    "pre{margin:8px 0 0;white-space:pre-wrap;overflow-wrap:anywhere;font:13px/1.55 "
    "ui-monospace,'SF Mono',Menlo,Consolas,monospace}\n"
    "footer{margin-top:36px;color:var(--soft);font-size:13px}\n"
    "@media(max-width:600px){body{padding:24px 12px}.wide{display:none}.narrow{display:block}"
    "h1{font-size:24px}.facts b{font-size:20px}}\n"
    "@media print{body{padding:0}figure,.sample{break-inside:avoid}}\n"
    "</style>\n";

static void put_head(const report_facts *f, buffer *b)
{
    buffer_text(b, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                   "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
                   "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                   "style-src 'unsafe-inline'\">\n<title>");
    put_escaped(b, f->title, strlen(f->title));
    buffer_text(b, "</title>\n");
    buffer_text(b, style);
    buffer_text(b, "</head><body>\n<h1>");
    put_escaped(b, f->title, strlen(f->title));
    buffer_text(b, "</h1>\n");
    if (!f->model)
        return;
    buffer_text(b, "<p>");
    put_escaped(b, f->model, strlen(f->model));
    buffer_text(b, "</p>\n");
}

/* ---- facts ----------------------------------------------------------------------------------- */

typedef struct totals {
    double smoothed; /* the last */
    double best, best_step;
    double tokens, seconds;
    double share; /* the mean */
    double right; /* of the last validation */
} totals;

static totals sum_up(const metrics *m)
{
    totals t = { NAN, NAN, 0, NAN, 0, 0, NAN };
    double before = 0, n_share = 0;
    for (int64_t i = 0; i < m->n; i++) {
        const metric *p = &m->at[i];
        t.smoothed = isfinite(p->smoothed) ? p->smoothed : isfinite(p->loss) ? p->loss : t.smoothed;
        if (isfinite(p->val_loss) && !(p->val_loss >= t.best)) {
            t.best = p->val_loss;
            t.best_step = p->step;
        }
        t.right = isfinite(p->val_accuracy) ? p->val_accuracy : t.right;
        if (isfinite(p->share)) {
            t.share += p->share;
            n_share++;
        }
        if (!isfinite(p->tokens))
            continue;
        if (p->tokens_per_second > 0 && p->tokens > before)
            t.seconds += (p->tokens - before) / p->tokens_per_second;
        before = t.tokens = p->tokens;
    }
    t.share = n_share > 0 ? t.share / n_share : NAN;
    return t;
}

static void put_fact(buffer *b, const char *value, const char *what)
{
    buffer_format(b, "<div><b>%s</b><span>%s</span></div>\n", value, what);
}

static void put_number_fact(buffer *b, double x, const char *what)
{
    char text[32];
    if (!isfinite(x))
        return;
    chart_number(x, text, sizeof text);
    put_fact(b, text, what);
}

/* "2 h 05 min" */
static void duration(double seconds, char *to, size_t size)
{
    const double minutes = floor(seconds / 60 + 0.5);
    if (seconds < 90)
        snprintf(to, size, "%.0f s", seconds);
    else if (minutes < 90)
        snprintf(to, size, "%.0f min", minutes);
    else
        snprintf(to, size, "%.0f h %02.0f min", floor(minutes / 60), fmod(minutes, 60));
}

static void put_facts(const metrics *m, buffer *b)
{
    const totals t = sum_up(m);
    char text[64];
    buffer_text(b, "<div class=\"facts\">\n");
    put_number_fact(b, t.smoothed, "loss, smoothed");
    if (isfinite(t.best)) {
        char step[32];
        chart_number(t.best_step, step, sizeof step);
        snprintf(text, sizeof text, "best validation, step %s", step);
        put_number_fact(b, t.best, text);
    }
    if (isfinite(t.right)) {
        snprintf(text, sizeof text, "%.2f&nbsp;%%", 100 * t.right);
        put_fact(b, text, "accuracy of the last validation");
    }
    put_number_fact(b, m->at[m->n - 1].step, "steps");
    put_number_fact(b, t.tokens, "tokens");
    if (t.seconds > 0) {
        snprintf(text, sizeof text, "tokens per second");
        if (isfinite(t.share))
            snprintf(text, sizeof text, "tokens per second, %.0f&nbsp;%% of peak", 100 * t.share);
        put_number_fact(b, t.tokens / t.seconds, text);
        duration(t.seconds, text, sizeof text);
        put_fact(b, text, "of learning");
    }
    buffer_text(b, "</div>\n");
}

/* ---- pictures -------------------------------------------------------------------------------- */

#define FIELD(name) offsetof(metric, name)

static const chart loss_chart = {
    .title = "Loss",
    .width = 1020,
    .height = 400,
    .right = 116,
    .series = { { SERIES_CLOUD, FIELD(loss), "a", NULL },
                { SERIES_LINE, FIELD(smoothed), "a", "training" },
                { SERIES_DOTS, FIELD(val_loss), "b", "validation" } },
    .n_series = 3,
};

static const chart small_charts[] = {
    { .title = "Learning rate",
      .width = 330,
      .height = 210,
      .right = 54,
      .from_zero = true,
      .series = { { SERIES_LINE, FIELD(lr), "c", "" } },
      .n_series = 1 },
    { .title = "Norm of the gradient",
      .width = 330,
      .height = 210,
      .right = 54,
      .from_zero = true,
      .series = { { SERIES_CLOUD, FIELD(grad_norm), "a", NULL },
                  { SERIES_LINE, FIELD(grad_norm), "a", "" } },
      .n_series = 2 },
    { .title = "Tokens per second",
      .width = 330,
      .height = 210,
      .right = 54,
      .from_zero = true,
      .series = { { SERIES_CLOUD, FIELD(tokens_per_second), "c", NULL },
                  { SERIES_LINE, FIELD(tokens_per_second), "c", "" } },
      .n_series = 2 },
};

static const chart right_chart = {
    .title = "Right",
    .width = 1020,
    .height = 210,
    .right = 116,
    .series = { { SERIES_DOTS, FIELD(val_accuracy), "b", "validation" } },
    .n_series = 1,
};

/* Of pairs (DPO). A chosen answer that becomes less likely is the usual trap. */
static const chart pair_charts[] = {
    { .title = "Margin of the preferred answer",
      .width = 330,
      .height = 210,
      .right = 54,
      .series = { { SERIES_CLOUD, FIELD(margin), "a", NULL },
                  { SERIES_LINE, FIELD(margin), "a", "" } },
      .n_series = 2 },
    { .title = "Share of pairs with a margin above 0",
      .width = 330,
      .height = 210,
      .right = 54,
      .from_zero = true,
      .series = { { SERIES_CLOUD, FIELD(right), "c", NULL },
                  { SERIES_LINE, FIELD(right), "c", "" } },
      .n_series = 2 },
    { .title = "Log-probability of both answers",
      .width = 330,
      .height = 210,
      .right = 66,
      .series = { { SERIES_LINE, FIELD(logp_chosen), "a", "chosen" },
                  { SERIES_LINE, FIELD(logp_rejected), "b", "rejected" } },
      .n_series = 2 },
};

/* The chart at full width, and a second one for phones. */
static void put_wide(chart c, const metrics *m, buffer *b)
{
    if (!chart_has(&c.series[c.n_series - 1], m) && !chart_has(&c.series[0], m))
        return;
    buffer_text(b, "<div class=\"wide\">\n");
    chart_draw(&c, m, b);
    buffer_text(b, "</div>\n<div class=\"narrow\">\n");
    c.width = 400;
    c.height = 280;
    for (int k = 0; k < c.n_series; k++)
        if (c.series[k].label) /* the colour must identify it */
            c.series[k].label = "";
    c.right = 54;
    chart_draw(&c, m, b);
    buffer_text(b, "</div>\n");
}

static void put_three(const chart c[3], const metrics *m, buffer *b)
{
    buffer_text(b, "<div class=\"three\">\n");
    for (int i = 0; i < 3; i++)
        chart_draw(&c[i], m, b);
    buffer_text(b, "</div>\n");
}

static void put_charts(const metrics *m, buffer *b)
{
    put_wide(loss_chart, m, b);
    put_wide(right_chart, m, b);
    if (chart_has(&pair_charts[0].series[0], m))
        put_three(pair_charts, m, b);
    put_three(small_charts, m, b);
}

/* ---- samples --------------------------------------------------------------------------------- */

/* Whole characters of a text, up to MAX_SAMPLE bytes. */
static size_t shown(const metric *p)
{
    size_t n = p->sample_length < MAX_SAMPLE ? p->sample_length : MAX_SAMPLE;
    while (n > 0 && n < p->sample_length && ((unsigned char)p->sample[n] & 0xC0) == 0x80)
        n--;
    return n;
}

static void put_sample(const metric *p, buffer *b)
{
    const size_t n = shown(p);
    size_t first = 0; /* not a line break */
    while (first < n && p->sample[first] == '\n')
        first++;
    buffer_format(b, "<div class=\"sample\"><span>step %.0f</span><pre>", p->step);
    put_escaped(b, p->sample + first, n - first);
    buffer_text(b, n < p->sample_length ? " ...</pre></div>\n" : "</pre></div>\n");
}

/* The first, the last, and some between. */
static void put_samples(const metrics *m, buffer *b)
{
    int64_t n = 0, k = 0;
    for (int64_t i = 0; i < m->n; i++)
        n += m->at[i].sample != NULL;
    if (n == 0)
        return;
    const int64_t most = n < MAX_SAMPLES ? n : MAX_SAMPLES;
    int64_t next = 0;
    buffer_text(b, "<h2>Samples</h2>\n<div class=\"samples\">\n");
    for (int64_t i = 0, seen = 0; i < m->n && k < most; i++) {
        if (!m->at[i].sample || seen++ < next)
            continue;
        put_sample(&m->at[i], b);
        k++;
        next = most > 1 ? k * (n - 1) / (most - 1) : n;
    }
    buffer_text(b, "</div>\n");
}

/* ---- options --------------------------------------------------------------------------------- */

/* Shows only the last component of a path: the page may be published. */
static void put_options(const report_facts *f, buffer *b)
{
    if (f->n_options == 0)
        return;
    const char *end = f->options + f->n_options;
    buffer_text(b, "<h2>How it was trained</h2>\n<div class=\"sample\"><pre>weft train");
    for (const char *line = f->options, *next; line < end; line = next) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        stop = stop ? stop : end;
        next = stop + 1;
        const char *value = memchr(line, '=', (size_t)(stop - line)),
                   *from = value ? value + 1 : stop;
        if (from < stop && *from == '/')
            for (const char *s = from; s < stop; s++)
                from = *s == '/' ? s + 1 : from;
        buffer_text(b, "\n    ");
        put_escaped(b, line, (size_t)((value ? value + 1 : stop) - line));
        put_escaped(b, from, (size_t)(stop - from));
    }
    buffer_text(b, "</pre></div>\n");
}

/* ---- the page -------------------------------------------------------------------------------- */

void report_html(const report_facts *f, const metrics *m, buffer *b)
{
    put_head(f, b);
    put_facts(m, b);
    put_charts(m, b);
    put_samples(m, b);
    put_options(f, b);
    buffer_text(b, "<footer>weft " WEFT_VERSION "</footer>\n</body></html>\n");
}

bool report_describe(const char *path, host *h, char *to, size_t size)
{
    model m;
    char n[32];
    if (model_plan(&m, path, WEFT_LOAD_MAP, h, NULL) != WEFT_OK)
        return false;
    chart_number((double)m.n_parameter, n, sizeof n);
    snprintf(
        to, size,
        "%s, %s parameters: %lld layers, %lld heads, width %lld, context %lld, vocabulary %lld",
        m.name, n, (long long)m.n_layer, (long long)m.n_head, (long long)m.d_model,
        (long long)m.n_ctx, (long long)m.n_vocab);
    model_close(&m);
    return true;
}
