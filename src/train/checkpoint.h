/* checkpoint.h - a run on disk: what it takes to go on as if nothing had happened, and a model that
 * others load.
 *
 *     RUN/config.json, tokenizer.json ...       the newest checkpoint's, as second names of the same
 *     RUN/model.safetensors                     files: RUN is a Hugging Face model
 *     RUN/step-00000200/model.safetensors       the weights, f32
 *     RUN/step-00000200/config.json ...
 *     RUN/step-00000200/state.weft              what else is needed: the optimiser's moments ...
 *     RUN/step-00000200/manifest.json           comes last; see formats/manifest.h
 *
 * A directory with a manifest that fits its files is a checkpoint, one without is the rest of a
 * crash. Every byte has reached the disk before the manifest's name is there, and nothing older is
 * removed before that. A second checkpoint of a step goes to step-00000200-2, so that none is ever
 * written over. Only one process may write to a run at a time: the one that has locked its directory. */
#ifndef WEFT_TRAIN_CHECKPOINT_H
#define WEFT_TRAIN_CHECKPOINT_H

#include "formats/manifest.h"
#include "models/hf_form.h"

/* The right to write to a run. It ends with the process, however that ends. */
typedef struct run_lock {
    const char *root;
    bool made; /* the directory: if nothing comes into it, it goes again */
    int fd;    /* -1: not locked */
    host *host;
} run_lock;

/* Makes the directory where there is none, locks it, and removes what a killed process left of files.
 * An error where another process has it. On a file system without locks a warning is all. */
weft_status run_lock_take(run_lock *l, const char *root, host *h, weft_error *err);
void run_lock_drop(run_lock *l);

/* Bytes of the state under a name: written from `data`, or read into it. */
typedef struct checkpoint_block {
    const char *name; /* "adamw.m" */
    void *data;
    size_t bytes;
} checkpoint_block;

/* What is to be kept. */
typedef struct checkpoint_view {
    manifest_counters counters;    /* step, cursor, seed ... */
    const char *options;           /* of the run, as text that only the trainer reads */
    const hf_form *form;           /* the model as a directory */
    const float *const *weight;    /* [form->n_tensor], in the order of the model's parameters */
    const checkpoint_block *block; /* the state */
    int n_block;
    int64_t spared; /* a step whose checkpoint stays, however many came after it; 0: none */
} checkpoint_view;

/* Writes a checkpoint into `root`, a directory that is made where there is none; then removes what
 * came before, except the newest `keep` with this one (0: all stay) and the spared one. After an error everything that
 * was there still is, and nothing of the new one. */
weft_status checkpoint_write(const char *root, const checkpoint_view *v, int keep, host *h,
                             weft_error *err);

/* Removes the files of a checkpoint in a directory, the manifest first, and the directory; if it
 * holds other files, those stay, and it with them. */
void checkpoint_remove(const char *directory, host *h);

/* A checkpoint that was found. */
typedef struct checkpoint {
    char path[4096]; /* its directory, which model_open opens; "" where the run has none */
    manifest manifest;
} checkpoint;

/* The newest whose every byte is as it was written. One that is damaged is passed over with a
 * warning that names file and chunk; an error where all are. */
weft_status checkpoint_find(checkpoint *c, const char *root, host *h, weft_error *err);

/* Makes the run's directory the model of this checkpoint: a crash may have left it the one before, or
 * the one that is damaged. */
void checkpoint_publish(const checkpoint *c, const char *root, host *h);

/* Fills the blocks, which must have the names and sizes that were written. */
weft_status checkpoint_read(const checkpoint *c, const checkpoint_block *block, int n_block,
                            host *h, weft_error *err);
void checkpoint_free(checkpoint *c);

#endif
