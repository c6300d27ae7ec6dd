/* The same bits on every CPU with fused multiply-adds: every tensor of a forward, the loss and all
 * gradients of every golden model, and the logits and greedy text of a small Llama in every format,
 * are equal in every table but scalar's. The hash is stored here; AVX2, AVX-512 and NEON (under an
 * emulator) give it. */
#include "small_model.h"

#include "base/checksum.h"
#include "base/rng.h"
#include "train/learner.h"

#include <string.h>

/* Over all golden models: tensors of forwards, and losses with gradients; over all formats: logits
 * and texts; then the same in class bf16. A change of arithmetic changes them once, on all CPUs. */
static const char *const written[] = { "677fef0f5225e321", "fa8b83b73a1a501c", "e6171201cdec57fe",
                                       "2838a520f33e0eaa", "bfdd3e5cf64ce98d", "a0af2f85157e09f0" };

static const char *const goldens[] = {
    "llama-gqa",
    "llama-linear",
    "llama-yarn",
    "mistral-window",
    "qwen2",
    "qwen3",
    "gpt2",
    "gpt2-rope",
    "bert-fill",
    "bert-classify",
    "bert-tag",
    "roberta-fill",
    "distilbert-tag",
    "deit",
    "bart",
    "marian",
    "m2m",
    "t5",
    "flan-t5",
    "transformer-2017",
    "deepseek-v2",
    "deepseek-v2-lite",
    "deepseek-v3",
    "deepseek-v3-dense",
    "bahdanau",
};
#define N_GOLDEN (sizeof goldens / sizeof *goldens)

enum { MOST = 256, LENGTH = 19 };

/* Two texts, or two images, with every row that can have a target wanted. */
typedef struct lesson {
    batch batch, src;
    batch_row row[MOST], src_row[MOST];
    sequence seq[2], src_seq[2];
    real *features;
} lesson;

static void lay_out(batch *b, batch_row *row, sequence *seq, int n, int64_t n_vocab, uint64_t key)
{
    *b = (batch){ .n_seq = 2, .row = row, .seq = seq };
    for (int s = 0; s < 2; s++) {
        seq[s] = (sequence){ .first = b->n_row, .n = n - s % n, .source = -1 };
        for (int32_t i = 0; i < seq[s].n; i++) {
            const uint32_t word = rng_draw(71, key, (uint64_t)b->n_row).word[0];
            row[b->n_row++] = (batch_row){ .id = (int32_t)(word % (uint32_t)n_vocab),
                                           .seq = s,
                                           .pos = i,
                                           .target = NO_TARGET,
                                           .weight = 1 };
        }
    }
}

static void lesson_init(lesson *l, const model *m)
{
    const bool one = m->task == WEFT_TASK_CLASSIFY; /* answer for the whole */
    const int n = m->image.channels ? (int)m->n_ctx : LENGTH;
    *l = (lesson){ .features = NULL };
    lay_out(&l->batch, l->row, l->seq, n, m->n_vocab ? m->n_vocab : 1, 1);
    if (m->image.channels) { /* images all have one size */
        l->seq[1].n = n;
        l->row[l->batch.n_row++] = (batch_row){ .seq = 1, .pos = n - 1, .target = NO_TARGET };
        l->features = calloc((size_t)(l->batch.n_row * m->d_feature), sizeof *l->features);
        fill_normal(l->features, l->batch.n_row * m->d_feature, 72, 0, 1);
        l->batch.features = l->features;
    }
    for (int i = 0; i < l->batch.n_row; i++)
        if (!one || l->row[i].pos == 0) {
            l->row[i].target = (int32_t)((i * 7 + 3) % m->n_out);
            l->row[i].wanted = true;
            l->batch.n_wanted++;
        }
    if (m->n_layer_src == 0)
        return;
    lay_out(&l->src, l->src_row, l->src_seq, LENGTH + 4, m->n_vocab, 2);
    l->batch.src = &l->src;
    l->seq[0].source = 0;
    l->seq[1].source = 1;
}

static void add_tensor(void *ud, const tensor *t, const op *by)
{
    (void)by;
    for (int64_t i = 0; i < rows(t); i++)
        xxh64_add(ud, row(t, i), (size_t)cols(t) * sizeof(real));
}

/* ---- what is hashed -------------------------------------------------------------------------- */

static void hash_forward(xxh64 *sum, const char *name, bool bf16, const kernels *kern)
{
    weft_error err = { 0 };
    fixture_model f;
    static lesson l;
    run dry, r;
    open_golden(&f, name);
    if (bf16)
        model_compute_bf16(&f.model);
    const model *m = &f.model;
    const int layers = (int)(m->n_layer + m->n_layer_src);
    lesson_init(&l, m);
    assert_int_equal(run_init_dry(&dry, &f.host.mem, layers, &err), WEFT_OK);
    run_begin(&dry, &l.batch);
    model_forward(&dry, m);
    assert_int_equal(
        run_init(&r, &f.host.mem, dry.meta.peak, dry.data.peak, dry.scratch_peak, &err), WEFT_OK);
    r.kern = kern;
    r.trace = add_tensor;
    r.trace_ud = sum;
    run_begin(&r, &l.batch);
    model_forward(&r, m);
    run_free(&dry);
    run_free(&r);
    free(l.features);
    close_llama(&f);
}

static void hash_gradient(xxh64 *sum, const char *name, bool bf16, const kernels *kern)
{
    weft_error err = { 0 };
    fixture_model f;
    static lesson l;
    learner pupil;
    const learner_options o = { .n_thread = 2,
                                .bf16 = bf16,
                                .adamw = { 0.9, 0.95, 1e-8, 0.1, 1.0 } };
    open_golden(&f, name);
    f.model.kern = kern;
    lesson_init(&l, &f.model);
    assert_int_equal(learner_init(&pupil, &f.model, &o, &l.batch, &err), WEFT_OK);
    assert_int_equal(learner_begin(&pupil, &err), WEFT_OK);
    const real loss = learner_backward(&pupil, &l.batch);
    const double norm = learner_update(&pupil, 1e-3);
    xxh64_add(sum, &loss, sizeof loss);
    xxh64_add(sum, &norm, sizeof norm);
    for (int64_t i = 0; i < f.model.n_param; i++) {
        const tensor *t = f.model.param[i];
        const int64_t n = (t->n_dim > 1 ? rows(t) : 1) * cols(t);
        xxh64_add(sum, t->grad, (size_t)n * sizeof *t->grad);
        xxh64_add(sum, t->data, (size_t)n * sizeof(real));
    }
    learner_free(&pupil);
    free(l.features);
    close_llama(&f);
}

/* A prompt, then twelve greedy tokens, with packed weights. */
static void hash_text(xxh64 *sum, const dtype *type, bool bf16, const kernels *kern)
{
    fixture_model f;
    llama_shape shape = small_shape;
    int32_t ids[LENGTH];
    shape.type = type;
    if (type->block > 32) {
        shape.d_model = 256;
        shape.d_ff = 512;
    }
    open_llama(&f, shape);
    f.model.kern = kern;
    if (bf16)
        model_compute_bf16(&f.model);
    story(ids, LENGTH, 9);
    engine *e = make_engine(&f, (engine_options){ .n_thread = 1 });
    session *s = make_session(e);
    must_feed(s, ids, LENGTH);
    for (int i = 0; i < 12; i++) {
        int32_t best = 0;
        xxh64_add(sum, s->logits, (size_t)f.model.n_vocab * sizeof *s->logits);
        for (int32_t v = 1; v < f.model.n_vocab; v++)
            best = s->logits[v] > s->logits[best] ? v : best;
        must_feed(s, &best, 1);
    }
    session_free(s);
    engine_free(e);
    close_llama(&f);
}

/* ---- tables ---------------------------------------------------------------------------------- */

static bool fuses(const kernels *t)
{
    return t != &kernels_scalar;
}

/* Each table's hash equals the first one's, otherwise the differing model is named; and it equals
 * the stored one. */
#define EACH_TABLE(table, which, n, name_of, hash)                                                 \
    do {                                                                                           \
        uint64_t first[64] = { 0 };                                                                \
        for (int t = 0; table(t) && fuses(table(t)); t++) {                                        \
            xxh64 all;                                                                             \
            char hex[17];                                                                          \
            xxh64_begin(&all);                                                                     \
            for (size_t k = 0; k < (n); k++) {                                                     \
                xxh64 own;                                                                         \
                xxh64_begin(&own);                                                                 \
                hash;                                                                              \
                const uint64_t sum = xxh64_end(&own);                                              \
                first[k] = t ? first[k] : sum;                                                     \
                assert_that(sum == first[k], "%s: %s differs from %s", name_of, table(t)->name,    \
                            table(0)->name);                                                       \
                xxh64_add(&all, &sum, sizeof sum);                                                 \
            }                                                                                      \
            snprintf(hex, sizeof hex, "%016llx", (unsigned long long)xxh64_end(&all));             \
            print_message("%s: %s\n", table(t)->name, hex);                                        \
            assert_string_equal(hex, written[which]);                                              \
        }                                                                                          \
    } while (0)

static const dtype *const types[] = { &dtype_f32,  &dtype_f16,   &dtype_bf16,   &dtype_q8_0,
                                      &dtype_q4_0, &dtype_q4_1,  &dtype_q5_0,   &dtype_q5_1,
                                      &dtype_q2_k, &dtype_q3_k,  &dtype_q4_k,   &dtype_q5_k,
                                      &dtype_q6_k, &dtype_mxfp4, &dtype_iq4_nl, &dtype_iq4_xs };
#define N_TYPE (sizeof types / sizeof *types)

static void forwards_are_one(void **state)
{
    (void)state;
    if (!fuses(kernels_table(0)))
        skip();
    EACH_TABLE(table_f32, 0, N_GOLDEN, goldens[k],
               hash_forward(&own, goldens[k], false, table_f32(t)));
}

static void gradients_are_one(void **state)
{
    (void)state;
    if (!fuses(kernels_table(0)))
        skip();
    EACH_TABLE(table_f32, 1, N_GOLDEN, goldens[k],
               hash_gradient(&own, goldens[k], false, table_f32(t)));
}

static void formats_are_one(void **state)
{
    (void)state;
    if (!fuses(kernels_table(0)))
        skip();
    EACH_TABLE(table_i8, 2, N_TYPE, types[k]->name, hash_text(&own, types[k], false, table_i8(t)));
}

/* All, or every third: tiles, vectors and emulated tiles. */
static const kernels *table_bf16(int i)
{
    for (int t = 0; quick() && t < 3 * i; t++)
        if (!kernels_table(t))
            return NULL;
    return kernels_table(quick() ? 3 * i : i);
}

static void bf16_forwards_are_one(void **state)
{
    (void)state;
    if (!fuses(kernels_table(0)))
        skip();
    EACH_TABLE(table_bf16, 3, N_GOLDEN, goldens[k],
               hash_forward(&own, goldens[k], true, table_bf16(t)));
}

static void bf16_gradients_are_one(void **state)
{
    (void)state;
    if (!fuses(kernels_table(0)))
        skip();
    EACH_TABLE(table_bf16, 4, N_GOLDEN, goldens[k],
               hash_gradient(&own, goldens[k], true, table_bf16(t)));
}

static void bf16_formats_are_one(void **state)
{
    (void)state;
    if (!fuses(kernels_table(0)))
        skip();
    EACH_TABLE(table_bf16, 5, N_TYPE, types[k]->name,
               hash_text(&own, types[k], true, table_bf16(t)));
}

/* Eight partial sums instead of sixteen. */
static real dot_of_eight(const real *a, const real *b, int64_t n)
{
    float s[8] = { 0 };
    for (int64_t k = 0; k < n; k++)
        s[k % 8] = fmaf((float)a[k], (float)b[k], s[k % 8]);
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

static void rmsnorm_of_eight(real *y, const real *x, const real *w, real eps, int64_t n)
{
    const float scale = 1 / sqrtf((float)dot_of_eight(x, x, n) / (float)n + (float)eps);
    for (int64_t k = 0; k < n; k++)
        y[k] = x[k] * scale * w[k];
}

static void another_order_is_seen(void **state)
{
    (void)state;
    kernels defective = *kernels_table(0);
    xxh64 right, wrong;
    if (!fuses(kernels_table(0)))
        skip();
    defective.rmsnorm = rmsnorm_of_eight;
    xxh64_begin(&right);
    xxh64_begin(&wrong);
    hash_forward(&right, "llama-gqa", false, kernels_table(0));
    hash_forward(&wrong, "llama-gqa", false, &defective);
    assert_true(xxh64_end(&right) != xxh64_end(&wrong));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("one order: every tensor of every family", forwards_are_one),
        TEST("one order: losses, gradients and one step of every family", gradients_are_one),
        TEST("one order: logits and greedy texts of every format", formats_are_one),
        TEST("one order: class bf16: every tensor of every family", bf16_forwards_are_one),
        TEST("one order: class bf16: losses, gradients and one step", bf16_gradients_are_one),
        TEST("one order: class bf16: logits and greedy texts of every format",
             bf16_formats_are_one),
        TEST("one order: a norm with eight partial sums is detected", another_order_is_seen),
    };
    return RUN(tests);
}
