/* hf_after.c - post_processor and decoder of a tokenizer.json. */
#include "text/hf.h"

#include <stdio.h>
#include <string.h>

/* ---- post-processors ------------------------------------------------------------------------- */

static weft_status token_id(tokenizer *t, const json_t *x, uint32_t *id, const place *at,
                            weft_error *err)
{
    if (!json_is_integer(x) || json_integer_value(x) < 0 ||
        json_integer_value(x) >= (json_int_t)t->vocab.n)
        return weft_fail(err, WEFT_EFORMAT, "%s: %s puts in a token that is not in the vocabulary",
                         t->path, at->at);
    *id = (uint32_t)json_integer_value(x);
    return WEFT_OK;
}

static weft_status add_slot(template *m, slot s, const place *at, weft_error *err)
{
    if (m->n == MAX_SLOT)
        return weft_fail(err, WEFT_EUNSUPPORTED, "%s: %s puts in more than %d tokens", at->t->path,
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
    if (!id || !hf_integer(x, "type_id", &type, 255, at, err))
        return hf_wrong(at, "id", "the name of a token or text", err);
    if (!token)
        return add_slot(m, (slot){ strcmp(id, "A") == 0 ? SLOT_A : SLOT_B, 0, (int)type }, at, err);
    const json_t *list = json_object_get(json_object_get(tokens, id), "ids");
    if (!json_is_array(list))
        return weft_fail(err, WEFT_EFORMAT, "%s: %s: token %.64s is not among special_tokens",
                         t->path, at->at, id);
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
    int texts = 0;
    for (int i = 0; i < m->n; i++)
        texts += m->slot[i].kind != SLOT_TOKEN;
    const bool two = strcmp(field, "pair") == 0;
    if (status == WEFT_OK && !two && (texts != 1 || m->n == 0))
        return weft_fail(err, WEFT_EUNSUPPORTED, "%s: %s.%s does not have its text once", t->path,
                         at->at, field);
    if (status == WEFT_OK && two && texts != 2)
        *m = (template){ 0 }; /* such a template cannot be used, and Hugging Face does not mind */
    return status;
}

/* Bert: [CLS] A [SEP] B [SEP]; Roberta: <s> A </s> </s> B </s>, all of type 0. */
static weft_status classic(tokenizer *t, const json_t *j, bool roberta, const place *at,
                           weft_error *err)
{
    uint32_t cls, sep;
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

weft_status hf_post_processor(tokenizer *t, const json_t *j, const place *at, weft_error *err)
{
    const char *type = hf_type(j, at, err);
    if (!type)
        return err->code;
    if (strcmp(type, "ByteLevel") == 0)
        return WEFT_OK; /* it moves offsets past spaces; ours cover what a token stands for */
    if (strcmp(type, "Sequence") == 0)
        return hf_each(t, j, "processors", hf_post_processor, at, err);
    const bool tagged = t->single.n > 0;
    if (tagged)
        return weft_fail(err, WEFT_EUNSUPPORTED, "%s: %s: a second step that puts in tokens",
                         t->path, at->at);
    if (strcmp(type, "TemplateProcessing") == 0) {
        const weft_status status = template_of(t, &t->single, j, "single", at, err);
        return status == WEFT_OK ? template_of(t, &t->pair, j, "pair", at, err) : status;
    }
    if (strcmp(type, "BertProcessing") == 0)
        return classic(t, j, false, at, err);
    if (strcmp(type, "RobertaProcessing") == 0)
        return classic(t, j, true, at, err);
    return hf_unknown(at, type, err);
}

/* ---- decoders -------------------------------------------------------------------------------- */

static weft_status strip_decoder(tokenizer *t, const json_t *j, bool whole, const place *at,
                                 weft_error *err)
{
    decoder_step s = { .kind = DECODE_STRIP };
    int64_t start = 0, stop = 0;
    if (hf_point(j, "content", &s.point, at, err) != WEFT_OK ||
        !hf_integer(j, "start", &start, INT32_MAX, at, err) ||
        !hf_integer(j, "stop", &stop, INT32_MAX, at, err))
        return err->code;
    s.start = (size_t)start;
    s.stop = (size_t)stop;
    if (!whole)
        return add_decoder(t, &s, err);
    if (stop > 0)
        return weft_fail(err, WEFT_EUNSUPPORTED, "%s: %s takes away from the end of the whole text",
                         t->path, at->at);
    t->decoder.strip_start = s.start;
    t->decoder.strip_point = s.point;
    return WEFT_OK;
}

static weft_status replace_decoder(tokenizer *t, const json_t *j, const place *at, weft_error *err)
{
    decoder_step s = { .kind = DECODE_REPLACE };
    weft_status status = hf_keep_text(t, j, "content", &s.content, &s.content_length, at, err);
    if (status == WEFT_OK)
        status = hf_pattern(t, j, at, &s.text, &s.text_length, &s.pattern, err);
    return status == WEFT_OK ? add_decoder(t, &s, err) : status;
}

static weft_status text_decoder(tokenizer *t, const json_t *j, decoder_kind kind, const char *field,
                                const place *at, weft_error *err)
{
    decoder_step s = { .kind = kind };
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

static weft_status ctc_decoder(tokenizer *t, const json_t *j, const place *at, weft_error *err)
{
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

static weft_status decoder_step_of(tokenizer *t, const json_t *j, bool *fused, const place *at,
                                   weft_error *err)
{
    static const struct {
        const char *type;
        decoder_kind kind;
        const char *field;
    } with_text[] = {
        { "Metaspace", DECODE_METASPACE, "replacement" },
        { "WordPiece", DECODE_WORDPIECE, "prefix" },
        { "BPEDecoder", DECODE_SUFFIX, "suffix" },
    };
    const char *type = hf_type(j, at, err);
    if (!type)
        return err->code;
    if (strcmp(type, "Strip") == 0)
        return strip_decoder(t, j, *fused, at, err);
    if (*fused && strcmp(type, "Fuse") != 0)
        return weft_fail(err, WEFT_EUNSUPPORTED, "%s: %s: \"%.64s\" behind Fuse", t->path, at->at,
                         type);
    if (strcmp(type, "Fuse") == 0) {
        *fused = true;
        return WEFT_OK;
    }
    if (strcmp(type, "Replace") == 0)
        return replace_decoder(t, j, at, err);
    if (strcmp(type, "ByteFallback") == 0)
        return add_decoder(t, &(decoder_step){ .kind = DECODE_BYTE_FALLBACK }, err);
    if (strcmp(type, "ByteLevel") == 0) {
        *fused = true; /* it joins all tokens */
        return add_decoder(t, &(decoder_step){ .kind = DECODE_BYTE_LEVEL }, err);
    }
    if (strcmp(type, "CTC") == 0)
        return ctc_decoder(t, j, at, err);
    for (size_t i = 0; i < sizeof with_text / sizeof *with_text; i++)
        if (strcmp(type, with_text[i].type) == 0)
            return text_decoder(t, j, with_text[i].kind, with_text[i].field, at, err);
    return hf_unknown(at, type, err);
}

weft_status hf_decoder(tokenizer *t, const json_t *j, const place *at, weft_error *err)
{
    bool fused = false;
    const char *type = hf_type(j, at, err);
    if (!type)
        return err->code;
    if (strcmp(type, "Sequence") != 0)
        return decoder_step_of(t, j, &fused, at, err);
    const json_t *list = json_object_get(j, "decoders");
    if (!json_is_array(list))
        return hf_wrong(at, "decoders", "a list", err);
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < json_array_size(list) && status == WEFT_OK; i++) {
        place inner = { .t = t };
        snprintf(inner.at, sizeof inner.at, "%.90s.decoders[%zu]", at->at, i);
        status = decoder_step_of(t, json_array_get(list, i), &fused, &inner, err);
    }
    return status;
}
