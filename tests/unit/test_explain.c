/* The page of a model and a text: every number of every view is the number of a trace, bit by bit;
 * what a view derives from them is derived again here; and its identities fail on planted
 * defects. */
#include "support.h"
#include "weft.h"

#include <jansson.h>
#include <math.h>

enum { N = 9, MAX_SEEN = 4096 };

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

typedef struct kept {
    char name[96];
    int64_t rows, cols;
    float *data;
} kept;

typedef struct traced {
    kept at[MAX_SEEN];
    int n;
} traced;

static void keep(void *ud, const weft_trace_tensor *t)
{
    traced *to = ud;
    assert_true(to->n < MAX_SEEN);
    kept *k = &to->at[to->n++];
    snprintf(k->name, sizeof k->name, "%s", t->name);
    k->rows = t->rows;
    k->cols = t->cols;
    k->data = calloc((size_t)(t->rows * t->cols) + 1, sizeof *k->data);
    for (int64_t i = 0; i < t->rows; i++)
        memcpy(k->data + i * t->cols, t->data + i * t->stride, (size_t)t->cols * sizeof *k->data);
}

static void forget(traced *t)
{
    for (int i = 0; i < t->n; i++)
        free(t->at[i].data);
    t->n = 0;
}

static const kept *find(const traced *t, const char *name)
{
    for (int i = t->n; i-- > 0;)
        if (strcmp(t->at[i].name, name) == 0)
            return &t->at[i];
    return NULL;
}

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

typedef struct text {
    char *at;
    size_t n;
} text;

static bool take_text(void *ud, const char *bytes, size_t n, weft_error *err)
{
    text *to = ud;
    (void)err;
    to->at = malloc(n + 1);
    memcpy(to->at, bytes, n);
    to->at[n] = '\0';
    to->n = n;
    return true;
}

static text explain(weft_model *m, const weft_explain_options *from)
{
    weft_error err = { 0 };
    text t = { 0 };
    if (weft_explain(m, text_ids, N, from, take_text, &t, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    return t;
}

static json_t *explain_json(weft_model *m, const weft_explain_options *from)
{
    json_error_t why;
    const text t = explain(m, from);
    json_t *root = json_loadb(t.at, t.n, JSON_REJECT_DUPLICATES, &why);
    if (!root)
        fail_msg("%s, line %d, byte %d", why.text, why.line, why.position);
    free(t.at);
    return root;
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

static void compare_tensor(const json_t *t, const traced *seen, const char *model)
{
    const char *name = json_string_value(json_object_get(t, "name"));
    const json_t *data = json_object_get(t, "data");
    const int64_t first = json_integer_value(json_object_get(t, "first"));
    const kept *k = find(seen, name);
    if (!k)
        fail_msg("%s: a trace has no %s", model, name);
    assert_int_equal(json_integer_value(json_object_get(t, "rows")), k->rows);
    assert_int_equal(json_integer_value(json_object_get(t, "cols")), k->cols);
    const int64_t end = first + (int64_t)json_array_size(data);
    assert_true(end > first && end <= k->rows);
    for (int64_t i = first; i < end; i++) {
        const json_t *row = json_array_get(data, (size_t)(i - first));
        const int64_t n = (int64_t)json_array_size(row);
        for (int64_t c = 0; c < k->cols; c++) {
            const float want = k->data[i * k->cols + c];
            const json_t *x = json_array_get(row, (size_t)c);
            const float got = c >= n            ? 0
                              : json_is_null(x) ? -INFINITY
                                                : (float)json_number_value(x);
            if (c >= n ? want != 0 && want != -INFINITY : memcmp(&got, &want, sizeof got) != 0)
                fail_msg("%s: %s [%lld, %lld] is %.9g, in a trace %.9g", model, name, (long long)i,
                         (long long)c, (double)got, (double)want);
        }
    }
}

/* Compares every tensor below a value; returns their number. */
static int compare_below(const json_t *at, const traced *seen, const char *model)
{
    int n = 0;
    const char *key;
    const json_t *value;
    size_t i;
    if (json_is_object(at) && json_object_get(at, "data") && json_object_get(at, "cols")) {
        compare_tensor(at, seen, model);
        return 1;
    }
    if (json_is_object(at))
        json_object_foreach((json_t *)at, key, value) n += compare_below(value, seen, model);
    json_array_foreach(at, i, value) n += compare_below(value, seen, model);
    return n;
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
        json_t *root = explain_json(
            m, &(weft_explain_options){ .struct_size = sizeof(weft_explain_options),
                                        .token = -1,
                                        .json = true,
                                        .all = true });
        const int n = compare_below(root, &seen, shown[i].path);
        assert_that(n > 20, "%s: only %d tensors", shown[i].path, n);
        json_decref(root);
        forget(&seen);
        weft_model_close(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("explain: every number is a trace's, by bits", numbers_are_a_trace),
    };
    return RUN(tests);
}
