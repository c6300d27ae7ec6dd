/* gguf_build.h - writes GGUF files field by field, valid or not, for tests and fuzz seeds. */
#ifndef WEFT_TESTS_GGUF_BUILD_H
#define WEFT_TESTS_GGUF_BUILD_H

#include "tensor/dtype.h"

/* A growing buffer of bytes. */
typedef struct bytes {
    uint8_t *at;
    size_t n, room;
} bytes;

void put(bytes *b, const void *x, size_t n);
void put_u32(bytes *b, uint32_t x);
void put_u64(bytes *b, uint64_t x);
void put_text(bytes *b, const char *text);
void put_zeros_to(bytes *b, size_t align);

/* A file under construction: entries, tensor headers and data are collected, then joined. */
typedef struct gguf_build {
    bytes entries, headers, data;
    uint64_t n_entry, n_tensor, alignment;
} gguf_build;

void gguf_u32(gguf_build *g, const char *key, uint32_t x);
void gguf_f32(gguf_build *g, const char *key, float x);
void gguf_text(gguf_build *g, const char *key, const char *text);
void gguf_bool(gguf_build *g, const char *key, bool x);
void gguf_texts(gguf_build *g, const char *key, const char *const *texts, uint64_t n);
void gguf_i32s(gguf_build *g, const char *key, const int32_t *x, uint64_t n);

/* A tensor [rows, cols] (rows 0: a vector) of normal numbers, encoded as `type`, a function of its
 * name only. */
void gguf_tensor(gguf_build *g, const char *name, const dtype *type, int64_t rows, int64_t cols,
                 double scale, double shift);

/* A tensor of these numbers, encoded as `type`. */
void gguf_values(gguf_build *g, const char *name, const dtype *type, int64_t rows, int64_t cols,
                 const real *x);

/* Joins the parts; frees them. The caller frees the result's `at`. */
bytes gguf_finish(gguf_build *g);

/* A complete file: a random Llama of this shape whose matrices are of one type. */
typedef struct llama_shape {
    int64_t n_layer, d_model, n_head, n_head_kv, d_ff, n_vocab, n_ctx, window;
    const dtype *type;
    const char *arch; /* "llama" or "qwen2" ...; NULL: llama */
} llama_shape;

bytes gguf_llama(const llama_shape *s);

#endif
