/* asked.c - random requests, alone and scheduled; see asked.h. */
#define SET_UP
#include "asked.h"

#include "base/rng.h"
#include "gguf_build.h"

/* ---- the rig --------------------------------------------------------------------------------- */

void asked_open(asked_rig *r, int64_t n_page, const weft_scheduler_options *o)
{
    const llama_shape shape = { .n_layer = 2,
                                .d_model = 64,
                                .n_head = 4,
                                .n_head_kv = 2,
                                .d_ff = 128,
                                .n_vocab = ASKED_VOCAB,
                                .n_ctx = ASKED_CONTEXT,
                                .type = &dtype_q8_0 };
    weft_error err;
    weft_engine_options e = { .struct_size = sizeof e,
                              .threads = 2,
                              .n_session = 6,
                              .n_batch = 64,
                              .n_cache = n_page * 64,
                              .all_logits = true };
    const bytes b = gguf_llama(&shape);
    r->model = weft_model_open(temp_file("asked.gguf", b.at, b.n), NULL, &err);
    free(b.at);
    assert_non_null(r->model);
    r->tokenizer = weft_tokenizer_load(fixture("../models/shakespeare.gguf"), NULL, &err);
    r->engine = weft_engine_new(r->model, &e, &err);
    e.n_session = e.threads = 1;
    e.n_batch = 256;
    r->alone = weft_engine_new(r->model, &e, &err);
    assert_non_null(r->tokenizer);
    assert_non_null(r->alone);
    r->scheduler = weft_scheduler_new(r->engine, o, &err);
    if (!r->scheduler)
        fail_msg("%s", err.message);
}

void asked_close(asked_rig *r)
{
    weft_engine_info i = { .struct_size = sizeof i };
    assert_int_equal(asked_info(r).n_page_used, 0);
    weft_scheduler_free(r->scheduler);
    weft_engine_get_info(r->engine, &i);
    assert_int_equal(i.n_cache_free, i.n_cache);
    weft_engine_free(r->engine);
    weft_engine_free(r->alone);
    weft_tokenizer_free(r->tokenizer);
    weft_model_close(r->model);
}

weft_scheduler_info asked_info(const asked_rig *r)
{
    weft_scheduler_info i = { .struct_size = sizeof i };
    weft_scheduler_get_info(r->scheduler, &i);
    return i;
}

/* ---- callbacks ------------------------------------------------------------------------------- */

static void keep_text(heard *h, const weft_generated *t)
{
    assert_true(h->n + t->length < sizeof h->text);
    memcpy(h->text + h->n, t->text, t->length);
    h->n += t->length;
}

static bool hear(void *ud, const weft_generated *t)
{
    asked *a = ud;
    heard *h = &a->heard;
    keep_text(h, t);
    if (t->id < 0)
        return true;
    assert_true(h->n_id < ASKED_CONTEXT);
    if (t->logprobs)
        memcpy(h->top[h->n_id], t->logprobs, (size_t)(1 + a->opt.n_top) * sizeof *t->logprobs);
    h->ids[h->n_id++] = t->id;
    return true;
}

static void hear_prompt(void *ud, int64_t i, int32_t id, const weft_logprob *logprobs)
{
    asked *a = ud;
    assert_true(i == a->heard.n_prompt && id == a->prompt[i] && (i > 0) == (logprobs != NULL));
    if (logprobs)
        memcpy(a->heard.prompt[i], logprobs, (size_t)(1 + a->opt.n_top) * sizeof *logprobs);
    a->heard.n_prompt++;
}

static void hear_done(void *ud, const weft_generation *info, const weft_error *err)
{
    asked *a = ud;
    a->heard.info = *info;
    a->heard.err = *err;
    a->heard.n_done++;
}

/* ---- requests -------------------------------------------------------------------------------- */

static uint32_t dice(const asked *a, uint64_t i)
{
    return rng_draw(a->seed, 21, i).word[0];
}

/* The start of one of five stories, then tokens of its own. */
static void write_prompt(asked *a)
{
    const uint64_t of = dice(a, 0) % 5;
    const int64_t told = dice(a, 1) % 300, own = 1 + dice(a, 2) % 40;
    for (int64_t i = 0; i < told + own; i++)
        a->prompt[i] = (int32_t)((i < told ? rng_draw(of, 22, (uint64_t)i)
                                           : rng_draw(a->seed, 23, (uint64_t)i))
                                     .word[0] %
                                 ASKED_VOCAB);
    a->opt.prompt = a->prompt;
    a->opt.n_prompt = told + own;
}

static void choose_limits(asked *a)
{
    weft_generate_options *o = &a->opt;
    a->stop[0] = "th";
    a->stop[1] = "\n";
    a->stop_ids[0] = (int32_t)(dice(a, 3) % ASKED_VOCAB);
    a->stop_ids[1] = (int32_t)(dice(a, 4) % ASKED_VOCAB);
    o->struct_size = sizeof *o;
    o->n_new = dice(a, 5) % 4 == 0 ? 300 + dice(a, 6) % 300 : 1 + dice(a, 6) % 60;
    if (dice(a, 5) % 31 == 1)
        o->n_new = -1;
    o->stop = a->stop;
    o->n_stop = dice(a, 7) % 8 == 0 ? 2 : 0;
    o->stop_ids = a->stop_ids;
    o->n_stop_id = dice(a, 8) % 4 == 0 ? 2 : 0;
    o->n_min = dice(a, 9) % 3 == 0 ? dice(a, 10) % 20 : 0;
    o->n_top = dice(a, 11) % ASKED_TOP;
}

static void choose_sampler(asked *a)
{
    weft_sampler_options *s = &a->sampling;
    *s = (weft_sampler_options){ .struct_size = sizeof *s, .seed = a->seed };
    s->temperature = dice(a, 12) % 4 ? 0.5 + dice(a, 13) % 10 / 5.0 : 0;
    s->top_k = dice(a, 14) % 2 ? 40 : 0;
    s->top_p = dice(a, 15) % 2 ? 0.9 : 0;
    s->repetition = dice(a, 16) % 3 ? 0 : 1.2;
    s->mirostat_tau = dice(a, 17) % 3 ? 0 : 4 + dice(a, 17) % 5;
    s->dry_multiplier = dice(a, 18) % 4 ? 0 : 0.8;
    a->bias[0] = (weft_bias){ (int32_t)(dice(a, 19) % ASKED_VOCAB), -INFINITY };
    a->bias[1] = (weft_bias){ (int32_t)(dice(a, 20) % ASKED_VOCAB), 3 };
    s->bias = a->bias;
    s->n_bias = dice(a, 21) % 3 ? 0 : 2;
}

asked *asked_new(const asked_rig *r, uint64_t seed)
{
    asked *a = calloc(1, sizeof *a);
    assert_non_null(a);
    a->seed = seed;
    write_prompt(a);
    choose_limits(a);
    choose_sampler(a);
    a->request = (weft_request){ .struct_size = sizeof a->request,
                                 .generate = &a->opt,
                                 .sampler = dice(a, 22) % 5 ? &a->sampling : NULL,
                                 .tokenizer = r->tokenizer,
                                 .key = dice(a, 23) % 2 ? "a" : "b",
                                 .priority = (int)(dice(a, 24) % 3),
                                 .fn = hear,
                                 .prompt_fn = dice(a, 25) % 6 ? NULL : hear_prompt,
                                 .done = hear_done,
                                 .ud = a };
    return a;
}

/* ---- alone ----------------------------------------------------------------------------------- */

/* Log-probabilities of the prompt, a token at a time. */
static void prompt_alone(const asked_rig *r, asked *a)
{
    weft_error err;
    weft_session *s = weft_session_new(r->alone, &err);
    assert_non_null(s);
    for (int64_t i = 0; i < a->opt.n_prompt; i++) {
        weft_logprob *to = a->heard.prompt[i];
        to[0].id = a->prompt[i];
        if (i > 0) {
            assert_int_equal(weft_session_logprobs(s, to, 1, &err), WEFT_OK);
            assert_int_equal(weft_session_top(s, a->opt.n_top, to + 1), a->opt.n_top);
        }
        assert_int_equal(weft_session_eval(s, a->prompt + i, 1, &err), WEFT_OK);
    }
    a->heard.n_prompt = a->opt.n_prompt;
    weft_session_free(s);
}

void asked_alone(const asked_rig *r, const asked *a, heard *to)
{
    weft_error err;
    asked *copy = asked_new(r, a->seed);
    copy->opt = a->opt;
    copy->opt.prompt = memcpy(copy->prompt, a->prompt, sizeof a->prompt);
    heard *h = &copy->heard;
    weft_sampler *sampler = NULL;
    if (a->request.sampler)
        assert_non_null(sampler = weft_sampler_new(r->model, &a->sampling, &err));
    weft_session *s = weft_session_new(r->alone, &err);
    assert_non_null(s);
    h->info.struct_size = sizeof h->info;
    weft_generate(s, sampler, r->tokenizer, &copy->opt, hear, copy, &h->info, &h->err);
    weft_session_free(s);
    weft_sampler_free(sampler);
    if (a->request.prompt_fn)
        prompt_alone(r, copy);
    *to = *h;
    free(copy);
}

static void compare_logprobs(const asked *a, const char *what, int64_t i, const weft_logprob *x,
                             const weft_logprob *y)
{
    for (int64_t k = 0; k < 1 + a->opt.n_top; k++)
        if (x[k].id != y[k].id || memcmp(&x[k].logprob, &y[k].logprob, sizeof x[k].logprob) != 0)
            fail_msg("request %llu: %s %lld, log-probability %lld: token %d %.17g, alone %d %.17g",
                     (unsigned long long)a->seed, what, (long long)i, (long long)k, (int)x[k].id,
                     x[k].logprob, (int)y[k].id, y[k].logprob);
}

void asked_compare(const asked_rig *r, const asked *a)
{
    const heard *got = &a->heard;
    heard *alone = calloc(1, sizeof *alone);
    assert_non_null(alone);
    asked_alone(r, a, alone);
    const unsigned long long seed = (unsigned long long)a->seed;
    assert_int_equal(got->n_done, 1);
    if (!a->cancelled) {
        if (got->err.code != alone->err.code)
            fail_msg("request %llu: %s, alone %s", seed, got->err.message, alone->err.message);
        if (got->n_id != alone->n_id || got->n != alone->n ||
            got->info.finish != alone->info.finish || got->n_prompt != alone->n_prompt)
            fail_msg("request %llu: %lld tokens, %zu bytes, finish %d, %lld of the prompt; alone "
                     "%lld, %zu, %d, %lld",
                     seed, (long long)got->n_id, got->n, (int)got->info.finish,
                     (long long)got->n_prompt, (long long)alone->n_id, alone->n,
                     (int)alone->info.finish, (long long)alone->n_prompt);
        assert_int_equal(got->info.stop, alone->info.stop);
        assert_int_equal(got->info.end_id, alone->info.end_id);
        assert_int_equal(got->info.n_new, alone->info.n_new);
    }
    assert_true(got->n <= alone->n && got->n_id <= alone->n_id);
    for (int64_t i = 0; i < got->n_id; i++) {
        if (got->ids[i] != alone->ids[i])
            fail_msg("request %llu: new token %lld is %d, alone %d", seed, (long long)i,
                     (int)got->ids[i], (int)alone->ids[i]);
        if (a->opt.n_top > 0)
            compare_logprobs(a, "new token", i, got->top[i], alone->top[i]);
    }
    for (int64_t i = 1; i < got->n_prompt; i++)
        compare_logprobs(a, "token of the prompt", i, got->prompt[i], alone->prompt[i]);
    if (memcmp(got->text, alone->text, got->n) != 0)
        fail_msg("request %llu: another text", seed);
    free(alone);
}

/* ---- steps ----------------------------------------------------------------------------------- */

bool asked_submit(const asked_rig *r, asked *a)
{
    weft_error err;
    a->number = weft_scheduler_submit(r->scheduler, &a->request, &err);
    if (a->number == 0 && err.code != WEFT_EBUSY)
        fail_msg("request %llu: %s", (unsigned long long)a->seed, err.message);
    return a->number != 0;
}

bool asked_step(const asked_rig *r)
{
    weft_error err;
    bool more;
    if (weft_scheduler_step(r->scheduler, &more, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    return more;
}
