/* metrics.c - parses metrics.jsonl line by line. Strict about JSON, lenient about fields: newer
 * versions may add some. */
#include "explain/metrics.h"

#include "formats/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MAX_LINES (1 << 24)
#define MAX_STEP  INT64_C(1000000000000)

/* Treats absurdly large values as missing; they could not be drawn. */
static double number_of(const json_t *line, const char *key)
{
    const json_t *v = json_object_get(line, key);
    const double x = json_is_number(v) ? json_number_value(v) : NAN;
    return fabs(x) <= 1e30 ? x : NAN;
}

static weft_status read_sample(metrics *m, metric *to, const json_t *line, weft_error *err)
{
    const json_t *v = json_object_get(line, "sample");
    if (!json_is_string(v))
        return WEFT_OK;
    to->sample_length = json_string_length(v);
    to->sample = arena_text(&m->store, json_string_value(v), to->sample_length, err);
    return to->sample ? WEFT_OK : WEFT_ENOMEM;
}

static weft_status read_metrics_line(metrics *m, const json_t *line, const char *where,
                                     weft_error *err)
{
    const json_t *step = json_object_get(line, "step");
    if (!json_is_integer(step) || json_integer_value(step) < 0 ||
        json_integer_value(step) > MAX_STEP)
        return weft_fail(err, WEFT_EFORMAT, "%s: \"step\" is missing, or not a step number", where);
    const double at = json_number_value(step);
    while (m->n > 0 && m->at[m->n - 1].step >= at)
        m->n--;
    metric *to = &m->at[m->n++];
    *to = (metric){ .step = at,
                    .loss = number_of(line, "loss"),
                    .smoothed = number_of(line, "smoothed"),
                    .lr = number_of(line, "lr"),
                    .grad_norm = number_of(line, "grad_norm"),
                    .tokens = number_of(line, "tokens"),
                    .tokens_per_second = number_of(line, "tokens_per_second"),
                    .share = number_of(line, "share"),
                    .val_loss = number_of(line, "val_loss"),
                    .val_accuracy = number_of(line, "val_accuracy"),
                    .margin = number_of(line, "margin"),
                    .right = number_of(line, "right"),
                    .logp_chosen = number_of(line, "logp_chosen"),
                    .logp_rejected = number_of(line, "logp_rejected") };
    return read_sample(m, to, line, err);
}

/* Parses one line; its JSON tree is freed before the next. */
static weft_status parse_line(metrics *m, const uint8_t *at, size_t n, const char *path,
                              int64_t number, host *h, weft_error *err)
{
    char where[512];
    weft_error why = { 0 };
    snprintf(where, sizeof where, "%.400s:%lld", path, (long long)number);
    json_section_begin(&h->mem);
    const json_t *line = json_read(at, n, true, where, &why);
    weft_status status = line ? read_metrics_line(m, line, where, err)
                              : weft_fail(err, why.code, "%s", why.message);
    json_section_end();
    return status;
}

static int64_t count_lines(const uint8_t *data, uint64_t size)
{
    int64_t n = 0;
    for (uint64_t i = 0; i < size; i++)
        n += data[i] == '\n';
    return n;
}

static bool is_blank(const uint8_t *at, size_t n)
{
    while (n > 0 && (at[n - 1] == '\r' || at[n - 1] == ' ' || at[n - 1] == '\t'))
        n--;
    return n == 0;
}

weft_status metrics_parse(metrics *m, const uint8_t *data, uint64_t size, const char *path, host *h,
                          weft_error *err)
{
    const int64_t n_line = count_lines(data, size);
    *m = (metrics){ 0 };
    if (n_line > MAX_LINES)
        return weft_fail(err, WEFT_EFORMAT, "%s: %lld lines, at most %d are read", path,
                         (long long)n_line, MAX_LINES);
    weft_status status = arena_init(&m->store, ARENA_GROWING, &h->mem, 0, "metrics", err);
    if (status != WEFT_OK)
        return status;
    m->at = arena_alloc(&m->store, ((size_t)n_line + 1) * sizeof *m->at, err);
    status = m->at ? WEFT_OK : WEFT_ENOMEM;
    const uint8_t *at = data;
    for (int64_t i = 1; i <= n_line && status == WEFT_OK; i++) {
        const uint8_t *end = memchr(at, '\n', (size_t)(data + size - at));
        const size_t n = (size_t)(end - at);
        if (!is_blank(at, n))
            status = parse_line(m, at, n, path, i, h, err);
        at = end + 1;
    }
    if (status != WEFT_OK)
        metrics_free(m);
    return status;
}

void metrics_free(metrics *m)
{
    if (m->store.mem)
        arena_free(&m->store);
    *m = (metrics){ 0 };
}
