/* messages.h - a conversation as JSON, from the words of a command line. */
#ifndef WEFT_CLI_MESSAGES_H
#define WEFT_CLI_MESSAGES_H

#include "cli.h"

/* [{"role":"system", ...},{"role":"user", ...}] with system unless that is NULL; cli_free frees it.
 * NULL without memory. */
char *cli_messages(const char *system, const char *user, size_t n_user);

/* The template of a model, or the file given in its place. NULL with err filled. */
weft_template *cli_template(const char *model, const char *file, const char *name, weft_error *err);

/* As cli_prompt, for a prompt that is a message: its ids in the form of the model's chat template. */
int cli_chat_prompt(const command *c, const prompt_options *p, const load_options *load,
                    weft_tokenizer **tokenizer, int32_t **ids, int64_t *n);

/* "2026-11-17" or Unix seconds, for templates that write the date; without one, SOURCE_DATE_EPOCH
 * or 0, which is now. False if it is neither. */
bool cli_date(const char *text, int64_t *now);

#endif
