/* peft_config.h - an adapter_config.json, and what it says about one module of a model.
 *
 * Modules are matched as in PEFT:
 *
 *     target_modules   a list: the name is an entry, or ends with "." and an entry;
 *                      a text: a regular expression for the whole name, or "all-linear"
 *     exclude_modules  likewise; it and modules_to_save win over target_modules
 *     layers_to_transform, layers_pattern   the number after the first "layers." of a name
 *     rank_pattern, alpha_pattern           (.*\.)?(key)$: the first key that matches counts
 *
 * PEFT runs Python's regular expressions; these run as those of tokenizers do (text/regex), which
 * refuse what they read differently. */
#ifndef WEFT_ADAPT_PEFT_CONFIG_H
#define WEFT_ADAPT_PEFT_CONFIG_H

#include "formats/container.h"
#include "text/regex/regex.h"

/* A name, or a regular expression for one; and a number that belongs to it. */
typedef struct peft_pattern {
    const char *text;
    regex *re; /* NULL: it is a name */
    double number;
} peft_pattern;

typedef struct peft_patterns {
    peft_pattern *at;
    int64_t n;
} peft_patterns;

typedef struct peft_config {
    container file;
    const char *path;
    const char *base; /* base_model_name_or_path, or NULL */
    int64_t r;
    double alpha;
    bool rslora, dora, lora_bias;
    bool all_linear;
    bool classifies; /* task_type is SEQ_CLS */
    bool keeps_ties; /* ensure_weight_tying */
    peft_patterns target, exclude, saved, ranks, alphas;
    peft_patterns layers; /* of numbers, whose patterns are names of lists of layers */
    peft_patterns layer_lists;
    regex_scratch *scratch;
} peft_config;

/* A module of the model. */
typedef struct peft_module {
    const char *name; /* "model.layers.0.self_attn.q_proj" */
    bool table;       /* an embedding */
    bool head;        /* of the whole model */
} peft_module;

typedef struct peft_match {
    bool targeted, saved;
    int64_t r; /* if it is targeted */
    double scale;
} peft_match;

/* Close it in any case. */
weft_status peft_config_open(peft_config *c, const char *directory, host *h, weft_error *err);
void peft_config_close(peft_config *c);

weft_status peft_config_match(const peft_config *c, const peft_module *m, peft_match *match,
                              weft_error *err);

#endif
