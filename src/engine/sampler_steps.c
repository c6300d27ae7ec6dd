/* sampler_steps.c - the steps of a sampler, each with its formula. */
#include "engine/sampler.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

/* Keeps a score finite, or -inf, which forbids the token. */
static float bounded(double z)
{
    return z > -INFINITY ? (float)fmin(fmax(z, -(double)FLT_MAX), (double)FLT_MAX) : -INFINITY;
}

/* ---- steps that change scores ---------------------------------------------------------------- */

static bool bias_on(const weft_sampler_options *o)
{
    return o->n_bias > 0;
}

static void bias(sampler *s)
{
    for (int64_t i = 0; i < s->opt.n_bias; i++) {
        const weft_bias *b = &s->bias[i];
        s->z[b->id] = bounded((double)s->z[b->id] + (double)b->bias);
    }
}

static int say_bias(const weft_sampler_options *o, char *to, size_t size)
{
    return snprintf(to, size, "bias of %lld", (long long)o->n_bias);
}

/* The last n tokens of the history, or all if n is 0. */
static const int32_t *last_of(const sampler *s, int64_t n, int64_t *count)
{
    *count = n > 0 && n < s->n_id ? n : s->n_id;
    return s->n_id > 0 ? s->ids + s->n_id - *count : NULL;
}

/* z = z < 0 ? z r : z / r;  z -= f times + p, once for each token that occurs. Repetition is in
 * float, as in transformers. */
static void penalties(sampler *s)
{
    const weft_sampler_options *o = &s->opt;
    const float r = (float)o->repetition;
    int64_t n;
    const int32_t *id = last_of(s, o->penalty_last_n, &n);
    for (int64_t i = 0; i < n; i++)
        s->times[id[i]]++;
    for (int64_t i = 0; i < n; i++) {
        int32_t *times = &s->times[id[i]];
        float *z = &s->z[id[i]];
        if (*times == 0)
            continue;
        *z = bounded((double)(*z < 0 ? *z * r : *z / r));
        *z = bounded((double)*z - (o->frequency * *times + o->presence));
        *times = 0;
    }
}

static int say_penalties(const weft_sampler_options *o, char *to, size_t size)
{
    char of[32] = "all";
    if (o->penalty_last_n > 0)
        snprintf(of, sizeof of, "the last %lld", (long long)o->penalty_last_n);
    return snprintf(to, size, "penalties repetition %g frequency %g presence %g of %s",
                    o->repetition, o->frequency, o->presence, of);
}

static bool dry_on(const weft_sampler_options *o)
{
    return o->dry_multiplier > 0;
}

/* For every i > 0: the length of the match between the history ending i tokens before its end and
 * the whole history, both read backwards (the Z function of the reversed history), in linear time.
 * [left, right) is the rightmost range known to match a prefix. */
static void find_repeats(int32_t *repeats, const int32_t *last, int64_t n)
{
    for (int64_t i = 1, left = 0, right = 0; i < n; i++) {
        int64_t k = 0;
        if (i < right)
            k = repeats[i - left] < right - i ? repeats[i - left] : right - i;
        while (i + k < n && last[-k] == last[-(i + k)])
            k++;
        repeats[i] = (int32_t)k;
        if (i + k > right) {
            left = i;
            right = i + k;
        }
    }
}

/* z -= multiplier base^(length - allowed) of each token that followed an earlier occurrence of the
 * last `length` >= allowed tokens, using the longest such length. Repetitions do not cross a
 * breaker, and breakers themselves are not penalised. (p-e-w, "DRY: A modern repetition penalty",
 * 2024.) */
static void dry(sampler *s)
{
    const weft_sampler_options *o = &s->opt;
    int64_t n, longest = 0;
    const int32_t *id = last_of(s, o->dry_last_n, &n);
    if (n == 0)
        return;
    const int32_t *last = id + n - 1;
    while (longest < n && !s->breaks[last[-longest]])
        longest++;
    if (longest < o->dry_length)
        return;
    find_repeats(s->repeats, last, n);
    for (int64_t i = 1; i < n; i++) {
        const int32_t next = last[-(i - 1)];
        const int64_t length = s->repeats[i] < longest ? s->repeats[i] : longest;
        if (length > s->times[next] && !s->breaks[next])
            s->times[next] = (int32_t)length;
    }
    for (int64_t i = 0; i < n; i++) {
        const int32_t length = s->times[id[i]];
        s->times[id[i]] = 0;
        if (length >= o->dry_length)
            s->z[id[i]] = bounded(
                (double)s->z[id[i]] -
                o->dry_multiplier *
                    fmin(pow(o->dry_base, (double)(length - o->dry_length)), (double)FLT_MAX));
    }
}

static int say_dry(const weft_sampler_options *o, char *to, size_t size)
{
    return snprintf(to, size, "dry %g * %g^(length - %lld) of the last %lld", o->dry_multiplier,
                    o->dry_base, (long long)o->dry_length, (long long)o->dry_last_n);
}

static bool temperature_on(const weft_sampler_options *o)
{
    (void)o;
    return true; /* 0 is greedy, 1 as good as any */
}

static void temperature(sampler *s)
{
    if (s->opt.temperature > 0)
        s->temperature = s->opt.temperature;
    else
        s->end = s->first + 1;
}

static int say_temperature(const weft_sampler_options *o, char *to, size_t size)
{
    return o->temperature > 0 ? snprintf(to, size, "temperature %g", o->temperature)
                              : snprintf(to, size, "greedy");
}

/* ---- steps that leave tokens out ------------------------------------------------------------- */

static bool top_k_on(const weft_sampler_options *o)
{
    return o->top_k > 0;
}

static void top_k(sampler *s)
{
    if (s->opt.top_k >= s->end - s->first)
        return;
    int64_t i = s->first + s->opt.top_k;
    order_lead(&s->order, i + 1);
    const float last = order_score(&s->order, i - 1);
    while (i < s->end && order_score(&s->order, i) == last) {
        i++;
        order_lead(&s->order, i + 1);
    }
    s->end = i;
}

static int say_top_k(const weft_sampler_options *o, char *to, size_t size)
{
    return snprintf(to, size, "top_k %lld", (long long)o->top_k);
}

static bool top_p_on(const weft_sampler_options *o)
{
    return o->top_p > 0 && o->top_p < 1;
}

/* Keeps tokens whose predecessors sum to less than p. */
static void top_p(sampler *s)
{
    const double enough = s->opt.top_p * sampler_sum(s).w;
    double sum = 0;
    int64_t i = s->first;
    while (i < s->end && sum < enough)
        sum += sampler_weight(s, i++);
    s->end = i;
}

static int say_top_p(const weft_sampler_options *o, char *to, size_t size)
{
    return snprintf(to, size, "top_p %g", o->top_p);
}

static bool min_p_on(const weft_sampler_options *o)
{
    return o->min_p > 0;
}

static void min_p(sampler *s)
{
    const double min_weight = s->opt.min_p * sampler_weight(s, s->first);
    int64_t i = s->first + 1;
    while (i < s->end && sampler_weight(s, i) >= min_weight)
        i++;
    s->end = i;
}

static int say_min_p(const weft_sampler_options *o, char *to, size_t size)
{
    return snprintf(to, size, "min_p %g", o->min_p);
}

static bool typical_on(const weft_sampler_options *o)
{
    return o->typical > 0 && o->typical < 1;
}

/* |-log p - H| of a place. With w = exp(x), log p = x - log sum w and H = log sum w - mean, where mean
 * is sum w x / sum w; so the distance is |mean - x|. */
static double distance(sampler *s, int64_t i, double mean)
{
    return fabs(mean - sampler_x(s, i));
}

/* Surprise rises along the order, so typical tokens surround the place where it passes the entropy.
 * Extends outwards from there, the nearer side first, until the sum is reached; ties with the last
 * one stay too. (Meister, Pimentel, Wiher, Cotterell, 2022.) */
static void typical(sampler *s)
{
    const sampler_sums sums = sampler_sum(s);
    const double mean = sums.wx / sums.w, enough = s->opt.typical * sums.w;
    int64_t after = s->first; /* the first whose surprise is above the entropy */
    while (after < s->end && sampler_x(s, after) >= mean)
        after++;
    int64_t before = after;
    double sum = 0, furthest = 0;
    while (sum < enough && (before > s->first || after < s->end)) {
        const double up = before > s->first ? distance(s, before - 1, mean) : INFINITY;
        const double down = after < s->end ? distance(s, after, mean) : INFINITY;
        furthest = fmin(up, down);
        sum += sampler_weight(s, up <= down ? --before : after++);
    }
    while (before > s->first && distance(s, before - 1, mean) <= furthest)
        before--;
    while (after < s->end && distance(s, after, mean) <= furthest)
        after++;
    s->first = before;
    s->end = after;
}

static int say_typical(const weft_sampler_options *o, char *to, size_t size)
{
    return snprintf(to, size, "typical %g", o->typical);
}

static bool xtc_on(const weft_sampler_options *o)
{
    return o->xtc_probability > 0;
}

/* "Exclude top choices": of the tokens above the threshold only the last stays. (p-e-w, 2024.) */
static void xtc(sampler *s)
{
    if (sampler_uniform(s, SAMPLER_XTC) >= s->opt.xtc_probability)
        return;
    const double min_weight = s->opt.xtc_threshold * sampler_sum(s).w;
    int64_t n = 0;
    while (s->first + n < s->end && sampler_weight(s, s->first + n) >= min_weight)
        n++;
    s->first += n > 0 ? n - 1 : 0;
}

static int say_xtc(const weft_sampler_options *o, char *to, size_t size)
{
    return snprintf(to, size, "xtc %g above %g", o->xtc_probability, o->xtc_threshold);
}

static bool mirostat_on(const weft_sampler_options *o)
{
    return o->mirostat_tau > 0;
}

/* Keeps tokens with -log2 p <= mu, at least one. The draw updates mu. (Basu, Ramachandran, Keskar,
 * Varshney, 2021, in the second form, which needs no estimate of the tail.) */
static void mirostat(sampler *s)
{
    const double min_weight = exp2(-s->mu) * sampler_sum(s).w;
    int64_t i = s->first + 1;
    while (i < s->end && sampler_weight(s, i) >= min_weight)
        i++;
    s->end = i;
}

static int say_mirostat(const weft_sampler_options *o, char *to, size_t size)
{
    return snprintf(to, size, "mirostat tau %g eta %g", o->mirostat_tau, o->mirostat_eta);
}

const sampler_step sampler_steps[SAMPLER_STEPS] = {
    { "bias", true, bias_on, bias, say_bias },
    { "penalties", true, sampler_counts, penalties, say_penalties },
    { "dry", true, dry_on, dry, say_dry },
    { "temperature", false, temperature_on, temperature, say_temperature },
    { "top_k", false, top_k_on, top_k, say_top_k },
    { "top_p", false, top_p_on, top_p, say_top_p },
    { "min_p", false, min_p_on, min_p, say_min_p },
    { "typical", false, typical_on, typical, say_typical },
    { "xtc", false, xtc_on, xtc, say_xtc },
    { "mirostat", false, mirostat_on, mirostat, say_mirostat },
};
