/* adapter.c - the public functions of adapters: check, translate, delegate. */
#include "adapt/ready.h"
#include "api/api.h"

#include <stddef.h>

struct weft_adapter {
    ready_adapter ready;
    weft_model *model; /* referenced */
};

static weft_adapter *adapter_of(lora_set *set)
{
    return (weft_adapter *)(void *)((char *)set - offsetof(weft_adapter, ready.set));
}

/* Its owner has closed it, and no session has it. */
static void release_adapter(lora_set *set)
{
    weft_adapter *a = adapter_of(set);
    weft_model *m = a->model;
    ready_close(&a->ready);
    mem_free(&m->host.mem, a);
    weft_model_close(m);
}

/* Once `ready` is filled, or will be. */
static void begin_adapter(weft_adapter *a, weft_model *m)
{
    a->model = m;
    a->ready.set.release = release_adapter;
    lora_set_hold(&a->ready.set);
    hold(&m->holders);
}

weft_adapter *adapter_new(weft_model *m, weft_error *err)
{
    weft_adapter *a = mem_zalloc(&m->host.mem, 1, sizeof *a, "an adapter", err);
    if (a)
        begin_adapter(a, m);
    return a;
}

ready_adapter *adapter_ready(weft_adapter *a)
{
    return &a->ready;
}

weft_adapter *weft_adapter_open(weft_model *m, const char *path, weft_error *err)
{
    weft_error local;
    err = begin_call(err, &local);
    if (!m || !path) {
        weft_fail(err, WEFT_EINVAL, "no %s given", m ? "path" : "model");
        return NULL;
    }
    weft_adapter *a = mem_zalloc(&m->host.mem, 1, sizeof *a, "an adapter", err);
    if (!a)
        return NULL;
    if (ready_open(&a->ready, &m->model, path, err) != WEFT_OK) {
        mem_free(&m->host.mem, a);
        return NULL;
    }
    begin_adapter(a, m);
    return a;
}

void weft_adapter_close(weft_adapter *a)
{
    if (a)
        lora_set_drop(&a->ready.set);
}

/* Parts of one stored matrix may share an A. */
static uint64_t part_bytes(const adapter_part *p, const adapter_part *before)
{
    const int64_t b = rows(&p->b) * cols(&p->b);
    const int64_t a = before && before->a.data == p->a.data ? 0 : rows(&p->a) * cols(&p->a);
    return (uint64_t)(a + b) * sizeof(real);
}

void weft_adapter_get_info(const weft_adapter *a, weft_adapter_info *info)
{
    weft_adapter_info out = { 0 };
    if (!info)
        return;
    if (a) {
        const adapter *from = &a->ready.from;
        out = (weft_adapter_info){ .rank = a->ready.set.rank,
                                   .n_weight = from->n_part,
                                   .n_whole = from->n_whole,
                                   .gains = a->ready.set.scales };
        for (int64_t i = 0; i < from->file.n_tensor; i++)
            out.bytes += from->file.tensor[i].bytes;
        for (int64_t i = 0; i < from->n_part && from->file.n_tensor == 0; i++) /* it is trained */
            out.bytes += part_bytes(&from->part[i], i > 0 ? &from->part[i - 1] : NULL);
    }
    copy_result(info, info->struct_size, &out, sizeof out);
}

lora_set *adapter_set(weft_adapter *a)
{
    return &a->ready.set;
}

bool adapter_fits(const weft_adapter *a, const weft_model *m, weft_error *err)
{
    if (a->model != m)
        weft_fail(err, WEFT_EINVAL, "the adapter belongs to another model");
    return a->model == m;
}

weft_status check_adapter(weft_adapter *a, double strength, const weft_model *m, int64_t rank,
                          weft_error *err)
{
    if (a && !adapter_fits(a, m, err))
        return err->code;
    return adaption_check(adaption_of(a, strength), rank, err);
}

adaption adaption_of(weft_adapter *a, double strength)
{
    return (adaption){ a ? &a->ready.set : NULL, a ? (real)strength : 0 };
}

weft_status weft_session_adapt(weft_session *s, weft_adapter *a, double strength, weft_error *err)
{
    weft_error local;
    err = begin_call(err, &local);
    if (!s)
        return weft_fail(err, WEFT_EINVAL, "no session given");
    if (a && !adapter_fits(a, s->engine->model, err))
        return err->code;
    return session_adapt(s->inner, a ? &a->ready.set : NULL, (real)strength, err);
}
