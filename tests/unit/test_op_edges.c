/* Edge cases of ops: ties, borders, masked values, randomness. Built over float and over double,
 * like test_ops.c. */
#include "op_bench.h"

#include "base/rng.h"
#include "tensor/tape.h"

/* ---- attention ------------------------------------------------------------------------------- */

/* A NaN value reaches the queries that see it, or another key of its page. Later queries are in the
 * same tile and must not be affected: the first block of keys, which they do not see, must not
 * count. */
static void unseen_values_do_not_matter(void **state)
{
    (void)state;
    enum { T = 300, E = 4, WINDOW = 4, AT = 255 };
    bench b;
    bench_init(&b, 2);
    bench_rows(&b, 1, T, 0);
    const attn a = { ATTN_CAUSAL, 1, 1, E, E, (real)0.5, WINDOW, { 0 }, 0, NULL };
    tensor *q = normal(&b, "q", T, E, 20), *k = normal(&b, "k", T, E, 21);
    tensor *v = normal(&b, "v", T, E, 22);
    const tensor *before = attention(&b.run, q, k, v, &a, 0);
    row(v, AT)[1] = NAN;
    const tensor *after = attention(&b.run, q, k, v, &a, 0);
    assert_true(isnan(row(after, AT)[1]));
    assert_memory_equal(row(after, AT + WINDOW), row(before, AT + WINDOW),
                        sizeof(real[(T - AT - WINDOW) * E]));
    bench_free(&b);
}

/* ---- moe ------------------------------------------------------------------------------------- */

enum { EXPERTS = 6, WIDE = 8, HIDDEN = 4, N = 5 };

/* How many rows each expert gets if the router scores all of them equally. */
static void loads_of_equals(const routing *how, int64_t load[EXPERTS])
{
    bench b;
    bench_init(&b, 2);
    bench_rows(&b, 1, N, 0);
    tensor *part[3 * EXPERTS], *router = normal(&b, "router", EXPERTS, WIDE, 1);
    for (int e = 1; e < EXPERTS; e++)
        memcpy(row(router, e), row(router, 0), sizeof(real[WIDE]));
    for (int i = 0; i < 3 * EXPERTS; i++)
        part[i] = i < 2 * EXPERTS ? normal(&b, "up", HIDDEN, WIDE, 2)
                                  : normal(&b, "down", WIDE, HIDDEN, 3);
    const experts w = { .router = router, .part = part };
    memset(load, 0, sizeof(int64_t[EXPERTS]));
    b.run.load = load;
    b.run.counting = true;
    moe(&b.run, normal(&b, "x", N, WIDE, 4), &w, how, 0);
    bench_free(&b);
}

static void equal_experts_by_number(void **state)
{
    (void)state;
    static const struct {
        routing how;
        int64_t load[EXPERTS];
    } cases[] = {
        { { ROUTE_SOFTMAX, EXPERTS, 2, 1, 1, false, 1, 0, EXPERT_SILU }, { N, N, 0, 0, 0, 0 } },
        { { ROUTE_SIGMOID, EXPERTS, 3, 1, 1, true, 1, 0, EXPERT_SILU }, { N, N, N, 0, 0, 0 } },
        { { ROUTE_SOFTMAX, EXPERTS, 3, 3, 2, false, 1, 0, EXPERT_SILU },
          { N, N, N, 0, 0, 0 } }, /* groups too */
        { { ROUTE_SIGMOID, EXPERTS, 1, 3, 1, true, 1, 0, EXPERT_SILU }, { N, 0, 0, 0, 0, 0 } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t load[EXPERTS];
        loads_of_equals(&cases[i].how, load);
        assert_memory_equal(load, cases[i].load, sizeof load);
    }
}

/* ---- rope ------------------------------------------------------------------------------------ */

/* DeepSeek-V2's YaRN: 64 rotated columns, 4096 positions become 163,840. The pair that makes 32
 * rotations in the old context is 10.47, the one that makes one is 22.51. Pairs below 10 keep their
 * frequency, pairs from 23 on rotate 40 times slower, and between these integers the change is
 * linear. */
static void yarn_between_whole_pairs(void **state)
{
    (void)state;
    enum { PAIRS = 32, LOW = 10, HIGH = 23 };
    const rope_spec s = { .n_rot = 2 * PAIRS,
                          .d_head = 2 * PAIRS,
                          .theta = 10000,
                          .scaling = ROPE_YARN,
                          .factor = 40,
                          .old_ctx = 4096,
                          .beta_fast = 32,
                          .beta_slow = 1 };
    double f[PAIRS];
    rope_frequencies(&s, f);
    for (int k = 0; k < PAIRS; k++) {
        const double far = k <= LOW ? 0 : k >= HIGH ? 1 : (double)(k - LOW) / (HIGH - LOW);
        const double want = pow(10000, -k / (double)PAIRS) * (1 - far + far / 40);
        assert_true(fabs(f[k] / want - 1) < 1e-13);
    }
}

/* Six old positions are less than one rotation: both ends fall on pair 0, after which the change is a
 * step, as in transformers, and not a division by zero. */
static void yarn_as_a_step(void **state)
{
    (void)state;
    const rope_spec s = { .n_rot = 8,
                          .d_head = 8,
                          .theta = 10000,
                          .scaling = ROPE_YARN,
                          .factor = 4,
                          .old_ctx = 6,
                          .beta_fast = 32,
                          .beta_slow = 1 };
    double f[4];
    rope_frequencies(&s, f);
    for (int k = 0; k < 4; k++)
        assert_true(fabs(f[k] / (pow(10000, -k / 4.0) / (k == 0 ? 1 : 4)) - 1) < 1e-13);
}

/* ---- dropout --------------------------------------------------------------------------------- */

enum { DROP_ROWS = 400, DROP_COLS = 250 };

static void drop(bench *b, tensor *x, real p, uint64_t key, tensor **y, const real *dy)
{
    static tape t;
    b->run.key = key;
    b->run.at.n_drop = 0;
    tape_begin(&b->run, &t);
    *y = dropout(&b->run, x, p);
    tape_backward(&b->run, *y, dy);
}

/* A share p of all values becomes zero, the others are scaled by 1 / (1 - p), so the mean stays;
 * gradients likewise. */
static void dropout_formula(void **state)
{
    (void)state;
    const int64_t n = DROP_ROWS * DROP_COLS;
    for (int percent = 10; percent <= 70; percent += 30) {
        const real p = (real)percent / 100;
        bench b;
        bench_init(&b, 3);
        bench_rows(&b, 1, DROP_ROWS, 0);
        tensor *x = normal(&b, "x", DROP_ROWS, DROP_COLS, 1), *y;
        tensor *dy = normal(&b, "dy", DROP_ROWS, DROP_COLS, 2);
        x->needs_grad = true;
        drop(&b, x, p, 5, &y, row(dy, 0));
        int64_t dropped = 0;
        for (int64_t i = 0; i < n; i++) {
            const real from = row(x, 0)[i], to = row(y, 0)[i], back = x->grad[i];
            const bool gone = to == 0;
            dropped += gone;
            if (gone ? back != 0
                     : fabs(to * (1 - p) - from) > 1e-6 * fabs(from) ||
                           fabs(back * (1 - p) - row(dy, 0)[i]) > 1e-6 * fabs(row(dy, 0)[i]))
                fail_msg("p = %d %%: %g became %g, its gradient %g became %g", percent,
                         (double)from, (double)to, (double)row(dy, 0)[i], (double)back);
        }
        const double share = (double)dropped / (double)n, q = (double)p;
        print_message("p = %d %%: %.2f %% dropped\n", percent, 100 * share);
        assert_true(fabs(share - q) < 5 * sqrt(q * (1 - q) / (double)n));
        bench_free(&b);
    }
}

/* Each dropout of a step, and each step, has its own mask; the same key gives the same mask. */
static void dropout_masks(void **state)
{
    (void)state;
    const size_t bytes = sizeof(real[DROP_ROWS * DROP_COLS]);
    bench b;
    bench_init(&b, 1);
    bench_rows(&b, 1, DROP_ROWS, 0);
    tensor *x = normal(&b, "x", DROP_ROWS, DROP_COLS, 1);
    b.run.key = 5;
    const tensor *first = dropout(&b.run, x, (real)0.5), *second = dropout(&b.run, x, (real)0.5);
    b.run.at.n_drop = 0;
    const tensor *again = dropout(&b.run, x, (real)0.5);
    b.run.at.n_drop = 0;
    b.run.at.block++;
    const tensor *block = dropout(&b.run, x, (real)0.5);
    b.run.at.n_drop = 0;
    b.run.at.block--;
    b.run.key = 6;
    const tensor *step = dropout(&b.run, x, (real)0.5);
    assert_memory_equal(first->data, again->data, bytes);
    assert_true(memcmp(first->data, second->data, bytes) != 0);
    assert_true(memcmp(first->data, block->data, bytes) != 0);
    assert_true(memcmp(first->data, step->data, bytes) != 0);
    bench_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("attention: a NaN value stays in its page", unseen_values_do_not_matter),
        TEST("moe: among equal experts and groups the first are chosen", equal_experts_by_number),
        TEST("rope: YaRN changes frequencies between whole pairs", yarn_between_whole_pairs),
        TEST("rope: YaRN's ends may be one pair", yarn_as_a_step),
        TEST("dropout: a share p is dropped, the rest scaled by 1 / (1 - p), gradients too",
             dropout_formula),
        TEST("dropout: masks differ by step, block and op", dropout_masks),
    };
    int failed = 0;
    for (int i = 0; (kern = table_f32(i)) != NULL; i++) {
        print_message("kernels: %s\n", kern->name);
        failed += RUN(tests);
    }
    return failed;
}
