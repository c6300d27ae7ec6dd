/* lens.c - a forward without a body. */
#include "engine/lens.h"

#include "engine/forward.h"

#include <string.h>

typedef struct lens {
    const float *x;
    float *logits;
    int64_t n, n_out;
} lens;

static void lens_forward(run *r, const model *m, const void *how)
{
    const lens *l = how;
    tensor *x = tensor_new(r, l->n, m->d_model);
    for (int64_t i = 0; i < l->n * m->d_model && !is_dry(r); i++)
        row(x, 0)[i] = (real)l->x[i];
    m->arch->family->end(r, m, x);
}

static void take_rows_of(void *ud, const tensor *z, int64_t first)
{
    const lens *l = ud;
    for (int64_t i = 0; i < rows(z); i++)
        for (int64_t k = 0; k < l->n_out; k++)
            l->logits[(first + i) * l->n_out + k] = (float)row(z, i)[k];
}

/* A sequence for each row: none sees another. */
static void fill(batch *b, int64_t n)
{
    b->n_row = b->n_seq = b->n_wanted = (int)n;
    for (int i = 0; i < (int)n; i++) {
        b->row[i] = (batch_row){ .seq = i, .wanted = true };
        b->seq[i] = (sequence){ .first = i, .n = 1, .source = -1 };
    }
}

weft_status lens_logits(const model *m, pool *threads, const float *x, int64_t n, float *logits,
                        weft_error *err)
{
    mem *from = &m->host->mem;
    lens l = { x, logits, n, m->n_out };
    forward_plan plan;
    batch b = { 0 };
    run r = { 0 };
    weft_status status = batch_init(&b, (int)n, (int)n, from, err);
    if (status == WEFT_OK) {
        fill(&b, n);
        status = forward_predict(m, &b, lens_forward, &l, NULL, &plan, err);
    }
    if (status == WEFT_OK)
        status = forward_make(&r, m, &plan, NULL, threads, take_rows_of, &l, err);
    if (status == WEFT_OK) {
        run_begin(&r, &b);
        lens_forward(&r, m, &l);
        run_free(&r);
    }
    batch_free(&b, from);
    return status;
}
