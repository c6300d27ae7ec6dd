/* stop_ids.c - collects end tokens from all places that name them: GGUF's keys, or config.json and
 * generation_config.json, each of which may list several. */
#include "models/stop_ids.h"

#include "formats/kept.h"

#include <stdio.h>
#include <string.h>

static void add_stop_id(stop_ids *e, const model *m, const meta *id)
{
    if (!id || id->type != META_INT || id->integer < 0 || id->integer >= m->n_vocab)
        return;
    for (int i = 0; i < e->n; i++)
        if (e->id[i] == id->integer)
            return;
    if (e->n < MAX_STOP_ID)
        e->id[e->n++] = (int32_t)id->integer;
}

/* One id, or a list of them. */
static void collect_stop_ids(stop_ids *e, const model *m, const container *c)
{
    add_stop_id(e, m, container_meta(c, "eos_token_id"));
    for (int i = 0; i < MAX_STOP_ID; i++) {
        char key[32];
        snprintf(key, sizeof key, "eos_token_id.%d", i);
        add_stop_id(e, m, container_meta(c, key));
    }
}

/* A missing file is not an error. */
static weft_status collect_stop_ids_of_file(stop_ids *e, const model *m, const char *name,
                                            weft_error *err)
{
    container c;
    bool there;
    const weft_status status = kept_config(&c, &m->file, name, &there, err);
    if (status == WEFT_OK && there)
        collect_stop_ids(e, m, &c);
    container_close(&c);
    return status;
}

weft_status stop_ids_read(stop_ids *e, const model *m, weft_error *err)
{
    static const char *const ids[] = { "tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id" };
    *e = (stop_ids){ 0 };
    const bool gguf = strcmp(m->file.format, "gguf") == 0;
    for (size_t i = 0; gguf && i < sizeof ids / sizeof *ids; i++)
        add_stop_id(e, m, container_meta(&m->file, ids[i]));
    if (!gguf)
        collect_stop_ids(e, m, &m->file);
    const weft_status status = gguf ? collect_stop_ids_of_file(e, m, text_files[TEXT_CONFIG], err)
                                    : WEFT_OK;
    return status == WEFT_OK ? collect_stop_ids_of_file(e, m, text_files[TEXT_GENERATION], err)
                             : status;
}
