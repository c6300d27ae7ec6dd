/* sort.h - sorting and searching arrays of pointers, in place: qsort may allocate, this does
 * not. */
#ifndef WEFT_BASE_SORT_H
#define WEFT_BASE_SORT_H

#include <stdint.h>

typedef int order_fn(const void *a, const void *b);

void sort_pointers(void **p, int64_t n, order_fn *compare);

/* The first of a sorted array that equals key, or NULL. */
void *find_pointer(void *const *p, int64_t n, const void *key, order_fn *compare);

#endif
