/* mem.h - every byte of anonymous memory weft asks for, counted against a cap before it is taken.
 *
 * A `mem` is a budget. Allocation is refused, with a sentence, when it would pass the cap; nothing
 * is ever freed behind a caller's back to make room. Blocks are 64-byte aligned. The hooks are the
 * seam through which tests fail the k-th allocation and hosts bring their own allocator.
 *
 * A budget may lie within another one: what it takes counts in both, and either may refuse.
 *
 * Inside an op nothing may allocate: apply() raises the guard and an allocation under it is a
 * bug. */
#ifndef WEFT_BASE_MEM_H
#define WEFT_BASE_MEM_H

#include "base/err.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MEM_ALIGN 64

typedef struct mem_hooks {
    void *(*alloc)(void *ud, size_t align, size_t size); /* NULL when there is none */
    void (*release)(void *ud, void *block);
    void *ud;
    size_t
        chunk; /* the least a growing arena asks for; 0: 64 KiB. 1 shows every block to the hooks */
} mem_hooks;

typedef struct mem {
    mem_hooks hooks;
    size_t cap;         /* bytes; 0 means no cap */
    struct mem *within; /* counted there too; NULL: nowhere else */
    _Atomic size_t used, peak;
    _Atomic uint64_t n_alloc; /* allocations ever made */
} mem;

void mem_init(mem *m, size_t cap, const mem_hooks *hooks);

/* NULL, with err filled, when the cap or the system refuses. `what` names the purpose in the
 * error. */
void *mem_alloc(mem *m, size_t size, const char *what, weft_error *err);

/* n objects of `size` bytes, all zero. */
void *mem_zalloc(mem *m, size_t n, size_t size, const char *what, weft_error *err);
void mem_free(mem *m, void *block);
char *mem_strdup(mem *m, const char *text, weft_error *err);

/* Charges memory that a library takes on our behalf; false when the cap would be passed. */
bool mem_charge(mem *m, size_t size);
void mem_uncharge(mem *m, size_t size);

/* The same, with the sentence that mem_alloc has. */
weft_status mem_reserve(mem *m, size_t size, const char *what, weft_error *err);

/* Bytes that may still be taken; SIZE_MAX without a cap. */
size_t mem_room(const mem *m);

/* Between these the calling thread may not allocate; held in builds with assertions. */
void mem_guard_begin(void);
void mem_guard_end(void);

#endif
