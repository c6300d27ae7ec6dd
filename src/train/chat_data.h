/* chat_data.h - a conversation as training data: its text, and which bytes of it are learned.
 *
 *     { "messages": [{ "role", "content", ... }], "tools": [...] }      OpenAI, Hugging Face
 *     { "conversations": [{ "from": "human", "value": ... }, ...] }     ShareGPT
 *     { "instruction": ..., "input": ..., "output": ... }               Alpaca
 *
 * Learned is what the assistant writes: from the end of the generation prompt, or from the first byte
 * of its message if the text does not begin with that prompt, to the token that ends its turn. A
 * template with {% generation %} blocks says itself what they are. A message with "weight": 0 is not
 * learned. */
#ifndef WEFT_TRAIN_CHAT_DATA_H
#define WEFT_TRAIN_CHAT_DATA_H

#include "text/chat.h"

/* The time that a template which prints today's date gets, so that a run has the same data on every
 * day: 26 July 2024, 11:00 UTC, the day that Llama's templates name without a clock. */
#define CHAT_DATA_NOW 1721991600

/* Learned bytes. */
typedef struct chat_learned {
    uint32_t from, to;
    uint32_t until; /* the token that ends the turn may follow before this */
} chat_learned;

typedef struct chat_document {
    const char *text;
    size_t n;
    const weft_span *trusted;
    size_t n_trusted;
    chat_learned *learned;
    size_t n_learned;
} chat_document;

typedef struct chat_counts {
    int64_t n_conversation;
    int64_t n_answer;     /* messages of the assistant that are learned */
    int64_t n_unprompted; /* of these, those whose text does not begin with the generation prompt */
    int64_t n_thought_dropped; /* messages whose thinking the template leaves out */
    int64_t n_endless; /* answers without a special token at their end: nothing teaches to stop */
} chat_counts;

/* A template and the tokens of its turns. */
typedef struct chat_reader {
    const chat *chat;
    const tokenizer *tokenizer;
    mem *mem;
    chat_options how;
    scratch gated; /* int32_t [n_gated]: added tokens that nobody else may write */
    size_t n_gated;
    int32_t turn_end; /* the token after an answer; -1: unknown */
} chat_reader;

/* Finds the end of a turn by rendering a small conversation. */
weft_status chat_reader_begin(chat_reader *r, const chat *c, const tokenizer *t, encoder *e, mem *m,
                              weft_error *err);
void chat_reader_end(chat_reader *r);

/* Is a line a conversation? */
bool chat_data_is(const json_t *line);

/* Renders the conversation of a line into `store`, inside a section of jansson. */
weft_status chat_data_read(const chat_reader *r, const json_t *line, chat_document *to,
                           arena *store, chat_counts *counts, weft_error *err);

/* Encodes a document. */
weft_status chat_data_encode(const chat_reader *r, encoder *e, const chat_document *d,
                             encoding *out, weft_error *err);

/* Marks its ids that have no loss with SHARD_NO_LOSS; returns the index of the first that has one, or
 * e->n. Adds the answers that no token ends to n_endless. */
size_t chat_data_mark(const chat_reader *r, const chat_document *d, const encoding *e, uint32_t *id,
                      int64_t *n_endless);

#endif
