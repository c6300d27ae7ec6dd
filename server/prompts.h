/* prompts.h - from the fields of a request to the tokens that a model reads, and the files of images. The clerk does this: a
 * body may be long. Functions return false with why filled. */
#ifndef WEFT_SERVER_PROMPTS_H
#define WEFT_SERVER_PROMPTS_H

#include "job.h"

/* ---- of a whole request: j->prompts ---------------------------------------------------------- */

bool prompts_make(job *j, refusal *why);      /* texts to be continued */
bool prompts_chat(job *j, refusal *why);      /* a conversation */
bool prompts_sources(job *j, refusal *why);   /* of an encoder-decoder */
bool prompts_encodings(job *j, refusal *why); /* of an encoder */

/* ---- parts of it ----------------------------------------------------------------------------- */

/* second: the other text of a pair, or NULL. */
bool prompts_encode(const job *j, const input *in, const input *second, prompt *to, refusal *why);

/* All of ids as text. */
bool prompts_decode(const instance *of, const int32_t *ids, int64_t n, bytes *to, refusal *why);

/* The ids of prompt i are below V. */
bool prompts_check_ids(const job *j, const prompt *p, int64_t i, int64_t V, refusal *why);

/* The conversation as the template writes it; tokenizer NULL: only its text. */
weft_rendered *prompts_render(const job *j, const weft_tokenizer *tokenizer, refusal *why);

/* The token that stands for one that is missing; -1: there is none. */
int32_t prompts_mask(const weft_tokenizer *t);

bool prompts_no_memory(refusal *why);
bool prompts_refused_by(const weft_error *err, const char *param, refusal *why);

#endif
