/* Evaluation: equals an independent implementation, with the same bits however the work is
 * split. */
#include "base/rng.h"
#include "engine/estimate.h"
#include "engine/evaluate.h"
#include "engine/session.h"
#include "gguf_build.h"
#include "support.h"
#include "train/learner.h"

#include <jansson.h>
#include <math.h>

typedef struct opened {
    host host;
    model model;
} opened;

static void open_model(opened *o, const char *path)
{
    weft_error err = { 0 };
    host_plain(&o->host);
    if (model_open(&o->model, path, WEFT_LOAD_MAP, &o->host, &err) != WEFT_OK)
        fail_msg("%s", err.message);
}

static void close_model(opened *o)
{
    model_close(&o->model);
    assert_int_equal(o->host.mem.used, 0);
}

static evaluation must_evaluate(const opened *m, const opened *against, const document *d,
                                int64_t n, const evaluate_options *o)
{
    weft_error err = { 0 };
    evaluation e;
    if (evaluate(&m->model, against ? &against->model : NULL, d, n, o, &e, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    return e;
}

/* ---- documents ------------------------------------------------------------------------------- */

#define MAX_DOCUMENT 512

typedef struct library {
    document document[MAX_DOCUMENT];
    int64_t n;
} library;

static void library_add(library *l, const int32_t *ids, int64_t n)
{
    int32_t *copy = malloc((size_t)n * sizeof *copy);
    assert_non_null(copy);
    memcpy(copy, ids, (size_t)n * sizeof *copy);
    l->document[l->n++] = (document){ copy, n };
}

static void library_free(library *l)
{
    for (int64_t i = 0; i < l->n; i++)
        free((int32_t *)l->document[i].ids);
    l->n = 0;
}

/* Documents of random tokens, one longer than the other. */
static library random_library(int64_t n_document, int64_t n_vocab, int64_t length)
{
    library l = { 0 };
    int32_t ids[1024];
    for (int64_t i = 0; i < n_document; i++) {
        for (int64_t k = 0; k < length + i; k++)
            ids[k] = (int32_t)(rng_draw(61, (uint64_t)i, (uint64_t)k).word[0] % (uint32_t)n_vocab);
        library_add(&l, ids, length + i);
    }
    return l;
}

static bool blank(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static void add_paragraph(library *l, const weft_tokenizer *t, const char *text, size_t n)
{
    weft_error err = { 0 };
    size_t letters = 0;
    for (; n > 0 && blank(*text); n--)
        text++;
    while (n > 0 && blank(text[n - 1]))
        n--;
    for (size_t i = 0; i < n; i++)
        letters += (text[i] & 0xC0) != 0x80;
    if (letters <= 200)
        return;
    weft_tokens *k = weft_tokenizer_encode(t, text, n, NULL, &err);
    if (!k)
        fail_msg("%s", err.message);
    library_add(l, k->ids, k->n);
    weft_tokens_free(k);
}

/* Paragraphs of a text as in the reference: between blank lines, stripped, more than 200 characters
 * long. The first 60 are the reference's. */
static library stories(int64_t most)
{
    library l = { 0 };
    size_t size;
    weft_error err = { 0 };
    weft_tokenizer *t = weft_tokenizer_load(asset("llama-stories260K/stories260K-f32.gguf"), NULL,
                                            &err);
    if (!t)
        fail_msg("%s", err.message);
    char *text = read_whole(asset("data/tinystories-slice/tinystories.txt"), &size);
    for (size_t at = 0, end; at < size && l.n < most; at = end + 2) {
        const char *stop = memmem(text + at, size - at, "\n\n", 2);
        end = stop ? (size_t)(stop - text) : size;
        add_paragraph(&l, t, text + at, end - at);
    }
    free(text);
    weft_tokenizer_free(t);
    return l;
}

/* ---- the reference --------------------------------------------------------------------------- */

static void check_stories(const char *path, const library *l, const json_t *each)
{
    opened m;
    double worst = 0, sum = 0;
    int64_t n = 0;
    open_model(&m, path);
    for (int64_t i = 0; i < l->n; i++) {
        const json_t *p = json_array_get(each, (size_t)i);
        const double nll = json_number_value(json_object_get(p, "nll_sum"));
        const evaluation e = must_evaluate(&m, NULL, &l->document[i], 1,
                                           &(evaluate_options){ .engine.n_thread = 1 });
        assert_int_equal(l->document[i].n, json_integer_value(json_object_get(p, "tokens")));
        worst = fmax(worst, fabs(e.nll - nll) / (double)e.n_token);
        n += e.n_token;
        sum += e.nll;
    }
    const evaluation all = must_evaluate(&m, NULL, l->document, l->n,
                                         &(evaluate_options){ .engine.n_thread = 2 });
    print_message("%s: NLL %.6f a token over %lld tokens, perplexity %.4f; no paragraph is off by "
                  "more than %.1e a token\n",
                  strrchr(path, '/') + 1, all.nll / (double)n, (long long)n,
                  exp(all.nll / (double)n), worst);
    assert_int_equal(all.n_token, n);
    assert_true(fabs(all.nll - sum) <= 1e-9 * sum);
    assert_true(worst <= 1e-4);
    close_model(&m);
}

static void stories_nll(void **state)
{
    (void)state;
    json_t *root = json_load_file(asset("llama-stories260K/ref_tinystories_nll.json"), 0, NULL);
    assert_non_null(root);
    library l = stories(quick() ? 15 : 60);
    const json_t *each = json_object_get(root, "per_paragraph");
    assert_int_equal(l.n, quick() ? 15 : json_array_size(each));
    check_stories(asset("llama-stories260K"), &l, each);
    check_stories(asset("llama-stories260K/stories260K-f32.gguf"), &l, each);
    library_free(&l);
    json_decref(root);
}

/* ---- the same bits --------------------------------------------------------------------------- */

static const char *random_llama(const char *name, int64_t d, const dtype *type)
{
    const llama_shape s = { .n_layer = 2,
                            .d_model = d,
                            .n_head = 4,
                            .n_head_kv = 2,
                            .d_ff = 2 * d,
                            .n_vocab = 301,
                            .n_ctx = 320,
                            .type = type };
    const bytes b = gguf_llama(&s);
    const char *path = temp_file(name, b.at, b.n);
    free(b.at);
    return path;
}

/* Rows per step, threads, and logits computed at once do not affect the result. */
static void one_result(void **state)
{
    (void)state;
    static const struct {
        int n_batch, n_thread;
        int64_t loss_numbers;
    } ways[] = { { 0, 1, 0 },     { 1, 1, 0 },   { 7, 2, 0 },     { 64, 4, 0 },
                 { 256, 2, 301 }, { 0, 3, 700 }, { 100, 1, 5000 } };
    opened m, q;
    open_model(&m, random_llama("f32.gguf", 64, &dtype_f32));
    open_model(&q, random_llama("q8_0.gguf", 64, &dtype_q8_0));
    library l = random_library(3, 301, 200);
    evaluation first = { 0 };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const evaluate_options o = {
            .engine = { .n_thread = ways[i].n_thread, .n_batch = ways[i].n_batch, .n_ctx = 96 },
            .stride = 40,
            .loss_numbers = ways[i].loss_numbers,
        };
        const evaluation e = must_evaluate(&q, &m, l.document, l.n, &o);
        if (i == 0)
            first = e;
        assert_memory_equal(&e, &first, sizeof e);
    }
    assert_int_equal(first.n_token, 199 + 200 + 201);
    assert_true(first.kl > 0 && first.kl_p99 > 0 && first.kl_max >= first.kl_p99);
    library_free(&l);
    close_model(&q);
    close_model(&m);
}

/* The windows of evaluate.h, token by token: each target in the first window that reaches it. */
static double by_hand(const opened *m, const document *d, int64_t n_ctx, int64_t stride)
{
    weft_error err = { 0 };
    engine *e = engine_new(&m->model, &(engine_options){ .n_thread = 1, .n_ctx = n_ctx }, &err);
    session *s = e ? session_new(e, &err) : NULL;
    assert_non_null(s);
    double sum = 0;
    int64_t scored = 0;
    for (int64_t from = 0; scored + 1 < d->n; from += stride) {
        assert_int_equal(session_rewind(s, 0, &err), WEFT_OK);
        for (int64_t i = from; i < from + n_ctx && i + 1 < d->n; i++) {
            assert_int_equal(
                engine_eval(e, &(work){ .session = s, .ids = &d->ids[i], .n = 1 }, 1, &err),
                WEFT_OK);
            if (i < scored)
                continue;
            double total = 0;
            for (int64_t k = 0; k < m->model.n_vocab; k++)
                total += exp((double)s->logits[k]);
            sum += log(total) - (double)s->logits[d->ids[i + 1]];
            scored = i + 1;
        }
    }
    session_free(s);
    engine_free(e);
    return sum;
}

static void windows(void **state)
{
    (void)state;
    opened m;
    open_model(&m, random_llama("f32.gguf", 64, &dtype_f32));
    library l = random_library(1, 301, 150);
    static const int64_t cut[][2] = { { 200, 0 }, { 64, 0 },  { 64, 64 }, { 64, 1 },
                                      { 17, 5 },  { 149, 0 }, { 150, 0 }, { 148, 148 } };
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
        const int64_t n_ctx = cut[i][0], stride = cut[i][1];
        const evaluate_options o = { .engine = { .n_thread = 1, .n_ctx = n_ctx },
                                     .stride = stride };
        const evaluation e = must_evaluate(&m, NULL, l.document, l.n, &o);
        const double expected = by_hand(&m, l.document, n_ctx, stride ? stride : (n_ctx + 1) / 2);
        assert_int_equal(e.n_token, 149);
        assert_true(fabs(e.nll - expected) <= 1e-9 * expected);
    }
    library_free(&l);
    close_model(&m);
}

/* A model compared with itself has no divergence. */
static void itself(void **state)
{
    (void)state;
    opened m;
    open_model(&m, random_llama("f32.gguf", 64, &dtype_f32));
    library l = random_library(2, 301, 100);
    const evaluation e = must_evaluate(&m, &m, l.document, l.n, &(evaluate_options){ 0 });
    assert_true(e.kl == 0 && e.kl_max == 0 && e.kl_p99 == 0 && e.nll == e.against_nll);
    assert_int_equal(e.n_same, e.n_token);
    library_free(&l);
    close_model(&m);
}

/* ---- the world ------------------------------------------------------------------------------- */

static bool twice(void *ud, const evaluation *so_far)
{
    (void)so_far;
    return ++*(int *)ud < 2;
}

static void stops(void **state)
{
    (void)state;
    opened m;
    int calls = 0;
    open_model(&m, random_llama("f32.gguf", 64, &dtype_f32));
    library l = random_library(2, 301, 100);
    const evaluate_options o = { .engine = { .n_thread = 1, .n_batch = 30 },
                                 .progress = twice,
                                 .ud = &calls };
    const evaluation e = must_evaluate(&m, NULL, l.document, l.n, &o);
    assert_int_equal(calls, 2);
    assert_true(e.stopped);
    assert_int_equal(e.n_token, 60);
    assert_int_equal(e.n_total, 199);
    library_free(&l);
    close_model(&m);
}

static void refuses(void **state)
{
    (void)state;
    opened m;
    evaluation e;
    weft_error err = { 0 };
    open_model(&m, random_llama("f32.gguf", 64, &dtype_f32));
    const int32_t ids[] = { 1, 2, 3, 301 };
    const document one = { ids, 1 }, good = { ids, 3 }, wrong = { ids, 4 };
    assert_int_equal(evaluate(&m.model, NULL, &one, 1, &(evaluate_options){ 0 }, &e, &err),
                     WEFT_EINVAL);
    assert_string_equal(err.message,
                        "no document has two tokens; expected at least one token to predict");
    assert_int_equal(
        evaluate(&m.model, NULL, &good, 1, &(evaluate_options){ .stride = 321 }, &e, &err),
        WEFT_EINVAL);
    assert_int_equal(
        evaluate(&m.model, NULL, &good, 1, &(evaluate_options){ .engine.n_ctx = 321 }, &e, &err),
        WEFT_EINVAL);
    assert_int_equal(evaluate(&m.model, NULL, &wrong, 1, &(evaluate_options){ 0 }, &e, &err),
                     WEFT_EINVAL);
    assert_string_equal(err.message, "token 3 of document 0 is 301, the vocabulary has 301");
    const document below = { (const int32_t[]){ -1, 2, 3 }, 3 };
    assert_int_equal(evaluate(&m.model, NULL, &below, 1, &(evaluate_options){ 0 }, &e, &err),
                     WEFT_EINVAL);
    assert_string_equal(err.message, "token 0 of document 0 is -1, the vocabulary has 301");
    close_model(&m);
}

/* The k-th allocation fails, for every k; nothing is left behind, and no result is wrong. */
static void allocations(void **state)
{
    (void)state;
    host plain;
    weft_error err = { 0 };
    faults f = { 0 };
    model m;
    opened ref;
    evaluation e;
    const char *path = random_llama("f32.gguf", 64, &dtype_f32);
    open_model(&ref, path);
    host_faulty(&plain, &f, NULL);
    assert_int_equal(model_open(&m, path, WEFT_LOAD_COPY, &plain, &err), WEFT_OK);
    library l = random_library(1, 301, 60);
    const evaluate_options o = { .engine = { .n_thread = 2 } };
    const int64_t live = f.live;
    weft_status status = WEFT_ENOMEM;
    int64_t k = 0;
    while (status != WEFT_OK) {
        f.calls = 0;
        f.fail_at = ++k;
        status = evaluate(&m, &ref.model, l.document, l.n, &o, &e, &err);
        assert_int_equal(f.live, live);
        assert_true(status == WEFT_OK || status == WEFT_ENOMEM);
    }
    print_message("%lld allocations failed, one at a time\n", (long long)k - 1);
    assert_true(k > 5);
    f.fail_at = 0;
    library_free(&l);
    model_close(&m);
    close_model(&ref);
}

/* ---- quantised ------------------------------------------------------------------------------- */

static void copy_metadata(gguf_build *g, const container *c)
{
    for (int64_t i = 0; i < c->n_entry; i++) {
        const meta *e = &c->entry[i];
        if (e->type == META_TEXT)
            gguf_text(g, e->key, e->text);
        else if (e->type == META_INT)
            gguf_u32(g, e->key, (uint32_t)e->integer);
        else if (e->type == META_REAL)
            gguf_f32(g, e->key, (float)e->number);
        else if (e->type == META_BOOL)
            gguf_bool(g, e->key, e->flag);
    }
}

/* The same model with its matrices in another format; those whose rows do not fill blocks become
 * F16. Returns the file's path. */
static const char *quantised(const char *name, const model *m, const dtype *type)
{
    gguf_build g = { 0 };
    copy_metadata(&g, &m->file);
    for (int64_t i = 0; i < m->n_param; i++) {
        const tensor *t = m->param[i];
        const bool matrix = t->n_dim > 1, fits = cols(t) % type->block == 0;
        assert_ptr_equal(t->type, &dtype_f32);
        gguf_values(&g, t->name,
                    !matrix ? &dtype_f32
                    : fits  ? type
                            : &dtype_f16,
                    matrix ? rows(t) : 0, cols(t), t->data);
    }
    const bytes b = gguf_finish(&g);
    const char *path = temp_file(name, b.at, b.n);
    free(b.at);
    return path;
}

typedef struct expectation {
    const dtype *type;
    double kl, ratio; /* upper bounds: mean divergence, and increase of perplexity */
} expectation;

/* One line per format. The bounds are 1.5 times the measured values. */
static void compare_types(const opened *m, const library *l, const expectation *x, size_t n)
{
    const evaluate_options o = { .engine = { .n_thread = 2 } };
    print_message("type   KL mean    p99      max      same top  perplexity  ratio\n");
    for (size_t i = 0; i < n; i++) {
        opened q;
        open_model(&q, quantised("quantised.gguf", &m->model, x[i].type));
        const evaluation e = must_evaluate(&q, m, l->document, l->n, &o);
        const double tokens = (double)e.n_token, ratio = exp((e.nll - e.against_nll) / tokens);
        print_message("%-6s %.6f  %.5f  %.4f   %6.2f %%  %.4f      %.5f\n", x[i].type->name,
                      e.kl / tokens, e.kl_p99, e.kl_max, 100 * (double)e.n_same / tokens,
                      exp(e.nll / tokens), ratio);
        assert_true(e.kl / tokens <= x[i].kl);
        assert_true(fabs(ratio - 1) <= x[i].ratio);
        close_model(&q);
    }
}

static void story_types(void **state)
{
    (void)state;
    static const expectation types[] = {
        { &dtype_f32, 0, 0 },          { &dtype_f16, 2e-6, 1e-4 },  { &dtype_bf16, 1e-4, 5e-4 },
        { &dtype_q8_0, 1.2e-3, 1e-3 }, { &dtype_q5_1, 0.03, 0.04 }, { &dtype_q5_0, 0.04, 0.06 },
        { &dtype_q4_1, 0.12, 0.15 },   { &dtype_q4_0, 0.15, 0.15 },
    };
    opened m;
    open_model(&m, asset("llama-stories260K/stories260K-f32.gguf"));
    library l = stories(quick() ? 12 : 60);
    compare_types(&m, &l, types, quick() ? 3 : sizeof types / sizeof *types);
    library_free(&l);
    close_model(&m);
}

/* ---- a model that admits the K formats ------------------------------------------------------- */

enum { N_SEQ = 4, LENGTH = 96 };

typedef struct lesson {
    batch batch;
    batch_row row[N_SEQ * LENGTH];
    sequence seq[N_SEQ];
} lesson;

/* Prefixes of four documents; each row's target is the next token. */
static void lesson_from(lesson *l, const library *of, int64_t first, uint64_t at)
{
    l->batch = (batch){ .n_seq = N_SEQ, .row = l->row, .seq = l->seq };
    for (int s = 0; s < N_SEQ; s++) {
        const int64_t n_document = of->n - first;
        const document *d =
            &of->document[first + rng_draw(62, at, (uint64_t)s).word[0] % (uint64_t)n_document];
        const int32_t n = d->n - 1 < LENGTH ? (int32_t)d->n - 1 : LENGTH;
        l->seq[s] = (sequence){ .first = l->batch.n_row, .n = n, .source = -1 };
        for (int32_t i = 0; i < n; i++)
            l->row[l->batch.n_row++] = (batch_row){ .id = d->ids[i],
                                                    .seq = s,
                                                    .pos = i,
                                                    .target = d->ids[i + 1],
                                                    .weight = 1,
                                                    .wanted = true };
    }
    l->batch.n_wanted = l->batch.n_row;
}

/* Trains a Llama of width 256 on the paragraphs after the first 60. Returns the file's path. */
static const char *wide_model(const library *l, int n_step)
{
    const llama_shape shape = { .n_layer = 2,
                                .d_model = 256,
                                .n_head = 4,
                                .n_head_kv = 2,
                                .d_ff = 512,
                                .n_vocab = 512,
                                .n_ctx = 512,
                                .type = &dtype_f32 };
    const bytes fresh = gguf_llama(&shape);
    host h;
    model m;
    learner learns;
    lesson s;
    weft_error err = { 0 };
    host_plain(&h);
    assert_int_equal(
        model_open(&m, temp_file("fresh.gguf", fresh.at, fresh.n), WEFT_LOAD_COPY, &h, &err),
        WEFT_OK);
    free(fresh.at);
    batch largest = { .n_row = N_SEQ * LENGTH,
                      .n_seq = N_SEQ,
                      .n_wanted = N_SEQ * LENGTH,
                      .row = s.row,
                      .seq = s.seq };
    for (int i = 0; i < N_SEQ * LENGTH; i++)
        s.row[i] = (batch_row){ .seq = i / LENGTH, .pos = i % LENGTH, .wanted = true };
    for (int i = 0; i < N_SEQ; i++)
        s.seq[i] = (sequence){ .first = i * LENGTH, .n = LENGTH, .source = -1 };
    const learner_options o = { .n_thread = 2, .adamw = { 0.9, 0.99, 1e-8, 0, 1.0 } };
    assert_int_equal(learner_init(&learns, &m, &o, &largest, &err), WEFT_OK);
    for (int64_t i = 0; i < m.n_param; i++)
        if (m.param[i]->n_dim > 1)
            fill_normal(m.param[i]->data, rows(m.param[i]) * cols(m.param[i]), 63, (uint64_t)i,
                        0.04);
    real loss = 0;
    for (int k = 0; k < n_step; k++) {
        lesson_from(&s, l, 60, (uint64_t)k);
        assert_int_equal(learner_begin(&learns, &err), WEFT_OK);
        loss = learner_backward(&learns, &s.batch);
        learner_update(&learns, 2e-3);
    }
    print_message("a Llama of width 256, %d steps: loss %.3f\n", n_step, (double)loss);
    const char *path = quantised("wide.gguf", &m, &dtype_f32);
    learner_free(&learns);
    model_close(&m);
    return path;
}

static void wide_types(void **state)
{
    (void)state;
    static const expectation types[] = {
        { &dtype_q8_0, 1.2e-4, 0.01 }, { &dtype_q6_k, 5e-4, 0.01 },  { &dtype_q5_k, 2e-3, 0.01 },
        { &dtype_q5_1, 2.4e-3, 0.01 }, { &dtype_q5_0, 3e-3, 0.01 },  { &dtype_q4_k, 8e-3, 0.02 },
        { &dtype_q4_1, 0.01, 0.02 },   { &dtype_q4_0, 0.013, 0.02 },
    };
    opened m;
    library l = stories(MAX_DOCUMENT);
    open_model(&m, wide_model(&l, quick() ? 2 : 120));
    library held = l;
    held.n = quick() ? 2 : 60;
    compare_types(&m, &held, types, sizeof types / sizeof *types);
    library_free(&l);
    close_model(&m);
}

/* ---- speed ----------------------------------------------------------------------------------- */

/* Speeds are finite, memory is freed, and every allocation may fail. */
static void speeds(void **state)
{
    (void)state;
    host h;
    model m;
    faults f = { 0 };
    weft_error err = { 0 };
    speed s;
    host_faulty(&h, &f, NULL);
    assert_int_equal(
        model_open(&m, random_llama("q4_k.gguf", 256, &dtype_q4_k), WEFT_LOAD_COPY, &h, &err),
        WEFT_OK);
    engine_options o = { .n_thread = 2 };
    assert_int_equal(engine_resolve(&m, &o, &err), WEFT_OK);
    const int64_t live = f.live;
    weft_status status = WEFT_ENOMEM;
    for (int64_t k = 1; status != WEFT_OK; k += quick() ? 7 : 1) {
        f.calls = 0;
        f.fail_at = k;
        status = engine_estimate(&m, &o, &s, &err);
        assert_int_equal(f.live, live);
        assert_true(status == WEFT_OK || status == WEFT_ENOMEM);
    }
    assert_int_equal(s.n_prompt, 320);
    assert_true(s.prompt > 0 && s.generate > 0 && s.read > 0 && s.products > 0);
    f.fail_at = 0;
    model_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("eval: stories260K's NLL of 60 paragraphs equals the reference", stories_nll),
        TEST("eval: threads, rows per step and parts of logits do not affect the result",
             one_result),
        TEST("eval: windows and strides equal token by token", windows),
        TEST("eval: a model does not diverge from itself", itself),
        TEST("eval: a caller that stops gets the result so far", stops),
        TEST("eval: refuses texts that cannot be scored", refuses),
        TEST("eval: every allocation may fail", allocations),
        TEST("inspect: speeds are numbers, and every allocation may fail", speeds),
        TEST("eval: stories260K in every format that fits it", story_types),
        TEST("eval: a model of width 256 in every format that weft writes", wide_types),
    };
    return RUN(tests);
}
