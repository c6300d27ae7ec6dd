/* quant_mix.h - chooses the format of each tensor when a model is quantised.
 *
 * A target names the format of most matrices. The matrix that computes the logits is finer. A mix
 * (Q2_K, Q3_K_M, Q4_K_M ...) is also finer for the most sensitive matrices: the values of
 * attention, its output and the last matrix of the feed forward, in all layers or in some.
 *
 * These are llama.cpp's choices, so that a name means the same file size in both. Its rules for
 * single models (Falcon, 70B, eight experts) are left out, and the layers of encoder-decoders are
 * not mixed. Vectors, norms and tables of positions stay F32. */
#ifndef WEFT_FORMATS_QUANT_MIX_H
#define WEFT_FORMATS_QUANT_MIX_H

#include "tensor/dtype.h"

/* The properties of a tensor that the choice depends on. */
typedef struct quant_tensor {
    const char *name; /* GGUF's name: "blk.0.attn_v.weight" */
    int n_dim;
    int64_t row;     /* elements of a row */
    int64_t n_layer; /* of the model */
    bool tied;       /* the embedding also computes the logits */
    int64_t gqa;     /* query heads for each KV head */
    bool weighed;    /* the importance of its columns is known */
} quant_tensor;

/* The role of a matrix in its layer, to the extent that mixes care. */
typedef enum quant_role {
    ROLE_OTHER,
    ROLE_VALUES, /* attn_v */
    ROLE_FUSED,  /* attn_qkv: queries, keys and values in one matrix */
    ROLE_LATENT, /* attn_kv_b: keys and values from the latent that MLA caches */
    ROLE_OUTPUT, /* attn_output */
    ROLE_DOWN,   /* ffn_down, also of experts */
} quant_role;

/* The format of a matrix in its layer, or NULL for the default format. */
typedef const dtype *quant_mix_fn(quant_role role, int64_t layer, const quant_tensor *of);

typedef struct quant_target {
    const char *name;    /* "q4_k_m" */
    uint32_t file_type;  /* GGUF's general.file_type */
    const dtype *most;   /* of most matrices */
    const dtype *logits; /* of the matrix that computes the logits */
    quant_mix_fn *mix;   /* NULL for a plain target */
} quant_target;

/* Finds a target by name, case-insensitively: f32 f16 bf16 q8_0 q4_0 q4_1 q5_0 q5_1 q2_k q3_k_s
 * q3_k_m q3_k_l q4_k_m q5_k_m q6_k iq4_nl iq4_xs mxfp4 mxfp4_moe; q3_k, q4_k and q5_k mean the
 * mixes _m. NULL if there is none. */
const quant_target *quant_target_by_name(const char *name);

/* Vectors, norms and tables of positions. */
bool quant_stays_f32(const quant_tensor *of);

/* The format that the target requests ... */
const dtype *quant_wanted(const quant_target *t, const quant_tensor *of);

/* ... and the one that is used. If rows are not a multiple of 256, Q2_K and Q3_K become Q4_0, IQ4_XS
 * becomes IQ4_NL, Q4_K becomes Q5_0, Q5_K becomes Q5_1 and Q6_K becomes Q8_0; if they are not a multiple of 32 either,
 * F16. */
const dtype *quant_fitting(const dtype *wanted, int64_t row);

#endif
