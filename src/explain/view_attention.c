/* view_attention.c - attention: one query step by step, all heads, who sees whom, why scores are
 * scaled, heads that share keys, latents, and the sum in blocks. */
#include "explain/hand.h"
#include "explain/views.h"
#include "ops/attention_tile.h"

#include <string.h>

/* The first column of each head of q, and the first of W_O's output. What q is read from may be a
 * slice of a product with q, k and v, which begins with q. */
static void write_products(const subject *s, const layer_parts *p, document *d)
{
    const seen *read = NULL, *q = product_behind(s->seen, p->q, &read);
    if (q && read->cols % p->n_head == 0) {
        const columns heads = { .step = read->cols / p->n_head, .n = p->n_head };
        put_product(s, d, "project", q, strcmp(read->op->name, "slice") == 0 ? read : q, heads);
    }
    put_product(s, d, "output", p->attn_out, p->attn_out, (columns){ .n = 1 });
}

/* What attention reads and makes, of every layer whose numbers were kept. */
static void write_layers(const subject *s, document *d, bool by_hand)
{
    doc_list(d, "layers");
    for (int64_t l = 0; l < s->n_layer; l++) {
        const layer_parts *p = &s->layer[l];
        if (!p->scores || !p->scores->data)
            continue;
        const attn *a = &p->scores->attention;
        doc_object(d, NULL);
        doc_int(d, "layer", l);
        doc_int(d, "n_head", p->n_head);
        doc_int(d, "n_head_kv", p->n_head_kv);
        doc_int(d, "d_key", p->d_key);
        doc_int(d, "d_value", p->d_value);
        doc_real(d, "scale", (double)a->scale);
        doc_real(d, "cap", (double)a->cap);
        doc_bool(d, "causal", a->kind == ATTN_CAUSAL);
        doc_int(d, "window", a->window);
        doc_bool(d, "sink", a->sink != NULL);
        doc_bool(d, "biased", a->bias.table != NULL);
        doc_tensor(d, "q", p->q);
        doc_tensor(d, "k", p->k);
        doc_tensor(d, "v", p->v);
        doc_tensor(d, "scores", p->scores);
        doc_tensor(d, "probs", p->probs);
        doc_tensor(d, "pooled", p->pooled);
        doc_tensor(d, "mixed", p->mixed);
        doc_tensor(d, "out", p->attn_out);
        if (by_hand)
            write_products(s, p, d);
        doc_end(d);
    }
    doc_end(d);
}

void view_hand(const subject *s, document *d)
{
    write_layers(s, d, true);
}

void view_root(const subject *s, document *d)
{
    write_layers(s, d, false);
}

void view_flash(const subject *s, document *d)
{
    write_layers(s, d, false);
    doc_int(d, "block", KEY_BLOCK);
}

void view_heads(const subject *s, document *d)
{
    doc_list(d, "layers");
    for (int64_t l = 0; l < s->n_layer; l++) {
        const layer_parts *p = &s->layer[l];
        doc_object(d, NULL);
        doc_int(d, "layer", l);
        doc_int(d, "n_head", p->n_head);
        doc_int(d, "n_head_kv", p->n_head_kv);
        doc_int(d, "d_key", p->d_key);
        doc_tensor(d, "probs", p->probs);
        doc_tensor(d, "scores", p->scores);
        doc_tensor(d, "q", p->q);
        doc_tensor(d, "k", p->k);
        doc_end(d);
    }
    doc_end(d);
}

/* Windows of all layers, which may differ. */
void view_mask(const subject *s, document *d)
{
    write_layers(s, d, false);
    doc_list(d, "windows");
    for (int64_t l = 0; l < s->n_layer; l++) {
        const seen *scores = s->layer[l].scores;
        doc_int(d, NULL, scores ? scores->attention.window : 0);
    }
    doc_end(d);
}

/* ---- heads that share keys ------------------------------------------------------------------- */

int64_t cached_numbers(const model *m)
{
    int64_t n = 0;
    for (int i = 0; i < m->n_stream; i++)
        n += m->stream[i].width;
    return n * m->n_layer;
}

void view_shared(const subject *s, document *d)
{
    const layer_parts *p = &s->layer[s->at_layer];
    doc_int(d, "n_head", p->n_head);
    doc_int(d, "n_head_kv", p->n_head_kv);
    const seen *v = no_latent(s) ? NULL : record_in(s->seen, s->at_layer, "attn_v");
    doc_int(d, "d_head", s->model->d_head);
    doc_int(d, "d_value", v ? v->cols / p->n_head : s->model->d_head);
    doc_bool(d, "latent", !no_latent(s));
    doc_int(d, "cached", cached_numbers(s->model));
}

/* ---- latents --------------------------------------------------------------------------------- */

const char *no_latent(const subject *s)
{
    return record_in(s->seen, s->at_layer, "latent.join")
               ? NULL
               : "Keys and values are cached as they are; only DeepSeek's models have latents.";
}

void view_latent(const subject *s, document *d)
{
    static const char *const names[] = { "attn_kv_a_norm", "k_rope.rope",     "attn_k",
                                         "attn_v",         "attn_k.join",     "attn_q.latent",
                                         "attn_q.join",    "latent.join",     "attention.latent",
                                         "attention",      "attention.scores" };
    doc_list(d, "layers");
    for (int64_t l = 0; l < s->n_layer; l++) {
        const seen *q = record_in(s->seen, l, "attn_q_b.rope");
        const layer_parts *p = &s->layer[l];
        if (!p->scores || !p->scores->data)
            continue;
        doc_object(d, NULL);
        doc_int(d, "layer", l);
        doc_int(d, "n_head", p->n_head);
        doc_real(d, "scale", (double)p->scores->attention.scale);
        doc_int(d, "n_rot", s->model->rope.n_rot);
        doc_tensor(d, "q", q ? q : record_in(s->seen, l, "attn_q.rope"));
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            doc_tensor(d, names[i], record_in(s->seen, l, names[i]));
        doc_end(d);
    }
    doc_end(d);
    doc_int(d, "cached", cached_numbers(s->model));
}

/* ---- the cache ------------------------------------------------------------------------------- */

const char *no_cache(const subject *s)
{
    if (!no_alignment(s))
        return "A recurrent decoder needs its last state, and the states and keys of the source.";
    return s->model->n_stream > 0 ? NULL
                                  : "An encoder sees the whole text at once and needs no cache.";
}

/* The rows that a layer appends, of every layer whose numbers were kept. Latents are keys and
 * values in one. */
static void write_cached_rows(const subject *s, document *d)
{
    doc_list(d, "layers");
    for (int64_t l = 0; l < s->n_layer; l++) {
        const layer_parts *p = &s->layer[l];
        if (!p->k || !p->k->data || p->stack == STACK_ENCODER || p->stack == STACK_CROSS)
            continue;
        doc_object(d, NULL);
        doc_int(d, "layer", l);
        doc_int(d, "n_head", p->n_head);
        doc_int(d, "n_head_kv", p->n_head_kv);
        doc_int(d, "window", p->scores->attention.window);
        doc_tensor(d, "k", p->k);
        if (p->v != p->k)
            doc_tensor(d, "v", p->v);
        doc_end(d);
    }
    doc_end(d);
}

void view_cache(const subject *s, document *d)
{
    const model *m = s->model;
    doc_list(d, "streams");
    for (int i = 0; i < m->n_stream; i++) {
        doc_object(d, NULL);
        doc_text(d, "name", m->stream[i].name);
        doc_int(d, "width", m->stream[i].width);
        doc_end(d);
    }
    doc_end(d);
    doc_int(d, "cached", cached_numbers(m));
    write_cached_rows(s, d);
    doc_list(d, "times");
    if (s->timed.t > 0) {
        doc_object(d, NULL);
        doc_int(d, "t", s->timed.t);
        doc_real(d, "with", s->timed.with);
        doc_real(d, "without", s->timed.without);
        doc_end(d);
    }
    doc_end(d);
}
