/* peft_write.h - writes an adapter as a directory that PEFT and peft.h read.
 *
 *     peft_contents c;
 *     peft_contents_make(&c, &adapter, &model, "base", err);     both files, in memory
 *     peft_contents_write(&c, directory, false, host, err);      or written by the caller
 *     peft_contents_free(&c);
 *
 * Names of modules and the order of rows are those of a Hugging Face file. Where the model has rows
 * in that order too, the data is the adapter's own, without a copy, so contents that outlive a
 * change of the adapter's numbers are of no use: make them again. */
#ifndef WEFT_ADAPT_PEFT_WRITE_H
#define WEFT_ADAPT_PEFT_WRITE_H

#include "adapt/lines.h"
#include "base/buffer.h"
#include "base/save.h"

#define PEFT_CONFIG  "adapter_config.json"
#define PEFT_WEIGHTS "adapter_model.safetensors"

typedef struct peft_contents {
    buffer config; /* the text of adapter_config.json */
    adapter_tensor *tensor;
    int64_t n_tensor;
    arena store;
} peft_contents;

/* base: base_model_name_or_path, or NULL. The adapter and its model must outlive the contents. An
 * error, by name, if PEFT has no form for the adapter: a gain for some parts only, parts of a fused
 * matrix with different A. After an error the contents are free already. */
weft_status peft_contents_make(peft_contents *to, const adapter *a, const model *m,
                               const char *base, weft_error *err);
void peft_contents_free(peft_contents *c);

/* Adds the weights to a set of files. */
void peft_contents_put(const peft_contents *c, save *s, const char *path);

/* Both files or none; makes the directory. Without force, files that exist are an error. */
weft_status peft_contents_write(const peft_contents *c, const char *directory, bool force, host *h,
                                weft_error *err);

#endif
