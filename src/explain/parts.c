/* parts.c - which tensor plays which part in a layer. What attention reads is found by its inputs,
 * because families make q, k and v in different ways; the rest has one name in all families. */
#include "explain/subject.h"

#include <string.h>

/* The last of several names that exists. */
static const seen *last_of(const record *s, int64_t layer, const char *const *names)
{
    const seen *found = NULL;
    for (; *names; names++) {
        const seen *t = record_in(s, layer, *names);
        found = t ? t : found;
    }
    return found;
}

/* What rope read, if it made this tensor. */
static const seen *before_rope(const record *s, const seen *t)
{
    return t && strcmp(t->op->name, "rope") == 0 ? record_find(s, t->input[0]) : NULL;
}

/* The first tensor that was made of this one. */
static const seen *after(const record *s, const seen *from)
{
    for (int64_t i = 0; i < s->n && from; i++)
        if (strcmp(s->at[i].input[0], from->name) == 0)
            return &s->at[i];
    return NULL;
}

/* Attention's inputs are q, k, v, in this order. Latents are keys, and their first columns are
 * values. */
static void find_attention(const record *s, int64_t layer, layer_parts *p)
{
    p->scores = record_in(s, layer, "attention.scores");
    p->probs = record_in(s, layer, "attention.probs");
    p->mixed = record_in(s, layer, "attention");
    if (!p->scores || p->scores->attention.n_head == 0)
        return;
    p->q = record_find(s, p->scores->input[0]);
    p->k = record_find(s, p->scores->input[1]);
    p->v = p->scores->n_input > 2 ? record_find(s, p->scores->input[2]) : p->k;
    p->q_before = before_rope(s, p->q);
    p->k_before = before_rope(s, p->k);
    p->pooled = last_of(s, layer, (const char *const[]){ "attention", "attention.latent", NULL });
    p->n_head = p->scores->attention.n_head;
    p->n_head_kv = p->scores->attention.n_head_kv;
    p->d_key = p->scores->attention.d_key;
    p->d_value = p->scores->attention.d_value;
}

/* Experts may have a shared one beside them, which is a feed forward with names of its own. */
static void find_feed_forward(const record *s, int64_t layer, layer_parts *p)
{
    p->moe = record_in(s, layer, "moe");
    p->shared = p->moe && record_in(s, layer, "ffn_up_shexp");
    p->up = record_in(s, layer, p->shared ? "ffn_up_shexp" : "ffn_up");
    p->gate = record_in(s, layer, p->shared ? "ffn_gate_shexp" : "ffn_gate");
    p->down = record_in(s, layer, p->shared ? "ffn_down_shexp" : "ffn_down");
    p->hidden = p->down ? record_find(s, p->down->input[0]) : NULL;
    p->act = p->gate ? after(s, p->gate) : p->hidden;
    const seen *first = p->moe ? p->moe : p->gate ? p->gate : p->up;
    p->ffn_norm = first ? record_find(s, first->input[0]) : NULL;
}

/* The first sum of a block follows attention, the last one the feed forward. */
static void find_sums(const record *s, int64_t layer, layer_parts *p)
{
    for (int64_t i = 0; i < s->n; i++) {
        const seen *t = &s->at[i];
        if (t->layer != layer || strcmp(t->op->name, "residual") != 0)
            continue;
        if (!p->attn_sum) {
            p->attn_sum = t;
            p->into = record_find(s, t->input[1]);
        }
        p->ffn_sum = t;
    }
}

layer_parts parts_find(const record *s, int64_t layer)
{
    static const char *const projections[] = { "attn_qkv", "attn_q", "attn_q_a", NULL };
    layer_parts p = { 0 };
    find_attention(s, layer, &p);
    find_feed_forward(s, layer, &p);
    const seen *first = last_of(s, layer, projections);
    p.norm = first ? record_find(s, first->input[0]) : NULL;
    p.attn_out = record_in(s, layer, "attn_output");
    find_sums(s, layer, &p);
    return p;
}

/* ---- weights --------------------------------------------------------------------------------- */

const tensor *weight_named(const model *m, const char *name)
{
    for (int64_t i = 0; i < m->n_param; i++)
        if (strcmp(m->param[i]->name, name) == 0)
            return m->param[i];
    return NULL;
}

void weight_row(const tensor *w, int64_t i, real *to)
{
    const size_t row_bytes = dtype_row_bytes(w->type, cols(w));
    w->type->decode(to, (const char *)w->data + (size_t)i * row_bytes, 0, cols(w));
}
