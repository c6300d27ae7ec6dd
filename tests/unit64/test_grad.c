/* The derivative of every op against central differences, at odd shapes, away from kinks; see
 * rig.h. */
#include "rig.h"

static const rig_size size = { { 4, 3 }, { 4, 3 }, .window = 2, .max_distance = 6 };

/* ---- the cases ------------------------------------------------------------------------------- */

static tensor *build_embed(rig *g)
{
    return embed(&g->run, leaf(g, 5, 3), EMBED_TOKEN);
}

/* Row 1 of each of two sequences is replaced by the vector, whose gradient comes from both. */
static tensor *build_put_row(rig *g)
{
    tensor *x = leaf(g, 7, 3);
    return put_row(&g->run, x, leaf(g, 1, 3), 1);
}

/* Inputs of a batch have no gradient, but the weight after them does. */
static tensor *build_features(rig *g)
{
    static real given[7 * 4];
    fill_normal(given, 7 * 4, 41, 0, 1);
    g->batch.features = given;
    const weight w = { "w", leaf(g, 3, 4), NULL };
    tensor *x = features(&g->run, 4);
    return linear(&g->run, x, &w);
}

static tensor *build_embed_from(rig *g)
{
    return embed_from(&g->run, leaf(g, 12, 3), EMBED_POSITION, 2);
}

static tensor *build_scale(rig *g)
{
    return scale(&g->run, leaf(g, 7, 5), (real)-1.7);
}

static tensor *build_softcap(rig *g)
{
    return softcap(&g->run, leaf(g, 7, 5), (real)0.9);
}

static tensor *build_rmsnorm(rig *g)
{
    tensor *x = leaf(g, 7, 15);
    return rmsnorm(&g->run, x, vector_leaf(g, 5), 1e-5); /* three groups a row */
}

static tensor *build_layernorm(rig *g)
{
    tensor *x = leaf(g, 7, 9);
    weight w = { "w", vector_leaf(g, 9), NULL };
    w.b = vector_leaf(g, 9);
    return layernorm(&g->run, x, &w, 1e-5);
}

static tensor *build_linear(rig *g)
{
    tensor *x = leaf(g, 7, 5);
    weight w = { "w", leaf(g, 11, 5), NULL };
    w.b = vector_leaf(g, 11);
    return linear(&g->run, x, &w);
}

/* Quantised weights have no gradient, but their inputs do. */
static tensor *build_frozen(rig *g)
{
    const weight w = { "w", frozen_q8_0(), NULL };
    return linear(&g->run, leaf(g, 7, 32), &w);
}

/* One weight used twice, like a tied embedding. */
static tensor *build_shared(rig *g)
{
    tensor *x = leaf(g, 7, 5);
    weight w = { "w", leaf(g, 5, 5), NULL };
    tensor *y = linear(&g->run, x, &w);
    y = linear(&g->run, y, &w);
    residual(&g->run, &y, x);
    return y;
}

/* Two heads of three values, with gaps between them, and unused rows of W. */
static tensor *build_linear_heads(rig *g)
{
    static const head_map map = { 2, 1, 4, 1, 6, 3, 5, false };
    tensor *x = leaf(g, 7, 9);
    return linear_heads(&g->run, x, leaf(g, 13, 3), &map, "y");
}

static tensor *build_heads_transposed(rig *g)
{
    static const head_map map = { 2, 1, 4, 1, 6, 3, 5, true };
    tensor *x = leaf(g, 7, 9);
    return linear_heads(&g->run, x, leaf(g, 10, 5), &map, "y");
}

/* Both read the same. */
static tensor *build_heads_shared(rig *g)
{
    static const head_map map = { 2, 0, 0, 0, 5, 4, 5, false };
    tensor *x = leaf(g, 7, 4);
    return linear_heads(&g->run, x, leaf(g, 10, 4), &map, "y");
}

static tensor *build_join_heads(rig *g)
{
    static const join_map map = { 2, 3, 1, 3, 2 };
    tensor *a = leaf(g, 7, 6);
    return join_heads(&g->run, a, leaf(g, 7, 7), &map, "y");
}

static tensor *build_join_shared(rig *g)
{
    static const join_map map = { 3, 2, 1, 0, 2 };
    tensor *a = leaf(g, 7, 6);
    return join_heads(&g->run, a, leaf(g, 7, 4), &map, "y");
}

static tensor *build_slice(rig *g)
{
    weight w = { "w", leaf(g, 9, 4), NULL };
    tensor *x = linear(&g->run, leaf(g, 7, 4), &w);
    tensor *y = slice(&g->run, x, "b", 2, 3);
    tensor *z = slice(&g->run, x, "c", 5, 3);
    y = act(&g->run, y, ACT_SILU);
    residual(&g->run, &y, z);
    return y;
}

static tensor *build_rope(rig *g)
{
    return rope(&g->run, leaf(g, 7, 20), g->rope);
}

static tensor *build_rope_behind(rig *g)
{
    return rope(&g->run, leaf(g, 7, 20), g->rope_behind);
}

static tensor *kernel_of(rig *g, kernel_kind kind, bool others)
{
    tensor *q = leaf(g, 7, 2), *k = leaf(g, 7, 2), *v = leaf(g, 7, 3);
    return kernel_pool(&g->run, q, k, v, leaf(g, 1, 1), kind, others);
}

static tensor *build_gaussian(rig *g)
{
    return kernel_of(g, KERNEL_GAUSSIAN, true);
}

static tensor *build_boxcar(rig *g)
{
    return kernel_of(g, KERNEL_BOXCAR, false);
}

static tensor *build_epanechnikov(rig *g)
{
    return kernel_of(g, KERNEL_EPANECHNIKOV, false);
}

static tensor *build_constant(rig *g)
{
    return kernel_of(g, KERNEL_CONSTANT, true);
}

/* Both read one source, whose gradients add up. */
static tensor *build_additive_shared(rig *g)
{
    sources_of(g);
    g->seq[0].source = g->seq[1].source = 1;
    tensor *q = leaf(g, 7, 4), *k = leaf(g, 7, 4), *v = leaf(g, 7, 5);
    return additive(&g->run, q, k, v, leaf(g, 1, 4));
}

static tensor *build_gru(rig *g)
{
    tensor *x = leaf(g, 7, 9);
    weight state = { "u", leaf(g, 9, 3), NULL };
    state.b = vector_leaf(g, 9);
    return gru(&g->run, x, &state);
}

static tensor *build_gru_attend(rig *g)
{
    sources_of(g);
    tensor *x = leaf(g, 7, 9), *memory = leaf(g, 7, 3), *keys = leaf(g, 7, 4);
    weight state = { "u", leaf(g, 9, 3), NULL };
    state.b = vector_leaf(g, 9);
    additive_attn look = { .query = { "q", leaf(g, 4, 3), NULL } };
    look.context = (weight){ "c", leaf(g, 9, 3), NULL };
    look.score = leaf(g, 1, 4);
    return gru_attend(&g->run, x, memory, keys, &state, &look, 0);
}

static tensor *build_residual(rig *g)
{
    tensor *x = leaf(g, 7, 4);
    residual(&g->run, &x, leaf(g, 7, 4));
    return x;
}

#define BUILD_ACT(name, kind)                                                                      \
    static tensor *build_##name(rig *g)                                                            \
    {                                                                                              \
        return act(&g->run, leaf(g, 7, 9), kind);                                                  \
    }

BUILD_ACT(relu, ACT_RELU)
BUILD_ACT(silu, ACT_SILU)
BUILD_ACT(gelu, ACT_GELU)
BUILD_ACT(gelu_tanh, ACT_GELU_TANH)
BUILD_ACT(tanh, ACT_TANH)

static tensor *build_glu(rig *g)
{
    tensor *x = leaf(g, 7, 5);
    weight gate = { "g", leaf(g, 6, 5), NULL }, up = { "u", leaf(g, 6, 5), NULL };
    gate.b = vector_leaf(g, 6);
    up.b = vector_leaf(g, 6);
    return glu(&g->run, x, &gate, &up, ACT_GELU_TANH);
}

static tensor *with_experts(rig *g, const routing *how, bool bias)
{
    static experts w;
    static tensor *part[6 * 6];
    tensor *x = leaf(g, 7, 5);
    w = (experts){ .router = leaf(g, how->n_expert, 5), .part = part };
    if (bias)
        w.bias = vector_leaf(g, how->n_expert);
    for (int64_t i = 0; i < 3 * how->n_expert; i++)
        part[i] = i < 2 * how->n_expert ? leaf(g, 3, 5) : leaf(g, 5, 3);
    const bool biased = how->act == EXPERT_LIMITED;
    if (biased)
        w.router_bias = vector_leaf(g, how->n_expert);
    w.biased = biased;
    for (int64_t i = 0; biased && i < 3 * how->n_expert; i++)
        part[3 * how->n_expert + i] = vector_leaf(g, i < 2 * how->n_expert ? 3 : 5);
    return moe(&g->run, x, &w, how, 0);
}

static tensor *build_moe(rig *g)
{
    static const routing how = { ROUTE_SOFTMAX, 4, 2, 1, 1, false, 1.7, 0, EXPERT_SILU };
    return with_experts(g, &how, false);
}

static tensor *build_moe_groups(rig *g)
{
    static const routing how = { ROUTE_SOFTMAX, 6, 3, 3, 2, true, 1, 0, EXPERT_SILU };
    return with_experts(g, &how, false);
}

static tensor *build_moe_sigmoid(rig *g)
{
    static const routing how = { ROUTE_SIGMOID, 6, 2, 3, 2, true, 2.5, 1e-20, EXPERT_SILU };
    return with_experts(g, &how, true);
}

static tensor *build_moe_limited(rig *g)
{
    static const routing how = { ROUTE_SOFTMAX, 3, 2, 1, 1, true, 1, 0, EXPERT_LIMITED };
    return with_experts(g, &how, false);
}

static tensor *build_take(rig *g)
{
    return take_rows(&g->run, leaf(g, 7, 4));
}

#define BUILD_POOL(name, kind)                                                                     \
    static tensor *build_pool_##name(rig *g)                                                       \
    {                                                                                              \
        return pool_rows(&g->run, leaf(g, 7, 4), kind);                                            \
    }

BUILD_POOL(mean, POOL_MEAN)
BUILD_POOL(max, POOL_MAX)
BUILD_POOL(first, POOL_FIRST)
BUILD_POOL(last, POOL_LAST)

static tensor *build_l2norm(rig *g)
{
    return l2norm(&g->run, leaf(g, 7, 5));
}

static tensor *build_softmax(rig *g)
{
    return softmax(&g->run, leaf(g, 7, 9));
}

static tensor *build_dropout(rig *g)
{
    g->run.key = 5;
    g->run.at.block = 3;
    g->run.at.n_drop = 0;
    return dropout(&g->run, leaf(g, 7, 9), 0.3);
}

static tensor *build_cross_entropy(rig *g)
{
    return cross_entropy(&g->run, leaf(g, g->batch.n_wanted, 6), 0.1);
}

static tensor *build_linear_cross_entropy(rig *g)
{
    tensor *x = leaf(g, g->batch.n_wanted, 4);
    weight w = { "w", leaf(g, 6, 4), NULL };
    w.b = vector_leaf(g, 6);
    return linear_cross_entropy(&g->run, x, &w, 0.1);
}

static tensor *build_capped_cross_entropy(rig *g)
{
    tensor *x = leaf(g, g->batch.n_wanted, 4);
    const weight w = { "w", leaf(g, 6, 4), NULL };
    return linear_cross_entropy_capped(&g->run, x, &w, 0.1, 1.3);
}

/* Its two sequences are a pair. */
static tensor *build_preferred(rig *g)
{
    static double reference[] = { -3.5, -6 }, logp[2], slope[2];
    static preference pair = { .beta = 0.7, .reference = reference, .logp = logp, .slope = slope };
    tensor *x = leaf(g, g->batch.n_wanted, 4);
    weight w = { "w", leaf(g, 6, 4), NULL };
    w.b = vector_leaf(g, 6);
    g->batch.prefer = &pair;
    return linear_cross_entropy(&g->run, x, &w, 0);
}

static const grad_case cases[] = {
    { "embed", "embed", build_embed },
    { "put_row", "put_row", build_put_row },
    { "features", "linear", build_features },
    { "embed", "embed, from a row on", build_embed_from },
    { "scale", "scale", build_scale },
    { "softcap", "softcap", build_softcap },
    { "rmsnorm", "rmsnorm by groups", build_rmsnorm },
    { "layernorm", "layernorm", build_layernorm },
    { "linear", "linear", build_linear },
    { "linear", "linear, weight shared", build_shared },
    { "linear", "linear, q8_0 weight", build_frozen },
    { "linear_heads", "linear_heads", build_linear_heads },
    { "linear_heads", "linear_heads, transposed", build_heads_transposed },
    { "linear_heads", "linear_heads, one input", build_heads_shared },
    { "join_heads", "join_heads", build_join_heads },
    { "join_heads", "join_heads, shared", build_join_shared },
    { "slice", "slice", build_slice },
    { "rope", "rope", build_rope },
    { "rope", "rope, after other columns", build_rope_behind },
    { "attention", "attention, grouped heads", build_attention },
    { "attention", "attention, window", build_window },
    { "attention", "attention, values in keys", build_in_keys },
    { "attention", "attention, both ways", build_full },
    { "attention", "attention, bias table", build_bias },
    { "attention", "attention, cross", build_cross },
    { "attention", "attention, capped scores", build_cap },
    { "attention", "attention, sinks and window", build_sink },
    { "kernel_pool", "kernel_pool, gaussian, others", build_gaussian },
    { "kernel_pool", "kernel_pool, boxcar", build_boxcar },
    { "kernel_pool", "kernel_pool, epanechnikov", build_epanechnikov },
    { "kernel_pool", "kernel_pool, constant, others", build_constant },
    { "additive", "additive", build_additive },
    { "additive", "additive, one source", build_additive_shared },
    { "gru", "gru", build_gru },
    { "gru_attend", "gru_attend", build_gru_attend },
    { "residual", "residual", build_residual },
    { "relu", "relu", build_relu },
    { "silu", "silu", build_silu },
    { "gelu", "gelu", build_gelu },
    { "gelu_tanh", "gelu_tanh", build_gelu_tanh },
    { "tanh", "tanh", build_tanh },
    { "glu", "glu", build_glu },
    { "moe", "moe", build_moe },
    { "moe", "moe, groups, normalised", build_moe_groups },
    { "moe", "moe, sigmoid, groups, bias", build_moe_sigmoid },
    { "moe", "moe, biases, limited activation", build_moe_limited },
    { "take_rows", "take_rows", build_take },
    { "pool_rows", "pool_rows, mean", build_pool_mean },
    { "pool_rows", "pool_rows, max", build_pool_max },
    { "pool_rows", "pool_rows, first", build_pool_first },
    { "pool_rows", "pool_rows, last", build_pool_last },
    { "l2norm", "l2norm", build_l2norm },
    { "softmax", "softmax", build_softmax },
    { "dropout", "dropout", build_dropout },
    { "cross_entropy", "cross_entropy, smoothed", build_cross_entropy },
    { "linear_cross_entropy", "linear_cross_entropy, smoothed", build_linear_cross_entropy },
    { "linear_cross_entropy", "linear_cross_entropy, capped", build_capped_cross_entropy },
    { "linear_cross_entropy", "linear_cross_entropy, pairs", build_preferred },
};
#define N_CASE (sizeof cases / sizeof *cases)

/* ---- the checks ------------------------------------------------------------------------------ */

static void every_derivative(void **state)
{
    (void)state;
    assert_true(check_cases(&size, cases, N_CASE));
}

static void threads_do_not_matter(void **state)
{
    (void)state;
    check_threads(&size, cases, N_CASE);
}

static void twice_is_double(void **state)
{
    (void)state;
    check_twice(&size, cases, N_CASE);
}

static void planted_sign(void **state)
{
    (void)state;
    int n = 0;
    assert_true(check_case(&size, build_linear, true, &n) > 0.1);
    assert_true(check_case(&size, build_attention, true, &n) > 0.1);
    assert_true(check_case(&size, build_rmsnorm, true, &n) > 0.1);
    assert_true(check_case(&size, build_gru_attend, true, &n) > 0.1);
    assert_true(check_case(&size, build_gaussian, true, &n) > 0.1);
}

/* No op is forgotten: all but those used only by traces have a backward and a case above. */
static void no_op_without_a_case(void **state)
{
    (void)state;
    for (int i = 0; all_ops[i]; i++) {
        bool found = false;
        for (size_t k = 0; k < N_CASE; k++)
            found = found || strcmp(cases[k].op, all_ops[i]->name) == 0;
        if (!all_ops[i]->backward)
            assert_non_null(strstr(
                " features scores probs additive_scores glu_join route_scores route_chosen "
                "route_shares expert_gate expert_up expert_act expert_out gru_gates gru_context ",
                all_ops[i]->name));
        else if (!found)
            fail_msg("%s has no gradient check", all_ops[i]->name);
    }
}

enum { LOSS_V = 150, LOSS_D = 4, LOSS_N = 16 + LOSS_V * LOSS_D + LOSS_V };

/* The loss, and the gradients of the inputs of the logits; logits at once or in parts. */
static real loss_and_gradients(rig *g, bool parts, real grads[LOSS_N])
{
    for (int i = 0; i < MAX_LEAF; i++)
        if (g->leaf[i])
            g->leaf[i]->grad_written = false;
    run_begin(&g->run, &g->batch);
    tape_begin(&g->run, &g->tape);
    g->n_leaf = 0;
    tensor *x = leaf(g, g->batch.n_wanted, LOSS_D);
    weight w = { .name = "w" };
    w.w = leaf(g, LOSS_V, LOSS_D);
    w.b = vector_leaf(g, LOSS_V);
    tensor *loss = parts ? linear_cross_entropy(&g->run, x, &w, 0.2)
                         : cross_entropy(&g->run, linear(&g->run, x, &w), 0.2);
    const real one = 1, found = *row(loss, 0);
    tape_backward(&g->run, loss, &one);
    memcpy(grads, g->leaf[0]->grad, sizeof(real[16]));
    memcpy(grads + 16, g->leaf[1]->grad, sizeof(real[LOSS_V * LOSS_D]));
    memcpy(grads + 16 + LOSS_V * LOSS_D, g->leaf[2]->grad, sizeof(real[LOSS_V]));
    return found;
}

/* A loss in parts of one row and of 64 tokens, the last strip narrower, has the value and the
 * gradients of the loss of all logits; if no row has a weight, both are 0. */
static void loss_in_parts_is_the_loss(void **state)
{
    (void)state;
    static real grads[2][LOSS_N];
    rig g;
    rig_init(&g, &size, 2);
    g.run.loss_numbers = 1;
    spread_targets(&g, LOSS_V);
    const real whole = loss_and_gradients(&g, false, grads[0]);
    assert_true(fabs(loss_and_gradients(&g, true, grads[1]) - whole) < 1e-14);
    assert_close("gradients", grads[1], grads[0], LOSS_N, 1e-13);
    for (int i = 0; i < g.batch.n_row; i++)
        g.batch.row[i].weight = 0;
    for (int parts = 0; parts < 2; parts++) {
        assert_true(loss_and_gradients(&g, parts, grads[parts]) == 0);
        for (int k = 0; k < LOSS_N; k++)
            assert_true(grads[parts][k] == 0);
    }
    rig_free(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("gradients: every op equals central differences", every_derivative),
        TEST("gradients: 1, 2 and 4 threads give the same bits for every op",
             threads_do_not_matter),
        TEST("gradients: a second backward adds to the first", twice_is_double),
        TEST("gradients: a planted wrong sign is found", planted_sign),
        TEST("gradients: every op has a case", no_op_without_a_case),
        TEST("cross_entropy: in parts it equals the loss of all logits", loss_in_parts_is_the_loss),
    };
    return RUN(tests);
}
