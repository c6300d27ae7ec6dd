/* The engine's promises: the same logits however a session's tokens are fed, memory predicted to
 * the byte, nothing allocated inside a step, all or nothing on error. */
#include "small_model.h"

/* ---- the same answer every time -------------------------------------------------------------- */

enum { LENGTH = 270, STRANGERS = 3, V = 61 }; /* crosses pages of 64 and the block of 256 keys */

typedef struct arrangement {
    engine *engine;
    session *session, *stranger[STRANGERS];
    uint64_t seed;
} arrangement;

static const char *const manner[] = { "whole", "token by token", "in chunks",
                                      "in chunks among strangers",
                                      "in chunks, partly rewound and fed again" };
#define N_MANNER 5

/* Feeds strangers the next tokens of texts of their own, from the start again when they are
 * full. */
static int add_strangers(arrangement *a, work *w, const int32_t *ids, int step)
{
    weft_error err = { 0 };
    int n = 0;
    for (int i = 0; i < STRANGERS; i++) {
        const int64_t take = draw(a->seed, (uint64_t)(step * 10 + i)) % 40;
        session *s = a->stranger[i];
        if (take == 0)
            continue;
        if (s->cache.length + take > LENGTH)
            assert_int_equal(session_rewind(s, 0, &err), WEFT_OK);
        w[n++] = (work){ .session = s, .ids = ids + i, .n = take };
    }
    return n;
}

/* Feeds the text in one of the manners; its logits after the last token are the answer. */
static void feed(arrangement *a, const int32_t *ids, int how, const int32_t *others)
{
    weft_error err = { 0 };
    assert_int_equal(session_rewind(a->session, 0, &err), WEFT_OK);
    for (int64_t at = 0, step = 0; at < LENGTH; step++) {
        int64_t take = how == 0   ? LENGTH
                       : how == 1 ? 1
                                  : 1 + draw(a->seed, (uint64_t)(step * 10 + 9)) % 100;
        if (how == 4 && step == 2) {
            at = at / 2;
            assert_int_equal(session_rewind(a->session, at, &err), WEFT_OK);
        }
        take = take < LENGTH - at ? take : LENGTH - at;
        work w[STRANGERS + 1];
        int n = how == 3 ? add_strangers(a, w, others, (int)step) : 0;
        const int me = n ? (int)(draw(a->seed, (uint64_t)step) % (uint32_t)(n + 1)) : 0;
        for (int i = n; i > me; i--)
            w[i] = w[i - 1];
        w[me] = (work){ .session = a->session, .ids = ids + at, .n = take };
        must_eval(a->engine, w, n + 1);
        at += take;
    }
}

static int distinct_answers(fixture_model *f, const dtype *kv, const kernels *kern, int per_thread,
                            int *tried)
{
    int32_t ids[LENGTH], others[LENGTH];
    float answer[V];
    int distinct = 1;
    bool have = false;
    story(ids, LENGTH, 0);
    story(others, LENGTH, 1);
    for (int threads = 1; threads <= 4; threads *= 2) {
        arrangement a = { 0 };
        a.engine = make_engine(
            f, (engine_options){
                   .n_thread = threads, .n_session = STRANGERS + 1, .n_batch = 128, .kv = kv });
        a.engine->run.kern = kern;
        a.engine->run.fork_cost = 0;
        a.session = make_session(a.engine);
        for (int i = 0; i < STRANGERS; i++)
            a.stranger[i] = make_session(a.engine);
        for (int i = 0; i < per_thread; i++) {
            a.seed = (uint64_t)(threads * 1000 + i);
            feed(&a, ids, i % N_MANNER, others);
            if (!have)
                memcpy(answer, a.session->logits, sizeof answer);
            have = true;
            distinct += memcmp(answer, a.session->logits, sizeof answer) != 0;
            (*tried)++;
        }
        session_free(a.session);
        for (int i = 0; i < STRANGERS; i++)
            session_free(a.stranger[i]);
        engine_free(a.engine);
    }
    return distinct;
}

static void same_answer_every_time(void **state)
{
    (void)state;
    const dtype *const weights[] = { &dtype_f32, &dtype_bf16, &dtype_q8_0, &dtype_q4_0 };
    const dtype *const caches[] = { &dtype_f32, &dtype_f16, &dtype_bf16, &dtype_q8_0 };
    int tried = 0;
    const int each = quick() ? 5 : 10, step = quick() ? 2 : 1;
    for (int w = 0; w < 4; w += step) {
        fixture_model f;
        open_typed(&f, weights[w]);
        for (int t = 0; kernels_table(t); t++)
            for (int c = 0; c < 4; c += step + (step == 2)) {
                const kernels *kern = kernels_table(t);
                const int distinct = distinct_answers(&f, caches[c], kern, each, &tried);
                if (distinct != 1)
                    fail_msg("%s, %s weights, %s cache: %d distinct answers", kern->name,
                             weights[w]->name, caches[c]->name, distinct);
            }
        close_llama(&f);
    }
    print_message("%d arrangements (%s, %s, %s, %s, %s), 1, 2, 4 threads, kernels", tried,
                  manner[0], manner[1], manner[2], manner[3], manner[4]);
    for (int t = 0; kernels_table(t); t++)
        print_message(" %s", kernels_table(t)->name);
    print_message(": 1 distinct answer each\n");
    assert_true(quick() || tried >= 500);
}

/* Every other format that is read, in a model whose rows are one block of 256. */
static void same_answer_in_every_format(void **state)
{
    (void)state;
    const dtype *const weights[] = { &dtype_f16,  &dtype_q4_1, &dtype_q5_0,
                                     &dtype_q5_1, &dtype_q2_k, &dtype_q3_k,
                                     &dtype_q4_k, &dtype_q5_k, &dtype_q6_k };
    const int n = (int)(sizeof weights / sizeof *weights);
    int tried = 0;
    for (int w = quick() ? 4 : 0; w < n; w += quick() ? 4 : 1) {
        fixture_model f;
        llama_shape s = small_shape;
        s.n_layer = 1;
        s.d_model = s.d_ff = 256;
        s.type = weights[w];
        open_llama(&f, s);
        for (int t = 0; t < (quick() ? 1 : 2); t++) {
            const kernels *kern = t ? &kernels_scalar : kernels_table(0);
            const int distinct = distinct_answers(&f, &dtype_f16, kern, N_MANNER, &tried);
            if (distinct != 1)
                fail_msg("%s, %s weights: %d distinct answers", kern->name, weights[w]->name,
                         distinct);
        }
        close_llama(&f);
    }
    print_message("%d arrangements of other formats: 1 distinct answer each\n", tried);
}

/* What a fast matrix product is tempted to do: another order of summation when there are many
 * rows. */
static void tempted_product(real *y, int64_t y_stride, bool add, const real *a, int64_t N,
                            int64_t J, const row_set *w, bool across, int64_t i0, int64_t i1,
                            int64_t c0, int64_t c1)
{
    kernels_scalar.product(y, y_stride, add, a, N, J, w, across, i0, i1, c0, c1);
    real buffer[TILE];
    for (int64_t c = c0; across && N >= 8 && c < c1; c++)
        for (int64_t i = i0; i < i1; i++) {
            const real *t = w->tile(buffer, (const char *)w->data + (size_t)c * w->row_bytes, 0, J);
            real sum = 0;
            for (int64_t k = 0; k < J; k++)
                sum += a[i * J + k] * t[k];
            y[i * y_stride + c] = sum;
        }
}

/* And what threads are tempted to do: an order that depends on how the work was cut among them. */
static void hasty_product(real *y, int64_t y_stride, bool add, const real *a, int64_t N, int64_t J,
                          const row_set *w, bool across, int64_t i0, int64_t i1, int64_t c0,
                          int64_t c1)
{
    (c1 - c0 > 16 ? kernels_scalar.product : tempted_product)(y, y_stride, add, a, N, J, w, across,
                                                              i0, i1, c0, c1);
}

/* In class i8 only the sum over blocks has an order; here many rows sum from the end. */
static void tempted_product_i8(real *y, int64_t y_stride, const void *x, int64_t N, int64_t K,
                               const row_set *w, int64_t o0, int64_t o1)
{
    kernels_scalar.product_i8(y, y_stride, x, N, K, w, o0, o1);
    const rows_i8 p = packed_i8(x, N, K);
    const int64_t n = K / BLOCK_I8;
    for (int64_t u = 0; N >= 8 && u < N * (o1 - o0); u++) {
        const int64_t i = u % N, o = o0 + u / N;
        real *to = &y[i * y_stride + o];
        *to = 0;
        for (int64_t b = n - 1; b >= 0; b--) {
            block_i8 block;
            real sum = 0;
            w->quants(&block, (const char *)w->data + (size_t)o * w->row_bytes, b);
            for (int k = 0; k < BLOCK_I8; k++) {
                const int g = w->form & I8_HALVES ? k / 16 : 0;
                const real least = w->form & I8_LIFTED ? block.least[g] : 0;
                sum += (real)p.q[i * K + b * BLOCK_I8 + k] *
                       (block.scale[g] * (real)block.q[k] + least);
            }
            *to = fmaf(sum, p.scale[i * n + b], *to);
        }
    }
}

static void planted_thread_defect_is_seen(void **state)
{
    (void)state;
    fixture_model f;
    kernels defective = kernels_scalar;
    defective.product = hasty_product;
    float answer[2][V];
    int32_t ids[100];
    story(ids, 100, 8);
    open_typed(&f, &dtype_f32);
    for (int i = 0; i < 2; i++) {
        engine *e = make_engine(&f, (engine_options){ .n_thread = i ? 4 : 1 });
        e->run.kern = &defective;
        e->run.fork_cost = 0;
        session *s = make_session(e);
        must_feed(s, ids, 100);
        memcpy(answer[i], s->logits, sizeof answer[i]);
        session_free(s);
        engine_free(e);
    }
    assert_true(memcmp(answer[0], answer[1], sizeof answer[0]) != 0);
    close_llama(&f);
}

static void planted_defect_is_seen(void **state)
{
    (void)state;
    static const dtype *const types[] = { &dtype_f32, &dtype_q8_0, &dtype_q4_k };
    for (int t = 0; t < (quick() ? 2 : 3); t++) {
        fixture_model f;
        llama_shape s = small_shape;
        int tried = 0;
        kernels defective = kernels_scalar;
        defective.product = tempted_product;
        defective.product_i8 = tempted_product_i8;
        s.type = types[t];
        if (types[t]->block == 256)
            s.n_layer = 1, s.d_model = s.d_ff = 256;
        open_llama(&f, s);
        const int distinct = distinct_answers(&f, &dtype_f32, &defective, 5, &tried);
        print_message("%s, a product that sums many rows in another order: %d of %d arrangements "
                      "differ\n",
                      types[t]->name, distinct - 1, tried);
        assert_true(distinct > 1);
        close_llama(&f);
    }
}

/* Windows cut the keys a query sees; the answer must still not depend on the feeding. */
static void same_answer_with_a_window(void **state)
{
    (void)state;
    fixture_model f;
    llama_shape s = small_shape;
    s.type = &dtype_f32;
    s.window = 70;
    int tried = 0;
    open_llama(&f, s);
    assert_int_equal(distinct_answers(&f, &dtype_f32, kernels_table(0), 5, &tried), 1);
    close_llama(&f);
}

/* A rewound position is gone: what is fed instead gives what a fresh session gives. */
static void rewind_forgets(void **state)
{
    (void)state;
    fixture_model f;
    weft_error err = { 0 };
    int32_t a[100], b[100];
    story(a, 100, 2);
    story(b, 100, 3);
    memcpy(b, a, 40 * sizeof *a);
    open_typed(&f, &dtype_f32);
    engine *e = make_engine(&f, (engine_options){ .n_thread = 1, .n_session = 2 });
    session *s = make_session(e), *fresh = make_session(e);
    must_feed(s, a, 100);
    assert_int_equal(session_rewind(s, 40, &err), WEFT_OK);
    assert_int_equal(session_greedy(s), -1);
    must_feed(s, b + 40, 60);
    must_feed(fresh, b, 100);
    assert_memory_equal(s->logits, fresh->logits, sizeof(float[V]));
    assert_int_equal(session_rewind(s, 101, &err), WEFT_EINVAL);
    assert_int_equal(session_rewind(s, -1, &err), WEFT_EINVAL);
    session_free(s);
    session_free(fresh);
    engine_free(e);
    close_llama(&f);
}

/* The position is start_pos + i and the mask j <= start_pos + i, cache or no cache: a forward
 * without one agrees. */
static void cached_equals_uncached(void **state)
{
    (void)state;
    fixture_model f;
    weft_error err = { 0 };
    int32_t ids[100];
    story(ids, 100, 4);
    open_typed(&f, &dtype_f32);
    engine *e = make_engine(&f, (engine_options){ .n_thread = 1 });
    session *s = make_session(e);

    batch_row rows_of[100];
    sequence seq = { .n = 100, .source = -1 };
    for (int i = 0; i < 100; i++)
        rows_of[i] = (batch_row){ .id = ids[i], .pos = i, .wanted = true };
    const batch b = { .n_row = 100, .n_seq = 1, .n_wanted = 100, .row = rows_of, .seq = &seq };
    run r;
    assert_int_equal(run_init(&r, &f.host.mem, 1 << 20, 16 << 20, 64 << 20, &err), WEFT_OK);
    r.kern = kernels_table(0);
    run_begin(&r, &b);
    const tensor *all = f.model.arch->family->forward(&r, &f.model);
    for (int i = 0; i < 100; i++) {
        must_feed(s, ids + i, 1);
        assert_memory_equal(s->logits, row(all, i), sizeof(float[V]));
    }
    run_free(&r);
    session_free(s);
    engine_free(e);
    close_llama(&f);
}

/* GGUF's llama pairs neighbours, its qwen2 pairs halves: the same file under the other name is
 * another model, unless the rows of q and k are permuted to match, as converters do. */
static void permute_to_neighbours(model *m)
{
    const int64_t E = m->d_head, D = m->d_model;
    for (int64_t i = 0; i < m->n_param; i++) {
        const tensor *t = m->param[i];
        if (!strstr(t->name, "attn_q.weight") && !strstr(t->name, "attn_k.weight"))
            continue;
        float *w = t->data, *old = malloc((size_t)(rows(t) * D) * sizeof *old);
        memcpy(old, w, (size_t)(rows(t) * D) * sizeof *old);
        for (int64_t o = 0; o < rows(t); o++) {
            const int64_t e = o % E, from = o - e + (e % 2 ? E / 2 : 0) + e / 2;
            memcpy(w + o * D, old + from * D, (size_t)D * sizeof *w);
        }
        free(old);
    }
}

static void architecture_decides_pairing(void **state)
{
    (void)state;
    int32_t ids[50];
    float logits[3][V];
    story(ids, 50, 9);
    for (int i = 0; i < 3; i++) {
        fixture_model f;
        llama_shape s = small_shape;
        s.type = &dtype_f32;
        s.arch = i == 0 ? "qwen2" : "llama";
        open_llama(&f, s);
        if (i == 2)
            permute_to_neighbours(&f.model);
        engine *e = make_engine(&f, (engine_options){ .n_thread = 1 });
        session *one = make_session(e);
        must_feed(one, ids, 50);
        memcpy(logits[i], one->logits, sizeof logits[i]);
        session_free(one);
        engine_free(e);
        close_llama(&f);
    }
    double apart = 0;
    for (int k = 0; k < V; k++)
        apart = fmax(apart, fabs((double)(logits[0][k] - logits[1][k])));
    assert_true(apart > 0.01);
    assert_close("permuted", logits[2], logits[0], V, 1e-5);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void check_plan(fixture_model *f, engine_options o, bool maps)
{
    weft_error err = { 0 };
    engine_plan plan;
    int32_t ids[320];
    story(ids, 320, 5);
    assert_int_equal(engine_resolve(&f->model, &o, &err), WEFT_OK);
    assert_int_equal(engine_predict(&f->model, &o, maps, &plan, &err), WEFT_OK);
    engine *e = make_engine(f, o);
    assert_int_equal(engine_trace(e, NULL, NULL, maps, &err), WEFT_OK);
    session *s[4];
    work w[4];
    for (int i = 0; i < o.n_session; i++) {
        s[i] = make_session(e);
        /* the last batch must be the largest: full, all wanted, and at the end of the context */
        const int64_t each = o.n_batch / o.n_session;
        if (o.n_ctx > each)
            must_feed(s[i], ids, o.n_ctx - each);
        w[i] = (work){ .session = s[i], .ids = ids, .n = each };
    }
    must_eval(e, w, o.n_session);
    assert_int_equal(e->run.data.peak, plan.data);
    assert_int_equal(e->run.scratch_peak, plan.scratch);
    assert_int_equal(e->run.meta.peak, plan.meta);
    print_message("%d rows, %d sessions%s: predicted and used %zu + %zu bytes\n", o.n_batch,
                  o.n_session, maps ? ", maps" : "", plan.meta, plan.data);
    for (int i = 0; i < o.n_session; i++)
        session_free(s[i]);
    engine_free(e);
}

static void dry_run_is_exact(void **state)
{
    (void)state;
    fixture_model f;
    open_typed(&f, &dtype_q8_0);
    check_plan(&f, (engine_options){ .n_thread = 2, .n_session = 1, .n_batch = 1, .n_ctx = 320 },
               false);
    check_plan(&f, (engine_options){ .n_thread = 2, .n_session = 1, .n_batch = 256, .n_ctx = 320 },
               false);
    check_plan(&f, (engine_options){ .n_thread = 1, .n_session = 4, .n_batch = 100, .n_ctx = 100 },
               false);
    check_plan(&f, (engine_options){ .n_thread = 2, .n_session = 1, .n_batch = 40, .n_ctx = 320 },
               true);
    close_llama(&f);
}

static void step_allocates_nothing(void **state)
{
    (void)state;
    fixture_model f;
    int32_t ids[200];
    story(ids, 200, 6);
    open_typed(&f, &dtype_bf16);
    engine *e = make_engine(&f, (engine_options){ .n_thread = 2 });
    session *s = make_session(e);
    const uint64_t before = f.host.mem.n_alloc;
    must_feed(s, ids, 199);
    must_feed(s, ids, 1);
    assert_true(f.host.mem.n_alloc == before);
    session_free(s);
    engine_free(e);
    close_llama(&f);
}

/* At every cap below the need the engine is refused with ELIMIT and gives all back; at the need it
 * works. */
static void cap_refuses_engines(void **state)
{
    (void)state;
    fixture_model f;
    open_typed(&f, &dtype_f32);
    engine *e = make_engine(&f, (engine_options){ .n_thread = 1 });
    session *s = make_session(e);
    const size_t need = f.host.mem.peak, base = f.host.mem.used;
    session_free(s);
    engine_free(e);
    const size_t held = f.host.mem.used;
    assert_true(need >= base);
    for (size_t cap = held; cap < need; cap += (need - held) / 64 + 1) {
        weft_error err = { 0 };
        f.host.mem.cap = cap;
        e = engine_new(&f.model, &(engine_options){ .n_thread = 1 }, &err);
        s = e ? session_new(e, &err) : NULL;
        assert_null(s);
        assert_int_equal(err.code, WEFT_ELIMIT);
        engine_free(e);
        assert_int_equal(f.host.mem.used, held);
    }
    f.host.mem.cap = need;
    e = make_engine(&f, (engine_options){ .n_thread = 1 });
    session_free(make_session(e));
    engine_free(e);
    close_llama(&f);
}

/* ---- errors leave a session as it was -------------------------------------------------------- */

static void errors_change_nothing(void **state)
{
    (void)state;
    fixture_model f;
    weft_error err = { 0 };
    int32_t ids[321];
    story(ids, 321, 7);
    open_typed(&f, &dtype_f32);
    engine *e = make_engine(&f, (engine_options){ .n_thread = 1, .n_session = 1, .n_ctx = 320 });
    session *s = make_session(e), *other = make_session(e);
    must_feed(s, ids, 100);
    float before[V];
    memcpy(before, s->logits, sizeof before);

    assert_int_equal(engine_eval(e, &(work){ .session = s, .ids = ids, .n = 221 }, 1, &err),
                     WEFT_ECONTEXT);
    assert_non_null(strstr(err.message, "221"));
    assert_non_null(strstr(err.message, "100"));
    assert_non_null(strstr(err.message, "320"));
    const int32_t outside[] = { 3, V }, negative[] = { -1 };
    assert_int_equal(engine_eval(e, &(work){ .session = s, .ids = outside, .n = 2 }, 1, &err),
                     WEFT_EINVAL);
    assert_int_equal(engine_eval(e, &(work){ .session = s, .ids = negative, .n = 1 }, 1, &err),
                     WEFT_EINVAL);
    assert_int_equal(engine_eval(e, &(work){ .session = s, .ids = ids, .n = 0 }, 1, &err),
                     WEFT_EINVAL);
    work twice[] = { { .session = s, .ids = ids, .n = 1 }, { .session = s, .ids = ids, .n = 1 } };
    assert_int_equal(engine_eval(e, twice, 2, &err), WEFT_EINVAL);
    work too_much[] = {
        { .session = s, .ids = ids, .n = 1 }, { .session = other, .ids = ids, .n = 250 }
    }; /* the pool holds one context */
    assert_int_equal(engine_eval(e, too_much, 2, &err), WEFT_ECONTEXT);

    assert_int_equal(s->cache.length, 100);
    assert_true(s->has_logits && memcmp(before, s->logits, sizeof before) == 0);
    assert_int_equal(e->pages.n_free, e->pages.n_page - 2);
    must_feed(s, ids, 220);
    session_free(s);
    session_free(other);
    assert_int_equal(e->pages.n_free, e->pages.n_page);
    engine_free(e);
    close_llama(&f);
}

/* A weight that is no number: an error that names where it began, and the session keeps its
 * tokens. */
static void nan_is_an_error(void **state)
{
    (void)state;
    fixture_model f;
    weft_error err = { 0 };
    int32_t ids[100];
    story(ids, 100, 10);
    open_typed(&f, &dtype_f32);
    engine *e = make_engine(&f, (engine_options){ .n_thread = 1, .n_batch = 16 });
    session *s = make_session(e);
    must_feed(s, ids, 20);
    real *gain = NULL;
    for (int64_t i = 0; i < f.model.n_param; i++)
        if (strcmp(f.model.param[i]->name, "blk.1.ffn_norm.weight") == 0)
            gain = f.model.param[i]->data;
    const real kept = gain[3];
    gain[3] = NAN;
    assert_int_equal(engine_eval(e, &(work){ .session = s, .ids = ids, .n = 50 }, 1, &err),
                     WEFT_ENUMERIC);
    assert_non_null(strstr(err.message, "blk.1.ffn_norm"));
    assert_int_equal(s->cache.length, 20);
    assert_int_equal(session_greedy(s), -1);
    gain[3] = kept;
    must_feed(s, ids, 50);
    assert_true(session_greedy(s) >= 0);
    session_free(s);
    engine_free(e);
    close_llama(&f);
}

/* A file may claim a context of 2^24 positions; opening it must not cost what that would. */
static void long_contexts_are_cheap_to_claim(void **state)
{
    (void)state;
    fixture_model f;
    llama_shape s = small_shape;
    s.type = &dtype_f32;
    s.n_ctx = 1 << 24;
    open_llama(&f, s);
    print_message("2^24 positions: %zu KiB beside the file\n",
                  (f.host.mem.used - f.model.file.file[0].size) >> 10);
    assert_true(f.host.mem.used - f.model.file.file[0].size < (1 << 20));
    close_llama(&f);
}

static void options_out_of_range(void **state)
{
    (void)state;
    fixture_model f;
    open_typed(&f, &dtype_f32);
    const engine_options bad[] = {
        { .n_thread = -1 },     { .n_thread = 5000 }, { .n_session = -1 }, { .n_batch = -5 },
        { .n_batch = 1 << 30 }, { .n_ctx = 321 },     { .n_ctx = -1 },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        weft_error err = { 0 };
        assert_null(engine_new(&f.model, &bad[i], &err));
        assert_int_equal(err.code, WEFT_EINVAL);
        assert_true(strlen(err.message) > 10);
    }
    close_llama(&f);

    llama_shape s = small_shape; /* 2 key-value heads of 8: rows of 16 do not fill a q8_0 block */
    s.type = &dtype_f32;
    s.n_head = 8;
    weft_error err = { 0 };
    open_llama(&f, s);
    assert_null(engine_new(&f.model, &(engine_options){ .kv = &dtype_q8_0 }, &err));
    assert_int_equal(err.code, WEFT_EUNSUPPORTED);
    close_llama(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("engine: whole = chunks = token by token = among strangers, by memcmp",
             same_answer_every_time),
        TEST("engine: the same in every format that is read", same_answer_in_every_format),
        TEST("engine: a planted defect in the order of sums is seen", planted_defect_is_seen),
        TEST("engine: a planted defect in the cut among threads is seen",
             planted_thread_defect_is_seen),
        TEST("engine: the same answer with a sliding window", same_answer_with_a_window),
        TEST("engine: with a cache and without one, the same bits at every position",
             cached_equals_uncached),
        TEST("engine: the architecture decides how rotary positions pair",
             architecture_decides_pairing),
        TEST("session: rewind forgets", rewind_forgets),
        TEST("engine: the dry run predicts both arenas to the byte", dry_run_is_exact),
        TEST("engine: a step allocates nothing", step_allocates_nothing),
        TEST("engine: every cap below the need is refused and nothing is kept",
             cap_refuses_engines),
        TEST("engine: errors leave sessions and pages as they were, with both counts",
             errors_change_nothing),
        TEST("engine: logits that are not numbers are an error that names the tensor",
             nan_is_an_error),
        TEST("model: a long context is cheap to claim", long_contexts_are_cheap_to_claim),
        TEST("engine: options out of range are refused with a sentence", options_out_of_range),
    };
    return RUN(tests);
}
