/* encode.c - the public functions of encoders: check, translate, delegate. */
#include "api/api.h"

#include "engine/encode.h"

static bool take_encoder_options(const weft_encoder_options *from, encode_engine_options *to,
                                 weft_error *err)
{
    weft_encoder_options o;
    if (!read_options(&o, sizeof o, from, from ? from->struct_size : 0, "weft_encoder_options",
                      err))
        return false;
    *to = (encode_engine_options){ o.threads, o.n_batch,   o.n_ctx,       o.output,
                                   o.pooling, o.normalize, o.adapter_rank };
    return true;
}

weft_encoder *weft_encoder_new(weft_model *m, const weft_encoder_options *options, weft_error *err)
{
    encode_engine_options o;
    weft_error local;
    err = begin_call(err, &local);
    if (!m) {
        weft_fail(err, WEFT_EINVAL, "no model given");
        return NULL;
    }
    if (!take_encoder_options(options, &o, err))
        return NULL;
    weft_encoder *e = mem_zalloc(&m->host.mem, 1, sizeof *e, "encoder", err);
    if (!e)
        return NULL;
    e->model = m;
    e->inner = encode_engine_new(&m->model, &o, err);
    if (!e->inner) {
        mem_free(&m->host.mem, e);
        return NULL;
    }
    hold(&m->holders);
    return e;
}

void weft_encoder_free(weft_encoder *e)
{
    if (!e)
        return;
    weft_model *m = e->model;
    encode_engine_free(e->inner);
    mem_free(&m->host.mem, e);
    weft_model_close(m);
}

weft_status weft_encoder_plan(weft_model *m, const weft_encoder_options *options,
                              weft_memory_plan *plan, weft_error *err)
{
    encode_engine_options o;
    encode_engine_plan p;
    weft_error local;
    err = begin_call(err, &local);
    if (!m)
        return weft_fail(err, WEFT_EINVAL, "no model given");
    if (!result_fits(plan, "weft_memory_plan", err) || !take_encoder_options(options, &o, err) ||
        encode_engine_resolve(&m->model, &o, err) != WEFT_OK ||
        encode_engine_predict(&m->model, &o, NULL, &p, err) != WEFT_OK)
        return err->code;
    weft_memory_plan out = { .step_bytes = p.forward.meta + p.forward.data + p.forward.scratch,
                             .n_ctx = o.n_ctx,
                             .total_bytes = p.total,
                             .panel_bytes = p.panels };
    copy_result(plan, plan->struct_size, &out, sizeof out);
    return WEFT_OK;
}

int64_t weft_encoder_width(const weft_encoder *e)
{
    return e ? encode_engine_width(e->inner) : 0;
}

int64_t weft_encoder_rows(const weft_encoder *e, const weft_input *input)
{
    return e && input ? encode_engine_rows(e->inner, input) : 0;
}

weft_status weft_encoder_adapt(weft_encoder *e, weft_adapter *a, double strength, weft_error *err)
{
    weft_error local;
    err = begin_call(err, &local);
    if (!e)
        return weft_fail(err, WEFT_EINVAL, "no encoder given");
    if (check_adapter(a, strength, e->model, e->inner->opt.rank, err) != WEFT_OK)
        return err->code;
    return encode_engine_adapt(e->inner, adaption_of(a, strength), err);
}

weft_status weft_encoder_eval(weft_encoder *e, const weft_input *inputs, int64_t n, weft_error *err)
{
    weft_error local;
    err = begin_call(err, &local);
    if (!e || n < 0 || (n > 0 && !inputs))
        return weft_fail(err, WEFT_EINVAL, e ? "no inputs given" : "no encoder given");
    return encode_engine_eval(e->inner, inputs, n, err);
}

weft_status weft_encoder_trace_with(weft_encoder *e, weft_trace_fn *fn, void *ud,
                                    const weft_trace_options *options, weft_error *err)
{
    watcher caller;
    trace_spec w;
    weft_error local;
    err = begin_call(err, &local);
    if (!e)
        return weft_fail(err, WEFT_EINVAL, "no encoder given");
    if (!take_trace_options(fn, ud, options, &e->watcher, &caller, &w, err) ||
        encode_engine_trace(e->inner, &w, err) != WEFT_OK)
        return err->code;
    e->watcher = caller;
    return WEFT_OK;
}

weft_status weft_encoder_trace(weft_encoder *e, weft_trace_fn *fn, void *ud, bool attention_maps,
                               weft_error *err)
{
    const weft_trace_options o = { .struct_size = sizeof o, .attention_maps = attention_maps };
    return weft_encoder_trace_with(e, fn, ud, &o, err);
}
