/* tops.h - the most probable tokens, or labels, that rows of logits say. */
#ifndef WEFT_CLI_TOPS_H
#define WEFT_CLI_TOPS_H

#include "cli.h"

/* Who knows what an id means: the tokenizer, or the model's labels. Both may be NULL. */
typedef struct id_names {
    const weft_tokenizer *tokenizer;
    const weft_model *labels;
} id_names;

/* The k most probable ids of n_row rows; a row without logits has none. */
typedef struct tops {
    int64_t k, n_row;
    weft_logprob *at; /* [n_row, k]; cli_free frees it */
    bool *has;        /* [n_row] */
} tops;

/* False without memory. */
bool tops_new(tops *t, int64_t n_row, int64_t k);
void tops_free(tops *t);
void tops_set(tops *t, int64_t row, const float *logits, int64_t n);

/* The k most probable of n ids, in descending order; of equals, the first. k is at most n. */
void top_ids(const float *logits, int64_t n, int64_t k, weft_logprob *out);

/* ` 7 "a" 34.8 %, 26 "b" 30.5 %` and a line end; or a list of objects under the key. */
void top_print(const id_names *by, const weft_logprob *top, int64_t k);
void top_json(const char *key, const id_names *by, const weft_logprob *top, int64_t k);

/* What changed: the probabilities of the k best before and of the k best after, and the divergence
 * of the second from the first. Returns 0, or an exit code after printing an error. */
int tops_compare(const id_names *by, const float *before, const float *after, int64_t n, int64_t k,
                 bool json);

#endif
