/* lesson.c - what a tape's observer keeps: the gradient of every op's output, and what attention and the
 * loss have on their way, which exists nowhere. */
#include "explain/lesson.h"

#include "ops/attention_backward.h"
#include "ops/attention_tile.h"
#include "ops/cross_entropy.h"

#include <stdio.h>
#include <string.h>

extern const op attention_op;

/* A header over numbers, named after the output of n and `part`. */
static tensor part_of(const node *n, const char *part, real *at, int64_t n_row, int64_t n_col,
                      int64_t stride)
{
    tensor t = { .n_dim = 2, .shape = { n_row, n_col }, .stride = stride, .data = at };
    snprintf(t.name, sizeof t.name, "%.*s%s", (int)(NAME_BYTES - 1 - strlen(part)), n->out->name,
             part);
    return t;
}

static void put(record *to, const run *r, const node *n, const char *part, real *at,
                const tensor *like)
{
    const tensor t = part_of(n, part, at, rows(like), cols(like), like->stride);
    if (at)
        record_put(to, r, n->op, &t);
}

/* ---- attention ------------------------------------------------------------------------------- */

/* The maps of all queries and heads, T numbers each: p, dp, ds. */
typedef struct maps {
    real *at[3];
    real *dq; /* of one query and head */
} maps;

static bool maps_take(maps *m, lesson *s, int64_t n, int64_t T, int64_t d_key)
{
    for (int i = 0; i < 3; i++)
        m->at[i] = mem_zalloc(s->mem, (size_t)(n * T), sizeof(real), "the page", s->back.err);
    m->dq = mem_zalloc(s->mem, (size_t)d_key, sizeof(real), "the page", s->back.err);
    return m->at[0] && m->at[1] && m->at[2] && m->dq;
}

static void maps_free(maps *m, lesson *s)
{
    for (int i = 0; i < 3; i++)
        mem_free(s->mem, m->at[i]);
    mem_free(s->mem, m->dq);
}

/* Keys of the longest sequence. */
static int64_t most_keys(const run *r, const attn *a)
{
    int64_t T = 1;
    for (int64_t i = 0; i < r->at.batch->n_row; i++) {
        const int64_t end = key_end(r, a, &r->at.batch->row[i]);
        T = end > T ? end : T;
    }
    return T;
}

static void fill_maps(lesson *s, run *r, const node *n, const maps *m, int64_t T)
{
    const attn *a = n->arg;
    const tensor *q = n->in[Q];
    for (int64_t i = 0; i < rows(n->out); i++)
        for (int64_t h = 0; h < a->n_head; h++) {
            const int64_t at = (i * a->n_head + h) * T;
            attention_open(
                r, n, i, h,
                (attention_slopes){ m->at[0] + at, m->at[1] + at, m->at[2] + at, m->dq });
            if (q->grad &&
                memcmp(m->dq, grad_row(q, i) + h * a->d_key, (size_t)a->d_key * sizeof *m->dq) != 0)
                s->as_tape = false;
        }
}

static void see_attention(lesson *s, run *r, const node *n)
{
    static const char *const names[] = { ".p", ".dp", ".ds" };
    const attn *a = n->arg;
    const tensor *q = n->in[Q], *k = n->in[K], *v = values_in_keys(n) ? NULL : n->in[V];
    const int64_t T = most_keys(r, a), n_map = rows(n->out) * a->n_head;
    record *to = &s->inside;
    maps m = { 0 };
    put(to, r, n, ".q", q->data, q);
    put(to, r, n, ".dq", q->grad, q);
    put(to, r, n, ".k", k->data, k);
    put(to, r, n, ".dk", k->grad, k);
    if (v) {
        put(to, r, n, ".v", v->data, v);
        put(to, r, n, ".dv", v->grad, v);
    }
    if (maps_take(&m, s, n_map, T, a->d_key)) {
        fill_maps(s, r, n, &m, T);
        for (int i = 0; i < 3; i++) {
            const tensor t = part_of(n, names[i], m.at[i], n_map, T, T);
            seen *map = record_put(to, r, n->op, &t);
            if (map)
                map->attention = *a;
        }
    } else {
        to->failed = true;
    }
    maps_free(&m, s);
}

/* ---- the loss -------------------------------------------------------------------------------- */

/* Rows with a target have the losses of the op, in their order. */
static void take_losses(lesson *s, const real *loss)
{
    int64_t k = 0;
    for (int64_t i = 0; i < s->n_row; i++)
        if (s->row[i].target != NO_TARGET)
            s->row[i].loss = (float)loss[k++];
}

static void see_loss(lesson *s, run *r, const node *n)
{
    const int64_t n_out = rows(n->in[1]);
    real *loss = mem_zalloc(s->mem, (size_t)s->n_target, sizeof *loss, "the page", s->back.err);
    real *dz = mem_zalloc(s->mem, (size_t)(s->n_slope * n_out), sizeof *dz, "the page",
                          s->back.err);
    s->slope = mem_zalloc(s->mem, (size_t)(s->n_slope * n_out), sizeof *s->slope, "the page",
                          s->back.err);
    s->back.failed = s->back.failed || !loss || !dz || !s->slope;
    if (!s->back.failed) {
        s->n_out = n_out;
        loss_open(r, n, &(loss_open_to){ loss, s->slope_row, s->n_slope, dz });
        take_losses(s, loss);
        for (int64_t i = 0; i < s->n_slope * n_out; i++)
            s->slope[i] = (float)dz[i];
    }
    mem_free(s->mem, loss);
    mem_free(s->mem, dz);
}

/* ---- every op -------------------------------------------------------------------------------- */

/* "blk.3.attention" is of layer 3. */
static bool is_kept(const lesson *s, const node *n)
{
    int layer = -1;
    const char *block = strstr(n->out->name, "blk.");
    return block && sscanf(block, "blk.%d.", &layer) == 1 && record_keeps(&s->back, layer);
}

void lesson_see(void *ud, run *r, const node *n)
{
    lesson *s = ud;
    if (s->back.failed)
        return;
    if (n->op == &linear_cross_entropy_op)
        see_loss(s, r, n);
    else
        put(&s->back, r, n, "", n->out->grad, n->out);
    if (n->op == &attention_op && is_kept(s, n))
        see_attention(s, r, n);
    s->back.failed = s->back.failed || s->inside.failed;
}

bool lesson_fits(const model *m)
{
    return (m->task == WEFT_TASK_GENERATE && m->n_layer_src == 0) || m->task == WEFT_TASK_FILL;
}

void lesson_free(lesson *s)
{
    if (!s->mem)
        return;
    record_free(&s->back);
    record_free(&s->inside);
    mem_free(s->mem, s->row);
    mem_free(s->mem, s->slope_row);
    mem_free(s->mem, s->slope);
    mem_free(s->mem, s->weight);
    *s = (lesson){ 0 };
}
