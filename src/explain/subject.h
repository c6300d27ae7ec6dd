/* subject.h - what a page is about: a model, a text, and one forward of it.
 *
 * The caller fills it, because running a model is the engine's work; views only read it. */
#ifndef WEFT_EXPLAIN_SUBJECT_H
#define WEFT_EXPLAIN_SUBJECT_H

#include "explain/document.h"
#include "explain/lesson.h"
#include "models/arch.h"

/* A token of the text: its bytes, and where they come from. */
typedef struct subject_token {
    int32_t id;
    const char *bytes;
    size_t n;
    const char *spelled; /* as the tokenizer's file spells it, n_spelled bytes; or NULL */
    size_t n_spelled;
    bool special;
    weft_span span; /* of the text; both 0: it is of none */
} subject_token;

/* Beside an encoder, a decoder's layer attends to its own text, and then to the source: that is
 * looked at as a layer of its own, after all others. */
typedef enum stack { STACK_ONE, STACK_ENCODER, STACK_DECODER, STACK_CROSS } stack;

/* What is looked at in one layer; NULL: the layer has none. Found by record's names and inputs. */
typedef struct layer_parts {
    stack stack;
    int64_t number;                  /* in its stack */
    int64_t block;                   /* the layer in the record */
    const seen *into;                /* the stream that enters the block */
    const seen *norm;                /* what the projections read */
    const seen *q, *k, *v;           /* what attention reads */
    const seen *q_before, *k_before; /* before rotary positions */
    const seen *scores, *probs;      /* [N H, T] */
    const seen *pooled;              /* sums of values, as attention makes them; with latent
                                        attention these are sums of latents */
    const seen *mixed;               /* all heads' sums of values, which W_O reads */
    const seen *attn_out, *attn_sum; /* W_O's output; the stream after the block's first one */
    const seen *ffn_norm;            /* what the feed forward reads */
    const seen *up, *gate, *act;     /* gate: before its activation; act: after the activation */
    const seen *hidden;              /* what W_2 reads */
    const seen *down, *ffn_sum;      /* its output, and the stream after it */
    const seen *moe;                 /* the sum of the chosen experts ... */
    bool shared;                     /* ... beside which up, gate and down are the shared one's */
    int64_t n_head, n_head_kv, d_key, d_value;
} layer_parts;

/* What a stage of the sampler left. */
typedef struct subject_stage {
    char name[64]; /* "top_k 40" */
    int64_t n;     /* tokens that remain */
    weft_candidate best[8];
    int n_best;
    double u;             /* the random number that the draw compared; -1: none */
    weft_candidate drawn; /* the token drawn; id -1: not yet */
} subject_stage;

#define MAX_STAGE 8

/* Seconds of the t-th token, with the keys before it cached, and with all t computed again. */
typedef struct cache_point {
    int64_t t;
    double with, without;
} cache_point;

typedef struct subject {
    const model *model;
    const struct subject *source; /* of an encoder-decoder: the text that its encoder reads, and
                                     nothing else; NULL: there is none */
    pool *pool;                   /* for views that read much */
    const char *title;            /* the model's name */
    const char *text;             /* NULL: ids were given */
    size_t n_text;
    bool spans;         /* tokens have theirs */
    bool parse_special; /* special tokens were read in the text */

    /* Encodes the text step by step; only if tokens have spans. */
    weft_status (*steps)(const struct subject *s, weft_tokenizer_step_fn *fn, void *ud,
                         weft_error *err);
    const weft_tokenizer_info *tokenizer; /* NULL: there is none */

    /* Writes the bytes of any token, as many as fit; returns their number. */
    size_t (*spell)(const void *speller, int32_t id, char *to, size_t size);
    const void *speller;

    const record *seen;
    const layer_parts *layer; /* [n_layer] */
    int64_t n_layer;          /* of both stacks, and again of the decoder for its cross-attention */
    const subject_token *token;
    int64_t n_token;
    int64_t at_layer, at_head, at_token; /* where the page opens */
    const float *logits;                 /* [n_out] of the last row, or NULL */
    const float *lens;                   /* [n_layer, n_out] were each layer the last, or NULL */
    const float *cached; /* [n_out] the same with all keys but the last from the cache, or NULL */
    weft_sampler_options sampler; /* of the stages */
    subject_stage stage[MAX_STAGE];
    int n_stage;
    const weft_beam_node *node; /* [n_node] of a beam search, in its order */
    int64_t n_node;
    cache_point timed;    /* t 0: nothing was timed */
    weft_model_cost cost; /* of the last token */
    double seconds;       /* of the forward */
    const lesson *lesson; /* NULL: without training */
} subject;

/* Layers that a page about this model has. */
int64_t parts_count(const model *m);

/* Finds the parts of one of them in a record. */
layer_parts parts_find(const record *s, int64_t layer);

/* The tokens that are the rows of a layer of the record. */
int64_t rows_of_layer(const subject *s, int64_t layer);

/* A weight by the name that a tensor's inputs have, or NULL. */
const tensor *weight_named(const model *m, const char *name);

/* Its row i as numbers; a gain or a bias is row 0. */
void weight_row(const tensor *w, int64_t i, real *to);

#endif
