/* steps.h - calls back at each step by which a text becomes ids (weft_tokenizer_steps).
 *
 * The stages call these functions where they do the work, so what is shown is what happens. A
 * callback that stops, or memory that runs out, is remembered: the stages go on, nothing more is shown, and
 * the encoder fails after the word. */
#ifndef WEFT_TEXT_STEPS_H
#define WEFT_TEXT_STEPS_H

#include "text/text.h"

typedef struct step_watch {
    weft_tokenizer_step_fn *fn;
    void *ud;
    uint32_t n_id;      /* ids are below this; other symbols are shown as -1 */
    const float *score; /* of pieces, where merges go by score; or NULL */
    mem *mem;
    weft_error *err;
    weft_tokenizer_step next; /* the next step to show; what is about a word has its text */
    scratch room;             /* of its pieces */
    bool failed;              /* err is filled */
} step_watch;

void steps_free(step_watch *w);

/* A stretch of the input, and what it was made into. */
void steps_normalized(step_watch *w, const piece *input, const piece *text);
void steps_added(step_watch *w, const piece *p, size_t begin, size_t end, uint32_t id);

/* Begins a word. */
void steps_word(step_watch *w, const piece *p);

/* A piece of the next step, and the step. */
void steps_piece(step_watch *w, uint32_t id, size_t from, size_t to, double score);
void steps_show(step_watch *w, weft_step_kind kind);

/* The pair that the next merge is about: its ids, where both begin and the second ends. */
void steps_pair(step_watch *w, const uint32_t id[2], const uint32_t at[3], uint32_t rank,
                uint32_t to);

void steps_path(step_watch *w, double sum);
void steps_match(step_watch *w, uint32_t id, size_t from, size_t to);
void steps_tokens(step_watch *w, const weft_tokens *tokens);

#endif
