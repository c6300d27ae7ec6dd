/* metrics.h - what /metrics shows, in Prometheus' text format: our own names, and vLLM's for what
 * its dashboards and the gateways of Kubernetes read. */
#ifndef WEFT_SERVER_METRICS_H
#define WEFT_SERVER_METRICS_H

#include "adapters.h"

#define N_BUCKET 16

/* Seconds, counted in buckets. */
typedef struct histogram {
    atomic_llong bucket[N_BUCKET + 1]; /* the last: above all limits */
    atomic_llong microseconds, n;
} histogram;

typedef enum outcome {
    OUTCOME_STOP,
    OUTCOME_LENGTH,
    OUTCOME_ABORT,
    OUTCOME_ERROR,
    N_OUTCOME
} outcome;

typedef struct metrics {
    atomic_llong finished[N_OUTCOME]; /* generations */
    atomic_llong status[6];           /* answers 1xx to 5xx; [0]: dropped */
    atomic_llong n_prompt, n_new;     /* tokens */
    atomic_llong n_request;           /* that are not answered in full, or not forgotten */
    atomic_llong n_connection, n_dropped;
    atomic_llong n_log_lost; /* lines of the access log */
    histogram first_token, between_tokens, whole, queued;
} metrics;

void metrics_time(histogram *h, double seconds);
void metrics_write(const metrics *m, const char *model, const weft_scheduler_info *info, bool ready,
                   bytes *to);
void metrics_write_adapters(adapters *a, bytes *to);

#endif
