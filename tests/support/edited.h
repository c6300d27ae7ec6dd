/* edited.h - a model directory or GGUF file that differs from another in some tensors and keys. */
#ifndef WEFT_TESTS_EDITED_H
#define WEFT_TESTS_EDITED_H

#include "formats/container.h"

/* A tensor that is added, or replaces one of the same name; without a type, that one is left out. */
typedef struct edit {
    const char *name;
    const dtype *type;
    int n_dim;
    int64_t shape[MAX_DIM];
    const void *data; /* NULL: zeros */
} edit;

/* The directory `from` as the temporary directory `name`, with `was` in its config.json replaced by
 * `is`; both may be NULL. */
const char *edited_directory(const char *from, const char *name, const edit *e, int n,
                             const char *was, const char *is);

/* The GGUF file `from` as the temporary file `name`; key becomes the number x, if it is not NULL. */
const char *edited_gguf(const char *from, const char *name, const edit *e, int n, const char *key,
                        uint32_t x, const char *key2, uint32_t y);

#endif
