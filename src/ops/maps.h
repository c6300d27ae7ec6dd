/* maps.h - attention maps, for tracing. */
#ifndef WEFT_OPS_MAPS_H
#define WEFT_OPS_MAPS_H

#include "tensor/run.h"

/* Scores of attention(); the node's arg is its attn. */
extern const op attention_scores_op;

/* Scores of an attention node, by scores_op, and their softmax, as [n_row, n_key]: with heads, row
 * i H + h is query i, head h; column j is the key at position j. The shares of a sink [H], or NULL,
 * have no column. */
void attention_maps(run *r, const node *of, const op *scores_op, int64_t n_row, int64_t n_key,
                    bool cross, tensor *sink);

/* The same for a node of attention(). */
void attention_show(run *r, const node *of);

#endif
