/* export.h - what binding learns and running does not need: where every weight came from, and every
 * value of the configuration under both formats' keys.
 *
 * model_plan and model_design take these notes; conversion and new models are written from them. */
#ifndef WEFT_MODELS_EXPORT_H
#define WEFT_MODELS_EXPORT_H

#include "models/arch.h"

/* Of a weight: where it is, and what another file would call it and make of it. */
typedef struct origin {
    const stored *from;
    const char *hf; /* its name in a Hugging Face file */
    bool flip;      /* such a file has it [I, O] */
    int hf_dim; /* ... or in another shape, of the same numbers in the same order; 0: as it is */
    int64_t hf_shape[MAX_DIM];
    int64_t stack;  /* a GGUF file has so many matrices in one tensor, 0: one is one, and ... */
    int64_t expert; /* ... this is one of them; -1: these are all */
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

typedef struct export_notes {
    origin *origin; /* [n_param] */
    fact fact[MAX_FACT];
    int n_fact;
    const char *unsayable;    /* what the other form has no key for, or NULL */
    const char *hf_class;     /* of transformers, where it is not the table's */
    const char *hf_prefix;    /* of names in a Hugging Face file, most of them */
    bool hf_bare;             /* the file's names lack it */
    int64_t n_ignored;        /* tensors that no model needs */
    const char *pooling_file; /* "1_Pooling/config.json", which modules.json names; or NULL */
} export_notes;

/* The shape that parameter i has in a Hugging Face file; returns the number of dimensions. */
int export_shape(const model *m, int64_t i, int64_t *shape);

#endif
