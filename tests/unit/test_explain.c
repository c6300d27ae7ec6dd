/* The page of a model and a text: every number of every view is the number of a trace, bit by bit;
 * what a view derives from them is derived again here; and its identities fail on planted
 * defects. */
#include "explain/sines.h"
#include "explained.h"

enum { N = 9 };

static const int32_t text_ids[N] = { 1, 5, 7, 2, 9, 4, 3, 5, 7 };

/* One model of each family that a page shows; types that it is also shown in. */
typedef struct shown_model {
    const char *path, *type;
} shown_model;

static const shown_model shown[] = {
    { "golden/llama-gqa", NULL },
    { "golden/llama-gqa", "q8_0" },
    { "golden/gpt2", NULL },
    { "golden/gpt2", "q8_0" },
    { "golden/deepseek-v2", NULL },
    { "golden/deepseek-v3", NULL },
    { "golden/deepseek-v2", "q8_0" },
    { "golden/bert-fill", NULL },
    { "golden/bert-fill", "q8_0" },
    { "golden/gemma2", NULL },
    { "golden/mistral-window", NULL },
    { "golden/qwen3-moe", NULL },
    { "../models/shakespeare.gguf", NULL },
};

#define N_SHOWN ((int)(sizeof shown / sizeof *shown))

/* ---- the trace ------------------------------------------------------------------------------- */

static const weft_trace_options all_parts = {
    .struct_size = sizeof all_parts, .attention_maps = true, .open = true, .lens = true
};

static void trace_decoder(weft_model *m, traced *to)
{
    weft_error err = { 0 };
    const weft_engine_options o = {
        .struct_size = sizeof o, .n_ctx = N, .n_batch = N, .kv_type = WEFT_KV_F32
    };
    weft_engine *e = weft_engine_new(m, &o, &err);
    weft_session *s = weft_session_new(e, &err);
    assert_int_equal(weft_engine_trace_with(e, keep, to, &all_parts, &err), WEFT_OK);
    assert_int_equal(weft_session_eval(s, text_ids, N, &err), WEFT_OK);
    weft_session_free(s);
    weft_engine_free(e);
}

static void trace_encoder(weft_model *m, traced *to)
{
    weft_error err = { 0 };
    const weft_encoder_options o = { .struct_size = sizeof o, .n_ctx = N };
    weft_input in = { .ids = text_ids, .n = N };
    weft_encoder *e = weft_encoder_new(m, &o, &err);
    assert_int_equal(weft_encoder_trace_with(e, keep, to, &all_parts, &err), WEFT_OK);
    in.out = calloc((size_t)(weft_encoder_rows(e, &in) * weft_encoder_width(e)), sizeof *in.out);
    assert_int_equal(weft_encoder_eval(e, &in, 1, &err), WEFT_OK);
    free(in.out);
    weft_encoder_free(e);
}

/* ---- the page -------------------------------------------------------------------------------- */

static json_t *page_json(weft_model *m, const weft_explain_options *from)
{
    return explain_json(m, text_ids, N, from);
}

static weft_model *open_shown(const shown_model *s)
{
    weft_error err = { 0 };
    char path[4096];
    snprintf(path, sizeof path, "%s", fixture(s->path));
    if (s->type) {
        const weft_convert_options o = { .struct_size = sizeof o, .type = s->type };
        const char *to = temp_path("quantised.gguf");
        if (weft_convert(path, to, &o, NULL, &err) != WEFT_OK)
            fail_msg("%s", err.message);
        snprintf(path, sizeof path, "%s", to);
    }
    weft_model *m = weft_model_open(path, NULL, &err);
    if (!m)
        fail_msg("%s", err.message);
    if (s->type)
        remove(path);
    return m;
}

/* ---- numbers are the trace's ------------------------------------------------------------------ */

/* The best token of each layer has the logit that a trace's lens has there. */
static void compare_lens(const json_t *root, const traced *trace, const char *model)
{
    size_t i;
    const json_t *one, *layer;
    json_array_foreach(json_object_get(root, "views"), i, one)
    {
        size_t l;
        if (strcmp(json_string_value(json_object_get(one, "view")), "output") != 0)
            continue;
        json_array_foreach(json_object_get(one, "lens"), l, layer)
        {
            char name[96];
            snprintf(name, sizeof name, "lens.%zu.output", l);
            const kept *k = find(trace, name);
            snprintf(name, sizeof name, "lens.%zu.output.softcap", l);
            k = find(trace, name) ? find(trace, name) : k;
            const json_t *best = json_array_get(json_object_get(layer, "best"), 0);
            const int64_t id = json_integer_value(json_object_get(best, "id"));
            assert_non_null(k);
            const float want = k->data[(k->rows - 1) * k->cols + id];
            const float got = (float)json_number_value(json_object_get(best, "z"));
            assert_that(memcmp(&got, &want, sizeof got) == 0, "%s: lens %zu says %.9g, trace %.9g",
                        model, l, (double)got, (double)want);
        }
    }
}

static void numbers_are_a_trace(void **state)
{
    (void)state;
    for (int i = 0; i < N_SHOWN; i++) {
        static traced seen;
        weft_model *m = open_shown(&shown[i]);
        weft_model_info info = { .struct_size = sizeof info };
        weft_model_get_info(m, &info);
        (info.task == WEFT_TASK_GENERATE ? trace_decoder : trace_encoder)(m, &seen);
        json_t *root = page_json(
            m, &(weft_explain_options){ .struct_size = sizeof(weft_explain_options),
                                        .token = -1,
                                        .json = true,
                                        .all = true });
        const int n = compare_below(root, &seen, shown[i].path);
        compare_lens(root, &seen, shown[i].path);
        assert_that(n > 20, "%s: only %d tensors", shown[i].path, n);
        json_decref(root);
        forget(&seen);
        weft_model_close(m);
    }
}

/* ---- text, rotations, layers ----------------------------------------------------------------- */

/* A document of some views, from any ids. */
static json_t *views_of(weft_model *m, const int32_t *ids, int64_t n, const char *only,
                        weft_hook_fn *hook, void *ud)
{
    const weft_explain_options o = { .struct_size = sizeof o,
                                     .only = only,
                                     .token = -1,
                                     .json = true,
                                     .all = true,
                                     .hook = hook,
                                     .hook_ud = ud };
    return explain_json(m, ids, n, &o);
}

static weft_model *open_path(const char *path)
{
    return open_shown(&(shown_model){ path, NULL });
}

static const char text_of_tokens[] = "ROMEO: I \xE2\x82\xAC love thee";

/* As many tokens, of which the last is another. */
static const char text_as_long[] = "ROMEO: I \xE2\x82\xAC love him";

static void tokens_have_spans(void **state)
{
    (void)state;
    weft_error err = { 0 };
    json_error_t why;
    const char *path = fixture("../models/shakespeare.gguf");
    weft_model *m = weft_model_open(path, NULL, &err);
    weft_tokenizer *t = weft_tokenizer_load(path, NULL, &err);
    const weft_tokenize_options with = { .struct_size = sizeof with, .spans = true };
    weft_tokens *ids = weft_tokenizer_encode(t, text_of_tokens, strlen(text_of_tokens), &with,
                                             &err);
    assert_true(ids->n > 4);
    for (int wrong = 0; wrong < 2; wrong++) {
        text page = { 0 };
        const weft_explain_options o = { .struct_size = sizeof o,
                                         .text = wrong ? text_as_long : text_of_tokens,
                                         .tokenizer = t,
                                         .only = "tokens",
                                         .json = true };
        assert_int_equal(weft_explain(m, ids->ids, ids->n, &o, take_text, &page, &err), WEFT_OK);
        json_t *root = json_loadb(page.at, page.n, 0, &why);
        const json_t *v = first_view(root), *pieces = part(v, "pieces");
        assert_int_equal(json_is_true(part(v, "spans")), !wrong);
        assert_int_equal(json_array_size(pieces), (size_t)ids->n);
        for (int64_t i = 0; i < ids->n && !wrong; i++) {
            const json_t *p = json_array_get(pieces, (size_t)i);
            char hex[64] = "";
            for (uint32_t k = ids->spans[i].from; k < ids->spans[i].to; k++)
                snprintf(hex + 2 * (k - ids->spans[i].from), 3, "%02x",
                         (unsigned)(unsigned char)text_of_tokens[k]);
            assert_int_equal((int64_t)value(p, "from"), ids->spans[i].from);
            assert_int_equal((int64_t)value(p, "to"), ids->spans[i].to);
            assert_string_equal(word(p, "bytes"), hex);
        }
        json_decref(root);
        free(page.at);
    }
    weft_tokens_free(ids);
    weft_tokenizer_free(t);
    weft_model_close(m);
}

enum { MOST_VOCAB = 128, MOST_WIDTH = 256 };

typedef struct whole_table {
    int64_t n, width;
    double at[MOST_VOCAB][MOST_WIDTH];
} whole_table;

/* Every row of the embedding, as the model looks it up. */
static void read_table(weft_model *m, whole_table *to)
{
    weft_model_info info = { .struct_size = sizeof info };
    weft_model_get_info(m, &info);
    to->n = info.n_vocab;
    assert_true(to->n <= MOST_VOCAB);
    for (int64_t first = 0; first < to->n; first += N) {
        int32_t ids[N];
        int64_t n = 0;
        for (; n < N && first + n < to->n; n++)
            ids[n] = (int32_t)(first + n);
        json_t *root = views_of(m, ids, n, "embeddings", NULL, NULL);
        const json_t *t = part(json_array_get(part(first_view(root), "steps"), 0), "tensor");
        assert_string_equal(word(t, "name"), "token_embd");
        to->width = (int64_t)value(t, "cols");
        assert_true(to->width <= MOST_WIDTH);
        for (int64_t i = 0; i < n; i++)
            for (int64_t k = 0; k < to->width; k++)
                to->at[first + i][k] = number(row_of(t, i), k);
        json_decref(root);
    }
}

static double cosine_of(const whole_table *t, int64_t a, int64_t b)
{
    double ab = 0, aa = 0, bb = 0;
    for (int64_t k = 0; k < t->width; k++) {
        ab += t->at[a][k] * t->at[b][k];
        aa += t->at[a][k] * t->at[a][k];
        bb += t->at[b][k] * t->at[b][k];
    }
    return ab / sqrt(aa * bb);
}

/* The list has the stated cosines, and no row outside of it is nearer than its last one. */
static void check_neighbours(const json_t *one, const whole_table *t)
{
    const int64_t id = (int64_t)value(one, "id");
    const json_t *list = part(one, "tokens");
    const int64_t n = (int64_t)json_array_size(list);
    bool listed[MOST_VOCAB] = { false };
    double last = 2;
    assert_int_equal(n, 8);
    for (int64_t i = 0; i < n; i++) {
        const json_t *it = json_array_get(list, (size_t)i);
        const int64_t other = (int64_t)value(it, "id");
        assert_true(other != id && !listed[other] && value(it, "cosine") <= last);
        listed[other] = true;
        last = value(it, "cosine");
        assert_near(last, cosine_of(t, id, other), 1e-5);
    }
    for (int64_t i = 0; i < t->n; i++)
        assert_true(listed[i] || i == id || cosine_of(t, id, i) <= last + 1e-5);
}

static void neighbours_are_nearest(void **state)
{
    (void)state;
    static whole_table t;
    const shown_model of[] = { { "golden/llama-gqa", NULL },   { "golden/llama-gqa", "q8_0" },
                               { "golden/gpt2", NULL },        { "golden/deepseek-v2", NULL },
                               { "golden/bert-fill", "q8_0" }, { "golden/qwen3-moe", NULL } };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        weft_model *m = open_shown(&of[i]);
        read_table(m, &t);
        json_t *root = views_of(m, text_ids, N, "embeddings", NULL, NULL);
        const json_t *all = part(first_view(root), "nearest");
        static const int64_t distinct[] = { 7, 1, 5, 2, 9, 4, 3 }; /* the chosen token is first */
        assert_int_equal(json_array_size(all), 7);
        for (size_t k = 0; k < 7; k++) {
            assert_int_equal((int64_t)value(json_array_get(all, k), "id"), distinct[k]);
            check_neighbours(json_array_get(all, k), &t);
        }
        json_decref(root);
        weft_model_close(m);
    }
}

static void positions_are_the_table(void **state)
{
    (void)state;
    static const char *const of[] = { "golden/gpt2", "golden/bert-fill", "golden/mpnet-fill" };
    static const int first[] = { 0, 0, 2 }; /* the row of position 0 */
    for (int i = 0; i < 3; i++) {
        weft_model *m = open_path(of[i]);
        json_t *root = views_of(m, text_ids, N, "positions", NULL, NULL);
        const json_t *v = first_view(root), *t = part(v, "text"), *all = part(v, "numbers");
        const int64_t T = (int64_t)json_array_size(part(v, "positions"));
        const int64_t D = (int64_t)json_array_size(part(v, "columns"));
        assert_int_equal((int64_t)json_array_size(all), T * D);
        assert_int_equal((int64_t)value(part(v, "table"), "rows"), T);
        for (int64_t p = 0; p < N; p++)
            for (int64_t k = 0; k < D; k++)
                assert_true(number(all, (p + first[i]) * D + k) == number(row_of(t, p), k));
        assert_true(number(part(part(v, "sines"), "residual"), 0) > 1);
        json_decref(root);
        weft_model_close(m);
    }
}

/* A table as the 2017 paper, tensor2tensor and fairseq make it. */
static void make_sines(real *to, int64_t T, int64_t D, sine_layout layout)
{
    const int64_t half = D / 2;
    for (int64_t i = 0; i < T; i++)
        for (int64_t j = 0; j < half; j++) {
            const double e = layout == SINES_FAIRSEQ ? (double)j / (double)(half - 1)
                                                     : 2.0 * (double)j / (double)D;
            const double angle = (double)i / pow(10000, e);
            to[i * D + (layout == SINES_INTERLEAVED ? 2 * j : j)] = (real)sin(angle);
            to[i * D + (layout == SINES_INTERLEAVED ? 2 * j + 1 : half + j)] = (real)cos(angle);
        }
}

static void sines_rotate(void **state)
{
    (void)state;
    enum { T = 40, D = 12 };
    real table[T * D];
    for (sine_layout made = 0; made < N_SINES; made++)
        for (int64_t k = 1; k < 6; k++) {
            make_sines(table, T, D, made);
            for (sine_layout l = 0; l < N_SINES; l++) {
                const double r = sine_residual(table, T, D, l, k);
                assert_true(l == made ? r < 1e-6 : r > 0.01);
            }
            for (int row = 0; row < T; row += T - 1) { /* one number of one position is wrong */
                table[row * D + 3] += 1;
                assert_true(sine_residual(table, T, D, made, k) > 0.03);
                table[row * D + 3] -= 1;
            }
        }
    uint64_t seed = 5;
    for (int i = 0; i < T * D; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        table[i] = (real)((double)(seed >> 40) / (1 << 24) - 0.5);
    }
    assert_true(fabs(sine_residual(table, T, D, SINES_HALVES, 1) - sqrt(2)) < 0.15);
}

/* ---- rotations */

/* Columns of pair j. */
static void columns_of(const json_t *t, int64_t j, int64_t *a, int64_t *b)
{
    const int64_t skip = (int64_t)value(t, "skip"), half = (int64_t)value(t, "n_rot") / 2;
    const bool beside = strcmp(word(t, "pairing"), "adjacent") == 0;
    *a = skip + (beside ? 2 * j : j);
    *b = skip + (beside ? 2 * j + 1 : half + j);
}

/* Every pair of every head of every row turns as the view says, and nothing else changes. */
static void check_turn(const json_t *t, const json_t *before, const json_t *after)
{
    const int64_t E = (int64_t)value(t, "d_head"), width = (int64_t)value(before, "cols");
    const json_t *pairs = part(t, "pairs");
    assert_true(width % E == 0);
    for (int64_t m = 0; m < N; m++) {
        const double warm = value(t, "warmth") == 0
                                ? 1
                                : 1 + value(t, "warmth") *
                                          log(1 + floor((double)m / value(t, "warm_ctx")));
        const double by = value(t, "magnitude") * warm;
        const json_t *x = row_of(before, m), *y = row_of(after, m);
        for (int64_t c = 0; c < width; c += E) {
            bool turned[1024] = { false };
            for (int64_t j = 0; j < (int64_t)json_array_size(pairs); j++) {
                int64_t a, b;
                columns_of(t, j, &a, &b);
                turned[a] = turned[b] = true;
                const double f = value(json_array_get(pairs, (size_t)j), "frequency");
                const double s = by * sin((double)m * f), o = by * cos((double)m * f);
                const double xa = number(x, c + a), xb = number(x, c + b);
                assert_near(number(y, c + a), xa * o - xb * s, 2e-5);
                assert_near(number(y, c + b), xa * s + xb * o, 2e-5);
            }
            for (int64_t k = 0; k < E; k++)
                assert_true(turned[k] || number(x, c + k) == number(y, c + k));
        }
    }
}

static void rotations_turn(void **state)
{
    (void)state;
    static const char *const of[] = {
        "golden/llama-gqa",  "golden/gpt2-rope", "golden/deepseek-v2",  "golden/deepseek-v3",
        "golden/llama-yarn", "golden/gemma3",    "golden/ministral3",   "golden/phi3-long",
        "golden/phi3-short", "golden/qwen3-moe", "golden/llama-linear", "golden/nomic-fill"
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        weft_model *m = open_path(of[i]);
        int32_t ids[24] = { 0 }; /* beyond the old context of a long table, which is 20 */
        memcpy(ids, text_ids, sizeof text_ids);
        const int64_t n = strstr(of[i], "phi3-long") ? 24 : N;
        json_t *root = views_of(m, ids, n, "rope", NULL, NULL);
        const json_t *v = first_view(root), *tables = part(v, "tables"),
                     *layers = part(v, "layers");
        assert_true(json_array_size(layers) > 0);
        for (size_t l = 0; l < json_array_size(layers); l++) {
            const json_t *it = json_array_get(layers, l);
            assert_non_null(strstr(word(part(it, "q"), "name"), "attn_q"));
            assert_non_null(strstr(word(part(it, "k"), "name"), "k"));
            assert_null(strstr(word(part(it, "k"), "name"), "attn_q"));
            check_turn(json_array_get(tables, (size_t)value(it, "q_table")), part(it, "q_before"),
                       part(it, "q"));
            check_turn(json_array_get(tables, (size_t)value(it, "k_table")), part(it, "k_before"),
                       part(it, "k"));
        }
        json_decref(root);
        weft_model_close(m);
    }
    weft_model *m = open_path("golden/gpt2");
    json_t *root = views_of(m, text_ids, N, "rope", NULL, NULL);
    assert_non_null(strstr(word(first_view(root), "why_not"), "does not rotate"));
    json_decref(root);
    weft_model_close(m);
}

/* The three branches of Llama 3 by wavelength, from the numbers of the file. */
static void branches_follow_wavelengths(void **state)
{
    (void)state;
    weft_model *m = open_path("golden/llama-gqa");
    json_t *root = views_of(m, text_ids, N, "rope", NULL, NULL);
    const json_t *t = json_array_get(part(first_view(root), "tables"), 0);
    const json_t *pairs = part(t, "pairs");
    const double old = 64, low = value(t, "low_freq"), high = value(t, "high_freq"), pi = acos(-1);
    int seen[3] = { 0 };
    assert_string_equal(word(t, "scaling"), "llama3");
    assert_true(value(t, "old_ctx") == old);
    for (size_t j = 0; j < json_array_size(pairs); j++) {
        const json_t *p = json_array_get(pairs, j);
        const double n_rot = 2 * (double)json_array_size(pairs);
        const double f = pow(value(t, "theta"), -2 * (double)j / n_rot), wave = 2 * pi / f;
        const int branch = wave < old / high ? 0 : wave > old / low ? 2 : 1;
        const double smooth = (old / wave - low) / (high - low), s = value(t, "stretch");
        const double want[] = { f, (1 - smooth) * f / s + smooth * f, f / s };
        static const char *const name[] = { "kept", "between", "divided" };
        assert_string_equal(word(p, "branch"), name[branch]);
        assert_near(value(p, "plain") / f, 1, 1e-9);
        assert_near(value(p, "frequency") / want[branch], 1, 1e-9);
        seen[branch]++;
    }
    assert_true(seen[0] > 0 && seen[2] > 0);
    json_decref(root);
    weft_model_close(m);
}

/* ---- layers */

typedef struct row_numbers {
    double mean, rms;
} row_numbers;

static row_numbers measure_row(const kept *k, int64_t i)
{
    double sum = 0, squares = 0;
    for (int64_t c = 0; c < k->cols; c++) {
        const double x = (double)k->data[i * k->cols + c];
        sum += x;
        squares += x * x;
    }
    return (row_numbers){ sum / (double)k->cols, sqrt(squares / (double)k->cols) };
}

static const kept *found(const traced *t, const char *name)
{
    const kept *k = find(t, name);
    if (!k)
        fail_msg("a trace has no %s", name);
    return k;
}

static void check_norm(const json_t *o, const traced *t)
{
    const kept *x = found(t, word(o, "of")), *y = found(t, word(o, "name"));
    const json_t *w = part(o, "gain"), *b = json_object_get(o, "bias");
    const bool centred = strcmp(word(o, "op"), "layernorm") == 0;
    for (int64_t i = 0; i < N; i++) {
        const row_numbers before = measure_row(x, i), after = measure_row(y, i);
        assert_near(number(part(o, "mean_before"), i), before.mean, 1e-5);
        assert_near(number(part(o, "rms_before"), i), before.rms, 1e-5);
        assert_near(number(part(o, "mean_after"), i), after.mean, 1e-5);
        assert_near(number(part(o, "rms_after"), i), after.rms, 1e-5);
        const double mean = centred ? before.mean : 0;
        const double scale = 1 / sqrt(before.rms * before.rms - mean * mean + value(o, "eps"));
        for (int64_t k = 0; k < x->cols; k++)
            assert_near((double)y->data[i * y->cols + k],
                        ((double)x->data[i * x->cols + k] - mean) * scale * number(w, k) +
                            (b ? number(b, k) : 0),
                        2e-5);
    }
}

static void check_sum(const json_t *o, const traced *t)
{
    const kept *x = found(t, word(o, "to")), *h = found(t, word(o, "adds"));
    const kept *y = found(t, word(o, "name"));
    for (int64_t i = 0; i < N; i++) {
        assert_near(number(part(o, "x"), i), measure_row(x, i).rms, 1e-5);
        assert_near(number(part(o, "h"), i), measure_row(h, i).rms, 1e-5);
        assert_near(number(part(o, "y"), i), measure_row(y, i).rms, 1e-5);
    }
    for (int64_t k = 0; k < N * y->cols; k++)
        assert_true(x->data[k] + h->data[k] == y->data[k]);
}

/* Norms and sums of all layers, and norms outside. DeepSeek's layers with experts have three sums:
 * the shared expert's too. */
static const struct {
    const char *path;
    size_t n_norm, n_sum;
    double eps;
} streams[] = {
    { "golden/llama-gqa", 2 * 2, 2 * 2, 1e-6 },      { "golden/gpt2", 2 * 2, 2 * 2, 1e-5 },
    { "golden/bert-fill", 2 + 2 * 2, 2 * 2, 1e-12 }, { "golden/gemma2", 4 * 3, 2 * 3, 1e-6 },
    { "golden/qwen3-moe", 2 * 2, 2 * 2, 1e-6 },      { "golden/granite", 2 * 3, 2 * 3, 1e-6 },
    { "golden/deepseek-v2", 2 * 2, 2 + 3, 1e-6 },
};

static void norms_and_sums(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++) {
        static traced seen;
        weft_model *m = open_path(streams[i].path);
        weft_model_info info = { .struct_size = sizeof info };
        weft_model_get_info(m, &info);
        (info.task == WEFT_TASK_GENERATE ? trace_decoder : trace_encoder)(m, &seen);
        json_t *root = views_of(m, text_ids, N, "residual", NULL, NULL);
        const json_t *norms = part(first_view(root), "norms"),
                     *sums = part(first_view(root), "sums");
        assert_int_equal(json_array_size(norms), streams[i].n_norm);
        assert_int_equal(json_array_size(sums), streams[i].n_sum);
        int64_t n_layer = 0;
        for (size_t k = 0; k < json_array_size(norms); k++) {
            check_norm(json_array_get(norms, k), &seen);
            assert_true((float)value(json_array_get(norms, k), "eps") == (float)streams[i].eps);
        }
        for (size_t k = 0; k < json_array_size(sums); k++) {
            check_sum(json_array_get(sums, k), &seen);
            n_layer += strcmp(word(json_array_get(sums, k), "branch"), "attention") == 0;
        }
        assert_int_equal(n_layer, info.n_layer);
        json_decref(root);
        forget(&seen);
        weft_model_close(m);
    }
}

/* What W_2 reads becomes: row 0 zeros, row i the unit of neuron first + i - 1. */
typedef struct units {
    const char *name;
    int64_t first;
} units;

static void set_units(void *ud, const weft_trace_tensor *t, float *data)
{
    const units *u = ud;
    if (strcmp(t->name, u->name) != 0)
        return;
    for (int64_t i = 0; i < t->rows; i++)
        for (int64_t k = 0; k < t->cols; k++)
            data[i * t->stride + k] = i > 0 && k == u->first + i - 1;
}

/* So row i of the output less row 0, which is the bias, is that neuron's column. */
static void check_columns(weft_model *m, const char *hidden)
{
    units u = { hidden, 0 };
    int64_t F = 1;
    while (u.first < F) {
        json_t *root = views_of(m, text_ids, N, "feed_forward", set_units, &u);
        const json_t *l = json_array_get(part(first_view(root), "layers"), 0);
        const json_t *length = part(l, "column_length"), *down = part(l, "down");
        F = (int64_t)json_array_size(length);
        assert_string_equal(word(part(l, "hidden"), "name"), hidden);
        for (int64_t i = 1; i < N && u.first + i - 1 < F; i++) {
            double squares = 0;
            for (int64_t k = 0; k < (int64_t)value(down, "cols"); k++) {
                const double x = number(row_of(down, i), k) - number(row_of(down, 0), k);
                squares += x * x;
            }
            assert_near(number(length, u.first + i - 1), sqrt(squares), 1e-4);
        }
        u.first += N - 1;
        json_decref(root);
    }
    assert_true(F > N);
}

static void neurons_have_columns(void **state)
{
    (void)state;
    static const char *const of[][2] = { { "golden/llama-gqa", "blk.0.glu" },
                                         { "golden/gpt2", "blk.0.ffn_up.gelu_tanh" },
                                         { "golden/bert-fill", "blk.0.ffn_up.gelu" },
                                         { "golden/deepseek-v3", "blk.0.glu" } };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        weft_model *m = open_path(of[i][0]);
        check_columns(m, of[i][1]);
        weft_model_close(m);
    }
}

/* The parts of a feed forward belong together: act(gate) up = hidden; shares times outputs = sum. */
static void feed_forward_adds_up(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        bool experts, shared;
    } of[] = { { "golden/llama-gqa", false, false },
               { "golden/qwen3-moe", true, false },
               { "golden/mixtral", true, false },
               { "golden/deepseek-v3", true, true } };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        weft_model *m = open_path(of[i].path);
        json_t *root = views_of(m, text_ids, N, "feed_forward", NULL, NULL);
        const json_t *layers = part(first_view(root), "layers");
        const json_t *l = json_array_get(layers, json_array_size(layers) - 1);
        assert_int_equal(json_object_get(l, "experts") != NULL, of[i].experts);
        assert_int_equal(json_object_get(l, "up") != NULL, of[i].shared || !of[i].experts);
        if (json_object_get(l, "up")) {
            const json_t *up = part(l, "up"), *act = part(l, "act"), *h = part(l, "hidden");
            assert_int_equal(json_is_true(part(l, "shared")), of[i].shared);
            for (int64_t k = 0; k < (int64_t)value(up, "cols"); k++) {
                const double g = number(row_of(part(l, "gate"), 3), k);
                assert_near(number(row_of(act, 3), k), g / (1 + exp(-g)), 1e-5);
                assert_near(number(row_of(h, 3), k),
                            number(row_of(act, 3), k) * number(row_of(up, 3), k), 1e-5);
            }
        }
        const json_t *e = of[i].experts ? part(l, "experts") : NULL;
        for (int64_t t = 0; e && t < N; t++) {
            const int64_t k = (int64_t)value(part(e, "chosen"), "cols");
            for (int64_t c = 0; c < (int64_t)value(part(e, "sum"), "cols"); c++) {
                double sum = 0;
                for (int64_t j = 0; j < k; j++)
                    sum += number(row_of(part(e, "shares"), t), j) *
                           number(row_of(part(e, "out"), t * k + j), c);
                assert_near(number(row_of(part(e, "sum"), t), c), sum, 2e-5);
            }
        }
        json_decref(root);
        weft_model_close(m);
    }
}

/* ---- products by hand, and the cache */

/* What the model multiplies: in class i8, x rounded to a scale for 32 columns. */
static double multiplied(const float *x, int64_t k, int64_t n, bool i8)
{
    const int64_t from = k / 32 * 32;
    float most = 0;
    for (int64_t j = from; j < from + 32 && j < n; j++)
        most = fmaxf(most, fabsf(x[j]));
    return i8 && most > 0 ? rint((double)(x[k] * (127 / most))) * (double)(most / 127)
                          : (double)x[k];
}

/* Number k of a product: x of the trace, times row k of those that the page has, is y. */
static void check_product(const json_t *p, const traced *seen, int64_t i, int64_t k, double y)
{
    const kept *x = found(seen, word(part(p, "x"), "name"));
    const json_t *w = part(p, "w"), *b = json_object_get(p, "b");
    const bool i8 = strcmp(word(p, "class"), "i8") == 0;
    assert_int_equal(i8, strcmp(word(p, "type"), "q8_0") == 0);
    double sum = b ? number(b, k) : 0, size = fabs(sum);
    assert_true((k + 1) * x->cols <= (int64_t)json_array_size(w));
    for (int64_t c = 0; c < x->cols; c++) {
        const double one = multiplied(x->data + i * x->cols, c, x->cols, i8) *
                           number(w, k * x->cols + c);
        sum += one;
        size += fabs(one);
    }
    assert_that(fabs(sum - y) <= 2e-6 * size + 1e-9, "%s, number %lld of row %lld: %.9g, not %.9g",
                word(p, "weight"), (long long)k, (long long)i, sum, y);
}

/* q of every head and token, and the first number that W_O adds. */
static void check_projections(const json_t *l, const traced *seen)
{
    const json_t *q = part(l, "project"), *o = part(l, "output");
    const kept *y = found(seen, word(part(q, "y"), "name")),
               *out = found(seen, word(part(o, "y"), "name"));
    const int64_t H = (int64_t)value(l, "n_head"), step = (int64_t)value(q, "step");
    assert_int_equal(step * H, y->cols);
    assert_int_equal((int64_t)value(q, "first"), 0);
    assert_string_equal(word(o, "weight"), out->second);
    for (int64_t i = 0; i < N; i++) {
        for (int64_t h = 0; h < H; h++)
            check_product(q, seen, i, h, (double)y->data[i * y->cols + h * step]);
        check_product(o, seen, i, 0, (double)out->data[i * out->cols]);
    }
}

/* The logit of the best token: the row that the head reads, times the head's row of that token. */
static void check_head(const json_t *v, const traced *seen)
{
    const kept *z = found(seen, "output");
    const json_t *head = part(v, "head"), *best = json_array_get(part(v, "best"), 0);
    const int64_t row = (int64_t)value(v, "row"), id = (int64_t)value(best, "id");
    assert_int_equal((int64_t)value(head, "first"), id);
    assert_string_equal(word(head, "weight"), z->second);
    assert_int_equal(json_is_true(part(v, "tied")), strcmp(z->second, "token_embd.weight") == 0);
    assert_true((float)value(v, "before") == z->data[row * z->cols + id]);
    check_product(head, seen, row, 0, value(v, "before"));
}

static void products_are_by_hand(void **state)
{
    (void)state;
    int n_tied = 0, n_i8 = 0;
    for (int i = 0; i < N_SHOWN; i++) {
        static traced seen;
        weft_model *m = open_shown(&shown[i]);
        weft_model_info info = { .struct_size = sizeof info };
        weft_model_get_info(m, &info);
        (info.task == WEFT_TASK_GENERATE ? trace_decoder : trace_encoder)(m, &seen);
        json_t *root = views_of(m, text_ids, N, "query,output", NULL, NULL);
        const json_t *layers = part(first_view(root), "layers");
        const json_t *output = json_array_get(part(root, "views"), 1);
        assert_int_equal(json_array_size(layers), info.n_layer);
        for (size_t l = 0; l < json_array_size(layers); l++) {
            check_projections(json_array_get(layers, l), &seen);
            const json_t *p = part(json_array_get(layers, l), "project");
            n_i8 += strcmp(word(p, "class"), "i8") == 0;
        }
        check_head(output, &seen);
        n_tied += json_is_true(part(output, "tied"));
        json_decref(root);
        forget(&seen);
        weft_model_close(m);
    }
    assert_true(n_tied > 0 && n_tied < N_SHOWN);
    assert_true(n_i8 > 0);
}

/* Rows of a layer's keys or values in a text without its last token are those in the whole text. */
static void compare_rows(const json_t *before, const json_t *after, int64_t n)
{
    assert_int_equal(json_array_size(part(before, "data")), (size_t)n);
    assert_int_equal(json_array_size(part(after, "data")), (size_t)n + 1);
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < (int64_t)value(before, "cols"); k++)
            assert_true((float)number(row_of(before, i), k) == (float)number(row_of(after, i), k));
}

static void cached_rows_stay(void **state)
{
    (void)state;
    static const char *const of[] = { "golden/llama-gqa", "golden/gpt2", "golden/deepseek-v2",
                                      "golden/gemma2" };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        weft_model *m = open_path(of[i]);
        json_t *all = views_of(m, text_ids, N, "cache", NULL, NULL);
        json_t *most = views_of(m, text_ids, N - 1, "cache", NULL, NULL);
        const json_t *after = part(first_view(all), "layers"),
                     *kinds = part(first_view(all), "streams");
        const json_t *before = part(first_view(most), "layers");
        assert_true(json_array_size(before) > 0);
        for (size_t l = 0; l < json_array_size(before); l++) {
            const json_t *a = json_array_get(after, l), *b = json_array_get(before, l);
            double width = value(part(a, "k"), "cols"), cached = 0;
            compare_rows(part(b, "k"), part(a, "k"), N - 1);
            if (json_object_get(a, "v")) {
                compare_rows(part(b, "v"), part(a, "v"), N - 1);
                width += value(part(a, "v"), "cols");
            }
            for (size_t k = 0; k < json_array_size(kinds); k++)
                cached += value(json_array_get(kinds, k), "width");
            assert_true(width == cached);
        }
        json_decref(all);
        json_decref(most);
        weft_model_close(m);
    }
}

/* Numbers that are base64, which ends with a letter of its own for 1 and 2 bytes after the last 3. */
static size_t compare_base64(const char *at, const json_t *want)
{
    static const char letter[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint64_t bits = 0;
    uint8_t bytes[4];
    size_t n_byte = 0, n = 0;
    for (int n_bit = 0; strchr(letter, *at); at++) {
        bits = bits << 6 | (uint64_t)(strchr(letter, *at) - letter);
        n_bit += 6;
        if (n_bit < 8)
            continue;
        bytes[n_byte++] = (uint8_t)(bits >> (n_bit -= 8));
        if (n_byte < sizeof bytes)
            continue;
        float x;
        memcpy(&x, bytes, sizeof x);
        assert_true(x == (float)number(want, (int64_t)n++));
        n_byte = 0;
    }
    return n;
}

static void page_numbers_are_the_same(void **state)
{
    (void)state;
    weft_error err = { 0 };
    weft_model *m = open_path("golden/gpt2");
    for (int64_t n = N - 2; n <= N; n++) {
        const weft_explain_options o = { .struct_size = sizeof o, .only = "residual" };
        static const char key[] = "\"rms_before\":\"";
        text page = { 0 };
        json_t *root = views_of(m, text_ids, n, "residual", NULL, NULL);
        const json_t *first = json_array_get(part(first_view(root), "norms"), 0);
        assert_int_equal(weft_explain(m, text_ids, n, &o, take_text, &page, &err), WEFT_OK);
        const char *at = strstr(page.at, key);
        assert_non_null(at);
        assert_int_equal(compare_base64(at + strlen(key), part(first, "rms_before")), n);
        free(page.at);
        json_decref(root);
    }
    weft_model_close(m);
}

/* As keys and values, a token of DeepSeek's takes H (E_k + E_v) numbers a layer, which differ. */
static void widths_of_latents(void **state)
{
    (void)state;
    weft_model *m = open_path("golden/deepseek-v2");
    json_t *root = views_of(m, text_ids, N, "shared", NULL, NULL);
    assert_int_equal(value(first_view(root), "d_head"), 16);
    assert_int_equal(value(first_view(root), "d_value"), 7);
    json_decref(root);
    weft_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("explain: every number is a trace's, by bits", numbers_are_a_trace),
        TEST("explain: tokens have the tokenizer's spans, or none", tokens_have_spans),
        TEST("explain: neighbours are the nearest of all rows", neighbours_are_nearest),
        TEST("explain: positions are the table's rows", positions_are_the_table),
        TEST("explain: tables of sines rotate, others do not", sines_rotate),
        TEST("explain: every pair rotates as the view says", rotations_turn),
        TEST("explain: llama3's branches follow wavelengths", branches_follow_wavelengths),
        TEST("explain: norms and sums are those of a trace", norms_and_sums),
        TEST("explain: lengths of neurons are of their columns", neurons_have_columns),
        TEST("explain: gates, shares and outputs add up", feed_forward_adds_up),
        TEST("explain: products by hand are the trace's numbers", products_are_by_hand),
        TEST("explain: a token that is appended leaves the cached rows", cached_rows_stay),
        TEST("explain: keys and values of latents have widths of their own", widths_of_latents),
        TEST("explain: numbers of a page are those of its JSON", page_numbers_are_the_same),
    };
    return RUN(tests);
}
