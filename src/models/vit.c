/* vit.c - ViT and DeiT: image patches are the rows of a pre-norm encoder with full attention.
 *
 * Row 0 is a learned class token; the head reads its last state, through one matrix, or two with an
 * activation between them. DeiT adds a distillation token in row 1, which the head ignores. */
#include "base/utf8.h"
#include "formats/image.h"
#include "models/bind.h"

#include <string.h>

typedef struct vit_layer {
    weight attn_norm;  /* [D] */
    weight q, k, v, o; /* [D, D] */
    weight ffn_norm;   /* [D] */
    weight up, down;   /* [F, D]  [D, F] */
} vit_layer;

typedef struct vit {
    weight patch_embd;     /* [D, C P P] */
    tensor *class_embd;    /* [1, D] */
    tensor *distill_embd;  /* [1, D], or NULL */
    tensor *position_embd; /* [T, D] */
    weight output_norm;    /* [D], or none (final_layernorm: false) */
    weight hidden;         /* [F', D], or none */
    weight output;         /* [n_out, D], or [n_out, F'] */
    vit_layer *layer;
    attn attn;
    act_kind act;
    real eps;
} vit;

static tensor *vit_block(run *r, const void *self, int l, tensor *x)
{
    const vit *m = self;
    const vit_layer *w = &m->layer[l];

    tensor *h = layernorm(r, x, &w->attn_norm, m->eps); /* [N, D] */
    tensor *q = linear(r, h, &w->q);
    tensor *k = linear(r, h, &w->k);
    tensor *v = linear(r, h, &w->v);
    h = attention(r, q, k, v, &m->attn, l);
    h = linear(r, h, &w->o);
    residual(r, &x, h);

    h = layernorm(r, x, &w->ffn_norm, m->eps);
    h = linear(r, h, &w->up); /* [N, F] */
    h = act(r, h, m->act);
    h = linear(r, h, &w->down);
    residual(r, &x, h);
    return x;
}

static tensor *vit_body(run *r, const model *of)
{
    const vit *m = of->self;
    tensor *x = features(r, of->d_feature); /* [N, C P P] */
    x = linear(r, x, &m->patch_embd);       /* [N, D] */
    x = put_row(r, x, m->class_embd, 0);
    if (m->distill_embd)
        x = put_row(r, x, m->distill_embd, 1);
    tensor *p = embed(r, m->position_embd, EMBED_POSITION);
    residual(r, &x, p);
    for (int l = 0; l < of->n_layer; l++)
        x = run_block(r, vit_block, m, l, x);
    return x;
}

static tensor *vit_states(run *r, const model *of, tensor *x)
{
    const vit *m = of->self;
    return m->output_norm.w ? layernorm(r, x, &m->output_norm, m->eps) : x;
}

static tensor *vit_end(run *r, const model *of, tensor *x)
{
    const vit *m = of->self;
    x = take_rows(r, x);
    x = vit_states(r, of, x);
    if (m->hidden.w) {
        x = linear(r, x, &m->hidden); /* [n_wanted, F'] */
        x = act(r, x, m->act);
    }
    return head(r, x, &m->output); /* [n_wanted, n_out] */
}

/* ---- from the file --------------------------------------------------------------------------- */

#define NAMES(prefix, output)                                                                      \
    {                                                                                              \
        { "patch_embd", prefix "embeddings.patch_embeddings.projection" },                         \
            { "class_embd", prefix "embeddings.cls_token" },                                       \
            { "distill_embd", prefix "embeddings.distillation_token" },                            \
            { "position_embd", prefix "embeddings.position_embeddings" },                          \
            { "output_norm", prefix "layernorm" }, { "cls", "classifier.0" },                      \
            { "cls.output", output }, { "attn_norm", prefix "encoder.layer.%d.layernorm_before" }, \
            { "attn_q", prefix "encoder.layer.%d.attention.attention.query" },                     \
            { "attn_k", prefix "encoder.layer.%d.attention.attention.key" },                       \
            { "attn_v", prefix "encoder.layer.%d.attention.attention.value" },                     \
            { "attn_output", prefix "encoder.layer.%d.attention.output.dense" },                   \
            { "ffn_norm", prefix "encoder.layer.%d.layernorm_after" },                             \
            { "ffn_up", prefix "encoder.layer.%d.intermediate.dense" },                            \
            { "ffn_down", prefix "encoder.layer.%d.output.dense" }, { NULL, NULL },                \
    }

/* A head of two matrices is an nn.Sequential, in which the activation has a number but no
 * weights. */
static const bind_name vit_names[] = NAMES("vit.", "classifier"),
                       vit_mlp_names[] = NAMES("vit.", "classifier.2"),
                       deit_names[] = NAMES("deit.", "classifier"),
                       deit_mlp_names[] = NAMES("deit.", "classifier.2");

/* One number for both sides, or a list of height and width. bind_keep stores these keys, so they
 * must be constants. */
typedef struct sides {
    const char *key, *first, *second;
} sides;

static const sides image_sides = { "image_size", "image_size.0", "image_size.1" },
                   patch_sides = { "patch_size", "patch_size.0", "patch_size.1" };

static void read_sides(bind *b, const sides *s, int64_t otherwise, int64_t *height, int64_t *width)
{
    const bool two = container_meta(b->m->config, s->first) != NULL;
    *height = bind_int(b, NULL, two ? s->first : s->key, otherwise, 1, IMAGE_MAX_SIDE);
    *width = two ? bind_int(b, NULL, s->second, REQUIRED, 1, IMAGE_MAX_SIDE) : *height;
}

static void vit_read_sizes(bind *b, int64_t n_lead)
{
    model *m = b->m;
    image_shape *s = &m->image;
    int64_t patch_width;
    m->n_layer = bind_int(b, NULL, "num_hidden_layers", REQUIRED, 1, 10000);
    m->d_model = bind_int(b, NULL, "hidden_size", REQUIRED, 1, 1 << 24);
    m->n_head = m->n_head_kv = bind_int(b, NULL, "num_attention_heads", REQUIRED, 1, 1 << 20);
    m->d_ff = bind_int(b, NULL, "intermediate_size", REQUIRED, 1, 1 << 24);
    s->channels = bind_int(b, NULL, "num_channels", 3, 1, 3);
    read_sides(b, &image_sides, 224, &s->height, &s->width);
    read_sides(b, &patch_sides, 16, &s->patch, &patch_width);
    if (b->status != WEFT_OK)
        return;
    if (m->d_model % m->n_head != 0 || m->d_model / m->n_head > MAX_HEAD)
        bind_fail(b, WEFT_EFORMAT,
                  "hidden_size %lld in %lld heads; expected equal heads of at most %d",
                  (long long)m->d_model, (long long)m->n_head, MAX_HEAD);
    if (s->channels == 2 || s->patch != patch_width)
        bind_fail(b, WEFT_EUNSUPPORTED,
                  "%lld channels, patches of %lld x %lld; expected 1 or 3 channels, square patches",
                  (long long)s->channels, (long long)patch_width, (long long)s->patch);
    if (s->patch > s->height || s->patch > s->width)
        bind_fail(b, WEFT_EFORMAT, "patch_size is %lld, the image is %lld x %lld",
                  (long long)s->patch, (long long)s->width, (long long)s->height);
    m->d_head = m->d_model / m->n_head;
    s->n_lead = n_lead;
    m->n_ctx = n_lead + (s->height / s->patch) * (s->width / s->patch);
    m->d_feature = s->channels * s->patch * s->patch;
}

static weft_task vit_read_task(bind *b)
{
    const char *name = bind_text(b, NULL, "architectures.0");
    if (name && text_ends_with(name, "ForImageClassification"))
        return WEFT_TASK_CLASSIFY;
    if (name && !text_ends_with(name, "Model"))
        bind_fail(b, WEFT_EUNSUPPORTED, "architecture \"%.60s\": unsupported head", name);
    return !name && bind_has(b, "cls.output") ? WEFT_TASK_CLASSIFY : WEFT_TASK_EMBED;
}

static void vit_bind_layer(bind *b, vit_layer *w)
{
    const int64_t D = b->m->d_model, F = b->m->d_ff;
    w->attn_norm = bind_norm(b, "attn_norm", D, true);
    w->q = bind_linear(b, "attn_q", D, D, WITH_BIAS);
    w->k = bind_linear(b, "attn_k", D, D, WITH_BIAS);
    w->v = bind_linear(b, "attn_v", D, D, WITH_BIAS);
    w->o = bind_linear(b, "attn_output", D, D, WITH_BIAS);
    w->ffn_norm = bind_norm(b, "ffn_norm", D, true);
    w->up = bind_linear(b, "ffn_up", F, D, WITH_BIAS);
    w->down = bind_linear(b, "ffn_down", D, F, WITH_BIAS);
}

static void vit_bind_head(bind *b, vit *m)
{
    model *of = b->m;
    const int64_t hidden = bind_rows_of(b, "cls");
    of->n_out = bind_labels(b, "cls.output");
    if (hidden > 0)
        m->hidden = bind_linear(b, "cls", hidden, of->d_model, WITH_BIAS);
    m->output = bind_linear(b, "cls.output", of->n_out, hidden > 0 ? hidden : of->d_model,
                            WITH_BIAS);
}

static void bind_ends(bind *b, vit *m, bool deit)
{
    model *of = b->m;
    m->patch_embd = bind_patches(b, "patch_embd", of->d_model, of->image.channels, of->image.patch);
    m->class_embd = bind_bare_table(b, "class_embd", 1, of->d_model);
    if (deit)
        m->distill_embd = bind_bare_table(b, "distill_embd", 1, of->d_model);
    m->position_embd = bind_bare_table(b, "position_embd", of->n_ctx, of->d_model);
    if (bind_flag(b, NULL, "final_layernorm", true))
        m->output_norm = bind_norm(b, "output_norm", of->d_model, true);
    of->n_out = of->d_model;
    if (of->task == WEFT_TASK_CLASSIFY)
        vit_bind_head(b, m);
}

static void *bind_vit(bind *b)
{
    model *of = b->m;
    const bool deit = strcmp(of->name, "deit") == 0;
    b->names = deit ? deit_names : vit_names;
    if (bind_has(b, "cls"))
        b->names = deit ? deit_mlp_names : vit_mlp_names;
    b->hf_prefix = deit ? "deit." : "vit.";
    vit *m = bind_alloc(b, 1, sizeof *m);
    if (!m)
        return NULL;
    vit_read_sizes(b, deit ? 2 : 1);
    of->task = vit_read_task(b);
    of->pool = (pooling){ POOL_FIRST, false };
    m->layer = bind_alloc(b, of->n_layer, sizeof *m->layer);
    m->eps = (real)bind_epsilon(b, NULL, "layer_norm_eps", 1e-12);
    m->act = bind_act(b, "hidden_act", ACT_GELU);
    m->attn = attn_of(ATTN_FULL, of->n_head, of->n_head, of->d_head);
    bind_ends(b, m, deit);
    for (b->layer = 0; b->layer < of->n_layer && b->status == WEFT_OK; b->layer++)
        vit_bind_layer(b, &m->layer[b->layer]);
    b->layer = -1;
    bind_ignore_module(b, "pooler.dense");
    return m;
}

const family vit_family = {
    .name = "vit", .bind = bind_vit, .body = vit_body, .end = vit_end, .states = vit_states
};
