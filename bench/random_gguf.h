/* random_gguf.h - writes GGUF models of any shape with random weights, because size and speed do
 * not depend on what a model has learned.
 *
 * Matrices are of one stored type; norms, biases and learned positions are f32. If the type is
 * quantised, the output matrix is Q8_0 (if tied, the embedding; llama.cpp also stores it more
 * precisely than the rest). There is no vocabulary ("no_vocab" with a size), which weft and
 * llama.cpp both accept. */
#ifndef WEFT_BENCH_RANDOM_GGUF_H
#define WEFT_BENCH_RANDOM_GGUF_H

#include "base/err.h"
#include "formats/quant_mix.h"

#include <stdbool.h>

typedef struct random_shape {
    const char *name; /* "1b" */
    const char *arch; /* "llama", "gpt2" or "qwen3moe" */
    int64_t n_layer, d_model, d_ff, n_head, n_head_kv, n_vocab, n_ctx;
    bool untied;                               /* the output matrix is separate */
    double theta;                              /* of rotary positions */
    int64_t d_head;                            /* 0: d_model / n_head */
    int64_t n_expert, n_expert_used, d_expert; /* of qwen3moe; 0: none */
} random_shape;

extern const random_shape random_shapes[]; /* the named ones; ends with a NULL name */

const random_shape *random_shape_by_name(const char *name);

/* Weights are a function of seed, shape and type. A failed write leaves no file. `head` is the type
 * of the output matrix; NULL: as above. `bytes`, unless NULL, receives the file size. */
weft_status random_gguf_write(const char *path, const random_shape *s, const dtype *type,
                              const dtype *head, uint64_t seed, uint64_t *bytes, weft_error *err);

/* The same with the types that `weft quantize` would choose. */
weft_status random_gguf_write_mix(const char *path, const random_shape *s, const quant_target *mix,
                                  uint64_t seed, uint64_t *bytes, weft_error *err);

/* Opens a random model from a temporary file, already deleted; exits if that fails. */
struct model;
struct host;
void random_gguf_open(struct model *m, const random_shape *s, const dtype *type, weft_load load,
                      struct host *h);

#endif
