/* changes.h - tensors that a user wants to be others: --zero, --scale and --patch.
 *
 * A name may be a shell pattern. "blk.3.attn.head.2" is a head: its columns of blk.3.attention,
 * which the output projection reads; "cross_attn.head" those of cross-attention. Changes of one
 * tensor happen in the order zero, scale, patch, and in the order in which they were given. */
#ifndef WEFT_CLI_CHANGES_H
#define WEFT_CLI_CHANGES_H

#include "cli.h"
#include "npy.h"

typedef enum change_kind { CHANGE_ZERO, CHANGE_SCALE, CHANGE_PATCH } change_kind;

typedef struct change {
    change_kind kind;
    const char *given; /* as it was written */
    char name[96];     /* of the tensor, or a pattern */
    int64_t head;      /* -1: all columns */
    double by;         /* scale */
    const char *path;  /* patch */
    npy_array with;
    int64_t n_done;   /* tensors that it has changed */
    bool only_shown;  /* it matches a tensor that no op reads */
    char misfit[256]; /* the first tensor that a patch or a head does not fit, and why */
} change;

typedef struct changes {
    change *at;
    int n;
    int64_t n_head;
} changes;

/* Returns 0, or an exit code after printing an error; changes_free either way. */
int changes_read(const command *c, const text_list *zero, const text_list *scale,
                 const text_list *patch, int64_t n_head, changes *to);
void changes_free(changes *x);

/* A weft_hook_fn; ud is the changes. */
void changes_apply(void *ud, const weft_trace_tensor *t, float *data);

/* Notes that a tensor of this name exists. */
void changes_look(changes *x, const char *name);

/* After the forward: 0, or an exit code after saying which change found no tensor, or one that it
 * does not fit. */
int changes_check(const command *c, const changes *x);

#endif
