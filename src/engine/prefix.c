/* prefix.c - the hash table of prefix.h. All its memory but sources is allocated once: a page is in
 * the table at most once, so its number finds its entry. */
#include "engine/prefix.h"

#include "base/checksum.h"

#include <assert.h>
#include <string.h>

/* ---- sources --------------------------------------------------------------------------------- */

prefix_source *prefix_source_hold(prefix *p, const int32_t *list, int64_t n, weft_error *err)
{
    const size_t bytes = (size_t)n * sizeof *list;
    const uint64_t hash = xxh64_of(list, bytes);
    for (prefix_source *s = p->sources; s; s = s->next)
        if (s->hash == hash && s->n == n && memcmp(s->ids, list, bytes) == 0) {
            s->n_holder++;
            return s;
        }
    prefix_source *s = mem_alloc(p->mem, sizeof *s + bytes, "a source", err);
    if (!s)
        return NULL;
    *s = (prefix_source){ .next = p->sources, .hash = hash, .n_holder = 1, .n = n };
    memcpy(s->ids, list, bytes);
    p->sources = s;
    return s;
}

void prefix_source_drop(prefix *p, prefix_source *s)
{
    if (!s || --s->n_holder > 0)
        return;
    prefix_source **at = &p->sources;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    mem_free(p->mem, s);
}

/* ---- the table ------------------------------------------------------------------------------- */

static uint64_t hash_of(const prefix_root *root, int32_t parent, const int32_t *list)
{
    const uint64_t from[] = { root->salt, root->source ? root->source->hash : 0, (uint64_t)parent,
                              root->adapter };
    xxh64 x;
    xxh64_begin(&x);
    xxh64_add(&x, from, sizeof from);
    xxh64_add(&x, list, PAGE_ROWS * sizeof *list);
    return xxh64_end(&x);
}

/* The number of the page with this key, or -1. */
static int32_t look_up(const prefix *p, const prefix_root *root, int32_t parent,
                       const int32_t *list)
{
    const uint64_t hash = hash_of(root, parent, list);
    int32_t i = p->bucket[hash & (p->n_bucket - 1)];
    for (; i >= 0; i = p->entry[i].next) {
        const prefix_entry *e = &p->entry[i];
        if (e->hash == hash && e->parent == parent && e->root.salt == root->salt &&
            e->root.source == root->source && e->root.adapter == root->adapter &&
            e->root.strength == root->strength && memcmp(e->ids, list, sizeof e->ids) == 0)
            break;
    }
    return i;
}

static void add(prefix *p, const prefix_root *root, int32_t parent, const int32_t *list, char *page)
{
    const int32_t i = pages_number(p->pages, page);
    prefix_entry *e = &p->entry[i];
    e->hash = hash_of(root, parent, list);
    e->root = *root;
    e->parent = parent;
    memcpy(e->ids, list, sizeof e->ids);
    int32_t *first = &p->bucket[e->hash & (p->n_bucket - 1)];
    e->next = *first;
    *first = i;
    if (root->source)
        root->source->n_holder++;
    pages_keep(p->pages, page);
}

/* An idle page is about to be used for something else. */
static void forget(void *ud, char *page)
{
    prefix *p = ud;
    const int32_t i = pages_number(p->pages, page);
    prefix_entry *e = &p->entry[i];
    int32_t *at = &p->bucket[e->hash & (p->n_bucket - 1)];
    while (*at != i)
        at = &p->entry[*at].next;
    *at = e->next;
    prefix_source_drop(p, e->root.source);
    pages_let_go(p->pages, page);
}

weft_status prefix_init(prefix *p, pages *of, mem *m, weft_error *err)
{
    *p = (prefix){ .pages = of, .mem = m, .n_bucket = 1 };
    while (p->n_bucket < 2 * (uint64_t)of->n_page)
        p->n_bucket *= 2;
    p->entry = mem_zalloc(m, (size_t)of->n_page, sizeof *p->entry, "cached prefixes", err);
    p->bucket = mem_alloc(m, p->n_bucket * sizeof *p->bucket, "cached prefixes", err);
    if (!p->entry || !p->bucket) {
        prefix_free(p);
        return WEFT_ENOMEM;
    }
    for (uint64_t i = 0; i < p->n_bucket; i++)
        p->bucket[i] = -1;
    of->forget = forget;
    of->forget_ud = p;
    return WEFT_OK;
}

void prefix_free(prefix *p)
{
    if (!p->mem)
        return;
    while (p->entry && p->bucket && p->pages->n_idle > 0)
        forget(p, pages_at(p->pages, p->pages->first));
    assert(!p->sources);
    p->pages->forget = NULL;
    p->pages->forget_ud = NULL;
    mem_free(p->mem, p->entry);
    mem_free(p->mem, p->bucket);
    *p = (prefix){ 0 };
}

/* ---- sessions -------------------------------------------------------------------------------- */

int64_t prefix_find(const prefix *p, const prefix_root *root, const int32_t *list, int64_t n,
                    int64_t *n_idle)
{
    int64_t k = 0;
    int32_t at = -1;
    *n_idle = 0;
    for (; k < n / PAGE_ROWS; k++) {
        at = look_up(p, root, at, list + k * PAGE_ROWS);
        if (at < 0)
            break;
        *n_idle += p->pages->refs[at] == 0;
    }
    return k;
}

/* The number of the session's page k - 1, which is in the table; -1 for none. */
static int32_t page_before(const prefix *p, const session *s, int64_t k)
{
    return k > 0 ? pages_number(p->pages, s->cache.page[k - 1]) : -1;
}

void prefix_share(prefix *p, const prefix_root *root, session *s, const int32_t *list, int64_t n,
                  int64_t *n_kept)
{
    cache *c = &s->cache;
    assert(c->length == *n_kept * PAGE_ROWS);
    while (c->length + PAGE_ROWS <= n) {
        const int32_t *ids = list + c->length;
        const int32_t i = look_up(p, root, page_before(p, s, *n_kept), ids);
        if (i < 0)
            return;
        char *page = pages_at(p->pages, i);
        pages_hold(p->pages, page);
        c->page[c->n_page++] = page;
        memcpy(s->ids + c->length, ids, PAGE_ROWS * sizeof *ids);
        c->length += PAGE_ROWS;
        s->has_logits = false;
        ++*n_kept;
    }
}

void prefix_keep(prefix *p, const prefix_root *root, session *s, int64_t *n_kept)
{
    for (; *n_kept < s->cache.length / PAGE_ROWS; ++*n_kept) {
        const int32_t *ids = s->ids + *n_kept * PAGE_ROWS;
        const int32_t before = page_before(p, s, *n_kept);
        char **own = &s->cache.page[*n_kept];
        const int32_t i = look_up(p, root, before, ids);
        if (i < 0) {
            add(p, root, before, ids, *own);
            continue;
        }
        pages_drop(p->pages, *own);
        *own = pages_at(p->pages, i);
        pages_hold(p->pages, *own);
    }
}
