/* init_model.h - a newly initialised model, as a Hugging Face directory.
 *
 * Initialisation follows GPT-2, as Llama-like models do: matrices are normal with standard
 * deviation 0.02. Those that write into the residual stream (attn_output, attn_o, ffn_down) are
 * divided by sqrt(2 L), so that the stream's variance does not grow with the layers. Gains are one,
 * biases zero. BERT is post-norm, and all its matrices are initialised alike. A value depends only
 * on the seed, the name of its tensor and its index. */
#ifndef WEFT_TRAIN_INIT_MODEL_H
#define WEFT_TRAIN_INIT_MODEL_H

#include "base/buffer.h"
#include "models/export.h"
#include "train/design.h"

typedef struct init_model_shape {
    const char *arch; /* "llama", "gpt2", "t5", "vit" ..., the model_type of config.json */
    int64_t n_layer, d_model, n_head, n_head_kv, d_ff, n_ctx, n_vocab;
    int tied;       /* the head shares the embedding: 1, 0, or -1 for the architecture's default */
    int32_t eos_id; /* -1: none */

    image_shape image;        /* for image models */
    const char *const *label; /* [n_label] class names, for classifiers */
    int64_t n_label;

    design_words design;   /* gpt2 and decoder only; the others have no choice */
    const char *attention; /* "gqa:2" ...; NULL: n_head_kv. Resolved into ... */
    design_heads heads;    /* ... this, of a decoder */
} init_model_shape;

/* A shape by name, without a vocabulary: "tiny" ...; NULL: unknown name. */
const init_model_shape *init_model_preset(const char *name);

/* All names, separated by commas. */
#define INIT_MODEL_PRESETS "tiny, mini, small, base"

/* Does the architecture have an encoder? It is then as deep as the decoder. */
bool init_model_has_encoder(const char *name);

/* The task such a model learns from texts without labels. */
weft_task init_model_task(const char *name);

/* The end-of-text token of tokenizers trained for a new model, and all special tokens of such a
 * tokenizer, this one first. */
#define END_OF_TEXT "<|endoftext|>"
const char *const *init_model_special(const char *name, int *n);

/* Does it use WordPiece, as BERT does? Otherwise byte-level BPE. */
bool init_model_wordpiece(const char *name);

/* Sizes of 0 in `over` keep the preset's; missing sizes follow from the others. */
weft_status init_model_resolve(const init_model_shape *preset, const init_model_shape *over,
                               init_model_shape *to, weft_error *err);

/* Writes its config.json. */
void init_model_config(buffer *b, const init_model_shape *s);

/* Writes the preprocessor_config.json of an image model: images are resized, values scaled to -1 to
 * 1. */
void init_model_preprocessor(buffer *b, const image_shape *s);

/* Writes "id2label" and "label2id" of a config.json, with a trailing comma. */
void init_model_labels(buffer *b, const char *const *label, int64_t n);

/* The initial value at [row, col] of a weight. */
double init_model_value(const model *m, const tensor *w, uint64_t seed, int64_t row, int64_t col);

typedef struct init_model_source {
    uint64_t seed;     /* random seed */
    const model *base; /* a base model whose weights are copied if the new model has them too; or
                        * NULL */

    /* May refuse the model, which has no weights yet, before any file is written; or NULL. */
    weft_status (*check)(void *ud, model *designed, weft_error *err);

    /* Returning false stops; or NULL. */
    weft_wait_fn *waiting;
    void *ud; /* of both */
} init_model_source;

/* Writes config.json and model.safetensors into the directory, which is created if needed. */
weft_status init_model_write(const char *directory, const char *config, size_t length,
                             const init_model_source *from, host *h, weft_error *err);

#endif
