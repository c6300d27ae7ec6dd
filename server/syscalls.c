/* syscalls.c - the table of system calls that a running server may make, as a seccomp filter.
 *
 * Each row becomes a few instructions of BPF, in the order of the table:
 *
 *     jeq number, 0, next        is it this call?
 *     ld  argument               rows with a condition only
 *     and mask
 *     jeq value, 0, next'
 *     ret ALLOW
 *
 * A call that may have this or that argument has two rows. The kernel notes which numbers are always
 * allowed, and runs the filter only for the others.
 *
 * What is not in the table fails with EPERM, and the process continues. Killing it would stop a break-in
 * no better, as the call does not happen either way; but then a new version of the C library, which
 * tries one more call for which it has a substitute, would end every server. For the same reason calls
 * whose caller asks by trying (clone3, openat2), and calls newer than this table, fail with ENOSYS, as
 * on an older kernel.
 *
 * The table is what strace shows of the server, and of glibc where its threads, memory,
 * files and clocks may do otherwise. */
#include "syscalls.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#endif

#ifdef ARCH

#define X32     0x40000000u /* x86-64's second set of numbers: none of it is allowed */
#define NEWEST  466         /* of Linux 6.12, on both processors */
#define SET_VMA 0x53564d41  /* prctl: names of anonymous memory, which malloc gives */
#define WHOLE   UINT64_MAX  /* both halves of an argument */
#define LOW     UINT32_MAX  /* of one that is an int */

/* Flags of a file that is to be written, made or cut. O_TMPFILE has O_DIRECTORY in it. */
#define WRITES ((uint64_t)(O_ACCMODE | O_CREAT | O_TRUNC | (O_TMPFILE & ~O_DIRECTORY)))
#define THREAD ((uint64_t)(CLONE_THREAD | CLONE_VM | CLONE_SIGHAND))
#define SPACES                                                                                     \
    ((uint64_t)(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |         \
                CLONE_NEWNET | CLONE_NEWCGROUP))

/* Allowed if (argument & mask) == value; with mask 0, always. */
typedef struct rule {
    int number;
    int argument;
    uint64_t mask, value;
} rule;

#define ALWAYS(name)                                                                               \
    {                                                                                              \
        SYS_##name, 0, 0, 0                                                                        \
    }
#define ONLY(name, argument, mask, value)                                                          \
    {                                                                                              \
        SYS_##name, argument, mask, value                                                          \
    }

static const rule rules[] = {
    /* descriptors that are open */
    ALWAYS(read), ALWAYS(write), ALWAYS(readv), ALWAYS(writev), ALWAYS(pread64), ALWAYS(lseek),
    ALWAYS(close), ALWAYS(fstat), ALWAYS(getdents64), ALWAYS(fadvise64),
    ONLY(fcntl, 1, LOW, F_GETFL), ONLY(fcntl, 1, LOW, F_SETFL), ONLY(fcntl, 1, LOW, F_GETFD),
    ONLY(fcntl, 1, LOW, F_SETFD), ONLY(fcntl, 1, LOW, F_DUPFD_CLOEXEC),
    ONLY(ioctl, 1, LOW, FIONBIO), ONLY(ioctl, 1, LOW, FIONREAD), ONLY(ioctl, 1, LOW, TCGETS),

    /* connections: those of the listener, and no others */
    ALWAYS(accept4), ALWAYS(accept), ALWAYS(recvfrom), ALWAYS(recvmsg),
    ONLY(sendmsg, 2, MSG_FASTOPEN, 0), /* which connects: a listener that was shut down could */
    ONLY(sendto, 4, WHOLE, 0),         /* to the peer; no address, which MSG_FASTOPEN would need */
    ALWAYS(shutdown), ALWAYS(getsockname), ALWAYS(getpeername), ALWAYS(getsockopt),
    ALWAYS(setsockopt),

    /* waiting */
    ALWAYS(epoll_create1), ALWAYS(epoll_ctl), ALWAYS(epoll_pwait), ALWAYS(ppoll), ALWAYS(pselect6),
    ALWAYS(eventfd2), ALWAYS(signalfd4), ALWAYS(futex), ALWAYS(nanosleep), ALWAYS(clock_nanosleep),
    ALWAYS(restart_syscall), ALWAYS(sched_yield),

    /* files, for reading; Landlock says which */
    ONLY(openat, 2, WRITES, 0), ALWAYS(newfstatat), ALWAYS(statx), ALWAYS(faccessat),
    ALWAYS(faccessat2), ALWAYS(readlinkat), ALWAYS(getcwd), ALWAYS(statfs), ALWAYS(fstatfs),

    /* memory. The tokenizer's regular expressions are compiled to machine code (PCRE2), so that pages
     * may become executable. No file is mapped as a program; whose pages mprotect is for is not known
     * here, so that those of a file that is mapped may become one. */
    ALWAYS(munmap), ALWAYS(mremap), ALWAYS(mprotect), ALWAYS(madvise), ALWAYS(brk), ALWAYS(mincore),
    ONLY(mmap, 2, PROT_EXEC, 0), ONLY(mmap, 3, MAP_ANONYMOUS, MAP_ANONYMOUS),

    /* threads, not processes */
    ONLY(clone, 0, THREAD | SPACES, THREAD), ALWAYS(set_robust_list), ALWAYS(rseq),
    ALWAYS(set_tid_address), ALWAYS(sched_getaffinity), ALWAYS(sched_setaffinity), ALWAYS(getcpu),
    ALWAYS(membarrier), ALWAYS(gettid), ALWAYS(exit), ALWAYS(exit_group),
    ONLY(prctl, 0, LOW, PR_SET_NAME), ONLY(prctl, 0, LOW, SET_VMA),
    ONLY(prctl, 0, LOW, PR_GET_DUMPABLE),

    /* signals of our own */
    ALWAYS(rt_sigaction), ALWAYS(rt_sigprocmask), ALWAYS(rt_sigreturn), ALWAYS(sigaltstack),

    /* questions */
    ALWAYS(getpid), ALWAYS(getuid), ALWAYS(geteuid), ALWAYS(getgid), ALWAYS(getegid),
    ALWAYS(getrandom), ALWAYS(clock_gettime), ALWAYS(clock_getres), ALWAYS(gettimeofday),
    ALWAYS(times), ALWAYS(getrusage), ALWAYS(sysinfo), ALWAYS(uname),
    ONLY(prlimit64, 2, WHOLE, 0), /* to read a limit */

#ifdef __x86_64__
    ALWAYS(epoll_wait), ALWAYS(poll), ALWAYS(select), ALWAYS(stat), ALWAYS(lstat), ALWAYS(access),
    ALWAYS(readlink), ALWAYS(time), ALWAYS(getrlimit), ONLY(open, 1, WRITES, 0),
    ONLY(arch_prctl, 0, LOW, 0x1022), /* ARCH_GET_XCOMP_PERM */
    ONLY(arch_prctl, 0, LOW, 0x1023), /* ARCH_REQ_XCOMP_PERM: AMX */
#endif
};

/* Refused as if the kernel were older. */
static const int absent[] = { SYS_clone3, SYS_openat2, SYS_epoll_pwait2, SYS_close_range };

/* ---- the program ----------------------------------------------------------------------------- */

enum { N_RULE = sizeof rules / sizeof *rules, N_ABSENT = sizeof absent / sizeof *absent };

typedef struct program {
    struct sock_filter at[9 * (N_RULE + 4) + 2 * N_ABSENT + 16]; /* 9: of the longest row */
    unsigned short n;
} program;

static void put(program *p, int code, uint32_t k, int if_true, int if_false)
{
    p->at[p->n++] = (struct sock_filter){ (uint16_t)code, (uint8_t)if_true, (uint8_t)if_false, k };
}

static void load(program *p, size_t at)
{
    put(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)at, 0, 0);
}

static void give(program *p, uint32_t action)
{
    put(p, BPF_RET | BPF_K, action, 0, 0);
}

static void load_number(program *p)
{
    load(p, offsetof(struct seccomp_data, nr));
}

/* One half of an argument: `over` instructions on if it differs. */
static void put_half(program *p, size_t at, uint32_t mask, uint32_t value, int over)
{
    load(p, at);
    put(p, BPF_ALU | BPF_AND | BPF_K, mask, 0, 0);
    put(p, BPF_JMP | BPF_JEQ | BPF_K, value, 0, over);
}

/* Both processors are little-endian: the low half is first. */
static void put_rule(program *p, const rule *r)
{
    const size_t at = offsetof(struct seccomp_data, args) + 8 * (size_t)r->argument;
    const bool both = r->mask >> 32 != 0;
    const int n = r->mask == 0 ? 0 : both ? 6 : 3;
    put(p, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)r->number, 0, n ? n + 2 : 1);
    if (n)
        put_half(p, at, (uint32_t)r->mask, (uint32_t)r->value, n - 2);
    if (both)
        put_half(p, at + 4, (uint32_t)(r->mask >> 32), (uint32_t)(r->value >> 32), 1);
    give(p, SECCOMP_RET_ALLOW);
    if (n)
        load_number(p); /* the next row needs it again */
}

static void put_own(program *p, int number, uint64_t mask, uint64_t value)
{
    put_rule(p, &(rule){ number, 0, mask, value });
}

static void compile(program *p, bool unlinks)
{
    load(p, offsetof(struct seccomp_data, arch));
    put(p, BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0);
    give(p, SECCOMP_RET_ERRNO | EPERM);
    load_number(p);
#ifdef __x86_64__
    put(p, BPF_JMP | BPF_JGE | BPF_K, X32, 0, 1);
    give(p, SECCOMP_RET_ERRNO | EPERM);
#endif
    for (int i = 0; i < N_RULE; i++)
        put_rule(p, &rules[i]);
    put_own(p, SYS_tgkill, WHOLE, (uint64_t)getpid()); /* abort() */
    if (unlinks)
        put_own(p, SYS_unlinkat, 0, 0);
#ifdef __x86_64__
    if (unlinks)
        put_own(p, SYS_unlink, 0, 0);
#endif
    for (int i = 0; i < N_ABSENT; i++) {
        put(p, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)absent[i], 0, 1);
        give(p, SECCOMP_RET_ERRNO | ENOSYS);
    }
    put(p, BPF_JMP | BPF_JGT | BPF_K, NEWEST, 0, 1);
    give(p, SECCOMP_RET_ERRNO | ENOSYS);
    give(p, SECCOMP_RET_ERRNO | EPERM);
}

/* It is one thread yet; TSYNC is for one that a library may have begun. */
bool syscalls_limit(bool unlinks)
{
    static program p; /* 8 KiB, built once */
    p.n = 0;
    compile(&p, unlinks);
    const struct sock_fprog whole = { .len = p.n, .filter = p.at };
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &whole) == 0;
}

#else

bool syscalls_limit(bool unlinks)
{
    (void)unlinks;
    errno = ENOSYS;
    return false;
}

#endif
