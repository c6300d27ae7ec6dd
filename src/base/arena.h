/* arena.h - bump memory with a mark and a reset; the memory of one step.
 *
 *    |<------------------------- used ------------------------->|
 *    +--------+----+------------+----+-------+----+--------------+ - - - - +
 *    | block  | rz |   block    | rz | block | rz |    block     |  free   |
 *    +--------+----+------------+----+-------+----+--------------+ - - - - +
 *      64-byte aligned; rz = red zone, present and poisoned under AddressSanitizer
 *
 * Three kinds:
 *   fixed     one chunk of a size known from a dry run. Running out is a bug, and stops.
 *   growing   a list of chunks, for what a parser or a model keeps.
 *   counting  no memory at all: alloc returns NULL, only `used` and `peak` move. For dry runs.
 *
 * `used` and `peak` count the same bytes in all three, which is what makes a dry run exact. */
#ifndef WEFT_BASE_ARENA_H
#define WEFT_BASE_ARENA_H

#include "base/mem.h"

typedef enum arena_kind { ARENA_FIXED, ARENA_GROWING, ARENA_COUNTING } arena_kind;

typedef struct arena_chunk arena_chunk;

typedef struct arena {
    arena_kind kind;
    mem *mem;
    arena_chunk *chunk; /* the newest; it links to the older ones */
    size_t used, peak;
} arena;

typedef struct arena_mark {
    arena_chunk *chunk;
    size_t at, used;
} arena_mark;

/* `size` is the capacity of a fixed arena and ignored otherwise. */
weft_status arena_init(arena *a, arena_kind kind, mem *m, size_t size, const char *what,
                       weft_error *err);
void arena_free(arena *a);

/* Fixed: never NULL. Growing: NULL with err filled if the allocation fails. Counting: always
 * NULL. */
void *arena_alloc(arena *a, size_t size, weft_error *err);
char *arena_text(arena *a, const char *text, size_t length, weft_error *err);

arena_mark arena_at(const arena *a);
void arena_reset(arena *a, arena_mark mark);

#endif
