/* Looking into a forward and changing it: hooks write what the next op reads, a lens ends a model
 * after any layer, fused ops open, and none of it changes a bit of the logits by itself. */
#include "small_model.h"

enum { N = 7, MAX_SEEN = 1024 };

static const int32_t text_ids[N] = { 1, 5, 7, 2, 9, 4, 3 };

/* Models of every family that generates, and of every kind of feed forward in them. */
static const char *const generators[] = {
    "llama-gqa",   "gpt2",  "gemma2",  "phi3", "mixtral",          "gpt-oss",
    "qwen3-moe",   "olmo2", "granite", "t5",   "flan-t5",          "deepseek-v2",
    "deepseek-v3", "bart",  "marian",  "m2m",  "transformer-2017", "bahdanau",
};

#define N_GENERATOR ((int)(sizeof generators / sizeof *generators))

/* Every row of a tensor, as it was shown. */
typedef struct kept {
    char name[NAME_BYTES];
    const char *op;
    int64_t rows, cols;
    float *data;
} kept;

typedef struct record {
    kept at[MAX_SEEN];
    int n;
    int n_empty; /* tensors without rows */
} record;

static void keep(void *ud, const tensor *t, const op *by)
{
    record *to = ud;
    assert_true(to->n < MAX_SEEN);
    kept *k = &to->at[to->n++];
    memcpy(k->name, t->name, sizeof k->name);
    k->op = by->name;
    k->rows = rows(t);
    k->cols = cols(t);
    k->data = calloc((size_t)(k->rows * k->cols) + 1, sizeof *k->data);
    for (int64_t i = 0; i < k->rows; i++)
        memcpy(k->data + i * k->cols, row(t, i), (size_t)k->cols * sizeof *k->data);
    to->n_empty += rows(t) == 0 || cols(t) == 0;
}

static void forget(record *r)
{
    for (int i = 0; i < r->n; i++)
        free(r->at[i].data);
    r->n = 0;
}

/* The last of this name; NULL: there is none. */
static const kept *find(const record *r, const char *name)
{
    const kept *found = NULL;
    for (int i = 0; i < r->n; i++)
        found = strcmp(r->at[i].name, name) == 0 ? &r->at[i] : found;
    return found;
}

/* One evaluation of the text under a trace; with an encoder, the text is also the source. Fills
 * logits [V] and checks that the forward needed the memory that was predicted. */
static void evaluate(fixture_model *f, const trace_spec *w, float *logits)
{
    weft_error err = { 0 };
    engine *e = make_engine(f, (engine_options){ .n_thread = 2, .n_ctx = N, .n_batch = N });
    if (engine_trace(e, w, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    session *s = make_session(e);
    if (model_has_source(&f->model))
        must_encode(e, &(source_text){ .session = s, .ids = text_ids, .n = N }, 1);
    must_feed(s, text_ids, N);
    memcpy(logits, s->logits, (size_t)f->model.n_vocab * sizeof *logits);
    engine_plan plan;
    assert_int_equal(engine_predict(&f->model, &e->opt, &w->show, &plan, &err), WEFT_OK);
    assert_true(e->run.data.peak <= plan.step.data && e->run.meta.peak <= plan.step.meta);
    session_free(s);
    engine_free(e);
}

static float *logits_new(const fixture_model *f)
{
    return calloc((size_t)f->model.n_vocab, sizeof(float));
}

static void assert_same(const char *what, const float *a, const float *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0)
            fail_msg("%s: number %lld is %.9g and %.9g", what, (long long)i, (double)a[i],
                     (double)b[i]);
}

static bool differ(const float *a, const float *b, int64_t n)
{
    return memcmp(a, b, (size_t)n * sizeof *a) != 0;
}

/* ---- what is shown --------------------------------------------------------------------------- */

static void no_tensors_without_rows(void **state)
{
    (void)state;
    for (int i = 0; i < N_GENERATOR; i++) {
        fixture_model f;
        static record seen;
        open_golden(&f, generators[i]);
        float *logits = logits_new(&f);
        evaluate(&f, &(trace_spec){ .trace = keep, .trace_ud = &seen, .show.maps = true }, logits);
        assert_true(seen.n > 0);
        assert_int_equal(seen.n_empty, 0);
        forget(&seen);
        free(logits);
        close_llama(&f);
    }
}

static void showing_changes_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < N_GENERATOR; i++) {
        fixture_model f;
        static record seen;
        open_golden(&f, generators[i]);
        float *plain = logits_new(&f), *shown = logits_new(&f);
        const trace_parts parts[] = { { .maps = true },
                                      { .open = true },
                                      { .lens = true },
                                      { .all_logits = true },
                                      { true, true, true, true } };
        evaluate(&f, &(trace_spec){ 0 }, plain);
        for (int k = 0; k < 5; k++) {
            evaluate(&f, &(trace_spec){ .trace = keep, .trace_ud = &seen, .show = parts[k] },
                     shown);
            assert_same(generators[i], shown, plain, f.model.n_vocab);
            forget(&seen);
        }
        free(plain);
        free(shown);
        close_llama(&f);
    }
}

/* The last tensor that the lens of a layer showed. */
static const kept *through_lens(const record *r, int64_t layer)
{
    char prefix[32];
    const kept *found = NULL;
    snprintf(prefix, sizeof prefix, "lens.%lld.", (long long)layer);
    for (int i = 0; i < r->n; i++)
        found = strncmp(r->at[i].name, prefix, strlen(prefix)) == 0 ? &r->at[i] : found;
    return found;
}

/* The last layer's lens is the model's output; those of earlier layers are other numbers. */
static void lens_ends_in_logits(void **state)
{
    (void)state;
    for (int i = 0; i < N_GENERATOR; i++) {
        fixture_model f;
        static record seen;
        open_golden(&f, generators[i]);
        const int64_t V = f.model.n_vocab, L = f.model.n_layer;
        float *logits = logits_new(&f);
        evaluate(&f, &(trace_spec){ .trace = keep, .trace_ud = &seen, .show.lens = true }, logits);
        for (int64_t l = 0; l < L; l++) {
            const kept *z = through_lens(&seen, l);
            assert_non_null(z);
            assert_int_equal(z->rows, 1);
            assert_int_equal(z->cols, V);
            if (l == L - 1)
                assert_same(generators[i], z->data, logits, V);
            else
                assert_true(differ(z->data, logits, V));
        }
        assert_null(through_lens(&seen, L));
        forget(&seen);
        free(logits);
        close_llama(&f);
    }
}

/* Row i of all logits is what a session has after token i. */
static void all_rows_are_those_of_sessions(void **state)
{
    (void)state;
    static const char *const names[] = { "llama-gqa", "gpt2", "gemma2", "deepseek-v2", "marian" };
    for (int i = 0; i < 5; i++) {
        fixture_model f;
        static record seen;
        open_golden(&f, names[i]);
        const int64_t V = f.model.n_vocab;
        float *logits = logits_new(&f);
        evaluate(&f, &(trace_spec){ .trace = keep, .trace_ud = &seen, .show.all_logits = true },
                 logits);
        const kept *z = &seen.at[seen.n - 1];
        assert_int_equal(z->rows, N);
        assert_int_equal(z->cols, V);
        engine *e = make_engine(&f, (engine_options){ .n_thread = 1, .n_ctx = N });
        session *s = make_session(e);
        if (model_has_source(&f.model))
            must_encode(e, &(source_text){ .session = s, .ids = text_ids, .n = N }, 1);
        for (int k = 0; k < N; k++) {
            must_feed(s, text_ids + k, 1);
            assert_same(names[i], z->data + k * V, s->logits, V);
        }
        session_free(s);
        engine_free(e);
        forget(&seen);
        free(logits);
        close_llama(&f);
    }
}

static size_t predicted(const fixture_model *f, trace_parts show)
{
    engine_options o = { .n_thread = 1, .n_ctx = N, .n_batch = N };
    engine_plan plan;
    weft_error err = { 0 };
    assert_int_equal(engine_resolve(&f->model, &o, &err), WEFT_OK);
    assert_int_equal(engine_predict(&f->model, &o, &show, &plan, &err), WEFT_OK);
    return plan.step.data;
}

/* With a vocabulary this large, logits are the largest tensor. All rows take N times the memory of one;
 * a lens takes none, because every layer's uses that of the output. */
static void memory_is_predicted(void **state)
{
    (void)state;
    enum { WIDE = 8192 };
    fixture_model f;
    static record seen;
    llama_shape s = small_shape;
    s.type = &dtype_f32;
    s.n_vocab = WIDE;
    open_llama(&f, s);
    const size_t plain = predicted(&f, (trace_parts){ 0 });
    const size_t all = predicted(&f, (trace_parts){ .all_logits = true });
    assert_true(all >= plain + (N - 2) * WIDE * sizeof(real));
    assert_true(all >= N * WIDE * sizeof(real));
    assert_int_equal(predicted(&f, (trace_parts){ .lens = true }), plain);
    float *logits = logits_new(&f);
    const trace_parts show = { .lens = true, .all_logits = true };
    evaluate(&f, &(trace_spec){ .trace = keep, .trace_ud = &seen, .show = show }, logits);
    const kept *z = &seen.at[seen.n - 1];
    assert_int_equal(z->rows, N);
    assert_same("the last row", z->data + (N - 1) * WIDE, logits, WIDE);
    forget(&seen);
    free(logits);
    close_llama(&f);
}

/* ---- opened ---------------------------------------------------------------------------------- */

static void glu_opens(void **state)
{
    (void)state;
    fixture_model f;
    static record seen, plain;
    open_golden(&f, "llama-gqa");
    float *logits = logits_new(&f);
    evaluate(&f, &(trace_spec){ .trace = keep, .trace_ud = &plain }, logits);
    evaluate(&f, &(trace_spec){ .trace = keep, .trace_ud = &seen, .show.open = true }, logits);
    const kept *g = find(&seen, "blk.1.ffn_gate"), *a = find(&seen, "blk.1.ffn_gate.silu"),
               *u = find(&seen, "blk.1.ffn_up"), *y = find(&seen, "blk.1.glu");
    assert_true(g && a && u && y);
    assert_null(find(&plain, "blk.1.ffn_gate"));
    assert_same("glu", y->data, find(&plain, "blk.1.glu")->data, y->rows * y->cols);
    for (int64_t i = 0; i < y->rows * y->cols; i++) {
        const double x = (double)g->data[i], silu = x / (1 + exp(-x));
        assert_true(fabs(silu - (double)a->data[i]) <= 1e-5 * (1 + fabs(silu)));
        assert_true(y->data[i] == a->data[i] * u->data[i]);
    }
    forget(&seen);
    forget(&plain);
    free(logits);
    close_llama(&f);
}

/* y = sum_j share_j out_j, and the chosen are those with the best scores. */
static void check_experts(const record *seen, const char *block)
{
    char name[NAME_BYTES];
    const kept *part[5];
    static const char *const parts[] = { "", ".scores", ".chosen", ".shares", ".out" };
    for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "%s.moe%s", block, parts[i]);
        part[i] = find(seen, name);
        assert_non_null(part[i]);
    }
    const kept *y = part[0], *score = part[1], *chosen = part[2], *share = part[3], *out = part[4];
    const int64_t k = chosen->cols, D = y->cols;
    assert_int_equal(out->rows, y->rows * k);
    for (int64_t i = 0; i < y->rows; i++) {
        for (int64_t c = 0; c < D; c++) {
            double sum = 0, size = 0;
            for (int64_t j = 0; j < k; j++) {
                const double each = (double)share->data[i * k + j] *
                                    (double)out->data[(i * k + j) * D + c];
                sum += each;
                size += fabs(each);
            }
            assert_true(fabs(sum - (double)y->data[i * D + c]) <= 1e-5 * size + 1e-12);
        }
        const float *s = score->data + i * score->cols;
        for (int64_t e = 0; e < score->cols; e++) {
            bool is_chosen = false, beats = false;
            for (int64_t j = 0; j < k; j++) {
                const int64_t who = (int64_t)chosen->data[i * k + j];
                is_chosen = is_chosen || who == e;
                beats = beats || s[e] > s[who];
            }
            assert_true(is_chosen || !beats);
        }
    }
}

/* a = silu(g) u, of every pair. */
static void check_silu(const record *seen, const char *block)
{
    char name[3][NAME_BYTES];
    static const char *const parts[] = { "gate", "up", "act" };
    for (int i = 0; i < 3; i++)
        snprintf(name[i], sizeof name[i], "%s.moe.%s", block, parts[i]);
    const kept *g = find(seen, name[0]), *u = find(seen, name[1]), *a = find(seen, name[2]);
    assert_true(g && u && a);
    for (int64_t i = 0; i < a->rows * a->cols; i++) {
        const double x = (double)g->data[i], want = x / (1 + exp(-x)) * (double)u->data[i];
        assert_true(fabs(want - (double)a->data[i]) <= 1e-5 * (1 + fabs(want)));
    }
}

static void experts_open(void **state)
{
    (void)state;
    static const char *const names[] = { "mixtral", "qwen3-moe", "gpt-oss" };
    for (int i = 0; i < 3; i++) {
        fixture_model f;
        static record seen;
        open_golden(&f, names[i]);
        float *logits = logits_new(&f);
        evaluate(&f, &(trace_spec){ .trace = keep, .trace_ud = &seen, .show.open = true }, logits);
        check_experts(&seen, "blk.0");
        check_experts(&seen, "blk.1");
        if (strcmp(names[i], "gpt-oss") != 0) /* which has another activation */
            check_silu(&seen, "blk.1");
        forget(&seen);
        free(logits);
        close_llama(&f);
    }
}

/* v_j of the naive form weighs in as attention says: y_h = sum_j p_j v_j,h. */
static void latents_open(void **state)
{
    (void)state;
    fixture_model f;
    static record seen;
    open_golden(&f, "deepseek-v2");
    float *logits = logits_new(&f);
    const trace_parts show = { .maps = true, .open = true };
    evaluate(&f, &(trace_spec){ .trace = keep, .trace_ud = &seen, .show = show }, logits);
    const kept *p = find(&seen, "blk.1.attention.probs"), *v = find(&seen, "blk.1.attn_v"),
               *k = find(&seen, "blk.1.attn_k.join"), *y = find(&seen, "blk.1.attention");
    assert_true(p && v && k && y);
    const int64_t H = f.model.n_head, E = v->cols / H;
    assert_int_equal(k->cols, H * f.model.d_head);
    for (int64_t i = 0; i < N; i++)
        for (int64_t c = 0; c < H * E; c++) {
            double sum = 0;
            for (int64_t j = 0; j < N; j++)
                sum += (double)p->data[(i * H + c / E) * N + j] * (double)v->data[j * H * E + c];
            assert_true(fabs(sum - (double)y->data[i * H * E + c]) <= 1e-4 * (1 + fabs(sum)));
        }
    forget(&seen);
    free(logits);
    close_llama(&f);
}

/* h' = (1 - z) n + z h from row to row, and c = sum_j p_j memory_j. */
static void gates_open(void **state)
{
    (void)state;
    fixture_model f;
    static record seen;
    open_golden(&f, "bahdanau");
    float *logits = logits_new(&f);
    const trace_parts show = { .maps = true, .open = true };
    evaluate(&f, &(trace_spec){ .trace = keep, .trace_ud = &seen, .show = show }, logits);
    const kept *gates = find(&seen, "enc.blk.0.gru.gates"), *h = find(&seen, "enc.blk.0.gru"),
               *c = find(&seen, "dec.blk.0.gru.context"),
               *p = find(&seen, "dec.blk.0.cross_attention.probs");
    assert_true(gates && h && c && p);
    const int64_t D = h->cols;
    for (int64_t i = 0; i < N; i++)
        for (int64_t k = 0; k < D; k++) {
            const double z = (double)gates->data[i * 3 * D + D + k];
            const double n = (double)gates->data[i * 3 * D + 2 * D + k];
            const double before = i > 0 ? (double)h->data[(i - 1) * D + k] : 0;
            double sum = 0;
            for (int64_t j = 0; j < N; j++)
                sum += (double)p->data[i * N + j] * (double)h->data[j * D + k];
            assert_true(fabs((1 - z) * n + z * before - (double)h->data[i * D + k]) < 1e-5);
            assert_true(fabs(sum - (double)c->data[i * D + k]) < 1e-5);
        }
    forget(&seen);
    free(logits);
    close_llama(&f);
}

/* ---- hooks ----------------------------------------------------------------------------------- */

/* Sets columns of one tensor to 0. */
typedef struct zero {
    const char *name;
    int64_t from, n; /* columns; n 0: all */
    int calls;
} zero;

static void write_zeros(void *ud, tensor *t, const op *by)
{
    (void)by;
    zero *z = ud;
    if (strcmp(t->name, z->name) != 0)
        return;
    z->calls++;
    const int64_t n = z->n ? z->n : cols(t);
    for (int64_t i = 0; i < rows(t); i++)
        memset(row(t, i) + z->from, 0, (size_t)n * sizeof(real));
}

static tensor *weight_named(const fixture_model *f, const char *name)
{
    for (int64_t i = 0; i < f->model.n_param; i++)
        if (strcmp(f->model.param[i]->name, name) == 0)
            return f->model.param[i];
    fail_msg("no weight %s", name);
    return NULL;
}

/* A head that is zeroed gives what zeros in its columns of the output projection give. */
static void zeroed_head_is_zeroed_weights(void **state)
{
    (void)state;
    static const struct {
        const char *model, *tensor, *weight;
    } cases[] = {
        { "llama-gqa", "blk.1.attention", "blk.1.attn_output.weight" },
        { "gpt2", "blk.0.attention", "blk.0.attn_output.weight" },
        { "gemma2", "blk.1.attention", "blk.1.attn_output.weight" },
        { "phi3", "blk.0.attention", "blk.0.attn_output.weight" },
        { "deepseek-v2", "blk.1.attention", "blk.1.attn_output.weight" },
        { "t5", "enc.blk.1.attention", "enc.blk.1.attn_o.weight" },
        { "t5", "dec.blk.0.attention", "dec.blk.0.attn_o.weight" },
        { "t5", "dec.blk.0.cross_attention", "dec.blk.0.cross_attn_o.weight" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fixture_model f;
        open_golden(&f, cases[i].model);
        float *plain = logits_new(&f), *hooked = logits_new(&f), *edited = logits_new(&f);
        tensor *w = weight_named(&f, cases[i].weight);
        const int64_t H = f.model.n_head, E = cols(w) / H, head = H - 1;
        zero z = { .name = cases[i].tensor, .from = head * E, .n = E };
        assert_ptr_equal(w->type, &dtype_f32);
        evaluate(&f, &(trace_spec){ 0 }, plain);
        evaluate(&f, &(trace_spec){ .hook = write_zeros, .hook_ud = &z }, hooked);
        assert_true(z.calls > 0);
        close_llama(&f);
        open_golden(&f, cases[i].model); /* weights that are not packed yet */
        w = weight_named(&f, cases[i].weight);
        for (int64_t o = 0; o < rows(w); o++)
            memset((float *)w->data + o * cols(w) + head * E, 0, (size_t)E * sizeof(float));
        evaluate(&f, &(trace_spec){ 0 }, edited);
        assert_same(cases[i].tensor, hooked, edited, f.model.n_vocab);
        assert_true(differ(hooked, plain, f.model.n_vocab));
        free(plain);
        free(hooked);
        free(edited);
        close_llama(&f);
    }
}

/* Overwrites every tensor, first with what must not be read, then with what an earlier forward
 * had there. */
typedef struct patch {
    const record *with;
    int at, calls;
} patch;

static void write_again(void *ud, tensor *t, const op *by)
{
    patch *p = ud;
    while (p->at < p->with->n && (strcmp(p->with->at[p->at].name, t->name) != 0 ||
                                  strcmp(p->with->at[p->at].op, by->name) != 0))
        p->at++;
    assert_true(p->at < p->with->n);
    const kept *k = &p->with->at[p->at++];
    assert_true(k->rows == rows(t) && k->cols == cols(t));
    for (int64_t i = 0; i < rows(t); i++) {
        memset(row(t, i), 0xFF, (size_t)cols(t) * sizeof(real));
        memcpy(row(t, i), k->data + i * k->cols, (size_t)k->cols * sizeof(real));
    }
    p->calls++;
}

static void patch_with_itself(void **state)
{
    (void)state;
    for (int i = 0; i < N_GENERATOR; i++) {
        fixture_model f;
        static record seen;
        open_golden(&f, generators[i]);
        float *plain = logits_new(&f), *patched = logits_new(&f);
        evaluate(&f, &(trace_spec){ .trace = keep, .trace_ud = &seen }, plain);
        patch p = { .with = &seen };
        evaluate(&f, &(trace_spec){ .hook = write_again, .hook_ud = &p }, patched);
        assert_int_equal(p.calls, seen.n);
        assert_same(generators[i], patched, plain, f.model.n_vocab);
        forget(&seen);
        free(plain);
        free(patched);
        close_llama(&f);
    }
}

/* Every tensor that is not only shown matters: the trace shows what the hook wrote, and the logits
 * change. */
static void hooks_come_before_traces(void **state)
{
    (void)state;
    static const char *const names[] = { "token_embd",        "blk.0.attn_q",
                                         "blk.0.attn_k.rope", "blk.0.attn_v",
                                         "blk.0.ffn_gate",    "blk.0.ffn_up",
                                         "blk.0.glu",         "blk.1.ffn_down.residual" };
    fixture_model f;
    static record seen;
    open_golden(&f, "llama-gqa");
    float *plain = logits_new(&f), *hooked = logits_new(&f);
    evaluate(&f, &(trace_spec){ 0 }, plain);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        zero z = { .name = names[i] };
        const trace_spec w = { keep, &seen, write_zeros, &z, .show.open = true };
        evaluate(&f, &w, hooked);
        assert_true(z.calls > 0);
        const kept *k = find(&seen, names[i]);
        for (int64_t c = 0; c < k->rows * k->cols; c++)
            assert_true(k->data[c] == 0);
        assert_true(differ(hooked, plain, f.model.n_vocab));
        forget(&seen);
    }
    free(plain);
    free(hooked);
    close_llama(&f);
}

/* What no op reads cannot be changed, so a hook does not see it. */
static void shown_only_is_not_hooked(void **state)
{
    (void)state;
    static const struct {
        const char *model, *tensor;
    } cases[] = { { "llama-gqa", "blk.0.attention.probs" },
                  { "llama-gqa", "lens.0.output" },
                  { "mixtral", "blk.0.moe.scores" },
                  { "deepseek-v2", "blk.0.attn_v" },
                  { "bahdanau", "dec.blk.0.cross_attention.probs" } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fixture_model f;
        static record seen;
        open_golden(&f, cases[i].model);
        float *logits = logits_new(&f);
        zero z = { .name = cases[i].tensor };
        const trace_spec w = { keep, &seen, write_zeros, &z, .show = { true, true, true, false } };
        evaluate(&f, &w, logits);
        assert_non_null(find(&seen, cases[i].tensor));
        assert_int_equal(z.calls, 0);
        forget(&seen);
        free(logits);
        close_llama(&f);
    }
}

/* A trace that is taken away leaves the engine as it was made. */
static void traces_end(void **state)
{
    (void)state;
    fixture_model f;
    weft_error err = { 0 };
    static record seen;
    zero z = { .name = "blk.0.glu" };
    open_golden(&f, "llama-gqa");
    float *plain = logits_new(&f);
    evaluate(&f, &(trace_spec){ 0 }, plain);
    engine *e = make_engine(&f, (engine_options){ .n_thread = 1, .n_ctx = N, .n_batch = N });
    const size_t before = f.host.mem.used;
    const trace_spec w = { keep, &seen, write_zeros, &z, .show = { true, true, true, true } };
    assert_int_equal(engine_trace(e, &w, &err), WEFT_OK);
    session *s = make_session(e);
    must_feed(s, text_ids, N);
    assert_true(differ(s->logits, plain, f.model.n_vocab));
    assert_int_equal(session_rewind(s, 0, &err), WEFT_OK);
    assert_int_equal(engine_trace(e, &(trace_spec){ 0 }, &err), WEFT_OK);
    const int n = seen.n;
    must_feed(s, text_ids, N);
    assert_int_equal(seen.n, n);
    assert_same("after the hook", s->logits, plain, f.model.n_vocab);
    session_free(s);
    assert_int_equal(f.host.mem.used, before);
    engine_free(e);
    forget(&seen);
    free(plain);
    close_llama(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("trace: no tensor without rows is shown", no_tensors_without_rows),
        TEST("trace: what is shown changes no bit of the logits", showing_changes_nothing),
        TEST("lens: the last layer's is the logits, in every family", lens_ends_in_logits),
        TEST("trace: the logits of all rows are those of a session, row by row",
             all_rows_are_those_of_sessions),
        TEST("trace: memory is predicted, and a lens needs none", memory_is_predicted),
        TEST("open: gate, activation and up of a feed forward", glu_opens),
        TEST("open: scores, choices, shares and outputs of experts", experts_open),
        TEST("open: keys and values of latent attention", latents_open),
        TEST("open: gates and contexts of recurrent units", gates_open),
        TEST("hook: a zeroed head is zeros in its columns of the projection",
             zeroed_head_is_zeroed_weights),
        TEST("hook: tensors patched with themselves change no bit", patch_with_itself),
        TEST("hook: the next op and the trace read what it wrote", hooks_come_before_traces),
        TEST("hook: what is only shown is not hooked", shown_only_is_not_hooked),
        TEST("hook: taken away, the engine is as it was", traces_end),
    };
    return RUN(tests);
}
