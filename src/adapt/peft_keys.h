/* peft_keys.h - every key that PEFT writes into an adapter_config.json, and what weft does with it. */
#ifndef WEFT_ADAPT_PEFT_KEYS_H
#define WEFT_ADAPT_PEFT_KEYS_H

#include "formats/container.h"

/* An error, by name, if the file is not of LoRA or asks for what weft does not do. A key that is not
 * known here may only be off, null or, with a warning to the log, a number or a text. */
weft_status peft_keys_check(const container *c, weft_error *err);

#endif
