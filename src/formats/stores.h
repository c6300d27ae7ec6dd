/* stores.h - lists the models that other programs have downloaded.
 *
 *   a directory     NAME.gguf   NAME/config.json   NAME/FILE.gguf   ORG/NAME/...
 *   Hugging Face    hub/models--ORG--NAME/refs/main           the name of a snapshot
 *                                        /snapshots/REV/...   links to ../../blobs/HASH
 *   llama.cpp       ORG_NAME_FILE.gguf
 *   Ollama          manifests/HOST/NAMESPACE/NAME/TAG         JSON, with the digests of layers
 *                   blobs/sha256-HEX                          one of which is a GGUF file
 *
 * Stores are read only, and not trusted: anything that becomes part of a path must be a single
 * name, and an entry that cannot be followed is a problem of that one model. */
#ifndef WEFT_FORMATS_STORES_H
#define WEFT_FORMATS_STORES_H

#include "base/arena.h"
#include "base/host.h"

#define STORE_MAX_PATH     4096
#define STORE_MAX_MANIFEST (1u << 20) /* bytes; real ones have about a thousand */
#define STORE_DIGEST       72         /* "sha256-", 64 digits and the terminator */

typedef enum store_kind { STORE_DIRECTORY, STORE_HF, STORE_LLAMA, STORE_OLLAMA } store_kind;

typedef struct store {
    store_kind kind;
    const char *path;
} store;

/* "Hugging Face cache", for people; "huggingface", for programs. */
const char *store_title(store_kind kind);
const char *store_word(store_kind kind);

typedef struct store_model {
    const char *name;    /* "org/name", "llama3.2" */
    const char *tag;     /* "Q4_K_M", "1b"; "": none */
    const char *file;    /* name of the GGUF file, or "" */
    const char *path;    /* the path to open; "" if there is a problem */
    const char *problem; /* NULL, or why it cannot be opened */
} store_model;

/* Called for each model, in the order of names; false ends the walk. Its arguments are valid during
 * the call only. */
typedef bool store_fn(void *ud, const store *s, const store_model *m);

/* WEFT_EIO if the store itself does not exist or cannot be listed. */
weft_status store_each(const store *s, host *h, store_fn *fn, void *ud, weft_error *err);

/* ---- its parts, for the walk and its tests --------------------------------------------------- */

/* Can it be one component of a path? Letters, digits, dots and similar; not "." or ".." or hidden,
 * no slash, no control characters. */
bool store_name_ok(const char *name, size_t n);

/* The name of the snapshot in refs/main, in `to`: false if the text is not such a name. */
bool store_ref(const uint8_t *text, size_t n, char *to, size_t room);

/* "Q4_K_M" for "SmolLM2-135M.Q4_K_M.gguf" or the first part of such a file; if the name does not
 * end in a type, all of it but ".gguf". */
void store_tag(const char *gguf, char *to, size_t room);

/* Can it be opened: a GGUF file, or the first of several parts? Image projectors ("mmproj") are not
 * models. */
bool store_is_gguf(const char *gguf);

/* The blob that an Ollama manifest names as its model: "sha256-HEX". */
weft_status ollama_manifest(const uint8_t *data, uint64_t size, const char *path,
                            char digest[STORE_DIGEST], host *h, weft_error *err);

#endif
