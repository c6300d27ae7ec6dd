/* The engine's guarantees: memory predicted to the byte, no allocation inside a step, all or
 * nothing on error. test_arrangements.c: logits do not depend on how tokens are fed. */
#include "small_model.h"

enum { V = 61 };

/* ---- one timeline ---------------------------------------------------------------------------- */

/* A rewound position is gone: feeding other tokens gives the logits of a fresh session. */
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
    const tensor *all = model_forward(&r, &f.model);
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

/* Nothing writes between the blocks of an arena (arena.h). */
#ifdef __SANITIZE_ADDRESS__
#define RED_ZONE MEM_ALIGN
#else
#define RED_ZONE 0
#endif

/* Memory filled with a byte, so that writes can be seen. */
enum { UNTOUCHED = 0xA5, MAX_BLOCK = 64 };

typedef struct witness {
    struct {
        const uint8_t *at;
        size_t size;
    } block[MAX_BLOCK];
    int n;
} witness;

static void *witnessed_alloc(void *ud, size_t align, size_t size)
{
    witness *w = ud;
    uint8_t *at = aligned_alloc(align, size);
    assert_non_null(at);
    memset(at, UNTOUCHED, size);
    w->block[w->n % MAX_BLOCK].at = at;
    w->block[w->n++ % MAX_BLOCK].size = size;
    return at;
}

static void witnessed_release(void *ud, void *block)
{
    (void)ud;
    free(block);
}

/* Bytes of the newest block of this size, or a header more, in lines of 64 that were never written.
 * A sanitizer would object to these reads. */
__attribute__((no_sanitize("address"))) static size_t untouched_bytes(const witness *w, size_t size)
{
    for (int i = w->n - 1; i >= 0 && i > w->n - MAX_BLOCK; i--) {
        const uint8_t *at = w->block[i % MAX_BLOCK].at;
        const size_t n = w->block[i % MAX_BLOCK].size;
        if (n < size || n > size + 4 * MEM_ALIGN)
            continue;
        size_t lines = 0;
        for (size_t k = 0; k + MEM_ALIGN <= n; k += MEM_ALIGN) {
            size_t same = 0;
            while (same < MEM_ALIGN && at[k + same] == UNTOUCHED)
                same++;
            lines += same == MEM_ALIGN;
        }
        return lines * MEM_ALIGN;
    }
    fail_msg("no block of %zu bytes was taken", size);
    return 0;
}

/* The plan equals the memory allocated, all of it is used, and exceeding it would abort
 * (arena.h). */
static void check_plan(fixture_model *f, engine_options o, bool maps)
{
    weft_error err = { 0 };
    engine_plan plan;
    witness seen = { 0 };
    int32_t ids[320];
    story(ids, 320, 5);
    assert_int_equal(engine_resolve(&f->model, &o, &err), WEFT_OK);
    assert_int_equal(engine_predict(&f->model, &o, &(trace_parts){ .maps = maps }, &plan, &err),
                     WEFT_OK);
    const size_t before = f->host.mem.used;
    const mem_hooks hooks = f->host.mem.hooks;
    f->host.mem.hooks = (mem_hooks){ .alloc = witnessed_alloc,
                                     .release = witnessed_release,
                                     .ud = &seen };
    engine *e = make_engine(f, o);
    assert_int_equal(engine_trace(e, &(trace_spec){ .show.maps = maps }, &err), WEFT_OK);
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
    const size_t taken = f->host.mem.used - before;
    if (!maps && (taken > plan.total || plan.total - taken > (32 << 10)))
        fail_msg("%zu bytes were taken, %zu predicted", taken, plan.total);
    assert_int_equal(e->run.data.peak, plan.step.data);
    assert_int_equal(e->run.scratch_peak, plan.step.scratch);
    assert_int_equal(e->run.meta.peak, plan.step.meta);
    print_message("%d rows, %d sessions%s: predicted and written %zu + %zu bytes\n", o.n_batch,
                  o.n_session, maps ? ", maps" : "", plan.step.meta, plan.step.data);
    assert_true(untouched_bytes(&seen, plan.step.data) <= (size_t)e->run.n_tensor * RED_ZONE);
    assert_int_equal(untouched_bytes(&seen, plan.step.scratch), 0);
    for (int i = 0; i < o.n_session; i++)
        session_free(s[i]);
    engine_free(e);
    f->host.mem.hooks = hooks;
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

/* At every cap below the need, making the engine fails with ELIMIT and frees everything; at the
 * need it works. */
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
    work too_much = { .session = other, .ids = ids, .n = 250 }; /* the pool holds one context */
    assert_int_equal(engine_eval(e, &too_much, 1, &err), WEFT_ECONTEXT);
    assert_int_equal(other->cache.length, 0);

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

static real *weights_of(const fixture_model *f, const char *name)
{
    for (int64_t i = 0; i < f->model.n_param; i++)
        if (strcmp(f->model.param[i]->name, name) == 0)
            return f->model.param[i]->data;
    fail_msg("no tensor %s", name);
    return NULL;
}

/* A NaN weight: the error names the first non-finite tensor, and the session keeps its tokens. */
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
    real *gain = weights_of(&f, "blk.1.ffn_norm.weight");
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

/* Corrupts a weight when the second forward begins. */
typedef struct spoiler {
    real *weight;
    int forwards;
} spoiler;

static void spoil_in_forward(void *ud, const tensor *t, const op *by)
{
    spoiler *p = ud;
    (void)by;
    p->forwards += strcmp(t->name, "token_embd") == 0;
    if (p->forwards == 2)
        *p->weight = NAN;
}

/* A failed step frees the pages it took. An eval that fails in its second forward leaves the
 * sessions that finished in the first unchanged. */
static void nan_undoes_who_had_it(void **state)
{
    (void)state;
    fixture_model f;
    weft_error err = { 0 };
    int32_t ids[100];
    story(ids, 100, 10);
    open_typed(&f, &dtype_f32);
    spoiler p = { .weight = weights_of(&f, "blk.1.ffn_norm.weight") };
    const real kept = *p.weight;
    engine *e = make_engine(&f, (engine_options){ .n_thread = 1, .n_batch = 64, .n_session = 2 });
    session *s = make_session(e), *quick = make_session(e);
    must_feed(s, ids, 20);
    must_feed(quick, ids, 20);
    const int64_t n_free = e->pages.n_free;
    *p.weight = NAN;
    work one = { .session = s, .ids = ids + 20, .n = 60 };
    assert_int_equal(engine_step(e, &one, 1, &err), WEFT_ENUMERIC);
    assert_int_equal(one.done, 0);
    assert_int_equal(s->cache.n_page, 1);
    assert_int_equal(e->pages.n_free, n_free);

    *p.weight = kept;
    assert_int_equal(
        engine_trace(e, &(trace_spec){ .trace = spoil_in_forward, .trace_ud = &p }, &err), WEFT_OK);
    work w[] = { { .session = quick, .ids = ids, .n = 1 }, { .session = s, .ids = ids, .n = 80 } };
    assert_int_equal(engine_eval(e, w, 2, &err), WEFT_ENUMERIC);
    assert_int_equal(p.forwards, 3); /* the third forward finds the first corrupt tensor */
    assert_int_equal(w[0].status, WEFT_OK);
    assert_int_equal(quick->cache.length, 21);
    assert_true(quick->has_logits);
    assert_int_equal(w[1].status, WEFT_ENUMERIC);
    assert_int_equal(s->cache.length, 20);
    assert_false(s->has_logits);
    assert_int_equal(e->pages.n_free, n_free);
    session_free(s);
    session_free(quick);
    engine_free(e);
    close_llama(&f);
}

/* A file may claim a context of 2^24 positions; opening it must stay cheap. */
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
        TEST("engine: the same bits with and without a cache, at every position",
             cached_equals_uncached),
        TEST("engine: the architecture decides how rotary positions pair",
             architecture_decides_pairing),
        TEST("session: rewind drops tokens", rewind_forgets),
        TEST("engine: the dry run predicts both arenas to the byte", dry_run_is_exact),
        TEST("engine: a step allocates nothing", step_allocates_nothing),
        TEST("engine: every cap below the need is refused and nothing is kept",
             cap_refuses_engines),
        TEST("engine: errors leave sessions and pages as they were, with both counts",
             errors_change_nothing),
        TEST("engine: the error for non-finite logits names the tensor", nan_is_an_error),
        TEST("engine: non-finite logits undo only their session, and take no pages",
             nan_undoes_who_had_it),
        TEST("model: a long context is cheap to claim", long_contexts_are_cheap_to_claim),
        TEST("engine: options out of range are refused with a message", options_out_of_range),
    };
    return RUN(tests);
}
