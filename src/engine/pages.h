/* pages.h - the pool of cache pages, sized once. A page is counted by those who hold it: a session,
 * and later the sessions that share its prefix; it returns to the pool when the last one lets
 * go. */
#ifndef WEFT_ENGINE_PAGES_H
#define WEFT_ENGINE_PAGES_H

#include "models/arch.h"

typedef struct pages {
    mem *mem;
    cache_layout layout;
    char *slab;
    int64_t n_page, n_free;
    int32_t *free; /* stack of free pages */
    int32_t *refs; /* holders of each page */
} pages;

/* The layout of a model's streams in pages of a number format; an error where the format's blocks
 * do not fit. */
weft_status pages_layout(cache_layout *l, const model *m, const dtype *type, weft_error *err);
void pages_layout_free(cache_layout *l, const model *m);

/* Bytes that pages_init will take for n pages, or false if they pass an address space. */
bool pages_bytes(const cache_layout *l, int64_t n, size_t *bytes);

weft_status pages_init(pages *p, const model *m, const dtype *type, int64_t n, weft_error *err);
void pages_free(pages *p, const model *m);

/* NULL when none is left. */
char *pages_take(pages *p);
void pages_drop(pages *p, char *page);

#endif
