/* hf_post.c - post_processor and decoder of a tokenizer.json. */
#include "text/sources/hf.h"

#include <string.h>

/* ---- post-processors ------------------------------------------------------------------------- */

static weft_status token_id(tokenizer *t, const json_t *x, uint32_t *id, const place *at,
                            weft_error *err)
{
    *id = NO_ID;
    if (!json_is_integer(x) || json_integer_value(x) < 0 ||
        json_integer_value(x) >= (json_int_t)t->vocab.n)
        return weft_fail(err, WEFT_EFORMAT, "%s: %s inserts a token that is not in the vocabulary",
                         t->path, at->at);
    *id = (uint32_t)json_integer_value(x);
    return WEFT_OK;
}

static weft_status add_slot(template *m, slot s, const place *at, weft_error *err)
{
    if (m->n == MAX_SLOT)
        return weft_fail(err, WEFT_EUNSUPPORTED, "%s: %s inserts more than %d tokens", at->t->path,
                         at->at, MAX_SLOT);
    m->slot[m->n++] = s;
    return WEFT_OK;
}

/* { "SpecialToken": { "id", "type_id" } } or { "Sequence": { "id": "A", "type_id" } } */
static weft_status template_slot(tokenizer *t, template *m, const json_t *j, const json_t *tokens,
                                 const place *at, weft_error *err)
{
    const json_t *token = json_object_get(j, "SpecialToken"),
                 *text = json_object_get(j, "Sequence");
    const json_t *x = token ? token : text;
    const char *id = json_string_value(json_object_get(x, "id"));
    int64_t type = 0;
    if (!id)
        return hf_wrong(at, "id", "the name of a token or text", err);
    if (!hf_keys(j, token ? "SpecialToken" : "Sequence", at, err) ||
        !hf_keys(x, "id type_id", at, err) || !hf_integer(x, "type_id", &type, 255, at, err))
        return err->code;
    if (!token && strcmp(id, "A") != 0 && strcmp(id, "B") != 0)
        return hf_wrong(at, "id", "A or B", err);
    if (!token)
        return add_slot(m, (slot){ *id == 'A' ? SLOT_A : SLOT_B, 0, (int)type }, at, err);
    const json_t *special = json_object_get(tokens, id), *list = json_object_get(special, "ids");
    if (!json_is_array(list))
        return weft_fail(err, WEFT_EFORMAT, "%s: %s: token %.64s is not among special_tokens",
                         t->path, at->at, id);
    if (!hf_keys(special, "id ids tokens", at, err))
        return err->code;
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < json_array_size(list) && status == WEFT_OK; i++) {
        uint32_t number;
        status = token_id(t, json_array_get(list, i), &number, at, err);
        if (status == WEFT_OK)
            status = add_slot(m, (slot){ SLOT_TOKEN, number, (int)type }, at, err);
    }
    return status;
}

static weft_status template_of(tokenizer *t, template *m, const json_t *j, const char *field,
                               const place *at, weft_error *err)
{
    const json_t *list = json_object_get(j, field);
    if (!json_is_array(list))
        return hf_wrong(at, field, "a list", err);
    weft_status status = WEFT_OK;
    *m = (template){ 0 };
    for (size_t i = 0; i < json_array_size(list) && status == WEFT_OK; i++)
        status = template_slot(t, m, json_array_get(list, i), json_object_get(j, "special_tokens"),
                               at, err);
    const bool two = strcmp(field, "pair") == 0;
    int texts = 0;
    bool in_order = true;
    for (int i = 0; i < m->n; i++)
        if (m->slot[i].kind != SLOT_TOKEN)
            in_order &= m->slot[i].kind == (texts++ ? SLOT_B : SLOT_A);
    if (status != WEFT_OK || (in_order && texts == 1 + two))
        return status;
    if (!two)
        return weft_fail(err, WEFT_EUNSUPPORTED, "%s: %s.%s must contain its text exactly once",
                         t->path, at->at, field);
    *m = (template){ 0 }; /* unusable, which does no harm until someone encodes a pair */
    return WEFT_OK;
}

static bool alone(const tokenizer *t, const place *at, weft_error *err)
{
    if (t->single.n > 0)
        weft_fail(err, WEFT_EUNSUPPORTED, "%s: %s: a second step that inserts tokens", t->path,
                  at->at);
    return t->single.n == 0;
}

static weft_status templates(tokenizer *t, const json_t *j, int which, const place *at,
                             weft_error *err)
{
    (void)which;
    if (!alone(t, at, err))
        return err->code;
    const weft_status status = template_of(t, &t->single, j, "single", at, err);
    return status == WEFT_OK ? template_of(t, &t->pair, j, "pair", at, err) : status;
}

/* Bert: [CLS] A [SEP] B [SEP]; Roberta: <s> A </s> </s> B </s>, all of type 0. */
static weft_status classic(tokenizer *t, const json_t *j, int roberta, const place *at,
                           weft_error *err)
{
    uint32_t cls, sep;
    if (!alone(t, at, err))
        return err->code;
    weft_status status = token_id(t, json_array_get(json_object_get(j, "cls"), 1), &cls, at, err);
    if (status == WEFT_OK)
        status = token_id(t, json_array_get(json_object_get(j, "sep"), 1), &sep, at, err);
    if (status != WEFT_OK)
        return status;
    template_simple(t, cls, sep);
    t->pair = t->single;
    if (roberta)
        t->pair.slot[t->pair.n++] = (slot){ SLOT_TOKEN, sep, 0 };
    t->pair.slot[t->pair.n++] = (slot){ SLOT_B, 0, !roberta };
    t->pair.slot[t->pair.n++] = (slot){ SLOT_TOKEN, sep, !roberta };
    return WEFT_OK;
}

/* These processors trim offsets past spaces; weft's offsets cover all the text of a token. */
static weft_status offsets(tokenizer *t, const json_t *j, int which, const place *at,
                           weft_error *err)
{
    (void)t, (void)j, (void)which, (void)at, (void)err;
    return WEFT_OK;
}

static weft_status all_processors(tokenizer *t, const json_t *j, int which, const place *at,
                                  weft_error *err)
{
    (void)which;
    return hf_each(t, j, "processors", hf_post_processor, at, err);
}

weft_status hf_post_processor(tokenizer *t, const json_t *j, const place *at, weft_error *err)
{
    static const step_type types[] = {
        { "Sequence", "type processors", all_processors, 0 },
        { "ByteLevel", BYTE_LEVEL_FIELDS, offsets, 0 },
        { "TemplateProcessing", "type single pair special_tokens", templates, 0 },
        { "BertProcessing", "type sep cls", classic, false },
        { "RobertaProcessing", "type sep cls trim_offsets add_prefix_space", classic, true },
        { 0 },
    };
    return hf_step(t, j, types, at, err);
}

/* ---- decoders -------------------------------------------------------------------------------- */

static weft_status strip_decoder(tokenizer *t, const json_t *j, int which, const place *at,
                                 weft_error *err)
{
    decoder_step s = { .kind = DECODE_STRIP };
    (void)which;
    int64_t start = 0, stop = 0;
    if (hf_point(j, "content", &s.point, at, err) != WEFT_OK ||
        !hf_integer(j, "start", &start, INT32_MAX, at, err) ||
        !hf_integer(j, "stop", &stop, INT32_MAX, at, err))
        return err->code;
    s.start = (size_t)start;
    s.stop = (size_t)stop;
    if (!t->decoder.fused)
        return add_decoder(t, &s, err);
    if (stop > 0)
        return weft_fail(err, WEFT_EUNSUPPORTED, "%s: %s strips the end of the whole text", t->path,
                         at->at);
    t->decoder.strip_start = s.start;
    t->decoder.strip_point = s.point;
    return WEFT_OK;
}

static weft_status replace_decoder(tokenizer *t, const json_t *j, int which, const place *at,
                                   weft_error *err)
{
    (void)which;
    decoder_step s = { .kind = DECODE_REPLACE };
    weft_status status = hf_keep_text(t, j, "content", &s.content, &s.content_length, at, err);
    if (status == WEFT_OK)
        status = hf_pattern(t, j, at, &s.text, &s.text_length, &s.pattern, err);
    return status == WEFT_OK ? add_decoder(t, &s, err) : status;
}

static weft_status text_decoder(tokenizer *t, const json_t *j, int kind, const place *at,
                                weft_error *err)
{
    const char *field = kind == DECODE_METASPACE   ? "replacement"
                        : kind == DECODE_WORDPIECE ? "prefix"
                                                   : "suffix";
    decoder_step s = { .kind = (decoder_kind)kind };
    weft_status status = hf_keep_text(t, j, field, &s.text, &s.text_length, at, err);
    if (status != WEFT_OK)
        return status;
    if (s.text_length == 0 && kind != DECODE_WORDPIECE)
        return hf_wrong(at, field, "text that is not empty", err);
    if (!hf_bool(j, "cleanup", &s.cleanup, at, err))
        return err->code;
    if (kind == DECODE_METASPACE) {
        int scheme;
        bool cut;
        if (!hf_metaspace(j, &scheme, &cut, at, err))
            return err->code;
        s.start = scheme != PREPEND_NEVER;
    }
    return add_decoder(t, &s, err);
}

static weft_status ctc_decoder(tokenizer *t, const json_t *j, int which, const place *at,
                               weft_error *err)
{
    (void)which;
    decoder_step s = { .kind = DECODE_CTC };
    weft_status status = hf_keep_text(t, j, "pad_token", &s.text, &s.text_length, at, err);
    if (status == WEFT_OK)
        status = hf_keep_text(t, j, "word_delimiter_token", &s.content, &s.content_length, at, err);
    if (status != WEFT_OK)
        return status;
    if (s.text_length == 0 || s.content_length == 0 || t->decoder.n > 0)
        return weft_fail(err, WEFT_EUNSUPPORTED, "%s: %s: CTC without its tokens, or not first",
                         t->path, at->at);
    if (!hf_bool(j, "cleanup", &s.cleanup, at, err))
        return err->code;
    return add_decoder(t, &s, err);
}

static weft_status plain_decoder(tokenizer *t, const json_t *j, int kind, const place *at,
                                 weft_error *err)
{
    (void)j, (void)at;
    t->decoder.fused = kind == DECODE_BYTE_LEVEL; /* byte level joins all tokens */
    return add_decoder(t, &(decoder_step){ .kind = (decoder_kind)kind }, err);
}

static weft_status fuse(tokenizer *t, const json_t *j, int which, const place *at, weft_error *err)
{
    (void)j, (void)which, (void)at, (void)err;
    t->decoder.fused = true;
    return WEFT_OK;
}

static weft_status all_decoders(tokenizer *t, const json_t *j, int which, const place *at,
                                weft_error *err)
{
    (void)which;
    return hf_each(t, j, "decoders", hf_decoder, at, err);
}

weft_status hf_decoder(tokenizer *t, const json_t *j, const place *at, weft_error *err)
{
    static const step_type types[] = {
        { "Strip", "type content start stop", strip_decoder, 0 },
        { "Fuse", "type", fuse, 0 },
        { "Sequence", "type decoders", all_decoders, 0 },
        { "Replace", "type pattern content", replace_decoder, 0 },
        { "ByteFallback", "type", plain_decoder, DECODE_BYTE_FALLBACK },
        { "ByteLevel", BYTE_LEVEL_FIELDS, plain_decoder, DECODE_BYTE_LEVEL },
        { "CTC", "type pad_token word_delimiter_token cleanup", ctc_decoder, 0 },
        { "Metaspace", METASPACE_FIELDS, text_decoder, DECODE_METASPACE },
        { "WordPiece", "type prefix cleanup", text_decoder, DECODE_WORDPIECE },
        { "BPEDecoder", "type suffix", text_decoder, DECODE_SUFFIX },
        { 0 },
    };
    const char *type = json_string_value(json_object_get(j, "type"));
    if (t->decoder.fused && type && strcmp(type, "Strip") != 0 && strcmp(type, "Fuse") != 0)
        return weft_fail(err, WEFT_EUNSUPPORTED, "%s: %s: \"%.64s\" after Fuse", t->path, at->at,
                         type);
    return hf_step(t, j, types, at, err);
}
