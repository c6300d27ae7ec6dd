/* Pages of encoder-decoders, of Bahdanau's model and of pictures: their numbers are a trace's, bit by
 * bit; maps, steps and layers are those that their names say; and what a reader computes from them
 * by hand is the model's number. */
#include "explained.h"

enum { S = 7, N = 5 };

static const int32_t source_ids[S] = { 4, 5, 6, 7, 8, 5, 9 }, text_ids[N] = { 2, 9, 10, 11, 9 };

static const char *const pairs[] = { "t5",  "flan-t5",          "bart",    "marian",
                                     "m2m", "transformer-2017", "bahdanau" };
static const char *const pictures[] = { "vit", "deit" };

#define N_PAIR    ((int)(sizeof pairs / sizeof *pairs))
#define N_PICTURE ((int)(sizeof pictures / sizeof *pictures))

static weft_model *open_model(const char *name)
{
    weft_error err = { 0 };
    char path[256];
    snprintf(path, sizeof path, "golden/%s", name);
    weft_model *m = weft_model_open(fixture(path), NULL, &err);
    if (!m)
        fail_msg("%s", err.message);
    return m;
}

/* ---- traces ---------------------------------------------------------------------------------- */

static const weft_trace_options all_parts = {
    .struct_size = sizeof all_parts, .attention_maps = true, .open = true, .all_logits = true
};

static void trace_pair(weft_model *m, const int32_t *ids, int64_t n, traced *to)
{
    weft_error err = { 0 };
    const weft_engine_options o = {
        .struct_size = sizeof o, .n_ctx = 32, .n_batch = 32, .kv_type = WEFT_KV_F32
    };
    weft_engine *e = weft_engine_new(m, &o, &err);
    weft_session *s = weft_session_new(e, &err);
    assert_int_equal(weft_engine_trace_with(e, keep, to, &all_parts, &err), WEFT_OK);
    assert_int_equal(weft_session_source(s, source_ids, S, &err), WEFT_OK);
    assert_int_equal(weft_session_eval(s, ids, n, &err), WEFT_OK);
    weft_session_free(s);
    weft_engine_free(e);
}

static void trace_picture(weft_model *m, const weft_image *image, traced *to)
{
    weft_error err = { 0 };
    const weft_trace_options some = { .struct_size = sizeof some,
                                      .attention_maps = true,
                                      .open = true };
    const weft_encoder_options o = { .struct_size = sizeof o };
    float out[8] = { 0 };
    weft_input in = { .features = image->features, .n = image->n, .out = out };
    weft_encoder *e = weft_encoder_new(m, &o, &err);
    assert_int_equal(weft_encoder_rows(e, &in) * weft_encoder_width(e), 3);
    assert_int_equal(weft_encoder_trace_with(e, keep, to, &some, &err), WEFT_OK);
    assert_int_equal(weft_encoder_eval(e, &in, 1, &err), WEFT_OK);
    weft_encoder_free(e);
}

/* ---- pages ----------------------------------------------------------------------------------- */

static json_t *page_of(weft_model *m, const int32_t *ids, int64_t n, const weft_image *image,
                       const char *only)
{
    const weft_explain_options o = { .struct_size = sizeof o,
                                     .only = only,
                                     .token = -1,
                                     .json = true,
                                     .all = true,
                                     .source = image ? NULL : source_ids,
                                     .n_source = image ? 0 : S,
                                     .image = image };
    return explain_json(m, ids, n, &o);
}

static weft_image *open_picture(weft_model *m)
{
    weft_error err = { 0 };
    weft_image *image = weft_image_open(m, fixture("golden/images/photo.png"), &err);
    if (!image)
        fail_msg("%s", err.message);
    return image;
}

static void numbers_are_a_trace(void **state)
{
    (void)state;
    static traced seen;
    for (int i = 0; i < N_PAIR; i++) {
        weft_model *m = open_model(pairs[i]);
        trace_pair(m, text_ids, N, &seen);
        json_t *root = page_of(m, text_ids, N, NULL, NULL);
        const int n = compare_below(root, &seen, pairs[i]);
        assert_that(n > 15, "%s: only %d tensors", pairs[i], n);
        json_decref(root);
        forget(&seen);
        weft_model_close(m);
    }
    for (int i = 0; i < N_PICTURE; i++) {
        weft_model *m = open_model(pictures[i]);
        weft_image *image = open_picture(m);
        trace_picture(m, image, &seen);
        json_t *root = page_of(m, NULL, 0, image, NULL);
        const int n = compare_below(root, &seen, pictures[i]);
        assert_that(n > 30, "%s: only %d tensors", pictures[i], n);
        json_decref(root);
        forget(&seen);
        weft_image_free(image);
        weft_model_close(m);
    }
}

/* ---- layers, maps, steps --------------------------------------------------------------------- */

/* What a tensor of a layer of the page is called. */
static void name_in_layer(const json_t *root, int64_t layer, const char *rest, char *to,
                          size_t size)
{
    const json_t *l = json_array_get(part(root, "layers"), (size_t)layer);
    const char *stack = word(l, "stack");
    const bool encoder = strcmp(stack, "encoder") == 0, cross = strcmp(stack, "cross") == 0;
    snprintf(to, size, "%s.blk.%d.%s%s", encoder ? "enc" : "dec", (int)value(l, "number"),
             cross ? "cross_" : "", rest);
}

/* The name of a tensor ends as it should: "dec.blk.0.cross_attn_q", "dec.blk.0.cross_attn_q.rope". */
static void check_name(const json_t *root, const json_t *of, const char *key, const char *rest)
{
    char want[96];
    name_in_layer(root, (int64_t)value(of, "layer"), rest, want, sizeof want);
    const char *got = word(part(of, key), "name");
    assert_that(strcmp(got, want) == 0, "%s is %s, expected %s", key, got, want);
}

/* Rows of a map are the tokens of its own stack, columns those that it looks at. */
static void check_shape(const json_t *root, const json_t *map)
{
    const json_t *l = json_array_get(part(root, "layers"), (size_t)value(map, "layer"));
    const char *stack = word(l, "stack");
    const bool encoder = strcmp(stack, "encoder") == 0, decoder = strcmp(stack, "decoder") == 0;
    assert_true(value(part(map, "probs"), "cols") == (decoder ? N : S));
    assert_true(value(part(map, "probs"), "rows") == value(map, "n_head") * (encoder ? S : N));
    assert_true(value(l, "n_head") == value(map, "n_head"));
}

static void layers_are_named(void **state)
{
    (void)state;
    for (int i = 0; i < N_PAIR - 1; i++) {
        weft_model *m = open_model(pairs[i]);
        weft_model_info info = { .struct_size = sizeof info };
        weft_model_get_info(m, &info);
        json_t *root = page_of(m, text_ids, N, NULL, "encoder-decoder,query,feed_forward,cache");
        const json_t *all = part(root, "views"), *of;
        const size_t n_map = (size_t)(info.n_layer_src + 2 * info.n_layer);
        size_t k;
        assert_int_equal(json_array_size(part(root, "layers")), n_map);
        assert_int_equal(json_array_size(part(root, "source")), S);
        assert_int_equal(json_array_size(part(json_array_get(all, 3), "maps")), n_map);
        json_array_foreach(part(json_array_get(all, 3), "maps"), k, of)
        {
            check_name(root, of, "probs", "attention.probs");
            check_shape(root, of);
        }
        assert_int_equal(json_array_size(part(json_array_get(all, 0), "layers")), n_map);
        json_array_foreach(part(json_array_get(all, 0), "layers"), k, of)
        {
            check_name(root, of, "q", "attn_q");
            check_name(root, of, "k", "attn_k");
            check_name(root, of, "v", "attn_v");
            check_name(root, of, "out", "attn_o");
            check_name(root, of, "pooled", "attention");
        }
        json_array_foreach(part(json_array_get(all, 1), "layers"), k, of)
            check_name(root, of, "down", "ffn_down");
        assert_int_equal(k, info.n_layer_src + info.n_layer);
        json_array_foreach(part(json_array_get(all, 2), "layers"), k, of)
            check_name(root, of, "k", "attn_k");
        assert_int_equal(k, info.n_layer);
        json_decref(root);
        weft_model_close(m);
    }
}

/* The best of a row have its logits, in their order, and its softmax. */
static void check_best(const json_t *best, const kept *z, int64_t row)
{
    const float *x = z->data + row * z->cols;
    double sum = 0, last = INFINITY;
    const json_t *one;
    size_t k;
    for (int64_t c = 0; c < z->cols; c++)
        sum += exp((double)x[c]);
    json_array_foreach(best, k, one)
    {
        const double logit = value(one, "z");
        assert_true(logit == (double)x[(int)value(one, "id")] && logit <= last);
        assert_near(value(one, "p"), exp(logit) / sum, 1e-6);
        last = logit;
    }
    int64_t above = 0;
    for (int64_t c = 0; c < z->cols; c++)
        above += (double)x[c] > last;
    assert_int_equal(above, (int64_t)k - 1);
}

static void steps_are_rows(void **state)
{
    (void)state;
    static traced seen;
    for (int i = 0; i < N_PAIR; i++) {
        weft_model *m = open_model(pairs[i]);
        json_t *root = page_of(m, text_ids, N, NULL, "encoder-decoder");
        const json_t *steps = part(first_view(root), "steps");
        trace_pair(m, text_ids, N, &seen);
        const kept *z = find(&seen, "output");
        assert_int_equal(json_array_size(steps), N);
        for (int64_t t = 0; t < N; t++)
            check_best(part(json_array_get(steps, (size_t)t), "best"), z, t);
        json_decref(root);
        forget(&seen);
        weft_model_close(m);
    }
}

/* Without ids, a page shows the text of weft_beam_search with one beam. */
static void translates_greedily(void **state)
{
    (void)state;
    for (int i = 0; i < N_PAIR; i++) {
        weft_error err = { 0 };
        weft_model *m = open_model(pairs[i]);
        weft_model_info info = { .struct_size = sizeof info };
        weft_model_get_info(m, &info);
        const weft_engine_options o = { .struct_size = sizeof o, .kv_type = WEFT_KV_F32 };
        weft_engine *e = weft_engine_new(m, &o, &err);
        weft_session *s = weft_session_new(e, &err);
        assert_int_equal(weft_session_source(s, source_ids, S, &err), WEFT_OK);
        json_t *root = page_of(m, NULL, 0, NULL, "encoder-decoder");
        const json_t *tokens = part(root, "tokens");
        const size_t n = json_array_size(tokens);
        int32_t id = info.start_id;
        assert_true(n > 1);
        for (size_t t = 0; t < n; t++) {
            assert_int_equal((int32_t)value(json_array_get(tokens, t), "id"), id);
            assert_int_equal(weft_session_eval(s, &id, 1, &err), WEFT_OK);
            id = weft_session_greedy(s);
        }
        json_decref(root);
        weft_session_free(s);
        weft_engine_free(e);
        weft_model_close(m);
    }
}

/* Every score of a layer is q . k, scaled, plus the number that the view has for the distance. */
static void check_relative(const json_t *r, const json_t *l)
{
    const int64_t H = (int64_t)value(l, "n_head"), E = (int64_t)value(l, "d_key");
    const json_t *q = part(l, "q"), *k = part(l, "k"), *scores = part(l, "scores");
    const json_t *b = part(r, "numbers");
    const int64_t first = (int64_t)value(r, "first"), T = (int64_t)value(q, "rows");
    assert_true(json_is_true(part(l, "biased")));
    assert_int_equal(json_is_true(part(r, "two_sided")), !json_is_true(part(l, "causal")));
    for (int64_t i = 0; i < T; i++)
        for (int64_t h = 0; h < H; h++) {
            const json_t *row = row_of(scores, i * H + h);
            for (int64_t j = 0; j < (int64_t)json_array_size(row); j++) {
                double dot = 0;
                for (int64_t e = h * E; e < (h + 1) * E; e++)
                    dot += number(row_of(q, i), e) * number(row_of(k, j), e);
                assert_near(number(row, j),
                            value(l, "scale") * dot + number(b, (j - i - first) * H + h), 1e-5);
            }
        }
}

/* Positions are rows of a table, learned or made of sines, or a number by distance, or none. */
static void positions_have_a_reason(void **state)
{
    (void)state;
    for (int i = 0; i < N_PAIR; i++) {
        weft_model *m = open_model(pairs[i]);
        json_t *root = page_of(m, text_ids, N, NULL, "positions,query");
        const json_t *v = first_view(root), *why = json_object_get(v, "why_not");
        const bool relative = strstr(pairs[i], "t5"), none = strcmp(pairs[i], "bahdanau") == 0;
        assert_int_equal(why != NULL, none);
        assert_int_equal(json_object_get(v, "relative") != NULL, relative);
        if (why) {
            assert_non_null(strstr(json_string_value(why), "adds no table"));
        } else if (relative) {
            const json_t *l = part(json_array_get(part(root, "views"), 1), "layers");
            check_relative(part(part(v, "source"), "relative"), json_array_get(l, 0));
            check_relative(part(v, "relative"), json_array_get(l, 2));
        } else {
            const bool sines = number(part(part(v, "sines"), "residual"), 0) < 1e-3;
            assert_int_equal(sines, strcmp(pairs[i], "bart") != 0);
            assert_string_equal(word(part(v, "text"), "name"), "dec.position_embd");
            assert_string_equal(word(part(part(v, "source"), "text"), "name"), "enc.position_embd");
        }
        json_decref(root);
        weft_model_close(m);
    }
}

/* ---- Bahdanau's decoder ---------------------------------------------------------------------- */

static double at(const json_t *of, int64_t i, int64_t k)
{
    return number(row_of(of, i), k);
}

static void check_step(const json_t *v, int64_t t, int64_t D, int64_t A)
{
    const json_t *h = part(v, "memory"), *s = part(v, "states"), *g = part(v, "gates");
    const json_t *score = part(v, "score"), *query = part(v, "query"), *p = part(v, "probs");
    for (int64_t j = 0; j < S; j++) {
        double e = 0;
        for (int64_t a = 0; a < A; a++) {
            double q = 0;
            for (int64_t d = 0; d < D; d++)
                q += number(query, a * D + d) * (t > 0 ? at(s, t - 1, d) : at(h, S - 1, d));
            e += number(score, a) * tanh(q + at(part(v, "keys"), j, a));
        }
        assert_near(at(part(v, "scores"), t, j), e, 1e-5);
    }
    for (int64_t d = 0; d < D; d++) {
        const double z = at(g, t, D + d), n = at(g, t, 2 * D + d);
        const double before = t > 0 ? at(s, t - 1, d) : at(h, S - 1, d);
        double c = 0;
        for (int64_t j = 0; j < S; j++)
            c += at(p, t, j) * at(h, j, d);
        assert_near(at(part(v, "context"), t, d), c, 1e-5);
        assert_near(at(s, t, d), (1 - z) * n + z * before, 1e-5);
    }
}

static void alignment_is_by_hand(void **state)
{
    (void)state;
    weft_model *m = open_model("bahdanau");
    json_t *root = page_of(m, text_ids, N, NULL, "alignment");
    const json_t *v = first_view(root);
    const int64_t D = (int64_t)value(part(v, "memory"), "cols");
    const int64_t A = (int64_t)value(part(v, "keys"), "cols");
    assert_int_equal(json_array_size(part(v, "query")), A * D);
    for (int64_t t = 0; t < N; t++)
        check_step(v, t, D, A);
    json_decref(root);
    weft_model_close(m);
}

/* ---- pictures -------------------------------------------------------------------------------- */

static void pictures_are_patches(void **state)
{
    (void)state;
    static traced seen;
    for (int i = 0; i < N_PICTURE; i++) {
        weft_model *m = open_model(pictures[i]);
        weft_image *image = open_picture(m);
        json_t *root = page_of(m, NULL, 0, image, "picture");
        const json_t *v = first_view(root), *w = part(v, "project"), *x = part(v, "features");
        const int64_t n = image->n, lead = (int64_t)value(v, "n_lead"),
                      P = (int64_t)value(v, "patch");
        const int64_t across = (int64_t)value(v, "width") / P;
        assert_int_equal(lead + across * ((int64_t)value(v, "height") / P), n);
        assert_string_equal(word(json_array_get(part(root, "tokens"), 0), "text"), "[CLS]");
        for (int64_t row = lead; row < n; row++) {
            double y = number(part(w, "b"), 0);
            char name[32];
            snprintf(name, sizeof name, "%d,%d", (int)((row - lead) / across),
                     (int)((row - lead) % across));
            assert_string_equal(word(json_array_get(part(root, "tokens"), (size_t)row), "text"),
                                name);
            for (int64_t k = 0; k < (int64_t)value(x, "cols"); k++) {
                y += number(part(w, "w"), k) * at(x, row, k);
                assert_true((float)at(x, row, k) ==
                            image->features[row * (int64_t)value(x, "cols") + k]);
            }
            assert_near(at(part(v, "patches"), row, 0), y, 1e-5);
        }
        trace_picture(m, image, &seen);
        const kept *z = find(&seen, "cls.output");
        check_best(part(v, "classes"), z, 0);
        assert_string_equal(
            word(json_array_get(part(v, "classes"), 0), "text"),
            weft_model_label(m, (int)value(json_array_get(part(v, "classes"), 0), "id")));
        forget(&seen);
        json_decref(root);
        weft_image_free(image);
        weft_model_close(m);
    }
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void refuse(const char *model, const weft_explain_options *from, const int32_t *ids,
                   int64_t n, const char *says)
{
    weft_error err = { 0 };
    weft_explain_options o = *from;
    text t = { 0 };
    weft_model *m = open_model(model);
    o.struct_size = sizeof o;
    assert_int_equal(weft_explain(m, ids, n, &o, take_text, &t, &err), WEFT_EINVAL);
    assert_that(strstr(err.message, says), "%s: %s", model, err.message);
    assert_null(t.at);
    weft_model_close(m);
}

static void wrong_inputs_are_refused(void **state)
{
    (void)state;
    static const float nothing[4];
    const weft_image small = { .n = 1, .features = nothing }, none = { .n = 16 };
    refuse("t5", &(weft_explain_options){ 0 }, text_ids, N, "0 tokens of the source");
    refuse("gpt2", &(weft_explain_options){ .source = source_ids, .n_source = S }, text_ids, N,
           "no encoder-decoder");
    refuse("gpt2", &(weft_explain_options){ .image = &small }, NULL, 0, "not images");
    refuse("gpt2", &(weft_explain_options){ 0 }, NULL, 0, "0 tokens; expected 1");
    refuse("vit", &(weft_explain_options){ 0 }, text_ids, N, "reads images");
    refuse("vit", &(weft_explain_options){ .image = &small }, NULL, 0, "1 rows; expected 16");
    refuse("vit", &(weft_explain_options){ .image = &none }, NULL, 0, "0 rows; expected 16");
    refuse("vit", &(weft_explain_options){ .source = source_ids, .n_source = S }, NULL, 0,
           "there is none");
    refuse("t5", &(weft_explain_options){ .source = source_ids, .n_source = S, .layer = 2 },
           text_ids, N, "layer 2");
    refuse("t5", &(weft_explain_options){ .source = source_ids, .n_source = 1025 }, text_ids, N,
           "1025 tokens of the source");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("explain: numbers of two stacks and of pictures are a trace's", numbers_are_a_trace),
        TEST("explain: every map is of its layer, in its stack", layers_are_named),
        TEST("explain: every step of a decoder is its row", steps_are_rows),
        TEST("explain: without a target, the page has the greedy text", translates_greedily),
        TEST("explain: positions are a table, or it says why not", positions_have_a_reason),
        TEST("explain: Bahdanau's decoder can be computed by hand", alignment_is_by_hand),
        TEST("explain: a picture is its patches, and its classes", pictures_are_patches),
        TEST("explain: input that the model does not read is refused", wrong_inputs_are_refused),
    };
    return RUN(tests);
}
