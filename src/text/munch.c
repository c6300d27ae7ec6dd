/* munch.c - builds the automaton breadth first, and walks it. */
#include "text/munch.h"

/* ---- the automaton --------------------------------------------------------------------------- */

static bool is_string(const munch *m, uint32_t v)
{
    return m->trie.value[v] != NO_ID;
}

/* Parents and depths, from a second walk along every string. `byte` holds the byte that leads to
 * each node for now. */
static void place_nodes(munch *m, const trie_entry *entry, size_t n, uint8_t *byte)
{
    m->node[0] = (munch_node){ 0 };
    for (size_t i = 0; i < n; i++)
        for (uint32_t k = 0, at = 0; k < entry[i].length; k++) {
            const uint8_t c = (uint8_t)entry[i].text[k];
            const uint32_t child = trie_step(&m->trie, at, c);
            m->node[child] = (munch_node){ .parent = at, .depth = k + 1 };
            byte[child] = c;
            at = child;
        }
}

/* Computes the pops a node adds to its parent's, and its fail node. All nodes above it are done. */
static void link_node(munch *m, uint32_t v, uint8_t c)
{
    munch_node *x = &m->node[v];
    const uint32_t first = m->node[x->parent].fail;
    x->home = v;
    if (is_string(m, v))
        return;
    uint32_t z = first, to = x->parent ? trie_step(&m->trie, z, c) : 0;
    while (!to && z) {
        z = m->node[z].fail;
        to = trie_step(&m->trie, z, c);
    }
    x->stop = z;
    x->fail = to;
    x->byte = !to;
    if (to && z == first)
        x->home = m->node[x->parent].home;
}

/* Sorts nodes by depth: depth d starts at order[at[d]]. */
static void sort_nodes(const munch *m, uint32_t *order, uint32_t *at)
{
    const uint32_t deepest = m->trie.longest;
    for (uint32_t v = 1; v < m->trie.n; v++)
        at[m->node[v].depth + 1]++;
    for (uint32_t d = 1; d <= deepest + 1; d++)
        at[d] += at[d - 1];
    for (uint32_t v = 1; v < m->trie.n; v++)
        order[at[m->node[v].depth]++] = v;
}

weft_status munch_init(munch *m, arena *store, const trie_entry *entry, size_t n, mem *room,
                       weft_error *err)
{
    const weft_status status = trie_init(&m->trie, store, entry, n, err);
    if (status != WEFT_OK)
        return status;
    const size_t nodes = m->trie.n;
    m->node = arena_alloc(store, nodes * sizeof *m->node, err);
    uint8_t *byte = mem_alloc(room, nodes, "added tokens", err);
    uint32_t *order = mem_alloc(room, nodes * sizeof *order, "added tokens", err);
    uint32_t *at = mem_zalloc(room, (size_t)m->trie.longest + 2, sizeof *at, "added tokens", err);
    const bool good = m->node && byte && order && at;
    if (good) {
        place_nodes(m, entry, n, byte);
        sort_nodes(m, order, at);
        for (size_t i = 0; i + 1 < nodes; i++)
            link_node(m, order[i], byte[order[i]]);
    }
    mem_free(room, at);
    mem_free(room, order);
    mem_free(room, byte);
    return good ? WEFT_OK : WEFT_ENOMEM;
}

/* ---- walking --------------------------------------------------------------------------------- */

static void push(munch_walk *w, munch_due x)
{
    w->due[w->n_due++] = x;
}

/* Pushes the parts of a node's pops, the first on top. Every part but the parent's has a byte of
 * its own, so there is room for everything that can be due at once. */
static void push_parts(munch_walk *w, uint32_t v)
{
    const munch_node *x = &w->m->node[v];
    const uint32_t first = w->m->node[x->parent].fail;
    if (x->byte)
        push(w, (munch_due){ DUE_BYTE, 0, 0 });
    if (x->parent && first != x->stop)
        push(w, (munch_due){ DUE_CHAIN, first, x->stop });
    if (x->parent)
        push(w, (munch_due){ DUE_NODE, x->parent, 0 });
}

/* Pops until a string comes up, or nothing is due. */
static bool pop_string(munch_walk *w, size_t *at, size_t *length, uint32_t *value)
{
    const munch *m = w->m;
    while (w->n_due > 0) {
        const munch_due x = w->due[--w->n_due];
        if (x.kind == DUE_BYTE) {
            w->at++;
            continue;
        }
        if (x.kind == DUE_CHAIN && m->node[x.node].fail != x.stop)
            push(w, (munch_due){ DUE_CHAIN, m->node[x.node].fail, x.stop });
        const uint32_t v = m->node[x.node].home;
        if (!is_string(m, v)) {
            push_parts(w, v);
            continue;
        }
        *at = w->at;
        *length = m->node[v].depth;
        *value = m->trie.value[v];
        w->at += *length;
        return true;
    }
    return false;
}

bool munch_next(munch_walk *w, size_t *at, size_t *length, uint32_t *value)
{
    const trie *t = &w->m->trie;
    for (;;) {
        if (w->n_due > 0 && pop_string(w, at, length, value))
            return true;
        if (w->node == 0) {
            while (w->read < w->n && !t->first[(uint8_t)w->s[w->read]])
                w->read++;
            w->at = w->read;
            if (w->read == w->n)
                return false;
        }
        const uint32_t child = w->read < w->n ? trie_step(t, w->node, (uint8_t)w->s[w->read]) : 0;
        if (child) {
            w->node = child;
            w->read++;
        } else {
            push(w, (munch_due){ DUE_NODE, w->node, 0 });
            w->node = w->m->node[w->node].fail;
        }
    }
}
