/* pack.h - documents of any length into samples of n_ctx rows.
 *
 * Samples are filled in the order of the documents. Some are open at a time; a piece goes into the
 * one that it fills best, and where it fits into none the fullest is closed. Nothing depends on the
 * seed: every epoch has the same samples in another order. */
#ifndef WEFT_TRAIN_PACK_H
#define WEFT_TRAIN_PACK_H

#include "train/data.h"

#define PACK_OPEN 64

typedef struct open_sample {
    int64_t sample;
    int64_t left; /* rows */
} open_sample;

/* A piece and the sample that has it. */
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

/* A document: ids [at, at + n), of which the first `quiet` are only read; or one with a label, -1
 * where it has none. */
bool packer_add(packer *k, int64_t at, int64_t n, int64_t quiet, int32_t label, weft_error *err);

/* Gives the part its samples. */
bool packer_finish(packer *k, weft_error *err);
void packer_end(packer *k);

#endif
