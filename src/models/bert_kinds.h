/* bert_kinds.h - the encoders of bert.c, as tables: the names of their tensors, the keys of their
 * configuration, and the numbers that the name of a model alone decides.
 *
 * The forward pass asks for none of these names. */
#ifndef WEFT_MODELS_BERT_KINDS_H
#define WEFT_MODELS_BERT_KINDS_H

#include "models/bind.h"

typedef struct bert_kind {
    const char *hf; /* model_type */
    const bind_name *names;
    const char *prefix;
    const char *n_layer, *d_model, *n_head, *d_ff, *n_ctx, *eps; /* keys of config.json */
    const char *act;       /* ... NULL: all of the kind have the default */
    const char *d_embd;    /* ... width of the embeddings; NULL: that of the model */
    const char *theta_key; /* ... base of the rotary positions; NULL: where others have it */

    int64_t first_position; /* the row of position 0; -1: the row after the padding id's */
    double theta;           /* the default base; 0: positions are learned */
    int64_t n_bucket;       /* of relative positions in the scores; 0: none */
    bool fused;             /* q, k and v are one matrix */
    bool gated;             /* the feed forward */
    bool no_bias;           /* on matrices of a new model */
    bool detects;           /* ForPreTraining finds replaced tokens instead of filling masks */
    bool fills_by_gelu;     /* masks, whatever the activation of the layers */
    act_kind default_act, cls_act;
    const char *classifier; /* class of a classifier that GGUF has keys for, or NULL */
} bert_kind;

/* The kind of the model being bound. */
const bert_kind *bert_kind_of(const bind *b);

#endif
