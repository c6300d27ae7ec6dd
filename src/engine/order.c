/* order.c - finds the next places of an order: one pass over the scores collects all above a
 * threshold, then sorts these few. */
#include "engine/order.h"

#include "base/side_stack.h"

#include <math.h>

/* Fewer places than this use insertion sort. */
#define FEW 32

/* Smallest number of places to find at once: a look at one place is followed by a look at the
 * next. */
#define MIN_TOP 64

void order_begin(order *o, const float *z, int64_t n_vocab, uint64_t *at)
{
    *o = (order){ .z = z, .n_vocab = n_vocab, .at = at };
    for (int64_t i = 0; i < n_vocab; i++)
        o->n += z[i] > -INFINITY;
}

static void sort_few(uint64_t *a, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        const uint64_t x = a[i];
        int64_t k = i;
        for (; k > 0 && a[k - 1] > x; k--)
            a[k] = a[k - 1];
        a[k] = x;
    }
}

/* Sorts the first m of n by a radix sort from the highest byte, in place; only buckets that reach
 * into the first m are sorted further. At most eight passes for any input. */
OWN_FRAME static void sort_first(uint64_t *a, int64_t n, int64_t m, int shift)
{
    if (n <= FEW) {
        sort_few(a, n);
        return;
    }
    int32_t begin[257] = { 0 }, next[256]; /* a vocabulary has no more; this recurses */
    for (int64_t i = 0; i < n; i++)
        begin[(a[i] >> shift & 255) + 1]++;
    for (int b = 0; b < 256; b++) {
        next[b] = begin[b];
        begin[b + 1] += begin[b];
    }
    for (int b = 0; b < 256; b++)
        while (next[b] < begin[b + 1]) {
            const uint64_t x = a[next[b]];
            const int d = (int)(x >> shift & 255);
            if (d != b) {
                a[next[b]] = a[next[d]];
                a[next[d]] = x;
            }
            next[d]++;
        }
    for (int b = 0; b < 256 && begin[b] < m && shift > 0; b++)
        sort_first(a + begin[b], begin[b + 1] - begin[b], m - begin[b], shift - 8);
}

/* One pass over the scores, keeping candidates for the first m. When 2 m are kept, they are cut to
 * m. From then on a score has to be above the last of them: an equal one has a higher id. */
void order_lead(order *o, int64_t m)
{
    if (m <= o->led || o->led == o->n)
        return;
    m = m > 16 * o->led ? m : 16 * o->led;
    m = m > MIN_TOP ? m : MIN_TOP;
    m = m < o->n ? m : o->n;
    float threshold = -INFINITY;
    int64_t n = 0;
    for (int64_t i = 0; i < o->n_vocab; i++) {
        if (!(o->z[i] > threshold))
            continue;
        o->at[n++] = order_place(o->z[i], i);
        if (n < 2 * m + MIN_TOP)
            continue;
        sort_first(o->at, n, m, 56);
        n = m;
        threshold = order_score(o, m - 1);
    }
    sort_first(o->at, n, m, 56);
    o->led = m;
}
