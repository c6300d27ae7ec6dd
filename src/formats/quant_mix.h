/* quant_mix.h - which format each tensor of a model gets when the model is quantised.
 *
 * A target names the format of most matrices. The matrix that makes the logits is finer; a mix
 * (Q2_K, Q3_K_M, Q4_K_M ...) is also finer where it is felt most: the values of attention, its
 * output and the last matrix of the feed forward, in all layers or in some. These are llama.cpp's
 * choices, so that a name means the same file size here and there; those that it makes for single
 * models (Falcon, 70B, eight experts) are left out, and the layers of encoder-decoders are not
 * mixed. Vectors, norms and tables of positions stay F32. */
#ifndef WEFT_FORMATS_QUANT_MIX_H
#define WEFT_FORMATS_QUANT_MIX_H

#include "tensor/dtype.h"

/* What a tensor is to the choice. */
typedef struct quant_tensor {
    const char *name; /* as GGUF has it: "blk.0.attn_v.weight" */
    int n_dim;
    int64_t row;     /* numbers of a row */
    int64_t n_layer; /* of the model */
    bool tied;       /* the embedding makes the logits */
    int64_t gqa;     /* query heads for each KV head */
} quant_tensor;

/* What a matrix does in its layer, as far as mixes care. */
typedef enum quant_role {
    ROLE_OTHER,
    ROLE_VALUES, /* attn_v */
    ROLE_FUSED,  /* attn_qkv: queries, keys and values in one matrix */
    ROLE_LATENT, /* attn_kv_b: keys and values from what MLA caches */
    ROLE_OUTPUT, /* attn_output */
    ROLE_DOWN,   /* ffn_down, also of experts */
} quant_role;

/* The format of a matrix in its layer, or NULL for that of most. */
typedef const dtype *quant_mix_fn(quant_role role, int64_t layer, const quant_tensor *of);

typedef struct quant_target {
    const char *name;    /* "q4_k_m" */
    uint32_t file_type;  /* what GGUF's general.file_type says */
    const dtype *most;   /* of the matrices */
    const dtype *logits; /* the matrix that makes them */
    quant_mix_fn *mix;   /* NULL for a plain target */
} quant_target;

/* By name, in either case: f32 f16 bf16 q8_0 q4_0 q4_1 q5_0 q5_1 q2_k q3_k_s q3_k_m q3_k_l q4_k_m
 * q5_k_m q6_k; q3_k, q4_k and q5_k mean the mixes _m. NULL where there is none. */
const quant_target *quant_target_by_name(const char *name);

/* Vectors, norms and tables of positions. */
bool quant_stays_f32(const quant_tensor *of);

/* The format that the target asks for ... */
const dtype *quant_wanted(const quant_target *t, const quant_tensor *of);

/* ... and the one it gets: where rows are no whole blocks of 256, Q2_K and Q3_K become Q4_0, Q4_K
 * Q5_0, Q5_K Q5_1 and Q6_K Q8_0; where they are none of 32 either, F16. */
const dtype *quant_fitting(const dtype *wanted, int64_t row);

#endif
