/* npy.h - reads NumPy's files of float32 numbers, as cli_npy_header begins them. */
#ifndef WEFT_CLI_NPY_H
#define WEFT_CLI_NPY_H

#include <stdint.h>

#define NPY_DIM 4 /* most dimensions */

typedef struct npy_array {
    int n_dim;
    int64_t shape[NPY_DIM];
    int64_t n; /* numbers in all */
    float *at; /* cli_free frees it */
} npy_array;

/* Returns 0, or an exit code after printing an error. */
int npy_read(const char *path, npy_array *to);

#endif
