/* rx.c - a pool of regular expressions: every expression once, in one form.
 *
 * The fewer forms an expression has, the fewer states has an automaton of its derivatives. So the
 * constructors apply what is cheap:
 *
 *     sequences lean to the right            (a b) c    = a (b c)
 *     alternatives are flat and sorted       b | (a|b)  = a | b
 *     sets of bytes join                     [a] | [bc] = [abc]
 *     repetitions of one thing join          a{1,3} | a{2,9} = a{1,9}     a{1,3} a{2,9} = a{3,12}
 *
 * and remove "nothing", "empty" and "all" wherever they stand. A repetition is never written out:
 * a{1,1000000} is one expression, whose derivative by a is a{0,999999}. */
#include "text/constrain/rx_pool.h"

#include <stdio.h>
#include <string.h>

#define OPERANDS_PER_NODE 16u /* on average, at most */

/* ---- memory ---------------------------------------------------------------------------------- */

rx rx_fail(rx_pool *p, weft_status code, const char *what)
{
    if (rx_ok(p))
        weft_fail(&p->failed, code, "%s", what);
    return RX_NOTHING;
}

bool rx_room(rx_pool *p, void **at, size_t *room, size_t n, size_t size)
{
    if (n <= *room)
        return true;
    size_t more = *room ? *room * 2 : 64;
    while (more < n)
        more *= 2;
    weft_error err = { 0 };
    void *block = mem_zalloc(p->mem, more, size, "regular expressions", &err);
    if (!block) {
        rx_fail(p, err.code, err.message);
        return false;
    }
    if (*room)
        memcpy(block, *at, *room * size);
    mem_free(p->mem, *at);
    *at = block;
    *room = more;
    return true;
}

bool rx_push(rx_pool *p, rx_list *l, uint32_t x)
{
    if (!rx_room(p, (void **)&l->at, &l->room, l->n + 1, sizeof *l->at))
        return false;
    l->at[l->n++] = x;
    return true;
}

bool rx_walk_begin(rx_pool *p)
{
    p->walk++;
    return rx_room(p, (void **)&p->mark, &p->mark_room, p->n_node, sizeof *p->mark);
}

bool rx_walk_first(rx_pool *p, rx a)
{
    if (!rx_room(p, (void **)&p->mark, &p->mark_room, p->n_node, sizeof *p->mark))
        return false;
    if (p->mark[a] == p->walk)
        return false;
    p->mark[a] = p->walk;
    return true;
}

/* ---- every expression once ------------------------------------------------------------------- */

static uint32_t mix(uint32_t h, uint32_t x)
{
    h = (h ^ x) * 0x9E3779B1u;
    return h ^ h >> 15;
}

static uint32_t hash_of(const rx_node *n, const uint64_t *set, const uint32_t *operand)
{
    uint32_t h = mix(n->kind, 0x5EED);
    if (set) {
        for (int i = 0; i < 4; i++)
            h = mix(mix(h, (uint32_t)set[i]), (uint32_t)(set[i] >> 32));
    } else if (operand) {
        for (uint32_t i = 0; i < n->b; i++)
            h = mix(h, operand[i]);
    } else {
        h = mix(mix(mix(mix(h, n->a), n->b), n->min), n->max);
    }
    return h;
}

static bool is_same(const rx_pool *p, const rx_node *x, const rx_node *n, const uint64_t *set,
                    const uint32_t *operand)
{
    if (x->hash != n->hash || x->kind != n->kind)
        return false;
    if (set)
        return memcmp(p->set[x->a], set, sizeof p->set[0]) == 0;
    if (operand)
        return x->b == n->b && memcmp(p->operand.at + x->a, operand, n->b * sizeof *operand) == 0;
    return x->a == n->a && x->b == n->b && x->min == n->min && x->max == n->max;
}

static size_t slot_of(const rx_pool *p, uint32_t hash)
{
    return hash & (p->table_room - 1);
}

static bool grow_table(rx_pool *p)
{
    if (p->n_node < p->table_room / 2)
        return true;
    uint32_t *table = NULL;
    size_t room = 0;
    if (!rx_room(p, (void **)&table, &room, p->table_room ? p->table_room * 2 : 256, sizeof *table))
        return false;
    mem_free(p->mem, p->table);
    p->table = table;
    p->table_room = room;
    for (uint32_t i = 1; i < p->n_node; i++) {
        size_t at = slot_of(p, p->node[i].hash);
        while (table[at])
            at = (at + 1) & (room - 1);
        table[at] = i;
    }
    return true;
}

/* Sets and operands are copied into the pool. */
static bool store_parts(rx_pool *p, rx_node *n, const uint64_t *set, const uint32_t *operand)
{
    if (set) {
        if (!rx_room(p, (void **)&p->set, &p->set_room, p->n_set + 1, sizeof *p->set))
            return false;
        n->a = (uint32_t)p->n_set;
        memcpy(p->set[p->n_set++], set, sizeof *p->set);
    }
    if (operand) {
        rx_list *l = &p->operand;
        if (l->n + n->b > (size_t)p->limit * OPERANDS_PER_NODE) {
            rx_fail(p, WEFT_ELIMIT, "too many alternatives in regular expressions");
            return false;
        }
        if (!rx_room(p, (void **)&l->at, &l->room, l->n + n->b, sizeof *l->at))
            return false;
        memcpy(l->at + l->n, operand, n->b * sizeof *operand);
        n->a = (uint32_t)l->n;
        l->n += n->b;
    }
    return true;
}

/* See rx_size. Operands are older than the expression, so their sizes are known. */
static uint32_t size_of(const rx_pool *p, const rx_node *n)
{
    uint64_t size = 0;
    switch ((rx_kind)n->kind) {
    case RX_K_NOTHING:
    case RX_K_EMPTY:
        break;
    case RX_K_BYTES:
        size = 1;
        break;
    case RX_K_MULTIPLE: /* its states */
        size = n->b;
        break;
    case RX_K_SEQ:
        size = (uint64_t)p->node[n->a].size + p->node[n->b].size;
        break;
    case RX_K_OR:
    case RX_K_AND:
        for (uint32_t i = 0; i < n->b && size < UINT32_MAX; i++)
            size += p->node[p->operand.at[n->a + i]].size;
        break;
    case RX_K_NOT:
        size = p->node[n->a].size;
        break;
    case RX_K_REPEAT: /* both factors are below 2^32 */
        size = (uint64_t)p->node[n->a].size * (n->max == RX_MANY ? n->min | 1u : n->max);
        break;
    }
    return size < UINT32_MAX ? (uint32_t)size : UINT32_MAX;
}

rx rx_intern(rx_pool *p, rx_node n, const uint64_t *set, const uint32_t *operand)
{
    if (!rx_ok(p) || !grow_table(p))
        return RX_NOTHING;
    n.hash = hash_of(&n, set, operand);
    size_t at = slot_of(p, n.hash);
    for (; p->table[at]; at = (at + 1) & (p->table_room - 1))
        if (is_same(p, &p->node[p->table[at]], &n, set, operand))
            return p->table[at];
    if (p->n_node >= p->limit) {
        char what[96];
        snprintf(what, sizeof what, "more than %u regular expressions are needed; simplify it",
                 p->limit);
        return rx_fail(p, WEFT_ELIMIT, what);
    }
    if (!rx_room(p, (void **)&p->node, &p->node_room, p->n_node + 1, sizeof *p->node) ||
        !store_parts(p, &n, set, operand))
        return RX_NOTHING;
    n.size = size_of(p, &n);
    p->node[p->n_node] = n;
    p->table[at] = (uint32_t)p->n_node;
    return (rx)p->n_node++;
}

rx_pool *rx_pool_new(mem *m, uint32_t limit, weft_error *err)
{
    rx_pool *p = mem_zalloc(m, 1, sizeof *p, "regular expressions", err);
    if (!p)
        return NULL;
    p->mem = m;
    p->limit = limit < 3 ? 3 : limit;
    if (rx_room(p, (void **)&p->node, &p->node_room, 1, sizeof *p->node)) {
        p->node[p->n_node++] = (rx_node){ .kind = RX_K_NOTHING, .plain = true, .life = RX_IS_DEAD };
        rx_intern(p, (rx_node){ .kind = RX_K_EMPTY, .nullable = true, .plain = true }, NULL, NULL);
        rx_intern(p, (rx_node){ .kind = RX_K_NOT, .nullable = true }, NULL, NULL);
    }
    if (rx_failed(p, err) != WEFT_OK) {
        rx_pool_free(p);
        return NULL;
    }
    return p;
}

void rx_pool_free(rx_pool *p)
{
    if (!p)
        return;
    mem *m = p->mem;
    void *const blocks[] = { p->node,    p->set,      p->operand.at, p->table,    p->memo_key,
                             p->memo,    p->mark,     p->work.at,    p->spine.at, p->gather.at,
                             p->todo.at, p->found.at, p->from.at,    p->seen };
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        mem_free(m, blocks[i]);
    mem_free(m, p);
}

weft_status rx_failed(const rx_pool *p, weft_error *err)
{
    if (!rx_ok(p))
        weft_fail(err, p->failed.code, "%s", p->failed.message);
    return p->failed.code;
}

uint32_t rx_size(const rx_pool *p, rx a)
{
    return p->node[a].size;
}

bool rx_matches_empty(const rx_pool *p, rx a)
{
    return p->node[a].nullable;
}

/* ---- bytes, sequences, repetitions ----------------------------------------------------------- */

rx rx_bytes(rx_pool *p, const uint64_t set[4])
{
    if (!(set[0] | set[1] | set[2] | set[3]))
        return RX_NOTHING;
    return rx_intern(p, (rx_node){ .kind = RX_K_BYTES, .plain = true }, set, NULL);
}

rx rx_byte_range(rx_pool *p, uint8_t first, uint8_t last)
{
    uint64_t set[4] = { 0 };
    for (int word = first / 64; word <= last / 64; word++) {
        const int from = word == first / 64 ? first % 64 : 0;
        const int to = word == last / 64 ? last % 64 : 63;
        set[word] = UINT64_MAX >> (63 - to + from) << from;
    }
    return rx_bytes(p, set);
}

rx rx_literal(rx_pool *p, const char *text, size_t n)
{
    rx r = RX_EMPTY;
    while (n-- > 0)
        r = rx_seq(p, rx_byte_range(p, (uint8_t)text[n], (uint8_t)text[n]), r);
    return r;
}

static uint32_t add_counts(uint32_t a, uint32_t b)
{
    const uint64_t sum = (uint64_t)a + b;
    return a == RX_MANY || b == RX_MANY || sum > RX_MANY ? RX_MANY : (uint32_t)sum;
}

/* x{a,b} x{c,d} is x{a+c,b+d}, unless that number is too large to tell from "without end". */
static bool join_repeats(rx_pool *p, rx a, rx b, rx *joined)
{
    const rx_node x = p->node[a], y = p->node[b];
    if (x.kind != RX_K_REPEAT || y.kind != RX_K_REPEAT || x.a != y.a)
        return false;
    const uint32_t min = add_counts(x.min, y.min), max = add_counts(x.max, y.max);
    if (min == RX_MANY || (max == RX_MANY && x.max != RX_MANY && y.max != RX_MANY))
        return false;
    *joined = rx_repeat(p, x.a, min, max);
    return true;
}

/* a, which is no sequence, before b. */
static rx pair(rx_pool *p, rx a, rx b)
{
    if (a == RX_NOTHING || b == RX_NOTHING)
        return RX_NOTHING;
    if (a == RX_EMPTY)
        return b;
    if (b == RX_EMPTY)
        return a;
    const bool more = p->node[b].kind == RX_K_SEQ;
    const rx head = more ? p->node[b].a : b;
    rx joined;
    if (a == RX_ALL && head == RX_ALL)
        return b;
    if (join_repeats(p, a, head, &joined))
        return more ? pair(p, joined, p->node[b].b) : joined;
    const rx_node *x = &p->node[a], *y = &p->node[b];
    return rx_intern(p,
                     (rx_node){ .kind = RX_K_SEQ,
                                .nullable = x->nullable && y->nullable,
                                .plain = x->plain && y->plain,
                                .a = a,
                                .b = b },
                     NULL, NULL);
}

rx rx_seq(rx_pool *p, rx a, rx b)
{
    p->spine.n = 0;
    for (; p->node[a].kind == RX_K_SEQ; a = p->node[a].b)
        if (!rx_push(p, &p->spine, p->node[a].a))
            return RX_NOTHING;
    b = pair(p, a, b);
    while (p->spine.n > 0)
        b = pair(p, p->spine.at[--p->spine.n], b);
    return b;
}

/* (a{i,j}){k,l} is a{i k, j l} if no number between them is left out: after k rounds of at most j,
 * k+1 rounds of at least i go on. */
static bool nest_repeats(const rx_node *inner, uint32_t *min, uint32_t *max)
{
    const uint64_t i = inner->min, j = inner->max, k = *min, l = *max;
    const bool many = j == RX_MANY || l == RX_MANY;
    if (k == 0 && i > 1)
        return false;
    if (k > 0 && k < l && j != RX_MANY && k * j + 1 < (k + 1) * i)
        return false;
    if (i * k >= RX_MANY || (!many && j * l >= RX_MANY))
        return false;
    *min = (uint32_t)(i * k);
    *max = many ? RX_MANY : (uint32_t)(j * l);
    return true;
}

rx rx_repeat(rx_pool *p, rx a, uint32_t min, uint32_t max)
{
    if (min > max)
        return RX_NOTHING;
    if (p->node[a].nullable)
        min = 0;
    if (max == 0 || a == RX_EMPTY)
        return RX_EMPTY;
    if (a == RX_NOTHING)
        return min == 0 ? RX_EMPTY : RX_NOTHING;
    if (a == RX_ALL || (min == 1 && max == 1))
        return a;
    if (p->node[a].kind == RX_K_REPEAT) {
        const rx_node inner = p->node[a];
        if (nest_repeats(&inner, &min, &max))
            return rx_repeat(p, inner.a, min, max);
    }
    return rx_intern(p,
                     (rx_node){ .kind = RX_K_REPEAT,
                                .nullable = min == 0,
                                .plain = p->node[a].plain,
                                .a = a,
                                .min = min,
                                .max = max },
                     NULL, NULL);
}

/* ---- multiples ------------------------------------------------------------------------------- */

/* A remainder before the decimal point lives: digits can follow until it is 0. */
static rx remainder_of(rx_pool *p, uint64_t value, uint32_t divisor, uint32_t decimals, bool before)
{
    uint64_t end = value % divisor;
    for (uint32_t i = 0; i < decimals && end != 0; i++)
        end = end * 10 % divisor;
    return rx_intern(p,
                     (rx_node){ .kind = RX_K_MULTIPLE,
                                .nullable = end == 0,
                                .life = before ? RX_LIVES : RX_UNKNOWN,
                                .a = (uint32_t)(value % divisor),
                                .b = divisor,
                                .min = decimals,
                                .max = before },
                     NULL, NULL);
}

rx rx_multiple(rx_pool *p, uint32_t divisor, uint32_t decimals)
{
    return remainder_of(p, 0, divisor, decimals, true);
}

rx rx_derive_multiple(rx_pool *p, rx a, uint8_t byte)
{
    const rx_node n = p->node[a];
    const bool before = n.max;
    if (byte == '.' && before)
        return remainder_of(p, n.a, n.b, n.min, false);
    if (byte < '0' || byte > '9')
        return RX_NOTHING;
    if (!before && n.min == 0)
        return byte == '0' ? a : RX_NOTHING;
    return remainder_of(p, (uint64_t)n.a * 10 + byte - '0', n.b, before ? n.min : n.min - 1,
                        before);
}
