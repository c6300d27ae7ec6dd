/* load.c - recognises the file at a path, finds the files that belong to it, and checks the result
 * against the test vectors stored with it. */
#include "text/sources/source.h"

#include "base/utf8.h"
#include "formats/kept.h"
#include "formats/recognise.h"
#include "text/finish.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- test vectors ---------------------------------------------------------------------------- */

static weft_status check_vector(encoder *e, const json_t *v, size_t i, weft_error *err)
{
    const json_t *text = json_object_get(v, "text"), *list = json_object_get(v, "ids");
    encoding got;
    if (!json_is_string(text) || !json_is_array(list))
        return weft_fail(err, WEFT_EFORMAT,
                         "weft.tokenizer.selftest: vector %zu has no text and ids", i);
    const encode_options plain = { .no_template = true };
    const weft_status status = encoder_encode(e, json_string_value(text), json_string_length(text),
                                              NULL, 0, &plain, &got, err);
    if (status != WEFT_OK)
        return status;
    for (size_t k = 0; k < got.n || k < json_array_size(list); k++) {
        const json_int_t want = k < json_array_size(list)
                                    ? json_integer_value(json_array_get(list, k))
                                    : -1;
        const json_int_t have = k < got.n ? (json_int_t)got.id[k] : -1;
        if (have != want)
            return weft_fail(
                err, WEFT_EFORMAT,
                "weft.tokenizer.selftest: vector %zu, \"%.64s\": token %zu is %lld, expected %lld",
                i, json_string_value(text), k, (long long)have, (long long)want);
    }
    return WEFT_OK;
}

/* { "vectors": [ { "text": "...", "ids": [...] }, ... ] } */
static weft_status check_vectors(const tokenizer *t, const json_t *root, weft_error *err)
{
    weft_error why = { 0 };
    const json_t *list = json_object_get(root, "vectors");
    if (!json_is_array(list))
        return weft_fail(err, WEFT_EFORMAT, "%s: weft.tokenizer.selftest has no list of vectors",
                         t->path);
    encoder *e = encoder_new(t, &t->host->mem, err);
    if (!e)
        return err->code;
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < json_array_size(list) && status == WEFT_OK; i++)
        status = check_vector(e, json_array_get(list, i), i, &why);
    encoder_free(e);
    return status == WEFT_OK ? WEFT_OK
                             : weft_fail(err, why.code, "%s: %.400s", t->path, why.message);
}

static weft_status check_stored(const tokenizer *t, const container *c, weft_error *err)
{
    const meta *m = container_meta(c, "weft.tokenizer.selftest");
    if (!m)
        return WEFT_OK;
    if (m->type != META_TEXT)
        return weft_fail(err, WEFT_EFORMAT, "%s: weft.tokenizer.selftest is not text", t->path);
    json_section_begin(&t->host->mem);
    json_t *root = json_read((const uint8_t *)m->text, m->length, false, t->path, err);
    const weft_status status = root ? check_vectors(t, root, err) : err->code;
    json_section_end();
    return status;
}

/* ---- files next to a tokenizer --------------------------------------------------------------- */

/* The file of this name in the directory of a file, or in the directory itself. */
static weft_status beside(char to[PATH_MOST], const char *path, bool directory, const char *name,
                          weft_error *err)
{
    const char *slash = strrchr(path, '/');
    const int n = directory ? (int)strlen(path) : slash ? (int)(slash - path) : 1;
    if (snprintf(to, PATH_MOST, "%.*s/%s", n, directory || slash ? path : ".", name) >= PATH_MOST)
        return weft_fail(err, WEFT_EINVAL, "%.200s.../%s: the path is too long", path, name);
    return WEFT_OK;
}

/* "<s>", or { "content": "<s>", ... } */
static void named_token(const tokenizer *t, const json_t *root, const char *field, int32_t *id)
{
    const json_t *j = json_object_get(root, field);
    const json_t *text = json_is_object(j) ? json_object_get(j, "content") : j;
    if (!json_is_string(text))
        return;
    const uint32_t found = tokenizer_find(t, json_string_value(text), json_string_length(text));
    if (found != NO_ID)
        *id = (int32_t)found;
}

/* tokenizer.json is authoritative: its template defines the tokens around a text. The configuration
 * counts only for files without a template of their own. */
static void take_template(tokenizer *t, const json_t *root)
{
    const json_t *bos = json_object_get(root, "add_bos_token");
    const json_t *eos = json_object_get(root, "add_eos_token");
    if (strcmp(t->source, "tokenizer.json") == 0 || t->kind == MODEL_WORDPIECE)
        return;
    if (bos || eos) /* -1 is NO_ID */
        template_simple(t, json_is_true(bos) ? (uint32_t)t->bos : NO_ID,
                        json_is_true(eos) ? (uint32_t)t->eos : NO_ID);
}

/* BERT's vocab.txt does not say whether its words are lower case. */
static void take_case(tokenizer *t, const json_t *root)
{
    normalizer_step *z = &t->normalizer.step[0];
    const json_t *lower = json_object_get(root, "do_lower_case");
    const json_t *strip = json_object_get(root, "strip_accents");
    const json_t *han = json_object_get(root, "tokenize_chinese_chars");
    if (json_is_boolean(lower))
        z->strip_accents = z->lower = json_is_true(lower);
    if (json_is_boolean(strip))
        z->strip_accents = json_is_true(strip);
    if (json_is_boolean(han))
        z->han = json_is_true(han);
}

/* Whether there is a file of this name next to `of`: in its directory, or in the GGUF file that
 * embeds both. Says yes if the path is too long: opening it reports the error. */
static bool has_beside(const file *of, const container *kept, const char *name, host *h)
{
    char path[PATH_MOST];
    weft_error none;
    if (kept)
        return kept_file(kept, name) != NULL;
    return beside(path, of->path, false, name, &none) != WEFT_OK || path_exists(path, h);
}

/* A file embedded in a GGUF file needs no close. Its path in errors ends in its name. */
static weft_status open_kept(file *f, tokenizer *t, const container *kept, const char *name,
                             weft_error *err)
{
    char path[PATH_MOST];
    const meta *m = kept_file(kept, name);
    if (!m)
        return weft_fail(err, WEFT_EIO, "%s: has no embedded %s", kept->path, name);
    const int n = snprintf(path, sizeof path, "%.3000s/%s", kept->path, name);
    *f = (file){ .data = (const uint8_t *)m->text, .size = m->length };
    f->path = arena_text(&t->store, path, (size_t)n, err);
    return f->path ? WEFT_OK : WEFT_ENOMEM;
}

static weft_status open_beside(file *f, tokenizer *t, const file *of, const container *kept,
                               const char *name, weft_error *err)
{
    char path[PATH_MOST];
    if (kept)
        return open_kept(f, t, kept, name, err);
    const weft_status status = beside(path, of->path, false, name, err);
    return status == WEFT_OK ? file_open(f, path, WEFT_LOAD_COPY, t->host, err) : status;
}

static void close_beside(file *f, const tokenizer *t, const container *kept)
{
    if (!kept)
        file_close(f, t->host);
}

static weft_status read_config(tokenizer *t, const file *f, bool cased, weft_error *err)
{
    json_section_begin(&t->host->mem);
    json_t *root = json_read(f->data, f->size, true, f->path, err);
    weft_status status = root ? WEFT_OK : err->code;
    if (root) {
        named_token(t, root, "bos_token", &t->bos);
        named_token(t, root, "eos_token", &t->eos);
        take_template(t, root);
        if (!cased && strcmp(t->source, "vocab.txt") == 0)
            take_case(t, root);
        const json_t *vectors = json_object_get(root, "weft.tokenizer.selftest");
        if (vectors)
            status = check_vectors(t, vectors, err);
    }
    json_section_end();
    return status;
}

/* A missing file is fine; one that cannot be read is an error. cased: the caller has chosen the
 * case. */
static weft_status read_configs(tokenizer *t, const file *of, const container *kept, bool cased,
                                weft_error *err)
{
    static const char *const names[] = { "special_tokens_map.json", "tokenizer_config.json" };
    weft_status status = WEFT_OK;
    for (int i = 0; i < 2 && status == WEFT_OK; i++) {
        file f = { 0 };
        if (!has_beside(of, kept, names[i], t->host))
            continue;
        status = open_beside(&f, t, of, kept, names[i], err);
        if (status == WEFT_OK)
            status = read_config(t, &f, cased, err);
        close_beside(&f, t, kept);
    }
    return status;
}

/* ---- recognising the file -------------------------------------------------------------------- */

weft_status source_json(tokenizer *t, const uint8_t *data, size_t size, weft_error *err)
{
    json_section_begin(&t->host->mem);
    json_t *root = json_read(data, size, true, t->path, err);
    const weft_status status = root ? hf_load(t, root, err) : err->code;
    json_section_end();
    return status;
}

static bool looks_like_json(const file *f)
{
    size_t at = 0;
    while (at < f->size && memchr(" \t\r\n", f->data[at], 4))
        at++;
    return at < f->size && f->data[at] == '{';
}

/* Does the first line end in a space and a number? */
static bool looks_like_ranks(const file *f)
{
    const uint8_t *end = memchr(f->data, '\n', f->size < 4096 ? f->size : 4096);
    if (!end || end == f->data)
        return false;
    const uint8_t *s = end;
    while (s > f->data && s[-1] >= '0' && s[-1] <= '9')
        s--;
    return s < end && s > f->data + 1 && s[-1] == ' ';
}

static weft_status load_pair(tokenizer *t, const file *table, const container *kept,
                             const char *pre, weft_error *err)
{
    file merges = { 0 };
    weft_status status = open_beside(&merges, t, table, kept, "merges.txt", err);
    if (status != WEFT_OK)
        return status;
    t->source = "vocab.json";
    status = source_merges(t, table->data, table->size, merges.data, merges.size, pre, err);
    close_beside(&merges, t, kept);
    return status;
}

static bool is_marian(const file *f)
{
    return text_ends_with(f->path, "source.spm") || text_ends_with(f->path, "target.spm");
}

/* source.spm or target.spm, with the file that numbers their pieces; the target may have its
 * own. */
static weft_status load_marian(tokenizer *t, const file *model, const container *kept,
                               weft_error *err)
{
    static const char *const names[] = { "target_vocab.json", "vocab.json" };
    file table = { 0 };
    int i = text_ends_with(model->path, "target.spm") ? 0 : 1;
    while (i < 2 && !has_beside(model, kept, names[i], t->host))
        i++;
    if (i == 2)
        return weft_fail(err, WEFT_EIO, "%s: no vocab.json beside it, which has the ids",
                         model->path);
    weft_status status = open_beside(&table, t, model, kept, names[i], err);
    if (status != WEFT_OK)
        return status;
    t->source = "marian";
    status = source_marian(t, model->data, model->size, table.data, table.size, table.path, err);
    close_beside(&table, t, kept);
    return status;
}

/* kept: the GGUF file that embeds it, or NULL. */
static weft_status from_file(tokenizer *t, const file *f, const container *kept, const char *pre,
                             weft_error *err)
{
    if (text_ends_with(f->path, "vocab.json"))
        return load_pair(t, f, kept, pre, err);
    if (is_marian(f))
        return load_marian(t, f, kept, err);
    if (looks_like_json(f)) {
        t->source = "tokenizer.json";
        return source_json(t, f->data, f->size, err);
    }
    if (text_ends_with(f->path, ".bin")) {
        t->source = "llama2.c";
        return source_llama2c(t, f->data, f->size, err);
    }
    if (text_ends_with(f->path, ".tiktoken") || looks_like_ranks(f)) {
        t->source = "tiktoken";
        return source_tiktoken(t, f->data, f->size, pre, err);
    }
    if (text_ends_with(f->path, "_vocabulary.txt")) {
        t->source = "vocabulary.txt";
        return source_letters(t, f->data, f->size, err);
    }
    if (text_ends_with(f->path, ".txt")) {
        t->source = "vocab.txt";
        return source_bert(t, f->data, f->size, pre, err);
    }
    t->source = "sentencepiece";
    return source_sentencepiece(t, f->data, f->size, err);
}

static weft_status load_file(tokenizer *t, const file *f, const container *kept, const char *pre,
                             weft_error *err)
{
    weft_status status = recognise_known(f->path, f->data, f->size, "a model or a tokenizer", err);
    if (status == WEFT_OK)
        status = from_file(t, f, kept, pre, err);
    if (status == WEFT_OK)
        status = tokenizer_finish(t, err);
    return status == WEFT_OK ? read_configs(t, f, kept, pre != NULL, err) : status;
}

/* Names of tokenizers in a directory, in the order they are tried: the n that belong to one side
 * come first. */
typedef struct side_names {
    const char *own[2];
} side_names;

static const side_names sides[] = {
    [WEFT_SIDE_ANY] = { { NULL, NULL } },
    [WEFT_SIDE_SOURCE] = { { "source_vocabulary.txt", "source.spm" } },
    [WEFT_SIDE_TARGET] = { { "target_vocabulary.txt", "target.spm" } },
};

static const char *const any_side[] = { "tokenizer.json", "tokenizer.model", "spiece.model",
                                        "source.spm",     "vocab.json",      "vocab.txt" };
#define N_ANY_SIDE (sizeof any_side / sizeof *any_side)

/* The i-th name to try, or NULL if there is none at this index. i < 2 + N_ANY_SIDE */
static const char *name_to_try(weft_side side, size_t i)
{
    return i < 2 ? sides[side].own[i] : any_side[i - 2];
}

static weft_status no_tokenizer(const char *path, weft_error *err)
{
    return weft_fail(err, WEFT_EIO,
                     "%s: no tokenizer.json, tokenizer.model, spiece.model, source.spm, vocab.json "
                     "or vocab.txt; put the model's tokenizer beside its weights",
                     path);
}

static void stored_id(const container *c, const char *key, uint32_t n, int32_t *id)
{
    const meta *m = container_meta(c, key);
    if (m && m->type == META_INT && m->integer >= 0 && m->integer < n)
        *id = (int32_t)m->integer;
}

/* An embedded tokenizer.json takes precedence, unless the caller names a splitting. */
static weft_status from_container(tokenizer *t, const container *c, const char *pre,
                                  weft_error *err)
{
    const meta *json = container_meta(c, "tokenizer.huggingface.json");
    if (!json || pre)
        return source_gguf(t, c, pre, err);
    if (json->type != META_TEXT)
        return weft_fail(err, WEFT_EFORMAT, "%s: tokenizer.huggingface.json is not text", t->path);
    const weft_status status = source_json(t, (const uint8_t *)json->text, json->length, err);
    stored_id(c, "tokenizer.ggml.bos_token_id", t->vocab.n, &t->bos);
    stored_id(c, "tokenizer.ggml.eos_token_id", t->vocab.n, &t->eos);
    return status;
}

/* A GGUF file written by weft embeds the directory's tokenizer; see formats/kept.h. */
static weft_status load_own(tokenizer *t, const container *c, weft_side side, const char *pre,
                            weft_error *err)
{
    for (size_t i = 0; i < 2 + N_ANY_SIDE; i++) {
        const char *name = name_to_try(side, i);
        file f;
        if (!name || !kept_file(c, name))
            continue;
        const weft_status status = open_kept(&f, t, c, name, err);
        return status == WEFT_OK ? load_file(t, &f, c, pre, err) : status;
    }
    return no_tokenizer(t->path, err);
}

static weft_status load_gguf(tokenizer *t, weft_side side, const char *pre, weft_load load,
                             weft_error *err)
{
    container c = { 0 };
    weft_status status = container_open(&c, t->path, load, t->host, err);
    const bool own = status == WEFT_OK && kept_is_own(&c);
    t->source = "gguf";
    if (own) {
        status = load_own(t, &c, side, pre, err);
    } else if (status == WEFT_OK) {
        status = from_container(t, &c, pre, err);
        if (status == WEFT_OK)
            status = tokenizer_finish(t, err);
    }
    if (status == WEFT_OK)
        status = check_stored(t, &c, err);
    container_close(&c);
    return status;
}

static weft_status find_inside(char to[PATH_MOST], const char *directory, weft_side side, host *h,
                               weft_error *err)
{
    for (size_t i = 0; i < 2 + N_ANY_SIDE; i++) {
        const char *name = name_to_try(side, i);
        if (!name)
            continue;
        const weft_status status = beside(to, directory, true, name, err);
        if (status != WEFT_OK || path_exists(to, h))
            return status;
    }
    return no_tokenizer(directory, err);
}

weft_status tokenizer_file(char to[PATH_MOST], const char *directory, host *h, weft_error *err)
{
    return find_inside(to, directory, WEFT_SIDE_ANY, h, err);
}

static weft_status open_inside(file *f, const char *path, weft_side side, weft_load load, host *h,
                               weft_error *err)
{
    char inner[PATH_MOST];
    const weft_status status = find_inside(inner, path, side, h, err);
    return status == WEFT_OK ? file_open(f, inner, load, h, err) : status;
}

/* Loading is capped even if the host has no cap: the memory a file can claim stays proportional to
 * its size. The largest real tokenizers take 12 bytes for each byte of their file. Nothing else
 * allocates from the host of a tokenizer while it is being loaded. */
#define LOAD_TIMES 64
#define LOAD_MORE  ((size_t)256 << 20)

static size_t load_cap(const host *h, uint64_t size)
{
    if (h->mem.cap)
        return h->mem.cap;
    const size_t more = LOAD_MORE + atomic_load(&h->mem.used);
    return size < (SIZE_MAX - more) / LOAD_TIMES ? (size_t)size * LOAD_TIMES + more : 0;
}

weft_status tokenizer_load(tokenizer *t, const char *path, const char *pre, weft_load load, host *h,
                           weft_error *err)
{
    return tokenizer_load_side(t, path, WEFT_SIDE_ANY, pre, load, h, err);
}

weft_status tokenizer_load_side(tokenizer *t, const char *path, weft_side side, const char *pre,
                                weft_load load, host *h, weft_error *err)
{
    file f = { 0 };
    weft_error local;
    err = err ? err : &local;
    *t = (tokenizer){ 0 };
    weft_status status = path_is_directory(path, h) ? open_inside(&f, path, side, load, h, err)
                                                    : file_open(&f, path, load, h, err);
    if (status != WEFT_OK)
        return status;
    const bool gguf = f.size >= 4 && memcmp(f.data, "GGUF", 4) == 0;
    const size_t cap = h->mem.cap;
    h->mem.cap = load_cap(h, f.size);
    status = tokenizer_begin(t, f.path, "", h, err);
    if (gguf) /* its parser opens it again: avoid holding two copies */
        file_close(&f, h);
    if (status == WEFT_OK)
        status = gguf ? load_gguf(t, side, pre, load, err) : load_file(t, &f, NULL, pre, err);
    file_close(&f, h);
    h->mem.cap = cap;
    if (status != WEFT_OK)
        tokenizer_free(t);
    return status;
}
