/* blocks_responses.c - answers as OpenAI's Responses has them; see blocks.h. */
#include "blocks.h"

#include <string.h>

/* ---- the response ---------------------------------------------------------------------------- */

static void put_usage(const answer *a, wire *w)
{
    const choice *c = &a->choices[0];
    wire_object(w, "usage");
    wire_int(w, "input_tokens", a->n_prompt);
    wire_object(w, "input_tokens_details");
    wire_int(w, "cached_tokens", a->n_cached);
    wire_end(w);
    wire_int(w, "output_tokens", c->n_new);
    wire_object(w, "output_tokens_details");
    wire_int(w, "reasoning_tokens", c->n_thought);
    wire_end(w);
    wire_int(w, "total_tokens", a->n_prompt + c->n_new);
    wire_end(w);
}

static void put_settings(const answer *a, wire *w)
{
    wire_null(w, "instructions");
    wire_null(w, "previous_response_id");
    wire_null(w, "max_output_tokens");
    wire_bool(w, "parallel_tool_calls", !a->asked->single_call);
    wire_bool(w, "store", false);
    wire_real(w, "temperature", a->asked->temperature);
    wire_real(w, "top_p", a->asked->top_p);
    wire_string(w, "truncation", "disabled");
    wire_string(w, "tool_choice",
                a->asked->no_calls    ? "none"
                : a->asked->must_call ? "required"
                                      : "auto");
    wire_list(w, "tools");
    wire_end(w);
    wire_object(w, "reasoning");
    wire_null(w, "effort");
    wire_null(w, "summary");
    wire_end(w);
    wire_object(w, "text");
    wire_object(w, "format");
    wire_string(w, "type", "text");
    wire_end(w);
    wire_end(w);
    wire_object(w, "metadata");
    wire_end(w);
}

/* Did the answer get too long? */
static bool is_cut(const choice *c)
{
    return c->finish && strcmp(c->finish, "length") == 0;
}

/* done: with what was generated */
static void put_response(const answer *a, const char *key, bool done, wire *w)
{
    const choice *c = &a->choices[0];
    const bool cut = done && is_cut(c);
    wire_object(w, key);
    wire_string(w, "id", a->id);
    wire_string(w, "object", "response");
    wire_int(w, "created_at", a->created);
    wire_string(w, "status", !done ? "in_progress" : cut ? "incomplete" : "completed");
    wire_null(w, "error");
    if (cut) {
        wire_object(w, "incomplete_details");
        wire_string(w, "reason", "max_output_tokens");
        wire_end(w);
    } else {
        wire_null(w, "incomplete_details");
    }
    wire_string(w, "model", a->model);
    wire_list(w, "output");
    if (done && c->blocks.done.n > 0)
        wire_raw(w, NULL, c->blocks.done.at, c->blocks.done.n);
    wire_end(w);
    put_settings(a, w);
    if (done)
        put_usage(a, w);
    else
        wire_null(w, "usage");
    wire_end(w);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static void put_part(const choice *c, const char *key, bool empty, wire *w)
{
    static const bytes nothing;
    const bool thought = c->blocks.open == BLOCK_THOUGHT;
    wire_object(w, key);
    wire_string(w, "type", thought ? "reasoning_text" : "output_text");
    wire_bytes(w, "text", empty ? &nothing : &c->blocks.text);
    if (!thought) {
        wire_list(w, "annotations");
        wire_end(w);
        wire_list(w, "logprobs");
        wire_end(w);
    }
    wire_end(w);
}

static const char *item_id(const answer *a, const choice *c, char id[64])
{
    static const char *const prefix[] = {
        [BLOCK_NONE] = "", [BLOCK_THOUGHT] = "rs", [BLOCK_TEXT] = "msg", [BLOCK_CALL] = "fc"
    };
    block_id(a, c, prefix[c->blocks.open], id);
    return id;
}

static void put_item(const answer *a, const choice *c, const char *key, bool empty, wire *w)
{
    static const bytes nothing;
    char id[64];
    const block_kind kind = c->blocks.open;
    wire_object(w, key);
    wire_string(w, "type",
                kind == BLOCK_CALL      ? "function_call"
                : kind == BLOCK_THOUGHT ? "reasoning"
                                        : "message");
    wire_string(w, "id", item_id(a, c, id));
    wire_string(w, "status",
                empty                        ? "in_progress"
                : c->blocks.cut || is_cut(c) ? "incomplete"
                                             : "completed");
    if (kind == BLOCK_CALL) {
        block_id(a, c, "call", id);
        wire_string(w, "call_id", id);
        wire_bytes(w, "name", &c->name);
        wire_bytes(w, "arguments", empty ? &nothing : &c->blocks.text);
    } else {
        if (kind == BLOCK_TEXT)
            wire_string(w, "role", "assistant");
        if (kind == BLOCK_THOUGHT) {
            wire_list(w, "summary");
            wire_end(w);
        }
        wire_list(w, "content");
        if (!empty)
            put_part(c, NULL, false, w);
        wire_end(w);
    }
    wire_end(w);
}

static void block(const answer *a, const choice *c, wire *w)
{
    put_item(a, c, NULL, false, w);
}

/* ---- events ---------------------------------------------------------------------------------- */

static wire begin_event(choice *c, const char *type, bytes *to)
{
    wire w = block_event(type, to);
    wire_int(&w, "sequence_number", c->blocks.sequence++);
    return w;
}

/* An event about the open block, without its closing bracket. */
static wire begin_item_event(const answer *a, choice *c, const char *type, bytes *to)
{
    char id[64];
    wire w = begin_event(c, type, to);
    wire_string(&w, "item_id", item_id(a, c, id));
    wire_int(&w, "output_index", c->blocks.n - 1);
    if (c->blocks.open != BLOCK_CALL)
        wire_int(&w, "content_index", 0);
    return w;
}

static void begins(const answer *a, choice *c, bytes *to)
{
    wire w = begin_event(c, "response.created", to);
    put_response(a, "response", false, &w);
    block_event_end(&w);
    w = begin_event(c, "response.in_progress", to);
    put_response(a, "response", false, &w);
    block_event_end(&w);
}

static void put_item_event(const answer *a, choice *c, bool added, bytes *to)
{
    wire w = begin_event(c, added ? "response.output_item.added" : "response.output_item.done", to);
    wire_int(&w, "output_index", c->blocks.n - 1);
    put_item(a, c, "item", added, &w);
    block_event_end(&w);
}

static void opens(const answer *a, choice *c, bytes *to)
{
    put_item_event(a, c, true, to);
    if (c->blocks.open == BLOCK_CALL)
        return;
    wire w = begin_item_event(a, c, "response.content_part.added", to);
    put_part(c, "part", true, &w);
    block_event_end(&w);
}

static const char *const deltas[] = {
    [BLOCK_NONE] = "",
    [BLOCK_THOUGHT] = "response.reasoning_text.delta",
    [BLOCK_TEXT] = "response.output_text.delta",
    [BLOCK_CALL] = "response.function_call_arguments.delta",
};

static const char *const dones[] = {
    [BLOCK_NONE] = "",
    [BLOCK_THOUGHT] = "response.reasoning_text.done",
    [BLOCK_TEXT] = "response.output_text.done",
    [BLOCK_CALL] = "response.function_call_arguments.done",
};

static void put_no_logprobs(const choice *c, wire *w)
{
    if (c->blocks.open != BLOCK_TEXT)
        return;
    wire_list(w, "logprobs");
    wire_end(w);
}

static void piece(const answer *a, choice *c, const char *text, size_t n, bytes *to)
{
    wire w = begin_item_event(a, c, deltas[c->blocks.open], to);
    wire_text(&w, "delta", text, n);
    put_no_logprobs(c, &w);
    block_event_end(&w);
}

static void closes(const answer *a, choice *c, bytes *to)
{
    const bool call = c->blocks.open == BLOCK_CALL;
    wire w = begin_item_event(a, c, dones[c->blocks.open], to);
    wire_bytes(&w, call ? "arguments" : "text", &c->blocks.text);
    if (call)
        wire_bytes(&w, "name", &c->name);
    put_no_logprobs(c, &w);
    block_event_end(&w);
    if (!call) {
        w = begin_item_event(a, c, "response.content_part.done", to);
        put_part(c, "part", false, &w);
        block_event_end(&w);
    }
    put_item_event(a, c, false, to);
}

static void whole(const answer *a, bytes *to)
{
    wire w = wire_to(to);
    put_response(a, NULL, true, &w);
}

static void ends(const answer *a, bytes *to)
{
    choice *c = &a->choices[0];
    wire w = begin_event(c, is_cut(c) ? "response.incomplete" : "response.completed", to);
    put_response(a, "response", true, &w);
    block_event_end(&w);
}

const block_style responses_style = { block, begins, opens, piece, closes, whole, ends };
