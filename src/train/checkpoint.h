/* checkpoint.h - a training run on disk: everything needed to resume exactly, and a model that
 * other programs load.
 *
 *     RUN/config.json, tokenizer.json ...       the newest checkpoint's, as second names of the same
 *     RUN/model.safetensors                     files: RUN is a Hugging Face model
 *     RUN/step-00000200/model.safetensors       the weights, f32
 *     RUN/step-00000200/config.json ...
 *     RUN/step-00000200/state.weft              the rest of the state: the optimiser's moments ...
 *     RUN/step-00000200/manifest.json           written last; see formats/manifest.h
 *
 * A run that trains an adapter has a PEFT directory instead: adapter_model.safetensors,
 * adapter_config.json, and of the small files those of the tokenizer and the chat template.
 *
 * A directory whose manifest matches its files is a checkpoint; one without a manifest is the
 * remains of a crash. Every byte has reached the disk before the manifest gets its name, and
 * nothing older is removed before that. A second checkpoint of a step goes to step-00000200-2, so
 * none is ever overwritten. Only one process may write to a run at a time: the one that has locked
 * its directory. */
#ifndef WEFT_TRAIN_CHECKPOINT_H
#define WEFT_TRAIN_CHECKPOINT_H

#include "adapt/peft_write.h"
#include "formats/manifest.h"
#include "models/hf_form.h"

/* A named piece of the state: written from `data`, or read into it. Pieces may share their room:
 * `fill` is called before one is written, and `take` when it has been read; or NULL. */
typedef struct checkpoint_block {
    const char *name; /* "adamw.m" */
    void *data;
    size_t bytes;
    weft_status (*fill)(void *ud, const char *name, weft_error *err);
    void (*take)(void *ud, const char *name);
    void *ud;
} checkpoint_block;

/* The contents of a checkpoint to write. */
typedef struct checkpoint_view {
    manifest_counters counters;    /* step, cursor, seed ... */
    const char *options;           /* settings of the run, as text that only the trainer reads */
    const hf_form *form;           /* the model as a directory */
    const float *const *weight;    /* [form->n_tensor], in the order of the model's parameters */
    const peft_contents *adapter;  /* instead of weights; or NULL */
    const checkpoint_block *block; /* the state */
    int n_block;
    int64_t spared; /* a step whose checkpoint is never removed; 0: none */
} checkpoint_view;

/* Writes a checkpoint into `root`, which is created if needed. Then removes older checkpoints,
 * except the newest `keep` including this one (0: keep all) and the spared one. After an error all
 * earlier files are still there, and none of the new ones. */
weft_status checkpoint_write(const char *root, const checkpoint_view *v, int keep, host *h,
                             weft_error *err);

/* Removes temporary files that a killed process left in a run. */
void checkpoint_sweep(const char *root, host *h);

/* Removes the files of a checkpoint, the manifest first, then the directory. A directory that holds
 * other files stays, with those files. */
void checkpoint_remove(const char *directory, host *h);

/* A checkpoint that was found. */
typedef struct checkpoint {
    char path[4096]; /* its directory, for model_open; "" if the run has none */
    manifest manifest;
} checkpoint;

/* Finds the newest checkpoint whose every byte is as written. Skips a damaged one with a warning
 * that names file and chunk; fails if all are damaged. */
weft_status checkpoint_find(checkpoint *c, const char *root, host *h, weft_error *err);

/* Opens the one in c->path, whose files another process has checked. */
weft_status checkpoint_open(checkpoint *c, host *h, weft_error *err);

/* Makes the run's directory the model of this checkpoint. After a crash it may still be the
 * previous model, or a damaged one. */
void checkpoint_publish(const checkpoint *c, const char *root, host *h);

/* Fills the blocks, whose names and sizes must match those written. */
weft_status checkpoint_read(const checkpoint *c, const checkpoint_block *block, int n_block,
                            host *h, weft_error *err);
void checkpoint_free(checkpoint *c);

#endif
