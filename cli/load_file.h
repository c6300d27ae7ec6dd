/* load_file.h - loads and records of steps, as text files that weft plan, weft serve and the benches
 * share.
 *
 * A trace has a line for each request, in the order of arrival:
 *
 *     0.4127 16 alice 7:512 1001:37       seconds, new tokens, key or -, parts of the prompt as SEED:TOKENS
 *
 * A record has a line for each forward of a scheduler (weft_step), and for each request that a server
 * took in:
 *
 *     step 37 5 512 1024.5 0.0412 0.0007  rows, draws, contexts of prompts and of single rows, seconds
 *                                         of the forward, seconds since the one before or -1
 *     request 37 0.0011                   tokens of its prompt, seconds of JSON, template and tokenizer
 *
 * In both, # begins a line of comment; in a record the first comments say where it was made. */
#ifndef WEFT_CLI_LOAD_FILE_H
#define WEFT_CLI_LOAD_FILE_H

#include <weft.h>

#include <stdio.h>

/* ---- traces ---------------------------------------------------------------------------------- */

typedef struct load_trace {
    weft_load_request *at; /* [n] */
    weft_load_part *part;
    char **key; /* [n_key] */
    int64_t n, room, n_part, part_room;
    int n_key;
} load_trace;

weft_status load_trace_read(load_trace *t, const char *path, weft_error *err);
void load_trace_free(load_trace *t);

/* Appends a request; the parts and the key are copied. False without memory. */
bool load_trace_add(load_trace *t, const weft_load_request *q);
bool load_trace_write(const load_trace *t, FILE *to);

/* ---- records --------------------------------------------------------------------------------- */

typedef struct step_record {
    weft_step *step; /* [n] */
    int64_t n, room;
    char about[256]; /* its first comment */

    /* of requests: means by least squares over the tokens of their prompts */
    double arrive_seconds, token_seconds;
    double sums[5]; /* number, tokens, squares of them, seconds, products */
} step_record;

/* Adds what a file has to a record, which begins as { 0 }. */
weft_status step_record_read(step_record *r, const char *path, weft_error *err);
void step_record_free(step_record *r);
bool step_record_add(step_record *r, const weft_step *s); /* false without memory */

void step_record_write_step(FILE *to, const weft_step *s);
void step_record_write_request(FILE *to, int64_t n_prompt, double seconds);

/* ---- percentiles ----------------------------------------------------------------------------- */

int load_by_value(const void *a, const void *b);                   /* of doubles, for qsort */
double load_percentile(const double *sorted, int64_t n, double p); /* NAN where n is 0 */

#endif
