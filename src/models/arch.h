/* arch.h - a model ready to run, and the table of architectures.
 *
 * A family is one file: how its weights are bound and its forward written. An architecture is one
 * line of the table in arch.c: the names by which files call it, its family, and what the name
 * alone decides. */
#ifndef WEFT_MODELS_ARCH_H
#define WEFT_MODELS_ARCH_H

#include "formats/container.h"
#include "ops/ops.h"

#define MAX_STREAM 4

typedef struct model model;
typedef struct bind bind;

/* Rows a layer's cache keeps for every position. */
typedef struct stream_spec {
    const char *name;
    int64_t width;
} stream_spec;

typedef struct family {
    const char *name;

    /* Reads the configuration, binds the weights and returns the family's own struct; errors stick
     * to b. */
    void *(*bind)(bind *b);

    /* Logits of the wanted rows.                                                   [n_wanted, V] */
    tensor *(*forward)(run *r, const model *m);
} family;

typedef struct arch {
    const char *gguf; /* general.architecture, or NULL */
    const char *hf;   /* model_type in config.json, or NULL */
    const family *family;
    rope_pairing gguf_pairing; /* Hugging Face always pairs halves */
} arch;

struct model {
    host *host;
    const arch *arch;
    const char *name; /* the architecture, as its file calls it */
    container file;
    arena store; /* headers, converted weights, tables */

    int64_t n_layer, n_head, n_head_kv, d_model, d_head, d_ff, n_vocab, n_ctx;
    stream_spec stream[MAX_STREAM]; /* the same for every layer */
    int n_stream;
    int64_t n_parameter;
    tensor **param; /* every weight once, in the order of binding */
    int64_t n_param;
    void *self; /* the family's struct */
};

/* h must outlive the model. */
weft_status model_open(model *m, const char *path, weft_load load, host *h, weft_error *err);
void model_close(model *m);

/* The hidden width that Meta's code gives a Llama, integer steps included: 11008 for Llama-2-7B
 * (4096, 1, 256), 14336 for 3-8B (4096, 1.3, 1024), 8192 for 3.2-1B (2048, 1.5, 256). */
int64_t llama_hidden_width(int64_t d_model, double multiplier, int64_t multiple_of);

extern const arch archs[];
extern const int n_arch;
extern const family llama_family, gpt2_family;

#endif
