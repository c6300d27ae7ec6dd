/* blocks.h - answers of Responses and Messages: blocks of thinking, text and calls, one after the
 * other.
 *
 * A block is open while pieces of it come. In a stream, opening it, each piece and closing it are
 * events; a whole answer has the objects of all blocks. The two APIs differ in how these are
 * written: blocks_responses.c, blocks_messages.c. */
#ifndef WEFT_SERVER_BLOCKS_H
#define WEFT_SERVER_BLOCKS_H

#include "answer.h"

#include <stdio.h>
#include <string.h>

/* How an API writes. `to` gets whole events. */
typedef struct block_style {
    void (*block)(const answer *a, const choice *c, wire *w); /* the open block, complete */
    void (*begins)(const answer *a, choice *c, bytes *to);    /* the stream */
    void (*opens)(const answer *a, choice *c, bytes *to);
    void (*piece)(const answer *a, choice *c, const char *text, size_t n, bytes *to);
    void (*closes)(const answer *a, choice *c, bytes *to);
    void (*whole)(const answer *a, bytes *to); /* the answer as one object */
    void (*ends)(const answer *a, bytes *to);  /* the stream */
} block_style;

extern const block_style responses_style, messages_style;
const block_style *block_style_of(endpoint e);

/* A piece of text or thinking. */
void blocks_add(const answer *a, choice *c, block_kind kind, const char *text, size_t n);

/* What a reader of calls tells. */
void blocks_call(const answer *a, choice *c, weft_call_event e, const char *text, size_t n);
void blocks_close(const answer *a, choice *c);

/* A piece is missing, for lack of memory. */
bool blocks_failed(const choice *c);

/* The events since the last time. */
void blocks_events(const answer *a, choice *c, bytes *to);
void blocks_free(blocks *b);

/* event: TYPE, data: {"type":"TYPE" without the closing bracket; and the end of such an event. */
static inline wire block_event(const char *type, bytes *to)
{
    wire w = wire_to(to);
    bytes_format(to, "event: %s\ndata: ", type);
    wire_object(&w, NULL);
    wire_string(&w, "type", type);
    return w;
}

static inline void block_event_end(wire *w)
{
    wire_end(w);
    bytes_text(w->to, "\n\n");
}

/* "call_..." with the block's number. */
static inline void block_id(const answer *a, const choice *c, const char *prefix, char id[64])
{
    const char *made = strchr(a->id, '_');
    snprintf(id, 64, "%s_%.24s%d", prefix, made ? made + 1 : a->id, c->blocks.n - 1);
}

#endif
