/* rx_pool.h - inside a pool of regular expressions: rx.c and rx_join.c make expressions,
 * rx_derive.c derivatives, rx_alive.c searches them, rx_points.c spells code points, rx_parse.c reads patterns. */
#ifndef WEFT_TEXT_CONSTRAIN_RX_POOL_H
#define WEFT_TEXT_CONSTRAIN_RX_POOL_H

#include "text/constrain/rx.h"

typedef enum rx_kind {
    RX_K_NOTHING,
    RX_K_EMPTY,
    RX_K_BYTES,   /* a: which of the pool's sets */
    RX_K_SEQ,     /* a, then b; a is no sequence */
    RX_K_OR,      /* b operands from a on, in the pool's list: sorted, none of them an OR */
    RX_K_AND,     /* the same */
    RX_K_NOT,     /* a */
    RX_K_REPEAT,  /* a, min to max times */
    RX_K_MULTIPLE /* digits that continue the remainder a of the divisor b: max 1 before the decimal
                     point, 0 after it; min decimals are still missing */
} rx_kind;

typedef enum rx_life { RX_UNKNOWN, RX_LIVES, RX_IS_DEAD } rx_life;

typedef struct rx_node {
    uint8_t kind;
    bool nullable; /* matches the empty string */
    bool plain;    /* without AND and NOT: matches something, as constructors remove "nothing" */
    uint8_t life;  /* what a search found */
    uint32_t a, b, min, max, hash;
    uint32_t size; /* rx_size */
} rx_node;

/* A list that grows. */
typedef struct rx_list {
    uint32_t *at;
    size_t n, room;
} rx_list;

struct rx_pool {
    mem *mem;
    uint32_t limit;
    weft_error failed; /* code WEFT_OK: nothing did */

    rx_node *node;
    size_t n_node, node_room;
    uint64_t (*set)[4];
    size_t n_set, set_room;
    rx_list operand; /* of OR and AND */
    uint32_t *table; /* nodes by hash, 0: free */
    size_t table_room;

    uint64_t *memo_key; /* expression << 8 | byte, 0: free */
    rx *memo;
    size_t n_memo, memo_room;
    uint32_t *mark; /* of each node: the walk that saw it last */
    size_t mark_room;
    uint32_t walk;
    uint32_t *seen; /* of each node: the search that saw it last */
    size_t seen_room;
    uint32_t n_search;

    rx any_point[2]; /* one code point, plain and as JSON; RX_NOTHING: not made yet */
    rx trail[4];     /* so many continuation bytes, likewise */
    rx_list work, spine, gather, todo; /* of rx_any and rx_every; rx_seq; rx_derive; walks */
    rx_list found, from;               /* of rx_alive: states, and from which one each was found */
};

/* Room for n elements of `size` bytes in an array that has *room, which are kept. */
bool rx_room(rx_pool *p, void **at, size_t *room, size_t n, size_t size);
bool rx_push(rx_pool *p, rx_list *l, uint32_t x);

/* Remembers the first reason. */
rx rx_fail(rx_pool *p, weft_status code, const char *what);

/* The number of an expression, which is made if it is new. For BYTES its set, for OR and AND their n.b
 * operands are given, which are copied. */
rx rx_intern(rx_pool *p, rx_node n, const uint64_t *set, const uint32_t *operand);

/* The derivative of a multiple. */
rx rx_derive_multiple(rx_pool *p, rx a, uint8_t byte);

/* Begins a walk over the nodes; the second is true for a node that this walk has not seen. */
bool rx_walk_begin(rx_pool *p);
bool rx_walk_first(rx_pool *p, rx a);

static inline bool rx_ok(const rx_pool *p)
{
    return p->failed.code == WEFT_OK;
}

#endif
