/* arena.c - chunks, marks and red zones of arena.h. Counting and allocating share one path, so a
 * dry run counts exactly the bytes that a real run allocates. */
#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_ASAN 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define ARENA_ASAN 1
#endif

#ifdef ARENA_ASAN
#include <sanitizer/asan_interface.h>
#define RED_ZONE          MEM_ALIGN
#define POISON(p, size)   __asan_poison_memory_region(p, size)
#define UNPOISON(p, size) __asan_unpoison_memory_region(p, size)
#else
#define RED_ZONE          0
#define POISON(p, size)   ((void)0)
#define UNPOISON(p, size) ((void)0)
#endif

#define CHUNK ((size_t)64 << 10) /* smallest chunk of a growing arena */

struct arena_chunk {
    arena_chunk *older;
    size_t size, at; /* capacity and fill of bytes[] */
    _Alignas(MEM_ALIGN) char bytes[];
};

static arena_chunk *chunk_new(mem *m, size_t size, arena_chunk *older, const char *what,
                              weft_error *err)
{
    size_t whole;
    if (__builtin_add_overflow(size, sizeof(arena_chunk), &whole)) {
        weft_fail(err, WEFT_ENOMEM, "%s: %zu bytes are more than memory can hold", what, size);
        return NULL;
    }
    arena_chunk *c = mem_alloc(m, whole, what, err);
    if (!c)
        return NULL;
    c->older = older;
    c->size = size;
    c->at = 0;
    POISON(c->bytes, size);
    return c;
}

static void chunk_free(mem *m, arena_chunk *c)
{
    UNPOISON(c->bytes, c->size);
    mem_free(m, c);
}

weft_status arena_init(arena *a, arena_kind kind, mem *m, size_t size, const char *what,
                       weft_error *err)
{
    *a = (arena){ .kind = kind, .mem = m };
    if (kind == ARENA_FIXED) {
        a->chunk = chunk_new(m, size, NULL, what, err);
        if (!a->chunk)
            return WEFT_ENOMEM;
    }
    return WEFT_OK;
}

void arena_free(arena *a)
{
    while (a->chunk) {
        arena_chunk *older = a->chunk->older;
        chunk_free(a->mem, a->chunk);
        a->chunk = older;
    }
    *a = (arena){ 0 };
}

static bool room(const arena_chunk *c, size_t size)
{
    return c && size <= c->size - c->at;
}

void *arena_alloc(arena *a, size_t size, weft_error *err)
{
    size_t whole;
    if (__builtin_add_overflow(size, (size_t)RED_ZONE + MEM_ALIGN - 1, &whole)) {
        weft_fail(err, WEFT_ENOMEM, "%zu bytes are more than memory can hold", size);
        return NULL;
    }
    whole &= ~((size_t)MEM_ALIGN - 1);

    if (a->kind == ARENA_GROWING && !room(a->chunk, whole)) {
        const size_t min_chunk = a->mem->hooks.chunk ? a->mem->hooks.chunk : CHUNK;
        arena_chunk *c = chunk_new(a->mem, whole > min_chunk ? whole : min_chunk, a->chunk,
                                   "working memory", err);
        if (!c)
            return NULL;
        a->chunk = c;
    }
    a->used += whole;
    if (a->used > a->peak)
        a->peak = a->used;
    if (a->kind == ARENA_COUNTING)
        return NULL;

    if (!room(a->chunk, whole))
        abort(); /* a dry run sized this arena: continuing would write past its end */
    char *block = a->chunk->bytes + a->chunk->at;
    a->chunk->at += whole;
    UNPOISON(block, size);
    return block;
}

char *arena_text(arena *a, const char *text, size_t length, weft_error *err)
{
    char *copy = arena_alloc(a, length + 1, err);
    if (!copy)
        return NULL;
    memcpy(copy, text, length);
    copy[length] = '\0';
    return copy;
}

arena_mark arena_at(const arena *a)
{
    return (arena_mark){ a->chunk, a->chunk ? a->chunk->at : 0, a->used };
}

void arena_reset(arena *a, arena_mark mark)
{
    while (a->chunk != mark.chunk) {
        arena_chunk *older = a->chunk->older;
        chunk_free(a->mem, a->chunk);
        a->chunk = older;
    }
    if (a->chunk) {
        POISON(a->chunk->bytes + mark.at, a->chunk->size - mark.at);
        a->chunk->at = mark.at;
    }
    a->used = mark.used;
}
