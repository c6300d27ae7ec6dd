/* score.c - losses and divergences of rows of logits, in double, row by row. */
#include "score.h"

#include "texts.h"

#include <stdlib.h>

bool score_begin(row_scores *s, int64_t width)
{
    *s = (row_scores){ 0 };
    s->p = cli_alloc((size_t)width, sizeof *s->p, "probabilities");
    s->q = s->p ? cli_alloc((size_t)width, sizeof *s->q, "probabilities") : NULL;
    return s->q != NULL;
}

void score_end(row_scores *s)
{
    cli_free(s->each);
    cli_free(s->q);
    cli_free(s->p);
    *s = (row_scores){ 0 };
}

static int64_t largest(const float *z, int64_t n)
{
    int64_t best = 0;
    for (int64_t k = 1; k < n; k++)
        best = z[k] > z[best] ? k : best;
    return best;
}

/* KL(q || p): what is lost where p stands for q. */
static double divergence(const double *q, const double *p, int64_t n)
{
    double sum = 0;
    for (int64_t k = 0; k < n; k++)
        if (q[k] > 0)
            sum += q[k] * log(q[k] / p[k]);
    return sum > 0 ? sum : 0; /* rounding may leave it below */
}

static bool keep(row_scores *s, double kl)
{
    if (s->n == s->room) {
        const int64_t room = s->room ? s->room + s->room / 2 : 256;
        double *longer = cli_grow(s->each, (size_t)room * sizeof *longer, "divergences");
        if (!longer)
            return false;
        s->each = longer;
        s->room = room;
    }
    s->each[s->n] = kl;
    return true;
}

bool score_row(row_scores *s, const float *z, const float *other, int64_t width, int64_t token)
{
    double kl = 0;
    texts_softmax(z, width, s->p);
    if (token >= 0)
        s->nll -= log(s->p[token]);
    if (other) {
        texts_softmax(other, width, s->q);
        kl = divergence(s->q, s->p, width);
        s->n_same += largest(z, width) == largest(other, width);
        if (token >= 0)
            s->other_nll -= log(s->q[token]);
    }
    if (!keep(s, kl))
        return false;
    s->kl += kl;
    s->kl_max = kl > s->kl_max ? kl : s->kl_max;
    s->n++;
    return true;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void score_result(const row_scores *s, weft_evaluation *to)
{
    const double n = (double)s->n;
    to->n_token = s->n;
    if (s->n == 0)
        return;
    qsort(s->each, (size_t)s->n, sizeof *s->each, ascending);
    to->nll = s->nll / n;
    to->perplexity = exp(to->nll);
    to->against_nll = s->other_nll / n;
    to->against_perplexity = exp(to->against_nll);
    to->kl_mean = s->kl / n;
    to->kl_max = s->kl_max;
    to->kl_p99 = s->each[(99 * s->n - 1) / 100];
    to->same_top = (double)s->n_same / n;
}

double score_cosine(const float *a, const float *b, int64_t n)
{
    double ab = 0, aa = 0, bb = 0;
    for (int64_t k = 0; k < n; k++) {
        ab += (double)a[k] * (double)b[k];
        aa += (double)a[k] * (double)a[k];
        bb += (double)b[k] * (double)b[k];
    }
    return aa == 0 && bb == 0 ? 1 : ab / sqrt(aa * bb);
}
