/* hf_fields.c - readers for the fields of a tokenizer.json; errors give the field's place. */
#include "base/utf8.h"
#include "text/sources/hf.h"

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
            weft_fail(err, WEFT_EUNSUPPORTED, "%s: %s has an unsupported field %.64s", at->t->path,
                      at->at, key);
            return false;
        }
    }
    return true;
}

/* One of `names`, as its index. */
bool hf_choice(const json_t *j, const char *field, const char *const *names, int n, int *to,
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
        weft_fail(err, WEFT_EUNSUPPORTED, "%s: %s.%s has the unsupported value \"%.64s\"",
                  at->t->path, at->at, field, text);
    return !text;
}

weft_status hf_step(tokenizer *t, const json_t *j, const step_type *types, const place *at,
                    weft_error *err)
{
    const char *name = json_string_value(json_object_get(j, "type"));
    if (!name)
        return hf_wrong(at, "type", "text", err);
    while (types->name && strcmp(types->name, name) != 0)
        types++;
    if (!types->name)
        return weft_fail(err, WEFT_EUNSUPPORTED, "%s: %s has the unsupported type \"%.64s\"",
                         t->path, at->at, name);
    return hf_keys(j, types->fields, at, err) ? types->read(t, j, types->which, at, err)
                                              : err->code;
}

/* Runs `step` on the steps of a Sequence. */
weft_status hf_each(tokenizer *t, const json_t *j, const char *field, step_fn *step,
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
weft_status hf_pattern(tokenizer *t, const json_t *j, const place *at, const char **text, size_t *n,
                       regex **pattern, weft_error *err)
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

weft_status hf_keep_text(tokenizer *t, const json_t *j, const char *field, const char **to,
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

weft_status hf_point(const json_t *j, const char *field, uint32_t *point, const place *at,
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
