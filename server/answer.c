/* answer.c - OpenAI's objects; see answer.h. */
#include "blocks.h"

#include <stdio.h>
#include <string.h>

/* ---- pieces ---------------------------------------------------------------------------------- */

static void forget(bytes *b)
{
    if (b->n > 0)
        bytes_drop(b, b->n);
}

/* A list of which the elements are written already. */
static void put_list(wire *w, const char *key, const bytes *elements)
{
    wire_list(w, key);
    if (elements->n > 0)
        wire_raw(w, NULL, elements->at, elements->n);
    wire_end(w);
    w->to->failed |= elements->failed;
}

/* ---- tokens ---------------------------------------------------------------------------------- */

/* The bytes of a token, or its spelling if it is special. */
static void put_piece(const weft_tokenizer *t, int32_t id, bytes *to)
{
    char room[256];
    size_t length = 0;
    const char *spelled = weft_tokenizer_token(t, id, &length);
    if (weft_tokenizer_is_special(t, id)) {
        bytes_add(to, spelled ? spelled : "", spelled ? length : 0);
        return;
    }
    const int64_t n = weft_tokenizer_piece(t, id, room, sizeof room);
    if (n >= 0 && n <= (int64_t)sizeof room) {
        bytes_add(to, room, (size_t)n);
    } else if (n > 0) {
        char *longer = memory_take((size_t)n);
        to->failed |= !longer;
        if (longer && weft_tokenizer_piece(t, id, longer, (size_t)n) == n)
            bytes_add(to, longer, (size_t)n);
        memory_give(longer);
    }
}

/* Completions have the token as text only: one that is not UTF-8 is "bytes:\xe2\x80", as OpenAI
 * writes it. */
static void piece_text(const answer *a, int32_t id, bytes *to)
{
    bytes raw = { 0 };
    put_piece(a->tokenizer, id, &raw);
    if (wire_is_utf8(raw.at, raw.n)) {
        bytes_add(to, raw.at ? raw.at : "", raw.n);
    } else {
        bytes_text(to, "bytes:");
        for (size_t i = 0; i < raw.n; i++)
            bytes_format(to, "\\x%02x", (unsigned char)raw.at[i]);
    }
    to->failed |= raw.failed;
    bytes_free(&raw);
}

/* {"token":"a","logprob":-0.5,"bytes":[97]} without its closing bracket */
static void chat_token(const answer *a, const weft_logprob *lp, wire *w)
{
    bytes raw = { 0 };
    put_piece(a->tokenizer, lp->id, &raw);
    wire_object(w, NULL);
    wire_text(w, "token", raw.at ? raw.at : "", raw.n);
    wire_real(w, "logprob", lp->logprob);
    wire_list(w, "bytes");
    for (size_t i = 0; i < raw.n; i++)
        wire_int(w, NULL, (unsigned char)raw.at[i]);
    wire_end(w);
    w->to->failed |= raw.failed;
    bytes_free(&raw);
}

static void add_chat_token(const answer *a, choice *c, const weft_logprob *lp)
{
    wire w = wire_to(&c->tokens);
    if (c->n_logprob > 0)
        bytes_text(&c->tokens, ",");
    chat_token(a, lp, &w);
    wire_list(&w, "top_logprobs");
    for (int64_t i = 1; i <= a->n_top && lp[i].id >= 0; i++) {
        chat_token(a, &lp[i], &w);
        wire_end(&w);
    }
    wire_end(&w);
    wire_end(&w);
}

/* {"a":-0.5,"b":-1.5}: the most probable, and the token itself if it is not among them. Two tokens
 * with one text have one entry, that of the more probable. */
static void add_tops(const answer *a, choice *c, const weft_logprob *lp)
{
    bytes text[1 + MAX_TOP] = { { 0 } };
    wire w = wire_to(&c->tops);
    wire_object(&w, NULL);
    for (int64_t k = 1; k <= a->n_top + 1; k++) {
        const int64_t i = k <= a->n_top ? k : 0; /* itself at last */
        if (lp[i].id < 0)
            continue;
        bool known = false;
        piece_text(a, lp[i].id, &text[i]);
        for (int64_t j = 1; j < k; j++)
            known |= text[j].at && text[i].at && strcmp(text[j].at, text[i].at) == 0;
        if (!known && text[i].at)
            wire_real(&w, text[i].at, lp[i].logprob);
    }
    wire_end(&w);
    for (int i = 0; i <= MAX_TOP; i++) {
        c->tops.failed |= text[i].failed;
        bytes_free(&text[i]);
    }
}

static int64_t n_code_point(const bytes *b)
{
    int64_t n = 0;
    for (size_t i = 0; i < b->n; i++)
        n += ((unsigned char)b->at[i] & 0xC0) != 0x80;
    return n;
}

static void add_completion_token(const answer *a, choice *c, int32_t id, const weft_logprob *lp)
{
    bytes text = { 0 }, raw = { 0 };
    const char *comma = c->n_logprob > 0 ? "," : "";
    piece_text(a, id, &text);
    put_piece(a->tokenizer, id, &raw);
    bytes_text(&c->tokens, comma);
    wire_quote(&c->tokens, text.at ? text.at : "", text.n);
    bytes_format(&c->offsets, "%s%lld", comma, (long long)c->offset);
    bytes_text(&c->values, comma);
    bytes_text(&c->tops, comma);
    if (lp) {
        wire w = wire_to(&c->values);
        wire_real(&w, NULL, lp->logprob);
        add_tops(a, c, lp);
    } else {
        bytes_text(&c->values, "null");
        bytes_text(&c->tops, "null");
    }
    c->offset += n_code_point(&raw);
    c->tokens.failed |= text.failed || raw.failed;
    bytes_free(&text);
    bytes_free(&raw);
}

void answer_token(answer *a, choice *c, int32_t id, const weft_logprob *lp)
{
    if (!a->wants_logprobs)
        return;
    if (a->endpoint == ENDPOINT_CHAT)
        add_chat_token(a, c, lp);
    else
        add_completion_token(a, c, id, lp);
    c->n_logprob++;
}

void answer_text(const answer *a, choice *c, const char *text, size_t n)
{
    if (endpoint_has_blocks(a->endpoint))
        blocks_add(a, c, BLOCK_TEXT, text, n);
    else
        bytes_add(&c->text, text, n);
}

void answer_thought(const answer *a, choice *c, const char *text, size_t n)
{
    if (endpoint_has_blocks(a->endpoint))
        blocks_add(a, c, BLOCK_THOUGHT, text, n);
    else
        bytes_add(&c->thought, text, n);
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* {"id":"call_0","type":"function","function":{"name":"add","arguments":"{}"}}, in a stream with its
 * index, and its arguments in pieces. first: with id and name. */
static void put_call(const answer *a, choice *c, bool first, const char *arguments, size_t n)
{
    const int index = c->n_call - 1;
    wire w = wire_to(&c->calls);
    if (c->calls.n > 0)
        bytes_text(&c->calls, ",");
    wire_object(&w, NULL);
    if (a->stream)
        wire_int(&w, "index", index);
    if (first) {
        char id[64];
        snprintf(id, sizeof id, "call_%.20s%d_%d", strchr(a->id, '-') + 1, c->index, index);
        wire_string(&w, "id", id);
        wire_string(&w, "type", "function");
    }
    wire_object(&w, "function");
    if (first)
        wire_bytes(&w, "name", &c->name);
    wire_text(&w, "arguments", arguments, n);
    wire_end(&w);
    wire_end(&w);
}

void answer_call(const answer *a, choice *c, weft_call_event e, const char *text, size_t n)
{
    if (endpoint_has_blocks(a->endpoint)) {
        blocks_call(a, c, e, text, n);
        return;
    }
    switch (e) {
    case WEFT_CALL_TEXT:
        answer_text(a, c, text, n);
        break;
    case WEFT_CALL_BEGINS:
        c->n_call++;
        forget(&c->name);
        forget(&c->arguments);
        bytes_add(&c->name, text, n);
        if (a->stream)
            put_call(a, c, true, "", 0);
        break;
    case WEFT_CALL_ARGUMENTS:
        if (a->stream)
            put_call(a, c, false, text, n);
        else
            bytes_add(&c->arguments, text, n);
        break;
    case WEFT_CALL_ENDS:
        if (!a->stream)
            put_call(a, c, true, c->arguments.at ? c->arguments.at : "", c->arguments.n);
        c->calls.failed |= c->arguments.failed || c->name.failed;
        break;
    }
}

void choice_free(choice *c)
{
    bytes_free(&c->text);
    bytes_free(&c->thought);
    bytes_free(&c->tokens);
    bytes_free(&c->values);
    bytes_free(&c->tops);
    bytes_free(&c->offsets);
    bytes_free(&c->calls);
    bytes_free(&c->name);
    bytes_free(&c->arguments);
    blocks_free(&c->blocks);
}

/* ---- parts of the objects -------------------------------------------------------------------- */

static void put_logprobs(const answer *a, const choice *c, wire *w)
{
    if (!a->wants_logprobs || (a->stream && c->n_logprob == 0)) {
        wire_null(w, "logprobs");
        return;
    }
    wire_object(w, "logprobs");
    if (a->endpoint == ENDPOINT_CHAT) {
        put_list(w, "content", &c->tokens);
        wire_null(w, "refusal");
    } else {
        put_list(w, "tokens", &c->tokens);
        put_list(w, "token_logprobs", &c->values);
        put_list(w, "top_logprobs", &c->tops);
        put_list(w, "text_offset", &c->offsets);
    }
    wire_end(w);
}

static void put_usage(const answer *a, wire *w)
{
    int64_t n_new = 0, n_thought = 0;
    for (int i = 0; i < a->n_choice; i++) {
        n_new += a->choices[i].n_new;
        n_thought += a->choices[i].n_thought;
    }
    wire_object(w, "usage");
    wire_int(w, "prompt_tokens", a->n_prompt);
    wire_int(w, "completion_tokens", n_new);
    wire_int(w, "total_tokens", a->n_prompt + n_new);
    wire_object(w, "prompt_tokens_details");
    wire_int(w, "cached_tokens", a->n_cached);
    wire_end(w);
    if (a->endpoint == ENDPOINT_CHAT) {
        wire_object(w, "completion_tokens_details");
        wire_int(w, "reasoning_tokens", n_thought);
        wire_end(w);
    }
    wire_end(w);
}

static double per_second(int64_t n, double seconds)
{
    return seconds > 0 ? (double)n / seconds : 0;
}

/* As llama-server names them. */
static void put_timings(const answer *a, wire *w)
{
    int64_t n_new = 0;
    for (int i = 0; i < a->n_choice; i++)
        n_new += a->choices[i].n_new;
    const int64_t n_prompt = a->n_prompt - a->n_cached;
    wire_object(w, "timings");
    wire_real(w, "queue_ms", a->queue_s * 1e3);
    wire_int(w, "cache_n", a->n_cached);
    wire_int(w, "prompt_n", n_prompt);
    wire_real(w, "prompt_ms", a->prompt_s * 1e3);
    wire_real(w, "prompt_per_second", per_second(n_prompt, a->prompt_s));
    wire_int(w, "predicted_n", n_new);
    wire_real(w, "predicted_ms", a->generate_s * 1e3);
    wire_real(w, "predicted_per_second", per_second(n_new, a->generate_s));
    wire_end(w);
}

static void put_head(const answer *a, const char *object, wire *w)
{
    wire_object(w, NULL);
    wire_string(w, "id", a->id);
    wire_string(w, "object", object);
    wire_int(w, "created", a->created);
    wire_string(w, "model", a->model);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void put_message(const choice *c, wire *w)
{
    wire_object(w, "message");
    wire_string(w, "role", "assistant");
    if (c->n_call > 0 && c->text.n == 0)
        wire_null(w, "content");
    else
        wire_bytes(w, "content", &c->text);
    if (c->thought.n > 0)
        wire_bytes(w, "reasoning_content", &c->thought);
    if (c->n_call > 0)
        put_list(w, "tool_calls", &c->calls);
    wire_null(w, "refusal");
    wire_end(w);
    w->to->failed |= c->text.failed || c->thought.failed;
}

void answer_whole(const answer *a, bytes *to)
{
    const bool chat = a->endpoint == ENDPOINT_CHAT;
    wire w = wire_to(to);
    if (endpoint_has_blocks(a->endpoint)) {
        blocks_close(a, &a->choices[0]);
        block_style_of(a->endpoint)->whole(a, to);
        to->failed |= blocks_failed(&a->choices[0]);
        return;
    }
    put_head(a, chat ? "chat.completion" : "text_completion", &w);
    wire_list(&w, "choices");
    for (int i = 0; i < a->n_choice; i++) {
        const choice *c = &a->choices[i];
        wire_object(&w, NULL);
        wire_int(&w, "index", c->index);
        if (chat)
            put_message(c, &w);
        else
            wire_bytes(&w, "text", &c->text);
        put_logprobs(a, c, &w);
        wire_string(&w, "finish_reason", c->finish);
        wire_end(&w);
    }
    wire_end(&w);
    put_usage(a, &w);
    put_timings(a, &w);
    wire_end(&w);
}

/* ---- streams --------------------------------------------------------------------------------- */

/* The text, thought and log-probabilities so far are in the chunk that was written. */
static void forget_written(choice *c)
{
    forget(&c->text);
    forget(&c->thought);
    forget(&c->tokens);
    forget(&c->values);
    forget(&c->tops);
    forget(&c->offsets);
    forget(&c->calls);
    c->n_logprob = 0;
}

static void put_delta(choice *c, bool first, wire *w)
{
    wire_object(w, "delta");
    if (first) {
        wire_string(w, "role", "assistant");
        wire_string(w, "content", "");
    } else {
        if (c->text.n > 0)
            wire_bytes(w, "content", &c->text);
        if (c->thought.n > 0)
            wire_bytes(w, "reasoning_content", &c->thought);
        if (c->calls.n > 0)
            put_list(w, "tool_calls", &c->calls);
    }
    wire_end(w);
}

typedef enum chunk_part { CHUNK_ROLE, CHUNK_TEXT, CHUNK_FINISH } chunk_part;

static void put_event(const answer *a, choice *c, chunk_part part, bytes *to)
{
    static const choice nothing;
    choice empty = nothing, *from = part == CHUNK_TEXT ? c : &empty;
    const bool chat = a->endpoint == ENDPOINT_CHAT;
    wire w = wire_to(to);
    bytes_text(to, "data: ");
    put_head(a, chat ? "chat.completion.chunk" : "text_completion", &w);
    wire_list(&w, "choices");
    wire_object(&w, NULL);
    wire_int(&w, "index", c->index);
    if (chat)
        put_delta(from, part == CHUNK_ROLE, &w);
    else
        wire_bytes(&w, "text", &from->text);
    put_logprobs(a, from, &w);
    wire_string(&w, "finish_reason", part == CHUNK_FINISH ? c->finish : NULL);
    wire_end(&w);
    wire_end(&w);
    if (a->include_usage)
        wire_null(&w, "usage");
    wire_end(&w);
    bytes_text(to, "\n\n");
}

void answer_chunk(const answer *a, choice *c, bytes *to)
{
    if (endpoint_has_blocks(a->endpoint)) {
        blocks_events(a, c, to);
        return;
    }
    if (a->endpoint == ENDPOINT_CHAT && !c->begun)
        put_event(a, c, CHUNK_ROLE, to);
    c->begun = true;
    if (c->text.n > 0 || c->thought.n > 0 || c->calls.n > 0 || c->n_logprob > 0) {
        put_event(a, c, CHUNK_TEXT, to);
        forget_written(c);
    }
    if (c->finish)
        put_event(a, c, CHUNK_FINISH, to);
    to->failed |= c->text.failed || c->thought.failed || c->tokens.failed || c->calls.failed;
}

void answer_stream_end(const answer *a, bytes *to)
{
    if (endpoint_has_blocks(a->endpoint)) {
        block_style_of(a->endpoint)->ends(a, to);
        return;
    }
    if (a->include_usage) {
        const bool chat = a->endpoint == ENDPOINT_CHAT;
        wire w = wire_to(to);
        bytes_text(to, "data: ");
        put_head(a, chat ? "chat.completion.chunk" : "text_completion", &w);
        wire_list(&w, "choices");
        wire_end(&w);
        put_usage(a, &w);
        put_timings(a, &w);
        wire_end(&w);
        bytes_text(to, "\n\n");
    }
    bytes_text(to, "data: [DONE]\n\n");
}
