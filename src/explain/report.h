/* report.h - a run as one self-contained HTML page: inline charts, no script, light or dark as the
 * reader's screen. */
#ifndef WEFT_EXPLAIN_REPORT_H
#define WEFT_EXPLAIN_REPORT_H

#include "base/buffer.h"
#include "explain/metrics.h"

typedef struct report_facts {
    const char *title;
    const char *model;   /* the model: "llama, 4 layers ..."; NULL: unknown */
    const char *options; /* options of the run, one per line: "--lr=0.001"; or NULL */
    size_t n_options;
} report_facts;

/* Escapes all text that comes from files. */
void report_html(const report_facts *f, const metrics *m, buffer *b);

/* Describes the model in a run's directory; false if none can be opened. */
bool report_describe(const char *path, host *h, char *to, size_t size);

#endif
