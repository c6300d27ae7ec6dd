/* hf_steps.c - normalizer and pre_tokenizer of a tokenizer.json. */
#include "text/sources/base64.h"
#include "text/sources/hf.h"

#include <string.h>

/* ---- normalizers ----------------------------------------------------------------------------- */

static weft_status load_charsmap(tokenizer *t, const json_t *j, const place *at, weft_error *err)
{
    const json_t *x = json_object_get(j, "precompiled_charsmap");
    if (!json_is_string(x))
        return hf_wrong(at, "precompiled_charsmap", "text", err);
    const char *s = json_string_value(x);
    size_t n = json_string_length(x), length = 0;
    uint8_t *blob = arena_alloc(&t->store, n, err);
    if (!blob)
        return WEFT_ENOMEM;
    while (n > 0 && s[n - 1] == '=')
        n--;
    uint32_t bits = 0;
    for (size_t i = 0; i < n; i++) {
        const int digit = base64_digit(s[i]);
        if (digit < 0)
            return hf_wrong(at, "precompiled_charsmap", "base64", err);
        bits = (bits & 0xFFFFFF) << 6 | (uint32_t)digit;
        if (i % 4 > 0)
            blob[length++] = (uint8_t)(bits >> (6 - 2 * (i % 4)) & 0xFF);
    }
    return charsmap_init(&t->map, &t->store, blob, length, err);
}

static weft_status replace_step(tokenizer *t, const json_t *j, int which, const place *at,
                                weft_error *err)
{
    (void)which;
    normalizer_step s = { .kind = NORM_REPLACE };
    weft_status status = hf_keep_text(t, j, "content", &s.content, &s.content_length, at, err);
    if (status == WEFT_OK)
        status = hf_pattern(t, j, at, &s.text, &s.text_length, &s.pattern, err);
    return status == WEFT_OK ? add_normalizer(t, &s, err) : status;
}

static weft_status bert_step(tokenizer *t, const json_t *j, int which, const place *at,
                             weft_error *err)
{
    (void)which;
    normalizer_step s = { .kind = NORM_BERT };
    if (!hf_bool(j, "clean_text", &s.clean, at, err) ||
        !hf_bool(j, "handle_chinese_chars", &s.han, at, err) ||
        !hf_bool(j, "lowercase", &s.lower, at, err))
        return err->code;
    s.strip_accents = s.lower;
    if (!hf_bool(j, "strip_accents", &s.strip_accents, at, err))
        return err->code;
    return add_normalizer(t, &s, err);
}

static weft_status charsmap_step(tokenizer *t, const json_t *j, int which, const place *at,
                                 weft_error *err)
{
    (void)which;
    if (t->map.unit)
        return weft_fail(err, WEFT_EUNSUPPORTED, "%s: %s: a second Precompiled", t->path, at->at);
    const weft_status status = load_charsmap(t, j, at, err);
    const normalizer_step s = { .kind = NORM_PRECOMPILED, .map = &t->map };
    return status == WEFT_OK ? add_normalizer(t, &s, err) : status;
}

static weft_status strip_step(tokenizer *t, const json_t *j, int which, const place *at,
                              weft_error *err)
{
    normalizer_step s = { .kind = NORM_STRIP };
    (void)which;
    return hf_bool(j, "strip_left", &s.left, at, err) &&
                   hf_bool(j, "strip_right", &s.right, at, err)
               ? add_normalizer(t, &s, err)
               : err->code;
}

static weft_status prepend_step(tokenizer *t, const json_t *j, int which, const place *at,
                                weft_error *err)
{
    normalizer_step s = { .kind = NORM_PREPEND };
    (void)which;
    const weft_status status = hf_keep_text(t, j, "prepend", &s.text, &s.text_length, at, err);
    return status == WEFT_OK ? add_normalizer(t, &s, err) : status;
}

static weft_status form_step(tokenizer *t, const json_t *j, int which, const place *at,
                             weft_error *err)
{
    (void)j, (void)at;
    return add_normalizer(t, &(normalizer_step){ .kind = NORM_FORM, .form = (unicode_form)which },
                          err);
}

static weft_status plain_step(tokenizer *t, const json_t *j, int which, const place *at,
                              weft_error *err)
{
    (void)j, (void)at;
    return add_normalizer(t, &(normalizer_step){ .kind = (normalizer_kind)which }, err);
}

static weft_status all_normalizers(tokenizer *t, const json_t *j, int which, const place *at,
                                   weft_error *err)
{
    (void)which;
    return hf_each(t, j, "normalizers", hf_normalizer, at, err);
}

weft_status hf_normalizer(tokenizer *t, const json_t *j, const place *at, weft_error *err)
{
    static const step_type types[] = {
        { "Sequence", "type normalizers", all_normalizers, 0 },
        { "NFC", "type", form_step, UNICODE_NFC },
        { "NFD", "type", form_step, UNICODE_NFD },
        { "NFKC", "type", form_step, UNICODE_NFKC },
        { "NFKD", "type", form_step, UNICODE_NFKD },
        { "Lowercase", "type", plain_step, NORM_LOWERCASE },
        { "StripAccents", "type", plain_step, NORM_STRIP_ACCENTS },
        { "Nmt", "type", plain_step, NORM_NMT },
        { "ByteLevel", "type", plain_step, NORM_BYTE_LEVEL },
        { "BertNormalizer", "type clean_text handle_chinese_chars strip_accents lowercase",
          bert_step, 0 },
        { "Precompiled", "type precompiled_charsmap", charsmap_step, 0 },
        { "Replace", "type pattern content", replace_step, 0 },
        { "Strip", "type strip_left strip_right", strip_step, 0 },
        { "Prepend", "type prepend", prepend_step, 0 },
        { 0 },
    };
    return hf_step(t, j, types, at, err);
}

/* ---- pre-tokenizers -------------------------------------------------------------------------- */

static const char *const behaviors[] = { "Removed", "Isolated", "MergedWithPrevious",
                                         "MergedWithNext", "Contiguous" };

static bool behavior_of(const json_t *j, split_behavior *to, const place *at, weft_error *err)
{
    int which = (int)*to;
    const bool known = hf_choice(j, "behavior", behaviors, 5, &which, at, err);
    *to = (split_behavior)which;
    return known;
}

static weft_status split_step(tokenizer *t, const json_t *j, int which, const place *at,
                              weft_error *err)
{
    (void)which;
    splitter s = { .kind = SPLIT_TEXT };
    if (!hf_bool(j, "invert", &s.invert, at, err) || !behavior_of(j, &s.behavior, at, err))
        return err->code;
    if (!json_object_get(j, "behavior"))
        return hf_wrong(at, "behavior", "text", err);
    const weft_status status = hf_pattern(t, j, at, &s.text, &s.text_length, &s.pattern, err);
    if (status != WEFT_OK)
        return status;
    if (s.pattern)
        s.kind = SPLIT_PATTERN;
    if (s.pattern && s.behavior == SPLIT_ISOLATED && !s.invert)
        s.scan = scan_of_pattern(s.text, s.text_length);
    return add_splitter(t, &s, err);
}

static weft_status byte_level_step(tokenizer *t, const json_t *j, int which, const place *at,
                                   weft_error *err)
{
    (void)which;
    bool prefix = true, trim = true, use_regex = true;
    if (!hf_bool(j, "add_prefix_space", &prefix, at, err) ||
        !hf_bool(j, "trim_offsets", &trim, at, err) ||
        !hf_bool(j, "use_regex", &use_regex, at, err))
        return err->code;
    weft_status status = WEFT_OK;
    if (prefix)
        status = add_splitter(t, &(splitter){ .kind = SPLIT_PREFIX_SPACE }, err);
    if (status == WEFT_OK && use_regex)
        status = add_pattern(t, pattern_gpt2, err);
    if (status == WEFT_OK)
        status = add_splitter(t, &(splitter){ .kind = SPLIT_BYTES }, err);
    return status;
}

bool hf_metaspace(const json_t *j, int *scheme, bool *cut, const place *at, weft_error *err)
{
    static const char *const schemes[] = { "always", "first", "never" };
    bool prefix = true;
    *cut = true;
    *scheme = PREPEND_ALWAYS;
    if (!hf_bool(j, "add_prefix_space", &prefix, at, err) || !hf_bool(j, "split", cut, at, err) ||
        !hf_choice(j, "prepend_scheme", schemes, 3, scheme, at, err))
        return false;
    if (!prefix && json_object_get(j, "prepend_scheme") && *scheme != PREPEND_NEVER) {
        weft_fail(err, WEFT_EFORMAT, "%s: %s: add_prefix_space and prepend_scheme disagree",
                  at->t->path, at->at);
        return false;
    }
    if (!prefix)
        *scheme = PREPEND_NEVER;
    return true;
}

static weft_status metaspace_step(tokenizer *t, const json_t *j, int which, const place *at,
                                  weft_error *err)
{
    (void)which;
    splitter s = { .kind = SPLIT_METASPACE };
    int scheme;
    uint32_t point;
    if (!hf_metaspace(j, &scheme, &s.cut, at, err) ||
        hf_point(j, "replacement", &point, at, err) != WEFT_OK)
        return err->code;
    s.prepend = (prepend_scheme)scheme;
    const weft_status status = hf_keep_text(t, j, "replacement", &s.text, &s.text_length, at, err);
    return status == WEFT_OK ? add_splitter(t, &s, err) : status;
}

static weft_status digits_step(tokenizer *t, const json_t *j, int which, const place *at,
                               weft_error *err)
{
    (void)which;
    bool single = false;
    if (!hf_bool(j, "individual_digits", &single, at, err))
        return err->code;
    const splitter s = { .kind = SPLIT_NUMERIC,
                         .behavior = single ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS };
    return add_splitter(t, &s, err);
}

static weft_status punctuation_step(tokenizer *t, const json_t *j, int which, const place *at,
                                    weft_error *err)
{
    splitter s = { .kind = SPLIT_PUNCTUATION, .behavior = SPLIT_ISOLATED };
    (void)which;
    return behavior_of(j, &s.behavior, at, err) ? add_splitter(t, &s, err) : err->code;
}

static weft_status delimiter_step(tokenizer *t, const json_t *j, int which, const place *at,
                                  weft_error *err)
{
    splitter s = { .kind = SPLIT_POINT, .behavior = SPLIT_REMOVED };
    (void)which;
    const weft_status status = hf_point(j, "delimiter", &s.point, at, err);
    return status == WEFT_OK ? add_splitter(t, &s, err) : status;
}

static weft_status length_step(tokenizer *t, const json_t *j, int which, const place *at,
                               weft_error *err)
{
    int64_t length = 5;
    (void)which;
    if (!hf_integer(j, "length", &length, INT32_MAX, at, err))
        return err->code;
    if (length == 0)
        return hf_wrong(at, "length", "above 0", err);
    return add_splitter(t, &(splitter){ .kind = SPLIT_LENGTH, .length = (size_t)length }, err);
}

static weft_status plain_split(tokenizer *t, const json_t *j, int which, const place *at,
                               weft_error *err)
{
    (void)j, (void)at;
    return add_splitter(t, &(splitter){ .kind = (splitter_kind)which }, err);
}

static weft_status all_splits(tokenizer *t, const json_t *j, int which, const place *at,
                              weft_error *err)
{
    (void)which;
    return hf_each(t, j, "pretokenizers", hf_pre_tokenizer, at, err);
}

weft_status hf_pre_tokenizer(tokenizer *t, const json_t *j, const place *at, weft_error *err)
{
    static const step_type types[] = {
        { "Sequence", "type pretokenizers", all_splits, 0 },
        { "BertPreTokenizer", "type", plain_split, SPLIT_BERT },
        { "Whitespace", "type", plain_split, SPLIT_WORDS },
        { "WhitespaceSplit", "type", plain_split, SPLIT_SPACE }, /* which it drops */
        { "UnicodeScripts", "type", plain_split, SPLIT_SCRIPTS },
        { "Split", "type pattern behavior invert", split_step, 0 },
        { "ByteLevel", BYTE_LEVEL_FIELDS, byte_level_step, 0 },
        { "Metaspace", METASPACE_FIELDS, metaspace_step, 0 },
        { "Digits", "type individual_digits", digits_step, 0 },
        { "Punctuation", "type behavior", punctuation_step, 0 },
        { "CharDelimiterSplit", "type delimiter", delimiter_step, 0 },
        { "Delimiter", "type delimiter", delimiter_step, 0 },
        { "FixedLength", "type length", length_step, 0 },
        { 0 },
    };
    return hf_step(t, j, types, at, err);
}
