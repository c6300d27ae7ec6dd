/* token_steps.h - how a text becomes tokens, a line or a JSON object for each step. */
#ifndef WEFT_CLI_TOKEN_STEPS_H
#define WEFT_CLI_TOKEN_STEPS_H

#include "cli.h"

weft_status token_steps_print(const weft_tokenizer *t, const char *text, size_t n,
                              const weft_tokenize_options *o, weft_error *err);

/* {"steps": [...], "n": 4, "ids": [...]}; nothing is printed for a text that is refused. */
weft_status token_steps_json(const weft_tokenizer *t, const char *text, size_t n,
                             const weft_tokenize_options *o, weft_error *err);

#endif
