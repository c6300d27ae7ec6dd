/* http.c - the loop: libmicrohttpd, the jobs that have something to send, clients that hang up,
 * deadlines and signals, all in one thread and one epoll. */
#include "http.h"

#include "body.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define TICK     250 /* milliseconds between looks at the deadlines */
#define N_EVENT  256
#define GRACE    2.0 /* seconds that aborted streams have to send their last event */
#define IS_HTTP  ((void *)1)
#define IS_READY ((void *)2)
#define IS_STOP  ((void *)3)
#define IS_ADMIN ((void *)4)

/* ---- requests -------------------------------------------------------------------------------- */

/* Bytes of the body. One that is refused is read to its end all the same, as many clients read no
 * answer before; but not for ever. */
static enum MHD_Result take_body(client *c, const char *data, size_t n)
{
    struct exchange *x = &c->x;
    x->received += n;
    if (x->received > BODY_MAX_BYTES && !x->why.status)
        refuse(&x->why, 413, INVALID_REQUEST, "too_large", NULL,
               "a body of more than %zu bytes; expected at most that", BODY_MAX_BYTES);
    if (x->why.status) {
        bytes_free(&x->body);
        return x->received <= 2 * BODY_MAX_BYTES ? MHD_YES : MHD_NO;
    }
    bytes_add(&x->body, data, n);
    if (x->body.failed)
        refuse(&x->why, 503, "server_error", "no_memory", NULL, "no memory for the body");
    return MHD_YES;
}

static enum MHD_Result start_job(client *c)
{
    server *s = c->http->server;
    struct exchange *x = &c->x;
    if (atomic_load(&s->n_job) >= s->max_job) { /* others were faster */
        refuse(&x->why, 503, "overloaded_error", "queue_full", NULL,
               "%d requests are waiting; try again later", s->max_job);
        return respond_refusal(c, &x->why);
    }
    job *j = job_new(s, x->route->endpoint, x->id, x->key);
    if (!j) {
        refuse(&x->why, 503, "server_error", "no_memory", NULL, "no memory for the request");
        return respond_refusal(c, &x->why);
    }
    j->body = x->body;
    x->body = (bytes){ 0 };
    j->client = c;
    x->job = j;
    if (!ring_push(&s->clerk, job_hold(j))) {
        job_release(j);
        refuse(&x->why, 503, "overloaded_error", "queue_full", NULL, "the queue is full");
        return respond_refusal(c, &x->why);
    }
    client_suspend(c);
    return MHD_YES;
}

static enum MHD_Result get(client *c)
{
    bytes body = { 0 };
    c->x.route->get(c, &body);
    const enum MHD_Result queued = c->x.why.status ? respond_refusal(c, &c->x.why)
                                                   : respond(c, 200, c->x.route->type, &body);
    bytes_free(&body);
    return queued;
}

/* Called when the head has arrived, for each piece of the body, at its end, and after each time
 * that the connection was resumed before its answer. */
static enum MHD_Result on_request(void *ud, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *size, void **context)
{
    client *c = client_of(connection);
    (void)ud, (void)version;
    if (!c)
        return MHD_NO;
    if (!*context) {
        *context = c;
        client_enter(c, STAGE_BODY);
        route_check(c, url, method);
        return c->x.unclear ? respond_refusal(c, &c->x.why) : MHD_YES;
    }
    if (*size > 0) {
        const enum MHD_Result taken = take_body(c, data, *size);
        *size = 0;
        return taken;
    }
    if (c->x.gone)
        return MHD_NO;
    if (c->x.job)
        return respond_job(c);
    if (c->x.why.status)
        return respond_refusal(c, &c->x.why);
    if (c->x.preflight)
        return respond(c, 204, "text/plain", &(bytes){ 0 });
    return c->x.route->post ? start_job(c) : get(c);
}

static void on_completed(void *ud, struct MHD_Connection *connection, void **context,
                         enum MHD_RequestTerminationCode how)
{
    client *c = client_of(connection);
    (void)ud;
    if (c && c->x.begun)
        log_exchange(c, how == MHD_REQUEST_TERMINATED_COMPLETED_OK ? "done"
                        : c->closing                               ? "dropped"
                                                                   : "gone");
    if (c) {
        client_end_exchange(c);
        client_enter(c, STAGE_IDLE);
    }
    *context = NULL;
}

/* ---- jobs that have something to send -------------------------------------------------------- */

static void send_ready(http *h)
{
    ring_clear(&h->server->ready);
    for (job *j; (j = ring_pop(&h->server->ready));) {
        client *c = j->client;
        pthread_mutex_lock(&j->lock);
        j->announced = false;
        const bool known = j->status != 0 || j->complete;
        pthread_mutex_unlock(&j->lock);
        if (c && known)
            client_resume(c);
        job_release(j);
    }
}

/* ---- stopping -------------------------------------------------------------------------------- */

static void begin_leaving(http *h)
{
    server *s = h->server;
    atomic_store(&s->phase, PHASE_LEAVING);
    h->stop_at = server_now() + s->options.drain_delay;
    fprintf(stderr, "weft: leaving; requests are accepted for %g more seconds\n",
            s->options.drain_delay);
}

static void begin_drain(http *h)
{
    server *s = h->server;
    atomic_store(&s->phase, PHASE_DRAINING);
    h->stop_at = server_now() + s->options.drain;
    const MHD_socket listener = mhd.quiesce_daemon(h->daemon);
    if (listener != MHD_INVALID_SOCKET)
        close(listener);
    fprintf(stderr, "weft: stopping; %d requests have %g seconds to end\n", atomic_load(&s->n_job),
            s->options.drain);
}

static void stop_now(http *h)
{
    if (atomic_load(&h->server->phase) == PHASE_LEAVING)
        begin_drain(h);
    h->stop_at = 0;
}

/* Streams get an error as their last event, others a status. */
static void abort_all(http *h)
{
    refusal why;
    refuse(&why, 503, "server_error", "stopped", NULL, "the server was stopped");
    for (client *c = h->first; c; c = c->next) {
        job *j = c->x.job;
        if (!j)
            continue;
        job_cancel(j);
        job_refuse(j, &why); /* unless it is complete */
    }
    h->aborted = true;
    h->stop_at = server_now() + GRACE;
}

static bool is_busy(const http *h)
{
    for (const client *c = h->first; c; c = c->next)
        if (c->x.begun)
            return true;
    return false;
}

/* True once the loop may end. */
static bool drained(http *h, double now)
{
    for (client *c = h->first; c; c = c->next)
        if (!c->x.begun)
            client_drop(c);
    if (!is_busy(h))
        return true;
    if (now < h->stop_at)
        return false;
    if (h->aborted)
        return true;
    abort_all(h);
    return false;
}

static void stop(http *h)
{
    const int was = atomic_load(&h->server->phase);
    if (was == PHASE_READY && h->server->options.drain_delay > 0)
        begin_leaving(h);
    else if (was < PHASE_LEAVING)
        begin_drain(h);
    else
        stop_now(h); /* asked twice */
}

static void on_signal(http *h)
{
    struct signalfd_siginfo info;
    if (read(h->signals, &info, sizeof info) != (ssize_t)sizeof info)
        return;
    if (info.ssi_signo == SIGHUP)
        reload_ask(h->server);
    else
        stop(h);
}

/* ---- the loop -------------------------------------------------------------------------------- */

static int timeout_of(http *h)
{
    MHD_UNSIGNED_LONG_LONG wanted;
    const bool ticks = h->first || h->server->admin.paused || h->server->systemd.every > 0 ||
                       atomic_load(&h->server->phase) >= PHASE_LEAVING;
    const int ours = ticks ? TICK : -1;
    if (mhd.get_timeout(h->daemon, &wanted) != MHD_YES)
        return ours;
    return ours >= 0 && wanted > (unsigned)ours ? ours : wanted > 60000 ? 60000 : (int)wanted;
}

static int loop(http *h)
{
    struct epoll_event event[N_EVENT];
    server *s = h->server;
    double ticked = server_now();
    for (;;) {
        const int n = epoll_wait(h->epoll, event, N_EVENT, timeout_of(h));
        for (int i = 0; i < n; i++) /* nothing is freed before MHD_run */
            if (event[i].data.ptr == IS_STOP)
                on_signal(h);
            else if (event[i].data.ptr == IS_ADMIN && admin_turn(&s->admin, s))
                stop(h);
            else if (event[i].data.ptr != IS_HTTP && event[i].data.ptr != IS_READY &&
                     event[i].data.ptr != IS_ADMIN)
                client_hung_up(event[i].data.ptr);
        send_ready(h);
        mhd.run(h->daemon);
        const double now = server_now();
        if (now - ticked >= TICK / 1e3) {
            client_tick(h, now);
            admin_resume(&s->admin);
            ticked = now;
        }
        systemd_turn(&s->systemd, s, now);
        const int code = atomic_load(&s->load_code);
        if (code)
            return code;
        if (atomic_load(&s->phase) == PHASE_LEAVING && now >= h->stop_at)
            begin_drain(h);
        if (atomic_load(&s->phase) == PHASE_DRAINING && drained(h, now))
            return 0;
    }
}

static bool watch(http *h, int fd, void *what)
{
    struct epoll_event e = { .events = EPOLLIN, .data.ptr = what };
    return epoll_ctl(h->epoll, EPOLL_CTL_ADD, fd, &e) == 0;
}

static bool begin(http *h, int listener)
{
    sigset_t signals;
    const server *s = h->server;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    h->epoll = epoll_create1(EPOLL_CLOEXEC);
    h->signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    h->daemon = mhd.start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, client_accepts, h, on_request, h,
        MHD_OPTION_LISTEN_SOCKET, listener, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)s->options.n_connection, MHD_OPTION_CONNECTION_MEMORY_LIMIT, CLIENT_POOL,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, h, MHD_OPTION_NOTIFY_CONNECTION, client_notice,
        h, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
    const union MHD_DaemonInfo *fd = h->daemon
                                         ? mhd.get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD)
                                         : NULL;
    return fd && h->epoll >= 0 && h->signals >= 0 && watch(h, fd->epoll_fd, IS_HTTP) &&
           watch(h, s->ready.event, IS_READY) && watch(h, h->signals, IS_STOP) &&
           (s->admin.epoll < 0 || watch(h, s->admin.epoll, IS_ADMIN));
}

static double or_usual(double given, double usual)
{
    return given > 0 ? given : usual;
}

int http_run(server *s, int listener, bool local)
{
    const serve_options *o = &s->options;
    http h = { .server = s, .local = local };
    h.header = or_usual(o->header_seconds, 10);
    h.idle = or_usual(o->idle_seconds, 15);
    h.stall = or_usual(o->stall_seconds, 30);
    h.ping = or_usual(o->ping_seconds, 15);
    int code = 1;
    if (begin(&h, listener))
        code = loop(&h);
    else
        fprintf(stderr, "weft: the HTTP server does not start: %s\n", strerror(errno));
    for (client *c = h.first; c; c = c->next) /* libmicrohttpd cannot stop with suspended ones */
        client_drop(c);
    if (h.daemon) {
        mhd.run(h.daemon);
        mhd.stop_daemon(h.daemon);
    }
    if (h.epoll >= 0)
        close(h.epoll);
    if (h.signals >= 0)
        close(h.signals);
    return code;
}
