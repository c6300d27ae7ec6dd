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
    bool torn;        /* part of a line follows them: cut it off before the next */
    int64_t n_lost;   /* lines that could not be written */
} metrics_log;

/* Fails if something other than a regular file is in its place. Call before anything is written. */
weft_status metrics_log_check(const char *run, host *h, weft_error *err);

/* Opens the file for appending after the last line of a step <= `step`. Cuts off the rest: half a
 * line that a crash left, or lines of steps after the last checkpoint. */
weft_status metrics_log_open(metrics_log *m, const char *run, int64_t step, host *h,
                             weft_error *err);
void metrics_log_close(metrics_log *m); /* warns of missing lines */

/* Appends one line. A line that does not fit on the disk is removed whole and counted; the first
 * such line is a warning. sample may be NULL. */
void metrics_log_put(metrics_log *m, const weft_train_progress *p, const char *sample,
                     size_t n_sample);

/* Scans a file piecewise for its leading lines with a step <= limit. Start with
 * { .limit = ..., .step = -1 }. */
typedef struct line_scan {
    int64_t limit;
    uint64_t kept; /* bytes of those lines */
    uint64_t seen;
    int64_t step; /* step of the current line; -1 before its number */
    int n_prefix; /* matched characters of {"step": */
    bool past;    /* its number is complete */
} line_scan;

/* False at the first line after them. */
bool line_scan_add(line_scan *s, const uint8_t *bytes, size_t n);

#endif
