/* view_attention.c - attention: one query step by step, and all heads of all layers. */
#include "explain/views.h"

/* ---- one query by hand ----------------------------------------------------------------------- */

void view_hand(const subject *s, document *d)
{
    doc_list(d, "layers");
    for (int64_t l = 0; l < s->model->n_layer; l++) {
        const layer_parts *p = &s->layer[l];
        if (!p->scores || !p->scores->data)
            continue;
        doc_object(d, NULL);
        doc_int(d, "layer", l);
        doc_int(d, "n_head", p->n_head);
        doc_int(d, "n_head_kv", p->n_head_kv);
        doc_int(d, "d_key", p->d_key);
        doc_int(d, "d_value", p->d_value);
        doc_real(d, "scale", (double)p->scores->attention.scale);
        doc_tensor(d, "q", p->q);
        doc_tensor(d, "k", p->k);
        doc_tensor(d, "v", p->v);
        doc_tensor(d, "scores", p->scores);
        doc_tensor(d, "probs", p->probs);
        doc_tensor(d, "mixed", p->mixed);
        doc_tensor(d, "out", p->attn_out);
        doc_end(d);
    }
    doc_end(d);
}

/* ---- heads ----------------------------------------------------------------------------------- */

void view_heads(const subject *s, document *d)
{
    doc_list(d, "layers");
    for (int64_t l = 0; l < s->model->n_layer; l++) {
        const layer_parts *p = &s->layer[l];
        doc_object(d, NULL);
        doc_int(d, "layer", l);
        doc_int(d, "n_head", p->n_head);
        doc_tensor(d, "probs", p->probs);
        doc_end(d);
    }
    doc_end(d);
}
