/* view_pair.c - an encoder and a decoder beside each other: the three maps and the decoder's steps;
 * and the alignment of Bahdanau's decoder, whose state asks before every step. */
#include "explain/hand.h"
#include "explain/views.h"

#define STEP_TOP 8 /* tokens that may come next, of each step */

/* ---- encoder and decoder --------------------------------------------------------------------- */

const char *no_pair(const subject *s)
{
    return s->source ? NULL : "This model has one stack of layers.";
}

/* What may follow each token of the decoder. */
static void write_next(const subject *s, document *d)
{
    const seen *z = output_of(s);
    doc_list(d, "steps");
    for (int64_t i = 0; z && i < z->rows; i++) {
        doc_object(d, NULL);
        write_best(s, d, "best", seen_row(z, i), z->cols, STEP_TOP);
        doc_end(d);
    }
    doc_end(d);
}

/* Layers of both stacks, and the map of each. */
void view_pair(const subject *s, document *d)
{
    const seen *last = record_in(s->seen, s->model->n_layer_src - 1, "ffn_down");
    doc_int(d, "n_layer_src", s->model->n_layer_src);
    doc_int(d, "n_layer", s->model->n_layer);
    doc_bool(d, "feed_forward", last != NULL);
    doc_list(d, "maps");
    for (int64_t l = 0; l < s->n_layer; l++) {
        const layer_parts *p = &s->layer[l];
        if (!p->probs || !p->probs->data)
            continue;
        doc_object(d, NULL);
        doc_int(d, "layer", l);
        doc_int(d, "n_head", p->n_head);
        doc_tensor(d, "probs", p->probs);
        doc_end(d);
    }
    doc_end(d);
    write_next(s, d);
}

/* ---- alignment ------------------------------------------------------------------------------- */

/* Of Bahdanau's model there is one layer in each stack. */
static const seen *in_decoder(const subject *s, const char *rest)
{
    return record_in(s->seen, s->model->n_layer_src, rest);
}

const char *no_alignment(const subject *s)
{
    return in_decoder(s, "gru.context")
               ? NULL
               : "Attention here is by products; only Bahdanau's is additive and has a state.";
}

static void put_all_rows(const subject *s, document *d, const char *key, const char *name)
{
    const tensor *w = weight_named(s->model, name);
    if (w)
        put_weight_rows(s, d, key, name, (columns){ .step = 1, .n = rows(w) });
}

void view_alignment(const subject *s, document *d)
{
    static const char *const names[][2] = { { "states", "gru_attend" },
                                            { "gates", "gru.gates" },
                                            { "context", "gru.context" },
                                            { "keys", "attn_k" },
                                            { "scores", "cross_attention.scores" },
                                            { "probs", "cross_attention.probs" } };
    doc_tensor(d, "memory", record_in(s->seen, 0, "gru"));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        doc_tensor(d, names[i][0], in_decoder(s, names[i][1]));
    put_all_rows(s, d, "query", "dec.blk.0.attn_q.weight");
    put_all_rows(s, d, "score", "dec.blk.0.attn_score.weight");
}
