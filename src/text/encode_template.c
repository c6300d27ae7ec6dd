/* encode_template.c - processes ids after the model: truncation, the template's tokens, padding.
 * Does it as Hugging Face's tokenizers do, in the same order. */
#include "text/encoder.h"

#include <string.h>

bool encoder_put_span(encoder *e, uint32_t from, uint32_t to)
{
    const size_t bytes = (e->n_span + 1) * sizeof *e->span_from;
    e->span_from = scratch_grow(&e->from, bytes, e->mem, e->err);
    e->span_to = e->span_from ? scratch_grow(&e->to, bytes, e->mem, e->err) : NULL;
    if (!e->span_to)
        return false;
    e->span_from[e->n_span] = from;
    e->span_to[e->n_span] = to;
    e->n_span++;
    return true;
}

/* Inserts an id n times; later ids move back. */
static bool insert(encoder *e, size_t at, uint32_t id, size_t n)
{
    if (!ids_reserve(&e->ids, n, e->err))
        return false;
    for (size_t i = 0; e->spans && i < n; i++)
        if (!encoder_put_span(e, 0, 0))
            return false;
    uint32_t *x = e->ids.id;
    const size_t bytes = (e->ids.n - at) * sizeof *x;
    memmove(x + at + n, x + at, bytes);
    for (size_t i = 0; i < n; i++)
        x[at + i] = id;
    if (e->spans) {
        memmove(e->span_from + at + n, e->span_from + at, bytes);
        memmove(e->span_to + at + n, e->span_to + at, bytes);
        memset(e->span_from + at, 0, n * sizeof *x);
        memset(e->span_to + at, 0, n * sizeof *x);
    }
    e->ids.n += n;
    return true;
}

static void drop(encoder *e, size_t at, size_t n)
{
    uint32_t *x = e->ids.id;
    const size_t bytes = (e->ids.n - at - n) * sizeof *x;
    memmove(x + at, x + at + n, bytes);
    if (e->spans) {
        memmove(e->span_from + at, e->span_from + at + n, bytes);
        memmove(e->span_to + at, e->span_to + at + n, bytes);
        e->n_span -= n;
    }
    e->ids.n -= n;
}

int template_count(const template *m)
{
    int n = 0;
    for (int i = 0; i < m->n; i++)
        n += m->slot[i].kind == SLOT_TOKEN;
    return n;
}

void template_truncate(encoder *e, size_t *n_a, size_t *n_b, size_t most)
{
    size_t a = *n_a, b = *n_b;
    if (a + b <= most)
        return;
    if (b == 0) {
        a = most;
    } else if (a <= b) {
        b = a > most ? a : most - a > a ? most - a : a;
        if (a + b > most)
            b = (a = most / 2) + most % 2;
    } else {
        a = b > most ? b : most - b > b ? most - b : b;
        if (a + b > most)
            a = (b = most / 2) + most % 2;
    }
    const bool left = e->t->fit.from_left;
    drop(e, left ? *n_a : *n_a + b, *n_b - b);
    drop(e, left ? 0 : a, *n_a - a);
    *n_a = a;
    *n_b = b;
}

bool template_apply(encoder *e, const template *m, size_t n_a, size_t n_b, bool tokens)
{
    size_t at = 0;
    uint8_t *type = scratch_grow(&e->type, n_a + n_b + MAX_SLOT, e->mem, e->err);
    if (!type)
        return false;
    for (int i = 0; i < m->n; i++) {
        const slot *s = &m->slot[i];
        const size_t n = s->kind == SLOT_TOKEN ? tokens : s->kind == SLOT_A ? n_a : n_b;
        if (s->kind == SLOT_TOKEN && tokens && !insert(e, at, s->id, 1))
            return false;
        memset(type + at, s->type, n);
        at += n;
    }
    return true;
}

bool encoder_pad(encoder *e)
{
    const size_t n = e->ids.n, multiple = (size_t)e->t->fit.pad_multiple;
    const bool left = e->t->fit.pad_left;
    size_t want = e->t->fit.pad_to ? (size_t)e->t->fit.pad_to : n;
    if (multiple && want % multiple)
        want += multiple - want % multiple;
    if (want <= n)
        return true;
    uint8_t *type = scratch_grow(&e->type, want, e->mem, e->err);
    if (!type)
        return false;
    if (left)
        memmove(type + want - n, type, n);
    memset(left ? type : type + n, (int)e->t->fit.pad_type, want - n);
    return insert(e, left ? 0 : n, e->t->fit.pad_id, want - n);
}

bool template_has_types(const template *m)
{
    for (int i = 0; i < m->n; i++)
        if (m->slot[i].type)
            return true;
    return false;
}
