/* lora.h - the adapter of --lora PATH[:STRENGTH], for the commands that take one. */
#ifndef WEFT_CLI_LORA_H
#define WEFT_CLI_LORA_H

#include "cli.h"

#define OPTION_LORA(text)                                                                          \
    {                                                                                              \
        0, "lora", OPT_TEXT, &(text), "PATH", SETTING | RARE,                                      \
            "add an adapter (PEFT, GGUF); PATH:0.5 at half strength"                               \
    }

typedef struct lora_choice {
    weft_adapter *adapter; /* NULL: none was given */
    double strength;
} lora_choice;

/* Splits PATH[:STRENGTH]. Returns 0, or an exit code after printing an error. */
int lora_path(const command *c, const char *given, char *path, size_t size, double *strength);

/* Opens what was given, NULL for nothing; *rank (or NULL) gets its rank, for the engine. Returns 0,
 * or an exit code after printing an error. */
int lora_open(const command *c, const char *given, weft_model *m, lora_choice *to, int64_t *rank);

/* A session with the adapter: the one saved at `path`, or a new one if that is NULL. */
weft_session *lora_session(const lora_choice *of, weft_engine *e, const char *path,
                           weft_error *err);

/* Warns of an adapter that was trained with another chat template. */
void lora_check_template(const char *given, const weft_template *t);

#endif
