/* bind_experts.c - the experts of a layer: a router, and three matrices each.
 *
 * GGUF stores the gates of all experts as one tensor [n, F, D], likewise ups and downs; a directory
 * has a tensor for each expert. */
#include "models/bind.h"

void bind_experts(bind *b, const routing *how, experts *w, int64_t F)
{
    static const char *const stems[] = { "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps" };
    const int64_t D = b->m->d_model, n = how->n_expert;
    w->router = bind_matrix(b, "ffn_gate_inp", n, D);
    w->bias = how->kind == ROUTE_SIGMOID ? bind_vector(b, "exp_probs_b", n) : NULL;
    if (b->m->expert_bias)
        b->m->expert_bias[b->layer] = w->bias;
    w->part = bind_alloc(b, 3 * n, sizeof *w->part);
    for (int64_t i = 0; w->part && i < 3 * n; i++)
        w->part[i] = bind_part(b, stems[i / n], i % n, n, i < 2 * n ? F : D, i < 2 * n ? D : F);
}
