/* files.c - vocabularies in plain files.
 *
 *     tiktoken      base64 of the bytes, a space, the rank; the splitting comes from the file's
 *                   name or from the caller
 *     vocab.json + merges.txt     GPT-2
 *     vocab.txt     BERT: a piece on each line
 *     source_vocabulary.txt, target_vocabulary.txt     OpenNMT: <blank>, <s>, </s>, then a token on
 *                   each line; the unknown token has the id after the last
 *     llama2.c      i32 longest; then f32 score, i32 length, bytes, for each token */
#include "base/checked.h"
#include "base/utf8.h"
#include "text/sources/base64.h"
#include "text/sources/source.h"

#include <string.h>

/* The next line without its line end; NULL after the last. */
static const char *next_line(const uint8_t *data, size_t size, size_t *at, size_t *n)
{
    if (*at >= size)
        return NULL;
    const char *line = (const char *)data + *at;
    const char *end = memchr(line, '\n', size - *at);
    *n = end ? (size_t)(end - line) : size - *at;
    *at += *n + 1;
    if (*n > 0 && line[*n - 1] == '\r')
        --*n;
    return line;
}

static size_t count_lines(const uint8_t *data, size_t size)
{
    size_t at = 0, n, count = 0;
    while (next_line(data, size, &at, &n))
        count++;
    return count;
}

static bool is_utf8(const char *s, size_t n)
{
    for (size_t at = 0, step; at < n; at += step) {
        uint32_t point;
        step = utf8_decode(s + at, n - at, &point);
        if (step == 0)
            return false;
    }
    return true;
}

static weft_status no_specials(tokenizer *t, weft_error *err)
{
    t->special = arena_alloc(&t->store, t->vocab.n, err);
    if (!t->special)
        return WEFT_ENOMEM;
    memset(t->special, 0, t->vocab.n);
    return WEFT_OK;
}

/* ---- tiktoken -------------------------------------------------------------------------------- */

/* OpenAI publishes these next to its four files: the splitting, and tokens that are in no file. */
static const struct {
    const char *name, *pre;
    struct {
        const char *text;
        uint32_t id;
    } special[5];
} encodings[] = {
    { "r50k_base", "gpt-2", { { "<|endoftext|>", 50256 } } },
    { "p50k_base", "gpt-2", { { "<|endoftext|>", 50256 } } },
    { "cl100k_base",
      "cl100k",
      { { "<|endoftext|>", 100257 },
        { "<|fim_prefix|>", 100258 },
        { "<|fim_middle|>", 100259 },
        { "<|fim_suffix|>", 100260 },
        { "<|endofprompt|>", 100276 } } },
    { "o200k_base", "o200k", { { "<|endoftext|>", 199999 }, { "<|endofprompt|>", 200018 } } },
};

static int encoding_of(const char *path)
{
    const char *name = strrchr(path, '/');
    name = name ? name + 1 : path;
    for (size_t i = 0; i < sizeof encodings / sizeof *encodings; i++)
        if (strncmp(name, encodings[i].name, strlen(encodings[i].name)) == 0)
            return (int)i;
    return -1;
}

/* "YWI= 17": writes the bytes, at most 3/4 of the line's length. */
static bool rank_line(const char *line, size_t n, char *to, size_t *length, uint32_t *rank)
{
    const char *space = memchr(line, ' ', n);
    if (!space || space == line)
        return false;
    size_t k = (size_t)(space - line);
    while (k > 0 && line[k - 1] == '=')
        k--;
    uint32_t bits = 0;
    *length = 0;
    for (size_t i = 0; i < k; i++) {
        const int d = base64_digit(line[i]);
        if (d < 0)
            return false;
        bits = (bits & 0xFFFFFF) << 6 | (uint32_t)d;
        if (i % 4 > 0)
            to[(*length)++] = (char)(bits >> (6 - 2 * (i % 4)) & 0xFF);
    }
    uint64_t number = 0;
    const char *end = line + n, *s = space + 1;
    for (; s < end && *s >= '0' && *s <= '9' && number < VOCAB_MAX; s++)
        number = number * 10 + (uint64_t)(*s - '0');
    *rank = (uint32_t)number;
    return s == end && s > space + 1 && (number < VOCAB_MAX) && (*length > 0);
}

typedef struct ranks {
    const uint8_t *data;
    size_t size;
    uint32_t n; /* the largest, plus one */
    uint64_t count;
    uint64_t bytes;
} ranks;

static weft_status measure_ranks(tokenizer *t, ranks *r, char *room, weft_error *err)
{
    size_t at = 0, n, line_number = 0;
    const char *line;
    while ((line = next_line(r->data, r->size, &at, &n)) != NULL) {
        size_t length;
        uint32_t rank;
        line_number++;
        if (n == 0 && at >= r->size)
            break;
        if (!rank_line(line, n, room, &length, &rank))
            return weft_fail(err, WEFT_EFORMAT, "%s: line %zu is not base64 and a rank", t->path,
                             line_number);
        r->n = rank >= r->n ? rank + 1 : r->n;
        r->count++;
        r->bytes += length; /* bounded: by the file */
    }
    return check_holes(t, r->n, r->count, err);
}

static weft_status fill_ranks(tokenizer *t, const ranks *r, char *room, weft_error *err)
{
    size_t at = 0, n, length;
    uint32_t rank;
    const char *line;
    while ((line = next_line(r->data, r->size, &at, &n)) != NULL)
        if (rank_line(line, n, room, &length, &rank) &&
            vocab_add(&t->vocab, rank, room, length) != VOCAB_OK)
            return weft_fail(err, WEFT_EFORMAT, "%s: rank %u or its bytes occur twice", t->path,
                             rank);
    return check_tokens(t, err);
}

static weft_status tiktoken_specials(tokenizer *t, int which, weft_error *err)
{
    weft_status status = no_specials(t, err);
    t->added = status == WEFT_OK ? arena_alloc(&t->store, 5 * sizeof *t->added, err) : NULL;
    if (!t->added)
        return status == WEFT_OK ? WEFT_ENOMEM : status;
    for (int i = 0; which >= 0 && i < 5 && encodings[which].special[i].text; i++) {
        const uint32_t id = encodings[which].special[i].id;
        const char *text = encodings[which].special[i].text;
        if (vocab_has(&t->vocab, id))
            continue;
        vocab_name(&t->vocab, id, text, strlen(text));
        t->special[id] = 1;
        t->added[t->n_added++] = (added){
            .content = text, .length = strlen(text), .id = id, .special = true
        };
        t->eos = t->eos < 0 ? (int32_t)id : t->eos;
    }
    return WEFT_OK;
}

static weft_status tiktoken_model(tokenizer *t, weft_error *err)
{
    bpe_cuts cuts = { .mem = &t->host->mem };
    weft_status status = WEFT_OK;
    for (uint32_t id = 0; id < t->vocab.n && status == WEFT_OK; id++)
        if (vocab_has(&t->vocab, id) && !t->special[id])
            status = bpe_cut(&cuts, &t->vocab, id, id, false, err);
    if (status == WEFT_OK)
        status = bpe_from_cuts(&t->bpe, &cuts, &t->vocab, &t->store, err);
    scratch_free(&cuts.pairs, cuts.mem);
    if (status != WEFT_OK)
        return status;
    t->kind = MODEL_BPE;
    t->bytes = t->vocab; /* spelled in exact bytes */
    bpe_take_bytes(t);
    t->bpe.whole_words = true; /* as tiktoken does; the result is the same */
    bpe_finish(&t->bpe);
    return WEFT_OK;
}

weft_status source_tiktoken(tokenizer *t, const uint8_t *data, size_t size, const char *pre,
                            weft_error *err)
{
    const int which = encoding_of(t->path);
    if (!pre && which < 0)
        return weft_fail(
            err, WEFT_EUNSUPPORTED,
            "%s: no pre-tokenizer in the file, and its name is not r50k_base, p50k_base, "
            "cl100k_base or o200k_base; give one with --pre (cl100k, llama-bpe, ...)",
            t->path);
    ranks r = { .data = data, .size = size };
    char *room = arena_alloc(&t->store, size, err);
    if (!room)
        return WEFT_ENOMEM;
    weft_status status = measure_ranks(t, &r, room, err);
    for (int i = 0; which >= 0 && i < 5 && encodings[which].special[i].text; i++) {
        const uint32_t id = encodings[which].special[i].id;
        r.n = id >= r.n ? id + 1 : r.n;
        r.bytes += strlen(encodings[which].special[i].text); /* bounded: constants */
    }
    if (status == WEFT_OK)
        status = vocab_init(&t->vocab, &t->store, r.n, r.bytes, err);
    if (status == WEFT_OK)
        status = fill_ranks(t, &r, room, err);
    if (status == WEFT_OK)
        status = tiktoken_specials(t, which, err);
    if (status == WEFT_OK)
        status = pre_apply(t, pre ? pre : encodings[which].pre, err);
    if (status == WEFT_OK)
        status = add_decoder(t, &(decoder_step){ .kind = DECODE_BYTE_LEVEL }, err);
    return status == WEFT_OK ? tiktoken_model(t, err) : status;
}

/* ---- vocab.json and merges.txt --------------------------------------------------------------- */

typedef struct merge_lines {
    const uint8_t *data;
    size_t size, at;
    bool begun;
} merge_lines;

static const char *next_merge(void *ud, size_t *n)
{
    merge_lines *m = ud;
    const char *line = next_line(m->data, m->size, &m->at, n);
    if (line && !m->begun && *n >= 8 && memcmp(line, "#version", 8) == 0)
        line = next_line(m->data, m->size, &m->at, n);
    m->begun = true;
    return line && *n == 0 && m->at >= m->size ? NULL : line; /* an empty last line */
}

static weft_status mark_end_of_text(tokenizer *t, weft_error *err)
{
    static const char name[] = "<|endoftext|>";
    const uint32_t id = vocab_find(&t->vocab, name, sizeof name - 1);
    t->added = arena_alloc(&t->store, sizeof *t->added, err);
    if (!t->added)
        return WEFT_ENOMEM;
    if (id == NO_ID)
        return WEFT_OK;
    t->special[id] = 1;
    t->bos = t->eos = (int32_t)id;
    t->n_added = 1;
    t->added[0] = (added){ .content = name, .length = sizeof name - 1, .id = id, .special = true };
    return WEFT_OK;
}

weft_status source_merges(tokenizer *t, const uint8_t *table, size_t table_size,
                          const uint8_t *merges, size_t merges_size, const char *pre,
                          weft_error *err)
{
    merge_lines m = { merges, merges_size, 0, false };
    json_section_begin(&t->host->mem);
    json_t *root = json_read(table, table_size, false, t->path, err);
    weft_status status = root ? hf_vocab(t, root, NULL, "vocab", err) : err->code;
    json_section_end();
    if (status == WEFT_OK)
        status = mark_end_of_text(t, err);
    if (status == WEFT_OK)
        status = bpe_from_lines(t, count_lines(merges, merges_size), next_merge, &m, err);
    if (status == WEFT_OK)
        status = bytes_from_stand_ins(t, err);
    if (status == WEFT_OK)
        bpe_take_bytes(t);
    if (status == WEFT_OK)
        status = pre_apply(t, pre ? pre : "gpt-2", err);
    if (status == WEFT_OK)
        status = add_decoder(t, &(decoder_step){ .kind = DECODE_BYTE_LEVEL }, err);
    if (status == WEFT_OK)
        bpe_finish(&t->bpe);
    return status;
}

/* ---- BERT's vocab.txt ------------------------------------------------------------------------ */

weft_status bert_model(tokenizer *t, const uint8_t *type, weft_error *err)
{
    wordpiece *m = &t->wordpiece;
    trie_entry *e = arena_alloc(&t->store, (size_t)t->vocab.n * sizeof *e, err);
    size_t n = 0;
    if (!e)
        return WEFT_ENOMEM;
    for (uint32_t i = 0; i < t->vocab.n; i++)
        if (!t->special[i] && t->vocab.length[i] > 0)
            e[n++] = (trie_entry){ vocab_text(&t->vocab, i), t->vocab.length[i], i };
    weft_status status = pieces_trie(t, &m->trie, e, n, err);
    if (status == WEFT_OK)
        status = sp_added(t, type, false, err);
    if (status == WEFT_OK)
        status = add_decoder(
            t,
            &(decoder_step){
                .kind = DECODE_WORDPIECE, .text = "##", .text_length = 2, .cleanup = true },
            err);
    m->inner = wordpiece_inner(&m->trie, "##", 2);
    m->longest = 100;
    t->kind = MODEL_WORDPIECE;
    t->pair = t->single;
    if (t->single.n == 3) {
        t->pair.slot[t->pair.n++] = (slot){ SLOT_B, 0, 1 };
        t->pair.slot[t->pair.n++] = (slot){ SLOT_TOKEN, t->single.slot[2].id, 1 };
    }
    return status;
}

typedef struct bert_lines {
    const char **text;
    size_t *length;
} bert_lines;

static const char *bert_text(void *ud, uint32_t i, size_t *length)
{
    const bert_lines *b = ud;
    *length = b->length[i];
    return b->text[i];
}

static weft_status read_bert(tokenizer *t, const uint8_t *data, size_t size, bert_lines *b,
                             uint8_t *type, weft_error *err)
{
    static const char *const specials[] = { "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]" };
    size_t at = 0, n;
    const char *line;
    for (uint32_t i = 0; (line = next_line(data, size, &at, &n)) != NULL; i++) {
        if (!is_utf8(line, n))
            return weft_fail(err, WEFT_EFORMAT, "%s: line %u is not UTF-8", t->path, i + 1);
        b->text[i] = line;
        b->length[i] = n;
        type[i] = PIECE_NORMAL;
        for (size_t k = 0; k < 5; k++)
            if (n == strlen(specials[k]) && memcmp(line, specials[k], n) == 0)
                type[i] = PIECE_CONTROL;
    }
    return WEFT_OK;
}

static uint32_t find_special(const tokenizer *t, const char *text)
{
    for (uint32_t i = 0; i < t->vocab.n; i++)
        if (t->special[i] && t->vocab.length[i] == strlen(text) &&
            memcmp(vocab_text(&t->vocab, i), text, strlen(text)) == 0)
            return i;
    return NO_ID;
}

weft_status source_bert(tokenizer *t, const uint8_t *data, size_t size, const char *pre,
                        weft_error *err)
{
    const size_t n = count_lines(data, size);
    bert_lines b = { 0 };
    uint8_t *type;
    const bool cased = pre && strcmp(pre, "bert-cased") == 0;
    if (pre && !cased && strcmp(pre, "bert-uncased") != 0)
        return weft_fail(err, WEFT_EUNSUPPORTED,
                         "%s: the pre-tokenizer of a WordPiece vocabulary is bert-cased or "
                         "bert-uncased, not \"%.64s\"",
                         t->path, pre);
    b.text = arena_alloc(&t->store, n * sizeof *b.text, err); /* bounded: by the file */
    b.length = arena_alloc(&t->store, n * sizeof *b.length, err);
    type = arena_alloc(&t->store, n, err);
    if (!b.text || !b.length || !type)
        return WEFT_ENOMEM;
    const normalizer_step z = {
        .kind = NORM_BERT, .clean = true, .han = true, .lower = !cased, .strip_accents = !cased
    };
    weft_status status = read_bert(t, data, size, &b, type, err);
    if (status == WEFT_OK)
        status = sp_vocab(t, n, type, bert_text, &b, err);
    if (status == WEFT_OK)
        status = add_normalizer(t, &z, err);
    if (status == WEFT_OK)
        status = add_splitter(t, &(splitter){ .kind = SPLIT_BERT }, err);
    if (status != WEFT_OK)
        return status;
    t->wordpiece.unk = find_special(t, "[UNK]");
    template_simple(t, find_special(t, "[CLS]"), find_special(t, "[SEP]"));
    return bert_model(t, type, err);
}

/* ---- OpenNMT's vocabularies of letters ------------------------------------------------------- */

static size_t letters_of(const char *line, size_t n)
{
    size_t at = 0, letters = 0, step;
    uint32_t point;
    for (; at < n && (step = utf8_decode(line + at, n - at, &point)) > 0; at += step)
        letters++;
    return at == n ? letters : 0;
}

/* The file does not say how text becomes tokens. If all tokens are letters there is only one
 * way. */
static weft_status read_letters(tokenizer *t, const uint8_t *data, size_t size, bert_lines *b,
                                uint8_t *type, uint32_t n, weft_error *err)
{
    static const char *const specials[] = { "<blank>", "<s>", "</s>" };
    size_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        b->text[i] = next_line(data, size, &at, &b->length[i]);
        type[i] = i < 3 ? PIECE_CONTROL : PIECE_NORMAL;
        if (i < 3 && (b->length[i] != strlen(specials[i]) ||
                      memcmp(b->text[i], specials[i], b->length[i]) != 0))
            return weft_fail(err, WEFT_EFORMAT, "%s: line %u is not %s", t->path, i + 1,
                             specials[i]);
        if (i >= 3 && letters_of(b->text[i], b->length[i]) != 1)
            return weft_fail(err, WEFT_EUNSUPPORTED,
                             "%s: line %u is not one letter, and the file does not say how to "
                             "split text into such tokens",
                             t->path, i + 1);
    }
    b->text[n] = "<unk>";
    b->length[n] = 5;
    type[n] = PIECE_UNKNOWN;
    return n < 3 ? weft_fail(err, WEFT_EFORMAT, "%s: %u lines are not a vocabulary", t->path, n)
                 : WEFT_OK;
}

weft_status source_letters(tokenizer *t, const uint8_t *data, size_t size, weft_error *err)
{
    const size_t n = count_lines(data, size);
    if (n >= VOCAB_MAX)
        return weft_fail(err, WEFT_EFORMAT, "%s: %zu lines are too many", t->path, n);
    bert_lines b = { 0 };
    b.text = arena_alloc(&t->store, (n + 1) * sizeof *b.text, err); /* bounded: VOCAB_MAX */
    b.length = arena_alloc(&t->store, (n + 1) * sizeof *b.length, err);
    uint8_t *type = arena_alloc(&t->store, n + 1, err);
    if (!b.text || !b.length || !type)
        return WEFT_ENOMEM;
    weft_status status = read_letters(t, data, size, &b, type, (uint32_t)n, err);
    if (status == WEFT_OK)
        status = sp_vocab(t, n + 1, type, bert_text, &b, err);
    if (status == WEFT_OK)
        status = add_splitter(t, &(splitter){ .kind = SPLIT_LENGTH, .length = 1 }, err);
    if (status == WEFT_OK)
        status = sp_added(t, type, false, err);
    t->kind = MODEL_WORDLEVEL;
    t->wordlevel.vocab = &t->vocab;
    t->wordlevel.unk = (uint32_t)n;
    t->bos = 1;
    t->eos = 2;
    return status;
}

/* ---- llama2.c -------------------------------------------------------------------------------- */

static const char *llama2c_text(void *ud, uint32_t i, size_t *length)
{
    const bert_lines *b = ud;
    *length = b->length[i];
    return b->text[i];
}

weft_status source_llama2c(tokenizer *t, const uint8_t *data, size_t size, weft_error *err)
{
    const size_t most = size / 8; /* each token takes at least 8 bytes */
    bert_lines b = { 0 };
    sp_spec s = { .fallback = true, .prefix = true, .unk = 0 };
    uint32_t n = 0;
    b.text = arena_alloc(&t->store, most * sizeof *b.text, err); /* bounded: by the file */
    b.length = arena_alloc(&t->store, most * sizeof *b.length, err);
    s.type = arena_alloc(&t->store, most, err);
    s.score = arena_alloc(&t->store, most * sizeof *s.score, err);
    if (!b.text || !b.length || !s.type || !s.score)
        return WEFT_ENOMEM;
    for (size_t at = 4; at < size; n++) {
        int32_t length = -1;
        if (checked_range(at, 8, size)) {
            memcpy(&s.score[n], data + at, 4);
            memcpy(&length, data + at + 4, 4);
        }
        if (length < 0 || !checked_range(at + 8, (uint64_t)length, size))
            return weft_fail(err, WEFT_EFORMAT,
                             "%s: not a llama2.c tokenizer: token %u is truncated at byte %zu",
                             t->path, n, at);
        b.text[n] = (const char *)data + at + 8;
        b.length[n] = (size_t)length;
        s.type[n] = n == 0                                                   ? PIECE_UNKNOWN
                    : n < 3                                                  ? PIECE_CONTROL
                    : byte_of_spelling(b.text[n], b.length[n]) == (int)n - 3 ? PIECE_BYTE
                                                                             : PIECE_NORMAL;
        at += 8 + (size_t)length;
    }
    if (n < 259)
        return weft_fail(err, WEFT_EFORMAT, "%s: not a llama2.c tokenizer: %u tokens", t->path, n);
    t->bos = 1;
    t->eos = 2;
    weft_status status = sp_vocab(t, n, s.type, llama2c_text, &b, err);
    if (status == WEFT_OK)
        status = sp_model(t, &s, err);
    template_simple(t, 1, NO_ID);
    return status;
}
