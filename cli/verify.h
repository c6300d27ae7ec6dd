/* verify.h - what two models compute, tensor by tensor, and how far apart it is. */
#ifndef WEFT_CLI_VERIFY_H
#define WEFT_CLI_VERIFY_H

#include "cli.h"

/* One named tensor, over all tokens. */
typedef struct entry {
    char name[96];
    int64_t rows, cols; /* of this step's rows, and their numbers as A made them */
    float *data;
    double largest; /* number of A, in size */
    double off,
        off_permuted; /* largest difference, as they lie and with the pairs of heads reordered */
    bool in_a, in_b, same_shape;
} entry;

typedef struct finding {
    weft_model *a, *b;
    weft_model_info of_a, of_b;
    int32_t *ids;
    int64_t n;
    bool has_tokens[2];       /* A and B have a tokenizer */
    int64_t n_other;          /* tokens that B's tokenizer makes of the text */
    int64_t token;            /* the first that differs, or -1 */
    int32_t token_a, token_b; /* -1: that text has ended */
    entry *entry;
    int64_t n_entry, room;
    int64_t next; /* where B's next tensor is likely to be */
    bool no_memory;
    weft_evaluation logits; /* n_token 0: they were not compared */
    double cosine;          /* the least of two vectors, of models that give vectors; otherwise 2 */
    int threads;
} finding;

/* Both models read f->ids, or a picture, in the way of their kind: as a prompt; as a whole; or as a
 * source, of which a decoder is given the same tokens. Returns 0, or an exit code after printing an
 * error. */
int verify_read(finding *f);

/* Largest difference of a tensor, relative to its largest number; infinite where only one model has
 * it. */
double verify_difference(const entry *e);

#endif
