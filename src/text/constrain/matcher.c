/* matcher.c - slices of the vocabulary by state, masks by row; see matcher.h. */
#include "text/constrain/matcher.h"

#include "text/hash.h"

#include <string.h>

#define MASK_BYTES  ((size_t)8 << 20) /* of all masks that are kept */
#define SLICE_BYTES ((size_t)16 << 20)
#define WORTH       512 /* nodes and items: a mask that took more is kept */

/* ---- life ------------------------------------------------------------------------------------ */

static weft_status alloc_matcher(matcher *m, weft_error *err)
{
    m->words = m->trie->words;
    m->n_mask = 16;
    while (m->n_mask < 1024 && 2 * m->n_mask * m->words * sizeof(uint64_t) <= MASK_BYTES)
        m->n_mask *= 2;
    m->special = mem_zalloc(m->mem, m->words, sizeof *m->special, "a constraint", err);
    m->path = mem_zalloc(m->mem, (size_t)m->trie->depth + 1, sizeof *m->path, "a constraint", err);
    m->mask_row = mem_alloc(m->mem, m->n_mask * sizeof *m->mask_row, "a constraint", err);
    m->mask = mem_zalloc(m->mem, m->n_mask, sizeof *m->mask, "a constraint", err);
    m->found = mem_zalloc(m->mem, m->words, sizeof *m->found, "a constraint", err);
    if (!m->special || !m->found || !m->path || !m->mask_row || !m->mask)
        return err->code;
    matcher_forget(m);
    return WEFT_OK;
}

weft_status matcher_init(matcher *m, grammar *g, const token_trie *tokens, const int32_t *ends,
                         int n_end, mem *in, weft_error *err)
{
    *m = (matcher){ .mem = in, .grammar = g, .trie = tokens };
    weft_status status = rows_init(&m->rows, in, g, err);
    if (status == WEFT_OK)
        status = alloc_matcher(m, err);
    for (int i = 0; i < n_end && status == WEFT_OK; i++)
        if (ends[i] >= 0 && (uint32_t)ends[i] < tokens->n_id)
            m->special[ends[i] / 64] |= (uint64_t)1 << ends[i] % 64;
    if (status != WEFT_OK)
        matcher_free(m);
    return status;
}

static void free_slices(matcher *m)
{
    token_slice **have = m->slices.room.data;
    for (uint32_t i = 0; i < m->slices.n; i++) {
        mem_free(m->mem, have[i]);
        have[i] = NULL;
    }
    m->slice_bytes = 0;
}

void matcher_free(matcher *m)
{
    free_slices(m);
    for (uint32_t i = 0; m->mask && i < m->n_mask; i++)
        mem_free(m->mem, m->mask[i]);
    mem_free(m->mem, m->mask);
    mem_free(m->mem, m->mask_row);
    mem_free(m->mem, m->special);
    mem_free(m->mem, m->path);
    scratch_free(&m->slices.room, m->mem);
    scratch_free(&m->next_plain.room, m->mem);
    mem_free(m->mem, m->found);
    scratch_free(&m->crosses.room, m->mem);
    scratch_free(&m->marked.room, m->mem);
    rows_free(&m->rows);
    grammar_free(m->grammar);
    *m = (matcher){ 0 };
}

void matcher_forget(matcher *m)
{
    for (uint32_t i = 0; i < m->n_mask; i++)
        m->mask_row[i] = NO_ROW;
}

/* ---- slices ---------------------------------------------------------------------------------- */

static bool put(matcher *m, list *to, uint32_t x)
{
    const size_t used = (size_t)to->n * sizeof x;
    if (to->room.room < used + sizeof x &&
        !scratch_grow(&to->room, 2 * used + 1024, m->mem, m->rows.err))
        return false;
    ((uint32_t *)to->room.data)[to->n++] = x;
    return true;
}

/* ---- plain code points ----------------------------------------------------------------------- */

#define VARIES  (UINT32_MAX - 1) /* not all plain code points lead to one state */
#define UNKNOWN UINT32_MAX

/* The bytes of well-formed UTF-8 beyond ASCII: first bytes, second bytes, how many follow. */
static const struct {
    uint8_t first, last, low, high, more;
} utf8_forms[] = {
    { 0xC2, 0xDF, 0x80, 0xBF, 0 }, { 0xE0, 0xE0, 0xA0, 0xBF, 1 }, { 0xE1, 0xEC, 0x80, 0xBF, 1 },
    { 0xED, 0xED, 0x80, 0x9F, 1 }, { 0xEE, 0xEF, 0x80, 0xBF, 1 }, { 0xF0, 0xF0, 0x90, 0xBF, 2 },
    { 0xF1, 0xF3, 0x80, 0xBF, 2 }, { 0xF4, 0xF4, 0x80, 0x8F, 2 },
};

/* The one state after a byte of low to high and `more` that continue it; VARIES if there is none,
 * or if the lexeme may end inside the code point. */
static uint32_t after_bytes(dfa *d, uint32_t state, uint8_t low, uint8_t high, int more)
{
    uint32_t all = UNKNOWN, last = UNKNOWN;
    for (int b = low; b <= high; b++) {
        uint32_t to = dfa_step(d, state, (uint8_t)b);
        if (to == last)
            continue;
        last = to;
        if (to != DFA_DEAD && more > 0)
            to = dfa_at(d, to)->accepts ? VARIES : after_bytes(d, to, 0x80, 0xBF, more - 1);
        if (to == VARIES || (all != UNKNOWN && to != all))
            return VARIES;
        all = to;
    }
    return all;
}

static uint32_t find_next_plain(dfa *d, uint32_t state)
{
    uint32_t all = after_bytes(d, state, 0x20, 0x21, 0);
    if (after_bytes(d, state, 0x23, 0x5B, 0) != all || after_bytes(d, state, 0x5D, 0x7E, 0) != all)
        return VARIES;
    for (size_t i = 0; i < sizeof utf8_forms / sizeof *utf8_forms && all != VARIES; i++)
        for (int b = utf8_forms[i].first; b <= utf8_forms[i].last; b++) {
            const uint32_t to = dfa_step(d, state, (uint8_t)b);
            const uint32_t end = to == DFA_DEAD ? DFA_DEAD
                                 : dfa_at(d, to)->accepts
                                     ? VARIES
                                     : after_bytes(d, to, utf8_forms[i].low, utf8_forms[i].high,
                                                   utf8_forms[i].more);
            if (end != all)
                return VARIES;
        }
    return all;
}

static uint32_t next_plain(matcher *m, uint32_t state)
{
    while (m->next_plain.n <= state)
        if (!put(m, &m->next_plain, UNKNOWN))
            return VARIES;
    if (((uint32_t *)m->next_plain.room.data)[state] == UNKNOWN) {
        const uint32_t next = find_next_plain(&m->rows.dfa, state);
        ((uint32_t *)m->next_plain.room.data)[state] = next;
    }
    return ((uint32_t *)m->next_plain.room.data)[state];
}

/* How many plain code points a state takes, whichever they are, without an end of the lexeme: all
 * plain tokens up to that length stay inside, and longer ones do not. -1 if it is not so simple. */
static int plain_room(matcher *m, uint32_t state)
{
    for (int n = 0; n < PLAIN_MOST; n++) {
        const uint32_t next = next_plain(m, state);
        if (next == VARIES || dfa_at(&m->rows.dfa, next)->accepts)
            return -1;
        if (next == DFA_DEAD)
            return n;
        if (next == state)
            break;
        state = next;
    }
    return PLAIN_MOST;
}

/* ---- making slices --------------------------------------------------------------------------- */

static void set_bit(uint64_t *bits, uint32_t id)
{
    bits[id / 64] |= (uint64_t)1 << id % 64;
}

/* Does every plain code point lead back to this state? */
static bool takes_plain(matcher *m, uint32_t state)
{
    return next_plain(m, state) == state;
}

#define MANY_NODES 48 /* in a subtree: worth asking whether the state takes all of it */

/* Walks a trie along the automaton of one lexeme; returns the number of tokens. */
static uint32_t collect(matcher *m, const token_nodes *t, uint32_t state)
{
    dfa *d = &m->rows.dfa;
    uint32_t found = 0;
    m->crosses.n = 0;
    m->path[0] = state;
    for (uint32_t i = 1; i < t->n && m->rows.err->code == WEFT_OK;) {
        const token_node *at = &t->node[i];
        const uint32_t s = dfa_step(d, m->path[at->depth - 1], at->byte);
        if (s == DFA_DEAD) {
            i = at->end;
            continue;
        }
        m->path[at->depth] = s;
        const bool whole = at->plain && at->end - i > MANY_NODES && takes_plain(m, s);
        const uint32_t end = whole ? at->end : i + 1;
        for (uint32_t k = at->first; k < t->node[end].first; k++, found++)
            set_bit(m->found, t->id[k]);
        if (whole) {
            i = end;
            continue;
        }
        if (at->end > i + 1 && dfa_at(d, s)->accepts)
            put(m, &m->crosses, i);
        i++;
    }
    return found;
}

/* A block for n ids, dense or sparse, and the nodes in `crosses`. */
static token_slice *new_slice(matcher *m, uint32_t n, bool dense)
{
    const size_t set = dense ? m->words * sizeof(uint64_t) : (n + 1) / 2 * sizeof(uint64_t);
    const size_t all = sizeof(token_slice) + set + m->crosses.n * sizeof(uint32_t);
    if (m->slice_bytes + all > SLICE_BYTES)
        free_slices(m);
    token_slice *s = mem_zalloc(m->mem, 1, all, "a constraint", m->rows.err);
    if (!s)
        return NULL;
    m->slice_bytes += all;
    *s = (token_slice){ .n_id = n, .n_cross = m->crosses.n };
    s->bits = dense ? (uint64_t *)(s + 1) : NULL;
    s->id = dense ? NULL : (uint32_t *)(s + 1);
    s->cross = (uint32_t *)((char *)(s + 1) + set);
    if (s->n_cross > 0)
        memcpy(s->cross, m->crosses.room.data, s->n_cross * sizeof *s->cross);
    return s;
}

static token_slice *make_slice(matcher *m, uint32_t state)
{
    const int room = plain_room(m, state);
    const token_trie *t = m->trie;
    const size_t bytes = m->words * sizeof *m->found;
    if (room > 0)
        memcpy(m->found, t->plain + (size_t)room * t->words, bytes);
    else
        memset(m->found, 0, bytes);
    const token_nodes *nodes = room < 0 ? &t->all : &t->rest;
    const uint32_t n = collect(m, nodes, state);
    const bool dense = room > 0 || n > 2 * m->words;
    token_slice *s = m->rows.err->code == WEFT_OK ? new_slice(m, n, dense) : NULL;
    if (!s)
        return NULL;
    s->nodes = nodes;
    if (dense)
        memcpy(s->bits, m->found, bytes);
    for (size_t i = 0, k = 0; !dense && k < n; i++)
        for (uint64_t bits = m->found[i]; bits != 0; bits &= bits - 1)
            s->id[k++] = (uint32_t)(64 * i + (size_t)__builtin_ctzll(bits));
    return s;
}

static const token_slice *slice_of(matcher *m, uint32_t state)
{
    const size_t n = m->rows.dfa.states.n;
    if (m->slices.n < n) {
        if (!scratch_grow(&m->slices.room, 2 * n * sizeof(token_slice *), m->mem, m->rows.err))
            return NULL;
        memset((token_slice **)m->slices.room.data + m->slices.n, 0,
               (2 * n - m->slices.n) * sizeof(token_slice *));
        m->slices.n = (uint32_t)(2 * n);
    }
    token_slice **at = (token_slice **)m->slices.room.data + state;
    if (!*at) {
        token_slice *made = make_slice(m, state);
        at = (token_slice **)m->slices.room.data + state;
        *at = made;
    }
    return *at;
}

/* ---- masks ----------------------------------------------------------------------------------- */

/* Below a node at which lexemes ended, from the row after them. */
static void walk_rows(matcher *m, const token_nodes *t, uint32_t row, const uint64_t first[4],
                      uint32_t top, uint64_t *bits)
{
    const uint32_t depth = t->node[top].depth, end = t->node[top].end;
    m->path[depth] = row;
    for (uint32_t i = top + 1; i < end && m->rows.err->code == WEFT_OK;) {
        const token_node *node = &t->node[i];
        const bool begins = node->depth == depth + 1u;
        const uint32_t to = begins && !(first[node->byte / 64] >> node->byte % 64 & 1)
                                ? NO_ROW
                                : rows_step(&m->rows, m->path[node->depth - 1], node->byte);
        if (to == NO_ROW) {
            i = node->end;
            continue;
        }
        m->path[node->depth] = to;
        uint32_t n;
        const uint32_t *id = node_ids(t, i, &n);
        for (uint32_t k = 0; k < n; k++)
            set_bit(bits, id[k]);
        i++;
    }
}

/* What the scan items of a row in one state allow. */
static void add_state(matcher *m, uint32_t row, uint32_t state, uint64_t *bits, uint64_t *work)
{
    const token_slice *s = slice_of(m, state);
    if (!s)
        return;
    for (size_t i = 0; s->bits && i < m->words; i++)
        bits[i] |= s->bits[i];
    for (uint32_t i = 0; s->id && i < s->n_id; i++)
        set_bit(bits, s->id[i]);
    *work += s->n_cross + (s->bits ? 64 : s->n_id);
    if (s->n_cross == 0)
        return;
    const uint32_t after = rows_end_lexemes(&m->rows, row, state);
    uint64_t first[4];
    if (after == NO_ROW)
        return;
    rows_next_bytes(&m->rows, after, first);
    if (row_at(&m->rows, after)->n_scan == 0)
        return;
    for (uint32_t i = 0; i < s->n_cross && m->rows.err->code == WEFT_OK; i++)
        walk_rows(m, s->nodes, after, first, s->cross[i], bits);
}

/* Has this mask not looked at the state yet? */
static bool is_new(matcher *m, uint32_t state)
{
    list *l = &m->marked;
    while (l->n <= state)
        if (!put(m, l, 0))
            return false;
    uint32_t *mark = (uint32_t *)l->room.data + state;
    const bool fresh = *mark != m->mark;
    *mark = m->mark;
    return fresh;
}

static void add_tokens(matcher *m, uint32_t row, uint64_t *bits)
{
    const row_head at = *row_at(&m->rows, row);
    const item *it = row_items(&m->rows, row) + at.n_scan;
    const symbol *right = m->grammar->right.room.data;
    for (uint32_t i = 0; i < at.n_token; i++) {
        const token_symbol *t = token_at(m->grammar, symbol_index(right[it[i].dot]));
        if (!t->negated && tokenizer_has(m->trie->tokenizer, t->id))
            set_bit(bits, t->id);
        for (uint32_t id = 0; t->negated && id < m->trie->n_id; id++)
            if (id != t->id && tokenizer_has(m->trie->tokenizer, id))
                set_bit(bits, id);
    }
}

static void compute(matcher *m, uint32_t row, uint64_t *bits, uint64_t *work)
{
    const uint32_t n = row_at(&m->rows, row)->n_scan;
    m->mark++;
    for (uint32_t i = 0; i < n && m->rows.err->code == WEFT_OK; i++) {
        const uint32_t state = row_items(&m->rows, row)[i].state;
        if (is_new(m, state))
            add_state(m, row, state, bits, work);
    }
    add_tokens(m, row, bits);
    for (size_t i = 0; i < m->words; i++)
        bits[i] = row_at(&m->rows, row)->accepts ? bits[i] | m->special[i]
                                                 : bits[i] & ~m->special[i];
}

weft_status matcher_mask(matcher *m, uint32_t row, uint64_t *bits)
{
    const uint32_t at = (uint32_t)hash_mix(row, 0) & (m->n_mask - 1);
    const size_t size = m->words * sizeof *bits;
    if (m->mask_row[at] == row) {
        memcpy(bits, m->mask[at], size);
        return WEFT_OK;
    }
    uint64_t work = 0;
    memset(bits, 0, size);
    compute(m, row, bits, &work);
    if (m->rows.err->code != WEFT_OK)
        return m->rows.err->code;
    if (work + m->rows.effort <= WORTH)
        return WEFT_OK;
    if (!m->mask[at])
        m->mask[at] = mem_alloc(m->mem, size, "a constraint", m->rows.err);
    if (!m->mask[at])
        return m->rows.err->code;
    memcpy(m->mask[at], bits, size);
    m->mask_row[at] = row;
    return WEFT_OK;
}

uint32_t matcher_token(matcher *m, uint32_t row, uint32_t id)
{
    const char *bytes = "";
    const size_t n = token_text(m->trie, id, &bytes);
    uint32_t to = n > 0 ? row : NO_ROW;
    for (size_t i = 0; i < n && to != NO_ROW; i++)
        to = rows_step(&m->rows, to, (uint8_t)bytes[i]);
    if (row_at(&m->rows, row)->n_token > 0 && m->rows.err->code == WEFT_OK &&
        tokenizer_has(m->trie->tokenizer, id))
        to = rows_token(&m->rows, row, id, to);
    return m->rows.err->code == WEFT_OK ? to : NO_ROW;
}
