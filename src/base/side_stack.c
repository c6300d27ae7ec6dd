/* side_stack.c - the current thread's side stack: a thread-local range, allocated from its
 * start. */
#include "base/side_stack.h"

#include <assert.h>
#include <stdint.h>

#if defined(__SANITIZE_ADDRESS__)
#define SEEN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SEEN 1
#endif
#endif

/* Lets AddressSanitizer treat buffers here like arrays, with a red zone between them. */
#ifdef SEEN
#include <sanitizer/asan_interface.h>
#define GAP              SIDE_ALIGN
#define CLOSE(at, bytes) ASAN_POISON_MEMORY_REGION(at, bytes)
#define OPEN(at, bytes)  ASAN_UNPOISON_MEMORY_REGION(at, bytes)
#else
#define GAP              0
#define CLOSE(at, bytes) ((void)0)
#define OPEN(at, bytes)  ((void)0)
#endif

/* In the static TLS block, so that an access never allocates. */
static _Thread_local side_stack own __attribute__((tls_model("initial-exec")));

side_stack side_begin(void *memory)
{
    const side_stack before = own;
    assert((uintptr_t)memory % SIDE_ALIGN == 0);
    own = (side_stack){ memory, (char *)memory + SIDE_BYTES };
    CLOSE(own.top, SIDE_BYTES);
    return before;
}

void side_end(side_stack before)
{
    OPEN(own.end - SIDE_BYTES, SIDE_BYTES);
    own = before;
}

void *side_take(size_t bytes)
{
    char *taken = own.top;
    const size_t whole = (bytes + SIDE_ALIGN - 1) / SIDE_ALIGN * SIDE_ALIGN + GAP;
    assert(taken && whole <= (size_t)(own.end - taken));
    own.top += whole;
    OPEN(taken, bytes);
    return taken;
}

void side_give(void *taken)
{
    CLOSE(taken, (size_t)(own.top - (char *)taken));
    own.top = taken;
}
