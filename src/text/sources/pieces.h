/* pieces.h - the bytes of token ids, from the vocabulary in a GGUF file. */
#ifndef WEFT_TEXT_SOURCES_PIECES_H
#define WEFT_TEXT_SOURCES_PIECES_H

#include "formats/container.h"

/* Token spellings, located once and stored as pointers into the file. */
typedef struct pieces {
    const char **text; /* [n], not terminated */
    uint32_t *length;
    int64_t n;
    bool byte_level;  /* GPT-2's stand-ins for bytes; otherwise SentencePiece's bar for a space */
    const meta *type; /* tokenizer.ggml.token_type, or NULL */
} pieces;

/* Leaves p empty, with WEFT_OK, if the file has no vocabulary of a known kind. */
weft_status pieces_init(pieces *p, const container *c, arena *store, weft_error *err);

/* The bytes of token id; same contract as weft_model_piece. */
int64_t pieces_bytes(const pieces *p, int32_t id, char *bytes, size_t size);

#endif
