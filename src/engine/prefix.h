/* prefix.h - pages of earlier requests, found by their tokens: a prompt that starts like one of them
 * shares its pages and computes only the rest.
 *
 *     root (salt, source)
 *       +-- page 7 [64 ids] -- page 3 [64 ids] -- page 9 [64 ids]
 *                          \-- page 4 [64 ids]
 *
 * A hash table over full pages. The key of a page is the page before it and its own 64 tokens; the
 * first page's is the root: who may share it (salt), the source of an encoder-decoder, and the
 * adapter with its strength. Keys
 * are compared exactly, so an equal hash shares nothing. A table belongs to one engine, and so to one
 * model, one compute class and one type of cache. Rows depend on nothing else, so sharing does not
 * change a bit.
 *
 * A session releases its last page first, so of the idle pages the deepest is always taken before
 * the one it follows (pages.h). */
#ifndef WEFT_ENGINE_PREFIX_H
#define WEFT_ENGINE_PREFIX_H

#include "engine/session.h"

/* The source of an encoder-decoder; equal sources are one object. */
typedef struct prefix_source {
    struct prefix_source *next;
    uint64_t hash;
    int64_t n_holder; /* pages of the table, and requests */
    int64_t n;
    int32_t ids[];
} prefix_source;

typedef struct prefix_root {
    uint64_t salt;
    prefix_source *source; /* NULL: the model has no encoder */
    uint64_t adapter;      /* serial of the request's; 0: it has none */
    real strength;
} prefix_root;

typedef struct prefix_entry {
    uint64_t hash;
    prefix_root root;
    int32_t parent; /* number of the page before it; -1: none */
    int32_t next;   /* in its bucket; -1: none */
    int32_t ids[PAGE_ROWS];
} prefix_entry;

typedef struct prefix {
    pages *pages;
    mem *mem;
    prefix_entry *entry; /* [n_page]: of each page that is kept */
    int32_t *bucket;     /* [n_bucket], the first of each; -1: none */
    uint64_t n_bucket;   /* a power of two */
    prefix_source *sources;
} prefix;

weft_status prefix_init(prefix *p, pages *of, mem *m, weft_error *err);

/* Releases all pages. Nobody may hold a source any more. */
void prefix_free(prefix *p);

/* The one object for these ids; NULL without memory. */
prefix_source *prefix_source_hold(prefix *p, const int32_t *list, int64_t n, weft_error *err);
void prefix_source_drop(prefix *p, prefix_source *s);

/* How many of the first n / 64 pages are in the table, and how many of those are idle. */
int64_t prefix_find(const prefix *p, const prefix_root *root, const int32_t *list, int64_t n,
                    int64_t *n_idle);

/* Extends a session that consists of *n_kept pages of the table by more of them, at most to n
 * tokens. */
void prefix_share(prefix *p, const prefix_root *root, session *s, const int32_t *list, int64_t n,
                  int64_t *n_kept);

/* Puts the session's full pages into the table, those after its first *n_kept. If the table has
 * the same page already, the session uses that one instead of its own. */
void prefix_keep(prefix *p, const prefix_root *root, session *s, int64_t *n_kept);

#endif
