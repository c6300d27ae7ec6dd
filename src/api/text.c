/* text.c - the public functions of tokenizers: check, translate, delegate. */
#include "api/api.h"
#include "text/constrain/token_trie.h"
#include "text/decode.h"
#include "text/sources/source.h"

#include <string.h>

struct weft_tokenizer {
    host host;
    tokenizer inner;
    _Atomic(encoder *) spare;     /* an idle encoder, so that a single thread creates only one */
    _Atomic(token_trie *) tokens; /* NULL until a grammar needs it */
    weft_budget *budget;          /* referenced; or NULL */
    holders holders;
};

struct weft_decoder {
    decode_stream inner;
    weft_tokenizer *tokenizer; /* referenced */
};

/* The block holds its own allocator. */
static void release(weft_tokenizer *t)
{
    host h = t->host;
    weft_budget *budget = t->budget;
    mem_free(&h.mem, t);
    weft_budget_free(budget);
}

weft_tokenizer *weft_tokenizer_load(const char *path, const weft_tokenizer_options *options,
                                    weft_error *err)
{
    weft_tokenizer_options o;
    weft_error local;
    err = begin_call(err, &local);
    if (!path) {
        weft_fail(err, WEFT_EINVAL, "no path given");
        return NULL;
    }
    if (!read_options(&o, sizeof o, options, options ? options->struct_size : 0,
                      "weft_tokenizer_options", err) ||
        !load_exists(o.load, err))
        return NULL;
    if ((unsigned)o.side > WEFT_SIDE_TARGET) {
        weft_fail(err, WEFT_EINVAL, "unknown side %d", (int)o.side);
        return NULL;
    }
    host h = { .io = io_system };
    take_memory(&h, o.ram_max, o.budget);
    weft_tokenizer *t = mem_zalloc(&h.mem, 1, sizeof *t, "tokenizer", err);
    if (!t)
        return NULL;
    t->host = h;
    t->budget = hold_budget(o.budget);
    if (tokenizer_load_side(&t->inner, path, o.side, o.pre, o.load, &t->host, err) != WEFT_OK) {
        release(t);
        return NULL;
    }
    return t;
}

static void drop_tokens(weft_tokenizer *t, token_trie *tokens)
{
    if (tokens)
        token_trie_free(tokens);
    mem_free(&t->host.mem, tokens);
}

void weft_tokenizer_free(weft_tokenizer *t)
{
    if (!t || !let_go(&t->holders))
        return;
    encoder_free(atomic_load(&t->spare));
    drop_tokens(t, atomic_load(&t->tokens));
    tokenizer_free(&t->inner);
    release(t);
}

void hold_tokenizer(weft_tokenizer *t)
{
    hold(&t->holders);
}

struct mem *tokenizer_memory(weft_tokenizer *t)
{
    return &t->host.mem;
}

/* Two threads may both make it: the first one's stays. */
const token_trie *tokenizer_tokens(weft_tokenizer *t, weft_error *err)
{
    token_trie *have = atomic_load(&t->tokens), *made;
    if (have)
        return have;
    made = mem_zalloc(&t->host.mem, 1, sizeof *made, "a trie of tokens", err);
    if (!made)
        return NULL;
    if (token_trie_init(made, &t->inner, &t->host.mem, err) != WEFT_OK) {
        mem_free(&t->host.mem, made);
        return NULL;
    }
    if (atomic_compare_exchange_strong(&t->tokens, &have, made))
        return made;
    drop_tokens(t, made);
    return have;
}

const tokenizer *tokenizer_inside(const weft_tokenizer *t)
{
    return &t->inner;
}

void weft_tokenizer_get_info(const weft_tokenizer *t, weft_tokenizer_info *info)
{
    if (!info)
        return;
    if (!t) {
        copy_result(info, info->struct_size,
                    &(weft_tokenizer_info){ .bos_id = -1, .eos_id = -1, .mask_id = -1 },
                    sizeof *info);
        return;
    }
    static const char *const models[] = { "BPE", "Unigram", "WordPiece", "WordLevel" };
    weft_tokenizer_info i = {
        .source = t->inner.source,
        .model = models[t->inner.kind],
        .n_vocab = (int32_t)t->inner.n_id,
        .bos_id = t->inner.bos,
        .eos_id = t->inner.eos,
        .byte_level = t->inner.byte_level,
        .bytes_anonymous = atomic_load(&t->host.mem.used),
        .mask_id = (int32_t)tokenizer_mask(&t->inner), /* NO_ID is -1 */
    };
    copy_result(info, info->struct_size, &i, sizeof i);
}

/* ---- encoding -------------------------------------------------------------------------------- */

/* weft_tokens and its arrays in one block, after a header for freeing it. */
typedef struct tokens_block {
    weft_tokenizer *tokenizer; /* referenced */
    weft_tokens tokens;
    _Alignas(8) char data[];
} tokens_block;

static weft_tokens *copy_out(const encoding *e, weft_tokenizer *t, weft_error *err)
{
    const size_t id_bytes = e->n * sizeof(int32_t), spans = e->from ? e->n * sizeof(weft_span) : 0;
    const size_t types = e->type ? e->n : 0; /* bounded: the encoder holds as many */
    tokens_block *b = mem_alloc(&t->host.mem, sizeof *b + id_bytes + spans + types, "tokens", err);
    if (!b)
        return NULL;
    *b = (tokens_block){ .tokenizer = t, .tokens = { .n = (int64_t)e->n } };
    hold(&t->holders);
    if (e->n > 0)
        memcpy(b->data, e->id, id_bytes);
    b->tokens.ids = (const int32_t *)b->data;
    weft_span *span = (weft_span *)(b->data + id_bytes);
    for (size_t i = 0; e->from && i < e->n; i++)
        span[i] = (weft_span){ e->from[i], e->to[i] };
    if (e->from)
        b->tokens.spans = span;
    if (e->type) {
        memcpy(b->data + id_bytes + spans, e->type, types);
        b->tokens.types = (const uint8_t *)b->data + id_bytes + spans;
    }
    return &b->tokens;
}

static bool trust_is_valid(const weft_tokenize_options *o, size_t length, weft_error *err)
{
    if ((!o->trusted && (o->n_trusted > 0 || o->n_gated > 0)) || (!o->gated && o->n_gated > 0))
        return !weft_fail(err, WEFT_EINVAL, "n_trusted or n_gated is set, but not %s",
                          o->trusted ? "gated" : "trusted");
    if (o->trusted && o->pair)
        return !weft_fail(err, WEFT_EINVAL, "trusted spans are for one text, not for pairs");
    for (size_t i = 0; i < o->n_trusted; i++) {
        const weft_span *s = &o->trusted[i];
        if (s->from >= s->to || s->to > length || (i > 0 && s->from <= s[-1].to))
            return !weft_fail(err, WEFT_EINVAL,
                              "trusted span %zu is [%u, %u); expected spans of the text in order "
                              "that do not touch",
                              i, (unsigned)s->from, (unsigned)s->to);
    }
    return true;
}

/* The arguments of an encoding, checked. */
static bool take_options(const weft_tokenizer *t, const char *text, size_t length,
                         const weft_tokenize_options *options, weft_tokenize_options *o,
                         weft_error *err)
{
    if (!t || (!text && length > 0))
        return !weft_fail(err, WEFT_EINVAL, "no %s given", t ? "text" : "tokenizer");
    if (!read_options(o, sizeof *o, options, options ? options->struct_size : 0,
                      "weft_tokenize_options", err))
        return false;
    if (!o->pair && o->pair_length > 0)
        return !weft_fail(err, WEFT_EINVAL, "pair_length is %zu, but no pair is given",
                          o->pair_length);
    return trust_is_valid(o, length, err);
}

/* Encodes with an idle encoder; w may be NULL. */
static weft_tokens *encode(weft_tokenizer *t, const char *text, size_t length,
                           const weft_tokenize_options *o, step_watch *w, weft_error *err)
{
    encoding found;
    encoder *e = atomic_exchange(&t->spare, NULL);
    if (!e)
        e = encoder_new(&t->inner, &t->host.mem, err);
    if (!e)
        return NULL;
    const encode_options inner = { .no_template = o->no_special,
                                   .parse_special = o->parse_special,
                                   .spans = o->spans || w,
                                   .fit = o->fit,
                                   .trusted = o->trusted,
                                   .n_trusted = o->n_trusted,
                                   .gated = o->gated,
                                   .n_gated = o->n_gated,
                                   .steps = w };
    weft_tokens *tokens = NULL;
    if (encoder_encode(e, text ? text : "", length, o->pair, o->pair_length, &inner, &found, err) ==
        WEFT_OK)
        tokens = copy_out(&found, t, err);
    encoder_free(atomic_exchange(&t->spare, e));
    return tokens;
}

weft_tokens *weft_tokenizer_encode(const weft_tokenizer *shared, const char *text, size_t length,
                                   const weft_tokenize_options *options, weft_error *err)
{
    weft_tokenize_options o;
    weft_error local;
    err = begin_call(err, &local);
    if (!take_options(shared, text, length, options, &o, err))
        return NULL;
    /* only its spare encoder and budget change */
    return encode((weft_tokenizer *)shared, text, length, &o, NULL, err);
}

weft_status weft_tokenizer_steps(const weft_tokenizer *shared, const char *text, size_t length,
                                 const weft_tokenize_options *options, weft_tokenizer_step_fn *fn,
                                 void *ud, weft_error *err)
{
    weft_tokenize_options o;
    weft_error local;
    err = begin_call(err, &local);
    if (!take_options(shared, text, length, options, &o, err))
        return err->code;
    if (!fn)
        return weft_fail(err, WEFT_EINVAL, "no callback given");
    weft_tokenizer *t = (weft_tokenizer *)shared;
    step_watch w = { .fn = fn,
                     .ud = ud,
                     .n_id = t->inner.n_id,
                     .score = t->inner.kind == MODEL_BPE ? t->inner.score : NULL,
                     .mem = &t->host.mem,
                     .err = err };
    weft_tokens *tokens = encode(t, text, length, &o, &w, err);
    if (tokens)
        steps_tokens(&w, tokens);
    weft_tokens_free(tokens);
    steps_free(&w);
    return err->code;
}

void weft_tokens_free(weft_tokens *tokens)
{
    if (!tokens)
        return;
    tokens_block *b = (tokens_block *)((char *)tokens - offsetof(tokens_block, tokens));
    weft_tokenizer *t = b->tokenizer;
    mem_free(&t->host.mem, b);
    weft_tokenizer_free(t);
}

/* ---- tokens ---------------------------------------------------------------------------------- */

int64_t tokenizer_bytes(const weft_tokenizer *t, int32_t id, const char **bytes)
{
    return !t || id < 0 ? -1 : tokenizer_piece(&t->inner, (uint32_t)id, bytes);
}

int64_t weft_tokenizer_piece(const weft_tokenizer *t, int32_t id, char *bytes, size_t size)
{
    const char *text;
    const int64_t n = tokenizer_bytes(t, id, &text);
    if (bytes && n > 0 && (size_t)n <= size)
        memcpy(bytes, text, (size_t)n);
    return n;
}

const char *weft_tokenizer_token(const weft_tokenizer *t, int32_t id, size_t *length)
{
    if (!t || id < 0 || !tokenizer_has(&t->inner, (uint32_t)id))
        return NULL;
    if (length)
        *length = t->inner.vocab.length[id];
    return vocab_text(&t->inner.vocab, (uint32_t)id);
}

int32_t weft_tokenizer_id(const weft_tokenizer *t, const char *token, size_t length)
{
    const uint32_t id = t && token ? tokenizer_find(&t->inner, token, length) : NO_ID;
    return id == NO_ID ? -1 : (int32_t)id;
}

bool weft_tokenizer_is_special(const weft_tokenizer *t, int32_t id)
{
    return t && id >= 0 && tokenizer_has(&t->inner, (uint32_t)id) && t->inner.special[id];
}

/* ---- decoding -------------------------------------------------------------------------------- */

weft_decoder *weft_decoder_new(const weft_tokenizer *shared, bool keep_special, weft_error *err)
{
    weft_tokenizer *t = (weft_tokenizer *)shared;
    weft_error local;
    err = begin_call(err, &local);
    if (!t) {
        weft_fail(err, WEFT_EINVAL, "no tokenizer given");
        return NULL;
    }
    weft_decoder *d = mem_zalloc(&t->host.mem, 1, sizeof *d, "a decoder", err);
    if (!d)
        return NULL;
    if (decode_begin(&d->inner, &t->inner, keep_special, &t->host.mem, err) != WEFT_OK) {
        mem_free(&t->host.mem, d);
        return NULL;
    }
    d->tokenizer = t;
    hold(&t->holders);
    return d;
}

void weft_decoder_free(weft_decoder *d)
{
    if (!d)
        return;
    weft_tokenizer *t = d->tokenizer;
    decode_end(&d->inner);
    mem_free(&t->host.mem, d);
    weft_tokenizer_free(t);
}

weft_status weft_decoder_push(weft_decoder *d, int32_t id, const char **bytes, size_t *length,
                              weft_error *err)
{
    weft_error local;
    err = begin_call(err, &local);
    if (!d || !bytes || !length)
        return weft_fail(err, WEFT_EINVAL, "no %s given", d ? "place for the text" : "decoder");
    *bytes = "";
    *length = 0;
    if (id < 0)
        return weft_fail(err, WEFT_EINVAL, "token %d is not in the vocabulary", (int)id);
    return decode_push(&d->inner, (uint32_t)id, bytes, length, err);
}

void weft_decoder_flush(weft_decoder *d, const char **bytes, size_t *length)
{
    const char *text = "";
    size_t n = 0;
    if (d)
        decode_flush(&d->inner, &text, &n);
    if (bytes)
        *bytes = text;
    if (length)
        *length = n;
}
