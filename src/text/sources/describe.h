/* describe.h - a tokenizer in the words of GGUF: tokens, types, scores or merges, the name of its
 * splitting, special tokens. */
#ifndef WEFT_TEXT_SOURCES_DESCRIBE_H
#define WEFT_TEXT_SOURCES_DESCRIBE_H

#include "formats/gguf_write.h"
#include "text/sources/source.h"

/* Adds the keys tokenizer.ggml.*, whatever file the tokenizer came from. Ids from the tokenizer's last
 * one up to n_vocab are filled up, as others do it. *lacks: what GGUF has no word for, so that only
 * a reader of tokenizer.huggingface.json understands this tokenizer; NULL where all could be
 * said. */
weft_status tokenizer_describe(gguf_writer *w, const tokenizer *t, int64_t n_vocab,
                               const char **lacks, weft_error *err);

#endif
