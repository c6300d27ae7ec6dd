/* trace_lines.c - keeps and prints trace_lines.h's lines. */
#include "trace_lines.h"

#include "json.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* ---- the line of a tensor -------------------------------------------------------------------- */

/* A map has a row for each head of a token: they are shown as what they are. */
static void set_shape(trace_line *l, const weft_trace_tensor *t, int64_t n_head)
{
    const bool map = strcmp(t->op, "scores") == 0 || strcmp(t->op, "probs") == 0;
    if (map && n_head > 0 && t->rows % n_head == 0) {
        l->n_dim = 3;
        l->shape[0] = t->rows / n_head;
        l->shape[1] = n_head;
    } else {
        l->n_dim = 2;
        l->shape[0] = t->rows;
    }
    l->shape[l->n_dim - 1] = t->cols;
}

static void measure(trace_line *l, const weft_trace_tensor *t)
{
    double sum = 0;
    int64_t n = 0;
    l->min = INFINITY;
    l->max = -INFINITY;
    for (int64_t i = 0; i < t->rows; i++)
        for (int64_t k = 0; k < t->cols; k++) {
            const float x = t->data[i * t->stride + k];
            if (l->n_first < FIRST)
                l->first[l->n_first++] = x;
            if (!isfinite(x))
                continue;
            sum += x;
            l->min = fmin(l->min, x);
            l->max = fmax(l->max, x);
            n++;
        }
    l->mean = n ? sum / (double)n : NAN;
}

/* ---- files for numpy ------------------------------------------------------------------------- */

/* Names are the library's and harmless; a file's name is made to be. */
static void npy_path(const char *dir, const char *name, char *path, size_t size)
{
    const size_t n = (size_t)snprintf(path, size, "%s/%s.npy", dir, name);
    const size_t from = strlen(dir) + 1, to = n < size ? n - 4 : from;
    for (size_t i = from; i < to; i++)
        if (path[i] == '/' || (path[i] == '.' && i == from))
            path[i] = '_';
}

static void npy_write(trace_lines *s, const trace_line *l, const weft_trace_tensor *t)
{
    char path[4096];
    npy_path(s->npy, t->name, path, sizeof path);
    out_file o;
    FILE *f = s->failed[0] ? NULL : out_begin(&o, path);
    bool good = f && cli_npy_header(f, l->n_dim, l->shape);
    for (int64_t i = 0; i < t->rows && good; i++)
        good = fwrite(t->data + i * t->stride, sizeof *t->data, (size_t)t->cols, f) ==
               (size_t)t->cols;
    if (f)
        good = out_end(&o, good);
    if (!good && !s->failed[0])
        snprintf(s->failed, sizeof s->failed, "%.3000s: %s", path, strerror(errno));
}

/* ---- during the forward ---------------------------------------------------------------------- */

void trace_lines_add(trace_lines *s, const weft_trace_tensor *t)
{
    if (s->no_memory)
        return;
    if (s->n == s->room) {
        const int64_t room = s->room ? 2 * s->room : 256;
        trace_line *longer = cli_grow(s->at, (size_t)room * sizeof *longer, "the trace");
        s->no_memory = !longer;
        if (!longer)
            return;
        s->at = longer;
        s->room = room;
    }
    trace_line *l = &s->at[s->n++];
    *l = (trace_line){ .op = t->op, .formula = t->formula, .flops = t->flops };
    for (int i = 0; i < t->n_input && i < 8; i++)
        snprintf(l->input[l->n_input++], sizeof l->input[0], "%s", t->inputs[i]);
    snprintf(l->name, sizeof l->name, "%s", t->name);
    set_shape(l, t, s->n_head);
    measure(l, t);
    if (s->npy)
        npy_write(s, l, t);
}

/* ---- for reading ----------------------------------------------------------------------------- */

typedef struct widths {
    int name, op, shape;
} widths;

static widths measure_columns(const trace_lines *s)
{
    widths w = { 4, 2, 5 };
    char text[80];
    for (const trace_line *l = s->at; l < s->at + s->n; l++) {
        const int name = (int)strlen(l->name), op = (int)strlen(l->op),
                  dims = (int)strlen(cli_shape(l->shape, l->n_dim, text, sizeof text));
        w.name = name > w.name ? name : w.name;
        w.op = op > w.op ? op : w.op;
        w.shape = dims > w.shape ? dims : w.shape;
    }
    return w;
}

static void print_line(const trace_line *l, const widths *w, int n_first)
{
    char text[80];
    printf("%s%-*s%s %-*s %*s", cli_style(stdout, STYLE_BOLD), w->name, l->name,
           cli_style(stdout, STYLE_PLAIN), w->op, l->op, w->shape,
           cli_shape(l->shape, l->n_dim, text, sizeof text));
    cli_print_number(l->mean);
    cli_print_number(l->min);
    cli_print_number(l->max);
    for (int i = 0; i < l->n_first && i < n_first; i++)
        cli_print_number((double)l->first[i]);
    putchar('\n');
}

/* Each op once, in the order in which they came. */
static void print_formulas(const trace_lines *s, int width)
{
    for (const trace_line *l = s->at; l < s->at + s->n; l++) {
        const trace_line *x = s->at;
        while (x < l && strcmp(x->op, l->op) != 0)
            x++;
        if (x == l)
            printf("%s%-*s%s  %s\n", cli_style(stdout, STYLE_BOLD), width, l->op,
                   cli_style(stdout, STYLE_PLAIN), l->formula);
    }
}

/* As many of the first numbers as the screen has room for, but one. */
void trace_lines_print(const trace_lines *s)
{
    const widths w = measure_columns(s);
    const int taken = w.name + 1 + w.op + 1 + w.shape + 3 * (CLI_NUMBER + 1);
    const int fit = (cli_columns(stdout) - taken) / (CLI_NUMBER + 1);
    const int n_first = fit < 1 ? 1 : fit > FIRST ? FIRST : fit;
    printf("%s%-*s %-*s %*s %*s %*s %*s %*s%s\n", cli_style(stdout, STYLE_PALE), w.name, "name",
           w.op, "op", w.shape, "shape", CLI_NUMBER, "mean", CLI_NUMBER, "min", CLI_NUMBER, "max",
           CLI_NUMBER, "first", cli_style(stdout, STYLE_PLAIN));
    for (const trace_line *l = s->at; l < s->at + s->n; l++)
        print_line(l, &w, n_first);
    putchar('\n');
    print_formulas(s, w.op);
}

/* ---- for programs ---------------------------------------------------------------------------- */

static void json_line(const trace_line *l)
{
    cli_json_object(NULL);
    cli_json_string("name", l->name);
    cli_json_string("op", l->op);
    cli_json_string("formula", l->formula);
    cli_json_list("shape");
    for (int d = 0; d < l->n_dim; d++)
        cli_json_int(NULL, l->shape[d]);
    cli_json_end();
    cli_json_list("inputs");
    for (int i = 0; i < l->n_input; i++)
        cli_json_string(NULL, l->input[i]);
    cli_json_end();
    cli_json_real("flops", l->flops, 9);
    cli_json_real("mean", l->mean, 9);
    cli_json_real("min", l->min, 9);
    cli_json_real("max", l->max, 9);
    cli_json_list("first");
    for (int i = 0; i < l->n_first; i++)
        cli_json_real(NULL, (double)l->first[i], 9);
    cli_json_end();
    cli_json_end();
}

void trace_lines_json(const trace_lines *s)
{
    for (const trace_line *l = s->at; l < s->at + s->n; l++)
        json_line(l);
}
