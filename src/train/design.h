/* design.h - what a new decoder is made of: the words of `weft train`, and the keys of config.json
 * that they become. */
#ifndef WEFT_TRAIN_DESIGN_H
#define WEFT_TRAIN_DESIGN_H

#include "base/buffer.h"
#include "weft.h"

/* NULL and 0 are GPT-2's: learned, pre, gelu-tanh. */
typedef struct design_words {
    weft_positions positions;
    const char *norm, *act;
} design_words;

/* Heads: as many that have keys and values; or all from a latent of d_latent, next to d_shared key
 * elements that are the same for all. */
typedef struct design_heads {
    int64_t n_head_kv;
    int64_t d_latent, d_shared; /* 0: no latent */
} design_heads;

/* Is every word known? */
weft_status design_check(const design_words *d, weft_error *err);

/* Has anything been chosen? */
bool design_is_chosen(const design_words *d);

/* Is there something that transformers' GPT-2 cannot express? */
bool design_is_own(const design_words *d);

/* Does the feed forward have a gate? */
bool design_is_gated(const design_words *d);

/* Writes the keys, with a trailing comma and a line break each. */
void design_config(buffer *b, const design_words *d);

/* Latents in DeepSeek's proportions, longer for a head of d_head because there are fewer heads. */
void design_latent(design_heads *h, int64_t d_head);

/* "mha", "gqa:2", "mqa", "mla" or "mla:64", of n_head heads of this width. */
weft_status design_read_heads(const char *word, int64_t n_head, int64_t d_head, design_heads *to,
                              weft_error *err);

#endif
