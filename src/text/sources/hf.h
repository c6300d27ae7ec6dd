/* hf.h - runs a tokenizer.json: every step that Hugging Face's tokenizers know, and no other. */
#ifndef WEFT_TEXT_SOURCES_HF_H
#define WEFT_TEXT_SOURCES_HF_H

#include "formats/json.h"
#include "text/tokenizer.h"

/* Fills a tokenizer after tokenizer_begin. An unknown step is an error with its name and place. */
weft_status hf_load(tokenizer *t, json_t *root, weft_error *err);

/* The current place in the file, for errors: "pre_tokenizer.pretokenizers[1]". */
typedef struct place {
    const tokenizer *t;
    char at[128];
} place;

weft_status hf_normalizer(tokenizer *t, const json_t *j, const place *at, weft_error *err);
weft_status hf_pre_tokenizer(tokenizer *t, const json_t *j, const place *at, weft_error *err);
weft_status hf_post_processor(tokenizer *t, const json_t *j, const place *at, weft_error *err);
weft_status hf_decoder(tokenizer *t, const json_t *j, const place *at, weft_error *err);
weft_status hf_model(tokenizer *t, const json_t *j, weft_error *err);

/* vocab.json and merges.txt as a model; `vocab` is an object of ids. */
weft_status hf_vocab(tokenizer *t, const json_t *vocab, const json_t *added, const char *at,
                     weft_error *err);

/* A byte-level BPE whose merges are lines of merges.txt or of a GGUF file. NULL after the last. */
typedef const char *merge_fn(void *ud, size_t *length);
weft_status bpe_from_lines(tokenizer *t, uint64_t n, merge_fn *next, void *ud, weft_error *err);

/* Byte level: the model works on exact bytes. False if some byte has no token: like Hugging Face,
 * the tokenizer then drops such bytes, and it does not count as byte level. */
bool bpe_take_bytes(tokenizer *t);

weft_status hf_wrong(const place *at, const char *field, const char *expected, weft_error *err);

/* Field readers. Each returns false after filling err if the field has another type; a missing
 * field or null leaves *to unchanged. */
bool hf_bool(const json_t *j, const char *field, bool *to, const place *at, weft_error *err);
bool hf_text(const json_t *j, const char *field, const char **to, size_t *n, const place *at,
             weft_error *err);
bool hf_integer(const json_t *j, const char *field, int64_t *to, int64_t most, const place *at,
                weft_error *err);

/* One of n names, as its index. */
bool hf_choice(const json_t *j, const char *field, const char *const *names, int n, int *to,
               const place *at, weft_error *err);

/* Required text, copied into the tokenizer's store; hf_point: exactly one code point. */
weft_status hf_keep_text(tokenizer *t, const json_t *j, const char *field, const char **to,
                         size_t *n, const place *at, weft_error *err);
weft_status hf_point(const json_t *j, const char *field, uint32_t *point, const place *at,
                     weft_error *err);

/* "pattern": { "String": "..." } or { "Regex": "..." }; *pattern stays NULL for the former. */
weft_status hf_pattern(tokenizer *t, const json_t *j, const place *at, const char **text, size_t *n,
                       regex **pattern, weft_error *err);

/* A type of step: its name, all fields it may have, and its reader. `which` distinguishes types
 * that share a reader. */
typedef weft_status read_fn(tokenizer *t, const json_t *j, int which, const place *at,
                            weft_error *err);
typedef struct step_type {
    const char *name, *fields;
    read_fn *read;
    int which;
} step_type;

/* Reads a step of one of these types; an entry without a name ends the list. Any other type or
 * field is an error with its name and place. */
weft_status hf_step(tokenizer *t, const json_t *j, const step_type *types, const place *at,
                    weft_error *err);

/* Runs `step` on all steps of a Sequence. */
typedef weft_status step_fn(tokenizer *t, const json_t *j, const place *at, weft_error *err);
weft_status hf_each(tokenizer *t, const json_t *j, const char *field, step_fn *step,
                    const place *at, weft_error *err);

/* The fields of ByteLevel and of Metaspace, wherever they appear. */
#define BYTE_LEVEL_FIELDS "type add_prefix_space trim_offsets use_regex"
#define METASPACE_FIELDS  "type replacement str_rep add_prefix_space prepend_scheme split"
bool hf_metaspace(const json_t *j, int *scheme, bool *cut, const place *at, weft_error *err);

/* Whether every key of j is among `keys`, which are separated by spaces. */
bool hf_keys(const json_t *j, const char *keys, const place *at, weft_error *err);

#endif
