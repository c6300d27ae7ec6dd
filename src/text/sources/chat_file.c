/* chat_file.c - finds the chat template of a model; see chat_file.h. */
#include "text/sources/chat_file.h"

#include "base/utf8.h"
#include "formats/container.h"
#include "formats/json.h"
#include "formats/kept.h"
#include "text/jinja/jinja.h"

#include <stdio.h>
#include <string.h>

#define PATH_BYTES 4096

const char *const chat_token_names[CHAT_TOKENS] = { "bos_token", "eos_token", "unk_token",
                                                    "sep_token", "pad_token", "cls_token",
                                                    "mask_token" };

static const char *const gguf_token_keys[CHAT_TOKENS] = {
    "tokenizer.ggml.bos_token_id",     "tokenizer.ggml.eos_token_id",
    "tokenizer.ggml.unknown_token_id", "tokenizer.ggml.seperator_token_id", /* GGUF's spelling */
    "tokenizer.ggml.padding_token_id", "tokenizer.ggml.cls_token_id",
    "tokenizer.ggml.mask_token_id",
};

typedef struct chat_search {
    chat_file *to;
    const char *name; /* of the template */
    arena *store;
    host *host;
    weft_error *err;
} chat_search;

static bool is_default(const chat_search *s)
{
    return strcmp(s->name, "default") == 0;
}

/* Keeps a text as the template. */
static weft_status keep_template(const chat_search *s, const char *path, const char *text, size_t n)
{
    chat_file *c = s->to;
    if (n > JINJA_SOURCE)
        return weft_fail(s->err, WEFT_ELIMIT,
                         "%s: the template has %zu bytes; expected at most %zu", path, n,
                         JINJA_SOURCE);
    if (utf8_find_wrong(text, n) < n)
        return weft_fail(s->err, WEFT_EFORMAT, "%s: byte %zu of the template is not UTF-8", path,
                         utf8_find_wrong(text, n));
    c->source = arena_text(s->store, text, n, s->err);
    c->path = arena_text(s->store, path, strlen(path), s->err);
    c->n = n;
    return c->source && c->path ? WEFT_OK : s->err->code;
}

static weft_status keep_token(const chat_search *s, int i, const char *text, size_t n)
{
    if (memchr(text, '\0', n)) /* a name that no text can spell */
        return WEFT_OK;
    s->to->token[i] = arena_text(s->store, text, n, s->err);
    return s->to->token[i] ? WEFT_OK : s->err->code;
}

/* ---- tokenizer_config.json ------------------------------------------------------------------- */

/* "<s>", or { "content": "<s>", ... }. What is known already stays. */
static weft_status take_chat_tokens(const chat_search *s, const json_t *root)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < CHAT_TOKENS && status == WEFT_OK; i++) {
        const json_t *j = json_object_get(root, chat_token_names[i]);
        const json_t *text = json_is_object(j) ? json_object_get(j, "content") : j;
        if (!s->to->token[i] && json_is_string(text))
            status = keep_token(s, i, json_string_value(text), json_string_length(text));
    }
    return status;
}

/* The template in the configuration: a text, which is the default, or a list. */
static weft_status take_template(const chat_search *s, const char *path, const json_t *root)
{
    const json_t *j = json_object_get(root, "chat_template"), *text = NULL;
    if (json_is_string(j) && is_default(s))
        text = j;
    for (size_t i = 0; i < json_array_size(j); i++) {
        const json_t *one = json_array_get(j, i);
        const char *name = json_string_value(json_object_get(one, "name"));
        if (name && strcmp(name, s->name) == 0)
            text = json_object_get(one, "template");
    }
    if (!text)
        return WEFT_OK;
    if (!json_is_string(text))
        return weft_fail(s->err, WEFT_EFORMAT, "%s: chat_template \"%.60s\" is not a text", path,
                         s->name);
    return keep_template(s, path, json_string_value(text), json_string_length(text));
}

static weft_status take_config(const chat_search *s, const char *path, const uint8_t *data,
                               size_t size)
{
    json_section_begin(&s->host->mem);
    json_t *root = json_read(data, size, true, path, s->err);
    weft_status status = root ? take_chat_tokens(s, root) : s->err->code;
    if (status == WEFT_OK && !s->to->source)
        status = take_template(s, path, root);
    json_section_end();
    return status;
}

/* ---- a directory ----------------------------------------------------------------------------- */

typedef weft_status take_fn(const chat_search *s, const char *path, const uint8_t *data,
                            size_t size);

static weft_status take_template_text(const chat_search *s, const char *path, const uint8_t *data,
                                      size_t size)
{
    return keep_template(s, path, (const char *)data, size);
}

static weft_status take_chat_file(const chat_search *s, const char *path, take_fn *take)
{
    file f = { 0 };
    weft_status status = file_open(&f, path, WEFT_LOAD_COPY, s->host, s->err);
    if (status == WEFT_OK)
        status = take(s, path, f.data, f.size);
    file_close(&f, s->host);
    return status;
}

/* A file of the directory; a missing one is no error. */
static weft_status take_inside(const chat_search *s, const char *directory, const char *name,
                               take_fn *take)
{
    char path[PATH_BYTES];
    if (!path_join(path, sizeof path, directory, name))
        return weft_fail(s->err, WEFT_EINVAL, "%.200s.../%s: the path is too long", directory,
                         name);
    return path_exists(path, s->host) ? take_chat_file(s, path, take) : WEFT_OK;
}

static weft_status from_directory(const chat_search *s, const char *path)
{
    char name[320] = "chat_template.jinja";
    if (!is_default(s))
        snprintf(name, sizeof name, "additional_chat_templates/%s.jinja", s->name);
    weft_status status = take_inside(s, path, name, take_template_text);
    if (status == WEFT_OK)
        status = take_inside(s, path, "tokenizer_config.json", take_config);
    if (status == WEFT_OK)
        status = take_inside(s, path, "special_tokens_map.json", take_config);
    return status;
}

/* ---- GGUF ------------------------------------------------------------------------------------ */

static weft_status take_kept(const chat_search *s, const container *c, const char *name,
                             take_fn *take)
{
    char path[PATH_BYTES];
    const meta *m = kept_file(c, name);
    if (!m)
        return WEFT_OK;
    snprintf(path, sizeof path, "%.3000s/%s", c->path, name);
    return take(s, path, (const uint8_t *)m->text, m->length);
}

/* A token that the file names by its id. */
static weft_status take_id(const chat_search *s, const container *c, int i)
{
    const meta *id = container_meta(c, gguf_token_keys[i]),
               *list = container_meta(c, "tokenizer.ggml.tokens");
    if (s->to->token[i] || !id || id->type != META_INT || !list || list->type != META_ARRAY ||
        list->element != GGUF_STRING || id->integer < 0 || (uint64_t)id->integer >= list->length)
        return WEFT_OK;
    const uint8_t *at = list->at;
    const char *text = "";
    uint64_t n = 0;
    for (int64_t k = 0; k <= id->integer; k++)
        text = gguf_string(&at, &n);
    return keep_token(s, i, text, n);
}

static weft_status take_key(const chat_search *s, const container *c)
{
    char key[320] = "tokenizer.chat_template";
    if (!is_default(s))
        snprintf(key, sizeof key, "tokenizer.chat_template.%s", s->name);
    const meta *m = container_meta(c, key);
    if (s->to->source || !m)
        return WEFT_OK;
    if (m->type != META_TEXT)
        return weft_fail(s->err, WEFT_EFORMAT, "%s: %s is not a text", c->path, key);
    return keep_template(s, c->path, m->text, m->length);
}

static weft_status from_gguf(const chat_search *s, const char *path)
{
    container c = { 0 };
    weft_status status = container_open(&c, path, WEFT_LOAD_MAP, s->host, s->err);
    if (status == WEFT_OK && is_default(s))
        status = take_kept(s, &c, "chat_template.jinja", take_template_text);
    if (status == WEFT_OK)
        status = take_kept(s, &c, "tokenizer_config.json", take_config);
    if (status == WEFT_OK)
        status = take_kept(s, &c, "special_tokens_map.json", take_config);
    if (status == WEFT_OK)
        status = take_key(s, &c);
    for (int i = 0; i < CHAT_TOKENS && status == WEFT_OK; i++)
        status = take_id(s, &c, i);
    container_close(&c);
    return status;
}

/* ---- any ------------------------------------------------------------------------------------- */

static weft_status from_file(const chat_search *s, const char *path)
{
    file f = { 0 };
    weft_status status = file_open(&f, path, WEFT_LOAD_MAP, s->host, s->err);
    if (status != WEFT_OK)
        return status;
    const bool gguf = f.size >= 4 && memcmp(f.data, "GGUF", 4) == 0;
    if (!gguf)
        status = text_ends_with(path, ".json") ? take_config(s, path, f.data, f.size)
                                               : take_template_text(s, path, f.data, f.size);
    file_close(&f, s->host);
    return gguf ? from_gguf(s, path) : status;
}

weft_status chat_file_load(chat_file *c, const char *path, const char *name, arena *store, host *h,
                           weft_error *err)
{
    const chat_search s = { c, name, store, h, err };
    *c = (chat_file){ 0 };
    if (!*name || strlen(name) > 200 || strchr(name, '/'))
        return weft_fail(err, WEFT_EINVAL, "\"%.60s\" is not the name of a template", name);
    const weft_status status = path_is_directory(path, h) ? from_directory(&s, path)
                                                          : from_file(&s, path);
    if (status != WEFT_OK || c->source)
        return status;
    return weft_fail(
        err, WEFT_EUNSUPPORTED,
        "%s: no chat template \"%s\"; expected chat_template.jinja, or chat_template in "
        "tokenizer_config.json or in the GGUF file; give one with --template",
        path, name);
}

_Static_assert(CHAT_TOKENS <= CHAT_VARIABLES, "every named token is a variable");

weft_status chat_load(chat *c, const char *path, const char *name, arena *store, host *h,
                      weft_error *err)
{
    chat_file f;
    const weft_status status = chat_file_load(&f, path, name, store, h, err);
    if (status != WEFT_OK)
        return status;
    *c = (chat){ .path = f.path, .source = f.source, .n = f.n };
    for (int i = 0; i < CHAT_TOKENS; i++)
        if (f.token[i])
            c->variable[c->n_variable++] = (chat_variable){ chat_token_names[i], f.token[i] };
    return chat_open(c, &h->mem, err);
}
