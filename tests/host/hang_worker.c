/* hang_worker.c - loaded before other libraries (LD_PRELOAD), it stops the worker of a server in the middle of its work: while
 * a byte waits in the descriptor HANG_FD, the worker does not return from asking for the time, as it does in each turn; while
 * one waits in SLOW_FD, that takes 20 ms. The worker is the third thread that a server with one model makes. */
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static __thread bool is_worker;

static void *real_of(const char *name)
{
    void *to = dlsym(RTLD_NEXT, name);
    if (!to)
        abort();
    return to;
}

typedef struct beginning {
    void *(*main)(void *);
    void *ud;
    int number;
} beginning;

static void *begin(void *ud)
{
    const beginning b = *(beginning *)ud;
    free(ud);
    is_worker = b.number == 2;
    return b.main(b.ud);
}

int pthread_create(pthread_t *restrict t, const pthread_attr_t *restrict a, void *(*main)(void *),
                   void *restrict ud)
{
    static atomic_int n;
    int (*make)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    *(void **)&make = real_of("pthread_create");
    beginning *b = malloc(sizeof *b);
    if (!b)
        return EAGAIN;
    *b = (beginning){ main, ud, atomic_fetch_add(&n, 1) };
    return make(t, a, begin, b);
}

/* Of the worker: is there a byte in the descriptor of this variable? */
static bool is_told(const char *variable)
{
    const char *given = is_worker ? getenv(variable) : NULL;
    struct pollfd p = { .fd = given ? atoi(given) : -1, .events = POLLIN };
    return given && poll(&p, 1, 0) > 0;
}

int clock_gettime(clockid_t clock, struct timespec *to)
{
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        *(void **)&real = real_of("clock_gettime");
    while (is_told("HANG_FD"))
        poll(NULL, 0, 10);
    if (is_told("SLOW_FD"))
        poll(NULL, 0, 20);
    return real(clock, to);
}
