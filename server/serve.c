/* serve.c - starts and stops the server's threads, and opens its socket. */
#include "serve.h"

#include "body.h"
#include "http.h"
#include "job.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
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

/* -1 after printing why not. */
static int open_socket(const serve_options *o, bool keyed, bool *local)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE };
    struct addrinfo *found = NULL;
    char port[16];
    int fd = -1;
    snprintf(port, sizeof port, "%d", o->port);
    const int failed = getaddrinfo(o->host, port, &hints, &found);
    *local = !failed && is_local(found->ai_addr);
    if (failed)
        fprintf(stderr, "weft: --host %s: %s\n", o->host, gai_strerror(failed));
    else if (!*local && !keyed && !o->insecure)
        fprintf(stderr,
                "weft: --host %s: others can reach this address, and there are no keys; expected "
                "--api-key-file FILE, or --insecure\n",
                o->host);
    else if ((fd = listen_at(found)) < 0)
        fprintf(stderr, "weft: %s port %d: %s\n", o->host, o->port, strerror(errno));
    if (found)
        freeaddrinfo(found);
    return fd;
}

/* ---- threads --------------------------------------------------------------------------------- */

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
    return s->n_job_of && ring_init(&s->clerk, room) && ring_init(&s->worker, room) &&
           ring_init(&s->ready, 2 * room) && ring_init(&s->reload, 1) &&
           adapters_init(&s->adapters, &s->options.lora);
}

static void end(server *s)
{
    for (job *j; (j = ring_pop(&s->ready));)
        job_release(j);
    if (s->reload.room)
        adapters_free(&s->adapters);
    ring_free(&s->reload);
    ring_free(&s->clerk);
    ring_free(&s->worker);
    ring_free(&s->ready);
    memory_give((void *)s->n_job_of);
    keys_free(&s->keys);
}

typedef struct threads {
    pthread_t clerk, worker, reload;
    int n; /* that have begun, in this order */
} threads;

static bool start_threads(server *s, threads *t)
{
    t->n += pthread_create(&t->clerk, NULL, clerk_main, s) == 0;
    t->n += t->n == 1 && pthread_create(&t->worker, NULL, worker_main, s) == 0;
    t->n += t->n == 2 && pthread_create(&t->reload, NULL, reload_main, s) == 0;
    return t->n == 3;
}

/* The others end before the worker, which frees the model and the tokenizer. */
static void stop_threads(server *s, threads *t)
{
    atomic_store(&s->stopping, true);
    if (t->n > 2) {
        ring_wake(&s->reload);
        pthread_join(t->reload, NULL);
    }
    if (t->n > 0) {
        ring_wake(&s->clerk);
        pthread_join(t->clerk, NULL);
    }
    for (job *j; (j = ring_pop(&s->clerk));)
        job_leave(j);
    if (t->n > 1) {
        ring_wake(&s->worker);
        pthread_join(t->worker, NULL);
    }
}

static int run(server *s)
{
    threads t = { 0 };
    bool local;
    int code = 1;
    const int listener = open_socket(&s->options, s->keys.n > 0, &local);
    if (listener < 0)
        return 1;
    if (!begin(s)) {
        fprintf(stderr, "weft: no memory or descriptors for the server\n");
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
    stop_threads(s, &t);
    return code;
}

int serve_run(const serve_options *options)
{
    server s = { .options = *options };
    char why[512];
    memory_budget = options->budget;
    s.options.n_connection = options->n_connection ? options->n_connection : 10000;
    s.options.n_waiting = options->n_waiting ? options->n_waiting : 128;
    s.options.n_running = options->n_running ? options->n_running : 32;
    s.max_job = s.options.n_waiting + s.options.n_running;
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
