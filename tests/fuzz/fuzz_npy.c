/* fuzz_npy.c - bytes as a NumPy file. */
#include "hostile.h"
#include "npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    npy_array a;
    size_t from = 0;
    const char *found = npy_parse((const char *)data, size, &a, &from);
    if (found) {
        holds(found[0], "a refusal without a reason");
        return 0;
    }
    int64_t n = 1;
    holds(a.n_dim >= 0 && a.n_dim <= NPY_DIM, "too many dimensions");
    for (int i = 0; i < a.n_dim; i++) {
        holds(a.shape[i] > 0, "a dimension is none");
        n *= a.shape[i];
    }
    holds(n == a.n, "the shape has another number of values");
    holds(from <= size && (uint64_t)a.n * sizeof *a.at == size - from,
          "numbers do not fill the file");
    holds(!a.at, "numbers that nobody asked for");
    return 0;
}
