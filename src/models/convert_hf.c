/* convert_hf.c - writes a model as a Hugging Face directory: weights with their index, config.json
 * and the other small files, restored from the source or generated from the configuration. */
#include "base/buffer.h"
#include "formats/json.h"
#include "formats/safetensors_write.h"
#include "models/conversion.h"
#include "text/sources/hf_write.h"
#include "text/sources/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- weights --------------------------------------------------------------------------------- */

static void shard_name(const conversion *c, int part, char *to, size_t size)
{
    if (c->n_part == 1)
        snprintf(to, size, "model.safetensors");
    else
        snprintf(to, size, "model-%05d-of-%05d.safetensors", part + 1, c->n_part);
}

static bool hf_put_data(void *ud, const void *bytes, size_t n)
{
    safetensors_writer_data(ud, bytes, n);
    return true;
}

/* The path of a file in the directory; NULL if it is too long. */
static const char *inside(conversion *c, const char *directory, const char *name, char *path,
                          size_t size)
{
    if (!convert_join(path, size, directory, name))
        save_fail(&c->save, WEFT_EINVAL, "%.200s...: the path is too long", directory);
    return path;
}

static void write_shard(conversion *c, const char *directory, int part)
{
    safetensors_writer w;
    char name[64], path[4096];
    safetensors_writer_begin(&w, &c->save);
    for (int64_t i = 0; i < c->n_tensor; i++) {
        const outgoing *t = &c->tensor[i];
        if (t->part == part && !outgoing_follows(c, t))
            safetensors_add(&w, t->name, t->type, t->hf_dim, t->hf_shape);
    }
    shard_name(c, part, name, sizeof name);
    safetensors_writer_head(&w, inside(c, directory, name, path, sizeof path));
    convert_data(c, part, hf_put_data, &w);
    safetensors_writer_end(&w);
}

/* Writes the buffer as a file of the directory, then frees it. */
static void write_buffer(conversion *c, const char *directory, const char *name, buffer *b)
{
    char path[4096];
    if (b->failed && c->save.status == WEFT_OK)
        c->save.status = WEFT_ENOMEM;
    save_file(&c->save, inside(c, directory, name, path, sizeof path));
    save_put(&c->save, b->at, b->n);
    buffer_end(b);
    c->report->n_file++;
}

static void write_index(conversion *c, const char *directory)
{
    buffer b;
    char name[64];
    buffer_begin(&b, &c->host->mem, c->err);
    buffer_format(&b, "{\n  \"metadata\": {\n    \"total_size\": %llu\n  },\n  \"weight_map\": {",
                  (unsigned long long)c->bytes);
    for (int64_t i = 0; i < c->n_tensor; i++) {
        if (outgoing_follows(c, &c->tensor[i]))
            continue;
        shard_name(c, c->tensor[i].part, name, sizeof name);
        buffer_text(&b, i ? ",\n    " : "\n    ");
        buffer_quote(&b, c->tensor[i].name, strlen(c->tensor[i].name));
        buffer_format(&b, ": \"%s\"", name);
    }
    buffer_text(&b, "\n  }\n}\n");
    write_buffer(c, directory, "model.safetensors.index.json", &b);
}

/* ---- config.json from the configuration ------------------------------------------------------ */

/* The shortest decimal that reads back as the same float. */
static void put_real(buffer *b, double x)
{
    char text[32];
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, x);
        if ((float)strtod(text, NULL) == (float)x)
            break;
    }
    buffer_text(b, text);
    if (!strpbrk(text, ".e"))
        buffer_text(b, ".0");
}

static void put_value(buffer *b, const meta *v)
{
    if (v->type == META_TEXT)
        buffer_quote(b, v->text, v->length);
    else if (v->type == META_BOOL)
        buffer_text(b, v->flag ? "true" : "false");
    else if (v->type == META_INT)
        buffer_format(b, "%lld", (long long)v->integer);
    else
        put_real(b, v->number);
}

static bool is_whole(const config_value *f)
{
    return strstr(f->hf, "max_position_embeddings") != NULL;
}

static void put_config_value(buffer *b, const config_value *f, const char *key)
{
    buffer_format(b, "\"%s\": ", key);
    if (f->value.type == META_REAL && is_whole(f))
        buffer_format(b, "%lld", (long long)f->value.number);
    else
        put_value(b, &f->value);
}

/* "rope_scaling.factor" is "factor" in the object "rope_scaling". */
static const char *under_rope(const config_value *f)
{
    static const char roof[] = "rope_scaling.";
    const bool under = f->hf && strncmp(f->hf, roof, sizeof roof - 1) == 0;
    return under ? f->hf + sizeof roof - 1 : NULL;
}

/* The lists of factors of longrope, and the word for each layer where they differ. */
static void put_factors(buffer *b, const char *key, const float *x, int64_t n)
{
    buffer_format(b, ", \"%s\": [", key);
    for (int64_t i = 0; i < n; i++) {
        buffer_text(b, i ? ", " : "");
        put_real(b, (double)x[i]);
    }
    buffer_text(b, "]");
}

static void put_layer_types(const conversion *c, buffer *b)
{
    const bool *windowed = c->m.notes->windowed;
    for (int64_t l = 0; windowed && l < c->m.n_layer; l++)
        buffer_format(b, "%s\"%s_attention\"", l ? ", " : ",\n  \"layer_types\": [",
                      windowed[l] ? "sliding" : "full");
    buffer_text(b, windowed ? "]" : "");
}

static void put_rope(const conversion *c, buffer *b)
{
    const rope_spec *s = &c->m.rope;
    int n = 0;
    for (int i = 0; i < c->m.notes->n_value; i++) {
        const char *key = under_rope(&c->m.notes->value[i]);
        if (!key)
            continue;
        buffer_text(b, n++ ? ", " : ",\n  \"rope_scaling\": { ");
        put_config_value(b, &c->m.notes->value[i], key);
    }
    if (n && s->scaling == ROPE_LONG) {
        put_factors(b, "short_factor", s->divisor, s->n_rot / 2);
        put_factors(b, "long_factor", s->far_divisor, s->n_rot / 2);
        buffer_format(b, " },\n  \"original_max_position_embeddings\": %lld",
                      (long long)s->old_ctx);
    } else if (n) {
        buffer_text(b, " }");
    }
}

static void hf_put_ids(const conversion *c, buffer *b, const char *comma)
{
    static const char *const keys[][2] = {
        { "tokenizer.ggml.bos_token_id", "bos_token_id" },
        { "tokenizer.ggml.eos_token_id", "eos_token_id" },
        { "tokenizer.ggml.padding_token_id", "pad_token_id" },
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const meta *m = container_meta(&c->m.file, keys[i][0]);
        if (m && m->type == META_INT) {
            buffer_format(b, "%s\n  \"%s\": %lld", comma, keys[i][1], (long long)m->integer);
            comma = ",";
        }
    }
}

/* The row of the table that matches the file: of two with the same GGUF name, the one that supports
 * a window if there is a window. */
static const arch *arch_for(const conversion *c)
{
    bool window = false;
    for (int i = 0; i < c->m.notes->n_value; i++)
        window |= c->m.notes->value[i].hf &&
                  strcmp(c->m.notes->value[i].hf, "sliding_window") == 0 &&
                  c->m.notes->value[i].value.integer > 0;
    if (c->m.arch->hf_window == window)
        return c->m.arch;
    for (int i = 0; i < n_arch; i++)
        if (archs[i].gguf && c->m.arch->gguf && strcmp(archs[i].gguf, c->m.arch->gguf) == 0 &&
            archs[i].hf_window == window && !archs[i].hf_experts == !c->m.arch->hf_experts)
            return &archs[i];
    return window ? NULL : c->m.arch;
}

static const char *dtype_word(const dtype *t)
{
    return t == &dtype_bf16 ? "bfloat16" : t == &dtype_f16 ? "float16" : "float32";
}

/* GGUF stores llama3's scaling as a table. Tries the parameters of Llama 3.1 and 3.2; any other
 * table cannot be expressed in config.json. */
static weft_status find_llama3(conversion *c)
{
    rope_spec *s = &c->m.rope;
    if (!s->divisor || s->scaling == ROPE_LONG || c->text[TEXT_CONFIG].text)
        return WEFT_OK;
    const int64_t n = s->n_rot / 2;
    rope_spec guess = *s;
    double plain[MAX_HEAD / 2], scaled[MAX_HEAD / 2];
    guess.divisor = NULL;
    guess.scaling = ROPE_PLAIN;
    rope_frequencies(&guess, plain);
    guess.scaling = ROPE_LLAMA3;
    guess.factor = (double)s->divisor[n - 1];
    guess.low_freq = 1;
    guess.high_freq = 4;
    guess.old_ctx = 8192;
    rope_frequencies(&guess, scaled);
    for (int64_t k = 0; k < n; k++)
        if ((float)(plain[k] / scaled[k]) < s->divisor[k] * (1 - 1e-5f) ||
            (float)(plain[k] / scaled[k]) > s->divisor[k] * (1 + 1e-5f))
            return weft_fail(c->err, WEFT_EUNSUPPORTED,
                             "%s: rope_freqs is not the table of Llama 3.1 or 3.2, and the file "
                             "has no embedded config.json; config.json cannot express it",
                             c->m.file.path);
    c->llama3 = guess;
    return WEFT_OK;
}

static void put_llama3(const conversion *c, buffer *b)
{
    const rope_spec *s = &c->llama3;
    if (s->scaling != ROPE_LLAMA3)
        return;
    buffer_text(b, ",\n  \"rope_scaling\": { \"rope_type\": \"llama3\", \"factor\": ");
    put_real(b, s->factor);
    buffer_text(b, ", \"low_freq_factor\": ");
    put_real(b, s->low_freq);
    buffer_text(b, ", \"high_freq_factor\": ");
    put_real(b, s->high_freq);
    buffer_format(b, ", \"original_max_position_embeddings\": %lld }", (long long)s->old_ctx);
}

static void put_labels(const conversion *c, buffer *b)
{
    if (!c->m.label)
        return;
    for (int64_t i = 0; i < c->m.n_out; i++) {
        buffer_format(b, "%s\"%lld\": ", i ? ", " : ",\n  \"id2label\": { ", (long long)i);
        buffer_quote(b, c->m.label[i], strlen(c->m.label[i]));
    }
    buffer_text(b, " }");
}

static void make_config(conversion *c, buffer *b)
{
    const arch *a = arch_for(c);
    if (!a) {
        save_fail(&c->save, WEFT_EUNSUPPORTED,
                  "%s: no Hugging Face architecture has this sliding window", c->m.file.meta_path);
        return;
    }
    buffer_format(b, "{\n  \"architectures\": [\"%s\"],\n  \"model_type\": \"%s\",\n",
                  c->m.notes->hf_class ? c->m.notes->hf_class : a->hf_class, a->hf);
    buffer_format(b, "  \"dtype\": \"%s\"", dtype_word(c->report->type));
    for (int i = 0; i < c->m.notes->n_value; i++) {
        const config_value *f = &c->m.notes->value[i];
        if (!f->hf || under_rope(f) || (!f->is_set && (!f->gguf || f->value.number == 0)))
            continue;
        buffer_text(b, ",\n  ");
        put_config_value(b, f, f->hf);
    }
    put_labels(c, b);
    put_layer_types(c, b);
    put_rope(c, b);
    put_llama3(c, b);
    hf_put_ids(c, b, ",");
    buffer_text(b, "\n}\n");
}

/* ---- restored texts -------------------------------------------------------------------------- */

static int hf_put_piece(const char *text, size_t n, void *ud)
{
    buffer_put(ud, text, n);
    return 0;
}

/* The text of config.json with a change; false from it: no memory. */
static weft_status change_config(conversion *c, bool (*change)(json_t *root))
{
    buffer b;
    small_text *t = &c->text[TEXT_CONFIG];
    buffer_begin(&b, &c->host->mem, c->err);
    json_section_begin(&c->host->mem);
    json_t *root = json_read((const uint8_t *)t->text, t->length, true, text_files[TEXT_CONFIG],
                             c->err);
    weft_status status = root ? WEFT_OK : c->err->code;
    if (root && (!change(root) || json_dump_callback(root, hf_put_piece, &b, JSON_INDENT(2)) != 0))
        status = weft_fail(c->err, WEFT_ENOMEM, "%s: no memory to write it",
                           text_files[TEXT_CONFIG]);
    json_section_end();
    buffer_text(&b, "\n");
    const size_t n = b.n;
    const char *text = status == WEFT_OK && !b.failed
                           ? arena_text(&c->store, (char *)b.at, n, c->err)
                           : NULL;
    buffer_end(&b);
    *t = text ? (small_text){ text, n } : *t;
    return text ? WEFT_OK : status != WEFT_OK ? status : WEFT_ENOMEM;
}

static bool drop_quantisation(json_t *root)
{
    return json_object_del(root, "quantization_config") == 0;
}

weft_status convert_plain_config(conversion *c)
{
    if (!c->text[TEXT_CONFIG].text ||
        !container_meta(&c->m.file, "quantization_config.quant_method"))
        return WEFT_OK;
    return change_config(c, drop_quantisation);
}

static bool untie(json_t *root)
{
    return json_object_set_new(root, "tie_word_embeddings", json_false()) == 0;
}

weft_status convert_untied_config(conversion *c)
{
    export_notes *notes = c->m.notes;
    for (int i = 0; i < notes->n_value; i++)
        if (notes->value[i].hf && strcmp(notes->value[i].hf, "tie_word_embeddings") == 0) {
            notes->value[i].value = (meta){ .type = META_BOOL };
            notes->value[i].is_set = true;
        }
    return c->text[TEXT_CONFIG].text ? change_config(c, untie) : WEFT_OK;
}

/* Updates the type in the configuration: readers trust it even if the weights have another. */
static void make_config_typed(conversion *c, buffer *b)
{
    const small_text *t = &c->text[TEXT_CONFIG];
    weft_error why;
    json_section_begin(&c->host->mem);
    json_t *root = json_read((const uint8_t *)t->text, t->length, true, text_files[TEXT_CONFIG],
                             &why);
    const char *key = json_object_get(root, "torch_dtype") ? "torch_dtype" : "dtype";
    if (root && (json_object_set_new(root, key, json_string(dtype_word(c->report->type))) != 0 ||
                 json_dump_callback(root, hf_put_piece, b, JSON_INDENT(2)) != 0))
        b->failed = weft_fail(c->err, WEFT_ENOMEM, "%s: no memory to write it",
                              text_files[TEXT_CONFIG]) != WEFT_OK;
    if (!root)
        save_fail(&c->save, why.code, "%s", why.message);
    json_section_end();
    buffer_text(b, "\n");
}

/* The embedded config.json must agree with the file's keys; someone may have edited one of the
 * two. */
static weft_status check_config(conversion *c)
{
    const small_text *t = &c->text[TEXT_CONFIG];
    container kept;
    if (!t->text || !c->from_gguf)
        return WEFT_OK;
    weft_status status = container_begin(&kept, "json", text_keys[TEXT_CONFIG], c->host, c->err);
    if (status == WEFT_OK)
        status = config_parse(&kept, (const uint8_t *)t->text, t->length, c->err);
    if (status == WEFT_OK)
        status = container_index(&kept, c->err);
    for (int i = 0; i < c->m.notes->n_value && status == WEFT_OK; i++) {
        const config_value *f = &c->m.notes->value[i];
        const meta *m = f->hf && f->gguf && !under_rope(f) ? container_meta(&kept, f->hf) : NULL;
        if (m && (m->type == META_INT || m->type == META_REAL) && f->value.type != META_TEXT &&
            (float)m->number != (float)f->value.number)
            status = weft_fail(c->err, WEFT_EFORMAT,
                               "%s: %s is %g, but %g in its embedded config.json", c->m.file.path,
                               f->gguf, f->value.number, m->number);
    }
    container_close(&kept);
    return status;
}

weft_status convert_check_texts(conversion *c)
{
    const weft_status status = check_config(c);
    return status == WEFT_OK ? find_llama3(c) : status;
}

/* ---- a tokenizer in another format ----------------------------------------------------------- */

/* tokenizer.json or tokenizer_config.json. `t` is scratch for the tokenizer. */
static weft_status write_tokenizer(const conversion *c, int i, tokenizer *t, buffer *b,
                                   weft_error *why)
{
    const char *from = c->from_gguf ? c->m.file.path : c->from;
    weft_status status = tokenizer_load(t, from, NULL, c->o->load, c->host, why);
    if (status != WEFT_OK)
        return status;
    if (i == TEXT_TOKENIZER)
        status = tokenizer_write(t, b, why);
    else
        tokenizer_config(t, &c->m.file, b);
    tokenizer_free(t);
    return status;
}

/* Leaves out a tokenizer that tokenizer.json cannot express or weft cannot read, and warns once. */
static void hf_make_tokenizer(conversion *c, int i, buffer *b)
{
    weft_error why = { 0 };
    tokenizer *t = mem_zalloc(&c->host->mem, 1, sizeof *t, "tokenizer", c->err);
    b->failed |= !t;
    const weft_status status = t ? write_tokenizer(c, i, t, b, &why) : WEFT_OK;
    mem_free(&c->host->mem, t);
    if (status == WEFT_OK)
        return;
    b->n = 0;
    if (status != WEFT_EUNSUPPORTED && status != WEFT_EFORMAT)
        save_fail(&c->save, why.code, "%s", why.message);
    else if (i == TEXT_TOKENIZER)
        log_write(&c->host->log, WEFT_LOG_WARN, "%s; the directory gets no tokenizer", why.message);
}

/* GGUF's arrays, or a file of a directory that is not a tokenizer.json. */
OWN_FRAME static bool has_other_tokenizer(const conversion *c)
{
    char path[PATH_MOST];
    weft_error none;
    return c->from_gguf ? container_meta(&c->m.file, "tokenizer.ggml.tokens") != NULL
                        : tokenizer_file(path, c->from, c->host, &none) == WEFT_OK;
}

static bool wants_tokenizer(const conversion *c, int i)
{
    return (i == TEXT_TOKENIZER || i == TEXT_TOKENIZER_CONFIG) && !c->text[TEXT_TOKENIZER].text &&
           has_other_tokenizer(c);
}

/* Generates a generation_config.json only if the source never was a directory. */
void convert_text(conversion *c, int i, buffer *b)
{
    const small_text *t = &c->text[i];
    if (i == TEXT_CONFIG && !t->text) {
        make_config(c, b);
    } else if (i == TEXT_CONFIG && c->o->target) {
        make_config_typed(c, b);
    } else if (t->text) {
        buffer_put(b, t->text, t->length);
    } else if (wants_tokenizer(c, i)) {
        hf_make_tokenizer(c, i, b);
    } else if (i == TEXT_GENERATION && c->from_gguf && !c->text[TEXT_CONFIG].text) {
        buffer_text(b, "{");
        hf_put_ids(c, b, "");
        buffer_text(b, "\n}\n");
    }
}

static void write_text(conversion *c, const char *directory, int i)
{
    buffer b;
    buffer_begin(&b, &c->host->mem, c->err);
    convert_text(c, i, &b);
    if (b.n > 0 || b.failed)
        write_buffer(c, directory, text_files[i], &b);
    buffer_end(&b);
}

/* ---- the directory --------------------------------------------------------------------------- */

/* config.json comes last: without it, no program recognises the directory as a model. */
void convert_to_hf(conversion *c, const char *directory)
{
    char path[4096];
    const bool whole = c->n_part == 1;
    const weft_status status = convert_check_texts(c);
    if (status != WEFT_OK)
        c->save.status = status;
    save_directory(&c->save, directory);
    for (int part = 0; part < c->n_part && c->save.status == WEFT_OK; part++)
        write_shard(c, directory, part);
    c->report->n_file = c->n_part;
    if (!whole)
        write_index(c, directory);
    save_retire(&c->save,
                inside(c, directory, whole ? "model.safetensors.index.json" : "model.safetensors",
                       path, sizeof path));
    for (int i = N_TEXT - 1; i > TEXT_CONFIG; i--)
        write_text(c, directory, i);
    if (c->from_gguf && c->own)
        convert_restore_files(c, directory);
    write_text(c, directory, TEXT_CONFIG);
}
