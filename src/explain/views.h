/* views.h - the views of a page, in the order of a reader: each writes what it shows of a subject
 * as one JSON object, which page/ draws.
 *
 * A view that does not apply to a model says why, in one line. */
#ifndef WEFT_EXPLAIN_VIEWS_H
#define WEFT_EXPLAIN_VIEWS_H

#include "explain/subject.h"

typedef struct page_view {
    int number;
    const char *name;  /* for --only and links: "heads" */
    const char *title; /* "Heads" */
    const char *seed;  /* sections of the documents it illustrates; see docs/SEEDS.md */
    const char *(*why_not)(const subject *s); /* NULL: it applies to every model */
    void (*write)(const subject *s, document *d);
} page_view;

extern const page_view views[];
extern const int n_view;

/* In a list of names "heads,output"; NULL names all. */
bool view_named(const char *names, size_t n, const page_view *v);

/* Writes the whole document: facts, tokens, the views that `only` names. */
void views_write(const subject *s, const char *only, document *d);

/* ---- one function for each ------------------------------------------------------------------- */

void view_pipeline(const subject *s, document *d);
void view_tokens(const subject *s, document *d);
void view_embeddings(const subject *s, document *d);
void view_positions(const subject *s, document *d);
void view_rope(const subject *s, document *d);
void view_residual(const subject *s, document *d);
void view_feed_forward(const subject *s, document *d);
void view_hand(const subject *s, document *d);
void view_heads(const subject *s, document *d);
void view_mask(const subject *s, document *d);
void view_root(const subject *s, document *d);
void view_shared(const subject *s, document *d);
void view_latent(const subject *s, document *d);
void view_cache(const subject *s, document *d);
void view_output(const subject *s, document *d);
void view_beams(const subject *s, document *d);
void view_pair(const subject *s, document *d);
void view_alignment(const subject *s, document *d);
void view_picture(const subject *s, document *d);
void view_objective(const subject *s, document *d);
void view_backward(const subject *s, document *d);
void view_update(const subject *s, document *d);
void view_cost(const subject *s, document *d);
void view_flash(const subject *s, document *d);
void view_checks(const subject *s, document *d);

const char *no_position_table(const subject *s);
const char *no_rope(const subject *s);
const char *no_attention(const subject *s);
const char *no_latent(const subject *s);
const char *no_cache(const subject *s);
const char *no_output(const subject *s);
const char *no_beams(const subject *s);
const char *no_feed_forward(const subject *s);
const char *no_residual(const subject *s);
const char *no_tokens(const subject *s);
const char *no_pair(const subject *s);
const char *no_alignment(const subject *s);
const char *no_picture(const subject *s);

/* The most probable of a row of outputs, as a list of { id, text, z, p }; labels if the model has
 * them. */
void write_best(const subject *s, document *d, const char *key, const float *z, int64_t n,
                int most);

/* The output of the model, or NULL. */
const seen *output_of(const subject *s);
const char *no_lesson(const subject *s);

/* Numbers that are cached for a token in all layers. */
int64_t cached_numbers(const model *m);

#endif
