/* bind.h - where a file meets a struct: reads the configuration, looks up every tensor by name and
 * checks its shape against the configuration. After this, shapes are trusted.
 *
 * Errors stick: the first one is kept, later calls return zeros, and the family's code stays
 * straight-line. A tensor left over in the file is an error too; nothing is dropped silently. */
#ifndef WEFT_MODELS_BIND_H
#define WEFT_MODELS_BIND_H

#include "models/arch.h"
#include "models/export.h"

#include <stdarg.h>

/* weft's stem (the same as GGUF's) and Hugging Face's, with %d for the layer, %e for the expert and
 * the prefix of the class that has a head. A stem that ends with "=" is the whole name: no
 * ".weight" follows it. One that ends with "~" is the whole name of a weight, and its bias ends with
 * "_bias". */
typedef struct bind_name {
    const char *stem, *hf;
} bind_name;

struct bind {
    model *m;
    bool gguf;              /* tensors have GGUF's names, shapes and orders */
    bool gguf_keys;         /* the configuration is GGUF keys; otherwise it is a config.json */
    bool plan;              /* read no weights, but fill m->notes */
    bool is_new;            /* no file: tensors follow the configuration */
    int64_t most;           /* upper bound on the number of tensors */
    const char *prefix;     /* of the names being bound: "", or "enc." and "dec." */
    int layer;              /* -1 outside layers */
    const bind_name *names; /* the family's table, ends with { NULL, NULL } */
    const char *hf_arch;    /* the row of archs[], if GGUF has one name for several */
    const char *hf_class;   /* class in transformers, if it is not the table's */
    const char *hf_prefix;  /* "model.": missing if a class without a head saved the file */
    bool hf_adjacent;       /* adjacent elements rotate as pairs in a Hugging Face file too */
    bool *used;             /* [n_tensor] */
    weft_status status;
    weft_error *err;
};

/* Zeroed memory that the model owns. */
void *bind_alloc(bind *b, int64_t n, size_t size);

/* Keeps the first error about the configuration. */
weft_status bind_fail(bind *b, weft_status code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- configuration --------------------------------------------------------------------------- */

/* GGUF keys are relative to the architecture; a NULL key means that the format has none. */

#define REQUIRED INT64_MIN

/* An integer in [lo, hi]; `otherwise` if the file has none, or an error if that is REQUIRED. */
int64_t bind_int(bind *b, const char *gguf, const char *hf, int64_t otherwise, int64_t lo,
                 int64_t hi);
double bind_real(bind *b, const char *gguf, const char *hf, double otherwise, double lo, double hi);

/* An integer that this model does not use, but that must be in range if the file has it. */
void bind_unused_int(bind *b, const char *hf, int64_t lo, int64_t hi);

/* Epsilon of a norm: above 0, because a row of zeros is divided by its root; below 1. */
double bind_epsilon(bind *b, const char *gguf, const char *hf, double otherwise);

/* NULL if the file has none. */
const char *bind_text(bind *b, const char *gguf, const char *hf);
bool bind_flag(bind *b, const char *gguf, const char *hf, bool otherwise);

/* The activation named by the file's key; an unknown name is an error. */
act_kind bind_act(bind *b, const char *hf, act_kind otherwise);

/* Does the head share the embedding? */
bool bind_ties_head(bind *b, bool otherwise);

/* Records a flag of config.json that follows from the weights, for conversion. */
void bind_implied(bind *b, const char *hf, bool flag);

/* Records a value for a file of the other format, if this format has no key for it: its key here is
 * NULL. */
void bind_export_flag(bind *b, const char *gguf, const char *hf, bool flag);
void bind_export_int(bind *b, const char *gguf, const char *hf, int64_t x);
void bind_export_text(bind *b, const char *gguf, const char *hf, const char *text);

/* Records that the other format has no key for `what`, so that converting the model is an error. */
void bind_not_convertible(bind *b, const char *what);

/* Reads the keys of both formats for rotary positions; d_head and n_rot are given, and theta if
 * files without one mean another base than 10000. NULL after an error. */
const rope_table *bind_rope(bind *b, rope_spec *s);

/* The same angles with queries warmed by their positions. */
const rope_table *bind_warm_rope(bind *b, const rope_spec *s);

/* The experts of this layer, of hidden width F: bind_experts.c. */
void bind_experts(bind *b, const routing *how, experts *w, int64_t F);

/* The same for the layers with a window, where they have keys of their own. */
const rope_table *bind_local_rope(bind *b, const rope_spec *s);

/* Which layers have the window of so many positions, and which rotate: arrays of n_layer flags. */
const bool *bind_windows(bind *b, int64_t window);
const bool *bind_turns(bind *b, const bool *windowed, int64_t window);

/* The number of labels of the matrix `stem`; sets the model's label names. */
int64_t bind_labels(bind *b, const char *stem);

/* Is there a modules.json, as sentence-transformers writes it? */
bool bind_has_modules(bind *b);

/* How a text becomes one vector: from modules.json and the file it names, or from GGUF's keys; mean
 * pooling by default. */
pooling bind_pooling(bind *b);
pooling bind_decoder_pooling(bind *b);

/* ---- weights --------------------------------------------------------------------------------- */

/* One tensor in the model's layout, and how files may store it differently. */
typedef struct want {
    const char *stem;
    const char *suffix; /* NULL: ".weight" */
    int n_dim;          /* 1 or 2 */
    int64_t shape[MAX_DIM];
    bool optional; /* NULL if the file has none ... */
    bool in_new;   /* ... but a new model has one */
    bool as_real;  /* decode to reals: it is small, and ops read it directly */
    bool gain;     /* of a norm: see arch.hf_gain */

    bool hf_flip; /* a Hugging Face file stores it as [I, O], ... */
    int hf_dim;   /* ... or with this rank, elements in the same order; 0: the same shape */
    int64_t hf_shape[MAX_DIM];

    int64_t stack; /* matrices [O, I] that are one tensor in GGUF; 0: it is one matrix */
    int64_t part;  /* which of them, counted from 1; 0: all of them, as [stack O, I] */
    int64_t
        ways;    /* in a Hugging Face file the columns of so many take turns, [stack, I, ways O], */
    int64_t way; /* ... and this is whose; 0: they do not */
    int64_t heads; /* its rows are this many rotary heads; 0: not rotary */

    const char *whole;  /* the stem of the stored matrix that has its rows ... */
    int64_t whole_rows; /* ... among so many ... */
    int64_t row0;       /* ... from here on; NULL: it is stored alone */
} want;

/* Whether a matrix of a new model has a bias. If there is a file, the file decides. */
typedef enum bind_bias { NO_BIAS, WITH_BIAS } bind_bias;

/* NULL after an error, or if the tensor is optional and the file has none. */
tensor *bind_tensor(bind *b, const want *w);

bool bind_has(bind *b, const char *stem);

/* A matrix [O, I] to be multiplied with. */
tensor *bind_matrix(bind *b, const char *stem, int64_t O, int64_t I);

/* A matrix [O, I] with its bias [O] if the file has one. */
weight bind_linear(bind *b, const char *stem, int64_t O, int64_t I, bind_bias in_new);

/* The same with a bias, if a Hugging Face file stores the matrix as [I, O] (GPT-2's Conv1D). */
weight bind_conv1d(bind *b, const char *stem, int64_t O, int64_t I);

/* The same with rows that are rotary heads of width E. */
weight bind_heads(bind *b, const char *stem, int64_t n_head, int64_t E, int64_t I,
                  bind_bias in_new);

/* The head of a model whose file has none because it shares the embedding; it may have a bias. */
weight bind_tied(bind *b, const char *stem, tensor *w, bind_bias in_new);

/* A gain [n] as reals, with its bias if it has one. */
weight bind_norm(bind *b, const char *stem, int64_t n, bool has_bias);

/* Rows [row0, row0 + O) of a matrix [n, I] that both formats store under the name `whole`. */
weight bind_rows(bind *b, const char *stem, const char *whole, int64_t n, int64_t row0, int64_t O,
                 int64_t I);

/* A vector [n] as reals that is no norm's. */
tensor *bind_numbers(bind *b, const char *stem, int64_t n);

/* The gain of a norm over one rotary head. */
tensor *bind_head_norm(bind *b, const char *stem, int64_t E);

/* A table [n, d] as reals, small enough for ops to read directly. */
tensor *bind_small_table(bind *b, const char *stem, int64_t n, int64_t d);

/* A bias [1, n] with a name of its own, stored as a row; NULL if the file has none. */
tensor *bind_bias_row(bind *b, const char *stem, int64_t n);

/* A vector [n] as reals, or NULL if the file has none. GGUF calls it a bias. */
tensor *bind_vector(bind *b, const char *stem, int64_t n);

/* All of a tensor [n, O, I], which only GGUF has, as a matrix [n O, I]. */
tensor *bind_parts(bind *b, const char *stem, int64_t n, int64_t O, int64_t I);

/* A lookup table [n, d]. */
tensor *bind_table(bind *b, const char *stem, int64_t n, int64_t d);

/* A table [n, d] that a Hugging Face file stores as [1, n, d] and without ".weight" in its name. */
tensor *bind_bare_table(bind *b, const char *stem, int64_t n, int64_t d);

/* A matrix [O, C P P] with its bias, which a Hugging Face file stores as a convolution [O, C, P,
 * P]. */
weight bind_patches(bind *b, const char *stem, int64_t O, int64_t C, int64_t P);

/* A computed table [n, d], which is neither stored nor trained. */
tensor *bind_made(bind *b, const char *name, int64_t n, int64_t d,
                  real (*number)(const void *of, int64_t row, int64_t col), const void *of);

/* Rows of a stored matrix, or 0 if there is none: gives the vocabulary size if no key does. */
int64_t bind_rows_of(bind *b, const char *stem);

/* n numbers above 0 as floats in the model's store, or NULL if the file has none. */
const float *bind_divisors(bind *b, const char *stem, int64_t n);

/* Ignores every tensor of a directory whose name ends with hf_suffix: files contain it, but no
 * model needs it. */
void bind_ignore(bind *b, const char *hf_suffix);

/* The same for weight and bias of a module whose output the model does not need; adapters of it are
 * left out too. */
void bind_ignore_module(bind *b, const char *hf);

/* Ignores the n layers from b->m->n_layer on: they predict further tokens. */
void bind_ignore_layers(bind *b, int64_t n);

/* Ignores what belongs to the pictures of a model whose text part this is, and to the prediction of
 * further tokens. */
void bind_ignore_pictures(bind *b);

/* Anything left over is an error. */
weft_status bind_finish(bind *b);

/* ---- shared by the bind files ---------------------------------------------------------------- */

weft_status bind_fail_at(bind *b, weft_status code, const char *path, const char *format,
                         va_list args) __attribute__((format(printf, 4, 0)));

#define FILE_NAME_BYTES (2 * NAME_BYTES)

/* ".weight", or the suffix it asks for. */
const char *bind_suffix(const want *w);

/* "blk.3.attn_q", "enc.blk.3.attn_q" */
void bind_stem(const bind *b, const char *stem, char name[NAME_BYTES]);

/* The name in a Hugging Face file, with this suffix (".weight"); false if it has none. */
bool bind_hf_name(const bind *b, const want *w, const char *suffix, char name[FILE_NAME_BYTES]);

/* The file's tensor, and its expected name. */
const stored *bind_look_up(bind *b, const want *w, char name[FILE_NAME_BYTES]);

/* The tensor of a directory whose name ends with `suffix` instead of ".weight"; or NULL. */
const stored *bind_look_beside(bind *b, const want *w, const char *suffix,
                               char name[FILE_NAME_BYTES]);

/* Is this its shape? Otherwise an error. */
bool bind_shape_is(bind *b, const stored *t, const char *name, int n_dim, const int64_t *expected);

/* An error about a tensor, which may be in another file; NULL for one that is in no file. */
void bind_misfit(bind *b, const stored *t, weft_status code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Weights that a directory stores in another way: bind_spread.c. NULL if it does not, or after an
 * error. */
const stored *bind_spread(bind *b, const want *w, const stored *t, const char *name);
const stored *bind_packed(bind *b, const want *w);

/* The entry of config.json, which may be that of a text part; or NULL. */
const meta *bind_entry(const bind *b, const char *hf);

/* Is there one, or a list of this name? */
bool bind_has_key(const bind *b, const char *hf);

/* Reads a value without recording it for conversion. */
double bind_peek_real(bind *b, const char *gguf, const char *hf, double otherwise, double lo,
                      double hi);
const char *bind_peek_text(bind *b, const char *gguf, const char *hf);

/* Records a value and its keys, which are constants of the program. */
void bind_keep(bind *b, const char *gguf, const char *hf, bool is_set, meta value);

#endif
