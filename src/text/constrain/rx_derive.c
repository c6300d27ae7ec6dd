/* rx_derive.c - derivatives of expressions and classes of bytes.
 *
 *     d(bytes S)  = empty if the byte is in S           d(a | b) = d a | d b
 *     d(a b)      = (d a) b, and d b if a matches ""    d(a & b) = d a & d b
 *     d(a{m,n})   = (d a) a{m-1,n-1}                    d(!a)    = !(d a)
 *
 * An expression may be a chain of thousands, so nothing here recurses: parts that are still missing
 * go on a stack, and every result is kept. */
#include "text/constrain/rx_pool.h"

#include <string.h>

#define MEMO_PER_NODE 8u /* results kept for each expression that the pool may have */

/* ---- results that are kept ------------------------------------------------------------------- */

static size_t memo_slot(const rx_pool *p, uint64_t key)
{
    size_t at = (size_t)(key * 0x9E3779B97F4A7C15u >> 32) & (p->memo_room - 1);
    while (p->memo_key[at] && p->memo_key[at] != key)
        at = (at + 1) & (p->memo_room - 1);
    return at;
}

static bool memo_grow(rx_pool *p)
{
    if (p->n_memo < p->memo_room / 2)
        return true;
    uint64_t *const old_key = p->memo_key;
    rx *const old = p->memo;
    const size_t old_room = p->memo_room;
    size_t key_room = 0, room = 0;
    uint64_t *key = NULL;
    rx *result = NULL;
    const size_t more = old_room ? old_room * 2 : 256;
    if (!rx_room(p, (void **)&key, &key_room, more, sizeof *key))
        return false;
    if (!rx_room(p, (void **)&result, &room, more, sizeof *result)) {
        mem_free(p->mem, key);
        return false;
    }
    p->memo_key = key;
    p->memo = result;
    p->memo_room = room;
    for (size_t i = 0; i < old_room; i++)
        if (old_key[i]) {
            const size_t at = memo_slot(p, old_key[i]);
            key[at] = old_key[i];
            result[at] = old[i];
        }
    mem_free(p->mem, old_key);
    mem_free(p->mem, old);
    return true;
}

static bool memo_get(const rx_pool *p, rx a, uint8_t byte, rx *result)
{
    const uint64_t key = (uint64_t)a << 8 | byte;
    const size_t at = memo_slot(p, key);
    *result = p->memo[at];
    return p->memo_key[at] == key;
}

static void memo_put(rx_pool *p, rx a, uint8_t byte, rx result)
{
    if (!memo_grow(p))
        return;
    const uint64_t key = (uint64_t)a << 8 | byte;
    const size_t at = memo_slot(p, key);
    p->n_memo += p->memo_key[at] == 0;
    p->memo_key[at] = key;
    p->memo[at] = result;
}

/* ---- derivatives ----------------------------------------------------------------------------- */

/* The result for a part, or false after putting the part on the stack. */
static bool part(rx_pool *p, rx a, uint8_t byte, rx *result)
{
    const rx_node *n = &p->node[a];
    if (n->kind == RX_K_NOTHING || n->kind == RX_K_EMPTY) {
        *result = RX_NOTHING;
        return true;
    }
    if (n->kind == RX_K_BYTES) {
        *result = p->set[n->a][byte / 64] >> byte % 64 & 1 ? RX_EMPTY : RX_NOTHING;
        return true;
    }
    if (n->kind == RX_K_MULTIPLE) {
        *result = rx_derive_multiple(p, a, byte);
        return true;
    }
    if (memo_get(p, a, byte, result))
        return true;
    rx_push(p, &p->todo, a);
    return false;
}

static bool derive_sequence(rx_pool *p, const rx_node *n, uint8_t byte, rx *result)
{
    rx head, rest = RX_NOTHING;
    const bool skips = p->node[n->a].nullable;
    const bool has_head = part(p, n->a, byte, &head);
    if ((skips && !part(p, n->b, byte, &rest)) || !has_head)
        return false;
    const rx first = rx_seq(p, head, n->b);
    *result = skips ? rx_or(p, first, rest) : first;
    return true;
}

static bool derive_list(rx_pool *p, const rx_node *n, uint8_t byte, rx *result)
{
    bool complete = true;
    rx x;
    p->gather.n = 0;
    for (uint32_t i = 0; i < n->b && rx_ok(p); i++) {
        if (!part(p, p->operand.at[n->a + i], byte, &x))
            complete = false;
        else if (complete && (x != RX_NOTHING || n->kind == RX_K_AND))
            rx_push(p, &p->gather, x);
    }
    if (!complete || !rx_ok(p))
        return false;
    *result = n->kind == RX_K_OR ? rx_any(p, p->gather.at, p->gather.n)
                                 : rx_every(p, p->gather.at, p->gather.n);
    return true;
}

static uint32_t one_less(uint32_t count)
{
    return count == 0 || count == RX_MANY ? count : count - 1;
}

/* False if parts are missing, which are then on the stack. */
static bool derive_node(rx_pool *p, rx a, uint8_t byte, rx *result)
{
    const rx_node n = p->node[a]; /* the array may move */
    rx x;
    switch ((rx_kind)n.kind) {
    case RX_K_SEQ:
        return derive_sequence(p, &n, byte, result);
    case RX_K_OR:
    case RX_K_AND:
        return derive_list(p, &n, byte, result);
    case RX_K_NOT:
        if (!part(p, n.a, byte, &x))
            return false;
        *result = rx_not(p, x);
        return true;
    case RX_K_REPEAT:
        if (!part(p, n.a, byte, &x))
            return false;
        *result = rx_seq(p, x, rx_repeat(p, n.a, one_less(n.min), one_less(n.max)));
        return true;
    case RX_K_NOTHING:
    case RX_K_EMPTY:
    case RX_K_BYTES:
    case RX_K_MULTIPLE:
        break;
    }
    return part(p, a, byte, result);
}

rx rx_derive(rx_pool *p, rx a, uint8_t byte)
{
    rx result = RX_NOTHING;
    if (!rx_ok(p) || !memo_grow(p))
        return RX_NOTHING;
    if (p->n_memo > (size_t)p->limit * MEMO_PER_NODE) {
        memset(p->memo_key, 0, p->memo_room * sizeof *p->memo_key);
        p->n_memo = 0;
    }
    p->todo.n = 0;
    if (part(p, a, byte, &result))
        return result;
    while (p->todo.n > 0 && rx_ok(p)) {
        const rx top = p->todo.at[p->todo.n - 1];
        if (memo_get(p, top, byte, &result)) {
            p->todo.n--;
        } else if (derive_node(p, top, byte, &result)) {
            memo_put(p, top, byte, result);
            p->todo.n--;
        }
    }
    return rx_ok(p) ? result : RX_NOTHING;
}

/* ---- classes --------------------------------------------------------------------------------- */

/* Classes while they are found, as sets of bytes. */
typedef struct partition {
    uint64_t set[256][4];
    int n;
} partition;

/* Splits every class by a set. */
static void split(partition *c, const uint64_t set[4])
{
    for (int i = 0, n = c->n; i < n; i++) {
        uint64_t in[4], out[4], any_in = 0, any_out = 0;
        for (int k = 0; k < 4; k++) {
            any_in |= in[k] = c->set[i][k] & set[k];
            any_out |= out[k] = c->set[i][k] & ~set[k];
        }
        if (any_in && any_out) {
            memcpy(c->set[i], in, sizeof in);
            memcpy(c->set[c->n++], out, sizeof out);
        }
    }
}

/* Numbers the classes by their first bytes. */
static int number(const partition *c, uint8_t class_of[256])
{
    uint8_t of[256];
    int16_t as[256];
    int n = 0;
    for (int i = 0; i < c->n; i++) {
        as[i] = -1;
        for (int k = 0; k < 4; k++)
            for (uint64_t rest = c->set[i][k]; rest; rest &= rest - 1)
                of[64 * k + __builtin_ctzll(rest)] = (uint8_t)i;
    }
    for (int b = 0; b < 256; b++) {
        if (as[of[b]] < 0)
            as[of[b]] = (int16_t)n++;
        class_of[b] = (uint8_t)as[of[b]];
    }
    return n;
}

/* Puts on the stack what the first byte of a node is read by. */
static void push_heads(rx_pool *p, const rx_node *n)
{
    switch ((rx_kind)n->kind) {
    case RX_K_SEQ:
        rx_push(p, &p->todo, n->a);
        if (p->node[n->a].nullable)
            rx_push(p, &p->todo, n->b);
        break;
    case RX_K_OR:
    case RX_K_AND:
        for (uint32_t i = 0; i < n->b; i++)
            rx_push(p, &p->todo, p->operand.at[n->a + i]);
        break;
    case RX_K_NOT:
    case RX_K_REPEAT:
        rx_push(p, &p->todo, n->a);
        break;
    case RX_K_NOTHING:
    case RX_K_EMPTY:
    case RX_K_BYTES:
    case RX_K_MULTIPLE:
        break;
    }
}

/* Every digit and the point for itself. */
static void split_digits(partition *c)
{
    for (int b = '.'; b <= '9'; b++)
        split(c, (const uint64_t[4]){ 1ull << b });
}

int rx_classes(rx_pool *p, rx a, uint8_t class_of[256])
{
    partition c;
    memset(c.set[0], 0xFF, sizeof c.set[0]);
    c.n = 1;
    p->todo.n = 0;
    if (rx_walk_begin(p))
        rx_push(p, &p->todo, a);
    while (p->todo.n > 0 && c.n < 256) {
        const rx top = p->todo.at[--p->todo.n];
        if (!rx_walk_first(p, top))
            continue;
        const rx_node *x = &p->node[top];
        if (x->kind == RX_K_BYTES)
            split(&c, p->set[x->a]);
        else if (x->kind == RX_K_MULTIPLE)
            split_digits(&c);
        else
            push_heads(p, x);
    }
    return number(&c, class_of);
}
