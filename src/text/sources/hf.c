/* hf.c - loads the parts of a tokenizer.json in order. */
#include "text/sources/hf.h"

#include <string.h>

static bool direction(const json_t *j, const char *field, bool *left, const place *at,
                      weft_error *err)
{
    const char *text = "Right";
    size_t n;
    if (!hf_text(j, field, &text, &n, at, err))
        return false;
    *left = strcmp(text, "Left") == 0;
    if (!*left && strcmp(text, "Right") != 0)
        return hf_wrong(at, field, "Left or Right", err) == WEFT_OK;
    return true;
}

/* Loaded strictly: a caller that asks for truncation gets exactly what the file says. */
static weft_status load_truncation(tokenizer *t, const json_t *j, weft_error *err)
{
    const place at = { .t = t, .at = "truncation" };
    const char *strategy = "LongestFirst";
    size_t n;
    int64_t stride = 0, most = 0;
    if (!j || json_is_null(j))
        return WEFT_OK;
    if (!hf_keys(j, "direction max_length strategy stride", &at, err) ||
        !direction(j, "direction", &t->fit.from_left, &at, err) ||
        !hf_text(j, "strategy", &strategy, &n, &at, err) ||
        !hf_integer(j, "stride", &stride, INT32_MAX, &at, err) ||
        !hf_integer(j, "max_length", &most, INT32_MAX, &at, err))
        return err->code;
    if (strcmp(strategy, "LongestFirst") != 0 || stride != 0)
        return weft_fail(err, WEFT_EUNSUPPORTED,
                         "%s: unsupported truncation %.32s with stride %lld; expected LongestFirst "
                         "with stride 0",
                         t->path, strategy, (long long)stride);
    t->fit.max_length = most;
    return WEFT_OK;
}

static weft_status load_padding(tokenizer *t, const json_t *j, weft_error *err)
{
    const place at = { .t = t, .at = "padding" };
    int64_t id = 0, type = 0, multiple = 0, fixed = 0;
    if (!j || json_is_null(j))
        return WEFT_OK;
    const json_t *strategy = json_object_get(j, "strategy");
    if (!hf_keys(j, "strategy direction pad_to_multiple_of pad_id pad_type_id pad_token", &at,
                 err) ||
        !direction(j, "direction", &t->fit.pad_left, &at, err) ||
        !hf_integer(j, "pad_id", &id, t->vocab.n ? (int64_t)t->vocab.n - 1 : 0, &at, err) ||
        !hf_integer(j, "pad_type_id", &type, 255, &at, err) ||
        !hf_integer(j, "pad_to_multiple_of", &multiple, 65536, &at, err))
        return err->code;
    if (json_is_object(strategy)) {
        if (!hf_integer(strategy, "Fixed", &fixed, 1 << 20, &at, err) ||
            !hf_keys(strategy, "Fixed", &at, err))
            return err->code;
    } else if (!json_is_string(strategy) ||
               strcmp(json_string_value(strategy), "BatchLongest") != 0) {
        return hf_wrong(&at, "strategy", "BatchLongest or Fixed", err);
    }
    t->fit.pad_to = fixed;
    t->fit.pad_multiple = multiple;
    t->fit.pad_id = (uint32_t)id;
    t->fit.pad_type = (uint32_t)type;
    return WEFT_OK;
}

static weft_status
part(tokenizer *t, const json_t *root, const char *field,
     weft_status (*load)(tokenizer *, const json_t *, const place *, weft_error *), weft_error *err)
{
    const json_t *j = json_object_get(root, field);
    place at = { .t = t };
    strcpy(at.at, field);
    return j && !json_is_null(j) ? load(t, j, &at, err) : WEFT_OK;
}

static weft_status check_version(const tokenizer *t, const json_t *root, weft_error *err)
{
    const char *version = json_string_value(json_object_get(root, "version"));
    if (version && strcmp(version, "1.0") != 0)
        return weft_fail(err, WEFT_EUNSUPPORTED, "%s: version \"%.32s\"; expected 1.0", t->path,
                         version);
    return WEFT_OK;
}

weft_status hf_load(tokenizer *t, json_t *root, weft_error *err)
{
    const json_t *model = json_object_get(root, "model");
    const json_t *list = json_object_get(root, "added_tokens");
    if (!json_is_object(model))
        return weft_fail(err, WEFT_EFORMAT, "%s: not a tokenizer.json: no \"model\"", t->path);
    const place top = { .t = t, .at = "the file" };
    if (!hf_keys(root,
                 "version truncation padding added_tokens normalizer pre_tokenizer post_processor "
                 "decoder model",
                 &top, err))
        return err->code;
    weft_status status = check_version(t, root, err);
    if (status == WEFT_OK)
        status = hf_vocab(t, json_object_get(model, "vocab"), list, "model.vocab", err);
    if (status == WEFT_OK)
        status = part(t, root, "normalizer", hf_normalizer, err);
    if (status == WEFT_OK)
        status = part(t, root, "pre_tokenizer", hf_pre_tokenizer, err);
    if (status == WEFT_OK)
        status = part(t, root, "post_processor", hf_post_processor, err);
    if (status == WEFT_OK)
        status = part(t, root, "decoder", hf_decoder, err);
    if (status == WEFT_OK)
        status = hf_model(t, model, err);
    if (status == WEFT_OK)
        status = load_truncation(t, json_object_get(root, "truncation"), err);
    if (status == WEFT_OK)
        status = load_padding(t, json_object_get(root, "padding"), err);
    t->decoder.spaced = !json_is_object(json_object_get(root, "decoder"));
    if (t->single.n == 0)
        template_simple(t, NO_ID, NO_ID);
    if (t->pair.n == 0 && !json_is_object(json_object_get(root, "post_processor"))) {
        t->pair.slot[t->pair.n++] = (slot){ SLOT_A, 0, 0 };
        t->pair.slot[t->pair.n++] = (slot){ SLOT_B, 0, 1 };
    }
    return status;
}
