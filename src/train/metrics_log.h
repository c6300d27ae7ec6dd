/* metrics_log.h - writes RUN/metrics.jsonl while a model trains: one JSON object a line, which
 * `weft report` draws (explain/metrics.h reads it). */
#ifndef WEFT_TRAIN_METRICS_LOG_H
#define WEFT_TRAIN_METRICS_LOG_H

#include "base/host.h"

#define METRICS_FILE "metrics.jsonl"

typedef struct metrics_log {
    host *host;
    char path[4096];
    int fd;           /* -1: not open */
    uint64_t written; /* bytes of whole lines */
    int64_t n_lost;   /* lines that could not be written */
} metrics_log;

/* Before anything is written: is there something in its place that is not a regular file? */
weft_status metrics_log_check(const char *run, host *h, weft_error *err);

/* Opens the file after the lines of steps up to `step`: what a crash cut off, or a run that went
 * further than its checkpoints wrote, goes. */
weft_status metrics_log_open(metrics_log *m, const char *run, int64_t step, host *h,
                             weft_error *err);
void metrics_log_close(metrics_log *m);

/* One line, for whoever watches the file. A line that does not fit on the disk is taken back whole
 * and counted; the first one is a warning. sample may be NULL. */
void metrics_log_put(metrics_log *m, const weft_train_progress *p, const char *sample,
                     size_t n_sample);

/* Looks at a file a part at a time: its first lines that begin with a step up to `limit`. Begins as
 * { .limit = ..., .step = -1 }. */
typedef struct line_scan {
    int64_t limit;
    uint64_t kept; /* bytes of those lines */
    uint64_t seen;
    int64_t step; /* of the line that is being read; -1 before its number */
    int n_prefix; /* letters of {"step": so far */
    bool past;    /* its number is read */
} line_scan;

/* False at the first line that does not belong to them. */
bool line_scan_add(line_scan *s, const uint8_t *bytes, size_t n);

#endif
