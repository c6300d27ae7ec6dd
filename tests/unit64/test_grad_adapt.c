/* The derivatives of adapters against central differences: those of A, B, m, and of what they read,
 * in every op that multiplies with a weight or takes rows from one; see rig.h. */
#include "rig.h"

static const rig_size size = { { 4, 3 }, { 4, 3 }, 0, 0, 0 };

enum { N_SLOT = 4, RANK = 2, V = 150, D = 4 };

static const lora *matrix[N_SLOT], *table[N_SLOT];
static lora item[N_SLOT];
static lora_set set = { .matrix = matrix, .table = table, .rank = RANK, .serial = 1 };

/* A weight whose own numbers are frozen, or not. */
static tensor *numbered(tensor *w, int slot, bool learns)
{
    w->slot = slot;
    w->needs_grad = learns;
    return w;
}

/* An adapter [O, I] for the weight of a slot; of both sequences. */
static void adapt_slot(rig *g, int slot, int64_t n_out, int64_t n_in, bool is_table)
{
    tensor *a = leaf(g, RANK, n_in), *b = leaf(g, n_out, RANK);
    item[slot] = (lora){ .a = a, .b = b, .scale = (real)1.5 };
    (is_table ? table : matrix)[slot] = &item[slot];
    g->batch.rank = g->src.rank = RANK;
    for (int s = 0; s < 2; s++)
        g->seq[s].adapted = (adaption){ &set, 1 };
}

/* Gains m / norm of the slot's outputs. A norm is a constant: it does not move with A and B. */
static void scale_slot(rig *g, int slot)
{
    static real gain[N_SLOT][V];
    tensor *m = vector_leaf(g, rows(item[slot].b));
    for (int64_t o = 0; o < cols(m); o++)
        gain[slot][o] = row(m, 0)[o] / (real)(0.6 + 0.2 * (double)(o % 5));
    item[slot].gain = gain[slot];
    item[slot].m = m;
}

/* An input whose rows are those of the batch. */
static tensor *input(rig *g, int64_t n_row, int64_t n_col)
{
    tensor *x = leaf(g, n_row, n_col);
    x->of = (row_range){ .batch = &g->batch, .wanted = n_row != g->batch.n_row };
    return x;
}

static void begin(rig *g)
{
    memset(matrix, 0, sizeof matrix);
    memset(table, 0, sizeof table);
    g->run.key = 7;
}

static tensor *one_linear(rig *g, bool learns)
{
    begin(g);
    tensor *x = input(g, 7, 5);
    weight w = { "w", numbered(leaf(g, 6, 5), 1, learns), NULL };
    w.b = vector_leaf(g, 6);
    adapt_slot(g, 1, 6, 5, false);
    return linear(&g->run, x, &w);
}

static tensor *build_linear(rig *g)
{
    return one_linear(g, true);
}

/* With a bias, which the gain does not scale. */
static tensor *build_scaled(rig *g)
{
    begin(g);
    tensor *x = input(g, 7, 5);
    weight w = { "w", numbered(leaf(g, 6, 5), 1, true), NULL };
    w.b = vector_leaf(g, 6);
    adapt_slot(g, 1, 6, 5, false);
    scale_slot(g, 1);
    return linear(&g->run, x, &w);
}

/* An adapter of the second sequence alone, whose numbers are not trained. */
static tensor *build_given(rig *g)
{
    static real numbers_of[RANK * 5 + 6 * RANK], gain[6];
    static tensor a = { .n_dim = 2, .shape = { RANK, 5 }, .stride = 5, .data = numbers_of };
    static tensor b = { .n_dim = 2, .shape = { 6, RANK }, .stride = RANK };
    begin(g);
    tensor *x = input(g, 7, 5);
    const weight w = { "w", numbered(leaf(g, 6, 5), 1, true), NULL };
    fill_normal(numbers_of, RANK * 5 + 6 * RANK, 41, 0, 1);
    fill_normal(gain, 6, 42, 0, 1);
    a.type = b.type = &dtype_real;
    b.data = numbers_of + RANK * 5;
    item[1] = (lora){ .a = &a, .b = &b, .scale = (real)1.5, .gain = gain };
    matrix[1] = &item[1];
    g->batch.rank = RANK;
    g->seq[1].adapted = (adaption){ &set, 1 };
    return linear(&g->run, x, &w);
}

static tensor *build_dropped(rig *g)
{
    g->run.lora_dropout = 0.4;
    return one_linear(g, true);
}

/* x comes from an op, and other readers have added to its gradient before. */
static tensor *build_twice(rig *g)
{
    begin(g);
    tensor *x = act(&g->run, input(g, 7, 5), ACT_SILU);
    const weight w = { "w", numbered(leaf(g, 5, 5), 1, true), NULL };
    adapt_slot(g, 1, 5, 5, false);
    scale_slot(g, 1);
    tensor *y = linear(&g->run, x, &w);
    y = linear(&g->run, y, &w);
    residual(&g->run, &y, x);
    return y;
}

static tensor *build_glu(rig *g)
{
    begin(g);
    tensor *x = input(g, 7, 5);
    const weight gate = { "g", numbered(leaf(g, 6, 5), 1, true), NULL };
    const weight up = { "u", numbered(leaf(g, 6, 5), 2, true), NULL };
    adapt_slot(g, 1, 6, 5, false);
    adapt_slot(g, 2, 6, 5, false);
    return glu(&g->run, x, &gate, &up, ACT_GELU_TANH);
}

/* Slots 1 and 2 are parts of a fused matrix: two B, one A. */
static void adapt_fused(rig *g)
{
    adapt_slot(g, 1, 6, 5, false);
    item[2] = (lora){ .a = item[1].a, .b = leaf(g, 6, RANK), .scale = (real)0.5 };
    matrix[2] = &item[2];
}

/* Gate and up of a fused matrix. */
static tensor *build_glu_fused(rig *g)
{
    begin(g);
    tensor *x = input(g, 7, 5);
    const weight gate = { "g", numbered(leaf(g, 6, 5), 1, true), NULL };
    const weight up = { "u", numbered(leaf(g, 6, 5), 2, true), NULL };
    adapt_fused(g);
    return glu(&g->run, x, &gate, &up, ACT_GELU_TANH);
}

static tensor *build_glu_scaled(rig *g)
{
    begin(g);
    tensor *x = input(g, 7, 5);
    weight gate = { "g", numbered(leaf(g, 6, 5), 1, true), NULL };
    const weight up = { "u", numbered(leaf(g, 6, 5), 2, true), NULL };
    gate.b = vector_leaf(g, 6);
    for (int slot = 1; slot <= 2; slot++) {
        adapt_slot(g, slot, 6, 5, false);
        scale_slot(g, slot);
    }
    return glu(&g->run, x, &gate, &up, ACT_GELU_TANH);
}

/* q and v of a fused matrix, each with an m. */
static tensor *build_fused(rig *g)
{
    begin(g);
    tensor *x = input(g, 7, 5);
    const weight q = { "q", numbered(leaf(g, 6, 5), 1, true), NULL };
    const weight v = { "v", numbered(leaf(g, 6, 5), 2, true), NULL };
    adapt_fused(g);
    scale_slot(g, 1);
    scale_slot(g, 2);
    tensor *y = linear(&g->run, x, &q);
    tensor *z = linear(&g->run, x, &v);
    residual(&g->run, &y, z);
    return y;
}

static tensor *build_embed(rig *g)
{
    begin(g);
    tensor *w = numbered(leaf(g, 5, 3), 1, true);
    adapt_slot(g, 1, 3, 5, true);
    return embed(&g->run, w, EMBED_TOKEN);
}

static tensor *build_frozen_embed(rig *g)
{
    static real frozen[5 * 3];
    static tensor w = { .name = "w.weight", .n_dim = 2, .shape = { 5, 3 }, .stride = 3 };
    begin(g);
    fill_normal(frozen, 5 * 3, 5, 0, 1);
    w.type = &dtype_real;
    w.data = frozen;
    w.slot = 1;
    adapt_slot(g, 1, 3, 5, true);
    return embed(&g->run, &w, EMBED_TOKEN);
}

/* Q8_0, frozen: gradients go through it to x, and to A and B beside it. */
static tensor *build_quantised(rig *g)
{
    begin(g);
    const weight w = { "w", numbered(frozen_q8_0(), 1, false), NULL };
    tensor *in = input(g, 7, 32);
    adapt_slot(g, 1, 3, 32, false);
    scale_slot(g, 1);
    return linear(&g->run, in, &w);
}

/* The head in strips of 64 tokens, the last one narrower, and rows of the loss one by one. */
static tensor *one_head(rig *g, bool scaled, real cap)
{
    begin(g);
    g->run.loss_numbers = 1;
    tensor *x = input(g, g->batch.n_wanted, D);
    weight w = { "w", numbered(leaf(g, V, D), 1, true), NULL };
    w.b = vector_leaf(g, V);
    adapt_slot(g, 1, V, D, false);
    if (scaled)
        scale_slot(g, 1);
    spread_targets(g, V);
    return linear_cross_entropy_capped(&g->run, x, &w, 0.1, cap);
}

static tensor *build_head(rig *g)
{
    return one_head(g, false, 0);
}

static tensor *build_head_scaled(rig *g)
{
    return one_head(g, true, 0);
}

static tensor *build_head_capped(rig *g)
{
    return one_head(g, true, (real)0.9);
}

static const grad_case cases[] = {
    { "linear", "linear", build_linear },
    { "linear", "linear, gains", build_scaled },
    { "linear", "linear, gains that are not trained", build_given },
    { "linear", "linear, dropout", build_dropped },
    { "linear", "linear, gains, weight used twice", build_twice },
    { "linear", "linear, gains, two B on one A", build_fused },
    { "linear", "linear, gains, q8_0 weight", build_quantised },
    { "glu", "glu", build_glu },
    { "glu", "glu, two B on one A", build_glu_fused },
    { "glu", "glu, gains", build_glu_scaled },
    { "embed", "embed", build_embed },
    { "embed", "embed, frozen table", build_frozen_embed },
    { "linear_cross_entropy", "head, in strips", build_head },
    { "linear_cross_entropy", "head, gains", build_head_scaled },
    { "linear_cross_entropy", "head, gains, capped", build_head_capped },
};
#define N_CASE (sizeof cases / sizeof *cases)

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

/* The same sums as with merged weights: W + s B A in place of W gives y, and dB = s dW A^T. */
static void adapted_is_merged(void **state)
{
    (void)state;
    rig g;
    rig_case(&g, &size, 2, build_linear, false);
    const tensor *w = g.leaf[1], *a = g.leaf[3], *b = g.leaf[4];
    for (int64_t o = 0; o < rows(b); o++)
        for (int64_t k = 0; k < RANK; k++) {
            double want_b = 0;
            for (int64_t i = 0; i < cols(a); i++)
                want_b += 1.5 * grad_row(w, o)[i] * row(a, k)[i];
            assert_true(fabs(want_b - grad_row(b, o)[k]) < 1e-12);
        }
    for (int64_t k = 0; k < RANK; k++)
        for (int64_t i = 0; i < cols(a); i++) {
            double want_a = 0;
            for (int64_t o = 0; o < rows(b); o++)
                want_a += 1.5 * grad_row(w, o)[i] * row(b, o)[k];
            assert_true(fabs(want_a - grad_row(a, k)[i]) < 1e-12);
        }
    rig_free(&g);
}

static void planted_sign(void **state)
{
    (void)state;
    int n = 0;
    assert_true(check_case(&size, build_linear, true, &n) > 0.1);
    assert_true(check_case(&size, build_glu, true, &n) > 0.1);
    assert_true(check_case(&size, build_scaled, true, &n) > 0.1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("gradients: A, B and m equal central differences in every op", every_derivative),
        TEST("gradients: A, B and m have the same bits on 1, 2 and 4 threads",
             threads_do_not_matter),
        TEST("gradients: a second backward of A, B and m adds to the first", twice_is_double),
        TEST("gradients: A and B equal those of the merged weight", adapted_is_merged),
        TEST("gradients: a planted wrong sign is found", planted_sign),
    };
    return RUN(tests);
}
