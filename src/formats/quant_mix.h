/* quant_mix.h - which format each tensor of a model gets when the model is quantised.
 *
 * A target names the format of most matrices. The matrix that makes the logits is finer; a mix
 * (Q4_K_M, Q5_K_M) is also finer where it is felt most: the values of attention and the last matrix
 * of the feed forward, in the first and last eighth of the layers and in every third between. These
 * are llama.cpp's choices, so that a name means the same file size here and there. Vectors, norms
 * and tables of positions stay F32. */
#ifndef WEFT_FORMATS_QUANT_MIX_H
#define WEFT_FORMATS_QUANT_MIX_H

#include "tensor/dtype.h"

typedef struct quant_target {
    const char *name;    /* "q4_k_m" */
    uint32_t file_type;  /* what GGUF's general.file_type says */
    const dtype *most;   /* of the matrices */
    const dtype *finer;  /* where it is felt most, or NULL for a plain target */
    const dtype *fused;  /* queries, keys and values in one matrix */
    const dtype *logits; /* the matrix that makes them */
} quant_target;

/* By name, in either case: f32 f16 bf16 q8_0 q4_0 q4_1 q5_0 q5_1 q4_k_m q5_k_m q6_k; q4_k and q5_k
 * mean the mixes. NULL where there is none. */
const quant_target *quant_target_by_name(const char *name);

/* What a tensor is to the choice. */
typedef struct quant_tensor {
    const char *name; /* as GGUF has it: "blk.0.attn_v.weight" */
    int n_dim;
    int64_t row;     /* numbers of a row */
    int64_t n_layer; /* of the model */
    bool tied;       /* the embedding makes the logits */
} quant_tensor;

/* Vectors, norms and tables of positions. */
bool quant_stays_f32(const quant_tensor *of);

/* The format that the target asks for ... */
const dtype *quant_wanted(const quant_target *t, const quant_tensor *of);

/* ... and the one it gets: where rows are no whole blocks of 256, Q4_K becomes Q5_0, Q5_K Q5_1 and
 * Q6_K Q8_0; where they are none of 32 either, F16. */
const dtype *quant_fitting(const dtype *wanted, int64_t row);

#endif
