/* model.c - the public functions of models and engines: check, translate, delegate. */
#include "api/api.h"
#include "api/labels.h"

#include "base/cpu.h"
#include "formats/image.h"
#include "formats/unpack.h"
#include "models/pack.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- library --------------------------------------------------------------------------------- */

const char *weft_version(void)
{
    return WEFT_VERSION;
}

int weft_abi_version(void)
{
    return WEFT_ABI_VERSION;
}

static char parts[512];

static void list_parts(void)
{
    size_t n = (size_t)snprintf(
        parts, sizeof parts, "gguf safetensors text" IMAGE_PNG IMAGE_JPEG UNPACK_GZIP UNPACK_ZSTD);
    for (int i = 0; i < n_arch && n < sizeof parts; i++)
        n += (size_t)snprintf(parts + n, sizeof parts - n, " %s", archs[i].hf);
}

const char *weft_build_parts(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, list_parts);
    return parts;
}

const char *weft_kernels_name(void)
{
    return kernels_select(&(log_sink){ 0 })->name;
}

int weft_cpu_count(void)
{
    return cpu_count();
}

/* ---- model ----------------------------------------------------------------------------------- */

/* The block holds its own allocator. */
static void release(weft_model *m)
{
    host h = m->host;
    weft_budget *budget = m->budget;
    mem_free(&h.mem, m);
    weft_budget_free(budget);
}

weft_model *weft_model_open(const char *path, const weft_model_options *options, weft_error *err)
{
    weft_model_options o;
    weft_error local;
    err = begin_call(err, &local);
    if (!path) {
        weft_fail(err, WEFT_EINVAL, "no path given");
        return NULL;
    }
    if (!read_options(&o, sizeof o, options, options ? options->struct_size : 0,
                      "weft_model_options", err) ||
        !load_exists(o.load, err) || !compute_exists(o.compute, err))
        return NULL;
    host h = { .io = io_system, .log = { o.log, o.log_ud } };
    take_memory(&h, o.ram_max, o.budget);

    weft_model *m = mem_zalloc(&h.mem, 1, sizeof *m, "model", err);
    if (!m)
        return NULL;
    m->host = h;
    m->budget = hold_budget(o.budget);
    if (model_open(&m->model, path, o.load, &m->host, err) != WEFT_OK) {
        release(m);
        return NULL;
    }
    if (o.no_pack)
        pack_never(&m->model);
    if (o.compute == WEFT_COMPUTE_BF16)
        model_compute_bf16(&m->model);
    if (stop_ids_read(&m->stop_ids, &m->model, err) != WEFT_OK ||
        pieces_init(&m->pieces, &m->model.file, &m->model.store, err) != WEFT_OK) {
        weft_model_close(m);
        return NULL;
    }
    return m;
}

void weft_model_close(weft_model *m)
{
    if (!m || !let_go(&m->holders))
        return;
    model_close(&m->model);
    release(m);
}

bool weft_model_is_end(const weft_model *m, int32_t id)
{
    for (int i = 0; m && i < m->stop_ids.n; i++)
        if (m->stop_ids.id[i] == id)
            return true;
    return false;
}

void weft_model_get_info(const weft_model *w, weft_model_info *info)
{
    if (!info)
        return;
    if (!w) {
        copy_result(info, info->struct_size, &(weft_model_info){ .eos_id = -1, .start_id = -1 },
                    sizeof *info);
        return;
    }
    const model *m = &w->model;
    weft_model_info i = {
        .architecture = m->name,
        .format = m->file.format,
        .n_layer = m->n_layer,
        .compute = m->bf16 ? WEFT_COMPUTE_BF16 : WEFT_COMPUTE_DEFAULT,
        .n_head = m->n_head,
        .n_head_kv = m->n_head_kv,
        .d_model = m->d_model,
        .d_head = m->d_head,
        .d_ff = m->d_ff,
        .n_vocab = m->n_vocab,
        .n_ctx = m->n_ctx,
        .n_tensor = m->n_param,
        .n_metadata = m->file.n_entry,
        .n_parameter = m->n_parameter,
        .n_left_out = m->n_left_out,
        .bytes_anonymous = atomic_load(&w->host.mem.used),
        .eos_id = w->stop_ids.n > 0 ? w->stop_ids.id[0] : -1,
        .task = m->task,
        .n_out = m->n_out,
        .images = m->image.channels > 0,
        .n_layer_src = m->n_layer_src,
        .n_vocab_src = m->n_vocab_src,
        .start_id = (int32_t)m->start,
        .n_feature = m->d_feature,
        .labels = labels_kind(m),
    };
    for (int f = 0; f < m->file.n_file; f++)
        i.bytes_mapped += m->file.file[f].mapped ? m->file.file[f].size : 0;
    copy_result(info, info->struct_size, &i, sizeof i);
}

const char *weft_model_label(const weft_model *w, int64_t i)
{
    const model *m = w ? &w->model : NULL;
    return m && m->label && i >= 0 && i < m->n_out ? m->label[i] : NULL;
}

weft_status weft_model_get_tensor(const weft_model *w, int64_t at, weft_tensor_info *info)
{
    if (!w || at < 0 || at >= w->model.n_param || !result_fits(info, "weft_tensor_info", NULL))
        return WEFT_EINVAL;
    const tensor *t = w->model.param[at];
    weft_tensor_info i = { .name = t->name, .type = t->type->name, .n_dim = t->n_dim };
    memcpy(i.shape, t->shape, sizeof i.shape);
    i.bytes = dtype_row_bytes(t->type, cols(t)) * (size_t)(t->n_dim > 1 ? t->shape[0] : 1);
    copy_result(info, info->struct_size, &i, sizeof i);
    return WEFT_OK;
}

int64_t weft_model_find_tensor(const weft_model *w, const char *name)
{
    for (int64_t i = 0; w && name && i < w->model.n_param; i++)
        if (strcmp(w->model.param[i]->name, name) == 0)
            return i;
    return -1;
}

weft_status weft_model_get_rows(const weft_model *w, int64_t at, int64_t row, int64_t n, float *out,
                                size_t size, weft_error *err)
{
    weft_error local;
    err = begin_call(err, &local);
    if (!w || !out)
        return weft_fail(err, WEFT_EINVAL, "no %s given", w ? "place for the rows" : "model");
    if (at < 0 || at >= w->model.n_param)
        return weft_fail(err, WEFT_EINVAL, "weight %lld, expected below %lld", (long long)at,
                         (long long)w->model.n_param);
    const tensor *t = w->model.param[at];
    const int64_t n_row = t->n_dim > 1 ? rows(t) : 1, width = cols(t);
    if (row < 0 || n < 0 || row > n_row || n > n_row - row)
        return weft_fail(err, WEFT_EINVAL, "%s: rows %lld to %lld + %lld, expected at most %lld",
                         t->name, (long long)row, (long long)row, (long long)n, (long long)n_row);
    if (width > 0 && size / (size_t)width < (size_t)n)
        return weft_fail(err, WEFT_EINVAL, "%s: room for %zu floats, expected %lld rows of %lld",
                         t->name, size, (long long)n, (long long)width);
    assert(t->type->decode); /* bind takes no others */
    const size_t row_bytes = dtype_row_bytes(t->type, width);
    for (int64_t i = 0; i < n; i++)
        t->type->decode(out + i * width, (const char *)t->data + (size_t)(row + i) * row_bytes, 0,
                        width);
    return WEFT_OK;
}

weft_status weft_model_get_metadata(const weft_model *w, int64_t at, const char **key, char *value,
                                    size_t size)
{
    if (!w || !key || (!value && size > 0) || at < 0 || at >= w->model.file.n_entry)
        return WEFT_EINVAL;
    const meta *m = &w->model.file.entry[at];
    *key = m->key;
    switch (m->type) {
    case META_BOOL:
        snprintf(value, size, "%s", m->flag ? "true" : "false");
        break;
    case META_INT:
        snprintf(value, size, "%lld", (long long)m->integer);
        break;
    case META_REAL:
        snprintf(value, size, "%g", m->number);
        break;
    case META_TEXT:
        snprintf(value, size, "%s", m->text);
        break;
    case META_ARRAY:
        snprintf(value, size, "[%llu values]", (unsigned long long)m->length);
        break;
    }
    return WEFT_OK;
}

int64_t weft_model_piece(const weft_model *m, int32_t id, char *bytes, size_t size)
{
    return m ? pieces_bytes(&m->pieces, id, bytes, bytes ? size : 0) : -1;
}

/* ---- engine ---------------------------------------------------------------------------------- */

weft_engine *weft_engine_new(weft_model *m, const weft_engine_options *options, weft_error *err)
{
    engine_options o;
    weft_error local;
    err = begin_call(err, &local);
    if (!m) {
        weft_fail(err, WEFT_EINVAL, "no model given");
        return NULL;
    }
    if (!take_engine_options(options, &o, err))
        return NULL;
    weft_engine *e = mem_zalloc(&m->host.mem, 1, sizeof *e, "engine", err);
    if (!e)
        return NULL;
    e->model = m;
    e->inner = engine_new(&m->model, &o, err);
    if (!e->inner) {
        mem_free(&m->host.mem, e);
        return NULL;
    }
    hold(&m->holders);
    return e;
}

void weft_engine_free(weft_engine *e)
{
    if (!e || !let_go(&e->holders))
        return;
    weft_model *m = e->model;
    engine_free(e->inner);
    mem_free(&m->host.mem, e);
    weft_model_close(m);
}

void weft_engine_get_info(const weft_engine *e, weft_engine_info *info)
{
    if (!info)
        return;
    weft_engine_info i = { 0 };
    if (e) {
        const engine *inner = e->inner;
        const engine_options *o = &inner->opt;
        i = (weft_engine_info){ .threads = o->n_thread,
                                .n_session = o->n_session,
                                .n_batch = o->n_batch,
                                .n_ctx = o->n_ctx,
                                .kv_type = o->kv->name,
                                .n_cache = inner->pages.n_page * PAGE_ROWS,
                                .n_cache_free = pages_available(&inner->pages) * PAGE_ROWS };
    }
    copy_result(info, info->struct_size, &i, sizeof i);
}

weft_status weft_engine_plan(weft_model *m, const weft_engine_options *options,
                             weft_memory_plan *plan, weft_error *err)
{
    engine_options o;
    engine_plan p;
    weft_error local;
    err = begin_call(err, &local);
    if (!m)
        return weft_fail(err, WEFT_EINVAL, "no model given");
    if (!result_fits(plan, "weft_memory_plan", err) || !take_engine_options(options, &o, err) ||
        engine_resolve(&m->model, &o, err) != WEFT_OK ||
        engine_predict(&m->model, &o, NULL, &p, err) != WEFT_OK)
        return err->code;
    weft_memory_plan out = { .kv_bytes = p.kv,
                             .step_bytes = p.step.meta + p.step.data + p.step.scratch,
                             .n_ctx = o.n_ctx,
                             .session_bytes = p.session,
                             .total_bytes = p.total,
                             .position_bytes = p.position,
                             .panel_bytes = p.panels };
    copy_result(plan, plan->struct_size, &out, sizeof out);
    return WEFT_OK;
}

weft_status weft_engine_trace_with(weft_engine *e, weft_trace_fn *fn, void *ud,
                                   const weft_trace_options *options, weft_error *err)
{
    watcher caller;
    trace_spec w;
    weft_error local;
    err = begin_call(err, &local);
    if (!e)
        return weft_fail(err, WEFT_EINVAL, "no engine given");
    if (!take_trace_options(fn, ud, options, &e->watcher, &caller, &w, err) ||
        engine_trace(e->inner, &w, err) != WEFT_OK)
        return err->code;
    e->watcher = caller;
    return WEFT_OK;
}

weft_status weft_engine_trace(weft_engine *e, weft_trace_fn *fn, void *ud, bool attention_maps,
                              weft_error *err)
{
    const weft_trace_options o = { .struct_size = sizeof o, .attention_maps = attention_maps };
    return weft_engine_trace_with(e, fn, ud, &o, err);
}
