/* admin.c - the commands of whoever runs the server; see admin.h. */
#include "admin.h"

#include "service.h"
#include "wire.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* ---- the socket ------------------------------------------------------------------------------ */

static bool address_of(const char *path, struct sockaddr_un *to)
{
    *to = (struct sockaddr_un){ .sun_family = AF_UNIX };
    if (strlen(path) >= sizeof to->sun_path) {
        errno = ENAMETOOLONG;
        return false;
    }
    strcpy(to->sun_path, path);
    return true;
}

/* A socket that nobody listens to is what a server left that was killed. */
static bool is_stale(const struct sockaddr_un *at)
{
    struct stat s;
    if (lstat(at->sun_path, &s) != 0 || !S_ISSOCK(s.st_mode))
        return false;
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool stale = fd >= 0 && connect(fd, (const struct sockaddr *)at, sizeof *at) != 0 &&
                       errno == ECONNREFUSED;
    if (fd >= 0)
        close(fd);
    return stale;
}

/* Nobody else may open it, at no moment. There is one thread yet. */
static bool bind_private(int fd, const struct sockaddr_un *at)
{
    const mode_t before = umask(0177);
    bool good = bind(fd, (const struct sockaddr *)at, sizeof *at) == 0;
    if (!good && errno == EADDRINUSE) {
        const bool stale = is_stale(at);
        errno = EADDRINUSE;
        good = stale && unlink(at->sun_path) == 0 &&
               bind(fd, (const struct sockaddr *)at, sizeof *at) == 0;
    }
    umask(before);
    return good;
}

static bool watch(const admin *a, int fd)
{
    struct epoll_event e = { .events = EPOLLIN, .data.fd = fd };
    return epoll_ctl(a->epoll, EPOLL_CTL_ADD, fd, &e) == 0;
}

bool admin_open(admin *a, const char *path)
{
    struct sockaddr_un at;
    struct stat s;
    *a = (admin){ .listener = -1, .epoll = -1 };
    for (int i = 0; i < ADMIN_CLIENTS; i++)
        a->client[i].fd = -1;
    if (!path)
        return true;
    a->epoll = epoll_create1(EPOLL_CLOEXEC);
    a->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (a->epoll >= 0 && a->listener >= 0 && address_of(path, &at) &&
        bind_private(a->listener, &at) && stat(path, &s) == 0) {
        a->path = path;
        a->device = s.st_dev;
        a->file = s.st_ino;
        if (listen(a->listener, ADMIN_CLIENTS) == 0 && watch(a, a->listener))
            return true;
    }
    fprintf(stderr, "weft: --admin %s: %s\n", path,
            errno == EADDRINUSE
                ? "already exists and is in use or is not a socket; choose another path"
                : strerror(errno));
    admin_close(a);
    return false;
}

/* The file may be another server's by now. */
void admin_close(admin *a)
{
    struct stat s;
    for (int i = 0; i < ADMIN_CLIENTS; i++)
        if (a->client[i].fd >= 0)
            close(a->client[i].fd);
    if (a->listener >= 0)
        close(a->listener);
    if (a->epoll >= 0)
        close(a->epoll);
    if (a->path && lstat(a->path, &s) == 0 && s.st_dev == a->device && s.st_ino == a->file)
        unlink(a->path);
    *a = (admin){ .listener = -1, .epoll = -1 };
}

/* ---- commands -------------------------------------------------------------------------------- */

/* A model that is loaded, by its name; `one` is held. */
static void put_model(const instance *one, wire *w)
{
    weft_scheduler_info info = { .struct_size = sizeof info };
    weft_scheduler *scheduler = atomic_load(&one->scheduler);
    if (scheduler)
        weft_scheduler_get_info(scheduler, &info);
    wire_object(w, NULL);
    wire_string(w, "name", one->model.name);
    wire_int(w, "running", info.n_running);
    wire_int(w, "waiting", info.n_waiting);
    wire_end(w);
}

static void put_status(server *s, bytes *to)
{
    wire w = wire_to(to);
    wire_object(&w, NULL);
    wire_string(&w, "phase", phase_name(atomic_load(&s->phase)));
    wire_bool(&w, "ready", server_takes(s));
    wire_list(&w, "models");
    for (int k = 0; k < s->n_service; k++) {
        instance *one = service_hold(s, k);
        if (one)
            put_model(one, &w);
        instance_release(one);
    }
    wire_end(&w);
    wire_int(&w, "requests", atomic_load(&s->metrics.n_request));
    wire_int(&w, "connections", atomic_load(&s->metrics.n_connection));
    wire_bool(&w, "reloading", atomic_load(&s->n_asked) != atomic_load(&s->n_reloaded));
    wire_int(&w, "pid", getpid());
    wire_int(&w, "started", s->started);
    wire_end(&w);
}

static void set_ready(server *s, bool ready, bytes *to)
{
    if (atomic_exchange(&s->held, !ready) == ready)
        fprintf(stderr, "weft: ready %s\n", ready ? "on" : "off: /ready is 503");
    bytes_text(to, "ok");
}

/* True: the server is to stop. */
static bool obey(server *s, const char *line, size_t n, bytes *to)
{
    const bool stops = strlen(line) == n && strcmp(line, "stop") == 0;
    if (strlen(line) != n) { /* a zero byte */
        bytes_text(to, "{\"error\":\"not text\"}");
    } else if (strcmp(line, "status") == 0) {
        put_status(s, to);
    } else if (strcmp(line, "ready on") == 0 || strcmp(line, "ready off") == 0) {
        set_ready(s, line[7] == 'n', to);
    } else if (strcmp(line, "reload") == 0) {
        reload_ask(s);
        bytes_text(to, "ok");
    } else if (stops) {
        bytes_text(to, "ok");
    } else if (strcmp(line, "help") == 0) {
        bytes_text(to, "{\"commands\":[\"status\",\"ready on\",\"ready off\",\"reload\",\"stop\","
                       "\"help\"]}");
    } else {
        bytes_text(to, "{\"error\":\"unknown command; try help\"}");
    }
    bytes_text(to, "\n");
    return stops;
}

/* ---- clients --------------------------------------------------------------------------------- */

typedef struct turn {
    server *server;
    bool stops;
} turn;

static void drop(admin_client *c)
{
    if (c->fd >= 0)
        close(c->fd); /* epoll forgets it */
    c->fd = -1;
}

/* False if it does not fit: the client does not read. */
static bool reply(const admin_client *c, const bytes *text)
{
    return !text->failed &&
           send(c->fd, text->at, text->n, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)text->n;
}

/* The first line of what was read. False if the connection is to end. */
static bool take_line(admin_client *c, turn *t, const char *end)
{
    bytes text = { 0 };
    size_t n = (size_t)(end - c->line);
    char line[ADMIN_LINE];
    memcpy(line, c->line, n);
    c->n -= (int)n + 1;
    memmove(c->line, end + 1, (size_t)c->n);
    n -= n > 0 && line[n - 1] == '\r';
    line[n] = '\0';
    t->stops = obey(t->server, line, n, &text) || t->stops;
    const bool good = reply(c, &text);
    bytes_free(&text);
    return good;
}

/* What has come, a line at most ADMIN_LINE at a time; the rest waits for the next turn. */
static bool take(admin_client *c, turn *t)
{
    static char words[] = "{\"error\":\"a line of more than 127 bytes\"}\n";
    const bytes long_line = { .at = words, .n = sizeof words - 1 };
    const ssize_t n = recv(c->fd, c->line + c->n, sizeof c->line - (size_t)c->n, MSG_DONTWAIT);
    if (n <= 0)
        return n < 0 && (errno == EAGAIN || errno == EINTR);
    c->n += (int)n;
    for (const char *end; (end = memchr(c->line, '\n', (size_t)c->n));)
        if (!take_line(c, t, end))
            return false;
    if (c->n < ADMIN_LINE)
        return true;
    reply(c, &long_line);
    return false;
}

static bool may_ask(int fd)
{
    struct ucred who;
    socklen_t size = sizeof who;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 &&
           (who.uid == 0 || who.uid == geteuid());
}

static void admit(admin *a)
{
    admin_client *to = &a->client[0];
    const int fd = accept4(a->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
        a->paused = errno != EAGAIN && errno != EINTR && errno != ECONNABORTED &&
                    epoll_ctl(a->epoll, EPOLL_CTL_DEL, a->listener, NULL) == 0;
        return;
    }
    for (int i = 1; i < ADMIN_CLIENTS && to->fd >= 0; i++)
        if (a->client[i].fd < 0 || a->client[i].number < to->number)
            to = &a->client[i];
    if (!may_ask(fd) || !watch(a, fd)) {
        close(fd);
        return;
    }
    drop(to);
    *to = (admin_client){ .fd = fd, .number = ++a->n_client };
}

void admin_resume(admin *a)
{
    if (a->paused)
        a->paused = !watch(a, a->listener);
}

bool admin_turn(admin *a, server *s)
{
    turn t = { .server = s };
    struct epoll_event event[ADMIN_CLIENTS + 1];
    const int n = a->epoll >= 0 ? epoll_wait(a->epoll, event, ADMIN_CLIENTS + 1, 0) : 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < ADMIN_CLIENTS; j++)
            if (a->client[j].fd == event[i].data.fd && !take(&a->client[j], &t))
                drop(&a->client[j]);
    for (int i = 0; i < n; i++)
        if (event[i].data.fd == a->listener)
            admit(a);
    return t.stops;
}
