/* request.c - the table of fields, and the checks that need several of them; see request.h. */
#include "request_values.h"

#include "body.h"

#include <stdio.h>
#include <string.h>

typedef enum kind {
    KIND_TEXT,
    KIND_BOOL,
    KIND_NOT,
    KIND_INT,
    KIND_REAL,
    KIND_READ,
    KIND_LACKS
} kind;

#define COMPLETIONS (1u << ENDPOINT_COMPLETIONS)
#define CHAT        (1u << ENDPOINT_CHAT)
#define EMBEDDINGS  (1u << ENDPOINT_EMBEDDINGS)
#define TOKENIZE    (1u << ENDPOINT_TOKENIZE)
#define DETOKENIZE  (1u << ENDPOINT_DETOKENIZE)
#define TEMPLATE    (1u << ENDPOINT_TEMPLATE)
#define RESPONSES   (1u << ENDPOINT_RESPONSES)
#define COUNT       (1u << ENDPOINT_COUNT)
#define MESSAGES    (1u << ENDPOINT_MESSAGES)
#define SCORE       (1u << ENDPOINT_SCORE)
#define RERANK      (1u << ENDPOINT_RERANK)
#define CLASSIFY    (1u << ENDPOINT_CLASSIFY)
#define FILL        (1u << ENDPOINT_FILL)
#define TRANSLATE   (1u << ENDPOINT_TRANSLATE)
#define TALKS       (RESPONSES | MESSAGES)
#define GENERATE    (COMPLETIONS | CHAT)
#define SAMPLE      (GENERATE | TRANSLATE)
#define ALL         ((1u << N_ENDPOINT) - 1)

typedef struct field {
    const char *name;
    unsigned endpoints;
    kind kind;
    size_t to; /* of the member in a request */
    double least, most;
    value_fn *read;
    const char *lacks; /* of KIND_LACKS: why not */
} field;

#define TEXT(name, who, member)                                                                    \
    {                                                                                              \
        name, who, KIND_TEXT, offsetof(request, member), 0, 0, NULL, NULL                          \
    }
#define BOOL(name, who, member)                                                                    \
    {                                                                                              \
        name, who, KIND_BOOL, offsetof(request, member), 0, 0, NULL, NULL                          \
    }
#define NOT(name, who, member) /* true where the field is false */                                 \
    {                                                                                              \
        name, who, KIND_NOT, offsetof(request, member), 0, 0, NULL, NULL                           \
    }
#define INT(name, who, member, least, most)                                                        \
    {                                                                                              \
        name, who, KIND_INT, offsetof(request, member), least, most, NULL, NULL                    \
    }
#define REAL(name, who, member, least, most)                                                       \
    {                                                                                              \
        name, who, KIND_REAL, offsetof(request, member), least, most, NULL, NULL                   \
    }
#define READ(name, who, fn)                                                                        \
    {                                                                                              \
        name, who, KIND_READ, 0, 0, 0, fn, NULL                                                    \
    }
#define LACKS(name, who, why)                                                                      \
    {                                                                                              \
        name, who, KIND_LACKS, 0, 0, 0, NULL, why                                                  \
    }

static const field fields[] = {
    TEXT("model", ALL, model),
    READ("prompt", COMPLETIONS, read_prompt),
    READ("prompt", TOKENIZE, read_text_prompt),
    READ("content", TOKENIZE, read_text_prompt),
    READ("input", EMBEDDINGS | CLASSIFY | FILL, read_input),
    READ("input", TRANSLATE, read_prompt),
    INT("forced_bos_token_id", TRANSLATE, forced_bos, 0, INT32_MAX),
    READ("text_1", SCORE, read_text_1),
    READ("text_2", SCORE, read_text_2),
    READ("query", RERANK, read_query),
    READ("documents", RERANK, read_documents),
    INT("top_n", RERANK, top_n, 0, MAX_EMBED),
    NOT("return_documents", RERANK, no_documents),
    NOT("use_activation", SCORE | RERANK | CLASSIFY, no_activation),
    INT("top_k", FILL, top_k, 1, MAX_FILL),
    READ("tokens", DETOKENIZE, read_ids),
    READ("messages", CHAT | TEMPLATE, read_messages),
    INT("max_tokens", SAMPLE, max_tokens, 0, MAX_TOKENS),
    INT("max_completion_tokens", CHAT, max_tokens, 0, MAX_TOKENS),
    INT("min_tokens", SAMPLE, min_tokens, 0, MAX_TOKENS),
    REAL("temperature", SAMPLE, temperature, 0, 2),
    REAL("top_p", SAMPLE, top_p, 0, 1),
    INT("top_k", SAMPLE, top_k, -1, 1 << 24),
    REAL("min_p", SAMPLE, min_p, 0, 1),
    REAL("repetition_penalty", SAMPLE, repetition, 0.01, 100),
    REAL("frequency_penalty", SAMPLE, frequency, -2, 2),
    REAL("presence_penalty", SAMPLE, presence, -2, 2),
    INT("n", GENERATE, n, 1, MAX_CHOICE),
    INT("best_of", COMPLETIONS, best_of, 1, MAX_CHOICE),
    READ("stop", GENERATE, read_stop),
    READ("stop_token_ids", SAMPLE, read_stop_ids),
    READ("seed", SAMPLE, read_seed),
    READ("logit_bias", SAMPLE, read_bias),
    INT("logprobs", COMPLETIONS, n_top, 0, 5),
    READ("logprobs", CHAT, read_logprobs_flag),
    INT("top_logprobs", CHAT, n_top, 0, MAX_TOP),
    BOOL("echo", COMPLETIONS, echo),
    BOOL("stream", SAMPLE, stream),
    READ("stream_options", SAMPLE, read_stream_options),
    BOOL("ignore_eos", SAMPLE, ignore_eos),
    INT("priority", SAMPLE, priority, -1000, 1000),
    READ("chat_template_kwargs", CHAT | TEMPLATE, read_template_variables),
    READ("reasoning_effort", CHAT | TEMPLATE, read_effort),
    NOT("add_generation_prompt", CHAT | TEMPLATE, no_generation_prompt),
    BOOL("continue_final_message", CHAT | TEMPLATE, continue_last),
    READ("encoding_format", EMBEDDINGS, read_encoding),
    INT("dimensions", EMBEDDINGS, dimensions, 1, 1 << 20),
    NOT("add_special_tokens", TOKENIZE | COMPLETIONS | TRANSLATE, no_special),
    NOT("add_special", TOKENIZE, no_special),
    BOOL("parse_special", TOKENIZE | COMPLETIONS | TRANSLATE, parse_special),
    READ("user", SAMPLE | EMBEDDINGS | CLASSIFY | FILL | SCORE | RERANK, read_user),
    READ("response_format", GENERATE, read_response_format),
    READ("tool_choice", CHAT, read_tool_choice),
    READ("store", CHAT, read_no_store),
    READ("service_tier", GENERATE, read_service_tier),
    READ("structured_outputs", GENERATE, read_structured_outputs),
    READ("guided_json", GENERATE, read_guided_json),
    READ("guided_regex", GENERATE, read_guided_regex),
    READ("guided_grammar", GENERATE, read_guided_grammar),
    READ("guided_choice", GENERATE, read_guided_choice),
    READ("tools", CHAT | TEMPLATE, read_tools),
    NOT("parallel_tool_calls", CHAT, single_call),
    LACKS("functions", CHAT, "use tools"),
    LACKS("function_call", CHAT, "use tool_choice"),
    READ("input", RESPONSES, read_later),
    READ("instructions", RESPONSES, read_user),
    INT("max_output_tokens", RESPONSES, max_tokens, 1, MAX_TOKENS),
    READ("text", RESPONSES, read_text_format),
    READ("reasoning", RESPONSES, read_reasoning),
    READ("tool_choice", RESPONSES, read_responses_choice),
    NOT("parallel_tool_calls", RESPONSES, single_call),
    READ("previous_response_id", RESPONSES, read_no_previous),
    READ("conversation", RESPONSES, read_no_previous),
    READ("store", RESPONSES, read_no_store),
    READ("include", RESPONSES, read_list),
    READ("prompt_cache_key", SAMPLE | RESPONSES, read_user),
    READ("truncation", RESPONSES, read_truncation),
    READ("messages", MESSAGES | COUNT, read_later),
    READ("system", MESSAGES | COUNT, read_later),
    INT("max_tokens", MESSAGES, max_tokens, 1, MAX_TOKENS),
    READ("stop_sequences", MESSAGES, read_stop),
    READ("tool_choice", MESSAGES | COUNT, read_messages_choice),
    READ("thinking", MESSAGES | COUNT, read_thinking),
    READ("tools", TALKS | COUNT, read_flat_tools),
    READ("metadata", TALKS | COUNT, read_object),
    REAL("temperature", TALKS, temperature, 0, 2),
    REAL("top_p", TALKS, top_p, 0, 1),
    INT("top_k", TALKS, top_k, -1, 1 << 24),
    BOOL("stream", TALKS, stream),
    READ("seed", TALKS, read_seed),
    READ("user", RESPONSES, read_user),
    READ("service_tier", RESPONSES, read_service_tier),
    READ("chat_template_kwargs", TALKS | COUNT, read_template_variables),
    LACKS("background", RESPONSES, "answers are not stored"),
    LACKS("modalities", CHAT, "answers are text"),
    LACKS("audio", CHAT, "answers are text"),
    LACKS("prediction", CHAT, "there is no speculative decoding"),
    LACKS("metadata", CHAT, "nothing is stored"),
    LACKS("web_search_options", CHAT, "the server opens no connections"),
    LACKS("suffix", COMPLETIONS, "text is only continued"),
};

#define N_FIELD (sizeof fields / sizeof *fields)

const char *request_field_name(endpoint e, int i)
{
    for (size_t k = 0; k < N_FIELD; k++)
        if (fields[k].endpoints >> e & 1 && i-- == 0)
            return fields[k].name;
    return NULL;
}

/* ---- one field ------------------------------------------------------------------------------- */

static void *member(const reading *r, const field *f)
{
    return (char *)r->to + f->to; /* bounded: by the table */
}

static bool refuse_range(const reading *r, const field *f, const json_t *value)
{
    char expected[96];
    const char *what = f->kind == KIND_INT ? "an integer" : "a number";
    snprintf(expected, sizeof expected, "%s from %.10g to %.10g", what, f->least, f->most);
    return refuse_value(r, "", value, expected);
}

static bool take_int(const reading *r, const field *f, const json_t *value)
{
    const json_int_t x = json_integer_value(value);
    if (!json_is_integer(value) || (double)x < f->least || (double)x > f->most)
        return refuse_range(r, f, value);
    *(int64_t *)member(r, f) = x;
    return true;
}

static bool take_real(const reading *r, const field *f, const json_t *value)
{
    const double x = json_number_value(value);
    if (!json_is_number(value) || !(x >= f->least && x <= f->most))
        return refuse_range(r, f, value);
    *(double *)member(r, f) = x;
    return true;
}

static bool take_text(const reading *r, const field *f, const json_t *value)
{
    if (!json_is_string(value) || strlen(json_string_value(value)) != json_string_length(value))
        return refuse_value(r, "", value, "a string without zero bytes");
    *(const char **)member(r, f) = json_string_value(value);
    return true;
}

static bool take(const reading *r, const field *f, const json_t *value)
{
    bool *flag = member(r, f);
    switch (f->kind) {
    case KIND_TEXT:
        return take_text(r, f, value);
    case KIND_BOOL:
    case KIND_NOT:
        if (!json_is_boolean(value))
            return refuse_value(r, "", value, "true or false");
        *flag = json_is_true(value) == (f->kind == KIND_BOOL);
        return true;
    case KIND_INT:
        return take_int(r, f, value);
    case KIND_REAL:
        return take_real(r, f, value);
    case KIND_READ:
        return f->read(r, value);
    case KIND_LACKS:
        break;
    }
    return refuse(r->why, 400, INVALID_REQUEST, "unsupported_parameter", f->name,
                  "%s: not supported: %s", f->name, f->lacks);
}

static const field *find(endpoint e, const char *name)
{
    for (size_t i = 0; i < N_FIELD; i++)
        if (fields[i].endpoints >> e & 1 && strcmp(fields[i].name, name) == 0)
            return &fields[i];
    return NULL;
}

/* Adds a name to the list of those that were ignored; the list may be cut between names. Letters of
 * header fields only, as the list becomes one. */
static void ignore(request *r, const char *name)
{
    const size_t n = strlen(r->ignored), length = strlen(name);
    for (const char *c = name; *c; c++)
        if (*c <= ' ' || *c > '~' || *c == ',')
            return;
    if (length + 3 < sizeof r->ignored - n) /* bounded: BODY_MAX_BYTES */
        snprintf(&r->ignored[n], sizeof r->ignored - n, "%s%s", n ? ", " : "", name);
}

static bool take_field(request *r, const char *name, const json_t *value, bool lenient,
                       refusal *why)
{
    const field *f = find(r->endpoint, name);
    const reading at = { .to = r, .name = f ? f->name : name, .why = why };
    if (f && json_is_null(value))
        return true;
    if (lenient && (!f || f->kind == KIND_LACKS)) {
        ignore(r, name);
        return true;
    }
    if (!f)
        return refuse(why, 400, INVALID_REQUEST, "unknown_parameter", name,
                      "%.80s: unknown field; remove it, or start weft serve with --lenient", name);
    if (f->kind == KIND_INT && strcmp(name, "logprobs") == 0)
        r->wants_logprobs = true;
    return take(&at, f, value);
}

/* ---- several fields -------------------------------------------------------------------------- */

static bool is_missing(const char *name, refusal *why)
{
    refuse(why, 400, INVALID_REQUEST, "missing_required_parameter", name,
           "%s: missing; expected it in the body", name);
    return true;
}

/* The fields that must be there. */
static bool missing(const request *r, refusal *why)
{
    static const char *const first[] = {
        [ENDPOINT_COMPLETIONS] = "prompt", [ENDPOINT_TOKENIZE] = "prompt",
        [ENDPOINT_DETOKENIZE] = "tokens",  [ENDPOINT_EMBEDDINGS] = "input",
        [ENDPOINT_SCORE] = "text_1",       [ENDPOINT_RERANK] = "query",
        [ENDPOINT_CLASSIFY] = "input",     [ENDPOINT_FILL] = "input",
        [ENDPOINT_TRANSLATE] = "input",    [N_ENDPOINT] = NULL,
    };
    const char *name = first[r->endpoint];
    if (name ? !r->inputs : !r->messages)
        return is_missing(name ? name : "messages", why);
    if (r->endpoint == ENDPOINT_SCORE && !r->seconds)
        return is_missing("text_2", why);
    return r->endpoint == ENDPOINT_RERANK && !r->seconds && is_missing("documents", why);
}

static bool fits(const json_t *root, const request *r, refusal *why)
{
    const json_t *old = json_object_get(root, "max_tokens");
    const json_t *now = json_object_get(root, "max_completion_tokens");
    if (json_is_integer(old) && json_is_integer(now) && !json_equal(old, now))
        return refuse(why, 400, INVALID_REQUEST, NULL, "max_tokens",
                      "max_tokens: differs from max_completion_tokens; expected one of them");
    if (r->max_tokens >= 0 && r->min_tokens > r->max_tokens)
        return refuse(why, 400, INVALID_REQUEST, NULL, "min_tokens",
                      "min_tokens: found %lld; expected at most max_tokens, which is %lld",
                      (long long)r->min_tokens, (long long)r->max_tokens);
    if (r->best_of && r->best_of != r->n)
        return refuse(why, 400, INVALID_REQUEST, NULL, "best_of",
                      "best_of: found %lld; expected n, which is %lld", (long long)r->best_of,
                      (long long)r->n);
    if (r->endpoint == ENDPOINT_CHAT && r->n_top > 0 && !r->wants_logprobs)
        return refuse(why, 400, INVALID_REQUEST, NULL, "top_logprobs",
                      "top_logprobs: found %lld without logprobs; expected \"logprobs\": true",
                      (long long)r->n_top);
    if (r->form.text && r->tools && !r->no_calls)
        return refuse(why, 400, INVALID_REQUEST, NULL, r->form.param,
                      "%s: found with tools; expected one of them, or \"tool_choice\": \"none\"",
                      r->form.param);
    if (r->must_call && !r->tools)
        return refuse(why, 400, INVALID_REQUEST, NULL, "tool_choice",
                      "tool_choice: found without tools; expected tools");
    if (r->include_usage && !r->stream)
        return refuse(why, 400, INVALID_REQUEST, NULL, "stream_options",
                      "stream_options: found without stream; expected \"stream\": true");
    if (r->endpoint == ENDPOINT_SCORE && r->n_input != 1 && r->n_input != r->n_second)
        return refuse(why, 400, INVALID_REQUEST, "invalid_value", "text_2",
                      "text_2: found %lld texts beside %lld of text_1; expected as many, or one "
                      "text_1",
                      (long long)r->n_second, (long long)r->n_input);
    const int64_t n_choice = r->n_input * r->n; /* bounded: MAX_EMBED, MAX_CHOICE */
    if (r->endpoint == ENDPOINT_COMPLETIONS && n_choice > MAX_INPUT)
        return refuse(why, 400, INVALID_REQUEST, NULL, "n",
                      "n: %lld prompts times %lld choices; expected at most %d",
                      (long long)r->n_input, (long long)r->n, MAX_INPUT);
    return true;
}

bool request_parse(request *r, endpoint e, const char *body, size_t n, bool lenient, refusal *why)
{
    json_t *root, *value;
    const char *name;
    char text[300];
    *r = (request){ .endpoint = e, .max_tokens = -1, .n = 1, .temperature = 1, .top_p = 1 };
    if (e == ENDPOINT_FILL) {
        r->parse_special = true; /* the mask is one */
        r->top_k = 5;
    }
    r->forced_bos = -1;
    if (e == ENDPOINT_TRANSLATE)
        r->temperature = 0; /* the most probable token, by default */
    *why = (refusal){ 0 };
    const body_status status = body_parse(&r->store, body, n, &root, text, sizeof text);
    if (status == BODY_NO_MEMORY)
        return refuse(why, 503, "server_error", "no_memory", NULL, "body: %s", text);
    if (status != BODY_GOOD)
        return refuse(why, 400, INVALID_REQUEST, "invalid_json", NULL, "body: %s", text);
    if (!json_is_object(root))
        return refuse(why, 400, INVALID_REQUEST, "invalid_json", NULL,
                      "body: found %s; expected an object", value_text(root, text, sizeof text));
    json_object_foreach(root, name, value)
    {
        if (!take_field(r, name, value, lenient, why))
            return false;
    }
    const bool translates = endpoint_has_blocks(e) || e == ENDPOINT_COUNT;
    if (translates && !talk_translate(r, root, why))
        return false;
    return !missing(r, why) && fits(root, r, why);
}

void request_free(request *r)
{
    store_free(&r->store);
}
