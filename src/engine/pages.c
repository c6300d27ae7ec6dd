/* pages.c - the pool of cache pages: a free list and a reference count per page.
 *
 *     session A   [p0]-[p1]-[p2]            p0, p1: 2 references
 *     fork B      [p0]-[p1]-[p3]            p3 is B's copy of p2, made before B wrote to it
 *
 * Rows of a page depend only on the tokens before them, so sharing is never visible. */
#include "engine/pages.h"

#include <assert.h>
#include <string.h>

weft_status pages_layout(cache_layout *l, const model *m, const dtype *type, weft_error *err)
{
    *l = (cache_layout){ .type = type, .n_layer = (int)m->n_layer, .n_stream = m->n_stream };
    l->stream = mem_zalloc(&m->host->mem, (size_t)(m->n_layer * m->n_stream), sizeof *l->stream,
                           "cache layout", err);
    if (!l->stream)
        return WEFT_ENOMEM;
    size_t at = 0;
    for (int64_t i = 0; i < m->n_layer * m->n_stream; i++) {
        const stream_spec *s = &m->stream[i % m->n_stream];
        if (s->width % type->block != 0) {
            pages_layout_free(l, m);
            return weft_fail(err, WEFT_EUNSUPPORTED,
                             "a cache of type %s needs rows that are multiples of %d, but stream "
                             "%s has rows of %lld",
                             type->name, type->block, s->name, (long long)s->width);
        }
        const size_t row_bytes = dtype_row_bytes(type, s->width);
        l->stream[i] = (stream){ s->name, s->width, at, row_bytes };
        at += (row_bytes * PAGE_ROWS + MEM_ALIGN - 1) & ~(size_t)(MEM_ALIGN - 1);
    }
    l->page_bytes = at;
    return WEFT_OK;
}

void pages_layout_free(cache_layout *l, const model *m)
{
    mem_free(&m->host->mem, l->stream);
    *l = (cache_layout){ 0 };
}

bool pages_bytes(const cache_layout *l, int64_t n, size_t *bytes)
{
    return !__builtin_mul_overflow(l->page_bytes, (size_t)n, bytes);
}

weft_status pages_init(pages *p, const model *m, const dtype *type, int64_t n, weft_error *err)
{
    *p = (pages){ .mem = &m->host->mem, .n_page = n, .n_free = n };
    weft_status status = pages_layout(&p->layout, m, type, err);
    if (status != WEFT_OK)
        return status;
    size_t bytes;
    if (n > INT32_MAX || !pages_bytes(&p->layout, n, &bytes)) {
        pages_free(p, m);
        return weft_fail(err, WEFT_EINVAL, "a cache of %lld pages is too large", (long long)n);
    }
    p->slab = mem_alloc(p->mem, bytes, "KV cache", err);
    p->free = mem_zalloc(p->mem, (size_t)n, sizeof *p->free, "cache pages", err);
    p->refs = mem_zalloc(p->mem, (size_t)n, sizeof *p->refs, "cache pages", err);
    p->kept = mem_zalloc(p->mem, (size_t)n, sizeof *p->kept, "cache pages", err);
    p->later = mem_zalloc(p->mem, (size_t)n, sizeof *p->later, "cache pages", err);
    p->earlier = mem_zalloc(p->mem, (size_t)n, sizeof *p->earlier, "cache pages", err);
    p->first = p->last = -1;
    if (!p->slab || !p->free || !p->refs || !p->kept || !p->later || !p->earlier) {
        pages_free(p, m);
        return WEFT_ENOMEM;
    }
    for (int64_t i = 0; i < n; i++)
        p->free[i] = (int32_t)(n - 1 - i); /* page 0 on top */
    return WEFT_OK;
}

void pages_free(pages *p, const model *m)
{
    if (!p->mem)
        return;
    mem_free(p->mem, p->slab);
    mem_free(p->mem, p->free);
    mem_free(p->mem, p->refs);
    mem_free(p->mem, p->kept);
    mem_free(p->mem, p->later);
    mem_free(p->mem, p->earlier);
    pages_layout_free(&p->layout, m);
    *p = (pages){ 0 };
}

/* ---- idle pages ------------------------------------------------------------------------------ */

static void idle_add(pages *p, int32_t i)
{
    p->earlier[i] = p->last;
    p->later[i] = -1;
    *(p->last >= 0 ? &p->later[p->last] : &p->first) = i;
    p->last = i;
    p->n_idle++;
}

static void idle_remove(pages *p, int32_t i)
{
    *(p->earlier[i] >= 0 ? &p->later[p->earlier[i]] : &p->first) = p->later[i];
    *(p->later[i] >= 0 ? &p->earlier[p->later[i]] : &p->last) = p->earlier[i];
    p->n_idle--;
}

void pages_keep(pages *p, char *page)
{
    const int32_t i = pages_number(p, page);
    assert(p->refs[i] > 0 && !p->kept[i]);
    p->kept[i] = true;
}

void pages_let_go(pages *p, char *page)
{
    const int32_t i = pages_number(p, page);
    assert(p->kept[i]);
    p->kept[i] = false;
    if (p->refs[i] > 0)
        return;
    idle_remove(p, i);
    p->free[p->n_free++] = i;
}

/* ---- references ------------------------------------------------------------------------------ */

char *pages_take(pages *p)
{
    assert(pages_available(p) > 0);
    if (p->n_free == 0)
        p->forget(p->forget_ud, pages_at(p, p->first));
    assert(p->n_free > 0 && "an idle page that is forgotten is free");
    const int32_t i = p->free[--p->n_free];
    p->refs[i] = 1;
    return pages_at(p, i);
}

void pages_drop(pages *p, char *page)
{
    const int32_t i = pages_number(p, page);
    assert(p->refs[i] > 0);
    if (--p->refs[i] > 0)
        return;
    if (p->kept[i])
        idle_add(p, i);
    else
        p->free[p->n_free++] = i;
}

void pages_hold(pages *p, char *page)
{
    const int32_t i = pages_number(p, page);
    if (p->refs[i]++ == 0)
        idle_remove(p, i);
}

int64_t pages_holders(const pages *p, const char *page)
{
    const int32_t i = pages_number(p, page);
    return p->refs[i] + p->kept[i];
}

void pages_copy(const pages *p, char *to, const char *from, int64_t n_row)
{
    for (int i = 0; i < p->layout.n_layer * p->layout.n_stream; i++) {
        const stream *s = &p->layout.stream[i];
        memcpy(to + s->offset, from + s->offset, (size_t)n_row * s->row_bytes);
    }
}
