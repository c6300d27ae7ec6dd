/* memory.c - the server's memory; see memory.h. */
#include "memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK ((size_t)16 << 10) /* of a store: most requests fit into one or two */
#define ALIGN ((size_t)16)

weft_budget *memory_budget;
atomic_llong memory_fail_at;
atomic_llong memory_used;

/* Before each block: its size, for the budget. */
typedef struct head {
    _Alignas(16) size_t size;
} head;

/* 0 after the last countdown would mean never: from then on it is -1. */
static bool fails(void)
{
    const long long left = atomic_load(&memory_fail_at);
    if (left == 1)
        atomic_store(&memory_fail_at, -1);
    else if (left > 1)
        atomic_fetch_sub(&memory_fail_at, 1);
    return left == 1 || left < 0;
}

static bool allowed(size_t more)
{
    return more <= SIZE_MAX / 2 && !fails() &&
           weft_budget_take(memory_budget, more, "a request", NULL) == WEFT_OK;
}

void *memory_take(size_t size)
{
    if (!allowed(size))
        return NULL;
    head *h = calloc(1, sizeof *h + size);
    if (!h) {
        weft_budget_give(memory_budget, size);
        return NULL;
    }
    h->size = size;
    atomic_fetch_add(&memory_used, (long long)size);
    return h + 1;
}

/* The new bytes are not zeroed. */
static void *memory_grow(void *block, size_t size)
{
    if (!block)
        return memory_take(size);
    head *h = (head *)block - 1;
    const size_t more = size > h->size ? size - h->size : 0;
    if (!allowed(more))
        return NULL;
    head *grown = realloc(h, sizeof *h + size);
    if (!grown) {
        weft_budget_give(memory_budget, more);
        return NULL;
    }
    if (size < grown->size)
        weft_budget_give(memory_budget, grown->size - size);
    atomic_fetch_add(&memory_used, (long long)size - (long long)grown->size);
    grown->size = size;
    return grown + 1;
}

void memory_give(void *block)
{
    if (!block)
        return;
    head *h = (head *)block - 1;
    weft_budget_give(memory_budget, h->size);
    atomic_fetch_sub(&memory_used, (long long)h->size);
    free(h);
}

/* ---- stores ---------------------------------------------------------------------------------- */

typedef struct store_block {
    struct store_block *older;
    size_t size, at;
    _Alignas(16) char bytes[];
} store_block;

static bool add_block(store *s, size_t size)
{
    size = size < BLOCK ? BLOCK : size;
    if (s->most && (s->used > s->most || size > s->most - s->used))
        return false;
    store_block *b = memory_take(sizeof *b + size);
    if (!b)
        return false;
    b->older = s->newest;
    b->size = size;
    s->newest = b;
    s->used += size;
    return true;
}

void *store_take(store *s, size_t n, size_t size)
{
    size_t all;
    if (__builtin_mul_overflow(n, size, &all) || all > SIZE_MAX / 4)
        return NULL;
    all = (all + ALIGN - 1) & ~(ALIGN - 1);
    if ((!s->newest || all > s->newest->size - s->newest->at) && !add_block(s, all))
        return NULL;
    void *block = s->newest->bytes + s->newest->at;
    s->newest->at += all;
    return block;
}

char *store_text(store *s, const char *text, size_t n)
{
    char *copy = store_take(s, n + 1, 1);
    if (copy && n > 0)
        memcpy(copy, text, n);
    return copy;
}

void store_free(store *s)
{
    while (s->newest) {
        store_block *older = s->newest->older;
        memory_give(s->newest);
        s->newest = older;
    }
    s->used = 0;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* Room for n more bytes and a '\0'. */
static bool make_room(bytes *b, size_t n)
{
    if (b->failed || n > SIZE_MAX / 4) {
        b->failed = true;
        return false;
    }
    if (b->room - b->n > n)
        return true;
    size_t room = b->room ? b->room : 256;
    while (room - b->n <= n)
        room *= 2;
    char *grown = memory_grow(b->at, room);
    if (!grown) {
        b->failed = true;
        return false;
    }
    b->at = grown;
    b->room = room;
    return true;
}

void bytes_add(bytes *b, const void *from, size_t n)
{
    if (!make_room(b, n))
        return;
    if (n > 0)
        memcpy(b->at + b->n, from, n);
    b->n += n;
    b->at[b->n] = '\0';
}

void bytes_text(bytes *b, const char *text)
{
    bytes_add(b, text, strlen(text));
}

void bytes_format(bytes *b, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n < 0 || !make_room(b, (size_t)n))
        return;
    va_start(args, format);
    vsnprintf(b->at + b->n, (size_t)n + 1, format, args);
    va_end(args);
    b->n += (size_t)n;
}

void bytes_drop(bytes *b, size_t n)
{
    if (n == 0)
        return;
    memmove(b->at, b->at + n, b->n - n);
    b->n -= n;
    b->at[b->n] = '\0';
}

void bytes_free(bytes *b)
{
    memory_give(b->at);
    *b = (bytes){ 0 };
}
