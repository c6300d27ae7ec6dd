/* measure.c - the public functions that measure models: check, translate, delegate. */
#include "api/api.h"
#include "engine/encode.h"
#include "engine/estimate.h"
#include "engine/evaluate.h"

#include <math.h>

/* ---- evaluation ------------------------------------------------------------------------------ */

typedef struct listener {
    weft_evaluate_fn *fn;
    void *ud;
} listener;

static weft_evaluation summary(const evaluation *e)
{
    const double n = (double)(e->n_token > 0 ? e->n_token : 1);
    return (weft_evaluation){
        .struct_size = sizeof(weft_evaluation),
        .n_token = e->n_token,
        .n_total = e->n_total,
        .stopped = e->stopped,
        .nll = e->nll / n,
        .perplexity = exp(e->nll / n),
        .against_nll = e->against_nll / n,
        .against_perplexity = exp(e->against_nll / n),
        .kl_mean = e->kl / n,
        .kl_p99 = e->kl_p99,
        .kl_max = e->kl_max,
        .same_top = (double)e->n_same / n,
    };
}

static bool tell(void *ud, const evaluation *so_far)
{
    const listener *l = ud;
    const weft_evaluation s = summary(so_far);
    return l->fn(l->ud, &s);
}

weft_status weft_evaluate(weft_model *m, weft_model *against, const weft_document *documents,
                          int64_t n, const weft_evaluate_options *options, weft_evaluation *result,
                          weft_error *err)
{
    weft_evaluate_options o;
    evaluation sum;
    weft_error local;
    err = begin_call(err, &local);
    if (!m || !documents || n < 1)
        return weft_fail(err, WEFT_EINVAL, "no %s given", m ? "document" : "model");
    for (int64_t i = 0; i < n; i++)
        if (documents[i].n < 0 || (documents[i].n > 0 && !documents[i].ids))
            return weft_fail(err, WEFT_EINVAL, "document %lld: %lld tokens, but ids is NULL",
                             (long long)i, (long long)documents[i].n);
    if (!result_fits(result, "weft_evaluation", err) ||
        !read_options(&o, sizeof o, options, options ? options->struct_size : 0,
                      "weft_evaluate_options", err))
        return err->code;
    const weft_engine_options shape = { .struct_size = sizeof shape,
                                        .threads = o.threads,
                                        .n_batch = o.n_batch,
                                        .n_ctx = o.n_ctx,
                                        .kv_type = o.kv_type ? o.kv_type : WEFT_KV_F32 };
    listener l = { o.progress, o.progress_ud };
    evaluate_options inner = { .stride = o.stride, .progress = o.progress ? tell : NULL, .ud = &l };
    if (!take_engine_options(&shape, &inner.engine, err) ||
        !take_kv_type(o.against_kv_type, &inner.against_kv, err))
        return err->code;
    if (o.adapter && !adapter_fits(o.adapter, m, err))
        return err->code;
    inner.adapted = (adaption){ o.adapter ? adapter_set(o.adapter) : NULL, (real)o.strength };
    document *d = mem_zalloc(&m->host.mem, (size_t)n, sizeof *d, "documents", err);
    if (!d)
        return err->code;
    for (int64_t i = 0; i < n; i++)
        d[i] = (document){ documents[i].ids, documents[i].n };
    const weft_status status = evaluate(&m->model, against ? &against->model : NULL, d, n, &inner,
                                        &sum, err);
    mem_free(&m->host.mem, d);
    if (status != WEFT_OK)
        return status;
    weft_evaluation s = summary(&sum);
    copy_result(result, result->struct_size, &s, sizeof s);
    return WEFT_OK;
}

/* ---- cost and speed -------------------------------------------------------------------------- */

weft_status weft_model_get_cost(weft_model *m, int64_t n_ctx, weft_model_cost *result,
                                weft_error *err)
{
    part_cost found[N_PART];
    weft_error local;
    err = begin_call(err, &local);
    if (!m)
        return weft_fail(err, WEFT_EINVAL, "no model given");
    if (!result_fits(result, "weft_model_cost", err))
        return err->code;
    engine_options generating = { .n_ctx = n_ctx };
    encode_engine_options reading = { .n_ctx = n_ctx };
    const bool generates = m->model.task == WEFT_TASK_GENERATE;
    if ((generates ? engine_resolve(&m->model, &generating, err)
                   : encode_engine_resolve(&m->model, &reading, err)) != WEFT_OK ||
        model_cost(&m->model, generates ? generating.n_ctx : reading.n_ctx, found, err) != WEFT_OK)
        return err->code;
    weft_model_cost out = { 0 };
    weft_part *const to[N_PART] = { &out.embedding, &out.attention, &out.feed_forward, &out.head };
    for (int i = 0; i < N_PART; i++)
        *to[i] = (weft_part){ found[i].n_parameter, found[i].bytes, found[i].flops };
    copy_result(result, result->struct_size, &out, sizeof out);
    return WEFT_OK;
}

weft_status weft_engine_estimate(weft_model *m, const weft_engine_options *options,
                                 weft_speed *result, weft_error *err)
{
    engine_options o;
    speed s;
    weft_error local;
    err = begin_call(err, &local);
    if (!m)
        return weft_fail(err, WEFT_EINVAL, "no model given");
    if (!result_fits(result, "weft_speed", err) || !take_engine_options(options, &o, err) ||
        engine_resolve(&m->model, &o, err) != WEFT_OK ||
        engine_estimate(&m->model, &o, &s, err) != WEFT_OK)
        return err->code;
    weft_speed out = { .n_prompt = s.n_prompt,
                       .prompt = s.prompt,
                       .generate = s.generate,
                       .read_rate = s.read,
                       .product_rate = s.products,
                       .seconds = s.seconds };
    copy_result(result, result->struct_size, &out, sizeof out);
    return WEFT_OK;
}
