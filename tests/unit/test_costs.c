/* The costs that `weft inspect` reports: by the paper's formulas, and by counting the work of the
 * kernels. */
#include "small_model.h"

#include "engine/estimate.h"

enum { D = 64, H = 4, K = 2, E = 16, F = 96, V = 61, L = 2 };

/* ---- kernels that count ---------------------------------------------------------------------- */

/* Two flops per multiply-add of a product; of those, the ones for logits: V rows of D. */
static double flops, head_flops;

static int64_t block_rows(int64_t N, int64_t block0, int64_t block1)
{
    const row_cut c = cut_rows(N, kernels_scalar.rows);
    return block_row(&c, block1) - block_row(&c, block0);
}

static void counted_product(real *y, int64_t y_stride, bool add, const real *a, int64_t N,
                            int64_t J, const row_set *w, bool w_transposed, int64_t block0,
                            int64_t block1, int64_t c0, int64_t c1)
{
    const double these = 2.0 * (double)(block_rows(N, block0, block1) * J * (c1 - c0));
    flops += these;
    head_flops += w_transposed && J == D && c1 == V ? these : 0;
    kernels_scalar.product(y, y_stride, add, a, N, J, w, w_transposed, block0, block1, c0, c1);
}

static kernels counting(void)
{
    kernels k = kernels_scalar;
    k.product = counted_product;
    return k;
}

/* ---- the formulas ---------------------------------------------------------------------------- */

static const int64_t lengths[] = { 40, 130, 320 };
#define N_LENGTH (int)(sizeof lengths / sizeof *lengths)

static const double attention_weights = D * H * E + 2 * D * K * E + H * E * D;
static const double forward_weights = 3 * D * F;

/* The token at the end of T positions: two flops per value of a matrix, and four per value of the
 * keys that each head sees. */
static double attention_flops(int64_t T)
{
    return L * (2 * attention_weights + 4 * (double)(H * E * T));
}

static double token_flops(int64_t T)
{
    return attention_flops(T) + L * 2 * forward_weights + 2 * V * D;
}

static void formulas(void **state)
{
    (void)state;
    fixture_model f;
    weft_error err = { 0 };
    part_cost c[N_LENGTH][N_PART];
    open_typed(&f, &dtype_f32);
    for (int i = 0; i < N_LENGTH; i++) {
        const part_cost *p = c[i];
        const double attention = attention_flops(lengths[i]), forward = L * 2 * forward_weights;
        assert_int_equal(model_cost(&f.model, lengths[i], c[i], &err), WEFT_OK);
        assert_int_equal(p[PART_EMBEDDING].n_parameter, V * D);
        assert_int_equal(p[PART_ATTENTION].n_parameter, L * (D + (int64_t)attention_weights));
        assert_int_equal(p[PART_FEED_FORWARD].n_parameter, L * (D + (int64_t)forward_weights));
        assert_int_equal(p[PART_EMBEDDING].bytes, V * D * 4);
        assert_true(p[PART_EMBEDDING].flops == 0);
        /* norms, rotations and activations count too: a few flops per value of a row */
        assert_true(p[PART_ATTENTION].flops >= attention &&
                    p[PART_ATTENTION].flops <= 1.05 * attention);
        assert_true(p[PART_FEED_FORWARD].flops >= forward &&
                    p[PART_FEED_FORWARD].flops <= 1.05 * forward);
        assert_true(p[PART_HEAD].flops >= 2 * V * D && p[PART_HEAD].flops <= 1.1 * 2 * V * D);
    }
    for (int i = 1; i < N_LENGTH; i++) /* only attention grows, in proportion to the keys */
        for (int k = 0; k < N_PART; k++)
            assert_true(c[i][k].flops - c[0][k].flops ==
                        (k == PART_ATTENTION
                             ? attention_flops(lengths[i]) - attention_flops(lengths[0])
                             : 0));
    close_llama(&f);
}

/* ---- what is done ---------------------------------------------------------------------------- */

/* The last of T tokens, with a cache. */
static double measure_token(fixture_model *f, const kernels *k, int64_t T)
{
    int32_t ids[320];
    story(ids, 320, 3);
    engine *e = make_engine(f, (engine_options){ .n_thread = 1 });
    session *s = make_session(e);
    e->run.kern = k;
    must_feed(s, ids, T - 1);
    flops = 0;
    must_feed(s, ids + T - 1, 1);
    const double took = flops;
    session_free(s);
    engine_free(e);
    return took;
}

static void tokens_as_measured(void **state)
{
    (void)state;
    fixture_model f;
    weft_error err = { 0 };
    part_cost c[N_PART];
    const kernels k = counting();
    open_typed(&f, &dtype_f32);
    for (int i = 0; i < N_LENGTH; i++) {
        double said = 0;
        const double done = measure_token(&f, &k, lengths[i]);
        assert_int_equal(model_cost(&f.model, lengths[i], c, &err), WEFT_OK);
        for (int p = 0; p < N_PART; p++)
            said += c[p].flops;
        print_message("a token at %lld: %.0f flops in products, %.0f by the formula, %.0f said\n",
                      (long long)lengths[i], done, token_flops(lengths[i]), said);
        assert_true(done == token_flops(lengths[i]));
        assert_true(said >= done && said <= 1.05 * done);
    }
    close_llama(&f);
}

/* A prompt of n tokens: n d^2 for the matrices, n^2 d for attention, of which the mask saves up to
 * half: keys are cut into blocks, and those after the last query of a tile are not read. */
static void prompts_as_measured(void **state)
{
    (void)state;
    fixture_model f;
    const kernels k = counting();
    int32_t ids[320];
    story(ids, 320, 3);
    open_typed(&f, &dtype_f32);
    for (int i = 0; i < N_LENGTH; i++) {
        const double n = (double)lengths[i];
        engine *e = make_engine(&f, (engine_options){ .n_thread = 1, .n_batch = 320 });
        session *s = make_session(e);
        e->run.kern = &k;
        flops = head_flops = 0;
        must_feed(s, ids, lengths[i]);
        assert_true(head_flops == 2 * V * D); /* only the last row is projected */
        const double matrices = n * L * 2 * (attention_weights + forward_weights) + 2 * V * D;
        const double all_keys = L * 4 * n * n * H * E, attention = flops - matrices;
        print_message("a prompt of %.0f: %.3g flops in matrices, %.3g in attention, which is %.2f "
                      "of all pairs\n",
                      n, matrices, attention, attention / all_keys);
        assert_true(attention >= all_keys * (n + 1) / (2 * n) && attention <= all_keys);
        session_free(s);
        engine_free(e);
    }
    close_llama(&f);
}

/* Two rows per layer and position, with as many heads as the keys have. */
static void cache_sizes(void **state)
{
    (void)state;
    static const struct {
        const dtype *type;
        size_t bytes; /* of 32 numbers */
    } types[] = {
        { &dtype_f32, 128 }, { &dtype_f16, 64 }, { &dtype_bf16, 64 }, { &dtype_q8_0, 34 }
    };
    for (int64_t kv = 1; kv <= 4; kv *= 2)
        for (int i = 0; i < 4; i++) {
            fixture_model f;
            weft_error err = { 0 };
            engine_plan plan;
            engine_options o = { .kv = types[i].type, .n_thread = 1 };
            llama_shape s = small_shape;
            s.type = &dtype_f32;
            s.d_model = 128; /* heads of 32 */
            s.n_head_kv = kv;
            open_llama(&f, s);
            assert_int_equal(engine_resolve(&f.model, &o, &err), WEFT_OK);
            assert_int_equal(engine_predict(&f.model, &o, NULL, &plan, &err), WEFT_OK);
            assert_int_equal(plan.position, L * 2 * kv * (int64_t)types[i].bytes);
            assert_int_equal(plan.kv, plan.position * PAGE_ROWS * (size_t)plan.n_page);
            close_llama(&f);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("costs: parameters and flops are those of the formulas at three lengths", formulas),
        TEST("costs: a token takes the flops of the formula, at three lengths", tokens_as_measured),
        TEST("costs: a prompt takes n d^2 for matrices and at most n^2 d for attention",
             prompts_as_measured),
        TEST("costs: a position in the cache takes its heads' values in each type", cache_sizes),
    };
    return RUN(tests);
}
