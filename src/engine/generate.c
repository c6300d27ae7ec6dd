/* generate.c - the loop of generation; see generate.h. */
#include "engine/generate.h"

#include "base/clock.h"
#include "base/utf8.h"
#include "engine/logprob.h"
#include "text/stop.h"

#include <string.h>

#define PROMPT_PIECE                                                                               \
    256 /* tokens of a prompt between two calls of `progress`: the bits are the same */

typedef struct generation {
    const generate_request *r;
    session *s;
    mem *mem;
    stop stop;
    buffer held;         /* bytes that await the rest of their code point, then those shown last */
    size_t shown;        /* bytes of `held` that the last call showed */
    scratch piece;       /* bytes of a token of the model's file */
    weft_logprob *top;   /* [1 + n_top]; NULL: not requested */
    weft_generation *to; /* what the caller learns at the end */
    weft_error *err;
} generation;

static weft_status generation_eval(const generation *g, const int32_t *token, int64_t n)
{
    work w = { .session = g->s, .ids = token, .n = n };
    return engine_eval(g->s->engine, &w, 1, g->err);
}

/* ---- the prompt ------------------------------------------------------------------------------ */

/* Evaluates the prompt after the prefix that is cached. A prompt that cannot fit is evaluated
 * whole, for an error that has its true length. */
static weft_status eval_prompt(generation *g)
{
    const weft_generate_options *o = g->r->opt;
    const int64_t n = o->n_prompt, room = g->s->engine->opt.n_ctx,
                  most = n > room ? n : PROMPT_PIECE;
    weft_status status = WEFT_OK;
    if (!o->prompt)
        return WEFT_OK;
    int64_t at = session_match(g->s, o->prompt, n);
    g->to->n_reused = at;
    for (; at < n && status == WEFT_OK; at += most) {
        if (o->progress && !o->progress(o->progress_ud, (uint64_t)at, (uint64_t)n)) {
            g->to->finish = WEFT_FINISH_CALLER;
            return WEFT_OK;
        }
        status = generation_eval(g, o->prompt + at, n - at < most ? n - at : most);
    }
    return status;
}

/* ---- text ------------------------------------------------------------------------------------ */

/* The bytes of a token, or none. False without memory. */
static bool bytes_of(generation *g, int32_t id, const char **bytes, size_t *n)
{
    const generate_request *r = g->r;
    int64_t length = r->tokenizer ? tokenizer_piece(r->tokenizer, (uint32_t)id, bytes)
                                  : pieces_bytes(r->pieces, id, NULL, 0);
    *n = length > 0 ? (size_t)length : 0;
    if (r->tokenizer || length <= 0)
        return true;
    char *to = scratch_grow(&g->piece, *n, g->mem, g->err);
    if (!to)
        return false;
    pieces_bytes(r->pieces, id, to, *n);
    *bytes = to;
    return true;
}

/* Passes a token to the caller with the text that can be shown: whole code points, or at the end
 * all that is held. */
static bool show_text(generation *g, int32_t id, const char *bytes, size_t n, bool end)
{
    buffer *b = &g->held;
    if (b->n > g->shown)
        memmove(b->at, b->at + g->shown, b->n - g->shown);
    b->n -= g->shown;
    buffer_put(b, bytes, n);
    if (b->failed)
        return false;
    g->shown = end ? b->n : b->n - utf8_unfinished((const char *)b->at, b->n);
    const weft_generated now = { .id = id,
                                 .text = g->shown ? (const char *)b->at : "",
                                 .length = g->shown,
                                 .logprobs = id >= 0 ? g->top : NULL,
                                 .n_slide = g->to->n_slide };
    if (g->r->fn && (id >= 0 || g->shown > 0) && !g->r->fn(g->r->ud, &now))
        g->to->finish = WEFT_FINISH_CALLER;
    return true;
}

static weft_status put_generated(generation *g, int32_t id)
{
    const char *bytes = "";
    size_t n = 0;
    if (!bytes_of(g, id, &bytes, &n))
        return g->err->code;
    if (g->r->opt->n_stop > 0 && n > 0) {
        if (stop_push(&g->stop, bytes, n, &bytes, &n, g->err) != WEFT_OK)
            return g->err->code;
        if (g->stop.hit >= 0) {
            g->to->finish = WEFT_FINISH_STOP;
            g->to->stop = g->stop.hit;
        }
    }
    return show_text(g, id, bytes, n, false) ? WEFT_OK : g->err->code;
}

/* What looked like the start of a stop string was none. */
static weft_status put_rest(generation *g)
{
    const char *bytes = "";
    size_t n = 0;
    if (g->stop.hit < 0)
        stop_flush(&g->stop, &bytes, &n);
    const weft_finish why = g->to->finish;
    const bool good = show_text(g, -1, bytes, n, true);
    g->to->finish = why;
    return good ? WEFT_OK : g->err->code;
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static bool is_end(const weft_generate_options *o, int32_t id)
{
    for (int i = 0; i < o->n_end; i++)
        if (o->ends[i] == id)
            return true;
    return false;
}

/* The context is full: keeps its first token, if that is special, and its later half. */
static weft_status slide_context(generation *g)
{
    const session *s = g->s;
    const tokenizer *t = g->r->tokenizer;
    const int64_t n = s->cache.length, later = n / 2;
    const int64_t first = t && n > 0 && (uint32_t)s->ids[0] < t->vocab.n && t->special[s->ids[0]];
    if (later < 2)
        return WEFT_ECONTEXT;
    int32_t *kept = mem_alloc(g->mem, (size_t)(first + later) * sizeof *kept, "ids", g->err);
    if (!kept)
        return g->err->code;
    memcpy(kept, s->ids, (size_t)first * sizeof *kept);
    memcpy(kept + first, s->ids + n - later, (size_t)later * sizeof *kept);
    weft_status status = session_rewind(g->s, 0, g->err);
    if (status == WEFT_OK)
        status = generation_eval(g, kept, first + later);
    mem_free(g->mem, kept);
    g->to->n_slide += status == WEFT_OK;
    return status;
}

static weft_status append_token(generation *g, int32_t id)
{
    weft_status status = generation_eval(g, &id, 1);
    if (status != WEFT_ECONTEXT)
        return status;
    if (g->r->opt->slide) {
        status = slide_context(g);
        return status == WEFT_OK ? generation_eval(g, &id, 1) : status;
    }
    *g->err = (weft_error){ 0 };
    if (g->to->finish == WEFT_FINISH_NONE)
        g->to->finish = WEFT_FINISH_CONTEXT;
    return WEFT_OK;
}

static weft_status draw_token(generation *g, int32_t *id)
{
    const session *s = g->s;
    const int64_t V = s->engine->model->n_vocab;
    if (!s->has_logits)
        return weft_fail(g->err, WEFT_EINVAL, "the session has no logits: give a prompt");
    *id = session_greedy(s);
    if (g->r->sampler &&
        sampler_pick(g->r->sampler, s->logits, s->ids, s->cache.length, id, g->err) != WEFT_OK)
        return g->err->code;
    if (!g->top)
        return WEFT_OK;
    g->top[0] = (weft_logprob){ *id, (double)s->logits[*id] - logits_log_sum_exp(s->logits, V) };
    const int64_t n_top = g->r->opt->n_top;
    for (int64_t k = logprob_top(s->logits, V, n_top, g->top + 1); k < n_top; k++)
        g->top[1 + k].id = -1; /* the vocabulary has no more */
    return WEFT_OK;
}

/* Draws tokens until to->finish is set. */
static weft_status generate_tokens(generation *g)
{
    const weft_generate_options *o = g->r->opt;
    weft_generation *to = g->to;
    weft_status status = WEFT_OK;
    if (o->n_new < 0 && to->finish == WEFT_FINISH_NONE)
        to->finish = WEFT_FINISH_LENGTH;
    while (to->finish == WEFT_FINISH_NONE) {
        int32_t id;
        status = draw_token(g, &id);
        if (status != WEFT_OK)
            return status;
        if (!o->ignore_end && is_end(o, id)) {
            to->finish = WEFT_FINISH_END;
            to->end_id = id;
            break;
        }
        to->n_new++;
        status = put_generated(g, id);
        if (to->finish == WEFT_FINISH_NONE && to->n_new == o->n_new)
            to->finish = WEFT_FINISH_LENGTH;
        if (status == WEFT_OK && (to->finish == WEFT_FINISH_NONE || o->eval_last))
            status = append_token(g, id);
        if (status != WEFT_OK)
            return status;
    }
    return put_rest(g);
}

weft_status generate(const generate_request *r, weft_generation *to, weft_error *err)
{
    const weft_generate_options *o = r->opt;
    mem *m = &r->session->engine->model->host->mem;
    generation g = { .r = r, .s = r->session, .mem = m, .to = to, .err = err };
    *to = (weft_generation){ .stop = -1, .end_id = -1, .n_prompt = o->n_prompt };
    buffer_begin(&g.held, m, err);
    const double start = clock_seconds();
    weft_status status = stop_init(&g.stop, m, o->stop, o->n_stop, err);
    if (status == WEFT_OK && o->n_top > 0) {
        g.top = mem_alloc(m, (size_t)(1 + o->n_top) * sizeof *g.top, "log-probabilities", err);
        status = g.top ? WEFT_OK : err->code;
    }
    if (status == WEFT_OK)
        status = eval_prompt(&g);
    const double ready = clock_seconds();
    to->prompt_seconds = ready - start;
    if (status == WEFT_OK)
        status = generate_tokens(&g);
    to->generate_seconds = clock_seconds() - ready;
    stop_free(&g.stop);
    buffer_end(&g.held);
    scratch_free(&g.piece, m);
    mem_free(m, g.top);
    return status;
}
