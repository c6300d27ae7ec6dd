/* modules.h - the modules of an open model: every use of a weight, and the name that the module has
 * in the class of transformers that PEFT adapts, or in a GGUF file.
 *
 *     blk.3.attn_q   model.layers.3.self_attn.q_proj   + .weight
 *     token_embd     model.embed_tokens                + .weight, a table
 *     output         lm_head                           + .weight, also if it shares the table
 *
 * Several weights may belong to one module: rows of a fused matrix, a weight and its bias. */
#ifndef WEFT_ADAPT_MODULES_H
#define WEFT_ADAPT_MODULES_H

#include "adapt/take.h"
#include "models/export.h"

#define MODULE_BYTES 240 /* a model's names are shorter than 160 */

/* How names in an adapter differ from those in the model's own table: the class that was adapted
 * may lack the prefix of one with a head, or have more than text. Or they are GGUF's, and so is the
 * order of rows: "blk.3.attn_qkv". */
typedef enum module_form { AS_TABLE, BARE, TEXT_INSIDE, TEXT_AROUND, N_FORM, AS_GGUF } module_form;

typedef struct modules {
    const model *m;
    model plan; /* the same with notes */
    module_form form;
    int64_t tied; /* the parameter that the head shares, or -1 */
} modules;

typedef struct module_use {
    int64_t param;
    char name[NAME_BYTES]; /* "blk.3.attn_q" */
    char module[MODULE_BYTES];
    const char *tail; /* what the module calls it: ".weight", ".bias", or "" */
    bool table;       /* rows are taken from it; otherwise it is multiplied with */
    bool shared;      /* the head that shares the table */
    bool adaptable;   /* a matrix that can have A and B */
    take_rows_of rows;
} module_use;

/* Close it before the model. After an error it is closed already. */
weft_status modules_open(modules *s, const model *m, weft_error *err);
void modules_close(modules *s);

/* Uses are numbered: those of parameters as these are, then that of a shared head. False if number
 * i cannot be changed, as experts cannot: then only `module` is set, "" if it has no name. */
int64_t modules_count(const modules *s);
bool modules_use(const modules *s, int64_t i, module_use *u);

/* Refuses to adapt the table that both sides of T5 or BART share. PEFT wraps the module of one side
 * only. `path`: of the adapter. */
weft_status modules_check_shared(const modules *s, int64_t param, const char *path,
                                 weft_error *err);

/* How many bytes the ".weight" or ".bias" of a name has, or 0. */
size_t module_tail(const char *name);

#endif
