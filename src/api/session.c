/* session.c - the public functions of sessions: check, translate, delegate. */
#include "api/api.h"

/* Makes the public handle of a session; frees the session if there is no memory for it. */
static weft_session *wrap(weft_engine *e, session *inner, weft_error *err)
{
    weft_session *s = inner ? mem_zalloc(&e->model->host.mem, 1, sizeof *s, "session", err) : NULL;
    if (!s) {
        session_free(inner);
        return NULL;
    }
    *s = (weft_session){ inner, e };
    hold(&e->holders);
    return s;
}

weft_session *weft_session_new(weft_engine *e, weft_error *err)
{
    weft_error local;
    err = begin_call(err, &local);
    if (!e) {
        weft_fail(err, WEFT_EINVAL, "no engine given");
        return NULL;
    }
    return wrap(e, session_new(e->inner, err), err);
}

weft_session *weft_session_fork(const weft_session *s, weft_error *err)
{
    weft_error local;
    err = begin_call(err, &local);
    if (!s) {
        weft_fail(err, WEFT_EINVAL, "no session given");
        return NULL;
    }
    return wrap(s->engine, session_fork(s->inner, err), err);
}

void weft_session_free(weft_session *s)
{
    if (!s)
        return;
    weft_engine *e = s->engine;
    session_free(s->inner);
    mem_free(&e->model->host.mem, s);
    weft_engine_free(e);
}

/* ---- evaluation ------------------------------------------------------------------------------ */

typedef weft_status eval_fn(engine *e, work *w, int n, weft_error *err);

/* Converts requests to the engine's own form and back. */
static weft_status eval_works(eval_fn *fn, weft_engine *e, weft_eval_request *w, int n,
                              weft_error *err)
{
    weft_error local;
    err = begin_call(err, &local);
    if (!e || !w)
        return weft_fail(err, WEFT_EINVAL, "no %s given", e ? "work" : "engine");
    if (n < 1 || n > MAX_WORK)
        return weft_fail(err, WEFT_EINVAL, "%d requests, expected 1 to %d", n, MAX_WORK);
    work *inner = e->inner->asked;
    for (int i = 0; i < n; i++) {
        if (!w[i].session || !w[i].ids)
            return weft_fail(err, WEFT_EINVAL, "work %d: no %s given", i,
                             w[i].session ? "tokens" : "session");
        inner[i] = (work){ .session = w[i].session->inner,
                           .ids = w[i].ids,
                           .n = w[i].n,
                           .done = w[i].done,
                           .status = w[i].status };
    }
    const weft_status status = fn(e->inner, inner, n, err);
    for (int i = 0; i < n; i++) {
        w[i].done = inner[i].done;
        w[i].status = inner[i].status;
        w[i].message = w[i].status == WEFT_OK ? NULL : w[i].session->inner->failure;
    }
    return status;
}

weft_status weft_engine_eval(weft_engine *e, weft_eval_request *w, int n, weft_error *err)
{
    return eval_works(engine_eval, e, w, n, err);
}

weft_status weft_engine_step(weft_engine *e, weft_eval_request *w, int n, weft_error *err)
{
    return eval_works(engine_step, e, w, n, err);
}

weft_status weft_session_eval(weft_session *s, const int32_t *ids, int64_t n, weft_error *err)
{
    weft_eval_request w = { .session = s, .ids = ids, .n = n };
    if (!s)
        return weft_fail(err, WEFT_EINVAL, "no session given");
    return weft_engine_eval(s->engine, &w, 1, err);
}

weft_status weft_session_source(weft_session *s, const int32_t *ids, int64_t n, weft_error *err)
{
    if (!s)
        return weft_fail(err, WEFT_EINVAL, "no session given");
    weft_error local;
    err = begin_call(err, &local);
    return engine_encode(s->engine->inner, &(source_text){ s->inner, ids, n }, 1, err);
}

void weft_session_cancel(weft_session *s)
{
    if (s)
        atomic_store(&s->inner->cancelled, true);
}

int64_t weft_session_match(weft_session *s, const int32_t *ids, int64_t n)
{
    return s && n >= 0 && (ids || n == 0) ? session_match(s->inner, ids, n) : -1;
}

weft_status weft_session_sync(weft_session *s, const int32_t *ids, int64_t n, int64_t *reused,
                              weft_error *err)
{
    int64_t unasked;
    if (!s || n < 0 || (n > 0 && !ids))
        return weft_fail(err, WEFT_EINVAL, s ? "no tokens given" : "no session given");
    weft_error local;
    err = begin_call(err, &local);
    return session_sync(s->inner, ids, n, reused ? reused : &unasked, err);
}

/* ---- save and load --------------------------------------------------------------------------- */

weft_status weft_session_save(const weft_session *s, const char *path, weft_error *err)
{
    weft_error local;
    err = begin_call(err, &local);
    if (!s || !path)
        return weft_fail(err, WEFT_EINVAL, s ? "no path given" : "no session given");
    return session_save(s->inner, path, err) == WEFT_OK ? WEFT_OK : err->code;
}

weft_session *weft_session_restore(weft_engine *e, const char *path, weft_error *err)
{
    weft_error local;
    err = begin_call(err, &local);
    if (!e || !path) {
        weft_fail(err, WEFT_EINVAL, e ? "no path given" : "no engine given");
        return NULL;
    }
    return wrap(e, session_restore(e->inner, path, (adaption){ 0 }, err), err);
}

weft_session *weft_session_restore_adapted(weft_engine *e, const char *path, weft_adapter *a,
                                           double strength, weft_error *err)
{
    weft_error local;
    err = begin_call(err, &local);
    if (!e || !path || !a) {
        weft_fail(err, WEFT_EINVAL, "no %s given", !e ? "engine" : !path ? "path" : "adapter");
        return NULL;
    }
    if (check_adapter(a, strength, e->model, e->inner->opt.rank, err) != WEFT_OK)
        return NULL;
    return wrap(e, session_restore(e->inner, path, adaption_of(a, strength), err), err);
}

/* ---- rewind and state ------------------------------------------------------------------------ */

weft_status weft_session_rewind(weft_session *s, int64_t length, weft_error *err)
{
    if (!s)
        return weft_fail(err, WEFT_EINVAL, "no session given");
    weft_error local;
    err = begin_call(err, &local);
    return session_rewind(s->inner, length, err);
}

int64_t weft_session_length(const weft_session *s)
{
    return s ? s->inner->cache.length : 0;
}

const int32_t *weft_session_tokens(const weft_session *s, int64_t *n)
{
    if (n)
        *n = weft_session_length(s);
    return s ? s->inner->ids : NULL;
}

const float *weft_session_logits(const weft_session *s)
{
    return s && s->inner->has_logits ? s->inner->logits : NULL;
}

int32_t weft_session_greedy(const weft_session *s)
{
    return s ? session_greedy(s->inner) : -1;
}
