/* conversion.h - a conversion in progress: the request, the plan of the output, and the functions
 * that both writers share. */
#ifndef WEFT_MODELS_CONVERSION_H
#define WEFT_MODELS_CONVERSION_H

#include "base/buffer.h"
#include "base/pool.h"
#include "base/save.h"
#include "formats/kept.h"
#include "formats/quant_mix.h"
#include "models/export.h"

typedef struct convert_options {
    weft_format to;             /* WEFT_FORMAT_OTHER: not the source's format */
    const quant_target *target; /* of matrices; NULL: unchanged, or as in the original directory */
    uint64_t max_shard;         /* bytes of tensors per file; 0: one file */
    bool force;                 /* overwrite existing files */
    weft_load load;
    int n_thread; /* 0: one for each processor */
    weft_progress_fn *progress;
    void *progress_ud;
    weft_converted_tensor_fn *converted;
    void *converted_ud;
    float *const *importance; /* [n_importance] of the columns of each parameter, in the order of
                               * binding, NULL for those not known; or NULL */
    int64_t n_importance;
    const stored *const *merged; /* [n_merged] f32 in the layout of each parameter, in place of the
                                  * file's, NULL for those that stay; or NULL */
    int64_t n_merged;
    const stored *head; /* likewise, of a head that shares the embedding in the file; or NULL */
} convert_options;

typedef struct convert_report {
    weft_format to;
    char path[4096]; /* the file, the first of several, or the directory */
    char architecture[64];
    const dtype *type;       /* of most elements */
    const quant_target *mix; /* the name in the file name: the target, or that type's */
    int64_t n_tensor, n_file, n_left_out;
    uint64_t bytes; /* written */
} convert_report;

/* "q4_k_m", or the type of most elements. */
const char *convert_type_name(const convert_report *r);

/* A tensor as it will be written. */
typedef struct outgoing {
    const char *name;
    const stored *from; /* NULL: `made` */
    const float *made;  /* data that is in no file */
    const dtype *type;
    int n_dim;
    int64_t shape[2]; /* outermost first */
    int hf_dim;       /* for a Hugging Face file, see export_shape */
    int64_t hf_shape[MAX_DIM];
    int64_t stack, expert;   /* for GGUF, see param_origin */
    bool flip;               /* from is [cols, rows]: transpose */
    int64_t permuted_head;   /* head width, if rows of each head must be reordered; or 0 */
    bool to_adjacent;        /* from halves to neighbours; otherwise back */
    real shift;              /* added to every value: gains that a Hugging Face file has less 1 */
    int64_t whole_rows;      /* of the matrix that it begins and others continue; or 0 */
    bool follows;            /* it continues the tensor before it */
    int64_t ways;            /* > 0: its columns and those of others in turn, see weave; or ... */
    bool woven_in;           /* ... it is one of these others */
    bool instead;            /* the requested type does not fit, so another is used */
    const float *importance; /* of its columns, or NULL */
    uint64_t bytes;
    int part;
} outgoing;

/* A small file of a directory, which a GGUF file embeds (kept.h). */
typedef struct small_text {
    const char *text; /* NULL: no such file; not always terminated */
    size_t length;
} small_text;

/* Records of the directory in a GGUF file, in addition to its small files: the type of most
 * tensors, "NAME TYPE" for each of the others, and whether names lack their prefix. */
#define DTYPE_KEY  "weft.huggingface.dtype"
#define DTYPES_KEY "weft.huggingface.dtypes"
#define BARE_KEY   "weft.huggingface.bare_names"

typedef struct conversion {
    const convert_options *o;
    model m;
    const char *from;
    char name[256]; /* of the model, from its path */
    bool from_gguf;
    bool own;  /* the GGUF file, read or written, is one that only weft reads (kept.h) */
    bool bare; /* names in the directory lack the prefix of a class */
    host *host;
    pool *pool;
    arena store;
    small_text text[N_TEXT];
    file text_file[N_TEXT];
    outgoing *tensor;
    int64_t n_tensor;
    int64_t n_written; /* with the experts of a stacked tensor counted as one */
    int n_part;
    uint64_t bytes; /* of all tensors */
    uint64_t done;
    rope_spec llama3; /* the parameters recovered from a table of frequencies */
    save save;
    convert_report *report;
    weft_error *err;
} conversion;

/* Passes on the data of a tensor in the order and the type of the target, piece by piece. Adds up
 * the rounding loss if `lost` is given. */
typedef bool rows_fn(void *ud, const void *bytes, size_t n);
typedef struct loss_sums {
    double wrong, all; /* sums of squares: of the differences, of the values */
} loss_sums;
weft_status outgoing_rows(const outgoing *t, pool *p, mem *m, rows_fn *put, void *ud,
                          loss_sums *lost, weft_error *err);

/* Is its data part of the tensor before it, as for stacked experts in GGUF, or for k after q where
 * both are rows of one matrix? */
static inline bool outgoing_follows(const conversion *c, const outgoing *t)
{
    return t->follows || (c->report->to == WEFT_FORMAT_GGUF && t->stack > 0 && t->expert > 0);
}

/* Opens the source; lists texts and tensors for the format c->report->to; frees everything. */
weft_status conversion_begin(conversion *c, const char *from);
weft_status conversion_list(conversion *c);
void conversion_end(conversion *c);

/* Small file i of a directory, embedded or generated; nothing if there is none. Errors stick to b
 * and to c->save. Call the check first: embedded texts must agree with the file's keys. */
weft_status convert_check_texts(conversion *c);
void convert_text(conversion *c, int i, buffer *b);

/* Files that only weft's own GGUF files embed: writes them to the header of one, and restores
 * them. */
struct gguf_writer;
weft_status convert_keep_files(const conversion *c, struct gguf_writer *w);
void convert_restore_files(conversion *c, const char *directory);

/* Takes quantization_config out of the config.json of a directory: what is written is not quantised
 * as it says. */
weft_status convert_plain_config(conversion *c);

/* The configuration of a model whose head has a matrix of its own from now on. */
weft_status convert_untied_config(conversion *c);

/* Both write all files of their format to c->save. */
void convert_to_gguf(conversion *c, const char *path);
void convert_to_hf(conversion *c, const char *directory);

/* Writes the data of part `part`, tensor by tensor. */
void convert_data(conversion *c, int part, rows_fn *put, void *ud);

/* A path in a directory, and the path of a part of a GGUF file; false if it is too long. */
bool convert_join(char *to, size_t size, const char *directory, const char *name);
bool convert_part_name(const conversion *c, const char *path, int part, char *to, size_t size);

/* "1.2B" */
void size_label(int64_t n_parameter, char *to, size_t size);

#endif
