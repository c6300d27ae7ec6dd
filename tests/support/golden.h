/* golden.h - compares the tensors of a forward with those of a reference implementation. */
#ifndef WEFT_TESTS_GOLDEN_H
#define WEFT_TESTS_GOLDEN_H

#include "engine/session.h"

/* An opened safetensors file of reference tensors. */
typedef struct golden {
    host host;
    container file;
    double tolerance;       /* of max|a-b| / max|b| */
    int64_t adjacent;       /* columns of a head, if the model stores the halves of a rotated pair
                               side by side and the reference half a head apart; or 0 */
    int64_t behind;         /* ... of which only the last N are rotated, and reordered only after
                               that; 0: all, including the weights */
    bool *met;              /* [n_tensor]: compared at least once */
    char first[NAME_BYTES]; /* the first tensor that diverged, in the order of the forward */
    double first_error;
    double worst; /* over all tensors */
    char worst_name[NAME_BYTES];
    int compared;
} golden;

void golden_open(golden *g, const char *path, double tolerance);
void golden_close(golden *g);
const stored *golden_tensor(const golden *g, const char *name);

/* A trace_fn whose ud is a golden: looks the tensor up by name. */
void golden_compare(void *ud, const tensor *t, const op *by);

/* Compares rows of `data` with the reference tensor of this name, and records the result. */
void golden_check(golden *g, const char *name, const real *a, int64_t stride, const float *b,
                  int64_t n_row, int64_t n_col);

/* Fails, naming the first divergence, unless every reference tensor was seen and all agree. */
void golden_finish(const golden *g, const char *what);

#endif
