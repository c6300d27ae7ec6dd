/* bpe.c - merges with a heap of candidate pairs over a linked list of symbols: O(n log n) for a
 * word of n bytes. Words of at most SHORT bytes, nearly all of them, are scanned instead, which is
 * faster. */
#include "text/bpe.h"

#include "base/utf8.h"
#include "text/steps.h"

#include <assert.h>

#define SHORT 32 /* symbols up to which a scan for the lowest rank beats a heap; measured */

/* ---- the table ------------------------------------------------------------------------------- */

weft_status bpe_init(bpe *m, const vocab *v, arena *store, uint64_t n, weft_error *err)
{
    *m = (bpe){ .vocab = v, .unk = NO_ID, .secret = hash_secret_draw() };
    if (n > VOCAB_MAX * 4)
        return weft_fail(err, WEFT_EFORMAT, "%llu merges; expected at most %llu",
                         (unsigned long long)n, (unsigned long long)VOCAB_MAX * 4);
    const uint64_t size = hash_size(n);
    m->pair = arena_alloc(store, size * sizeof *m->pair, err); /* bounded: n, above */
    if (!m->pair)
        return WEFT_ENOMEM;
    memset(m->pair, 0xFF, size * sizeof *m->pair);
    m->mask = size - 1;
    memset(m->byte, 0xFF, sizeof m->byte);
    memset(m->spell, 0xFF, sizeof m->spell);
    return WEFT_OK;
}

static inline const pair *find(const bpe *m, uint32_t left, uint32_t right)
{
    uint64_t i = hash_number(&m->secret, (uint64_t)left << 32 | right) & m->mask;
    while (m->pair[i].id != NO_ID && (m->pair[i].left != left || m->pair[i].right != right))
        i = (i + 1) & m->mask;
    return &m->pair[i];
}

void bpe_add(bpe *m, uint32_t left, uint32_t right, uint32_t rank, uint32_t id, bool last)
{
    pair *p = (pair *)find(m, left, right);
    if (p->id != NO_ID && !last)
        return;
    m->n_pair += p->id == NO_ID;
    *p = (pair){ left, right, rank, id };
}

uint32_t bpe_rank_of_score(float score)
{
    uint32_t bits;
    score += 0.0f; /* makes -0 and +0 equal */
    memcpy(&bits, &score, sizeof bits);
    const uint32_t rising = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return ~rising;
}

/* ---- tables from ranks and scores ------------------------------------------------------------ */

/* The symbol that text is: a token, or a character that is part of tokens only. */
static uint32_t symbol_of(bpe_cuts *c, const vocab *v, const char *text, size_t n, bool characters)
{
    const uint32_t id = vocab_find(v, text, n);
    if (id != NO_ID || !characters)
        return id;
    uint32_t point;
    if (utf8_decode(text, n, &point) != n)
        return NO_ID;
    const uint32_t known = vocab_find(&c->extra, text, n);
    if (known != NO_ID)
        return v->n + known;
    if (c->extra.count == c->extra.n || n > c->extra.room - c->extra.used)
        return NO_ID;
    const uint32_t fresh = c->extra.count;
    vocab_add(&c->extra, fresh, text, n);
    return v->n + fresh;
}

weft_status bpe_cut(bpe_cuts *c, const vocab *v, uint32_t id, uint32_t rank, bool characters,
                    weft_error *err)
{
    const char *text = vocab_text(v, id);
    const size_t n = v->length[id];
    for (size_t cut = 1; cut < n; cut++) {
        if (characters && ((uint8_t)text[cut] & 0xC0) == 0x80)
            continue;
        const uint32_t left = symbol_of(c, v, text, cut, characters);
        const uint32_t right = left == NO_ID ? NO_ID
                                             : symbol_of(c, v, text + cut, n - cut, characters);
        if (right == NO_ID)
            continue;
        pair *p = scratch_grow(&c->pairs, (c->n + 1) * sizeof *p, c->mem, err);
        if (!p)
            return WEFT_ENOMEM;
        p[c->n++] = (pair){ left, right, rank, id };
    }
    return WEFT_OK;
}

weft_status bpe_from_cuts(bpe *m, bpe_cuts *c, const vocab *v, arena *store, weft_error *err)
{
    const weft_status status = bpe_init(m, v, store, c->n, err);
    const pair *p = c->pairs.data;
    m->extra = c->extra;
    for (size_t i = 0; status == WEFT_OK && i < c->n; i++)
        bpe_add(m, p[i].left, p[i].right, p[i].rank, p[i].id, false);
    return status;
}

/* ---- lookup tables --------------------------------------------------------------------------- */

/* Does U+2581 follow another letter? */
static bool bar_inside(const char *text, size_t n)
{
    bool other = false;
    for (size_t i = 0; i < n; i++) {
        const bool bar = n - i >= 3 && memcmp(text + i, "\xE2\x96\x81", 3) == 0;
        if (bar && other)
            return true;
        other |= !bar;
        i += bar ? 2 : 0;
    }
    return false;
}

void bpe_finish(bpe *m)
{
    if (!m->bytes && !m->prefix && !m->suffix)
        for (int b = 0; b < 128; b++)
            m->byte[b] = vocab_find(m->vocab, &(char){ (char)b }, 1);
    m->cut_at_bar = !m->bytes && !m->prefix && !m->suffix && !m->whole_words &&
                    vocab_find(m->vocab, "\xE2\x96\x81", 3) != NO_ID;
    for (uint64_t i = 0; i <= m->mask && m->cut_at_bar; i++) {
        const uint32_t id = m->pair[i].id;
        if (id != NO_ID)
            m->cut_at_bar = !bar_inside(vocab_text(m->vocab, id), m->vocab->length[id]);
    }
}

/* ---- the symbols of a word ------------------------------------------------------------------- */

/* A list in arrays: symbol i stands for the bytes from at[i] to the next one's. */
typedef struct symbols {
    uint32_t *id, *at, *rank, *to, *prev, *next;
    size_t n;
    size_t end;        /* bytes of the word */
    step_watch *steps; /* who watches, or NULL */
} symbols;

static inline void put(symbols *s, uint32_t id, size_t at)
{
    s->id[s->n] = id;
    s->at[s->n] = (uint32_t)at;
    s->n++;
}

static uint32_t find_character(const bpe *m, const char *c, size_t n, bool first, bool last)
{
    const bool prefix = m->prefix && !first, suffix = m->suffix && last;
    if (!prefix && !suffix)
        return n == 1 && (uint8_t)*c < 128 && !m->prefix && !m->suffix ? m->byte[(uint8_t)*c]
                                                                       : vocab_find(m->vocab, c, n);
    char text[2 * BPE_AFFIX + 4];
    size_t at = 0;
    if (prefix)
        memcpy(text, m->prefix, at = m->prefix_length);
    memcpy(text + at, c, n);
    at += n;
    if (suffix) {
        memcpy(text + at, m->suffix, m->suffix_length);
        at += m->suffix_length;
    }
    return vocab_find(m->vocab, text, at);
}

/* The byte tokens of an unknown character and of its prefix or suffix, if all of them have an
 * id. */
static bool put_bytes(const bpe *m, symbols *s, const char *c, size_t n, size_t at)
{
    for (size_t i = 0; i < n; i++)
        if (m->spell[(uint8_t)c[i]] == NO_ID)
            return false;
    for (size_t i = 0; i < n; i++)
        put(s, m->spell[(uint8_t)c[i]], at + i);
    return true;
}

/* As in Hugging Face: a run of unknown characters is written when a known one follows, fused or one
 * by one. A character that falls back to bytes does not count as known. */
static void split_characters(const bpe *m, const char *word, size_t n, symbols *s)
{
    bool unk = false;
    size_t unk_at = 0;
    for (size_t at = 0, step; at < n; at += step) {
        uint32_t point;
        step = utf8_decode(word + at, n - at, &point);
        step = step ? step : 1;
        uint32_t id = find_character(m, word + at, step, at == 0, at + step == n);
        if (id == NO_ID && m->extra.count) {
            const uint32_t part = vocab_find(&m->extra, word + at, step);
            id = part == NO_ID ? NO_ID : m->vocab->n + part;
        }
        if (id != NO_ID || m->piece_unk) {
            if (unk)
                put(s, m->unk, unk_at);
            unk = false;
            put(s, id, at);
        } else if (m->fallback && put_bytes(m, s, word + at, step, at)) {
            continue;
        } else if (m->unk != NO_ID) {
            if (unk && !m->fuse_unk)
                put(s, m->unk, unk_at);
            if (!unk || !m->fuse_unk)
                unk_at = at;
            unk = true;
        }
    }
    if (unk)
        put(s, m->unk, unk_at);
}

static void split_bytes(const bpe *m, const char *word, size_t n, symbols *s)
{
    for (size_t i = 0; i < n; i++) {
        const uint32_t id = m->byte[(uint8_t)word[i]];
        if (id != NO_ID)
            put(s, id, i);
        else if (m->unk != NO_ID)
            put(s, m->unk, i);
    }
}

static void split(const bpe *m, const char *word, size_t n, symbols *s)
{
    s->n = 0;
    if (m->bytes)
        split_bytes(m, word, n, s);
    else
        split_characters(m, word, n, s);
}

/* ---- for those who watch --------------------------------------------------------------------- */

#define SHOWN_MOST 512 /* symbols of a word that is shown after every merge: n^2 pieces in all */

/* Where symbol i ends, and the one after it, or n. */
static size_t end_of(const symbols *s, size_t i, size_t *after)
{
    *after = !s->next ? i + 1 : s->next[i] == NO_ID ? s->n : s->next[i];
    return *after < s->n ? s->at[*after] : s->end;
}

static void show_symbols(const symbols *s, weft_step_kind kind)
{
    if (!s->steps)
        return;
    const bool all = kind == WEFT_STEP_SYMBOLS || s->n <= SHOWN_MOST;
    for (size_t i = 0, after; all && i < s->n; i = after) {
        const size_t end = end_of(s, i, &after);
        steps_piece(s->steps, s->id[i], s->at[i], end, 0);
    }
    steps_show(s->steps, kind);
}

/* Call before the pair at i is merged. */
static void show_pair(const symbols *s, size_t i)
{
    size_t right, after;
    const size_t middle = end_of(s, i, &right), end = end_of(s, right, &after);
    steps_pair(s->steps, (const uint32_t[]){ s->id[i], s->id[right] },
               (const uint32_t[]){ s->at[i], (uint32_t)middle, (uint32_t)end }, s->rank[i],
               s->to[i]);
}

/* ---- merging --------------------------------------------------------------------------------- */

static inline void rate(const bpe *m, symbols *s, size_t i, size_t next)
{
    const pair *p = s->id[i] == NO_ID || s->id[next] == NO_ID ? NULL
                                                              : find(m, s->id[i], s->id[next]);
    s->rank[i] = p && p->id != NO_ID ? p->rank : NO_ID;
    s->to[i] = p ? p->id : NO_ID;
}

/* Short words: scan for the lowest rank, then close the gap. */
static void merge_short(const bpe *m, symbols *s)
{
    for (size_t i = 0; i + 1 < s->n; i++)
        rate(m, s, i, i + 1);
    show_symbols(s, WEFT_STEP_SYMBOLS);
    while (s->n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < s->n; i++)
            best = s->rank[i] < s->rank[best] ? i : best;
        if (s->rank[best] == NO_ID)
            return;
        if (s->steps)
            show_pair(s, best);
        s->id[best] = s->to[best];
        s->n--;
        for (size_t i = best + 1; i < s->n; i++) {
            s->id[i] = s->id[i + 1];
            s->at[i] = s->at[i + 1];
            s->rank[i] = s->rank[i + 1];
            s->to[i] = s->to[i + 1];
        }
        show_symbols(s, WEFT_STEP_MERGE);
        if (best + 1 < s->n)
            rate(m, s, best, best + 1);
        if (best > 0)
            rate(m, s, best - 1, best);
    }
}

/* A binary heap of (rank, place) packed into one number. An entry is stale when its place no longer
 * has that rank: the text that starts at a place only ever grows, so the same rank there means the
 * same pair. */
typedef struct heap {
    uint64_t *entry;
    size_t n;
} heap;

static void heap_push(heap *h, uint64_t x)
{
    size_t i = h->n++;
    for (; i > 0 && h->entry[(i - 1) / 2] > x; i = (i - 1) / 2)
        h->entry[i] = h->entry[(i - 1) / 2];
    h->entry[i] = x;
}

static uint64_t heap_pop(heap *h)
{
    const uint64_t top = h->entry[0], x = h->entry[--h->n];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < h->n; i = child) {
        child += child + 1 < h->n && h->entry[child + 1] < h->entry[child];
        if (h->entry[child] >= x)
            break;
        h->entry[i] = h->entry[child];
    }
    h->entry[i] = x;
    return top;
}

static void rate_and_push(const bpe *m, symbols *s, heap *h, uint32_t i)
{
    s->rank[i] = NO_ID;
    if (s->next[i] == NO_ID)
        return;
    rate(m, s, i, s->next[i]);
    if (s->rank[i] != NO_ID)
        heap_push(h, (uint64_t)s->rank[i] << 32 | i);
}

/* Each merge pops one entry and pushes at most two, so twice the symbols is enough room. */
static void merge_long(const bpe *m, symbols *s, heap *h)
{
    h->n = 0;
    for (size_t i = 0; i < s->n; i++) {
        s->prev[i] = i ? (uint32_t)(i - 1) : NO_ID;
        s->next[i] = i + 1 < s->n ? (uint32_t)(i + 1) : NO_ID;
    }
    for (size_t i = 0; i < s->n; i++)
        rate_and_push(m, s, h, (uint32_t)i);
    show_symbols(s, WEFT_STEP_SYMBOLS);
    while (h->n > 0) {
        const uint64_t top = heap_pop(h);
        const uint32_t i = (uint32_t)top;
        if (s->rank[i] != top >> 32)
            continue;
        if (s->steps)
            show_pair(s, i);
        const uint32_t gone = s->next[i];
        s->id[i] = s->to[i];
        s->next[i] = s->next[gone];
        s->rank[gone] = NO_ID;
        if (s->next[i] != NO_ID)
            s->prev[s->next[i]] = i;
        show_symbols(s, WEFT_STEP_MERGE);
        rate_and_push(m, s, h, i);
        if (s->prev[i] != NO_ID)
            rate_and_push(m, s, h, s->prev[i]);
    }
    size_t n = 0;
    for (uint32_t i = 0; i != NO_ID && s->n > 0; i = s->next[i], n++) {
        s->id[n] = s->id[i];
        s->at[n] = s->at[i];
    }
    s->n = n;
}

/* ---- words ----------------------------------------------------------------------------------- */

/* SentencePiece: a symbol that is not a piece becomes its bytes, or unk. A run of unks, which began
 * at `run`, becomes one. */
static void put_unknown(const bpe *m, const char *word, size_t at, size_t end, size_t run, ids *out)
{
    const uint32_t id = vocab_find_or(m->names, word + run, end - run, m->unk);
    if (m->fallback) {
        for (; at < end; at++)
            ids_put(out, m->spell[(uint8_t)word[at]], at + 1);
    } else if (run < at) {
        out->id[out->n - 1] = id;
        if (out->with_ends)
            out->end[out->n - 1] = (uint32_t)end;
    } else if (id != NO_ID) {
        ids_put(out, id, end);
    }
}

static bool put_ids(const bpe *m, const symbols *s, const char *word, size_t n, ids *out,
                    weft_error *err)
{
    if (!ids_reserve(out, m->piece_unk ? n : s->n, err))
        return false;
    bool unknown = false;
    size_t run = 0; /* where the run of unknowns began */
    for (size_t i = 0; i < s->n; i++) {
        const size_t end = i + 1 < s->n ? s->at[i + 1] : n;
        if (!m->piece_unk || s->id[i] < m->vocab->n) {
            ids_put(out, s->id[i], end);
            unknown = false;
        } else {
            run = unknown ? run : s->at[i];
            put_unknown(m, word, s->at[i], end, run, out);
            unknown = m->unk != NO_ID;
        }
    }
    return true;
}

static bool encode_long(const bpe *m, bpe_scratch *k, const char *word, size_t n, ids *out,
                        weft_error *err)
{
    if (n >= UINT32_MAX / 8) {
        weft_fail(err, WEFT_ELIMIT, "a word of %zu bytes is too long", n);
        return false;
    }
    uint32_t *room = scratch_grow(&k->symbols, 6 * n * sizeof *room, out->mem, err);
    uint64_t *entry = room ? scratch_grow(&k->heap, 2 * n * sizeof *entry, out->mem, err) : NULL;
    if (!entry)
        return false;
    symbols s = { room, room + n, room + 2 * n, room + 3 * n, room + 4 * n, room + 5 * n,
                  0,    n,        out->steps };
    split(m, word, n, &s);
    merge_long(m, &s, &(heap){ entry, 0 });
    return put_ids(m, &s, word, n, out, err);
}

bool bpe_encode(const bpe *m, bpe_scratch *k, const char *word, size_t n, ids *out, weft_error *err)
{
    if (m->whole_words) {
        const uint32_t id = vocab_find(m->vocab, word, n);
        if (id != NO_ID) {
            if (!ids_reserve(out, 1, err))
                return false;
            ids_put(out, id, n);
            return true;
        }
    }
    if (n > SHORT)
        return encode_long(m, k, word, n, out, err);
    uint32_t id[SHORT], at[SHORT], rank[SHORT], to[SHORT];
    symbols s = { id, at, rank, to, NULL, NULL, 0, n, out->steps };
    split(m, word, n, &s);
    merge_short(m, &s);
    return put_ids(m, &s, word, n, out, err);
}

void bpe_scratch_free(bpe_scratch *s, mem *m)
{
    scratch_free(&s->symbols, m);
    scratch_free(&s->heap, m);
}
