/* pack.h - packs documents of any length into samples of n_ctx rows.
 *
 * Documents are packed in order. A few samples are open at a time; a piece goes into the one that
 * it fills best, and if it fits into none, the fullest is closed. Packing does not depend on the
 * seed: every epoch has the same samples in another order. */
#ifndef WEFT_TRAIN_PACK_H
#define WEFT_TRAIN_PACK_H

#include "train/data.h"

#define PACK_OPEN 64

typedef struct open_sample {
    int64_t sample;
    int64_t left; /* rows */
} open_sample;

/* A piece and its sample. */
typedef struct packed {
    data_piece piece;
    int64_t sample;
} packed;

typedef struct packer {
    data_part *part;
    mem *mem;
    scratch room;
    packed *placed;
    int64_t n;
    open_sample open[PACK_OPEN];
    int n_open;
} packer;

void packer_begin(packer *k, data_part *part, mem *m);

/* A document: ids [at, at + n), the first `n_prompt` of them without a loss; label is -1 if it has
 * none. */
bool packer_add(packer *k, int64_t at, int64_t n, int64_t n_prompt, int32_t label, weft_error *err);

/* Two documents that a sample must have together; skipped if they are longer than one. */
bool packer_add_pair(packer *k, const data_piece both[2], weft_error *err);

/* Hands the samples to the part. */
bool packer_finish(packer *k, weft_error *err);
void packer_end(packer *k);

#endif
