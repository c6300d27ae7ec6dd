/* mem.c - the budget: counts before it allocates, and stores each block's size in front of it.
 */
#include "base/mem.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Each block is preceded by one aligned cell that holds its size. */
#define HEADER MEM_ALIGN

#ifndef NDEBUG
static _Thread_local int guarded;
#endif

/* Large blocks request huge pages: with them, clearing and accessing memory is several times as
 * fast. A system that ignores the request gives small pages. */
#define HUGE_PAGE ((size_t)2 << 20)

static void *system_alloc(void *ud, size_t align, size_t size)
{
    (void)ud;
    if (size < 2 * HUGE_PAGE)
        return aligned_alloc(align, size);
    void *block;
    if (posix_memalign(&block, HUGE_PAGE, size) != 0)
        return NULL;
    madvise(block, size / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
    return block;
}

static void system_release(void *ud, void *block)
{
    (void)ud;
    free(block);
}

void mem_init(mem *m, size_t cap, const mem_hooks *hooks)
{
    *m = (mem){ .cap = cap, .hooks = { system_alloc, system_release, NULL, 0 } };
    if (hooks)
        m->hooks = *hooks;
}

static bool charge_one(mem *m, size_t size)
{
    size_t used = atomic_load_explicit(&m->used, memory_order_relaxed), total;
    do {
        if (__builtin_add_overflow(used, size, &total) || (m->cap && total > m->cap))
            return false;
    } while (!atomic_compare_exchange_weak(&m->used, &used, total));

    size_t peak = atomic_load_explicit(&m->peak, memory_order_relaxed);
    while (total > peak && !atomic_compare_exchange_weak(&m->peak, &peak, total)) {}
    return true;
}

static void uncharge_one(mem *m, size_t size)
{
    size_t before = atomic_fetch_sub(&m->used, size);
    assert(before >= size);
    (void)before;
}

/* Returns NULL, or the budget that refuses; then none of them is charged. */
static mem *charge(mem *m, size_t size)
{
    for (mem *at = m; at; at = at->within) {
        if (charge_one(at, size))
            continue;
        for (mem *back = m; back != at; back = back->within)
            uncharge_one(back, size);
        return at;
    }
    return NULL;
}

bool mem_charge(mem *m, size_t size)
{
    return !charge(m, size);
}

void mem_uncharge(mem *m, size_t size)
{
    for (; m; m = m->within)
        uncharge_one(m, size);
}

size_t mem_room(const mem *m)
{
    size_t room = SIZE_MAX;
    for (; m; m = m->within) {
        const size_t used = atomic_load(&m->used);
        if (m->cap && m->cap - used < room)
            room = m->cap - used;
    }
    return room;
}

weft_status mem_reserve(mem *m, size_t size, const char *what, weft_error *err)
{
    const mem *full = charge(m, size);
    if (!full)
        return WEFT_OK;
    return weft_fail(err, WEFT_ELIMIT,
                     "%s: needs %zu bytes, but %zu of the %zu byte memory cap are in use", what,
                     size, atomic_load(&full->used), full->cap);
}

void *mem_alloc(mem *m, size_t size, const char *what, weft_error *err)
{
    assert(!guarded && "no allocation inside an op");
    size_t whole;
    if (__builtin_add_overflow(size, 2 * (size_t)HEADER - 1, &whole)) {
        weft_fail(err, WEFT_ENOMEM, "%s: %zu bytes are more than memory can hold", what, size);
        return NULL;
    }
    whole &= ~((size_t)HEADER - 1);
    if (mem_reserve(m, whole, what, err) != WEFT_OK)
        return NULL;
    atomic_fetch_add(&m->n_alloc, 1);
    char *block = m->hooks.alloc(m->hooks.ud, HEADER, whole);
    if (!block) {
        mem_uncharge(m, whole);
        weft_fail(err, WEFT_ENOMEM, "%s: the system refused %zu bytes", what, whole);
        return NULL;
    }
    memcpy(block, &whole, sizeof whole);
    return block + HEADER;
}

void *mem_zalloc(mem *m, size_t n, size_t size, const char *what, weft_error *err)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) {
        weft_fail(err, WEFT_ENOMEM, "%s: %zu x %zu bytes are more than memory can hold", what, n,
                  size);
        return NULL;
    }
    void *block = mem_alloc(m, bytes, what, err);
    return block ? memset(block, 0, bytes) : NULL;
}

void mem_free(mem *m, void *block)
{
    if (!block)
        return;
    char *header = (char *)block - HEADER;
    size_t whole;
    memcpy(&whole, header, sizeof whole);
    m->hooks.release(m->hooks.ud, header);
    mem_uncharge(m, whole);
}

char *mem_strdup(mem *m, const char *text, weft_error *err)
{
    size_t n = strlen(text) + 1;
    char *copy = mem_alloc(m, n, "a string", err);
    if (copy)
        memcpy(copy, text, n);
    return copy;
}

void mem_guard_begin(void)
{
#ifndef NDEBUG
    guarded++;
#endif
}

void mem_guard_end(void)
{
#ifndef NDEBUG
    guarded--;
#endif
}
