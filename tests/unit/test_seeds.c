/* Claims of the founding documents (docs/SEEDS.md) that no other test covers. */
#include "small_model.h"

#include "base/rng.h"
#include "engine/estimate.h"
#include "train/init_model.h"

#include <math.h>

/* ---- text ------------------------------------------------------------------------------------ */

static weft_tokenizer *must_load(const char *path)
{
    weft_error err = { 0 };
    weft_tokenizer *t = weft_tokenizer_load(path, NULL, &err);
    if (!t)
        fail_msg("%s", err.message);
    return t;
}

static weft_tokens *encoded(const weft_tokenizer *t, const char *text)
{
    weft_error err = { 0 };
    weft_tokens *got = weft_tokenizer_encode(t, text, strlen(text), NULL, &err);
    if (!got)
        fail_msg("%s", err.message);
    return got;
}

/* The walk-through's first step, with the part of GPT-2's vocabulary that it needs. (One of the
 * documents has 2415 for " cat", which is " woman".) */
static void the_cat_sat_on(void **state)
{
    (void)state;
    static const char text[] = "The cat sat on", woman[] = " woman";
    static const int32_t ids[] = { 464, 3797, 3332, 319 };
    char piece[16];
    weft_tokenizer *t = must_load(fixture("golden/gpt2-slice"));
    weft_tokens *got = encoded(t, text);
    assert_int_equal(strlen(text), 14);
    assert_int_equal(got->n, 4);
    assert_memory_equal(got->ids, ids, sizeof ids);
    assert_int_equal(weft_tokenizer_piece(t, 2415, piece, sizeof piece), strlen(woman));
    assert_memory_equal(piece, woman, strlen(woman));
    weft_tokens_free(got);
    weft_tokenizer_free(t);
}

/* The slice gives the same ids as the whole vocabulary for all sentences it was made for. */
static void slice_is_gpt2s(void **state)
{
    (void)state;
    size_t n;
    weft_tokenizer *whole = must_load(asset("tokenizers/gpt2"));
    weft_tokenizer *part = must_load(fixture("golden/gpt2-slice"));
    char *text = read_whole(fixture("golden/gpt2-slice/sentences.txt"), &n);
    int lines = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"), lines++) {
        weft_tokens *want = encoded(whole, line), *got = encoded(part, line);
        assert_int_equal(got->n, want->n);
        assert_memory_equal(got->ids, want->ids, (size_t)want->n * sizeof *want->ids);
        weft_tokens_free(want);
        weft_tokens_free(got);
    }
    assert_true(lines >= 5);
    free(text);
    weft_tokenizer_free(part);
    weft_tokenizer_free(whole);
}

/* ---- parameters ------------------------------------------------------------------------------ */

/* A feed forward of GPT-2's width has 8 D^2 weights, about 4.7 million. */
static void feed_forward_of_gpt2(void **state)
{
    (void)state;
    static const char config[] = "{\"model_type\": \"gpt2\", \"n_layer\": 12, \"n_embd\": 768, "
                                 "\"n_head\": 12, \"n_positions\": 1024, \"vocab_size\": 50257}";
    const int64_t D = 768;
    host h;
    model m;
    part_cost c[N_PART];
    weft_error err = { 0 };
    host_plain(&h);
    if (model_design(&m, config, sizeof config - 1, &h, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    assert_int_equal(model_cost(&m, 1024, c, &err), WEFT_OK);
    const int64_t norm = 2 * D, biases = 4 * D + D;
    assert_int_equal(c[PART_FEED_FORWARD].n_parameter, 12 * (8 * D * D + biases + norm));
    assert_int_equal(8 * D * D, 4718592);
    model_close(&m);
}

/* Those of Llama-2-7B, 3-8B and 3.2-1B; and of new models, in multiples of 64. */
static void hidden_widths(void **state)
{
    (void)state;
    static const struct {
        const char *arch;
        int64_t d_model, d_ff;
    } made[] = { { "llama", 192, 512 },       { "llama", 256, 704 }, { "llama", 4096, 10944 },
                 { "deepseek_v3", 100, 320 }, { "gpt2", 256, 1024 }, { "t5", 100, 400 } };
    assert_int_equal(llama_hidden_width(4096, 1, 256), 11008);
    assert_int_equal(llama_hidden_width(4096, 1.3, 1024), 14336);
    assert_int_equal(llama_hidden_width(2048, 1.5, 256), 8192);
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        weft_error err = { 0 };
        init_model_shape s;
        const init_model_shape over = { .arch = made[i].arch,
                                        .d_model = made[i].d_model,
                                        .tied = -1 };
        assert_int_equal(init_model_resolve(NULL, &over, &s, &err), WEFT_OK);
        assert_int_equal(s.d_ff, made[i].d_ff);
    }
}

/* ---- positions ------------------------------------------------------------------------------- */

enum { T = 14, MAX_D = 32 };

typedef struct positions {
    real at[T][MAX_D];
    int64_t D;
} positions;

static void keep_positions(void *ud, const tensor *t, const op *by)
{
    positions *p = ud;
    (void)by;
    if (strcmp(t->name, "dec.position_embd") != 0)
        return;
    assert_int_equal(rows(t), T);
    p->D = cols(t);
    for (int i = 0; i < T; i++)
        memcpy(p->at[i], row(t, i), (size_t)p->D * sizeof(real));
}

static void read_positions(const char *path, positions *p)
{
    fixture_model f;
    run r;
    weft_error err = { 0 };
    batch_row rows_of[T], src_row = { 0 };
    sequence seq = { .n = T, .source = 0 }, src_seq = { .n = 1, .source = -1 };
    const batch src = { .n_row = 1, .n_seq = 1, .row = &src_row, .seq = &src_seq };
    const batch b = { .n_row = T, .n_seq = 1, .row = rows_of, .seq = &seq, .src = &src };
    for (int i = 0; i < T; i++)
        rows_of[i] = (batch_row){ .pos = i };
    host_plain(&f.host);
    if (model_open(&f.model, fixture(path), WEFT_LOAD_COPY, &f.host, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    assert_int_equal(run_init(&r, &f.host.mem, 1 << 18, 4 << 20, 1 << 20, &err), WEFT_OK);
    r.kern = &kernels_scalar;
    r.trace = keep_positions;
    r.trace_ud = p;
    run_begin(&r, &b);
    model_forward(&r, &f.model);
    run_free(&r);
    close_llama(&f);
}

/* sin and cos of pair k: side by side (2017), or half a row apart (Marian). */
static real sine_of(const positions *p, bool beside, int i, int64_t k)
{
    return p->at[i][beside ? 2 * k : k];
}

static real cosine_of(const positions *p, bool beside, int i, int64_t k)
{
    return p->at[i][beside ? 2 * k + 1 : p->D / 2 + k];
}

/* PE(i + j) = R PE(i), with an R that depends on j only and follows from PE(j). */
static void sines_are_linear(void **state)
{
    (void)state;
    static const char *const paths[] = { "golden/transformer-2017", "golden/marian" };
    for (int m = 0; m < 2; m++) {
        positions p = { 0 };
        const bool beside = m == 0;
        read_positions(paths[m], &p);
        assert_true(p.D > 0 && p.D % 2 == 0);
        for (int j = 0; j < T; j++)
            for (int i = 0; i + j < T; i++)
                for (int64_t k = 0; k < p.D / 2; k++) {
                    const real s = sine_of(&p, beside, i, k), c = cosine_of(&p, beside, i, k);
                    const real sj = sine_of(&p, beside, j, k), cj = cosine_of(&p, beside, j, k);
                    assert_true(fabsf(sine_of(&p, beside, i + j, k) - (s * cj + c * sj)) < 1e-6f);
                    assert_true(fabsf(cosine_of(&p, beside, i + j, k) - (c * cj - s * sj)) < 1e-6f);
                }
        assert_true(fabsf(sine_of(&p, beside, 1, 0) - sinf(1)) < 1e-7f);
    }
}

/* ---- attention ------------------------------------------------------------------------------- */

typedef struct moments {
    double n, sum, squares;
} moments;

static void add_scores(void *ud, const tensor *t, const op *by)
{
    moments *m = ud;
    (void)by;
    if (strcmp(t->name, "blk.0.attention.scores") != 0)
        return;
    for (int64_t i = 0; i < rows(t); i++)
        for (int64_t j = 0; j < cols(t); j++)
            if (isfinite((double)row(t, i)[j])) { /* -inf: masked */
                m->n++;
                m->sum += (double)row(t, i)[j];
                m->squares += (double)row(t, i)[j] * (double)row(t, i)[j];
            }
}

/* The scores of a model's first layer over random tokens; its query and key matrices are set so
 * that both have variance 1. */
static double score_variance(int64_t n_head, double wider)
{
    fixture_model f;
    weft_error err = { 0 };
    moments m = { 0 };
    int32_t ids[64];
    llama_shape s = small_shape;
    s.type = &dtype_f32;
    s.n_head = s.n_head_kv = n_head;
    story(ids, 64, 1);
    open_llama(&f, s);
    for (int64_t i = 0; i < f.model.n_param; i++) {
        const tensor *t = f.model.param[i];
        if (strstr(t->name, "blk.0.attn_q.weight") || strstr(t->name, "blk.0.attn_k.weight"))
            fill_normal(t->data, rows(t) * cols(t), 9, (uint64_t)i, wider / sqrt((double)cols(t)));
        if (strstr(t->name, "blk.0.attn_norm"))
            for (int64_t k = 0; k < cols(t); k++)
                ((real *)t->data)[k] = 1;
    }
    engine *e = make_engine(&f, (engine_options){ .n_thread = 1 });
    session *one = make_session(e);
    assert_int_equal(
        engine_trace(e, &(trace_spec){ .trace = add_scores, .trace_ud = &m, .show.maps = true },
                     &err),
        WEFT_OK);
    must_feed(one, ids, 64);
    session_free(one);
    engine_free(e);
    close_llama(&f);
    assert_true(m.n == (double)n_head * 64 * 65 / 2);
    return m.squares / m.n - m.sum / m.n * m.sum / m.n;
}

/* Why scores are divided by sqrt d: q . k of d values of variance 1 has variance d, so wider heads
 * would give softmax larger scores. */
static void scores_have_variance_1(void **state)
{
    (void)state;
    for (int64_t n_head = 1; n_head <= 8; n_head *= 2) { /* of 64 to 8 numbers */
        const double v = score_variance(n_head, 1);
        print_message("heads of %d: scores have variance %.2f\n", (int)(64 / n_head), v);
        assert_true(v > 0.7 && v < 1.4);
    }
    assert_true(score_variance(4, 2) >
                10); /* 16: it is not the softmax or the trace that makes it 1 */
}

/* The public function gives the formula, for more queries than are pooled at once. */
static void kernels_for_callers(void **state)
{
    (void)state;
    enum { N = 1500, M = 9 };
    static const float keys[M] = { 0, 1, 2, 3, 5, 8, 13, 21, 34 },
                       values[M] = { 3, -1, 4, 1, -5, 9, 2, -6, 5 };
    static float query[N], out[N];
    weft_error err = { 0 };
    for (int i = 0; i < N; i++)
        query[i] = (float)i / 30;
    for (int kind = WEFT_KERNEL_GAUSSIAN; kind <= WEFT_KERNEL_EPANECHNIKOV; kind++) {
        const double width = 1.713; /* at which no query is at the edge of a boxcar */
        assert_int_equal(
            weft_kernel_pool((weft_kernel)kind, width, query, N, keys, values, M, out, &err),
            WEFT_OK);
        for (int i = 0; i < N; i++) {
            double sum = 0, top = 0;
            for (int j = 0; j < M; j++) {
                const double t = pow(((double)query[i] - (double)keys[j]) / width, 2);
                const double near = kind == WEFT_KERNEL_GAUSSIAN ? exp(-t / 2)
                                    : kind == WEFT_KERNEL_BOXCAR ? (t <= 1)
                                                                 : fmax(0, 1 - t);
                sum += near;
                top += near * (double)values[j];
            }
            assert_true(fabs((double)out[i] - (sum > 0 ? top / sum : 0)) < 2e-4);
        }
    }
    assert_int_equal(weft_kernel_pool(WEFT_KERNEL_BOXCAR, 0, query, 1, keys, values, M, out, &err),
                     WEFT_EINVAL);
}

/* Without positions, permuted rows give permuted results. */
static void attention_permutes(void **state)
{
    (void)state;
    enum { ROWS = 11, D = 8 };
    host h;
    run r;
    weft_error err = { 0 };
    batch_row rows_of[ROWS] = { { 0 } };
    sequence seq = { .n = ROWS, .source = -1 };
    const batch b = { .n_row = ROWS, .n_seq = 1, .row = rows_of, .seq = &seq };
    const attn a = { ATTN_FULL, 2, 2, 4, 4, 0.5f, 0, { 0 }, 0, NULL };
    host_plain(&h);
    assert_int_equal(run_init(&r, &h.mem, 1 << 16, 1 << 18, 1 << 16, &err), WEFT_OK);
    r.kern = &kernels_scalar;
    run_begin(&r, &b);
    tensor *in[2][3], *y[2];
    for (int permuted = 0; permuted < 2; permuted++) {
        for (int k = 0; k < 3; k++) {
            in[permuted][k] = tensor_new(&r, ROWS, D);
            for (int i = 0; i < ROWS; i++)
                fill_normal(row(in[permuted][k], permuted ? (i * 4 + 3) % ROWS : i), D, 5,
                            (uint64_t)(k * ROWS + i), 1);
        }
        y[permuted] = attention(&r, in[permuted][0], in[permuted][1], in[permuted][2], &a, 0);
    }
    for (int i = 0; i < ROWS; i++)
        assert_close("attention", row(y[1], (i * 4 + 3) % ROWS), row(y[0], i), D, 1e-6);
    run_free(&r);
    assert_int_equal(h.mem.used, 0);
}

/* ---- a GPT with rotary positions in bf16 ------------------------------------------------------- */

enum { STEPS = 40, ASKED = 24 };

typedef struct run_log {
    double first, last;
    float logits[64]; /* of the model in memory, after the last step */
} run_log;

static void ask(weft_model *m, float *logits)
{
    weft_error err = { 0 };
    int32_t ids[ASKED];
    weft_model_info info = { .struct_size = sizeof info };
    weft_model_get_info(m, &info);
    assert_true(info.n_vocab <= 64);
    for (int i = 0; i < ASKED; i++)
        ids[i] = (int32_t)(draw(40, (uint64_t)i) % (uint32_t)info.n_vocab);
    weft_engine *e = weft_engine_new(m, NULL, &err);
    weft_session *s = e ? weft_session_new(e, &err) : NULL;
    if (!s || weft_session_eval(s, ids, ASKED, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    memcpy(logits, weft_session_logits(s), (size_t)info.n_vocab * sizeof *logits);
    weft_session_free(s);
    weft_engine_free(e);
}

static bool keep_log(void *ud, const weft_train_progress *p, weft_model *m)
{
    run_log *l = ud;
    if (p->step == 1)
        l->first = p->loss;
    l->last = p->loss;
    if (p->step == STEPS)
        ask(m, l->logits);
    return true;
}

/* The model of `weft train --arch gpt2 --positions rope --bf16`. */
static void gpt_with_rope_in_bf16(void **state)
{
    (void)state;
    char words[4000];
    for (size_t i = 0; i < sizeof words; i++)
        words[i] = (char)('a' + (i * i + i / 7) % 11);
    const char *text = temp_file("words.txt", words, sizeof words), *out = temp_path("rope");
    run_log log = { 0 };
    float logits[64] = { 0 };
    weft_error err = { 0 };
    weft_train_options o;
    weft_train_defaults(&o, sizeof o);
    o.out = out;
    o.data = &text;
    o.n_data = 1;
    o.characters = true;
    o.arch = "gpt2";
    o.positions = WEFT_POSITIONS_ROTARY;
    o.bf16 = true;
    o.n_layer = 2;
    o.d_model = 32;
    o.n_head = 2;
    o.n_ctx = 32;
    o.n_sample = quick() ? 4 : 8;
    o.n_step = STEPS;
    o.lr = 1e-2;
    o.threads = 1;
    o.progress = keep_log;
    o.progress_ud = &log;
    if (weft_train(&o, NULL, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    print_message("loss %.3f after one step, %.3f after %d\n", log.first, log.last, STEPS);
    assert_true(log.first > 2 && log.last < 0.7 * log.first);

    weft_model *m = weft_model_open(out, NULL, &err);
    assert_non_null(m);
    weft_model_info info = { .struct_size = sizeof info };
    weft_tensor_info t = { .struct_size = sizeof t };
    weft_model_get_info(m, &info);
    assert_string_equal(info.architecture, "gpt2");
    for (int64_t i = 0; i < info.n_tensor; i++) { /* fused c_attn, and no table of positions */
        assert_int_equal(weft_model_get_tensor(m, i, &t), WEFT_OK);
        assert_null(strstr(t.name, "position_embd"));
        if (strstr(t.name, "attn_qkv.weight"))
            assert_true(t.shape[0] == 3 * 32 && t.shape[1] == 32);
    }
    ask(m, logits);
    /* the file has f32 weights; training rounds them to bf16 for products */
    const double off = assert_close("logits", logits, log.logits, info.n_vocab, 0.02);
    print_message("logits of the file are within %.1e of those in memory\n", off);
    assert_true(off > 0);
    weft_model_close(m);

    o.arch = "llama";
    o.out = temp_path("llama");
    assert_int_equal(weft_train(&o, NULL, &err), WEFT_EINVAL);
    assert_non_null(strstr(err.message, "positions, norm and activation of a llama are fixed"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("seeds: \"The cat sat on\" is 464, 3797, 3332, 319", the_cat_sat_on),
        TEST("seeds: the slice of GPT-2's vocabulary gives the ids of all of it", slice_is_gpt2s),
        TEST("seeds: a feed forward of width 768 has 4.7 million weights", feed_forward_of_gpt2),
        TEST("seeds: hidden widths are 11008, 14336 and 8192; new models get theirs the same way",
             hidden_widths),
        TEST("seeds: sines of a later position are linear in those of an earlier one",
             sines_are_linear),
        TEST("seeds: scores over sqrt d have variance 1", scores_have_variance_1),
        TEST("seeds: a GPT with rotary positions trains in bf16, and its file has the trained "
             "weights",
             gpt_with_rope_in_bf16),
        TEST("seeds: Nadaraya-Watson pooling is public", kernels_for_callers),
        TEST("seeds: attention without positions ignores the order", attention_permutes),
    };
    return RUN(tests);
}
