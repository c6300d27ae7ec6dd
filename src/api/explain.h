/* explain.h - parts of a page that need more than the forward it shows: the sampler's stages, a
 * beam search, and what a cache saves; and names of tokens. */
#ifndef WEFT_API_EXPLAIN_H
#define WEFT_API_EXPLAIN_H

#include "explain/subject.h"

/* The bytes of a token: its text, the spelling of a special one, or its number. The tokenizer may be
 * NULL. */
size_t spell_token(const void *tokenizer, int32_t id, char *to, size_t size);

/* Fills the stages of one draw from these logits, after the ids. */
weft_status take_stages(weft_model *m, const float *logits, const int32_t *ids, int64_t n,
                        subject *to, weft_error *err);

typedef struct beam_tree {
    weft_beam_node *at; /* counted in the model's memory */
    int64_t n, room;
} beam_tree;

/* The text that the decoder of an encoder-decoder makes of a source, each token the most probable
 * one: its start token and what follows, at most `most` tokens, without the one that ends it. */
weft_status translate_greedily(weft_model *m, const weft_explain_options *o, int64_t most,
                               int32_t *ids, int64_t *n, weft_error *err);

/* A row of an image in a page: "[CLS]", or the patch "2,3" in row 2 and column 3. */
size_t name_image_row(const model *m, int64_t i, char *to, size_t size);

#define BEAMS      4
#define BEAM_STEPS 3

/* Positions that a page about n tokens needs: with room for a search after them, unless the model
 * has none, or would rotate differently because of it. */
int64_t page_context(const model *m, int64_t n);

/* A short search after the ids, which the session holds; no nodes if there is no room for it. The
 * options have the source, if there is one. */
weft_status grow_beams(weft_engine *e, const weft_session *s, const int32_t *ids, int64_t n,
                       const weft_explain_options *from, beam_tree *to, weft_error *err);

/* Times a token with a cache and without, in a session that has evaluated the ids. */
weft_status time_cache(weft_session *s, const int32_t *ids, int64_t n, subject *to,
                       weft_error *err);

#endif
