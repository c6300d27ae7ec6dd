/* serve.c - starts and stops the server's threads, and opens its socket. */
#include "serve.h"

#include "body.h"
#include "http.h"
#include "service.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* ---- the socket ------------------------------------------------------------------------------ */

static bool is_local(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == 127;
    return a->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a)->sin6_addr);
}

static int listen_at(const struct addrinfo *at)
{
    const int yes = 1;
    const int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
        bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, 1024) == 0)
        return fd;
    const int why = errno;
    if (fd >= 0)
        close(fd);
    errno = why;
    return -1;
}

static void announce(int fd)
{
    struct sockaddr_storage at;
    socklen_t size = sizeof at;
    char host[64] = "", port[16] = "";
    if (getsockname(fd, (struct sockaddr *)&at, &size) != 0 ||
        getnameinfo((struct sockaddr *)&at, size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return;
    const bool six = at.ss_family == AF_INET6;
    fprintf(stderr, "weft: listening on http://%s%s%s:%s\n", six ? "[" : "", host, six ? "]" : "",
            port);
}

/* Others may ask only with a key. */
static bool may_listen(const serve_options *o, bool keyed, const struct sockaddr *at, bool *local)
{
    *local = is_local(at);
    if (*local || keyed || o->insecure)
        return true;
    fprintf(stderr,
            "weft: --host %s: others can reach this address, and there are no keys; expected "
            "--api-key-file FILE, or --insecure\n",
            o->host);
    return false;
}

/* -1 after printing why not. */
static int open_socket(const serve_options *o, bool keyed, bool *local)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE };
    struct addrinfo *found = NULL;
    char port[16];
    int fd = -1;
    snprintf(port, sizeof port, "%d", o->port);
    const int failed = getaddrinfo(o->host, port, &hints, &found);
    if (failed)
        fprintf(stderr, "weft: --host %s: %s\n", o->host, gai_strerror(failed));
    else if (may_listen(o, keyed, found->ai_addr, local) && (fd = listen_at(found)) < 0)
        fprintf(stderr, "weft: %s port %d: %s\n", o->host, o->port, strerror(errno));
    if (found)
        freeaddrinfo(found);
    return fd;
}

/* That of a supervisor, or our own. */
static int get_socket(server *s, bool *local)
{
    struct sockaddr_storage at;
    socklen_t size = sizeof at;
    char why[256];
    const int fd = systemd_listener(why, sizeof why);
    if (fd == -1)
        return open_socket(&s->options, s->keys.n > 0, local);
    if (fd < 0) {
        fprintf(stderr, "weft: %s\n", why);
        return -1;
    }
    s->options.host = "(given by LISTEN_FDS)";
    if (getsockname(fd, (struct sockaddr *)&at, &size) == 0 &&
        may_listen(&s->options, s->keys.n > 0, (const struct sockaddr *)&at, local))
        return fd;
    close(fd);
    return -1;
}

/* ---- threads --------------------------------------------------------------------------------- */

static bool make_services(server *s)
{
    const size_t n = (size_t)s->options.n_model, n_key = (size_t)s->keys.n + 1;
    atomic_int *counters = memory_take(n * n_key * sizeof *counters);
    s->services = counters ? memory_take(n * sizeof *s->services) : NULL;
    if (!s->services) {
        memory_give((void *)counters);
        return false;
    }
    s->n_service = s->options.n_model;
    for (size_t k = 0; k < n; k++)
        s->services[k] = (service){ .server = s,
                                    .spec = &s->options.models[k],
                                    .n_job_of = counters + k * n_key };
    return pthread_mutex_init(&s->lock, NULL) == 0 && pthread_mutex_init(&s->loading, NULL) == 0 &&
           cores_init(&s->cores);
}

static bool begin(server *s)
{
    struct rlimit files;
    s->started = (int64_t)time(NULL);
    s->n_job_of = memory_take((size_t)(s->keys.n + 1) * sizeof *s->n_job_of);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    const size_t room = (size_t)s->max_job + 16;
    return s->n_job_of && ring_init(&s->clerk, room) && ring_init(&s->ready, 2 * room) &&
           ring_init(&s->reload, 1) && make_services(s);
}

static void end(server *s)
{
    for (job *j; (j = ring_pop(&s->ready));)
        job_release(j);
    instances_free(s);
    if (s->services) {
        cores_free(&s->cores);
        pthread_mutex_destroy(&s->loading);
        pthread_mutex_destroy(&s->lock);
        memory_give((void *)s->services->n_job_of);
    }
    memory_give(s->services);
    systemd_close(&s->systemd);
    admin_close(&s->admin);
    ring_free(&s->reload);
    ring_free(&s->clerk);
    ring_free(&s->ready);
    memory_give((void *)s->n_job_of);
    keys_free(&s->keys);
}

typedef struct threads {
    pthread_t clerk, reload;
    int n; /* that have begun, in this order */
} threads;

static bool start_threads(server *s, threads *t)
{
    t->n += pthread_create(&t->clerk, NULL, clerk_main, s) == 0;
    t->n += t->n == 1 && pthread_create(&t->reload, NULL, reload_main, s) == 0;
    for (int k = 0; k < s->n_service; k++)
        if (t->n < 2 || !instance_start(&s->services[k], worker_main))
            return false;
    return true;
}

static volatile sig_atomic_t exit_code;

static void leave(int number)
{
    (void)number;
    _exit(exit_code);
}

/* Nobody reads the loop's signals any more, and a model that is being loaded is waited for: the next signal ends the
 * process, as the second one does while requests run. */
static void leave_on_signals(int code)
{
    const struct sigaction now = { .sa_handler = leave };
    sigset_t signals;
    exit_code = code;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaction(SIGTERM, &now, NULL);
    sigaction(SIGINT, &now, NULL);
    pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
}

/* The others end before the workers, which free the models and the tokenizers. */
static void stop_threads(server *s, threads *t)
{
    atomic_store(&s->stopping, true);
    if (t->n > 1) {
        ring_wake(&s->reload);
        pthread_join(t->reload, NULL);
    }
    if (t->n > 0) {
        ring_wake(&s->clerk);
        pthread_join(t->clerk, NULL);
    }
    for (job *j; (j = ring_pop(&s->clerk));)
        job_leave(j);
    instances_stop(s);
}

static int run(server *s)
{
    threads t = { 0 };
    bool local;
    int code = 1;
    const int listener = get_socket(s, &local);
    if (listener < 0)
        return 1;
    if (!begin(s)) {
        fprintf(stderr, "weft: no memory or descriptors for the server\n");
        close(listener);
        return 1;
    }
    const serve_record *record = &s->options.record;
    systemd_open(&s->systemd);
    if ((record->begin && record->begin(record->ud) != 0) ||
        !admin_open(&s->admin, s->options.admin) ||
        !sandbox_begin(&s->sandbox, &s->options, s->admin.path)) {
        close(listener);
        return 1;
    }
    if (start_threads(s, &t)) {
        announce(listener);
        code = http_run(s, listener, local);
    } else {
        fprintf(stderr, "weft: the system refuses a thread\n");
        close(listener);
    }
    leave_on_signals(code);
    stop_threads(s, &t);
    return code;
}

int serve_run(const serve_options *options)
{
    server s = { .options = *options, .systemd = { .fd = -1 } };
    char why[512];
    admin_open(&s.admin, NULL);
    memory_budget = options->budget;
    s.max_of_model = options->n_waiting + options->n_running;
    s.max_job = s.max_of_model * s.options.n_model;
    s.options.lora.models = s.options.models;
    s.options.lora.n_model = s.options.n_model;
    body_init();
    if (!mhd_load(why, sizeof why)) {
        fprintf(stderr, "weft: %s\n", why);
        return 1;
    }
    if (options->key_file && !keys_read(&s.keys, options->key_file, why, sizeof why)) {
        fprintf(stderr, "weft: %s\n", why);
        keys_free(&s.keys);
        return 1;
    }
    const int code = run(&s);
    end(&s);
    return code;
}
