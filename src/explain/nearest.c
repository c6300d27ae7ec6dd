/* nearest.c - nearest rows by cosine, cos(a, b) = a . b / (|a| |b|). */
#include "explain/nearest.h"

#include "explain/subject.h"

/* Rows of zeros point nowhere: their cosines are 0. */
static real inverse_length(const kernels *k, const real *x, int64_t n)
{
    const real squares = k->dot(x, x, n);
    return squares > 0 ? 1 / sqrt(squares) : 0;
}

static void offer(near *best, int *n, near it)
{
    int at = *n;
    while (at > 0 && best[at - 1].cosine < it.cosine)
        at--;
    if (at == N_NEAR)
        return;
    *n += *n < N_NEAR;
    for (int i = *n - 1; i > at; i--)
        best[i] = best[i - 1];
    best[at] = it;
}

#define SLICES 16 /* of the table; in each of them the best are found alone */

typedef struct finding {
    const tensor *table;
    const kernels *kern;
    const nearest *asked;
    real *x; /* [MOST_ASKED + SLICES, cols] the asked rows, and one for each slice */
    real inverse[MOST_ASKED];
    nearest slice[SLICES];
} finding;

static void find_in_slice(void *arg, int64_t at)
{
    finding *f = arg;
    nearest *q = &f->slice[at];
    const int64_t D = cols(f->table), n = rows(f->table);
    real *y = f->x + (MOST_ASKED + at) * D;
    for (int64_t i = at * n / SLICES; i < (at + 1) * n / SLICES; i++) {
        weight_row(f->table, i, y);
        const real one = inverse_length(f->kern, y, D);
        for (int a = 0; a < f->asked->n; a++)
            if (f->asked->asked[a] != i)
                offer(q->best[a], &q->n_best[a],
                      (near){ i, f->kern->dot(f->x + a * D, y, D) * f->inverse[a] * one });
    }
}

/* In the order of rows, so that ties stay in it. */
static void merge(const finding *f, nearest *q)
{
    for (int a = 0; a < q->n; a++) {
        q->n_best[a] = 0;
        for (int at = 0; at < SLICES; at++)
            for (int i = 0; i < f->slice[at].n_best[a]; i++)
                offer(q->best[a], &q->n_best[a], f->slice[at].best[a][i]);
    }
}

weft_status nearest_find(nearest *q, const tensor *table, const kernels *k, pool *threads, mem *m,
                         weft_error *err)
{
    const int64_t D = cols(table);
    finding f = { .table = table, .kern = k, .asked = q };
    f.x = mem_zalloc(m, MOST_ASKED + SLICES, (size_t)D * sizeof *f.x, "nearest tokens", err);
    if (!f.x)
        return err->code;
    for (int a = 0; a < q->n; a++) {
        weight_row(table, q->asked[a], f.x + a * D);
        f.inverse[a] = inverse_length(k, f.x + a * D, D);
    }
    pool_run(threads, SLICES, find_in_slice, &f);
    merge(&f, q);
    mem_free(m, f.x);
    return WEFT_OK;
}
