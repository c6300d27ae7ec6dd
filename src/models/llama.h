/* llama.h - the weights of the decoders in llama.c, and their binding in llama_bind.c. */
#ifndef WEFT_MODELS_LLAMA_H
#define WEFT_MODELS_LLAMA_H

#include "models/bind.h"

/* Where a norm is NULL, there is none. */
typedef struct llama_layer {
    tensor *attn_norm;                 /* [D] */
    weight q, k, v, o;                 /* [H E, D]  [K E, D]  [K E, D]  [D, H E] */
    tensor *q_norm, *k_norm;           /* [E], or as wide as q and k */
    const rope_table *q_rope, *k_rope; /* NULL: the layer does not rotate */
    attn attn;
    tensor *attn_norm_behind; /* [D] */
    tensor *ffn_norm;         /* [D] */
    weight gate, up, down;    /* [F, D]  [F, D]  [D, F] */
    experts experts;          /* instead of these, if it has any */
    tensor *ffn_norm_behind;  /* [D] */
} llama_layer;

typedef struct llama {
    tensor *token_embd;  /* [V, D] */
    tensor *output_norm; /* [D] */
    weight output;       /* [V, D] */
    llama_layer *layer;
    routing routing; /* of layers with experts */
    act_kind act;
    real eps;
    real embd_scale, branch_scale, logit_scale; /* 1 in most models */
    real cap;                                   /* of logits; 0: none */
    bool scores; /* the head is [n_out, D] and scores the text by its last row */
} llama;

void *llama_bind(bind *b);

#endif
