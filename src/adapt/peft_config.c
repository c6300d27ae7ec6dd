/* peft_config.c - reads an adapter_config.json: first checks that every key is known and that weft
 * does all that they ask for, then reads the values. */
#include "adapt/peft_config.h"

#include "adapt/peft_keys.h"
#include "formats/recognise.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define MAX_PATTERN 4096  /* in a list: more than any model has modules of one kind */
#define MAX_RANK    65536 /* PEFT has no limit, but a rank above the width of a matrix is no use */

/* ---- one value ------------------------------------------------------------------------------- */

static const char *kind_of(const meta *m)
{
    return m->type == META_BOOL ? "a flag" : m->type == META_TEXT ? "text" : "a number";
}

static weft_status wrong(const peft_config *c, const char *key, const char *found,
                         const char *expected, weft_error *err)
{
    return weft_fail(err, WEFT_EFORMAT,
                     "%s: %.100s is %.100s; expected %s; save the adapter again with PEFT", c->path,
                     key, found, expected);
}

static weft_status read_flag(const peft_config *c, const char *key, bool *to, weft_error *err)
{
    const meta *m = container_meta(&c->file, key);
    if (m && m->type != META_BOOL)
        return wrong(c, key, kind_of(m), "true or false", err);
    *to = m && m->flag;
    return WEFT_OK;
}

/* NULL if there is none. */
static weft_status read_text(const peft_config *c, const char *key, const char **to,
                             weft_error *err)
{
    const meta *m = container_meta(&c->file, key);
    *to = m && m->type == META_TEXT ? m->text : NULL;
    if (m && !*to)
        return wrong(c, key, kind_of(m), "text", err);
    return *to && strlen(*to) != m->length ? wrong(c, key, "text with a NUL", "text", err)
                                           : WEFT_OK;
}

static weft_status check_rank(const peft_config *c, const meta *m, weft_error *err)
{
    char found[32];
    snprintf(found, sizeof found, "%.17g", m->number);
    if (m->type == META_INT && m->integer >= 1 && m->integer <= MAX_RANK)
        return WEFT_OK;
    const bool number = m->type == META_INT || m->type == META_REAL;
    return wrong(c, m->key, number ? found : kind_of(m), "a rank from 1 to 65536", err);
}

static weft_status check_alpha(const peft_config *c, const meta *m, weft_error *err)
{
    const bool number = m->type == META_INT || m->type == META_REAL;
    if (number && isfinite(m->number) && fabs(m->number) <= 1e9)
        return WEFT_OK;
    return wrong(c, m->key, number ? "out of range" : kind_of(m), "a number up to 1e9", err);
}

/* ---- lists ----------------------------------------------------------------------------------- */

/* Would a regular expression of these characters be more than a name in which a dot is any
 * character? */
static bool is_plain(const char *text)
{
    return !text[strcspn(text, "\\[](){}*+?|^$")];
}

/* A pattern that matches a whole name: before + text + after. */
static regex *compile(peft_config *c, const char *key, const char *before, const char *text,
                      const char *after, weft_error *err)
{
    char pattern[2048];
    weft_error why = { 0 };
    const int n = snprintf(pattern, sizeof pattern, "%s%s%s", before, text, after);
    if (n < 0 || (size_t)n >= sizeof pattern) {
        weft_fail(err, WEFT_EUNSUPPORTED,
                  "%s: %.60s has a regular expression of more than 2000 bytes; expected a shorter "
                  "one; list the modules instead",
                  c->path, key);
        return NULL;
    }
    regex *re = regex_new(pattern, (size_t)n, &c->file.host->mem, &why);
    if (!re && why.code == WEFT_ENOMEM)
        weft_fail(err, WEFT_ENOMEM, "%s", why.message);
    else if (!re)
        weft_fail(err, why.code,
                  "%s: the regular expression of %.60s cannot be read (%.200s); expected one that "
                  "means the same to weft as to Python; list the modules instead",
                  c->path, key, why.message);
    return re;
}

/* Room for the entries below `key`, and their number. */
static weft_status begin_list(peft_config *c, const char *key, peft_patterns *list, int64_t *count,
                              weft_error *err)
{
    const size_t length = strlen(key);
    int64_t n = container_meta(&c->file, key) ? 1 : 0;
    for (int64_t i = 0; i < c->file.n_entry; i++) {
        const char *k = c->file.entry[i].key;
        n += strncmp(k, key, length) == 0 && k[length] == '.'; /* bounded: by the entries */
    }
    *count = n;
    if (n > MAX_PATTERN)
        return weft_fail(err, WEFT_EUNSUPPORTED,
                         "%s: %s has %lld entries; expected at most %d; name modules by their ends",
                         c->path, key, (long long)n, MAX_PATTERN);
    const size_t bytes = (size_t)n * sizeof *list->at; /* bounded: n <= MAX_PATTERN */
    list->at = n ? arena_alloc(c->file.store, bytes, err) : NULL;
    return n && !list->at ? WEFT_ENOMEM : WEFT_OK;
}

/* An element of the list `key`, which may also be one value instead of a list. NULL with err filled
 * if there is none: what has n entries is an object then, or has a null. */
static const meta *element(const peft_config *c, const char *key, int64_t i, weft_error *err)
{
    char name[64];
    const meta *one = container_meta(&c->file, key);
    snprintf(name, sizeof name, "%s.%lld", key, (long long)i);
    const meta *m = one && i == 0 ? one : container_meta(&c->file, name);
    if (!m)
        wrong(c, key, "an object, or has a null", "a list", err);
    return m;
}

/* A list of names, or one. */
static weft_status read_names(peft_config *c, const char *key, peft_patterns *list, weft_error *err)
{
    int64_t n;
    weft_status status = begin_list(c, key, list, &n, err);
    while (status == WEFT_OK && list->n < n) {
        const meta *m = element(c, key, list->n, err);
        peft_pattern *p = &list->at[list->n];
        *p = (peft_pattern){ 0 };
        status = m ? read_text(c, m->key, &p->text, err) : WEFT_EFORMAT;
        if (status == WEFT_OK && !p->text[0])
            status = wrong(c, m->key, "empty", "the name of a module", err);
        list->n += status == WEFT_OK; /* bounded: by n */
    }
    return status;
}

/* The same, where a text is a regular expression for a whole name. */
static weft_status read_modules(peft_config *c, const char *key, peft_patterns *list,
                                weft_error *err)
{
    weft_status status = read_names(c, key, list, err);
    if (status != WEFT_OK || !container_meta(&c->file, key))
        return status;
    peft_pattern *p = &list->at[0];
    p->re = compile(c, key, "\\A(?:", p->text, ")\\z", err);
    return p->re ? WEFT_OK : err->code;
}

/* An object of patterns and numbers. */
static weft_status read_patterns(peft_config *c, const char *key, peft_patterns *list, bool ranks,
                                 weft_error *err)
{
    int64_t n;
    const size_t length = strlen(key);
    weft_status status = begin_list(c, key, list, &n, err);
    if (status == WEFT_OK && container_meta(&c->file, key))
        return wrong(c, key, "one value", "an object of patterns", err);
    for (int64_t i = 0; status == WEFT_OK && i < c->file.n_entry; i++) {
        const meta *m = &c->file.entry[i];
        if (strncmp(m->key, key, length) != 0 || m->key[length] != '.')
            continue;
        peft_pattern *p = &list->at[list->n];
        const char *text = m->key + length + 1; /* bounded: the key and a dot */
        *p = (peft_pattern){ .text = text, .number = m->number };
        status = ranks ? check_rank(c, m, err) : check_alpha(c, m, err);
        if (status != WEFT_OK || is_plain(p->text)) {
            list->n++;
            continue;
        }
        p->re = compile(c, key, "\\A(?:.*\\.)?(?:", p->text, ")\\z", err);
        status = p->re ? WEFT_OK : err->code;
        list->n++;
    }
    return status;
}

static weft_status read_layers(peft_config *c, weft_error *err)
{
    static const char key[] = "layers_to_transform";
    int64_t n;
    weft_status status = begin_list(c, key, &c->layers, &n, err);
    while (status == WEFT_OK && c->layers.n < n) {
        const meta *m = element(c, key, c->layers.n, err);
        if (!m)
            return WEFT_EFORMAT;
        if (m->type != META_INT || m->integer < 0 || m->integer > INT32_MAX)
            return wrong(c, m->key, kind_of(m), "the number of a layer", err);
        c->layers.at[c->layers.n++] = (peft_pattern){ .text = m->key, .number = m->number };
    }
    if (status == WEFT_OK)
        status = read_names(c, "layers_pattern", &c->layer_lists, err);
    for (int64_t i = 0; status == WEFT_OK && i < c->layer_lists.n; i++) {
        peft_pattern *p = &c->layer_lists.at[i];
        p->re = compile(c, "layers_pattern", "\\A(?:|.*?\\.)(?:", p->text, ")\\.[0-9]+\\.", err);
        status = p->re ? WEFT_OK : err->code;
    }
    return status;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static weft_status read_scale(peft_config *c, weft_error *err)
{
    const meta *r = container_meta(&c->file, "r"), *alpha = container_meta(&c->file, "lora_alpha");
    const meta eight = { .key = "r", .type = META_INT, .integer = 8, .number = 8 }; /* PEFT's */
    r = r ? r : &eight;
    alpha = alpha ? alpha : &eight;
    weft_status status = check_rank(c, r, err);
    if (status == WEFT_OK)
        status = check_alpha(c, alpha, err);
    c->r = r->integer;
    c->alpha = alpha->number;
    return status;
}

static weft_status read_flags(peft_config *c, weft_error *err)
{
    const struct {
        const char *key;
        bool *to;
    } flag[] = { { "use_rslora", &c->rslora },
                 { "use_dora", &c->dora },
                 { "lora_bias", &c->lora_bias },
                 { "ensure_weight_tying", &c->keeps_ties },
                 { "fan_in_fan_out", &(bool){ false } } }; /* the model knows its layout */
    weft_status status = WEFT_OK;
    for (size_t i = 0; status == WEFT_OK && i < sizeof flag / sizeof *flag; i++)
        status = read_flag(c, flag[i].key, flag[i].to, err);
    if (status == WEFT_OK && c->dora && c->lora_bias)
        status = wrong(c, "lora_bias", "true beside use_dora", "one of them, as in PEFT", err);
    return status;
}

static weft_status read_targets(peft_config *c, weft_error *err)
{
    const meta *m = container_meta(&c->file, "target_modules");
    const bool text = m && m->type == META_TEXT;
    c->all_linear = text && strcasecmp(m->text, "all-linear") == 0;
    weft_status status = c->all_linear ? WEFT_OK
                                       : read_modules(c, "target_modules", &c->target, err);
    if (status == WEFT_OK && c->target.n == 0 && !c->all_linear)
        status = wrong(c, "target_modules", "missing or empty", "the modules of the adapter", err);
    if (status == WEFT_OK)
        status = read_modules(c, "exclude_modules", &c->exclude, err);
    if (status == WEFT_OK)
        status = read_names(c, "modules_to_save", &c->saved, err);
    if (status == WEFT_OK)
        status = read_layers(c, err);
    if (status == WEFT_OK && text && c->layers.n > 0)
        status = wrong(c, "layers_to_transform", "set beside a text as target_modules",
                       "a list of modules, as in PEFT", err);
    if (status == WEFT_OK && c->layer_lists.n > 0 && c->layers.n == 0)
        status = wrong(c, "layers_pattern", "set without layers_to_transform",
                       "both or none, as in PEFT", err);
    return status;
}

static weft_status read_keys(peft_config *c, weft_error *err)
{
    const char *task = NULL;
    weft_status status = peft_keys_check(&c->file, err);
    if (status == WEFT_OK)
        status = read_text(c, "base_model_name_or_path", &c->base, err);
    if (status == WEFT_OK)
        status = read_text(c, "task_type", &task, err);
    c->classifies = task && strcmp(task, "SEQ_CLS") == 0;
    if (status == WEFT_OK)
        status = read_scale(c, err);
    if (status == WEFT_OK)
        status = read_flags(c, err);
    if (status == WEFT_OK)
        status = read_targets(c, err);
    if (status == WEFT_OK)
        status = read_patterns(c, "rank_pattern", &c->ranks, true, err);
    if (status == WEFT_OK)
        status = read_patterns(c, "alpha_pattern", &c->alphas, false, err);
    return status;
}

weft_status peft_config_open(peft_config *c, const char *directory, host *h, weft_error *err)
{
    char path[4096];
    *c = (peft_config){ 0 };
    if (!path_join(path, sizeof path, directory, "adapter_config.json"))
        return weft_fail(err, WEFT_EINVAL, "%.200s...: the path is too long", directory);
    weft_status status = container_begin(&c->file, "json", path, h, err);
    if (status != WEFT_OK)
        return status;
    c->path = c->file.path;
    file *f = container_file(&c->file, err);
    weft_error why = { 0 };
    status = f ? file_open(f, path, WEFT_LOAD_COPY, h, &why) : WEFT_ENOMEM;
    if (f && status == WEFT_EIO && !path_exists(path, h))
        return weft_fail(err, WEFT_EFORMAT,
                         "%s: no such file; expected a directory with adapter_config.json and "
                         "adapter_model.safetensors; give the directory that PEFT saved",
                         path);
    if (f && status != WEFT_OK)
        return weft_fail(err, why.code, "%s", why.message);
    if (status == WEFT_OK)
        status = recognise_known(path, f->data, f->size, "JSON", err);
    if (status == WEFT_OK)
        status = config_parse(&c->file, f->data, f->size, err);
    if (status == WEFT_OK)
        status = container_index(&c->file, err);
    if (status == WEFT_OK)
        status = (c->scratch = regex_scratch_new(&h->mem, err)) ? WEFT_OK : WEFT_ENOMEM;
    return status == WEFT_OK ? read_keys(c, err) : err ? err->code : status;
}

static void free_patterns(peft_patterns *list)
{
    for (int64_t i = 0; i < list->n; i++)
        regex_free(list->at[i].re);
}

void peft_config_close(peft_config *c)
{
    peft_patterns *lists[] = { &c->target, &c->exclude,     &c->saved, &c->ranks,
                               &c->alphas, &c->layer_lists, &c->layers };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        free_patterns(lists[i]);
    regex_scratch_free(c->scratch);
    container_close(&c->file);
    *c = (peft_config){ 0 };
}
