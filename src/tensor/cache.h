/* cache.h - the cache of a sequence: named streams of rows, one row per position, stored in pages.
 *
 *     page p holds positions [64 p, 64 p + 64) of every stream of every layer:
 *
 *       layer 0                            layer 1
 *     +-----------------+-----------------+-----------------+----- - -
 *     | k: 64 rows      | v: 64 rows      | k: 64 rows      | v: ...
 *     +-----------------+-----------------+-----------------+----- - -
 *
 * A model declares its streams ({k, v} for attention, {latent, k_rope} for MLA, {state} for an
 * RNN); the engine owns the pages. Ops only store rows and read them through a view; without a
 * cache, the view covers the rows of the current call. */
#ifndef WEFT_TENSOR_CACHE_H
#define WEFT_TENSOR_CACHE_H

#include "tensor/tensor.h"

#define PAGE_ROWS 64

typedef struct stream {
    const char *name; /* "k" */
    int64_t width;    /* numbers per row */
    size_t offset;    /* offset of row 0 inside a page */
    size_t row_bytes;
} stream;

typedef struct cache_layout {
    const dtype *type;
    int n_layer, n_stream; /* streams per layer */
    stream *stream;        /* [n_layer * n_stream] */
    size_t page_bytes;
} cache_layout;

typedef struct cache {
    const cache_layout *layout;
    char **page;
    int64_t n_page; /* pages held */
    int64_t length; /* positions stored by finished steps */
} cache;

/* Keys or values of one sequence, in cache or batch. Valid for positions [first, end). */
typedef struct view {
    const dtype *type;
    int64_t first, end;
    size_t row_bytes;
    const char *base;  /* row of position `first`, or ... */
    char *const *page; /* ... pages, and the stream's offset inside them */
    size_t offset;
} view;

static inline const stream *cache_stream(const cache_layout *c, int layer, int s)
{
    return &c->stream[layer * c->n_stream + s];
}

static inline void cache_store(const cache *c, int layer, int s, int64_t pos, const real *x)
{
    const stream *st = cache_stream(c->layout, layer, s);
    char *page = c->page[pos / PAGE_ROWS];
    c->layout->type->encode(page + st->offset + (size_t)(pos % PAGE_ROWS) * st->row_bytes, x,
                            st->width);
}

static inline view cache_view(const cache *c, int layer, int s, int64_t end)
{
    const stream *st = cache_stream(c->layout, layer, s);
    return (view){ .type = c->layout->type,
                   .end = end,
                   .row_bytes = st->row_bytes,
                   .page = c->page,
                   .offset = st->offset };
}

static inline const void *view_row(const view *v, int64_t pos)
{
    if (v->base)
        return v->base + (size_t)(pos - v->first) * v->row_bytes;
    return v->page[pos / PAGE_ROWS] + v->offset + (size_t)(pos % PAGE_ROWS) * v->row_bytes;
}

#endif
