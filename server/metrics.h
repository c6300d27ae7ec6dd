/* metrics.h - what /metrics shows, in Prometheus' text format: our own names, and vLLM's for what
 * its dashboards and the gateways of Kubernetes read. */
#ifndef WEFT_SERVER_METRICS_H
#define WEFT_SERVER_METRICS_H

#include "adapters.h"

#define N_BUCKET 16

/* Seconds, counted in buckets. */
typedef struct histogram {
    atomic_llong bucket[N_BUCKET + 1]; /* the last: above all limits */
    atomic_llong microseconds;
} histogram;

typedef enum outcome {
    OUTCOME_STOP,
    OUTCOME_LENGTH,
    OUTCOME_ABORT,
    OUTCOME_ERROR,
    N_OUTCOME
} outcome;

typedef struct metrics {
    atomic_llong status[6]; /* answers 1xx to 5xx; [0]: dropped */
    atomic_llong n_request; /* that are not answered in full, or not forgotten */
    atomic_llong n_connection, n_dropped;
    atomic_llong n_log_lost; /* lines of the access log */
} metrics;

/* Of each model that is served. */
typedef struct model_metrics {
    atomic_llong finished[N_OUTCOME]; /* generations */
    atomic_llong n_prompt, n_new;     /* tokens */
    atomic_llong n_load, n_failed_load;
    histogram first_token, between_tokens, whole, queued;
} model_metrics;

/* A model as it is shown. */
typedef struct metered {
    const char *name;
    const model_metrics *metrics;
    weft_scheduler_info info; /* struct_size 0: it has no scheduler */
    adapters *adapters;       /* NULL: it has none */
} metered;

void metrics_time(histogram *h, double seconds);
void metrics_write(const metrics *m, const metered *models, int n, bool ready, bytes *to);

/* The work of the requests that wait, at the speed of all steps so far: the tokens of their prompts, and as many new
 * ones for each as a request had on average. */
double metrics_queue_seconds(const weft_scheduler_info *i);

#endif
