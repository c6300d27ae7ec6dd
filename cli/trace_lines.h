/* trace_lines.h - a line for each tensor of a forward: shape, statistics, first numbers. A tensor is
 * summarised, and written to a file if asked for, while it exists. */
#ifndef WEFT_CLI_TRACE_LINES_H
#define WEFT_CLI_TRACE_LINES_H

#include "cli.h"

#define FIRST 8 /* numbers of a tensor that are kept */

typedef struct trace_line {
    char name[96];
    const char *op, *formula; /* of the library, which outlive the forward */
    char input[8][96];        /* tensors and weights that it was made of */
    int n_input;
    double flops;
    int n_dim;
    int64_t shape[3];
    double mean, min, max;
    float first[FIRST];
    int n_first;
} trace_line;

typedef struct trace_lines {
    trace_line *at; /* cli_free frees it */
    int64_t n, room;
    int64_t n_head;  /* of the model */
    const char *npy; /* the directory for files of the tensors, or NULL */
    bool no_memory;
    char failed[4096]; /* the file that could not be written, and why */
} trace_lines;

void trace_lines_add(trace_lines *s, const weft_trace_tensor *t);

/* A table and the formulas of its ops; or an object in a line for each tensor. */
void trace_lines_print(const trace_lines *s);
void trace_lines_json(const trace_lines *s);

#endif
