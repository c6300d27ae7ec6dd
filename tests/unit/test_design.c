/* Decoders as `weft train` designs them: against the formulas written out once more in double, with
 * and without a cache; their gradients against differences; and what is refused. */
#include "small_model.h"
#include "train/learner.h"

#include <string.h>

enum { T = 21, V = 61, D = 64, H = 4, WIDEST = 128, LAYERS = 2 };

static int32_t text[T + 1];

/* ---- the formulas ---------------------------------------------------------------------------- */

/* A row of the stream, of queries, of keys ... */
typedef struct rows_of {
    double at[T][H * WIDEST];
} rows_of;

static const tensor *find(const model *m, const char *name)
{
    for (int64_t i = 0; i < m->n_param; i++)
        if (strcmp(m->param[i]->name, name) == 0)
            return m->param[i];
    return NULL;
}

static const tensor *weight_of(const model *m, int l, const char *stem, const char *kind)
{
    char name[NAME_BYTES];
    if (l < 0)
        snprintf(name, sizeof name, "%s.%s", stem, kind);
    else
        snprintf(name, sizeof name, "blk.%d.%s.%s", l, stem, kind);
    return find(m, name);
}

static double number(const tensor *t, int64_t i)
{
    return t ? (double)((const real *)t->data)[i] : 0;
}

/* y = x W^T + b; returns the width. */
static int64_t times(const model *m, int l, const char *stem, const rows_of *x, rows_of *y)
{
    const tensor *w = weight_of(m, l, stem, "weight"), *b = weight_of(m, l, stem, "bias");
    assert_non_null(w);
    for (int i = 0; i < T; i++)
        for (int64_t o = 0; o < rows(w); o++) {
            y->at[i][o] = number(b, o);
            for (int64_t k = 0; k < cols(w); k++)
                y->at[i][o] += number(w, o * cols(w) + k) * x->at[i][k];
        }
    return rows(w);
}

/* LayerNorm, or RMSNorm where the norm has no bias. */
static void normed(const model *m, int l, const char *stem, const rows_of *x, int64_t n, double eps,
                   rows_of *y)
{
    const tensor *g = weight_of(m, l, stem, "weight"), *b = weight_of(m, l, stem, "bias");
    assert_non_null(g);
    for (int i = 0; i < T; i++) {
        double mean = 0, square = 0;
        for (int64_t k = 0; k < n && b; k++)
            mean += x->at[i][k] / (double)n;
        for (int64_t k = 0; k < n; k++)
            square += (x->at[i][k] - mean) * (x->at[i][k] - mean) / (double)n;
        for (int64_t k = 0; k < n; k++)
            y->at[i][k] = (x->at[i][k] - mean) / sqrt(square + eps) * number(g, k) + number(b, k);
    }
}

static bool word_is(const char *word, const char *is)
{
    return word && strcmp(word, is) == 0;
}

static double activated(const char *act, double x)
{
    if (word_is(act, "relu"))
        return x > 0 ? x : 0;
    if (word_is(act, "silu") || word_is(act, "swiglu"))
        return x / (1 + exp(-x));
    if (word_is(act, "gelu"))
        return x / 2 * (1 + erf(x / sqrt(2)));
    return x / 2 * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
}

/* Turns elements j and j + n/2 of the n from x on. */
static void turned(double *x, int64_t n, int position)
{
    for (int64_t j = 0; j < n / 2; j++) {
        const double a = position * pow(10000, -2 * (double)j / (double)n);
        const double p = x[j], q = x[j + n / 2];
        x[j] = p * cos(a) - q * sin(a);
        x[j + n / 2] = p * sin(a) + q * cos(a);
    }
}

/* Queries and keys of width E, the first key of a head at h / group * E; values of width F. */
static void attended(const rows_of *q, const rows_of *k, const rows_of *v, int group, int64_t E,
                     int64_t F, rows_of *y)
{
    for (int i = 0; i < T; i++)
        for (int h = 0; h < H; h++) {
            double p[T], sum = 0;
            for (int j = 0; j <= i; j++) {
                double score = 0;
                for (int64_t e = 0; e < E; e++)
                    score += q->at[i][h * E + e] * k->at[j][h / group * E + e];
                sum += p[j] = exp(score / sqrt((double)E));
            }
            for (int64_t e = 0; e < F; e++) {
                y->at[i][h * F + e] = 0;
                for (int j = 0; j <= i; j++)
                    y->at[i][h * F + e] += p[j] / sum * v->at[j][h / group * F + e];
            }
        }
}

/* All heads of a row turn; each is E wide, and turns from its element `from` on. */
static void turn_heads(rows_of *x, int64_t n, int64_t E, int64_t from)
{
    for (int i = 0; i < T; i++)
        for (int64_t h = 0; h < n; h++)
            turned(x->at[i] + h * E + from, E - from, i);
}

static void attend_shared(const model *m, int l, const rows_of *h, bool rope, rows_of *y)
{
    static rows_of qkv, q, k, v;
    const int64_t E = D / H, K = (times(m, l, "attn_qkv", h, &qkv) / E - H) / 2;
    for (int i = 0; i < T; i++) {
        memcpy(q.at[i], qkv.at[i], (size_t)(H * E) * sizeof **q.at);
        memcpy(k.at[i], qkv.at[i] + H * E, (size_t)(K * E) * sizeof **k.at);
        memcpy(v.at[i], qkv.at[i] + (H + K) * E, (size_t)(K * E) * sizeof **v.at);
    }
    if (rope) {
        turn_heads(&q, H, E, 0);
        turn_heads(&k, K, E, 0);
    }
    attended(&q, &k, &v, (int)(H / K), E, E, y);
}

static void attend_latent(const model *m, int l, const rows_of *h, bool rope, rows_of *y)
{
    static rows_of q, both, shared, c, kv, k, v;
    const int64_t E = D / H, n = times(m, l, "attn_q", h, &q) / H, S = n - E;
    const int64_t R = times(m, l, "attn_kv_a_mqa", h, &both) - S;
    for (int i = 0; i < T; i++)
        memcpy(shared.at[i], both.at[i] + R, (size_t)S * sizeof **both.at);
    normed(m, l, "attn_kv_a_norm", &both, R, 1e-6, &c);
    if (rope) {
        turn_heads(&q, H, n, E);
        turn_heads(&shared, 1, S, 0);
    }
    times(m, l, "attn_kv_b", &c, &kv);
    for (int i = 0; i < T; i++)
        for (int64_t e = 0; e < H * E; e++) {
            k.at[i][e / E * n + e % E] = kv.at[i][e / E * 2 * E + e % E];
            v.at[i][e] = kv.at[i][e / E * 2 * E + E + e % E];
        }
    for (int i = 0; i < T; i++)
        for (int64_t e = 0; e < H * S; e++)
            k.at[i][e / S * n + E + e % S] = shared.at[i][e % S];
    attended(&q, &k, &v, 1, n, E, y);
}

static void add(rows_of *x, const rows_of *h)
{
    for (int i = 0; i < T; i++)
        for (int64_t k = 0; k < D; k++)
            x->at[i][k] += h->at[i][k];
}

static void fed_forward(const model *m, int l, const rows_of *x, const char *act, rows_of *y)
{
    static rows_of gate, up;
    const int64_t F = times(m, l, "ffn_up", x, &up);
    const bool gated = weight_of(m, l, "ffn_gate", "weight");
    if (gated)
        times(m, l, "ffn_gate", x, &gate);
    for (int i = 0; i < T; i++)
        for (int64_t k = 0; k < F; k++)
            up.at[i][k] = gated ? activated(act, gate.at[i][k]) * up.at[i][k]
                                : activated(act, up.at[i][k]);
    times(m, l, "ffn_down", &up, y);
}

static void embedded(const model *m, weft_positions at, rows_of *x)
{
    const tensor *e = find(m, "token_embd.weight"), *p = find(m, "position_embd.weight");
    for (int i = 0; i < T; i++)
        for (int64_t k = 0; k < D; k++) {
            const double angle = i * pow(10000, -2 * (double)(k / 2) / D);
            const double token = number(e, text[i] * D + k);
            x->at[i][k] = at == WEFT_POSITIONS_SINUSOIDAL
                              ? token * sqrt(D) + (k % 2 ? cos(angle) : sin(angle))
                              : token + number(p, i * D + k);
        }
}

/* Logits of every row. */
static void compute(const model *m, const init_model_shape *d, rows_of *logits)
{
    static rows_of x, h, y;
    const bool post = word_is(d->design.norm, "post") || word_is(d->design.norm, "post-rms");
    const bool rope = d->design.positions == WEFT_POSITIONS_ROTARY;
    embedded(m, d->design.positions, &x);
    for (int l = 0; l < LAYERS; l++) {
        h = x;
        if (!post)
            normed(m, l, "attn_norm", &x, D, 1e-5, &h);
        (weight_of(m, l, "attn_qkv", "weight") ? attend_shared : attend_latent)(m, l, &h, rope, &y);
        times(m, l, "attn_output", &y, &h);
        add(&x, &h);
        if (post)
            normed(m, l, "attn_output_norm", &x, D, 1e-5, &x);
        h = x;
        if (!post)
            normed(m, l, "ffn_norm", &x, D, 1e-5, &h);
        fed_forward(m, l, &h, d->design.act, &y);
        add(&x, &y);
        if (post)
            normed(m, l, "layer_output_norm", &x, D, 1e-5, &x);
    }
    if (!post)
        normed(m, -1, "output_norm", &x, D, 1e-5, &x);
    times(m, -1, "token_embd", &x, logits);
}

/* New models are too plain to test: biases are 0, gains 1, and attention is flat. */
static void stir(model *m)
{
    for (int64_t i = 0; i < m->n_param; i++) {
        tensor *t = m->param[i];
        real *x = (real *)t->data;
        const int64_t n = t->n_dim > 1 ? rows(t) * cols(t) : cols(t);
        assert_true(t->type == &dtype_f32 || t->type == &dtype_real);
        for (int64_t k = 0; k < n; k++)
            x[k] = t->n_dim > 1
                       ? 6 * x[k]
                       : x[k] + (real)((int)(draw((uint64_t)i, (uint64_t)k) % 200) - 100) / 500;
    }
}

static void near_to(const init_model_shape *d, const char *how, const float *logits,
                    const double *want)
{
    for (int k = 0; k < V; k++)
        if (!(fabs((double)logits[k] - want[k]) <= 2e-4))
            fail_msg("%s, %s: logit %d is %g, expected %g", design_name(d), how, k,
                     (double)logits[k], want[k]);
}

static void equal_to_formulas(void **state)
{
    (void)state;
    static rows_of logits;
    story(text, T + 1, 0);
    for (const init_model_shape *d = designs; d->arch; d++) {
        fixture_model f;
        float at_once[V];
        open_design(&f, d);
        stir(&f.model);
        compute(&f.model, d, &logits);
        recompute(&f.model, kernels_table(0), NULL, 0, text, T, at_once);
        near_to(d, "at once", at_once, logits.at[T - 1]);
        engine *e = make_engine(&f, (engine_options){ .n_thread = 1, .kv = &dtype_f32 });
        session *s = make_session(e);
        must_feed(s, text, 8);
        for (int i = 8; i < T; i++)
            must_feed(s, text + i, 1);
        near_to(d, "with a cache", s->logits, logits.at[T - 1]);
        session_free(s);
        engine_free(e);
        close_llama(&f);
    }
}

/* ---- gradients ------------------------------------------------------------------------------- */

typedef struct pupil {
    fixture_model f;
    learner l;
    batch batch;
    batch_row row[T];
    sequence seq[1];
} pupil;

static void enrol(pupil *p, const init_model_shape *d)
{
    weft_error err = { 0 };
    open_design(&p->f, d);
    stir(&p->f.model);
    p->batch = (batch){ .row = p->row, .seq = p->seq, .n_row = T, .n_seq = 1, .n_wanted = T };
    p->seq[0] = (sequence){ .n = T, .source = -1 };
    for (int i = 0; i < T; i++)
        p->row[i] = (batch_row){
            .pos = i, .id = text[i], .target = text[i + 1], .weight = 1, .wanted = true
        };
    const learner_options o = { .n_thread = 1, .adamw = { 0.9, 0.95, 1e-8, 0.1, 1.0 } };
    if (learner_init(&p->l, &p->f.model, &o, &p->batch, &err) != WEFT_OK)
        fail_msg("%s", err.message);
}

static double loss_at(pupil *p, const tensor *t, const real *was, const real *along, double by)
{
    const int64_t n = t->n_dim > 1 ? rows(t) * cols(t) : cols(t);
    for (int64_t k = 0; k < n; k++)
        ((real *)t->data)[k] = (real)((double)was[k] + by * (double)along[k]);
    const double loss = (double)learner_loss(&p->l, &p->batch);
    memcpy(t->data, was, (size_t)n * sizeof *was);
    return loss;
}

/* The slope of the loss along a tensor's gradient, over what the gradient says it is. */
static double slope_ratio(pupil *p, const tensor *t, double least)
{
    const int64_t n = t->n_dim > 1 ? rows(t) * cols(t) : cols(t);
    real *was = malloc((size_t)n * sizeof *was), *along = malloc((size_t)n * sizeof *along);
    double square = 0;
    assert_true(was && along);
    memcpy(was, t->data, (size_t)n * sizeof *was);
    memcpy(along, t->grad, (size_t)n * sizeof *along);
    for (int64_t k = 0; k < n; k++)
        square += (double)along[k] * (double)along[k];
    const double step = 4e-3 / square;
    const double wide = (loss_at(p, t, was, along, step) - loss_at(p, t, was, along, -step)) / 2;
    const double half = (loss_at(p, t, was, along, step / 2) -
                         loss_at(p, t, was, along, -step / 2)) /
                        2;
    free(was);
    free(along);
    return sqrt(square) < least ? 1 : (8 * half - wide) / 3 / (step * square);
}

static double loss_of_formulas(const model *m, const init_model_shape *d)
{
    static rows_of logits;
    double loss = 0;
    compute(m, d, &logits);
    for (int i = 0; i < T; i++) {
        double sum = 0;
        for (int k = 0; k < V; k++)
            sum += exp(logits.at[i][k]);
        loss += (log(sum) - logits.at[i][text[i + 1]]) / T;
    }
    return loss;
}

static void gradients_are_slopes(void **state)
{
    (void)state;
    double worst = 0;
    int n = 0;
    story(text, T + 1, 0);
    for (const init_model_shape *d = designs; d->arch; d++) {
        static pupil p;
        enrol(&p, d);
        const double want = loss_of_formulas(&p.f.model, d);
        assert_int_equal(learner_begin(&p.l, NULL), WEFT_OK);
        const double loss = (double)learner_backward(&p.l, &p.batch);
        assert_that(fabs(loss - want) < 1e-4, "%s: loss %g, expected %g", design_name(d), loss,
                    want);
        const double largest = params_norm(&p.l.params, p.l.pool);
        for (int64_t i = 0; i < p.f.model.n_param; i++, n++) {
            const tensor *t = p.f.model.param[i];
            const double off = fabs(slope_ratio(&p, t, largest / 1e4) - 1);
            assert_that(off < 0.01, "%s: %s: the slope is %g of the gradient's", design_name(d),
                        t->name, 1 + off);
            worst = fmax(worst, off);
        }
        learner_free(&p.l);
        close_llama(&p.f);
    }
    print_message("%d gradients of weights, at most %.2g %% from the slope of the loss\n", n,
                  100 * worst);
}

/* ---- words ----------------------------------------------------------------------------------- */

static const struct {
    const char *norm, *act, *attention, *is; /* the model_type, and the keys of its own */
    weft_positions positions;
} becomes[] = {
    { NULL, NULL, NULL, "\"gpt2\"", WEFT_POSITIONS_OF_ARCH },
    { "pre", "gelu-tanh", "mha", "\"gpt2\"", WEFT_POSITIONS_LEARNED },
    { NULL, "relu", NULL, "\"gpt2\"|\"relu\"", WEFT_POSITIONS_ROTARY },
    { NULL, "swiglu", NULL, "\"decoder\"|\"swiglu\"", WEFT_POSITIONS_OF_ARCH },
    { NULL, NULL, NULL, "\"decoder\"|\"sinusoidal\"", WEFT_POSITIONS_SINUSOIDAL },
    { NULL, NULL, NULL, "\"decoder\"|\"none\"", WEFT_POSITIONS_NONE },
    { "post-rms", NULL, NULL, "\"decoder\"|\"post\"|\"rmsnorm\"", WEFT_POSITIONS_OF_ARCH },
    { NULL, NULL, "gqa:2", "\"decoder\"|\"num_key_value_heads\": 2", WEFT_POSITIONS_OF_ARCH },
    { NULL, NULL, "gqa:4", "\"gpt2\"", WEFT_POSITIONS_OF_ARCH },
    { NULL, NULL, "mqa", "\"decoder\"|\"num_key_value_heads\": 1", WEFT_POSITIONS_OF_ARCH },
    { NULL, NULL, "mla", "\"decoder\"|\"kv_lora_rank\": 64|\"qk_rope_head_dim\": 16",
      WEFT_POSITIONS_OF_ARCH },
    { NULL, NULL, "mla:40", "\"kv_lora_rank\": 40", WEFT_POSITIONS_OF_ARCH },
};

static void words_become_keys(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof becomes / sizeof *becomes; i++) {
        host h;
        weft_error err = { 0 };
        buffer b;
        char is[128];
        init_model_shape s;
        const init_model_shape over = { .tied = -1,
                                        .design = { becomes[i].positions, becomes[i].norm,
                                                    becomes[i].act },
                                        .attention = becomes[i].attention };
        host_plain(&h);
        assert_int_equal(init_model_resolve(NULL, &over, &s, &err), WEFT_OK);
        buffer_begin(&b, &h.mem, &err);
        init_model_config(&b, &s);
        buffer_put(&b, "", 1);
        snprintf(is, sizeof is, "%s", becomes[i].is);
        for (char *rest = is, *key; (key = strsep(&rest, "|"));)
            assert_that(strstr((const char *)b.at, key), "%zu: no %s in %s", i, key,
                        (const char *)b.at);
        buffer_end(&b);
    }
}

static const struct {
    init_model_shape over;
    const char *says;
} refusals[] = {
    { { .design = { .norm = "pots" } },
      "unknown norm \"pots\"; expected one of pre, post, pre-rms" },
    { { .design = { .act = "tanh" } }, "unknown act \"tanh\"; expected one of gelu-tanh, gelu" },
    { { .design = { .act = "" } }, "unknown act \"\"" },
    { { .attention = "gqa" }, "unknown attention \"gqa\"; expected mha, mqa, gqa:HEADS, mla" },
    { { .attention = "gqa:" }, "unknown attention" },
    { { .attention = "gqa:0" }, "unknown attention" },
    { { .attention = "gqa:-1" }, "unknown attention" },
    { { .attention = "gqa:2x" }, "unknown attention" },
    { { .attention = "gqa:99999999999999999999" }, "unknown attention" },
    { { .attention = "gqa:3" }, "4 heads cannot share 3 key-value heads" },
    { { .attention = "gqa:8" }, "4 heads cannot share 8 key-value heads" },
    { { .attention = "mla:513" }, "of at most 512" },
    { { .attention = "mqa", .n_head_kv = 2 }, "expected one of them" },
    { { .arch = "llama", .design = { .norm = "post" } }, "of a llama are fixed; only gpt2" },
    { { .arch = "bert", .design = { .positions = WEFT_POSITIONS_NONE } },
      "of a bert are fixed; only gpt2" },
    { { .arch = "llama", .attention = "mla" },
      "a llama has no latents; expected gpt2 or deepseek" },
    { { .arch = "t5", .attention = "mqa" }, "the attention of a t5 is fixed; only gpt2 and llama" },
};

static void refuses(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        weft_error err = { 0 };
        init_model_shape s;
        assert_int_equal(init_model_resolve(NULL, &refusals[i].over, &s, &err), WEFT_EINVAL);
        assert_that(strstr(err.message, refusals[i].says), "\"%s\" does not say \"%s\"",
                    err.message, refusals[i].says);
    }
}

/* A llama shares heads without keys of its own. */
static void llama_shares(void **state)
{
    (void)state;
    weft_error err = { 0 };
    init_model_shape s;
    const init_model_shape over = { .arch = "llama", .attention = "gqa:2", .n_head = 6 };
    assert_int_equal(init_model_resolve(init_model_preset("mini"), &over, &s, &err), WEFT_OK);
    assert_int_equal(s.n_head_kv, 2);
    assert_string_equal(s.arch, "llama");
}

/* ---- config.json ----------------------------------------------------------------------------- */

#define SMALL "\"n_layer\": 1, \"n_embd\": 8, \"n_head\": 4, \"n_positions\": 8, \"vocab_size\": 5"

static const struct {
    const char *keys, *says; /* NULL: it is fine */
} configs[] = {
    { "\"model_type\": \"decoder\"", NULL },
    { "\"model_type\": \"decoder\", \"position_embedding_type\": \"none\"", NULL },
    { "\"model_type\": \"gpt2\", \"norm_placement\": \"nowhere\"", NULL }, /* not its key */
    { "\"model_type\": \"gpt2\", \"position_embedding_type\": \"none\"",
      "is \"none\"; expected learned, rope or absolute" },
    { "\"model_type\": \"gpt2\", \"activation_function\": \"swiglu\"", "unsupported activation" },
    { "\"model_type\": \"decoder\", \"position_embedding_type\": \"alibi\"",
      "is \"alibi\"; expected learned, rope, sinusoidal or none" },
    { "\"model_type\": \"decoder\", \"position_embedding_type\": \"sinusoidal\", "
      "\"n_positions\": 65537",
      "65537, expected at most 65536" },
    { "\"model_type\": \"decoder\", \"norm_placement\": \"nowhere\"",
      "norm_placement is \"nowhere\"; expected pre or post" },
    { "\"model_type\": \"decoder\", \"norm_placement\": 1", "norm_placement is not text" },
    { "\"model_type\": \"decoder\", \"norm_kind\": \"batch\"", "expected layernorm or rmsnorm" },
    { "\"model_type\": \"decoder\", \"num_key_value_heads\": 0", "num_key_value_heads is 0" },
    { "\"model_type\": \"decoder\", \"num_key_value_heads\": 3", "4 heads cannot share 3" },
    { "\"model_type\": \"decoder\", \"kv_lora_rank\": 4", "qk_rope_head_dim is missing" },
    { "\"model_type\": \"decoder\", \"kv_lora_rank\": 513", "kv_lora_rank is 513" },
    { "\"model_type\": \"decoder\", \"kv_lora_rank\": 4, \"qk_rope_head_dim\": 3, "
      "\"position_embedding_type\": \"rope\"",
      "\"rope\" with 3 columns of a head to rotate" },
    { "\"model_type\": \"decoder\", \"kv_lora_rank\": 4, \"qk_rope_head_dim\": 2, "
      "\"num_key_value_heads\": 2",
      "expected one of them" },
};

static void reads_config(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        host h;
        model m;
        weft_error err = { 0 };
        char text_of[512];
        const bool longer = strstr(configs[i].keys, "n_positions");
        const int n = snprintf(text_of, sizeof text_of, "{%s, %s}", configs[i].keys,
                               longer ? "\"n_layer\": 1, \"n_embd\": 8, \"n_head\": 4, "
                                        "\"vocab_size\": 5"
                                      : SMALL);
        host_plain(&h);
        const weft_status status = model_design(&m, text_of, (size_t)n, &h, &err);
        if (!configs[i].says) {
            assert_that(status == WEFT_OK, "%s: %s", configs[i].keys, err.message);
            model_close(&m);
        } else if (status == WEFT_OK || !strstr(err.message, configs[i].says)) {
            fail_msg("%s: \"%s\" does not say \"%s\"", configs[i].keys, err.message,
                     configs[i].says);
        }
        assert_int_equal(h.mem.used, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("design: every decoder equals its formulas, at once and with a cache",
             equal_to_formulas),
        TEST("design: every decoder's gradients are the slopes of its loss", gradients_are_slopes),
        TEST("design: words become keys of config.json", words_become_keys),
        TEST("design: unknown words are refused with the known ones", refuses),
        TEST("design: a llama shares heads", llama_shares),
        TEST("design: keys of config.json are checked", reads_config),
    };
    return RUN(tests);
}
