/* bind_config.c - reads a model's configuration: GGUF keys or config.json.
 *
 * The caller passes both keys of a value and its range; the range is checked, because sizes from a
 * file decide later allocations. Values are also recorded for conversion, which writes them under
 * the other format's keys. */
#include "models/bind.h"

#include <stdio.h>
#include <string.h>

weft_status bind_fail_at(bind *b, weft_status code, const char *path, const char *format,
                         va_list args)
{
    if (b->status != WEFT_OK)
        return b->status;
    char text[400];
    vsnprintf(text, sizeof text, format, args);
    b->status = weft_fail(b->err, code, "%s: %s", path, text);
    return b->status;
}

weft_status bind_fail(bind *b, weft_status code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    bind_fail_at(b, code, b->m->file.meta_path, format, args);
    va_end(args);
    return b->status;
}

void bind_misfit(bind *b, const stored *t, weft_status code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    bind_fail_at(b, code, t ? t->path : b->m->file.path, format, args);
    va_end(args);
}

void *bind_alloc(bind *b, int64_t n, size_t size)
{
    size_t bytes;
    if (b->status != WEFT_OK)
        return NULL;
    if (__builtin_mul_overflow((size_t)n, size, &bytes)) {
        bind_fail(b, WEFT_ENOMEM, "%lld objects are more than memory can hold", (long long)n);
        return NULL;
    }
    void *p = arena_alloc(&b->m->store, bytes, b->err);
    if (!p)
        b->status = WEFT_ENOMEM;
    return p ? memset(p, 0, bytes) : NULL;
}

typedef struct found {
    const meta *entry; /* NULL: absent */
    char key[128];
} found;

static found find_value(const bind *b, const char *gguf, const char *hf)
{
    found f = { 0 };
    const char *key = b->gguf_keys ? gguf : hf;
    if (!key)
        return f;
    if (b->gguf_keys)
        snprintf(f.key, sizeof f.key, "%s.%s", b->m->name, key);
    else
        snprintf(f.key, sizeof f.key, "%s%s", b->m->text_part ? "text_config." : "", key);
    f.entry = container_meta(b->m->config, f.key);
    return f;
}

const meta *bind_entry(const bind *b, const char *hf)
{
    return b->gguf_keys ? NULL : find_value(b, NULL, hf).entry;
}

bool bind_has_key(const bind *b, const char *hf)
{
    char first[80];
    snprintf(first, sizeof first, "%s.0", hf);
    return bind_entry(b, hf) || bind_entry(b, first);
}

/* A list has its values under other keys, "key.0" and so on, so it would look absent. */
static void refuse_list(bind *b, const found *f)
{
    char first[sizeof f->key + 2];
    snprintf(first, sizeof first, "%s.0", f->key);
    if (f->key[0] && !f->entry && container_meta(b->m->config, first))
        bind_fail(b, WEFT_EFORMAT, "%s is a list; expected a number", f->key);
}

void bind_keep(bind *b, const char *gguf, const char *hf, bool is_set, meta value)
{
    export_notes *x = b->m->notes;
    if (!x || b->status != WEFT_OK)
        return;
    if (x->n_value == MAX_CONFIG_VALUE) {
        bind_fail(b, WEFT_EUNSUPPORTED, "a configuration of more than %d values", MAX_CONFIG_VALUE);
        return;
    }
    x->value[x->n_value++] = (config_value){ gguf, hf, value, is_set };
}

void bind_not_convertible(bind *b, const char *what)
{
    if (b->m->notes)
        b->m->notes->not_convertible = what;
}

int64_t bind_int(bind *b, const char *gguf, const char *hf, int64_t otherwise, int64_t lo,
                 int64_t hi)
{
    const found f = find_value(b, gguf, hf);
    refuse_list(b, &f);
    if (!f.entry && otherwise == REQUIRED) {
        bind_fail(b, WEFT_EFORMAT, "%s is missing from the configuration", f.key);
        return lo;
    }
    if (f.entry && f.entry->type != META_INT) {
        bind_fail(b, WEFT_EFORMAT, "%s is not an integer", f.key);
        return lo;
    }
    const int64_t x = f.entry ? f.entry->integer : otherwise;
    bind_keep(b, gguf, hf, f.entry, (meta){ .type = META_INT, .integer = x, .number = (double)x });
    if (x >= lo && x <= hi)
        return x;
    bind_fail(b, WEFT_EFORMAT, "%s is %lld%s, expected %lld to %lld", f.key, (long long)x,
              f.entry ? "" : " by default", (long long)lo, (long long)hi);
    return lo;
}

void bind_unused_int(bind *b, const char *hf, int64_t lo, int64_t hi)
{
    const found f = find_value(b, NULL, hf);
    refuse_list(b, &f);
    if (f.entry && (f.entry->type != META_INT || f.entry->integer < lo || f.entry->integer > hi))
        bind_fail(b, WEFT_EFORMAT, "%s is %g; expected %lld to %lld", f.key, f.entry->number,
                  (long long)lo, (long long)hi);
}

double bind_peek_real(bind *b, const char *gguf, const char *hf, double otherwise, double lo,
                      double hi)
{
    const found f = find_value(b, gguf, hf);
    refuse_list(b, &f);
    if (!f.entry)
        return otherwise;
    if (f.entry->type != META_INT && f.entry->type != META_REAL)
        bind_fail(b, WEFT_EFORMAT, "%s is not a number", f.key);
    else if (!(f.entry->number >= lo && f.entry->number <= hi)) /* rejects NaN too */
        bind_fail(b, WEFT_EFORMAT, "%s is %g; expected %g to %g", f.key, f.entry->number, lo, hi);
    else
        return f.entry->number;
    return otherwise;
}

double bind_real(bind *b, const char *gguf, const char *hf, double otherwise, double lo, double hi)
{
    const double x = bind_peek_real(b, gguf, hf, otherwise, lo, hi);
    bind_keep(b, gguf, hf, find_value(b, gguf, hf).entry, (meta){ .type = META_REAL, .number = x });
    return x;
}

double bind_epsilon(bind *b, const char *gguf, const char *hf, double otherwise)
{
    return bind_real(b, gguf, hf, otherwise, 1e-37, 0.5); /* the smallest normal float is 1.2e-38 */
}

const char *bind_peek_text(bind *b, const char *gguf, const char *hf)
{
    const found f = find_value(b, gguf, hf);
    if (!f.entry)
        return NULL;
    if (f.entry->type != META_TEXT)
        bind_fail(b, WEFT_EFORMAT, "%s is not text", f.key);
    return f.entry->type == META_TEXT ? f.entry->text : NULL;
}

const char *bind_text(bind *b, const char *gguf, const char *hf)
{
    const char *text = bind_peek_text(b, gguf, hf);
    if (text)
        bind_keep(b, gguf, hf, true,
                  (meta){ .type = META_TEXT, .text = text, .length = strlen(text) });
    return text;
}

bool bind_flag(bind *b, const char *gguf, const char *hf, bool otherwise)
{
    const found f = find_value(b, gguf, hf);
    if (f.entry && f.entry->type != META_BOOL)
        bind_fail(b, WEFT_EFORMAT, "%s is not true or false", f.key);
    const bool flag = f.entry ? f.entry->flag : otherwise;
    bind_keep(b, gguf, hf, f.entry, (meta){ .type = META_BOOL, .flag = flag });
    return flag;
}

void bind_export_flag(bind *b, const char *gguf, const char *hf, bool flag)
{
    if (!(b->gguf_keys ? gguf : hf))
        bind_keep(b, gguf, hf, true, (meta){ .type = META_BOOL, .flag = flag });
}

void bind_export_int(bind *b, const char *gguf, const char *hf, int64_t x)
{
    if (!(b->gguf_keys ? gguf : hf))
        bind_keep(b, gguf, hf, true, (meta){ .type = META_INT, .integer = x, .number = (double)x });
}

void bind_export_text(bind *b, const char *gguf, const char *hf, const char *text)
{
    if (!(b->gguf_keys ? gguf : hf))
        bind_keep(b, gguf, hf, true,
                  (meta){ .type = META_TEXT, .text = text, .length = strlen(text) });
}

void bind_implied(bind *b, const char *hf, bool flag)
{
    bind_export_flag(b, NULL, hf, flag);
}

act_kind bind_act(bind *b, const char *hf, act_kind otherwise)
{
    static const struct {
        const char *name;
        act_kind kind;
    } known[] = {
        { "silu", ACT_SILU }, { "swish", ACT_SILU },
        { "gelu", ACT_GELU }, { "gelu_new", ACT_GELU_TANH },
        { "relu", ACT_RELU }, { "gelu_pytorch_tanh", ACT_GELU_TANH },
    };
    const char *name = bind_text(b, NULL, hf);
    if (!name)
        return otherwise;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0) {
            if (known[i].kind != otherwise)
                bind_not_convertible(b, hf);
            return known[i].kind;
        }
    bind_fail(b, WEFT_EUNSUPPORTED, "%s is \"%.40s\", an unsupported activation", hf, name);
    return otherwise;
}
