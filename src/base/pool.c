/* pool.c - a thread pool whose whole state is one atomic ticket.
 *
 *      63            32 31             0
 *     +----------------+----------------+
 *     |  generation    |   next chunk   |     CLOSED (all ones) while there is no job
 *     +----------------+----------------+
 *
 * A job is published by writing fn, arg and n and then storing a new generation with chunk 0. A
 * thread claims a chunk by compare-and-swap of the whole ticket, so a thread that slept through a
 * job cannot claim from the next one with stale data: the generation differs. The job is over when
 * all chunks are done; nobody waits for a worker that never woke up. Between jobs the ticket is
 * closed *before* the fields change, so no old ticket matches new fields.
 *
 * An idle worker spins for about 20 us, because the next op usually starts by then, and then sleeps
 * on a futex. The caller does the same while it waits for the last chunks. */
#include "base/pool.h"

#include "base/side_stack.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CLOSED UINT32_MAX
#define SPINS  4000 /* about 20 us of pause instructions */

struct pool {
    mem *mem;
    int n_thread; /* the caller included */
    pthread_t *worker;
    int n_worker; /* workers that exist in this process */

    _Alignas(64) _Atomic uint64_t ticket;
    _Atomic(pool_fn *) fn;
    _Atomic(void *) arg;
    _Atomic uint32_t n;
    _Alignas(64) _Atomic uint32_t done; /* chunks finished; the caller's futex */
    _Atomic bool waiting;               /* the caller sleeps on it */
    _Alignas(64) _Atomic uint32_t bell; /* incremented for each job; the workers' futex */
    _Atomic uint32_t asleep;            /* workers sleeping on it */
    _Atomic bool stop;

    /* A page that the kernel wipes in a forked child: reads 1 in the process that has the workers,
     * 0 in a child. */
    _Atomic uint32_t *alive;
    pid_t owner; /* fallback if the kernel cannot wipe */
};

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void futex_wait(_Atomic uint32_t *at, uint32_t seen)
{
    syscall(SYS_futex, at, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *at)
{
    syscall(SYS_futex, at, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Claims and runs chunks until none is left. */
static void run_chunks(pool *p)
{
    uint64_t ticket = atomic_load(&p->ticket);
    for (;;) {
        const uint32_t chunk = (uint32_t)ticket;
        const uint32_t n = atomic_load(&p->n);
        if (chunk == CLOSED || chunk >= n)
            return;
        pool_fn *fn = atomic_load(&p->fn);
        void *arg = atomic_load(&p->arg);
        if (!atomic_compare_exchange_weak(&p->ticket, &ticket, ticket + 1))
            continue;
        fn(arg, chunk);
        if (atomic_fetch_add(&p->done, 1) + 1 == n && atomic_load(&p->waiting))
            futex_wake(&p->done);
        ticket = atomic_load(&p->ticket);
    }
}

/* We choose the size of its stack. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wframe-larger-than="
static void *worker_main(void *ud)
{
    _Alignas(SIDE_ALIGN) char memory[SIDE_BYTES];
    pool *p = ud;
    uint32_t heard = 0;
    const side_stack none = side_begin(memory);
    while (!atomic_load(&p->stop)) {
        uint32_t bell = atomic_load(&p->bell);
        for (int i = 0; bell == heard && i < SPINS; i++) {
            relax();
            bell = atomic_load(&p->bell);
        }
        if (bell == heard) {
            atomic_fetch_add(&p->asleep, 1);
            futex_wait(&p->bell, heard);
            atomic_fetch_sub(&p->asleep, 1);
            continue;
        }
        heard = bell;
        run_chunks(p);
    }
    side_end(none);
    return NULL;
}
#pragma GCC diagnostic pop

static void wake_workers(pool *p)
{
    atomic_fetch_add(&p->bell, 1);
    if (atomic_load(&p->asleep) > 0)
        futex_wake(&p->bell);
}

/* Threads get the stack size of the host's limit, but at least what ours need: the side stack, and
 * the frames next to it. */
#define MIN_STACK ((size_t)1 << 20)

static void set_stack(pthread_attr_t *a)
{
    size_t size = 0;
    pthread_attr_init(a);
    pthread_attr_getstacksize(a, &size);
    if (size < MIN_STACK)
        pthread_attr_setstacksize(a, MIN_STACK);
}

/* Signals belong to the host's threads: workers start with all of them blocked, except those a
 * thread raises by its own faults, for which the host may have a handler. */
static weft_status start_workers(pool *p, weft_error *err)
{
    sigset_t all, before;
    pthread_attr_t attributes;
    set_stack(&attributes);
    sigfillset(&all);
    const int own[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT };
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        sigdelset(&all, own[i]);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = 0;
    while (p->n_worker < p->n_thread - 1 && !failed) {
        failed = pthread_create(&p->worker[p->n_worker], &attributes, worker_main, p);
        if (!failed)
            p->n_worker++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (failed)
        return weft_fail(err, WEFT_ESYSTEM, "cannot start thread %d of %d: %s", p->n_worker + 2,
                         p->n_thread, strerror(failed));
    return WEFT_OK;
}

static void stop_workers(pool *p)
{
    atomic_store(&p->stop, true);
    wake_workers(p);
    for (int i = 0; i < p->n_worker; i++)
        pthread_join(p->worker[i], NULL);
    p->n_worker = 0;
}

static bool forked(const pool *p)
{
    return p->alive ? atomic_load(p->alive) == 0 : p->owner != getpid();
}

static void watch_fork(pool *p)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *at = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at != MAP_FAILED && madvise(at, page, MADV_WIPEONFORK) != 0) {
        munmap(at, page);
        at = MAP_FAILED;
    }
    p->alive = at == MAP_FAILED ? NULL : at;
    if (p->alive)
        atomic_store(p->alive, 1);
    p->owner = getpid();
}

pool *pool_new(int n_thread, mem *m, weft_error *err)
{
    if (n_thread < 1 || n_thread > POOL_MAX_THREAD) {
        weft_fail(err, WEFT_EINVAL, "threads: %d is outside 1 to %d", n_thread, POOL_MAX_THREAD);
        return NULL;
    }
    pool *p = mem_zalloc(m, 1, sizeof *p, "thread pool", err);
    if (!p)
        return NULL;
    p->mem = m;
    p->n_thread = n_thread;
    atomic_store(&p->ticket, CLOSED);
    p->worker = mem_zalloc(m, (size_t)n_thread, sizeof *p->worker, "thread pool", err);
    if (!p->worker) {
        mem_free(m, p);
        return NULL;
    }
    watch_fork(p);
    if (start_workers(p, err) != WEFT_OK) {
        pool_free(p);
        return NULL;
    }
    return p;
}

void pool_free(pool *p)
{
    if (!p)
        return;
    if (!forked(p))
        stop_workers(p);
    if (p->alive)
        munmap(p->alive, (size_t)sysconf(_SC_PAGESIZE));
    mem_free(p->mem, p->worker);
    mem_free(p->mem, p);
}

int pool_threads(const pool *p)
{
    return p->n_thread;
}

weft_status pool_ready(pool *p, weft_error *err)
{
    if (!forked(p))
        return WEFT_OK;
    p->n_worker = 0;
    atomic_store(&p->ticket, CLOSED);
    atomic_store(&p->bell, 0);
    atomic_store(&p->asleep, 0);
    atomic_store(&p->stop, false);
    const weft_status status = start_workers(p, err);
    if (status != WEFT_OK) {
        stop_workers(p); /* those that started; the next call tries again */
        return status;
    }
    p->owner = getpid();
    if (p->alive)
        atomic_store(p->alive, 1);
    return WEFT_OK;
}

static void wait_done(pool *p, uint32_t n)
{
    for (int i = 0; atomic_load(&p->done) < n && i < SPINS; i++)
        relax();
    atomic_store(&p->waiting, true);
    for (uint32_t done; (done = atomic_load(&p->done)) < n;)
        futex_wait(&p->done, done);
    atomic_store(&p->waiting, false);
}

void pool_run(pool *p, int64_t n_chunk, pool_fn *fn, void *arg)
{
    assert(n_chunk < CLOSED);
    if (p->n_worker == 0 || n_chunk <= 1) {
        for (int64_t i = 0; i < n_chunk; i++)
            fn(arg, i);
        return;
    }
    const uint64_t generation = (atomic_load(&p->ticket) >> 32) + 1;
    atomic_store(&p->fn, fn);
    atomic_store(&p->arg, arg);
    atomic_store(&p->n, (uint32_t)n_chunk);
    atomic_store(&p->done, 0);
    atomic_store(&p->ticket, generation << 32);
    wake_workers(p);
    run_chunks(p);
    wait_done(p, (uint32_t)n_chunk);
    atomic_store(&p->ticket, generation << 32 | CLOSED);
}
