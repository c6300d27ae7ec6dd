/* lora.h - the adapter of --lora PATH[:STRENGTH], for the commands that take one. */
#ifndef WEFT_CLI_LORA_H
#define WEFT_CLI_LORA_H

#include "cli.h"

#define OPTION_LORA(text)                                                                          \
    {                                                                                              \
        0, "lora", OPT_TEXT, &(text), "PATH", SETTING | RARE,                                      \
            "add a LoRA adapter (PEFT); PATH:0.5 at half strength"                                 \
    }

typedef struct lora_choice {
    weft_adapter *adapter; /* NULL: none was given */
    double strength;
} lora_choice;

/* Opens what was given, NULL for nothing, and tells the engine (or NULL) its rank. Returns 0, or an
 * exit code after printing an error. */
int lora_open(const command *c, const char *given, weft_model *m, lora_choice *to,
              weft_engine_options *engine);

bool lora_apply(const lora_choice *of, weft_session *s, weft_error *err);

#endif
