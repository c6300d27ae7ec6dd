/* logprob.h - log probabilities from logits: log p = z - log sum exp z, in double. */
#ifndef WEFT_ENGINE_LOGPROB_H
#define WEFT_ENGINE_LOGPROB_H

#include "weft.h"

/* -inf if all are -inf. */
double logits_log_sum_exp(const float *z, int64_t n);

/* The k best of n, best first, the lower id among equals; returns how many were written. */
int64_t logprob_top(const float *z, int64_t n, int64_t k, weft_logprob *out);

#endif
