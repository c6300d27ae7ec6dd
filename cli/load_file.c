/* load_file.c - reads and writes the files of load_file.h. */
#include "load_file.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define MOST_KEY  4096
#define MOST_PART 4096 /* of a prompt */

__attribute__((format(printf, 3, 4))) static weft_status fail(weft_error *err, weft_status code,
                                                              const char *format, ...)
{
    va_list args;
    va_start(args, format);
    err->code = code;
    vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    return code;
}

/* Room for one more object; false without memory. */
static bool grow(void *list, int64_t n, int64_t *room, size_t size)
{
    void **at = list;
    if (n < *room)
        return true;
    const int64_t more = *room ? 2 * *room : 1024;
    void *to = realloc(*at, (size_t)more * size);
    if (!to)
        return false;
    *at = to;
    *room = more;
    return true;
}

/* ---- traces ---------------------------------------------------------------------------------- */

/* One copy of each key. NULL without memory, or with too many. */
static const char *hold_key(load_trace *t, const char *name)
{
    for (int i = 0; i < t->n_key; i++)
        if (strcmp(t->key[i], name) == 0)
            return t->key[i];
    if (!t->key)
        t->key = calloc(MOST_KEY, sizeof *t->key);
    if (!t->key || t->n_key == MOST_KEY || !(t->key[t->n_key] = strdup(name)))
        return NULL;
    return t->key[t->n_key++];
}

/* Parts may move while the trace grows: point to them again. */
static void point_to_parts(load_trace *t)
{
    int64_t at = 0;
    for (int64_t i = 0; i < t->n; i++) {
        t->at[i].part = t->part + at;
        at += t->at[i].n_part;
    }
}

bool load_trace_add(load_trace *t, const weft_load_request *q)
{
    const char *key = q->key ? hold_key(t, q->key) : NULL;
    if ((q->key && !key) || !grow(&t->at, t->n, &t->room, sizeof *t->at))
        return false;
    const weft_load_part *before = t->part;
    for (int i = 0; i < q->n_part; i++) {
        if (!grow(&t->part, t->n_part, &t->part_room, sizeof *t->part))
            return false;
        t->part[t->n_part++] = q->part[i];
    }
    t->at[t->n] = *q;
    t->at[t->n].key = key;
    t->at[t->n].part = t->part + t->n_part - q->n_part;
    t->n++;
    if (t->part != before)
        point_to_parts(t);
    return true;
}

/* " 7:512 1001:37"; the number of parts, or -1. */
static int read_parts(const char *text, weft_load_part *to)
{
    int n = 0;
    char *end;
    for (; *text == ' '; text = end, n++) {
        if (n == MOST_PART)
            return -1;
        to[n].seed = strtoull(text, &end, 10);
        if (end == text || *end != ':')
            return -1;
        text = end + 1;
        to[n].n = strtoll(text, &end, 10);
        if (end == text || to[n].n < 1)
            return -1;
    }
    return *text == '\0' ? n : -1;
}

/* 1: a request; 0: nothing; -1: neither. */
static int read_request(char *line, weft_load_request *q, char key[256], weft_load_part *parts)
{
    int used = 0;
    long long n_new;
    line[strcspn(line, "\r\n")] = '\0';
    if (line[strspn(line, " ")] == '\0' || line[0] == '#')
        return 0;
    if (sscanf(line, "%lf %lld %255s%n", &q->at, &n_new, key, &used) != 3 || n_new < 1 ||
        !(q->at >= 0) || !isfinite(q->at))
        return -1;
    q->n_new = n_new;
    q->key = strcmp(key, "-") == 0 ? NULL : key;
    q->part = parts;
    q->n_part = read_parts(line + used, parts);
    return q->n_part > 0 ? 1 : -1;
}

static weft_status read_trace(load_trace *t, FILE *f, const char *path, weft_error *err)
{
    char *line = NULL, key[256];
    size_t room = 0;
    int64_t number = 0;
    weft_status status = WEFT_OK;
    weft_load_part *parts = calloc(MOST_PART, sizeof *parts);
    if (!parts)
        status = fail(err, WEFT_ENOMEM, "%s: no memory for a trace", path);
    while (status == WEFT_OK && getline(&line, &room, f) > 0) {
        weft_load_request q;
        const int found = read_request(line, &q, key, parts);
        number++;
        if (found < 0 || (found > 0 && t->n > 0 && q.at < t->at[t->n - 1].at))
            status = fail(err, WEFT_EFORMAT,
                          "%s: line %lld is no request; expected SECONDS NEW KEY SEED:TOKENS ..., "
                          "in the order of arrival",
                          path, (long long)number);
        else if (found > 0 && !load_trace_add(t, &q))
            status = t->n_key == MOST_KEY
                         ? fail(err, WEFT_EFORMAT, "%s: line %lld: more than %d keys; use fewer",
                                path, (long long)number, MOST_KEY)
                         : fail(err, WEFT_ENOMEM, "%s: no memory for a trace", path);
    }
    free(parts);
    free(line);
    return status;
}

weft_status load_trace_read(load_trace *t, const char *path, weft_error *err)
{
    *t = (load_trace){ 0 };
    FILE *f = fopen(path, "re");
    if (!f)
        return fail(err, WEFT_EIO, "%s: %s", path, strerror(errno));
    weft_status status = read_trace(t, f, path, err);
    if (status == WEFT_OK && ferror(f))
        status = fail(err, WEFT_EIO, "%s: %s", path, strerror(errno));
    if (status == WEFT_OK && t->n == 0)
        status = fail(err, WEFT_EFORMAT, "%s: a trace without requests", path);
    fclose(f);
    if (status != WEFT_OK)
        load_trace_free(t);
    return status;
}

void load_trace_free(load_trace *t)
{
    for (int i = 0; i < t->n_key; i++)
        free(t->key[i]);
    free(t->key);
    free(t->part);
    free(t->at);
    *t = (load_trace){ 0 };
}

bool load_trace_write(const load_trace *t, FILE *to)
{
    fprintf(to, "# a trace: seconds, new tokens, key or -, parts of the prompt as SEED:TOKENS\n");
    for (int64_t i = 0; i < t->n; i++) {
        const weft_load_request *q = &t->at[i];
        fprintf(to, "%.6f %lld %s", q->at, (long long)q->n_new, q->key ? q->key : "-");
        for (int k = 0; k < q->n_part; k++)
            fprintf(to, " %llu:%lld", (unsigned long long)q->part[k].seed, (long long)q->part[k].n);
        fputc('\n', to);
    }
    return !ferror(to);
}

/* ---- records --------------------------------------------------------------------------------- */

bool step_record_add(step_record *r, const weft_step *s)
{
    if (!grow(&r->step, r->n, &r->room, sizeof *r->step))
        return false;
    r->step[r->n++] = *s;
    return true;
}

void step_record_free(step_record *r)
{
    free(r->step);
    *r = (step_record){ 0 };
}

void step_record_write_step(FILE *to, const weft_step *s)
{
    fprintf(to, "step %lld %lld %.10g %.10g %.9f %.9f\n", (long long)s->n_row, (long long)s->n_draw,
            s->prompt_context, s->new_context, s->seconds, s->before);
}

void step_record_write_request(FILE *to, int64_t n_prompt, double seconds)
{
    fprintf(to, "request %lld %.9f\n", (long long)n_prompt, seconds);
}

static void add_request(step_record *r, double tokens, double seconds)
{
    const double add[5] = { 1, tokens, tokens * tokens, seconds, tokens * seconds };
    for (int i = 0; i < 5; i++)
        r->sums[i] += add[i];
}

/* A line through the requests, which neither begins nor goes below 0. */
static void fit_requests(step_record *r)
{
    const double n = r->sums[0], x = r->sums[1], xx = r->sums[2], y = r->sums[3], xy = r->sums[4];
    const double spread = n * xx - x * x;
    if (n < 1)
        return;
    r->token_seconds = spread > 1e-9 * n * xx ? fmax(0, (n * xy - x * y) / spread) : 0;
    r->arrive_seconds = (y - r->token_seconds * x) / n;
    if (r->arrive_seconds < 0) {
        r->arrive_seconds = 0;
        r->token_seconds = y / x;
    }
}

static bool is_time(double x)
{
    return isfinite(x) && x >= 0;
}

/* The whole of a line. */
static bool read_step(const char *line, weft_step *s)
{
    long long n_row, n_draw;
    int used = 0;
    if (sscanf(line, "step %lld %lld %lf %lf %lf %lf%n", &n_row, &n_draw, &s->prompt_context,
               &s->new_context, &s->seconds, &s->before, &used) != 6 ||
        line[used] != '\0')
        return false;
    s->n_row = n_row;
    s->n_draw = n_draw;
    return n_row >= 1 && n_draw >= 0 && is_time(s->prompt_context) && is_time(s->new_context) &&
           is_time(s->seconds) && (is_time(s->before) || s->before == -1);
}

static bool read_line(step_record *r, char *line, bool *good)
{
    weft_step s = { .struct_size = sizeof s };
    long long n_row;
    double seconds;
    int used = 0;
    *good = true;
    line[strcspn(line, "\r\n")] = '\0';
    if (line[0] == '#' && !*r->about)
        snprintf(r->about, sizeof r->about, "%s", line + 1 + strspn(line + 1, " "));
    if (line[0] == '#' || line[strspn(line, " ")] == '\0')
        return true;
    if (read_step(line, &s))
        return step_record_add(r, &s);
    *good = sscanf(line, "request %lld %lf%n", &n_row, &seconds, &used) == 2 &&
            line[used] == '\0' && n_row > 0 && is_time(seconds);
    if (*good)
        add_request(r, (double)n_row, seconds);
    return true;
}

weft_status step_record_read(step_record *r, const char *path, weft_error *err)
{
    char *line = NULL;
    size_t room = 0;
    weft_status status = WEFT_OK;
    FILE *f = fopen(path, "re");
    if (!f)
        return fail(err, WEFT_EIO, "%s: %s", path, strerror(errno));
    for (int64_t number = 1; status == WEFT_OK && getline(&line, &room, f) > 0; number++) {
        bool good;
        if (!read_line(r, line, &good))
            status = fail(err, WEFT_ENOMEM, "%s: no memory for a record", path);
        else if (!good)
            status = fail(err, WEFT_EFORMAT,
                          "%s: line %lld is neither a step nor a request; expected a record of "
                          "weft serve --record-steps",
                          path, (long long)number);
    }
    if (status == WEFT_OK && ferror(f))
        status = fail(err, WEFT_EIO, "%s: %s", path, strerror(errno));
    if (status == WEFT_OK && r->n == 0)
        status = fail(err, WEFT_EFORMAT, "%s: a record without steps", path);
    fit_requests(r);
    free(line);
    fclose(f);
    return status;
}

/* ---- percentiles ----------------------------------------------------------------------------- */

int load_by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double load_percentile(const double *sorted, int64_t n, double p)
{
    return n > 0 ? sorted[(int64_t)fmin((double)n - 1, floor(p * (double)n))] : NAN;
}
