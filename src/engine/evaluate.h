/* evaluate.h - evaluation: perplexity, and KL divergence from a reference model.
 *
 * A document is evaluated in windows of n_ctx tokens that begin `stride` apart, each with an empty
 * context. Every token except a document's first is scored once, in the first window that reaches
 * it:
 *
 *     tokens    0 1 2 3 4 5 6 7 8 9          n_ctx 4, stride 2
 *     window 0  r r r r                      reads 0..3, scores 1 2 3 4
 *     window 1      r r r r                  reads 2..5, scores 5 6
 *     window 2          r r r r              reads 4..7, scores 7 8
 *     window 3              r r r            reads 6..8, scores 9
 *
 * With a smaller stride, tokens have more context (at least n_ctx - stride, once a document is
 * longer than a window), and evaluation takes longer. Scores are computed in double from a row's
 * logits alone and summed in the order of the tokens, so the result depends neither on threads nor
 * on the batch size. */
#ifndef WEFT_ENGINE_EVALUATE_H
#define WEFT_ENGINE_EVALUATE_H

#include "engine/engine.h"

typedef struct document {
    const int32_t *ids;
    int64_t n;
} document;

/* Sums over the tokens scored so far. `against` is the reference model. */
typedef struct evaluation {
    int64_t n_token, n_total; /* scored, and to be scored in all */
    double nll, against_nll;  /* sum of -log p(token), in nats */
    double kl, kl_max;        /* sum and largest of KL(reference || model) of a token */
    double kl_p99;            /* 99th percentile; set at the end only */
    int64_t n_same;           /* tokens where both models predict the same one */
    bool stopped;             /* stopped by the caller before the end */
} evaluation;

/* Called after every step; false stops. */
typedef bool evaluate_fn(void *ud, const evaluation *so_far);

typedef struct evaluate_options {
    engine_options engine;   /* n_ctx: tokens of a window; n_session is set here */
    const dtype *against_kv; /* options of the reference; NULL: the same */
    int64_t stride;          /* 0: half a window */
    adaption adapted;        /* of the model; the reference has none */
    int64_t loss_numbers;    /* logits that exist at once, as in run.h */
    observe_fn *observe;     /* sees every op of the model, as in run.h; or NULL */
    void *observe_ud;
    evaluate_fn *progress;
    void *ud;
} evaluate_options;

/* Scores m on documents, compared with `against` unless that is NULL. */
weft_status evaluate(const model *m, const model *against, const document *d, int64_t n,
                     const evaluate_options *o, evaluation *result, weft_error *err);

#endif
