/* dfa.c - states and transitions of the lazy automaton; see dfa.h. */
#include "text/constrain/dfa.h"

#include "text/hash.h"

#include <string.h>

/* Room for `more` entries, which count from now on. NULL without memory. */
static void *extend(dfa *d, list *to, size_t more, size_t size)
{
    const size_t used = (size_t)to->n * size;
    if ((!to->room.data || to->room.room < used + more * size) &&
        !scratch_grow(&to->room, 2 * used + (more + 16) * size, d->mem, d->err))
        return NULL;
    to->n += (uint32_t)more;
    return (char *)to->room.data + used;
}

static uint32_t slot_of(const dfa *d, rx expression)
{
    uint32_t i = (uint32_t)hash_mix(expression, 0) & (d->n_slot - 1);
    while (d->slot[i] != 0 && dfa_at(d, d->slot[i])->expression != expression)
        i = (i + 1) & (d->n_slot - 1);
    return i;
}

static bool grow_slots(dfa *d)
{
    if (2 * d->states.n < d->n_slot)
        return true;
    const uint32_t n = d->n_slot ? 2 * d->n_slot : 256;
    uint32_t *slot = mem_zalloc(d->mem, n, sizeof *slot, "an automaton", d->err);
    if (!slot)
        return false;
    mem_free(d->mem, d->slot);
    d->slot = slot;
    d->n_slot = n;
    for (uint32_t s = 1; s < d->states.n; s++)
        d->slot[slot_of(d, dfa_at(d, s)->expression)] = s;
    return true;
}

/* The number of a map of classes. There are few, most of them recent. */
static uint32_t intern_map(dfa *d, const uint8_t map[256])
{
    const uint8_t(*have)[256] = d->maps.room.data;
    for (uint32_t i = d->maps.n, tries = 0; i-- > 0 && tries < 64; tries++)
        if (memcmp(have[i], map, 256) == 0)
            return i;
    uint8_t *to = extend(d, &d->maps, 1, 256);
    if (!to)
        return UINT32_MAX;
    memcpy(to, map, 256);
    return d->maps.n - 1;
}

static uint32_t add_state(dfa *d, rx expression, bool dead)
{
    uint8_t class_of[256] = { 0 };
    const int n = dead ? 1 : rx_classes(d->pool, expression, class_of);
    const uint32_t map = intern_map(d, class_of), table = d->next.n;
    uint32_t *next = map != UINT32_MAX ? extend(d, &d->next, (size_t)n, sizeof *next) : NULL;
    dfa_state *s = next ? extend(d, &d->states, 1, sizeof *s) : NULL;
    if (!s)
        return DFA_DEAD;
    for (int i = 0; i < n; i++)
        next[i] = dead ? DFA_DEAD : DFA_UNKNOWN;
    *s = (dfa_state){ .expression = expression,
                      .map = map,
                      .table = table,
                      .accepts = !dead && rx_matches_empty(d->pool, expression),
                      .mapped = dead };
    return d->states.n - 1;
}

weft_status dfa_init(dfa *d, mem *m, rx_pool *pool, weft_error *err)
{
    *d = (dfa){ .mem = m, .pool = pool, .err = err };
    add_state(d, RX_NOTHING, true);
    return d->states.n == 1 && grow_slots(d) ? WEFT_OK : err->code;
}

void dfa_free(dfa *d)
{
    scratch_free(&d->states.room, d->mem);
    scratch_free(&d->next.room, d->mem);
    scratch_free(&d->maps.room, d->mem);
    mem_free(d->mem, d->slot);
}

uint32_t dfa_enter(dfa *d, rx expression)
{
    if (expression == RX_NOTHING || !grow_slots(d))
        return DFA_DEAD;
    const uint32_t slot = slot_of(d, expression);
    if (d->slot[slot] != 0)
        return d->slot[slot];
    if (!rx_alive(d->pool, expression)) {
        rx_failed(d->pool, d->err);
        return DFA_DEAD;
    }
    return d->slot[slot] = add_state(d, expression, false);
}

uint32_t dfa_derive(dfa *d, uint32_t state, uint8_t byte)
{
    const dfa_state s = *dfa_at(d, state);
    const rx expression = rx_derive(d->pool, s.expression, byte);
    if (rx_failed(d->pool, d->err) != WEFT_OK)
        return DFA_DEAD;
    const uint32_t next = dfa_enter(d, expression);
    const uint8_t(*map)[256] = (const uint8_t(*)[256])d->maps.room.data + s.map;
    if (d->err->code == WEFT_OK)
        ((uint32_t *)d->next.room.data)[s.table + (*map)[byte]] = next;
    return next;
}

const uint64_t *dfa_live(dfa *d, uint32_t state)
{
    if (!dfa_at(d, state)->mapped) {
        uint64_t live[4] = { 0 };
        for (int b = 0; b < 256; b++)
            if (dfa_step(d, state, (uint8_t)b) != DFA_DEAD)
                live[b / 64] |= (uint64_t)1 << b % 64;
        dfa_state *s = (dfa_state *)d->states.room.data + state;
        memcpy(s->live, live, sizeof live);
        s->mapped = d->err->code == WEFT_OK;
    }
    return dfa_at(d, state)->live;
}
