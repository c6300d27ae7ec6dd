/* pages.h - the pool of cache pages, sized once. Pages are reference-counted: a session and the
 * sessions that share its prefix each hold a reference; the last release returns the page to the
 * pool. A writer copies a shared page first. */
#ifndef WEFT_ENGINE_PAGES_H
#define WEFT_ENGINE_PAGES_H

#include "models/arch.h"

typedef struct pages {
    mem *mem;
    cache_layout layout;
    char *slab;
    int64_t n_page, n_free;
    int32_t *free; /* stack of free pages */
    int32_t *refs; /* reference count of each page */
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

/* Requires a free page: see n_free. */
char *pages_take(pages *p);
void pages_drop(pages *p, char *page);

/* Adds a reference; and returns the count. */
void pages_hold(pages *p, char *page);
int64_t pages_holders(const pages *p, const char *page);

/* Copies the first n_row rows of every stream. */
void pages_copy(const pages *p, char *to, const char *from, int64_t n_row);

#endif
