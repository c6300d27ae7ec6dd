/* side_stack.h - a second stack for each thread that computes, for buffers of more than a few KiB.
 *
 * A host may call weft on a thread with a small stack, and that thread takes part in the work. So a
 * function that needs a large buffer takes it from the thread's side stack and releases it before
 * it returns, in LIFO order. Pool workers have theirs on their own stack, whose size we choose; the
 * calling thread uses that of the run while an op executes. */
#ifndef WEFT_BASE_SIDE_STACK_H
#define WEFT_BASE_SIDE_STACK_H

#include "base/real.h"

#include <stddef.h>

/* In float, enough for the sums (256 KiB) and panels (16 KiB) of a product on tiles, and for the
 * deepest nesting: attention's tile (512 KiB) around a product's panel (64 KiB), or a smaller tile
 * of wide heads around a panel of 128 KiB. */
#define SIDE_BYTES ((size_t)640 * 1024 * (sizeof(real) / sizeof(float)))
#define SIDE_ALIGN 64

/* For a function with large locals that must not be inlined: its frame would stay on the stack
 * under everything the caller calls later. */
#define OWN_FRAME __attribute__((noinline))

typedef struct side_stack {
    char *top, *end; /* free range; NULL: the thread has none */
} side_stack;

/* Makes SIDE_BYTES of memory, aligned to SIDE_ALIGN, this thread's side stack. Returns the previous
 * one, for side_end. */
side_stack side_begin(void *memory);
void side_end(side_stack before);

/* An aligned, uninitialised buffer. It always fits: the sizes depend only on kernels and ops, never
 * on files or callers. */
void *side_take(size_t bytes);

/* Releases the buffer, and all that were taken after it. */
void side_give(void *taken);

#endif
