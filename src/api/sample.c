/* sample.c - the public functions of samplers, log-probabilities, beam search and stop
 * strings: check, translate, delegate. */
#include "api/api.h"
#include "engine/beam.h"
#include "engine/logprob.h"
#include "engine/sampler.h"
#include "text/stop.h"

#include <string.h>

/* ---- samplers -------------------------------------------------------------------------------- */

struct weft_sampler {
    sampler *inner;
    weft_model *model; /* referenced; or NULL */
    mem *mem;          /* the model's, or `own` */
    mem own;
};

bool read_sampler_options(weft_sampler_options *to, const weft_sampler_options *from,
                          const weft_model *m, weft_error *err)
{
    if (!read_options(to, sizeof *to, from, from ? from->struct_size : 0, "weft_sampler_options",
                      err))
        return false;
    if (m && to->n_vocab != 0 && to->n_vocab != m->model.n_vocab) {
        weft_fail(err, WEFT_EINVAL, "n_vocab is %lld, but the model's vocabulary has %lld",
                  (long long)to->n_vocab, (long long)m->model.n_vocab);
        return false;
    }
    if ((to->n_bias != 0 && !to->bias) || (to->n_breaker != 0 && !to->breakers)) {
        weft_fail(err, WEFT_EINVAL, "no %s given",
                  to->n_bias != 0 && !to->bias ? "bias" : "breakers");
        return false;
    }
    return true;
}

weft_sampler *weft_sampler_new(weft_model *m, const weft_sampler_options *options, weft_error *err)
{
    weft_sampler_options o;
    weft_error local;
    err = begin_call(err, &local);
    if (!read_sampler_options(&o, options, m, err))
        return NULL;
    mem own;
    mem_init(&own, 0, NULL);
    weft_sampler *s = mem_zalloc(m ? &m->host.mem : &own, 1, sizeof *s, "a sampler", err);
    if (!s)
        return NULL;
    s->own = own;
    s->model = m;
    if (m)
        hold(&m->holders);
    s->mem = m ? &m->host.mem : &s->own;
    s->inner = sampler_new(s->mem, m ? m->model.n_vocab : o.n_vocab, &o, err);
    if (s->inner)
        return s;
    weft_sampler_free(s);
    return NULL;
}

void weft_sampler_free(weft_sampler *s)
{
    if (!s)
        return;
    weft_model *m = s->model;
    sampler_free(s->inner);
    mem own = s->own; /* the block holds its own allocator */
    mem_free(m ? &m->host.mem : &own, s);
    weft_model_close(m);
}

sampler *sampler_inside(const weft_sampler *s)
{
    return s->inner;
}

void weft_sampler_reset(weft_sampler *s)
{
    if (s)
        sampler_reset(s->inner);
}

const char *weft_sampler_describe(const weft_sampler *s)
{
    return s ? s->inner->line : NULL;
}

weft_status weft_sampler_break(weft_sampler *s, const weft_tokenizer *t, const char *const *strings,
                               int n, weft_error *err)
{
    const char *bytes;
    weft_error local;
    err = begin_call(err, &local);
    if (!s || !t || n < 0 || (n > 0 && !strings))
        return weft_fail(err, WEFT_EINVAL, "no %s given",
                         !s   ? "sampler"
                         : !t ? "tokenizer"
                              : "strings");
    for (int i = 0; i < n; i++)
        if (!strings[i])
            return weft_fail(err, WEFT_EINVAL, "string %d is NULL", i);
    for (int32_t id = 0; id < (int32_t)s->inner->n_vocab; id++) {
        const int64_t length = tokenizer_bytes(t, id, &bytes);
        for (int i = 0; i < n && length > 0; i++)
            if (memmem(bytes, (size_t)length, strings[i], strlen(strings[i])))
                s->inner->breaks[id] = true;
    }
    return WEFT_OK;
}

static weft_status wrong_vocabulary(const weft_sampler *s, int64_t n_vocab, weft_error *err)
{
    return weft_fail(err, WEFT_EINVAL, "%lld logits, but the sampler's vocabulary has %lld",
                     (long long)n_vocab, (long long)s->inner->n_vocab);
}

weft_status weft_sampler_pick(weft_sampler *s, const float *logits, int64_t n_vocab,
                              const int32_t *ids, int64_t n, int32_t *id, weft_error *err)
{
    weft_error local;
    err = begin_call(err, &local);
    if (!s || !logits || !id)
        return weft_fail(err, WEFT_EINVAL, "no %s given",
                         !s        ? "sampler"
                         : !logits ? "logits"
                                   : "place for the token");
    if (n_vocab != s->inner->n_vocab)
        return wrong_vocabulary(s, n_vocab, err);
    return sampler_pick(s->inner, logits, ids, n, id, err);
}

weft_status weft_sampler_stages(weft_sampler *s, const float *logits, int64_t n_vocab,
                                const int32_t *ids, int64_t n, int64_t k, weft_sampler_stage_fn *fn,
                                void *ud, weft_error *err)
{
    weft_error local;
    err = begin_call(err, &local);
    if (!s || !logits || !fn)
        return weft_fail(err, WEFT_EINVAL, "no %s given",
                         !s        ? "sampler"
                         : !logits ? "logits"
                                   : "callback");
    if (n_vocab != s->inner->n_vocab)
        return wrong_vocabulary(s, n_vocab, err);
    if (k < 0)
        return weft_fail(err, WEFT_EINVAL, "k is %lld, expected 0 or more", (long long)k);
    return sampler_stages(s->inner, logits, ids, n, k, fn, ud, err);
}

weft_status weft_sampler_next(weft_sampler *s, const weft_session *after, int32_t *id,
                              weft_error *err)
{
    const float *logits = after ? weft_session_logits(after) : NULL;
    if (!logits)
        return weft_fail(err, WEFT_EINVAL, "%s",
                         after ? "the session has no logits: evaluate tokens first"
                               : "no session given");
    int64_t n;
    const int32_t *ids = weft_session_tokens(after, &n);
    return weft_sampler_pick(s, logits, after->engine->model->model.n_vocab, ids, n, id, err);
}

int64_t weft_sampler_kept(weft_sampler *s, int64_t k, weft_token_prob *out)
{
    return s ? sampler_kept(s->inner, out ? k : 0, out) : 0;
}

/* ---- log-probabilities ----------------------------------------------------------------------- */

int64_t weft_session_top(const weft_session *s, int64_t k, weft_logprob *out)
{
    const float *z = weft_session_logits(s);
    return z && out ? logprob_top(z, s->engine->model->model.n_vocab, k, out) : 0;
}

weft_status weft_session_logprobs(const weft_session *s, weft_logprob *out, int64_t n,
                                  weft_error *err)
{
    weft_error local;
    err = begin_call(err, &local);
    if (!s || n < 0 || (n > 0 && !out))
        return weft_fail(err, WEFT_EINVAL, s ? "no tokens given" : "no session given");
    const float *z = weft_session_logits(s);
    const int64_t V = s->engine->model->model.n_vocab;
    if (!z)
        return weft_fail(err, WEFT_EINVAL, "the session has no logits: evaluate tokens first");
    for (int64_t i = 0; i < n; i++)
        if (out[i].id < 0 || out[i].id >= V)
            return weft_fail(err, WEFT_EINVAL, "token %d; expected below %lld, the vocabulary",
                             (int)out[i].id, (long long)V);
    const double all = logits_log_sum_exp(z, V);
    for (int64_t i = 0; i < n; i++)
        out[i].logprob = (double)z[out[i].id] - all;
    return WEFT_OK;
}

/* ---- beam search ----------------------------------------------------------------------------- */

/* Checks the options of a search, and fills in defaults. */
static weft_status take_beam_options(weft_beam_options *o, const weft_engine *e, int64_t n,
                                     weft_error *err)
{
    const int64_t n_ctx = e->inner->opt.n_ctx;
    o->n_beam = o->n_beam ? o->n_beam : 4;
    o->n_best = o->n_best ? o->n_best : 1;
    o->n_new = o->n_new ? o->n_new : n_ctx - n + 1;
    if (!o->ends && o->n_end == 0) {
        o->ends = e->model->stop_ids.id;
        o->n_end = e->model->stop_ids.n;
    }
    if (o->n_beam < 1 || o->n_beam > WEFT_MAX_BEAM)
        return weft_fail(err, WEFT_EINVAL, "n_beam is %d, expected 1 to %d", o->n_beam,
                         WEFT_MAX_BEAM);
    if (o->n_best < 1 || o->n_best > o->n_beam)
        return weft_fail(err, WEFT_EINVAL, "n_best is %d, expected 1 to %d, the n_beam", o->n_best,
                         o->n_beam);
    if (!(o->length_penalty >= -10 && o->length_penalty <= 10))
        return weft_fail(err, WEFT_EINVAL, "length_penalty is %g, expected -10 to 10",
                         o->length_penalty);
    if ((unsigned)o->stop > WEFT_BEAM_STOP_NEVER)
        return weft_fail(err, WEFT_EINVAL, "unknown stop rule %d", (int)o->stop);
    if (o->n_new < 1 || o->n_new - 1 > n_ctx - n) /* the last token is not evaluated */
        return weft_fail(err, WEFT_ECONTEXT,
                         "a prompt of %lld tokens and %lld new ones do not fit into a context of "
                         "%lld",
                         (long long)n, (long long)o->n_new, (long long)n_ctx);
    if (!o->ends && o->n_end != 0)
        return weft_fail(err, WEFT_EINVAL, "n_end is %d, but ends is NULL", o->n_end);
    if (o->n_source < 0 || (o->n_source > 0 && !o->source))
        return weft_fail(err, WEFT_EINVAL, "a source of %lld tokens, but ids is NULL",
                         (long long)o->n_source);
    if (o->n_end < 0 || o->n_end > WEFT_MAX_END)
        return weft_fail(err, WEFT_EINVAL, "n_end is %d, expected 0 to %d", o->n_end, WEFT_MAX_END);
    return WEFT_OK;
}

static bool holds_prompt(const weft_session *s, const weft_engine *e, const int32_t *ids, int64_t n)
{
    int64_t held = 0;
    const int32_t *tokens = weft_session_tokens(s, &held);
    return s->engine == e && held == n && memcmp(tokens, ids, (size_t)n * sizeof *ids) == 0;
}

weft_beams *weft_beam_search(weft_engine *e, const int32_t *ids, int64_t n,
                             const weft_beam_options *options, weft_error *err)
{
    weft_beam_options o;
    weft_error local;
    err = begin_call(err, &local);
    if (!e || !ids || n < 1) {
        weft_fail(err, WEFT_EINVAL, "no %s given", e ? "tokens" : "engine");
        return NULL;
    }
    if (!read_options(&o, sizeof o, options, options ? options->struct_size : 0,
                      "weft_beam_options", err) ||
        take_beam_options(&o, e, n, err) != WEFT_OK)
        return NULL;
    const session *begun = o.session ? o.session->inner : NULL;
    if (begun && !holds_prompt(o.session, e, ids, n)) {
        weft_fail(err, WEFT_EINVAL, "the session does not hold the prompt");
        return NULL;
    }
    const adaption a = adaption_of(o.adapter, o.strength);
    if (check_adapter(o.adapter, o.strength, e->model, e->inner->opt.rank, err) != WEFT_OK)
        return NULL;
    if (begun && o.adapter && !same_adaption(a, begun->adapted)) {
        weft_fail(err, WEFT_EINVAL, "the session has another adapter, or another strength of it");
        return NULL;
    }
    weft_beams *beams = beam_search(e->inner, ids, n, &o, a, begun, e->model, err);
    if (beams)
        hold(&e->model->holders);
    return beams;
}

void weft_beams_free(weft_beams *beams)
{
    weft_model_close(beams_free(beams));
}

/* ---- stop strings ---------------------------------------------------------------------------- */

struct weft_stop {
    stop inner;
    mem mem;
};

weft_stop *weft_stop_new(const char *const *strings, int n, weft_error *err)
{
    mem own;
    weft_error local;
    err = begin_call(err, &local);
    mem_init(&own, 0, NULL);
    weft_stop *s = mem_zalloc(&own, 1, sizeof *s, "stop strings", err);
    if (!s)
        return NULL;
    s->mem = own;
    if (stop_init(&s->inner, &s->mem, strings, n, err) == WEFT_OK)
        return s;
    weft_stop_free(s);
    return NULL;
}

void weft_stop_free(weft_stop *s)
{
    if (!s)
        return;
    stop_free(&s->inner);
    mem own = s->mem; /* the block holds its own allocator */
    mem_free(&own, s);
}

weft_status weft_stop_push(weft_stop *s, const char *bytes, size_t length, const char **out,
                           size_t *out_length, weft_error *err)
{
    weft_error local;
    err = begin_call(err, &local);
    if (!s || !out || !out_length || (length > 0 && !bytes))
        return weft_fail(err, WEFT_EINVAL, "no %s given",
                         !s                    ? "stop strings"
                         : !out || !out_length ? "place for the text"
                                               : "text");
    return stop_push(&s->inner, bytes, length, out, out_length, err);
}

int weft_stop_hit(const weft_stop *s)
{
    return s ? s->inner.hit : -1;
}

void weft_stop_flush(weft_stop *s, const char **out, size_t *out_length)
{
    const char *text = "";
    size_t length = 0;
    if (s)
        stop_flush(&s->inner, &text, &length);
    if (out)
        *out = text;
    if (out_length)
        *out_length = length;
}
