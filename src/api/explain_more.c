/* explain_more.c - fills the parts of a subject that explain.h lists, by the public functions that
 * a caller would use. */
#include "api/api.h"
#include "api/explain.h"
#include "base/clock.h"

#include <stdio.h>
#include <string.h>

/* ---- stages ---------------------------------------------------------------------------------- */

static bool keep_stage(void *ud, const weft_sampler_stage *g)
{
    subject *to = ud;
    if (to->n_stage == MAX_STAGE)
        return true;
    subject_stage *k = &to->stage[to->n_stage++];
    const int most = sizeof k->best / sizeof *k->best;
    *k = (subject_stage){ .n = g->n, .u = g->u, .drawn.id = -1 };
    snprintf(k->name, sizeof k->name, "%s", g->name);
    k->n_best = g->n_best < most ? (int)g->n_best : most;
    memcpy(k->best, g->best, (size_t)k->n_best * sizeof *k->best);
    for (int64_t i = 0; g->id >= 0 && i < g->n_best; i++)
        if (g->best[i].id == g->id)
            k->drawn = g->best[i];
    return true;
}

weft_status take_stages(weft_model *m, const float *logits, const int32_t *ids, int64_t n,
                        subject *to, weft_error *err)
{
    const int64_t n_out = m->model.n_out;
    to->sampler = (weft_sampler_options){ .struct_size = sizeof to->sampler,
                                          .temperature = 0.8,
                                          .top_k = n_out < 40 ? n_out : 40,
                                          .top_p = 0.95 };
    weft_sampler *s = weft_sampler_new(m, &to->sampler, err);
    if (!s)
        return err->code;
    /* As many as top_k keeps: the one drawn is among them. */
    const weft_status status = weft_sampler_stages(s, logits, n_out, ids, n, to->sampler.top_k,
                                                   keep_stage, to, err);
    weft_sampler_free(s);
    return status;
}

/* ---- what an encoder-decoder and an image read ------------------------------------------------ */

weft_status translate_greedily(weft_model *m, const weft_explain_options *o, int64_t most,
                               int32_t *ids, int64_t *n, weft_error *err)
{
    const weft_engine_options shape = { .struct_size = sizeof shape,
                                        .threads = o->threads,
                                        .n_session = 1,
                                        .n_ctx = most > o->n_source ? most : o->n_source,
                                        .kv_type = WEFT_KV_F32 };
    const weft_beam_options one = { .struct_size = sizeof one,
                                    .n_beam = 1,
                                    .n_new = most,
                                    .stop = WEFT_BEAM_STOP_GUESS,
                                    .source = o->source,
                                    .n_source = o->n_source };
    weft_engine *e = weft_engine_new(m, &shape, err);
    ids[0] = (int32_t)m->model.start;
    *n = 1;
    weft_beams *found = e ? weft_beam_search(e, ids, 1, &one, err) : NULL;
    if (found) {
        const weft_beam *best = &found->beam[0];
        const int64_t left = best->ended ? best->n - 1 : best->n;
        *n += left < most ? left : most - 1;
        memcpy(ids + 1, best->ids, (size_t)(*n - 1) * sizeof *ids);
    }
    weft_beams_free(found);
    weft_engine_free(e);
    return err->code;
}

size_t name_image_row(const model *m, int64_t i, char *to, size_t size)
{
    static const char *const lead[] = { "[CLS]", "[DIST]" };
    const image_shape *s = &m->image;
    const int64_t patch = i - s->n_lead, across = s->width / s->patch;
    return patch < 0 ? (size_t)snprintf(to, size, "%s", lead[i])
                     : (size_t)snprintf(to, size, "%lld,%lld", (long long)(patch / across),
                                        (long long)(patch % across));
}

/* ---- beams ----------------------------------------------------------------------------------- */

int64_t page_context(const model *m, int64_t n)
{
    const int64_t old = (int64_t)m->rope.old_ctx, most = n + BEAM_STEPS;
    const bool other = m->rope.scaling == ROPE_LONG && n <= old && most > old;
    return other || (m->n_ctx > 0 && most > m->n_ctx) ? n : most;
}

static bool keep_node(void *ud, const weft_beam_node *n)
{
    beam_tree *t = ud;
    if (t->n < t->room)
        t->at[t->n++] = *n;
    return true;
}

weft_status grow_beams(weft_engine *e, const weft_session *s, const int32_t *ids, int64_t n,
                       const weft_explain_options *from, beam_tree *to, weft_error *err)
{
    mem *m = &e->model->host.mem;
    if (page_context(&e->model->model, n) == n)
        return WEFT_OK;
    const weft_beam_options o = { .struct_size = sizeof o,
                                  .n_beam = BEAMS,
                                  .n_new = BEAM_STEPS,
                                  .length_penalty = 1,
                                  .source = from->source,
                                  .n_source = from->n_source,
                                  .fn = keep_node,
                                  .ud = to,
                                  .session = s };
    to->room = 2 * BEAMS * BEAM_STEPS;
    to->at = mem_zalloc(m, (size_t)to->room, sizeof *to->at, "beams", err);
    if (to->at)
        weft_beams_free(weft_beam_search(e, ids, n, &o, err));
    return err->code;
}

/* ---- the cache ------------------------------------------------------------------------------- */

#define TIMED 16 /* tokens at most: a page should not take long */

/* Seconds of evaluating ids[from .. to), the session holding what is before them. */
static double time_ids(weft_session *s, const int32_t *ids, int64_t from, int64_t to,
                       weft_error *err)
{
    if (weft_session_rewind(s, from, err) != WEFT_OK)
        return 0;
    const double began = clock_seconds();
    weft_session_eval(s, ids + from, to - from, err);
    return clock_seconds() - began;
}

weft_status time_cache(weft_session *s, const int32_t *ids, int64_t n, subject *to, weft_error *err)
{
    const int64_t t = n < TIMED ? n : TIMED;
    if (t < 2)
        return WEFT_OK;
    const double without = time_ids(s, ids, 0, t, err);
    if (err->code == WEFT_OK)
        to->timed = (cache_point){ t, time_ids(s, ids, t - 1, t, err), without };
    return err->code;
}
