/* chat_file.h - where a model keeps its chat template, and the tokens that templates call by name.
 *
 *     Hugging Face    chat_template.jinja, additional_chat_templates/NAME.jinja, or "chat_template"
 *                     in tokenizer_config.json: a text, or a list of { "name", "template" }
 *     GGUF            tokenizer.chat_template, tokenizer.chat_template.NAME
 *     any other file  is the template */
#ifndef WEFT_TEXT_SOURCES_CHAT_FILE_H
#define WEFT_TEXT_SOURCES_CHAT_FILE_H

#include "text/chat.h"

#define CHAT_TOKENS 7 /* bos, eos, unk, sep, pad, cls, mask */

typedef struct chat_file {
    const char *path; /* of the file that has it */
    const char *source;
    size_t n;
    const char
        *token[CHAT_TOKENS]; /* what chat_token_names[i] is spelled; NULL: the files do not say */
} chat_file;

extern const char *const chat_token_names[CHAT_TOKENS]; /* "bos_token" ... */

/* Reads the template called `name` into `store`. WEFT_EUNSUPPORTED if the model has none. */
weft_status chat_file_load(chat_file *c, const char *path, const char *name, arena *store, host *h,
                           weft_error *err);

/* The same, opened: chat_close it before freeing `store`. */
weft_status chat_load(chat *c, const char *path, const char *name, arena *store, host *h,
                      weft_error *err);

#endif
