/* request.h - what a client asks for: the JSON of a body as a struct with every field checked.
 *
 * Names and ranges are OpenAI's, and vLLM's for what OpenAI does not have. A field that is unknown,
 * or that weft does not have yet, is refused by name; with `lenient` it is ignored and listed. A
 * field that is null is as if it were absent. */
#ifndef WEFT_SERVER_REQUEST_H
#define WEFT_SERVER_REQUEST_H

#include "memory.h"
#include "refusal.h"

typedef enum endpoint {
    ENDPOINT_COMPLETIONS,
    ENDPOINT_CHAT,
    ENDPOINT_EMBEDDINGS,
    ENDPOINT_TOKENIZE,
    ENDPOINT_DETOKENIZE,
    ENDPOINT_TEMPLATE,
    ENDPOINT_RESPONSES, /* OpenAI's /v1/responses, */
    ENDPOINT_MESSAGES,  /* Anthropic's /v1/messages, */
    ENDPOINT_COUNT,     /* and its count_tokens */
    ENDPOINT_SCORE,     /* vLLM's, as the next two */
    ENDPOINT_RERANK,
    ENDPOINT_CLASSIFY,
    ENDPOINT_FILL,
    ENDPOINT_TRANSLATE, /* completions of an encoder-decoder */
    N_ENDPOINT,
} endpoint;

/* Those that take a conversation and answer it. */
static inline bool endpoint_talks(endpoint e)
{
    return e == ENDPOINT_CHAT || e == ENDPOINT_RESPONSES || e == ENDPOINT_MESSAGES;
}

/* Whose answers are lists of blocks: see blocks.h. */
static inline bool endpoint_has_blocks(endpoint e)
{
    return e == ENDPOINT_RESPONSES || e == ENDPOINT_MESSAGES;
}

/* Which an encoder answers. */
static inline bool endpoint_encodes(endpoint e)
{
    return e == ENDPOINT_EMBEDDINGS || (e >= ENDPOINT_SCORE && e <= ENDPOINT_FILL);
}

#define MAX_INPUT        256  /* prompts of one request, times n */
#define MAX_EMBED        2048 /* texts of one request for embeddings */
#define MAX_STOP         16
#define MAX_STOP_BYTES   256
#define MAX_BIAS         1024
#define MAX_STOP_ID      64
#define MAX_CHOICE       8
#define MAX_TOP          20 /* top_logprobs of chat; 5 of completions */
#define MAX_TOKENS       1048576
#define MAX_MESSAGE      4096
#define MAX_FILL         100   /* tokens for a mask, */
#define MAX_FILLED       65536 /* and for all of a request */
#define MAX_IGNORED_TEXT 512

/* A text, or ids where text is NULL. */
typedef struct input {
    const char *text;
    size_t length;
    const int32_t *ids;
    int64_t n;
} input;

/* What an answer must match; text NULL: anything. */
typedef struct form {
    weft_grammar_kind kind;
    const char *text;
    size_t n;
    bool strict;       /* OpenAI's */
    const char *param; /* the field that it came from */
} form;

typedef struct request {
    endpoint endpoint;
    const char *model; /* NULL: not given */
    input *inputs;     /* of completions, embeddings, tokenize; detokenize: one of ids */
    int64_t n_input;
    input *seconds; /* text_2 of score, documents of rerank: [n_second] */
    int64_t n_second;
    int64_t top_n; /* of rerank; 0: all */
    bool no_documents, no_activation;
    const char *messages; /* JSON, of chat and apply-template */
    size_t n_messages;
    const char *variables; /* JSON object for the template, or NULL */

    int64_t max_tokens; /* -1: not given */
    int64_t min_tokens;
    int64_t n;       /* choices for each prompt */
    int64_t best_of; /* 0: not given */
    bool echo, stream, include_usage, ignore_eos;
    bool wants_logprobs;
    int64_t n_top; /* most probable tokens beside each, if wants_logprobs */
    double temperature, top_p, min_p, frequency, presence, repetition;
    int64_t top_k; /* 0 or -1: all */
    int64_t seed;
    bool has_seed;
    int64_t priority;
    const char *stop[MAX_STOP];
    int n_stop;
    weft_bias *bias;
    int64_t n_bias;
    int64_t forced_bos; /* of translate: the first token of the text; -1: none */
    int32_t *stop_ids;
    int64_t n_stop_id;

    form form;
    const char *tools; /* JSON, or NULL */
    size_t n_tools;
    bool no_calls, must_call, single_call;
    const char *only_tool; /* that may be called, or NULL */

    bool no_generation_prompt, continue_last;
    bool base64;        /* of embeddings */
    int64_t dimensions; /* 0: the model's */
    bool no_special, parse_special;

    char ignored[MAX_IGNORED_TEXT]; /* with lenient: "store, metadata" */
    store store;                    /* all of the above lives there */
} request;

/* Fills *r from a body. False with why filled; request_free frees r either way. */
bool request_parse(request *r, endpoint e, const char *body, size_t n, bool lenient, refusal *why);
void request_free(request *r);

/* The name of field i of an endpoint, for tests; NULL after the last. */
const char *request_field_name(endpoint e, int i);

#endif
