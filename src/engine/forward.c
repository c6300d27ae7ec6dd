/* forward.c - plans the memory of a forward, and allocates it.
 *
 * The plan runs the real forward code over the largest batch, with a data arena that only counts.
 * So it cannot drift from the memory that a forward needs. */
#include "engine/forward.h"

#include <math.h>

/* Heads pass logits to a reader in parts; a dry run has no reader. */
static void discard_logits(void *ud, const tensor *z, int64_t first)
{
    (void)ud, (void)z, (void)first;
}

/* NULL: nothing more than the forward itself. */
static void forward_show(run *r, const trace_parts *show)
{
    r->show = show ? *show : (trace_parts){ 0 };
    r->loss_numbers = r->show.all_logits ? INT64_MAX : 0;
}

weft_status forward_predict(const model *m, const batch *b, forward_fn *fn, const void *how,
                            const trace_parts *show, forward_plan *plan, weft_error *err)
{
    run dry;
    const weft_status status = run_init_dry(&dry, &m->host->mem, 1, err);
    if (status != WEFT_OK)
        return status;
    forward_show(&dry, show);
    dry.read = discard_logits;
    run_begin(&dry, b);
    fn(&dry, m, how);
    *plan = (forward_plan){ dry.meta.peak, dry.data.peak, dry.scratch_peak };
    run_free(&dry);
    return WEFT_OK;
}

weft_status forward_make(run *r, const model *m, const forward_plan *plan, const trace_parts *show,
                         pool *threads, logits_fn *read, void *ud, weft_error *err)
{
    run fresh;
    const weft_status status = run_init(&fresh, &m->host->mem, plan->meta, plan->data,
                                        plan->scratch, err);
    if (status != WEFT_OK)
        return status;
    run_free(r);
    *r = fresh;
    r->kern = m->kern;
    r->pool = threads;
    forward_show(r, show);
    r->read = read;
    r->read_ud = ud;
    return WEFT_OK;
}

bool forward_shows(const run *r, const trace_parts *show)
{
    return r->show.maps == show->maps && r->show.open == show->open && r->show.lens == show->lens &&
           r->show.all_logits == show->all_logits;
}

void forward_watch(run *r, const trace_spec *w)
{
    r->trace = w->trace;
    r->trace_ud = w->trace_ud;
    r->hook = w->hook;
    r->hook_ud = w->hook_ud;
    r->observe = w->observe;
    r->observe_ud = w->observe_ud;
}

weft_status rank_check(int64_t rank, weft_error *err)
{
    if (rank >= 0 && rank <= MAX_ADAPTER_RANK)
        return WEFT_OK;
    return weft_fail(err, WEFT_EINVAL, "adapter_rank is %lld, expected 0 to %d", (long long)rank,
                     MAX_ADAPTER_RANK);
}

weft_status adaption_check(adaption a, int64_t rank, weft_error *err)
{
    const lora_set *set = a.set;
    if (!isfinite(a.strength))
        return weft_fail(err, WEFT_EINVAL, "the strength of an adapter must be finite");
    if (set && set->rank > rank)
        return weft_fail(err, WEFT_EINVAL,
                         "an adapter of rank %lld; the engine was made for ranks up to %lld: raise "
                         "adapter_rank",
                         (long long)set->rank, (long long)rank);
    if (set && (set->replaces || set->scales) && a.strength != 0 && a.strength != 1)
        return weft_fail(err, WEFT_EINVAL,
                         "an adapter with whole weights or gains has strength 0 or 1, not %g",
                         (double)a.strength);
    return WEFT_OK;
}
