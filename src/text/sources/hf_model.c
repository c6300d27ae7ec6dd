/* hf_model.c - the rest of a tokenizer.json: its model, added tokens, truncation and padding. */
#include "base/utf8.h"
#include "text/sources/hf.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- vocabulary ------------------------------------------------------------------------------ */

/* The number of ids and bytes that the model and the added tokens need. */
typedef struct size {
    uint64_t n, bytes;
} size;

static weft_status measure_object(const tokenizer *t, const json_t *table, const char *at, size *z,
                                  weft_error *err)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)table, key, value)
    {
        const json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
        if (id < 0 || id >= (json_int_t)VOCAB_MAX)
            return weft_fail(err, WEFT_EFORMAT, "%s: %s[\"%.64s\"] is not an id from 0 to %llu",
                             t->path, at, key, (unsigned long long)VOCAB_MAX - 1);
        z->n = (uint64_t)id >= z->n ? (uint64_t)id + 1 : z->n;
        z->bytes += strlen(key); /* bounded: by the file */
    }
    return WEFT_OK;
}

/* [["piece", -1.5], ...] */
static weft_status measure_list(const tokenizer *t, const json_t *table, size *z, weft_error *err)
{
    for (size_t i = 0; i < json_array_size(table); i++) {
        const json_t *entry = json_array_get(table, i);
        const json_t *score = json_array_get(entry, 1);
        if (!json_is_string(json_array_get(entry, 0)) || !json_is_number(score))
            return weft_fail(err, WEFT_EFORMAT, "%s: model.vocab[%zu] is not a piece and its score",
                             t->path, i);
        z->bytes += json_string_length(json_array_get(entry, 0)); /* bounded: by the file */
    }
    z->n = json_array_size(table);
    return WEFT_OK;
}

static weft_status measure_added(const tokenizer *t, const json_t *list, size *z, weft_error *err)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *a = json_array_get(list, i), *id = json_object_get(a, "id");
        const json_t *content = json_object_get(a, "content");
        if (!json_is_string(content) || json_string_length(content) == 0 ||
            json_string_length(content) > TOKEN_MOST)
            return weft_fail(err, WEFT_EFORMAT,
                             "%s: added_tokens[%zu].content is not text of 1 to %d bytes", t->path,
                             i, TOKEN_MOST);
        if (!json_is_integer(id) || json_integer_value(id) < 0 ||
            json_integer_value(id) >= (json_int_t)VOCAB_MAX)
            return weft_fail(err, WEFT_EFORMAT, "%s: added_tokens[%zu].id is not an id", t->path,
                             i);
        const uint64_t number = (uint64_t)json_integer_value(id);
        z->n = number >= z->n ? number + 1 : z->n;
        z->bytes += json_string_length(content); /* bounded: by the file */
    }
    return WEFT_OK;
}

static weft_status fill_object(tokenizer *t, const json_t *table, const char *at, weft_error *err)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)table, key, value)
    {
        const uint32_t id = (uint32_t)json_integer_value(value);
        if (vocab_add(&t->vocab, id, key, strlen(key)) == VOCAB_SAME_ID)
            return weft_fail(err, WEFT_EFORMAT, "%s: %s: id %u is given twice, also to \"%.64s\"",
                             t->path, at, id, key);
    }
    return WEFT_OK;
}

static void fill_list(tokenizer *t, const json_t *table)
{
    for (size_t i = 0; i < json_array_size(table); i++) {
        const json_t *entry = json_array_get(json_array_get(table, i), 0);
        const char *text = json_string_value(entry);
        const size_t n = json_string_length(entry);
        if (vocab_add(&t->vocab, (uint32_t)i, text, n) != VOCAB_OK)
            vocab_name(&t->vocab, (uint32_t)i, text, n); /* the trie keeps the last of equals */
    }
}

/* ---- added tokens ---------------------------------------------------------------------------- */

/* Hugging Face gives a token that the model lacks the next free id, whatever the file says. If the
 * two differ, the file asks for something that no reader does. */
static weft_status add_token(tokenizer *t, const json_t *j, size_t i, uint32_t *next,
                             weft_error *err)
{
    place at = { .t = t };
    snprintf(at.at, sizeof at.at, "added_tokens[%zu]", i);
    added *a = &t->added[t->n_added];
    const json_t *content = json_object_get(j, "content");
    a->length = json_string_length(content);
    a->normalized = true;
    if (!hf_keys(j, "id content single_word lstrip rstrip normalized special", &at, err) ||
        !hf_bool(j, "single_word", &a->single_word, &at, err) ||
        !hf_bool(j, "lstrip", &a->left, &at, err) || !hf_bool(j, "rstrip", &a->right, &at, err) ||
        !hf_bool(j, "normalized", &a->normalized, &at, err) ||
        !hf_bool(j, "special", &a->special, &at, err))
        return err->code;
    a->content = tokenizer_text(t, json_string_value(content), a->length, err);
    if (!a->content)
        return WEFT_ENOMEM;
    const uint32_t said = (uint32_t)json_integer_value(json_object_get(j, "id"));
    uint32_t id = tokenizer_find(t, a->content, a->length);
    if (id == NO_ID) {
        id = (*next)++;
        if (id < t->vocab.n && !vocab_has(&t->vocab, id))
            vocab_name(&t->vocab, id, a->content, a->length);
    }
    if (id != said)
        return weft_fail(err, WEFT_EFORMAT,
                         "%s: %s \"%.64s\" has id %u, but Hugging Face's rule gives it %u", t->path,
                         at.at, a->content, said, id);
    a->id = id;
    t->special[id] |= a->special;
    vocab_add(&t->contents, (uint32_t)t->n_added++, a->content, a->length);
    return WEFT_OK;
}

static weft_status load_added(tokenizer *t, const json_t *list, uint64_t bytes, uint32_t next,
                              weft_error *err)
{
    const size_t n = json_array_size(list);
    if (vocab_init(&t->contents, &t->store, n, bytes, err) != WEFT_OK)
        return err->code;
    t->special = arena_alloc(&t->store, t->vocab.n, err);
    t->added = arena_alloc(&t->store, n * sizeof *t->added, err); /* bounded: by the file */
    if (!t->special || !t->added)
        return WEFT_ENOMEM;
    memset(t->special, 0, t->vocab.n);
    memset(t->added, 0, n * sizeof *t->added);
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < n && status == WEFT_OK; i++)
        status = add_token(t, json_array_get(list, i), i, &next, err);
    return status;
}

weft_status hf_vocab(tokenizer *t, const json_t *table, const json_t *list, const char *at,
                     weft_error *err)
{
    size z = { 0, 0 }, more = { 0, 0 };
    const bool pieces = json_is_array(table);
    const size_t count = pieces ? json_array_size(table) : json_object_size(table);
    if (!pieces && !json_is_object(table))
        return weft_fail(err, WEFT_EFORMAT, "%s: %s is missing", t->path, at);
    weft_status status = pieces ? measure_list(t, table, &z, err)
                                : measure_object(t, table, at, &z, err);
    if (status == WEFT_OK)
        status = measure_added(t, list, &more, err);
    z.n = more.n > z.n ? more.n : z.n;
    z.bytes += more.bytes; /* bounded: by the file */
    if (status == WEFT_OK)
        status = check_holes(t, z.n, count + json_array_size(list), err);
    if (status == WEFT_OK)
        status = vocab_init(&t->vocab, &t->store, z.n, z.bytes, err);
    if (status == WEFT_OK && !pieces)
        status = fill_object(t, table, at, err);
    if (status == WEFT_OK && pieces)
        fill_list(t, table);
    if (status == WEFT_OK)
        status = check_tokens(t, err);
    return status == WEFT_OK ? load_added(t, list, more.bytes, (uint32_t)count, err) : status;
}

/* ---- BPE ------------------------------------------------------------------------------------- */

bool bpe_take_bytes(tokenizer *t)
{
    t->byte_level = true;
    for (int b = 0; b < 256; b++) {
        t->bpe.byte[b] = vocab_find(&t->bytes, &(char){ (char)b }, 1);
        t->byte_level &= t->bpe.byte[b] != NO_ID;
    }
    t->bpe.bytes = true;
    t->bpe.vocab = &t->bytes;
    return t->byte_level;
}

/* The token that two others merge into: the second loses the prefix of inner symbols. */
static uint32_t merged(const tokenizer *t, const char *a, size_t n, const char *b, size_t m,
                       char *room)
{
    const size_t skip = t->bpe.prefix ? t->bpe.prefix_length : 0;
    if (m < skip || n + m - skip > t->vocab.longest)
        return NO_ID;
    memcpy(room, a, n);
    memcpy(room + n, b + skip, m - skip);
    return vocab_find(&t->vocab, room, n + m - skip);
}

static weft_status add_merge(tokenizer *t, uint64_t rank, const char *a, size_t n, const char *b,
                             size_t m, bool last, char *room, weft_error *err)
{
    const uint32_t left = vocab_find(&t->vocab, a, n), right = vocab_find(&t->vocab, b, m);
    const uint32_t to = left != NO_ID && right != NO_ID ? merged(t, a, n, b, m, room) : NO_ID;
    if (to == NO_ID)
        return weft_fail(err, WEFT_EFORMAT,
                         "%s: merge %llu joins \"%.*s\" and \"%.*s\", but the vocabulary lacks %s",
                         t->path, (unsigned long long)rank, (int)(n > 64 ? 64 : n), a,
                         (int)(m > 64 ? 64 : m), b,
                         left == NO_ID    ? "the first"
                         : right == NO_ID ? "the second"
                                          : "the result");
    if (!t->special[to]) /* no text may become such a token */
        bpe_add(&t->bpe, left, right, (uint32_t)rank, to, last);
    return WEFT_OK;
}

static weft_status bad_merge(const tokenizer *t, uint64_t rank, weft_error *err)
{
    return weft_fail(err, WEFT_EFORMAT, "%s: merge %llu is not two tokens separated by a space",
                     t->path, (unsigned long long)rank);
}

static weft_status merge_line(tokenizer *t, uint64_t rank, const char *line, size_t n, bool last,
                              char *room, weft_error *err)
{
    const char *space = n > 1 ? memchr(line + 1, ' ', n - 1) : NULL;
    const size_t left = space ? (size_t)(space - line) : 0;
    if (!space || left + 1 == n || memchr(space + 1, ' ', n - left - 1))
        return bad_merge(t, rank, err);
    return add_merge(t, rank, line, left, space + 1, n - left - 1, last, room, err);
}

weft_status bpe_from_lines(tokenizer *t, uint64_t n, merge_fn *next, void *ud, weft_error *err)
{
    weft_status status = bpe_init(&t->bpe, &t->vocab, &t->store, n, err);
    char *room = arena_alloc(&t->store, (size_t)t->vocab.longest + 1, err);
    if (!room)
        status = WEFT_ENOMEM;
    size_t length;
    const char *line;
    for (uint64_t rank = 0; status == WEFT_OK && (line = next(ud, &length)) != NULL; rank++)
        status = merge_line(t, rank, line, length, false, room, err);
    t->kind = MODEL_BPE;
    return status;
}

static weft_status load_merges(tokenizer *t, const json_t *list, weft_error *err)
{
    if (!json_is_array(list))
        return weft_fail(err, WEFT_EFORMAT, "%s: model.merges is missing", t->path);
    char *room = arena_alloc(&t->store, (size_t)t->vocab.longest + 1, err);
    weft_status status = room ? WEFT_OK : WEFT_ENOMEM;
    uint64_t rank = 0;
    for (size_t i = 0; i < json_array_size(list) && status == WEFT_OK; i++) {
        const json_t *x = json_array_get(list, i);
        const json_t *a = json_array_get(x, 0), *b = json_array_get(x, 1);
        if (json_is_string(x) && strncmp(json_string_value(x), "#version", 8) == 0)
            continue;
        if (json_is_string(x))
            status = merge_line(t, rank, json_string_value(x), json_string_length(x), true, room,
                                err);
        else if (json_is_string(a) && json_is_string(b) && json_array_size(x) == 2)
            status = add_merge(t, rank, json_string_value(a), json_string_length(a),
                               json_string_value(b), json_string_length(b), true, room, err);
        else
            status = bad_merge(t, rank, err);
        rank++;
    }
    return status;
}

static weft_status find_unk(tokenizer *t, const json_t *j, const place *at, uint32_t *unk,
                            weft_error *err)
{
    const char *text = NULL;
    size_t n = 0;
    if (!hf_text(j, "unk_token", &text, &n, at, err))
        return err->code;
    *unk = text ? vocab_find(&t->vocab, text, n) : NO_ID;
    if (text && *unk == NO_ID)
        return weft_fail(err, WEFT_EFORMAT, "%s: %s.unk_token \"%.64s\" is not in the vocabulary",
                         t->path, at->at, text);
    return WEFT_OK;
}

static weft_status affix(tokenizer *t, const json_t *j, const char *field, const char **to,
                         size_t *n, const place *at, weft_error *err)
{
    const char *text = NULL;
    if (!hf_text(j, field, &text, n, at, err))
        return err->code;
    if (!text || *n == 0)
        return WEFT_OK;
    if (*n > BPE_AFFIX)
        return hf_wrong(at, field, "at most 64 bytes", err);
    *to = tokenizer_text(t, text, *n, err);
    return *to ? WEFT_OK : WEFT_ENOMEM;
}

static void find_spellings(const vocab *v, uint32_t spell[256])
{
    for (unsigned b = 0; b < 256; b++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", b);
        spell[b] = vocab_find(v, name, 6);
    }
}

static bool has_normalizer(const tokenizer *t, normalizer_kind kind)
{
    for (int i = 0; i < t->normalizer.n; i++)
        if (t->normalizer.step[i].kind == kind)
            return true;
    return false;
}

/* If mapping bytes to letters is the last step before the model, the model can read the bytes
 * directly. */
static weft_status skip_letters(tokenizer *t, weft_error *err)
{
    splitters *s = &t->splitters;
    if (s->n == 0 || s->step[s->n - 1].kind != SPLIT_BYTES || has_normalizer(t, NORM_BYTE_LEVEL) ||
        t->bpe.prefix || t->bpe.suffix)
        return WEFT_OK;
    for (int i = 0; i + 1 < s->n; i++)
        if (s->step[i].kind == SPLIT_BYTES)
            return WEFT_OK;
    if (t->bpe.unk != NO_ID || t->bpe.fallback)
        for (int b = 0; b < 256; b++) { /* unknown text is found letter by letter */
            char letter[4];
            const size_t n = utf8_encode(byte_stand_in((uint8_t)b), letter);
            if (vocab_find(&t->vocab, letter, n) == NO_ID)
                return WEFT_OK;
        }
    const weft_status status = bytes_from_stand_ins(t, err);
    if (status != WEFT_OK)
        return status;
    bpe_take_bytes(t);
    s->n--;
    return WEFT_OK;
}

static weft_status load_bpe(tokenizer *t, const json_t *j, const place *at, weft_error *err)
{
    bpe *m = &t->bpe;
    const json_t *dropout = json_object_get(j, "dropout"), *merges = json_object_get(j, "merges");
    if (!hf_keys(j,
                 "type dropout unk_token continuing_subword_prefix end_of_word_suffix fuse_unk "
                 "byte_fallback ignore_merges vocab merges",
                 at, err))
        return err->code;
    if (dropout && !json_is_null(dropout) && json_number_value(dropout) != 0)
        return weft_fail(err, WEFT_EUNSUPPORTED,
                         "%s: model.dropout is %g, which makes encoding random; expected 0",
                         t->path, json_number_value(dropout));
    weft_status status = bpe_init(m, &t->vocab, &t->store, json_array_size(merges), err);
    if (status == WEFT_OK)
        status = find_unk(t, j, at, &m->unk, err);
    if (status == WEFT_OK)
        status = affix(t, j, "continuing_subword_prefix", &m->prefix, &m->prefix_length, at, err);
    if (status == WEFT_OK)
        status = affix(t, j, "end_of_word_suffix", &m->suffix, &m->suffix_length, at, err);
    if (status != WEFT_OK)
        return status;
    if (!hf_bool(j, "fuse_unk", &m->fuse_unk, at, err) ||
        !hf_bool(j, "byte_fallback", &m->fallback, at, err) ||
        !hf_bool(j, "ignore_merges", &m->whole_words, at, err))
        return err->code;
    if (m->fallback && (m->prefix || m->suffix))
        return weft_fail(err, WEFT_EUNSUPPORTED,
                         "%s: model has byte_fallback together with a prefix or suffix", t->path);
    find_spellings(&t->vocab, m->spell);
    status = load_merges(t, merges, err);
    if (status == WEFT_OK)
        status = skip_letters(t, err);
    bpe_finish(m);
    t->kind = MODEL_BPE;
    return status;
}

/* ---- the other models ------------------------------------------------------------------------ */

/* All tokens except special ones, which text never becomes. */
static weft_status trie_of_vocab(tokenizer *t, trie *to, weft_error *err)
{
    trie_entry *e = arena_alloc(&t->store, (size_t)t->vocab.n * sizeof *e, err);
    size_t n = 0;
    if (!e)
        return WEFT_ENOMEM;
    for (uint32_t id = 0; id < t->vocab.n; id++)
        if (vocab_has(&t->vocab, id) && !t->special[id])
            e[n++] = (trie_entry){ vocab_text(&t->vocab, id), t->vocab.length[id], id };
    return pieces_trie(t, to, e, n, err);
}

static weft_status load_unigram(tokenizer *t, const json_t *j, const place *at, weft_error *err)
{
    unigram *m = &t->unigram;
    const json_t *table = json_object_get(j, "vocab");
    int64_t unk = -1;
    if (!hf_keys(j, "type unk_id vocab byte_fallback", at, err) ||
        !hf_integer(j, "unk_id", &unk, (int64_t)json_array_size(table) - 1, at, err) ||
        !hf_bool(j, "byte_fallback", &m->fallback, at, err))
        return err->code;
    m->unk = unk < 0 ? NO_ID : (uint32_t)unk;
    find_spellings(&t->vocab, m->spell);
    for (int b = 0; b < 256 && m->fallback; b++)
        m->fallback = m->spell[b] != NO_ID;
    m->score = arena_alloc(&t->store, (size_t)t->vocab.n * sizeof *m->score, err);
    if (!m->score)
        return WEFT_ENOMEM;
    memset(m->score, 0, (size_t)t->vocab.n * sizeof *m->score);
    m->min_score = INFINITY;
    for (size_t i = 0; i < json_array_size(table); i++) {
        m->score[i] = json_number_value(json_array_get(json_array_get(table, i), 1));
        m->min_score = m->score[i] < m->min_score ? m->score[i] : m->min_score;
    }
    t->kind = MODEL_UNIGRAM;
    return trie_of_vocab(t, &m->trie, err);
}

static weft_status load_wordpiece(tokenizer *t, const json_t *j, const place *at, weft_error *err)
{
    wordpiece *m = &t->wordpiece;
    int64_t longest = 100;
    const char *prefix = "##";
    size_t n = 2;
    if (!hf_keys(j, "type unk_token continuing_subword_prefix max_input_chars_per_word vocab", at,
                 err) ||
        !hf_integer(j, "max_input_chars_per_word", &longest, INT32_MAX, at, err) ||
        !hf_text(j, "continuing_subword_prefix", &prefix, &n, at, err))
        return err->code;
    m->longest = (size_t)longest;
    weft_status status = find_unk(t, j, at, &m->unk, err);
    if (status == WEFT_OK)
        status = trie_of_vocab(t, &m->trie, err);
    if (status == WEFT_OK)
        m->inner = wordpiece_inner(&m->trie, prefix, n);
    t->kind = MODEL_WORDPIECE;
    return status;
}

static weft_status load_wordlevel(tokenizer *t, const json_t *j, const place *at, weft_error *err)
{
    t->kind = MODEL_WORDLEVEL;
    t->wordlevel.vocab = &t->vocab;
    return hf_keys(j, "type unk_token vocab", at, err) ? find_unk(t, j, at, &t->wordlevel.unk, err)
                                                       : err->code;
}

weft_status hf_model(tokenizer *t, const json_t *j, weft_error *err)
{
    const place at = { .t = t, .at = "model" };
    const char *type = json_string_value(json_object_get(j, "type"));
    if (!type) /* older files do not name the type */
        type = json_object_get(j, "merges")                     ? "BPE"
               : json_is_array(json_object_get(j, "vocab"))     ? "Unigram"
               : json_object_get(j, "max_input_chars_per_word") ? "WordPiece"
                                                                : "WordLevel";
    const bool pieces = json_is_array(json_object_get(j, "vocab"));
    if (pieces != (strcmp(type, "Unigram") == 0))
        return hf_wrong(&at, "vocab", pieces ? "an object of ids" : "a list of pieces", err);
    if (strcmp(type, "BPE") == 0)
        return load_bpe(t, j, &at, err);
    if (strcmp(type, "Unigram") == 0)
        return load_unigram(t, j, &at, err);
    if (strcmp(type, "WordPiece") == 0)
        return load_wordpiece(t, j, &at, err);
    if (strcmp(type, "WordLevel") == 0)
        return load_wordlevel(t, j, &at, err);
    return weft_fail(err, WEFT_EUNSUPPORTED, "%s: unsupported model type \"%.64s\"", t->path, type);
}
