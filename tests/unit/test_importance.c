/* The importance of columns: the mean squares of what a matrix is multiplied with, on average 1. */
#include "small_model.h"
#include "support.h"

#include "engine/importance.h"

#include <math.h>

enum { N = 90 };

static void open_small(fixture_model *f)
{
    llama_shape shape = small_shape;
    shape.type = &dtype_f32;
    open_llama(f, shape);
}

static void collect(importance *i, const fixture_model *f, int n_thread)
{
    int32_t ids[N];
    weft_error err = { 0 };
    const engine_options o = { .n_thread = n_thread, .n_ctx = 32 };
    story(ids, N, 3);
    assert_int_equal(importance_collect(i, &f->model, ids, N, &o, &err), WEFT_OK);
}

static const float *of(const importance *i, const char *name)
{
    for (int64_t p = 0; p < i->model->n_param; p++)
        if (strcmp(i->model->param[p]->name, name) == 0)
            return i->of[p];
    fail_msg("no parameter %s", name);
    return NULL;
}

static int64_t n_col(const importance *i, const char *name)
{
    for (int64_t p = 0; p < i->model->n_param; p++)
        if (strcmp(i->model->param[p]->name, name) == 0)
            return cols(i->model->param[p]);
    return 0;
}

static bool same(const importance *i, const char *a, const char *b)
{
    assert_non_null(of(i, a));
    assert_non_null(of(i, b));
    assert_int_equal(n_col(i, a), n_col(i, b));
    return memcmp(of(i, a), of(i, b), (size_t)n_col(i, a) * sizeof(float)) == 0;
}

/* Matrices of one input are alike, those of others are not; a norm has none. */
static void by_input(void **state)
{
    (void)state;
    fixture_model f;
    importance i;
    open_small(&f);
    collect(&i, &f, 2);
    assert_true(same(&i, "blk.0.attn_q.weight", "blk.0.attn_k.weight"));
    assert_true(same(&i, "blk.1.attn_k.weight", "blk.1.attn_v.weight"));
    assert_true(same(&i, "blk.0.ffn_gate.weight", "blk.0.ffn_up.weight"));
    assert_false(same(&i, "blk.0.attn_q.weight", "blk.1.attn_q.weight"));
    assert_false(same(&i, "blk.0.attn_q.weight", "blk.0.ffn_up.weight"));
    assert_null(of(&i, "blk.0.attn_norm.weight"));
    assert_int_equal(i.n_known, 2 * 7 + 1); /* seven matrices a layer, and the head */
    for (int64_t p = 0; p < i.model->n_param; p++) {
        const int64_t n = i.of[p] ? cols(i.model->param[p]) : 0;
        double sum = 0;
        for (int64_t k = 0; k < n; k++) {
            assert_true(i.of[p][k] >= 0.01f);
            sum += (double)i.of[p][k];
        }
        assert_true(!n || fabs(sum / (double)n - 1) < 0.01);
    }
    importance_free(&i);
    close_llama(&f);
}

/* What the definition says, from a trace of the same text. */
typedef struct squares {
    double sum[512];
    int64_t rows;
} squares;

static void add_row_squares(void *ud, const tensor *t, const op *by)
{
    squares *s = ud;
    (void)by;
    if (strcmp(t->name, "blk.0.attn_norm") != 0)
        return;
    for (int64_t r = 0; r < rows(t); r++, s->rows++)
        for (int64_t k = 0; k < cols(t); k++)
            s->sum[k] += (double)row(t, r)[k] * (double)row(t, r)[k];
}

static void by_definition(void **state)
{
    (void)state;
    fixture_model f;
    importance i;
    weft_error err = { 0 };
    int32_t ids[N];
    squares s = { 0 };
    open_small(&f);
    collect(&i, &f, 1);
    engine *e = make_engine(&f, (engine_options){ .n_thread = 1, .n_ctx = 32 });
    assert_int_equal(
        engine_trace(e, &(trace_spec){ .trace = add_row_squares, .trace_ud = &s }, &err), WEFT_OK);
    story(ids, N, 3);
    for (int at = 0; at < N - 1; at += 32) { /* the last token is only predicted */
        session *of_window = make_session(e);
        must_feed(of_window, ids + at, N - 1 - at < 32 ? N - 1 - at : 32);
        session_free(of_window);
    }
    const float *got = of(&i, "blk.0.attn_q.weight");
    const int64_t n = n_col(&i, "blk.0.attn_q.weight");
    double all = 0;
    for (int64_t k = 0; k < n; k++)
        all += s.sum[k];
    assert_int_equal(s.rows, N - 1);
    for (int64_t k = 0; k < n; k++)
        assert_true(fabs((double)got[k] - fmax(s.sum[k] * (double)n / all, 0.01)) <
                    1e-4 * (double)got[k]);
    engine_free(e);
    importance_free(&i);
    close_llama(&f);
}

static void same_on_any_threads(void **state)
{
    (void)state;
    fixture_model f;
    importance one, two;
    open_small(&f);
    collect(&one, &f, 1);
    collect(&two, &f, 2);
    for (int64_t p = 0; p < f.model.n_param; p++) {
        assert_int_equal(!one.of[p], !two.of[p]);
        if (one.of[p])
            assert_memory_equal(one.of[p], two.of[p],
                                (size_t)cols(f.model.param[p]) * sizeof(float));
    }
    importance_free(&one);
    importance_free(&two);
    close_llama(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("importance: matrices with one input are alike, others differ", by_input),
        TEST("importance: mean squares, as a trace of the same text gives them", by_definition),
        TEST("importance: the same bits on one and two threads", same_on_any_threads),
    };
    return RUN(tests);
}
