/* unpack.c - the public functions that decompress text which the host has read itself. */
#include "formats/unpack.h"

#include "api/api.h"

#include <string.h>

bool weft_is_compressed(const void *data, size_t size)
{
    return data && is_packed(data, size);
}

static weft_status copy(const char *name, const void *data, size_t size, char *to, size_t *n,
                        weft_error *err)
{
    if (to && size > *n)
        return weft_fail(err, WEFT_EINVAL, "%s: has %zu bytes, and there is room for %zu", name,
                         size, *n);
    if (to)
        memcpy(to, data, size);
    *n = size;
    return WEFT_OK;
}

weft_status weft_decompress(const char *name, const void *data, size_t size, char *to, size_t *n,
                            weft_budget *budget, weft_error *err)
{
    weft_error local;
    host h = { .io = io_system };
    err = begin_call(err, &local);
    name = name ? name : "data";
    if (!data || size == 0 || !n)
        return weft_fail(err, WEFT_EINVAL, "no %s given", n ? "data" : "place for the size");
    if (!is_packed(data, size))
        return copy(name, data, size, to, n, err);
    take_memory(&h, 0, budget);
    uint64_t made = *n;
    const weft_status status = to ? unpack_into(name, data, size, (uint8_t *)to, &made, &h.mem, err)
                                  : unpack_count(name, data, size, "text", &h.mem, &made, err);
    if (status == WEFT_OK && made > SIZE_MAX)
        return weft_fail(err, WEFT_ENOMEM, "%s: too large for this address space", name);
    if (status == WEFT_OK)
        *n = (size_t)made;
    return status;
}
