/* idx.c - checks the header of an IDX file against its size; the data is used in place. */
#include "formats/idx.h"

#include "base/checked.h"

#define HEAD    4
#define U8      8
#define IDX_MAX ((uint64_t)1 << 31) /* maximum of one dimension */

static uint64_t big_endian(const uint8_t *at)
{
    return (uint64_t)at[0] << 24 | (uint64_t)at[1] << 16 | (uint64_t)at[2] << 8 | at[3];
}

static weft_status read_head(idx *to, const uint8_t *data, uint64_t size, const char *path,
                             weft_error *err)
{
    if (size < HEAD || data[0] != 0 || data[1] != 0)
        return weft_fail(err, WEFT_EFORMAT, "%s: not an IDX file: wrong magic number", path);
    if (data[2] != U8)
        return weft_fail(err, WEFT_EUNSUPPORTED, "%s: data type %d; expected bytes (8)", path,
                         data[2]);
    if (data[3] == 0 || data[3] > IDX_MAX_DIM)
        return weft_fail(err, WEFT_EUNSUPPORTED, "%s: %d dimensions; expected 1 to %d", path,
                         data[3], IDX_MAX_DIM);
    to->n_dim = data[3];
    return WEFT_OK;
}

weft_status idx_parse(idx *to, const uint8_t *data, uint64_t size, const char *path,
                      weft_error *err)
{
    *to = (idx){ 0 };
    const weft_status status = read_head(to, data, size, path, err);
    if (status != WEFT_OK)
        return status;
    const uint64_t begin = HEAD + 4 * (uint64_t)to->n_dim; /* bounded: 4 dimensions */
    uint64_t item = 1, all;
    if (!checked_range(0, begin, size))
        return weft_fail(err, WEFT_EFORMAT, "%s: ends inside its header", path);
    for (int i = 0; i < to->n_dim; i++) {
        const uint64_t n = big_endian(&data[HEAD + 4 * i]); /* bounded: inside the head */
        if (n == 0 || n >= IDX_MAX || (i > 0 && !checked_mul(item, n, &item)))
            return weft_fail(err, WEFT_EFORMAT, "%s: a size of %llu", path, (unsigned long long)n);
        to->size[i] = (int64_t)n;
    }
    if (!checked_mul(item, (uint64_t)to->size[0], &all) || all != size - begin)
        return weft_fail(err, WEFT_EFORMAT,
                         "%s: %llu bytes after the header; expected as many as its dimensions say",
                         path, (unsigned long long)(size - begin));
    to->item = &data[begin];
    to->item_bytes = (int64_t)item;
    return WEFT_OK;
}
