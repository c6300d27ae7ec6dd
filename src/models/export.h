/* export.h - what binding learns and a forward does not need: the source of every weight, and every
 * configuration value under both formats' keys.
 *
 * model_plan and model_design record these notes; conversions and new models are written from
 * them, and adapters find their weights by them. */
#ifndef WEFT_MODELS_EXPORT_H
#define WEFT_MODELS_EXPORT_H

#include "models/arch.h"

/* A weight: where it is, and its name and layout in the other format. */
typedef struct param_origin {
    const stored *from;
    const char *hf; /* its name in a Hugging Face file */
    bool flip;      /* such a file stores it as [I, O] */
    int hf_dim;     /* ... or with this rank, elements in the same order; 0: the same shape */
    int64_t hf_shape[MAX_DIM];
    int64_t stack;      /* matrices that GGUF stacks in one tensor; 0: not stacked, and ... */
    int64_t expert;     /* ... this is one of them; -1: these are all */
    int64_t ways, way;  /* as in a want */
    int64_t heads;      /* rotary heads in its rows: their order depends on the pairing; or 0 */
    int64_t whole_rows; /* it is rows of a stored matrix of so many, called ... */
    const char *whole;  /* ... this in GGUF; 0: it is stored alone ... */
    int64_t row0;       /* ... from this row on ... */
    bool follows;       /* ... and not the first of them */
    bool gain;          /* stored less 1 in a Hugging Face file */
} param_origin;

/* A configuration value and both its keys, NULL if a format has none. GGUF's is relative to the
 * architecture. */
typedef struct config_value {
    const char *gguf, *hf;
    meta value;
    bool is_set; /* set by the file; otherwise it is the default */
} config_value;

#define MAX_CONFIG_VALUE 80
#define MAX_UNUSED       4

/* A head that shares the embedding. */
typedef struct tied_head {
    const char *name; /* "output", or NULL: there is none */
    const char *hf;   /* the name that its matrix has in a Hugging Face file, or NULL */
    const tensor *table;
} tied_head;

typedef struct export_notes {
    param_origin *origin; /* [n_param] */
    config_value value[MAX_CONFIG_VALUE];
    int n_value;
    const bool *windowed;        /* [n_layer] layers with a window; NULL: all or none */
    const char *not_convertible; /* a feature that the other format has no key for, or NULL */
    const char *hf_class;        /* class in transformers, if it is not the table's */
    const char *hf_prefix;       /* of most names in a Hugging Face file */
    bool hf_bare;                /* the file's names lack the prefix */
    int64_t n_further;           /* layers of the file that predict further tokens, left out */
    const char *pooling_file;    /* "1_Pooling/config.json", which modules.json names; or NULL */
    tied_head tied;
    const char
        *unused[MAX_UNUSED]; /* "pooler.dense": modules of a Hugging Face class whose output */
    int n_unused;            /* ... this model does not need */
} export_notes;

/* The notes of an open model: binds it once more over the same files, and leaves them in `plan`,
 * whose parameters are the model's in the same order. Close it before the model. */
weft_status model_notes_open(model *plan, const model *of, weft_error *err);
void model_notes_close(model *plan);

/* Row i of heads of E rows that rotate, if their pairs change: its row before. Within a head, pair
 * (a_k, b_k) is (k, k + E/2) if halves are paired and (2k, 2k + 1) if neighbours are. */
static inline int64_t export_row(int64_t i, int64_t E, bool to_adjacent)
{
    const int64_t k = i % E, head = i - k;
    if (to_adjacent)
        return head + k / 2 + (k % 2 ? E / 2 : 0);
    return head + (k < E / 2 ? 2 * k : 2 * (k - E / 2) + 1);
}

/* The shape that parameter i has in a Hugging Face file; returns the number of dimensions. */
int export_shape(const model *m, int64_t i, int64_t *shape);

#endif
