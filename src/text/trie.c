/* trie.c - nodes in one array; a hash table of (node, byte) finds the children. */
#include "text/trie.h"

static void link_edge(trie *t, uint32_t node, uint8_t byte, uint32_t child)
{
    if (node == 0) {
        t->first[byte] = child;
        return;
    }
    const uint32_t key = node << 8 | byte;
    uint64_t i = hash_number(&t->secret, key) & t->mask;
    while (t->edge[i].node != NO_ID)
        i = (i + 1) & t->mask;
    t->edge[i] = (trie_edge){ key, child };
}

weft_status trie_init(trie *t, arena *store, const trie_entry *entry, size_t n, weft_error *err)
{
    *t = (trie){ .n = 1, .secret = hash_secret_draw() };
    uint64_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += entry[i].length; /* bounded: by the pool of a vocabulary */
    if (bytes >= TRIE_MAX_NODE)
        return weft_fail(err, WEFT_EFORMAT, "%llu bytes of pieces; expected at most %u",
                         (unsigned long long)bytes, TRIE_MAX_NODE);
    const uint64_t size = hash_size(bytes);
    t->edge = arena_alloc(store, size * sizeof *t->edge, err);
    t->value = arena_alloc(store, (bytes + 1) * sizeof *t->value, err);
    if (!t->edge || !t->value)
        return WEFT_ENOMEM;
    memset(t->edge, 0xFF, size * sizeof *t->edge);
    memset(t->value, 0xFF, (bytes + 1) * sizeof *t->value);
    t->mask = size - 1;
    for (size_t i = 0; i < n; i++) {
        uint32_t node = 0;
        for (uint32_t k = 0; k < entry[i].length; k++) {
            const uint8_t byte = (uint8_t)entry[i].text[k];
            uint32_t child = trie_step(t, node, byte);
            if (!child)
                link_edge(t, node, byte, child = t->n++);
            node = child;
        }
        if (node)
            t->value[node] = entry[i].value;
        if (entry[i].length > t->longest)
            t->longest = entry[i].length;
    }
    return WEFT_OK;
}

size_t trie_longest(const trie *t, uint32_t node, const char *text, size_t n, uint32_t *value)
{
    size_t longest = 0;
    for (size_t i = 0; i < n; i++) {
        node = trie_step(t, node, (uint8_t)text[i]);
        if (!node)
            break;
        if (t->value[node] != NO_ID) {
            *value = t->value[node];
            longest = i + 1;
        }
    }
    return longest;
}
