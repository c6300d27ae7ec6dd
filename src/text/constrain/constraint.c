/* constraint.c - texts under one grammar and its lock; see constraint.h. */
#include "text/constrain/constraint.h"

#include "text/constrain/matcher.h"

#include <pthread.h>
#include <string.h>

#define ROWS_SOFT ((size_t)12 << 20) /* rows beyond this are forgotten if no text needs them */
#define ROWS_HARD ((size_t)24 << 20)

struct constraint_set {
    mem *mem;
    pthread_mutex_t lock;
    matcher matcher;
    uint64_t *bits; /* [words] */
    constraint *first;
    size_t tidy_at; /* bytes of rows */
};

#define ENDED (NO_ROW - 1) /* instead of a row: a token ended the text */

struct constraint {
    constraint_set *set;
    constraint *next, *before;
    scratch room;
    uint32_t *row; /* [n + 1] in `room`: before the first token, and after each */
    uint32_t n;
};

/* ---- the set --------------------------------------------------------------------------------- */

constraint_set *constraint_set_new(mem *m, grammar *g, const token_trie *tokens,
                                   const int32_t *ends, int n_end, weft_error *err)
{
    constraint_set *s = mem_zalloc(m, 1, sizeof *s, "a constraint", err);
    if (!s) {
        grammar_free(g);
        return NULL;
    }
    s->mem = m;
    s->tidy_at = ROWS_SOFT;
    if (matcher_init(&s->matcher, g, tokens, ends, n_end, m, err) != WEFT_OK)
        goto fail;
    s->bits = mem_zalloc(m, s->matcher.words, sizeof *s->bits, "a constraint", err);
    if (!s->bits)
        goto fail_bits;
    if (pthread_mutex_init(&s->lock, NULL) == 0)
        return s;
    weft_fail(err, WEFT_ESYSTEM, "the system refused a lock");
    mem_free(m, s->bits);
fail_bits:
    matcher_free(&s->matcher);
fail:
    mem_free(m, s);
    return NULL;
}

void constraint_set_free(constraint_set *s)
{
    if (!s)
        return;
    pthread_mutex_destroy(&s->lock);
    matcher_free(&s->matcher);
    mem_free(s->mem, s->bits);
    mem_free(s->mem, s);
}

int64_t constraint_ids(const constraint_set *s)
{
    return s->matcher.trie->n_id;
}

static matcher *enter(constraint_set *s, weft_error *err)
{
    pthread_mutex_lock(&s->lock);
    rows_begin(&s->matcher.rows, err);
    return &s->matcher;
}

static void leave(constraint_set *s)
{
    pthread_mutex_unlock(&s->lock);
}

/* Forgets rows that no text needs, once there are many. Called with the lock held. */
static weft_status tidy(constraint_set *s, weft_error *err)
{
    earley *r = &s->matcher.rows;
    if (rows_size(r) <= s->tidy_at)
        return WEFT_OK;
    const size_t n = r->row.n;
    uint32_t *map = mem_zalloc(s->mem, n, sizeof *map, "rows of a grammar", err);
    bool *keep = mem_zalloc(s->mem, n, sizeof *keep, "rows of a grammar", err);
    for (const constraint *c = s->first; c && map && keep; c = c->next)
        for (uint32_t i = 0; i <= c->n; i++)
            if (c->row[i] != ENDED)
                keep[c->row[i]] = true;
    if (map && keep) {
        rows_compact(r, map, keep);
        matcher_forget(&s->matcher);
        for (constraint *c = s->first; c; c = c->next)
            for (uint32_t i = 0; i <= c->n; i++)
                c->row[i] = c->row[i] == ENDED ? ENDED : map[c->row[i]];
        s->tidy_at = rows_size(r) < ROWS_SOFT / 2 ? ROWS_SOFT : 2 * rows_size(r);
        if (rows_size(r) > ROWS_HARD)
            weft_fail(
                err, WEFT_ELIMIT,
                "texts under this grammar need %zu bytes; expected at most %zu: use fewer at a "
                "time, or repetition instead of right recursion",
                rows_size(r), ROWS_HARD);
    }
    mem_free(s->mem, map);
    mem_free(s->mem, keep);
    return err->code;
}

/* ---- life of a text -------------------------------------------------------------------------- */

/* Room for one more token. With the lock held, once others can see it: tidy reads all rows. */
static bool reserve(constraint *c, weft_error *err)
{
    const size_t need = ((size_t)c->n + 2) * sizeof *c->row;
    if (c->room.room < need && !scratch_grow(&c->room, 2 * need, c->set->mem, err))
        return false;
    c->row = c->room.data;
    return true;
}

static constraint *make(constraint_set *s, uint32_t n, weft_error *err)
{
    constraint *c = mem_zalloc(s->mem, 1, sizeof *c, "a constraint", err);
    if (!c)
        return NULL;
    *c = (constraint){ .set = s, .n = n };
    if (reserve(c, err))
        return c;
    mem_free(s->mem, c);
    return NULL;
}

/* Adds it to the list of texts, so that its rows are kept. With the lock held. */
static void enlist(constraint *c)
{
    c->next = c->set->first;
    if (c->next)
        c->next->before = c;
    c->set->first = c;
}

constraint *constraint_new(constraint_set *s, weft_error *err)
{
    constraint *c = make(s, 0, err);
    if (!c)
        return NULL;
    c->row[0] = FIRST_ROW;
    pthread_mutex_lock(&s->lock);
    enlist(c);
    pthread_mutex_unlock(&s->lock);
    return c;
}

constraint *constraint_clone(const constraint *c, weft_error *err)
{
    constraint *copy = make(c->set, c->n, err);
    if (!copy)
        return NULL;
    pthread_mutex_lock(&c->set->lock);
    memcpy(copy->row, c->row, ((size_t)c->n + 1) * sizeof *c->row);
    enlist(copy);
    pthread_mutex_unlock(&c->set->lock);
    return copy;
}

void constraint_free(constraint *c)
{
    if (!c)
        return;
    constraint_set *s = c->set;
    pthread_mutex_lock(&s->lock);
    if (c->before)
        c->before->next = c->next;
    else
        s->first = c->next;
    if (c->next)
        c->next->before = c->before;
    pthread_mutex_unlock(&s->lock);
    scratch_free(&c->room, s->mem);
    mem_free(s->mem, c);
}

/* ---- tokens ---------------------------------------------------------------------------------- */

/* The row after a token, ENDED, or NO_ROW. With the lock held. */
static uint32_t after(matcher *m, uint32_t row, int32_t id)
{
    if (row == ENDED || id < 0 || (uint32_t)id >= m->trie->n_id)
        return NO_ROW;
    if (matcher_ends(m, (uint32_t)id))
        return row_at(&m->rows, row)->accepts ? ENDED : NO_ROW;
    return matcher_token(m, row, (uint32_t)id);
}

bool constraint_allows(constraint *c, int32_t id, weft_error *err)
{
    matcher *m = enter(c->set, err);
    const bool yes = tidy(c->set, err) == WEFT_OK && after(m, c->row[c->n], id) != NO_ROW;
    leave(c->set);
    return yes;
}

weft_status constraint_accept(constraint *c, int32_t id, weft_error *err)
{
    matcher *m = enter(c->set, err);
    const bool ready = reserve(c, err) && tidy(c->set, err) == WEFT_OK;
    const uint32_t to = ready ? after(m, c->row[c->n], id) : NO_ROW;
    if (to != NO_ROW)
        c->row[++c->n] = to;
    else if (err->code == WEFT_OK)
        weft_fail(err, WEFT_EINVAL, "token %d is not allowed after %u tokens of this constraint",
                  (int)id, (unsigned)c->n);
    leave(c->set);
    return err->code;
}

weft_status constraint_mask(constraint *c, uint64_t *bits, int64_t n, weft_error *err)
{
    const size_t words = ((size_t)n + 63) / 64, most = c->set->matcher.words;
    matcher *m = enter(c->set, err);
    memset(bits, 0, words * sizeof *bits);
    if (tidy(c->set, err) == WEFT_OK && c->row[c->n] != ENDED &&
        matcher_mask(m, c->row[c->n], c->set->bits) == WEFT_OK) {
        memcpy(bits, c->set->bits, (words < most ? words : most) * sizeof *bits);
        if (n % 64 != 0)
            bits[words - 1] &= ((uint64_t)1 << n % 64) - 1;
    }
    leave(c->set);
    return err->code;
}

int64_t constraint_length(const constraint *c)
{
    return c->n;
}

void constraint_rewind(constraint *c, int64_t n)
{
    if (n >= 0 && n < c->n) {
        pthread_mutex_lock(&c->set->lock);
        c->n = (uint32_t)n;
        pthread_mutex_unlock(&c->set->lock);
    }
}

/* ---- what is certain ------------------------------------------------------------------------- */

/* The only byte that can follow a row, or -1. */
static int only_byte(matcher *m, uint32_t row)
{
    const row_head at = *row_at(&m->rows, row);
    uint64_t bytes[4];
    if (at.accepts || at.n_token > 0)
        return -1;
    rows_next_bytes(&m->rows, row, bytes);
    int byte = -1;
    for (int k = 0; k < 4; k++)
        if (bytes[k] != 0) {
            if (byte >= 0 || (bytes[k] & (bytes[k] - 1)) != 0)
                return -1;
            byte = 64 * k + __builtin_ctzll(bytes[k]);
        }
    return byte;
}

size_t constraint_forced(constraint *c, char *bytes, size_t size, weft_error *err)
{
    matcher *m = enter(c->set, err);
    uint32_t row = tidy(c->set, err) == WEFT_OK ? c->row[c->n] : ENDED;
    size_t n = 0;
    while (n < size && row != ENDED && row != NO_ROW) {
        const int byte = only_byte(m, row);
        row = byte >= 0 ? rows_step(&m->rows, row, (uint8_t)byte) : NO_ROW;
        if (row != NO_ROW)
            bytes[n++] = (char)byte;
    }
    leave(c->set);
    return err->code == WEFT_OK ? n : 0;
}

bool constraint_may_end(const constraint *c)
{
    pthread_mutex_lock(&c->set->lock);
    const uint32_t row = c->row[c->n];
    const bool yes = row == ENDED || row_at(&c->set->matcher.rows, row)->accepts;
    pthread_mutex_unlock(&c->set->lock);
    return yes;
}

bool constraint_done(const constraint *c)
{
    pthread_mutex_lock(&c->set->lock);
    bool done = c->row[c->n] == ENDED;
    if (!done) {
        const row_head *at = row_at(&c->set->matcher.rows, c->row[c->n]);
        done = at->accepts && at->n_scan == 0 && at->n_token == 0;
    }
    pthread_mutex_unlock(&c->set->lock);
    return done;
}
