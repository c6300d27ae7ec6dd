/* schedule.h - decides what the next forward computes, for which requests: a pure function of their
 * state, without clock, memory or engine, so that a simulator can run it for hours in a second.
 *
 *   1. Every running request with one row left gets it: these generate.
 *   2. Too few pages for that: the request that has computed least gives its pages back, never the
 *      oldest, so that somebody always ends. Its tokens are kept and computed again later.
 *   3. Waiting requests start if there are pages for what they have and their next 256 tokens, beside
 *      what the running ones may still claim. The key that was served least is first (virtual token
 *      counters: Sheng et al., "Fairness in Serving Large Language Models", OSDI 2024); within a
 *      key priority, then arrival. If the first does not fit, nobody else starts, or the large would
 *      starve. A request whose prefix is cached may overtake others of its key for at most 8 steps.
 *   4. Prompts get the rows that remain of the step's time, at least 16, and all of a batch if nobody
 *      generates. The shortest gets up to half of them, then the others in the order above. Equal
 *      shares would make N prompts all wait N times as long. */
#ifndef WEFT_ENGINE_SCHEDULE_H
#define WEFT_ENGINE_SCHEDULE_H

#include "engine/step_cost.h"

#include <stdbool.h>

#define LEAST_PROMPT_ROWS 16  /* in a step with prompts */
#define CLAIM_ROWS        256 /* new tokens for which a request must have pages before it starts */
#define PASSED_STEPS      8   /* steps in which a request may be overtaken */
#define NEW_TOKEN_CHARGE  2   /* a new token costs a key as much as two tokens of a prompt */

typedef enum schedule_move { SCHEDULE_STAY, SCHEDULE_START, SCHEDULE_PREEMPT } schedule_move;

/* A request, and the decision about it. */
typedef struct schedule_entry {
    void *of;       /* whatever the owner needs */
    int key;        /* index into `served` */
    int priority;   /* higher first, within the key */
    uint64_t order; /* of arrival; unique */
    bool runs;
    int64_t length; /* rows it has computed */
    int64_t left;   /* rows it has yet to compute, 1 or more */
    int64_t n_page; /* of its rows */
    int64_t n_own;  /* pages that become available if it gives back all it holds */
    int64_t claim;  /* pages of all its tokens when it starts and of the next CLAIM_ROWS */

    /* of waiting requests */
    int64_t n_found, n_found_idle; /* pages of its prefix that are cached, and those of them that
                                      nobody holds */
    int64_t n_source;              /* pages of its source, which are part of its claim */
    int64_t charge;                /* rows its key is charged with when it starts */
    int n_passed;                  /* steps in which it was overtaken; counted here */

    schedule_move move;
    int64_t take; /* rows in this step */
} schedule_entry;

typedef struct schedule_state {
    schedule_entry *entry;
    int n;
    double *served;      /* tokens that each key was charged with; charged here */
    int64_t n_available; /* pages */
    int n_seat;          /* requests that can run */
    int64_t n_batch;     /* rows of a forward */
    double seconds;      /* that a step with generation should take */
    const step_cost *cost;
    step_shape shape; /* what was decided */
} schedule_state;

void schedule_step(schedule_state *s);

#endif
