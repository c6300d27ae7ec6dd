/* kept.c - finds the files of a directory that are embedded in a GGUF file, and reads JSON ones. */
#include "formats/kept.h"

#include <stdio.h>
#include <string.h>

const char *const text_files[N_TEXT] = {
    [TEXT_CONFIG] = "config.json",
    [TEXT_GENERATION] = "generation_config.json",
    [TEXT_TOKENIZER] = "tokenizer.json",
    [TEXT_TOKENIZER_CONFIG] = "tokenizer_config.json",
    [TEXT_SPECIAL] = "special_tokens_map.json",
    [TEXT_TEMPLATE] = "chat_template.jinja",
    [TEXT_PREPROCESSOR] = "preprocessor_config.json",
};

const char *const text_keys[N_TEXT] = {
    [TEXT_CONFIG] = "weft.huggingface.config",
    [TEXT_GENERATION] = "weft.huggingface.generation_config",
    [TEXT_TOKENIZER] = "tokenizer.huggingface.json",
    [TEXT_TOKENIZER_CONFIG] = "weft.huggingface.tokenizer_config",
    [TEXT_SPECIAL] = "weft.huggingface.special_tokens_map",
    [TEXT_TEMPLATE] = "weft.huggingface.chat_template",
    [TEXT_PREPROCESSOR] = "weft.huggingface.preprocessor_config",
};

bool kept_is_own(const container *c)
{
    const meta *m = container_meta(c, "general.architecture");
    return m && m->type == META_TEXT && strncmp(m->text, OWN_ARCH, strlen(OWN_ARCH)) == 0;
}

const char *kept_key(const char *name, char key[KEPT_KEY_BYTES])
{
    for (int i = 0; i < N_TEXT; i++)
        if (strcmp(text_files[i], name) == 0)
            return text_keys[i];
    snprintf(key, KEPT_KEY_BYTES, "%s%s", KEPT_PREFIX, name);
    return key;
}

const meta *kept_file(const container *c, const char *name)
{
    char key[KEPT_KEY_BYTES];
    const meta *m = container_meta(c, kept_key(name, key));
    return m && m->type == META_TEXT ? m : NULL;
}

weft_status kept_config(container *to, const container *of, const char *name, bool *there,
                        weft_error *err)
{
    char path[512], key[KEPT_KEY_BYTES];
    if (strcmp(of->format, "gguf") != 0)
        return config_beside(to, of->meta_path, name, there, of->host, err);
    const meta *m = kept_file(of, name);
    *to = (container){ .host = of->host };
    *there = m != NULL;
    if (!m)
        return WEFT_OK;
    snprintf(path, sizeof path, "%.150s: %s", of->path, kept_key(name, key));
    weft_status status = container_begin(to, "json", path, of->host, err);
    if (status == WEFT_OK)
        status = config_parse_list(to, (const uint8_t *)m->text, m->length, err);
    return status == WEFT_OK ? container_index(to, err) : status;
}
