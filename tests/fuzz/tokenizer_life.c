#include "tokenizer_life.h"

#include "base/utf8.h"
#include "text/decode.h"
#include "text/encoder.h"
#include "text/finish.h"
#include "text/sources/hf_write.h"
#include "text/sources/source.h"

#include <string.h>

static weft_status load_gguf(tokenizer *t, const uint8_t *data, size_t size, host *h,
                             weft_error *err)
{
    container c = { 0 };
    weft_status status = container_begin(&c, "gguf", "input", h, err);
    if (status == WEFT_OK)
        status = gguf_parse(&c, data, size, err);
    if (status == WEFT_OK)
        status = container_index(&c, err);
    if (status == WEFT_OK)
        status = source_gguf(t, &c, NULL, err);
    if (status == WEFT_OK)
        status = tokenizer_finish(t, err);
    container_close(&c);
    return status;
}

static weft_status load(tokenizer *t, life_kind kind, const uint8_t *data, size_t size, host *h,
                        weft_error *err)
{
    const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
    const size_t first = zero ? (size_t)(zero - data) : size;
    weft_status status = tokenizer_begin(t, "input", "", h, err);
    if (status != WEFT_OK)
        return status;
    switch (kind) {
    case LIFE_JSON:
        status = source_json(t, data, size, err);
        break;
    case LIFE_SENTENCEPIECE:
        status = source_sentencepiece(t, data, size, err);
        break;
    case LIFE_TIKTOKEN:
        status = source_tiktoken(t, data, size, "cl100k", err);
        break;
    case LIFE_BERT:
        status = source_bert(t, data, size, NULL, err);
        break;
    case LIFE_LLAMA2C:
        status = source_llama2c(t, data, size, err);
        break;
    case LIFE_MERGES:
        status = source_merges(t, data, first, zero ? zero + 1 : data, zero ? size - first - 1 : 0,
                               NULL, err);
        break;
    case LIFE_LETTERS:
        status = source_letters(t, data, size, err);
        break;
    case LIFE_MARIAN:
        status = source_marian(t, zero ? zero + 1 : data, zero ? size - first - 1 : 0, data, first,
                               "vocab.json", err);
        break;
    default:
        return load_gguf(t, data, size, h, err);
    }
    return status == WEFT_OK ? tokenizer_finish(t, err) : status;
}

static const char *check_ids(const tokenizer *t, const encoding *k, size_t n)
{
    for (size_t i = 0; i < k->n; i++) {
        if (!vocab_has(&t->vocab, k->id[i]) || k->id[i] >= t->n_id)
            return "an id that is no token";
        if (k->from && (k->from[i] > k->to[i] || k->to[i] > n))
            return "a token from outside the text";
    }
    return NULL;
}

static weft_status decode_ids(const tokenizer *t, const encoding *k, host *h, weft_error *err)
{
    decode_stream d;
    const char *bytes;
    size_t n;
    weft_status status = decode_begin(&d, t, true, &h->mem, err);
    for (size_t i = 0; i < k->n && status == WEFT_OK; i++)
        status = decode_push(&d, k->id[i], &bytes, &n, err);
    if (status == WEFT_OK)
        decode_flush(&d, &bytes, &n);
    decode_end(&d);
    return status == WEFT_EUNSUPPORTED ? WEFT_OK : status; /* a step whose output was too long */
}

/* What the steps of a text say about its ids. */
typedef struct told {
    uint64_t hash; /* of the ids */
    bool outside;  /* a piece that is not in its word, or no token */
} told;

static void add_id(uint64_t *hash, uint32_t id)
{
    *hash = (*hash ^ id) * 0x100000001B3u;
}

static bool tell(void *ud, const weft_tokenizer_step *s)
{
    told *t = ud;
    const bool last = s->kind == WEFT_STEP_PIECES;
    for (size_t i = 0; i < s->n_piece; i++) {
        const weft_piece *p = &s->pieces[i];
        t->outside |= p->from > p->to || p->to > s->length || (last && p->id < 0);
        if (last)
            add_id(&t->hash, (uint32_t)p->id);
    }
    t->outside |= s->piece.to > s->length || s->left.to > s->length || s->right.to > s->length;
    if (s->kind == WEFT_STEP_ADDED)
        add_id(&t->hash, (uint32_t)s->piece.id);
    return true;
}

/* The steps lead to the ids. */
static weft_status watch(const tokenizer *t, encoder *e, const char *text, size_t n,
                         const char **wrong, weft_error *err)
{
    told seen = { 0 };
    uint64_t hash = 0;
    step_watch w = { .fn = tell,
                     .ud = &seen,
                     .n_id = t->n_id,
                     .score = t->kind == MODEL_BPE ? t->score : NULL,
                     .mem = e->mem,
                     .err = err };
    const encode_options o = { .no_template = true, .parse_special = true, .steps = &w };
    encoding k = { 0 };
    const weft_status status = encoder_encode(e, text, n, NULL, 0, &o, &k, err);
    for (size_t i = 0; i < k.n && status == WEFT_OK; i++)
        add_id(&hash, k.id[i]);
    if (status == WEFT_OK && (seen.outside || seen.hash != hash))
        *wrong = "steps that do not lead to the ids";
    steps_free(&w);
    return status;
}

static weft_status use(const tokenizer *t, const char *text, size_t n, host *h, const char **wrong,
                       weft_error *err)
{
    encoder *e = encoder_new(t, &h->mem, err);
    weft_status status = e ? WEFT_OK : err->code;
    for (unsigned way = 0; way < 9 && status == WEFT_OK && !*wrong; way++) {
        const encode_options o = {
            .no_template = way & 1, .parse_special = way & 2, .spans = way & 4, .fit = way == 7
        };
        encoding k = { 0 };
        status = way == 8 ? watch(t, e, text, n, wrong, err)
                          : encoder_encode(e, text, n, NULL, 0, &o, &k, err);
        if (status == WEFT_EINVAL || status == WEFT_ELIMIT || status == WEFT_EFORMAT ||
            status == WEFT_EUNSUPPORTED) {
            status = WEFT_OK; /* no unknown token; a step whose input or output was too long */
            continue;
        }
        if (status == WEFT_OK && !*wrong)
            *wrong = check_ids(t, &k, n);
        if (status == WEFT_OK && way == 0)
            status = decode_ids(t, &k, h, err);
    }
    encoder_free(e);
    return status;
}

/* Writes a tokenizer.json, always valid UTF-8; or refuses with a message. */
static weft_status write_again(const tokenizer *t, host *h, const char **wrong, weft_error *err)
{
    buffer b;
    buffer_begin(&b, &h->mem, err);
    weft_status status = tokenizer_write(t, &b, err);
    if (status == WEFT_OK && utf8_find_wrong((const char *)b.at, b.n) < b.n)
        *wrong = "a tokenizer.json that is not UTF-8";
    if (status == WEFT_EUNSUPPORTED && !strstr(err->message, "cannot represent") &&
        !strstr(err->message, "so no merges"))
        *wrong = "a refusal that does not say what";
    buffer_end(&b);
    return status == WEFT_EUNSUPPORTED ? WEFT_OK : status;
}

weft_status tokenizer_life(life_kind kind, const uint8_t *data, size_t size, const char *text,
                           size_t n, host *h, const char **wrong, weft_error *err)
{
    tokenizer t = { 0 };
    *wrong = NULL;
    *err = (weft_error){ 0 };
    weft_status status = load(&t, kind, data, size, h, err);
    if (status != WEFT_OK && !err->message[0])
        *wrong = "an error without a message";
    if (status == WEFT_OK)
        status = use(&t, text, n, h, wrong, err);
    if (status == WEFT_OK && !*wrong)
        status = write_again(&t, h, wrong, err);
    if (t.host)
        tokenizer_free(&t);
    return status;
}
