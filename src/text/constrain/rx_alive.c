/* rx_alive.c - does an expression match any string at all?
 *
 * Without & and ! it does: constructors remove "nothing" wherever it would spread. Otherwise a search
 * over derivatives looks for a state that matches the empty string. What it finds is kept: all
 * states of a search without success are dead, all on the way to a success live.
 *
 * An alternative lives if one of its operands does, so a search goes on to the operands, which are
 * fewer than their combinations. A sequence lives if both parts do: the second part is a question of
 * its own, to be answered first. */
#include "text/constrain/rx_pool.h"

#define SEARCH_STEPS 50000u /* derivatives for one answer */
#define QUESTIONS    64     /* that wait for each other */
#define NOBODY       UINT32_MAX

typedef struct inquiry {
    rx question[QUESTIONS];
    int n;
    uint32_t steps;
} inquiry;

static rx_life life_of(const rx_pool *p, rx a)
{
    const rx_node *n = &p->node[a];
    if (a == RX_NOTHING)
        return RX_IS_DEAD;
    return n->nullable || n->plain ? RX_LIVES : (rx_life)n->life;
}

static void add(rx_pool *p, rx a, uint32_t from)
{
    if (a == RX_NOTHING ||
        !rx_room(p, (void **)&p->seen, &p->seen_room, p->n_node, sizeof *p->seen) ||
        p->seen[a] == p->n_search)
        return;
    p->seen[a] = p->n_search;
    if (rx_push(p, &p->found, a))
        rx_push(p, &p->from, from);
}

/* One derivative for each class of bytes. */
static void add_derivatives(rx_pool *p, uint32_t i, inquiry *q)
{
    uint8_t class_of[256];
    const rx a = p->found.at[i];
    const int n = rx_classes(p, a, class_of);
    int next = 0;
    for (int b = 0; b < 256 && next < n && rx_ok(p); b++) {
        if (class_of[b] != next)
            continue;
        next++; /* classes are numbered in the order of their first bytes */
        if (q->steps++ >= SEARCH_STEPS) {
            rx_fail(p, WEFT_ELIMIT,
                    "whether regular expressions can all match takes too long to find out; "
                    "simplify them");
            return;
        }
        add(p, rx_derive(p, a, (uint8_t)b), i);
    }
}

static bool may_ask(const inquiry *q, rx a)
{
    for (int i = 0; i < q->n; i++)
        if (q->question[i] == a)
            return false;
    return q->n < QUESTIONS;
}

/* Continues at the i-th state; true if it asked a question instead. */
static bool expand(rx_pool *p, uint32_t i, inquiry *q)
{
    const rx_node n = p->node[p->found.at[i]];
    if (n.kind == RX_K_OR) {
        for (uint32_t k = 0; k < n.b; k++)
            add(p, p->operand.at[n.a + k], i);
        return false;
    }
    if (n.kind == RX_K_REPEAT) {
        add(p, n.a, i);
        return false;
    }
    if (n.kind == RX_K_SEQ) {
        const rx_life rest = life_of(p, n.b);
        if (rest == RX_UNKNOWN && may_ask(q, n.b)) {
            q->question[q->n++] = n.b;
            return true;
        }
        if (rest == RX_LIVES)
            add(p, n.a, i);
        if (rest != RX_UNKNOWN)
            return false;
    }
    add_derivatives(p, i, q);
    return false;
}

/* Answers the last question, or asks another. */
static void search(rx_pool *p, inquiry *q)
{
    const rx a = q->question[q->n - 1];
    p->n_search++;
    p->found.n = p->from.n = 0;
    add(p, a, NOBODY);
    for (uint32_t i = 0; i < p->found.n && rx_ok(p); i++) {
        const rx_life life = life_of(p, p->found.at[i]);
        if (life == RX_LIVES) {
            for (uint32_t k = i; k != NOBODY; k = p->from.at[k])
                p->node[p->found.at[k]].life = RX_LIVES;
            q->n--;
            return;
        }
        if (life == RX_UNKNOWN && expand(p, i, q))
            return;
    }
    if (!rx_ok(p))
        return;
    for (size_t i = 0; i < p->found.n; i++)
        p->node[p->found.at[i]].life = RX_IS_DEAD;
    q->n--;
}

bool rx_alive(rx_pool *p, rx a)
{
    if (!rx_ok(p))
        return false;
    if (life_of(p, a) == RX_UNKNOWN) {
        inquiry q = { .question = { a }, .n = 1 };
        while (q.n > 0 && rx_ok(p))
            search(p, &q);
    }
    return rx_ok(p) && life_of(p, a) == RX_LIVES;
}
