/* merger.c - learns merges, most frequent first.
 *
 *     words     l o w e r   x 3          pairs   (e,r) 3 + 2   in words 0, 1
 *               w i d e r   x 2                  (l,o) 3       in word 0 ...
 *
 * A heap holds an entry for each pair: its count when it was pushed, and the words it was found in.
 * An entry whose count is stale is pushed again with the current count. Merging a pair changes only
 * the counts of its neighbours, so a step costs only as much as it changes.
 *
 * Order and ties match Hugging Face exactly, including one quirk. If two different merges make the
 * same token, a pair with it may get a second entry for the words found later, and be merged in two
 * steps. The later step is its rank. */
#include "text/train/merger.h"

#include "text/hash.h"

#define NONE UINT32_MAX

typedef struct merger_word {
    size_t at; /* first symbol */
    size_t n;
    uint64_t count;
} merger_word;

/* A word of an entry's list. */
typedef struct occurrence_node {
    uint32_t word, next;
} occurrence_node;

typedef struct entry {
    int64_t count;
    uint32_t a, b;
    uint32_t list;   /* first node */
    uint32_t number; /* order of creation; the final tie-breaker */
} entry;

typedef struct pair_slot {
    uint32_t a, b;
    int64_t count;
    uint32_t fresh; /* words found since the last entry was made */
    bool used;
} pair_slot;

typedef struct work {
    merger *l;
    weft_error *err;
    bool failed;

    scratch node_room, heap_room, touched_room;
    occurrence_node *nodes;
    uint32_t n_node, free_node;
    entry *heap;
    size_t n_heap;
    uint32_t n_entry;
    pair_slot *slot;
    uint64_t size, n_pair;
    hash_secret secret;
    merge *touched; /* pairs that have new words */
    size_t n_touched;
} work;

/* ---- tokens ---------------------------------------------------------------------------------- */

const char *tokens_get(const token_list *t, uint32_t id, size_t *n)
{
    *n = t->at[id + 1] - t->at[id];
    return t->text + t->at[id];
}

static uint32_t *token_slot(const token_list *t, const char *s, size_t n)
{
    for (uint64_t i = hash_text(&t->secret, s, n) & (t->size - 1);; i = (i + 1) & (t->size - 1)) {
        uint32_t *slot = &t->slot[i];
        if (*slot == 0)
            return slot;
        size_t length;
        const char *other = tokens_get(t, *slot - 1, &length);
        if (length == n && memcmp(other, s, n) == 0)
            return slot;
    }
}

uint32_t tokens_find(const token_list *t, const char *s, size_t n)
{
    const uint32_t slot = t->size ? *token_slot(t, s, n) : 0;
    return slot ? slot - 1 : NO_ID;
}

static bool tokens_rehash(token_list *t, weft_error *err)
{
    const uint64_t size = t->size ? t->size * 2 : 1024;
    uint32_t *slot = mem_zalloc(t->mem, size, sizeof *slot, "tokens", err);
    if (!slot)
        return false;
    mem_free(t->mem, t->slot);
    t->slot = slot;
    t->size = size;
    t->secret = hash_secret_draw();
    for (uint32_t id = 0; id < t->n; id++) {
        size_t n;
        const char *s = tokens_get(t, id, &n);
        *token_slot(t, s, n) = id + 1;
    }
    return true;
}

uint32_t tokens_add(token_list *t, const char *s, size_t n, weft_error *err)
{
    if (t->n >= t->size / 2 && !tokens_rehash(t, err))
        return NO_ID;
    uint32_t *slot = token_slot(t, s, n);
    if (*slot)
        return *slot - 1;
    const size_t used = t->n ? t->at[t->n] : 0;
    char *text = scratch_grow(&t->text_room, used + n + 1, t->mem, err);
    if (!text)
        return NO_ID;
    t->text = text;
    size_t *at = scratch_grow(&t->at_room, ((size_t)t->n + 2) * sizeof *at, t->mem, err);
    if (!at)
        return NO_ID;
    t->at = at;
    memcpy(text + used, s, n);
    at[t->n] = used;
    at[++t->n] = used + n;
    *slot = t->n;
    return t->n - 1;
}

void tokens_free(token_list *t)
{
    scratch_free(&t->text_room, t->mem);
    scratch_free(&t->at_room, t->mem);
    mem_free(t->mem, t->slot);
    *t = (token_list){ .mem = t->mem };
}

/* ---- words ----------------------------------------------------------------------------------- */

bool merger_put(merger *l, uint32_t symbol, weft_error *err)
{
    uint32_t *s = scratch_grow(&l->symbol_room, (l->n_symbol + 1) * sizeof *s, l->mem, err);
    if (!s)
        return false;
    l->symbol = s;
    s[l->n_symbol++] = symbol;
    return true;
}

bool merger_end_word(merger *l, uint64_t count, weft_error *err)
{
    const size_t n = (size_t)l->n_word + 1;
    merger_word *w = scratch_grow(&l->word_room, n * sizeof *w, l->mem, err);
    if (!w || n >= NONE) {
        if (w)
            weft_fail(err, WEFT_EUNSUPPORTED, "more than %u different words", NONE - 1);
        return false;
    }
    l->word = w;
    const size_t at = l->n_word ? w[l->n_word - 1].at + w[l->n_word - 1].n : 0;
    w[l->n_word++] = (merger_word){ at, l->n_symbol - at, count };
    return true;
}

void merger_free(merger *l)
{
    tokens_free(&l->tokens);
    scratch_free(&l->symbol_room, l->mem);
    scratch_free(&l->word_room, l->mem);
    scratch_free(&l->merge_room, l->mem);
}

/* ---- pairs ----------------------------------------------------------------------------------- */

static pair_slot *pair_find(const work *k, uint32_t a, uint32_t b)
{
    for (uint64_t i = hash_number(&k->secret, (uint64_t)a << 32 | b) & (k->size - 1);;
         i = (i + 1) & (k->size - 1)) {
        pair_slot *slot = &k->slot[i];
        if (!slot->used || (slot->a == a && slot->b == b))
            return slot;
    }
}

static bool pairs_rehash(work *k)
{
    pair_slot *old = k->slot;
    const uint64_t old_size = k->size, size = old_size ? old_size * 2 : 1 << 14;
    pair_slot *slot = mem_zalloc(k->l->mem, size, sizeof *slot, "pairs", k->err);
    if (!slot) {
        k->failed = true;
        return false;
    }
    k->slot = slot;
    k->size = size;
    for (uint64_t i = 0; i < old_size; i++)
        if (old[i].used)
            *pair_find(k, old[i].a, old[i].b) = old[i];
    mem_free(k->l->mem, old);
    return true;
}

/* NULL if memory runs out. */
static pair_slot *pair_of(work *k, uint32_t a, uint32_t b)
{
    if (k->n_pair >= k->size / 2 && !pairs_rehash(k))
        return NULL;
    pair_slot *slot = pair_find(k, a, b);
    if (!slot->used) {
        *slot = (pair_slot){ a, b, 0, NONE, true };
        k->n_pair++;
    }
    return slot;
}

static uint32_t node_new(work *k, uint32_t w, uint32_t next)
{
    uint32_t i = k->free_node;
    if (i != NONE) {
        k->free_node = k->nodes[i].next;
    } else {
        occurrence_node *nodes = scratch_grow(
            &k->node_room, ((size_t)k->n_node + 1) * sizeof *nodes, k->l->mem, k->err);
        if (!nodes || k->n_node == NONE - 1) {
            if (nodes)
                weft_fail(k->err, WEFT_EUNSUPPORTED, "too many pairs in too many words");
            k->failed = true;
            return NONE;
        }
        k->nodes = nodes;
        i = k->n_node++;
    }
    k->nodes[i] = (occurrence_node){ w, next };
    return i;
}

static void lose(work *k, uint32_t a, uint32_t b, uint64_t count)
{
    pair_slot *p = pair_of(k, a, b);
    if (p)
        p->count -= (int64_t)count;
}

static void gain(work *k, uint32_t a, uint32_t b, uint32_t w, uint64_t count)
{
    pair_slot *p = pair_of(k, a, b);
    if (!p)
        return;
    p->count += (int64_t)count;
    if (p->fresh == NONE) {
        merge *touched = scratch_grow(&k->touched_room, (k->n_touched + 1) * sizeof *touched,
                                      k->l->mem, k->err);
        if (!touched) {
            k->failed = true;
            return;
        }
        k->touched = touched;
        touched[k->n_touched++] = (merge){ a, b, 0 };
    } else if (k->nodes[p->fresh].word == w) {
        return;
    }
    p->fresh = node_new(k, w, p->fresh);
}

/* ---- the heap -------------------------------------------------------------------------------- */

static int compare_tokens(const token_list *t, uint32_t a, uint32_t b)
{
    size_t n, m;
    const char *x = tokens_get(t, a, &n), *y = tokens_get(t, b, &m);
    const int order = memcmp(x, y, n < m ? n : m);
    return order ? order : (n > m) - (n < m);
}

/* Does x come before y? */
static bool before(const work *k, const entry *x, const entry *y)
{
    if (x->count != y->count)
        return x->count > y->count;
    if (x->a == y->a && x->b == y->b)
        return x->number < y->number;
    if (!k->l->by_bytes)
        return x->a != y->a ? x->a < y->a : x->b < y->b;
    const int order = x->a == y->a ? 0 : compare_tokens(&k->l->tokens, x->a, y->a);
    return order ? order > 0 : compare_tokens(&k->l->tokens, x->b, y->b) > 0;
}

static void heap_push(work *k, entry x)
{
    entry *h = scratch_grow(&k->heap_room, (k->n_heap + 1) * sizeof *h, k->l->mem, k->err);
    if (!h) {
        k->failed = true;
        return;
    }
    k->heap = h;
    size_t i = k->n_heap++;
    for (; i > 0 && before(k, &x, &h[(i - 1) / 2]); i = (i - 1) / 2)
        h[i] = h[(i - 1) / 2];
    h[i] = x;
}

/* Replaces the top by x and sinks it. */
static void heap_sink(work *k, entry x)
{
    entry *h = k->heap;
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < k->n_heap; i = child) {
        if (child + 1 < k->n_heap && before(k, &h[child + 1], &h[child]))
            child++;
        if (!before(k, &h[child], &x))
            break;
        h[i] = h[child];
    }
    h[i] = x;
}

static entry heap_pop(work *k)
{
    const entry top = k->heap[0], last = k->heap[--k->n_heap];
    if (k->n_heap > 0)
        heap_sink(k, last);
    return top;
}

/* Pushes an entry for every pair that was found in more words. */
static void push_touched(work *k)
{
    for (size_t i = 0; i < k->n_touched && !k->failed; i++) {
        pair_slot *p = pair_find(k, k->touched[i].a, k->touched[i].b);
        if (p->count > 0)
            heap_push(k, (entry){ p->count, p->a, p->b, p->fresh, k->n_entry++ });
        p->fresh = NONE;
    }
    k->n_touched = 0;
}

/* ---- merging --------------------------------------------------------------------------------- */

static void count_pairs(work *k)
{
    const merger *l = k->l;
    for (uint32_t w = 0; w < l->n_word && !k->failed; w++) {
        const uint32_t *s = l->symbol + l->word[w].at;
        for (size_t i = 0; i + 1 < l->word[w].n && !k->failed; i++)
            gain(k, s[i], s[i + 1], w, l->word[w].count);
    }
    push_touched(k);
}

static void merge_in_word(work *k, uint32_t w, const merge *m)
{
    merger_word *x = &k->l->word[w];
    uint32_t *s = k->l->symbol + x->at;
    size_t out = 0;
    for (size_t i = 0; i < x->n; i++) {
        if (s[i] != m->a || i + 1 == x->n || s[i + 1] != m->b) {
            s[out++] = s[i];
            continue;
        }
        if (out > 0) {
            lose(k, s[out - 1], m->a, x->count);
            gain(k, s[out - 1], m->made, w, x->count);
        }
        if (i + 2 < x->n) {
            lose(k, m->b, s[i + 2], x->count);
            gain(k, m->made, s[i + 2], w, x->count);
        }
        s[out++] = m->made;
        i++;
    }
    x->n = out;
}

/* The token that a and b make together. */
static uint32_t join(work *k, uint32_t a, uint32_t b)
{
    merger *l = k->l;
    size_t n, m, prefix = l->prefix ? strlen(l->prefix) : 0;
    const char *x = tokens_get(&l->tokens, a, &n), *y = tokens_get(&l->tokens, b, &m);
    if (prefix > 0 && m >= prefix && memcmp(y, l->prefix, prefix) == 0) {
        y += prefix;
        m -= prefix;
    }
    char *both = mem_alloc(l->mem, n + m, "a token", k->err);
    if (!both)
        return NO_ID;
    memcpy(both, x, n);
    memcpy(both + n, y, m);
    const uint32_t id = tokens_add(&l->tokens, both, n + m, k->err);
    mem_free(l->mem, both);
    return id;
}

static void merge_everywhere(work *k, const entry *top)
{
    merger *l = k->l;
    merge *merges = scratch_grow(&l->merge_room, (l->n_merge + 1) * sizeof *merges, l->mem, k->err);
    const merge m = { top->a, top->b, merges ? join(k, top->a, top->b) : NO_ID };
    if (m.made == NO_ID) {
        k->failed = true;
        return;
    }
    l->merges = merges;
    merges[l->n_merge++] = m;
    for (uint32_t i = top->list, next; i != NONE && !k->failed; i = next) {
        const uint32_t w = k->nodes[i].word;
        next = k->nodes[i].next;
        k->nodes[i].next = k->free_node;
        k->free_node = i;
        merge_in_word(k, w, &m);
    }
    push_touched(k);
}

/* A pair that was merged twice keeps its later rank. */
static weft_status drop_repeats(merger *l, weft_error *err)
{
    const uint64_t size = hash_size(l->n_merge);
    const hash_secret secret = hash_secret_draw();
    uint32_t *last = mem_zalloc(l->mem, size, sizeof *last, "ranks of pairs", err);
    if (!last)
        return WEFT_ENOMEM;
    size_t out = l->n_merge; /* entries to keep are collected at the end, last to first */
    for (size_t i = l->n_merge; i-- > 0;) {
        const merge m = l->merges[i];
        uint64_t h = hash_number(&secret, (uint64_t)m.a << 32 | m.b) & (size - 1);
        while (last[h] && (l->merges[last[h] - 1].a != m.a || l->merges[last[h] - 1].b != m.b))
            h = (h + 1) & (size - 1);
        if (last[h])
            continue;
        l->merges[--out] = m;
        last[h] = (uint32_t)out + 1;
    }
    memmove(l->merges, l->merges + out, (l->n_merge - out) * sizeof *l->merges);
    l->n_merge -= out;
    mem_free(l->mem, last);
    return WEFT_OK;
}

weft_status merger_run(merger *l, weft_error *err)
{
    work k = { .l = l, .err = err, .free_node = NONE, .secret = hash_secret_draw() };
    count_pairs(&k);
    while (!k.failed && l->tokens.n < l->n_vocab && k.n_heap > 0) {
        entry top = k.heap[0];
        const int64_t count = pair_find(&k, top.a, top.b)->count;
        if (top.count != count) {
            top.count = count;
            heap_sink(&k, top);
            continue;
        }
        if (count < 1 || (uint64_t)count < l->min_frequency)
            break;
        top = heap_pop(&k);
        merge_everywhere(&k, &top);
    }
    scratch_free(&k.node_room, l->mem);
    scratch_free(&k.heap_room, l->mem);
    scratch_free(&k.touched_room, l->mem);
    mem_free(l->mem, k.slot);
    if (k.failed)
        return err ? err->code : WEFT_ENOMEM;
    return l->n_merge > 0 ? drop_repeats(l, err) : WEFT_OK;
}
