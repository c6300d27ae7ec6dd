/* latent.h - multi-head latent attention: what is inside a block between the norm and the output
 * matrix. */
#ifndef WEFT_MODELS_LATENT_H
#define WEFT_MODELS_LATENT_H

#include "models/bind.h"

/* Per head: P key elements without rotation and S that all heads share, E value elements. Per row:
 * a latent of R. Some files have keys and values in tensors of their own. */
typedef struct latent_sizes {
    int64_t P, S, E, R;
    bool split;
} latent_sizes;

typedef struct latent_layer {
    weight kv_a;       /* [R + S, D] */
    tensor *kv_a_norm; /* [R] */
    tensor *k_b, *v_b; /* the same tensor [H (P + E), R], or [H R, P] and [H E, R] */
} latent_layer;

typedef struct latent {
    const rope_table *rope_q, *rope_k; /* NULL: nothing rotates */
    int64_t d_latent, d_rope;          /* R, S */
    head_map to_k, to_v;               /* latent -> keys, values */
    head_map to_latent;                /* queries -> latent */
    head_map from_latent;              /* latent -> values, from each head's result */
    join_map key, row, query; /* [k_h, k_rope]  [c, k_rope]  [latent of q_h, its rotary part] */
    attn naive, absorbed;
} latent;

#define LATENT_EPS (real)1e-6 /* of the norms on latents, whatever the other norms use */

/* From queries [N, H (P + S)] that have not rotated yet, and the normed stream [N, D]: [N, H E]. */
tensor *latent_attend(run *r, const latent *m, const latent_layer *w, int l, tensor *q, tensor *h);

/* The rotation of the S shared elements, from the file's keys. */
void latent_bind_rope(bind *b, latent *m, const latent_sizes *n);

/* Offsets of heads in activations and matrices, and what the model caches. After the rotation,
 * which may scale the scores. */
void latent_layout(bind *b, latent *m, const latent_sizes *n);

void latent_bind_layer(bind *b, latent_layer *w, const latent_sizes *n);

#endif
