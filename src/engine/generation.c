/* generation.c - draws, stop strings and whole code points of one text; see generation.h. */
#include "engine/generation.h"

#include "base/utf8.h"
#include "engine/forced.h"
#include "engine/logprob.h"

#include <math.h>
#include <string.h>

weft_status generation_begin(generation *g)
{
    const weft_generate_options *o = g->opt;
    g->to = (weft_generation){ .stop = -1, .end_id = -1, .n_prompt = o->n_prompt };
    buffer_begin(&g->held, g->mem, g->err);
    weft_status status = stop_init(&g->stop, g->mem, o->stop, o->n_stop, g->err);
    if (status == WEFT_OK && o->n_top > 0) {
        g->top = mem_alloc(g->mem, (size_t)(1 + o->n_top) * sizeof *g->top, "log-probabilities",
                           g->err);
        status = g->top ? WEFT_OK : g->err->code;
    }
    return status;
}

void generation_end(generation *g)
{
    stop_free(&g->stop);
    buffer_end(&g->held);
    scratch_free(&g->piece, g->mem);
    scratch_free(&g->allowed, g->mem);
    mem_free(g->mem, g->top);
    g->top = NULL;
}

/* ---- tokens ---------------------------------------------------------------------------------- */

/* Exchanges the logits of listed tokens with `kept`: twice restores them, in reverse order, since
 * a token may be listed twice. */
static void swap_logits(float *logits, int64_t V, const int32_t *list, int n, float *kept,
                        bool back)
{
    for (int i = 0; i < n; i++) {
        const int k = back ? n - 1 - i : i;
        if (list[k] < 0 || list[k] >= V)
            continue;
        const float was = logits[list[k]];
        logits[list[k]] = kept[k];
        kept[k] = was;
    }
}

/* The most probable token that the constraint allows. */
static weft_status pick_allowed(generation *g, const session *s, int32_t *id)
{
    const int64_t V = s->engine->model->n_vocab;
    if (constraint_allows(g->constraint, *id, g->err) || g->err->code != WEFT_OK)
        return g->err->code;
    uint64_t *bits = scratch_grow(&g->allowed, ((size_t)V / 64 + 1) * sizeof *bits, g->mem, g->err);
    if (!bits || constraint_mask(g->constraint, bits, V, g->err) != WEFT_OK)
        return g->err->code;
    *id = -1;
    for (int64_t i = 0; i < V; i++)
        if (bits[i / 64] >> i % 64 & 1 && s->logits[i] > -INFINITY &&
            (*id < 0 || s->logits[i] > s->logits[*id]))
            *id = (int32_t)i;
    return *id >= 0 ? WEFT_OK
                    : weft_fail(g->err, WEFT_EUNSUPPORTED,
                                "no token of the vocabulary continues the text as the constraint "
                                "demands");
}

static weft_status pick(generation *g, const session *s, int32_t *id)
{
    *id = session_greedy(s);
    if (!g->sampler)
        return g->constraint ? pick_allowed(g, s, id) : WEFT_OK;
    constraint *own = g->sampler->constraint;
    g->sampler->constraint = g->constraint ? g->constraint : own;
    const weft_status status = sampler_pick(g->sampler, s->logits, s->ids, s->cache.length, id,
                                            g->err);
    g->sampler->constraint = own;
    return status;
}

/* A pick that cannot end the text. */
static weft_status pick_more(generation *g, session *s, int32_t *id)
{
    const weft_generate_options *o = g->opt;
    const int64_t V = s->engine->model->n_vocab;
    const int n_end = o->ignore_end ? 0 : o->n_end;
    float end[WEFT_MAX_END], stop_id[WEFT_MAX_END];
    for (int i = 0; i < WEFT_MAX_END; i++)
        end[i] = stop_id[i] = -INFINITY;
    swap_logits(s->logits, V, o->ends, n_end, end, false);
    swap_logits(s->logits, V, o->stop_ids, o->n_stop_id, stop_id, false);
    const weft_status status = pick(g, s, id);
    swap_logits(s->logits, V, o->stop_ids, o->n_stop_id, stop_id, true);
    swap_logits(s->logits, V, o->ends, n_end, end, true);
    return status;
}

weft_status generation_draw(generation *g, session *s, int32_t *id)
{
    const int64_t V = s->engine->model->n_vocab, n_top = g->opt->n_top;
    if (!s->has_logits)
        return weft_fail(g->err, WEFT_EINVAL, "the session has no logits: give a prompt");
    weft_status status = WEFT_OK;
    if (!forced_next(g, id)) {
        g->forced.n = g->forced.next = 0;
        status = g->to.n_new < g->opt->n_min ? pick_more(g, s, id) : pick(g, s, id);
    }
    if (status != WEFT_OK || !g->top)
        return status;
    g->top[0] = (weft_logprob){ *id, (double)s->logits[*id] - logits_log_sum_exp(s->logits, V) };
    for (int64_t k = logprob_top(s->logits, V, n_top, g->top + 1); k < n_top; k++)
        g->top[1 + k].id = -1; /* the vocabulary has no more */
    return WEFT_OK;
}

bool generation_skip_draw(generation *g, int32_t *id)
{
    return !g->top && forced_next(g, id);
}

/* ---- text ------------------------------------------------------------------------------------ */

/* The bytes of a token, or none. False without memory. */
static bool bytes_of(generation *g, int32_t id, const char **bytes, size_t *n)
{
    const tokenizer *t = g->tokenizer;
    int64_t length = t ? tokenizer_piece(t, (uint32_t)id, bytes)
                       : pieces_bytes(g->pieces, id, NULL, 0);
    *n = length > 0 ? (size_t)length : 0;
    if (t || length <= 0)
        return true;
    char *to = scratch_grow(&g->piece, *n, g->mem, g->err);
    if (!to)
        return false;
    pieces_bytes(g->pieces, id, to, *n);
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
                                 .n_slide = g->to.n_slide };
    if (g->fn && (id >= 0 || g->shown > 0) && !g->fn(g->ud, &now))
        g->to.finish = WEFT_FINISH_CALLER;
    return true;
}

static weft_status put_text(generation *g, int32_t id)
{
    const char *bytes = "";
    size_t n = 0;
    if (!bytes_of(g, id, &bytes, &n))
        return g->err->code;
    if (g->opt->n_stop > 0 && n > 0 && g->to.n_new > g->opt->n_min) {
        if (stop_push(&g->stop, bytes, n, &bytes, &n, g->err) != WEFT_OK)
            return g->err->code;
        if (g->stop.hit >= 0) {
            g->to.finish = WEFT_FINISH_STOP;
            g->to.stop = g->stop.hit;
        }
    }
    return show_text(g, id, bytes, n, false) ? WEFT_OK : g->err->code;
}

weft_status generation_put(generation *g, int32_t id)
{
    if (g->constraint && constraint_accept(g->constraint, id, g->err) != WEFT_OK)
        return g->err->code;
    if (generation_ends(g, id)) {
        g->to.finish = WEFT_FINISH_END;
        g->to.end_id = id;
        return WEFT_OK;
    }
    g->to.n_new++;
    const weft_status status = put_text(g, id);
    if (g->to.finish == WEFT_FINISH_NONE && g->constraint && constraint_done(g->constraint))
        g->to.finish = WEFT_FINISH_END;
    if (g->to.finish == WEFT_FINISH_NONE && g->to.n_new == g->opt->n_new)
        g->to.finish = WEFT_FINISH_LENGTH;
    const bool drawn = g->forced.n == 0;
    return status == WEFT_OK && g->to.finish == WEFT_FINISH_NONE && drawn ? forced_find(g) : status;
}

/* What looked like the start of a stop string was none. */
weft_status generation_rest(generation *g)
{
    const char *bytes = "";
    size_t n = 0;
    if (g->stop.hit < 0)
        stop_flush(&g->stop, &bytes, &n);
    const weft_finish why = g->to.finish;
    const bool good = show_text(g, -1, bytes, n, true);
    g->to.finish = why;
    return good ? WEFT_OK : g->err->code;
}
