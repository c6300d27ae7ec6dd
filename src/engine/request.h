/* request.h - a request of a scheduler: what to generate, for whom, and how far it is.
 *
 * It owns copies of everything it was given, and all its tokens, so that it can lose its session at any
 * time and continue with another one. Only what was drawn needs to be kept for that: the tokens
 * and the state of mirostat. */
#ifndef WEFT_ENGINE_REQUEST_H
#define WEFT_ENGINE_REQUEST_H

#include "engine/fair_keys.h"
#include "engine/generation.h"
#include "engine/prefix.h"

/* A request, checked. */
typedef struct request_spec {
    weft_generate_options opt;     /* ends are set */
    weft_sampler_options sampling; /* if `samples`; otherwise greedy */
    bool samples;
    const tokenizer *tokenizer;
    const pieces *pieces;
    constraint *constraint; /* or NULL */
    const int32_t *source;
    int64_t n_source;
    adaption adapted; /* its set is held by the request */
    const char *key;
    int priority;
    weft_generate_fn *fn;
    weft_prompt_fn *prompt_fn;
    weft_done_fn *done;
    void *ud;
} request_spec;

typedef struct request {
    struct request *next, *before; /* of all that are not done */
    struct request *queued;        /* the next that no step has seen */
    uint64_t number;
    atomic_bool cancelled; /* by any thread */

    request_spec spec; /* its arrays are copies */
    char key_name[KEY_BYTES];
    int key; /* in the scheduler's table, once it has seen the request */
    prefix_root root;

    int32_t *ids; /* [room]: the prompt, then new tokens */
    int64_t n_id, room;

    session *session; /* NULL: it waits */
    int64_t n_kept;   /* the session's first pages, which are in the table of prefixes */
    int64_t take;     /* rows in this step */
    int64_t claim;    /* pages of its tokens when it started, and of those it may add */
    bool began;       /* had a session before */
    double mu;        /* of mirostat, while it waits */
    int n_passed;

    weft_logprob *told; /* of a step's rows of the prompt: [n_batch, 1 + n_top]; or NULL */
    int64_t n_told;     /* tokens of the prompt that the caller has */

    generation text;
    int32_t drawn;
    weft_error err;                   /* why it failed */
    double submitted, started, first; /* seconds on the scheduler's clock: 0 before */
} request;

/* Copies the spec; NULL without memory. */
request *request_new(const request_spec *from, const engine *e, weft_error *err);
void request_free(request *r, mem *m);

/* Rows it has yet to compute. */
static inline int64_t request_left(const request *r)
{
    return r->n_id - (r->session ? r->session->cache.length : 0);
}

/* Tokens that the queue counts. */
static inline int64_t request_tokens(const request *r)
{
    return r->spec.opt.n_prompt + r->spec.n_source;
}

/* Tokens that may come from cached pages: not the last, whose logits are needed, nor those whose
 * log-probabilities the caller is still to get. */
int64_t request_sharable(const request *r);

/* Gives it a session without tokens, and takes it away: the tokens are kept. begin may fail for
 * lack of memory or because the source has no finite encoding; then it has no session. */
weft_status request_begin(request *r, session *s);
session *request_pause(request *r);

/* After a step: passes on the log-probabilities of the prompt. */
void request_tell_prompt(request *r);

/* Draws the next token into `drawn`, or fills err. Several requests may draw at a time. */
void request_draw(request *r);

/* Passes the drawn token on and appends it, and those that follow without a draw. The text is
 * finished, or has rows left. */
weft_status request_take_token(request *r, int64_t n_ctx);

#endif
