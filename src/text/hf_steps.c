/* hf_steps.c - normalizer, pre_tokenizer, post_processor and decoder of a tokenizer.json. */
#include "base/utf8.h"
#include "text/hf.h"

#include <stdio.h>
#include <string.h>

/* ---- fields ---------------------------------------------------------------------------------- */

weft_status hf_wrong(const place *at, const char *field, const char *expected, weft_error *err)
{
    return weft_fail(err, WEFT_EFORMAT, "%s: %s.%s is missing or not %s", at->t->path, at->at,
                     field, expected);
}

static const json_t *get(const json_t *j, const char *field)
{
    const json_t *x = json_object_get(j, field);
    return x && !json_is_null(x) ? x : NULL;
}

bool hf_bool(const json_t *j, const char *field, bool *to, const place *at, weft_error *err)
{
    const json_t *x = get(j, field);
    if (x && !json_is_boolean(x))
        return hf_wrong(at, field, "true or false", err) == WEFT_OK;
    if (x)
        *to = json_is_true(x);
    return true;
}

bool hf_text(const json_t *j, const char *field, const char **to, size_t *n, const place *at,
             weft_error *err)
{
    const json_t *x = get(j, field);
    if (x && !json_is_string(x))
        return hf_wrong(at, field, "text", err) == WEFT_OK;
    if (x) {
        *to = json_string_value(x);
        *n = json_string_length(x);
    }
    return true;
}

bool hf_integer(const json_t *j, const char *field, int64_t *to, int64_t most, const place *at,
                weft_error *err)
{
    const json_t *x = get(j, field);
    if (x && (!json_is_integer(x) || json_integer_value(x) < 0 || json_integer_value(x) > most)) {
        weft_fail(err, WEFT_EFORMAT, "%s: %s.%s is not an integer from 0 to %lld", at->t->path,
                  at->at, field, (long long)most);
        return false;
    }
    if (x)
        *to = json_integer_value(x);
    return true;
}

static bool among(const char *key, const char *keys)
{
    const size_t n = strlen(key);
    for (const char *k = keys; k; k = strchr(k, ' ')) {
        k += *k == ' ';
        if (strncmp(k, key, n) == 0 && (k[n] == ' ' || !k[n]))
            return true;
    }
    return false;
}

bool hf_keys(const json_t *j, const char *keys, const place *at, weft_error *err)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)j, key, value)
    {
        (void)value;
        if (!among(key, keys)) {
            weft_fail(err, WEFT_EUNSUPPORTED, "%s: %s has a field %.64s, which is not known",
                      at->t->path, at->at, key);
            return false;
        }
    }
    return true;
}

static weft_status unknown(const place *at, const char *type, weft_error *err)
{
    return weft_fail(err, WEFT_EUNSUPPORTED, "%s: %s is of type \"%.64s\", which is not known",
                     at->t->path, at->at, type);
}

/* One of `names`, which are parted by spaces, as its number. */
static bool hf_choice(const json_t *j, const char *field, const char *const *names, int n, int *to,
                      const place *at, weft_error *err)
{
    const char *text = NULL;
    size_t length;
    if (!hf_text(j, field, &text, &length, at, err))
        return false;
    for (int i = 0; i < n && text; i++)
        if (strcmp(text, names[i]) == 0) {
            *to = i;
            return true;
        }
    if (text)
        weft_fail(err, WEFT_EUNSUPPORTED, "%s: %s.%s is \"%.64s\", which is not known", at->t->path,
                  at->at, field, text);
    return !text;
}

static const char *type_of(const json_t *j, const place *at, weft_error *err)
{
    const char *type = json_string_value(json_object_get(j, "type"));
    if (!type)
        hf_wrong(at, "type", "text", err);
    return type;
}

typedef weft_status step_fn(tokenizer *t, const json_t *j, const place *at, weft_error *err);

/* The steps of a Sequence. */
static weft_status each(tokenizer *t, const json_t *j, const char *field, step_fn *step,
                        const place *at, weft_error *err)
{
    const json_t *list = json_object_get(j, field);
    if (!json_is_array(list))
        return hf_wrong(at, field, "a list", err);
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < json_array_size(list) && status == WEFT_OK; i++) {
        place inner = { .t = t };
        snprintf(inner.at, sizeof inner.at, "%.80s.%.16s[%zu]", at->at, field, i);
        status = step(t, json_array_get(list, i), &inner, err);
    }
    return status;
}

/* { "String": "..." } or { "Regex": "..." } */
static weft_status pattern_of(tokenizer *t, const json_t *j, const place *at, const char **text,
                              size_t *n, regex **pattern, weft_error *err)
{
    const json_t *p = json_object_get(j, "pattern");
    const json_t *plain = json_object_get(p, "String"), *re = json_object_get(p, "Regex");
    const json_t *x = plain ? plain : re;
    if (!json_is_string(x) || json_object_size(p) != 1)
        return hf_wrong(at, "pattern", "a String or a Regex", err);
    if (json_string_length(x) == 0)
        return weft_fail(err, WEFT_EUNSUPPORTED, "%s: %s.pattern is empty", t->path, at->at);
    *text = tokenizer_text(t, json_string_value(x), json_string_length(x), err);
    *n = json_string_length(x);
    if (!*text)
        return WEFT_ENOMEM;
    if (plain)
        return WEFT_OK;
    weft_error why = { 0 };
    *pattern = regex_new(*text, *n, &t->host->mem, &why);
    if (!*pattern)
        return weft_fail(err, why.code, "%s: %s.pattern: %.300s", t->path, at->at, why.message);
    return WEFT_OK;
}

static weft_status keep_text(tokenizer *t, const json_t *j, const char *field, const char **to,
                             size_t *n, const place *at, weft_error *err)
{
    const char *text = NULL;
    if (!hf_text(j, field, &text, n, at, err))
        return err->code;
    if (!text)
        return hf_wrong(at, field, "text", err);
    *to = tokenizer_text(t, text, *n, err);
    return *to ? WEFT_OK : WEFT_ENOMEM;
}

static weft_status one_point(const json_t *j, const char *field, uint32_t *point, const place *at,
                             weft_error *err)
{
    const char *text = NULL;
    size_t n = 0;
    if (!hf_text(j, field, &text, &n, at, err))
        return err->code;
    if (!text || n == 0 || utf8_decode(text, n, point) != n)
        return hf_wrong(at, field, "one character", err);
    return WEFT_OK;
}

/* ---- normalizers ----------------------------------------------------------------------------- */

static int base64_digit(char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

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
    weft_status status = keep_text(t, j, "content", &s.content, &s.content_length, at, err);
    if (status == WEFT_OK)
        status = pattern_of(t, j, at, &s.text, &s.text_length, &s.pattern, err);
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
    const char *type = type_of(j, at, err);
    if (!type)
        return err->code;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (strcmp(type, plain[i].type) == 0)
            return hf_keys(j, "type", at, err) ? add_normalizer(t, &plain[i].step, err) : err->code;
    if (strcmp(type, "Sequence") == 0)
        return hf_keys(j, "type normalizers", at, err)
                   ? each(t, j, "normalizers", hf_normalizer, at, err)
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
        const weft_status status = keep_text(t, j, "prepend", &s.text, &s.text_length, at, err);
        return status == WEFT_OK ? add_normalizer(t, &s, err) : status;
    }
    return unknown(at, type, err);
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
    const weft_status status = pattern_of(t, j, at, &s.text, &s.text_length, &s.pattern, err);
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

static bool metaspace_fields(const json_t *j, int *scheme, bool *cut, const place *at,
                             weft_error *err)
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
    if (!metaspace_fields(j, &scheme, &s.cut, at, err) ||
        one_point(j, "replacement", &point, at, err) != WEFT_OK)
        return err->code;
    s.prepend = (prepend_scheme)scheme;
    const weft_status status = keep_text(t, j, "replacement", &s.text, &s.text_length, at, err);
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
                       one_point(j, "delimiter", &s.point, at, err) == WEFT_OK
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
    return unknown(at, type, err);
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
    const char *type = type_of(j, at, err);
    if (!type)
        return err->code;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (strcmp(type, plain[i].type) == 0)
            return hf_keys(j, "type", at, err) ? add_splitter(t, &plain[i].step, err) : err->code;
    if (strcmp(type, "Sequence") == 0)
        return hf_keys(j, "type pretokenizers", at, err)
                   ? each(t, j, "pretokenizers", hf_pre_tokenizer, at, err)
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
    const char *type = type_of(j, at, err);
    if (!type)
        return err->code;
    if (strcmp(type, "ByteLevel") == 0)
        return WEFT_OK; /* it moves offsets past spaces; ours cover what a token stands for */
    if (strcmp(type, "Sequence") == 0)
        return each(t, j, "processors", hf_post_processor, at, err);
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
    return unknown(at, type, err);
}

/* ---- decoders -------------------------------------------------------------------------------- */

static weft_status strip_decoder(tokenizer *t, const json_t *j, bool whole, const place *at,
                                 weft_error *err)
{
    decoder_step s = { .kind = DECODE_STRIP };
    int64_t start = 0, stop = 0;
    if (one_point(j, "content", &s.point, at, err) != WEFT_OK ||
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
    weft_status status = keep_text(t, j, "content", &s.content, &s.content_length, at, err);
    if (status == WEFT_OK)
        status = pattern_of(t, j, at, &s.text, &s.text_length, &s.pattern, err);
    return status == WEFT_OK ? add_decoder(t, &s, err) : status;
}

static weft_status text_decoder(tokenizer *t, const json_t *j, decoder_kind kind, const char *field,
                                const place *at, weft_error *err)
{
    decoder_step s = { .kind = kind };
    weft_status status = keep_text(t, j, field, &s.text, &s.text_length, at, err);
    if (status != WEFT_OK)
        return status;
    if (s.text_length == 0 && kind != DECODE_WORDPIECE)
        return hf_wrong(at, field, "text that is not empty", err);
    if (!hf_bool(j, "cleanup", &s.cleanup, at, err))
        return err->code;
    if (kind == DECODE_METASPACE) {
        int scheme;
        bool cut;
        if (!metaspace_fields(j, &scheme, &cut, at, err))
            return err->code;
        s.start = scheme != PREPEND_NEVER;
    }
    return add_decoder(t, &s, err);
}

static weft_status ctc_decoder(tokenizer *t, const json_t *j, const place *at, weft_error *err)
{
    decoder_step s = { .kind = DECODE_CTC };
    weft_status status = keep_text(t, j, "pad_token", &s.text, &s.text_length, at, err);
    if (status == WEFT_OK)
        status = keep_text(t, j, "word_delimiter_token", &s.content, &s.content_length, at, err);
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
    const char *type = type_of(j, at, err);
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
    return unknown(at, type, err);
}

weft_status hf_decoder(tokenizer *t, const json_t *j, const place *at, weft_error *err)
{
    bool fused = false;
    const char *type = type_of(j, at, err);
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
