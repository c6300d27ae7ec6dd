/* mask.h - masked language modelling: random tokens are masked and predicted.
 *
 *     of the tokens that are not special     15 % are chosen: each is its own target
 *     of the chosen                          80 % become the mask, 10 % any token, 10 % stay
 *
 * The choice depends only on the key, the number of the piece and the row in it. */
#ifndef WEFT_TRAIN_MASK_H
#define WEFT_TRAIN_MASK_H

#include "tensor/batch.h"
#include "text/tokenizer.h"

typedef struct masking {
    int32_t id; /* of the mask */
    const tokenizer *tokenizer;
    uint32_t n_vocab;
    double share;
} masking;

#define MASKED_SHARE 0.15

/* Is row i of a piece chosen? */
bool mask_chooses(const masking *m, uint64_t key, uint64_t number, uint64_t i, int32_t id);

/* Masks some of the rows [first, n_row) of a batch, which belong to the piece. */
void mask_rows(batch *b, int32_t first, const masking *m, uint64_t key, uint64_t number);

#endif
