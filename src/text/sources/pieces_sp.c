/* pieces_sp.c - builds SentencePiece models from pieces, types and scores. */
#include "text/sources/source.h"

#include <math.h>
#include <string.h>

#define BAR "\xE2\x96\x81"

static bool is_text(uint8_t type)
{
    return type == PIECE_NORMAL || type == PIECE_USER || type == PIECE_UNUSED;
}

weft_status sp_vocab(tokenizer *t, uint64_t n, const uint8_t *type, piece_fn *text, void *ud,
                     weft_error *err)
{
    uint64_t bytes = 0;
    size_t length;
    for (uint32_t i = 0; i < n; i++) {
        text(ud, i, &length);
        bytes += length; /* bounded: by the file */
    }
    const weft_status status = vocab_init(&t->vocab, &t->store, n, bytes, err);
    t->special = status == WEFT_OK ? arena_alloc(&t->store, n, err) : NULL;
    if (!t->special)
        return status == WEFT_OK ? WEFT_ENOMEM : status;
    memset(t->special, 0, n);
    for (uint32_t i = 0; i < n; i++) {
        const char *s = text(ud, i, &length);
        const bool found = is_text(type[i]) && vocab_add(&t->vocab, i, s, length) == VOCAB_OK;
        if (!found && is_text(type[i]))
            return weft_fail(err, WEFT_EFORMAT, "%s: piece %u \"%.*s\" occurs twice", t->path, i,
                             (int)(length > 64 ? 64 : length), s);
        if (!found)
            vocab_name(&t->vocab, i, s, length); /* text never becomes such a token by itself */
        t->special[i] = type[i] == PIECE_CONTROL || type[i] == PIECE_UNKNOWN;
    }
    return check_tokens(t, err);
}

weft_status sp_added(tokenizer *t, const uint8_t *type, bool user, weft_error *err)
{
    size_t n = 0;
    for (uint32_t i = 0; i < t->vocab.n; i++)
        n += t->special[i] || (user && type[i] == PIECE_USER);
    t->added = arena_alloc(&t->store, n * sizeof *t->added, err); /* bounded: n pieces exist */
    if (!t->added)
        return WEFT_ENOMEM;
    for (uint32_t i = 0; i < t->vocab.n; i++)
        if ((t->special[i] || (user && type[i] == PIECE_USER)) && t->vocab.length[i] > 0)
            t->added[t->n_added++] = (added){ .content = vocab_text(&t->vocab, i),
                                              .length = t->vocab.length[i],
                                              .id = i,
                                              .special = t->special[i] };
    return WEFT_OK;
}

/* GGUF files spell user-defined pieces with plain spaces, but pieces are sought where spaces are
 * bars. The entry with bars; its text is NULL without memory. */
static trie_entry with_bars(tokenizer *t, const trie_entry *e, weft_error *err)
{
    size_t n = 0;
    char *text = arena_alloc(&t->store, 3 * (size_t)e->length + 1, err); /* bounded: TOKEN_MOST */
    for (size_t k = 0; text && k < e->length; k++) {
        if (e->text[k] == ' ')
            memcpy(text + n, BAR, 3);
        else
            text[n] = e->text[k];
        n += e->text[k] == ' ' ? 3 : 1;
    }
    return (trie_entry){ text, (uint32_t)n, e->value };
}

/* A trie of the user-defined pieces, or of all pieces that match text. */
static weft_status trie_of(tokenizer *t, const sp_spec *s, bool user, trie *to, weft_error *err)
{
    trie_entry *e = arena_alloc(&t->store, (size_t)t->vocab.n * sizeof *e, err);
    size_t n = 0;
    if (!e)
        return WEFT_ENOMEM;
    for (uint32_t i = 0; i < t->vocab.n; i++) {
        if (s->type[i] != PIECE_USER && (user || s->type[i] != PIECE_NORMAL))
            continue;
        e[n] = (trie_entry){ vocab_text(&t->vocab, i), t->vocab.length[i], i };
        if (s->escape && s->type[i] == PIECE_USER && memchr(e[n].text, ' ', e[n].length))
            e[n] = with_bars(t, &e[n], err);
        if (!e[n++].text)
            return WEFT_ENOMEM;
    }
    t->has_user |= user && n > 0;
    return pieces_trie(t, to, e, n, err);
}

static weft_status spellings(tokenizer *t, const sp_spec *s, uint32_t spell[256], weft_error *err)
{
    int found = 0;
    memset(spell, 0xFF, 256 * sizeof *spell);
    for (uint32_t i = 0; i < t->vocab.n; i++) {
        const int byte = s->type[i] == PIECE_BYTE
                             ? byte_of_spelling(vocab_text(&t->vocab, i), t->vocab.length[i])
                             : -1;
        if (byte >= 0) {
            found += spell[byte] == NO_ID;
            spell[byte] = i;
        }
    }
    if (s->fallback && found != 256)
        return weft_fail(err, WEFT_EFORMAT, "%s: falls back to bytes, but has pieces for %d of 256",
                         t->path, found);
    return WEFT_OK;
}

static weft_status make_unigram(tokenizer *t, const sp_spec *s, weft_error *err)
{
    unigram *m = &t->unigram;
    const size_t n = t->vocab.n;
    *m = (unigram){
        .unk = s->unk, .in_float = true, .fallback = s->fallback, .min_score = INFINITY
    };
    m->score = arena_alloc(&t->store, n * sizeof *m->score, err);
    m->user = arena_alloc(&t->store, n, err);
    if (!m->score || !m->user)
        return WEFT_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        m->score[i] = (double)s->score[i];
        m->user[i] = s->type[i] == PIECE_USER;
        if (s->type[i] == PIECE_NORMAL && m->score[i] < m->min_score)
            m->min_score = m->score[i];
    }
    t->kind = MODEL_UNIGRAM;
    weft_status status = spellings(t, s, m->spell, err);
    return status == WEFT_OK ? trie_of(t, s, false, &m->trie, err) : status;
}

static weft_status make_bpe(tokenizer *t, const sp_spec *s, weft_error *err)
{
    bpe_cuts cuts = { .mem = &t->host->mem };
    const vocab *v = &t->vocab;
    uint32_t spell[256];
    weft_status status = spellings(t, s, spell, err);
    if (status == WEFT_OK)
        status = vocab_init(&cuts.extra, &t->store, v->used < 65536 ? v->used : 65536,
                            v->used < 262144 ? v->used : 262144, err);
    for (uint32_t i = 0; i < v->n && status == WEFT_OK; i++) {
        if (s->type[i] == PIECE_UNUSED)
            status = weft_fail(err, WEFT_EUNSUPPORTED,
                               "%s: piece %u is marked unused, which BPE models do not support",
                               t->path, i);
        else if (s->type[i] == PIECE_NORMAL || s->type[i] == PIECE_USER)
            status = bpe_cut(&cuts, v, i, bpe_rank_of_score(s->score[i]), true, err);
    }
    if (status == WEFT_OK)
        status = bpe_from_cuts(&t->bpe, &cuts, v, &t->store, err);
    scratch_free(&cuts.pairs, cuts.mem);
    if (status != WEFT_OK)
        return status;
    t->kind = MODEL_BPE;
    t->bpe.unk = s->unk;
    t->bpe.piece_unk = true;
    t->bpe.fallback = s->fallback;
    memcpy(t->bpe.spell, spell, sizeof spell);
    bpe_finish(&t->bpe);
    return WEFT_OK;
}

static weft_status make_steps(tokenizer *t, const sp_spec *s, weft_error *err)
{
    normalizer_step z = { .kind = NORM_SENTENCEPIECE,
                          .prefix = s->prefix,
                          .suffix = s->suffix,
                          .squeeze = s->squeeze,
                          .escape = s->escape };
    weft_status status = WEFT_OK;
    if (s->map && s->map_size > 0) {
        status = charsmap_init(&t->map, &t->store, s->map, s->map_size, err);
        z.map = &t->map;
    }
    if (status == WEFT_OK)
        status = trie_of(t, s, true, &t->user, err);
    if (t->has_user)
        z.user = &t->user;
    if (status == WEFT_OK)
        status = add_normalizer(t, &z, err);
    const decoder_step bar = {
        .kind = DECODE_REPLACE, .text = BAR, .text_length = 3, .content = " ", .content_length = 1
    };
    if (status == WEFT_OK && s->escape)
        status = add_decoder(t, &bar, err);
    if (status == WEFT_OK)
        status = add_decoder(t, &(decoder_step){ .kind = DECODE_BYTE_FALLBACK }, err);
    t->decoder.strip_start = s->prefix;
    t->decoder.strip_point = ' ';
    return status;
}

weft_status sp_model(tokenizer *t, const sp_spec *s, weft_error *err)
{
    for (uint32_t i = 0; i < t->vocab.n; i++)
        if (!isfinite(s->score[i]))
            return weft_fail(err, WEFT_EFORMAT, "%s: the score of piece %u is not finite", t->path,
                             i);
    t->type = s->type;
    t->score = s->score;
    weft_status status = make_steps(t, s, err);
    if (status == WEFT_OK)
        status = s->unigram ? make_unigram(t, s, err) : make_bpe(t, s, err);
    if (status == WEFT_OK)
        status = sp_added(t, s->type, false, err);
    return status;
}
