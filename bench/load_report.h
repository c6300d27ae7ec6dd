/* load_report.h - times of requests, and how load and simulate print them. */
#ifndef WEFT_BENCH_LOAD_REPORT_H
#define WEFT_BENCH_LOAD_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct list {
    double *x;
    size_t n, room;
} list;

void list_add(list *l, double x);

/* What is measured of a loop, in seconds. */
typedef struct load_counts {
    list ttft, tpot, gap;
    int64_t n_request, n_failed, n_prompt, n_token;
    int64_t n_429, n_503; /* of the requests, refused; not failed */
    char error[200];      /* the first */
} load_counts;

/* name: of the loop. Frees the lists. */
void print_tally(const char *name, load_counts *t, int64_t n_stream, double took, bool json);

#endif
