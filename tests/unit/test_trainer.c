/* The trainer: a step does not depend on how it is split, a resumed run equals an uninterrupted
 * one, and numeric faults do no harm. */
#include "support.h"

#include "base/clock.h"

#include "base/rng.h"
#include "golden.h"
#include "text/sources/source.h"
#include "text/train/train.h"
#include "train/init_model.h"
#include "train/trainer.h"

#include <errno.h>

/* ---- schedules ------------------------------------------------------------------------------- */

static void schedules_equal_transformers(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        schedule s;
    } kinds[] = {
        { "cosine", { SCHEDULE_COSINE, 1, 0, 10, 100, 0 } },
        { "cosine_least", { SCHEDULE_COSINE, 1, 0.1, 10, 100, 0 } },
        { "linear", { SCHEDULE_LINEAR, 1, 0, 10, 100, 0 } },
        { "constant", { SCHEDULE_CONSTANT, 1, 0, 10, 100, 0 } },
        { "wsd", { SCHEDULE_WSD, 1, 0, 10, 100, 20 } },
        { "inverse_sqrt", { SCHEDULE_INVERSE_SQRT, 1, 0, 10, 100, 0 } },
    };
    golden g;
    golden_open(&g, fixture("golden/schedules.safetensors"), 1e-6);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        const stored *t = golden_tensor(&g, kinds[k].name);
        assert_non_null(t);
        assert_int_equal(t->shape[0], 101);
        for (int64_t step = 0; step <= 100; step++) {
            const double want = (double)((const float *)t->data)[step];
            const double got = schedule_lr(&kinds[k].s, step);
            if (fabs(got - want) > 1e-7)
                fail_msg("%s: %g at step %lld, transformers has %g", kinds[k].name, got,
                         (long long)step, want);
        }
    }
    golden_close(&g);
}

/* ---- new models ------------------------------------------------------------------------------ */

static const init_model_shape small_gpt2 = { .arch = "gpt2",
                                             .n_layer = 2,
                                             .d_model = 32,
                                             .n_head = 4,
                                             .n_head_kv = 4,
                                             .d_ff = 64,
                                             .n_ctx = 16,
                                             .n_vocab = 60,
                                             .tied = -1,
                                             .eos_id = -1 };
static const init_model_shape small_llama = { .arch = "llama",
                                              .n_layer = 3,
                                              .d_model = 32,
                                              .n_head = 4,
                                              .n_head_kv = 2,
                                              .d_ff = 48,
                                              .n_ctx = 16,
                                              .n_vocab = 60,
                                              .tied = 1,
                                              .eos_id = 2 };

static weft_status write_shape(const init_model_shape *s, const char *path, uint64_t seed, host *h,
                               weft_error *err)
{
    buffer config;
    buffer_begin(&config, &h->mem, err);
    init_model_config(&config, s);
    const weft_status status = config.failed
                                   ? WEFT_ENOMEM
                                   : init_model_write(path, (const char *)config.at, config.n,
                                                      &(init_model_source){ .seed = seed }, h, err);
    buffer_end(&config);
    return status;
}

static const char *fresh_model(const init_model_shape *s, const char *name, uint64_t seed)
{
    host h;
    weft_error err = { 0 };
    const char *path = temp_path(name);
    host_plain(&h);
    if (write_shape(s, path, seed, &h, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    assert_int_equal(h.mem.used, 0);
    return path;
}

static const tensor *param(const model *m, const char *name)
{
    for (int64_t i = 0; i < m->n_param; i++)
        if (strcmp(m->param[i]->name, name) == 0)
            return m->param[i];
    fail_msg("the model has no %s", name);
    return NULL;
}

static double deviation(const model *m, const char *name)
{
    const tensor *t = param(m, name);
    const float *x = t->data;
    const int64_t n = rows(t) * cols(t);
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += (double)x[i];
        squares += (double)x[i] * (double)x[i];
    }
    assert_true(fabs(sum / (double)n) < 4 * 0.02 / sqrt((double)n));
    return sqrt(squares / (double)n);
}

static void assert_all(const model *m, const char *name, real value)
{
    const tensor *t = param(m, name);
    for (int64_t i = 0; i < cols(t); i++)
        assert_true(values(t)[i] == value);
}

static void begins_as_published(void **state)
{
    (void)state;
    host h;
    model m;
    weft_error err = { 0 };
    host_plain(&h);
    const init_model_shape s = { .arch = "gpt2",
                                 .n_layer = 4,
                                 .d_model = 128,
                                 .n_head = 4,
                                 .n_head_kv = 4,
                                 .d_ff = 512,
                                 .n_ctx = 64,
                                 .n_vocab = 300,
                                 .tied = -1,
                                 .eos_id = -1 };
    const char *path = fresh_model(&s, "published", 1);
    if (model_open(&m, path, WEFT_LOAD_COPY, &h, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    assert_true(fabs(deviation(&m, "token_embd.weight") / 0.02 - 1) < 0.02);
    assert_true(fabs(deviation(&m, "blk.1.attn_qkv.weight") / 0.02 - 1) < 0.02);
    assert_true(fabs(deviation(&m, "blk.1.attn_output.weight") / (0.02 / sqrt(8)) - 1) < 0.02);
    assert_true(fabs(deviation(&m, "blk.3.ffn_down.weight") / (0.02 / sqrt(8)) - 1) < 0.02);
    assert_all(&m, "blk.0.attn_norm.weight", 1);
    assert_all(&m, "blk.0.attn_qkv.bias", 0);
    const tensor *w = param(&m, "blk.2.ffn_up.weight");
    for (int64_t r = 0; r < rows(w); r += 37) /* whichever way the file stores the matrix */
        assert_true(((const float *)w->data)[r * cols(w) + 5] ==
                    (float)init_model_value(&m, w, 1, r, 5));
    model_close(&m);
    assert_int_equal(h.mem.used, 0);
}

static void every_fault_of_beginning(void **state)
{
    (void)state;
    for (int kind = 0; kind < 2; kind++)
        for (int64_t k = 1;; k++) {
            host h;
            faults f = { .fail_at = k };
            weft_error err = { 0 };
            char name[64];
            snprintf(name, sizeof name, "faulty-%d-%lld", kind, (long long)k);
            host_faulty(&h, kind ? NULL : &f, kind ? &f : NULL);
            const weft_status status = write_shape(&small_llama, temp_path(name), 1, &h, &err);
            assert_int_equal(h.mem.used, 0);
            assert_int_equal(f.live, 0);
            if (f.calls < k) {
                assert_int_equal(status, WEFT_OK);
                break;
            }
            if (status != WEFT_OK)
                assert_true(err.message[0] != '\0');
        }
}

static void wrong_shapes_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *arch;
        int64_t n_layer, d_model, n_head, n_vocab;
    } wrong[] = {
        { "mamba", 2, 32, 4, 60 },        { "gpt2", 0, 32, 4, 60 }, { "gpt2", 2, 32, 5, 60 },
        { "llama", 1 << 20, 32, 4, 60 },  { "llama", 2, 32, 4, 0 }, { "gpt2", 2, -32, 4, 60 },
        { "llama", 2, INT32_MAX, 4, 60 },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        host h;
        weft_error err = { 0 };
        init_model_shape s = small_llama;
        s.arch = wrong[i].arch;
        s.n_layer = wrong[i].n_layer;
        s.d_model = wrong[i].d_model;
        s.n_head = s.n_head_kv = wrong[i].n_head;
        s.n_vocab = wrong[i].n_vocab;
        host_plain(&h);
        assert_int_not_equal(write_shape(&s, temp_path("wrong"), 1, &h, &err), WEFT_OK);
        assert_true(err.message[0] != '\0');
        assert_int_equal(h.mem.used, 0);
    }
}

/* ---- a school --------------------------------------------------------------------- */

/* Model, data and trainer: most tests need one of each. */
typedef struct school {
    host h;
    model m;
    tokenizer tokenizer;
    dataset d;
    hf_form form;
    trainer t;
} school;

/* Paragraphs of words of different lengths. */
static const char *some_text(void)
{
    static char text[20000];
    size_t n = 0;
    for (uint64_t i = 0; n + 400 < sizeof text; i++) {
        const rng_block r = rng_draw(5, 1, i);
        const unsigned n_word = 1 + r.word[0] % 23;
        for (unsigned k = 0; k < n_word; k++)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", k ? " " : "",
                                  k % 3 == r.word[1] % 3 ? "weft"
                                  : k % 2                ? "a"
                                                         : "loom");
        n += (size_t)snprintf(text + n, sizeof text - n, "\n\n");
    }
    return temp_file("text.txt", text, n);
}

static const char *some_tokenizer(const char *text)
{
    static const char *const special[] = { "<|endoftext|>" };
    const train_options o = {
        .n_vocab = 270, .min_frequency = 2, .special = special, .n_special = 1
    };
    host h;
    trained t;
    weft_error err = { 0 };
    const char *path = temp_path("tokenizer.json");
    host_plain(&h);
    if (train_tokenizer(&t, &text, 1, &o, &h, &err) != WEFT_OK ||
        trained_save(&t, &o, path, &h, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    trained_free(&t);
    return path;
}

static trainer_options plain_options(void)
{
    return (trainer_options){
        .learner = { .n_thread = 1, .adamw = { 0.9, 0.95, 1e-8, 0.1, 1 } },
        .schedule = { SCHEDULE_COSINE, 1e-2, 1e-3, 2, 6, 0 },
        .n_sample = 4,
        .n_part = 1,
        .seed = 7,
        .max_skipped = 3,
    };
}

/* From a model's directory; documents if `packed`. */
static void begin(school *c, const char *from, bool packed, trainer_options o)
{
    weft_error err = { 0 };
    static char text_path[512], vocabulary[512];
    if (!*vocabulary) {
        snprintf(text_path, sizeof text_path, "%s", some_text());
        snprintf(vocabulary, sizeof vocabulary, "%s", some_tokenizer(text_path));
    }
    const char *const text = text_path;
    *c = (school){ 0 };
    host_plain(&c->h);
    const data_options d = { .corpus = { .tokenizer = &c->tokenizer,
                                         .separator = packed ? "" : NULL,
                                         .eos = packed ? 0 : -1,
                                         .n_vocab = 270,
                                         .n_thread = 1 },
                             .n_ctx = 16,
                             .validation = 0.1 };
    if (model_open(&c->m, from, WEFT_LOAD_COPY, &c->h, &err) != WEFT_OK ||
        tokenizer_load(&c->tokenizer, vocabulary, NULL, WEFT_LOAD_COPY, &c->h, &err) != WEFT_OK ||
        data_open(&c->d, &text, 1, &d, &c->h, &err) != WEFT_OK ||
        hf_form_init(&c->form, from, WEFT_LOAD_COPY, &c->h, &err) != WEFT_OK ||
        trainer_init(&c->t, &c->m, &c->d, &o, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    c->t.learner.run.fork_cost = 0;
}

static void finish(school *c)
{
    trainer_free(&c->t);
    hf_form_free(&c->form);
    data_close(&c->d);
    tokenizer_free(&c->tokenizer);
    model_close(&c->m);
    assert_int_equal(c->h.mem.used, 0);
}

static const char *pupil(int i)
{
    static char path[2][256];
    init_model_shape s = i ? small_llama : small_gpt2;
    s.n_vocab = 270;
    if (!path[i][0])
        snprintf(path[i], sizeof path[i], "%s", fresh_model(&s, i ? "llama" : "gpt2", 3));
    return path[i];
}

static double step(school *c)
{
    trainer_report r;
    weft_error err = { 0 };
    if (trainer_step(&c->t, &r, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    return r.loss;
}

/* Losses of six steps and the weights after them. */
#define N_STEP 6

typedef struct outcome {
    double loss[N_STEP];
    real *weights;
    size_t bytes;
} outcome;

static void keep(outcome *o, const school *c)
{
    o->bytes = (size_t)c->t.learner.params.n * sizeof(real);
    o->weights = malloc(o->bytes);
    memcpy(o->weights, c->t.learner.params.value, o->bytes);
}

static outcome learn(int who, bool packed, trainer_options o)
{
    school c;
    outcome all = { 0 };
    begin(&c, pupil(who), packed, o);
    for (int k = 0; k < N_STEP; k++)
        all.loss[k] = step(&c);
    keep(&all, &c);
    finish(&c);
    return all;
}

static bool same(const outcome *a, const outcome *b)
{
    return memcmp(a->loss, b->loss, sizeof a->loss) == 0 && a->bytes == b->bytes &&
           memcmp(a->weights, b->weights, a->bytes) == 0;
}

/* ---- accumulation ---------------------------------------------------------------------------- */

/* The gradient of one step, split into parts; the caller frees it. */
static real *gradient(int who, int n_part, double *loss, int64_t *n)
{
    school c;
    trainer_options o = plain_options();
    o.n_part = n_part;
    o.n_sample = 12 / n_part;
    begin(&c, pupil(who), true, o);
    *loss = step(&c);
    *n = c.t.learner.params.n;
    real *g = malloc((size_t)*n * sizeof *g);
    memcpy(g, c.t.learner.params.grad, (size_t)*n * sizeof *g);
    finish(&c);
    return g;
}

static void parts_are_the_whole(void **state)
{
    (void)state;
    double worst = 0;
    for (int who = 0; who < 2; who++) {
        double whole_loss;
        int64_t n;
        real *whole_step = gradient(who, 1, &whole_loss, &n);
        for (int i = 0; i < 4; i++) {
            static const int cuts[] = { 2, 3, 6, 12 };
            double loss;
            real *g = gradient(who, cuts[i], &loss, &n);
            assert_true(fabs(loss / whole_loss - 1) <= 1e-6);
            worst = fmax(worst, assert_close("gradient", g, whole_step, n, 1e-6));
            free(g);
        }
        free(whole_step);
    }
    print_message("2, 3, 6 and 12 parts of a step: gradients within %.1e of the largest\n", worst);
}

/* ---- the same bits --------------------------------------------------------------------------- */

static void threads_do_not_matter(void **state)
{
    (void)state;
    for (int who = 0; who < 2; who++) {
        trainer_options o = plain_options();
        o.learner.dropout = 0.1f;
        outcome one = learn(who, true, o);
        for (o.learner.n_thread = 2; o.learner.n_thread <= 4; o.learner.n_thread *= 2) {
            outcome more = learn(who, true, o);
            assert_true(same(&one, &more));
            free(more.weights);
        }
        o.learner.n_thread = 1;
        o.learner.recompute = true;
        outcome again = learn(who, true, o);
        assert_true(same(&one, &again));
        o.seed++;
        outcome other = learn(who, true, o);
        assert_false(same(&one, &other)); /* the comparison can fail */
        free(one.weights);
        free(again.weights);
        free(other.weights);
    }
}

/* 9 samples in 1, 2, 4 and 8 groups, the first of which has one more, in parts of at most 3. */
static void groups_have_their_bits(void **state)
{
    (void)state;
    outcome one = { 0 };
    for (int n = 1; n <= 8; n *= 2) {
        trainer_options o = plain_options();
        o.n_sample = 3;
        o.n_part = 3;
        o.learner.n_group = n;
        o.learner.n_thread = 1;
        const outcome a = learn(0, false, o);
        o.learner.n_thread = n == 8 ? 4 : 2;
        const outcome b = learn(0, false, o);
        assert_true(same(&a, &b));
        if (n == 1) {
            one = a;
        } else {
            assert_false(same(&a, &one));
            for (int k = 0; k < N_STEP; k++)
                assert_true(fabs(a.loss[k] / one.loss[k] - 1) < 1e-4);
            free(a.weights);
        }
        free(b.weights);
    }
    free(one.weights);
}

/* Takes k steps, resumes in a new trainer, and takes the rest there. */
static outcome interrupted(int who, int k, trainer_options o, bool forget)
{
    school c;
    outcome all = { 0 };
    checkpoint found;
    weft_error err = { 0 };
    char name[64], home[512];
    snprintf(name, sizeof name, "run-%d-%d-%d-%d", who, k, (int)o.learner.bf16, (int)forget);
    snprintf(home, sizeof home, "%s", temp_path(name));
    o.run = home;
    begin(&c, pupil(who), true, o);
    for (int i = 0; i < k; i++)
        all.loss[i] = step(&c);
    if (trainer_save(&c.t, &c.form, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    finish(&c);

    host h;
    host_plain(&h);
    if (checkpoint_find(&found, home, &h, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    begin(&c, found.path, true, o);
    if (trainer_load(&c.t, &found, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    checkpoint_free(&found);
    if (forget)
        c.t.learner.n_backward = 0;
    for (int i = k; i < N_STEP; i++)
        all.loss[i] = step(&c);
    keep(&all, &c);
    finish(&c);
    return all;
}

static void resumed_is_uninterrupted(void **state)
{
    (void)state;
    for (int who = 0; who < 2; who++)
        for (int bf16 = 0; bf16 < 2; bf16++) {
            trainer_options o = plain_options();
            o.learner.dropout = 0.2f;
            o.learner.bf16 = bf16;
            o.n_part = 2;
            outcome whole = learn(who, true, o);
            for (int k = 1; k < N_STEP; k++) {
                outcome parts = interrupted(who, k, o, false);
                assert_true(same(&whole, &parts));
                free(parts.weights);
            }
            outcome forgetful = interrupted(who, 3, o, true);
            assert_false(same(&whole, &forgetful)); /* random numbers are part of the state */
            free(forgetful.weights);
            free(whole.weights);
        }
}

/* Impossible counters under correct checksums: each is refused before any computation. */
static void hostile_counters_are_refused(void **state)
{
    (void)state;
    school c;
    checkpoint found;
    host h;
    weft_error err = { 0 };
    trainer_options o = plain_options();
    char home[512];
    snprintf(home, sizeof home, "%s", temp_path("run-hostile"));
    o.run = home;
    begin(&c, pupil(0), true, o);
    step(&c);
    assert_int_equal(trainer_save(&c.t, &c.form, &err), WEFT_OK);
    finish(&c);
    host_plain(&h);
    assert_int_equal(checkpoint_find(&found, home, &h, &err), WEFT_OK);
    const manifest_counters as_written = found.manifest.counters;
    static const int64_t values[] = { 2, 1 << 20, MAX_SAMPLE, INT64_MAX / 2, INT64_MAX };
    for (int which = 0; which < 3; which++)
        for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
            manifest_counters *n = &found.manifest.counters;
            *n = as_written;
            *(which == 0 ? &n->cursor : which == 1 ? &n->step : &n->n_backward) = values[k];
            if (memcmp(n, &as_written, sizeof *n) == 0)
                continue;
            begin(&c, found.path, true, o);
            if (trainer_load(&c.t, &found, &err) != WEFT_EFORMAT)
                fail_msg("counter %d of %lld is taken", which, (long long)values[k]);
            finish(&c);
        }
    found.manifest.counters = as_written;
    begin(&c, found.path, true, o);
    assert_int_equal(trainer_load(&c.t, &found, &err), WEFT_OK);
    finish(&c);
    checkpoint_free(&found);
    assert_int_equal(h.mem.used, 0);
}

/* The same for the trainer's state in a checkpoint. */
static void hostile_state_is_refused(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        int64_t value;
    } cases[] = {
        { offsetof(trainer_state, n_skipped), INT64_MAX },
        { offsetof(trainer_state, n_skipped), -1 },
        { offsetof(trainer_state, in_a_row), INT64_MAX },
        { offsetof(trainer_state, n_row), INT64_MAX },
        { offsetof(trainer_state, n_row), INT64_MIN },
        { offsetof(trainer_state, n_loss), INT64_MAX },
        { offsetof(trainer_state, n_worse), INT64_MAX },
        { offsetof(trainer_state, best_step), 2 },
        { offsetof(trainer_state, faded), 0x7FF8000000000000 },
        { offsetof(trainer_state, best), 0x7FF8000000000000 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        school c;
        checkpoint found;
        host h;
        weft_error err = { 0 };
        trainer_options o = plain_options();
        char home[512], name[32];
        snprintf(name, sizeof name, "run-state-%d", (int)i);
        snprintf(home, sizeof home, "%s", temp_path(name));
        o.run = home;
        begin(&c, pupil(0), true, o);
        step(&c);
        memcpy((char *)&c.t.state + cases[i].at, &cases[i].value, sizeof cases[i].value);
        assert_int_equal(trainer_save(&c.t, &c.form, &err), WEFT_OK);
        finish(&c);
        host_plain(&h);
        assert_int_equal(checkpoint_find(&found, home, &h, &err), WEFT_OK);
        begin(&c, found.path, true, o);
        if (trainer_load(&c.t, &found, &err) != WEFT_EFORMAT)
            fail_msg("state %d is taken", (int)i);
        finish(&c);
        checkpoint_free(&found);
    }
}

static void other_runs_are_not_resumed(void **state)
{
    (void)state;
    school c;
    checkpoint found;
    host h;
    weft_error err = { 0 };
    trainer_options o = plain_options();
    char home[512];
    snprintf(home, sizeof home, "%s", temp_path("run-other"));
    o.run = home;
    begin(&c, pupil(0), true, o);
    step(&c);
    assert_int_equal(trainer_save(&c.t, &c.form, &err), WEFT_OK);
    finish(&c);
    host_plain(&h);
    assert_int_equal(checkpoint_find(&found, home, &h, &err), WEFT_OK);
    static const char *const frozen[] = { "blk.0.*" };
    for (int what = 0; what < 4; what++) {
        trainer_options other = o;
        other.seed += what == 0;
        other.n_part += what == 1;
        other.learner.dropout = what == 2 ? 0.5f : 0;
        other.learner.frozen = frozen;
        other.learner.n_frozen = what == 3;
        begin(&c, found.path, true, other);
        assert_int_equal(trainer_load(&c.t, &found, &err), WEFT_EINVAL);
        finish(&c);
    }
    checkpoint_free(&found);
    assert_int_equal(h.mem.used, 0);
}

/* ---- evaluation and the end ------------------------------------------------------------------ */

static void evaluation_is_even(void **state)
{
    (void)state;
    for (int packed = 0; packed < 2; packed++) {
        double first = 0;
        for (int n = 1; n <= 9; n += 4) {
            school c;
            double loss, share;
            trainer_options o = plain_options();
            o.n_sample = n;
            o.learner.dropout = 0.5f;
            o.learner.smoothing = 0.3f;
            begin(&c, pupil(packed), packed, o);
            assert_int_equal(trainer_evaluate(&c.t, &loss, &share, NULL), WEFT_OK);
            first = n == 1 ? loss : first;
            assert_true(fabs(loss / first - 1) <= 1e-6);
            assert_true(fabs(loss - log(270)) < 0.2); /* it is untrained */
            finish(&c);
        }
    }
}

typedef struct log_of_run {
    int told, evaluated;
    int64_t stop_at;
} log_of_run;

static bool count_reports(void *ud, const trainer_report *r)
{
    log_of_run *l = ud;
    l->told++;
    l->evaluated += r->evaluated;
    return r->step != l->stop_at;
}

static void patience_ends_a_run(void **state)
{
    (void)state;
    school c;
    trainer_report last;
    bool stopped;
    log_of_run l = { .stop_at = -1 };
    trainer_options o = plain_options();
    o.schedule.lr = o.schedule.lr_min = 0; /* it will not get better */
    o.schedule.n_step = 100;
    o.eval_every = 2;
    o.patience = 3;
    o.tell = count_reports;
    o.ud = &l;
    begin(&c, pupil(0), false, o);
    const double began = clock_seconds();
    assert_int_equal(trainer_run(&c.t, NULL, &last, &stopped, NULL), WEFT_OK);
    const double seconds = clock_seconds() - began;
    assert_int_equal(last.step, 6);
    assert_true(last.left > 0 && last.left <= seconds / 6 * 94);
    assert_int_equal(l.evaluated, 4);
    assert_int_equal(l.told, 7);
    assert_false(stopped);
    finish(&c);
}

static void a_listener_ends_a_run(void **state)
{
    (void)state;
    school c;
    trainer_report last;
    checkpoint found;
    bool stopped;
    weft_error err = { 0 };
    log_of_run l = { .stop_at = 3 };
    trainer_options o = plain_options();
    char home[512];
    snprintf(home, sizeof home, "%s", temp_path("run-stopped"));
    o.run = home;
    o.tell = count_reports;
    o.ud = &l;
    begin(&c, pupil(1), false, o);
    assert_int_equal(trainer_run(&c.t, &c.form, &last, &stopped, &err), WEFT_OK);
    assert_true(stopped);
    assert_int_equal(last.step, 3);
    assert_int_equal(checkpoint_find(&found, home, &c.h, &err), WEFT_OK);
    assert_int_equal(found.manifest.counters.step, 3);
    checkpoint_free(&found);
    finish(&c);
}

/* A disk that becomes full between two steps, and a callback that fills and clears it. */
typedef struct full_disk {
    bool full;
    int64_t from, until; /* steps */
    int n_warned;
    int64_t saved[8]; /* steps for which a checkpoint was reported */
    int n_saved;
} full_disk;

static full_disk disk_state; /* the write hook has only the descriptor */

static ssize_t write_unless_full(void *ud, int fd, const void *from, size_t size)
{
    if (disk_state.full)
        return errno = ENOSPC, -1;
    return io_system.write(ud, fd, from, size);
}

static void count_warnings(void *ud, weft_log_level level, const char *line)
{
    full_disk *d = ud;
    if (level == WEFT_LOG_WARN && strstr(line, "No space left") && strstr(line, "continues"))
        d->n_warned++;
}

static bool fill_disk(void *ud, const trainer_report *r)
{
    full_disk *d = ud;
    if (r->saved)
        d->saved[d->n_saved++] = r->step;
    d->full = r->step + 1 >= d->from && r->step + 1 <= d->until;
    return true;
}

/* Runs six steps, each with a checkpoint, on a disk that is full at some of them. */
static weft_status train_on(school *c, int64_t from, int64_t until, const char *home,
                            weft_error *err)
{
    trainer_report last;
    bool stopped;
    trainer_options o = plain_options();
    disk_state = (full_disk){ .from = from, .until = until };
    o.run = home;
    o.save_every = 1;
    o.keep = 1;
    o.tell = fill_disk;
    o.ud = &disk_state;
    begin(c, pupil(1), false, o);
    c->h.io.write = write_unless_full;
    c->h.log = (log_sink){ count_warnings, &disk_state };
    return trainer_run(&c->t, &c->form, &last, &stopped, err);
}

static void assert_newest(const char *home, int64_t step, host *h)
{
    checkpoint found;
    weft_error err = { 0 };
    assert_int_equal(checkpoint_find(&found, home, h, &err), WEFT_OK);
    assert_int_equal(found.manifest.counters.step, step);
    checkpoint_free(&found);
}

static void a_full_disk_does_not_end_a_run(void **state)
{
    (void)state;
    school c;
    weft_error err = { 0 };
    char home[512];
    snprintf(home, sizeof home, "%s", temp_path("run-full"));
    assert_int_equal(train_on(&c, 3, 4, home, &err), WEFT_OK);
    static const int64_t expected[] = { 1, 2, 5, 6 };
    assert_int_equal(disk_state.n_saved, 4);
    assert_memory_equal(disk_state.saved, expected, sizeof expected);
    assert_int_equal(disk_state.n_warned, 2);
    assert_newest(home, 6, &c.h);
    finish(&c);

    /* Full to the end: the last checkpoint is an error, the previous one is unchanged. */
    snprintf(home, sizeof home, "%s", temp_path("run-fuller"));
    assert_int_equal(train_on(&c, 3, 9, home, &err), WEFT_EIO);
    assert_non_null(strstr(err.message, "No space left"));
    assert_int_equal(disk_state.n_warned, 3);
    disk_state.full = false;
    assert_newest(home, 2, &c.h);
    finish(&c);
}

/* ---- numbers that are none ------------------------------------------------------------------- */

static void bad_numbers_are_skipped(void **state)
{
    (void)state;
    school c;
    trainer_report r;
    weft_error err = { 0 };
    trainer_options o = plain_options();
    begin(&c, pupil(0), false, o);
    step(&c);
    real *w = c.t.learner.params.value, kept = w[0];
    w[0] = INFINITY;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(trainer_step(&c.t, &r, &err), WEFT_OK);
        assert_true(r.skipped);
        assert_int_equal(c.t.learner.adamw.step, 1);
    }
    assert_true(isfinite(r.smoothed));
    w[0] = kept;
    step(&c);
    assert_int_equal(c.t.state.n_skipped, 2);
    assert_int_equal(c.t.state.in_a_row, 0);
    w[0] = NAN;
    for (int i = 0; i < 2; i++)
        assert_int_equal(trainer_step(&c.t, &r, &err), WEFT_OK);
    assert_int_equal(trainer_step(&c.t, &r, &err), WEFT_ENUMERIC);
    assert_non_null(strstr(err.message, "3 times in a row"));
    finish(&c);
}

/* ---- frozen weights -------------------------------------------------------------------------- */

static void frozen_weights_stay(void **state)
{
    (void)state;
    static const char *const sets[][2] = { { "token_embd*", "blk.0.*" },
                                           { "blk.1.*", "output_norm*" },
                                           { "*norm*", "*attn*" },
                                           { "token_embd*", "blk.*" } };
    for (int i = 0; i < 16; i++) {
        school c;
        trainer_options o = plain_options();
        o.learner.frozen = sets[i / 4];
        o.learner.n_frozen = 2;
        o.learner.recompute = i % 2;
        begin(&c, pupil(i / 2 % 2), false, o);
        outcome before = { 0 };
        keep(&before, &c);
        for (int k = 0; k < 3; k++)
            step(&c);
        const params *p = &c.t.learner.params;
        for (int64_t k = 0; k < p->n_tensor; k++) {
            const tensor *t = p->tensor[k];
            const size_t bytes = (size_t)(p->at[k + 1] - p->at[k]) * sizeof(real);
            const bool moved = memcmp(t->data, before.weights + p->at[k], bytes) != 0;
            if (moved != t->needs_grad)
                fail_msg("%s %s", t->name, moved ? "moved" : "stayed");
        }
        free(before.weights);
        finish(&c);
    }
}

static void what_freezes_nothing_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = { "blk.9.*", "*" };
    for (int i = 0; i < 2; i++) {
        host h;
        model m;
        learner l;
        batch_row row[2] = { { .target = 1, .weight = 1, .wanted = true },
                             { .pos = 1, .target = 2, .weight = 1, .wanted = true } };
        sequence s = { .n = 2, .source = -1 };
        const batch b = { .n_row = 2, .n_seq = 1, .n_wanted = 2, .row = row, .seq = &s };
        const learner_options o = { .n_thread = 1, .frozen = &wrong[i], .n_frozen = 1 };
        weft_error err = { 0 };
        host_plain(&h);
        assert_int_equal(model_open(&m, pupil(0), WEFT_LOAD_COPY, &h, &err), WEFT_OK);
        assert_int_equal(learner_init(&l, &m, &o, &b, &err), WEFT_EINVAL);
        model_close(&m);
        assert_int_equal(h.mem.used, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("schedule: every rate equals transformers'", schedules_equal_transformers),
        TEST("init: a new model starts as published", begins_as_published),
        TEST("init: every failed allocation and file call is reported and leaks nothing",
             every_fault_of_beginning),
        TEST("init: impossible shapes are refused", wrong_shapes_are_refused),
        TEST("trainer: a step does not depend on how it is split", parts_are_the_whole),
        TEST("trainer: threads and recomputation do not matter", threads_do_not_matter),
        TEST("trainer: the number of groups determines the bits, on any number of threads",
             groups_have_their_bits),
        TEST("trainer: a run resumed after any step equals an uninterrupted one",
             resumed_is_uninterrupted),
        TEST("trainer: a checkpoint of another run is refused", other_runs_are_not_resumed),
        TEST("trainer: impossible counters are refused", hostile_counters_are_refused),
        TEST("trainer: an impossible state is refused", hostile_state_is_refused),
        TEST("trainer: evaluation does not depend on how many samples are computed at once",
             evaluation_is_even),
        TEST("trainer: a run ends when its patience is exhausted", patience_ends_a_run),
        TEST("trainer: a callback ends a run, with a checkpoint", a_listener_ends_a_run),
        TEST("trainer: a full disk loses checkpoints, not the run", a_full_disk_does_not_end_a_run),
        TEST("trainer: non-finite steps are skipped, and several in a row are an error",
             bad_numbers_are_skipped),
        TEST("trainer: frozen weights keep every bit, all others learn", frozen_weights_stay),
        TEST("trainer: a pattern that matches nothing, or everything, is refused",
             what_freezes_nothing_is_refused),
    };
    return RUN(tests);
}
