/* tokenizer.c - creates and frees tokenizers, checks the limits of a vocabulary, and returns the
 * bytes of tokens. */
#include "text/tokenizer.h"

#include "base/utf8.h"

#include <string.h>

weft_status tokenizer_begin(tokenizer *t, const char *path, const char *source, host *h,
                            weft_error *err)
{
    *t = (tokenizer){ .host = h, .source = source, .bos = -1, .eos = -1 };
    arena_init(&t->store, ARENA_GROWING, &h->mem, 0, "", err); /* allocates nothing yet */
    t->path = tokenizer_text(t, path, strlen(path), err);
    return t->path ? WEFT_OK : WEFT_ENOMEM;
}

void tokenizer_free(tokenizer *t)
{
    for (int i = 0; i < t->normalizer.n; i++)
        regex_free(t->normalizer.step[i].pattern);
    for (int i = 0; i < t->splitters.n; i++)
        regex_free(t->splitters.step[i].pattern);
    for (int i = 0; i < t->decoder.n; i++)
        regex_free(t->decoder.step[i].pattern);
    arena_free(&t->store);
    *t = (tokenizer){ 0 };
}

const char *tokenizer_text(tokenizer *t, const char *text, size_t length, weft_error *err)
{
    return arena_text(&t->store, text, length, err);
}

static weft_status too_many(const tokenizer *t, const char *what, weft_error *err)
{
    return weft_fail(err, WEFT_EUNSUPPORTED, "%s: more than %d steps in its %s", t->path, MAX_STEP,
                     what);
}

weft_status add_splitter(tokenizer *t, const splitter *s, weft_error *err)
{
    if (t->splitters.n == MAX_STEP) {
        regex_free(s->pattern);
        return too_many(t, "pre_tokenizer", err);
    }
    t->splitters.step[t->splitters.n++] = *s;
    return WEFT_OK;
}

weft_status add_normalizer(tokenizer *t, const normalizer_step *s, weft_error *err)
{
    if (t->normalizer.n == MAX_STEP) {
        regex_free(s->pattern);
        return too_many(t, "normalizer", err);
    }
    t->normalizer.step[t->normalizer.n++] = *s;
    return WEFT_OK;
}

weft_status add_decoder(tokenizer *t, const decoder_step *s, weft_error *err)
{
    if (t->decoder.n == MAX_STEP) {
        regex_free(s->pattern);
        return too_many(t, "decoder", err);
    }
    t->decoder.step[t->decoder.n++] = *s;
    return WEFT_OK;
}

weft_status add_pattern(tokenizer *t, const char *pattern, weft_error *err)
{
    const size_t n = strlen(pattern);
    splitter s = { .kind = SPLIT_PATTERN, .behavior = SPLIT_ISOLATED };
    s.text = tokenizer_text(t, pattern, n, err);
    s.text_length = n;
    s.pattern = s.text ? regex_new(pattern, n, &t->host->mem, err) : NULL;
    if (!s.pattern)
        return err->code;
    s.scan = scan_of_pattern(pattern, n);
    return add_splitter(t, &s, err);
}

void template_simple(tokenizer *t, uint32_t before, uint32_t after)
{
    template *m = &t->single;
    *m = (template){ 0 };
    if (before != NO_ID)
        m->slot[m->n++] = (slot){ SLOT_TOKEN, before, 0 };
    m->slot[m->n++] = (slot){ SLOT_A, 0, 0 };
    if (after != NO_ID)
        m->slot[m->n++] = (slot){ SLOT_TOKEN, after, 0 };
}

/* ---- limits ---------------------------------------------------------------------------------- */

weft_status check_tokens(const tokenizer *t, weft_error *err)
{
    const vocab *v = &t->vocab;
    for (uint32_t id = 0; id < v->n && v->longest > TOKEN_MOST; id++)
        if (vocab_has(v, id) && v->length[id] > TOKEN_MOST)
            return weft_fail(err, WEFT_EFORMAT, "%s: token %u has %u bytes; expected at most %d",
                             t->path, id, v->length[id], TOKEN_MOST);
    return WEFT_OK;
}

weft_status check_holes(const tokenizer *t, uint64_t n, uint64_t count, weft_error *err)
{
    if (n <= count * HOLES_TIMES + HOLES_MORE) /* bounded: by the file */
        return WEFT_OK;
    return weft_fail(err, WEFT_EFORMAT,
                     "%s: ids up to %llu for %llu tokens; the limit is %d ids per token plus %d",
                     t->path, (unsigned long long)n - 1, (unsigned long long)count, HOLES_TIMES,
                     HOLES_MORE);
}

weft_status pieces_trie(tokenizer *t, trie *to, const trie_entry *e, size_t n, weft_error *err)
{
    for (size_t i = 0; i < n; i++)
        if (e[i].length > PIECE_MOST)
            return weft_fail(
                err, WEFT_EFORMAT,
                "%s: piece %u has %u bytes; expected at most %d for a unigram or WordPiece model",
                t->path, e[i].value, e[i].length, PIECE_MOST);
    return trie_init(to, &t->store, e, n, err);
}

/* ---- the bytes of tokens --------------------------------------------------------------------- */

/* False if the spelling has a letter that stands for no byte. */
static bool to_bytes(const char *text, size_t n, char *to, size_t *length)
{
    *length = 0;
    for (size_t at = 0, step; at < n; at += step) {
        uint32_t point;
        step = utf8_decode(text + at, n - at, &point);
        const int byte = step ? byte_of_stand_in(point) : -1;
        if (byte < 0)
            return false;
        to[(*length)++] = (char)byte;
    }
    return true;
}

weft_status bytes_from_stand_ins(tokenizer *t, weft_error *err)
{
    vocab *v = &t->vocab;
    char *room = arena_alloc(&t->store, (size_t)v->longest + 1, err);
    weft_status status = vocab_init(&t->bytes, &t->store, v->n, v->used, err);
    if (!room || status != WEFT_OK)
        return err->code;
    for (uint32_t id = 0; id < v->n; id++) {
        size_t n;
        if (!vocab_has(v, id))
            continue;
        const char *text = vocab_text(v, id);
        const bool plain = to_bytes(text, v->length[id], room, &n);
        if (!plain || t->special[id] || vocab_find(v, text, v->length[id]) != id)
            vocab_name(&t->bytes, id, plain && !t->special[id] ? room : text,
                       plain && !t->special[id] ? n : v->length[id]);
        else
            vocab_add(&t->bytes, id, room, n); /* different letters have different bytes */
    }
    return WEFT_OK;
}

int64_t tokenizer_piece(const tokenizer *t, uint32_t id, const char **bytes)
{
    if (!tokenizer_has(t, id))
        return -1;
    *bytes = vocab_text(&t->bytes, id);
    return t->special[id] ? 0 : (int64_t)t->bytes.length[id];
}

int byte_of_spelling(const char *text, size_t n)
{
    static const char digits[] = "0123456789ABCDEF";
    if (n != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>')
        return -1;
    const char *hi = memchr(digits, text[3], 16), *lo = memchr(digits, text[4], 16);
    return hi && lo ? (int)((hi - digits) << 4 | (lo - digits)) : -1;
}

/* Byte pieces are not found by their text: no text becomes one by itself. */
static uint32_t find_byte(const tokenizer *t, const char *text, size_t length)
{
    const int byte = byte_of_spelling(text, length);
    if (byte < 0 || (t->kind != MODEL_BPE && t->kind != MODEL_UNIGRAM))
        return NO_ID;
    return t->kind == MODEL_BPE ? t->bpe.spell[byte] : t->unigram.spell[byte];
}

uint32_t tokenizer_unknown(const tokenizer *t)
{
    switch (t->kind) {
    case MODEL_BPE:
        return t->bpe.unk;
    case MODEL_UNIGRAM:
        return t->unigram.unk;
    case MODEL_WORDPIECE:
        return t->wordpiece.unk;
    case MODEL_WORDLEVEL:
        return t->wordlevel.unk;
    }
    return NO_ID;
}

uint32_t tokenizer_find(const tokenizer *t, const char *text, size_t length)
{
    const vocab *names = t->unigram.names ? t->unigram.names : &t->vocab;
    const uint32_t which = vocab_find(&t->contents, text, length);
    uint32_t id = which != NO_ID ? t->added[which].id : vocab_find(names, text, length);
    if (id == NO_ID)
        id = find_byte(t, text, length);
    return t->n_silent == 0 || tokenizer_has(t, id) ? id : NO_ID;
}

uint32_t tokenizer_mask(const tokenizer *t)
{
    const uint32_t bert = tokenizer_find(t, "[MASK]", 6);
    return bert != NO_ID ? bert : tokenizer_find(t, "<mask>", 6);
}
