/* encode.c - runs one text through all stages. */
#include "base/utf8.h"
#include "text/encoder.h"

#include <string.h>

/* ---- word cache ------------------------------------------------------------------------------ */

/* Words of up to 15 bytes and 4 ids, in pairs of slots that share a cache line: four for each
 * token, up to 2 MiB. Larger caches were slower, because they fall out of L2. */
#define CACHE_MOST  65536u
#define CACHE_LEAST 256u
#define CACHE_IDS   4
#define CACHE_WORD  15

struct cached {
    uint64_t key[2]; /* the bytes, with the length in the last one; all zero: free */
    uint32_t id[CACHE_IDS];
};

encoder *encoder_new(const tokenizer *t, mem *m, weft_error *err)
{
    encoder *e = mem_zalloc(m, 1, sizeof *e, "an encoder", err);
    if (!e)
        return NULL;
    e->t = t;
    e->mem = m;
    e->ids.mem = m;
    e->regex = regex_scratch_new(m, err);
    uint32_t slots = CACHE_LEAST;
    while (slots < CACHE_MOST && slots / 4 < t->vocab.n)
        slots *= 2;
    e->cache_mask = slots - 2;
    e->cache = e->regex ? mem_zalloc(m, slots, sizeof *e->cache, "an encoder's cache", err) : NULL;
    e->normalize.regex = e->regex;
    if (!e->cache) {
        encoder_free(e);
        return NULL;
    }
    return e;
}

void encoder_free(encoder *e)
{
    if (!e)
        return;
    mem *m = e->mem;
    regex_scratch_free(e->regex);
    normalize_scratch_free(&e->normalize, m);
    for (int i = 0; i < MAX_STEP; i++)
        writer_free(&e->writer[i], m);
    writer_free(&e->clean, m);
    bpe_scratch_free(&e->bpe, m);
    scratch_free(&e->unigram.nodes, m);
    scratch_free(&e->from, m);
    scratch_free(&e->to, m);
    scratch_free(&e->type, m);
    scratch_free(&e->due[0], m);
    scratch_free(&e->due[1], m);
    scratch_free(&e->cuts, m);
    ids_free(&e->ids);
    mem_free(m, e->cache);
    mem_free(m, e);
}

/* ---- the model ------------------------------------------------------------------------------- */

static bool model_word(encoder *e, const char *word, size_t n)
{
    const tokenizer *t = e->t;
    switch (t->kind) {
    case MODEL_BPE:
        return bpe_encode(&t->bpe, &e->bpe, word, n, &e->ids, e->err);
    case MODEL_UNIGRAM:
        return unigram_encode(&t->unigram, &e->unigram, word, n, &e->ids, e->err);
    case MODEL_WORDPIECE:
        return wordpiece_encode(&t->wordpiece, word, n, &e->ids, e->err);
    case MODEL_WORDLEVEL:
        return wordlevel_encode(&t->wordlevel, word, n, &e->ids, e->err);
    }
    return false;
}

/* The ids of a word, from the cache if possible; caches them otherwise. */
static bool cached_word(encoder *e, const char *word, size_t n)
{
    ids *out = &e->ids;
    uint64_t key[2];
    hash_key(word, n, key);
    const uint64_t h = hash_mix(key[0], key[1]);
    cached *line = &e->cache[h & e->cache_mask];
    if (!ids_reserve(out, CACHE_IDS, e->err))
        return false;
    for (int way = 0; way < 2; way++) {
        const cached *c = &line[way];
        if (c->key[0] != key[0] || c->key[1] != key[1])
            continue;
        uint32_t *id = out->id + out->n;
        memcpy(id, c->id, sizeof c->id);
        int count = 1;
        while (count < CACHE_IDS && c->id[count] != NO_ID)
            count++;
        out->n += (size_t)count;
        return true;
    }
    const size_t before = out->n;
    if (!model_word(e, word, n))
        return false;
    const size_t count = out->n - before;
    if (count == 0 || count > CACHE_IDS)
        return true;
    line[1] = line[0];
    line[0].key[0] = key[0];
    line[0].key[1] = key[1];
    for (size_t i = 0; i < CACHE_IDS; i++)
        line[0].id[i] = i < count ? out->id[before + i] : NO_ID;
    return true;
}

/* Notes where to cut a word whose ids, from `first` on, have tokens that the text may not spell:
 * after the first code point of each. False without memory, or if such a token has no second one. */
static bool note_cuts(encoder *e, const piece *p, size_t first)
{
    const uint32_t unknown = tokenizer_unknown(e->t);
    size_t at = 0;
    for (size_t i = first; i < e->ids.n; at = e->ids.end[i++]) {
        const size_t end = e->ids.end[i];
        if (end <= at || e->ids.id[i] == unknown ||
            !encoder_forges(e, e->ids.id[i], piece_from(p, at), piece_to(p, end - 1)))
            continue;
        uint32_t *cut = scratch_grow(&e->cuts, (e->n_cut + 1) * sizeof *cut, e->mem, e->err);
        uint32_t point;
        if (!cut)
            return false;
        cut[e->n_cut] = (uint32_t)(at + piece_point(p, at, &point));
        if (cut[e->n_cut++] >= end) {
            weft_fail(e->err, WEFT_EUNSUPPORTED,
                      "%s: the text spells token %u, which this tokenizer cannot avoid", e->t->path,
                      (unsigned)e->ids.id[i]);
            return false;
        }
    }
    return true;
}

/* What say_known makes of an id. */
static uint32_t known_id(const encoder *e, uint32_t id)
{
    return id < e->t->n_id ? id : tokenizer_unknown(e->t);
}

/* The tokens of a word, from id `first` on. */
static void show_pieces(const encoder *e, size_t first)
{
    size_t at = 0;
    for (size_t i = first; i < e->ids.n; at = e->ids.end[i++])
        steps_piece(e->ids.steps, known_id(e, e->ids.id[i]), at, e->ids.end[i], 0);
    steps_show(e->ids.steps, WEFT_STEP_PIECES);
}

#define CUT_DEPTH 4 /* parts of parts of a word */

/* A word with the span of each of its ids in the text; bypasses the cache. Depth counts the cuts
 * around it. */
static bool spanned_part(encoder *e, const piece *p, int depth)
{
    const size_t before = e->ids.n, n_cut = e->n_cut;
    if (e->ids.steps)
        steps_word(e->ids.steps, p);
    if (!model_word(e, p->s, p->n) || (e->ids.steps && e->ids.steps->failed) ||
        (e->trust && !note_cuts(e, p, before)))
        return false;
    if (e->n_cut > n_cut) {
        const size_t last = e->n_cut;
        size_t begin = 0;
        bool good = depth < CUT_DEPTH;
        if (!good)
            weft_fail(e->err, WEFT_EUNSUPPORTED,
                      "%s: the text spells special tokens in a way "
                      "that this tokenizer cannot avoid",
                      e->t->path);
        e->ids.n = before;
        for (size_t i = n_cut; i <= last && good; i++) {
            const size_t end = i < last ? ((const uint32_t *)e->cuts.data)[i] : p->n;
            const piece part = piece_cut(p, begin, end);
            good = begin == end || spanned_part(e, &part, depth + 1);
            begin = end;
        }
        e->n_cut = n_cut;
        return good;
    }
    if (e->ids.steps)
        show_pieces(e, before);
    size_t at = 0;
    for (size_t i = before; i < e->ids.n; i++) {
        const size_t end = e->ids.end[i];
        const bool some = end > at;
        const size_t first = some ? at : at < p->n ? at : p->n - 1;
        if (!encoder_put_span(e, piece_from(p, first),
                              some ? piece_to(p, end - 1) : piece_to(p, first)))
            return false;
        at = end;
    }
    return true;
}

static inline bool put_word(encoder *e, const piece *p)
{
    if (e->spans)
        return spanned_part(e, p, 0);
    if (p->n <= CACHE_WORD)
        return cached_word(e, p->s, p->n);
    return model_word(e, p->s, p->n);
}

/* The bytes [begin, end) of p become one token, whatever the model is. */
static bool put_one(encoder *e, uint32_t id, const piece *p, size_t begin, size_t end)
{
    if (!ids_reserve(&e->ids, 1, e->err))
        return false;
    ids_put(&e->ids, id, 0);
    if (e->ids.steps)
        steps_added(e->ids.steps, p, begin, end, known_id(e, id));
    return !e->spans || encoder_put_span(e, piece_from(p, begin), piece_to(p, end - 1));
}

/* The start of the next bar that follows another letter, or the end. */
static size_t next_cut(const char *s, size_t n, size_t at)
{
    bool other = false;
    for (; at < n; at++) {
        const bool bar = (uint8_t)s[at] == 0xE2 && n - at >= 3 && (uint8_t)s[at + 1] == 0x96 &&
                         (uint8_t)s[at + 2] == 0x81;
        if (bar && other)
            return at;
        other |= !bar;
        at += bar ? 2 : 0;
    }
    return n;
}

/* SentencePiece's user-defined pieces are never part of another piece, so the text is split at
 * them. */
static bool put_around_user(encoder *e, const piece *p, bool (*rest)(encoder *, const piece *))
{
    size_t begin = 0, at = 0;
    while (at < p->n) {
        uint32_t id = NO_ID;
        const size_t n = trie_longest(&e->t->user, 0, p->s + at, p->n - at, &id);
        if (n == 0 ||
            (e->trust && encoder_forges(e, id, piece_from(p, at), piece_to(p, at + n - 1)))) {
            at++;
            while (at < p->n && ((uint8_t)p->s[at] & 0xC0) == 0x80)
                at++;
            continue;
        }
        const piece before = piece_cut(p, begin, at);
        if (begin < at && !rest(e, &before))
            return false;
        if (!put_one(e, id, p, at, at + n))
            return false;
        begin = at += n;
    }
    const piece last = piece_cut(p, begin, p->n);
    return begin == p->n || rest(e, &last);
}

/* Cuts long texts that no splitter cuts, where no token can cross. */
static bool put_cut(encoder *e, const piece *p)
{
    for (size_t at = 0, end; at < p->n; at = end) {
        end = next_cut(p->s, p->n, at);
        const piece word = piece_cut(p, at, end);
        if (!put_word(e, &word))
            return false;
    }
    return true;
}

static bool emit(void *ud, const piece *p)
{
    encoder *e = ud;
    if (e->t->kind != MODEL_BPE)
        return put_word(e, p);
    if (e->t->has_user)
        return put_around_user(e, p, e->t->bpe.cut_at_bar ? put_cut : put_word);
    return e->t->bpe.cut_at_bar ? put_cut(e, p) : put_word(e, p);
}

/* ---- added tokens ---------------------------------------------------------------------------- */

static size_t spaces_before(const char *s, size_t floor, size_t at)
{
    while (at > floor) {
        size_t begin = at - 1;
        uint32_t point;
        while (begin > floor && ((uint8_t)s[begin] & 0xC0) == 0x80)
            begin--;
        if (utf8_decode(s + begin, at - begin, &point) != at - begin || !unicode_is_space(point))
            break;
        at = begin;
    }
    return at;
}

static size_t spaces_after(const char *s, size_t n, size_t at)
{
    for (size_t step; at < n; at += step) {
        uint32_t point;
        step = utf8_decode(s + at, n - at, &point);
        if (step == 0 || !unicode_is_space(point))
            break;
    }
    return at;
}

static bool word_before(const char *s, size_t at)
{
    size_t begin = at;
    uint32_t point;
    while (begin > 0 && ((uint8_t)s[--begin] & 0xC0) == 0x80) {}
    return begin < at && utf8_decode(s + begin, at - begin, &point) && unicode_is_word(point);
}

static bool word_after(const char *s, size_t n, size_t at)
{
    uint32_t point;
    return at < n && utf8_decode(s + at, n - at, &point) && unicode_is_word(point);
}

static bool counts(const encoder *e, const added *a, const piece *p, size_t at, size_t end)
{
    if ((a->special && !e->parse_special) || (a->first && at > 0))
        return false;
    if (encoder_forges(e, a->id, piece_from(p, at), piece_to(p, end - 1)))
        return false;
    return !a->single_word || (!word_before(p->s, at) && !word_after(p->s, p->n, end));
}

/* Cuts added tokens out of p and passes the text between them to `rest`. */
static bool around_added(encoder *e, const added_set *set, const piece *p,
                         bool (*rest)(encoder *, const piece *))
{
    size_t begin = 0, skipped = 0, at, length;
    uint32_t which;
    void *room = scratch_grow(&e->due[set == &e->t->folded], munch_room(&set->munch), e->mem,
                              e->err);
    if (!room)
        return false;
    munch_walk walk = munch_begin(&set->munch, p->s, p->n, room);
    while (set->n > 0 && munch_next(&walk, &at, &length, &which)) {
        const added *a = &e->t->added[which];
        at += skipped;
        const size_t end = at + length;
        if (!counts(e, a, p, at, end)) {
            /* Text that is partly untrusted must not hide a token in the trusted part. */
            if (encoder_straddles(e, a->id, piece_from(p, at), piece_to(p, end - 1))) {
                skipped = at + 1;
                walk = munch_begin(&set->munch, p->s + skipped, p->n - skipped, room);
            }
            continue;
        }
        const size_t first = a->left ? spaces_before(p->s, begin, at) : at;
        const size_t last = a->right ? spaces_after(p->s, p->n, end) : end;
        /* a token that begins with spaces can begin inside the spaces that the last one took */
        const piece before = piece_cut(p, begin, first < begin ? begin : first);
        if ((before.n > 0 && !rest(e, &before)) || !put_one(e, a->id, p, first, last))
            return false;
        begin = last;
    }
    const piece behind = piece_cut(p, begin, p->n);
    return behind.n == 0 || rest(e, &behind);
}

/* ---- stages ---------------------------------------------------------------------------------- */

static bool split_stage(encoder *e, const piece *p)
{
    return split_text(&e->run, p);
}

static bool normalize_stage(encoder *e, const piece *p)
{
    piece q = *p;
    if (!normalize(&e->t->normalizer, &e->normalize, &q, e->spans, e->mem, e->err))
        return false;
    if (e->ids.steps)
        steps_normalized(e->ids.steps, p, &q);
    return around_added(e, &e->t->folded, &q, split_stage);
}

static bool valid_stage(encoder *e, const piece *p)
{
    return p->n == 0 || around_added(e, &e->t->plain, p, normalize_stage);
}

/* How many bytes from `at` on are valid UTF-8. */
static size_t valid_run(const char *s, size_t n, size_t at)
{
    size_t i = at;
    while (i < n) {
        uint64_t x;
        if (n - i >= 8) {
            memcpy(&x, s + i, 8);
            if ((x & 0x8080808080808080u) == 0) {
                i += 8;
                continue;
            }
        }
        uint32_t point;
        const size_t step = utf8_decode(s + i, n - i, &point);
        if (step == 0)
            break;
        i += step;
    }
    return i - at;
}

/* Bytes that are not UTF-8 go to the model unchanged. */
static bool encode_bytes(encoder *e, const piece *p)
{
    for (size_t at = 0, end; at < p->n; at = end) {
        end = at + valid_run(p->s, p->n, at);
        const piece text = piece_cut(p, at, end);
        if (!valid_stage(e, &text))
            return false;
        const size_t bad = end;
        while (end < p->n && valid_run(p->s, p->n, end) == 0)
            end++;
        const piece rest = piece_cut(p, bad, end);
        if (bad < end && !put_word(e, &rest))
            return false;
    }
    return true;
}

static bool encode_replaced(encoder *e, const piece *p)
{
    writer *w = &e->clean;
    writer_begin(w, e->spans, WRITER_FREE, e->mem, e->err);
    for (size_t at = 0, end; at < p->n; at = end) {
        end = at + valid_run(p->s, p->n, at);
        writer_copy(w, p, at, end);
        for (; end < p->n && valid_run(p->s, p->n, end) == 0; end++)
            writer_replace(w, "\xEF\xBF\xBD", 3, p, end, end + 1);
    }
    const piece q = writer_piece(w);
    return !w->failed && valid_stage(e, &q);
}

/* Replaces pieces that are not tokens by the unknown token. */
static void say_known(encoder *e, size_t from)
{
    const tokenizer *t = e->t;
    const uint32_t unk = tokenizer_unknown(t);
    for (size_t i = from; i < e->ids.n; i++)
        if (e->ids.id[i] >= t->n_id)
            e->ids.id[i] = unk;
}

/* Sets how much the steps may write for a text, and how long they may search it. */
static void begin_text(encoder *e, size_t n)
{
    const tokenizer *t = e->t;
    growth_begin(&e->normalize.growth, t->normalizer.n, n, GROWTH_TIMES, GROWTH_MORE);
    growth_begin(&e->growth, t->splitters.n, n, GROWTH_TIMES, GROWTH_MORE);
    regex_begin(e->regex, n);
}

static bool encode_text(encoder *e, const char *text, size_t n)
{
    const piece p = { .s = text, .n = n };
    begin_text(e, n);
    const size_t before = e->ids.n;
    const bool good = valid_run(text, n, 0) == n ? valid_stage(e, &p)
                      : e->t->byte_level         ? encode_bytes(e, &p)
                                                 : encode_replaced(e, &p);
    if (good && e->t->n_silent > 0)
        say_known(e, before);
    return good && !(e->ids.steps && e->ids.steps->failed);
}

/* ---- encoding a text ------------------------------------------------------------------------ */

static void begin(encoder *e, const encode_options *o, weft_error *err)
{
    e->err = err;
    e->trust = o->trusted ? o : NULL;
    e->n_cut = 0;
    e->spans = o->spans || o->trusted || o->steps;
    e->parse_special = o->parse_special;
    e->ids.n = 0;
    e->ids.with_ends = e->spans;
    e->ids.steps = o->steps;
    e->n_span = 0;
    e->run = (split_run){ .steps = &e->t->splitters,
                          .regex = e->regex,
                          .writer = e->writer,
                          .growth = &e->growth,
                          .maps = e->spans,
                          .mem = e->mem,
                          .emit = emit,
                          .ud = e,
                          .err = err };
}

weft_status encoder_encode(encoder *e, const char *a, size_t a_length, const char *b,
                           size_t b_length, const encode_options *o, encoding *out, weft_error *err)
{
    weft_error local;
    err = err ? err : &local;
    if (a_length >= UINT32_MAX / 4 || b_length >= UINT32_MAX / 4)
        return weft_fail(err, WEFT_ELIMIT, "a text of %zu bytes; expected at most %u",
                         a_length > b_length ? a_length : b_length, UINT32_MAX / 4);
    begin(e, o, err);
    const template *m = b ? &e->t->pair : &e->t->single;
    if (b && m->n == 0)
        return weft_fail(err, WEFT_EUNSUPPORTED,
                         "%s: this tokenizer has no template for pairs of texts", e->t->path);
    if (!encode_text(e, a, a_length))
        return err->code;
    size_t n_a = e->ids.n, n_b = 0;
    if (o->steps)
        o->steps->next.type = 1;
    if (b && !encode_text(e, b, b_length))
        return err->code;
    n_b = e->ids.n - n_a;
    if (o->fit && e->t->fit.max_length) {
        const int extra = o->no_template ? 0 : template_count(m);
        if (e->t->fit.max_length < extra)
            return weft_fail(err, WEFT_EFORMAT,
                             "%s: cuts at %lld tokens, but its template alone has %d", e->t->path,
                             (long long)e->t->fit.max_length, extra);
        template_truncate(e, &n_a, &n_b, (size_t)(e->t->fit.max_length - extra));
    }
    if (!template_apply(e, m, n_a, n_b, !o->no_template) || (o->fit && !encoder_pad(e)))
        return err->code;
    *out = (encoding){ .n = e->ids.n, .id = e->ids.id };
    if (o->spans) {
        out->from = e->span_from;
        out->to = e->span_to;
    }
    if (template_has_types(m) || o->fit)
        out->type = e->type.data;
    return WEFT_OK;
}
