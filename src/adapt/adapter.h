/* adapter.h - an adapter that was read for one open model: what it adds to matrices, and which
 * weights it replaces.
 *
 * Each entry names its weight of the model twice: by number, model.param[param], and by the name of
 * its use. Names matter where one matrix has two uses: a head that shares the embedding is
 * "output", and an entry for "token_embd" does not change it.
 *
 *     part:   y = g (W x + s B A x + s c) + b        s scale, c bias, g = gain / |W + s B A|
 *
 * |...| is the norm of each row. b is the weight's own bias, or the one that replaces it: the gain
 * does not scale it. Without a gain g is 1; without a bias c is 0; no part has both.
 *
 * A table, whose rows are looked up, is W transposed, and x is 1 at the index and 0 elsewhere:
 *
 *     part:   y = g (row of the table + s B (column of A))        |...| by columns of the table
 *
 * Whole weights come first: W is the replaced one if there is one.
 *
 * Rows of B, gain and bias are in the order of the model's rows. If a file has one fused matrix for
 * several weights, each gets its rows of B, and A is the same for all. Rows of rotary heads follow
 * the model's pairing. */
#ifndef WEFT_ADAPT_ADAPTER_H
#define WEFT_ADAPT_ADAPTER_H

#include "models/arch.h"

/* What is added to a matrix [O, I] or to a table [I, O]. */
typedef struct adapter_part {
    const char *name; /* as in weight.name: "blk.3.attn_q", "output"; of a table, "token_embd" */
    int64_t param;
    bool table; /* rows are taken from it; otherwise it is multiplied with */
    tensor a;   /* [r, I] */
    tensor b;   /* [O, r] */
    double scale;
    const real *gain; /* [O], or NULL */
    const real *bias; /* [O], or NULL */
} adapter_part;

/* A weight instead of the model's: of the same shape and layout. Those that equal the model's own
 * are left out. Norms and biases are reals. */
typedef struct adapter_whole {
    const char *name; /* with what it is: "blk.3.attn_q.bias", "output.weight" */
    int64_t param;
    tensor value;
} adapter_whole;

/* Numbers are as in the file, f32, f16 or bf16, and stay there if it is mapped and has them in
 * order. */
typedef struct adapter {
    host *host;
    container file;
    arena store;
    const char *base;   /* what the file calls its base model, or NULL */
    adapter_part *part; /* in the order of the model's parameters, a shared head last */
    int64_t n_part;
    adapter_whole *whole; /* likewise */
    int64_t n_whole;
} adapter;

/* path: a directory as PEFT writes it (peft.h), or a GGUF file (gguf_lora.h). The model must be open
 * for running and outlive the adapter. After an error the adapter is closed already. */
weft_status adapter_open(adapter *a, const model *m, const char *path, weft_load load,
                         weft_error *err);
void adapter_close(adapter *a);

/* Is there an adapter, and no model? */
bool adapter_is_one(const char *path, host *h);

#endif
