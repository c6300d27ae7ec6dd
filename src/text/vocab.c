/* vocab.c - a hash table from strings to ids, over one pool of all strings. */
#include "text/vocab.h"

#include "base/checked.h"

#include <assert.h>

weft_status vocab_init(vocab *v, arena *store, uint64_t n, uint64_t bytes, weft_error *err)
{
    *v = (vocab){ 0 };
    if (n > VOCAB_MAX || bytes >= UINT32_MAX)
        return weft_fail(err, WEFT_EFORMAT,
                         "a vocabulary of %llu ids and %llu bytes; expected at most %llu and %u",
                         (unsigned long long)n, (unsigned long long)bytes,
                         (unsigned long long)VOCAB_MAX, UINT32_MAX);
    const uint64_t slots = hash_size(n);
    v->pool = arena_alloc(store, bytes, err);
    v->at = arena_alloc(store, n * sizeof *v->at, err); /* bounded: n <= VOCAB_MAX, twice too */
    v->length = arena_alloc(store, n * sizeof *v->length, err);
    v->slot = arena_alloc(store, slots * sizeof *v->slot, err);
    if (!v->pool || !v->at || !v->length || !v->slot)
        return WEFT_ENOMEM;
    memset(v->length, 0xFF, n * sizeof *v->length);
    memset(v->slot, 0xFF, slots * sizeof *v->slot);
    v->secret = hash_secret_draw();
    v->room = bytes;
    v->mask = slots - 1;
    v->n = (uint32_t)n;
    return WEFT_OK;
}

/* The slot of a text, or the free slot for it. */
static uint64_t slot_of(const vocab *v, const char *text, size_t length)
{
    uint64_t i = hash_text(&v->secret, text, length) & v->mask;
    for (; v->slot[i] != NO_ID; i = (i + 1) & v->mask) {
        const uint32_t id = v->slot[i];
        if (v->length[id] == length && memcmp(vocab_text(v, id), text, length) == 0)
            break;
    }
    return i;
}

vocab_added vocab_add(vocab *v, uint32_t id, const char *text, size_t length)
{
    assert(id < v->n && length <= v->room - v->used);
    const uint64_t i = slot_of(v, text, length);
    if (v->slot[i] != NO_ID)
        return VOCAB_SAME_TEXT;
    if (v->length[id] != NO_ID)
        return VOCAB_SAME_ID;
    vocab_name(v, id, text, length);
    v->slot[i] = id;
    v->count++;
    return VOCAB_OK;
}

void vocab_name(vocab *v, uint32_t id, const char *text, size_t length)
{
    assert(id < v->n && length <= v->room - v->used);
    if (length)
        memcpy(v->pool + v->used, text, length);
    v->at[id] = (uint32_t)v->used;
    v->length[id] = (uint32_t)length;
    v->used += length;
    if (length > v->longest)
        v->longest = (uint32_t)length;
}

uint32_t vocab_find(const vocab *v, const char *text, size_t length)
{
    return v->n ? v->slot[slot_of(v, text, length)] : NO_ID;
}
