/* memory.h - the server's own memory, counted in the budget of the program.
 *
 * Memory of a request comes from a store: blocks that are freed together when the request ends, so
 * that a tree of JSON needs no walk, and a parser that is left in the middle leaves nothing. Text
 * that grows is `bytes`. */
#ifndef WEFT_SERVER_MEMORY_H
#define WEFT_SERVER_MEMORY_H

#include <weft.h>

#include <stdatomic.h>

/* Where it counts, or NULL; set before the first thread starts. */
extern weft_budget *memory_budget;

/* For tests: the k-th allocation from now on fails, and all after it; 0: none does; -1: one has. And
 * the bytes in use. */
extern atomic_llong memory_fail_at;
extern atomic_llong memory_used;

/* NULL where the budget or the system refuses. The memory is zeroed. */
void *memory_take(size_t size);
void memory_give(void *block);

/* ---- the memory of one request --------------------------------------------------------------- */

typedef struct store {
    struct store_block *newest;
    size_t used, most; /* most: bytes; 0: only the budget limits it */
} store;

/* Zeroed memory that lives as long as the store; NULL where it is refused. */
void *store_take(store *s, size_t n, size_t size);
char *store_text(store *s, const char *text, size_t n); /* a copy with a '\0' after it */
void store_free(store *s);

/* ---- text that grows ------------------------------------------------------------------------- */

/* Zeroed at the beginning. `failed` stays set once memory was refused: writers need not ask each
 * time. */
typedef struct bytes {
    char *at;
    size_t n, room;
    bool failed;
} bytes;

void bytes_add(bytes *b, const void *from, size_t n);
void bytes_text(bytes *b, const char *text);
void bytes_format(bytes *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void bytes_drop(bytes *b, size_t n); /* the first n bytes */
void bytes_free(bytes *b);

#endif
