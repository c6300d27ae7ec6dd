/* score.h - loss of a known token from a row of logits, and KL divergence from the same row of
 * another model. Shared by verify and eval for encoders and encoder-decoders. */
#ifndef WEFT_CLI_SCORE_H
#define WEFT_CLI_SCORE_H

#include "cli.h"

typedef struct row_scores {
    int64_t n, n_same;     /* rows; those where both models hold the same number largest */
    double nll, other_nll; /* sums over rows */
    double kl, kl_max;
    double *each; /* [n] divergences */
    int64_t room;
    double *p, *q; /* [width] probabilities of the row */
} row_scores;

/* Room for rows of `width` numbers; false without memory. To be ended either way. */
bool score_begin(row_scores *s, int64_t width);
void score_end(row_scores *s);

/* One row of a model, and of another model unless `other` is NULL. token -1: none is known. */
bool score_row(row_scores *s, const float *z, const float *other, int64_t width, int64_t token);

/* Means, as weft_evaluate gives them. */
void score_result(const row_scores *s, weft_evaluation *to);

/* The cosine of two vectors; 1 where both are zero. */
double score_cosine(const float *a, const float *b, int64_t n);

#endif
