/* random_gguf.c - writes a GGUF file row by row, from a bank of random numbers that is encoded once for
 * each type. */
#include "random_gguf.h"

#include "bench.h"

#include "base/rng.h"
#include "models/arch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ALIGNMENT 32
#define STD       0.02
#define UNIT      256       /* numbers: a whole number of blocks of every type */
#define BANK      (1 << 20) /* bank size, unless the model is smaller */
#define N_BANK    8         /* types in a model */

const random_shape random_shapes[] = {
    { "1b", "llama", 16, 2048, 8192, 32, 8, 128256, 131072, false, 500000, 0, 0, 0, 0 },
    { "135m", "llama", 30, 576, 1536, 9, 3, 49152, 8192, false, 100000, 0, 0, 0, 0 },
    { "124m", "gpt2", 12, 768, 3072, 12, 12, 50257, 1024, false, 0, 0, 0, 0, 0 },
    { "30b-a3b", "qwen3moe", 48, 2048, 6144, 32, 4, 151936, 40960, true, 1e6, 128, 128, 8, 768 },
    { 0 },
};

const random_shape *random_shape_by_name(const char *name)
{
    for (const random_shape *s = random_shapes; s->name; s++)
        if (strcmp(s->name, name) == 0)
            return s;
    return NULL;
}

/* A file under construction. The numbers of a type are drawn once, into a bank of encoded blocks;
 * a row of a matrix is the run of blocks that begins at a random place in it. So rows differ, and
 * writing costs little more than copying. */
typedef struct writer {
    FILE *file;
    const random_shape *shape;
    uint64_t seed;
    const dtype *type, *head; /* or, if these are NULL, */
    const quant_target *mix;
    uint64_t at;       /* offset of the next tensor in the data */
    uint64_t n_tensor; /* so far */
    struct {
        const dtype *type;
        char *at;
    } bank[N_BANK];
    int why; /* errno of the first write that failed, or ENOMEM */
} writer;

/* ---- the list of tensors --------------------------------------------------------------------- */

/* A matrix [rows, cols], or the matrices of all experts, one below the other; a vector has no rows. */
typedef struct part {
    const char *stem, *suffix;
    int64_t rows, cols;
} part;

typedef void part_fn(writer *w, const char *name, const dtype *type, const part *p);

static const dtype *type_of(const writer *w, const char *name, const part *p)
{
    const random_shape *s = w->shape;
    if (w->mix) {
        const int64_t gqa = s->n_head_kv > 0 ? s->n_head / s->n_head_kv : 1;
        const quant_tensor of = {
            name, p->rows ? 2 : 1, p->cols, s->n_layer, !s->untied, gqa, false
        };
        return quant_fitting(quant_wanted(w->mix, &of), p->cols);
    }
    if (strcmp(p->stem, s->untied ? "output" : "token_embd") == 0)
        return w->head; /* it makes the logits */
    const bool small = strcmp(p->stem, "position_embd") == 0 ||
                       strcmp(p->stem, "ffn_gate_inp") == 0;
    return p->rows && !small ? w->type : &dtype_f32;
}

static void each_part(writer *w, part_fn *fn, const char *prefix, const part *list)
{
    for (const part *p = list; p->stem; p++) {
        char name[64];
        snprintf(name, sizeof name, "%s%s.%s", prefix, p->stem, p->suffix);
        fn(w, name, type_of(w, name, p), p);
    }
}

static void each_layer(writer *w, part_fn *fn, const part *layer)
{
    for (int64_t l = 0; l < w->shape->n_layer; l++) {
        char prefix[32];
        snprintf(prefix, sizeof prefix, "blk.%lld.", (long long)l);
        each_part(w, fn, prefix, layer);
    }
}

/* A decoder without learned positions, of such layers. */
static void each_model(writer *w, part_fn *fn, const part *layer)
{
    const random_shape *s = w->shape;
    const part rest[] = {
        { "token_embd", "weight", s->n_vocab, s->d_model },
        { "output_norm", "weight", 0, s->d_model },
        { s->untied ? "output" : NULL, "weight", s->n_vocab, s->d_model },
        { 0 },
    };
    each_part(w, fn, "", rest);
    each_layer(w, fn, layer);
}

static void each_llama(writer *w, part_fn *fn)
{
    const random_shape *s = w->shape;
    const int64_t D = s->d_model, F = s->d_ff, KE = D / s->n_head * s->n_head_kv;
    const part layer[] = {
        { "attn_norm", "weight", 0, D },   { "attn_q", "weight", D, D },
        { "attn_k", "weight", KE, D },     { "attn_v", "weight", KE, D },
        { "attn_output", "weight", D, D }, { "ffn_norm", "weight", 0, D },
        { "ffn_gate", "weight", F, D },    { "ffn_up", "weight", F, D },
        { "ffn_down", "weight", D, F },    { 0 },
    };
    each_model(w, fn, layer);
}

static void each_qwen3moe(writer *w, part_fn *fn)
{
    const random_shape *s = w->shape;
    const int64_t D = s->d_model, F = s->d_expert, E = s->d_head, X = s->n_expert;
    const part layer[] = {
        { "attn_norm", "weight", 0, D },
        { "attn_q", "weight", s->n_head * E, D },
        { "attn_k", "weight", s->n_head_kv * E, D },
        { "attn_v", "weight", s->n_head_kv * E, D },
        { "attn_q_norm", "weight", 0, E },
        { "attn_k_norm", "weight", 0, E },
        { "attn_output", "weight", D, s->n_head * E },
        { "ffn_norm", "weight", 0, D },
        { "ffn_gate_inp", "weight", X, D },
        { "ffn_gate_exps", "weight", X * F, D },
        { "ffn_up_exps", "weight", X * F, D },
        { "ffn_down_exps", "weight", X * D, F },
        { 0 },
    };
    each_model(w, fn, layer);
}

static void each_gpt2(writer *w, part_fn *fn)
{
    const random_shape *s = w->shape;
    const int64_t D = s->d_model, F = s->d_ff;
    const part layer[] = {
        { "attn_norm", "weight", 0, D },
        { "attn_norm", "bias", 0, D },
        { "attn_qkv", "weight", 3 * D, D },
        { "attn_qkv", "bias", 0, 3 * D },
        { "attn_output", "weight", D, D },
        { "attn_output", "bias", 0, D },
        { "ffn_norm", "weight", 0, D },
        { "ffn_norm", "bias", 0, D },
        { "ffn_up", "weight", F, D },
        { "ffn_up", "bias", 0, F },
        { "ffn_down", "weight", D, F },
        { "ffn_down", "bias", 0, D },
        { 0 },
    };
    const part rest[] = {
        { "token_embd", "weight", s->n_vocab, D },
        { "position_embd", "weight", s->n_ctx, D },
        { "output_norm", "weight", 0, D },
        { "output_norm", "bias", 0, D },
        { s->untied ? "output" : NULL, "weight", s->n_vocab, D },
        { 0 },
    };
    each_part(w, fn, "", rest);
    each_layer(w, fn, layer);
}

static void each_tensor(writer *w, part_fn *fn)
{
    w->at = w->n_tensor = 0;
    if (strcmp(w->shape->arch, "llama") == 0)
        each_llama(w, fn);
    else if (w->shape->n_expert > 0)
        each_qwen3moe(w, fn);
    else
        each_gpt2(w, fn);
}

static uint64_t aligned(uint64_t n)
{
    return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static uint64_t part_bytes(const dtype *type, const part *p)
{
    return (uint64_t)(p->rows ? p->rows : 1) * dtype_row_bytes(type, p->cols);
}

/* ---- the head of the file -------------------------------------------------------------------- */

static void put(writer *w, const void *x, size_t n)
{
    if (w->why == 0 && fwrite(x, 1, n, w->file) != n)
        w->why = errno;
}

static void put_u32(writer *w, uint32_t x)
{
    put(w, &x, sizeof x);
}

static void put_u64(writer *w, uint64_t x)
{
    put(w, &x, sizeof x);
}

static void put_text(writer *w, const char *text)
{
    put_u64(w, strlen(text));
    put(w, text, strlen(text));
}

static void put_zeros(writer *w, uint64_t n)
{
    static const char zeros[ALIGNMENT];
    put(w, zeros, n);
}

enum { GGUF_U32 = 4, GGUF_F32 = 6, GGUF_TEXT = 8 };

static void key_text(writer *w, const char *key, const char *text)
{
    put_text(w, key);
    put_u32(w, GGUF_TEXT);
    put_text(w, text);
}

static void key(writer *w, const char *name, uint32_t kind)
{
    char full[96];
    snprintf(full, sizeof full, "%s.%s", w->shape->arch, name);
    put_text(w, full);
    put_u32(w, kind);
}

static void key_u32(writer *w, const char *name, int64_t x)
{
    key(w, name, GGUF_U32);
    put_u32(w, (uint32_t)x);
}

static void key_f32(writer *w, const char *name, double x)
{
    key(w, name, GGUF_F32);
    put(w, &(float){ (float)x }, sizeof(float));
}

static bool rotates(const random_shape *s)
{
    return strcmp(s->arch, "gpt2") != 0;
}

static void put_keys(writer *w)
{
    const random_shape *s = w->shape;
    key_text(w, "general.architecture", s->arch);
    key_text(w, "general.name", s->name ? s->name : "random weights");
    key_text(w, "tokenizer.ggml.model", "no_vocab");
    key_u32(w, "vocab_size", s->n_vocab);
    key_u32(w, "context_length", s->n_ctx);
    key_u32(w, "embedding_length", s->d_model);
    key_u32(w, "block_count", s->n_layer);
    key_u32(w, "feed_forward_length", s->d_ff);
    key_u32(w, "attention.head_count", s->n_head);
    if (s->n_expert > 0) {
        key_u32(w, "attention.key_length", s->d_head);
        key_u32(w, "attention.value_length", s->d_head);
        key_u32(w, "expert_count", s->n_expert);
        key_u32(w, "expert_used_count", s->n_expert_used);
        key_u32(w, "expert_feed_forward_length", s->d_expert);
    }
    if (rotates(s)) {
        key_u32(w, "attention.head_count_kv", s->n_head_kv);
        key_u32(w, "rope.dimension_count", s->d_head ? s->d_head : s->d_model / s->n_head);
        key_f32(w, "rope.freq_base", s->theta);
        key_f32(w, "attention.layer_norm_rms_epsilon", 1e-5);
    } else {
        key_f32(w, "attention.layer_norm_epsilon", 1e-5);
    }
}

static uint64_t count_keys(const random_shape *s)
{
    return rotates(s) ? 13 + (s->n_expert > 0 ? 5 : 0) : 10;
}

static void count_part(writer *w, const char *name, const dtype *type, const part *p)
{
    (void)name, (void)type, (void)p;
    w->n_tensor++;
}

static void put_part(writer *w, const char *name, const dtype *type, const part *p)
{
    put_text(w, name);
    const uint64_t n = strstr(name, "_exps") ? (uint64_t)w->shape->n_expert : 1;
    put_u32(w, n > 1 ? 3 : p->rows ? 2 : 1);
    put_u64(w, (uint64_t)p->cols);
    if (p->rows)
        put_u64(w, (uint64_t)p->rows / n);
    if (n > 1)
        put_u64(w, n);
    put_u32(w, (uint32_t)type->gguf);
    put_u64(w, w->at);
    w->at += aligned(part_bytes(type, p));
}

static void put_head(writer *w)
{
    each_tensor(w, count_part);
    put(w, "GGUF", 4);
    put_u32(w, 3);
    put_u64(w, w->n_tensor);
    put_u64(w, count_keys(w->shape));
    put_keys(w);
    each_tensor(w, put_part);
    const uint64_t at = (uint64_t)ftello(w->file);
    put_zeros(w, aligned(at) - at);
}

/* ---- the data -------------------------------------------------------------------------------- */

/* Where rows may begin. The bank has space for the longest row after it. */
static int64_t bank_numbers(const random_shape *s)
{
    const int64_t n = s->n_vocab * s->d_model / UNIT * UNIT;
    return n > BANK ? BANK : n < 16 * UNIT ? 16 * UNIT : n;
}

static int64_t longest_row(const random_shape *s)
{
    const int64_t n = s->n_head * s->d_head > s->d_model ? s->n_head * s->d_head : s->d_model;
    return n > s->d_ff ? n : s->d_ff;
}

/* The bank of a type, made on first use from the same normal numbers for every type. */
static const char *bank_of(writer *w, const dtype *type)
{
    int i = 0;
    while (w->bank[i].type && w->bank[i].type != type)
        i++;
    if (w->bank[i].type)
        return w->bank[i].at;
    real x[UNIT];
    const int64_t n = bank_numbers(w->shape) + (longest_row(w->shape) + UNIT - 1) / UNIT * UNIT;
    char *bank = malloc(dtype_row_bytes(type, n));
    if (!bank) {
        w->why = ENOMEM;
        return NULL;
    }
    for (int64_t k = 0; k < n; k += UNIT) {
        for (int64_t j = 0; j < UNIT; j++)
            x[j] = (real)(STD * rng_normal(w->seed, 0, (uint64_t)(k + j)));
        type->encode(bank + dtype_row_bytes(type, k), x, UNIT);
    }
    w->bank[i].type = type;
    w->bank[i].at = bank;
    return bank;
}

/* Norms start at one, biases at zero, as in an untrained model. */
static void put_vector(writer *w, const part *p)
{
    const bool norm = strcmp(p->suffix, "weight") == 0;
    for (int64_t k = 0; k < p->cols; k++) {
        const double x = STD * rng_normal(w->seed, w->n_tensor, (uint64_t)k);
        put(w, &(float){ (float)(norm + x) }, sizeof(float));
    }
}

static void put_data(writer *w, const char *name, const dtype *type, const part *p)
{
    (void)name;
    w->n_tensor++;
    const char *bank = w->why == 0 && p->rows ? bank_of(w, type) : NULL;
    if (w->why != 0)
        return;
    for (int64_t i = 0; i < p->rows; i++) {
        const rng_block r = rng_draw(w->seed, w->n_tensor, (uint64_t)i);
        const uint64_t block = r.word[0] % (uint32_t)(bank_numbers(w->shape) / type->block);
        put(w, bank + block * (uint64_t)type->bytes, dtype_row_bytes(type, p->cols));
    }
    if (p->rows == 0)
        put_vector(w, p);
    const uint64_t bytes = part_bytes(type, p);
    put_zeros(w, aligned(bytes) - bytes);
}

static weft_status check_shape(const random_shape *s, weft_error *err)
{
    const bool llama = strcmp(s->arch, "llama") == 0, moe = strcmp(s->arch, "qwen3moe") == 0;
    if (!llama && !moe && strcmp(s->arch, "gpt2") != 0)
        return weft_fail(err, WEFT_EINVAL,
                         "the architecture is \"%s\", expected llama, gpt2 or qwen3moe", s->arch);
    if (moe != (s->n_expert > 0))
        return weft_fail(err, WEFT_EINVAL, "qwen3moe and experts come with --shape 30b-a3b only");
    if (!moe && (s->d_model % s->n_head != 0 || (llama && s->d_model / s->n_head % 2 != 0)))
        return weft_fail(err, WEFT_EINVAL, "%lld heads cannot divide a width of %lld%s",
                         (long long)s->n_head, (long long)s->d_model,
                         llama ? " into even parts, which rotate in pairs" : "");
    if (llama && s->n_head % s->n_head_kv != 0)
        return weft_fail(err, WEFT_EINVAL, "%lld heads cannot share %lld key-value heads",
                         (long long)s->n_head, (long long)s->n_head_kv);
    return WEFT_OK;
}

static weft_status check_types(const random_shape *s, const dtype *type, const dtype *head,
                               weft_error *err)
{
    if (!type->encode || type->gguf < 0 || !head->encode || head->gguf < 0)
        return weft_fail(err, WEFT_EINVAL,
                         "%s is no type of weights that weft writes in GGUF files",
                         type->encode && type->gguf >= 0 ? head->name : type->name);
    const dtype *wider = head->block > type->block ? head : type;
    if (s->d_model % wider->block != 0 || s->d_ff % type->block != 0)
        return weft_fail(
            err, WEFT_EINVAL,
            "rows of %lld and %lld numbers do not make whole %s blocks of %d; choose widths that "
            "do, or another type",
            (long long)s->d_model, (long long)s->d_ff, wider->name, wider->block);
    return WEFT_OK;
}

static weft_status write_file(writer *w, const char *path, uint64_t *bytes, weft_error *err)
{
    w->file = fopen(path, "wb");
    if (!w->file)
        return weft_fail(err, WEFT_EIO, "%s: cannot be written: %s", path, strerror(errno));
    put_head(w);
    each_tensor(w, put_data);
    if (bytes)
        *bytes = (uint64_t)ftello(w->file);
    for (int i = 0; i < N_BANK; i++)
        free(w->bank[i].at);
    if (fclose(w->file) != 0 && w->why == 0)
        w->why = errno;
    if (w->why == 0)
        return WEFT_OK;
    remove(path);
    return weft_fail(err, w->why == ENOMEM ? WEFT_ENOMEM : WEFT_EIO, "%s: cannot be written: %s",
                     path, strerror(w->why));
}

weft_status random_gguf_write(const char *path, const random_shape *s, const dtype *type,
                              const dtype *head, uint64_t seed, uint64_t *bytes, weft_error *err)
{
    if (!head)
        head = type->block > 1 ? &dtype_q8_0 : type;
    weft_status status = check_shape(s, err);
    if (status == WEFT_OK)
        status = check_types(s, type, head, err);
    writer w = { .shape = s, .seed = seed, .type = type, .head = head };
    return status == WEFT_OK ? write_file(&w, path, bytes, err) : status;
}

weft_status random_gguf_write_mix(const char *path, const random_shape *s, const quant_target *mix,
                                  uint64_t seed, uint64_t *bytes, weft_error *err)
{
    const weft_status status = check_shape(s, err);
    writer w = { .shape = s, .seed = seed, .mix = mix };
    return status == WEFT_OK ? write_file(&w, path, bytes, err) : status;
}

void random_gguf_open(model *m, const random_shape *s, const dtype *type, weft_load load, host *h)
{
    const char *dir = getenv("TMPDIR");
    char name[1024];
    weft_error err = { 0 };
    snprintf(name, sizeof name, "%s/weft-bench-XXXXXX", dir && *dir ? dir : "/tmp");
    const int fd = mkstemp(name);
    if (fd < 0) {
        fprintf(stderr, "no temporary file %s; set TMPDIR\n", name);
        exit(1);
    }
    close(fd);
    weft_status status = random_gguf_write(name, s, type, NULL, 1, NULL, &err);
    if (status == WEFT_OK)
        status = model_open(m, name, load, h, &err);
    unlink(name);
    bench_check(status, &err);
}
