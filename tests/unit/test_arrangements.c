/* Logits are a function of the model and of a session's own tokens, however they were evaluated.
 * Compared by memcmp. */
#include "models/llama.h"
#include "small_model.h"

enum { LENGTH = 270, STRANGERS = 3, V = 61 }; /* crosses pages of 64 and the block of 256 keys */

/* One way in which a session may get its tokens. Some replace the session by another. */
typedef struct arrangement {
    engine *engine;
    session *session, *stranger[STRANGERS];
    uint64_t seed;
    bool careless; /* a planted defect: forks write where others read */
} arrangement;

static int32_t text[LENGTH], others[LENGTH + STRANGERS];

/* ---- manners --------------------------------------------------------------------------------- */

static int64_t length(const arrangement *a)
{
    return a->session->cache.length;
}

static void rewind_to(session *s, int64_t to)
{
    weft_error err = { 0 };
    assert_int_equal(session_rewind(s, to, &err), WEFT_OK);
}

/* The next part of the text: at most `most` tokens, up to position `end`. */
static work next(const arrangement *a, int64_t most, int64_t end)
{
    const int64_t rest = end - length(a);
    return (work){ .session = a->session, .ids = text + length(a), .n = most < rest ? most : rest };
}

static int64_t some(const arrangement *a, int64_t step, uint32_t most)
{
    return 1 + draw(a->seed, (uint64_t)(step * 10 + 9)) % most;
}

static void feed_to(arrangement *a, int64_t end)
{
    for (int step = 0; length(a) < end; step++) {
        work w = next(a, some(a, step, 100), end);
        must_eval(a->engine, &w, 1);
    }
}

static void whole(arrangement *a)
{
    must_feed(a->session, text, LENGTH);
}

static void singly(arrangement *a)
{
    while (length(a) < LENGTH) {
        work w = next(a, 1, LENGTH);
        must_eval(a->engine, &w, 1);
    }
}

static void in_chunks(arrangement *a)
{
    feed_to(a, LENGTH);
}

static void rewound(arrangement *a)
{
    feed_to(a, some(a, 100, LENGTH));
    rewind_to(a->session, length(a) / 2);
    feed_to(a, LENGTH);
}

/* Other sessions get the next tokens of their own texts, and start again when full. */
static int add_strangers(arrangement *a, work *w, int step)
{
    int n = 0;
    for (int i = 0; i < STRANGERS; i++) {
        const int64_t take = draw(a->seed, (uint64_t)(step * 10 + i)) % 40;
        session *s = a->stranger[i];
        if (take == 0)
            continue;
        if (s->cache.length + take > LENGTH)
            rewind_to(s, 0);
        w[n++] = (work){ .session = s, .ids = others + i, .n = take };
    }
    return n;
}

/* Places w among the works of the other sessions; returns where. */
static int mingle(arrangement *a, work *all, work w, int step)
{
    const int n = add_strangers(a, all, step);
    const int me = (int)(draw(a->seed, (uint64_t)step) % (uint32_t)(n + 1));
    for (int i = n; i > me; i--)
        all[i] = all[i - 1];
    all[me] = w;
    for (int i = n + 1; i < STRANGERS + 1; i++)
        all[i] = (work){ 0 };
    return me;
}

static int n_work(const work *all)
{
    int n = 0;
    while (n < STRANGERS + 1 && all[n].session)
        n++;
    return n;
}

static void among_strangers(arrangement *a)
{
    for (int step = 0; length(a) < LENGTH; step++) {
        work all[STRANGERS + 1];
        mingle(a, all, next(a, some(a, step, 100), LENGTH), step);
        must_eval(a->engine, all, n_work(all));
    }
}

/* Another session is cancelled again and again; the others are not affected. */
static void cancelled_neighbour(arrangement *a)
{
    weft_error err = { 0 };
    for (int step = 0; length(a) < LENGTH; step++) {
        work all[STRANGERS + 1];
        const int me = mingle(a, all, next(a, some(a, step, 100), LENGTH), step), n = n_work(all);
        const int victim = n > 1 ? (me + 1) % n : -1;
        if (victim >= 0)
            atomic_store(&all[victim].session->cancelled, true);
        assert_int_equal(engine_eval(a->engine, all, n, &err),
                         victim >= 0 ? WEFT_ESTOPPED : WEFT_OK);
        assert_int_equal(all[me].status, WEFT_OK);
    }
}

/* Another session has the prefix; its pages are shared. */
static void prefix_of_another(arrangement *a)
{
    weft_error err = { 0 };
    int64_t reused;
    const int64_t same = some(a, 100, LENGTH - 1);
    session *s = a->stranger[0];
    rewind_to(s, 0);
    must_feed(s, text, same);
    must_feed(s, others, some(a, 101, (uint32_t)(LENGTH - same)));
    assert_int_equal(session_sync(a->session, text, LENGTH, &reused, &err), WEFT_OK);
    assert_true(reused >= same / PAGE_ROWS * PAGE_ROWS);
}

static int32_t *holders_of_end(const session *s)
{
    const pages *p = &s->engine->pages;
    const char *page = s->cache.page[s->cache.n_page - 1];
    return &p->refs[(size_t)(page - p->slab) / p->layout.page_bytes];
}

/* From some position on, a fork and its parent continue with different tokens, alternately. */
static void forked(arrangement *a)
{
    weft_error err = { 0 };
    feed_to(a, some(a, 100, LENGTH - 2));
    session *first = a->session;
    a->session = session_fork(first, &err);
    assert_non_null(a->session);
    int32_t *holders = holders_of_end(first);
    *holders -= a->careless;
    feed_to(a, length(a) + 1);
    must_feed(first, others, some(a, 101, (uint32_t)(LENGTH - first->cache.length)));
    *holders += a->careless;
    feed_to(a, LENGTH);
    session_free(first);
}

static void restored(arrangement *a)
{
    weft_error err = { 0 };
    const char *path = temp_path("session");
    feed_to(a, some(a, 100, LENGTH - 1));
    assert_int_equal(session_save(a->session, path, &err), WEFT_OK);
    session_free(a->session);
    a->session = session_restore(a->engine, path, (adaption){ 0 }, &err);
    if (!a->session)
        fail_msg("%s", err.message);
    feed_to(a, LENGTH);
}

static const struct {
    const char *name;
    void (*feed)(arrangement *a);
} manner[] = {
    { "whole", whole },
    { "token by token", singly },
    { "in chunks", in_chunks },
    { "among other sequences", among_strangers },
    { "rewound and fed again", rewound },
    { "with a prefix of another session", prefix_of_another },
    { "beside a cancelled neighbour", cancelled_neighbour },
    { "in a fork", forked },
    { "after restore from disk", restored },
};
#define N_MANNER ((int)(sizeof manner / sizeof *manner))
#define EVERY    (1 << 30) /* however many differ */

/* ---- answers --------------------------------------------------------------------------------- */

typedef struct tally {
    int tried, differ;
    bool have;
    float answer[V];
} tally;

static void begin(arrangement *a, fixture_model *f, const dtype *kv, const kernels *kern,
                  int n_thread)
{
    *a = (arrangement){ 0 };
    a->engine = make_engine(f, (engine_options){ .n_thread = n_thread,
                                                 .n_session = STRANGERS + 1,
                                                 .n_batch = 128,
                                                 .kv = kv,
                                                 .n_cache = 2 * LENGTH * (STRANGERS + 1) });
    a->engine->run.kern = kern;
    a->engine->run.fork_cost = 0;
    a->session = make_session(a->engine);
    for (int i = 0; i < STRANGERS; i++)
        a->stranger[i] = make_session(a->engine);
}

static void end(arrangement *a)
{
    session_free(a->session);
    for (int i = 0; i < STRANGERS; i++)
        session_free(a->stranger[i]);
    assert_int_equal(a->engine->pages.n_free, a->engine->pages.n_page);
    engine_free(a->engine);
}

static void compare(tally *t, arrangement *a, int how)
{
    rewind_to(a->session, 0);
    manner[how].feed(a);
    assert_true(a->session->has_logits && length(a) == LENGTH);
    assert_memory_equal(a->session->ids, text, sizeof text);
    if (!t->have)
        memcpy(t->answer, a->session->logits, sizeof t->answer);
    t->have = true;
    t->differ += memcmp(t->answer, a->session->logits, sizeof t->answer) != 0;
    t->tried++;
}

/* Runs each arrangement a number of times, for each of 1, 2 and 4 threads, until enough results
 * differ. */
static tally arrange(fixture_model *f, const dtype *kv, const kernels *kern, int often, int enough)
{
    tally t = { 0 };
    story(text, LENGTH, 0);
    story(others, LENGTH + STRANGERS, 1);
    for (int threads = 1; threads <= 4; threads *= 2) {
        arrangement a;
        begin(&a, f, kv, kern, threads);
        for (int i = 0; i < often * N_MANNER && t.differ < enough; i++) {
            a.seed = (uint64_t)(threads * 1000 + i);
            compare(&t, &a, i % N_MANNER);
        }
        end(&a);
    }
    return t;
}

static int nothing_to_wait_for(void *ud, int fd)
{
    (void)ud, (void)fd;
    return 0;
}

/* A model whose rows fill a block of the format; its saves need not survive a crash. */
static void open_weights(fixture_model *f, const dtype *type)
{
    llama_shape s = small_shape;
    s.type = type;
    if (type->block == 256)
        s.n_layer = 1, s.d_model = s.d_ff = 256;
    open_llama(f, s);
    f->host.io.sync = nothing_to_wait_for;
}

static int one_answer(fixture_model *f, const dtype *weights, const dtype *kv, const kernels *kern,
                      int often)
{
    const tally t = arrange(f, kv, kern, often, EVERY);
    if (t.differ > 0)
        fail_msg("%s, %s weights, %s cache: %d of %d arrangements differ", kern->name,
                 weights->name, kv->name, t.differ, t.tried);
    return t.tried;
}

static void same_answer_every_time(void **state)
{
    (void)state;
    const dtype *const weights[] = { &dtype_f32, &dtype_bf16, &dtype_q8_0, &dtype_q4_0,
                                     &dtype_q4_k };
    const dtype *const caches[] = { &dtype_f32, &dtype_f16, &dtype_bf16, &dtype_q8_0 };
    int tried = 0, pairs = 0;
    for (int w = 0; w < 5; w += quick() ? 4 : 1) {
        fixture_model f;
        open_weights(&f, weights[w]);
        for (int c = 0; c < 4; c += quick() ? 3 : 1, pairs++)
            tried += one_answer(&f, weights[w], caches[c], kernels_table(0), quick() ? 1 : 4);
        close_llama(&f);
    }
    print_message("%d arrangements", tried);
    for (int i = 0; i < N_MANNER; i++)
        print_message("%s%s", i ? ", " : " (", manner[i].name);
    print_message("), %s kernels on 1, 2, 4 threads: 1 distinct answer for each of %d pairs of "
                  "weights and cache\n",
                  kernels_table(0)->name, pairs);
    assert_true(quick() || tried >= 2000);
}

/* Every format that weft reads, with this CPU's kernels; a few with the others. */
static void same_answer_in_every_format(void **state)
{
    (void)state;
    const dtype *const weights[] = { &dtype_f32,  &dtype_f16,   &dtype_bf16,   &dtype_q8_0,
                                     &dtype_q4_0, &dtype_q4_1,  &dtype_q5_0,   &dtype_q5_1,
                                     &dtype_q2_k, &dtype_q3_k,  &dtype_q4_k,   &dtype_q5_k,
                                     &dtype_q6_k, &dtype_mxfp4, &dtype_iq4_nl, &dtype_iq4_xs };
    const int n = (int)(sizeof weights / sizeof *weights);
    int tried = 0;
    for (int w = quick() ? 4 : 0; w < n; w += quick() ? 4 : 1) {
        fixture_model f;
        open_weights(&f, weights[w]);
        for (int t = 0; table_i8(t) && (t == 0 || (w % 3 == 0 && !quick())); t++)
            tried += one_answer(&f, weights[w], &dtype_f16, table_i8(t), 1);
        close_llama(&f);
    }
    print_message("%d arrangements of %d formats, kernels", tried, n);
    for (int t = 0; table_i8(t); t++)
        print_message(" %s", table_i8(t)->name);
    print_message(": 1 distinct answer each\n");
}

/* One answer of all arrangements and of all tables, which write the same order. Emulated tiles
 * compute a text only once: they are slow. So do all but the first table if instructions are. */
static void same_answer_in_class_bf16(void **state)
{
    (void)state;
    const dtype *const weights[] = { &dtype_f32, &dtype_bf16, &dtype_q8_0, &dtype_q4_k };
    int tried = 0;
    for (int w = quick() ? 1 : 0; w < 4; w += quick() ? 2 : 1) {
        fixture_model f;
        float answer[V];
        open_weights(&f, weights[w]);
        model_compute_bf16(&f.model);
        for (int t = 0; kernels_table(t); t++) {
            const kernels *kern = kernels_table(t);
            tally one = { 0 };
            if (strstr(kern->name, "emulated") || (quick() && t > 0)) {
                arrangement a;
                begin(&a, &f, &dtype_f16, kern, 1);
                compare(&one, &a, 0);
                end(&a);
            } else {
                one = arrange(&f, &dtype_f16, kern, 1, EVERY);
            }
            if (t == 0)
                memcpy(answer, one.answer, sizeof answer);
            if (one.differ > 0)
                fail_msg("%s, %s weights: %d of %d arrangements differ", kern->name,
                         weights[w]->name, one.differ, one.tried);
            if (kern != &kernels_scalar)
                assert_memory_equal(one.answer, answer, sizeof answer);
            tried += one.tried;
        }
        close_llama(&f);
    }
    print_message("%d arrangements in class bf16: 1 distinct answer for each type of weights\n",
                  tried);
}

/* Windows limit the keys of a query; the result must still not depend on how tokens are fed. */
static void same_answer_with_a_window(void **state)
{
    (void)state;
    fixture_model f;
    llama_shape s = small_shape;
    s.type = &dtype_f32;
    s.window = 70;
    open_llama(&f, s);
    one_answer(&f, &dtype_f32, &dtype_f32, kernels_table(0), 1);
    close_llama(&f);
}

/* Scores get a sink for each head of each layer. */
static void add_sinks(fixture_model *f)
{
    static real numbers[] = { 1, (real)-0.5, 2, (real)0.25 };
    static tensor sink = { .n_dim = 1, .shape = { 4 }, .stride = 4, .data = numbers };
    const llama *m = f->model.self;
    sink.type = &dtype_real;
    for (int l = 0; l < f->model.n_layer; l++)
        m->layer[l].attn.sink = &sink;
}

static const char *const decoders[] = {
    "\"model_type\": \"gemma2\", \"sliding_window\": 70, \"attn_logit_softcapping\": 0.5,"
    "\"final_logit_softcapping\": 2.0",
    "\"model_type\": \"gemma3_text\", \"sliding_window\": 40, \"layer_types\":"
    "[\"sliding_attention\", \"full_attention\", \"sliding_attention\"]",
    "\"model_type\": \"phi3\", \"partial_rotary_factor\": 0.5, \"sliding_window\": 130",
    "\"model_type\": \"qwen3_moe\", \"num_experts\": 6, \"num_experts_per_tok\": 2,"
    "\"moe_intermediate_size\": 24, \"norm_topk_prob\": true",
};

/* Windows and rotary positions by layer, caps, fused matrices, experts; each with sinks and
 * without. */
static void same_answer_in_other_decoders(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof decoders / sizeof *decoders; i += quick() ? 2 : 1)
        for (int sinks = 0; sinks < 2; sinks++) {
            fixture_model f;
            open_decoder(&f, decoders[i]);
            f.host.io.sync = nothing_to_wait_for;
            if (sinks)
                add_sinks(&f);
            one_answer(&f, &dtype_f32, &dtype_f16, kernels_table(0), 1);
            close_llama(&f);
        }
}

/* All that `weft train` can choose for a decoder. */
static void same_answer_in_every_design(void **state)
{
    (void)state;
    int tried = 0;
    for (const init_model_shape *d = designs; d->arch; d++) {
        fixture_model f;
        open_design(&f, d);
        f.host.io.sync = nothing_to_wait_for;
        const tally t = arrange(&f, &dtype_f16, kernels_table(0), 1, EVERY);
        if (t.differ > 0)
            fail_msg("%s: %d of %d arrangements differ", design_name(d), t.differ, t.tried);
        tried += t.tried;
        close_llama(&f);
    }
    print_message("%d arrangements: 1 distinct answer for each design\n", tried);
}

/* Experts serve rows of several sessions, and the cache holds latents: neither changes the
 * result. */
static void same_answer_with_experts(void **state)
{
    (void)state;
    const dtype *const caches[] = { &dtype_f32, &dtype_f16, &dtype_q8_0 };
    int tried = 0;
    for (int i = 0; i < 4; i += quick() ? 3 : 1) {
        fixture_model f;
        const bool q8 = i % 2 != 0;
        open_deepseek(&f, 2 + i / 2, q8 ? "q8_0" : "f32");
        f.host.io.sync = nothing_to_wait_for;
        for (int c = 0; c < 3; c += quick() ? 3 : 1)
            tried += one_answer(&f, q8 ? &dtype_q8_0 : &dtype_f32, caches[c], kernels_table(0), 1);
        close_llama(&f);
    }
    print_message(
        "%d arrangements of DeepSeek-V2 and V3: 1 distinct answer for each pair of weights "
        "and cache\n",
        tried);
}

/* ---- planted defects ------------------------------------------------------------------------- */

/* A planted defect: a fast matrix product with another order of summation for many rows. */
static void tempted_product(real *y, int64_t y_stride, bool add, const real *a, int64_t N,
                            int64_t J, const row_set *w, bool w_transposed, int64_t i0, int64_t i1,
                            int64_t c0, int64_t c1)
{
    kernels_scalar.product(y, y_stride, add, a, N, J, w, w_transposed, i0, i1, c0, c1);
    real room[TILE];
    for (int64_t c = c0; w_transposed && N >= 8 && c < c1; c++)
        for (int64_t i = i0; i < i1; i++) {
            const real *t = w->tile(room, (const char *)w->data + (size_t)c * w->row_bytes, 0, J);
            real sum = 0;
            for (int64_t k = 0; k < J; k++)
                sum += a[i * J + k] * t[k];
            y[i * y_stride + c] = sum;
        }
}

/* The same in class bf16: many rows are summed in the order of class f32. Both pack rows alike. */
static void tempted_product_bf16(real *y, int64_t y_stride, bool add, const void *a, int64_t N,
                                 int64_t J, const row_set *w, bool w_transposed, int64_t i0,
                                 int64_t i1, int64_t c0, int64_t c1)
{
    if (N >= 8 && J <= TILE)
        kernels_scalar.product(y, y_stride, add, a, N, J, w, w_transposed, i0, i1, c0, c1);
    else
        kernels_scalar.product_bf16(y, y_stride, add, a, N, J, w, w_transposed, i0, i1, c0, c1);
}

static void planted_bf16_defect_is_seen(void **state)
{
    (void)state;
    fixture_model f;
    kernels defective = kernels_scalar;
    defective.product_bf16 = tempted_product_bf16;
    open_weights(&f, &dtype_bf16);
    model_compute_bf16(&f.model);
    const tally seen = arrange(&f, &dtype_f32, &defective, 1, quick() ? 1 : EVERY);
    print_message("class bf16: %d of %d arrangements differ\n", seen.differ, seen.tried);
    assert_true(seen.differ > 0);
    close_llama(&f);
}

/* A planted defect: an order of summation that depends on how the threads split the work. */
static void hasty_product(real *y, int64_t y_stride, bool add, const real *a, int64_t N, int64_t J,
                          const row_set *w, bool w_transposed, int64_t i0, int64_t i1, int64_t c0,
                          int64_t c1)
{
    (c1 - c0 > 16 ? kernels_scalar.product : tempted_product)(y, y_stride, add, a, N, J, w,
                                                              w_transposed, i0, i1, c0, c1);
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
                const real offset = w->form & I8_ASYMMETRIC ? block.offset[g] : 0;
                sum += (real)p.q[i * K + b * BLOCK_I8 + k] *
                       (block.scale[g] * (real)block.q[k] + offset);
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

/* The same in a model with experts, where the number of rows varies at random. */
static void planted_expert_defect_is_seen(void **state)
{
    (void)state;
    fixture_model f;
    kernels defective = kernels_scalar;
    defective.product = tempted_product;
    open_deepseek(&f, 3, "f32");
    f.host.io.sync = nothing_to_wait_for;
    const tally seen = arrange(&f, &dtype_f32, &defective, 1, quick() ? 1 : EVERY);
    print_message("with experts: %d of %d arrangements differ\n", seen.differ, seen.tried);
    assert_true(seen.differ > 0);
    close_llama(&f);
}

static void planted_defect_is_seen(void **state)
{
    (void)state;
    static const dtype *const types[] = { &dtype_f32, &dtype_q8_0, &dtype_q4_k };
    for (int t = 0; t < (quick() ? 2 : 3); t++) {
        fixture_model f;
        kernels defective = kernels_scalar;
        defective.product = tempted_product;
        defective.product_i8 = tempted_product_i8;
        open_weights(&f, types[t]);
        const tally seen = arrange(&f, &dtype_f32, &defective, 1, quick() ? 1 : EVERY);
        print_message("%s, a product that sums many rows in another order: %d of %d arrangements "
                      "differ\n",
                      types[t]->name, seen.differ, seen.tried);
        assert_true(seen.differ > 0);
        close_llama(&f);
    }
}

/* A fork that writes into a shared page corrupts the other's keys. */
static void planted_fork_defect_is_seen(void **state)
{
    (void)state;
    fixture_model f;
    arrangement a;
    tally t = { 0 };
    open_weights(&f, &dtype_f32);
    story(text, LENGTH, 0);
    story(others, LENGTH + STRANGERS, 1);
    begin(&a, &f, &dtype_f32, kernels_table(0), 1);
    for (int i = 0; i < 20; i++) {
        a.seed = (uint64_t)i;
        a.careless = i >= 10;
        compare(&t, &a, N_MANNER - 2);
        if (i == 9)
            assert_int_equal(t.differ, 0);
    }
    print_message("forks that do not copy: %d of 10 arrangements differ\n", t.differ);
    assert_true(t.differ > 5);
    end(&a);
    close_llama(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("arrangements: the same logits, by memcmp", same_answer_every_time),
        TEST("arrangements: the same logits in every format", same_answer_in_every_format),
        TEST("arrangements: one answer in class bf16, of all tables with fused multiply-adds",
             same_answer_in_class_bf16),
        TEST("arrangements: a planted defect of class bf16 is seen", planted_bf16_defect_is_seen),
        TEST("arrangements: the same logits with a sliding window", same_answer_with_a_window),
        TEST("arrangements: the same logits with windows by layer, caps, sinks and experts",
             same_answer_in_other_decoders),
        TEST("arrangements: the same logits in every design of weft train",
             same_answer_in_every_design),
        TEST("arrangements: the same logits with latents and experts", same_answer_with_experts),
        TEST("arrangements: a planted defect in the order of sums is detected",
             planted_defect_is_seen),
        TEST("arrangements: a planted defect in the sums of experts is detected",
             planted_expert_defect_is_seen),
        TEST("arrangements: a planted defect in the split among threads is detected",
             planted_thread_defect_is_seen),
        TEST("arrangements: a planted defect in the sharing of pages is detected",
             planted_fork_defect_is_seen),
    };
    return RUN(tests);
}
