/* npy.h - reads NumPy's files of float32 numbers, as cli_npy_header begins them. */
#ifndef WEFT_CLI_NPY_H
#define WEFT_CLI_NPY_H

#include <stddef.h>
#include <stdint.h>

#define NPY_DIM 4 /* most dimensions */

typedef struct npy_array {
    int n_dim;
    int64_t shape[NPY_DIM];
    int64_t n; /* numbers in all */
    float *at; /* cli_free frees it */
} npy_array;

/* The n bytes of a file: sets everything but `at`, and where the numbers begin. Returns NULL, or
 * what the bytes are instead. */
const char *npy_parse(const char *file, size_t n, npy_array *to, size_t *data);

/* Returns 0, or an exit code after printing an error. */
int npy_read(const char *path, npy_array *to);

#endif
