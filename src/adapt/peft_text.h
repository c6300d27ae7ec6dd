/* peft_text.h - the text of an adapter_config.json for given modules. */
#ifndef WEFT_ADAPT_PEFT_TEXT_H
#define WEFT_ADAPT_PEFT_TEXT_H

#include "base/buffer.h"

#include <stdbool.h>
#include <stdint.h>

/* A module of the model; one that is listed twice says the same twice. */
typedef struct peft_text_module {
    const char *name;
    bool targeted; /* has A and B, of this rank and scale */
    int64_t r;
    double scale;
    bool saved; /* whole weights take its place */
} peft_text_module;

typedef struct peft_text {
    const peft_text_module
        *module;             /* all of the model's, changed or not: names are shortened ... */
    int64_t n;               /* ... to ends that match no other */
    const char *base, *task; /* or NULL */
    const char *bias;
    bool dora, lora_bias, fan_in_fan_out;
} peft_text;

/* Appends it; at least one module is targeted. */
void peft_text_put(const peft_text *t, buffer *b);

#endif
