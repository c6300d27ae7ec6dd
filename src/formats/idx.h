/* idx.h - byte arrays in MNIST's format: images or labels.
 *
 *     0  0  type (8: bytes)  dimensions   then each size as a big-endian u32, then the data */
#ifndef WEFT_FORMATS_IDX_H
#define WEFT_FORMATS_IDX_H

#include "base/host.h"

#define IDX_MAX_DIM 4

typedef struct idx {
    int n_dim;
    int64_t size[IDX_MAX_DIM];
    const uint8_t *item; /* [size...] inside the file */
    int64_t item_bytes;  /* of one item: the product of all sizes but the first */
} idx;

weft_status idx_parse(idx *to, const uint8_t *data, uint64_t size, const char *path,
                      weft_error *err);

#endif
