/* Trained models give the numbers of their authors' code. */
#include "golden.h"
#include "support.h"

#include <jansson.h>

typedef struct opened {
    host host;
    model model;
    engine *engine;
    session *session;
} opened;

static void open_model(opened *o, const char *path, int64_t n_ctx)
{
    weft_error err = { 0 };
    host_plain(&o->host);
    if (model_open(&o->model, path, WEFT_LOAD_MAP, &o->host, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    const engine_options options = { .n_thread = 2, .n_ctx = n_ctx };
    o->engine = engine_new(&o->model, &options, &err);
    o->session = o->engine ? session_new(o->engine, &err) : NULL;
    if (!o->session)
        fail_msg("%s", err.message);
}

static void close_model(opened *o)
{
    session_free(o->session);
    engine_free(o->engine);
    model_close(&o->model);
    assert_int_equal(o->host.mem.used, 0);
}

static void eval(opened *o, const int32_t *ids, int64_t n)
{
    weft_error err = { 0 };
    work w = { .session = o->session, .ids = ids, .n = n };
    if (engine_eval(o->engine, &w, 1, &err) != WEFT_OK)
        fail_msg("%s", err.message);
}

/* ---- stories260K ----------------------------------------------------------------------------- */

typedef struct story {
    int32_t ids[256];
    int n;
    float *logits; /* [n, 512] */
    char *npy;
} story;

static void read_story(story *s)
{
    json_t *root = json_load_file(asset("llama-stories260K/ref_greedy.json"), 0, NULL);
    assert_non_null(root);
    json_t *ids = json_object_get(root, "greedy_ids");
    s->n = (int)json_array_size(ids);
    for (int i = 0; i < s->n; i++)
        s->ids[i] = (int32_t)json_integer_value(json_array_get(ids, (size_t)i));
    json_decref(root);

    size_t size;
    s->npy = read_whole(asset("llama-stories260K/ref_logits_f32.npy"), &size);
    assert_memory_equal(s->npy, "\x93NUMPY\x01", 7);
    uint16_t header;
    memcpy(&header, s->npy + 8, sizeof header);
    assert_true(size - 10 - header == (size_t)s->n * 512 * sizeof(float));
    s->logits = (float *)(void *)(s->npy + 10 + header);
}

/* 200 greedy tokens, and the logits after each; returns the largest difference. */
static double tell(const char *path, bool same_tokens, int *agree)
{
    story s;
    opened o;
    double worst = 0;
    read_story(&s);
    open_model(&o, path, 0);
    *agree = 0;
    for (int i = 0; i < s.n; i++) {
        eval(&o, &s.ids[i], 1);
        for (int k = 0; k < 512; k++)
            worst = fmax(worst, fabs((double)(o.session->logits[k] - s.logits[i * 512 + k])));
        if (i + 1 < s.n && session_greedy(o.session) == s.ids[i + 1])
            (*agree)++;
        else if (i + 1 < s.n && same_tokens)
            fail_msg("%s: token %d is %d, expected %d", path, i + 1, session_greedy(o.session),
                     s.ids[i + 1]);
    }
    close_model(&o);
    free(s.npy);
    return worst;
}

static void story_exact(const char *relative)
{
    int agree;
    const double worst = tell(asset(relative), true, &agree);
    print_message("%s: %d greedy tokens equal, logits within %.2e\n", relative, agree, worst);
    assert_int_equal(agree, 200);
    assert_true(worst <= 1e-4);
}

static void story_safetensors(void **state)
{
    (void)state;
    story_exact("llama-stories260K");
}

static void story_gguf(void **state)
{
    (void)state;
    story_exact("llama-stories260K/stories260K-f32.gguf");
}

/* The bound: 198 of the 200 choices stay (an independent implementation of the same file agrees on
 * 0.990 of them), and no logit moves by more than 0.5: weights and, in class i8, rows are rounded
 * to 8 bits. */
static void story_q8_0(void **state)
{
    (void)state;
    int agree;
    const double worst = tell(asset("llama-stories260K/stories260K-q8_0.gguf"), false, &agree);
    print_message("q8_0: %d of 200 greedy tokens equal, logits within %.3f\n", agree, worst);
    assert_true(agree >= 198);
    assert_true(worst <= 0.5);
}

/* ---- GPT-2 nano that sorts ------------------------------------------------------------------- */

/* Tensors of the reference, batch 3 x 11 rows, and their names in weft. att and attSm have heads
 * before rows. */
static const struct {
    const char *theirs, *ours;
} sort_names[] = {
    { "tok_emb", "token_embd" },
    { "pos_emb", "position_embd" },
    { "x", "position_embd.residual" },
    { "ln1", "blk.0.attn_norm" },
    { "q", "blk.0.attn_q" },
    { "k", "blk.0.attn_k" },
    { "v", "blk.0.attn_v" },
    { "qkv", "blk.0.attn_qkv" },
    { "att", "blk.0.attention.scores" },
    { "attSm", "blk.0.attention.probs" },
    { "y", "blk.0.attention" },
    { "yProj", "blk.0.attn_output" },
    { "attnResid", "blk.0.attn_output.residual" },
    { "ln2", "blk.0.ffn_norm" },
    { "fc", "blk.0.ffn_up" },
    { "gelu", "blk.0.ffn_up.gelu_tanh" },
    { "mlp", "blk.0.ffn_down" },
    { "mlpResid", "blk.0.ffn_down.residual" },
    { "block0", "blk.0.ffn_down.residual" },
    { "block1", "blk.1.ffn_down.residual" },
    { "block2", "blk.2.ffn_down.residual" },
    { "ln_f", "output_norm" },
    { "lm_head", "output" },
    { "probs", "output.softmax" },
};
#define N_SORT ((int)(sizeof sort_names / sizeof *sort_names))

enum { B = 3, T = 11, H = 3 };

typedef struct watch {
    golden g;
    bool met[N_SORT];
} watch;

/* Reorders our rows as in the reference: [B, T, ...] stays, [B, H, T, n] is gathered head by
 * head. */
static void compare_sort(watch *w, const char *name, const stored *s, const tensor *t)
{
    const float *theirs = (const float *)(const void *)s->data;
    if (s->n_dim == 3 && s->shape[0] == 1) { /* pos_emb: once for all sequences */
        golden_check(&w->g, name, row(t, 0), t->stride, theirs, T, s->shape[2]);
        return;
    }
    if (s->n_dim == 3) {
        golden_check(&w->g, name, row(t, 0), t->stride, theirs, B * T, s->shape[2]);
        return;
    }
    const int64_t n = s->shape[3];
    const bool by_unit = rows(t) == B * T * H; /* maps: a row for each (position, head) */
    for (int64_t b = 0; b < B; b++)
        for (int64_t h = 0; h < H; h++)
            for (int64_t i = 0; i < T; i++) {
                const int64_t at = b * T + i;
                const real *ours = by_unit ? row(t, at * H + h) : row(t, at) + h * n;
                golden_check(&w->g, name, ours, n, theirs + ((b * H + h) * T + i) * n, 1, n);
            }
}

static void watch_sort(void *ud, const tensor *t, const op *by)
{
    (void)by;
    watch *w = ud;
    for (int i = 0; i < N_SORT; i++)
        if (strcmp(sort_names[i].ours, t->name) == 0) {
            const stored *s = golden_tensor(&w->g, sort_names[i].theirs);
            assert_non_null(s);
            w->met[i] = true;
            compare_sort(w, sort_names[i].theirs, s, t);
        }
}

static void sort_activations(void **state)
{
    (void)state;
    watch w = { 0 };
    host h;
    model m;
    run r;
    weft_error err = { 0 };
    host_plain(&h);
    golden_open(&w.g, asset("gpt2-nano-sort/ref_activations.safetensors"), 1e-5);
    if (model_open(&m, asset("gpt2-nano-sort"), WEFT_LOAD_COPY, &h, &err) != WEFT_OK)
        fail_msg("%s", err.message);

    const int32_t *idx = (const int32_t *)(const void *)golden_tensor(&w.g, "idx")->data;
    batch_row row_of[B * T];
    sequence seq[B];
    for (int i = 0; i < B * T; i++)
        row_of[i] = (batch_row){ .id = idx[i], .seq = i / T, .pos = i % T, .wanted = true };
    for (int b = 0; b < B; b++)
        seq[b] = (sequence){ .first = b * T, .n = T, .source = -1 };
    const batch b = { .n_row = B * T, .n_seq = B, .n_wanted = B * T, .row = row_of, .seq = seq };

    assert_int_equal(run_init(&r, &h.mem, 1 << 20, 8 << 20, 64 << 20, &err), WEFT_OK);
    r.kern = &kernels_scalar;
    r.trace = watch_sort;
    r.trace_ud = &w;
    r.show.maps = true;
    run_begin(&r, &b);
    tensor *logits = model_forward(&r, &m);
    softmax(&r, logits);
    for (int i = 0; i < N_SORT; i++)
        assert_that(w.met[i], "%s was not made", sort_names[i].theirs);
    print_message("%d tensors, worst %.2e of the largest in %s\n", N_SORT, w.g.worst,
                  w.g.worst_name);
    assert_that(!w.g.first[0], "first divergence in %s: %.3g", w.g.first, w.g.first_error);
    run_free(&r);
    golden_close(&w.g);
    model_close(&m);
}

/* All 3^6 inputs: six digits, and the same six sorted. Emulators run every 8th. */
static void sort_everything(void **state)
{
    (void)state;
    opened o;
    weft_error err = { 0 };
    int sorted = 0, asked = 0;
    open_model(&o, asset("gpt2-nano-sort"), 0);
    for (int code = 0; code < 729; code += quick() ? 8 : 1, asked++) {
        int32_t in[6], count[3] = { 0 };
        for (int i = 0, c = code; i < 6; i++, c /= 3)
            count[in[i] = c % 3]++;
        assert_int_equal(session_rewind(o.session, 0, &err), WEFT_OK);
        eval(&o, in, 6);
        bool right = true;
        for (int i = 0, digit = 0; i < 6; i++) {
            while (count[digit] == 0)
                digit++;
            count[digit]--;
            const int32_t id = session_greedy(o.session);
            right = right && id == digit;
            if (i < 5)
                eval(&o, &id, 1);
        }
        sorted += right;
    }
    close_model(&o);
    print_message("%d of %d sorted\n", sorted, asked);
    assert_int_equal(sorted, asked);
}

/* ---- a GPT-2 of another maker: relu, a bias on the head -------------------------------------- */

/* One session fed token by token: the logits after each equal the reference, padding after the end
 * included. */
static void names_logits(void **state)
{
    (void)state;
    golden g;
    opened o;
    weft_error err = { 0 };
    golden_open(&g, asset("gpt2-names-char/ref_logits.safetensors"), 1e-5);
    const stored *ids = golden_tensor(&g, "input_ids"), *logits = golden_tensor(&g, "logits");
    open_model(&o, asset("gpt2-names-char"), 0);
    for (int64_t i = 0; i < ids->shape[0] * ids->shape[1]; i++) {
        if (i % ids->shape[1] == 0)
            assert_int_equal(session_rewind(o.session, 0, &err), WEFT_OK);
        eval(&o, (const int32_t *)(const void *)ids->data + i, 1);
        golden_check(&g, "logits", o.session->logits, 28,
                     (const float *)(const void *)logits->data + i * 28, 1, 28);
    }
    print_message("%d rows, worst %.2e of the largest\n", g.compared, g.worst);
    assert_true(g.worst <= 1e-5);
    close_model(&o);
    golden_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("stories260K: 200 greedy tokens and their logits, from safetensors",
             story_safetensors),
        TEST("stories260K: 200 greedy tokens and their logits, from an F32 GGUF", story_gguf),
        TEST("stories260K: the Q8_0 GGUF stays within its bound", story_q8_0),
        TEST("gpt2-nano-sort: every stored activation equals PyTorch's", sort_activations),
        TEST("gpt2-nano-sort: all 729 inputs are sorted", sort_everything),
        TEST("gpt2-names-char: logits equal the reference", names_logits),
    };
    return RUN(tests);
}
