/* view_model.c - the model as a whole: its ops in their order, and what they cost. */
#include "explain/views.h"

#include <string.h>

/* Parameters of the weights that an op reads. */
static int64_t n_parameter(const subject *s, const seen *t)
{
    int64_t n = 0;
    for (int i = 0; i < t->n_input; i++)
        for (int64_t k = 0; k < s->model->n_param; k++) {
            const tensor *w = s->model->param[k];
            if (strcmp(w->name, t->input[i]) != 0)
                continue;
            int64_t one = 1;
            for (int dim = 0; dim < w->n_dim; dim++)
                one *= w->shape[dim];
            n += one;
        }
    return n;
}

/* Every op in the order of computation. */
void view_pipeline(const subject *s, document *d)
{
    doc_list(d, "ops");
    for (int64_t i = 0; i < s->seen->n; i++) {
        const seen *t = &s->seen->at[i];
        doc_object(d, NULL);
        doc_text(d, "name", t->name);
        doc_text(d, "op", t->op->name);
        doc_text(d, "formula", t->op->formula);
        doc_int(d, "layer", t->layer);
        doc_int(d, "rows", t->rows);
        doc_int(d, "cols", t->cols);
        doc_real(d, "flops", t->flops);
        doc_int(d, "parameters", n_parameter(s, t));
        doc_real(d, "mean", t->mean);
        doc_real(d, "min", t->min);
        doc_real(d, "max", t->max);
        doc_list(d, "inputs");
        for (int k = 0; k < t->n_input; k++)
            doc_text(d, NULL, t->input[k]);
        doc_end(d);
        doc_tensor(d, "tensor", t);
        doc_end(d);
    }
    doc_end(d);
}

/* ---- cost ------------------------------------------------------------------------------------ */

static void write_part(document *d, const char *name, const weft_part *p)
{
    doc_object(d, name);
    doc_int(d, "parameters", p->n_parameter);
    doc_int(d, "bytes", (int64_t)p->bytes);
    doc_real(d, "flops", p->flops);
    doc_end(d);
}

/* FLOPs are those of the last token. d_key 0: attention is not by products. */
void view_cost(const subject *s, document *d)
{
    const weft_model_cost *c = &s->cost;
    const layer_parts *p = &s->layer[s->at_layer];
    doc_object(d, "parts");
    write_part(d, "embedding", &c->embedding);
    write_part(d, "attention", &c->attention);
    write_part(d, "feed_forward", &c->feed_forward);
    write_part(d, "head", &c->head);
    doc_end(d);
    double all = 0;
    for (int64_t i = 0; i < s->seen->n; i++)
        all += s->seen->at[i].flops;
    doc_real(d, "forward_flops", all);
    doc_int(d, "n_token", s->n_token);
    doc_bool(d, "gated", p->gate != NULL);
    doc_int(d, "cached", cached_numbers(s->model));
    doc_int(d, "d_key", p->scores ? p->d_key : 0);
    doc_int(d, "d_value", p->scores ? p->d_value : 0);
}
