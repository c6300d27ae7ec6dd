/* hf_steps.c - normalizer and pre_tokenizer of a tokenizer.json. */
#include "text/base64.h"
#include "text/hf.h"

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

static weft_status replace_step(tokenizer *t, const json_t *j, const place *at, weft_error *err)
{
    normalizer_step s = { .kind = NORM_REPLACE };
    if (!hf_keys(j, "type pattern content", at, err))
        return err->code;
    weft_status status = hf_keep_text(t, j, "content", &s.content, &s.content_length, at, err);
    if (status == WEFT_OK)
        status = hf_pattern(t, j, at, &s.text, &s.text_length, &s.pattern, err);
    return status == WEFT_OK ? add_normalizer(t, &s, err) : status;
}

static weft_status bert_step(tokenizer *t, const json_t *j, const place *at, weft_error *err)
{
    normalizer_step s = { .kind = NORM_BERT };
    if (!hf_keys(j, "type clean_text handle_chinese_chars strip_accents lowercase", at, err) ||
        !hf_bool(j, "clean_text", &s.clean, at, err) ||
        !hf_bool(j, "handle_chinese_chars", &s.han, at, err) ||
        !hf_bool(j, "lowercase", &s.lower, at, err))
        return err->code;
    s.strip_accents = s.lower;
    if (!hf_bool(j, "strip_accents", &s.strip_accents, at, err))
        return err->code;
    return add_normalizer(t, &s, err);
}

static weft_status charsmap_step(tokenizer *t, const json_t *j, const place *at, weft_error *err)
{
    if (!hf_keys(j, "type precompiled_charsmap", at, err))
        return err->code;
    if (t->map.unit)
        return weft_fail(err, WEFT_EUNSUPPORTED, "%s: %s: a second Precompiled", t->path, at->at);
    const weft_status status = load_charsmap(t, j, at, err);
    const normalizer_step s = { .kind = NORM_PRECOMPILED, .map = &t->map };
    return status == WEFT_OK ? add_normalizer(t, &s, err) : status;
}

weft_status hf_normalizer(tokenizer *t, const json_t *j, const place *at, weft_error *err)
{
    static const struct {
        const char *type;
        normalizer_step step;
    } plain[] = {
        { "NFC", { .kind = NORM_FORM, .form = UNICODE_NFC } },
        { "NFD", { .kind = NORM_FORM, .form = UNICODE_NFD } },
        { "NFKC", { .kind = NORM_FORM, .form = UNICODE_NFKC } },
        { "NFKD", { .kind = NORM_FORM, .form = UNICODE_NFKD } },
        { "Lowercase", { .kind = NORM_LOWERCASE } },
        { "StripAccents", { .kind = NORM_STRIP_ACCENTS } },
        { "Nmt", { .kind = NORM_NMT } },
        { "ByteLevel", { .kind = NORM_BYTE_LEVEL } },
    };
    const char *type = hf_type(j, at, err);
    if (!type)
        return err->code;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (strcmp(type, plain[i].type) == 0)
            return hf_keys(j, "type", at, err) ? add_normalizer(t, &plain[i].step, err) : err->code;
    if (strcmp(type, "Sequence") == 0)
        return hf_keys(j, "type normalizers", at, err)
                   ? hf_each(t, j, "normalizers", hf_normalizer, at, err)
                   : err->code;
    if (strcmp(type, "BertNormalizer") == 0)
        return bert_step(t, j, at, err);
    if (strcmp(type, "Precompiled") == 0)
        return charsmap_step(t, j, at, err);
    if (strcmp(type, "Replace") == 0)
        return replace_step(t, j, at, err);
    if (strcmp(type, "Strip") == 0) {
        normalizer_step s = { .kind = NORM_STRIP };
        return hf_keys(j, "type strip_left strip_right", at, err) &&
                       hf_bool(j, "strip_left", &s.left, at, err) &&
                       hf_bool(j, "strip_right", &s.right, at, err)
                   ? add_normalizer(t, &s, err)
                   : err->code;
    }
    if (strcmp(type, "Prepend") == 0) {
        normalizer_step s = { .kind = NORM_PREPEND };
        const weft_status status = hf_keep_text(t, j, "prepend", &s.text, &s.text_length, at, err);
        return status == WEFT_OK ? add_normalizer(t, &s, err) : status;
    }
    return hf_unknown(at, type, err);
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

static weft_status split_step(tokenizer *t, const json_t *j, const place *at, weft_error *err)
{
    splitter s = { .kind = SPLIT_TEXT };
    if (!hf_keys(j, "type pattern behavior invert", at, err) ||
        !hf_bool(j, "invert", &s.invert, at, err) || !behavior_of(j, &s.behavior, at, err))
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

static weft_status byte_level_step(tokenizer *t, const json_t *j, const place *at, weft_error *err)
{
    bool prefix = true, trim = true, use_regex = true;
    if (!hf_keys(j, "type add_prefix_space trim_offsets use_regex", at, err) ||
        !hf_bool(j, "add_prefix_space", &prefix, at, err) ||
        !hf_bool(j, "trim_offsets", &trim, at, err) ||
        !hf_bool(j, "use_regex", &use_regex, at, err))
        return err->code;
    weft_status status = WEFT_OK;
    if (prefix)
        status = add_splitter(t, &(splitter){ .kind = SPLIT_PREFIX_SPACE }, err);
    if (status == WEFT_OK && use_regex)
        status = add_pattern(t, pattern_gpt2, strlen(pattern_gpt2), SPLIT_ISOLATED, false, err);
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
    if (!hf_keys(j, "type replacement str_rep add_prefix_space prepend_scheme split", at, err) ||
        !hf_bool(j, "add_prefix_space", &prefix, at, err) || !hf_bool(j, "split", cut, at, err) ||
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

static weft_status metaspace_step(tokenizer *t, const json_t *j, const place *at, weft_error *err)
{
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

static weft_status digits_step(tokenizer *t, const json_t *j, const place *at, weft_error *err)
{
    bool single = false;
    if (!hf_keys(j, "type individual_digits", at, err) ||
        !hf_bool(j, "individual_digits", &single, at, err))
        return err->code;
    const splitter s = { .kind = SPLIT_NUMERIC,
                         .behavior = single ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS };
    return add_splitter(t, &s, err);
}

static weft_status other_splits(tokenizer *t, const json_t *j, const char *type, const place *at,
                                weft_error *err)
{
    splitter s = { .behavior = SPLIT_ISOLATED };
    if (strcmp(type, "Punctuation") == 0) {
        s.kind = SPLIT_PUNCTUATION;
        return hf_keys(j, "type behavior", at, err) && behavior_of(j, &s.behavior, at, err)
                   ? add_splitter(t, &s, err)
                   : err->code;
    }
    if (strcmp(type, "CharDelimiterSplit") == 0 || strcmp(type, "Delimiter") == 0) {
        s.kind = SPLIT_POINT;
        s.behavior = SPLIT_REMOVED;
        return hf_keys(j, "type delimiter", at, err) &&
                       hf_point(j, "delimiter", &s.point, at, err) == WEFT_OK
                   ? add_splitter(t, &s, err)
                   : err->code;
    }
    if (strcmp(type, "FixedLength") == 0) {
        int64_t length = 5;
        s.kind = SPLIT_LENGTH;
        if (!hf_keys(j, "type length", at, err) ||
            !hf_integer(j, "length", &length, INT32_MAX, at, err))
            return err->code;
        if (length == 0)
            return hf_wrong(at, "length", "above 0", err);
        s.length = (size_t)length;
        return add_splitter(t, &s, err);
    }
    return hf_unknown(at, type, err);
}

weft_status hf_pre_tokenizer(tokenizer *t, const json_t *j, const place *at, weft_error *err)
{
    static const struct {
        const char *type;
        splitter step;
    } plain[] = {
        { "BertPreTokenizer", { .kind = SPLIT_BERT } },
        { "Whitespace", { .kind = SPLIT_WORDS } },
        { "WhitespaceSplit", { .kind = SPLIT_SPACE, .behavior = SPLIT_REMOVED } },
        { "UnicodeScripts", { .kind = SPLIT_SCRIPTS } },
    };
    const char *type = hf_type(j, at, err);
    if (!type)
        return err->code;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (strcmp(type, plain[i].type) == 0)
            return hf_keys(j, "type", at, err) ? add_splitter(t, &plain[i].step, err) : err->code;
    if (strcmp(type, "Sequence") == 0)
        return hf_keys(j, "type pretokenizers", at, err)
                   ? hf_each(t, j, "pretokenizers", hf_pre_tokenizer, at, err)
                   : err->code;
    if (strcmp(type, "Split") == 0)
        return split_step(t, j, at, err);
    if (strcmp(type, "ByteLevel") == 0)
        return byte_level_step(t, j, at, err);
    if (strcmp(type, "Metaspace") == 0)
        return metaspace_step(t, j, at, err);
    if (strcmp(type, "Digits") == 0)
        return digits_step(t, j, at, err);
    return other_splits(t, j, type, at, err);
}
