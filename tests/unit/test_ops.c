/* Every op against a naive implementation of its formula in long double, and the properties that
 * must hold exactly. The file is built over float and over double: double must match where float
 * only approximates. */
#include "op_bench.h"

#include "base/rng.h"

#define EXACT (sizeof(real) == 8)
#define TIGHT (EXACT ? 1e-12 : 2e-6) /* relative to the largest number */

/* A stored matrix of some type, malloc'ed. */
static weight stored_weight(const dtype *type, int64_t O, int64_t I, bool bias)
{
    tensor *w = calloc(1, sizeof *w), *b = bias ? calloc(1, sizeof *b) : NULL;
    *w = (tensor){ .name = "w.weight", .type = type, .n_dim = 2, .shape = { O, I }, .stride = I };
    const size_t bytes = dtype_row_bytes(type, I);
    w->data = malloc((size_t)O * bytes);
    real *x = malloc((size_t)(O > I ? O : I) * sizeof *x);
    for (int64_t o = 0; o < O; o++) {
        fill_normal(x, I, 12, (uint64_t)o, 1);
        type->encode((char *)w->data + (size_t)o * bytes, x, I);
    }
    if (b) {
        *b = (tensor){
            .name = "w.bias", .type = &dtype_real, .n_dim = 1, .shape = { O }, .stride = O
        };
        b->data = malloc((size_t)O * sizeof(real));
        fill_normal(b->data, O, 13, 0, 1);
    }
    free(x);
    return (weight){ "w", w, b };
}

static void weight_free(weight *w)
{
    free(w->w->data);
    free(w->w);
    if (w->b)
        free(w->b->data);
    free(w->b);
}

static const dtype *const types[] = { &dtype_real, &dtype_f16, &dtype_bf16, &dtype_q8_0,
                                      &dtype_q4_0 };
#define N_TYPE ((int)(sizeof types / sizeof *types))

/* ---- linear ---------------------------------------------------------------------------------- */

/* The error of rounding a row of x to integers: half a step for each weight. */
static long double i8_bound(const real *x, const real *w, int64_t n)
{
    long double bound = 0;
    for (int64_t k = 0; k < n; k += BLOCK_I8) {
        long double most = 0, size = 0;
        for (int64_t j = k; j < k + BLOCK_I8; j++) {
            most = fabsl((long double)x[j]) > most ? fabsl((long double)x[j]) : most;
            size += fabsl((long double)w[j]);
        }
        bound += 0.5001L * most / 127 * size;
    }
    return bound;
}

/* |e| <= 4 sqrt(K) eps sum|a b|: the policy of docs/NUMERICS.md. */
static void check_linear(bench *b, const dtype *type, int64_t N, int64_t I, int64_t O, bool bias)
{
    weight w = stored_weight(type, O, I, bias);
    bench_rows(b, 1, (int)N, 0);
    tensor *x = normal(b, "x", N, I, 1);
    tensor *y = linear(&b->run, x, &w);
    real *decoded = malloc((size_t)I * sizeof *decoded);
    const double eps = EXACT ? 0x1p-53 : 0x1p-24;
    for (int64_t o = 0; o < O; o++) {
        type->decode(decoded, (const char *)w.w->data + (size_t)o * dtype_row_bytes(type, I), 0, I);
        for (int64_t i = 0; i < N; i++) {
            long double sum = 0, size = 0;
            for (int64_t k = 0; k < I; k++) {
                sum += (long double)row(x, i)[k] * decoded[k];
                size += fabsl((long double)row(x, i)[k] * decoded[k]);
            }
            if (bias) {
                sum += values(w.b)[o];
                size += fabsl((long double)values(w.b)[o]);
            }
            const long double e = fabsl(row(y, i)[o] - sum);
            const bool i8 = type->quants && !EXACT;
            const long double bound = 4 * sqrtl((long double)I) * eps * size +
                                      (i8 ? i8_bound(row(x, i), decoded, I) : 0);
            assert_that(e <= bound, "linear %s [%lld, %lld] x [%lld]: off by %Lg", type->name,
                        (long long)O, (long long)I, (long long)N, e);
        }
    }
    free(decoded);
    weight_free(&w);
}

static void linear_formula(void **state)
{
    (void)state;
    bench b;
    bench_init(&b, 2);
    for (int t = 0; t < N_TYPE; t++)
        for (int bias = 0; bias < 2; bias++) {
            const int64_t block = types[t]->block;
            check_linear(&b, types[t], 1, block, 1, bias);
            check_linear(&b, types[t], 3, 7 * block, 5, bias);
            check_linear(&b, types[t], 17, block == 1 ? 1027 : 1056, 33,
                         bias); /* more than a tile */
            check_linear(&b, types[t], 2, 2080, 3, bias);
        }
    check_linear(&b, &dtype_q5_0, 3, 1056, 5, true);
    check_linear(&b, &dtype_q4_k, 3, 1280, 5, true); /* blocks of 256, tiles of 512 */
    check_linear(&b, &dtype_q6_k, 17, 768, 33, true);
    bench_free(&b);
}

/* The same row alone, among others, and on any number of threads: the same bits. */
static void linear_rows_alone(void **state)
{
    (void)state;
    enum { N = 19, I = 1120, O = 37 };
    for (int t = 0; t < N_TYPE; t++) {
        weight w = stored_weight(types[t], O, I, true);
        real *first = malloc(sizeof(real[N][O]));
        for (int threads = 1; threads <= 4; threads *= 2) {
            bench b;
            bench_init(&b, threads);
            bench_rows(&b, 1, N, 0);
            tensor *x = normal(&b, "x", N, I, 2), *y = linear(&b.run, x, &w);
            if (threads == 1)
                memcpy(first, y->data, sizeof(real[N][O]));
            assert_memory_equal(y->data, first, sizeof(real[N][O]));
            for (int i = 0; i < N; i++) {
                tensor one = *x;
                one.shape[0] = 1;
                one.data = row(x, i);
                one.id = 0;
                assert_memory_equal(linear(&b.run, &one, &w)->data, row(y, i), sizeof(real[O]));
            }
            bench_free(&b);
        }
        free(first);
        weight_free(&w);
    }
}

/* Some rows of a stored matrix as a separate one. */
static tensor some_of(const tensor *w, int64_t first, int64_t n)
{
    tensor part = *w;
    part.shape[0] = n;
    part.data = (char *)w->data + (size_t)first * dtype_row_bytes(w->type, cols(w));
    return part;
}

/* Heads of x, with gaps, times their rows of W, as separate matrices; and transposed. */
static void heads_are_linear(void **state)
{
    (void)state;
    enum { N = 5, H = 3, I = 64, O = 9, PITCH = 70, ROWS = 11 };
    static const head_map map = { H, 2, PITCH, 1, ROWS, I, O, false };
    static const head_map back = { H, 1, O + 2, 1, ROWS, O, I, true };
    for (int t = 0; t < N_TYPE; t++) {
        bench b;
        bench_init(&b, 2);
        bench_rows(&b, 1, N, 0);
        weight w = stored_weight(types[t], 1 + H * ROWS, I, false);
        tensor *x = normal(&b, "x", N, 2 + H * PITCH, 1);
        tensor *y = linear_heads(&b.run, x, w.w, &map, "y");
        tensor *z = normal(&b, "z", N, 1 + H * (O + 2), 2);
        tensor *u = linear_heads(&b.run, z, w.w, &back, "u");
        for (int h = 0; h < H; h++) {
            tensor part = some_of(w.w, 1 + h * ROWS, O);
            const weight own = { "own", &part, NULL };
            tensor *head = slice(&b.run, x, "head", 2 + h * PITCH, I);
            tensor *want = linear(&b.run, head, &own);
            real decoded[O * I], sums[I];
            for (int o = 0; o < O; o++)
                types[t]->decode(decoded + o * I,
                                 (char *)part.data + (size_t)o * dtype_row_bytes(types[t], I), 0,
                                 I);
            for (int i = 0; i < N; i++) {
                assert_memory_equal(row(y, i) + h * O, row(want, i), sizeof(real[O]));
                for (int k = 0; k < I; k++) {
                    long double sum = 0;
                    for (int o = 0; o < O; o++)
                        sum += (long double)row(z, i)[1 + h * (O + 2) + o] * decoded[o * I + k];
                    sums[k] = (real)sum;
                }
                assert_close("transposed", row(u, i) + h * I, sums, I, TIGHT);
            }
        }
        bench_free(&b);
        weight_free(&w);
    }
}

static void heads_are_joined(void **state)
{
    (void)state;
    enum { N = 4, H = 3, A = 5, B = 2 };
    static const join_map own = { H, A, 1, 4, B }, shared = { H, A, 2, 0, B };
    bench b;
    bench_init(&b, 2);
    bench_rows(&b, 1, N, 0);
    tensor *x = normal(&b, "x", N, H * A, 1), *y = normal(&b, "y", N, 12, 2);
    for (int s = 0; s < 2; s++) {
        const tensor *z = join_heads(&b.run, x, y, s ? &shared : &own, "z");
        for (int i = 0; i < N; i++)
            for (int k = 0; k < H * (A + B); k++) {
                const int h = k / (A + B), c = k % (A + B);
                const real want = c < A ? row(x, i)[h * A + c]
                                        : row(y, i)[(s ? 2 : 1 + 4 * h) + c - A];
                assert_true(row(z, i)[k] == want);
            }
    }
    bench_free(&b);
}

/* ---- experts --------------------------------------------------------------------------------- */

enum { EXPERTS = 6, WIDE = 64, HIDDEN = 32 };

typedef struct crew {
    weight router, up_down[2]; /* gates and ups of all experts, downs of all */
    tensor part[3 * EXPERTS], *list[3 * EXPERTS], bias;
    real biases[EXPERTS];
    experts experts;
} crew;

static void crew_init(crew *c, const dtype *type, bool bias)
{
    c->router = stored_weight(&dtype_real, EXPERTS, WIDE, false);
    c->up_down[0] = stored_weight(type, 2 * EXPERTS * HIDDEN, WIDE, false);
    c->up_down[1] = stored_weight(type, EXPERTS * WIDE, HIDDEN, false);
    for (int i = 0; i < 3 * EXPERTS; i++) {
        const bool down = i >= 2 * EXPERTS;
        c->part[i] = down ? some_of(c->up_down[1].w, (i - 2 * EXPERTS) * WIDE, WIDE)
                          : some_of(c->up_down[0].w, i * HIDDEN, HIDDEN);
        c->list[i] = &c->part[i];
    }
    for (int k = 0; k < EXPERTS * WIDE; k++)
        ((real *)c->router.w->data)[k] /= 8;
    fill_normal(c->biases, EXPERTS, 14, 0, 1);
    c->bias = (tensor){ .type = &dtype_real, .n_dim = 1, .shape = { EXPERTS }, .stride = EXPERTS };
    c->bias.data = c->biases;
    c->experts = (experts){ .router = c->router.w,
                            .bias = bias ? &c->bias : NULL,
                            .part = c->list };
}

static void crew_free(crew *c)
{
    weight_free(&c->router);
    weight_free(&c->up_down[0]);
    weight_free(&c->up_down[1]);
}

/* How many are better, or equal and earlier. */
static int rank_of(const long double *s, int n, int at)
{
    int rank = 0;
    for (int e = 0; e < n; e++)
        rank += s[e] > s[at] || (s[e] == s[at] && e < at);
    return rank;
}

/* Weights of all experts for a row, 0 for those not chosen. */
static void route_again(const crew *c, const routing *how, const real *x, long double *w)
{
    long double s[EXPERTS], by[EXPERTS], group[EXPERTS], sum = 0, chosen = 0;
    const int G = (int)how->n_group, each = EXPERTS / G;
    for (int e = 0; e < EXPERTS; e++) {
        s[e] = 0;
        for (int k = 0; k < WIDE; k++)
            s[e] += (long double)x[k] * ((const real *)c->router.w->data)[e * WIDE + k];
        s[e] = how->kind == ROUTE_SOFTMAX ? expl(s[e]) : 1 / (1 + expl(-s[e]));
        sum += s[e];
    }
    for (int e = 0; e < EXPERTS; e++) {
        s[e] /= how->kind == ROUTE_SOFTMAX ? sum : 1;
        by[e] = s[e] + (c->experts.bias ? c->biases[e] : 0);
    }
    for (int g = 0; g < G; g++) {
        group[g] = 0;
        for (int e = g * each; e < (g + 1) * each; e++)
            if (rank_of(by + g * each, each, e - g * each) < (how->kind == ROUTE_SIGMOID ? 2 : 1))
                group[g] += by[e];
    }
    for (int e = 0; e < EXPERTS; e++)
        by[e] = rank_of(group, G, e / each) < how->n_group_used ? by[e] : -1e9L;
    for (int e = 0; e < EXPERTS; e++) {
        w[e] = rank_of(by, EXPERTS, e) < how->n_used ? s[e] : 0;
        chosen += w[e];
    }
    for (int e = 0; e < EXPERTS; e++)
        w[e] *= how->scale / (how->normalize ? chosen : 1);
}

static const routing routings[] = {
    { ROUTE_SOFTMAX, EXPERTS, 2, 1, 1, false, 1.5f, 0, EXPERT_SILU },
    { ROUTE_SOFTMAX, EXPERTS, 3, 3, 2, false, 1, 0, EXPERT_SILU },
    { ROUTE_SIGMOID, EXPERTS, 2, 3, 2, true, 2.5f, 0, EXPERT_SILU },
    { ROUTE_SIGMOID, EXPERTS, EXPERTS, 1, 1, true, 1, 0, EXPERT_SILU },
};

/* The weighted sum of linear, glu and linear of a row, over the experts chosen by a second
 * implementation of the rule. */
static void moe_is_its_parts(void **state)
{
    (void)state;
    enum { N = 9 };
    for (int t = 0; t < N_TYPE; t++)
        for (size_t how = 0; how < sizeof routings / sizeof *routings; how++) {
            bench b;
            crew c;
            bench_init(&b, 3);
            bench_rows(&b, 1, N, 0);
            crew_init(&c, types[t], routings[how].kind == ROUTE_SIGMOID);
            tensor *x = normal(&b, "x", N, WIDE, 5);
            const tensor *y = moe(&b.run, x, &c.experts, &routings[how], 0);
            const tensor *each[EXPERTS];
            for (int e = 0; e < EXPERTS; e++) {
                const weight gate = { "g", c.list[e], NULL },
                             up = { "u", c.list[EXPERTS + e], NULL };
                const weight down = { "d", c.list[2 * EXPERTS + e], NULL };
                tensor *h = glu(&b.run, x, &gate, &up, ACT_SILU);
                each[e] = linear(&b.run, h, &down);
            }
            for (int i = 0; i < N; i++) {
                long double w[EXPERTS];
                real want[WIDE];
                route_again(&c, &routings[how], row(x, i), w);
                for (int k = 0; k < WIDE; k++) {
                    long double sum = 0;
                    for (int e = 0; e < EXPERTS; e++)
                        sum += w[e] * (w[e] != 0 ? row(each[e], i)[k] : 0);
                    want[k] = (real)sum;
                }
                assert_close("moe", row(y, i), want, WIDE, TIGHT);
            }
            bench_free(&b);
            crew_free(&c);
        }
}

/* The other rows of an expert change nothing, nor does the number of threads. */
static void moe_rows_alone(void **state)
{
    (void)state;
    enum { N = 19 };
    for (int t = 0; t < N_TYPE; t++) {
        crew c;
        static real first[N * WIDE];
        crew_init(&c, types[t], true);
        for (int threads = 1; threads <= 4; threads *= 2) {
            bench b;
            bench_init(&b, threads);
            bench_rows(&b, 1, N, 0);
            tensor *x = normal(&b, "x", N, WIDE, 2);
            const tensor *y = moe(&b.run, x, &c.experts, &routings[2], 0);
            if (threads == 1)
                memcpy(first, y->data, sizeof first);
            assert_memory_equal(y->data, first, sizeof first);
            for (int i = 0; i < N; i++) {
                tensor one = *x;
                one.shape[0] = 1;
                one.data = row(x, i);
                one.id = 0;
                assert_memory_equal(moe(&b.run, &one, &c.experts, &routings[2], 0)->data, row(y, i),
                                    sizeof(real[WIDE]));
            }
            bench_free(&b);
        }
        crew_free(&c);
    }
}

/* ---- norms, activations, small ops ----------------------------------------------------------- */

static void norm_formulas(void **state)
{
    (void)state;
    bench b;
    bench_init(&b, 2);
    const int widths[] = { 1, 2, 3, 15, 16, 17, 64, 257 };
    for (size_t c = 0; c < sizeof widths / sizeof *widths; c++) {
        const int n = widths[c], groups = 3, N = 5;
        bench_rows(&b, 1, N, 0);
        tensor *x = normal(&b, "x", N, n * groups, 3), *w = normal(&b, "w.weight", 1, n, 4);
        tensor *wide = normal(&b, "v.weight", 1, n * groups, 5),
               *shift = normal(&b, "v.bias", 1, n * groups, 6);
        const weight v = { "v", wide, shift };
        real *want = malloc(sizeof(real) * (size_t)(N * n * groups));

        for (int i = 0; i < N * groups; i++) {
            long double squares = 0;
            for (int k = 0; k < n; k++)
                squares += (long double)row(x, 0)[i * n + k] * row(x, 0)[i * n + k];
            for (int k = 0; k < n; k++)
                want[i * n + k] = (real)(row(x, 0)[i * n + k] / sqrtl(squares / n + 1e-5L) *
                                         values(w)[k]);
        }
        assert_close("rmsnorm", rmsnorm(&b.run, x, w, (real)1e-5)->data, want, N * n * groups,
                     TIGHT);

        const int D = n * groups;
        for (int i = 0; i < N; i++) {
            long double mean = 0, var = 0;
            for (int k = 0; k < D; k++)
                mean += row(x, i)[k] / (long double)D;
            for (int k = 0; k < D; k++)
                var += (row(x, i)[k] - mean) * (row(x, i)[k] - mean) / D;
            for (int k = 0; k < D; k++)
                want[i * D + k] = (real)((row(x, i)[k] - mean) / sqrtl(var + 1e-5L) *
                                             values(wide)[k] +
                                         values(shift)[k]);
        }
        assert_close("layernorm", layernorm(&b.run, x, &v, (real)1e-5)->data, want, N * D, TIGHT);
        free(want);
    }
    bench_free(&b);
}

/* Scaling x by 1000 changes only the weight of eps. */
static void rmsnorm_scale_law(void **state)
{
    (void)state;
    bench b;
    bench_init(&b, 1);
    bench_rows(&b, 1, 4, 0);
    tensor *x = normal(&b, "x", 4, 96, 3), *w = normal(&b, "w.weight", 1, 96, 4);
    tensor *y = rmsnorm(&b.run, x, w, 0), *big = tensor_new(&b.run, 4, 96);
    for (int k = 0; k < 4 * 96; k++)
        row(big, 0)[k] = 1024 * row(x, 0)[k];
    tensor *z = rmsnorm(&b.run, big, w, 0);
    assert_close("rmsnorm(1024 x)", z->data, y->data, 4 * 96, TIGHT);
    bench_free(&b);
}

static void act_formulas(void **state)
{
    (void)state;
    bench b;
    bench_init(&b, 2);
    bench_rows(&b, 1, 1, 0);
    enum { N = 4001 };
    tensor *x = tensor_new(&b.run, 1, N);
    strcpy(x->name, "x");
    for (int i = 0; i < N; i++)
        row(x, 0)[i] = (real)((i - N / 2) / 100.0);
    const act_kind kinds[] = { ACT_RELU, ACT_SILU, ACT_GELU, ACT_GELU_TANH, ACT_TANH };
    for (size_t k = 0; k < 5; k++) {
        real want[N];
        for (int i = 0; i < N; i++) {
            const long double v = row(x, 0)[i];
            const long double inner = sqrtl(2 / 3.14159265358979323846264338327950288L) *
                                      (v + 0.044715L * v * v * v);
            want[i] = (real)(kinds[k] == ACT_RELU        ? fmaxl(v, 0)
                             : kinds[k] == ACT_SILU      ? v / (1 + expl(-v))
                             : kinds[k] == ACT_GELU      ? v / 2 * erfcl(-v / sqrtl(2))
                             : kinds[k] == ACT_GELU_TANH ? v / 2 * (1 + tanhl(inner))
                                                         : tanhl(v));
        }
        tensor *y = act(&b.run, x, kinds[k]);
        assert_close(y->name, y->data, want, N, TIGHT);
    }
    bench_free(&b);
}

static void glu_is_its_parts(void **state)
{
    (void)state;
    enum { N = 5, I = 96, F = 41 };
    for (int t = 0; t < N_TYPE; t++) {
        bench b;
        bench_init(&b, 3);
        bench_rows(&b, 1, N, 0);
        weight gate = stored_weight(types[t], F, I, true),
               up = stored_weight(types[t], F, I, false);
        tensor *x = normal(&b, "x", N, I, 5);
        tensor *y = glu(&b.run, x, &gate, &up, ACT_SILU);
        tensor *g = linear(&b.run, x, &gate);
        tensor *u = linear(&b.run, x, &up);
        g = act(&b.run, g, ACT_SILU);
        real want[N * F];
        for (int k = 0; k < N * F; k++)
            want[k] = row(g, 0)[k] * row(u, 0)[k];
        assert_memory_equal(y->data, want, sizeof want);
        bench_free(&b);
        weight_free(&gate);
        weight_free(&up);
    }
}

static void softmax_properties(void **state)
{
    (void)state;
    bench b;
    bench_init(&b, 2);
    for (int n = 1; n < 600; n = 2 * n + 1) {
        bench_rows(&b, 1, 3, 0);
        tensor *x = normal(&b, "x", 3, n, 6), *shifted = tensor_new(&b.run, 3, n);
        for (int k = 0; k < n; k++) {
            row(x, 1)[k] *= 10000; /* does not overflow */
            if (k % 3 == 1)
                row(x, 2)[k] = -INFINITY; /* gets nothing */
        }
        for (int k = 0; k < 3 * n; k++)
            row(shifted, 0)[k] = row(x, 0)[k] + 64;
        tensor *y = softmax(&b.run, x), *z = softmax(&b.run, shifted);
        for (int i = 0; i < 3; i++) {
            double sum = 0;
            for (int k = 0; k < n; k++) {
                sum += row(y, i)[k];
                assert_true(row(y, i)[k] >= 0);
                if (i == 2 && k % 3 == 1)
                    assert_true(row(y, i)[k] == 0);
            }
            assert_true(fabs(sum - 1) < (EXACT ? 1e-12 : n * 1e-7 + 1e-6));
        }
        assert_close("softmax(x + 64)", row(z, 0), row(y, 0), n, EXACT ? 1e-12 : 2e-5);
    }
    bench_free(&b);
}

static void embed_take_pool(void **state)
{
    (void)state;
    enum { V = 7, D = 33 };
    bench b;
    bench_init(&b, 2);
    bench_rows(&b, 2, 3, 2); /* rows 0-2 and 3-5, positions 2-4 */
    for (int i = 0; i < 6; i++) {
        b.row[i].id = (i * 5) % V;
        b.row[i].type = i & 1;
        b.row[i].wanted = i % 2;
    }
    b.batch.n_wanted = 3;
    tensor *table = normal(&b, "token_embd.weight", V, D, 7);
    tensor *by_token = embed(&b.run, table, EMBED_TOKEN),
           *by_pos = embed(&b.run, table, EMBED_POSITION);
    tensor *by_type = embed(&b.run, table, EMBED_TYPE), *taken = take_rows(&b.run, by_token);
    tensor *from = embed_from(&b.run, table, EMBED_POSITION, 2);
    assert_string_equal(by_token->name, "token_embd");
    for (int i = 0; i < 6; i++) {
        assert_memory_equal(row(by_token, i), row(table, b.row[i].id), sizeof(real[D]));
        assert_memory_equal(row(by_pos, i), row(table, b.row[i].pos), sizeof(real[D]));
        assert_memory_equal(row(by_type, i), row(table, b.row[i].type), sizeof(real[D]));
        assert_memory_equal(row(from, i), row(table, 2 + b.row[i].pos), sizeof(real[D]));
        if (i % 2)
            assert_memory_equal(row(taken, i / 2), row(by_token, i), sizeof(real[D]));
    }
    b.seq[2] = (sequence){ .first = 6, .n = 0 };
    b.batch.n_seq = 3;
    tensor *mean = pool_rows(&b.run, by_token, POOL_MEAN),
           *max = pool_rows(&b.run, by_token, POOL_MAX);
    tensor *first = pool_rows(&b.run, by_token, POOL_FIRST),
           *last = pool_rows(&b.run, by_token, POOL_LAST);
    for (int s = 0; s < 2; s++)
        for (int k = 0; k < D; k++) {
            const real x = row(by_token, 3 * s)[k], y = row(by_token, 3 * s + 1)[k],
                       z = row(by_token, 3 * s + 2)[k];
            assert_true(row(mean, s)[k] == (x + y + z) / 3);
            assert_true(row(max, s)[k] == fmax(fmax(x, y), z));
            assert_true(row(first, s)[k] == x && row(last, s)[k] == z);
        }
    for (int k = 0; k < D; k++)
        assert_true(row(mean, 2)[k] == 0 && row(last, 2)[k] == 0);
    bench_free(&b);
}

static void features_put_row(void **state)
{
    (void)state;
    enum { D = 5 };
    bench b;
    real given[6 * D];
    bench_init(&b, 2);
    bench_rows(&b, 2, 3, 0);
    fill_normal(given, 6 * D, 17, 0, 1);
    b.batch.features = given;
    tensor *v = normal(&b, "class_embd", 1, D, 18);
    tensor *x = features(&b.run, D);
    tensor *y = put_row(&b.run, x, v, 1);
    assert_memory_equal(x->data, given, sizeof given);
    assert_string_equal(y->name, "class_embd");
    for (int i = 0; i < 6; i++)
        assert_memory_equal(row(y, i), i % 3 == 1 ? row(v, 0) : row(x, i), sizeof(real[D]));
    bench_free(&b);
}

/* Rows of any length, one of all zeros, and one so short that it is divided by eps. */
static void l2norm_reference(void **state)
{
    (void)state;
    static const int widths[] = { 1, 5, 64, 100 };
    bench b;
    bench_init(&b, 2);
    bench_rows(&b, 1, 5, 0);
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        const int n = widths[w];
        tensor *x = normal(&b, "x", 5, n, 21);
        memset(row(x, 1), 0, (size_t)n * sizeof(real));
        for (int k = 0; k < n; k++)
            row(x, 2)[k] *= (real)1e-15;
        tensor *y = l2norm(&b.run, x);
        assert_string_equal(y->name, "x.l2norm");
        for (int i = 0; i < 5; i++) {
            double sum = 0;
            for (int k = 0; k < n; k++)
                sum += (double)row(x, i)[k] * (double)row(x, i)[k];
            const double by = fmax(sqrt(sum), 1e-12);
            for (int k = 0; k < n; k++)
                assert_true(fabs((double)row(y, i)[k] - (double)row(x, i)[k] / by) <=
                            (EXACT ? 1e-14 : 1e-6));
        }
    }
    bench_free(&b);
}

static void residual_keeps_what_entered(void **state)
{
    (void)state;
    bench b;
    bench_init(&b, 2);
    bench_rows(&b, 1, 3, 0);
    tensor *entered = normal(&b, "x", 3, 20, 8), *h = normal(&b, "h", 3, 20, 9), *x = entered;
    real before[60];
    memcpy(before, entered->data, sizeof before);
    b.run.at.block = 1; /* a block begins */
    residual(&b.run, &x, h);
    assert_true(x->data != entered->data);
    assert_memory_equal(entered->data, before, sizeof before);
    assert_string_equal(x->name, "h.residual");
    const void *place = x->data;
    residual(&b.run, &x, h);
    assert_true(x->data == place); /* made in this block: in place */
    for (int k = 0; k < 60; k++)
        assert_true(row(x, 0)[k] == row(h, 0)[k] + (row(h, 0)[k] + before[k]));
    bench_free(&b);
}

/* ---- rotary positions ------------------------------------------------------------------------ */

static const rope_table *table_of(bench *b, rope_spec s, int64_t n_ctx, arena *store)
{
    weft_error err = { 0 };
    assert_int_equal(arena_init(store, ARENA_GROWING, &b->host.mem, 0, "", &err), WEFT_OK);
    const rope_table *t = rope_new(&s, n_ctx, store, &err);
    assert_non_null(t);
    return t;
}

static const rope_pairing pairings[] = { ROPE_ADJACENT, ROPE_HALVES };

/* Against cosl and sinl of pos f, at positions up to 131071, where a float angle has lost three
 * digits. */
static void rope_long_positions(void **state)
{
    (void)state;
    enum { E = 64, ROT = 48 };
    double worst = 0;
    for (int p = 0; p < 2; p++) {
        bench b;
        arena store;
        bench_init(&b, 2);
        const rope_spec s = { .pairing = pairings[p], .n_rot = ROT, .d_head = E, .theta = 500000 };
        const rope_table *t = table_of(&b, s, 131072, &store);
        for (int start = 0; start < 131072; start += 8191) {
            bench_rows(&b, 1, 2, start);
            tensor *x = normal(&b, "q", 2, 2 * E, 10), *y = rope(&b.run, x, t);
            real want[2 * E];
            for (int i = 0; i < 2; i++) {
                memcpy(want, row(x, i), sizeof want);
                for (int h = 0; h < 2 * E; h += E)
                    for (int k = 0; k < ROT / 2; k++) {
                        const long double angle = (long double)(start + i) *
                                                  powl(500000, -2.0L * k / ROT);
                        const int at = h + (p ? k : 2 * k), other = at + (p ? ROT / 2 : 1);
                        const long double c = cosl(angle), sn = sinl(angle), u = row(x, i)[at],
                                          v = row(x, i)[other];
                        want[at] = (real)(u * c - v * sn);
                        want[other] = (real)(u * sn + v * c);
                    }
                worst = fmax(worst,
                             assert_close("rope", row(y, i), want, 2 * E, EXACT ? 1e-10 : 1e-6));
            }
        }
        arena_free(&store);
        bench_free(&b);
    }
    print_message("positions to 131071: worst %.2e of the largest\n", worst);
}

/* The rotation keeps the norm, and q_m . k_n depends on m - n only. */
static void rope_is_a_rotation(void **state)
{
    (void)state;
    enum { E = 32, T = 200 };
    for (int p = 0; p < 2; p++) {
        bench b;
        arena store;
        bench_init(&b, 1);
        const rope_spec s = { .pairing = pairings[p], .n_rot = E, .d_head = E, .theta = 10000 };
        const rope_table *t = table_of(&b, s, 1024, &store);
        real q0[E], k0[E], by_distance[T];
        fill_normal(q0, E, 14, 0, 1);
        fill_normal(k0, E, 14, 1, 1);
        bench_rows(&b, 1, T, 300);
        tensor *q = tensor_new(&b.run, T, E), *k = tensor_new(&b.run, T, E);
        for (int i = 0; i < T; i++) {
            memcpy(row(q, i), q0, sizeof q0);
            memcpy(row(k, i), k0, sizeof k0);
        }
        tensor *tq = rope(&b.run, q, t), *tk = rope(&b.run, k, t);
        const double norm = sqrt((double)kern->dot(q0, q0, E)),
                     size = norm * sqrt((double)kern->dot(k0, k0, E));
        for (int m = 0; m < T; m++) {
            assert_true(fabs(sqrt((double)kern->dot(row(tq, m), row(tq, m), E)) - norm) <
                        1e-5 * norm);
            for (int n = 0; n <= m; n++) {
                const real score = kern->dot(row(tq, m), row(tk, n), E);
                if (n == 0)
                    by_distance[m] = score;
                assert_true(fabs((double)(score - by_distance[m - n])) <
                            (EXACT ? 1e-12 : 2e-6) * size);
            }
        }
        arena_free(&store);
        bench_free(&b);
    }
}

/* The three branches, with Llama 3.1's numbers: 8, 1, 4, 8192. */
static void rope_llama3_branches(void **state)
{
    (void)state;
    enum { E = 128 };
    const rope_spec plain = { .n_rot = E, .d_head = E, .theta = 500000 };
    rope_spec scaled = plain;
    scaled.scaling = ROPE_LLAMA3;
    scaled.factor = 8;
    scaled.low_freq = 1;
    scaled.high_freq = 4;
    scaled.old_ctx = 8192;
    double f[E / 2], g[E / 2];
    int kept = 0, divided = 0, between = 0;
    assert_true(rope_frequencies(&plain, f) == 1);
    assert_true(rope_frequencies(&scaled, g) == 1);
    for (int k = 0; k < E / 2; k++) {
        assert_true(fabs(f[k] / pow(500000, -2.0 * k / E) - 1) <
                    1e-14); /* theta^(-2k/d), not -k/d */
        const double wave = 2 * 3.14159265358979323846 / f[k];
        if (wave < 2048)
            kept += g[k] == f[k];
        else if (wave > 8192)
            divided += g[k] == f[k] / 8;
        else
            between += g[k] > f[k] / 8 && g[k] < f[k];
    }
    print_message("%d frequencies kept, %d between, %d divided by 8\n", kept, between, divided);
    assert_int_equal(kept + divided + between, E / 2);
    assert_true(kept > 0 && divided > 0 && between > 0);
}

/* ---- attention ------------------------------------------------------------------------------- */

typedef struct attention_case {
    attn a;
    int n_seq, length;
    int64_t n_bucket;
} attention_case;

/* Twice as precise as real: if long double is emulated, sums over all pairs of rows are
 * expensive. */
#ifdef WEFT_REAL_DOUBLE
typedef long double wide;
#else
typedef double wide;
#endif

/* The textbook: all scores of a row, masked with -1e9 instead of by index, softmax, weighted
 * sum. */
static void naive_attention(const attention_case *c, const tensor *q, const tensor *k,
                            const tensor *v, const real *bias, real *y)
{
    const attn *a = &c->a;
    const int T = c->length;
    wide *s = malloc(sizeof *s * (size_t)T);
    for (int i = 0; i < c->n_seq * T; i++)
        for (int64_t h = 0; h < a->n_head; h++) {
            const int64_t g = h / (a->n_head / a->n_head_kv);
            wide max = -INFINITY, sum = 0;
            for (int j = 0; j < T; j++) {
                const int at = i / T * T + j, p = i % T;
                s[j] = 0;
                for (int64_t e = 0; e < a->d_key; e++)
                    s[j] += (wide)row(q, i)[h * a->d_key + e] * row(k, at)[g * a->d_key + e];
                s[j] *= a->scale;
                if (bias) { /* one bucket per distance up to n - 1 */
                    const int64_t d = p - j < 0 ? 0 : p - j,
                                  b = d < c->n_bucket - 1 ? d : c->n_bucket - 1;
                    s[j] += bias[b * a->n_head + h];
                }
                if (a->cap > 0)
                    s[j] = a->cap * tanh(s[j] / a->cap);
                const bool hidden = (a->kind == ATTN_CAUSAL && j > p) ||
                                    (a->window && p - j >= a->window);
                if (hidden)
                    s[j] += (wide)-1e9;
                max = fmax(max, s[j]);
            }
            for (int j = 0; j < T; j++)
                sum += s[j] = exp(s[j] - max);
            if (a->sink)
                sum += exp((wide)values(a->sink)[h] - max);
            for (int64_t e = 0; e < a->d_value; e++) {
                wide o = 0;
                for (int j = 0; j < T; j++)
                    o += s[j] * row(v, i / T * T + j)[g * a->d_value + e];
                y[(i * a->n_head + h) * a->d_value + e] = (real)(o / sum);
            }
        }
    free(s);
}

/* The same in real, every sum in sequence: the plain formula. */
static void plain_attention(const attention_case *c, const tensor *q, const tensor *k,
                            const tensor *v, real *y)
{
    const attn *a = &c->a;
    real *s = malloc(sizeof *s * (size_t)c->length);
    for (int u = 0; u < c->length * (int)a->n_head; u++) {
        const int64_t i = u / a->n_head, h = u % a->n_head, g = h * a->n_head_kv / a->n_head;
        real max = -INFINITY, sum = 0;
        for (int64_t j = 0; j <= i; j++) {
            s[j] = 0;
            for (int64_t e = 0; e < a->d_key; e++)
                s[j] += row(q, i)[h * a->d_key + e] * row(k, j)[g * a->d_key + e];
            s[j] *= a->scale;
            max = s[j] > max ? s[j] : max;
        }
        for (int64_t j = 0; j <= i; j++)
            sum += s[j] = exp(s[j] - max);
        for (int64_t e = 0; e < a->d_value; e++) {
            real o = 0;
            for (int64_t j = 0; j <= i; j++)
                o += s[j] / sum * row(v, j)[g * a->d_value + e];
            y[u * a->d_value + e] = o;
        }
    }
    free(s);
}

static double rms(const real *a, const real *b, int64_t n)
{
    double sum = 0;
    for (int64_t k = 0; k < n; k++)
        sum += (double)(a[k] - b[k]) * (double)(a[k] - b[k]);
    return sqrt(sum / (double)n);
}

/* Blocks, pages and merging cost no precision: at most twice the error of the plain formula. */
static void attention_no_worse_than_plain(void **state)
{
    (void)state;
    const int length = quick() ? 300 : 600; /* two blocks of keys or three */
    attention_case c = {
        .a = { ATTN_CAUSAL, 4, 2, 64, 64, 0.125f, 0, { 0 }, 0, NULL }, 1, length, 0
    };
    for (int t = 0; table_f32(t); t++) {
        bench b;
        bench_init(&b, 2);
        b.run.kern = table_f32(t);
        bench_rows(&b, 1, c.length, 0);
        const int64_t N = b.batch.n_row, size = N * 256;
        tensor *q = normal(&b, "q", N, 256, 20), *k = normal(&b, "k", N, 128, 21);
        tensor *v = normal(&b, "v", N, 128, 22), *y = attention(&b.run, q, k, v, &c.a, 0);
        real *want = malloc((size_t)size * sizeof *want),
             *plain = malloc((size_t)size * sizeof *want);
        naive_attention(&c, q, k, v, NULL, want);
        plain_attention(&c, q, k, v, plain);
        const double fused = rms(y->data, want, size), naive = rms(plain, want, size);
        print_message("%s: error %.2e, of the plain formula %.2e\n", b.run.kern->name, fused,
                      naive);
        assert_true(fused <= 2 * naive);
        free(want), free(plain);
        bench_free(&b);
    }
}

static void check_attention(const attention_case *of, bool sinks)
{
    bench b;
    attention_case with = *of;
    const attention_case *c = &with;
    const attn *a = &c->a;
    bench_init(&b, 2);
    bench_rows(&b, c->n_seq, c->length, 0);
    with.a.sink = sinks ? normal(&b, "sink", 1, a->n_head, 23) : NULL;
    const int64_t N = b.batch.n_row, size = N * a->n_head * a->d_value;
    tensor *q = normal(&b, "q", N, a->n_head * a->d_key, 20),
           *k = normal(&b, "k", N, a->n_head_kv * a->d_key, 21);
    tensor *v = normal(&b, "v", N, a->n_head_kv * a->d_value, 22);
    tensor *y = attention(&b.run, q, k, v, a, 0);
    real *want = malloc((size_t)size * sizeof *want);
    naive_attention(c, q, k, v, NULL, want);
    assert_close("attention", y->data, want, size, EXACT ? 1e-13 : 3e-6);
    free(want);
    bench_free(&b);
}

static void attention_formula(void **state)
{
    (void)state;
    const attention_case cases[] = {
        { { ATTN_CAUSAL, 1, 1, 1, 1, 1, 0, { 0 }, 0, NULL }, 1, 1, 0 },
        { { ATTN_CAUSAL, 4, 4, 8, 8, (real)0.35, 0, { 0 }, 0, NULL }, 1, 70, 0 },
        { { ATTN_CAUSAL, 4, 2, 8, 8, (real)0.35, 0, { 0 }, 0, NULL }, 3, 33, 0 },
        { { ATTN_CAUSAL, 6, 1, 5, 7, (real)0.4, 0, { 0 }, 0, NULL },
          2,
          41,
          0 }, /* MQA, values wider than keys */
        { { ATTN_CAUSAL, 2, 2, 16, 16, (real)0.25, 0, { 0 }, 0, NULL },
          1,
          600,
          0 }, /* three blocks of keys */
        { { ATTN_CAUSAL, 2, 1, 16, 16, (real)0.25, 300, { 0 }, 0, NULL },
          1,
          600,
          0 }, /* a window across blocks */
        { { ATTN_CAUSAL, 2, 1, 16, 16, (real)0.25, 1, { 0 }, 0, NULL },
          1,
          30,
          0 }, /* only itself */
        { { ATTN_FULL, 3, 3, 9, 9, (real)0.33, 0, { 0 }, 0, NULL }, 4, 29, 0 },
        { { ATTN_FULL, 2, 2, 8, 8, (real)0.35, 0, { 0 }, 0, NULL }, 1, 520, 0 },
        { { ATTN_CAUSAL, 4, 2, 8, 8, 1, 0, { 0 }, 2, NULL }, 2, 300, 0 },
        { { ATTN_CAUSAL, 4, 2, 8, 8, 1, 17, { 0 }, (real)0.5, NULL }, 1, 90, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int sinks = 0; sinks < 2; sinks++)
            check_attention(&cases[i], sinks);
}

/* Cross-attention: queries of two sequences, keys of sources of other lengths; and a source without
 * rows gives zeros. */
static void attention_cross(void **state)
{
    (void)state;
    bench b;
    bench_init(&b, 2);
    const attn a = { ATTN_CROSS, 4, 2, 8, 6, (real)0.35, 0, { 0 }, 0, NULL };
    batch_row src_row[12];
    sequence src_seq[3] = { { .first = 0, .n = 5, .source = -1 },
                            { .first = 5, .n = 7, .source = -1 },
                            { .first = 12, .n = 0, .source = -1 } };
    for (int i = 0; i < 12; i++)
        src_row[i] = (batch_row){ .seq = i >= 5, .pos = i < 5 ? i : i - 5 };
    const batch src = { .n_row = 12, .n_seq = 3, .row = src_row, .seq = src_seq };
    bench_rows(&b, 3, 4, 10);
    for (int s = 0; s < 3; s++)
        b.seq[s].source = s;
    b.run.at.src = &src;
    tensor *q = normal(&b, "q", 12, 32, 20), *k = normal(&b, "k", 12, 16, 21),
           *v = normal(&b, "v", 12, 12, 22);
    tensor *y = attention(&b.run, q, k, v, &a, 0);
    for (int i = 0; i < 12; i++)
        for (int h = 0; h < 4; h++) {
            const sequence *s = &src_seq[i / 4];
            long double weight_of[7], sum = 0;
            for (int j = 0; j < s->n; j++) {
                long double x = 0;
                for (int e = 0; e < 8; e++)
                    x += (long double)row(q, i)[h * 8 + e] * row(k, s->first + j)[h / 2 * 8 + e];
                sum += weight_of[j] = expl(x * a.scale);
            }
            for (int e = 0; e < 6; e++) {
                long double o = 0;
                for (int j = 0; j < s->n; j++)
                    o += weight_of[j] / sum * row(v, s->first + j)[h / 2 * 6 + e];
                assert_true(fabsl(o - row(y, i)[h * 6 + e]) < (EXACT ? 1e-13L : 2e-6L));
                if (s->n == 0)
                    assert_true(row(y, i)[h * 6 + e] == 0);
            }
        }
    bench_free(&b);
}

/* ---- where attention came from ---------------------------------------------------------------- */

/* Kernel regression; and a query that is far from all keys gives zeros, but not with the gaussian
 * or the constant. */
static void kernel_pool_formula(void **state)
{
    (void)state;
    enum { N = 6, M = 9, E = 2, D = 3 };
    for (int kind = KERNEL_GAUSSIAN; kind <= KERNEL_CONSTANT; kind++)
        for (int others = 0; others < 2; others++) {
            bench b;
            bench_init(&b, 2);
            bench_rows(&b, 1, N, 0);
            tensor *q = normal(&b, "q", N, E, 50), *k = normal(&b, "k", M, E, 51);
            tensor *v = normal(&b, "v", M, D, 52), *s = normal(&b, "s", 1, 1, 53);
            row(s, 0)[0] = (real)0.2;
            row(q, N - 1)[0] = 100;
            tensor *y = kernel_pool(&b.run, q, k, v, s, (kernel_kind)kind, others);
            for (int i = 0; i < N; i++) {
                long double sum = 0, o[D] = { 0 }, top = INFINITY, t[M];
                for (int j = 0; j < M; j++) {
                    t[j] = 0;
                    for (int e = 0; e < E; e++)
                        t[j] += powl(((long double)row(q, i)[e] - row(k, j)[e]) /
                                         expl((long double)row(s, 0)[0]),
                                     2);
                    if (!(others && i == j))
                        top = fminl(top, t[j]);
                }
                for (int j = 0; j < M; j++) {
                    const long double w = others && i == j          ? 0
                                          : kind == KERNEL_GAUSSIAN ? expl((top - t[j]) / 2)
                                          : kind == KERNEL_BOXCAR   ? t[j] <= 1
                                          : kind == KERNEL_CONSTANT ? 1
                                                                    : fmaxl(0, 1 - t[j]);
                    sum += w;
                    for (int c = 0; c < D; c++)
                        o[c] += w * row(v, j)[c];
                }
                for (int c = 0; c < D; c++)
                    assert_true(fabsl((sum > 0 ? o[c] / sum : 0) - row(y, i)[c]) <
                                (EXACT ? 1e-12L : 2e-5L));
                if (i == N - 1)
                    assert_int_equal(sum > 0, kind == KERNEL_GAUSSIAN || kind == KERNEL_CONSTANT);
            }
            bench_free(&b);
        }
}

/* Three sequences and their sources: of a few rows, of more than a block of keys, of none. */
typedef struct trio {
    batch_row row[400];
    sequence seq[3];
    batch batch;
} trio;

static void trio_init(trio *t, bench *b)
{
    const int32_t length[] = { 5, 300, 0 };
    int32_t at = 0;
    t->batch = (batch){ .n_seq = 3, .row = t->row, .seq = t->seq };
    for (int s = 0; s < 3; s++) {
        t->seq[s] = (sequence){ .first = at, .n = length[s], .source = -1 };
        for (int32_t i = 0; i < length[s]; i++)
            t->row[at++] = (batch_row){ .seq = s, .pos = i };
        b->seq[s].source = s;
    }
    t->batch.n_row = at;
    b->run.at.src = &t->batch;
}

enum { TRIO_A = 7, TRIO_D = 6 };

/* What query q sees of a source. */
static void naive_additive(const long double *q, const tensor *k, const tensor *v,
                           const tensor *score, const sequence *s, long double *o)
{
    long double sum = 0;
    for (int c = 0; c < TRIO_D; c++)
        o[c] = 0;
    for (int j = s->first; j < s->first + s->n; j++) {
        long double x = 0;
        for (int e = 0; e < TRIO_A; e++)
            x += row(score, 0)[e] * tanhl(q[e] + row(k, j)[e]);
        sum += expl(x);
        for (int c = 0; c < TRIO_D; c++)
            o[c] += expl(x) * row(v, j)[c];
    }
    for (int c = 0; c < TRIO_D && sum > 0; c++)
        o[c] /= sum;
}

static void additive_formula(void **state)
{
    (void)state;
    bench b;
    trio t;
    bench_init(&b, 2);
    bench_rows(&b, 3, 4, 0);
    trio_init(&t, &b);
    tensor *q = normal(&b, "q", 12, TRIO_A, 60), *k = normal(&b, "k", 305, TRIO_A, 61);
    tensor *v = normal(&b, "v", 305, TRIO_D, 62), *w = normal(&b, "w", 1, TRIO_A, 63);
    tensor *y = additive(&b.run, q, k, v, w);
    for (int i = 0; i < 12; i++) {
        long double asked[TRIO_A], o[TRIO_D];
        for (int e = 0; e < TRIO_A; e++)
            asked[e] = row(q, i)[e];
        naive_additive(asked, k, v, w, &t.seq[i / 4], o);
        for (int c = 0; c < TRIO_D; c++)
            assert_true(fabsl(o[c] - row(y, i)[c]) < (EXACT ? 1e-13L : 3e-6L));
    }
    bench_free(&b);
}

/* One step: h becomes the next state. */
static void naive_gru(long double *h, const long double *x, const weight *state)
{
    const real *u = state->w->data, *bias = state->b->data;
    long double of[3 * TRIO_D], next[TRIO_D];
    for (int o = 0; o < 3 * TRIO_D; o++) {
        of[o] = bias[o];
        for (int k = 0; k < TRIO_D; k++)
            of[o] += u[o * TRIO_D + k] * h[k];
    }
    for (int k = 0; k < TRIO_D; k++) {
        const long double r = 1 / (1 + expl(-x[k] - of[k]));
        const long double z = 1 / (1 + expl(-x[TRIO_D + k] - of[TRIO_D + k]));
        const long double n = tanhl(x[2 * TRIO_D + k] + r * of[2 * TRIO_D + k]);
        next[k] = (1 - z) * n + z * h[k];
    }
    memcpy(h, next, sizeof next);
}

/* Sequences of four, three and two rows, each step separately; with and without a source. */
static void gru_formula(void **state)
{
    (void)state;
    weight u = stored_weight(&dtype_real, 3 * TRIO_D, TRIO_D, true);
    weight ask = stored_weight(&dtype_real, TRIO_A, TRIO_D, false);
    weight context = stored_weight(&dtype_real, 3 * TRIO_D, TRIO_D, false);
    for (int attends = 0; attends < 2; attends++) {
        bench b;
        trio t;
        bench_init(&b, 2);
        bench_rows(&b, 3, 4, 0);
        b.seq[1].n = 3;
        b.seq[2] = (sequence){ .first = 7, .n = 2 };
        b.batch.n_row = 9;
        trio_init(&t, &b);
        tensor *x = normal(&b, "x", 9, 3 * TRIO_D, 64), *k = normal(&b, "k", 305, TRIO_A, 61);
        tensor *v = normal(&b, "v", 305, TRIO_D, 62), *w = normal(&b, "w", 1, TRIO_A, 63);
        const additive_attn look = { ask, context, w };
        tensor *y = attends ? gru_attend(&b.run, x, v, k, &u, &look, 0) : gru(&b.run, x, &u);
        for (int s = 0; s < 3; s++) {
            const sequence *from = &t.seq[s];
            long double h[TRIO_D] = { 0 }, q[TRIO_A] = { 0 }, seen[TRIO_D] = { 0 };
            for (int c = 0; c < TRIO_D && attends && from->n > 0; c++)
                h[c] = row(v, from->first + from->n - 1)[c];
            for (int i = b.seq[s].first; i < b.seq[s].first + b.seq[s].n; i++) {
                long double in[3 * TRIO_D];
                for (int e = 0; e < TRIO_A; e++) {
                    q[e] = 0;
                    for (int c = 0; c < TRIO_D; c++)
                        q[e] += ((real *)ask.w->data)[e * TRIO_D + c] * h[c];
                }
                if (attends)
                    naive_additive(q, k, v, w, from, seen);
                for (int o = 0; o < 3 * TRIO_D; o++) {
                    in[o] = row(x, i)[o];
                    for (int c = 0; c < TRIO_D; c++)
                        in[o] += ((real *)context.w->data)[o * TRIO_D + c] * seen[c];
                }
                naive_gru(h, in, &u);
                for (int c = 0; c < TRIO_D; c++)
                    assert_true(fabsl(h[c] - row(y, i)[c]) < (EXACT ? 1e-12L : 3e-5L));
            }
        }
        bench_free(&b);
    }
    weight_free(&u);
    weight_free(&ask);
    weight_free(&context);
}

/* The relative-position table of T5, with one bucket per distance. */
static void attention_bias_table(void **state)
{
    (void)state;
    bench b;
    bench_init(&b, 2);
    enum { T = 9, BUCKETS = 32, H2 = 2, E = 4 };
    bench_rows(&b, 2, T, 0);
    tensor *table = normal(&b, "rel", BUCKETS, H2, 23);
    attention_case c = {
        { ATTN_CAUSAL, H2, H2, E, E, 1, 0, { table, false, 128 }, 0, NULL }, 2, T, BUCKETS
    };
    tensor *q = normal(&b, "q", 2 * T, H2 * E, 20), *k = normal(&b, "k", 2 * T, H2 * E, 21);
    tensor *v = normal(&b, "v", 2 * T, H2 * E, 22);
    real want[2 * T * H2 * E];
    naive_attention(&c, q, k, v, row(table, 0), want);
    assert_close("attention with bias", attention(&b.run, q, k, v, &c.a, 0)->data, want,
                 2 * T * H2 * E, EXACT ? 1e-13 : 3e-6);
    bench_free(&b);
}

/* Where transformers' T5 changes buckets, for 32 buckets and a greatest distance of 128: { key -
 * query, bucket from there on }. The scores of a query of zeros are the table itself, and the table
 * holds its own indices. */
static const int two_sided[][2] = {
    { -300, 15 }, { -90, 14 }, { -63, 13 }, { -45, 12 }, { -31, 11 }, { -22, 10 }, { -15, 9 },
    { -11, 8 },   { -7, 7 },   { -6, 6 },   { -5, 5 },   { -4, 4 },   { -3, 3 },   { -2, 2 },
    { -1, 1 },    { 0, 0 },    { 1, 17 },   { 2, 18 },   { 3, 19 },   { 4, 20 },   { 5, 21 },
    { 6, 22 },    { 7, 23 },   { 8, 24 },   { 12, 25 },  { 16, 26 },  { 23, 27 },  { 32, 28 },
    { 46, 29 },   { 64, 30 },  { 91, 31 },  { 301, 0 },
};
static const int one_sided[][2] = {
    { -300, 31 }, { -112, 30 }, { -98, 29 }, { -86, 28 }, { -76, 27 }, { -66, 26 }, { -58, 25 },
    { -51, 24 },  { -45, 23 },  { -39, 22 }, { -34, 21 }, { -30, 20 }, { -26, 19 }, { -23, 18 },
    { -20, 17 },  { -18, 16 },  { -15, 15 }, { -14, 14 }, { -13, 13 }, { -12, 12 }, { -11, 11 },
    { -10, 10 },  { -9, 9 },    { -8, 8 },   { -7, 7 },   { -6, 6 },   { -5, 5 },   { -4, 4 },
    { -3, 3 },    { -2, 2 },    { -1, 1 },   { 0, 0 },    { 301, 0 },
};

static const int (*expected)[2];

static void check_buckets(void *ud, const tensor *t, const op *by)
{
    (void)by;
    if (!strstr(t->name, "scores"))
        return;
    int *checked = ud;
    for (int64_t i = 0; i < rows(t); i++)
        for (int64_t j = 0; j < cols(t); j++) {
            const int64_t distance = j - i;
            int at = 0;
            while (expected[at + 1][0] <= distance)
                at++;
            if (isfinite(row(t, i)[j]))
                assert_int_equal((int)row(t, i)[j], expected[at][1]);
            *checked += isfinite(row(t, i)[j]);
        }
}

static void attention_buckets(void **state)
{
    (void)state;
    for (int two = 0; two < 2; two++) {
        bench b;
        int checked = 0;
        bench_init(&b, 1);
        bench_rows(&b, 1, 300, 0);
        tensor *table = tensor_new(&b.run, 32, 1), *zero = tensor_new(&b.run, 300, 2);
        memset(zero->data, 0, sizeof(real[600]));
        for (int i = 0; i < 32; i++)
            row(table, i)[0] = (real)i;
        const attn a = { two ? ATTN_FULL : ATTN_CAUSAL, 1, 1,   2, 2, 1, 0,
                         { table, two, 128 },           0, NULL };
        expected = two ? two_sided : one_sided;
        b.run.show.maps = true;
        b.run.trace = check_buckets;
        b.run.trace_ud = &checked;
        attention(&b.run, zero, zero, zero, &a, 0);
        assert_int_equal(checked, two ? 300 * 300 : 300 * 301 / 2);
        bench_free(&b);
    }
}

/* Columns [from, from + n) of x as a separate tensor. */
static tensor *head_of(bench *b, const tensor *x, int64_t from, int64_t n)
{
    tensor *y = tensor_new(&b->run, rows(x), n);
    for (int64_t i = 0; i < rows(x); i++)
        memcpy(row(y, i), row(x, i) + from, (size_t)n * sizeof(real));
    return y;
}

/* Sharing heads is only indexing: head h of H over K has the bits of a single head with the keys
 * and values of head h / (H / K). K = H is multi-head attention, where each has its own; K = 1
 * multi-query, where all read the same. */
static void attention_groups_are_indices(void **state)
{
    (void)state;
    enum { H = 6, E = 8, T = 40 };
    for (int K = 1; K <= H; K++) {
        if (H % K)
            continue;
        bench b;
        bench_init(&b, 2);
        bench_rows(&b, 1, T, 0);
        const attn shared = { ATTN_CAUSAL, H, K, E, E, (real)0.35, 0, { 0 }, 0, NULL };
        const attn alone = { ATTN_CAUSAL, 1, 1, E, E, (real)0.35, 0, { 0 }, 0, NULL };
        tensor *q = normal(&b, "q", T, H * E, 20), *k = normal(&b, "k", T, K * E, 21),
               *v = normal(&b, "v", T, K * E, 22);
        const tensor *y = attention(&b.run, q, k, v, &shared, 0);
        for (int h = 0; h < H; h++) {
            const int kv = h / (H / K);
            tensor *q1 = head_of(&b, q, h * E, E), *k1 = head_of(&b, k, kv * E, E),
                   *v1 = head_of(&b, v, kv * E, E);
            const tensor *want = attention(&b.run, q1, k1, v1, &alone, 0);
            for (int i = 0; i < T; i++)
                assert_memory_equal(row(y, i) + h * E, row(want, i), sizeof(real[E]));
        }
        bench_free(&b);
    }
}

static void attention_properties(void **state)
{
    (void)state;
    enum { H = 2, E = 16, T = 300, CHANGED = 280 };
    bench b;
    bench_init(&b, 2);
    bench_rows(&b, 1, T, 0);
    const attn a = { ATTN_CAUSAL, H, H, E, E, (real)0.25, 0, { 0 }, 0, NULL };
    tensor *q = normal(&b, "q", T, H * E, 20), *k = normal(&b, "k", T, H * E, 21),
           *v = normal(&b, "v", T, H * E, 22);
    tensor *ones = tensor_new(&b.run, T, H * E);
    for (int i = 0; i < T * H * E; i++)
        row(ones, 0)[i] = 3;
    tensor *constant = attention(&b.run, q, k, ones, &a, 0),
           *before = attention(&b.run, q, k, v, &a, 0);
    for (int i = 0; i < T * H * E; i++)
        assert_true(fabs((double)row(constant, 0)[i] - 3) < 1e-5);
    for (int i = CHANGED; i < T; i++) /* the future changes */
        fill_normal(row(k, i), H * E, 99, (uint64_t)i, 100);
    tensor *after = attention(&b.run, q, k, v, &a, 0);
    assert_memory_equal(before->data, after->data, sizeof(real[CHANGED * H * E]));
    assert_true(memcmp(row(before, T - 1), row(after, T - 1), sizeof(real[H * E])) != 0);
    bench_free(&b);
}

/* ---- apply ----------------------------------------------------------------------------------- */

typedef struct seen {
    int n;
    char name[16][NAME_BYTES];
} seen;

static void see(void *ud, const tensor *t, const op *by)
{
    (void)by;
    seen *s = ud;
    memcpy(s->name[s->n++ % 16], t->name, NAME_BYTES);
}

static void apply_names_profiles_and_hunts(void **state)
{
    (void)state;
    bench b;
    seen s = { 0 };
    profile p = { 0 };
    bench_init(&b, 2);
    bench_rows(&b, 1, 4, 0);
    arena store;
    const rope_spec spec = { .n_rot = 8, .d_head = 8, .theta = 10000 };
    const rope_table *t = table_of(&b, spec, 16, &store);
    weight w = stored_weight(&dtype_real, 8, 16, false);
    w.name = "blk.3.attn_q";
    b.run.trace = see;
    b.run.trace_ud = &s;
    b.run.profile = &p;
    b.run.hunt_nan = true;
    strcpy(b.run.at.scope, "blk.3");
    tensor *x = normal(&b, "x", 4, 16, 1), *q = linear(&b.run, x, &w);
    q = rope(&b.run, q, t);
    slice(&b.run, q, "attn_k", 0, 4);
    assert_string_equal(s.name[0], "blk.3.attn_q");
    assert_string_equal(s.name[1], "blk.3.attn_q.rope");
    assert_string_equal(s.name[2], "blk.3.attn_k");
    assert_int_equal(p.n, 3);
    assert_true(p.entry[0].flops == 2.0 * 4 * 8 * 16 && p.entry[0].calls == 1 &&
                p.entry[0].seconds >= 0);
    assert_string_equal(b.run.at.first_nan, "");
    row(x, 2)[3] = NAN;
    x->id = 0;
    tensor *bad = linear(&b.run, x, &w);
    softmax(&b.run, bad);
    assert_string_equal(b.run.at.first_nan, "blk.3.attn_q");
    weight_free(&w);
    arena_free(&store);
    bench_free(&b);
}

static void every_op_is_whole(void **state)
{
    (void)state;
    int n = 0;
    for (; all_ops[n]; n++) {
        assert_non_null(all_ops[n]->name);
        assert_non_null(all_ops[n]->formula);
        assert_non_null(all_ops[n]->forward);
        assert_non_null(all_ops[n]->cost);
        for (int k = 0; k < n; k++)
            assert_string_not_equal(all_ops[n]->name, all_ops[k]->name);
    }
    assert_true(n >= 19);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("linear: equals its formula for every stored type, odd shapes, more than a tile",
             linear_formula),
        TEST("linear: a row alone, among others and on 1, 2, 4 threads is the same bits",
             linear_rows_alone),
        TEST("rmsnorm, layernorm: equal their formulas at every width", norm_formulas),
        TEST("rmsnorm: scaling the input changes nothing", rmsnorm_scale_law),
        TEST("act: relu, silu, gelu exact and tanh equal their formulas", act_formulas),
        TEST("glu: equals linear, linear, act, multiply bit by bit", glu_is_its_parts),
        TEST("linear_heads: a head is linear with its rows of W, or their transpose",
             heads_are_linear),
        TEST("join_heads: columns side by side, per head or shared", heads_are_joined),
        TEST("moe: a weighted sum of its experts, chosen by the rule", moe_is_its_parts),
        TEST("moe: a row alone, among others and on 1, 2, 4 threads is the same bits",
             moe_rows_alone),
        TEST("softmax: sums to one, ignores a shift, handles 1e4 and -inf", softmax_properties),
        TEST("embed, take_rows, pool_rows: pick the right rows", embed_take_pool),
        TEST("features, put_row: rows come from the batch, or are a vector", features_put_row),
        TEST("l2norm: rows get length 1, and zero stays zero", l2norm_reference),
        TEST("residual: the input of a block stays unchanged", residual_keeps_what_entered),
        TEST("rope: positions to 131071 equal the double reference, both pairings",
             rope_long_positions),
        TEST("rope: keeps the norm, and q.k depends on the distance only", rope_is_a_rotation),
        TEST("rope: llama3 scaling keeps, blends and divides by wavelength", rope_llama3_branches),
        TEST("attention: the error is at most twice that of the plain formula",
             attention_no_worse_than_plain),
        TEST("attention: equals the padded textbook softmax, all masks", attention_formula),
        TEST("kernel_pool: the formula of each kernel", kernel_pool_formula),
        TEST("additive: the formula, across blocks of keys and without keys", additive_formula),
        TEST("gru: the formula, alone and attending to a source", gru_formula),
        TEST("attention: cross reads its source, and an empty source gives zeros", attention_cross),
        TEST("attention: the bias table is added by distance", attention_bias_table),
        TEST("attention: buckets of distances are those of transformers' T5", attention_buckets),
        TEST("attention: GQA with g = H is MHA and g = 1 is MQA, bit by bit",
             attention_groups_are_indices),
        TEST("attention: a constant stays, future tokens do not matter", attention_properties),
        TEST("apply: names, profiles, and finds the first NaN", apply_names_profiles_and_hunts),
        TEST("ops: every op has a unique name, a forward and a cost", every_op_is_whole),
    };
    int failed = 0;
    for (int i = 0; (kern = quick() ? table_f32(i) : table_i8(i)) != NULL; i++) {
        print_message("kernels: %s\n", kern->name);
        failed += RUN(tests);
    }
    return failed;
}
