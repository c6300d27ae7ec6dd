/* logprob.c - log softmax of one row, in double, with the maximum subtracted first. */
#include "engine/logprob.h"

#include <math.h>
#include <string.h>

double logits_log_sum_exp(const float *z, int64_t n)
{
    double max = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++)
        max = (double)z[i] > max ? (double)z[i] : max;
    if (max == -INFINITY)
        return max;
    for (int64_t i = 0; i < n; i++)
        sum += exp((double)z[i] - max);
    return max + log(sum);
}

/* Inserts a score after those that are at least as good. */
static void insert(weft_logprob *out, int64_t n, int32_t id, double z)
{
    int64_t low = 0, high = n;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (out[middle].logprob >= z)
            low = middle + 1;
        else
            high = middle;
    }
    memmove(out + low + 1, out + low, (size_t)(n - low) * sizeof *out);
    out[low] = (weft_logprob){ id, z };
}

int64_t logprob_top(const float *z, int64_t n, int64_t k, weft_logprob *out)
{
    const double all = logits_log_sum_exp(z, n);
    int64_t found = 0;
    for (int64_t i = 0; i < n && k > 0; i++) {
        if (found == k && !((double)z[i] > out[k - 1].logprob))
            continue;
        found -= found == k;
        insert(out, found++, (int32_t)i, (double)z[i]);
    }
    for (int64_t i = 0; i < found; i++)
        out[i].logprob -= all;
    return found;
}
