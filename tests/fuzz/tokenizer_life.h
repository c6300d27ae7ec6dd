/* tokenizer_life.h - a tokenizer from bytes: loaded, used on a text, freed. */
#ifndef WEFT_TESTS_TOKENIZER_LIFE_H
#define WEFT_TESTS_TOKENIZER_LIFE_H

#include "base/host.h"

/* The forms of file, as the first byte of a fuzz input names them. */
typedef enum life_kind {
    LIFE_JSON,
    LIFE_SENTENCEPIECE,
    LIFE_TIKTOKEN,
    LIFE_BERT,
    LIFE_LLAMA2C,
    LIFE_GGUF,
    LIFE_MERGES, /* vocab.json, a zero byte, merges.txt */
    LIFE_LETTERS,
    LIFE_MARIAN, /* vocab.json, a zero byte, the model */
    N_LIFE,
} life_kind;

/* Returns the result of loading. If WEFT_OK, the text has been encoded in every way and decoded;
 * *wrong describes a violated invariant, or is NULL. */
weft_status tokenizer_life(life_kind kind, const uint8_t *data, size_t size, const char *text,
                           size_t n, host *h, const char **wrong, weft_error *err);

#endif
