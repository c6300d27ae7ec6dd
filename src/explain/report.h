/* report.h - a run as one page that can be looked at, sent and shown: HTML with its pictures inside,
 * without script, light or dark as the reader's screen is. */
#ifndef WEFT_EXPLAIN_REPORT_H
#define WEFT_EXPLAIN_REPORT_H

#include "base/buffer.h"
#include "explain/metrics.h"

typedef struct report_facts {
    const char *title;
    const char *model;   /* what it is: "llama, 4 layers ..."; NULL: not known */
    const char *options; /* what the run was begun with, a line for each: "--lr=0.001"; or NULL */
    size_t n_options;
} report_facts;

/* All text that comes from files is escaped. */
void report_html(const report_facts *f, const metrics *m, buffer *b);

/* What the model in a run's directory is, in words; false where none can be opened. */
bool report_describe(const char *path, host *h, char *to, size_t size);

#endif
