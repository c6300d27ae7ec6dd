/* importance.c - watches every op of an evaluation: where an activation is multiplied with a
 * parameter, adds up the squares of its columns. */
#include "engine/importance.h"

#include "base/sort.h"
#include "engine/evaluate.h"

#include <math.h>
#include <string.h>

/* A column that the text never used still counts this much, as another text may use it. */
#define LEAST 0.01f

static int order_address(const void *a, const void *b)
{
    const uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
    return (x > y) - (x < y);
}

/* The place of a parameter in the sorted list, or -1. */
static int64_t place_of(const importance *i, const tensor *t)
{
    int64_t low = 0, high = i->model->n_param;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (order_address(i->by_address[middle], t) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < i->model->n_param && i->by_address[low] == t ? low : -1;
}

static void add_squares(float *sum, const tensor *x)
{
    for (int64_t r = 0; r < rows(x); r++) {
        const real *v = row(x, r);
        for (int64_t k = 0; k < cols(x); k++)
            sum[k] += (float)(v[k] * v[k]);
    }
}

/* The first input of a product is the activation. Experts multiply some of its rows, which are
 * counted as all; their square matrices could be either side of the activation and are left out. */
static void watch(void *ud, const run *r, const node *n)
{
    importance *i = ud;
    (void)r;
    const tensor *x = n->in[0];
    for (int64_t k = 1; x && k < n_input(n); k++) {
        const tensor *w = node_input(n, k);
        if (!w || !w->multiplied || w->n_dim != 2 || cols(w) != cols(x) ||
            (k >= MAX_INPUT && rows(w) == cols(w)))
            continue;
        const int64_t at = place_of(i, w);
        if (at < 0 || !i->of[at])
            continue;
        add_squares(i->of[at], x);
        i->seen[at] += rows(x);
    }
}

/* Means, relative to the mean of all columns; unknown if nothing, or nothing finite, was seen. */
static void finish(importance *i)
{
    for (int64_t p = 0; p < i->model->n_param; p++) {
        const int64_t n = i->of[p] ? cols(i->by_address[p]) : 0;
        double sum = 0;
        for (int64_t k = 0; k < n; k++)
            sum += (double)i->of[p][k];
        const bool known = i->seen[p] > 0 && sum > 0 && isfinite(sum);
        for (int64_t k = 0; known && k < n; k++) {
            const float share = (float)((double)i->of[p][k] * (double)n / sum);
            i->of[p][k] = share > LEAST ? share : LEAST;
        }
        i->n_known += known;
        if (known || !i->of[p])
            continue;
        mem_free(&i->model->host->mem, i->of[p]);
        i->of[p] = NULL;
    }
}

/* From the order of addresses to that of the model. */
static weft_status in_model_order(importance *i, weft_error *err)
{
    const model *m = i->model;
    float **of = mem_zalloc(&m->host->mem, (size_t)m->n_param, sizeof *of, "importance", err);
    if (!of)
        return WEFT_ENOMEM;
    for (int64_t p = 0; p < m->n_param; p++)
        of[p] = i->of[place_of(i, m->param[p])];
    mem_free(&m->host->mem, i->of);
    i->of = of;
    return WEFT_OK;
}

static weft_status make_room(importance *i, weft_error *err)
{
    const model *m = i->model;
    mem *from = &m->host->mem;
    const size_t n = (size_t)m->n_param;
    i->of = mem_zalloc(from, n, sizeof *i->of, "importance", err);
    i->seen = i->of ? mem_zalloc(from, n, sizeof *i->seen, "importance", err) : NULL;
    i->by_address = i->seen ? mem_zalloc(from, n, sizeof *i->by_address, "importance", err) : NULL;
    if (!i->by_address)
        return WEFT_ENOMEM;
    memcpy(i->by_address, m->param, n * sizeof *i->by_address);
    sort_pointers((void **)i->by_address, m->n_param, order_address);
    for (int64_t p = 0; p < m->n_param; p++) {
        const tensor *w = i->by_address[p];
        if (!w->multiplied || w->n_dim != 2)
            continue;
        i->of[p] = mem_zalloc(from, (size_t)cols(w), sizeof *i->of[p], "importance", err);
        if (!i->of[p])
            return WEFT_ENOMEM;
    }
    return WEFT_OK;
}

weft_status importance_collect(importance *to, const model *m, const int32_t *ids, int64_t n,
                               const engine_options *o, weft_error *err)
{
    *to = (importance){ .model = m };
    weft_status status = make_room(to, err);
    if (status == WEFT_OK) {
        evaluation e;
        const document text = { ids, n };
        engine_options resolved = *o;
        status = engine_resolve(m, &resolved, err);
        const evaluate_options how = {
            .engine = *o, .stride = resolved.n_ctx, .observe = watch, .observe_ud = to
        };
        if (status == WEFT_OK)
            status = evaluate(m, NULL, &text, 1, &how, &e, err);
    }
    if (status == WEFT_OK) {
        finish(to);
        status = in_model_order(to, err);
    }
    if (status != WEFT_OK)
        importance_free(to);
    return status;
}

void importance_free(importance *i)
{
    mem *from = i->model ? &i->model->host->mem : NULL;
    for (int64_t p = 0; i->of && p < i->model->n_param; p++)
        mem_free(from, i->of[p]);
    if (from) {
        mem_free(from, i->by_address);
        mem_free(from, i->seen);
        mem_free(from, i->of);
    }
    *i = (importance){ 0 };
}
