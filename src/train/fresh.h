/* fresh.h - a model that has learned nothing yet, as a Hugging Face directory.
 *
 * Its numbers are those that GPT-2 began with, and Llama-like models since: matrices normal with a
 * deviation of 0.02, those that write into the residual stream (attn_output, attn_o, ffn_down) divided by
 * sqrt(2 L), so that the stream's variance does not grow with the layers; gains one, biases zero. BERT's
 * norms stand behind the sums, and its matrices are all alike.
 * A number is a function of the seed, the name of its tensor and its place, of nothing else. */
#ifndef WEFT_TRAIN_FRESH_H
#define WEFT_TRAIN_FRESH_H

#include "base/buffer.h"
#include "models/export.h"

typedef struct fresh_shape {
    const char *arch; /* "llama", "gpt2", "t5", "vit" ..., as config.json calls it */
    int64_t n_layer, d_model, n_head, n_head_kv, d_ff, n_ctx, n_vocab;
    int tied;       /* the head shares the embedding: 1, 0, or -1 for what the architecture does */
    int32_t eos_id; /* -1: none */

    image_shape image;        /* of a model that sees */
    const char *const *label; /* [n_label] names of classes, of one that classifies */
    int64_t n_label;

    weft_positions positions; /* of a gpt2; others have no choice */
} fresh_shape;

/* A shape by name, without a vocabulary: "tiny" ...; NULL: there is none. */
const fresh_shape *fresh_preset(const char *name);

/* All names, with commas between them. */
#define FRESH_PRESETS "tiny, mini, small, base"

/* Has such a model an encoder? It is then as deep as the decoder. */
bool fresh_encodes(const char *name);

/* What does such a model learn from texts that have no labels? */
weft_task fresh_task(const char *name);

/* What ends a text for tokenizers that are made for a new model, and all special tokens of such a
 * tokenizer, this one first. */
#define END_OF_TEXT "<|endoftext|>"
const char *const *fresh_special(const char *name, int *n);

/* Reads it words in pieces, as BERT does? Otherwise bytes in pairs. */
bool fresh_wordpiece(const char *name);

/* Sizes of 0 in `over` leave those of the preset; what is still missing follows from the others. */
weft_status fresh_resolve(const fresh_shape *preset, const fresh_shape *over, fresh_shape *to,
                          weft_error *err);

/* Its config.json. */
void fresh_config(buffer *b, const fresh_shape *s);

/* The preprocessor_config.json of one that sees: pictures are resized, numbers are -1 to 1. */
void fresh_preprocessor(buffer *b, const image_shape *s);

/* "id2label" and "label2id" of a config.json, with a comma behind them. */
void fresh_labels(buffer *b, const char *const *label, int64_t n);

/* What the number at [row, col] of a weight is at first. */
double fresh_number(const model *m, const tensor *w, uint64_t seed, int64_t row, int64_t col);

typedef struct fresh_source {
    uint64_t seed;     /* of random numbers */
    const model *base; /* with weights, which are taken where the new model has them too; or NULL */

    /* May refuse the model, which has no weights, before anything is written; or NULL. */
    weft_status (*check)(void *ud, model *designed, weft_error *err);

    /* False stops; or NULL. */
    weft_wait_fn *waiting;
    void *ud; /* of both */
} fresh_source;

/* Writes config.json and model.safetensors into the directory, which is made if need be. */
weft_status fresh_write(const char *directory, const char *config, size_t length,
                        const fresh_source *from, host *h, weft_error *err);

#endif
