/* view_layers.c - what goes through all layers: the stream with its norms and sums, and the feed
 * forward. */
#include "explain/hand.h"
#include "explain/views.h"

#include <string.h>

/* ---- norm and residual ----------------------------------------------------------------------- */

const char *no_residual(const subject *s)
{
    return s->layer[s->at_layer].attn_sum
               ? NULL
               : "A recurrent layer replaces its state: nothing is added "
                 "to a stream, and nothing is normalised.";
}

/* A number of every row, from the record's: its mean, or the root of its mean square. */
static void put_rows(document *d, const char *key, const seen *t, bool root)
{
    float *x = mem_zalloc(d->b->mem, (size_t)t->rows, sizeof *x, "the page", d->b->err);
    for (int64_t i = 0; i < t->rows && x; i++)
        x[i] = (float)(root ? sqrt(t->mean_square[i]) : t->row_mean[i]);
    if (x)
        doc_floats(d, key, x, t->rows);
    d->b->failed = d->b->failed || !x;
    mem_free(d->b->mem, x);
}

/* Norms of the stream or of a branch; not those of queries, keys and latents, which may be as wide. */
static bool is_norm(const subject *s, const seen *t)
{
    return t->cols == s->model->d_model && t->rows == rows_of_layer(s, t->layer) &&
           !strstr(t->name, "attn_q") && !strstr(t->name, "attn_k") &&
           (strcmp(t->op->name, "rmsnorm") == 0 || strcmp(t->op->name, "layernorm") == 0);
}

static void put_norm(const subject *s, const seen *y, const seen *x, document *d)
{
    doc_object(d, NULL);
    doc_int(d, "layer", y->layer);
    doc_text(d, "name", y->name);
    doc_text(d, "of", x->name);
    doc_text(d, "op", y->op->name);
    doc_real(d, "eps", y->eps);
    put_rows(d, "mean_before", x, false);
    put_rows(d, "rms_before", x, true);
    put_rows(d, "mean_after", y, false);
    put_rows(d, "rms_after", y, true);
    if (y->data) {
        doc_tensor(d, "x", x);
        doc_tensor(d, "y", y);
        put_weight_rows(s, d, "gain", y->input[1], (columns){ .n = 1 });
        if (y->n_input > 2)
            put_weight_rows(s, d, "bias", y->input[2], (columns){ .n = 1 });
    }
    doc_end(d);
}

/* What a branch is, by the tensor that it adds. */
static const char *branch_name(const seen *h, bool first)
{
    return strstr(h->name, "_shexp")  ? "shared expert"
           : strstr(h->name, ".moe")  ? "experts"
           : strstr(h->name, "cross") ? "cross-attention"
           : first                    ? "attention"
                                      : "feed forward";
}

static void put_sum(const subject *s, const seen *y, bool first, document *d)
{
    const seen *h = record_find(s->seen, y->input[0]), *x = record_find(s->seen, y->input[1]);
    if (!h || !x)
        return;
    doc_object(d, NULL);
    doc_int(d, "layer", y->layer);
    doc_text(d, "name", y->name);
    doc_text(d, "branch", branch_name(h, first));
    doc_text(d, "adds", h->name);
    doc_text(d, "to", x->name);
    put_rows(d, "x", x, true);
    put_rows(d, "h", h, true);
    put_rows(d, "y", y, true);
    doc_end(d);
}

void view_residual(const subject *s, document *d)
{
    doc_list(d, "norms");
    for (int64_t i = 0; i < s->seen->n; i++) {
        const seen *t = &s->seen->at[i];
        const seen *x = is_norm(s, t) ? record_find(s->seen, t->input[0]) : NULL;
        if (x)
            put_norm(s, t, x, d);
    }
    doc_end(d);
    doc_list(d, "sums");
    for (int64_t i = 0; i < s->seen->n; i++) {
        const seen *t = &s->seen->at[i];
        if (t->layer >= 0 && strcmp(t->op->name, "residual") == 0)
            put_sum(s, t, t == s->layer[t->layer].attn_sum, d);
    }
    doc_end(d);
}

/* ---- feed forward ---------------------------------------------------------------------------- */

const char *no_feed_forward(const subject *s)
{
    for (int64_t l = 0; l < s->n_layer; l++)
        if (s->layer[l].up || s->layer[l].moe)
            return NULL;
    return "This model has no feed forward.";
}

/* |column k| of W_2 [D, F]: how much a neuron of this strength adds to the stream. */
static void put_column_lengths(const subject *s, const seen *down, document *d)
{
    const tensor *w = weight_named(s->model, down->input[1]);
    const int64_t F = w ? cols(w) : 0;
    mem *m = d->b->mem;
    real *x = mem_zalloc(m, (size_t)F + 1, sizeof *x, "the page", d->b->err);
    double *squares = mem_zalloc(m, (size_t)F + 1, sizeof *squares, "the page", d->b->err);
    float *length = mem_zalloc(m, (size_t)F + 1, sizeof *length, "the page", d->b->err);
    const bool good = x && squares && length;
    for (int64_t i = 0; good && w && i < rows(w); i++) {
        weight_row(w, i, x);
        for (int64_t k = 0; k < F; k++)
            squares[k] += (double)x[k] * (double)x[k];
    }
    for (int64_t k = 0; good && k < F; k++)
        length[k] = (float)sqrt(squares[k]);
    if (good && w)
        doc_floats(d, "column_length", length, F);
    d->b->failed = d->b->failed || !good;
    mem_free(m, x);
    mem_free(m, squares);
    mem_free(m, length);
}

static void put_experts(const subject *s, int64_t layer, document *d)
{
    static const char *const part[] = { "scores", "chosen", "shares", "gate", "up", "act", "out" };
    char name[32] = "moe.";
    doc_object(d, "experts");
    doc_int(d, "n_expert", s->model->n_expert);
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        strcpy(name + 4, part[i]);
        doc_tensor(d, part[i], record_in(s->seen, layer, name));
    }
    doc_tensor(d, "sum", s->layer[layer].moe);
    doc_end(d);
}

static void put_layer(const subject *s, int64_t layer, document *d)
{
    const layer_parts *p = &s->layer[layer];
    doc_object(d, NULL);
    doc_int(d, "layer", layer);
    doc_tensor(d, "input", p->ffn_norm);
    if (p->up && p->act && p->down) {
        doc_bool(d, "shared", p->shared);
        doc_text(d, "activation", p->act->op->name);
        doc_text(d, "formula", p->act->op->formula);
        doc_tensor(d, "up", p->up);
        doc_tensor(d, "gate", p->gate);
        doc_tensor(d, "act", p->act);
        doc_tensor(d, "hidden", p->hidden);
        doc_tensor(d, "down", p->down);
        put_column_lengths(s, p->down, d);
    }
    if (p->moe)
        put_experts(s, layer, d);
    doc_end(d);
}

/* Layers whose numbers were kept. */
void view_feed_forward(const subject *s, document *d)
{
    doc_list(d, "layers");
    for (int64_t l = 0; l < s->n_layer; l++) {
        const layer_parts *p = &s->layer[l];
        if ((p->down && p->down->data) || (p->moe && p->moe->data))
            put_layer(s, l, d);
    }
    doc_end(d);
}
