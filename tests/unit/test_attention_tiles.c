/* Attention over more pairs than a tile has and more keys than a block: what a query gets, in either
 * direction, depends neither on the queries beside it nor on the threads. The formula is the subject
 * of test_ops, the derivative of test_grad_long. */
#include "op_bench.h"

#include "ops/attention_tile.h"
#include "tensor/tape.h"

typedef struct tile_case {
    const char *name;
    attn a;
    int length;
} tile_case;

/* Tiles end inside rows, pages and blocks; heads of 20 values are no whole vectors. */
static const tile_case cases[] = {
    { "grouped heads", { ATTN_CAUSAL, 4, 2, 32, 32, 0.2f, 0, { 0 }, 0, NULL }, 530 },
    { "one head of keys", { ATTN_CAUSAL, 3, 1, 64, 32, 0.2f, 0, { 0 }, 0, NULL }, 300 },
    { "a head of each", { ATTN_CAUSAL, 2, 2, 20, 20, 0.3f, 0, { 0 }, 0, NULL }, 420 },
    { "window", { ATTN_CAUSAL, 4, 2, 32, 32, 0.2f, 150, { 0 }, 0, NULL }, 530 },
    { "cap", { ATTN_CAUSAL, 2, 1, 32, 32, 0.5f, 0, { 0 }, 2, NULL }, 300 },
    { "negative scale", { ATTN_CAUSAL, 2, 1, 32, 32, -0.2f, 0, { 0 }, 0, NULL }, 300 },
    { "wide heads", { ATTN_CAUSAL, 2, 1, 576, 512, 0.05f, 0, { 0 }, 0, NULL }, 290 },
};
#define N_CASE (sizeof cases / sizeof *cases)

#define MAX_PAGE 16

/* A cache of one layer. */
typedef struct store {
    stream stream[2];
    cache_layout layout;
    cache cache;
    char *page[MAX_PAGE];
} store;

static void store_init(store *s, const tile_case *c, const dtype *type)
{
    const int64_t width[] = { c->a.n_head_kv * c->a.d_key, c->a.n_head_kv * c->a.d_value };
    size_t bytes = 0;
    for (int i = 0; i < 2; i++) {
        s->stream[i] = (stream){ i ? "v" : "k", width[i], bytes, dtype_row_bytes(type, width[i]) };
        bytes += PAGE_ROWS * s->stream[i].row_bytes;
    }
    s->layout = (cache_layout){ type, 1, 2, s->stream, bytes };
    s->cache = (cache){ &s->layout, s->page, MAX_PAGE, c->length };
    for (int p = 0; p < MAX_PAGE; p++) {
        s->page[p] = malloc(bytes);
        memset(s->page[p], 0xFF, bytes); /* NaN, if a key beyond the last is read */
    }
}

static void store_free(store *s)
{
    for (int p = 0; p < MAX_PAGE; p++)
        free(s->page[p]);
}

/* Every row of the prompt among all others, then some of them alone. */
static void check_alone(const tile_case *c, const dtype *type, int threads)
{
    bench b;
    store s;
    const attn *a = &c->a;
    bench_init(&b, threads);
    store_init(&s, c, type);
    bench_rows(&b, 1, c->length, 0);
    b.seq[0].cache = &s.cache;
    tensor *q = normal(&b, "q", c->length, a->n_head * a->d_key, 1);
    tensor *k = normal(&b, "k", c->length, a->n_head_kv * a->d_key, 2);
    tensor *v = normal(&b, "v", c->length, a->n_head_kv * a->d_value, 3);
    tensor *y = attention(&b.run, q, k, v, a, 0);
    b.batch.n_row = b.seq[0].n = 1;
    const batch_row first = b.row[0];
    for (int i = 0; i < c->length; i += i < c->length - 5 ? 23 : 1) {
        tensor q1 = *q, k1 = *k, v1 = *v;
        q1.shape[0] = k1.shape[0] = v1.shape[0] = 1;
        q1.data = row(q, i), k1.data = row(k, i), v1.data = row(v, i);
        b.row[0] = first;
        b.row[0].pos = i;
        const tensor *alone = attention(&b.run, &q1, &k1, &v1, a, 0);
        if (memcmp(alone->data, row(y, i), (size_t)cols(y) * sizeof(real)) != 0)
            fail_msg("%s, %s, %d threads, %s: row %d differs alone", kern->name, c->name, threads,
                     type->name, i);
        assert_true(isfinite(row(y, i)[0]));
    }
    store_free(&s);
    bench_free(&b);
}

/* Without the scalar table if there is another and instructions are slow: all share the tiles. */
static const kernels *table(int t)
{
    const kernels *k = table_f32(t);
    return quick() && t > 0 && k == &kernels_scalar ? NULL : k;
}

static void queries_alone(void **state)
{
    (void)state;
    static const dtype *const types[] = { &dtype_f32, &dtype_f16, &dtype_bf16, &dtype_q8_0 };
    for (int t = 0; (kern = table(t)); t++)
        for (size_t i = 0; i < N_CASE; i++)
            for (int k = quick() ? (int)(i + (size_t)t) % 4 : 0; k < 4; k += quick() ? 4 : 1)
                if (cases[i].a.d_key % types[k]->block == 0)
                    check_alone(&cases[i], types[k], quick() || t > 0 ? 2 : 1 << k % 3);
}

/* ---- backward -------------------------------------------------------------------------------- */

enum { DQ, DK, DV, N_GRAD };

typedef struct grads {
    real *of[N_GRAD];
    int64_t size[N_GRAD];
} grads;

/* The gradients of two sequences, malloc'ed. */
static grads gradients(const tile_case *c, int threads)
{
    bench b;
    tape t = { 0 };
    grads g;
    const attn *a = &c->a;
    bench_init(&b, threads);
    bench_rows(&b, 2, c->length, 0);
    tape_begin(&b.run, &t);
    const int64_t N = b.batch.n_row;
    tensor *in[] = { normal(&b, "q", N, a->n_head * a->d_key, 1),
                     normal(&b, "k", N, a->n_head_kv * a->d_key, 2),
                     normal(&b, "v", N, a->n_head_kv * a->d_value, 3) };
    tensor *dy = normal(&b, "dy", N, a->n_head * a->d_value, 4);
    for (int i = 0; i < N_GRAD; i++)
        in[i]->needs_grad = true;
    tensor *y = attention(&b.run, in[0], in[1], in[2], a, 0);
    tape_backward(&b.run, y, dy->data);
    for (int i = 0; i < N_GRAD; i++) {
        g.size[i] = N * cols(in[i]);
        g.of[i] = malloc((size_t)g.size[i] * sizeof(real));
        memcpy(g.of[i], in[i]->grad, (size_t)g.size[i] * sizeof(real));
    }
    bench_free(&b);
    return g;
}

static void grads_free(grads *g)
{
    for (int i = 0; i < N_GRAD; i++)
        free(g->of[i]);
}

/* One pass or two, by the number of threads: four are more than the heads of keys of two texts. */
static void gradients_agree(void **state)
{
    (void)state;
    static const char *const name[] = { "dq", "dk", "dv" };
    for (size_t c = 0; c < N_CASE; c += quick() ? 3 : 1) {
        kern = &kernels_scalar;
        grads want = gradients(&cases[c], 1);
        for (int t = 0; (kern = table(t)); t++) {
            grads one = gradients(&cases[c], 1);
            for (int i = 0; i < N_GRAD; i++)
                assert_close(name[i], one.of[i], want.of[i], one.size[i], 2e-5);
            for (int threads = 2; threads <= 4; threads += quick() ? 2 : 1) {
                grads many = gradients(&cases[c], threads);
                for (int i = 0; i < N_GRAD; i++)
                    if (memcmp(many.of[i], one.of[i], (size_t)one.size[i] * sizeof(real)) != 0)
                        fail_msg("%s, %s: %s differs on %d threads", kern->name, cases[c].name,
                                 name[i], threads);
                grads_free(&many);
            }
            grads_free(&one);
        }
        grads_free(&want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("tiles: a query among others and alone gives the same bits, from every cache",
             queries_alone),
        TEST("tiles: gradients are the scalar table's, with the same bits on 1 to 4 threads",
             gradients_agree),
    };
    return RUN(tests);
}
