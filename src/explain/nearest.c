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

weft_status nearest_find(nearest *q, const tensor *table, const kernels *k, mem *m, weft_error *err)
{
    const int64_t D = cols(table);
    real *x = mem_zalloc(m, (size_t)(MOST_ASKED + 1), (size_t)D * sizeof *x, "nearest tokens", err);
    if (!x)
        return err->code;
    real inverse[MOST_ASKED], *y = x + MOST_ASKED * D;
    for (int a = 0; a < q->n; a++) {
        weight_row(table, q->asked[a], x + a * D);
        inverse[a] = inverse_length(k, x + a * D, D);
        q->n_best[a] = 0;
    }
    for (int64_t i = 0; i < rows(table); i++) {
        weight_row(table, i, y);
        const real one = inverse_length(k, y, D);
        for (int a = 0; a < q->n; a++)
            if (q->asked[a] != i)
                offer(q->best[a], &q->n_best[a],
                      (near){ i, k->dot(x + a * D, y, D) * inverse[a] * one });
    }
    mem_free(m, x);
    return WEFT_OK;
}
