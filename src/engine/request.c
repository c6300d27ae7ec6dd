/* request.c - copies, tokens and text of a request. */
#include "engine/request.h"

#include "engine/logprob.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* ---- life ------------------------------------------------------------------------------------ */

/* A copy of n objects, or NULL for none; *good is false without memory. */
static void *copy_of(mem *m, const void *from, int64_t n, size_t size, bool *good, weft_error *err)
{
    if (n == 0)
        return NULL;
    void *to = mem_alloc(m, (size_t)n * size, "a request", err);
    if (to)
        memcpy(to, from, (size_t)n * size);
    *good = *good && to;
    return to;
}

/* Replaces the spec's arrays by copies. All are set, also on failure, so that they can be freed. */
static bool copy_arrays(request_spec *s, mem *m, weft_error *err)
{
    bool good = true;
    weft_generate_options *o = &s->opt;
    weft_sampler_options *z = &s->sampling;
    o->ends = copy_of(m, o->ends, o->n_end, sizeof *o->ends, &good, err);
    o->stop_ids = copy_of(m, o->stop_ids, o->n_stop_id, sizeof *o->stop_ids, &good, err);
    z->bias = copy_of(m, z->bias, z->n_bias, sizeof *z->bias, &good, err);
    z->breakers = copy_of(m, z->breakers, z->n_breaker, sizeof *z->breakers, &good, err);
    z->chain = z->chain ? copy_of(m, z->chain, (int64_t)strlen(z->chain) + 1, 1, &good, err) : NULL;
    s->source = copy_of(m, s->source, s->n_source, sizeof *s->source, &good, err);
    return good;
}

static bool copy_prompt(request *r, const engine *e, mem *m, weft_error *err)
{
    const weft_generate_options *o = &r->spec.opt;
    const int64_t most = e->opt.n_ctx - o->n_prompt;
    r->room = o->n_prompt + (o->n_new > 0 && o->n_new < most ? o->n_new : most);
    r->ids = mem_alloc(m, (size_t)r->room * sizeof *r->ids, "a request", err);
    if (!r->ids)
        return false;
    memcpy(r->ids, o->prompt, (size_t)o->n_prompt * sizeof *r->ids);
    r->n_id = o->n_prompt;
    if (!r->spec.prompt_fn)
        return true;
    const int64_t rows = o->n_prompt < e->opt.n_batch ? o->n_prompt : e->opt.n_batch;
    r->told = mem_alloc(m, (size_t)(rows * (1 + o->n_top)) * sizeof *r->told, "a request", err);
    return r->told != NULL;
}

request *request_new(const request_spec *from, const engine *e, weft_error *err)
{
    mem *m = &e->model->host->mem;
    request *r = mem_zalloc(m, 1, sizeof *r, "a request", err);
    if (!r)
        return NULL;
    r->spec = *from;
    r->key = -1;
    snprintf(r->key_name, sizeof r->key_name, "%s", from->key);
    r->spec.key = r->key_name;
    lora_set_hold(r->spec.adapted.set);
    r->text = (generation){ .mem = m,
                            .n_vocab = e->model->n_vocab,
                            .tokenizer = from->tokenizer,
                            .pieces = from->pieces,
                            .opt = &r->spec.opt,
                            .constraint = from->constraint,
                            .fn = from->fn,
                            .ud = from->ud,
                            .err = &r->err };
    const bool arrays = copy_arrays(&r->spec, m, err), prompt = copy_prompt(r, e, m, err);
    if (arrays && prompt) {
        if (generation_begin(&r->text) == WEFT_OK) {
            r->spec.opt.stop = NULL; /* copied by the generation */
            r->spec.opt.prompt = NULL;
            return r;
        }
        *err = r->err;
    }
    request_free(r, m);
    return NULL;
}

static void drop_copy(mem *m, const void *block)
{
    mem_free(m, (void *)(uintptr_t)block);
}

void request_free(request *r, mem *m)
{
    if (!r)
        return;
    assert(!r->session);
    generation_end(&r->text);
    drop_copy(m, r->spec.opt.ends);
    drop_copy(m, r->spec.opt.stop_ids);
    drop_copy(m, r->spec.sampling.bias);
    drop_copy(m, r->spec.sampling.breakers);
    drop_copy(m, r->spec.sampling.chain);
    drop_copy(m, r->spec.source);
    lora_set_drop(r->spec.adapted.set);
    mem_free(m, r->ids);
    mem_free(m, r->told);
    mem_free(m, r);
}

/* ---- sessions -------------------------------------------------------------------------------- */

int64_t request_sharable(const request *r)
{
    const int64_t n_prompt = r->spec.opt.n_prompt;
    if (!r->told || r->n_told == n_prompt)
        return r->n_id - 1;
    return r->n_told > 0 ? r->n_told - 1 : 0;
}

/* The logits after token p of the prompt are those of token p + 1. */
static void read_prompt_row(void *ud, int64_t position, const float *logits)
{
    request *r = ud;
    const int64_t V = r->session->engine->model->n_vocab, n_top = r->spec.opt.n_top;
    const int64_t next = position + 1, first = r->n_told > 0 ? r->n_told : 1;
    if (next < first || next >= r->spec.opt.n_prompt)
        return;
    weft_logprob *to = r->told + (next - first) * (1 + n_top);
    to[0] = (weft_logprob){ r->ids[next],
                            (double)logits[r->ids[next]] - logits_log_sum_exp(logits, V) };
    for (int64_t k = logprob_top(logits, V, n_top, to + 1); k < n_top; k++)
        to[1 + k].id = -1; /* the vocabulary has no more */
}

weft_status request_begin(request *r, session *s)
{
    engine *e = s->engine;
    weft_status status = WEFT_OK;
    if (r->spec.samples && !r->text.sampler) {
        r->text.sampler = sampler_new(r->text.mem, e->model->n_vocab, &r->spec.sampling, &r->err);
        status = r->text.sampler ? WEFT_OK : r->err.code;
    }
    if (status == WEFT_OK)
        status = session_adapt(s, r->spec.adapted.set, r->spec.adapted.strength, &r->err);
    if (status == WEFT_OK && r->spec.source)
        status = engine_encode(e, &(source_text){ s, r->spec.source, r->spec.n_source }, 1,
                               &r->err);
    if (status == WEFT_OK) {
        if (r->text.sampler && r->began)
            r->text.sampler->mu = r->mu;
        s->read = r->told ? read_prompt_row : NULL;
        s->read_ud = r;
        r->session = s;
        r->began = true;
        return WEFT_OK;
    }
    session_drop_adapter(s);
    sampler_free(r->text.sampler);
    r->text.sampler = NULL;
    return status;
}

session *request_pause(request *r)
{
    session *s = r->session;
    if (!s)
        return NULL;
    if (r->text.sampler)
        r->mu = r->text.sampler->mu;
    sampler_free(r->text.sampler);
    r->text.sampler = NULL;
    session_drop_adapter(s);
    s->read = NULL;
    s->read_ud = NULL;
    r->session = NULL;
    r->n_kept = 0;
    return s;
}

/* ---- text ------------------------------------------------------------------------------------ */

void request_tell_prompt(request *r)
{
    const int64_t n_prompt = r->spec.opt.n_prompt, length = r->session->cache.length;
    if (!r->told || length == 0)
        return;
    if (r->n_told == 0)
        r->spec.prompt_fn(r->spec.ud, r->n_told++, r->ids[0], NULL);
    const weft_logprob *at = r->told;
    for (; r->n_told <= length && r->n_told < n_prompt; at += 1 + r->spec.opt.n_top) {
        const int64_t i = r->n_told++;
        r->spec.prompt_fn(r->spec.ud, i, r->ids[i], at);
    }
    if (r->n_told == n_prompt)
        r->session->read = NULL;
}

void request_draw(request *r)
{
    r->err = (weft_error){ 0 };
    generation_draw(&r->text, r->session, &r->drawn);
}

/* A token that was put: the context is full, or it is evaluated next. */
static void append(request *r, int32_t id, int64_t n_ctx)
{
    if (r->n_id == n_ctx)
        r->text.to.finish = WEFT_FINISH_CONTEXT;
    else
        r->ids[r->n_id++] = id;
}

weft_status request_take_token(request *r, int64_t n_ctx)
{
    generation *g = &r->text;
    int32_t id = r->drawn;
    weft_status status = generation_put(g, id);
    if (status == WEFT_OK && g->to.finish == WEFT_FINISH_NONE)
        append(r, id, n_ctx);
    while (status == WEFT_OK && g->to.finish == WEFT_FINISH_NONE && generation_skip_draw(g, &id)) {
        status = generation_put(g, id);
        if (status == WEFT_OK && g->to.finish == WEFT_FINISH_NONE)
            append(r, id, n_ctx);
    }
    if (status == WEFT_OK && g->to.finish != WEFT_FINISH_NONE)
        status = generation_rest(g);
    return status;
}
