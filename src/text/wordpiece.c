/* wordpiece.c - longest match first, with a walk down the trie for each piece. */
#include "text/wordpiece.h"

#include "text/steps.h"

uint32_t wordpiece_inner(const trie *t, const char *prefix, size_t n)
{
    uint32_t node = 0;
    for (size_t i = 0; i < n; i++) {
        node = trie_step(t, node, (uint8_t)prefix[i]);
        if (!node)
            return NO_ID;
    }
    return node;
}

static size_t characters(const char *word, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += ((uint8_t)word[i] & 0xC0) != 0x80;
    return count;
}

static bool put_one(uint32_t id, size_t n, ids *out, weft_error *err)
{
    if (id == NO_ID) {
        weft_fail(
            err, WEFT_EINVAL,
            "the text has a word outside the vocabulary, and the vocabulary has no unknown token");
        return false;
    }
    if (!ids_reserve(out, 1, err))
        return false;
    ids_put(out, id, n);
    return true;
}

bool wordpiece_encode(const wordpiece *m, const char *word, size_t n, ids *out, weft_error *err)
{
    if (n > m->longest && characters(word, n) > m->longest)
        return put_one(m->unk, n, out, err);
    if (!ids_reserve(out, n, err))
        return false;
    const size_t before = out->n;
    for (size_t at = 0; at < n;) {
        uint32_t id = NO_ID;
        const uint32_t node = at == 0 ? 0 : m->inner;
        const size_t length = node == NO_ID ? 0
                                            : trie_longest(&m->trie, node, word + at, n - at, &id);
        if (out->steps)
            steps_match(out->steps, length > 0 ? id : NO_ID, at, length > 0 ? at + length : n);
        if (length == 0) {
            out->n = before;
            return put_one(m->unk, n, out, err);
        }
        at += length;
        ids_put(out, id, at);
    }
    return true;
}

bool wordlevel_encode(const wordlevel *m, const char *word, size_t n, ids *out, weft_error *err)
{
    const uint32_t id = vocab_find(m->vocab, word, n);
    return put_one(id != NO_ID ? id : m->unk, n, out, err);
}
