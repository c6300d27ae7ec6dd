/* sampler.h - draws the next token from logits by a chain of steps, which weft.h describes.
 *
 * Every step that removes tokens leaves a contiguous range of the order from best to worst. So two
 * indices describe the remaining tokens, and only the places that a step uses are ever sorted:
 *
 *     best  . . o o o o o o o o o . . . . . . . .  worst
 *               ^first            ^end
 *
 * Probabilities are computed in double from score / temperature. All memory is allocated when the
 * sampler is created. */
#ifndef WEFT_ENGINE_SAMPLER_H
#define WEFT_ENGINE_SAMPLER_H

#include "base/mem.h"
#include "engine/order.h"
#include "text/constrain/constraint.h"

#define SAMPLER_STEPS 10

typedef struct sampler sampler;

/* A step of the chain, and its name in the chain. */
typedef struct sampler_step {
    const char *name;
    bool scores; /* changes scores of single tokens, so no token may have been removed before */
    bool (*on)(const weft_sampler_options *o);
    void (*apply)(sampler *s);
    int (*say)(const weft_sampler_options *o, char *to, size_t size); /* as snprintf */
} sampler_step;

/* Do penalties need counts of the history's tokens? */
static inline bool sampler_counts(const weft_sampler_options *o)
{
    return o->repetition != 1 || o->frequency != 0 || o->presence != 0;
}

/* Sees what each stage of a pick leaves; see sampler_stages.c. */
typedef struct sampler_watch sampler_watch;
struct sampler_watch {
    weft_status (*see)(sampler_watch *w, sampler *s, const char *stage, weft_error *err);
};

extern const sampler_step sampler_steps[SAMPLER_STEPS]; /* in the order of the default chain */

struct sampler {
    weft_sampler_options opt; /* defaults filled in, without its pointers */
    weft_bias *bias;          /* [n_bias] */
    mem *mem;
    int64_t n_vocab;
    const sampler_step *chain[SAMPLER_STEPS]; /* the active steps */
    int n_step;
    char line[512]; /* what they are */
    int64_t window; /* tokens of the history that they use */

    const int32_t *ids; /* history for this pick */
    int64_t n_id;
    float *z; /* [V] scores */
    order order;
    uint64_t *places;     /* [V], the order's */
    int64_t first, end;   /* the remaining range */
    double temperature;   /* divisor of the scores, once its step has run */
    int32_t *times;       /* [V]: counts of tokens while a step needs them, otherwise 0 */
    bool *breaks;         /* [V]: repetitions do not cross these tokens */
    int32_t *repeats;     /* [dry_last_n] */
    double mu;            /* state of mirostat */
    double u;             /* the uniform number that the last step or draw used; -1: none */
    int64_t chosen;       /* place of the token drawn; -1 before */
    sampler_watch *watch; /* NULL: none */

    constraint *constraint; /* only tokens that it allows; NULL: all. The owner's */
    uint64_t *allowed;      /* [V / 64 + 1] */
};

/* Are the options valid? */
weft_status sampler_check(int64_t n_vocab, const weft_sampler_options *o, weft_error *err);

sampler *sampler_new(mem *m, int64_t n_vocab, const weft_sampler_options *o, weft_error *err);
void sampler_free(sampler *s);
void sampler_reset(sampler *s);

weft_status sampler_pick(sampler *s, const float *logits, const int32_t *ids, int64_t n,
                         int32_t *id, weft_error *err);

/* Picks, calling fn after each stage with its best k, and then forgets that it did. */
weft_status sampler_stages(sampler *s, const float *logits, const int32_t *ids, int64_t n,
                           int64_t k, weft_sampler_stage_fn *fn, void *ud, weft_error *err);

/* Leaves out what the constraint refuses, and begins the order; see sampler_constrain.c. */
weft_status sampler_order(sampler *s, weft_error *err);

/* The tokens that remained for the last draw: at most k, best first; returns how many there
 * were. */
int64_t sampler_kept(sampler *s, int64_t k, weft_token_prob *out);

/* x = (score - best score) / temperature of a place, and exp(x). Both sort up to that place. */
double sampler_x(sampler *s, int64_t i);
double sampler_weight(sampler *s, int64_t i);

/* Sums of w = exp(x) and of w x over the remaining tokens. */
typedef struct sampler_sums {
    double w, wx;
} sampler_sums;

sampler_sums sampler_sum(sampler *s);

/* Uniform in [0, 1), 53 bits: a function of the seed, the length of the history and the purpose. */
typedef enum sampler_purpose { SAMPLER_DRAW, SAMPLER_XTC } sampler_purpose;

double sampler_uniform(sampler *s, sampler_purpose purpose);

#endif
