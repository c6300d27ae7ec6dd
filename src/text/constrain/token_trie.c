/* token_trie.c - builds the trie from the sorted bytes of all tokens; see token_trie.h. */
#include "text/constrain/token_trie.h"

#include "base/sort.h"

#include <string.h>

typedef struct entry {
    const char *bytes;
    uint32_t n, id;
} entry;

static int compare_entries(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    const int order = memcmp(x->bytes, y->bytes, x->n < y->n ? x->n : y->n);
    if (order != 0)
        return order;
    if (x->n != y->n)
        return x->n < y->n ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static uint32_t common(const entry *a, const entry *b)
{
    uint32_t n = 0;
    while (n < a->n && n < b->n && a->bytes[n] == b->bytes[n])
        n++;
    return n;
}

size_t token_text(const token_trie *t, uint32_t id, const char **bytes)
{
    const int64_t n = id < t->n_id ? tokenizer_piece(t->tokenizer, id, bytes) : 0;
    return n > 0 ? (size_t)n : 0;
}

/* One node for each byte that an entry does not share with the one before. */
static void fill_nodes(token_trie *t, entry *const *sorted, uint32_t *open)
{
    uint32_t n = 1;
    t->node[0] = (token_node){ 0 };
    open[0] = 0;
    for (uint32_t i = 0; i < t->n_text; i++) {
        const entry *e = sorted[i];
        const uint32_t shared = i > 0 ? common(sorted[i - 1], e) : 0;
        for (uint32_t d = i > 0 ? sorted[i - 1]->n : 0; d > shared; d--)
            t->node[open[d]].end = n;
        for (uint32_t d = shared; d < e->n; d++) {
            t->node[n] = (token_node){ .first = i,
                                       .depth = (uint16_t)(d + 1),
                                       .byte = (uint8_t)e->bytes[d] };
            open[d + 1] = n++;
        }
        t->id[i] = e->id;
    }
    for (uint32_t d = t->n_text > 0 ? sorted[t->n_text - 1]->n : 0; d > 0; d--)
        t->node[open[d]].end = n;
    t->node[0].end = n;
    t->node[n] = (token_node){ .end = n, .first = t->n_text };
}

static weft_status build(token_trie *t, entry *const *sorted, weft_error *err)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < t->n_text; i++) {
        n += sorted[i]->n - (i > 0 ? common(sorted[i - 1], sorted[i]) : 0);
        t->depth = t->depth > sorted[i]->n ? t->depth : sorted[i]->n;
    }
    if (n > UINT32_MAX - 1)
        return weft_fail(err, WEFT_EUNSUPPORTED, "%s: the vocabulary has too many bytes for a trie",
                         t->tokenizer->path);
    t->n = (uint32_t)n;
    t->node = mem_zalloc(t->mem, (size_t)n + 1, sizeof *t->node, "a trie of tokens", err);
    t->id = mem_zalloc(t->mem, (size_t)t->n_text + 1, sizeof *t->id, "a trie of tokens", err);
    uint32_t *open = mem_zalloc(t->mem, (size_t)t->depth + 1, sizeof *open, "a trie of tokens",
                                err);
    if (t->node && t->id && open)
        fill_nodes(t, sorted, open);
    mem_free(t->mem, open);
    return t->node && t->id && open ? WEFT_OK : err->code;
}

weft_status token_trie_init(token_trie *t, const tokenizer *of, mem *m, weft_error *err)
{
    *t = (token_trie){ .mem = m, .tokenizer = of, .n_id = of->n_id };
    entry *all = mem_zalloc(m, (size_t)t->n_id + 1, sizeof *all, "a trie of tokens", err);
    entry **sorted = mem_zalloc(m, (size_t)t->n_id + 1, sizeof *sorted, "a trie of tokens", err);
    weft_status status = all && sorted ? WEFT_OK : err->code;
    for (uint32_t id = 0; id < t->n_id && status == WEFT_OK; id++) {
        const char *bytes;
        const size_t n = token_text(t, id, &bytes);
        if (n == 0)
            continue;
        all[t->n_text] = (entry){ bytes, (uint32_t)n, id };
        sorted[t->n_text] = &all[t->n_text];
        t->n_text++;
    }
    if (status == WEFT_OK) {
        sort_pointers((void **)sorted, (int64_t)t->n_text, compare_entries);
        status = build(t, sorted, err);
    }
    mem_free(m, sorted);
    mem_free(m, all);
    if (status != WEFT_OK)
        token_trie_free(t);
    return status;
}

void token_trie_free(token_trie *t)
{
    mem_free(t->mem, t->node);
    mem_free(t->mem, t->id);
    t->node = NULL;
    t->id = NULL;
}
