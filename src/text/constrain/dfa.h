/* dfa.h - the automaton of all lexemes of a grammar, built state by state when they are used.
 *
 * A state is an expression of the pool, so lexemes with a common tail share states. Bytes are
 * grouped in classes; a state has one transition for each, computed on its first use:
 *
 *     next[table[state] + class[map[state]][byte]]                                             */
#ifndef WEFT_TEXT_CONSTRAIN_DFA_H
#define WEFT_TEXT_CONSTRAIN_DFA_H

#include "text/constrain/rules.h"

#define DFA_DEAD ((uint32_t)0)

typedef struct dfa_state {
    rx expression;
    uint32_t map;   /* which classes */
    uint32_t table; /* where its transitions begin */
    bool accepts;
    bool mapped;      /* `live` is filled */
    uint64_t live[4]; /* bytes that have a transition */
} dfa_state;

typedef struct dfa {
    mem *mem;
    rx_pool *pool;
    list states;    /* dfa_state */
    list next;      /* uint32_t */
    list maps;      /* uint8_t[256] */
    uint32_t *slot; /* states by expression, hashed; 0: free */
    uint32_t n_slot;
    weft_error *err; /* of the current call: set when memory or the pool runs out */
} dfa;

weft_status dfa_init(dfa *d, mem *m, rx_pool *pool, weft_error *err);
void dfa_free(dfa *d);

/* The state of an expression; DFA_DEAD if it matches nothing, or on failure, with err filled. */
uint32_t dfa_enter(dfa *d, rx expression);

/* Computes a transition. */
uint32_t dfa_derive(dfa *d, uint32_t state, uint8_t byte);

#define DFA_UNKNOWN UINT32_MAX

static inline const dfa_state *dfa_at(const dfa *d, uint32_t state)
{
    return (const dfa_state *)d->states.room.data + state;
}

static inline uint32_t dfa_step(dfa *d, uint32_t state, uint8_t byte)
{
    const dfa_state *s = dfa_at(d, state);
    const uint8_t(*map)[256] = (const uint8_t(*)[256])d->maps.room.data + s->map;
    const uint32_t next = ((const uint32_t *)d->next.room.data)[s->table + (*map)[byte]];
    return next != DFA_UNKNOWN ? next : dfa_derive(d, state, byte);
}

/* The bytes that have a transition from a state. */
const uint64_t *dfa_live(dfa *d, uint32_t state);

#endif
