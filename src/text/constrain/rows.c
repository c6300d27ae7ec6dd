/* rows.c - makes rows and finds them again; see rows.h. */
#include "text/constrain/rows.h"

#include "text/hash.h"

#include <string.h>

#define COMPLETED  0x80000000u         /* in work: the item completes rule (dot & ~COMPLETED) */
#define EFFORT     ((uint64_t)1 << 24) /* items that one token or mask may take */
#define STEPS_MOST ((uint32_t)1 << 20)

/* ---- life ------------------------------------------------------------------------------------ */

static void *extend(earley *r, list *to, size_t more, size_t size)
{
    const size_t used = (size_t)to->n * size;
    if ((!to->room.data || to->room.room < used + more * size) &&
        !scratch_grow(&to->room, 2 * used + (more + 16) * size, r->mem, r->err))
        return NULL;
    to->n += (uint32_t)more;
    return (char *)to->room.data + used;
}

static uint32_t *new_slots(earley *r, uint32_t n)
{
    uint32_t *slot = mem_alloc(r->mem, (size_t)n * sizeof *slot, "rows of a grammar", r->err);
    for (uint32_t i = 0; slot && i < n; i++)
        slot[i] = NO_ROW;
    return slot;
}

static step_entry *new_steps(earley *r, uint32_t n)
{
    step_entry *step = mem_alloc(r->mem, (size_t)n * sizeof *step, "rows of a grammar", r->err);
    for (uint32_t i = 0; step && i < n; i++)
        step[i].row = NO_ROW;
    return step;
}

static uint32_t first_row(earley *r);

weft_status rows_init(earley *r, mem *m, grammar *g, weft_error *err)
{
    *r = (earley){ .mem = m, .grammar = g, .n_slot = 64, .n_seen = 64, .step_room = 1024 };
    if (dfa_init(&r->dfa, m, g->pool, err) != WEFT_OK)
        return err->code;
    rows_begin(r, err);
    r->initial = mem_alloc(m, ((size_t)g->lexemes.n + 1) * sizeof *r->initial, "rows of a grammar",
                           err);
    r->slot = new_slots(r, r->n_slot);
    r->step = new_steps(r, r->step_room);
    r->seen = mem_zalloc(m, r->n_seen, sizeof *r->seen, "rows of a grammar", err);
    const item *work = extend(r, &r->work, 0, sizeof *work); /* a row may be empty */
    if (!r->initial || !r->slot || !r->step || !r->seen || !work)
        return err->code;
    for (uint32_t i = 0; i < g->lexemes.n; i++)
        r->initial[i] = DFA_UNKNOWN;
    return first_row(r) == FIRST_ROW ? WEFT_OK : err->code;
}

void rows_free(earley *r)
{
    if (!r->mem)
        return;
    scratch_free(&r->row.room, r->mem);
    scratch_free(&r->item.room, r->mem);
    scratch_free(&r->work.room, r->mem);
    mem_free(r->mem, r->initial);
    mem_free(r->mem, r->slot);
    mem_free(r->mem, r->step);
    mem_free(r->mem, r->seen);
    dfa_free(&r->dfa);
}

void rows_begin(earley *r, weft_error *err)
{
    r->err = r->dfa.err = err;
    r->effort = 0;
    r->effort_most = EFFORT;
}

/* ---- the row that is being made -------------------------------------------------------------- */

static symbol after_dot(const earley *r, uint32_t dot)
{
    return ((const symbol *)r->grammar->right.room.data)[dot];
}

static uint32_t item_hash(const item *i)
{
    return (uint32_t)hash_mix((uint64_t)i->dot << 32 | i->origin, i->state);
}

/* Empties `seen`, and the row with it. */
static void row_begin(earley *r)
{
    const item *work = r->work.room.data;
    for (uint32_t i = 0; i < r->work.n; i++) {
        uint32_t at = item_hash(&work[i]) & (r->n_seen - 1);
        while (r->seen[at] != 0) {
            r->seen[at] = 0;
            at = (at + 1) & (r->n_seen - 1);
        }
    }
    r->work.n = 0;
    r->accepts = false;
}

static bool grow_seen(earley *r)
{
    const uint32_t n = 2 * r->n_seen;
    uint32_t *seen = mem_zalloc(r->mem, n, sizeof *seen, "rows of a grammar", r->err);
    if (!seen)
        return false;
    mem_free(r->mem, r->seen);
    r->seen = seen;
    r->n_seen = n;
    const item *work = r->work.room.data;
    for (uint32_t i = 0; i < r->work.n; i++) {
        uint32_t at = item_hash(&work[i]) & (n - 1);
        while (seen[at] != 0)
            at = (at + 1) & (n - 1);
        seen[at] = i + 1;
    }
    return true;
}

static bool may_grow(earley *r)
{
    const uint32_t most = r->grammar->limits.items;
    if (r->work.n >= most)
        weft_fail(
            r->err, WEFT_ELIMIT,
            "the grammar has more than %u ways to read the text; expected fewer: make it less "
            "ambiguous, or replace right recursion by repetition",
            (unsigned)most);
    else if (++r->effort > r->effort_most)
        weft_fail(r->err, WEFT_ELIMIT,
                  "the grammar takes more than %llu steps for one token; expected fewer: make it "
                  "less ambiguous",
                  (unsigned long long)r->effort_most);
    return r->err->code == WEFT_OK && (2 * r->work.n < r->n_seen || grow_seen(r));
}

static void put_item(earley *r, item it)
{
    if (!may_grow(r))
        return;
    uint32_t at = item_hash(&it) & (r->n_seen - 1);
    const item *work = r->work.room.data;
    for (; r->seen[at] != 0; at = (at + 1) & (r->n_seen - 1))
        if (memcmp(&work[r->seen[at] - 1], &it, sizeof it) == 0)
            return;
    item *to = extend(r, &r->work, 1, sizeof *to);
    if (!to)
        return;
    *to = it;
    r->seen[at] = r->work.n;
}

static uint32_t initial_state(earley *r, uint32_t lexeme)
{
    if (r->initial[lexeme] == DFA_UNKNOWN) {
        const uint32_t state = dfa_enter(&r->dfa, lexeme_at(r->grammar, lexeme));
        if (r->err->code != WEFT_OK)
            return DFA_DEAD;
        r->initial[lexeme] = state;
    }
    return r->initial[lexeme];
}

/* A dot that has just arrived at a place. */
static void put_dot(earley *r, uint32_t dot, uint32_t origin)
{
    symbol s = after_dot(r, dot);
    while (kind_of(s) == SYMBOL_LEXEME && lexeme_at(r->grammar, symbol_index(s)) == RX_EMPTY)
        s = after_dot(r, ++dot);
    if (kind_of(s) == SYMBOL_END && origin == ORIGIN_SELF)
        return; /* an empty rule: those who wait for it have already stepped over it */
    if (kind_of(s) == SYMBOL_END)
        put_item(r, (item){ COMPLETED | symbol_index(s), origin, 0 });
    else
        put_item(r, (item){ dot, origin,
                            kind_of(s) == SYMBOL_LEXEME ? initial_state(r, symbol_index(s)) : 0 });
}

/* A dot before a lexeme whose automaton is in a state; a lexeme that can only end has ended. */
static void put_state(earley *r, uint32_t dot, uint32_t origin, uint32_t state)
{
    if (dfa_at(&r->dfa, state)->expression == RX_EMPTY)
        put_dot(r, dot + 1, origin);
    else
        put_item(r, (item){ dot, origin, state });
}

/* Those who waited for a rule in the row where it began move on. */
static void complete(earley *r, uint32_t completed, uint32_t origin)
{
    const row_head *in = row_at(r, origin);
    const item *wait = row_items(r, origin);
    const symbol s = symbol_of(SYMBOL_RULE, completed);
    r->accepts = r->accepts || completed == r->grammar->whole;
    for (uint32_t i = 0; i < in->n_wait && r->err->code == WEFT_OK; i++)
        if (after_dot(r, wait[i].dot) == s)
            put_dot(r, wait[i].dot + 1, wait[i].origin == ORIGIN_SELF ? origin : wait[i].origin);
}

static void predict(earley *r, const item *it, uint32_t index)
{
    const rule *what = rule_at(r->grammar, index);
    const uint32_t *start = (const uint32_t *)r->grammar->start.room.data + what->start;
    for (uint32_t i = 0; i < what->n_start && r->err->code == WEFT_OK; i++)
        put_dot(r, start[i], ORIGIN_SELF);
    if (what->empty)
        put_dot(r, it->dot + 1, it->origin);
}

/* Adds all that follows from the items so far. */
static void close_row(earley *r)
{
    for (uint32_t i = 0; i < r->work.n && r->err->code == WEFT_OK; i++) {
        const item it = ((const item *)r->work.room.data)[i];
        if (it.dot & COMPLETED) {
            complete(r, it.dot & ~COMPLETED, it.origin);
            continue;
        }
        const symbol s = after_dot(r, it.dot);
        if (kind_of(s) == SYMBOL_RULE)
            predict(r, &it, symbol_index(s));
        else if (kind_of(s) == SYMBOL_LEXEME && dfa_at(&r->dfa, it.state)->accepts)
            put_dot(r, it.dot + 1, it.origin);
    }
}

/* ---- rows are kept once ---------------------------------------------------------------------- */

/* scan, token, wait; completed items are dropped. */
static int group_of(const earley *r, const item *it)
{
    if (it->dot & COMPLETED)
        return 3;
    const symbol_kind kind = kind_of(after_dot(r, it->dot));
    return kind == SYMBOL_LEXEME ? 0 : kind == SYMBOL_TOKEN ? 1 : 2;
}

static bool is_before(const earley *r, const item *a, const item *b)
{
    const int x = group_of(r, a), y = group_of(r, b);
    if (x != y)
        return x < y;
    if (a->dot != b->dot)
        return a->dot < b->dot;
    return a->origin != b->origin ? a->origin < b->origin : a->state < b->state;
}

/* By insertion with falling gaps: short rows are the rule, and qsort may allocate. */
static void sort_items(const earley *r, item *it, uint32_t n)
{
    static const uint32_t gaps[] = { 4193, 1577, 701, 301, 132, 57, 23, 10, 4, 1 };
    for (size_t g = 0; g < sizeof gaps / sizeof *gaps; g++)
        for (uint32_t i = gaps[g]; i < n; i++) {
            const item x = it[i];
            uint32_t k = i;
            for (; k >= gaps[g] && is_before(r, &x, &it[k - gaps[g]]); k -= gaps[g])
                it[k] = it[k - gaps[g]];
            it[k] = x;
        }
}

static uint32_t row_hash(const row_head *h, const item *items)
{
    uint64_t hash = hash_mix(h->waits, h->accepts);
    for (uint32_t i = 0; i < h->n_scan + h->n_token + h->n_wait; i++)
        hash = hash_mix(hash, item_hash(&items[i]));
    return (uint32_t)(hash ^ hash >> 32);
}

static uint32_t find_slot(const earley *r, const row_head *like, const item *items)
{
    const uint32_t n = like->n_scan + like->n_token + like->n_wait;
    uint32_t at = like->hash & (r->n_slot - 1);
    for (; r->slot[at] != NO_ROW; at = (at + 1) & (r->n_slot - 1)) {
        const row_head *have = row_at(r, r->slot[at]);
        if (have->hash == like->hash && have->accepts == like->accepts &&
            have->waits == like->waits && have->n_scan == like->n_scan &&
            have->n_token == like->n_token && have->n_wait == like->n_wait &&
            memcmp(row_items(r, r->slot[at]), items, n * sizeof *items) == 0)
            break;
    }
    return at;
}

static void enter_slots(earley *r)
{
    for (uint32_t i = 0; i < r->row.n; i++) {
        uint32_t at = row_at(r, i)->hash & (r->n_slot - 1);
        while (r->slot[at] != NO_ROW)
            at = (at + 1) & (r->n_slot - 1);
        r->slot[at] = i;
    }
}

static bool grow_slots(earley *r)
{
    if (2 * r->row.n < r->n_slot)
        return true;
    uint32_t *slot = new_slots(r, 2 * r->n_slot);
    if (!slot)
        return false;
    mem_free(r->mem, r->slot);
    r->slot = slot;
    r->n_slot *= 2;
    enter_slots(r);
    return true;
}

/* The number of a row or set, which is kept if it is new. */
static uint32_t keep_row(earley *r, row_head *made, const item *items)
{
    const uint32_t n = made->n_scan + made->n_token + made->n_wait;
    if (!grow_slots(r))
        return NO_ROW;
    made->hash = row_hash(made, items);
    const uint32_t slot = find_slot(r, made, items);
    if (r->slot[slot] != NO_ROW)
        return r->slot[slot];
    made->at = r->item.n;
    item *to = extend(r, &r->item, n, sizeof *to);
    if (!to)
        return NO_ROW;
    memcpy(to, items, n * sizeof *to);
    row_head *kept = extend(r, &r->row, 1, sizeof *kept);
    if (!kept)
        return NO_ROW;
    *kept = *made;
    return r->slot[slot] = r->row.n - 1;
}

/* Closes the row that is being made and finds its number. */
static uint32_t row_end(earley *r)
{
    close_row(r);
    if (r->err->code != WEFT_OK)
        return NO_ROW;
    item *items = r->work.room.data;
    uint32_t count[4] = { 0 };
    for (uint32_t i = 0; i < r->work.n; i++)
        count[group_of(r, &items[i])]++;
    sort_items(r, items, r->work.n);
    row_head set = { .n_wait = count[2], .waits = NO_ROW };
    row_head made = { .n_scan = count[0], .n_token = count[1], .accepts = r->accepts };
    made.waits = keep_row(r, &set, items + count[0] + count[1]);
    return made.waits != NO_ROW ? keep_row(r, &made, items) : NO_ROW;
}

static uint32_t first_row(earley *r)
{
    row_begin(r);
    put_dot(r, r->grammar->first, ORIGIN_SELF);
    r->accepts = rule_at(r->grammar, r->grammar->whole)->empty;
    return row_end(r);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static uint32_t step_slot(const earley *r, uint32_t from, uint8_t byte)
{
    uint32_t at = (uint32_t)hash_mix(from, byte) & (r->step_room - 1);
    while (r->step[at].row != NO_ROW && (r->step[at].row != from || r->step[at].byte != byte))
        at = (at + 1) & (r->step_room - 1);
    return at;
}

/* A full table is emptied: what is needed again is soon back. */
static void keep_step(earley *r, uint32_t from, uint8_t byte, uint32_t to)
{
    if (2 * r->n_step >= r->step_room) {
        const bool grow = r->step_room < STEPS_MOST;
        step_entry *old = r->step, *fresh = new_steps(r, grow ? 2 * r->step_room : r->step_room);
        if (!fresh)
            return;
        const uint32_t n = grow ? r->step_room : 0;
        r->step = fresh;
        r->step_room = grow ? 2 * r->step_room : r->step_room;
        r->n_step = grow ? r->n_step : 0;
        for (uint32_t i = 0; i < n; i++)
            if (old[i].row != NO_ROW)
                r->step[step_slot(r, old[i].row, (uint8_t)old[i].byte)] = old[i];
        mem_free(r->mem, old);
    }
    r->step[step_slot(r, from, byte)] = (step_entry){ from, to, byte };
    r->n_step++;
}

static uint32_t origin_in(const earley *r, const item *it, uint32_t from)
{
    return it->origin == ORIGIN_SELF ? row_waits(r, from) : it->origin;
}

uint32_t rows_step(earley *r, uint32_t from, uint8_t byte)
{
    const step_entry *known = &r->step[step_slot(r, from, byte)];
    if (known->row != NO_ROW)
        return known->to;
    row_begin(r);
    const uint32_t n = row_at(r, from)->n_scan;
    for (uint32_t i = 0; i < n && r->err->code == WEFT_OK; i++) {
        const item it = row_items(r, from)[i];
        const uint32_t state = dfa_step(&r->dfa, it.state, byte);
        if (state != DFA_DEAD)
            put_state(r, it.dot, origin_in(r, &it, from), state);
    }
    const uint32_t to = r->work.n > 0 ? row_end(r) : NO_ROW;
    if (r->err->code == WEFT_OK)
        keep_step(r, from, byte, to);
    return to;
}

uint32_t rows_end_lexemes(earley *r, uint32_t from, uint32_t state)
{
    row_begin(r);
    const uint32_t n = row_at(r, from)->n_scan;
    for (uint32_t i = 0; i < n && r->err->code == WEFT_OK; i++) {
        const item it = row_items(r, from)[i];
        if (it.state == state)
            put_dot(r, it.dot + 1, origin_in(r, &it, from));
    }
    return row_end(r);
}

uint32_t rows_token(earley *r, uint32_t from, uint32_t id, uint32_t by_bytes)
{
    const row_head at = *row_at(r, from);
    bool any = false;
    row_begin(r);
    for (uint32_t i = 0; i < at.n_token && r->err->code == WEFT_OK; i++) {
        const item it = row_items(r, from)[at.n_scan + i];
        const token_symbol *t = token_at(r->grammar, symbol_index(after_dot(r, it.dot)));
        if ((t->id == id) == t->negated)
            continue;
        any = true;
        put_dot(r, it.dot + 1, origin_in(r, &it, from));
    }
    if (!any)
        return by_bytes;
    if (by_bytes != NO_ROW) {
        const row_head b = *row_at(r, by_bytes);
        for (uint32_t i = 0; i < b.n_scan + b.n_token && r->err->code == WEFT_OK; i++)
            put_item(r, row_items(r, by_bytes)[i]);
        for (uint32_t i = 0; i < row_at(r, b.waits)->n_wait && r->err->code == WEFT_OK; i++)
            put_item(r, row_items(r, b.waits)[i]);
        r->accepts = b.accepts;
    }
    return row_end(r);
}

void rows_next_bytes(earley *r, uint32_t from, uint64_t bytes[4])
{
    memset(bytes, 0, 4 * sizeof *bytes);
    const uint32_t n = row_at(r, from)->n_scan;
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t *live = dfa_live(&r->dfa, row_items(r, from)[i].state);
        for (int k = 0; k < 4; k++)
            bytes[k] |= live[k];
    }
}

/* ---- forgetting ------------------------------------------------------------------------------ */

size_t rows_size(const earley *r)
{
    return (size_t)r->row.n * sizeof(row_head) + (size_t)r->item.n * sizeof(item) +
           (size_t)r->n_step * 2 * sizeof(step_entry);
}

/* What a row needs: its origins and those who wait in it. All are older than the row. */
static void mark_needed(const earley *r, uint32_t *map, uint32_t index)
{
    const row_head *h = row_at(r, index);
    const item *items = row_items(r, index);
    for (uint32_t k = 0; k < h->n_scan + h->n_token + h->n_wait; k++)
        if (items[k].origin != ORIGIN_SELF)
            map[items[k].origin] = 0;
    if (h->waits != NO_ROW)
        map[h->waits] = 0;
}

/* Moves a row down to the place `index`, with its items to `at`. */
static void move_row(earley *r, const uint32_t *map, uint32_t from, uint32_t index, uint32_t at)
{
    row_head moved = *row_at(r, from);
    item *items = r->item.room.data;
    for (uint32_t k = 0; k < moved.n_scan + moved.n_token + moved.n_wait; k++) {
        item it = items[moved.at + k];
        it.origin = it.origin == ORIGIN_SELF ? ORIGIN_SELF : map[it.origin];
        items[at + k] = it;
    }
    moved.at = at;
    moved.waits = moved.waits == NO_ROW ? NO_ROW : map[moved.waits];
    moved.hash = row_hash(&moved, items + at);
    ((row_head *)r->row.room.data)[index] = moved;
}

/* One pass back finds all that is needed, one pass forward moves it; new numbers are in the order of
 * the old, so items stay sorted. */
void rows_compact(earley *r, uint32_t *map, const bool *keep)
{
    uint32_t n = 0, n_item = 0;
    for (uint32_t i = 0; i < r->row.n; i++)
        map[i] = i == FIRST_ROW || keep[i] ? 0 : NO_ROW;
    for (uint32_t i = r->row.n; i-- > 0;)
        if (map[i] != NO_ROW)
            mark_needed(r, map, i);
    for (uint32_t i = 0; i < r->row.n; i++) {
        if (map[i] == NO_ROW)
            continue;
        const row_head h = *row_at(r, i);
        move_row(r, map, i, n, n_item);
        n_item += h.n_scan + h.n_token + h.n_wait;
        map[i] = n++;
    }
    r->row.n = n;
    r->item.n = n_item;
    for (uint32_t i = 0; i < r->n_slot; i++)
        r->slot[i] = NO_ROW;
    enter_slots(r);
    for (uint32_t i = 0; i < r->step_room; i++)
        r->step[i].row = NO_ROW;
    r->n_step = 0;
}
