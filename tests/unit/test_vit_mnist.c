/* A ViT that others trained on MNIST, whose last layers are not those of any class in transformers: no
 * norm behind the blocks, two matrices for the classes. So it is written here, on the ops. */
#include "golden.h"
#include "support.h"

#include "formats/idx.h"
#include "formats/image.h"
#include "ops/ops.h"

enum { D = 64, H = 8, F = 128, L = 6, P = 7, SIDE = 28, T = 1 + SIDE / P * (SIDE / P), V = 10 };
enum { AT_ONCE = 100 };

typedef struct vit_layer {
    weight attn_norm, q, k, v, o, ffn_norm, up, down;
} vit_layer;

typedef struct vit {
    golden file;
    tensor *store[128];
    int n_store;
    weight patch, hidden, output;
    tensor *first, *position;
    vit_layer layer[L];
    attn attn;
} vit;

static tensor *block(run *r, const void *self, int l, tensor *x)
{
    const vit *m = self;
    const vit_layer *w = &m->layer[l];
    const real eps = (real)1e-5;

    tensor *h = layernorm(r, x, &w->attn_norm, eps);
    tensor *q = linear(r, h, &w->q);
    tensor *k = linear(r, h, &w->k);
    tensor *v = linear(r, h, &w->v);
    h = attention(r, q, k, v, &m->attn, l);
    h = linear(r, h, &w->o);
    residual(r, &x, h);

    h = layernorm(r, x, &w->ffn_norm, eps);
    h = linear(r, h, &w->up);
    h = act(r, h, ACT_GELU);
    h = linear(r, h, &w->down);
    residual(r, &x, h);
    return x;
}

static tensor *forward(run *r, const vit *m)
{
    tensor *x = features(r, P * P);
    x = linear(r, x, &m->patch);
    x = put_row(r, x, m->first, 0);
    tensor *p = embed(r, m->position, EMBED_POSITION);
    residual(r, &x, p);
    for (int l = 0; l < L; l++)
        x = run_block(r, block, m, l, x);
    x = take_rows(r, x);
    x = linear(r, x, &m->hidden);
    x = act(r, x, ACT_GELU);
    return linear(r, x, &m->output);
}

/* ---- from the file ---------------------------------------------------------------------------- */

static tensor *find(vit *m, const char *name, int n_dim, int64_t O, int64_t I)
{
    const stored *s = golden_tensor(&m->file, name);
    if (!s)
        return NULL;
    assert_int_equal(s->bytes, (size_t)(O * I) * sizeof(float));
    tensor *t = m->store[m->n_store++] = calloc(1, sizeof *t);
    *t = (tensor){ .type = &dtype_f32, .n_dim = n_dim, .shape = { O, I }, .stride = I };
    if (n_dim == 1) {
        t->shape[0] = I;
        t->type = &dtype_real;
    }
    t->data = malloc(s->bytes);
    memcpy(t->data, s->data, s->bytes);
    return t;
}

static weight part(vit *m, const char *stem, int n_dim, int64_t O, int64_t I)
{
    char name[160];
    weight w = { .name = "w" };
    snprintf(name, sizeof name, "%.128s.weight", stem);
    w.w = find(m, name, n_dim, O, I);
    assert_non_null(w.w);
    snprintf(name, sizeof name, "%.128s.bias", stem);
    w.b = find(m, name, 1, 1, n_dim == 1 ? I : O);
    return w;
}

static weight of_layer(vit *m, int l, const char *stem, int n_dim, int64_t O, int64_t I)
{
    char name[128];
    snprintf(name, sizeof name, "vit.encoder.layer.%d.%s", l, stem);
    return part(m, name, n_dim, O, I);
}

static void vit_open(vit *m)
{
    memset(m, 0, sizeof *m);
    golden_open(&m->file, asset("vit-mnist/model.safetensors"), 0);
    m->patch = part(m, "vit.embeddings.patch_embeddings.projection", 2, D, P * P);
    m->first = find(m, "vit.embeddings.cls_token", 2, 1, D);
    m->position = find(m, "vit.embeddings.position_embeddings", 2, T, D);
    m->hidden = part(m, "classifier.0", 2, F, D);
    m->output = part(m, "classifier.2", 2, V, F);
    m->attn = (attn){ ATTN_FULL, H, H, D / H, D / H, 1 / sqrt((real)(D / H)), 0, { 0 } };
    for (int l = 0; l < L; l++)
        m->layer[l] = (vit_layer){
            .attn_norm = of_layer(m, l, "layernorm_before", 1, 1, D),
            .q = of_layer(m, l, "attention.attention.query", 2, D, D),
            .k = of_layer(m, l, "attention.attention.key", 2, D, D),
            .v = of_layer(m, l, "attention.attention.value", 2, D, D),
            .o = of_layer(m, l, "attention.output.dense", 2, D, D),
            .ffn_norm = of_layer(m, l, "layernorm_after", 1, 1, D),
            .up = of_layer(m, l, "intermediate.dense", 2, F, D),
            .down = of_layer(m, l, "output.dense", 2, D, F),
        };
}

static void vit_close(vit *m)
{
    for (int i = 0; i < m->n_store; i++) {
        free(m->store[i]->data);
        free(m->store[i]);
    }
    golden_close(&m->file);
}

/* ---- images ------------------------------------------------------------------------------------ */

/* A packed file of the assets, unpacked. */
static uint8_t *unpack(const char *relative, size_t *size)
{
    char command[4096];
    const size_t room = (size_t)8 << 20;
    uint8_t *data = malloc(room);
    snprintf(command, sizeof command, "gzip -dc '%s'", asset(relative));
    FILE *f = popen(command, "r");
    assert_non_null(f);
    *size = fread(data, 1, room, f);
    assert_int_equal(pclose(f), 0);
    return data;
}

typedef struct rig {
    host host;
    run run;
    pool *pool;
    batch batch;
    batch_row row[AT_ONCE * T];
    sequence seq[AT_ONCE];
    real features[AT_ONCE * T * P * P];
} rig;

static void rig_open(rig *g)
{
    weft_error err = { 0 };
    memset(g, 0, sizeof *g);
    host_plain(&g->host);
    assert_int_equal(run_init(&g->run, &g->host.mem, 1 << 20, 32 << 20, 64 << 20, &err), WEFT_OK);
    g->pool = pool_new(2, &g->host.mem, &err);
    g->run.kern = kernels_select(&g->host.log);
    g->run.pool = g->pool;
}

static void rig_close(rig *g)
{
    run_free(&g->run);
    pool_free(g->pool);
    assert_int_equal(g->host.mem.used, 0);
}

/* Logits of n pictures. */
static const tensor *classify(rig *g, const vit *m, const uint8_t *pixel, int n)
{
    static const image_recipe recipe = { .rescale = true,
                                         .normalize = true,
                                         .factor = 1 / 255.0,
                                         .mean = { 0.1307 },
                                         .std = { 0.3081 } };
    g->batch = (batch){ n * T, n, n, g->row, g->seq, g->features, NULL };
    for (int s = 0; s < n; s++) {
        const image im = { SIDE, SIDE, 1, (uint8_t *)pixel + s * SIDE * SIDE };
        g->seq[s] = (sequence){ .first = s * T, .n = T, .source = -1 };
        for (int i = 0; i < T; i++)
            g->row[s * T + i] = (batch_row){ .seq = s, .pos = i, .wanted = i == 0 };
        recipe_patches(&recipe, &im, P, g->features + (s * T + 1) * P * P);
    }
    run_begin(&g->run, &g->batch);
    return forward(&g->run, m);
}

static int best(const real *z)
{
    int at = 0;
    for (int i = 1; i < V; i++)
        at = z[i] > z[at] ? i : at;
    return at;
}

static void logits(void **state)
{
    (void)state;
    static rig g;
    vit m;
    golden ref;
    vit_open(&m);
    rig_open(&g);
    golden_open(&ref, asset("vit-mnist/ref_logits_t10k_first64.safetensors"), 1e-5);
    const stored *want = golden_tensor(&ref, "logits");
    const tensor *z = classify(&g, &m, golden_tensor(&ref, "pixel_values_u8")->data, 64);
    golden_check(&ref, "logits", row(z, 0), z->stride, (const float *)want->data, 64, V);
    print_message("logits of 64 images within %.1e of max|b|\n", ref.worst);
    assert_true(ref.worst <= 1e-5);
    golden_close(&ref);
    rig_close(&g);
    vit_close(&m);
}

static void accuracy(void **state)
{
    (void)state;
    static rig g;
    vit m;
    idx images, labels;
    weft_error err = { 0 };
    size_t n_image, n_label;
    uint8_t *image_file = unpack("data/mnist/t10k-images-idx3-ubyte.gz", &n_image);
    uint8_t *label_file = unpack("data/mnist/t10k-labels-idx1-ubyte.gz", &n_label);
    assert_int_equal(idx_parse(&images, image_file, n_image, "images", &err), WEFT_OK);
    assert_int_equal(idx_parse(&labels, label_file, n_label, "labels", &err), WEFT_OK);
    assert_true(images.item_bytes == SIDE * SIDE && images.size[0] == labels.size[0]);
    const int64_t all = quick() ? 1000 : images.size[0];
    int64_t right = 0;
    vit_open(&m);
    rig_open(&g);
    for (int64_t i = 0; i < all; i += AT_ONCE) {
        const tensor *z = classify(&g, &m, images.item + i * images.item_bytes, AT_ONCE);
        for (int k = 0; k < AT_ONCE; k++)
            right += best(row(z, k)) == labels.item[i + k];
    }
    print_message("%lld of %lld images are classified rightly\n", (long long)right, (long long)all);
    if (!quick())
        assert_int_equal(right, 9794);
    rig_close(&g);
    vit_close(&m);
    free(image_file);
    free(label_file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("vit-mnist: logits are those of its authors' code", logits),
        TEST("vit-mnist: 9,794 of 10,000 test images are classified rightly", accuracy),
    };
    return RUN(tests);
}
