/* train_chat.h - the chat template of a run, if it trains on conversations. */
#ifndef WEFT_API_TRAIN_CHAT_H
#define WEFT_API_TRAIN_CHAT_H

#include "api/api.h"
#include "text/chat.h"

typedef struct run_template {
    arena store;
    chat chat;
    bool found;
    weft_error why; /* that it was not */
} run_template;

/* The template that was given, or the one at `from`: a model or a tokenizer, or NULL. A missing or
 * broken one of the latter is an error only at the first conversation. Drop it after success. */
weft_status take_run_template(run_template *r, const weft_train_options *o, const char *from,
                              host *h, weft_error *err);
void drop_run_template(run_template *r);

#endif
