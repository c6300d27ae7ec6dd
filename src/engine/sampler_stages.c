/* sampler_stages.c - shows what each stage of a pick leaves.
 *
 * It is the pick itself that is watched. Two things must not notice: the sums, whose order of
 * addition depends on how many places are sorted, so the number of sorted places is put back after
 * each look; and mirostat, whose mu is put back at the end. */
#include "engine/sampler.h"

typedef struct stages {
    sampler_watch watch;
    weft_candidate *room; /* [k] */
    int64_t k;
    weft_sampler_stage_fn *fn;
    void *ud;
} stages;

/* The best of what remains; returns how many there are in room. */
static int64_t look(const stages *w, sampler *s)
{
    const int64_t n = s->end - s->first, most = n < w->k ? n : w->k;
    const double all = n > 0 ? sampler_sum(s).w : 1;
    for (int64_t i = 0; i < most; i++) {
        const double p = sampler_weight(s, s->first + i) / all;
        const double z = (double)order_score(&s->order, s->first + i);
        w->room[i] = (weft_candidate){ order_id(&s->order, s->first + i), z / s->temperature, p };
    }
    return most;
}

/* While scores still change there is no order, so one is made for the look. */
static weft_status see(sampler_watch *watch, sampler *s, const char *stage, weft_error *err)
{
    const stages *w = (const stages *)watch;
    const bool unordered = s->end == 0;
    if (unordered) {
        order_begin(&s->order, s->z, s->n_vocab, s->places);
        s->end = s->order.n;
    }
    const int64_t led = s->order.led, n_best = look(w, s);
    const weft_sampler_stage seen = {
        .struct_size = sizeof seen,
        .name = stage,
        .n = s->end - s->first,
        .n_best = n_best,
        .best = w->room,
        .u = s->u,
        .id = s->chosen < 0 ? -1 : order_id(&s->order, s->chosen),
    };
    s->order.led = led;
    s->end = unordered ? 0 : s->end;
    return w->fn(w->ud, &seen) ? WEFT_OK : weft_fail(err, WEFT_ESTOPPED, "stopped after %s", stage);
}

weft_status sampler_stages(sampler *s, const float *logits, const int32_t *ids, int64_t n,
                           int64_t k, weft_sampler_stage_fn *fn, void *ud, weft_error *err)
{
    stages w = { { see }, NULL, k < s->n_vocab ? k : s->n_vocab, fn, ud };
    w.room = mem_zalloc(s->mem, (size_t)w.k + 1, sizeof *w.room, "stages of a sampler", err);
    if (!w.room)
        return WEFT_ENOMEM;
    const double mu = s->mu;
    int32_t id;
    s->watch = &w.watch;
    const weft_status status = sampler_pick(s, logits, ids, n, &id, err);
    s->watch = NULL;
    s->mu = mu;
    if (status != WEFT_OK)
        s->first = s->end = 0; /* nothing was drawn */
    mem_free(s->mem, w.room);
    return status;
}
