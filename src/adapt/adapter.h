/* adapter.h - an adapter that was read for one open model: what it adds to matrices, and which
 * weights it replaces.
 *
 * Both lists say which weight of the model they are about, twice: by number, model.param[param], and
 * by the name that the model uses it under. The names differ where one matrix has two uses: a head
 * that shares the embedding is "output", and what is said of "token_embd" does not concern it.
 *
 *     part:   y = g * (W x + s B (A x) + s c) + b        s scale, c bias, g gain / |W + s B A|
 *
 * b, the bias of the weight itself, comes after the gain. Without a gain g is 1; without a bias c is
 * 0, and no adapter has both. |...| has the norm of each row of W.
 *
 * For a table, from which rows are taken, x is 1 at one index and 0 elsewhere, and W is the table
 * transposed: y = g * (row of the table + s B (column of A)), and |...| has the norm of each column
 * of the table.
 *
 * Rows of B, gain and bias are in the order of the model's rows, also where files have another:
 * those of one fused matrix are cut into its parts (and A is the same for all of them), and those of
 * rotary heads follow the model's pairing. */
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
    adapter_part *part; /* in the order of the model's parameters, a shared head last */
    int64_t n_part;
    adapter_whole *whole; /* likewise */
    int64_t n_whole;
} adapter;

void adapter_close(adapter *a);

#endif
