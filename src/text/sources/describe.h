/* describe.h - a tokenizer as GGUF keys: tokens, types, scores or merges, the name of its
 * splitting, special tokens. */
#ifndef WEFT_TEXT_SOURCES_DESCRIBE_H
#define WEFT_TEXT_SOURCES_DESCRIBE_H

#include "formats/gguf_write.h"
#include "text/sources/source.h"

/* Adds the keys tokenizer.ggml.*, whatever file the tokenizer came from. Pads ids from the
 * tokenizer's last one up to n_vocab, as other converters do. *lacks names a part that GGUF cannot
 * express, so that only a reader of tokenizer.huggingface.json understands this tokenizer; NULL if
 * GGUF expresses all of it. */
weft_status tokenizer_describe(gguf_writer *w, const tokenizer *t, int64_t n_vocab,
                               const char **lacks, weft_error *err);

#endif
