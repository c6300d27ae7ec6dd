/* forecast.c - a step's buckets on their way through one line. */
#include "train/forecast.h"

#include "train/trainer.h"

/* Adding reads two floats and writes one; the norm and AdamW read g, then w, g, m, v, and write three. */
#define SUM_OF_UPDATE (3.0 / 8)

/* Exchanges of a few bytes: sums of samples, sums of chunks, whether to go on. */
#define N_SHARED 3

static double line_seconds(const forecast_run *r, const forecast_pace *p, uint64_t bytes)
{
    const double messages = n_rank(r->reduce->ranks) - 1;
    return (double)bytes / p->bandwidth + messages * p->latency;
}

static double backward_of(const forecast_run *r, const forecast_pace *p)
{
    return r->ready ? r->end : 2 * p->part / 3;
}

static double ready_at(const forecast_run *r, const forecast_pace *p, int64_t bucket)
{
    const double n = (double)reduce_buckets(r->reduce, r->n);
    return r->ready ? r->ready[bucket] : backward_of(r, p) * (n - (double)bucket) / n;
}

/* The gradients' way: `over` is when the last sum is there. */
static void send_gradients(const forecast_run *r, const forecast_pace *p, forecast *f, double *over)
{
    const double end = backward_of(r, p), sum = SUM_OF_UPDATE * p->update;
    double line = 0, landed[N_FLIGHT] = { 0 }, until = 0; /* flights are seen until then */
    for (int64_t b = reduce_buckets(r->reduce, r->n) - 1; b >= 0; b--) {
        const bucket_traffic t = reduce_traffic(r->reduce, r->n, b);
        double *last = &landed[b % N_FLIGHT];
        const double leaves = fmax(ready_at(r, p, b), *last);
        line = fmax(line, leaves) + line_seconds(r, p, t.gradients);
        *last = line + (double)(n_rank(r->reduce->ranks) - 1) * (double)t.own * sum;
        const double from = fmax(leaves, until);
        until = fmax(until, *last);
        f->hidden += fmax(0, fmin(until, end) - fmin(from, end));
        f->sent += t.gradients;
    }
    *over = until;
}

static double send_values(const forecast_run *r, const forecast_pace *p, forecast *f)
{
    double seconds = 0;
    for (int64_t b = 0; b < reduce_buckets(r->reduce, r->n); b++) {
        const bucket_traffic t = reduce_traffic(r->reduce, r->n, b);
        seconds += line_seconds(r, p, t.values);
        f->sent += t.values;
    }
    return seconds;
}

static double share(const forecast_run *r, const forecast_pace *p, forecast *f)
{
    const uint64_t others = (uint64_t)n_rank(r->reduce->ranks) - 1;
    const uint64_t bytes = others * (reduce_shared(r->reduce, r->n) +
                                     (uint64_t)r->n_group * sizeof(sample_sums));
    f->sent += bytes;
    return line_seconds(r, p, bytes) + (N_SHARED - 1) * line_seconds(r, p, 0);
}

forecast forecast_step(const forecast_run *r, const forecast_pace *p)
{
    forecast f = { 0 };
    const double R = n_rank(r->reduce->ranks), update = p->update * (double)r->n;
    f.compute = (double)r->n_part * p->part + (r->n_group - 1) * SUM_OF_UPDATE * update +
                update / R;
    if (n_rank(r->reduce->ranks) > 1) {
        double over;
        send_gradients(r, p, &f, &over);
        f.exposed = fmax(0, over - backward_of(r, p)) + share(r, p, &f) + send_values(r, p, &f);
    }
    f.seconds = f.compute + f.exposed;
    return f;
}
