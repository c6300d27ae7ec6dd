/* Samplers with equal scores, and at the start of the history window. */
#include "small_model.h"

#include "engine/logprob.h"
#include "engine/sampler.h"

enum { V = 9 };

static mem budget;

static sampler *make(weft_sampler_options o)
{
    weft_error err = { 0 };
    sampler *s = sampler_new(&budget, V, &o, &err);
    if (!s)
        fail_msg("%s", err.message);
    return s;
}

static weft_status pick(sampler *s, const float *z, const int32_t *ids, int64_t n, int32_t *id)
{
    weft_error err = { 0 };
    return sampler_pick(s, z, ids, n, id, &err);
}

/* ---- ties ------------------------------------------------------------------------------------ */

static const float tied[V] = { 0, 1, 3, 2, 3, 3, 2, -0.0f, 0 };

static void greedy_takes_the_first(void **state)
{
    (void)state;
    int32_t id = -1;
    sampler *s = make((weft_sampler_options){ .temperature = 0 });
    assert_int_equal(pick(s, tied, NULL, 0, &id), WEFT_OK);
    assert_int_equal(id, 2);
    sampler_free(s);
}

/* Without a sampler too. */
static void sessions_take_the_first(void **state)
{
    (void)state;
    fixture_model f;
    open_typed(&f, &dtype_f32);
    engine *e = make_engine(&f, (engine_options){ .n_thread = 1 });
    session *s = make_session(e);
    must_feed(s, (int32_t[]){ 1 }, 1);
    for (int64_t i = 0; i < f.model.n_vocab; i++)
        s->logits[i] = i < V ? tied[i] : 0;
    assert_int_equal(session_greedy(s), 2);
    session_free(s);
    engine_free(e);
    close_llama(&f);
}

/* -0 is 0. */
static const int32_t in_order[V] = { 2, 4, 5, 3, 6, 1, 0, 7, 8 };

/* The remaining tokens, best first. */
static int64_t left_by(weft_sampler_options o, const float *z, weft_token_prob *kept)
{
    int32_t id = -1;
    o.temperature = 1;
    sampler *s = make(o);
    assert_int_equal(pick(s, z, NULL, 0, &id), WEFT_OK);
    const int64_t n = sampler_kept(s, V, kept);
    sampler_free(s);
    return n;
}

/* All tokens equal to the last one stay, as in transformers. */
static void top_k_keeps_equals(void **state)
{
    (void)state;
    static const int left[V + 1] = { 0, 3, 3, 3, 5, 5, 6, 9, 9, 9 };
    for (int k = 1; k <= V; k++) {
        weft_token_prob kept[V];
        assert_int_equal(left_by((weft_sampler_options){ .top_k = k }, tied, kept), left[k]);
        for (int i = 0; i < left[k]; i++)
            assert_int_equal(kept[i].id, in_order[i]);
    }
}

/* A cut between equals leaves the lower ids. */
static void top_p_keeps_the_first(void **state)
{
    (void)state;
    static const float flat[V] = { 0 };
    for (int k = 1; k < V; k++) {
        weft_token_prob kept[V];
        assert_int_equal(left_by((weft_sampler_options){ .top_p = (k - 0.5) / V }, flat, kept), k);
        for (int i = 0; i < k; i++)
            assert_int_equal(kept[i].id, i);
    }
}

static void logprobs_begin_with_the_first(void **state)
{
    (void)state;
    weft_logprob best[V];
    assert_int_equal(logprob_top(tied, V, V, best), V);
    for (int i = 0; i < V; i++)
        assert_int_equal(best[i].id, in_order[i]);
}

/* ---- the window ------------------------------------------------------------------------------ */

/* Penalties look at the last three tokens: those must be in the vocabulary, earlier ones may be
 * anything. */
static void history_is_checked_in_the_window(void **state)
{
    (void)state;
    enum { N = 8, WINDOW = 3 };
    sampler *s = make((weft_sampler_options){ .frequency = 0.5, .penalty_last_n = WINDOW });
    for (int bad = 0; bad < N; bad++) {
        int32_t ids[N] = { 0 }, id = -1;
        ids[bad] = bad % 2 ? -1 : V;
        assert_int_equal(pick(s, tied, ids, N, &id), bad < N - WINDOW ? WEFT_OK : WEFT_EINVAL);
    }
    sampler_free(s);
}

int main(void)
{
    mem_init(&budget, 0, NULL);
    const struct CMUnitTest tests[] = {
        TEST("sampler: greedy takes the lowest id among the best", greedy_takes_the_first),
        TEST("session: greedy takes the lowest id among the best", sessions_take_the_first),
        TEST("logprobs: among equal scores the lower ids come first",
             logprobs_begin_with_the_first),
        TEST("sampler: top_k keeps all that equal the last one", top_k_keeps_equals),
        TEST("sampler: top_p keeps the lower ids of equals", top_p_keeps_the_first),
        TEST("sampler: the history is checked in the window, and not before it",
             history_is_checked_in_the_window),
    };
    return RUN(tests);
}
