/* record.c - fills record.h's record while a forward runs. Allocation happens between ops, outside
 * of apply()'s guard. */
#include "explain/record.h"

#include "base/utf8.h"
#include "ops/maps.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* "blk.3.ffn_up" is of layer 3; beside an encoder of six layers, "dec.blk.3.ffn_up" is of layer 9. */
static void place(const record *s, seen *t)
{
    const char *block = strstr(t->name, "blk.");
    const int64_t before = strncmp(t->name, "dec.", 4) == 0 ? s->n_layer_src : 0;
    int layer;
    t->layer = block && sscanf(block, "blk.%d.", &layer) == 1 ? before + layer : -1;
}

#define LANES 8

/* Sum, sum of squares, extremes and number of the finite values of a row. */
typedef struct row_stats {
    double sum, squares, min, max;
    int64_t n;
} row_stats;

static row_stats measure_slowly(const real *x, int64_t n)
{
    row_stats s = { 0, 0, INFINITY, -INFINITY, 0 };
    for (int64_t k = 0; k < n; k++) {
        const double v = (double)x[k];
        if (!isfinite(v))
            continue;
        s.sum += v;
        s.squares += v * v;
        s.min = v < s.min ? v : s.min;
        s.max = v > s.max ? v : s.max;
        s.n++;
    }
    return s;
}

/* In lanes, because a trace shows a hundred times the numbers of a page. */
static row_stats measure_row(const real *x, int64_t n)
{
    double sum[LANES] = { 0 }, squares[LANES] = { 0 };
    const int64_t whole = n / LANES * LANES;
    row_stats s = measure_slowly(x + whole, n - whole);
    real min[LANES], max[LANES];
    for (int j = 0; j < LANES; j++)
        min[j] = max[j] = whole ? x[j] : 0;
    for (int64_t k = 0; k < whole; k += LANES)
        for (int j = 0; j < LANES; j++) {
            min[j] = x[k + j] < min[j] ? x[k + j] : min[j];
            max[j] = x[k + j] > max[j] ? x[k + j] : max[j];
        }
    for (int64_t k = 0; k < whole; k += LANES)
        for (int j = 0; j < LANES; j++) {
            sum[j] += (double)x[k + j];
            squares[j] += (double)x[k + j] * (double)x[k + j];
        }
    for (int j = 0; j < LANES && whole; j++) {
        s.sum += sum[j];
        s.squares += squares[j];
        s.min = fmin(s.min, (double)min[j]);
        s.max = fmax(s.max, (double)max[j]);
    }
    s.n += whole;
    return isfinite(s.squares) && s.n == n ? s : measure_slowly(x, n);
}

typedef struct look {
    const tensor *x;
    row_stats *stats;
    float *data; /* of the last n_kept rows */
    int64_t n_kept;
} look;

static void look_rows(const run *r, const void *ctx, int64_t first, int64_t end)
{
    (void)r;
    const look *l = ctx;
    const int64_t n_col = cols(l->x), kept = rows(l->x) - l->n_kept;
    for (int64_t i = first; i < end; i++) {
        const real *x = row(l->x, i);
        l->stats[i] = measure_row(x, n_col);
        for (int64_t k = 0; k < n_col && i >= kept; k++)
            l->data[(i - kept) * n_col + k] = (float)x[k];
    }
}

static void sum_up(seen *t, const row_stats *s)
{
    double sum = 0;
    int64_t n = 0;
    t->min = INFINITY;
    t->max = -INFINITY;
    for (int64_t i = 0; i < t->rows; i++) {
        sum += s[i].sum;
        n += s[i].n;
        t->min = fmin(t->min, s[i].min);
        t->max = fmax(t->max, s[i].max);
        t->row_mean[i] = s[i].sum / (double)t->cols;
        t->mean_square[i] = s[i].squares / (double)t->cols;
    }
    t->mean = n ? sum / (double)n : NAN;
}

bool record_keeps(const record *s, int64_t layer)
{
    const bool second = s->n_layer_src > 0 && layer >= s->n_layer_src;
    return layer < 0 || s->keep_all || (second ? layer - s->n_layer_src : layer) == s->keep_layer;
}

static bool is_map(const seen *t)
{
    return strcmp(t->op->name, "probs") == 0;
}

/* The last rows that are kept: all or none. */
static int64_t rows_kept(const record *s, const seen *t)
{
    return record_keeps(s, t->layer) || (s->keep_maps && is_map(t)) ? t->rows : 0;
}

static bool stats_fit(record *s, int64_t n)
{
    if (n <= s->stats_room)
        return true;
    mem_free(s->mem, s->stats);
    s->stats = mem_zalloc(s->mem, (size_t)n, sizeof *s->stats, "the page", s->err);
    s->stats_room = s->stats ? n : 0;
    return s->stats;
}

static bool keep(record *s, seen *t, const run *r, const tensor *x)
{
    t->n_kept = rows_kept(s, t);
    t->mean_square = mem_zalloc(s->mem, (size_t)t->rows, 2 * sizeof *t->mean_square, "the page",
                                s->err);
    if (!t->mean_square || !stats_fit(s, t->rows))
        return false;
    t->row_mean = t->mean_square + t->rows;
    if (t->n_kept > 0) {
        t->data = mem_alloc(s->mem, (size_t)(t->n_kept * t->cols) * sizeof *t->data, "the page",
                            s->err);
        if (!t->data)
            return false;
    }
    parallel(r, t->rows, 4 * t->cols, look_rows, &(look){ x, s->stats, t->data, t->n_kept });
    sum_up(t, s->stats);
    return true;
}

static seen *append(record *s)
{
    if (s->n == s->room) {
        const int64_t room = s->room ? 2 * s->room : 64;
        seen *more = mem_zalloc(s->mem, (size_t)room, sizeof *more, "the page", s->err);
        if (!more)
            return NULL;
        if (s->n)
            memcpy(more, s->at, (size_t)s->n * sizeof *more);
        mem_free(s->mem, s->at);
        s->at = more;
        s->room = room;
    }
    return &s->at[s->n++];
}

/* A sum in place has the name of its output as an input: it is the sum before it. */
static const char *input_name(const record *s, const node *n, int i)
{
    if (strcmp(n->in[i]->name, n->out->name) == 0)
        for (int64_t k = s->n - 1; k-- > 0;)
            if (s->at[k].op == n->op)
                return s->at[k].name;
    return n->in[i]->name;
}

static void take_settings(seen *t, const run *r, const node *n)
{
    if (n->op == &attention_scores_op)
        t->attention = *(const attn *)n->arg;
    if (strcmp(n->op->name, "rope") == 0)
        t->rope = rope_spec_in(r, n->arg);
    if (strcmp(n->op->name, "embed") == 0)
        t->table = n->in[0];
    if (strstr(n->op->name, "norm"))
        t->eps = (double)n->f[0];
}

/* A block ends with a sum, with a norm of it, or with a state; later ones of the same layer replace
 * earlier ones. */
static void keep_stream(record *s, const seen *t, const tensor *x)
{
    const int64_t layer = t->layer - s->n_layer_src;
    const bool ends = strcmp(t->op->name, "residual") == 0 || strstr(t->op->name, "norm") ||
                      strcmp(t->op->name, "gru_attend") == 0;
    if (!s->stream || layer < 0 || layer >= s->n_layer || t->cols != s->d_model || !ends)
        return;
    for (int64_t k = 0; k < t->cols; k++)
        s->stream[layer * t->cols + k] = (float)row(x, t->rows - 1)[k];
}

/* A new entry, without numbers. */
static seen *begin(record *s, const op *by, const tensor *x)
{
    seen *t = s->failed || rows(x) == 0 ? NULL : append(s);
    s->failed = s->failed || (!t && rows(x) > 0);
    if (!t)
        return NULL;
    memcpy(t->name, x->name, NAME_BYTES);
    t->op = by;
    t->rows = rows(x);
    t->cols = cols(x);
    return t;
}

seen *record_put(record *s, const run *r, const op *by, const tensor *x)
{
    seen *t = begin(s, by, x);
    if (!t)
        return NULL;
    place(s, t);
    s->failed = !keep(s, t, r, x);
    return s->failed ? NULL : t;
}

void record_add(void *ud, const run *r, const node *n)
{
    record *s = ud;
    seen *t = begin(s, n->op, n->out);
    if (!t)
        return;
    t->flops = n->op->cost(r, n).flops;
    for (int i = 0; i < MAX_INPUT; i++)
        if (n->in[i])
            memcpy(t->input[t->n_input++], input_name(s, n, i), NAME_BYTES);
    take_settings(t, r, n);
    if (is_map(t)) {
        const seen *scores = record_find(s, t->input[0]);
        t->attention = scores ? scores->attention : t->attention;
    }
    place(s, t);
    keep_stream(s, t, n->out);
    s->failed = !keep(s, t, r, n->out);
}

void record_free(record *s)
{
    for (int64_t i = 0; i < s->n; i++) {
        mem_free(s->mem, s->at[i].mean_square);
        mem_free(s->mem, s->at[i].data);
    }
    mem_free(s->mem, s->at);
    mem_free(s->mem, s->stats);
    *s = (record){ 0 };
}

const seen *record_find(const record *s, const char *name)
{
    for (int64_t i = s->n; i-- > 0;)
        if (strcmp(s->at[i].name, name) == 0)
            return &s->at[i];
    return NULL;
}

const seen *record_in(const record *s, int64_t layer, const char *rest)
{
    char name[NAME_BYTES];
    const bool second = s->n_layer_src > 0 && layer >= s->n_layer_src;
    snprintf(name, sizeof name, "%sblk.%d.%s",
             s->n_layer_src == 0 ? ""
             : second            ? "dec."
                                 : "enc.",
             (int)(second ? layer - s->n_layer_src : layer), rest);
    return record_find(s, name);
}

const float *seen_row(const seen *t, int64_t i)
{
    const int64_t first = t ? t->rows - t->n_kept : 0;
    return t && t->data && i >= first && i < t->rows ? t->data + (i - first) * t->cols : NULL;
}
