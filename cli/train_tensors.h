/* train_tensors.h - what one step of training was made of: for each weight the shape and the
 * statistics of the weight, its gradient and AdamW's moments m and v. */
#ifndef WEFT_CLI_TRAIN_TENSORS_H
#define WEFT_CLI_TRAIN_TENSORS_H

#include "cli.h"

#define N_PART 4 /* weight, grad, m, v */

typedef struct part_stats {
    bool there; /* frozen weights have no gradient and no moments */
    double mean, rms, min, max;
} part_stats;

typedef struct weight_line {
    char name[96];
    int n_dim;
    int64_t shape[4];
    part_stats part[N_PART];
} weight_line;

typedef struct train_tensors {
    int64_t step;    /* the one that is shown; 0: none */
    double clip;     /* by which it multiplied all gradients */
    weight_line *at; /* cli_free frees it */
    int64_t n, room;
    bool no_memory, printed;
} train_tensors;

/* A weft_train_tensor_fn; ud: the train_tensors. Weights after other steps are ignored. */
void train_tensors_add(void *ud, const weft_train_tensor *t);

/* A table; or an object in a line for each weight. */
void train_tensors_print(train_tensors *s, bool json);

#endif
