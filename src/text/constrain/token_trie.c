/* token_trie.c - builds the tries from the sorted bytes of all tokens; see token_trie.h. */
#include "text/constrain/token_trie.h"

#include "base/sort.h"

#include <string.h>

typedef struct entry {
    const char *bytes;
    uint32_t n, id;
    uint64_t key;    /* the first eight bytes, the first one highest */
    uint32_t points; /* of a plain token; 0: it is not plain */
} entry;

/* ---- order ----------------------------------------------------------------------------------- */

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

/* One pass of a radix sort, by two bytes of the key. */
static void sort_digit(entry **to, entry *const *from, uint32_t n, int shift, uint32_t *count)
{
    memset(count, 0, ((size_t)65536 + 1) * sizeof *count);
    for (uint32_t i = 0; i < n; i++)
        count[(from[i]->key >> shift & 65535) + 1]++;
    for (uint32_t i = 1; i <= 65536; i++)
        count[i] += count[i - 1];
    for (uint32_t i = 0; i < n; i++)
        to[count[from[i]->key >> shift & 65535]++] = from[i];
}

/* By the key, then runs of one key by comparing. An even number of passes ends in `e`. */
static void sort_entries(entry **e, entry **spare, uint32_t n, uint32_t *count)
{
    for (int shift = 0; shift < 64; shift += 32) {
        sort_digit(spare, e, n, shift, count);
        sort_digit(e, spare, n, shift + 16, count);
    }
    for (uint32_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && e[end]->key == e[i]->key; end++) {}
        if (end - i > 1)
            sort_pointers((void **)(e + i), (int64_t)(end - i), compare_entries);
    }
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* Bytes that both begin with. */
static uint32_t common(const entry *a, const entry *b)
{
    uint32_t n = 0;
    while (n < a->n && n < b->n && a->bytes[n] == b->bytes[n])
        n++;
    return n;
}

/* Whole plain code points follow each byte of a token or they do not: those of which it is true. */
static void mark_plain(token_node *nodes, const uint32_t *open, const entry *e, bool *plain)
{
    plain[e->n] = true;
    for (uint32_t i = e->n; i-- > 0;) {
        uint32_t point;
        const size_t length = utf8_decode(e->bytes + i, e->n - i, &point);
        plain[i] = length > 0 && is_plain(point) && plain[i + length];
        if (!plain[i])
            nodes[open[i]].plain = false;
    }
}

/* One node for each byte that an entry does not share with the one before. open: the path to the
 * last node. */
static void fill_nodes(token_nodes *t, entry *const *sorted, uint32_t *open, bool *plain)
{
    uint32_t n = 1;
    t->node[0] = (token_node){ 0 };
    open[0] = 0;
    for (uint32_t i = 0; i < t->n_id; i++) {
        const entry *e = sorted[i];
        const uint32_t shared = i > 0 ? common(sorted[i - 1], e) : 0;
        for (uint32_t d = i > 0 ? sorted[i - 1]->n : 0; d > shared; d--)
            t->node[open[d]].end = n;
        for (uint32_t d = shared; d < e->n; d++) {
            t->node[n] = (token_node){
                .first = i, .depth = (uint16_t)(d + 1), .byte = (uint8_t)e->bytes[d], .plain = true
            };
            open[d + 1] = n++;
        }
        t->id[i] = e->id;
        mark_plain(t->node, open, e, plain);
    }
    for (uint32_t d = t->n_id > 0 ? sorted[t->n_id - 1]->n : 0; d > 0; d--)
        t->node[open[d]].end = n;
    t->node[0].end = n;
    t->node[n] = (token_node){ .end = n, .first = t->n_id };
}

static weft_status build(token_nodes *to, const token_trie *t, entry *const *sorted, uint32_t n_id,
                         weft_error *err)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < n_id; i++)
        n += sorted[i]->n - (i > 0 ? common(sorted[i - 1], sorted[i]) : 0);
    if (n > UINT32_MAX - 1)
        return weft_fail(err, WEFT_EUNSUPPORTED, "%s: the vocabulary has too many bytes for a trie",
                         t->tokenizer->path);
    to->n = (uint32_t)n;
    to->n_id = n_id;
    to->node = mem_zalloc(t->mem, (size_t)n + 1, sizeof *to->node, "a trie of tokens", err);
    to->id = mem_zalloc(t->mem, (size_t)n_id + 1, sizeof *to->id, "a trie of tokens", err);
    uint32_t *open = mem_zalloc(t->mem, (size_t)t->depth + 1, sizeof *open, "a trie of tokens",
                                err);
    bool *plain = mem_zalloc(t->mem, (size_t)t->depth + 1, sizeof *plain, "a trie of tokens", err);
    const bool good = to->node && to->id && open && plain;
    if (good)
        fill_nodes(to, sorted, open, plain);
    mem_free(t->mem, open);
    mem_free(t->mem, plain);
    return good ? WEFT_OK : err->code;
}

/* ---- the whole ------------------------------------------------------------------------------- */

size_t token_text(const token_trie *t, uint32_t id, const char **bytes)
{
    const int64_t n = id < t->n_id ? tokenizer_piece(t->tokenizer, id, bytes) : 0;
    return n > 0 ? (size_t)n : 0;
}

/* Code points of a plain token; 0 if it is not one. */
static uint32_t plain_points(const char *bytes, size_t n)
{
    uint32_t points = 0;
    for (size_t at = 0; at < n; points++) {
        uint32_t point;
        const size_t length = utf8_decode(bytes + at, n - at, &point);
        if (length == 0 || !is_plain(point) || points == PLAIN_MOST)
            return 0;
        at += length;
    }
    return points;
}

static uint32_t take_entries(token_trie *t, entry *all, entry **sorted)
{
    uint32_t n = 0;
    for (uint32_t id = 0; id < t->n_id; id++) {
        const char *bytes;
        const size_t length = token_text(t, id, &bytes);
        if (length == 0)
            continue;
        entry *e = &all[n];
        *e = (entry){ bytes, (uint32_t)length, id, 0, plain_points(bytes, length) };
        for (size_t i = 0; i < 8; i++)
            e->key = e->key << 8 | (i < length ? (uint8_t)bytes[i] : 0);
        for (uint32_t k = e->points; k > 0 && k <= PLAIN_MOST; k++)
            t->plain[k * t->words + id / 64] |= (uint64_t)1 << id % 64;
        t->depth = t->depth > e->n ? t->depth : e->n;
        sorted[n++] = e;
    }
    return n;
}

/* Sorts them; those that are not plain come to the front of `spare`, in the same order. */
static weft_status build_both(token_trie *t, entry **sorted, entry **spare, uint32_t n,
                              uint32_t *count, weft_error *err)
{
    uint32_t n_rest = 0;
    sort_entries(sorted, spare, n, count);
    for (uint32_t i = 0; i < n; i++)
        if (sorted[i]->points == 0)
            spare[n_rest++] = sorted[i];
    const weft_status status = build(&t->all, t, sorted, n, err);
    return status == WEFT_OK ? build(&t->rest, t, spare, n_rest, err) : status;
}

weft_status token_trie_init(token_trie *t, const tokenizer *of, mem *m, weft_error *err)
{
    *t = (token_trie){ .mem = m, .tokenizer = of, .n_id = of->n_id };
    t->words = ((size_t)t->n_id + 63) / 64 + 1;
    const size_t room = (size_t)t->n_id + 1;
    entry *all = mem_zalloc(m, room, sizeof *all, "a trie of tokens", err);
    entry **sorted = mem_zalloc(m, 2 * room, sizeof *sorted, "a trie of tokens", err);
    uint32_t *count = mem_zalloc(m, 65536 + 1, sizeof *count, "a trie of tokens", err);
    t->plain = mem_zalloc(m, (PLAIN_MOST + 1) * t->words, sizeof *t->plain, "a trie of tokens",
                          err);
    weft_status status = all && sorted && count && t->plain ? WEFT_OK : err->code;
    if (status == WEFT_OK)
        status = build_both(t, sorted, sorted + room, take_entries(t, all, sorted), count, err);
    mem_free(m, count);
    mem_free(m, sorted);
    mem_free(m, all);
    if (status != WEFT_OK)
        token_trie_free(t);
    return status;
}

void token_trie_free(token_trie *t)
{
    mem_free(t->mem, t->all.node);
    mem_free(t->mem, t->all.id);
    mem_free(t->mem, t->rest.node);
    mem_free(t->mem, t->rest.id);
    mem_free(t->mem, t->plain);
    *t = (token_trie){ .mem = t->mem };
}
