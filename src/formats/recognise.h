/* recognise.h - what a file or a directory is that is not a model: the sentence that a user needs
 * who downloaded a login page, cloned without Git LFS or gave one file of a directory. */
#ifndef WEFT_FORMATS_RECOGNISE_H
#define WEFT_FORMATS_RECOGNISE_H

#include "base/host.h"

/* What is expected in place of it, in messages. */
#define EXPECT_MODEL   "a GGUF file or a directory with config.json and model.safetensors"
#define EXPECT_WEIGHTS "safetensors"

/* An error where the bytes begin as something well known that weft reads nowhere: a Git LFS
 * pointer, HTML, an archive, a pickle, ONNX ... WEFT_OK otherwise. */
weft_status recognise_known(const char *path, const uint8_t *data, size_t size,
                            const char *expected, weft_error *err);

/* The same for bytes that cannot be what was expected: always an error, which for a text shows how
 * it begins. */
weft_status recognise(const char *path, const uint8_t *data, size_t size, const char *expected,
                      weft_error *err);

/* Why a directory is no model: config.json is missing or, where `config` is true, the weights. */
weft_status recognise_directory(const char *path, bool config, host *h, weft_error *err);

#endif
