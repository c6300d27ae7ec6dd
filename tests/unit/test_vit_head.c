/* A ViT whose classifier is a perceptron with one hidden layer and whose blocks have no final norm,
 * as in the first papers: on transformers' golden model with another head, and on vit-mnist, a
 * public model. */
#include "golden.h"
#include "support.h"

#include "formats/safetensors_write.h"

#include <math.h>
#include <sys/stat.h>

/* ---- the golden model with another head ------------------------------------------------------- */

enum { D = 24, F = 7, V = 3, T = 16, PATCH = 48 };

static float hidden[F * D], hidden_bias[F], output[V * F], output_bias[V];

static const struct {
    const char *name;
    int n_dim;
    int64_t shape[2];
    float *at;
} heads[] = { { "classifier.0.weight", 2, { F, D }, hidden },
              { "classifier.0.bias", 1, { F }, hidden_bias },
              { "classifier.2.weight", 2, { V, F }, output },
              { "classifier.2.bias", 1, { V }, output_bias } };
#define N_HEAD (sizeof heads / sizeof *heads)

static size_t head_numbers(size_t i)
{
    return (size_t)(heads[i].shape[0] * (heads[i].n_dim > 1 ? heads[i].shape[1] : 1));
}

static bool stays(const stored *t)
{
    return !strstr(t->name, "classifier.") && strncmp(t->name, "vit.layernorm.", 14) != 0;
}

static void write_weights(save *s, const char *path, const container *from)
{
    safetensors_writer w;
    safetensors_writer_begin(&w, s);
    for (int64_t i = 0; i < from->n_tensor; i++)
        if (stays(&from->tensor[i]))
            safetensors_add(&w, from->tensor[i].name, &dtype_f32, from->tensor[i].n_dim,
                            from->tensor[i].shape);
    for (size_t i = 0; i < N_HEAD; i++)
        safetensors_add(&w, heads[i].name, &dtype_f32, heads[i].n_dim, heads[i].shape);
    safetensors_writer_head(&w, path);
    for (int64_t i = 0; i < from->n_tensor; i++)
        if (stays(&from->tensor[i]))
            safetensors_writer_data(&w, from->tensor[i].data, from->tensor[i].bytes);
    for (size_t i = 0; i < N_HEAD; i++) {
        fill_normal(heads[i].at, (int64_t)head_numbers(i), 3, i, 0.5);
        safetensors_writer_data(&w, heads[i].at, head_numbers(i) * sizeof(float));
    }
    safetensors_writer_end(&w);
}

/* A directory whose config.json adds this to the golden one. */
static const char *write_model(const char *more)
{
    golden g;
    save s;
    weft_error err = { 0 };
    size_t n;
    const char *directory = temp_path("mlp"), *weights = temp_path("mlp/model.safetensors");
    char *config = read_whole(fixture("golden/vit/config.json"), &n);
    golden_open(&g, fixture("golden/vit/model.safetensors"), 0);
    save_begin(&s, &g.host, &err);
    save_directory(&s, directory);
    write_weights(&s, weights, &g.file);
    save_file(&s, temp_path("mlp/config.json"));
    save_put(&s, "{", 1);
    save_put(&s, more, strlen(more));
    save_put(&s, config + 1, n - 1);
    assert_int_equal(save_commit(&s), WEFT_OK);
    golden_close(&g);
    free(config);
    return directory;
}

typedef struct ends {
    golden *golden;
    real last[D], logits[V]; /* the first row after the blocks, and its result */
} ends;

static void keep_ends(void *ud, const tensor *t, const op *by)
{
    ends *e = ud;
    if (strcmp(t->name, "blk.1.ffn_down.residual") == 0)
        memcpy(e->last, row(t, 0), sizeof e->last);
    if (strcmp(t->name, "cls.output") == 0)
        memcpy(e->logits, row(t, 0), sizeof e->logits);
    else
        golden_compare(e->golden, t, by);
}

static void classify(const model *m, ends *e)
{
    run r;
    weft_error err = { 0 };
    batch_row row_of[T];
    sequence seq = { .n = T, .source = -1 };
    const batch b = { .n_row = T,
                      .n_seq = 1,
                      .n_wanted = 1,
                      .row = row_of,
                      .seq = &seq,
                      .features = (const real *)golden_tensor(e->golden, "features")->data };
    for (int i = 0; i < T; i++)
        row_of[i] = (batch_row){ .pos = i, .wanted = i == 0 };
    assert_int_equal(run_init(&r, &m->host->mem, 1 << 18, 1 << 20, 1 << 20, &err), WEFT_OK);
    r.kern = &kernels_scalar;
    r.trace = keep_ends;
    r.trace_ud = e;
    run_begin(&r, &b);
    model_forward(&r, m);
    run_free(&r);
}

/* W2 gelu(W1 x + b1) + b2 */
static void perceptron(const real *x, real *y)
{
    double h[F];
    for (int f = 0; f < F; f++) {
        h[f] = (double)hidden_bias[f];
        for (int d = 0; d < D; d++)
            h[f] += (double)hidden[f * D + d] * (double)x[d];
        h[f] *= (1 + erf(h[f] / sqrt(2.0))) / 2;
    }
    for (int v = 0; v < V; v++) {
        double sum = (double)output_bias[v];
        for (int f = 0; f < F; f++)
            sum += (double)output[v * F + f] * h[f];
        y[v] = (real)sum;
    }
}

static void perceptron_head(void **state)
{
    (void)state;
    host h;
    model m;
    golden g;
    weft_error err = { 0 };
    real want[V];
    ends e = { .golden = &g };
    golden_open(&g, fixture("golden/vit/trace.safetensors"), 1e-5);
    host_plain(&h);
    if (model_open(&m, write_model("\"final_layernorm\": false,"), WEFT_LOAD_COPY, &h, &err) !=
        WEFT_OK)
        fail_msg("%s", err.message);
    assert_true(m.task == WEFT_TASK_CLASSIFY && m.n_out == V);
    classify(&m, &e);
    assert_string_equal(g.first, ""); /* up to the last block it is the golden model */
    assert_true(g.compared >= 28);
    perceptron(e.last, want);
    assert_close("logits", e.logits, want, V, 1e-5);
    model_close(&m);
    golden_close(&g);
    assert_int_equal(h.mem.used, 0);
}

/* Nothing is guessed: a norm must be present unless the configuration denies it. */
static void norm_must_be_denied(void **state)
{
    (void)state;
    weft_error err = { 0 };
    assert_null(weft_model_open(write_model("\"final_layernorm\": true,"), NULL, &err));
    assert_non_null(strstr(err.message, "tensor vit.layernorm.weight is missing"));
}

/* Features of the golden image, preprocessed for the model at `path`. */
static void see(const char *path, float *to)
{
    weft_error err = { 0 };
    weft_model *m = weft_model_open(path, NULL, &err);
    weft_image *im = m ? weft_image_open(m, fixture("golden/images/photo.png"), &err) : NULL;
    if (!im)
        fail_msg("%s", err.message);
    assert_int_equal(im->n, T);
    memcpy(to, im->features, sizeof(float[T * PATCH]));
    weft_image_free(im);
    weft_model_close(m);
}

/* config.json may contain the contents of preprocessor_config.json; here a mean of 0.5 and a
 * deviation of 0.5. */
static void recipe_in_config(void **state)
{
    (void)state;
    float want[T * PATCH], got[T * PATCH];
    see(fixture("golden/vit"), want);
    see(write_model("\"final_layernorm\": false, \"image_mean\": [0.25, 0.25, 0.25],"
                    "\"image_std\": [0.5, 0.5, 0.5],"),
        got);
    for (int i = 0; i < T * PATCH; i++)
        assert_true(fabsf(got[i] - want[i] - (i < PATCH ? 0 : 0.5f)) < 1e-6f);
}

/* ---- vit-mnist -------------------------------------------------------------------------------- */

enum { SIDE = 28, CLASSES = 10, N_REFERENCE = 64 };

/* Bytes become features as its configuration requires, computed here directly. */
static void mnist_logits(void **state)
{
    (void)state;
    golden ref;
    weft_error err = { 0 };
    static float out[N_REFERENCE][CLASSES], features[17 * 49];
    golden_open(&ref, asset("vit-mnist/ref_logits_t10k_first64.safetensors"), 1e-5);
    weft_model *m = weft_model_open(asset("vit-mnist"), NULL, &err);
    weft_encoder *e = m ? weft_encoder_new(m, NULL, &err) : NULL;
    if (!e)
        fail_msg("%s", err.message);
    for (int i = 0; i < N_REFERENCE; i++) {
        const uint8_t *pixel = golden_tensor(&ref, "pixel_values_u8")->data + i * SIDE * SIDE;
        for (int y = 0; y < SIDE; y++) /* patches of 7, after the class row */
            for (int x = 0; x < SIDE; x++)
                features[(1 + y / 7 * 4 + x / 7) * 49 + y % 7 * 7 + x % 7] =
                    ((float)pixel[y * SIDE + x] / 255 - 0.1307f) / 0.3081f;
        const weft_input in = { .features = features, .n = 17, .out = out[i] };
        assert_int_equal(weft_encoder_eval(e, &in, 1, &err), WEFT_OK);
    }
    golden_check(&ref, "logits", out[0], CLASSES,
                 (const float *)golden_tensor(&ref, "logits")->data, N_REFERENCE, CLASSES);
    print_message("logits of 64 images within %.1e of max|b|\n", ref.worst);
    assert_true(ref.worst <= 1e-5);
    golden_close(&ref);
    weft_encoder_free(e);
    weft_model_close(m);
}

/* The first n items of a compressed IDX file of the assets, as a file of n. */
static const char *first_of(const char *relative, const char *name, uint32_t n, size_t head,
                            size_t each)
{
    char command[4096];
    const size_t size = head + n * each;
    snprintf(command, sizeof command, "gzip -dc '%s'", asset(relative)); /* or skips the test */
    uint8_t *data = malloc(size);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    assert_int_equal(fread(data, 1, size, f), size);
    pclose(f); /* gzip may have received SIGPIPE */
    const uint8_t count[] = { (uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8),
                              (uint8_t)n };
    memcpy(data + 4, count, sizeof count);
    const char *path = temp_file(name, data, size);
    free(data);
    return path;
}

static void mnist_accuracy(void **state)
{
    (void)state;
    const uint32_t n = quick() ? 100 : 10000;
    weft_error err = { 0 };
    weft_score s = { .struct_size = sizeof s };
    const char *data[] = {
        first_of("data/mnist/t10k-images-idx3-ubyte.gz", "images", n, 16, SIDE * SIDE),
        first_of("data/mnist/t10k-labels-idx1-ubyte.gz", "labels", n, 8, 1),
    };
    weft_model *m = weft_model_open(asset("vit-mnist"), NULL, &err);
    if (!m || weft_image_score(m, data, 2, 2, &s, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    assert_int_equal(s.n, n);
    assert_int_equal(s.n_right, quick() ? 99 : 9794);
    weft_model_close(m);
}

/* In 8 and in 4 bits, through weft's own GGUF file, within 0.2 and 0.5 points. */
static void mnist_quantised(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        int64_t fewer; /* of 10,000 that may be misclassified */
    } cases[] = { { "q8_0", 20 }, { "q4_0", 50 } };
    const uint32_t n = quick() ? 100 : 10000;
    const char *data[] = {
        first_of("data/mnist/t10k-images-idx3-ubyte.gz", "images", n, 16, SIDE * SIDE),
        first_of("data/mnist/t10k-labels-idx1-ubyte.gz", "labels", n, 8, 1),
    };
    for (int i = 0; i < 2; i++) {
        weft_error err = { 0 };
        weft_score s = { .struct_size = sizeof s };
        const weft_convert_options o = { .struct_size = sizeof o,
                                         .type = cases[i].type,
                                         .force = true };
        const char *to = temp_path("vit.gguf");
        if (weft_convert(asset("vit-mnist"), to, &o, NULL, &err) != WEFT_OK)
            fail_msg("%s", err.message);
        weft_model *m = weft_model_open(to, NULL, &err);
        if (!m || weft_image_score(m, data, 2, 2, &s, &err) != WEFT_OK)
            fail_msg("%s", err.message);
        print_message("%s: %lld of %lld right\n", cases[i].type, (long long)s.n_right,
                      (long long)s.n);
        assert_true(s.n_right >= (quick() ? 98 : 9794 - cases[i].fewer));
        weft_model_close(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("vit: the head may be a perceptron, and the last norm may be missing",
             perceptron_head),
        TEST("vit: a last norm that is neither present nor denied is an error",
             norm_must_be_denied),
        TEST("vit-mnist: logits equal those of its authors' code", mnist_logits),
        TEST("vit-mnist: 9,794 of 10,000 test images are classified correctly", mnist_accuracy),
        TEST("vit-mnist: in 8 bits within 0.2 points of that, in 4 within 0.5", mnist_quantised),
    };
    const struct CMUnitTest pngs[] = {
        TEST("vit: config.json may define the preprocessing of images", recipe_in_config),
    };
    return RUN(tests) + (strstr(weft_build_parts(), " png") ? RUN(pngs) : 0);
}
