/* adapter_life.c - see adapter_life.h. */
#include "adapter_life.h"

#include "adapt/adapter.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the model: one layer with every kind of weight ------------------------------------------- */

static const char config[] =
    "{\"model_type\": \"phi3\", \"architectures\": [\"Phi3ForCausalLM\"], \"hidden_size\": 4,"
    " \"intermediate_size\": 4, \"max_position_embeddings\": 8, \"num_attention_heads\": 2,"
    " \"num_hidden_layers\": 1, \"num_key_value_heads\": 1, \"rms_norm_eps\": 1e-5,"
    " \"original_max_position_embeddings\": 8, \"hidden_act\": \"silu\","
    " \"rope_theta\": 10000.0, \"tie_word_embeddings\": true, \"vocab_size\": 6}";

static const struct {
    const char *name;
    int rows, cols;
} weights[] = {
    { "model.embed_tokens.weight", 6, 4 },
    { "model.norm.weight", 0, 4 },
    { "model.layers.0.input_layernorm.weight", 0, 4 },
    { "model.layers.0.post_attention_layernorm.weight", 0, 4 },
    { "model.layers.0.self_attn.qkv_proj.weight", 8, 4 },
    { "model.layers.0.self_attn.o_proj.weight", 4, 4 },
    { "model.layers.0.mlp.gate_up_proj.weight", 8, 4 },
    { "model.layers.0.mlp.down_proj.weight", 4, 4 },
};

/* Its model.safetensors, all numbers 0. */
static size_t write_model(uint8_t *to, size_t room)
{
    char header[2048] = "{";
    size_t n = 1, at = 0;
    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++) {
        const int rows = weights[i].rows, cols = weights[i].cols;
        const size_t bytes = (size_t)(rows ? rows : 1) * (size_t)cols * 4;
        char shape[32];
        snprintf(shape, sizeof shape, rows ? "[%d,%d]" : "[%d]", rows ? rows : cols, cols);
        n += (size_t)snprintf(
            header + n, sizeof header - n,
            "%s\"%s\":{\"dtype\":\"F32\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}", i ? "," : "",
            weights[i].name, shape, at, at + bytes);
        at += bytes;
    }
    n += (size_t)snprintf(header + n, sizeof header - n, "}");
    const uint64_t length = n;
    if (8 + n + at > room)
        abort();
    memset(to, 0, 8 + n + at);
    memcpy(to, &length, 8);
    memcpy(to + 8, header, n);
    return 8 + n + at;
}

/* ---- files in memory -------------------------------------------------------------------------- */

enum { CONFIG, MODEL, ADAPTER_CONFIG, ADAPTER, ADAPTER_GGUF, N_FILE };

typedef struct memory_file {
    const uint8_t *data;
    size_t size, at;
} memory_file;

static int serve_open(void *ud, const char *path)
{
    memory_file *f = ud;
    static const char *const names[] = { "/config.json", "/model.safetensors",
                                         "/adapter_config.json", "/adapter_model.safetensors",
                                         "adapter.gguf" };
    for (int i = 0; i < N_FILE; i++)
        if (f[i].data && strstr(path, names[i])) {
            f[i].at = 0;
            return i;
        }
    const bool directory = strcmp(path, "model") == 0 || strcmp(path, "adapter") == 0;
    errno = directory ? EISDIR : ENOENT;
    return directory ? N_FILE : -1;
}

static int serve_size(void *ud, int fd, uint64_t *size)
{
    errno = EISDIR;
    if (fd == N_FILE)
        return -1;
    *size = ((const memory_file *)ud)[fd].size;
    return 0;
}

static ssize_t serve_read(void *ud, int fd, void *to, size_t size)
{
    memory_file *f = (memory_file *)ud + fd;
    const size_t left = f->size - f->at, n = size < left ? size : left;
    memcpy(to, f->data + f->at, n);
    f->at += n;
    return (ssize_t)n;
}

static void serve_close(void *ud, int fd)
{
    (void)ud, (void)fd;
}

/* ---- what opened ------------------------------------------------------------------------------ */

static void must(bool holds, const char *what, const weft_error *err)
{
    if (holds)
        return;
    fprintf(stderr, "%s (%d: %s)\n", what, (int)err->code, err->message);
    abort();
}

static double sum_of(const tensor *t)
{
    double sum = 0;
    const int64_t n = cols(t), n_row = t->n_dim > 1 ? rows(t) : 1;
    for (int64_t i = 0; i < n_row; i++)
        for (int64_t k = 0; k < n; k++) {
            real x;
            t->type->decode(&x, tensor_rows(t, i, 1).data, k, 1);
            sum += (double)x;
        }
    return sum;
}

/* Reads every number, for the sanitizer to see. */
static double read_all(const model *m, const adapter *a, const weft_error *err)
{
    double sum = 0;
    for (int64_t i = 0; i < a->n_part; i++) {
        const adapter_part *p = &a->part[i];
        const tensor *w = m->param[p->param];
        must(rows(&p->a) == cols(&p->b) && rows(&p->a) > 0, "ranks differ", err);
        must(rows(&p->b) == (p->table ? cols(w) : rows(w)), "B does not fit", err);
        must(cols(&p->a) == (p->table ? rows(w) : cols(w)), "A does not fit", err);
        must(isfinite(p->scale) && p->name[0], "no scale", err);
        sum += sum_of(&p->a) + sum_of(&p->b);
        for (int64_t k = 0; k < rows(&p->b); k++)
            sum += (double)(p->gain ? p->gain[k] : 0) + (double)(p->bias ? p->bias[k] : 0);
    }
    for (int64_t i = 0; i < a->n_whole; i++) {
        const tensor *w = m->param[a->whole[i].param], *v = &a->whole[i].value;
        must(v->n_dim == w->n_dim && rows(v) == rows(w) && cols(v) == cols(w), "no fit", err);
        sum += sum_of(v);
    }
    return sum;
}

static void live(memory_file files[N_FILE], const char *path)
{
    static volatile double sink;
    host h = { .io = { .open = serve_open,
                       .size = serve_size,
                       .read = serve_read,
                       .close = serve_close,
                       .ud = files } };
    weft_error err = { 0 };
    model m;
    adapter a;
    json_object_seed(1); /* hashing is random by default, findings must repeat */
    mem_init(&h.mem, 64 << 20, NULL);
    must(model_open(&m, "model", WEFT_LOAD_COPY, &h, &err) == WEFT_OK, "the model", &err);
    if (adapter_open(&a, &m, path, WEFT_LOAD_COPY, &err) == WEFT_OK) {
        sink = read_all(&m, &a, &err);
        adapter_close(&a);
    } else {
        must(err.code != WEFT_OK && err.message[0], "a failure without a message", &err);
    }
    (void)sink;
    model_close(&m);
    must(atomic_load(&h.mem.used) == 0, "memory is left behind", &err);
}

static uint8_t weights_file[4096];

#define MODEL_FILES                                                                                \
    [CONFIG] = { (const uint8_t *)config, sizeof config - 1, 0 }, [MODEL] = {                      \
        weights_file, write_model(weights_file, sizeof weights_file), 0                            \
    }

void adapter_life_peft(const uint8_t *settings, size_t n_settings, const uint8_t *tensors,
                       size_t n_tensors)
{
    memory_file files[N_FILE] = { MODEL_FILES, [ADAPTER_CONFIG] = { settings, n_settings, 0 },
                                  [ADAPTER] = { tensors, n_tensors, 0 } };
    live(files, "adapter");
}

void adapter_life_gguf(const uint8_t *data, size_t size)
{
    memory_file files[N_FILE] = { MODEL_FILES, [ADAPTER_GGUF] = { data, size, 0 } };
    live(files, "adapter.gguf");
}
