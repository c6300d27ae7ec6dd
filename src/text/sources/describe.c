/* describe.c - translates a tokenizer.json for GGUF's keys, or says what GGUF has no key for. */
#include "text/sources/describe.h"

#include <stdio.h>
#include <string.h>

#define MAX_PATTERN 6

typedef struct description {
    gguf_writer *w;
    const tokenizer *t;
    const json_t *root, *model;
    int64_t n_vocab;
    bool pieces; /* SentencePiece; otherwise byte level */
    host *host;
    weft_error *err;
} description;

/* ---- which kind ------------------------------------------------------------------------------ */

static const char *type_of(const json_t *step)
{
    const char *type = json_string_value(json_object_get(step, "type"));
    return type ? type : "";
}

/* Calls fn on a step, or on those of a Sequence, whose steps `field` lists. */
typedef void visit_fn(void *ud, const json_t *step);

static void visit(const json_t *step, const char *field, visit_fn *fn, void *ud)
{
    const json_t *list = json_object_get(step, field);
    if (strcmp(type_of(step), "Sequence") != 0) {
        fn(ud, step);
        return;
    }
    for (size_t i = 0; i < json_array_size(list); i++)
        visit(json_array_get(list, i), field, fn, ud);
}

typedef struct splitting {
    const char *pattern[MAX_PATTERN];
    int n;
    bool bytes, metaspace, prefix, strange;
} splitting;

static void add(splitting *s, const char *pattern)
{
    if (!pattern || s->n == MAX_PATTERN)
        s->strange = true;
    else
        s->pattern[s->n++] = pattern;
}

static void see_splitter(void *ud, const json_t *step)
{
    splitting *s = ud;
    const char *type = type_of(step);
    const char *behavior = json_string_value(json_object_get(step, "behavior"));
    if (strcmp(type, "ByteLevel") == 0) {
        s->bytes = true;
        s->strange |= json_is_true(json_object_get(step, "add_prefix_space"));
        if (!json_is_false(json_object_get(step, "use_regex")))
            add(s, pattern_gpt2);
    } else if (strcmp(type, "Split") == 0) {
        s->strange |= !behavior || strcmp(behavior, "Isolated") != 0 ||
                      json_is_true(json_object_get(step, "invert"));
        add(s, json_string_value(json_object_get(json_object_get(step, "pattern"), "Regex")));
    } else if (strcmp(type, "Digits") == 0) {
        add(s, json_is_true(json_object_get(step, "individual_digits")) ? "\\p{N}" : NULL);
    } else if (strcmp(type, "Metaspace") == 0) {
        const char *scheme = json_string_value(json_object_get(step, "prepend_scheme"));
        s->metaspace = true;
        s->prefix |= !(scheme && strcmp(scheme, "never") == 0) &&
                     !json_is_false(json_object_get(step, "add_prefix_space"));
    } else if (type[0]) {
        s->strange = true;
    }
}

static void see_normalizer(void *ud, const json_t *step)
{
    splitting *s = ud;
    const char *content = json_string_value(json_object_get(step, "content"));
    s->prefix |= strcmp(type_of(step), "Prepend") == 0;
    s->metaspace |= strcmp(type_of(step), "Replace") == 0 && content &&
                    strcmp(content, "\xE2\x96\x81") == 0;
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static int32_t kind_of(const description *d, uint32_t id)
{
    const tokenizer *t = d->t;
    if (!vocab_has(&t->vocab, id))
        return PIECE_UNUSED;
    if (d->pieces && id == t->bpe.unk)
        return PIECE_UNKNOWN;
    if (t->special[id])
        return PIECE_CONTROL;
    if (d->pieces && byte_of_spelling(vocab_text(&t->vocab, id), t->vocab.length[id]) >= 0)
        return PIECE_BYTE;
    return PIECE_NORMAL;
}

/* WordPiece's pieces: what begins a word gets a bar, what goes on loses its "##". */
static void put_word(const description *d, uint32_t id)
{
    const vocab *v = &d->t->vocab;
    const char *text = vocab_text(v, id);
    const size_t n = v->length[id];
    char bar[512];
    if (!d->t->special[id] && n > 2 && memcmp(text, "##", 2) == 0)
        gguf_add_element(d->w, text + 2, n - 2);
    else if (!d->t->special[id] && n < sizeof bar - 3)
        gguf_add_element(d->w, bar,
                         (size_t)snprintf(bar, sizeof bar, "\xE2\x96\x81%.*s", (int)n, text));
    else
        gguf_add_element(d->w, text, n);
}

static void put_tokens(const description *d)
{
    const vocab *v = &d->t->vocab;
    gguf_add_texts(d->w, "tokenizer.ggml.tokens", (uint64_t)d->n_vocab);
    for (uint32_t id = 0; id < d->n_vocab; id++) {
        char filler[24];
        if (!vocab_has(v, id))
            gguf_add_element(d->w, filler, (size_t)snprintf(filler, sizeof filler, "[PAD%u]", id));
        else if (d->t->kind == MODEL_WORDPIECE)
            put_word(d, id);
        else
            gguf_add_element(d->w, vocab_text(v, id), v->length[id]);
    }
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

/* ---- merges ---------------------------------------------------------------------------------- */

/* The tokenizer has been loaded: each merge is a pair, a text parted by a space, or "#version...",
 * which joins nothing. */
static bool is_version(const json_t *merge)
{
    return json_is_string(merge) && strncmp(json_string_value(merge), "#version", 8) == 0;
}

/* Both halves, with `between` between them. */
static void join(buffer *b, const json_t *merge, const char *between)
{
    const json_t *first = json_array_get(merge, 0), *second = json_array_get(merge, 1);
    b->n = 0;
    if (json_is_string(merge)) {
        const char *text = json_string_value(merge);
        const size_t n = json_string_length(merge);
        const char *space = memchr(text + 1, ' ', n - 1);
        buffer_put(b, text, (size_t)(space - text));
        buffer_text(b, between);
        buffer_put(b, space + 1, (size_t)(text + n - space) - 1);
    } else {
        buffer_put(b, json_string_value(first), json_string_length(first));
        buffer_text(b, between);
        buffer_put(b, json_string_value(second), json_string_length(second));
    }
}

static void put_merges(const description *d)
{
    const json_t *list = json_object_get(d->model, "merges");
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(list); i++)
        n += !is_version(json_array_get(list, i));
    buffer line;
    buffer_begin(&line, &d->host->mem, d->err);
    gguf_add_texts(d->w, "tokenizer.ggml.merges", n);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *merge = json_array_get(list, i);
        if (is_version(merge))
            continue;
        join(&line, merge, " ");
        gguf_add_element(d->w, (const char *)line.at, line.n);
    }
    d->w->entries.failed |= line.failed;
    buffer_end(&line);
}

/* SentencePiece merges the pair that makes the piece of the highest score: the order of the merges
 * is the order of the scores. Pieces that nothing makes come last. */
static weft_status put_scores(const description *d, float *score)
{
    const json_t *list = json_object_get(d->model, "merges");
    const vocab *v = &d->t->vocab;
    buffer joined;
    buffer_begin(&joined, &d->host->mem, d->err);
    for (int64_t id = 0; id < d->n_vocab; id++)
        score[id] = vocab_has(v, (uint32_t)id) && !d->t->special[id] ? -1e9f : 0;
    for (size_t i = json_array_size(list); i > 0; i--) {
        const json_t *merge = json_array_get(list, i - 1);
        if (is_version(merge))
            continue;
        join(&joined, merge, "");
        const uint32_t id = joined.failed ? NO_ID
                                          : vocab_find(v, (const char *)joined.at, joined.n);
        if (id != NO_ID)
            score[id] = -(float)(i - 1);
    }
    const bool failed = joined.failed;
    buffer_end(&joined);
    gguf_add_f32s(d->w, "tokenizer.ggml.scores", score, (uint64_t)d->n_vocab);
    return failed ? WEFT_ENOMEM : WEFT_OK;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void put_ids(const description *d, bool prefix)
{
    const template *s = &d->t->single;
    bool before = false, behind = false;
    for (int i = 0; i < s->n; i++)
        *(i == 0 ? &before : &behind) |= s->slot[i].kind == SLOT_TOKEN;
    if (d->t->bos >= 0)
        gguf_add_u32(d->w, "tokenizer.ggml.bos_token_id", (uint32_t)d->t->bos);
    if (d->t->eos >= 0)
        gguf_add_u32(d->w, "tokenizer.ggml.eos_token_id", (uint32_t)d->t->eos);
    if (d->t->bpe.unk != NO_ID)
        gguf_add_u32(d->w, "tokenizer.ggml.unknown_token_id", d->t->bpe.unk);
    gguf_add_bool(d->w, "tokenizer.ggml.add_bos_token", before);
    gguf_add_bool(d->w, "tokenizer.ggml.add_eos_token", behind);
    if (d->pieces)
        gguf_add_bool(d->w, "tokenizer.ggml.add_space_prefix", prefix);
}

static weft_status put_model(const description *d, const char *pre)
{
    mem *m = &d->host->mem;
    const bool words = d->t->kind == MODEL_WORDPIECE;
    const char *kind = words ? "bert" : d->pieces ? "llama" : "gpt2";
    int32_t *room = mem_zalloc(m, (size_t)d->n_vocab, sizeof *room, "a vocabulary", d->err);
    if (!room)
        return WEFT_ENOMEM;
    weft_status status = WEFT_OK;
    gguf_add_text(d->w, "tokenizer.ggml.model", kind, strlen(kind));
    if (pre)
        gguf_add_text(d->w, "tokenizer.ggml.pre", pre, strlen(pre));
    put_tokens(d);
    put_types(d, room);
    if (d->pieces)
        status = put_scores(d, (float *)room);
    else if (!words)
        put_merges(d);
    mem_free(m, room);
    return status;
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

/* As BERT has it, which is the only one that GGUF knows: its normaliser, its splitting, [CLS] before
 * a text and [SEP] behind it. */
static weft_status describe_words(const description *d, const char **lacks)
{
    const tokenizer *t = d->t;
    const json_t *z = json_object_get(d->root, "normalizer");
    const char *prefix = json_string_value(json_object_get(d->model, "continuing_subword_prefix"));
    const bool lower = json_is_true(json_object_get(z, "lowercase"));
    const json_t *strip = json_object_get(z, "strip_accents");
    const template *s = &t->single;
    const bool ends = s->n == 3 && s->slot[0].kind == SLOT_TOKEN && s->slot[2].kind == SLOT_TOKEN;
    *lacks = strcmp(type_of(z), "BertNormalizer") != 0 ||
                     !json_is_true(json_object_get(z, "clean_text")) ||
                     !json_is_true(json_object_get(z, "handle_chinese_chars"))
                 ? "its normaliser"
             : strcmp(type_of(json_object_get(d->root, "pre_tokenizer")), "BertPreTokenizer") != 0
                 ? "how it splits text"
             : !prefix || strcmp(prefix, "##") != 0 || !ends || t->wordpiece.unk == NO_ID
                 ? "its model"
                 : NULL;
    if (*lacks || !fits(d))
        return *lacks ? WEFT_OK : WEFT_EFORMAT;
    gguf_add_bool(d->w, "tokenizer.ggml.normalizer.lowercase", lower);
    gguf_add_bool(d->w, "tokenizer.ggml.normalizer.strip_accents",
                  json_is_boolean(strip) ? json_is_true(strip) : lower);
    gguf_add_u32(d->w, "tokenizer.ggml.unknown_token_id", t->wordpiece.unk);
    gguf_add_u32(d->w, "tokenizer.ggml.bos_token_id", s->slot[0].id);
    gguf_add_u32(d->w, "tokenizer.ggml.cls_token_id", s->slot[0].id);
    gguf_add_u32(d->w, "tokenizer.ggml.eos_token_id", s->slot[2].id);
    gguf_add_u32(d->w, "tokenizer.ggml.seperator_token_id", s->slot[2].id); /* spelled so */
    put_word_id(d, "tokenizer.ggml.mask_token_id", "[MASK]");
    return put_model(d, NULL);
}

static weft_status describe(description *d, const char **lacks)
{
    splitting s = { 0 };
    const tokenizer *t = d->t;
    if (t->kind == MODEL_WORDPIECE)
        return describe_words(d, lacks);
    visit(json_object_get(d->root, "pre_tokenizer"), "pretokenizers", see_splitter, &s);
    visit(json_object_get(d->root, "normalizer"), "normalizers", see_normalizer, &s);
    d->pieces = !s.bytes && s.metaspace && t->bpe.fallback;
    *lacks = t->kind != MODEL_BPE || (!s.bytes && !d->pieces) ? "its model" : NULL;
    if (*lacks || !fits(d))
        return *lacks ? WEFT_OK : WEFT_EFORMAT;
    char pre[PRE_NAME] = "default";
    const bool named = d->pieces ||
                       (!s.strange && pre_of_patterns(s.pattern, s.n, t->bpe.whole_words, pre));
    *lacks = named ? NULL : "how it splits text";
    put_ids(d, s.prefix);
    return put_model(d, named ? pre : NULL);
}

weft_status tokenizer_describe(gguf_writer *w, const tokenizer *t, const char *json, size_t size,
                               int64_t n_vocab, const char **lacks, weft_error *err)
{
    description d = { .w = w, .t = t, .n_vocab = n_vocab, .host = t->host, .err = err };
    json_section_begin(&t->host->mem);
    json_t *root = json_read((const uint8_t *)json, size, true, t->path, err);
    d.root = root;
    d.model = json_object_get(root, "model");
    const weft_status status = root ? describe(&d, lacks) : WEFT_EFORMAT;
    json_section_end();
    return status;
}
