/* hand.c - writes hand.h's products. */
#include "explain/hand.h"

#include "ops/product.h"

#include <string.h>

#define MOST_STEPS 8 /* between a product and what attention reads */

static bool is_product(const seen *t)
{
    return t && strcmp(t->op->name, "linear") == 0;
}

const seen *product_behind(const record *s, const seen *t, const seen **read)
{
    *read = t;
    for (int i = 0; i < MOST_STEPS && t && !is_product(t); i++) {
        *read = t;
        t = t->n_input > 0 ? record_find(s, t->input[0]) : NULL;
    }
    return is_product(t) ? t : NULL;
}

/* ---- weights --------------------------------------------------------------------------------- */

static bool has_rows(const tensor *w, columns c)
{
    return w && c.n > 0 && c.first >= 0 && c.step >= 0 && c.first + (c.n - 1) * c.step < rows(w);
}

void put_weight_rows(const subject *s, document *d, const char *key, const char *name, columns c)
{
    const tensor *w = weight_named(s->model, name);
    if (!has_rows(w, c))
        return;
    const int64_t D = cols(w);
    mem *m = d->b->mem;
    real *x = mem_zalloc(m, (size_t)D, sizeof *x, "the page", d->b->err);
    float *f = mem_zalloc(m, (size_t)(c.n * D), sizeof *f, "the page", d->b->err);
    for (int64_t i = 0; x && f && i < c.n; i++) {
        weight_row(w, c.first + i * c.step, x);
        for (int64_t k = 0; k < D; k++)
            f[i * D + k] = (float)x[k];
    }
    if (x && f)
        doc_floats(d, key, f, c.n * D);
    d->b->failed = d->b->failed || !x || !f;
    mem_free(m, x);
    mem_free(m, f);
}

/* Numbers of a bias, which is one row. */
static void put_bias(const subject *s, document *d, const char *name, columns c)
{
    const tensor *b = weight_named(s->model, name);
    real *x = b ? mem_zalloc(d->b->mem, (size_t)cols(b), sizeof *x, "the page", d->b->err) : NULL;
    if (x) {
        weight_row(b, 0, x);
        doc_list(d, "b");
        for (int64_t i = 0; i < c.n; i++)
            doc_real(d, NULL, (double)x[c.first + i * c.step]);
        doc_end(d);
    }
    d->b->failed = d->b->failed || (b && !x);
    mem_free(d->b->mem, x);
}

/* ---- products -------------------------------------------------------------------------------- */

void put_product(const subject *s, document *d, const char *key, const seen *made, const seen *y,
                 columns c)
{
    const seen *x = is_product(made) ? record_find(s->seen, made->input[0]) : NULL;
    const tensor *w = x ? weight_named(s->model, made->input[1]) : NULL;
    if (!has_rows(w, c) || !x->data)
        return;
    doc_object(d, key);
    doc_text(d, "weight", w->name);
    doc_text(d, "type", w->type->name);
    doc_text(d, "class", product_class(w));
    doc_int(d, "first", c.first);
    doc_int(d, "step", c.step);
    doc_tensor(d, "x", x);
    doc_tensor(d, "y", y);
    put_weight_rows(s, d, "w", w->name, c);
    if (made->n_input > 2)
        put_bias(s, d, made->input[2], c);
    doc_end(d);
}
