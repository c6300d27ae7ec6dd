/* generate.c - the loop of generation in one session; see generate.h. */
#include "engine/generate.h"

#include "base/clock.h"

#include <string.h>

#define PROMPT_PIECE                                                                               \
    256 /* tokens of a prompt between two calls of `progress`: the bits are the same */

static weft_status eval_tokens(const generation *g, session *s, const int32_t *token, int64_t n)
{
    work w = { .session = s, .ids = token, .n = n };
    return engine_eval(s->engine, &w, 1, g->err);
}

/* Evaluates the prompt after the prefix that is cached. A prompt that cannot fit is evaluated
 * whole, for an error that has its true length. */
static weft_status eval_prompt(generation *g, session *s)
{
    const weft_generate_options *o = g->opt;
    const int64_t n = o->n_prompt, room = s->engine->opt.n_ctx, most = n > room ? n : PROMPT_PIECE;
    weft_status status = WEFT_OK;
    if (!o->prompt)
        return WEFT_OK;
    int64_t at = session_match(s, o->prompt, n);
    g->to.n_reused = at;
    for (; at < n && status == WEFT_OK; at += most) {
        if (o->progress && !o->progress(o->progress_ud, (uint64_t)at, (uint64_t)n)) {
            g->to.finish = WEFT_FINISH_CALLER;
            return WEFT_OK;
        }
        status = eval_tokens(g, s, o->prompt + at, n - at < most ? n - at : most);
    }
    return status;
}

/* The context is full: keeps its first token, if that is special, and its later half. */
static weft_status slide_context(generation *g, session *s)
{
    const tokenizer *t = g->tokenizer;
    const int64_t n = s->cache.length, later = n / 2;
    const int64_t first = t && n > 0 && (uint32_t)s->ids[0] < t->vocab.n && t->special[s->ids[0]];
    if (later < 2)
        return WEFT_ECONTEXT;
    int32_t *kept = mem_alloc(g->mem, (size_t)(first + later) * sizeof *kept, "ids", g->err);
    if (!kept)
        return g->err->code;
    memcpy(kept, s->ids, (size_t)first * sizeof *kept);
    memcpy(kept + first, s->ids + n - later, (size_t)later * sizeof *kept);
    weft_status status = session_rewind(s, 0, g->err);
    if (status == WEFT_OK)
        status = eval_tokens(g, s, kept, first + later);
    mem_free(g->mem, kept);
    g->to.n_slide += status == WEFT_OK;
    return status;
}

static weft_status append_tokens(generation *g, session *s, const int32_t *token, int64_t n)
{
    weft_status status = eval_tokens(g, s, token, n);
    if (status != WEFT_ECONTEXT)
        return status;
    if (g->opt->slide) {
        status = slide_context(g, s);
        return status == WEFT_OK ? eval_tokens(g, s, token, n) : status;
    }
    *g->err = (weft_error){ 0 };
    if (g->to.finish == WEFT_FINISH_NONE)
        g->to.finish = WEFT_FINISH_CONTEXT;
    return WEFT_OK;
}

/* Draws a token, and puts it with those that follow without a draw, as many as the context holds. */
static weft_status put_tokens(generation *g, session *s, int32_t *token, int64_t *n)
{
    const int64_t room = s->engine->opt.n_ctx - s->cache.length;
    weft_status status = generation_draw(g, s, &token[0]);
    if (status == WEFT_OK)
        status = generation_put(g, token[0]);
    for (*n = 1; status == WEFT_OK && g->to.finish == WEFT_FINISH_NONE && *n < room; ++*n) {
        if (!generation_skip_draw(g, &token[*n]))
            break;
        status = generation_put(g, token[*n]);
    }
    return status;
}

/* Draws tokens until the text ends. The token that ends it is evaluated only if asked for. */
static weft_status generate_tokens(generation *g, session *s)
{
    weft_status status = WEFT_OK;
    if (g->opt->n_new < 0 && g->to.finish == WEFT_FINISH_NONE)
        g->to.finish = WEFT_FINISH_LENGTH;
    while (g->to.finish == WEFT_FINISH_NONE) {
        int32_t token[1 + FORCED_MOST];
        int64_t n;
        status = put_tokens(g, s, token, &n);
        const weft_finish end = g->to.finish;
        n -= end != WEFT_FINISH_NONE && !(g->opt->eval_last && g->to.end_id < 0);
        if (status == WEFT_OK && n > 0)
            status = append_tokens(g, s, token, n);
        if (status != WEFT_OK)
            return status;
    }
    return generation_rest(g);
}

weft_status generate(session *s, generation *g)
{
    const double start = clock_seconds();
    weft_status status = generation_begin(g);
    if (status == WEFT_OK)
        status = eval_prompt(g, s);
    const double ready = clock_seconds();
    g->to.prompt_seconds = ready - start;
    if (status == WEFT_OK)
        status = generate_tokens(g, s);
    g->to.generate_seconds = clock_seconds() - ready;
    generation_end(g);
    return status;
}
