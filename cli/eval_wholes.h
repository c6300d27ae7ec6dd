/* eval_wholes.h - `weft eval` for masked language models and encoder-decoders. */
#ifndef WEFT_CLI_EVAL_WHOLES_H
#define WEFT_CLI_EVAL_WHOLES_H

#include "cli.h"

typedef struct whole_eval {
    weft_model *model, *other; /* other: NULL without one to compare with */
    weft_model_info info;
    const char *path, *pre; /* of the model; how text is split */
    const text_list *files; /* texts: one in a line; or a source, a tab and its text */
    int threads;
    const char *tokenizer; /* its path: --tokenizer, or the model's */
} whole_eval;

/* Fills `to`, and counts the lines that were scored. Returns 0, or an exit code after printing an
 * error. */
int eval_masks(const whole_eval *e, weft_evaluation *to, int64_t *n_line);
int eval_pairs(const whole_eval *e, weft_evaluation *to, int64_t *n_line);

#endif
