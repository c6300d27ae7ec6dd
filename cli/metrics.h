/* metrics.h - RUN/metrics.jsonl, one object a line: what `weft train` writes and `weft report` draws. */
#ifndef WEFT_CLI_METRICS_H
#define WEFT_CLI_METRICS_H

#include "cli.h"

typedef struct metrics {
    const char *run;
    FILE *f;
    long written;   /* bytes of whole lines */
    int64_t n_lost; /* lines that could not be written, */
    int why;        /* and errno of the first */
} metrics;

/* Before anything is written: can there be such a file? False after saying why not. */
bool metrics_possible(const char *run);

/* Opens the file behind the lines of steps up to `step`: what a crash cut off, or a run that went
 * further than its checkpoints wrote, goes. False after saying why not. */
bool metrics_open(metrics *m, const char *run, int64_t step);

/* One line, flushed, so that whoever watches the file sees it. A line that does not fit on the disk is
 * taken back whole, and training continues without it. */
void metrics_put(metrics *m, const weft_train_progress *p, const char *sample, size_t n_sample);

/* 0, or 1 after saying that lines are missing. */
int metrics_close(metrics *m);

/* Bytes of the lines at the beginning of a file that begin with a step up to `step`. */
long metrics_kept(FILE *f, int64_t step);

#endif
