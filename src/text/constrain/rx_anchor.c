/* rx_anchor.c - ^ and $ anywhere in a pattern, without look-around.
 *
 * The parser writes ^ as the byte FE and $ as the byte FF, which UTF-8 does not have. A text is then
 * thought of as any number of FE, the text, and any number of FF; and what a pattern P matches is
 * found by taking these away again:
 *
 *     from the left     derivatives by FE: P begins at the start of the text
 *     from the right    the same from the other end
 *     elsewhere         there is no anchor in the middle of a text, so that FE and FF match nothing
 *
 * The empty text is the exception: each of its places is start and end, so $^ matches it. */
#include "text/constrain/rx_anchor.h"

#define ROUNDS 64 /* anchors after each other */

typedef struct rewrite {
    rx_pool *pool;
    int byte;      /* FE or FF */
    rx with;       /* stands for it, */
    bool from_end; /* or: the derivative by it from the right */
    rx_list done;  /* of each node: its result + 1 */
    rx_list todo;
} rewrite;

static bool get(rewrite *w, rx a, rx *result)
{
    *result = w->done.at[a] - 1;
    if (w->done.at[a] == 0)
        rx_push(w->pool, &w->todo, a);
    return w->done.at[a] != 0;
}

static rx of_bytes(rewrite *w, rx a)
{
    rx_pool *p = w->pool;
    uint64_t set[4];
    for (int i = 0; i < 4; i++)
        set[i] = p->set[p->node[a].a][i];
    if (!(set[w->byte / 64] >> w->byte % 64 & 1))
        return w->from_end ? RX_NOTHING : a;
    if (w->from_end)
        return RX_EMPTY;
    set[w->byte / 64] &= ~(1ull << w->byte % 64);
    return rx_or(p, rx_bytes(p, set), w->with);
}

static bool of_sequence(rewrite *w, const rx_node *n, rx *result)
{
    rx_pool *p = w->pool;
    rx a, b;
    if (!get(w, n->b, &b))
        return false;
    if (w->from_end && !p->node[n->b].nullable) {
        *result = rx_seq(p, n->a, b);
        return true;
    }
    if (!get(w, n->a, &a))
        return false;
    *result = w->from_end ? rx_or(p, rx_seq(p, n->a, b), a) : rx_seq(p, a, b);
    return true;
}

static bool of_alternatives(rewrite *w, const rx_node *n, rx *result)
{
    rx_pool *p = w->pool;
    bool complete = true;
    rx x;
    p->gather.n = 0;
    for (uint32_t i = 0; i < n->b; i++)
        if (!get(w, p->operand.at[n->a + i], &x))
            complete = false;
        else
            rx_push(p, &p->gather, x);
    if (complete)
        *result = rx_any(p, p->gather.at, p->gather.n);
    return complete;
}

/* False if a part is not done yet, which is then on the stack. */
static bool of_node(rewrite *w, rx a, rx *result)
{
    rx_pool *p = w->pool;
    const rx_node n = p->node[a];
    rx x;
    if (n.kind == RX_K_SEQ)
        return of_sequence(w, &n, result);
    if (n.kind == RX_K_OR)
        return of_alternatives(w, &n, result);
    if (n.kind == RX_K_REPEAT) {
        if (!get(w, n.a, &x))
            return false;
        const uint32_t min = n.min - (n.min > 0), max = n.max == RX_MANY ? RX_MANY : n.max - 1;
        *result = w->from_end ? rx_seq(p, rx_repeat(p, n.a, min, max), x)
                              : rx_repeat(p, x, n.min, n.max);
        return true;
    }
    *result = n.kind == RX_K_BYTES ? of_bytes(w, a) : w->from_end ? RX_NOTHING : a;
    return true;
}

/* Patterns have no & and !, which this does not know. */
static rx run(rewrite w, rx a)
{
    rx_pool *p = w.pool;
    rx result = RX_NOTHING;
    if (rx_room(p, (void **)&w.done.at, &w.done.room, p->n_node, sizeof *w.done.at))
        rx_push(p, &w.todo, a);
    while (w.todo.n > 0 && rx_ok(p)) {
        const rx top = w.todo.at[w.todo.n - 1];
        if (w.done.at[top]) {
            w.todo.n--;
        } else if (of_node(&w, top, &result)) {
            w.done.at[top] = result + 1;
            w.todo.n--;
        }
    }
    result = rx_ok(p) ? w.done.at[a] - 1 : RX_NOTHING;
    mem_free(p->mem, w.done.at);
    mem_free(p->mem, w.todo.at);
    return result;
}

static rx replace(rx_pool *p, rx a, int byte, rx with)
{
    return run((rewrite){ .pool = p, .byte = byte, .with = with }, a);
}

/* a, and a without any number of anchors at its one end, until another one changes nothing. */
static rx take_away(rx_pool *p, rx a, int byte)
{
    rx all = a, before = RX_NOTHING;
    for (int i = 0; all != before && rx_ok(p); i++) {
        if (i == ROUNDS)
            return rx_fail(p, WEFT_ELIMIT, "more than 64 anchors (^ or $) after each other");
        before = all;
        a = byte == RX_BEGIN ? rx_derive(p, a, RX_BEGIN)
                             : run((rewrite){ .pool = p, .byte = byte, .from_end = true }, a);
        all = rx_or(p, all, a);
    }
    return all;
}

rx rx_place_anchors(rx_pool *p, rx a, bool search, rx any)
{
    const rx bare = replace(p, replace(p, a, RX_BEGIN, RX_EMPTY), RX_END, RX_EMPTY);
    rx left = take_away(p, a, RX_BEGIN);
    if (search)
        left = rx_or(p, left, rx_seq(p, any, a));
    left = replace(p, left, RX_BEGIN, RX_NOTHING);
    rx both = take_away(p, left, RX_END);
    if (search)
        both = rx_or(p, both, rx_seq(p, left, any));
    both = replace(p, both, RX_END, RX_NOTHING);
    return rx_ok(p) && rx_matches_empty(p, bare) ? rx_or(p, both, RX_EMPTY) : both;
}
