/* lora_pupil.h - a small model, an adapter that is trained on it, and batches for both. */
#ifndef WEFT_TESTS_LORA_PUPIL_H
#define WEFT_TESTS_LORA_PUPIL_H

#include "small_model.h"
#include "train/learner.h"

#define PUPIL_ROWS 1024
#define PUPIL_SEQ  40

typedef struct lora_pupil {
    fixture_model f;
    ready_adapter ready;
    lora_params own;
    learner l;
    batch batch;
    batch_row row[PUPIL_ROWS];
    sequence seq[PUPIL_SEQ];
} lora_pupil;

/* n_seq sequences of `length` ids each; every row's target is the next token. */
void pupil_fill(lora_pupil *p, const int32_t *ids, int n_seq, int length);

/* Random ids below n_vocab. */
void pupil_draw(lora_pupil *p, int n_seq, int length, uint64_t seed, int n_vocab);

/* The model is open and the batch is filled as the largest. spec: as for --lora; directory: an
 * adapter to continue from, or NULL. */
void pupil_begin(lora_pupil *p, const char *spec, const char *directory, learner_options o);

/* Frees all, and checks that all memory is. */
void pupil_end(lora_pupil *p);

/* One step; returns the loss before it. */
real pupil_step(lora_pupil *p, double lr);

#endif
