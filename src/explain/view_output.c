/* view_output.c - from logits to a token: the sampler's stages, what each layer would say, and the
 * tree of a beam search. */
#include "explain/hand.h"
#include "explain/views.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOP      200 /* tokens of the output that have names */
#define LENS_TOP 5

/* Is the output one of labels? */
static bool is_label(const subject *s)
{
    const weft_task task = s->model->task;
    return task == WEFT_TASK_CLASSIFY || task == WEFT_TASK_TAG;
}

/* A class without a name has its number. */
static void write_token(const subject *s, document *d, int32_t id)
{
    char text[64];
    const char *label = is_label(s) && s->model->label ? s->model->label[id] : NULL;
    doc_int(d, "id", id);
    if (label)
        doc_text(d, "text", label);
    else if (is_label(s))
        doc_bytes(d, "text", text, (size_t)snprintf(text, sizeof text, "class %d", (int)id));
    else
        doc_bytes(d, "text", text, s->spell(s->speller, id, text, sizeof text));
}

/* ---- the best of a row ----------------------------------------------------------------------- */

typedef struct scored {
    int32_t id;
    float z;
} scored;

/* Inserts into a list of the best, the smaller id first among equals. */
static int best_of(const float *z, int64_t n, int most, scored *to)
{
    int have = 0;
    for (int64_t id = 0; id < n; id++) {
        if (have == most && !(z[id] > to[have - 1].z))
            continue;
        int at = have < most ? have++ : most - 1;
        for (; at > 0 && to[at - 1].z < z[id]; at--)
            to[at] = to[at - 1];
        to[at] = (scored){ (int32_t)id, z[id] };
    }
    return have;
}

/* log sum exp, by parts that fit a stack. */
static double log_sum(const kernels *k, const float *z, int64_t n)
{
    double max = -INFINITY, sum = 0;
    real part[512];
    for (int64_t i = 0; i < n; i++)
        max = (double)z[i] > max ? (double)z[i] : max;
    for (int64_t at = 0; at < n; at += 512) {
        const int64_t m = n - at < 512 ? n - at : 512;
        for (int64_t i = 0; i < m; i++)
            part[i] = (real)z[at + i];
        sum += (double)k->exp_less(part, m, (real)max);
    }
    return max + log(sum);
}

void write_best(const subject *s, document *d, const char *key, const float *z, int64_t n, int most)
{
    scored best[TOP];
    const int have = best_of(z, n, most, best);
    const double all = log_sum(s->model->kern, z, n);
    doc_list(d, key);
    for (int i = 0; i < have; i++) {
        doc_object(d, NULL);
        write_token(s, d, best[i].id);
        doc_real(d, "z", (double)best[i].z);
        doc_real(d, "p", exp((double)best[i].z - all));
        doc_end(d);
    }
    doc_end(d);
}

/* ---- output ---------------------------------------------------------------------------------- */

/* The last tensor as wide as the output, outside of blocks. */
const seen *output_of(const subject *s)
{
    for (int64_t i = s->seen->n; i-- > 0;) {
        const seen *t = &s->seen->at[i];
        if (t->layer < 0 && t->data && t->cols == s->model->n_out)
            return t;
    }
    return NULL;
}

/* The row that is looked at: an encoder of tokens has one for each, and a decoder draws from the
 * last. */
static int64_t output_row(const subject *s, const seen *t)
{
    const bool last = s->model->task == WEFT_TASK_GENERATE || t->rows != s->n_token;
    return last ? t->rows - 1 : s->at_token;
}

const char *no_output(const subject *s)
{
    const weft_task task = s->model->task;
    const bool all = task == WEFT_TASK_GENERATE || task == WEFT_TASK_FILL;
    return (all || (is_label(s) && s->model->n_out > 1)) && output_of(s)
               ? NULL
               : "The output is not probabilities of tokens or classes.";
}

static void write_candidate(const subject *s, document *d, const char *key, const weft_candidate *c)
{
    doc_object(d, key);
    write_token(s, d, c->id);
    doc_real(d, "score", c->score);
    doc_real(d, "p", c->p);
    doc_end(d);
}

static void write_stages(const subject *s, document *d)
{
    doc_list(d, "stages");
    for (int i = 0; i < s->n_stage; i++) {
        const subject_stage *g = &s->stage[i];
        doc_object(d, NULL);
        doc_text(d, "name", g->name);
        doc_int(d, "remain", g->n);
        if (g->u >= 0)
            doc_real(d, "u", g->u);
        doc_list(d, "best");
        for (int k = 0; k < g->n_best; k++)
            write_candidate(s, d, NULL, &g->best[k]);
        doc_end(d);
        if (g->drawn.id >= 0)
            write_candidate(s, d, "drawn", &g->drawn);
        doc_end(d);
    }
    doc_end(d);
}

/* Of every layer, what it would say if it were the last. */
static void write_lens(const subject *s, document *d)
{
    doc_list(d, "lens");
    for (int64_t l = 0; s->lens && l < s->model->n_layer; l++) {
        doc_object(d, NULL);
        doc_int(d, "layer", l);
        write_best(s, d, "best", s->lens + l * s->model->n_out, s->model->n_out, LENS_TOP);
        doc_end(d);
    }
    doc_end(d);
}

/* The row that the head reads, and the head's row of the most probable token. A tied head is the
 * table of embeddings. */
static void write_head(const subject *s, document *d, const seen *t, int64_t row)
{
    const seen *read, *made = product_behind(s->seen, t, &read);
    const seen *table = made ? record_find(s->seen, s->source ? "dec.token_embd" : "token_embd")
                             : NULL;
    scored best;
    if (!made || best_of(seen_row(t, row), t->cols, 1, &best) < 1)
        return;
    doc_bool(d, "tied", table && strcmp(table->input[0], made->input[1]) == 0);
    put_product(s, d, "head", made, NULL, (columns){ .first = best.id, .n = 1 });
    doc_real(d, "before", (double)seen_row(made, row)[best.id]); /* a cap or a scale */
}

void view_output(const subject *s, document *d)
{
    const seen *t = output_of(s);
    const int64_t row = output_row(s, t);
    doc_int(d, "row", row);
    doc_bool(d, "labels", is_label(s));
    doc_rows(d, "logits", t, row, 1);
    write_best(s, d, "best", seen_row(t, row), t->cols, TOP);
    write_head(s, d, t, row);
    if (s->n_stage > 0) {
        doc_real(d, "temperature", s->sampler.temperature);
        doc_int(d, "top_k", s->sampler.top_k);
        doc_real(d, "top_p", s->sampler.top_p);
        doc_int(d, "sampler_seed", (int64_t)s->sampler.seed);
        write_stages(s, d);
    }
    write_lens(s, d);
}

/* ---- beams ----------------------------------------------------------------------------------- */

const char *no_beams(const subject *s)
{
    return s->n_node > 0 ? NULL
           : s->model->task == WEFT_TASK_GENERATE
               ? "No search was made: the text fills the context, or a hook changes the model."
               : "An encoder generates no text.";
}

void view_beams(const subject *s, document *d)
{
    doc_list(d, "nodes");
    for (int64_t i = 0; i < s->n_node; i++) {
        const weft_beam_node *n = &s->node[i];
        doc_object(d, NULL);
        doc_int(d, "step", n->step);
        doc_int(d, "parent", n->parent);
        doc_int(d, "beam", n->beam);
        write_token(s, d, n->id);
        doc_real(d, "sum", n->sum);
        doc_real(d, "score", n->score);
        doc_bool(d, "ended", n->ended);
        doc_end(d);
    }
    doc_end(d);
}
