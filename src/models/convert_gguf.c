/* convert_gguf.c - writes the metadata of a GGUF file: the values of the configuration, the
 * tokenizer, and the texts of the source directory. */
#include "formats/gguf_write.h"
#include "models/conversion.h"
#include "text/sources/describe.h"

#include <stdio.h>
#include <string.h>

static void put_text_key(gguf_writer *w, const char *key, const char *text)
{
    gguf_add_text(w, key, text, strlen(text));
}

static void add_types(const conversion *c, gguf_writer *w)
{
    if (c->report->mix)
        gguf_add_u32(w, "general.file_type", c->report->mix->file_type);
    if (c->report->type->block > 1)
        gguf_add_u32(w, "general.quantization_version", 2);
}

static void add_general(const conversion *c, gguf_writer *w)
{
    char label[16], own[64];
    size_label(c->m.n_parameter, label, sizeof label);
    snprintf(own, sizeof own, OWN_ARCH "%s", c->m.arch->hf);
    put_text_key(w, "general.architecture", c->own ? own : c->m.arch->gguf);
    put_text_key(w, "general.type", "model");
    put_text_key(w, "general.name", c->name);
    put_text_key(w, "general.size_label", label);
    add_types(c, w);
}

static void add_value(const conversion *c, gguf_writer *w, const config_value *f)
{
    const meta *v = &f->value;
    char key[128];
    snprintf(key, sizeof key, "%s.%s", c->m.arch->gguf, f->gguf);
    if (v->type == META_TEXT)
        gguf_add_text(w, key, v->text, v->length);
    else if (v->type == META_BOOL)
        gguf_add_bool(w, key, v->flag);
    else if (v->type == META_REAL && strcmp(f->gguf, "rope.scaling.original_context_length") != 0)
        gguf_add_f32(w, key, (float)v->number);
    else
        gguf_add_u32(w, key, (uint32_t)v->number);
}

/* Skips a value that the source does not set and whose default is zero. */
static void add_facts(const conversion *c, gguf_writer *w)
{
    for (int i = 0; i < c->m.notes->n_value; i++) {
        const config_value *f = &c->m.notes->value[i];
        if (f->gguf && (f->is_set || f->value.number != 0))
            add_value(c, w, f);
    }
}

/* Which layers have a window, where that is not what readers expect of the architecture. */
static void add_windows(const conversion *c, gguf_writer *w)
{
    const bool *windowed = c->m.notes->windowed;
    const int64_t p = c->m.arch->window_period;
    bool expected = true;
    char key[128];
    for (int64_t l = 0; windowed && l < c->m.n_layer; l++)
        expected &= windowed[l] == (p <= 1 || (l + 1) % p != 0);
    if (!windowed || expected)
        return;
    snprintf(key, sizeof key, "%s.attention.sliding_window_pattern", c->m.arch->gguf);
    gguf_add_bools(w, key, windowed, (uint64_t)c->m.n_layer);
}

static void add_labels(const conversion *c, gguf_writer *w)
{
    char key[128];
    if (!c->m.label)
        return;
    snprintf(key, sizeof key, "%s.classifier.output_labels", c->m.arch->gguf);
    gguf_add_texts(w, key, (uint64_t)c->m.n_out);
    for (int64_t i = 0; i < c->m.n_out; i++)
        gguf_add_element(w, c->m.label[i], strlen(c->m.label[i]));
}

/* ---- tokenizer ------------------------------------------------------------------------------- */

/* An id, or the first of a list. */
static int32_t config_id(const conversion *c, const char *key)
{
    char first[64];
    snprintf(first, sizeof first, "%s.0", key);
    const meta *m = container_meta(&c->m.file, key);
    m = m ? m : container_meta(&c->m.file, first);
    return m && m->type == META_INT && m->integer >= 0 && m->integer < c->m.n_vocab
               ? (int32_t)m->integer
               : -1;
}

static void add_id(gguf_writer *w, const char *key, int32_t id)
{
    if (id >= 0)
        gguf_add_u32(w, key, (uint32_t)id);
}

/* The template from its own file, or the one in the configuration. */
static weft_status add_template(const conversion *c, gguf_writer *w)
{
    static const char key[] = "tokenizer.chat_template";
    const small_text *own = &c->text[TEXT_TEMPLATE], *config = &c->text[TEXT_TOKENIZER_CONFIG];
    if (own->text) {
        gguf_add_text(w, key, own->text, own->length);
        return WEFT_OK;
    }
    if (!config->text)
        return WEFT_OK;
    json_section_begin(&c->host->mem);
    json_t *root = json_read((const uint8_t *)config->text, config->length, true,
                             text_files[TEXT_TOKENIZER_CONFIG], c->err);
    const weft_status status = root ? WEFT_OK : WEFT_EFORMAT;
    const json_t *text = json_object_get(root, "chat_template");
    if (json_is_string(text))
        gguf_add_text(w, key, json_string_value(text), json_string_length(text));
    json_section_end();
    return status;
}

/* Does the file embed the tokenizer.json, for readers that can run it? */
static bool keeps_json(const conversion *c)
{
    const small_text *json = &c->text[TEXT_TOKENIZER];
    return json->text && json->length <= GGUF_MAX_TEXT;
}

static weft_status describe_model(const conversion *c, gguf_writer *w, tokenizer *t)
{
    const char *lacks = NULL;
    if (t->bos < 0)
        t->bos = config_id(c, "bos_token_id");
    if (t->eos < 0)
        t->eos = config_id(c, "eos_token_id");
    const weft_status status = tokenizer_describe(w, t, c->m.n_vocab, &lacks, c->err);
    if (lacks && keeps_json(c))
        log_write(&c->host->log, WEFT_LOG_WARN,
                  "%s: GGUF has no key for %s; weft uses the tokenizer.json in the file, other "
                  "programs may not",
                  t->path, lacks);
    else if (lacks)
        return weft_fail(c->err, WEFT_EUNSUPPORTED,
                         "%s: GGUF has no key for %s; put a tokenizer.json beside it, which will "
                         "be embedded in the file",
                         t->path, lacks);
    return status;
}

/* Loads a tokenizer.json, or another file of the directory. Without any, *there is false. */
OWN_FRAME static weft_status load_tokenizer(const conversion *c, tokenizer *t, bool *there,
                                            weft_error *why)
{
    char path[PATH_MOST];
    const weft_status status = tokenizer_file(path, c->from, c->host, why);
    *there = status != WEFT_EIO;
    return status == WEFT_OK ? tokenizer_load(t, path, NULL, WEFT_LOAD_COPY, c->host, why) : status;
}

/* A tokenizer.model or vocab.txt may come with files that change it, which only Hugging Face's
 * Python classes read. */
static void warn_added(const conversion *c, const tokenizer *t)
{
    char path[4096];
    if (strcmp(t->source, "tokenizer.json") != 0 &&
        convert_join(path, sizeof path, c->from, "added_tokens.json") && path_exists(path, c->host))
        log_write(&c->host->log, WEFT_LOG_WARN, "%s: not supported; the GGUF file lacks its tokens",
                  path);
}

/* A tokenizer.json that weft cannot run is embedded unchanged. `t` is scratch, too large for the
 * stack. */
static weft_status add_tokens(const conversion *c, gguf_writer *w, tokenizer *t)
{
    weft_error why = { 0 };
    bool there;
    weft_status status = load_tokenizer(c, t, &there, &why);
    if (!there) {
        add_id(w, "tokenizer.ggml.bos_token_id", config_id(c, "bos_token_id"));
        add_id(w, "tokenizer.ggml.eos_token_id", config_id(c, "eos_token_id"));
        log_write(&c->host->log, WEFT_LOG_WARN,
                  "%s: no tokenizer; the GGUF file gets no vocabulary", c->from);
        return WEFT_OK;
    }
    if ((status == WEFT_EUNSUPPORTED || status == WEFT_EFORMAT) && c->text[TEXT_TOKENIZER].text) {
        log_write(&c->host->log, WEFT_LOG_WARN,
                  "%s; the file is embedded, but the GGUF file gets no vocabulary", why.message);
        return WEFT_OK;
    }
    if (status != WEFT_OK)
        return weft_fail(c->err, why.code, "%s", why.message);
    warn_added(c, t);
    status = describe_model(c, w, t);
    tokenizer_free(t);
    add_id(w, "tokenizer.ggml.padding_token_id", config_id(c, "pad_token_id"));
    return status == WEFT_OK ? add_template(c, w) : status;
}

static weft_status add_tokenizer(const conversion *c, gguf_writer *w)
{
    tokenizer *t = mem_zalloc(&c->host->mem, 1, sizeof *t, "tokenizer", c->err);
    if (!t)
        return c->err->code;
    const weft_status status = add_tokens(c, w, t);
    mem_free(&c->host->mem, t);
    return status;
}

/* ---- the directory, for converting back ------------------------------------------------------ */

static void add_kept_texts(const conversion *c, gguf_writer *w)
{
    for (int i = 0; i < N_TEXT; i++) {
        if (c->text[i].text && c->text[i].length > GGUF_MAX_TEXT)
            log_write(&c->host->log, WEFT_LOG_WARN, "%s: %zu bytes, too large for a key; left out",
                      text_files[i], c->text[i].length);
        else if (c->text[i].text)
            gguf_add_text(w, text_keys[i], c->text[i].text, c->text[i].length);
    }
}

/* The type that a tensor gets in a directory. */
static const char *type_word(const dtype *t)
{
    return t->safetensors ? t->safetensors : dtype_bf16.safetensors;
}

static void add_dtypes(const conversion *c, gguf_writer *w)
{
    const model *m = &c->m;
    const dtype *most = m->notes->origin[0].from->type;
    uint64_t n = 0;
    for (int64_t i = 0; i < m->n_param; i++)
        n += m->notes->origin[i].from->type != most;
    put_text_key(w, DTYPE_KEY, type_word(most));
    if (n > 0)
        gguf_add_texts(w, DTYPES_KEY, n);
    for (int64_t i = 0; i < m->n_param && n > 0; i++) {
        char line[2 * NAME_BYTES];
        const dtype *type = m->notes->origin[i].from->type;
        if (type != most)
            gguf_add_element(
                w, line,
                (size_t)snprintf(line, sizeof line, "%s %s", m->param[i]->name, type_word(type)));
    }
}

/* GGUF's own keys, which any program understands. */
static weft_status add_keys(const conversion *c, gguf_writer *w)
{
    add_facts(c, w);
    add_windows(c, w);
    add_labels(c, w);
    if (c->m.n_type > 0)
        gguf_add_u32(w, "tokenizer.ggml.token_type_count", (uint32_t)c->m.n_type);
    return add_tokenizer(c, w);
}

/* For a file that only weft reads: the configuration is config.json, and the tokenizer is the
 * directory's. */
static weft_status add_own(const conversion *c, gguf_writer *w)
{
    if (c->text[TEXT_CONFIG].length > GGUF_MAX_TEXT)
        return weft_fail(c->err, WEFT_EUNSUPPORTED,
                         "%s: config.json has %zu bytes; expected at most %u", c->from,
                         c->text[TEXT_CONFIG].length, GGUF_MAX_TEXT);
    return convert_keep_files(c, w);
}

OWN_FRAME static weft_status add_directory(const conversion *c, gguf_writer *w)
{
    add_general(c, w);
    const weft_status status = c->own ? add_own(c, w) : add_keys(c, w);
    put_text_key(w, "weft.converted_by", "weft " WEFT_VERSION);
    add_kept_texts(c, w);
    add_dtypes(c, w);
    if (c->bare)
        gguf_add_bool(w, BARE_KEY, true);
    return status;
}

/* Keys that say how many layers there are, if some of the source are left out. */
static bool is_count(const conversion *c, const char *key, gguf_writer *w)
{
    char count[128], further[128];
    snprintf(count, sizeof count, "%s.block_count", c->m.arch->gguf);
    snprintf(further, sizeof further, "%s.nextn_predict_layers", c->m.arch->gguf);
    if (c->m.notes->n_further == 0)
        return false;
    if (strcmp(key, count) == 0)
        gguf_add_u32(w, key, (uint32_t)c->m.n_layer);
    return strcmp(key, count) == 0 || strcmp(key, further) == 0;
}

/* From GGUF to GGUF, copies all keys except those about types, parts and layers left out. */
static void add_entries(const conversion *c, gguf_writer *w)
{
    static const char *const ours[] = { "general.file_type", "general.quantization_version",
                                        "general.alignment", "split.no",
                                        "split.count",       "split.tensors.count" };
    const container *from = &c->m.file;
    for (int64_t i = 0; i < from->n_entry; i++) {
        bool skip = false;
        for (size_t k = 0; k < sizeof ours / sizeof *ours; k++)
            skip |= strcmp(from->entry[i].key, ours[k]) == 0;
        if (!skip && !is_count(c, from->entry[i].key, w))
            gguf_add_meta(w, &from->entry[i]);
    }
    add_types(c, w);
}

/* ---- files ----------------------------------------------------------------------------------- */

static void add_split(const conversion *c, gguf_writer *w, int part)
{
    if (c->n_part == 1)
        return;
    gguf_add_u16(w, "split.no", (uint16_t)part);
    gguf_add_u16(w, "split.count", (uint16_t)c->n_part);
    gguf_add_i32(w, "split.tensors.count", (int32_t)c->n_written);
}

static bool gguf_put_data(void *ud, const void *bytes, size_t n)
{
    gguf_writer_data(ud, bytes, n);
    return true;
}

/* The first expert declares the tensor for all of them; their data follows its own. So do the rows
 * of one matrix. */
static void announce(gguf_writer *w, const outgoing *t)
{
    const int64_t each = t->stack && t->expert < 0 ? t->shape[0] / t->stack : t->shape[0];
    const int64_t shape[] = { t->stack, each, t->shape[1] };
    const int64_t whole[] = { t->whole_rows, t->shape[1] };
    if (t->whole_rows)
        gguf_add_tensor(w, t->name, t->type, 2, whole);
    else if (t->stack)
        gguf_add_tensor(w, t->name, t->type, t->n_dim + 1, shape);
    else
        gguf_add_tensor(w, t->name, t->type, t->n_dim, t->shape);
}

static void write_part(conversion *c, const char *path, int part)
{
    gguf_writer w;
    char name[4096];
    weft_status status = WEFT_OK;
    gguf_writer_begin(&w, &c->save);
    if (part == 0 && c->from_gguf)
        add_entries(c, &w);
    else if (part == 0)
        status = add_directory(c, &w);
    add_split(c, &w, part);
    for (int64_t i = 0; i < c->n_tensor; i++)
        if (c->tensor[i].part == part && !outgoing_follows(c, &c->tensor[i]))
            announce(&w, &c->tensor[i]);
    if (status != WEFT_OK && c->save.status == WEFT_OK)
        c->save.status = status;
    if (!convert_part_name(c, path, part, name, sizeof name))
        save_fail(&c->save, WEFT_EINVAL, "%.200s...: the path is too long", path);
    gguf_writer_head(&w, name);
    convert_data(c, part, gguf_put_data, &w);
    gguf_writer_end(&w);
}

void convert_to_gguf(conversion *c, const char *path)
{
    for (int part = 0; part < c->n_part && c->save.status == WEFT_OK; part++)
        write_part(c, path, part);
    c->report->n_file = c->n_part;
}
