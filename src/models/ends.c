/* ends.c - collects end tokens from wherever files name them: GGUF's keys, or config.json and
 * generation_config.json, each of which may list several. */
#include "models/ends.h"

#include <stdio.h>
#include <string.h>

static void add(ends *e, const model *m, const meta *id)
{
    if (!id || id->type != META_INT || id->integer < 0 || id->integer >= m->n_vocab)
        return;
    for (int i = 0; i < e->n; i++)
        if (e->id[i] == id->integer)
            return;
    if (e->n < MAX_END)
        e->id[e->n++] = (int32_t)id->integer;
}

/* One id, or a list of them. */
static void collect(ends *e, const model *m, const container *c)
{
    add(e, m, container_meta(c, "eos_token_id"));
    for (int i = 0; i < MAX_END; i++) {
        char key[32];
        snprintf(key, sizeof key, "eos_token_id.%d", i);
        add(e, m, container_meta(c, key));
    }
}

static weft_status collect_text(ends *e, const model *m, const char *path, const void *text,
                                size_t size, weft_error *err)
{
    container c;
    weft_status status = container_begin(&c, "json", path, m->host, err);
    if (status == WEFT_OK)
        status = config_parse(&c, text, size, err);
    if (status == WEFT_OK)
        status = container_index(&c, err);
    if (status == WEFT_OK)
        collect(e, m, &c);
    container_close(&c);
    return status;
}

/* A file that is not there says nothing. */
static weft_status collect_file(ends *e, const model *m, weft_error *err)
{
    container c;
    bool there;
    const weft_status status = config_beside(&c, m->file.meta_path, "generation_config.json",
                                             &there, m->host, err);
    if (status == WEFT_OK && there)
        collect(e, m, &c);
    container_close(&c);
    return status;
}

static weft_status collect_kept(ends *e, const model *m, weft_error *err)
{
    static const char *const ids[] = { "tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id" };
    static const char *const texts[] = { "weft.huggingface.config",
                                         "weft.huggingface.generation_config" };
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        add(e, m, container_meta(&m->file, ids[i]));
    for (size_t i = 0; i < sizeof texts / sizeof *texts && status == WEFT_OK; i++) {
        const meta *kept = container_meta(&m->file, texts[i]);
        if (kept && kept->type == META_TEXT)
            status = collect_text(e, m, texts[i], kept->text, kept->length, err);
    }
    return status;
}

weft_status ends_read(ends *e, const model *m, weft_error *err)
{
    *e = (ends){ 0 };
    if (strcmp(m->file.format, "gguf") == 0)
        return collect_kept(e, m, err);
    collect(e, m, &m->file);
    return collect_file(e, m, err);
}
