/* side_stack.h - a second stack for each thread that computes, for buffers of more than a few KiB.
 *
 * A host may call weft on a thread whose stack is small, and that thread takes part in the work. So
 * a function that needs a large buffer takes it from the thread's side stack and gives it back
 * before it returns, last first. Workers of a pool have theirs on their own stack, the size of which
 * is ours to say; the calling thread has that of the run while an op executes. */
#ifndef WEFT_BASE_SIDE_STACK_H
#define WEFT_BASE_SIDE_STACK_H

#include "base/real.h"

#include <stddef.h>

/* For the deepest nest: attention's tile (80 KiB) around a product's panel (128 KiB), over float. */
#define SIDE_BYTES ((size_t)256 * 1024 * (sizeof(real) / sizeof(float)))
#define SIDE_ALIGN 64

/* A function with large locals whose frame must not become part of its caller's: compilers that put
 * it there let all that is called later stand on top of it. */
#define OWN_FRAME __attribute__((noinline))

typedef struct side_stack {
    char *top, *end; /* of what is free; NULL: the thread has none */
} side_stack;

/* From now on this thread's side stack is SIDE_BYTES of memory, aligned to SIDE_ALIGN. Returns the
 * one before, for side_end. */
side_stack side_begin(void *memory);
void side_end(side_stack before);

/* Memory for a buffer, aligned, with whatever is in it. There is room: kernels and ops know what they
 * need, and no file or caller has a say in it. */
void *side_take(size_t bytes);

/* Gives back what was taken, and all that was taken after it. */
void side_give(void *taken);

#endif
