/* pages.h - the pool of cache pages, sized once. Pages are reference-counted: a session and the
 * sessions that share its prefix each hold a reference; the last release returns the page to the
 * pool. A writer copies a shared page first.
 *
 * A page that prefix.h keeps does not return: it waits, idle, in the order of its release, and can
 * be held again. When no page is free, the one that has waited longest is taken. */
#ifndef WEFT_ENGINE_PAGES_H
#define WEFT_ENGINE_PAGES_H

#include "models/arch.h"

typedef struct pages {
    mem *mem;
    cache_layout layout;
    char *slab;
    int64_t n_page, n_free, n_idle;
    int32_t *free; /* stack of free pages */
    int32_t *refs; /* reference count of each page */

    bool *kept;     /* is it kept when nobody holds it? */
    int32_t *later; /* of an idle page: those released after and before it, or -1 */
    int32_t *earlier;
    int32_t first, last;                  /* idle pages, in the order of their release; -1: none */
    void (*forget)(void *ud, char *page); /* told before an idle page is taken */
    void *forget_ud;
} pages;

/* The layout of a model's streams in pages of a number format; fails if rows are not whole blocks
 * of the format. */
weft_status pages_layout(cache_layout *l, const model *m, const dtype *type, weft_error *err);
void pages_layout_free(cache_layout *l, const model *m);

/* Bytes that pages_init will allocate for n pages; false on overflow. */
bool pages_bytes(const cache_layout *l, int64_t n, size_t *bytes);

weft_status pages_init(pages *p, const model *m, const dtype *type, int64_t n, weft_error *err);
void pages_free(pages *p, const model *m);

static inline int64_t pages_for(int64_t length)
{
    return (length + PAGE_ROWS - 1) / PAGE_ROWS;
}

/* Pages that can be taken. */
static inline int64_t pages_available(const pages *p)
{
    return p->n_free + p->n_idle;
}

static inline int32_t pages_number(const pages *p, const char *page)
{
    return (int32_t)((size_t)(page - p->slab) / p->layout.page_bytes);
}

static inline char *pages_at(const pages *p, int32_t number)
{
    return p->slab + (size_t)number * p->layout.page_bytes;
}

/* Requires an available page. */
char *pages_take(pages *p);
void pages_drop(pages *p, char *page);

/* Adds a reference, also to an idle page; and returns the count, where being kept is one more. */
void pages_hold(pages *p, char *page);
int64_t pages_holders(const pages *p, const char *page);

/* From now on a page that somebody holds is kept, or not any more; if it is idle it becomes free. */
void pages_keep(pages *p, char *page);
void pages_let_go(pages *p, char *page);

/* Copies the first n_row rows of every stream. */
void pages_copy(const pages *p, char *to, const char *from, int64_t n_row);

#endif
