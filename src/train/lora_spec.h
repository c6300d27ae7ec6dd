/* lora_spec.h - what a user asks of an adapter to train: "r=16,alpha=32,targets=q_proj+v_proj".
 *
 *     r        rank of A and B (16)
 *     alpha    the scale is alpha / r (32)
 *     rslora   the scale is alpha / sqrt(r)
 *     dora     the length of each row of W + s B A is trained, too
 *     dropout  of what A is multiplied with (0)
 *     targets  weights, joined by "+": ends of names in the model ("attn_q") or in PEFT ("q_proj"),
 *              or patterns of whole names ("blk.0.*"); "all-linear": every matrix but the head
 *              (all-linear)
 *     init     a PEFT directory to continue from, which has all of that but dropout */
#ifndef WEFT_TRAIN_LORA_SPEC_H
#define WEFT_TRAIN_LORA_SPEC_H

#include "base/err.h"
#include "base/real.h"

#include <stdbool.h>
#include <stdint.h>

#define LORA_SPEC_BYTES 4096
#define MAX_LORA_RANK   4096
#define MAX_LORA_TARGET 64

typedef struct lora_spec {
    int64_t r;
    double alpha;
    bool rslora, dora;
    real dropout;
    const char *target[MAX_LORA_TARGET];
    int n_target;     /* 0: all-linear */
    const char *init; /* or NULL */
    char text[LORA_SPEC_BYTES];
} lora_spec;

/* s must stay where it is. "" asks for the defaults. */
weft_status lora_spec_parse(lora_spec *s, const char *text, weft_error *err);

/* Gains are not trained with dropout. */
weft_status lora_spec_refuse_dropout(const lora_spec *s, weft_error *err);

double lora_spec_scale(const lora_spec *s);

/* Which target matches a weight: its name in the model ("blk.3.attn_q"), or that of its module. -1:
 * none does. */
int lora_spec_target(const lora_spec *s, const char *name, const char *module);

#endif
