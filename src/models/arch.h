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
    const char *gguf;     /* general.architecture, or NULL */
    const char *hf;       /* model_type in config.json, or NULL */
    const char *hf_class; /* of transformers */
    const family *family;
    rope_pairing gguf_pairing; /* Hugging Face always pairs halves */
    bool hf_window;            /* sliding_window in config.json counts, for all layers */
    bool hf_qkv_bias;          /* q, k and v have biases, whatever config.json says */
} arch;

/* What binding learns and running does not need; kept by model_plan for those who write models. */

/* Of a weight: where it is, and what another file would call it and make of it. */
typedef struct origin {
    const stored *from;
    const char *hf; /* its name in a Hugging Face file */
    bool flip;      /* such a file has it [I, O] */
    int64_t heads;  /* its rows are so many heads that turn with the position, so that their order
                       follows the pairing; 0: they do not */
} origin;

/* Of the configuration: a value and both its keys, NULL where a format has none. GGUF's is relative
 * to the architecture. */
typedef struct fact {
    const char *gguf, *hf;
    meta value;
    bool said; /* by the file; otherwise it is the default */
} fact;

#define MAX_FACT 64

struct model {
    host *host;
    const arch *arch;
    const char *name; /* the architecture, as its file calls it */
    container file;
    arena store; /* headers, converted weights, tables */

    int64_t n_layer_src, n_vocab_src; /* of an encoder, whose decoder the others describe; or 0 */
    int64_t start;                    /* the token before a decoder's first; or -1 */
    int64_t n_layer, n_head, n_head_kv, d_model, d_head, d_ff, n_vocab, n_ctx;
    stream_spec stream[MAX_STREAM]; /* the same for every layer */
    int n_stream;
    int64_t n_parameter;
    tensor **param; /* every weight once, in the order of binding */
    int64_t n_param;
    void *self; /* the family's struct */

    /* Only after model_plan: */
    origin *origin; /* [n_param] */
    fact *fact;
    int n_fact;
    rope_spec rope;        /* n_rot 0: the model does not turn */
    const char *unsayable; /* what the other form has no key for, or NULL */
    const char *hf_prefix; /* of names in a Hugging Face file, most of them */
    bool hf_bare;          /* the file's names lack it */
    int64_t n_ignored;     /* tensors that no model needs */
};

/* Does it read a source? */
static inline bool model_encodes(const model *m)
{
    return m->n_layer_src > 0;
}

/* h must outlive the model. */
weft_status model_open(model *m, const char *path, weft_load load, host *h, weft_error *err);

/* The same without weights: every tensor is found and its shape checked, but none is read. What
 * comes out cannot run. */
weft_status model_plan(model *m, const char *path, weft_load load, host *h, weft_error *err);

/* The same of a model that has no file yet: what a config.json asks for. */
weft_status model_design(model *m, const char *config, size_t length, host *h, weft_error *err);
void model_close(model *m);

/* The hidden width that Meta's code gives a Llama, integer steps included: 11008 for Llama-2-7B
 * (4096, 1, 256), 14336 for 3-8B (4096, 1.3, 1024), 8192 for 3.2-1B (2048, 1.5, 256). */
int64_t llama_hidden_width(int64_t d_model, double multiplier, int64_t multiple_of);

extern const arch archs[];
extern const int n_arch;
extern const family llama_family, gpt2_family, transformer_family, t5_family;

#endif
