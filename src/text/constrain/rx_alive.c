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

/* ---- multiples ------------------------------------------------------------------------------- */

/* Follows k digits of a number, with leading zeros. Steps count as in a search. */
static bool follow_digits(rx_pool *p, rx a, uint64_t number, int k, inquiry *q)
{
    char digit[24];
    for (int i = k; i-- > 0; number /= 10)
        digit[i] = (char)('0' + number % 10);
    for (int i = 0; i < k && a != RX_NOTHING; i++, q->steps++)
        a = rx_derive(p, a, (uint8_t)digit[i]);
    return rx_matches_empty(p, a);
}

/* A search would try all digits until the remainder is 0. Which ones make it so can be computed:
 * the smallest, the largest and a middle number of k digits are tried. */
static bool reaches_multiple(rx_pool *p, rx a, inquiry *q)
{
    const rx_node n = p->node[a];
    rx_node m = { 0 };
    for (uint32_t i = 0; n.kind == RX_K_AND && i < n.b; i++)
        if (p->node[p->operand.at[n.a + i]].kind == RX_K_MULTIPLE)
            m = p->node[p->operand.at[n.a + i]];
    if (m.kind != RX_K_MULTIPLE || m.min > 0 || m.max == 0)
        return false;
    uint64_t ten = 1, shifted = m.a;
    for (int k = 0; k <= 18 && q->steps < SEARCH_STEPS; k++, ten *= 10) {
        const uint64_t first = (m.b - shifted) % m.b;
        if (first < ten) {
            const uint64_t more = (ten - 1 - first) / m.b;
            if (follow_digits(p, a, first, k, q) || follow_digits(p, a, first + more * m.b, k, q) ||
                follow_digits(p, a, first + more / 2 * m.b, k, q))
                return rx_ok(p);
        }
        shifted = shifted * 10 % m.b;
    }
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
        if (life == RX_LIVES || (life == RX_UNKNOWN && reaches_multiple(p, p->found.at[i], q))) {
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
