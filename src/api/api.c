/* api.c - shared by the public functions: sizes of structs, options of engines, memory. */
#include "api/api.h"

#include "base/cgroup.h"

#include <string.h>

bool read_options(void *to, size_t size, const void *from, size_t from_size, const char *what,
                  weft_error *err)
{
    memset(to, 0, size);
    if (!from)
        return true;
    if (from_size < sizeof(size_t) || from_size > size) {
        weft_fail(err, WEFT_EINVAL, "%s.struct_size is %zu, this library knows %zu bytes", what,
                  from_size, size);
        return false;
    }
    memcpy(to, from, from_size);
    return true;
}

bool result_fits(const void *to, const char *what, weft_error *err)
{
    size_t size = 0;
    if (!to) {
        weft_fail(err, WEFT_EINVAL, "no %s given", what);
        return false;
    }
    memcpy(&size, to, sizeof size);
    if (size < sizeof size) {
        weft_fail(err, WEFT_EINVAL, "%s.struct_size is %zu; set it to sizeof(%s)", what, size,
                  what);
        return false;
    }
    return true;
}

bool load_exists(weft_load load, weft_error *err)
{
    if (load == WEFT_LOAD_COPY || load == WEFT_LOAD_MAP)
        return true;
    weft_fail(err, WEFT_EINVAL, "load %d does not exist", (int)load);
    return false;
}

bool compute_exists(weft_compute compute, weft_error *err)
{
    if (compute == WEFT_COMPUTE_DEFAULT || compute == WEFT_COMPUTE_BF16)
        return true;
    weft_fail(err, WEFT_EINVAL, "compute %d does not exist", (int)compute);
    return false;
}

void copy_result(void *to, size_t to_size, void *from, size_t size)
{
    const size_t n = to_size < size ? to_size : size;
    if (to_size < sizeof to_size)
        return;
    memcpy(from, &to_size, sizeof to_size);
    memcpy(to, from, n);
}

bool take_kv_type(weft_kv_type from, const dtype **to, weft_error *err)
{
    static const dtype *const kv[] = { NULL, &dtype_real, &dtype_f16, &dtype_bf16, &dtype_q8_0 };
    if ((unsigned)from >= sizeof kv / sizeof *kv) {
        weft_fail(err, WEFT_EINVAL, "kv_type %d does not exist", (int)from);
        return false;
    }
    *to = kv[from];
    return true;
}

bool take_engine_options(const weft_engine_options *from, engine_options *to, weft_error *err)
{
    weft_engine_options o;
    if (!read_options(&o, sizeof o, from, from ? from->struct_size : 0, "weft_engine_options", err))
        return false;
    *to = (engine_options){ .n_thread = o.threads,
                            .n_session = o.n_session,
                            .n_batch = o.n_batch,
                            .n_ctx = o.n_ctx,
                            .n_cache = o.n_cache,
                            .all_rows = o.all_logits,
                            .rank = o.adapter_rank };
    return take_kv_type(o.kv_type ? o.kv_type : WEFT_KV_F16, &to->kv, err);
}

/* ---- memory ---------------------------------------------------------------------------------- */

void take_budget(weft_budget *to, size_t ram_max, weft_budget *within)
{
    *to = (weft_budget){ 0 };
    mem_init(&to->mem, ram_max, NULL);
    to->mem.within = within ? &within->mem : NULL;
}

void take_memory(host *h, size_t ram_max, weft_budget *budget)
{
    mem_init(&h->mem, ram_max, NULL);
    h->mem.within = budget ? &budget->mem : NULL;
}

size_t weft_memory_limit(void)
{
    const int64_t limit = cgroup_limit("/proc/self/cgroup", "/sys/fs/cgroup", "memory.max");
    return limit == INT64_MAX ? 0 : (size_t)limit;
}

weft_budget *weft_budget_new(size_t ram_max, weft_error *err)
{
    mem own;
    weft_error local;
    err = begin_call(err, &local);
    mem_init(&own, 0, NULL);
    weft_budget *b = mem_zalloc(&own, 1, sizeof *b, "budget", err);
    if (!b)
        return NULL;
    mem_init(&b->mem, ram_max, NULL);
    b->own = own;
    return b;
}

weft_budget *hold_budget(weft_budget *budget)
{
    if (budget)
        hold(&budget->holders);
    return budget;
}

void weft_budget_free(weft_budget *budget)
{
    if (!budget || !let_go(&budget->holders))
        return;
    mem own = budget->own; /* the block holds its own allocator */
    mem_free(&own, budget);
}

weft_status weft_budget_take(weft_budget *budget, size_t bytes, const char *what, weft_error *err)
{
    weft_error local;
    err = begin_call(err, &local);
    if (!budget)
        return WEFT_OK;
    const weft_status status = mem_reserve(&budget->mem, bytes, what ? what : "memory", err);
    if (status == WEFT_OK)
        atomic_fetch_add(&budget->taken, bytes);
    return status;
}

void weft_budget_give(weft_budget *budget, size_t bytes)
{
    if (!budget)
        return;
    size_t taken = atomic_load(&budget->taken), back;
    do
        back = bytes < taken ? bytes : taken;
    while (!atomic_compare_exchange_weak(&budget->taken, &taken, taken - back));
    mem_uncharge(&budget->mem, back);
}

size_t weft_budget_used(const weft_budget *budget)
{
    return budget ? atomic_load(&budget->mem.used) : 0;
}
