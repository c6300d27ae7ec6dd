/* mem.h - all anonymous memory of weft, counted against a cap before it is allocated.
 *
 * A `mem` is a budget. An allocation beyond the cap fails with an error message; weft never frees
 * memory behind a caller's back to make room. Blocks are 64-byte aligned. The hooks are the seam
 * through which tests fail the k-th allocation and hosts bring their own allocator.
 *
 * Budgets may be nested: an allocation counts in both, and either may refuse it.
 *
 * Ops must not allocate: apply() sets a guard, and an allocation under it is a bug. */
#ifndef WEFT_BASE_MEM_H
#define WEFT_BASE_MEM_H

#include "base/err.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MEM_ALIGN 64

typedef struct mem_hooks {
    void *(*alloc)(void *ud, size_t align, size_t size); /* NULL if there is none */
    void (*release)(void *ud, void *block);
    void *ud;
    size_t chunk; /* smallest allocation of a growing arena; 0: 64 KiB. 1 shows every block to the
                * hooks */
} mem_hooks;

typedef struct mem {
    mem_hooks hooks;
    size_t cap;         /* bytes; 0 means no cap */
    struct mem *within; /* parent budget; NULL: none */
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

/* Charges memory that a library allocates on our behalf; false if it would exceed the cap. */
bool mem_charge(mem *m, size_t size);
void mem_uncharge(mem *m, size_t size);

/* The same, with the error message of mem_alloc. */
weft_status mem_reserve(mem *m, size_t size, const char *what, weft_error *err);

/* Bytes left to allocate; SIZE_MAX without a cap. */
size_t mem_room(const mem *m);

/* Between these the calling thread must not allocate; enforced in builds with assertions. */
void mem_guard_begin(void);
void mem_guard_end(void);

#endif
