/* ViT and DeiT: every named intermediate, the logits of an image and ten steps of training equal
 * transformers and PyTorch (tools/vit_golden.py). */
#include "golden.h"
#include "support.h"

#include "engine/encode.h"
#include "formats/image.h"
#include "train/learner.h"

#define TOLERANCE 1e-5

static void open_model(model *m, const char *name, host *h)
{
    char path[128];
    weft_error err = { 0 };
    host_plain(h);
    snprintf(path, sizeof path, "golden/%s", name);
    if (model_open(m, fixture(path), WEFT_LOAD_COPY, h, &err) != WEFT_OK)
        fail_msg("%s", err.message);
}

/* n images, each a sequence whose first row is wanted. */
typedef struct pictures {
    batch batch;
    batch_row row[64];
    sequence seq[8];
} pictures;

static void image_set_init(pictures *p, const model *m, int n, const real *features)
{
    const int32_t T = (int32_t)m->n_ctx;
    p->batch = (batch){ .n_row = n * T,
                        .n_seq = n,
                        .n_wanted = n,
                        .row = p->row,
                        .seq = p->seq,
                        .features = features };
    for (int s = 0; s < n; s++) {
        p->seq[s] = (sequence){ .first = s * T, .n = T, .source = -1 };
        for (int32_t i = 0; i < T; i++)
            p->row[s * T + i] = (batch_row){
                .seq = s, .pos = i, .wanted = i == 0, .target = NO_TARGET, .weight = 1
            };
    }
}

/* ---- the trace --------------------------------------------------------------------------------- */

static void forward(const model *m, golden *g, const kernels *kern)
{
    pictures p;
    run dry, r;
    weft_error err = { 0 };
    const stored *f = golden_tensor(g, "features");
    assert_true(f->shape[0] == m->n_ctx && f->shape[1] == m->d_feature);
    image_set_init(&p, m, 1, (const real *)f->data);
    assert_int_equal(run_init_dry(&dry, &m->host->mem, 1, &err), WEFT_OK);
    dry.show.maps = true;
    run_begin(&dry, &p.batch);
    model_forward(&dry, m);
    assert_int_equal(
        run_init(&r, &m->host->mem, dry.meta.peak, dry.data.peak, dry.scratch_peak, &err), WEFT_OK);
    r.kern = kern;
    r.show.maps = true;
    r.trace = golden_compare;
    r.trace_ud = g;
    run_begin(&r, &p.batch);
    model_forward(&r, m);
    run_free(&dry);
    run_free(&r);
}

static void trace(const char *name)
{
    char path[128], what[64];
    host h;
    model m;
    golden g;
    open_model(&m, name, &h);
    snprintf(path, sizeof path, "golden/%s/trace.safetensors", name);
    for (int i = 0; table_f32(i); i++) {
        snprintf(what, sizeof what, "%s, %s", name, table_f32(i)->name);
        golden_open(&g, fixture(path), TOLERANCE);
        forward(&m, &g, table_f32(i));
        golden_finish(&g, what);
        golden_close(&g);
    }
    model_close(&m);
    assert_int_equal(h.mem.used, 0);
}

static void vit_trace(void **state)
{
    (void)state;
    trace("vit");
}

static void deit_trace(void **state)
{
    (void)state;
    trace("deit");
}

/* One value of one weight changed by a thousandth is found, by name. */
static void planted_defect(void **state)
{
    (void)state;
    host h;
    model m;
    golden g;
    open_model(&m, "deit", &h);
    for (int64_t i = 0; i < m.n_param; i++)
        if (strcmp(m.param[i]->name, "distill_embd") == 0)
            ((float *)m.param[i]->data)[5] += 1e-3f;
    golden_open(&g, fixture("golden/deit/trace.safetensors"), TOLERANCE);
    forward(&m, &g, &kernels_scalar);
    assert_string_equal(g.first, "distill_embd");
    golden_close(&g);
    model_close(&m);
}

/* ---- ten steps --------------------------------------------------------------------------------- */

static const stored *reference(const golden *g, const char *name)
{
    const stored *s = golden_tensor(g, name);
    if (!s)
        fail_msg("the reference has no %s", name);
    return s;
}

/* max|a-b| / max|b| of a parameter; the exact gradient of the bias of keys is zero. */
static double difference(const golden *g, const char *prefix, const tensor *t, const real *a)
{
    char name[2 * NAME_BYTES];
    snprintf(name, sizeof name, "%s%s", prefix, t->name);
    const stored *s = reference(g, name);
    const float *b = (const float *)s->data;
    double largest = 0, error = 0;
    for (uint64_t k = 0; k < s->bytes / sizeof *b; k++) {
        largest = fmax(largest, fabs((double)b[k]));
        error = fmax(error, fabs((double)a[k] - (double)b[k]));
    }
    if (strstr(t->name, "attn_k.bias"))
        return 0;
    if (!(error <= TOLERANCE * largest))
        fail_msg("%s: off by %.3g of its largest", name, error / largest);
    return error / largest;
}

static void as_pytorch(void **state)
{
    (void)state;
    enum { N = 3 };
    host h;
    model m;
    learner l;
    golden g;
    pictures p;
    weft_error err = { 0 };
    double worst_grad = 0, worst_final = 0;
    open_model(&m, "train-vit", &h);
    golden_open(&g, fixture("golden/train-vit/train.safetensors"), TOLERANCE);
    const real *features = (const real *)reference(&g, "features")->data;
    const int32_t *target = (const int32_t *)reference(&g, "target")->data;
    const float *lr = (const float *)reference(&g, "lr")->data;
    const float *loss = (const float *)reference(&g, "loss")->data;
    const float *norm = (const float *)reference(&g, "norm")->data;
    image_set_init(&p, &m, N, features);
    const learner_options o = { .n_thread = 2, .adamw = { 0.9, 0.95, 1e-8, 0.1, 0 } };
    if (learner_init(&l, &m, &o, &p.batch, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    for (int k = 0; k < 10; k++) {
        char prefix[24];
        image_set_init(&p, &m, N, features + k * N * m.n_ctx * m.d_feature);
        for (int s = 0; s < N; s++)
            p.row[s * m.n_ctx].target = target[k * N + s];
        assert_int_equal(learner_begin(&l, &err), WEFT_OK);
        const real got = learner_backward(&l, &p.batch);
        params_end(&l.params);
        snprintf(prefix, sizeof prefix, "step.%d.", k);
        for (int64_t i = 0; i < m.n_param; i++)
            worst_grad = fmax(worst_grad, difference(&g, prefix, m.param[i], m.param[i]->grad));
        assert_true(fabs((double)got / (double)loss[k] - 1) <= TOLERANCE);
        assert_true(fabs(learner_update(&l, (double)lr[k]) / (double)norm[k] - 1) <= TOLERANCE);
    }
    for (int64_t i = 0; i < m.n_param; i++)
        worst_final = fmax(worst_final, difference(&g, "final.", m.param[i], m.param[i]->data));
    print_message("10 steps, worst of gradients %.1e, of final weights %.1e\n", worst_grad,
                  worst_final);
    learner_free(&l);
    golden_close(&g);
    model_close(&m);
    assert_int_equal(h.mem.used, 0);
}

/* ---- pictures ---------------------------------------------------------------------------------- */

/* From the file to the logits, through the public API. */
static void classify(const char *name)
{
    char path[128];
    golden g;
    weft_error err = { 0 };
    float out[3];
    snprintf(path, sizeof path, "golden/%s/logits.safetensors", name);
    golden_open(&g, fixture(path), TOLERANCE);
    snprintf(path, sizeof path, "golden/%s", name);
    weft_model *m = weft_model_open(fixture(path), NULL, &err);
    weft_encoder *e = m ? weft_encoder_new(m, NULL, &err) : NULL;
    weft_image *im = e ? weft_image_open(m, fixture("golden/images/photo.png"), &err) : NULL;
    if (!im)
        fail_msg("%s", err.message);
    const weft_input in = { .features = im->features, .n = im->n, .out = out };
    if (weft_encoder_eval(e, &in, 1, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    golden_check(&g, "logits", out, 3, (const float *)golden_tensor(&g, "logits")->data, 1, 3);
    print_message("%s: logits of a picture within %.1e of max|b|\n", name, g.worst);
    assert_true(g.worst <= TOLERANCE);
    assert_string_equal(weft_model_label(m, 2), "neither");
    weft_image_free(im);
    weft_encoder_free(e);
    weft_model_close(m);
    golden_close(&g);
}

static void classify_pictures(void **state)
{
    (void)state;
    classify("vit");
    classify("deit");
}

static void wrong_pictures(void **state)
{
    (void)state;
    weft_error err = { 0 };
    weft_model *m = weft_model_open(fixture("golden/train-vit"), NULL, &err);
    assert_non_null(m);
    assert_null(weft_image_open(m, fixture("golden/images/photo.png"), &err));
    assert_non_null(strstr(err.message, "no preprocessor_config.json beside it"));
    assert_null(weft_image_decode(m, "GIF89a", 6, &err));
    assert_int_equal(err.code, WEFT_EFORMAT);
    weft_model_close(m);
    m = weft_model_open(fixture("golden/gpt2"), NULL, &err);
    assert_null(weft_image_open(m, fixture("golden/images/photo.png"), &err));
    assert_non_null(strstr(err.message, "models do not take images"));
    weft_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("vit: every intermediate equals transformers", vit_trace),
        TEST("deit: every intermediate equals transformers", deit_trace),
        TEST("vit: a wrong number is found by name", planted_defect),
        TEST("vit: ten steps of training equal PyTorch", as_pytorch),
    };
    const struct CMUnitTest pngs[] = {
        TEST("vit: logits of an image equal transformers", classify_pictures),
        TEST("vit: refuses files that are not images, and images for other models", wrong_pictures),
    };
    return RUN(tests) + (strstr(weft_build_parts(), " png") ? RUN(pngs) : 0);
}
