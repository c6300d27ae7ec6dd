/* recognise.h - identifies a file or a directory that is not a model: the error message for a user
 * who downloaded a login page, cloned without Git LFS or gave one file of a directory. */
#ifndef WEFT_FORMATS_RECOGNISE_H
#define WEFT_FORMATS_RECOGNISE_H

#include "base/host.h"

/* The expected input, in messages. */
#define EXPECT_MODEL   "a GGUF file or a directory with config.json and model.safetensors"
#define EXPECT_WEIGHTS "safetensors"

/* An error if the bytes start like a well-known format that weft does not read: a Git LFS pointer,
 * HTML, an archive, a pickle, ONNX ... WEFT_OK otherwise. */
weft_status recognise_known(const char *path, const uint8_t *data, size_t size,
                            const char *expected, weft_error *err);

/* The same for bytes that cannot be the expected format: always an error, which for a text shows
 * its start. */
weft_status recognise(const char *path, const uint8_t *data, size_t size, const char *expected,
                      weft_error *err);

/* Why a directory is not a model: config.json is missing or, if `config` is true, the weights
 * are. */
weft_status recognise_directory(const char *path, bool config, host *h, weft_error *err);

#endif
