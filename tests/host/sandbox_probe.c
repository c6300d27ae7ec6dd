/* sandbox_probe.c - loaded before other libraries (LD_PRELOAD), it tries in each thread of a server what a sandbox should
 * refuse, and what it must not. Threads try it when they begin, the loop when it first waits.
 *
 *     PROBE_FD     a descriptor for the results: "THREAD errno ATTEMPT\n"; -1: not tried
 *     PROBE_MODEL  the model that is served; its directory may be written to */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static void *real_of(const char *name)
{
    void *to = dlsym(RTLD_NEXT, name);
    if (!to)
        abort();
    return to;
}

static const char *model(void)
{
    return getenv("PROBE_MODEL");
}

static const char *beside_model(void)
{
    static __thread char path[4096];
    snprintf(path, sizeof path, "%s.%ld", model(), (long)syscall(SYS_gettid));
    return path;
}

/* ---- attempts: 0, or -1 and errno ------------------------------------------------------------ */

static int opened(int fd)
{
    if (fd >= 0)
        close(fd);
    return fd >= 0 ? 0 : -1;
}

static int open_outside(void)
{
    return opened(open("/etc/passwd", O_RDONLY));
}

static int open_memory(void)
{
    return opened(open("/proc/self/mem", O_RDONLY));
}

static int list_outside(void)
{
    return opened(open("/", O_RDONLY | O_DIRECTORY));
}

static int open_writing(void)
{
    return opened(open(model(), O_RDWR));
}

static int append(void)
{
    return opened(open(model(), O_WRONLY | O_APPEND));
}

static int create(void)
{
    const int made = opened(open(beside_model(), O_RDONLY | O_CREAT, 0600));
    if (made == 0)
        unlink(beside_model());
    return made;
}

static int make_directory(void)
{
    const int made = mkdir(beside_model(), 0700);
    if (made == 0)
        rmdir(beside_model());
    return made;
}

static int make_link(void)
{
    const int made = symlink("/etc/passwd", beside_model());
    if (made == 0)
        unlink(beside_model());
    return made;
}

static int remove_file(void)
{
    return unlink(beside_model()); /* is not there */
}

static int rename_file(void)
{
    return rename(beside_model(), model()); /* is not there */
}

static int change_mode(void)
{
    return chmod(model(), 0600);
}

static int cut(void)
{
    return truncate(beside_model(), 0); /* is not there */
}

static int internet_socket(void)
{
    return opened(socket(AF_INET, SOCK_STREAM, 0));
}

static int unix_socket(void)
{
    return opened(socket(AF_UNIX, SOCK_STREAM, 0));
}

static int socket_pair(void)
{
    int two[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, two) != 0)
        return -1;
    return opened(two[0]) | opened(two[1]);
}

static const struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = 1 };

static int connect_somewhere(void)
{
    return connect(-1, (const struct sockaddr *)&address, sizeof address);
}

static int bind_somewhere(void)
{
    return bind(-1, (const struct sockaddr *)&address, sizeof address);
}

static int listen_somewhere(void)
{
    return listen(-1, 1);
}

static int send_somewhere(void)
{
    return (int)sendto(-1, "", 1, 0, (const struct sockaddr *)&address, sizeof address);
}

/* What opens a connection without connect(), on a listener that was shut down. */
static int send_fast(void)
{
    const struct msghdr m = { .msg_name = (void *)(uintptr_t)&address,
                              .msg_namelen = sizeof address };
    return (int)sendmsg(-1, &m, MSG_FASTOPEN);
}

static int run_program(void)
{
    return execve("/not/there", (char *[]){ "x", NULL }, (char *[]){ NULL });
}

static int run_descriptor(void)
{
    return (int)syscall(SYS_execveat, -1, "", NULL, NULL, 0x1000); /* AT_EMPTY_PATH */
}

static int spawn(void)
{
    pid_t pid;
    errno = posix_spawn(&pid, "/bin/true", NULL, NULL, (char *[]){ "true", NULL }, NULL);
    if (errno == 0)
        waitpid(pid, NULL, 0);
    return errno == 0 ? 0 : -1;
}

static int new_process(void)
{
    const long pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (pid == 0)
        _exit(0);
    if (pid > 0)
        waitpid((pid_t)pid, NULL, 0);
    return pid > 0 ? 0 : -1;
}

static int newer_clone(void)
{
    return (int)syscall(SYS_clone3, NULL, 0);
}

static int trace(void)
{
    return (int)ptrace(PTRACE_PEEKDATA, 0, NULL, NULL);
}

static int read_process(void)
{
    char to[4], from[4] = "abc";
    const struct iovec a = { to, 4 }, b = { from, 4 };
    return process_vm_readv(getpid(), &a, 1, &b, 1, 0) == 4 ? 0 : -1;
}

static int io_ring(void)
{
    return (int)syscall(SYS_io_uring_setup, 0, NULL);
}

static int memory_file(void)
{
    return opened((int)syscall(SYS_memfd_create, "x", 0));
}

static int fault_descriptor(void)
{
    return opened((int)syscall(SYS_userfaultfd, 1)); /* UFFD_USER_MODE_ONLY */
}

static int key(void)
{
    return (int)syscall(SYS_keyctl, 99, 0, 0); /* no such request */
}

static int bpf_map(void)
{
    return (int)syscall(SYS_bpf, 0, NULL, 0);
}

static int mount_something(void)
{
    return mount(NULL, "/not/there", NULL, 0, NULL);
}

static int new_space(void)
{
    return unshare(1); /* no such flag */
}

static int signal_other(void)
{
    return kill(getppid(), 0);
}

static int signal_other_thread(void)
{
    return (int)syscall(SYS_tgkill, getppid(), getppid(), 0);
}

static int change_limit(void)
{
    struct rlimit same;
    return getrlimit(RLIMIT_NOFILE, &same) == 0 ? setrlimit(RLIMIT_NOFILE, &same) : -1;
}

static int allow_dumps(void)
{
    return prctl(PR_SET_DUMPABLE, prctl(PR_GET_DUMPABLE));
}

static void *map_model(int protection)
{
    const int fd = open(model(), O_RDONLY);
    void *at = mmap(NULL, 4096, protection, MAP_PRIVATE, fd, 0);
    const int why = errno;
    opened(fd);
    errno = why;
    return at;
}

static int map_program(void)
{
    void *at = map_model(PROT_READ | PROT_EXEC);
    return at == MAP_FAILED ? -1 : munmap(at, 4096);
}

/* In two steps, the second of which a filter cannot tell from a compiler's. */
static int make_program(void)
{
    void *at = map_model(PROT_READ);
    return at != MAP_FAILED && mprotect(at, 4096, PROT_READ | PROT_EXEC) == 0 ? munmap(at, 4096)
                                                                              : -1;
}

/* x86-64's second table of calls. */
static int other_table(void)
{
#ifdef __x86_64__
    return (int)syscall(0x40000000 | SYS_getpid) < 0 ? -1 : 0;
#else
    errno = -1;
    return -1;
#endif
}

static int read_model(void)
{
    return opened(open(model(), O_RDONLY));
}

/* As a compiler at run time does. */
static int machine_code(void)
{
    void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at != MAP_FAILED && mprotect(at, 4096, PROT_READ | PROT_EXEC) == 0 ? munmap(at, 4096)
                                                                              : -1;
}

typedef int create_fn(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

static void *nothing(void *ud)
{
    return ud;
}

static int new_thread(void)
{
    pthread_t t;
    create_fn *make = (create_fn *)(uintptr_t)real_of("pthread_create");
    errno = make(&t, NULL, nothing, NULL);
    return errno == 0 ? pthread_join(t, NULL) : -1;
}

static int dumpable(void)
{
    errno = prctl(PR_GET_DUMPABLE);
    return errno ? -1 : 0;
}

static const struct {
    const char *name;
    int (*try)(void);
} attempts[] = {
    { "open a file outside", open_outside },
    { "open its own memory", open_memory },
    { "list a directory outside", list_outside },
    { "open the model for writing", open_writing },
    { "open the model to append", append },
    { "create a file", create },
    { "make a directory", make_directory },
    { "make a link", make_link },
    { "remove a file", remove_file },
    { "rename a file", rename_file },
    { "change the mode of a file", change_mode },
    { "cut a file", cut },
    { "make an internet socket", internet_socket },
    { "make a unix socket", unix_socket },
    { "make a pair of sockets", socket_pair },
    { "connect", connect_somewhere },
    { "bind", bind_somewhere },
    { "listen", listen_somewhere },
    { "send to an address", send_somewhere },
    { "send to an address with MSG_FASTOPEN", send_fast },
    { "run a program", run_program },
    { "run a program from a descriptor", run_descriptor },
    { "spawn a program", spawn },
    { "make a process", new_process },
    { "make a process with clone3", newer_clone },
    { "trace a process", trace },
    { "read the memory of a process", read_process },
    { "make an io_uring", io_ring },
    { "make a file in memory", memory_file },
    { "watch page faults", fault_descriptor },
    { "ask for a key of the kernel", key },
    { "load a BPF program", bpf_map },
    { "mount", mount_something },
    { "leave a namespace", new_space },
    { "signal another process", signal_other },
    { "signal a thread of another process", signal_other_thread },
    { "change a limit", change_limit },
    { "change whether it may be dumped", allow_dumps },
    { "map a file as a program", map_program },
    { "call through x32", other_table },
    { "read the model", read_model },
    { "make machine code", machine_code },
    { "make machine code of a file", make_program },
    { "make a thread", new_thread },
    { "keep its memory out of dumps", dumpable },
};

static void probe(const char *thread)
{
    const char *to = getenv("PROBE_FD");
    char line[128];
    for (size_t i = 0; to && i < sizeof attempts / sizeof *attempts; i++) {
        errno = 0;
        const int why = attempts[i].try() == 0 ? 0 : errno;
        const int n = snprintf(line, sizeof line, "%s %d %s\n", thread, why, attempts[i].name);
        if (write(atoi(to), line, (size_t)n) != n)
            abort();
    }
}

/* ---- where they are made --------------------------------------------------------------------- */

typedef struct beginning {
    void *(*main)(void *);
    void *ud;
} beginning;

static void *begin(void *ud)
{
    const beginning b = *(beginning *)ud;
    free(ud);
    probe("thread");
    return b.main(b.ud);
}

int pthread_create(pthread_t *restrict t, const pthread_attr_t *restrict a, void *(*main)(void *),
                   void *restrict ud)
{
    create_fn *make = (create_fn *)(uintptr_t)real_of("pthread_create");
    beginning *b = malloc(sizeof *b);
    if (!b)
        return EAGAIN;
    *b = (beginning){ main, ud };
    return make(t, a, begin, b);
}

int epoll_wait(int fd, struct epoll_event *events, int n, int timeout)
{
    static atomic_bool done;
    int (*wait)(int, struct epoll_event *, int, int);
    *(void **)&wait = real_of("epoll_wait");
    if (!atomic_exchange(&done, true))
        probe("loop");
    return wait(fd, events, n, timeout);
}
