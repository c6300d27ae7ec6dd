/* blocks_messages.c - answers as Anthropic's Messages has them; see blocks.h. */
#include "blocks.h"

#include <string.h>

static void put_usage(const answer *a, wire *w)
{
    wire_object(w, "usage");
    wire_int(w, "input_tokens", a->n_prompt - a->n_cached);
    wire_int(w, "cache_creation_input_tokens", 0);
    wire_int(w, "cache_read_input_tokens", a->n_cached);
    wire_int(w, "output_tokens", a->choices[0].n_new);
    wire_end(w);
}

/* empty: as it opens in a stream */
static void put_block(const answer *a, const choice *c, bool empty, wire *w)
{
    static const bytes nothing;
    char id[64];
    const blocks *b = &c->blocks;
    const bytes *text = empty ? &nothing : &b->text;
    switch (b->open) {
    case BLOCK_THOUGHT:
        wire_string(w, "type", "thinking");
        wire_bytes(w, "thinking", text);
        wire_string(w, "signature", "");
        break;
    case BLOCK_CALL:
        block_id(a, c, "toolu", id);
        wire_string(w, "type", "tool_use");
        wire_string(w, "id", id);
        wire_bytes(w, "name", &c->name);
        if (text->n > 0 && !c->blocks.cut)
            wire_raw(w, "input", text->at, text->n);
        else /* arguments that were cut are no JSON */
            wire_raw(w, "input", "{}", 2);
        break;
    case BLOCK_NONE:
    case BLOCK_TEXT:
        wire_string(w, "type", "text");
        wire_bytes(w, "text", text);
        break;
    }
}

static void block(const answer *a, const choice *c, wire *w)
{
    wire_object(w, NULL);
    put_block(a, c, false, w);
    wire_end(w);
}

static void begins(const answer *a, choice *c, bytes *to)
{
    wire w = block_event("message_start", to);
    (void)c;
    wire_object(&w, "message");
    wire_string(&w, "id", a->id);
    wire_string(&w, "type", "message");
    wire_string(&w, "role", "assistant");
    wire_string(&w, "model", a->model);
    wire_list(&w, "content");
    wire_end(&w);
    wire_null(&w, "stop_reason");
    wire_null(&w, "stop_sequence");
    put_usage(a, &w);
    wire_end(&w);
    block_event_end(&w);
}

static void opens(const answer *a, choice *c, bytes *to)
{
    wire w = block_event("content_block_start", to);
    wire_int(&w, "index", c->blocks.n - 1);
    wire_object(&w, "content_block");
    put_block(a, c, true, &w);
    wire_end(&w);
    block_event_end(&w);
}

static void piece(const answer *a, choice *c, const char *text, size_t n, bytes *to)
{
    static const char *const types[][2] = {
        [BLOCK_NONE] = { "", "" },
        [BLOCK_THOUGHT] = { "thinking_delta", "thinking" },
        [BLOCK_TEXT] = { "text_delta", "text" },
        [BLOCK_CALL] = { "input_json_delta", "partial_json" },
    };
    wire w = block_event("content_block_delta", to);
    (void)a;
    wire_int(&w, "index", c->blocks.n - 1);
    wire_object(&w, "delta");
    wire_string(&w, "type", types[c->blocks.open][0]);
    wire_text(&w, types[c->blocks.open][1], text, n);
    wire_end(&w);
    block_event_end(&w);
}

static void closes(const answer *a, choice *c, bytes *to)
{
    wire w = block_event("content_block_stop", to);
    (void)a;
    wire_int(&w, "index", c->blocks.n - 1);
    block_event_end(&w);
}

static void put_stop(const choice *c, wire *w)
{
    const char *why = strcmp(c->finish, "length") == 0       ? "max_tokens"
                      : strcmp(c->finish, "tool_calls") == 0 ? "tool_use"
                      : c->stopped_by                        ? "stop_sequence"
                                                             : "end_turn";
    wire_string(w, "stop_reason", why);
    wire_string(w, "stop_sequence", c->stopped_by);
}

static void whole(const answer *a, bytes *to)
{
    choice *c = &a->choices[0];
    wire w = wire_to(to);
    wire_object(&w, NULL);
    wire_string(&w, "id", a->id);
    wire_string(&w, "type", "message");
    wire_string(&w, "role", "assistant");
    wire_string(&w, "model", a->model);
    wire_list(&w, "content");
    if (c->blocks.done.n > 0)
        wire_raw(&w, NULL, c->blocks.done.at, c->blocks.done.n);
    wire_end(&w);
    put_stop(c, &w);
    put_usage(a, &w);
    wire_end(&w);
}

static void ends(const answer *a, bytes *to)
{
    wire w = block_event("message_delta", to);
    wire_object(&w, "delta");
    put_stop(&a->choices[0], &w);
    wire_end(&w);
    put_usage(a, &w);
    block_event_end(&w);
    w = block_event("message_stop", to);
    block_event_end(&w);
}

const block_style messages_style = { block, begins, opens, piece, closes, whole, ends };
