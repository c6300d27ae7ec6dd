/* Training of adapters: the losses are PEFT's, the base is untouched and equal before the first
 * step, bits do not depend on threads, quantised bases learn as well, and the directory that is
 * written computes the same. */
#include "adapt/gain.h"
#include "adapt/peft_write.h"
#include "golden.h"
#include "golden_adapters.h"
#include "lora_pupil.h"

#include <math.h>

static const adamw_options adam = { 0.9, 0.99, 1e-8, 0, 1 };

/* ---- PEFT ------------------------------------------------------------------------------------ */

enum { N_STEP = 50, N_BATCH = 3, N_SEQ = 4, LENGTH = 12 };

static double farthest_loss(const golden *g, const char *name, const char *base)
{
    static lora_pupil p;
    char key[80];
    snprintf(key, sizeof key, "%s.loss", name);
    const float *want = (const float *)(const void *)golden_tensor(g, key)->data;
    const int32_t *ids = (const int32_t *)(const void *)golden_tensor(g, "ids")->data;
    double most = 0;
    open_golden(&p.f, base);
    pupil_fill(&p, ids, N_SEQ, LENGTH);
    pupil_begin(&p, strstr(name, "dora") ? "dora" : "", adapter_path(name),
                (learner_options){ .n_thread = 2, .adamw = adam });
    for (int step = 0; step < N_STEP; step++) {
        pupil_fill(&p, ids + step % N_BATCH * N_SEQ * LENGTH, N_SEQ, LENGTH);
        const double loss = (double)pupil_step(&p, 5e-3);
        most = fmax(most, fabs(loss - (double)want[step]));
    }
    print_message("%s: %d losses from %.4f to %.4f, at most %.1e from PEFT's\n", name, N_STEP,
                  (double)want[0], (double)want[N_STEP - 1], most);
    pupil_end(&p);
    return most;
}

static void losses_are_pefts(void **state)
{
    (void)state;
    golden g;
    golden_open(&g, fixture("golden/lora-train.safetensors"), 0);
    assert_true(farthest_loss(&g, "llama-lora", "llama-gqa") < float_bound(1e-4));
    assert_true(farthest_loss(&g, "gpt2-lora", "gpt2") < float_bound(1e-4));
    assert_true(farthest_loss(&g, "phi3-fused", "phi3") < float_bound(1e-4));
    assert_true(farthest_loss(&g, "llama-dora", "llama-mqa") < float_bound(1e-4));
    assert_true(farthest_loss(&g, "phi3-fused-dora", "phi3") < float_bound(1e-4));
    golden_close(&g);
}

/* ---- before the first step ------------------------------------------------------------------- */

static void logits_of(lora_pupil *p, lora_set *set, float *to, int64_t n_vocab)
{
    const int32_t ids[] = { 3, 14, 15, 9, 2, 6, 5, 35 };
    weft_error err = { 0 };
    engine *e = make_engine(&p->f, (engine_options){ .n_thread = 1, .rank = 16 });
    session *s = make_session(e);
    assert_int_equal(session_adapt(s, set, 1, &err), WEFT_OK);
    must_feed(s, ids, 8);
    memcpy(to, s->logits, (size_t)n_vocab * sizeof *to);
    session_free(s);
    engine_free(e);
}

/* Norms of the model's own rows are divided by themselves. */
static void gains_are_one(const lora_params *p)
{
    for (int64_t i = 0; i < p->ready->from.n_part; i++)
        for (int64_t o = 0; o < rows(p->item[i].b); o++)
            assert_true(p->item[i].gain[o] == 1 && values(p->item[i].m)[o] > 0);
}

static void begins_as_base(lora_pupil *p, const char *spec)
{
    enum { MOST = 128 };
    float base[MOST], adapted[MOST], later[MOST];
    const int64_t V = p->f.model.n_vocab;
    const size_t n_byte = (size_t)V * sizeof *base;
    assert_true(V <= MOST);
    pupil_draw(p, 4, 20, 3, (int)V);
    pupil_begin(p, spec, NULL, (learner_options){ .n_thread = 1, .adamw = adam });
    const real with = learner_loss(&p->l, &p->batch);
    logits_of(p, NULL, base, V);
    logits_of(p, &p->ready.set, adapted, V);
    assert_memory_equal(adapted, base, n_byte);
    if (p->own.spec.dora)
        gains_are_one(&p->own);
    pupil_step(p, 1e-3);
    pupil_step(p, 1e-3);
    ready_renew(&p->ready);
    logits_of(p, &p->ready.set, later, V);
    assert_true(memcmp(later, base, n_byte) != 0);
    logits_of(p, NULL, later, V);
    assert_memory_equal(later, base, n_byte); /* its weights are as they were */
    assert_true(learner_loss(&p->l, &p->batch) < with);
    pupil_end(p);
}

/* GPT-2 and Qwen2 have biases, which gains do not scale. */
static void begins_as_the_base(void **state)
{
    (void)state;
    static const dtype *const types[] = { &dtype_f32, &dtype_bf16, &dtype_q8_0, &dtype_q4_0 };
    static const char *const biased[] = { "gpt2", "qwen2" };
    static const char *const specs[] = { "r=5,targets=all-linear", "r=5,dora",
                                         "dora,targets=blk.*+output" };
    for (int s = 0; s < 3; s++) {
        static lora_pupil p;
        for (int t = 0; t < 4; t++) {
            open_typed(&p.f, types[t]);
            begins_as_base(&p, specs[s]);
        }
        for (int b = 0; b < 2; b++) {
            open_golden(&p.f, biased[b]);
            begins_as_base(&p, specs[s]);
        }
    }
}

/* A: uniform in +-1/sqrt(I), as PEFT draws it. */
static void first_a_is_uniform(void **state)
{
    (void)state;
    static lora_pupil p;
    open_typed(&p.f, &dtype_f32);
    pupil_draw(&p, 1, 4, 3, 61);
    pupil_begin(&p, "r=16", NULL, (learner_options){ .n_thread = 1, .seed = 9 });
    for (int64_t i = 0; i < p.own.n_tensor; i++) {
        const tensor *t = p.own.list[i];
        double sum = 0, squares = 0, most = 0;
        const int64_t n = rows(t) * cols(t);
        for (int64_t k = 0; k < n; k++) {
            const double x = (double)((real *)t->data)[k];
            sum += x / (double)n;
            squares += x * x / (double)n;
            most = fmax(most, fabs(x));
        }
        const double bound = 1 / sqrt((double)cols(t));
        if (strstr(t->name, "lora_b"))
            assert_true(most == 0);
        else
            assert_true(most <= bound && most > 0.98 * bound && fabs(sum) < 0.06 * bound &&
                        fabs(squares / (bound * bound) - 1.0 / 3) < 0.03);
    }
    pupil_end(&p);
}

/* ---- bits ------------------------------------------------------------------------------------ */

typedef struct way {
    int n_thread, n_group;
    bool recompute;
} way;

/* A and B after some steps. */
static real *after_steps(const dtype *type, const char *spec, way w, int64_t *n)
{
    static lora_pupil p;
    open_typed(&p.f, type);
    pupil_draw(&p, 4, 20, 0, 61);
    pupil_begin(&p, spec, NULL,
                (learner_options){ .n_thread = w.n_thread,
                                   .n_group = w.n_group,
                                   .recompute = w.recompute,
                                   .seed = 4,
                                   .adamw = adam });
    for (uint64_t step = 0; step < 3; step++) {
        assert_int_equal(learner_begin(&p.l, NULL), WEFT_OK);
        for (int g = 0; g < w.n_group; g++) {
            pupil_draw(&p, 4, 20, 8 * step + (uint64_t)g, 61);
            learner_add(&p.l, &p.batch, 1.0 / w.n_group);
            learner_group_end(&p.l);
        }
        learner_update(&p.l, 1e-2);
    }
    *n = p.l.params.n;
    real *x = malloc((size_t)*n * sizeof *x);
    memcpy(x, p.l.params.value, (size_t)*n * sizeof *x);
    pupil_end(&p);
    return x;
}

/* Head and embedding are adapted too. */
static const char all_of_it[] = "r=3,targets=blk.*+output+token_embd",
                  all_gains[] = "r=3,dora,targets=blk.*+output";

static void bits_are_one(void **state)
{
    (void)state;
    static const dtype *const types[] = { &dtype_f32, &dtype_q8_0, &dtype_q4_0 };
    static const char *const specs[] = { all_of_it, "r=8,dropout=0.2", all_gains };
    for (int t = 0; t < 3; t++)
        for (int s = 0; s < 3; s++)
            for (int n_group = 1; n_group <= 4; n_group *= 4) {
                int64_t n, again;
                real *one = after_steps(types[t], specs[s], (way){ 1, n_group, false }, &n);
                for (int k = 1; k < 4; k++) {
                    const way w = { k == 1 ? 2 : k == 2 ? 4 : 2, n_group, k == 3 };
                    real *x = after_steps(types[t], specs[s], w, &again);
                    assert_int_equal(again, n);
                    assert_memory_equal(x, one, (size_t)n * sizeof *x);
                    free(x);
                }
                free(one);
            }
}

/* Dropout is of training only, and does something. */
static void dropout_drops(void **state)
{
    (void)state;
    int64_t n, m;
    real *with = after_steps(&dtype_f32, "r=8,dropout=0.2", (way){ 1, 1, false }, &n);
    real *without = after_steps(&dtype_f32, "r=8", (way){ 1, 1, false }, &m);
    assert_int_equal(n, m);
    assert_true(memcmp(with, without, (size_t)n * sizeof *with) != 0);
    free(with);
    free(without);
}

/* ---- quantised bases ------------------------------------------------------------------------- */

enum { N_TEXT = 8 }; /* batches that are learned by heart */

static double mean_loss(lora_pupil *p)
{
    double sum = 0;
    for (uint64_t i = 0; i < N_TEXT; i++) {
        pupil_draw(p, 4, 24, i, 61);
        sum += (double)learner_loss(&p->l, &p->batch);
    }
    return sum / N_TEXT;
}

static double last_loss(const dtype *type, const char *spec, double *first)
{
    static lora_pupil p;
    open_typed(&p.f, type);
    pupil_draw(&p, 4, 24, 0, 61);
    pupil_begin(&p, spec, NULL, (learner_options){ .n_thread = 2, .seed = 6, .adamw = adam });
    *first = mean_loss(&p);
    for (uint64_t step = 0; step < 120; step++) {
        pupil_draw(&p, 4, 24, step % N_TEXT, 61);
        pupil_step(&p, 3e-3);
    }
    const double last = mean_loss(&p);
    pupil_end(&p);
    return last;
}

#define QUANTISED_BOUND 0.02 /* of the first loss: how far above the float base's it may end */

static void quantised_bases_learn(void **state)
{
    (void)state;
    static const dtype *const types[] = { &dtype_q8_0, &dtype_q4_0 };
    static const char *const specs[] = { "r=8", "r=8,dora" };
    for (int s = 0; s < 2; s++) {
        double first, first_float;
        const double want = last_loss(&dtype_f32, specs[s], &first_float);
        for (int t = 0; t < 2; t++) {
            const double last = last_loss(types[t], specs[s], &first);
            print_message("%s, %s: loss %.4f to %.4f; f32: %.4f to %.4f\n", specs[s],
                          types[t]->name, first, last, first_float, want);
            assert_true(last < 0.5 * first);
            assert_true(last < want + float_bound(QUANTISED_BOUND) * first_float);
        }
    }
}

/* ---- gradients through every stored format --------------------------------------------------- */

enum { O = 70, I = 512, N = 9 };

/* dx of x W^T with dy, on as many threads. */
static void gradient_through(const model *m, tensor *w, const real *dy, int n_thread, real *dx)
{
    static real numbers[N * I];
    weft_error err = { 0 };
    host h;
    run r;
    tape t = { 0 };
    tensor x = { .type = &dtype_real, .n_dim = 2, .shape = { N, I }, .stride = I };
    x.data = numbers;
    x.grad = dx;
    x.needs_grad = x.is_param = x.grad_taken = true;
    x.born = -1;
    host_plain(&h);
    assert_int_equal(run_init(&r, &h.mem, 1 << 20, 1 << 20, 4 << 20, &err), WEFT_OK);
    r.kern = m->kern;
    r.pool = pool_new(n_thread, &h.mem, &err);
    r.fork_cost = 0;
    batch b = { .n_row = N };
    run_begin(&r, &b);
    tape_begin(&r, &t);
    const weight of = { "w", w, NULL };
    tensor *y = linear(&r, &x, &of);
    tape_backward(&r, y, dy);
    pool_free(r.pool);
    run_free(&r);
}

static const dtype *const formats[] = {
    &dtype_f32,   &dtype_f16,    &dtype_bf16,    &dtype_q8_0,   &dtype_q4_0,  &dtype_q4_1,
    &dtype_q5_0,  &dtype_q5_1,   &dtype_q2_k,    &dtype_q3_k,   &dtype_q4_k,  &dtype_q5_k,
    &dtype_q6_k,  &dtype_mxfp4,  &dtype_iq4_nl,  &dtype_iq4_xs, &dtype_iq3_s, &dtype_iq3_xxs,
    &dtype_iq2_s, &dtype_iq2_xs, &dtype_iq2_xxs,
};

/* The same bits as through the values as floats. */
static void every_format_has_a_gradient(void **state)
{
    (void)state;
    static uint8_t stored_as[O * I * 4];
    static real values_of[O * I], dy[N * O], want[N * I], found[N * I];
    static lora_pupil p;
    open_typed(&p.f, &dtype_f32);
    int n = 0;
    fill_normal(dy, N * O, 9, 0, 1);
    for (size_t t = 0; t < sizeof formats / sizeof *formats; t++) {
        const dtype *type = formats[t];
        tensor w = { .type = type, .n_dim = 2, .shape = { O, I }, .stride = I, .data = stored_as };
        tensor plain = w;
        const size_t row = dtype_row_bytes(type, I);
        for (size_t k = 0; k < row * O; k++)
            stored_as[k] = draw(7, k) & 0x3f; /* scales are finite */
        for (int64_t o = 0; o < O; o++)
            type->decode(values_of + o * I, stored_as + (size_t)o * row, 0, I);
        plain.type = &dtype_real;
        plain.data = values_of;
        gradient_through(&p.f.model, &plain, dy, 1, want);
        for (int n_thread = 1; n_thread <= 4; n_thread *= 2) {
            gradient_through(&p.f.model, &w, dy, n_thread, found);
            if (memcmp(found, want, sizeof want) != 0)
                print_message("%s on %d threads\n", type->name, n_thread);
            assert_memory_equal(found, want, sizeof want);
        }
        n++;
    }
    print_message("%d formats\n", n);
    close_llama(&p.f);
}

/* ---- gains ----------------------------------------------------------------------------------- */

enum { G_OUT = 5, G_IN = 288, G_RANK = 3 };

/* |W + s B A| of an output; W as a matrix, or turned over as a table. */
static double plain_norm(const tensor *w, bool table, const real *a, const real *b, int64_t o)
{
    double sum = 0;
    for (int64_t i = 0; i < G_IN; i++) {
        real x;
        const int64_t r = table ? i : o, c = table ? o : i;
        w->type->decode(&x, tensor_rows(w, r, 1).data, c, 1);
        double y = (double)x;
        for (int64_t k = 0; k < G_RANK; k++)
            y += 0.75 * (double)b[o * G_RANK + k] * (double)a[k * G_IN + i];
        sum += y * y;
    }
    return sqrt(sum);
}

/* The first output is 0 in W and B: it has no direction, and stays 0. */
static void norms_are_of_rows(void **state)
{
    (void)state;
    static real x[G_OUT * G_IN], a[G_RANK * G_IN], b[G_OUT * G_RANK], stored_as[G_OUT * G_IN];
    real m[G_OUT], gain[G_OUT];
    fill_normal(a, G_RANK * G_IN, 51, 0, 0.1);
    for (int form = 0; form < 3; form++) {
        const bool table = form == 2;
        const dtype *type = form == 1 ? &dtype_q8_0 : &dtype_f32;
        const int64_t n_row = table ? G_IN : G_OUT, n_col = table ? G_OUT : G_IN;
        tensor w = { .type = type, .n_dim = 2, .shape = { n_row, n_col }, .stride = n_col };
        fill_normal(x, G_OUT * G_IN, 52, 0, 1);
        fill_normal(b, G_OUT * G_RANK, 53, 0, 1);
        fill_normal(m, G_OUT, 54, 0, 1);
        for (int64_t i = 0; i < G_IN; i++)
            x[table ? i * G_OUT : i] = 0;
        memset(b, 0, sizeof(real[G_RANK]));
        w.data = stored_as;
        for (int64_t i = 0; i < n_row; i++)
            type->encode((char *)stored_as + (size_t)i * dtype_row_bytes(type, n_col),
                         x + i * n_col, n_col);
        const adapted_weight p = { &w, table, a, b, G_IN, G_RANK, 0.75, &kernels_scalar };
        adapted_gains(&p, gain, m, 0, 2);
        adapted_gains(&p, gain, m, 2, G_OUT);
        assert_true(gain[0] == 0);
        for (int64_t o = 1; o < G_OUT; o++)
            assert_true(fabs((double)gain[o] * plain_norm(&w, table, a, b, o) - (double)m[o]) <
                        1e-5);
    }
}

/* ---- families -------------------------------------------------------------------------------- */

static void learn_by(bool dora)
{
    static const char *const names[] = { "train-llama", "gpt2",   "bert-fill", "deepseek-v2",
                                         "mixtral",     "gemma2", "train-gpt2" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        static lora_pupil p;
        real first = 0, last = 0;
        open_golden(&p.f, names[i]);
        pupil_draw(&p, 4, 12, 5, (int)p.f.model.n_vocab);
        pupil_begin(&p, dora ? "r=4,dora" : "r=4", NULL,
                    (learner_options){ .n_thread = 2, .recompute = i % 2, .adamw = adam });
        for (int step = 0; step < 12; step++) {
            last = pupil_step(&p, 1e-2);
            first = step ? first : last;
        }
        print_message("%s%s: %d adapted, loss %.3f to %.3f\n", names[i], dora ? ", gains" : "",
                      (int)p.ready.from.n_part, (double)first, (double)last);
        assert_true(last < (real)0.97 * first);
        pupil_end(&p);
    }
}

static void families_learn(void **state)
{
    (void)state;
    learn_by(false);
    learn_by(true);
}

/* ---- the directory --------------------------------------------------------------------------- */

static void written_computes_the_same(void **state)
{
    (void)state;
    static const char *const bases[] = { "llama-gqa", "gpt2", "phi3", "qwen2" };
    static const char *const specs[] = { "r=4,alpha=7", "r=4,alpha=7,dora" };
    for (int k = 0; k < 8; k++) {
        const int b = k / 2;
        static lora_pupil p;
        float want[512], found[512];
        peft_contents c;
        ready_adapter again;
        weft_error err = { 0 };
        char name[40];
        snprintf(name, sizeof name, "adapter-%d", k);
        const char *directory = temp_path(name);
        open_golden(&p.f, bases[b]);
        const int64_t V = p.f.model.n_vocab;
        pupil_draw(&p, 4, 12, 5, (int)V);
        pupil_begin(&p, specs[k % 2], NULL, (learner_options){ .n_thread = 1, .adamw = adam });
        for (int step = 0; step < 3; step++)
            pupil_step(&p, 1e-2);
        logits_of(&p, &p.ready.set, want, V);
        if (peft_contents_make(&c, &p.ready.from, &p.f.model, bases[b], &err) != WEFT_OK ||
            peft_contents_write(&c, directory, true, &p.f.host, &err) != WEFT_OK)
            fail_msg("%s", err.message);
        peft_contents_free(&c);
        if (ready_open(&again, &p.f.model, directory, &err) != WEFT_OK)
            fail_msg("%s", err.message);
        again.set.release = p.ready.set.release;
        lora_set_hold(&again.set);
        logits_of(&p, &again.set, found, V);
        assert_memory_equal(found, want, (size_t)V * sizeof *want);
        ready_close(&again);
        pupil_end(&p);
    }
}

/* ---- specifications -------------------------------------------------------------------------- */

static void refused(const char *spec, const char *says)
{
    static lora_pupil p;
    weft_error err = { 0 };
    open_golden(&p.f, "llama-gqa");
    p.ready = (ready_adapter){ 0 };
    p.own = (lora_params){ 0 };
    weft_status status = lora_spec_parse(&p.own.spec, spec, &err);
    if (status == WEFT_OK)
        status = lora_params_make(&p.own, &p.ready, &p.f.model, p.own.spec.init, &err);
    assert_true(status != WEFT_OK);
    if (!strstr(err.message, says))
        fail_msg("%s: \"%s\" does not say \"%s\"", spec, err.message, says);
    lora_params_free(&p.own);
    ready_close(&p.ready);
    close_llama(&p.f);
}

static void wrong_specs(void **state)
{
    (void)state;
    refused("r=0", "expected 1 to");
    refused("r=1.5", "whole number");
    refused("r=", "lora: r is");
    refused("alpha=-1", "alpha");
    refused("rank=3", "expected r=N");
    refused("dora=1", "expected r=N");
    refused("dora,dropout=0.1", "expected dropout=0");
    refused("dora,targets=embed_tokens", "expected matrices with dora");
    refused("dora,init=/nowhere", "expected init and dropout only");
    refused("targets=", "expected r=N");
    refused("targets=q_proj++", "has no name");
    refused("targets=q_prj", "matches no matrix");
    refused("targets=attn_norm", "expected matrices");
    refused("init=/nowhere", "/nowhere");
    refused("r=3,init=/nowhere", "expected init and dropout only");
    refused("dropout=1", "dropout");
}

static void targets_are_found(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        int64_t n;
    } cases[] = {
        { "", 14 },
        { "targets=q_proj+v_proj", 4 },
        { "targets=attn_q", 2 },
        { "targets=lm_head+blk.1.ffn_*", 4 },
        { "targets=embed_tokens", 1 },
        { "targets=layers.1.mlp.down_proj", 1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static lora_pupil p;
        open_golden(&p.f, "llama-gqa");
        pupil_draw(&p, 1, 4, 3, 61);
        pupil_begin(&p, cases[i].spec, NULL, (learner_options){ .n_thread = 1 });
        assert_int_equal(p.ready.from.n_part, cases[i].n);
        pupil_end(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("lora: 50 losses are those of PEFT", losses_are_pefts),
        TEST("lora: before the first step logits are the base's, bit by bit", begins_as_the_base),
        TEST("lora: the first A is uniform and B is zero", first_a_is_uniform),
        TEST("lora: threads and recomputation change no bit", bits_are_one),
        TEST("lora: dropout changes training", dropout_drops),
        TEST("lora: a quantised base learns like a float one", quantised_bases_learn),
        TEST("lora: gradients go through every stored format", every_format_has_a_gradient),
        TEST("lora: gains are divided by the norms of outputs", norms_are_of_rows),
        TEST("lora: models of all kinds learn", families_learn),
        TEST("lora: the written directory computes the same bits", written_computes_the_same),
        TEST("lora: wrong specifications are refused", wrong_specs),
        TEST("lora: targets are found by both names", targets_are_found),
    };
    return RUN(tests);
}
