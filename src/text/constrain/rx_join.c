/* rx_join.c - alternatives, intersections and complements of expressions in one form: flat, sorted,
 * without duplicates, and without operands that change nothing. */
#include "text/constrain/rx_pool.h"

#include <string.h>

/* ---- sorting without memory ------------------------------------------------------------------ */

static void sift(uint32_t *x, size_t at, size_t n)
{
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && x[child + 1] > x[child])
            child++;
        if (x[at] >= x[child])
            return;
        const uint32_t y = x[at];
        x[at] = x[child];
        x[child] = y;
    }
}

static void sort_unique(rx_list *l)
{
    uint32_t *x = l->at;
    size_t n = 0, i = 1;
    while (i < l->n && x[i - 1] < x[i])
        i++;
    if (i >= l->n)
        return; /* as it nearly always is */
    for (i = l->n / 2; i-- > 0;)
        sift(x, i, l->n);
    for (i = l->n; i-- > 1;) {
        const uint32_t y = x[0];
        x[0] = x[i];
        x[i] = y;
        sift(x, 0, i);
    }
    for (i = 0; i < l->n; i++)
        if (n == 0 || x[n - 1] != x[i])
            x[n++] = x[i];
    l->n = n;
}

/* ---- repetitions of one thing ---------------------------------------------------------------- */

/* An alternative that begins with a repetition: body{min,max} tail. */
typedef struct counted {
    rx body, tail;
    uint32_t min, max;
} counted;

static bool read_counted(const rx_pool *p, rx a, counted *c)
{
    const rx_node *n = &p->node[a];
    c->tail = RX_EMPTY;
    if (n->kind == RX_K_SEQ) {
        c->tail = n->b;
        n = &p->node[n->a];
    }
    if (n->kind != RX_K_REPEAT)
        return false;
    c->body = n->a;
    c->min = n->min;
    c->max = n->max;
    return true;
}

static bool touch(const counted *a, const counted *b)
{
    const uint64_t a_end = (uint64_t)a->max + 1, b_end = (uint64_t)b->max + 1;
    return a->body == b->body && a->tail == b->tail && a->min <= b_end && b->min <= a_end;
}

/* Joins the operand at i with those before it where their counts touch: derivatives of a counted
 * repetition come as a{0,9} | a{0,8} | ..., and one is enough. Looks back a few only, as neighbours
 * are made one after the other. */
static bool join_back(rx_pool *p, rx_list *l, size_t i)
{
    enum { BACK = 8 };
    counted x, y;
    if (!read_counted(p, l->at[i], &x))
        return false;
    for (size_t k = i; k-- > 0 && i - k <= BACK;) {
        if (!read_counted(p, l->at[k], &y) || !touch(&x, &y))
            continue;
        const uint32_t min = x.min < y.min ? x.min : y.min, max = x.max > y.max ? x.max : y.max;
        const rx both = rx_seq(p, rx_repeat(p, x.body, min, max), x.tail);
        memmove(l->at + i, l->at + i + 1, (l->n - i - 1) * sizeof *l->at);
        l->n--;
        l->at[k] = both;
        return true;
    }
    return false;
}

static void join_counted(rx_pool *p, rx_list *l)
{
    bool joined = true;
    while (joined && rx_ok(p)) {
        joined = false;
        for (size_t i = 1; i < l->n; i++)
            if (join_back(p, l, i)) {
                joined = true;
                i--;
            }
        if (joined)
            sort_unique(l);
    }
}

/* ---- operands -------------------------------------------------------------------------------- */

static bool collect(rx_pool *p, rx_kind kind, const rx *a, size_t n)
{
    rx_list *l = &p->work;
    l->n = 0;
    for (size_t i = 0; i < n; i++) {
        const rx_node *x = &p->node[a[i]];
        const bool flat = x->kind != kind;
        const size_t more = flat ? 1 : x->b;
        if (!rx_room(p, (void **)&l->at, &l->room, l->n + more, sizeof *l->at))
            return false;
        memcpy(l->at + l->n, flat ? &a[i] : p->operand.at + x->a, more * sizeof *l->at);
        l->n += more;
    }
    sort_unique(l);
    return true;
}

/* One set instead of many; an OR joins them, an AND intersects them. */
static void join_sets(rx_pool *p, rx_kind kind)
{
    rx_list *l = &p->work;
    uint64_t set[4];
    size_t n = 0, n_sets = 0;
    for (size_t i = 0; i < l->n; i++) {
        const rx_node *x = &p->node[l->at[i]];
        if (x->kind != RX_K_BYTES) {
            l->at[n++] = l->at[i];
            continue;
        }
        const uint64_t *other = p->set[x->a];
        for (int k = 0; k < 4; k++)
            set[k] = n_sets == 0       ? other[k]
                     : kind == RX_K_OR ? set[k] | other[k]
                                       : set[k] & other[k];
        n_sets++;
    }
    if (n_sets == 0)
        return;
    l->at[n] = rx_bytes(p, set); /* in the place of the last set */
    l->n = n + 1;
    sort_unique(l);
}

static void drop(rx_list *l, rx a)
{
    size_t n = 0;
    for (size_t i = 0; i < l->n; i++)
        if (l->at[i] != a)
            l->at[n++] = l->at[i];
    l->n = n;
}

static bool has(const rx_list *l, rx a)
{
    size_t low = 0, high = l->n;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (l->at[middle] == a)
            return true;
        if (l->at[middle] < a)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

/* Is the complement of an operand an operand too? */
static bool has_contradiction(const rx_pool *p, const rx_list *l)
{
    for (size_t i = 0; i < l->n; i++) {
        const rx_node *x = &p->node[l->at[i]];
        if (x->kind == RX_K_NOT && l->at[i] != RX_ALL && has(l, x->a))
            return true;
    }
    return false;
}

static size_t count_nullable(const rx_pool *p, const rx_list *l)
{
    size_t n = 0;
    for (size_t i = 0; i < l->n; i++)
        n += p->node[l->at[i]].nullable;
    return n;
}

static rx store(rx_pool *p, rx_kind kind)
{
    const rx_list *l = &p->work;
    if (l->n == 0)
        return kind == RX_K_OR ? RX_NOTHING : RX_ALL;
    if (l->n == 1)
        return l->at[0];
    const size_t n_nullable = count_nullable(p, l);
    bool plain = kind == RX_K_OR;
    for (size_t i = 0; i < l->n; i++)
        plain = plain && p->node[l->at[i]].plain;
    return rx_intern(p,
                     (rx_node){ .kind = (uint8_t)kind,
                                .nullable = kind == RX_K_OR ? n_nullable > 0 : n_nullable == l->n,
                                .plain = plain,
                                .b = (uint32_t)l->n },
                     NULL, l->at);
}

rx rx_any(rx_pool *p, const rx *a, size_t n)
{
    rx_list *l = &p->work;
    if (!rx_ok(p) || !collect(p, RX_K_OR, a, n))
        return RX_NOTHING;
    if (has(l, RX_ALL) || has_contradiction(p, l))
        return RX_ALL;
    drop(l, RX_NOTHING);
    join_sets(p, RX_K_OR);
    join_counted(p, l);
    if (has(l, RX_EMPTY) && count_nullable(p, l) > 1)
        drop(l, RX_EMPTY);
    return store(p, RX_K_OR);
}

rx rx_every(rx_pool *p, const rx *a, size_t n)
{
    rx_list *l = &p->work;
    if (!rx_ok(p) || !collect(p, RX_K_AND, a, n))
        return RX_NOTHING;
    if (has(l, RX_NOTHING) || has_contradiction(p, l))
        return RX_NOTHING;
    drop(l, RX_ALL);
    if (has(l, RX_EMPTY))
        return count_nullable(p, l) == l->n ? RX_EMPTY : RX_NOTHING;
    join_sets(p, RX_K_AND);
    return has(l, RX_NOTHING) ? RX_NOTHING : store(p, RX_K_AND);
}

rx rx_or(rx_pool *p, rx a, rx b)
{
    return rx_any(p, (const rx[]){ a, b }, 2);
}

rx rx_and(rx_pool *p, rx a, rx b)
{
    return rx_every(p, (const rx[]){ a, b }, 2);
}

rx rx_not(rx_pool *p, rx a)
{
    const rx_node x = p->node[a];
    if (x.kind == RX_K_NOT)
        return x.a;
    return rx_intern(p, (rx_node){ .kind = RX_K_NOT, .nullable = !x.nullable, .a = a }, NULL, NULL);
}
