/* plan.h - weft plan serve: its options, which weft plan has beside those of training, and its parts. */
#ifndef WEFT_CLI_PLAN_H
#define WEFT_CLI_PLAN_H

#include "cli.h"
#include "load_file.h"

extern const option plan_serve_options[];

/* What both plans have. */
typedef struct plan_common {
    const char *model; /* or NULL */
    int64_t n_ctx, threads;
    bool json;
} plan_common;

int plan_serve(const command *c, const plan_common *o);

/* What a request is like: lengths vary by half around these, evenly. */
typedef struct plan_load {
    int64_t n_prompt, n_new;
    double cached; /* share of a prompt that all prompts begin with */
} plan_load;

/* Appends n requests that arrive as a Poisson process, one a second. False without memory. */
bool plan_requests(load_trace *t, const plan_load *l, int64_t n);

/* The steps of a real scheduler on this machine, under such requests: 1, 2, 4 ... n_running at a time,
 * for so many seconds in all. Returns 0, or an exit code after printing an error. */
int plan_measure(weft_model *model, const weft_engine_options *options, const plan_load *l,
                 double seconds, step_record *to);

#endif
