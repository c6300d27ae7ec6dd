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
    *k = (subject_stage){ .n = g->n, .u = g->u, .id = g->id };
    snprintf(k->name, sizeof k->name, "%s", g->name);
    k->n_best = g->n_best < most ? (int)g->n_best : most;
    memcpy(k->best, g->best, (size_t)k->n_best * sizeof *k->best);
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
    const weft_status status = weft_sampler_stages(s, logits, n_out, ids, n, 8, keep_stage, to,
                                                   err);
    weft_sampler_free(s);
    return status;
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
                       beam_tree *to, weft_error *err)
{
    mem *m = &e->model->host.mem;
    if (page_context(&e->model->model, n) == n)
        return WEFT_OK;
    const weft_beam_options o = { .struct_size = sizeof o,
                                  .n_beam = BEAMS,
                                  .n_new = BEAM_STEPS,
                                  .length_penalty = 1,
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
