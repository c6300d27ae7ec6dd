/* weft_generate: the text is what a loop over the public functions gives, however it ends. */
#include "base/utf8.h"
#include "support.h"
#include "weft.h"

#include <math.h>

static const char start[] = "ROMEO:";

typedef struct rig {
    weft_model *model;
    weft_tokenizer *tokenizer;
    weft_engine *engine;
    weft_session *session;
    weft_tokens *prompt;
} rig;

static rig open_rig(int64_t n_ctx)
{
    rig r;
    weft_error err;
    const weft_engine_options o = { .struct_size = sizeof o, .threads = 1, .n_ctx = n_ctx };
    const char *path = fixture("../models/shakespeare.gguf");
    r.model = weft_model_open(path, NULL, &err);
    r.tokenizer = weft_tokenizer_load(path, NULL, &err);
    assert_non_null(r.model);
    assert_non_null(r.tokenizer);
    r.engine = weft_engine_new(r.model, &o, &err);
    r.session = weft_session_new(r.engine, &err);
    r.prompt = weft_tokenizer_encode(r.tokenizer, start, strlen(start), NULL, &err);
    assert_non_null(r.session);
    assert_non_null(r.prompt);
    return r;
}

static void close_rig(rig *r)
{
    weft_tokens_free(r->prompt);
    weft_session_free(r->session);
    weft_engine_free(r->engine);
    weft_tokenizer_free(r->tokenizer);
    weft_model_close(r->model);
}

/* ---- what a callback sees -------------------------------------------------------------------- */

typedef struct heard {
    char text[4096];
    size_t n;
    int32_t ids[512];
    int64_t n_id, most; /* stops after so many; 0: never */
    int64_t n_slide;
    double logprob; /* sum */
    weft_session *cancel;
    bool split; /* text that ends inside a code point */
    int n_last; /* calls without a token */
} heard;

static bool hear(void *ud, const weft_generated *token)
{
    heard *h = ud;
    assert_true(h->n + token->length < sizeof h->text);
    memcpy(h->text + h->n, token->text, token->length);
    h->n += token->length;
    h->text[h->n] = '\0';
    h->n_slide = token->n_slide;
    h->split |= token->id >= 0 && utf8_unfinished(token->text, token->length) > 0;
    if (token->id < 0) {
        h->n_last++;
        return true;
    }
    assert_true(h->n_id < 512);
    h->ids[h->n_id++] = token->id;
    if (token->logprobs) {
        assert_int_equal(token->logprobs[0].id, token->id);
        h->logprob += token->logprobs[0].logprob;
    }
    if (h->cancel && h->n_id == 3)
        weft_session_cancel(h->cancel);
    return h->most == 0 || h->n_id < h->most;
}

static weft_generate_options options_of(const rig *r)
{
    return (weft_generate_options){ .struct_size = sizeof(weft_generate_options),
                                    .prompt = r->prompt->ids,
                                    .n_prompt = r->prompt->n,
                                    .n_new = 40 };
}

static weft_generation must_generate(const rig *r, weft_sampler *sampler,
                                     const weft_generate_options *o, heard *h)
{
    weft_generation info = { .struct_size = sizeof info };
    weft_error err;
    if (weft_generate(r->session, sampler, r->tokenizer, o, hear, h, &info, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    return info;
}

/* The same, by hand. */
static void by_hand(const rig *r, weft_sampler *sampler, int64_t n, heard *h)
{
    weft_error err;
    weft_session *s = weft_session_new(r->engine, &err);
    assert_int_equal(weft_session_eval(s, r->prompt->ids, r->prompt->n, &err), WEFT_OK);
    while (h->n_id < n) {
        int32_t id = weft_session_greedy(s);
        weft_logprob l;
        if (sampler)
            assert_int_equal(weft_sampler_next(sampler, s, &id, &err), WEFT_OK);
        l.id = id;
        assert_int_equal(weft_session_logprobs(s, &l, 1, &err), WEFT_OK);
        h->logprob += l.logprob;
        const int64_t length = weft_tokenizer_piece(r->tokenizer, id, h->text + h->n,
                                                    sizeof h->text - h->n);
        h->n += (size_t)(length > 0 ? length : 0);
        h->text[h->n] = '\0';
        h->ids[h->n_id++] = id;
        assert_int_equal(weft_session_eval(s, &id, 1, &err), WEFT_OK);
    }
    weft_session_free(s);
}

static void assert_same(const heard *a, const heard *b)
{
    assert_int_equal(a->n_id, b->n_id);
    assert_memory_equal(a->ids, b->ids, (size_t)a->n_id * sizeof *a->ids);
    assert_string_equal(a->text, b->text);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void as_by_hand(void **state)
{
    (void)state;
    rig r = open_rig(0);
    weft_error err;
    weft_sampler_options warm = { .struct_size = sizeof warm, .temperature = 0.9, .seed = 7 };
    weft_sampler *sampler = weft_sampler_new(r.model, &warm, &err);
    weft_generate_options o = options_of(&r);
    for (int way = 0; way < 2; way++) {
        heard h = { 0 }, want = { 0 };
        o.n_top = 3;
        const weft_generation info = must_generate(&r, way ? sampler : NULL, &o, &h);
        by_hand(&r, way ? sampler : NULL, 40, &want);
        assert_same(&h, &want);
        assert_true(h.logprob == want.logprob);
        assert_int_equal(info.finish, WEFT_FINISH_LENGTH);
        assert_int_equal(info.n_new, 40);
        assert_int_equal(info.n_prompt, r.prompt->n);
        assert_int_equal(info.stop, -1);
        assert_int_equal(info.end_id, -1);
        /* the last token is not evaluated */
        assert_int_equal(weft_session_length(r.session), r.prompt->n + 39);
    }
    weft_sampler_free(sampler);
    close_rig(&r);
}

/* Generation continues where it ended; and a prompt that is cached is not computed again. */
static void it_continues(void **state)
{
    (void)state;
    rig r = open_rig(0);
    heard h = { 0 }, want = { 0 };
    weft_generate_options o = options_of(&r);
    o.n_new = 15;
    o.eval_last = true;
    must_generate(&r, NULL, &o, &h);
    assert_int_equal(weft_session_length(r.session), r.prompt->n + 15);
    o.prompt = NULL;
    o.n_prompt = 0;
    o.n_new = 25;
    must_generate(&r, NULL, &o, &h);
    by_hand(&r, NULL, 40, &want);
    assert_same(&h, &want);

    heard again = { 0 };
    o = options_of(&r);
    const weft_generation info = must_generate(&r, NULL, &o, &again);
    assert_int_equal(info.n_reused, r.prompt->n - 1);
    assert_same(&again, &want);
    o.n_new = -1; /* only the prompt */
    heard none = { 0 };
    const weft_generation empty = must_generate(&r, NULL, &o, &none);
    assert_int_equal(empty.n_new, 0);
    assert_int_equal(empty.finish, WEFT_FINISH_LENGTH);
    assert_int_equal(none.n_id + none.n_last, 0);
    assert_int_equal(weft_session_length(r.session), r.prompt->n);
    close_rig(&r);
}

/* The text ends before the string, wherever the string lies across tokens; and text that only
 * began like it is not lost. */
static void stop_strings(void **state)
{
    (void)state;
    rig r = open_rig(0);
    heard want = { 0 };
    by_hand(&r, NULL, 40, &want);
    char word[8], almost[9];
    for (size_t at = 5; at + 20 < want.n; at += 7) {
        heard h = { 0 };
        memcpy(word, want.text + at, 7);
        word[7] = '\0';
        const char *const strings[] = { "nowhere in it", word };
        weft_generate_options o = options_of(&r);
        o.stop = strings;
        o.n_stop = 2;
        const weft_generation info = must_generate(&r, NULL, &o, &h);
        const char *first = strstr(want.text, word);
        assert_int_equal(info.finish, WEFT_FINISH_STOP);
        assert_int_equal(info.stop, 1);
        assert_int_equal(h.n, first - want.text);
        assert_memory_equal(h.text, want.text, h.n);
        assert_int_equal(h.n_last, 0);
    }
    /* the last bytes of the text begin a stop string that does not come */
    heard h = { 0 };
    memcpy(almost, want.text + want.n - 3, 3);
    memcpy(almost + 3, "\x01\x02", 3);
    const char *const held = almost;
    weft_generate_options o = options_of(&r);
    o.stop = &held;
    o.n_stop = 1;
    const weft_generation info = must_generate(&r, NULL, &o, &h);
    assert_int_equal(info.finish, WEFT_FINISH_LENGTH);
    assert_string_equal(h.text, want.text);
    assert_int_equal(h.n_last, 1);
    close_rig(&r);
}

static void ends(void **state)
{
    (void)state;
    rig r = open_rig(0);
    heard want = { 0 }, h = { 0 };
    by_hand(&r, NULL, 40, &want);
    weft_generate_options o = options_of(&r);
    const int32_t end[] = { want.ids[10], want.ids[11] };
    int64_t first = 0;
    while (want.ids[first] != end[0] && want.ids[first] != end[1])
        first++;
    o.ends = end;
    o.n_end = 2;
    weft_generation info = must_generate(&r, NULL, &o, &h);
    assert_int_equal(info.finish, WEFT_FINISH_END);
    assert_int_equal(info.end_id, want.ids[first]);
    assert_int_equal(info.n_new, first);
    assert_int_equal(h.n_id, first);
    o.ignore_end = true;
    heard all = { 0 };
    info = must_generate(&r, NULL, &o, &all);
    assert_int_equal(info.n_new, 40);
    assert_same(&all, &want);
    close_rig(&r);
}

/* The first `least` tokens drawn with the ends forbidden, by hand; then greedily up to an end. */
static void forbid_by_hand(const rig *r, const int32_t *end, int64_t least, heard *h)
{
    weft_error err;
    const weft_bias never[] = { { end[0], -INFINITY }, { end[1], -INFINITY } };
    const weft_sampler_options o = { .struct_size = sizeof o, .bias = never, .n_bias = 2 };
    weft_sampler *sampler = weft_sampler_new(r->model, &o, &err);
    weft_session *s = weft_session_new(r->engine, &err);
    assert_non_null(sampler);
    assert_int_equal(weft_session_eval(s, r->prompt->ids, r->prompt->n, &err), WEFT_OK);
    while (h->n_id < 40) {
        int32_t id = weft_session_greedy(s);
        if (h->n_id < least)
            assert_int_equal(weft_sampler_next(sampler, s, &id, &err), WEFT_OK);
        weft_logprob l = { .id = id };
        if (id == end[0] || id == end[1])
            break;
        assert_int_equal(weft_session_logprobs(s, &l, 1, &err), WEFT_OK);
        h->logprob += l.logprob;
        h->ids[h->n_id++] = id;
        assert_int_equal(weft_session_eval(s, &id, 1, &err), WEFT_OK);
    }
    weft_session_free(s);
    weft_sampler_free(sampler);
}

/* The end comes at once, but not before n_min tokens; log-probabilities are those of all tokens. */
static void not_before(void **state)
{
    (void)state;
    rig r = open_rig(0);
    heard want = { 0 };
    by_hand(&r, NULL, 40, &want);
    const int32_t end[] = { want.ids[0], want.ids[3] };
    for (int64_t least = 0; least < 12; least++)
        for (int more = 0; more < 2; more++) { /* as stop_ids, they count even with ignore_end */
            heard h = { 0 }, by = { 0 };
            weft_generate_options o = options_of(&r);
            o.n_min = least;
            o.n_top = 1;
            o.ends = more ? NULL : end;
            o.n_end = more ? 0 : 2;
            o.stop_ids = more ? end : NULL;
            o.n_stop_id = more ? 2 : 0;
            o.ignore_end = more;
            const weft_generation info = must_generate(&r, NULL, &o, &h);
            forbid_by_hand(&r, end, least, &by);
            assert_int_equal(info.n_new, by.n_id);
            assert_true(info.n_new >= least);
            assert_memory_equal(h.ids, by.ids, sizeof h.ids);
            assert_true(h.logprob == by.logprob);
            assert_int_equal(info.finish, by.n_id < 40 ? WEFT_FINISH_END : WEFT_FINISH_LENGTH);
        }
    close_rig(&r);
}

/* Nor does a stop string count in the text of those tokens. */
static void no_stop_before(void **state)
{
    (void)state;
    rig r = open_rig(0);
    heard want = { 0 }, four = { 0 };
    by_hand(&r, NULL, 40, &want);
    by_hand(&r, NULL, 4, &four);
    const char space[] = { want.text[four.n], '\0' }, *const strings[] = { space };
    weft_generate_options o = options_of(&r);
    o.stop = strings;
    o.n_stop = 1;
    for (o.n_min = 0; o.n_min < 8; o.n_min++) {
        heard h = { 0 }, skipped = { 0 };
        by_hand(&r, NULL, o.n_min, &skipped);
        const char *at = strstr(want.text + skipped.n, space);
        assert_non_null(at);
        const weft_generation info = must_generate(&r, NULL, &o, &h);
        assert_int_equal(info.finish, WEFT_FINISH_STOP);
        assert_int_equal(h.n, at - want.text);
        assert_memory_equal(h.text, want.text, h.n);
    }
    close_rig(&r);
}

static bool refuse_progress(void *ud, uint64_t done, uint64_t total)
{
    assert_int_equal(total, 2);
    return ++*(int *)ud > 1 && done < total;
}

static void the_caller_stops(void **state)
{
    (void)state;
    rig r = open_rig(0);
    weft_error err;
    heard h = { .most = 5 };
    int n_call = 0;
    weft_generate_options o = options_of(&r);
    o.progress = refuse_progress;
    o.progress_ud = &n_call;
    weft_generation info = must_generate(&r, NULL, &o, &h);
    assert_int_equal(info.finish, WEFT_FINISH_CALLER);
    assert_int_equal(info.n_new, 0);
    assert_int_equal(n_call, 1);
    info = must_generate(&r, NULL, &o, &h);
    assert_int_equal(info.finish, WEFT_FINISH_CALLER);
    assert_int_equal(info.n_new, 5);
    assert_int_equal(h.n_id, 5);

    heard cancelled = { .cancel = r.session };
    weft_generation so_far = { .struct_size = sizeof so_far };
    o.progress = NULL;
    assert_int_equal(
        weft_generate(r.session, NULL, r.tokenizer, &o, hear, &cancelled, &so_far, &err),
        WEFT_ESTOPPED);
    assert_int_equal(so_far.finish, WEFT_FINISH_NONE);
    assert_int_equal(so_far.n_new, 3);
    close_rig(&r);
}

static void a_full_context(void **state)
{
    (void)state;
    rig r = open_rig(16);
    heard h = { 0 }, on = { 0 };
    weft_generate_options o = options_of(&r);
    o.n_new = 0;
    weft_generation info = must_generate(&r, NULL, &o, &h);
    assert_int_equal(info.finish, WEFT_FINISH_CONTEXT);
    assert_int_equal(info.n_new, 16 - r.prompt->n + 1);
    assert_int_equal(weft_session_length(r.session), 16);
    o.slide = true;
    o.n_new = 60;
    info = must_generate(&r, NULL, &o, &on);
    assert_int_equal(info.finish, WEFT_FINISH_LENGTH);
    assert_int_equal(info.n_new, 60);
    assert_true(info.n_slide >= 4);
    assert_int_equal(on.n_slide, info.n_slide);
    assert_memory_equal(on.ids, h.ids, (size_t)h.n_id * sizeof *h.ids);
    close_rig(&r);
}

/* Bytes of one code point come together, in whichever tokens they are. */
static void whole_code_points(void **state)
{
    (void)state;
    rig r = open_rig(0);
    weft_error err;
    int n_split = 0, n_wide = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        weft_sampler_options wild = { .struct_size = sizeof wild, .temperature = 50, .seed = seed };
        weft_sampler *sampler = weft_sampler_new(r.model, &wild, &err);
        heard h = { 0 };
        weft_generate_options o = options_of(&r);
        o.ignore_end = true;
        must_generate(&r, sampler, &o, &h);
        heard want = { 0 };
        by_hand(&r, sampler, 40, &want);
        assert_same(&h, &want);
        n_split += h.split;
        for (size_t i = 0; i < h.n; i++)
            n_wide += (h.text[i] & 0x80) != 0;
        weft_sampler_free(sampler);
    }
    assert_int_equal(n_split, 0);
    assert_true(n_wide > 10); /* or nothing was tested */
    close_rig(&r);
}

static void refusals(void **state)
{
    (void)state;
    rig r = open_rig(0);
    weft_error err;
    weft_generate_options o = { .struct_size = sizeof o, .n_new = 1 };
    assert_int_equal(weft_generate(r.session, NULL, r.tokenizer, &o, NULL, NULL, NULL, &err),
                     WEFT_EINVAL);
    assert_non_null(strstr(err.message, "give a prompt"));
    const char *const empty = "";
    o = options_of(&r);
    o.stop = &empty;
    o.n_stop = 1;
    assert_int_equal(weft_generate(r.session, NULL, r.tokenizer, &o, NULL, NULL, NULL, &err),
                     WEFT_EINVAL);
    o = options_of(&r);
    o.n_prompt = 0;
    assert_int_equal(weft_generate(r.session, NULL, r.tokenizer, &o, NULL, NULL, NULL, &err),
                     WEFT_EINVAL);
    /* without a tokenizer, the text comes from the model's file */
    heard want = { 0 }, h = { 0 };
    o = options_of(&r);
    must_generate(&r, NULL, &o, &want);
    assert_int_equal(weft_generate(r.session, NULL, NULL, &o, hear, &h, NULL, &err), WEFT_OK);
    assert_same(&h, &want);
    /* without callback and result, for the tokens in the session */
    o = options_of(&r);
    assert_int_equal(weft_generate(r.session, NULL, NULL, &o, NULL, NULL, NULL, NULL), WEFT_OK);
    assert_int_equal(weft_session_length(r.session), r.prompt->n + 39);
    close_rig(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("generate: tokens, text and log-probabilities are those of a loop by hand",
             as_by_hand),
        TEST("generate: continues where it ended, and reuses a cached prompt", it_continues),
        TEST("generate: no end before n_min tokens, and stop_ids always end", not_before),
        TEST("generate: no stop string counts before n_min tokens", no_stop_before),
        TEST("generate: stop strings end the text across tokens, and nothing is lost",
             stop_strings),
        TEST("generate: end-of-text tokens, the caller's own, and ignored", ends),
        TEST("generate: a callback, or another thread, stops it", the_caller_stops),
        TEST("generate: a full context ends the text, or slides", a_full_context),
        TEST("generate: a code point is never split", whole_code_points),
        TEST("generate: refusals, no tokenizer, and no callback at all", refusals),
    };
    return RUN(tests);
}
