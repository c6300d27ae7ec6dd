/* answer.h - OpenAI's objects, from what a model generates: completions, chat completions and their
 * streams, embeddings, models, errors.
 *
 * An answer has a choice for each text that is generated. Tokens and text are added to a choice as
 * they come; answer_whole writes the object at the end, or answer_chunk an event of a stream after
 * each. */
#ifndef WEFT_SERVER_ANSWER_H
#define WEFT_SERVER_ANSWER_H

#include "request.h"
#include "wire.h"

/* See blocks.h. */
typedef enum block_kind { BLOCK_NONE, BLOCK_THOUGHT, BLOCK_TEXT, BLOCK_CALL } block_kind;

typedef struct blocks {
    block_kind open;
    int n;        /* so far, with the open one */
    bool cut;     /* the arguments of the open call are not complete */
    bytes text;   /* of the open one */
    bytes done;   /* the objects of those that are closed */
    bytes events; /* of a stream, not written yet */
    int sequence; /* of the next event */
} blocks;

typedef struct choice {
    int index;
    bytes text, thought; /* not written yet */
    bytes tokens;        /* log-probabilities, as lists of JSON without their brackets: chat has */
    bytes values, tops, offsets; /* only `tokens`, of objects */
    bytes calls;                 /* objects of calls, or changes of them in a stream; likewise */
    bytes name, arguments;       /* of the call being read */
    int n_call;
    int64_t n_logprob;
    int64_t offset;         /* code points before the next token */
    const char *finish;     /* "stop", "length" or "tool_calls"; NULL until the end */
    const char *stopped_by; /* the stop string that ended it, or NULL */
    blocks blocks;
    bool begun; /* the chunk with the role was written */
    int64_t n_new, n_thought;
} choice;

typedef struct answer {
    endpoint endpoint;
    const request *asked;
    char id[48];
    int64_t created;
    const char *model;
    bool stream, include_usage, wants_logprobs;
    int64_t n_top;
    const weft_tokenizer *tokenizer;
    choice *choices;
    int n_choice;
    int64_t n_prompt, n_cached;           /* tokens of all prompts, each counted once */
    double queue_s, prompt_s, generate_s; /* of the choice that took longest */
} answer;

/* ---- a choice grows -------------------------------------------------------------------------- */

/* A token with its log-probabilities, as in weft_generated; lp NULL: the first token of a prompt,
 * which has none. Only if log-probabilities are wanted. */
void answer_token(answer *a, choice *c, int32_t id, const weft_logprob *lp);
void answer_text(const answer *a, choice *c, const char *text, size_t n);

/* What a reader of calls tells. */
void answer_call(const answer *a, choice *c, weft_call_event e, const char *text, size_t n);
void answer_thought(const answer *a, choice *c, const char *text, size_t n);

/* ---- what is written ------------------------------------------------------------------------- */

/* The whole object. */
void answer_whole(const answer *a, bytes *to);

/* The next event of a stream with what came since the last one, or nothing if nothing did. The
 * last of a choice is the one with its finish. */
void answer_chunk(const answer *a, choice *c, bytes *to);

/* The end of a stream: usage, if it was wanted, and [DONE]. */
void answer_stream_end(const answer *a, bytes *to);

/* An error, as a body and as an event. */
void answer_error(endpoint e, const refusal *why, bytes *to);
void answer_error_event(endpoint e, const refusal *why, bytes *to);

/* count_tokens of Messages */
void answer_count(int64_t n, bytes *to);

/* /v1/models, or one of them. */
typedef struct served {
    const char *name;
    const char *root,
        *parent; /* as vLLM's: what it was loaded from; the model of an adapter or NULL */
    int64_t created, n_ctx;
    const char *const *endpoints; /* paths that it has an answer for, then NULL; or NULL */
    bool images;                  /* it takes images, not text */
} served;

/* One of them, inside an object or a list. */
void answer_model(const served *model, wire *w);

/* vectors: [n, width] */
void answer_embeddings(const char *model, const float *vectors, int64_t n, int64_t width,
                       bool base64, int64_t n_token, bytes *to);

/* /tokenize, /detokenize, /apply-template */
void answer_ids(const int32_t *ids, int64_t n, int64_t n_ctx, bytes *to);
void answer_plain(const char *name, const char *text, size_t n, bytes *to);

void choice_free(choice *c);

#endif
