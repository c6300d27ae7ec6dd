#include "gguf_build.h"

#include "base/rng.h"
#include "kernels/half.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void put(bytes *b, const void *x, size_t n)
{
    if (n == 0)
        return;
    if (b->n + n > b->room) {
        b->room = 2 * (b->n + n);
        b->at = realloc(b->at, b->room);
        if (!b->at)
            abort();
    }
    memcpy(b->at + b->n, x, n);
    b->n += n;
}

void put_u32(bytes *b, uint32_t x)
{
    put(b, &x, sizeof x);
}

void put_u64(bytes *b, uint64_t x)
{
    put(b, &x, sizeof x);
}

void put_text(bytes *b, const char *text)
{
    put_u64(b, strlen(text));
    put(b, text, strlen(text));
}

void put_zeros_to(bytes *b, size_t align)
{
    while (b->n % align)
        put(b, "", 1);
}

static void begin_entry(gguf_build *g, const char *key, uint32_t type)
{
    put_text(&g->entries, key);
    put_u32(&g->entries, type);
    g->n_entry++;
}

void gguf_u32(gguf_build *g, const char *key, uint32_t x)
{
    begin_entry(g, key, 4);
    put_u32(&g->entries, x);
}

void gguf_f32(gguf_build *g, const char *key, float x)
{
    begin_entry(g, key, 6);
    put(&g->entries, &x, sizeof x);
}

void gguf_bool(gguf_build *g, const char *key, bool x)
{
    begin_entry(g, key, 7);
    put(&g->entries, &(uint8_t){ x }, 1);
}

void gguf_text(gguf_build *g, const char *key, const char *text)
{
    begin_entry(g, key, 8);
    put_text(&g->entries, text);
}

void gguf_texts(gguf_build *g, const char *key, const char *const *texts, uint64_t n)
{
    begin_entry(g, key, 9);
    put_u32(&g->entries, 8);
    put_u64(&g->entries, n);
    for (uint64_t i = 0; i < n; i++)
        put_text(&g->entries, texts[i]);
}

void gguf_i32s(gguf_build *g, const char *key, const int32_t *x, uint64_t n)
{
    begin_entry(g, key, 9);
    put_u32(&g->entries, 5);
    put_u64(&g->entries, n);
    put(&g->entries, x, n * sizeof *x);
}

static uint64_t hash(const char *name)
{
    uint64_t h = 14695981039346656037u;
    for (; *name; name++)
        h = (h ^ (uint8_t)*name) * 1099511628211u;
    return h;
}

static void begin_tensor(gguf_build *g, const char *name, const dtype *type, int64_t rows,
                         int64_t cols)
{
    const uint64_t align = g->alignment ? g->alignment : 32;
    put_zeros_to(&g->data, align);
    put_text(&g->headers, name);
    put_u32(&g->headers, rows ? 2 : 1);
    put_u64(&g->headers, (uint64_t)cols);
    if (rows)
        put_u64(&g->headers, (uint64_t)rows);
    put_u32(&g->headers, (uint32_t)type->gguf);
    put_u64(&g->headers, g->data.n);
    g->n_tensor++;
}

void gguf_values(gguf_build *g, const char *name, const dtype *type, int64_t rows, int64_t cols,
                 const real *x)
{
    const size_t row_bytes = dtype_row_bytes(type, cols);
    uint8_t *row = malloc(row_bytes);
    if (!row)
        abort();
    begin_tensor(g, name, type, rows, cols);
    for (int64_t i = 0; i < (rows ? rows : 1); i++) {
        type->encode(row, x + i * cols, cols);
        put(&g->data, row, row_bytes);
    }
    free(row);
}

void gguf_tensor(gguf_build *g, const char *name, const dtype *type, int64_t rows, int64_t cols,
                 double scale, double shift)
{
    begin_tensor(g, name, type, rows, cols);
    const size_t row_bytes = dtype_row_bytes(type, cols);
    real *x = malloc((size_t)cols * sizeof *x);
    uint8_t *row = malloc(row_bytes);
    if (!x || !row)
        abort();
    for (int64_t i = 0; i < (rows ? rows : 1); i++) {
        for (int64_t k = 0; k < cols; k++)
            x[k] = (real)(shift + scale * rng_normal(hash(name), 0, (uint64_t)(i * cols + k)));
        type->encode(row, x, cols);
        put(&g->data, row, row_bytes);
    }
    free(x);
    free(row);
}

bytes gguf_finish(gguf_build *g)
{
    bytes b = { 0 };
    put(&b, "GGUF", 4);
    put_u32(&b, 3);
    put_u64(&b, g->n_tensor);
    put_u64(&b, g->n_entry);
    put(&b, g->entries.at, g->entries.n);
    put(&b, g->headers.at, g->headers.n);
    put_zeros_to(&b, g->alignment ? g->alignment : 32);
    put(&b, g->data.at, g->data.n);
    free(g->entries.at);
    free(g->headers.at);
    free(g->data.at);
    *g = (gguf_build){ 0 };
    return b;
}

static void key_u32(gguf_build *g, const char *arch, const char *key, int64_t x)
{
    char full[96];
    snprintf(full, sizeof full, "%s.%s", arch, key);
    gguf_u32(g, full, (uint32_t)x);
}

static void layer_tensors(gguf_build *g, const llama_shape *s, int64_t l)
{
    const int64_t D = s->d_model, E = D / s->n_head, KE = s->n_head_kv * E, F = s->d_ff;
    const struct {
        const char *stem;
        int64_t rows, cols;
    } part[] = {
        { "attn_norm", 0, D }, { "attn_q", D, D },      { "attn_k", KE, D },
        { "attn_v", KE, D },   { "attn_output", D, D }, { "ffn_norm", 0, D },
        { "ffn_gate", F, D },  { "ffn_up", F, D },      { "ffn_down", D, F },
    };
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%lld.%s.weight", (long long)l, part[i].stem);
        const bool norm = part[i].rows == 0;
        gguf_tensor(g, name, norm ? &dtype_f32 : s->type, part[i].rows, part[i].cols,
                    norm ? 0.1 : 1.2 / sqrt((double)part[i].cols), norm);
    }
}

bytes gguf_llama(const llama_shape *s)
{
    gguf_build g = { 0 };
    const char *arch = s->arch ? s->arch : "llama";
    char eps[64];
    gguf_text(&g, "general.architecture", arch);
    key_u32(&g, arch, "context_length", s->n_ctx);
    key_u32(&g, arch, "embedding_length", s->d_model);
    key_u32(&g, arch, "block_count", s->n_layer);
    key_u32(&g, arch, "feed_forward_length", s->d_ff);
    key_u32(&g, arch, "attention.head_count", s->n_head);
    key_u32(&g, arch, "attention.head_count_kv", s->n_head_kv);
    if (s->window)
        key_u32(&g, arch, "attention.sliding_window", s->window);
    snprintf(eps, sizeof eps, "%s.attention.layer_norm_rms_epsilon", arch);
    gguf_f32(&g, eps, 1e-5f);

    gguf_tensor(&g, "token_embd.weight", s->type, s->n_vocab, s->d_model, 1, 0);
    gguf_tensor(&g, "output_norm.weight", &dtype_f32, 0, s->d_model, 0.1, 1);
    for (int64_t l = 0; l < s->n_layer; l++)
        layer_tensors(&g, s, l);
    return gguf_finish(&g);
}
