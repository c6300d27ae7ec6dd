/* pack.c - packs weights into panels (kernels.h) once, when the first engine or encoder of a model
 * is created. Merely opening a model stays fast.
 *
 *     the file, mapped         | rows of W | rows of V | ...     row lookups read these
 *     one block of memory      | panels of W | panels of V |     products read these
 *
 * Either all weights are packed or none. */
#include "models/pack.h"

#include "tensor/panels.h"

#include <pthread.h>
#include <stdatomic.h>

typedef enum pack_state { UNDECIDED, AS_STORED, PACKED } pack_state;

struct weight_panels {
    pthread_mutex_t lock;
    _Atomic pack_state state; /* plans read it while another thread packs */
    void *memory;
};

weft_status pack_init(model *m, weft_error *err)
{
    weight_panels *p = mem_zalloc(&m->host->mem, 1, sizeof *p, "packing", err);
    if (!p)
        return WEFT_ENOMEM;
    pthread_mutex_init(&p->lock, NULL);
    m->panels = p;
    return WEFT_OK;
}

void pack_never(model *m)
{
    m->panels->state = AS_STORED;
}

void pack_free(model *m)
{
    weight_panels *p = m->panels;
    if (!p)
        return;
    pthread_mutex_destroy(&p->lock);
    mem_free(&m->host->mem, p->memory);
    mem_free(&m->host->mem, p);
    m->panels = NULL;
}

static size_t all_bytes(const model *m)
{
    size_t n = 0;
    for (int64_t i = 0; i < m->n_param; i++)
        n += panels_bytes(m->param[i]);
    return n;
}

bool pack_expected(const model *m)
{
    return m->panels && m->panels->state != AS_STORED && m->kern->pack_panel;
}

size_t pack_plan(const model *m)
{
    const size_t n = pack_expected(m) && m->panels->state == UNDECIDED ? all_bytes(m) : 0;
    return n ? n + MEM_ALIGN : 0; /* a block is preceded by its size */
}

/* Releases pages of the file after each weight, so that few weights are in memory twice. */
static void pack_all(const model *m, weight_panels *p, pool *threads)
{
    uint8_t *to = p->memory;
    for (int64_t i = 0; i < m->n_param; i++) {
        const size_t bytes = panels_bytes(m->param[i]);
        if (bytes == 0)
            continue;
        panels_make(m->param[i], m->kern, to, threads);
        to += bytes;
        for (int f = 0; f < m->file.n_file; f++)
            file_release_pages(&m->file.file[f], m->host);
    }
}

/* NULL if they do not fit next to `spare` bytes, or packing is off. */
static void *alloc_panels(const model *m, pool *threads, size_t spare)
{
    const size_t plan = pack_plan(m);
    size_t both;
    weft_error err = { 0 };
    if (plan == 0 || __builtin_add_overflow(plan, spare, &both))
        return NULL;
    void *memory = NULL;
    if (mem_room(&m->host->mem) >= both && pool_ready(threads, &err) == WEFT_OK)
        memory = mem_alloc(&m->host->mem, plan - MEM_ALIGN, "packed weights", &err);
    if (!memory)
        log_write(&m->host->log, WEFT_LOG_INFO,
                  "%s: weights are not packed, which is slower; packing needs %zu MiB more memory",
                  m->file.path, (plan >> 20) + 1);
    return memory;
}

void pack_weights(const model *m, pool *threads, size_t spare)
{
    weight_panels *p = m->panels;
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    if (p->state == UNDECIDED) {
        p->memory = alloc_panels(m, threads, spare);
        if (p->memory)
            pack_all(m, p, threads);
        p->state = p->memory ? PACKED : AS_STORED;
    }
    pthread_mutex_unlock(&p->lock);
}
