/* bind_experts.c - the experts of a layer: a router, and three matrices each.
 *
 * GGUF stores the gates of all experts as one tensor [n, F, D], likewise ups and downs; a directory
 * has a tensor for each expert. In gpt-oss it has one tensor for all gates and ups, [n, D, 2 F],
 * whose columns are a gate's and an up's in turn, and one for all downs, [n, F, D]. */
#include "models/bind.h"

static const char *const stems[] = { "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps" };

/* Matrix i of the 3 n: gates, then ups, then downs. */
static tensor *bind_part(bind *b, int64_t i, int64_t n, int64_t F, bool bias)
{
    const int64_t D = b->m->d_model, kind = i / n, ways = kind < 2 ? 2 : 1;
    const int64_t O = kind < 2 ? F : D, I = kind < 2 ? D : F;
    want w = { .stem = stems[kind], .n_dim = 2, .shape = { O, I }, .stack = n, .part = i % n + 1 };
    if (b->m->arch->woven_experts) {
        w.ways = ways;
        w.way = kind < 2 ? kind : 0;
        w.hf_dim = bias ? 2 : 3;
        w.hf_shape[0] = n;
        w.hf_shape[1] = bias ? ways * O : I;
        w.hf_shape[2] = bias ? 0 : ways * O;
    }
    if (bias) {
        w.suffix = ".bias";
        w.n_dim = 1;
        w.shape[1] = 0;
        w.as_real = true;
    }
    tensor *t = bind_tensor(b, &w);
    if (t)
        t->multiplied = !bias;
    return t;
}

void bind_experts(bind *b, const routing *how, experts *w, int64_t F)
{
    const int64_t n = how->n_expert;
    w->biased = b->m->arch->woven_experts;
    const weight router = bind_linear(b, "ffn_gate_inp", n, b->m->d_model,
                                      w->biased ? WITH_BIAS : NO_BIAS);
    w->router = router.w;
    w->router_bias = router.b;
    w->bias = how->kind == ROUTE_SIGMOID ? bind_vector(b, "exp_probs_b", n) : NULL;
    if (b->m->expert_bias)
        b->m->expert_bias[b->layer] = w->bias;
    const int64_t n_part = (w->biased ? 6 : 3) * n;
    w->part = bind_alloc(b, n_part, sizeof *w->part);
    for (int64_t i = 0; w->part && i < n_part; i++)
        w->part[i] = bind_part(b, i % (3 * n), n, F, i >= 3 * n);
}
