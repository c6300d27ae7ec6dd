/* convert.c - the public function that converts models: check, translate, delegate. */
#include "models/convert.h"
#include "adapt/convert_adapter.h"
#include "adapt/merge.h"
#include "api/api.h"
#include "api/importance.h"

#include <stdio.h>

static weft_status translate(const weft_convert_options *o, convert_options *to, weft_error *err)
{
    const quant_target *target = o->type ? quant_target_by_name(o->type) : NULL;
    if (o->type && !target)
        return weft_fail(err, WEFT_EINVAL,
                         "\"%.40s\" is not a weight type; expected f32, f16 or bf16, or for "
                         "GGUF also q8_0, q6_k, q5_k_m, q5_1, q5_0, q4_k_m, q4_1, q4_0, iq4_nl, "
                         "iq4_xs, mxfp4, mxfp4_moe, q3_k_l, q3_k_m, q3_k_s or q2_k",
                         o->type);
    if (o->n_thread < 0 || o->n_thread > 1024)
        return weft_fail(err, WEFT_EINVAL,
                         "%d threads; expected 1 to 1024, or 0 for one per processor", o->n_thread);
    if ((unsigned)o->to > WEFT_FORMAT_HF)
        return weft_fail(err, WEFT_EINVAL, "unknown format %d", (int)o->to);
    if (!load_exists(o->load, err))
        return err->code;
    *to = (convert_options){ .to = o->to,
                             .target = target,
                             .max_shard = o->max_shard,
                             .force = o->force,
                             .load = o->load,
                             .n_thread = o->n_thread,
                             .progress = o->progress,
                             .progress_ud = o->progress_ud,
                             .converted = o->converted,
                             .converted_ud = o->converted_ud };
    return WEFT_OK;
}

/* Converts, with the importance over a text if one is given. */
static weft_status convert_with(const char *from, const char *to, const char *text,
                                convert_options *o, convert_report *r, host *h, weft_error *err)
{
    measured m = { 0 };
    if (text && (!o->target || !o->target->most->fit))
        return weft_fail(err, WEFT_EINVAL,
                         "importance is for types that search codes, not %s; expected q4_k_m, "
                         "iq4_xs, q3_k_m or another such type",
                         o->target ? o->target->name : "the type of the file");
    if (text && measure_importance(&m, from, text, o, h, err) != WEFT_OK)
        return err->code;
    if (text) {
        o->importance = m.importance.of;
        o->n_importance = m.model.n_param;
    }
    const weft_status status = convert_model(from, to, o, r, h, err);
    measured_free(&m);
    return status;
}

/* Converts, with an adapter merged if one is given. */
static weft_status convert_merged(const char *from, const char *to, const weft_convert_options *o,
                                  convert_options *inner, convert_report *r, host *h,
                                  weft_error *err)
{
    merge *g = NULL;
    weft_status status = WEFT_OK;
    if (o->adapter && !(g = mem_zalloc(&h->mem, 1, sizeof *g, "an adapter", err)))
        return WEFT_ENOMEM;
    if (g)
        status = merge_open(g, from, o->adapter, o->strength, o->load, h, err);
    if (g && status == WEFT_OK) {
        inner->merged = g->merged;
        inner->n_merged = g->m.n_param;
        inner->head = g->head;
    }
    if (status == WEFT_OK)
        status = convert_with(from, to, o->importance, inner, r, h, err);
    if (g)
        merge_close(g);
    mem_free(&h->mem, g);
    return status;
}

/* Adapters have no type, parts or importance to choose. */
static weft_status convert_adapter(const char *from, const char *to, const weft_convert_options *o,
                                   convert_report *r, host *h, weft_error *err)
{
    adapter_convert_report a;
    const char *excluded = o->type         ? "a type"
                           : o->max_shard  ? "a size of shards"
                           : o->importance ? "an importance"
                           : o->adapter    ? "an adapter to merge"
                                           : NULL;
    if (excluded)
        return weft_fail(err, WEFT_EINVAL,
                         "%s with a base model; expected none, as an adapter is converted",
                         excluded);
    const weft_status status = adapter_convert(from, to, o->base, o->force, o->load, &a, h, err);
    if (status != WEFT_OK)
        return status;
    *r = (convert_report){
        .to = a.to, .type = a.type, .n_tensor = a.n_tensor, .n_file = a.n_file, .bytes = a.bytes
    };
    snprintf(r->path, sizeof r->path, "%s", to);
    snprintf(r->architecture, sizeof r->architecture, "%.50s adapter", a.architecture);
    return WEFT_OK;
}

static weft_status convert_any(const char *from, const char *to, const weft_convert_options *o,
                               convert_report *r, host *h, weft_error *err)
{
    convert_options inner;
    if (translate(o, &inner, err) != WEFT_OK)
        return err->code;
    if (o->base)
        return convert_adapter(from, to, o, r, h, err);
    if (adapter_is_one(from, h))
        return weft_fail(err, WEFT_EINVAL,
                         "%s: an adapter, whose names depend on its model; give the model as the "
                         "base (--base MODEL)",
                         from);
    return convert_merged(from, to, o, &inner, r, h, err);
}

weft_status weft_convert(const char *from, const char *to, const weft_convert_options *options,
                         weft_convert_info *info, weft_error *err)
{
    weft_convert_options o;
    convert_report r;
    weft_error local;
    err = begin_call(err, &local);
    if (!from || !to || !*from || !*to)
        return weft_fail(err, WEFT_EINVAL, "no path %s given", from && *from ? "to" : "from");
    if ((info && !result_fits(info, "weft_convert_info", err)) ||
        !read_options(&o, sizeof o, options, options ? options->struct_size : 0,
                      "weft_convert_options", err))
        return err->code;
    host h = { .io = io_system, .log = { o.log, o.log_ud } };
    take_memory(&h, o.ram_max, o.budget);
    if (convert_any(from, to, &o, &r, &h, err) != WEFT_OK)
        return err->code;
    weft_convert_info i = { .format = r.to,
                            .n_tensor = r.n_tensor,
                            .n_file = r.n_file,
                            .n_left_out = r.n_left_out,
                            .bytes = r.bytes,
                            .bytes_peak = h.mem.peak };
    snprintf(i.architecture, sizeof i.architecture, "%s", r.architecture);
    snprintf(i.type, sizeof i.type, "%s", convert_type_name(&r));
    snprintf(i.path, sizeof i.path, "%s", r.path);
    if (info)
        copy_result(info, info->struct_size, &i, sizeof i);
    return WEFT_OK;
}
