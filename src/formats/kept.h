/* kept.h - the small files of a Hugging Face directory that a GGUF file embeds in its metadata.
 *
 * Each file has one key. Files that every conversion embeds have keys of their own
 * ("weft.huggingface.config" is config.json); the key of any other is "weft.file." and its name in
 * the directory. The bytes are the file's own, so binary files such as a SentencePiece model work
 * too. */
#ifndef WEFT_FORMATS_KEPT_H
#define WEFT_FORMATS_KEPT_H

#include "formats/container.h"

/* Files that every conversion embeds. */
enum {
    TEXT_CONFIG,
    TEXT_GENERATION,
    TEXT_TOKENIZER,
    TEXT_TOKENIZER_CONFIG,
    TEXT_SPECIAL,
    TEXT_TEMPLATE,
    TEXT_PREPROCESSOR,
    N_TEXT
};

extern const char *const text_files[N_TEXT];
extern const char *const text_keys[N_TEXT];

#define KEPT_KEY_BYTES 320
#define KEPT_PREFIX    "weft.file."

/* An architecture that GGUF does not define is "weft." and its model_type; its configuration is the
 * embedded config.json. */
#define OWN_ARCH "weft."

/* Is this a GGUF file that only weft reads? */
bool kept_is_own(const container *c);

/* The key of the file `name`, which is shorter than 256 bytes. */
const char *kept_key(const char *name, char key[KEPT_KEY_BYTES]);

/* The file `name` in a GGUF container; NULL if it is not embedded. */
const meta *kept_file(const container *c, const char *name);

/* The JSON file `name` that belongs to a model: next to its config.json, or embedded in its GGUF
 * file. A missing file is not an error. Close `to` either way. */
weft_status kept_config(container *to, const container *of, const char *name, bool *there,
                        weft_error *err);

#endif
