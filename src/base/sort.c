/* sort.c - heapsort over pointers. n log n in the worst case, because the sorted names and keys
 * come from files. It allocates nothing; qsort may allocate outside the budget. */
#include "base/sort.h"

#include <stddef.h>

static void swap(void **a, void **b)
{
    void *t = *a;
    *a = *b;
    *b = t;
}

/* Heap order: a parent is not before its children. */
static void sift(void **p, int64_t at, int64_t n, order_fn *compare)
{
    for (int64_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && compare(p[child], p[child + 1]) < 0)
            child++;
        if (compare(p[at], p[child]) >= 0)
            return;
        swap(&p[at], &p[child]);
    }
}

void sort_pointers(void **p, int64_t n, order_fn *compare)
{
    for (int64_t at = n / 2 - 1; at >= 0; at--)
        sift(p, at, n, compare);
    for (int64_t end = n - 1; end > 0; end--) {
        swap(&p[0], &p[end]);
        sift(p, 0, end, compare);
    }
}

void *find_pointer(void *const *p, int64_t n, const void *key, order_fn *compare)
{
    int64_t lo = 0, hi = n;
    while (lo < hi) {
        const int64_t mid = lo + (hi - lo) / 2;
        if (compare(key, p[mid]) > 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < n && compare(key, p[lo]) == 0 ? p[lo] : NULL;
}
