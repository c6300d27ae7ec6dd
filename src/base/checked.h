/* checked.h - arithmetic on integers that came from a file or a request.
 *
 * Each function returns true and stores the exact result, or returns false and stores nothing
 * useful. Wrapped sizes are how model loaders get exploited; tools/check-arith.sh keeps bare `*`
 * and `+` out of the parsers. */
#ifndef WEFT_BASE_CHECKED_H
#define WEFT_BASE_CHECKED_H

#include <stdbool.h>
#include <stdint.h>

static inline bool checked_add(uint64_t a, uint64_t b, uint64_t *sum)
{
    return !__builtin_add_overflow(a, b, sum);
}

static inline bool checked_mul(uint64_t a, uint64_t b, uint64_t *product)
{
    return !__builtin_mul_overflow(a, b, product);
}

/* The next multiple of `align`, which must be a power of two. */
static inline bool checked_align(uint64_t n, uint64_t align, uint64_t *aligned)
{
    uint64_t up;
    if (__builtin_add_overflow(n, align - 1, &up))
        return false;
    *aligned = up & ~(align - 1);
    return true;
}

/* Does [offset, offset + length) lie inside [0, size)? */
static inline bool checked_range(uint64_t offset, uint64_t length, uint64_t size)
{
    return offset <= size && length <= size - offset;
}

#endif
