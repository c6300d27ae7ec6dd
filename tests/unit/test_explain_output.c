/* The output of a page: the draw, and what the forward cost. */
#include "explained.h"

enum { N = 9 };

static const int32_t text_ids[N] = { 1, 5, 7, 2, 9, 4, 3, 5, 7 };

static weft_model *open_path(const char *path)
{
    weft_error err = { 0 };
    weft_model *m = weft_model_open(fixture(path), NULL, &err);
    assert_that(m, "%s", err.message);
    return m;
}

static json_t *views_of(weft_model *m, int64_t n, const char *only)
{
    const weft_explain_options o = {
        .struct_size = sizeof o, .only = only, .token = -1, .json = true
    };
    return explain_json(m, text_ids, n, &o);
}

/* The last stage has the score and the probability of the token drawn, not of the best. */
static void draw_is_of_its_token(void **state)
{
    (void)state;
    int n_other = 0;
    weft_model *m = open_path("../models/shakespeare.gguf");
    for (int64_t n = 2; n <= N; n++) {
        json_t *root = views_of(m, n, "output");
        const json_t *v = first_view(root), *stages = part(v, "stages"), *one;
        const json_t *last = json_array_get(stages, json_array_size(stages) - 1);
        const json_t *drawn = part(last, "drawn"), *best = json_array_get(part(last, "best"), 0);
        const double t = value(v, "temperature");
        size_t i, found = 0;
        json_array_foreach(part(v, "best"), i, one) if (value(one, "id") == value(drawn, "id"))
        {
            assert_near(value(drawn, "score"), value(one, "z") / t, 1e-6);
            assert_near(log(value(best, "p") / value(drawn, "p")),
                        value(best, "score") - value(drawn, "score"), 1e-6);
            found++;
        }
        assert_int_equal(found, 1);
        n_other += value(drawn, "id") != value(best, "id");
        json_decref(root);
    }
    assert_true(n_other > 0);
    weft_model_close(m);
}

/* The formula of a page for the scores and sums of a layer is what its attention costs in the
 * pipeline; causal rows see what is before them. */
static void costs_are_the_pipelines(void **state)
{
    (void)state;
    static const struct {
        const char *path, *attention;
        bool causal;
        double cached;
    } of[] = { { "golden/gpt2", "blk.0.attention", true, 2 * 2 * 3 * 11 },
               { "golden/llama-mqa", "blk.0.attention", true, 2 * 2 * 10 },
               { "golden/deepseek-v2", "blk.0.attention.latent", true, 40 },
               { "golden/bert-fill", "blk.0.attention", false, 0 } };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        weft_model *m = open_path(of[i].path);
        json_t *root = views_of(m, N, "pipeline,cost");
        const json_t *cost = json_array_get(part(root, "views"), 1), *one;
        const double keys = of[i].causal ? N * (N + 1) / 2.0 : N * N;
        const double heads = value(part(root, "model"), "n_head");
        size_t k, found = 0;
        json_array_foreach(part(first_view(root), "ops"), k,
                           one) if (strcmp(word(one, "name"), of[i].attention) == 0)
        {
            assert_near(2 * keys * heads * (value(cost, "d_key") + value(cost, "d_value")),
                        value(one, "flops"), 0);
            found++;
        }
        assert_int_equal(found, 1);
        assert_near(value(cost, "cached"), of[i].cached, 0);
        json_decref(root);
        weft_model_close(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("explain: a draw has the numbers of the token drawn", draw_is_of_its_token),
        TEST("explain: formulas of the cost are the pipeline's", costs_are_the_pipelines),
    };
    return RUN(tests);
}
