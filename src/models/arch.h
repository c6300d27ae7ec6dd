/* arch.h - a model ready to run, and the table of architectures.
 *
 * A family is one file: it binds the weights and defines the forward pass. An architecture is one
 * row of the table in arch.c: its names in files, its family, and the settings that the name alone
 * decides. */
#ifndef WEFT_MODELS_ARCH_H
#define WEFT_MODELS_ARCH_H

#include "formats/container.h"
#include "ops/ops.h"

#define MAX_STREAM 4

typedef struct model model;
typedef struct bind bind;
typedef struct weight_panels weight_panels;

/* Rows that a layer caches for every position. */
typedef struct stream_spec {
    const char *name;
    int64_t width;
} stream_spec;

typedef struct family {
    const char *name;

    /* Reads the configuration, binds the weights and returns the family's own struct; errors stick
     * to b. */
    void *(*bind)(bind *b);

    /* Embeddings and blocks: the residual stream. [N, D] */
    tensor *(*body)(run *r, const model *m);

    /* From a residual stream, after the last block or any other, to the model's output for the
     * wanted rows (see model.task); in training, their loss. [n_wanted, n_out] */
    tensor *(*end)(run *r, const model *m, tensor *x);

    /* From a residual stream to every row as it enters the head. NULL if the family cannot compute
     * that for whole sequences without a cache. [N, D] */
    tensor *(*states)(run *r, const model *m, tensor *x);
} family;

/* Where the norms of a block are: before attention and feed forward, around them, or behind. */
typedef enum norm_place { NORM_BEFORE, NORM_AROUND, NORM_BEHIND } norm_place;

struct bind_name;

/* A number or flag that a row does not give is 0, and changes nothing. */
typedef struct arch {
    const char *gguf;     /* general.architecture, or NULL */
    const char *hf;       /* model_type in config.json, or NULL */
    const char *hf_class; /* class name in transformers */
    const family *family;
    rope_pairing
        gguf_pairing; /* with rotary positions; Hugging Face pairs halves unless hf_adjacent */
    bool hf_window;   /* sliding_window in config.json applies, to all layers */
    bool hf_qkv_bias; /* q, k and v have biases, whatever config.json says */
    bool hf_bare_o;   /* attention_bias is about q, k and v only */
    bool hf_o_bias;   /* the output of attention has a bias, whatever config.json says */
    bool hf_adjacent; /* neighbours rotate as pairs in Hugging Face files too */
    bool hf_partial;  /* config.json may say that only a part of each head rotates */
    bool hf_tied;     /* the head shares the embedding unless config.json denies it */
    bool hf_gain;     /* gains of norms are stored less 1 in Hugging Face files */
    const struct bind_name *hf_names; /* that differ from the family's */
    struct {
        int64_t n_head, n_head_kv, d_head, n_ctx;
        double theta;
    } hf_default; /* where a config.json lacks them; 0: as in other architectures */

    norm_place norms;
    bool wide_norms;           /* those of q and k are over whole rows, not over heads */
    bool fused_qkv, fused_ffn; /* rows of q, k, v, or of gate and up, are one stored matrix */
    bool multipliers;          /* keys scale embeddings, branches, scores and logits */
    bool root_embd;            /* embeddings are scaled by sqrt(d_model) */
    bool caps;                 /* keys cap scores and logits */
    const char *hf_act;        /* the key of the activation; NULL: hidden_act */
    act_kind act;              /* its default; 0: SiLU */
    const char *hf_scalar;     /* scores are scaled by the root of this key, not of d_head ... */
    int64_t scalar_layers;     /* ... in GGUF only in the model of so many layers: d_model / H */

    bool designed; /* keys of weft's own choose positions, norms, activation and heads */

    const char *hf_experts; /* the key of the number of experts; NULL: there are none */
    bool hf_norm_flag;      /* keys say their width and whether their shares sum to 1 */
    expert_act expert_act;
    bool woven_experts;   /* they have biases; in a Hugging Face file, gates and ups of all are one
                         * tensor [n, D, 2 F] with columns in turn, and downs are [n, F, D] */
    bool sinks;           /* a score of each head without a value */
    const char *ffn_norm; /* its name in GGUF, if it has another */

    int64_t window_period; /* the last of so many layers has no window; 0 or 1: all layers have */
    int64_t bare_period;   /* the last of so many layers does not rotate; 0: all layers do */
    bool window_rope;      /* layers without a window do not rotate if others have one */
    bool even_ramp;        /* of YaRN in GGUF, see rope_spec */
    bool local_rope;       /* layers with a window rotate at frequencies of their own, unscaled: */
    double local_theta;    /* ... their default theta; 0: that of the other layers */
} arch;

/* The images a model takes: their patches are its rows, after n_lead learned ones. */
typedef struct image_shape {
    int64_t channels, height, width, patch, n_lead;
} image_shape;

/* How a sequence becomes one vector. */
typedef struct pooling {
    pool_kind kind;
    bool normalize; /* scaled to length 1 */
} pooling;

struct model {
    host *host;
    const arch *arch;
    const char *name; /* the architecture's name in its configuration */
    bool text_part;   /* of a model of pictures and text: its keys are under text_config */
    container file;
    const container *config; /* holds the keys: the file, or ... */
    container own;           /* ... the config.json embedded in weft's own GGUF file; see kept.h */
    arena store;             /* headers, converted weights, tables */

    int64_t n_layer_src, n_vocab_src; /* of the encoder, if there is a decoder too; or 0 */
    int64_t start;                    /* the token that starts a decoder; or -1 */
    int64_t n_layer, n_head, n_head_kv, d_model, d_head, d_ff, n_vocab, n_ctx;
    int64_t n_expert;     /* in layers that have experts; 0: none has */
    tensor **expert_bias; /* [n_layer] biases that balance the load in training, or NULLs */
    stream_spec stream[MAX_STREAM]; /* the same for every layer */
    int n_stream;

    /* The output of forward. All tasks but WEFT_TASK_GENERATE process whole sequences at once,
     * without a cache, and leave n_stream 0. If the output is one row for the whole sequence, the
     * first row is the wanted one and has the target. */
    weft_task task;
    int64_t n_out;            /* width of an output row */
    const char *const *label; /* [n_out] their names, or NULL */
    int64_t n_type;           /* number of token types; 0: rows have none */
    int64_t d_feature; /* width of an input row, if the model takes vectors; 0: it takes tokens */
    image_shape image; /* channels 0: it takes no images */
    pooling pool;

    int64_t n_parameter;
    int64_t n_left_out; /* tensors of the file that no model needs */
    tensor **param;     /* every weight once, in the order of binding */
    int64_t n_param;
    void *self; /* the family's struct */

    rope_spec rope;        /* n_rot 0: no rotary positions */
    const kernels *kern;   /* chosen when the model is opened */
    bool bf16;             /* products are in class bf16 */
    weight_panels *panels; /* pack.h; NULL in a model that cannot run */

    struct export_notes *notes; /* for conversion; NULL after model_open */
};

/* The family's body; if the run shows a lens, also its end after every block. */
tensor *model_body(run *r, const model *m);

/* The whole forward: body, then end. */
tensor *model_forward(run *r, const model *m);

/* Does the model take a source text? */
static inline bool model_has_source(const model *m)
{
    return m->n_layer_src > 0;
}

/* h must outlive the model. */
weft_status model_open(model *m, const char *path, weft_load load, host *h, weft_error *err);

/* The same without weights: finds every tensor and checks its shape, but reads none. The resulting
 * model cannot run. */
weft_status model_plan(model *m, const char *path, weft_load load, host *h, weft_error *err);

/* The same for a model that has no file yet, from the text of a config.json. */
weft_status model_design(model *m, const char *config, size_t length, host *h, weft_error *err);
void model_close(model *m);

/* Products with its weights are in class bf16 from now on; before anything is made of the model. */
void model_compute_bf16(model *m);

/* The hidden width that Meta's code computes for a Llama, integer steps included: 11008 for
 * Llama-2-7B (4096, 1, 256), 14336 for 3-8B (4096, 1.3, 1024), 8192 for 3.2-1B (2048, 1.5, 256). */
int64_t llama_hidden_width(int64_t d_model, double multiplier, int64_t multiple_of);

extern const arch archs[];
extern const int n_arch;
extern const family llama_family, gpt2_family, bert_family, vit_family, transformer_family,
    t5_family, deepseek_family, bahdanau_family;

#endif
