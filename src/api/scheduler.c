/* scheduler.c - the public functions of schedulers: check, translate, delegate. */
#include "engine/scheduler.h"

#include "api/api.h"

#include <string.h>

struct weft_scheduler {
    scheduler *inner;
    weft_engine *engine; /* referenced */
};

weft_scheduler *weft_scheduler_new(weft_engine *e, const weft_scheduler_options *options,
                                   weft_error *err)
{
    weft_scheduler_options o;
    weft_error local;
    err = begin_call(err, &local);
    if (!e) {
        weft_fail(err, WEFT_EINVAL, "no engine given");
        return NULL;
    }
    if (!read_options(&o, sizeof o, options, options ? options->struct_size : 0,
                      "weft_scheduler_options", err))
        return NULL;
    mem *m = &e->model->host.mem;
    weft_scheduler *s = mem_zalloc(m, 1, sizeof *s, "a scheduler", err);
    if (!s)
        return NULL;
    s->inner = scheduler_new(e->inner, &o, err);
    if (!s->inner) {
        mem_free(m, s);
        return NULL;
    }
    s->engine = e;
    hold(&e->holders);
    return s;
}

void weft_scheduler_free(weft_scheduler *s)
{
    if (!s)
        return;
    weft_engine *e = s->engine;
    scheduler_free(s->inner);
    mem_free(&e->model->host.mem, s);
    weft_engine_free(e);
}

/* What a request can have but a scheduler does not do. */
static weft_status check_generate(const weft_generate_options *o, weft_error *err)
{
    if (!o->prompt)
        return weft_fail(err, WEFT_EINVAL, "a request needs a prompt of one token or more");
    if (o->slide || o->eval_last || o->progress)
        return weft_fail(err, WEFT_EINVAL, "%s is not for requests of a scheduler",
                         o->slide       ? "slide"
                         : o->eval_last ? "eval_last"
                                        : "progress");
    if (o->n_top > WEFT_MAX_TOP)
        return weft_fail(err, WEFT_EINVAL, "n_top is %lld, expected 0 to %d", (long long)o->n_top,
                         WEFT_MAX_TOP);
    return WEFT_OK;
}

static weft_status check_request(const weft_request *r, const weft_engine *of, weft_error *err)
{
    const engine *e = of->inner;
    if (r->key && strlen(r->key) >= KEY_BYTES)
        return weft_fail(err, WEFT_EINVAL, "the key has %zu bytes, expected at most %d",
                         strlen(r->key), KEY_BYTES - 1);
    if (r->prompt_fn && !e->opt.all_rows)
        return weft_fail(err, WEFT_EINVAL,
                         "log-probabilities of prompts need an engine with all_logits");
    if (r->n_source < 0 || (r->n_source > 0 && !r->source))
        return weft_fail(err, WEFT_EINVAL, "a source of %lld tokens, but source is %s",
                         (long long)r->n_source, r->source ? "set" : "NULL");
    if (model_has_source(e->model) != (r->n_source > 0))
        return weft_fail(err, WEFT_EINVAL,
                         "%s: %s is %s encoder-decoder, but the request has %s source",
                         e->model->file.path, e->model->name, r->n_source > 0 ? "not an" : "an",
                         r->n_source > 0 ? "a" : "no");
    return check_adapter(r->adapter, r->strength, of->model, e->opt.rank, err);
}

static weft_status read_request(request_spec *to, const weft_scheduler *s, const weft_request *from,
                                weft_error *err)
{
    weft_request r;
    const weft_model *m = s->engine->model;
    if (!read_options(&r, sizeof r, from, from->struct_size, "weft_request", err))
        return err->code;
    if (!r.generate || !read_options(&to->opt, sizeof to->opt, r.generate, r.generate->struct_size,
                                     "weft_generate_options", err))
        return r.generate ? err->code : weft_fail(err, WEFT_EINVAL, "no options to generate given");
    if (take_generate_options(&to->opt, m, err) != WEFT_OK ||
        check_generate(&to->opt, err) != WEFT_OK || check_request(&r, s->engine, err) != WEFT_OK)
        return err->code;
    if (r.sampler) {
        to->samples = true;
        if (!read_sampler_options(&to->sampling, r.sampler, m, err) ||
            sampler_check(m->model.n_vocab, &to->sampling, err) != WEFT_OK)
            return err->code;
    }
    to->tokenizer = r.tokenizer ? tokenizer_inside(r.tokenizer) : NULL;
    to->pieces = &m->pieces;
    to->constraint = to->opt.constraint ? constraint_inside(to->opt.constraint) : NULL;
    to->source = r.source;
    to->n_source = r.n_source;
    to->adapted = adaption_of(r.adapter, r.strength);
    to->key = r.key ? r.key : "";
    to->priority = r.priority;
    to->fn = r.fn;
    to->prompt_fn = r.prompt_fn;
    to->done = r.done;
    to->ud = r.ud;
    return WEFT_OK;
}

uint64_t weft_scheduler_submit(weft_scheduler *s, const weft_request *r, weft_error *err)
{
    request_spec spec = { 0 };
    weft_error local;
    err = begin_call(err, &local);
    if (!s || !r) {
        weft_fail(err, WEFT_EINVAL, "no %s given", s ? "request" : "scheduler");
        return 0;
    }
    return read_request(&spec, s, r, err) == WEFT_OK ? scheduler_submit(s->inner, &spec, err) : 0;
}

bool weft_scheduler_cancel(weft_scheduler *s, uint64_t number)
{
    return s && scheduler_cancel(s->inner, number);
}

weft_status weft_scheduler_step(weft_scheduler *s, bool *more, weft_error *err)
{
    bool unread;
    weft_error local;
    err = begin_call(err, &local);
    if (!s)
        return weft_fail(err, WEFT_EINVAL, "no scheduler given");
    return scheduler_step(s->inner, more ? more : &unread, err);
}

void weft_scheduler_get_info(const weft_scheduler *s, weft_scheduler_info *info)
{
    if (!info)
        return;
    weft_scheduler_info i = { 0 };
    if (s)
        i = scheduler_info(s->inner);
    copy_result(info, info->struct_size, &i, sizeof i);
}
