/* systemd.c - sockets from systemd, and messages to it; see systemd.h. */
#include "systemd.h"

#include "service.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define FIRST_FD 3

/* ---- sockets --------------------------------------------------------------------------------- */

static bool is_mine(const char *variable)
{
    const char *pid = getenv(variable);
    return pid && strtoll(pid, NULL, 10) == (long long)getpid();
}

static int option_of(int fd, int option)
{
    int value = -1;
    socklen_t size = sizeof value;
    return getsockopt(fd, SOL_SOCKET, option, &value, &size) == 0 ? value : -1;
}

/* NULL if it is a listener that can be served. */
static const char *flaw_of(int fd)
{
    const int domain = option_of(fd, SO_DOMAIN);
    if (domain < 0)
        return "is no socket";
    if ((domain != AF_INET && domain != AF_INET6) || option_of(fd, SO_TYPE) != SOCK_STREAM)
        return "is no TCP socket";
    return option_of(fd, SO_ACCEPTCONN) == 1 ? NULL : "does not listen (Accept=yes of the unit?)";
}

int systemd_listener(char *why, size_t room)
{
    const char *given = getenv("LISTEN_FDS");
    const long n = given && is_mine("LISTEN_PID") ? strtol(given, NULL, 10) : 0;
    const char *flaw = n == 1 ? flaw_of(FIRST_FD) : NULL;
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDNAMES");
    if (n <= 0)
        return -1;
    if (n > 1)
        snprintf(why, room, "LISTEN_FDS: found %ld sockets; expected one", n);
    else if (flaw)
        snprintf(why, room, "LISTEN_FDS: descriptor %d %s; expected a TCP socket that listens",
                 FIRST_FD, flaw);
    else if (fcntl(FIRST_FD, F_SETFD, FD_CLOEXEC) == 0 && fcntl(FIRST_FD, F_SETFL, O_NONBLOCK) == 0)
        return FIRST_FD;
    else
        snprintf(why, room, "LISTEN_FDS: descriptor %d: %s", FIRST_FD, strerror(errno));
    return -2;
}

/* ---- messages -------------------------------------------------------------------------------- */

/* A path, or "@name" for one that is in no directory. */
static int dial(const char *path)
{
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    const size_t n = strlen(path);
    if (n < 2 || n >= sizeof to.sun_path || !strchr("/@", path[0])) {
        errno = EINVAL;
        return -1;
    }
    memcpy(to.sun_path, path, n);
    if (path[0] == '@')
        to.sun_path[0] = '\0';
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&to, size) == 0)
        return fd;
    const int why = errno;
    close(fd);
    errno = why;
    return -1;
}

void systemd_open(systemd *d)
{
    const char *path = getenv("NOTIFY_SOCKET"), *watchdog = getenv("WATCHDOG_USEC");
    *d = (systemd){ .fd = path ? dial(path) : -1 };
    if (path && d->fd < 0)
        fprintf(stderr, "weft: NOTIFY_SOCKET: %s: %s; no notifications are sent\n", path,
                strerror(errno));
    if (d->fd >= 0 && watchdog && (!getenv("WATCHDOG_PID") || is_mine("WATCHDOG_PID")))
        d->every = strtod(watchdog, NULL) / 2e6;
}

void systemd_close(systemd *d)
{
    if (d->fd >= 0)
        close(d->fd);
    d->fd = -1;
}

/* False: its queue is full; to be said again later. */
static bool say(const systemd *d, const char *text)
{
    return send(d->fd, text, strlen(text), MSG_NOSIGNAL) >= 0 || errno != EAGAIN;
}

static bool say_ready(const systemd *d, const server *s)
{
    char text[512];
    snprintf(text, sizeof text,
             s->n_service > 1 ? "READY=1\nSTATUS=serving %.400s and %d more"
                              : "READY=1\nSTATUS=serving %.400s",
             s->services[0].spec->name, s->n_service - 1);
    return say(d, text);
}

/* systemd tells by the time which reload a READY=1 belongs to. */
static bool say_reloading(const systemd *d)
{
    char text[128];
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%lld\nSTATUS=loading what has changed",
             (long long)t.tv_sec * 1000000 + t.tv_nsec / 1000);
    return say(d, text);
}

static void say_states(systemd *d, server *s)
{
    const int now = atomic_load(&s->phase);
    if (now == PHASE_READY && !d->ready)
        d->ready = say_ready(d, s);
    const int asked = atomic_load(&s->n_asked);
    if (now == PHASE_READY && d->ready && asked != d->n_asked && say_reloading(d)) {
        d->n_asked = asked;
        d->reloading = true;
    }
    if (d->reloading && atomic_load(&s->n_reloaded) == d->n_asked)
        d->reloading = !say_ready(d, s);
    if (now >= PHASE_LEAVING && !d->stopping)
        d->stopping = say(d, "STOPPING=1\nSTATUS=finishing requests");
}

/* The loop turns, or nobody would ask. The others are asked only when a ping is due: one beat in that
 * time is enough. A model that loads has no watchdog yet. */
static void ping(systemd *d, server *s, double now)
{
    if (d->every <= 0 || now - d->pinged < d->every)
        return;
    const bool clerk = heart_lives(&s->clerk_heart);
    const bool workers = instances_live(s);
    if ((clerk && workers) || atomic_load(&s->phase) == PHASE_LOADING) {
        say(d, "WATCHDOG=1");
        d->pinged = now;
    }
}

void systemd_turn(systemd *d, server *s, double now)
{
    if (d->fd < 0)
        return;
    say_states(d, s);
    ping(d, s, now);
}
