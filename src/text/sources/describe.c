/* describe.c - writes a tokenizer as GGUF keys, or reports the part that GGUF has no key for.
 *
 *     gpt2     byte level; its patterns must have a name (pre.c)
 *     llama    SentencePiece BPE: scores; merges are written as scores if that is exact
 *     gemma4   BPE over letters whose merges cannot be written as scores
 *     t5       unigram
 *     bert     WordPiece */
#include "text/sources/describe.h"

#include "text/sources/merges.h"

#include <stdio.h>
#include <string.h>

#define MAX_PATTERN 6
#define BAR         "\xE2\x96\x81"

/* A summary of the steps before the model. */
typedef struct steps {
    const char *pattern[MAX_PATTERN];
    int n;
    bool strange; /* a splitter that GGUF does not know */
    bool odd;     /* a normalizer that GGUF does not know */
    bool bars;    /* spaces are U+2581 */
    bool prefix, squeeze, strip;
    const charsmap *map;
} steps;

typedef struct description {
    gguf_writer *w;
    const tokenizer *t;
    steps s;
    int64_t n_vocab;
    const char *kind; /* tokenizer.ggml.model */
    host *host;
    weft_error *err;
} description;

/* ---- the kind -------------------------------------------------------------------------------- */

static void add(steps *s, const char *pattern)
{
    if (!pattern || s->n == MAX_PATTERN)
        s->strange = true;
    else
        s->pattern[s->n++] = pattern;
}

static bool is(const char *text, size_t n, const char *word)
{
    return n == strlen(word) && memcmp(text, word, n) == 0;
}

static void see_splitter(steps *s, const splitter *x)
{
    switch (x->kind) {
    case SPLIT_PATTERN:
        s->strange |= x->behavior != SPLIT_ISOLATED || x->invert;
        add(s, x->text);
        return;
    case SPLIT_NUMERIC:
        add(s, x->behavior == SPLIT_ISOLATED ? "\\p{N}" : NULL);
        return;
    case SPLIT_METASPACE:
        s->bars |= is(x->text, x->text_length, BAR);
        s->prefix |= x->prepend != PREPEND_NEVER;
        return;
    case SPLIT_SPACE: /* drops spaces: only words remain */
        s->squeeze = true;
        return;
    case SPLIT_TEXT: /* text whose spaces are bars has no spaces */
        s->strange |= !s->bars || !is(x->text, x->text_length, " ");
        return;
    case SPLIT_BYTES:
        return;
    default:
        s->strange = true;
    }
}

static void see_replace(steps *s, const normalizer_step *x)
{
    const bool one = is(x->content, x->content_length, " ") ||
                     is(x->content, x->content_length, BAR);
    if (!x->pattern && is(x->text, x->text_length, " ") && is(x->content, x->content_length, BAR))
        s->bars = true;
    else if (x->pattern && is(x->text, x->text_length, SPACES_RUN) && one)
        s->squeeze = true;
    else if (x->pattern && x->content_length == 0 &&
             (is(x->text, x->text_length, SPACES_FIRST) || is(x->text, x->text_length, BARS_LAST)))
        s->strip = true;
    else
        s->odd = true;
}

static void see_normalizer(steps *s, const normalizer_step *x)
{
    switch (x->kind) {
    case NORM_PREPEND:
        s->prefix |= is(x->text, x->text_length, BAR);
        s->odd |= !is(x->text, x->text_length, BAR);
        return;
    case NORM_REPLACE:
        see_replace(s, x);
        return;
    case NORM_STRIP:
        s->strip = true;
        return;
    case NORM_PRECOMPILED:
        s->map = x->map;
        return;
    case NORM_SENTENCEPIECE:
        s->bars = x->escape;
        s->prefix = x->prefix;
        s->squeeze = x->squeeze;
        s->odd |= x->suffix;
        s->map = x->map;
        return;
    default:
        s->odd = true;
    }
}

static void see_steps(description *d)
{
    steps *s = &d->s;
    for (int i = 0; i < d->t->normalizer.n; i++)
        see_normalizer(s, &d->t->normalizer.step[i]);
    for (int i = 0; i < d->t->splitters.n; i++)
        see_splitter(s, &d->t->splitters.step[i]);
    s->odd |= s->strip && !s->squeeze;
}

static bool by_bytes(const tokenizer *t)
{
    return t->bpe.bytes ||
           (t->splitters.n > 0 && t->splitters.step[t->splitters.n - 1].kind == SPLIT_BYTES);
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static bool in_pieces(const description *d)
{
    return strcmp(d->kind, "llama") == 0 || strcmp(d->kind, "t5") == 0 ||
           strcmp(d->kind, "gemma4") == 0;
}

static uint32_t unknown(const tokenizer *t)
{
    return t->kind == MODEL_BPE       ? t->bpe.unk
           : t->kind == MODEL_UNIGRAM ? t->unigram.unk
                                      : t->wordpiece.unk;
}

static bool is_byte(const tokenizer *t, uint32_t id)
{
    const bool fallback = t->kind == MODEL_BPE ? t->bpe.fallback : t->unigram.fallback;
    return fallback && byte_of_spelling(vocab_text(&t->vocab, id), t->vocab.length[id]) >= 0;
}

static int32_t kind_of(const description *d, uint32_t id)
{
    const tokenizer *t = d->t;
    if (!vocab_has(&t->vocab, id))
        return PIECE_UNUSED;
    if (t->type)
        return t->type[id] == PIECE_FOREIGN ? PIECE_UNUSED : t->type[id];
    if (in_pieces(d) && id == unknown(t))
        return PIECE_UNKNOWN;
    if (t->special[id])
        return PIECE_CONTROL;
    return in_pieces(d) && is_byte(t, id) ? PIECE_BYTE : PIECE_NORMAL;
}

/* WordPiece: a piece that begins a word gets a bar, a continuation loses its "##". */
static void put_word(const description *d, uint32_t id)
{
    const vocab *v = &d->t->vocab;
    const char *text = vocab_text(v, id);
    const size_t n = v->length[id];
    char bar[PIECE_MOST + 4];
    if (!d->t->special[id] && n > 2 && memcmp(text, "##", 2) == 0)
        gguf_add_element(d->w, text + 2, n - 2);
    else if (!d->t->special[id] && n <= PIECE_MOST)
        gguf_add_element(d->w, bar, (size_t)snprintf(bar, sizeof bar, BAR "%.*s", (int)n, text));
    else
        gguf_add_element(d->w, text, n);
}

/* llama.cpp looks for user-defined pieces in the text as written, so its files spell them with
 * spaces. */
static size_t bars_to_spaces(uint8_t *s, size_t n)
{
    size_t to = 0;
    for (size_t at = 0; at < n; to++) {
        const bool bar = n - at >= 3 && memcmp(s + at, BAR, 3) == 0;
        s[to] = bar ? ' ' : s[at];
        at += bar ? 3 : 1;
    }
    return to;
}

static void put_tokens(const description *d)
{
    buffer spelled;
    buffer_begin(&spelled, &d->host->mem, d->err);
    gguf_add_texts(d->w, "tokenizer.ggml.tokens", (uint64_t)d->n_vocab);
    for (uint32_t id = 0; id < d->n_vocab; id++) {
        char filler[24];
        if (!vocab_has(&d->t->vocab, id)) {
            gguf_add_element(d->w, filler, (size_t)snprintf(filler, sizeof filler, "[PAD%u]", id));
        } else if (d->t->kind == MODEL_WORDPIECE) {
            put_word(d, id);
        } else {
            token_spelling(d->t, id, &spelled);
            if (d->t->has_user && d->t->type[id] == PIECE_USER && d->s.bars)
                spelled.n = bars_to_spaces(spelled.at, spelled.n);
            gguf_add_element(d->w, (const char *)spelled.at, spelled.n);
        }
    }
    d->w->entries.failed |= spelled.failed;
    buffer_end(&spelled);
}

static void put_types(const description *d, int32_t *type)
{
    for (uint32_t id = 0; id < d->n_vocab; id++)
        type[id] = kind_of(d, id);
    for (int i = 0; i < d->t->n_added; i++)
        if (type[d->t->added[i].id] == PIECE_NORMAL)
            type[d->t->added[i].id] = PIECE_USER;
    gguf_add_i32s(d->w, "tokenizer.ggml.token_type", type, (uint64_t)d->n_vocab);
}

/* ---- merges and scores ----------------------------------------------------------------------- */

static void put_merges(const description *d, const merge_list *l)
{
    buffer line, right;
    buffer_begin(&line, &d->host->mem, d->err);
    buffer_begin(&right, &d->host->mem, d->err);
    gguf_add_texts(d->w, "tokenizer.ggml.merges", l->n);
    for (size_t i = 0; i < l->n; i++) {
        token_spelling(d->t, l->at[i]->left, &line);
        token_spelling(d->t, l->at[i]->right, &right);
        buffer_put(&line, " ", 1);
        buffer_put(&line, right.at, right.n);
        gguf_add_element(d->w, (const char *)line.at, line.n);
    }
    d->w->entries.failed |= line.failed || right.failed;
    buffer_end(&line);
    buffer_end(&right);
}

/* SentencePiece merges the pair that makes the piece with the highest score: the order of the
 * merges is the order of the scores. Pieces that no merge makes come last. */
static void merges_to_scores(const description *d, const merge_list *l, float *score)
{
    const tokenizer *t = d->t;
    for (uint32_t id = 0; id < d->n_vocab; id++)
        score[id] = vocab_has(&t->vocab, id) && !t->special[id] ? -1e9f : 0;
    for (size_t i = l->n; i > 0; i--)
        score[l->at[i - 1]->id] = -(float)(i - 1);
}

static void put_scores(const description *d, const merge_list *l, float *score)
{
    const tokenizer *t = d->t;
    const uint32_t n = t->vocab.n < d->n_vocab ? t->vocab.n : (uint32_t)d->n_vocab;
    memset(score, 0, (size_t)d->n_vocab * sizeof *score);
    if (t->score)
        memcpy(score, t->score, n * sizeof *score);
    else if (t->kind == MODEL_BPE)
        merges_to_scores(d, l, score);
    for (uint32_t id = 0; id < n && !t->score && t->kind == MODEL_UNIGRAM; id++)
        score[id] = (float)t->unigram.score[id];
    gguf_add_f32s(d->w, "tokenizer.ggml.scores", score, (uint64_t)d->n_vocab);
}

/* ---- special tokens -------------------------------------------------------------------------- */

/* The token before or after the text, or -1. GGUF cannot express two of them, or one that is not
 * the token of this name. */
static int64_t beside(const description *d, bool before, int32_t named, const char **lacks)
{
    const template *m = &d->t->single;
    int at = 0;
    while (at < m->n - 1 && m->slot[at].kind == SLOT_TOKEN)
        at++;
    const int count = before ? at : m->n - 1 - at;
    if (count == 0)
        return -1;
    const uint32_t id = before ? m->slot[at - 1].id : m->slot[at + 1].id;
    if (count > 1 || (named >= 0 && (int64_t)id != named))
        *lacks = "the tokens beside a text";
    return id;
}

static void put_id(const description *d, const char *key, int64_t id)
{
    if (id >= 0)
        gguf_add_u32(d->w, key, (uint32_t)id);
}

static void put_ids(const description *d, const char **lacks)
{
    const tokenizer *t = d->t;
    const int64_t first = beside(d, true, t->bos, lacks), last = beside(d, false, t->eos, lacks);
    const uint32_t unk = unknown(t);
    put_id(d, "tokenizer.ggml.bos_token_id", t->bos >= 0 ? t->bos : first);
    put_id(d, "tokenizer.ggml.eos_token_id", t->eos >= 0 ? t->eos : last);
    put_id(d, "tokenizer.ggml.unknown_token_id", unk == NO_ID ? -1 : (int64_t)unk);
    gguf_add_bool(d->w, "tokenizer.ggml.add_bos_token", first >= 0);
    gguf_add_bool(d->w, "tokenizer.ggml.add_eos_token", last >= 0);
}

/* ---- the keys -------------------------------------------------------------------------------- */

static void put_charsmap(const description *d)
{
    buffer blob;
    if (!d->s.map)
        return;
    buffer_begin(&blob, &d->host->mem, d->err);
    charsmap_put(d->s.map, &blob);
    gguf_add_bytes(d->w, "tokenizer.ggml.precompiled_charsmap", blob.at, blob.n);
    d->w->entries.failed |= blob.failed;
    buffer_end(&blob);
}

/* `l` is NULL if there are no merges. */
static weft_status put_model(const description *d, const char *pre, const merge_list *l)
{
    mem *m = &d->host->mem;
    const bool scores = strcmp(d->kind, "llama") == 0 || strcmp(d->kind, "t5") == 0;
    int32_t *room = mem_zalloc(m, (size_t)d->n_vocab, sizeof *room, "a vocabulary", d->err);
    if (!room)
        return WEFT_ENOMEM;
    gguf_add_text(d->w, "tokenizer.ggml.model", d->kind, strlen(d->kind));
    if (pre)
        gguf_add_text(d->w, "tokenizer.ggml.pre", pre, strlen(pre));
    put_tokens(d);
    put_types(d, room);
    if (scores)
        put_scores(d, l, (float *)room);
    else if (l)
        put_merges(d, l);
    if (in_pieces(d))
        gguf_add_bool(d->w, "tokenizer.ggml.add_space_prefix", d->s.prefix);
    if (d->s.squeeze)
        gguf_add_bool(d->w, "tokenizer.ggml.remove_extra_whitespaces", true);
    put_charsmap(d);
    mem_free(m, room);
    return WEFT_OK;
}

static bool fits(const description *d)
{
    if (d->t->n_id <= d->n_vocab)
        return true;
    weft_fail(d->err, WEFT_EFORMAT, "%s: %u tokens, but the model has %lld", d->t->path, d->t->n_id,
              (long long)d->n_vocab);
    return false;
}

/* ---- WordPiece ------------------------------------------------------------------------------- */

static void put_word_id(const description *d, const char *key, const char *token)
{
    const uint32_t id = tokenizer_find(d->t, token, strlen(token));
    if (id < d->t->n_id)
        gguf_add_u32(d->w, key, id);
}

/* Readers recognise a continuation by what it lacks: a bar, or brackets around it. */
static bool has_misleading_piece(const tokenizer *t)
{
    const vocab *v = &t->vocab;
    for (uint32_t id = 0; id < v->n; id++) {
        const char *s = vocab_has(v, id) ? vocab_text(v, id) : "";
        const size_t n = vocab_has(v, id) ? v->length[id] : 0;
        if (n < 3 || memcmp(s, "##", 2) != 0 || t->special[id])
            continue;
        if ((s[2] == '[' && s[n - 1] == ']') || (n >= 5 && memcmp(s + 2, BAR, 3) == 0))
            return true;
    }
    return false;
}

static bool has_plain_added(const tokenizer *t)
{
    for (int i = 0; i < t->n_added; i++)
        if (!t->added[i].special)
            return true;
    return false;
}

/* GGUF knows only BERT's own form: its normaliser, its splitting, [CLS] before a text and [SEP]
 * after. */
static const char *not_bert(const tokenizer *t)
{
    const template *s = &t->single;
    const normalizer_step *z = &t->normalizer.step[0];
    const bool ends = s->n == 3 && s->slot[0].kind == SLOT_TOKEN && s->slot[2].kind == SLOT_TOKEN;
    if (t->normalizer.n != 1 || z->kind != NORM_BERT || !z->clean || !z->han)
        return "its normaliser";
    if (t->splitters.n != 1 || t->splitters.step[0].kind != SPLIT_BERT)
        return "how it splits text";
    if (has_plain_added(t))
        return "its added tokens";
    if (wordpiece_inner(&t->wordpiece.trie, "##", 2) != t->wordpiece.inner || !ends ||
        t->wordpiece.unk == NO_ID || has_misleading_piece(t))
        return "its model";
    return NULL;
}

static weft_status describe_words(description *d, const char **lacks)
{
    const tokenizer *t = d->t;
    const template *s = &t->single;
    const normalizer_step *z = &t->normalizer.step[0];
    *lacks = not_bert(t);
    if (*lacks || !fits(d))
        return *lacks ? WEFT_OK : WEFT_EFORMAT;
    d->kind = "bert";
    gguf_add_bool(d->w, "tokenizer.ggml.normalizer.lowercase", z->lower);
    gguf_add_bool(d->w, "tokenizer.ggml.normalizer.strip_accents", z->strip_accents);
    gguf_add_u32(d->w, "tokenizer.ggml.unknown_token_id", t->wordpiece.unk);
    gguf_add_u32(d->w, "tokenizer.ggml.bos_token_id", s->slot[0].id);
    gguf_add_u32(d->w, "tokenizer.ggml.cls_token_id", s->slot[0].id);
    gguf_add_u32(d->w, "tokenizer.ggml.eos_token_id", s->slot[2].id);
    gguf_add_u32(d->w, "tokenizer.ggml.seperator_token_id", s->slot[2].id); /* GGUF's spelling */
    put_word_id(d, "tokenizer.ggml.mask_token_id", "[MASK]");
    return put_model(d, NULL, NULL);
}

/* ---- the others ------------------------------------------------------------------------------ */

/* Byte level. If GGUF has no name for the splitting, the key is left out, so that no reader assumes
 * another splitting. */
static weft_status describe_bytes(description *d, const merge_list *l, const char **lacks)
{
    const steps *s = &d->s;
    char pre[PRE_NAME];
    const bool named = !s->strange && pre_of_patterns(s->pattern, s->n,
                                                      d->t->bpe.whole_words ? PRE_WORDS : 0, pre);
    d->kind = "gpt2";
    put_ids(d, lacks);
    if (d->t->normalizer.n > 0)
        *lacks = "its normaliser";
    if (!named)
        *lacks = "how it splits text";
    return put_model(d, named ? pre : NULL, l);
}

/* Letters with spaces as bars: by scores, or by merges that cannot be written as scores. */
static weft_status describe_letters(description *d, const merge_list *l, const char **lacks)
{
    const steps *s = &d->s;
    char pre[PRE_NAME] = "default";
    const bool scores = d->t->score || merges_are_scores(l, d->t);
    const bool lines = s->n == 1 && pre_of_patterns(s->pattern, 1, PRE_LETTERS, pre);
    d->kind = lines ? "gemma4" : "llama";
    put_ids(d, lacks);
    if (s->odd)
        *lacks = "its normaliser";
    if (s->strange || (s->n > 0 && !lines))
        *lacks = "how it splits text";
    if (!lines && !scores)
        *lacks = "merges that are no scores";
    return put_model(d, pre, l);
}

static weft_status describe_bpe(description *d, const char **lacks)
{
    const bpe *m = &d->t->bpe;
    const bool bytes = by_bytes(d->t), letters = d->s.bars && (m->fallback || d->t->score);
    if ((!bytes && !letters) || m->names || m->prefix || m->suffix) {
        *lacks = "its model";
        return WEFT_OK;
    }
    merge_list l = { 0 };
    weft_status status = fits(d) ? WEFT_OK : WEFT_EFORMAT;
    if (status == WEFT_OK && !d->t->score)
        status = merges_begin(&l, d->t, &d->host->mem, d->err);
    if (status == WEFT_OK)
        status = bytes ? describe_bytes(d, &l, lacks) : describe_letters(d, &l, lacks);
    merges_end(&l);
    return status;
}

static weft_status describe_unigram(description *d, const char **lacks)
{
    const tokenizer *t = d->t;
    if (!d->s.bars || t->unigram.unk == NO_ID || t->unigram.names) {
        *lacks = "its model";
        return WEFT_OK;
    }
    if (!fits(d))
        return WEFT_EFORMAT;
    d->kind = "t5";
    put_ids(d, lacks);
    if (d->s.odd)
        *lacks = "its normaliser";
    if (d->s.strange || d->s.n > 0)
        *lacks = "how it splits text";
    return put_model(d, "default", NULL);
}

weft_status tokenizer_describe(gguf_writer *w, const tokenizer *t, int64_t n_vocab,
                               const char **lacks, weft_error *err)
{
    description d = { .w = w, .t = t, .n_vocab = n_vocab, .host = t->host, .err = err };
    see_steps(&d);
    *lacks = NULL;
    switch (t->kind) {
    case MODEL_BPE:
        return describe_bpe(&d, lacks);
    case MODEL_UNIGRAM:
        return describe_unigram(&d, lacks);
    case MODEL_WORDPIECE:
        return describe_words(&d, lacks);
    case MODEL_WORDLEVEL:
        break;
    }
    *lacks = "its model";
    return WEFT_OK;
}
