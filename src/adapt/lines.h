/* lines.h - an adapter that is being written: what it has for each use of the model's weights, and
 * the tensors made of that.
 *
 * Rows go back to where a reader took them from: those of fused matrices one below the other, those
 * of rotary heads in the order of the file's format. Several lines may be about one tensor. */
#ifndef WEFT_ADAPT_LINES_H
#define WEFT_ADAPT_LINES_H

#include "adapt/adapter.h"
#include "adapt/modules.h"

typedef struct adapter_tensor {
    const char *name; /* "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight" */
    const dtype *type;
    int n_dim;
    int64_t shape[MAX_DIM];
    const void *data; /* rows one after the other */
    uint64_t bytes;
} adapter_tensor;

typedef struct part_line {
    module_use u;
    bool known; /* it can be changed */
    const adapter_part *part;
    const adapter_whole *whole;
    bool done; /* for the caller: its module's tensor is made */
} part_line;

typedef struct part_lines {
    const adapter *a;
    const model *m;
    modules modules;
    part_line *line;
    int64_t n;
    adapter_tensor *tensor; /* in the store, as their data is unless it is the adapter's */
    int64_t n_tensor;
    arena store;
    weft_error *err; /* not NULL */
} part_lines;

/* AS_GGUF: with the names and rows of a GGUF file; otherwise with those of a Hugging Face one. Close
 * it in any case; the store is the caller's to keep or free. */
weft_status lines_open(part_lines *w, const adapter *a, const model *m, bool gguf, weft_error *err);
void lines_close(part_lines *w);

weft_status lines_refuse(const part_lines *w, const char *name, const char *why);

/* Are both lines about the same tensor of one module? */
bool lines_same(const part_line *a, const part_line *b);

/* Adds A and B of all parts of the module of line `first`, the first with a part. B is multiplied by
 * the factor: in its own type if that is exact, otherwise in f32. What a fused module needs and the
 * adapter does not have is rows of zeros. */
weft_status lines_put_parts(part_lines *w, int64_t first, double factor);

/* Adds a vector over the outputs of such a module, as f32, with zeros where a part has none. */
weft_status lines_put_vector(part_lines *w, int64_t first, const char *tail,
                             const real *(*of)(const adapter_part *));

/* Adds a tensor of a module; data NULL: makes room for it, zeroed. NULL after an error. */
void *lines_add(part_lines *w, const module_use *u, const char *tail, const dtype *type, int n_dim,
                const int64_t *shape, const void *data);

#endif
