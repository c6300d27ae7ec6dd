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
 * values. Keys and values of a source were made when it was encoded, and are read from the cache. */
static void find_attention(const record *s, int64_t layer, layer_parts *p)
{
    const bool cross = p->stack == STACK_CROSS;
    p->scores = record_in(s, layer, cross ? "cross_attention.scores" : "attention.scores");
    if (!p->scores || p->scores->attention.n_head == 0) {
        p->scores = NULL; /* none by products */
        return;
    }
    p->probs = record_in(s, layer, cross ? "cross_attention.probs" : "attention.probs");
    p->mixed = record_in(s, layer, cross ? "cross_attention" : "attention");
    p->q = record_find(s, p->scores->input[0]);
    p->k = cross ? record_in(s, layer, "cross_attn_k") : record_find(s, p->scores->input[1]);
    p->v = cross                    ? record_in(s, layer, "cross_attn_v")
           : p->scores->n_input > 2 ? record_find(s, p->scores->input[2])
                                    : p->k;
    p->q_before = before_rope(s, p->q);
    p->k_before = before_rope(s, p->k);
    const seen *latent = record_in(s, layer, "attention.latent");
    p->pooled = latent ? latent : p->mixed;
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

static layer_parts place_of(const record *s, int64_t layer)
{
    const int64_t S = s->n_layer_src, both = S + s->n_layer;
    layer_parts p = { .number = layer, .block = layer };
    if (S == 0)
        return p;
    p.stack = layer < S ? STACK_ENCODER : layer < both ? STACK_DECODER : STACK_CROSS;
    p.number -= p.stack == STACK_ENCODER ? 0 : p.stack == STACK_DECODER ? S : both;
    p.block -= p.stack == STACK_CROSS ? s->n_layer : 0;
    return p;
}

int64_t parts_count(const model *m)
{
    return m->n_layer_src > 0 ? m->n_layer_src + 2 * m->n_layer : m->n_layer;
}

layer_parts parts_find(const record *s, int64_t layer)
{
    static const char *const own[] = { "attn_qkv", "attn_q", "attn_q_a", NULL };
    static const char *const cross[] = { "cross_attn_q", NULL };
    static const char *const out[] = { "attn_output", "attn_o", NULL };
    static const char *const cross_out[] = { "cross_attn_o", NULL };
    layer_parts p = place_of(s, layer);
    const bool source = p.stack == STACK_CROSS;
    find_attention(s, p.block, &p);
    const seen *first = last_of(s, p.block, source ? cross : own);
    p.norm = first ? record_find(s, first->input[0]) : NULL;
    p.attn_out = last_of(s, p.block, source ? cross_out : out);
    if (!source)
        find_feed_forward(s, p.block, &p);
    if (!source)
        find_sums(s, p.block, &p);
    return p;
}

int64_t rows_of_layer(const subject *s, int64_t layer)
{
    return s->source && layer < s->model->n_layer_src ? s->source->n_token : s->n_token;
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
