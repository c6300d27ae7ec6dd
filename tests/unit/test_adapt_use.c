/* test_adapt_use.c - adapters of PEFT where texts are made: requests of a scheduler, saved sessions,
 * beams, encoders. Through <weft.h>, as programs use them. */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <weft.h>

enum { V = 67, PROMPT = 150, MOST = 330, N_WAY = 8, N_REQUEST = 56 };

/* What a session may have: the model alone, adapters of different ranks and strengths, one with
 * whole weights. */
static const struct {
    const char *name;
    double strength;
} ways[N_WAY] = {
    { NULL, 0 },           { "llama-lora", 1 },      { "llama-lora", 0.5 },
    { "llama-rslora", 1 }, { "llama-patterns", -1 }, { "llama-head", 1 },
    { "llama-layers", 2 }, { "llama-untied", 1 },
};

typedef struct rig {
    weft_model *model;
    weft_engine *engine;
    weft_adapter *adapter[N_WAY]; /* NULL for the model alone */
} rig;

static const char *adapter_path(const char *name)
{
    char inner[128];
    snprintf(inner, sizeof inner, "golden/adapters/%s", name);
    return fixture(inner);
}

static weft_engine *must_make(weft_model *m, weft_engine_options o)
{
    weft_error err = { 0 };
    o.struct_size = sizeof o;
    o.threads = 2;
    o.n_ctx = 512;
    o.adapter_rank = 4;
    weft_engine *e = weft_engine_new(m, &o, &err);
    if (!e)
        fail_msg("%s", err.message);
    return e;
}

static void open_rig(rig *r, weft_engine_options o)
{
    weft_error err = { 0 };
    *r = (rig){ .model = weft_model_open(fixture("golden/llama-gqa"), NULL, &err) };
    assert_non_null(r->model);
    r->engine = must_make(r->model, o);
    for (int i = 0; i < N_WAY; i++) {
        if (i > 0 && ways[i].name && ways[i - 1].name &&
            strcmp(ways[i].name, ways[i - 1].name) == 0)
            r->adapter[i] = r->adapter[i - 1]; /* at another strength */
        if (!ways[i].name || r->adapter[i])
            continue;
        r->adapter[i] = weft_adapter_open(r->model, adapter_path(ways[i].name), &err);
        if (!r->adapter[i])
            fail_msg("%s", err.message);
    }
}

static void close_rig(rig *r)
{
    for (int i = 0; i < N_WAY; i++)
        if (i == 0 || r->adapter[i] != r->adapter[i - 1])
            weft_adapter_close(r->adapter[i]);
    weft_engine_free(r->engine);
    weft_model_close(r->model);
}

static weft_session *session_with(const rig *r, weft_engine *e, int way)
{
    weft_error err = { 0 };
    weft_session *s = weft_session_new(e, &err);
    assert_non_null(s);
    if (weft_session_adapt(s, r->adapter[way], ways[way].strength, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    return s;
}

/* Texts that begin alike, so that pages of one would do for another, but for its adapter. */
static void make_prompt(int32_t *ids, int which)
{
    for (int i = 0; i < PROMPT; i++)
        ids[i] = (int32_t)((i * 7 + i / 5 + (i >= 64 ? which % 3 : 0)) % V);
}

/* ---- requests -------------------------------------------------------------------------------- */

typedef struct text {
    int32_t ids[MOST];
    double logprob[MOST];
    int64_t n;
    weft_error err;
    int n_done;
} text;

static bool take_token(void *ud, const weft_generated *t)
{
    text *to = ud;
    if (t->id >= 0) {
        to->logprob[to->n] = t->logprobs[0].logprob;
        to->ids[to->n++] = t->id;
    }
    return true;
}

static void take_end(void *ud, const weft_generation *info, const weft_error *err)
{
    text *to = ud;
    (void)info;
    to->err = *err;
    to->n_done++;
}

static int way_of(int request)
{
    return request * 5 % N_WAY;
}

static weft_generate_options options_of(const int32_t *prompt, int request)
{
    return (weft_generate_options){ .struct_size = sizeof(weft_generate_options),
                                    .prompt = prompt,
                                    .n_prompt = PROMPT - request % 4,
                                    .n_new = request % 3 ? 20 : MOST,
                                    .ignore_end = true,
                                    .n_top = 1 };
}

static weft_sampler_options sampling_of(int request)
{
    return (weft_sampler_options){ .struct_size = sizeof(weft_sampler_options),
                                   .temperature = 1,
                                   .seed = (uint64_t)request / 3 };
}

static void alone(const rig *r, weft_engine *e, int request, int way, text *to)
{
    weft_error err = { 0 };
    int32_t prompt[PROMPT];
    make_prompt(prompt, request);
    const weft_generate_options o = options_of(prompt, request);
    const weft_sampler_options z = sampling_of(request);
    weft_sampler *draws = weft_sampler_new(r->model, &z, &err);
    weft_session *s = session_with(r, e, way);
    assert_non_null(draws);
    assert_int_equal(weft_generate(s, draws, NULL, &o, take_token, to, NULL, &err), WEFT_OK);
    weft_session_free(s);
    weft_sampler_free(draws);
}

/* The adapter is closed as soon as the request is in the queue. */
static void submit(const rig *r, weft_scheduler *s, int request, int way, text *to)
{
    weft_error err = { 0 };
    int32_t prompt[PROMPT];
    make_prompt(prompt, request);
    const weft_generate_options o = options_of(prompt, request);
    const weft_sampler_options z = sampling_of(request);
    weft_adapter *own = NULL;
    if (request % 3 == 1 && ways[way].name)
        own = weft_adapter_open(r->model, adapter_path(ways[way].name), &err);
    const weft_request q = { .struct_size = sizeof q,
                             .generate = &o,
                             .sampler = &z,
                             .fn = take_token,
                             .done = take_end,
                             .ud = to,
                             .adapter = own ? own : r->adapter[way],
                             .strength = ways[way].strength };
    if (!weft_scheduler_submit(s, &q, &err))
        fail_msg("%s", err.message);
    weft_adapter_close(own);
}

static void run_all(weft_scheduler *s)
{
    weft_error err = { 0 };
    for (bool more = true; more;)
        assert_int_equal(weft_scheduler_step(s, &more, &err), WEFT_OK);
}

static bool same_text(const text *a, const text *b)
{
    return a->n == b->n && memcmp(a->ids, b->ids, sizeof a->ids) == 0 &&
           memcmp(a->logprob, b->logprob, sizeof a->logprob) == 0;
}

/* In a small cache, with preemption; wrong: two of the requests get each other's adapter. Returns
 * how many have the text that they have alone. */
static int run_requests(bool wrong)
{
    rig r;
    weft_error err = { 0 };
    weft_scheduler_info info = { .struct_size = sizeof info };
    text *got = calloc(N_REQUEST, sizeof *got), *want = calloc(N_REQUEST, sizeof *want);
    assert_true(got && want);
    open_rig(&r, (weft_engine_options){ .n_session = 6, .n_cache = 64 * 14 });
    weft_engine *apart = must_make(r.model, (weft_engine_options){ .n_session = 1 });
    const weft_scheduler_options o = { .struct_size = sizeof o, .n_waiting_tokens = 100000 };
    weft_scheduler *s = weft_scheduler_new(r.engine, &o, &err);
    assert_non_null(s);
    for (int i = 0; i < N_REQUEST; i++) {
        const int way = wrong && (i == 8 || i == 9) ? way_of(17 - i) : way_of(i);
        alone(&r, apart, i, way_of(i), &want[i]);
        submit(&r, s, i, way, &got[i]);
    }
    run_all(s);
    int n_same = 0;
    for (int i = 0; i < N_REQUEST; i++) {
        assert_int_equal(got[i].n_done, 1);
        assert_int_equal(got[i].err.code, WEFT_OK);
        n_same += same_text(&got[i], &want[i]);
    }
    weft_scheduler_get_info(s, &info);
    if (!wrong)
        print_message("%d requests; %lld tokens from cached pages, %lld times preempted\n",
                      N_REQUEST, (long long)info.n_reused, (long long)info.n_preempted);
    assert_true(info.n_reused > 64 && info.n_preempted > 0 && info.n_page_used == 0);
    weft_scheduler_free(s);
    weft_engine_free(apart);
    close_rig(&r);
    free(got);
    free(want);
    return n_same;
}

static void requests_are_their_own(void **state)
{
    (void)state;
    assert_int_equal(run_requests(false), N_REQUEST);
}

static void a_mix_up_is_seen(void **state)
{
    (void)state;
    assert_int_equal(run_requests(true), N_REQUEST - 2);
}

static void requests_that_do_not_fit(void **state)
{
    (void)state;
    rig r;
    weft_error err = { 0 };
    const int32_t prompt[] = { 1, 2, 3 };
    open_rig(&r, (weft_engine_options){ .n_session = 1 });
    weft_scheduler *s = weft_scheduler_new(r.engine, NULL, &err);
    weft_model *other = weft_model_open(fixture("golden/llama-gqa"), NULL, &err);
    weft_adapter *foreign = weft_adapter_open(other, adapter_path("llama-lora"), &err);
    weft_adapter *whole = weft_adapter_open(r.model, adapter_path("llama-untied"), &err);
    assert_true(s && foreign && whole);
    const weft_generate_options o = { .struct_size = sizeof o, .prompt = prompt, .n_prompt = 3 };
    weft_request q = { .struct_size = sizeof q, .generate = &o, .adapter = foreign };
    assert_int_equal(weft_scheduler_submit(s, &q, &err), 0);
    assert_string_equal(err.message, "the adapter belongs to another model");
    q.adapter = r.adapter[1];
    q.strength = INFINITY;
    assert_int_equal(weft_scheduler_submit(s, &q, &err), 0);
    assert_string_equal(err.message, "the strength of an adapter must be finite");
    q.adapter = whole;
    q.strength = 0.5;
    assert_int_equal(weft_scheduler_submit(s, &q, &err), 0);
    assert_non_null(strstr(err.message, "has strength 0 or 1, not 0.5"));
    weft_adapter_close(whole);
    weft_adapter_close(foreign);
    weft_model_close(other);
    weft_scheduler_free(s);
    close_rig(&r);
}

/* ---- sessions on disk ------------------------------------------------------------------------ */

static void feed(weft_session *s, const int32_t *ids, int64_t n)
{
    weft_error err = { 0 };
    if (weft_session_eval(s, ids, n, &err) != WEFT_OK)
        fail_msg("%s", err.message);
}

/* Each way, saved with 100 tokens and continued in another engine with an adapter of its own. */
static void saved_and_restored(void **state)
{
    (void)state;
    rig r, later;
    weft_error err = { 0 };
    int32_t ids[PROMPT];
    make_prompt(ids, 1);
    open_rig(&r, (weft_engine_options){ .n_session = 1 });
    open_rig(&later, (weft_engine_options){ .n_session = 1 });
    for (int way = 0; way < N_WAY; way++) {
        const char *path = temp_path("adapted.session");
        weft_session *s = session_with(&r, r.engine, way), *t;
        feed(s, ids, 100);
        assert_int_equal(weft_session_save(s, path, &err), WEFT_OK);
        t = way ? weft_session_restore_adapted(later.engine, path, later.adapter[way],
                                               ways[way].strength, &err)
                : weft_session_restore(later.engine, path, &err);
        if (!t)
            fail_msg("%s", err.message);
        assert_int_equal(weft_session_length(t), 100);
        assert_memory_equal(weft_session_logits(s), weft_session_logits(t), V * sizeof(float));
        feed(s, ids + 100, 50);
        feed(t, ids + 100, 50);
        assert_memory_equal(weft_session_logits(s), weft_session_logits(t), V * sizeof(float));
        weft_session_free(s);
        weft_session_free(t);
    }
    close_rig(&later);
    close_rig(&r);
}

static void refused(const rig *r, const char *path, int way, double strength, const char *says)
{
    weft_error err = { 0 };
    weft_session *s = way ? weft_session_restore_adapted(r->engine, path, r->adapter[way], strength,
                                                         &err)
                          : weft_session_restore(r->engine, path, &err);
    if (s)
        fail_msg("restored, expected \"%s\"", says);
    assert_int_equal(err.code, WEFT_EINVAL);
    if (!strstr(err.message, says) || !strstr(err.message, path))
        fail_msg("found \"%s\", expected \"%s\"", err.message, says);
}

static void strangers_are_refused(void **state)
{
    (void)state;
    rig r;
    weft_error err = { 0 };
    int32_t ids[PROMPT];
    char with[256], without[256];
    make_prompt(ids, 1);
    snprintf(with, sizeof with, "%s", temp_path("with.session"));
    snprintf(without, sizeof without, "%s", temp_path("without.session"));
    open_rig(&r, (weft_engine_options){ .n_session = 1 });
    for (int way = 0; way < 2; way++) {
        weft_session *s = session_with(&r, r.engine, way);
        feed(s, ids, 10);
        assert_int_equal(weft_session_save(s, way ? with : without, &err), WEFT_OK);
        weft_session_free(s);
    }
    refused(&r, with, 0, 0, "saved with an adapter; restore it with the same");
    refused(&r, with, 3, 1, "saved with another adapter (");
    refused(&r, with, 1, 0.5, "saved with its adapter at strength 1; found strength 0.5");
    refused(&r, with, 1, 0, "saved with an adapter; restore it with the same");
    refused(&r, without, 1, 1, "saved without an adapter; restore it without one");
    /* At strength 0 the adapter does nothing. */
    weft_session *s = weft_session_restore_adapted(r.engine, without, r.adapter[1], 0, &err);
    assert_non_null(s);
    weft_session_free(s);
    assert_null(weft_session_restore_adapted(r.engine, with, NULL, 1, &err));
    assert_string_equal(err.message, "no adapter given");
    close_rig(&r);
}

/* A file with an adapter, cut at each length: its header is 16 bytes longer than one without. */
static void truncated(void **state)
{
    (void)state;
    enum { HEADER = 80 + 16 };
    rig r;
    weft_error err = { 0 };
    int32_t ids[PROMPT];
    size_t n;
    make_prompt(ids, 1);
    open_rig(&r, (weft_engine_options){ .n_session = 1 });
    weft_session *s = session_with(&r, r.engine, 1);
    feed(s, ids, 2);
    assert_int_equal(weft_session_save(s, temp_path("whole.session"), &err), WEFT_OK);
    weft_session_free(s);
    char *whole = read_whole(temp_path("whole.session"), &n);
    for (size_t to = 0; to < n; to += to < 2 * HEADER || to > n - 20 ? 1 : 7) {
        err = (weft_error){ 0 };
        assert_null(weft_session_restore_adapted(r.engine, temp_file("cut.session", whole, to),
                                                 r.adapter[1], ways[1].strength, &err));
        assert_int_equal(err.code, WEFT_EFORMAT);
        if (!strstr(err.message, to < HEADER ? "too short for a saved session"
                                             : "bytes after the header do not match"))
            fail_msg("%zu bytes: \"%s\"", to, err.message);
    }
    free(whole);
    close_rig(&r);
}

/* ---- beams ----------------------------------------------------------------------------------- */

/* log p of a text after the prompt, by a session of its own. */
static double score_alone(const rig *r, weft_engine *e, int way, const int32_t *prompt,
                          const weft_beam *b)
{
    double sum = 0;
    weft_session *s = session_with(r, e, way);
    feed(s, prompt, PROMPT);
    for (int64_t i = 0; i < b->n; i++) {
        const float *z = weft_session_logits(s);
        double all = 0;
        for (int k = 0; k < V; k++)
            all += exp((double)z[k]);
        sum += (double)z[b->ids[i]] - log(all);
        feed(s, &b->ids[i], 1);
    }
    weft_session_free(s);
    return sum;
}

static bool same_beams(const weft_beams *a, const weft_beams *b)
{
    bool same = a->n == b->n;
    for (int i = 0; i < a->n && same; i++)
        same = a->beam[i].n == b->beam[i].n && a->beam[i].score == b->beam[i].score &&
               memcmp(a->beam[i].ids, b->beam[i].ids,
                      (size_t)a->beam[i].n * sizeof *a->beam[i].ids) == 0;
    return same;
}

static weft_beams *must_search(weft_engine *e, const int32_t *prompt, weft_beam_options o)
{
    weft_error err = { 0 };
    o.struct_size = sizeof o;
    o.n_beam = o.n_best = 4;
    o.n_new = 12;
    weft_beams *b = weft_beam_search(e, prompt, PROMPT, &o, &err);
    if (!b)
        fail_msg("%s", err.message);
    return b;
}

static void beams(void **state)
{
    (void)state;
    rig r;
    weft_error err = { 0 };
    int32_t prompt[PROMPT];
    weft_beams *base = NULL;
    make_prompt(prompt, 2);
    open_rig(&r, (weft_engine_options){ .n_session = 6 });
    for (int way = 0; way < N_WAY; way++) {
        weft_beam_options o = { .adapter = r.adapter[way], .strength = ways[way].strength };
        weft_beams *found = must_search(r.engine, prompt, o);
        for (int i = 0; i < found->n; i++) {
            const weft_beam *b = &found->beam[i];
            const double sum = score_alone(&r, r.engine, way, prompt, b);
            assert_that(fabs(sum - b->score) < 1e-4, "way %d, beam %d: %.9g, alone %.9g", way, i,
                        b->score, sum);
        }
        weft_session *s = session_with(&r, r.engine, way);
        feed(s, prompt, PROMPT);
        o.session = s;
        weft_beams *shared = must_search(r.engine, prompt, o);
        o.adapter = NULL;
        weft_beams *of_session = must_search(r.engine, prompt, o);
        assert_true(same_beams(found, shared) && same_beams(found, of_session));
        if (!base)
            base = must_search(r.engine, prompt, (weft_beam_options){ 0 });
        assert_int_equal(same_beams(found, base), way == 0);
        o = (weft_beam_options){
            .struct_size = sizeof o, .session = s, .adapter = r.adapter[3], .strength = 0.25
        };
        assert_null(weft_beam_search(r.engine, prompt, PROMPT, &o, &err));
        assert_string_equal(err.message,
                            "the session has another adapter, or another strength of it");
        weft_session_free(s);
        weft_beams_free(shared);
        weft_beams_free(of_session);
        weft_beams_free(found);
    }
    weft_beams_free(base);
    close_rig(&r);
}

/* ---- encoders -------------------------------------------------------------------------------- */

static void encode(weft_encoder *e, const int32_t *ids, int64_t n, float *to)
{
    weft_error err = { 0 };
    const weft_input in = { .ids = ids, .n = n, .out = to };
    if (weft_encoder_eval(e, &in, 1, &err) != WEFT_OK)
        fail_msg("%s", err.message);
}

/* An encoder takes an adapter, another, none; strength 0 is none. A decoder's states with an adapter
 * give the logits of its sessions. */
static void encoders(void **state)
{
    (void)state;
    rig r;
    weft_error err = { 0 };
    static float base[PROMPT * V], with[PROMPT * V], again[PROMPT * V];
    int32_t prompt[PROMPT];
    make_prompt(prompt, 0);
    open_rig(&r, (weft_engine_options){ .n_session = 1, .kv_type = WEFT_KV_F32 });
    const weft_encoder_options o = {
        .struct_size = sizeof o, .threads = 1, .n_ctx = 256, .adapter_rank = 4
    };
    weft_encoder *e = weft_encoder_new(r.model, &o, &err);
    assert_non_null(e);
    assert_int_equal(weft_encoder_width(e), V);
    encode(e, prompt, PROMPT, base);
    for (int way = 1; way < N_WAY; way++) {
        assert_int_equal(weft_encoder_adapt(e, r.adapter[way], ways[way].strength, &err), WEFT_OK);
        encode(e, prompt, PROMPT, with);
        assert_memory_not_equal(base, with, sizeof base);
        weft_session *s = session_with(&r, r.engine, way);
        feed(s, prompt, PROMPT);
        const float *z = weft_session_logits(s);
        for (int k = 0; k < V; k++)
            assert_that(fabs((double)(z[k] - with[(PROMPT - 1) * V + k])) < 1e-4,
                        "way %d, token %d: %g, session %g", way, k,
                        (double)with[(PROMPT - 1) * V + k], (double)z[k]);
        weft_session_free(s);
        assert_int_equal(weft_encoder_adapt(e, r.adapter[way], 0, &err), WEFT_OK);
        encode(e, prompt, PROMPT, again);
        assert_memory_equal(base, again, sizeof base);
    }
    assert_int_equal(weft_encoder_adapt(e, NULL, 0, &err), WEFT_OK);
    encode(e, prompt, PROMPT, again);
    assert_memory_equal(base, again, sizeof base);
    weft_adapter *whole = weft_adapter_open(r.model, adapter_path("llama-untied"), &err);
    assert_int_equal(weft_encoder_adapt(e, whole, 0.5, &err), WEFT_EINVAL);
    assert_int_equal(weft_encoder_adapt(e, whole, 1, &err), WEFT_OK);
    weft_adapter_close(whole); /* the encoder has it */
    encode(e, prompt, PROMPT, with);
    assert_memory_not_equal(base, with, sizeof base);
    weft_encoder_free(e);
    close_rig(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("adapters: requests of a scheduler have the texts that they have alone",
             requests_are_their_own),
        TEST("adapters: two requests with each other's adapter are seen", a_mix_up_is_seen),
        TEST("adapters: a request with one that does not fit is refused", requests_that_do_not_fit),
        TEST("adapters: a saved session continues with the same bits", saved_and_restored),
        TEST("adapters: a session is not restored with another adapter", strangers_are_refused),
        TEST("adapters: a session truncated anywhere is refused", truncated),
        TEST("adapters: beams have the scores of their texts alone", beams),
        TEST("adapters: an encoder computes with one, another, none", encoders),
    };
    return RUN(tests);
}
