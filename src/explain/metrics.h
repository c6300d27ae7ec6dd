/* metrics.h - reads metrics.jsonl of a run: one JSON object per line, the metrics of a step.
 *
 *     {"step":200,"loss":2.5,"smoothed":2.6,"lr":0.001,"grad_norm":0.9,"tokens":153600,
 *      "tokens_per_second":41000,"share":0.4,"val_loss":2.55,"val_accuracy":0.91,"sample":"Once upon"}
 *
 * Any number may be missing, and unknown fields are skipped. An incomplete last line was still
 * being written and is ignored. If steps go back, the run resumed from a checkpoint: its lines
 * after that step are dropped. */
#ifndef WEFT_EXPLAIN_METRICS_H
#define WEFT_EXPLAIN_METRICS_H

#include "base/arena.h"
#include "base/host.h"

typedef struct metric {
    double step;
    double loss, smoothed, lr, grad_norm, tokens, tokens_per_second, share, val_loss; /* or NaN */
    double val_accuracy;
    double margin, right, logp_chosen, logp_rejected; /* of pairs (DPO) */
    const char *sample;                               /* or NULL */
    size_t sample_length;
} metric;

typedef struct metrics {
    metric *at;
    int64_t n;
    arena store;
} metrics;

/* path is for errors; the text need not outlive the metrics. */
weft_status metrics_parse(metrics *m, const uint8_t *data, uint64_t size, const char *path, host *h,
                          weft_error *err);
void metrics_free(metrics *m);

#endif
