/* blocks.c - blocks open, grow and close; see blocks.h. */
#include "blocks.h"

const block_style *block_style_of(endpoint e)
{
    return e == ENDPOINT_RESPONSES ? &responses_style : &messages_style;
}

static void clear(bytes *b)
{
    if (b->n > 0)
        bytes_drop(b, b->n);
}

static void begin(const answer *a, choice *c)
{
    if (a->stream && !c->begun)
        block_style_of(a->endpoint)->begins(a, c, &c->blocks.events);
    c->begun = true;
}

static void open_block(const answer *a, choice *c, block_kind kind)
{
    blocks *b = &c->blocks;
    begin(a, c);
    blocks_close(a, c);
    clear(&b->text);
    b->open = kind;
    b->n++;
    if (a->stream)
        block_style_of(a->endpoint)->opens(a, c, &b->events);
}

static void add_piece(const answer *a, choice *c, const char *text, size_t n)
{
    bytes_add(&c->blocks.text, text, n);
    if (a->stream && n > 0)
        block_style_of(a->endpoint)->piece(a, c, text, n, &c->blocks.events);
}

void blocks_add(const answer *a, choice *c, block_kind kind, const char *text, size_t n)
{
    if (n == 0)
        return;
    if (c->blocks.open != kind)
        open_block(a, c, kind);
    add_piece(a, c, text, n);
}

/* Are all brackets closed? Arguments are cut where an answer gets too long. */
static bool is_whole(const bytes *b)
{
    int depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < b->n; i++) {
        const char c = b->at[i];
        if (quoted && c == '\\')
            i++;
        else if (c == '"')
            quoted = !quoted;
        else if (!quoted)
            depth += (c == '{' || c == '[') - (c == '}' || c == ']');
    }
    return b->n > 0 && depth == 0 && !quoted;
}

void blocks_call(const answer *a, choice *c, weft_call_event e, const char *text, size_t n)
{
    switch (e) {
    case WEFT_CALL_TEXT:
        blocks_add(a, c, BLOCK_TEXT, text, n);
        break;
    case WEFT_CALL_BEGINS:
        c->n_call++;
        blocks_close(a, c);
        clear(&c->name);
        bytes_add(&c->name, text, n);
        open_block(a, c, BLOCK_CALL);
        break;
    case WEFT_CALL_ARGUMENTS:
        add_piece(a, c, text, n);
        break;
    case WEFT_CALL_ENDS:
        c->blocks.cut = !is_whole(&c->blocks.text);
        blocks_close(a, c);
        c->blocks.cut = false;
        break;
    }
}

void blocks_close(const answer *a, choice *c)
{
    blocks *b = &c->blocks;
    const block_style *s = block_style_of(a->endpoint);
    if (b->open == BLOCK_NONE)
        return;
    if (a->stream)
        s->closes(a, c, &b->events);
    wire w = wire_to(&b->done);
    if (b->done.n > 0)
        bytes_text(&b->done, ",");
    s->block(a, c, &w);
    b->open = BLOCK_NONE;
}

bool blocks_failed(const choice *c)
{
    const blocks *b = &c->blocks;
    return b->events.failed || b->text.failed || b->done.failed || c->name.failed || c->text.failed;
}

void blocks_events(const answer *a, choice *c, bytes *to)
{
    blocks *b = &c->blocks;
    begin(a, c);
    if (c->finish)
        blocks_close(a, c);
    bytes_add(to, b->events.at ? b->events.at : "", b->events.n);
    to->failed |= blocks_failed(c);
    clear(&b->events);
}

void blocks_free(blocks *b)
{
    bytes_free(&b->text);
    bytes_free(&b->done);
    bytes_free(&b->events);
}
