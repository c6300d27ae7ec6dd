/* view_lesson.c - a step of training: what rows predict, how the loss comes back, and what the
 * optimiser does. */
#include "explain/views.h"

#include <stdlib.h>
#include <string.h>

const char *no_lesson(const subject *s)
{
    return s->lesson ? NULL
           : lesson_fits(s->model)
               ? "Nothing was trained for this page; --train takes three steps with this text."
               : "Training is shown for decoders and masked language models; weft train trains "
                 "others too.";
}

static void put_token(const subject *s, document *d, const char *key, int32_t id)
{
    char bytes[64];
    doc_bytes(d, key, bytes, s->spell(s->speller, id, bytes, sizeof bytes));
}

/* ---- the objective --------------------------------------------------------------------------- */

static void put_lesson_row(const subject *s, const lesson_row *row, document *d)
{
    doc_object(d, NULL);
    doc_int(d, "id", row->id);
    put_token(s, d, "text", row->id);
    if (row->given != row->id)
        put_token(s, d, "given", row->given);
    doc_int(d, "target", row->target);
    if (row->target != NO_TARGET) {
        put_token(s, d, "target_text", row->target);
        doc_real(d, "loss", (double)row->loss);
    }
    doc_end(d);
}

void view_objective(const subject *s, document *d)
{
    static const char *const kind[] = { "next", "masked", "spans" };
    const lesson *o = s->lesson;
    doc_text(d, "kind", kind[o->kind]);
    doc_bool(d, "continued", o->continued);
    doc_int(d, "mask", o->mask);
    doc_int(d, "n_target", o->n_target);
    doc_real(d, "loss", o->step[0].loss);
    doc_real(d, "loss_after", o->loss_after);
    doc_int(d, "n_step", o->n_step);
    doc_int(d, "n_out", s->model->n_out);
    doc_list(d, "source");
    for (int64_t i = 0; i < o->n_source; i++)
        put_token(s, d, NULL, o->source[i]);
    doc_end(d);
    doc_list(d, "rows");
    for (int64_t i = 0; i < o->n_row; i++)
        put_lesson_row(s, &o->row[i], d);
    doc_end(d);
}

/* ---- the backward pass ----------------------------------------------------------------------- */

#define MOST_SLOPES 12 /* tokens of a row, those with the largest */

/* The row of the k-th target. */
static int64_t row_of(const lesson *o, int64_t k)
{
    int64_t i = 0;
    while (o->row[i].target == NO_TARGET || k-- > 0)
        i++;
    return i;
}

/* The logit with the largest slope below the last one found, which is `last`; -1: none. */
static int64_t next_largest(const float *z, int64_t n, int64_t last)
{
    int64_t best = -1;
    for (int64_t k = 0; k < n; k++) {
        const bool after = last < 0 || fabsf(z[k]) < fabsf(z[last]) ||
                           (fabsf(z[k]) == fabsf(z[last]) && k > last);
        if (after && (best < 0 || fabsf(z[k]) > fabsf(z[best])))
            best = k;
    }
    return best;
}

static void put_slopes(const subject *s, int64_t i, document *d)
{
    const lesson *o = s->lesson;
    const float *z = o->slope + i * o->n_out;
    const int64_t row = row_of(o, o->slope_row[i]);
    doc_object(d, NULL);
    doc_int(d, "row", row);
    doc_int(d, "target", o->row[row].target);
    doc_real(d, "loss", (double)o->row[row].loss);
    doc_floats(d, "slope", z, o->n_out);
    doc_list(d, "largest");
    for (int64_t n = 0, k = next_largest(z, o->n_out, -1); n < MOST_SLOPES && k >= 0; n++) {
        doc_object(d, NULL);
        doc_int(d, "id", k);
        put_token(s, d, "text", (int32_t)k);
        doc_end(d);
        k = next_largest(z, o->n_out, k);
    }
    doc_end(d);
    doc_end(d);
}

/* sqrt of the sum of squares over all rows. */
static double norm_of(const seen *t)
{
    double squares = 0;
    for (int64_t i = 0; i < t->rows; i++)
        squares += t->mean_square[i] * (double)t->cols;
    return sqrt(squares);
}

/* Gradients of outputs, in the order in which they were complete: from the loss back. */
static void put_gradients(const lesson *o, document *d)
{
    doc_list(d, "gradients");
    for (int64_t i = 0; i < o->back.n; i++) {
        const seen *t = &o->back.at[i];
        doc_object(d, NULL);
        doc_text(d, "name", t->name);
        doc_text(d, "op", t->op->name);
        doc_int(d, "layer", t->layer);
        doc_int(d, "rows", t->rows);
        doc_int(d, "cols", t->cols);
        doc_real(d, "norm", norm_of(t));
        doc_end(d);
    }
    doc_end(d);
}

static void put_attention(const lesson *o, int64_t layer, document *d)
{
    static const char *const part[] = { "q", "k", "v", "dq", "dk", "dv", "p", "dp", "ds" };
    const seen *map = record_in(&o->inside, layer, "attention.ds");
    const seen *out = record_in(&o->back, layer, "attention");
    if (!map || !map->data || !out)
        return;
    const attn *a = &map->attention;
    doc_object(d, NULL);
    doc_int(d, "layer", layer);
    doc_int(d, "n_head", a->n_head);
    doc_int(d, "n_head_kv", a->n_head_kv);
    doc_int(d, "d_key", a->d_key);
    doc_int(d, "d_value", a->d_value);
    doc_real(d, "scale", (double)a->scale);
    doc_real(d, "cap", (double)a->cap);
    doc_bool(d, "causal", a->kind == ATTN_CAUSAL);
    doc_rows(d, "dy", out, 0, out->rows);
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        char name[32] = "attention.";
        strcat(name, part[i]);
        const seen *t = record_in(&o->inside, layer, name);
        if (t && t->data)
            doc_rows(d, part[i], t, 0, t->rows);
    }
    doc_end(d);
}

static void put_shape(const lesson_weight *w, document *d)
{
    doc_text(d, "name", w->name);
    doc_list(d, "shape");
    for (int i = 0; i < w->n_dim; i++)
        doc_int(d, NULL, w->shape[i]);
    doc_end(d);
}

void view_backward(const subject *s, document *d)
{
    const lesson *o = s->lesson;
    doc_real(d, "scale", o->scale);
    doc_real(d, "norm", o->step[0].norm);
    doc_bool(d, "as_tape", o->as_tape);
    doc_list(d, "slopes");
    for (int64_t i = 0; i < o->n_slope; i++)
        put_slopes(s, i, d);
    doc_end(d);
    put_gradients(o, d);
    doc_list(d, "weights");
    for (int64_t i = 0; i < o->n_weight; i++) {
        doc_object(d, NULL);
        put_shape(&o->weight[i], d);
        doc_real(d, "norm", o->weight[i].norm);
        doc_end(d);
    }
    doc_end(d);
    doc_list(d, "layers");
    for (int64_t l = 0; l < s->model->n_layer; l++)
        put_attention(o, l, d);
    doc_end(d);
}

/* ---- the update ------------------------------------------------------------------------------ */

static void put_number(const lesson_weight *w, int n_step, document *d)
{
    doc_object(d, NULL);
    put_shape(w, d);
    doc_int(d, "at", w->at);
    doc_bool(d, "decays", w->decays);
    doc_real(d, "weight", (double)w->weight);
    doc_list(d, "steps");
    for (int i = 0; i < n_step; i++) {
        const lesson_number *x = &w->step[i];
        doc_object(d, NULL);
        doc_real(d, "grad", (double)x->grad);
        doc_real(d, "m", (double)x->m);
        doc_real(d, "v", (double)x->v);
        doc_real(d, "weight", (double)x->weight);
        doc_end(d);
    }
    doc_end(d);
    doc_end(d);
}

static void put_settings(const lesson *o, document *d)
{
    const struct {
        const char *name;
        double value;
    } setting[] = {
        { "beta1", o->beta1 },
        { "beta2", o->beta2 },
        { "eps", o->eps },
        { "decay", o->decay },
        { "largest_norm", o->clip },
        { "peak", o->lr },
        { "lowest", o->lr_min },
        { "warm_up", (double)o->n_warmup },
        { "schedule", (double)o->n_schedule },
    };
    for (size_t i = 0; i < sizeof setting / sizeof *setting; i++)
        doc_real(d, setting[i].name, setting[i].value);
    doc_list(d, "rate_steps");
    for (int i = 0; i < LESSON_RATES; i++)
        doc_int(d, NULL, o->rate_step[i]);
    doc_end(d);
    doc_reals(d, "rates", o->rate, LESSON_RATES);
}

void view_update(const subject *s, document *d)
{
    const lesson *o = s->lesson;
    put_settings(o, d);
    doc_list(d, "steps");
    for (int i = 0; i < o->n_step; i++) {
        doc_object(d, NULL);
        doc_real(d, "loss", o->step[i].loss);
        doc_real(d, "norm", o->step[i].norm);
        doc_real(d, "clip", o->step[i].clip);
        doc_real(d, "lr", o->step[i].lr);
        doc_end(d);
    }
    doc_end(d);
    doc_real(d, "loss_after", o->loss_after);
    doc_list(d, "weights");
    for (int64_t i = 0; i < o->n_weight; i++)
        put_number(&o->weight[i], o->n_step, d);
    doc_end(d);
}
