/* asked.h - random requests of a scheduler, what their callbacks heard, and the same request alone:
 * both must be equal, byte for byte. */
#ifndef WEFT_TESTS_ASKED_H
#define WEFT_TESTS_ASKED_H

#include "support.h"
#include "weft.h"

#define ASKED_CONTEXT 1024
#define ASKED_VOCAB   1024
#define ASKED_TOP     4 /* most of 1 + n_top */

/* What the caller of a request sees. */
typedef struct heard {
    char text[8 * ASKED_CONTEXT];
    size_t n;
    int32_t ids[ASKED_CONTEXT];
    int64_t n_id;
    weft_logprob top[ASKED_CONTEXT][ASKED_TOP];        /* of each new token */
    weft_logprob prompt[ASKED_CONTEXT][1 + ASKED_TOP]; /* of each token of the prompt */
    int64_t n_prompt;
    weft_generation info;
    weft_error err;
    int n_done;
} heard;

typedef struct asked {
    uint64_t seed, number;
    int32_t prompt[ASKED_CONTEXT];
    weft_generate_options opt;
    weft_sampler_options sampling;
    weft_bias bias[2];
    int32_t stop_ids[2];
    const char *stop[2];
    weft_request request;
    bool cancelled;
    heard heard;
} asked;

typedef struct asked_rig {
    weft_model *model;
    weft_tokenizer *tokenizer;
    weft_engine *engine, *alone; /* of the scheduler, and of one session */
    weft_scheduler *scheduler;
} asked_rig;

/* A random model of two layers with a context of 1024 and the tokens of models/shakespeare.gguf; a
 * scheduler with a cache of so many pages. */
void asked_open(asked_rig *r, int64_t n_page, const weft_scheduler_options *o);
void asked_close(asked_rig *r); /* checks that no page is left behind */

/* Request number `seed`: a prompt that often starts like others, options of every kind. Half of
 * them have the key "a", the others "b". */
asked *asked_new(const asked_rig *r, uint64_t seed);

/* The same request through weft_generate, in a session of its own. */
void asked_alone(const asked_rig *r, const asked *a, heard *to);

/* Fails unless the request got what it gets alone, or a part of it if it was cancelled. */
void asked_compare(const asked_rig *r, const asked *a);

/* Submits; false if the queue is full. */
bool asked_submit(const asked_rig *r, asked *a);

/* Steps; true while requests remain. */
bool asked_step(const asked_rig *r);

weft_scheduler_info asked_info(const asked_rig *r);

#endif
