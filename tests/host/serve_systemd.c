/* serve_systemd.c - weft serve as a service: a socket that is handed over, what it says of itself, and a watchdog that hears
 * nothing once a thread hangs. The supervisor is this program; systemd-socket-activate too, if it is here.
 *
 *     host_serve_systemd WEFT MODEL TEMPLATE HANG.so */
#include "serve_client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define FIRST 3 /* the descriptor that systemd hands over first */

typedef struct setting {
    const char *weft, *model, *template, *hang;
    char directory[64], notify[100];
    int heard; /* NOTIFY_SOCKET's other end */
} setting;

/* ---- a supervisor ---------------------------------------------------------------------------- */

static int listener(int *port, int type, bool listens)
{
    struct sockaddr_in at = { .sin_family = AF_INET };
    socklen_t size = sizeof at;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    must(fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0 &&
             (!listens || listen(fd, 64) == 0) &&
             getsockname(fd, (struct sockaddr *)&at, &size) == 0,
         "systemd: a socket", NULL);
    *port = ntohs(at.sin_port);
    return fd;
}

/* What the child of start() is given. */
typedef struct given {
    int fd, n_fd; /* as descriptor 3; LISTEN_FDS */
    const char *watchdog, *hang_fd, *slow_fd;
    const char *more[6]; /* options */
} given;

static void number(const char *variable, long long x)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", x);
    setenv(variable, text, 1);
}

static void run_server(const setting *s, const given *g, int errors)
{
    const char *argv[32] = { s->weft, "serve", s->model, "--template", s->template, "--no-log" };
    for (int i = 0, n = 6; i < 6 && g->more[i]; i++)
        argv[n++] = g->more[i];
    dup2(errors, STDERR_FILENO);
    if (g->fd == FIRST)
        fcntl(g->fd, F_SETFD, 0);
    else if (g->fd >= 0)
        dup2(g->fd, FIRST);
    number("LISTEN_PID", getpid());
    number("LISTEN_FDS", g->n_fd);
    setenv("NOTIFY_SOCKET", s->notify, 1);
    if (g->watchdog) {
        setenv("WATCHDOG_USEC", g->watchdog, 1);
        number("WATCHDOG_PID", getpid());
    }
    if (g->hang_fd) {
        setenv("HANG_FD", g->hang_fd, 1);
        setenv("SLOW_FD", g->slow_fd, 1);
        setenv("LD_PRELOAD", s->hang, 1);
    }
    execv(s->weft, (char *const *)argv);
    _exit(127);
}

static child start(const setting *s, const given *g, int port)
{
    child c = { .port = port };
    int errors[2];
    must(pipe2(errors, O_CLOEXEC) == 0, "systemd: a pipe", NULL);
    fflush(stdout);
    c.pid = fork();
    if (c.pid == 0)
        run_server(s, g, errors[1]);
    close(errors[1]);
    c.errors = errors[0];
    fcntl(c.errors, F_SETFL, O_NONBLOCK);
    return c;
}

/* The next message; "" if none comes in time. */
static const char *hear(const setting *s, double seconds)
{
    static char text[1024];
    struct pollfd p = { s->heard, POLLIN, 0 };
    if (poll(&p, 1, (int)(seconds * 1e3)) <= 0)
        return "";
    const ssize_t n = recv(s->heard, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

/* The first message with this in it; "" if it does not come. Pings before it are skipped. */
static const char *hear_of(const setting *s, const char *what, double seconds)
{
    const double end = now() + seconds;
    while (now() < end) {
        const char *text = hear(s, end - now());
        if (strstr(text, what))
            return text;
    }
    return "";
}

/* How many pings come in that time; stops after so many. */
static int pings(const setting *s, int most, double seconds)
{
    const double end = now() + seconds;
    int n = 0;
    while (now() < end && n < most)
        n += strcmp(hear(s, end - now()), "WATCHDOG=1") == 0;
    return n;
}

static void end(const setting *s, child *c)
{
    check(server_stop(c, SIGTERM, 30) == 0, "systemd: the service ends", "no");
    while (*hear(s, 0))
        ;
}

/* ---- sockets --------------------------------------------------------------------------------- */

static int completion(const child *c)
{
    char *answer = ask(c, "/v1/completions", "", "{\"prompt\":\"To\",\"max_tokens\":4}");
    const int status = status_of(answer);
    free(answer);
    return status;
}

/* A client that comes before the service, and one that comes while it restarts, are served. */
static void test_socket(const setting *s)
{
    given g = { .n_fd = 1, .more = { "--sandbox", "required" } };
    int port, n_good = 0;
    g.fd = listener(&port, SOCK_STREAM, true);
    child early = { .port = port };
    const int waiting = begin_ask(&early, "/health", "{}");
    child c = start(s, &g, port);
    const char *ready = hear_of(s, "READY=1", 60);
    check(strstr(ready, "\nSTATUS=serving "), "systemd: it says that it is ready", "\"%s\"", ready);
    bool closed;
    char *answer = take_all(waiting, 10, &closed);
    check(status_of(answer) == 405, "systemd: a client that came before the service is answered",
          "%d", status_of(answer));
    free(answer);
    close(waiting);
    for (int i = 0; i < 5; i++) { /* restarts: the socket stays */
        n_good += completion(&c) == 200;
        kill(c.pid, SIGTERM);
        check(*hear_of(s, "STOPPING=1", 10), "systemd: it says that it stops", "nothing");
        const int between = begin_ask(&early, "/health", "{}");
        server_stop(&c, 0, 30);
        c = start(s, &g, port);
        hear_of(s, "READY=1", 60);
        answer = take_all(between, 10, &closed);
        n_good += status_of(answer) == 405;
        free(answer);
        close(between);
    }
    printf("systemd: 5 restarts, %d of 10 requests answered\n", n_good);
    check(n_good == 10, "systemd: no request fails while it restarts", "%d of 10", n_good);
    end(s, &c);
    close(g.fd);
}

static void refused(const setting *s, const given *g, const char *sentence, const char *why)
{
    char text[2048];
    child c = start(s, g, 0);
    const double until = now() + 30;
    int status = 0;
    while (waitpid(c.pid, &status, WNOHANG) == 0)
        if (now() > until)
            kill(c.pid, SIGKILL); /* it serves */
        else
            pause_for(0.01);
    const ssize_t n = read(c.errors, text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    close(c.errors);
    check(WIFEXITED(status) && WEXITSTATUS(status) == 1 && strstr(text, why), sentence, "%s", text);
}

static void test_wrong_sockets(const setting *s)
{
    given g = { .n_fd = 1 };
    int port;
    g.fd = listener(&port, SOCK_DGRAM, false);
    refused(s, &g, "systemd: a datagram socket is refused", "is no TCP socket");
    close(g.fd);
    g.fd = listener(&port, SOCK_STREAM, false);
    refused(s, &g, "systemd: a socket that does not listen is refused", "does not listen");
    close(g.fd);
    g.fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    refused(s, &g, "systemd: a file in place of a socket is refused", "is no socket");
    close(g.fd);
    g.fd = listener(&port, SOCK_STREAM, true);
    g.n_fd = 2;
    refused(s, &g, "systemd: two sockets are refused", "found 2 sockets");
    close(g.fd);
}

/* One that others reach needs keys, whoever opened it. */
static void test_open_socket(const setting *s)
{
    struct sockaddr_in any = { .sin_family = AF_INET };
    given g = { .n_fd = 1 };
    g.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(bind(g.fd, (struct sockaddr *)&any, sizeof any) == 0 && listen(g.fd, 4) == 0,
         "systemd: a socket", NULL);
    refused(s, &g, "systemd: a socket that others reach needs keys", "there are no keys");
    close(g.fd);
}

/* ---- states and the watchdog ----------------------------------------------------------------- */

static void test_reload(const setting *s)
{
    given g = { .n_fd = 1 };
    int port;
    g.fd = listener(&port, SOCK_STREAM, true);
    child c = start(s, &g, port);
    hear_of(s, "READY=1", 60);
    kill(c.pid, SIGHUP);
    const char *text = hear(s, 10);
    check(strncmp(text, "RELOADING=1\nMONOTONIC_USEC=", 27) == 0,
          "systemd: it says that it reloads, and when", "\"%s\"", text);
    text = hear(s, 10);
    check(strncmp(text, "READY=1\n", 8) == 0, "systemd: and that it has", "\"%s\"", text);
    end(s, &c);
    close(g.fd);
}

#define STREAM "{\"prompt\":\"To be\",\"max_tokens\":1000000,\"stream\":true,\"ignore_eos\":true}"

static void test_watchdog(const setting *s)
{
    int hang[2], slow[2], port;
    char fd[2][16], byte = 'x';
    must(pipe(hang) == 0 && pipe(slow) == 0, "systemd: a pipe", NULL);
    snprintf(fd[0], sizeof fd[0], "%d", hang[0]);
    snprintf(fd[1], sizeof fd[1], "%d", slow[0]);
    given g = { .n_fd = 1, .watchdog = "400000", .hang_fd = fd[0], .slow_fd = fd[1] };
    g.fd = listener(&port, SOCK_STREAM, true);
    child c = start(s, &g, port);
    hear_of(s, "READY=1", 60);
    const int idle = pings(s, 5, 30);
    must(write(slow[1], &byte, 1) == 1, "systemd: the worker is slow", NULL);
    int stream = begin_ask(&c, "/v1/completions", STREAM);
    const int busy = pings(s, 5, 30);
    const double running = metric(&c, "vllm:num_requests_running");
    must(read(slow[0], &byte, 1) == 1, "systemd: and fast again", NULL);
    close(stream);
    must(write(hang[1], &byte, 1) == 1, "systemd: the worker hangs", NULL);
    stream = begin_ask(&c, "/v1/completions", STREAM);
    pings(s, INT_MAX, 1); /* of before */
    const int hung = pings(s, INT_MAX, 2);
    char *health = ask(&c, "/health", "", NULL); /* the loop turns all the same */
    must(read(hang[0], &byte, 1) == 1, "systemd: the worker continues", NULL);
    const int again = pings(s, 5, 30);
    printf("watchdog of 400 ms: %d pings while idle, %d while busy; worker hangs: %d in 2 s; "
           "continues: %d\n",
           idle, busy, hung, again);
    check(idle == 5 && busy == 5 && running == 1,
          "systemd: pings while it is idle, and while it works", "%d, %d, %g running", idle, busy,
          running);
    check(hung == 0 && status_of(health) == 200, "systemd: none while the worker hangs", "%d",
          hung);
    check(again == 5, "systemd: and again when it continues", "%d", again);
    free(health);
    close(stream);
    end(s, &c);
    close(g.fd);
    close(hang[0]);
    close(hang[1]);
    close(slow[0]);
    close(slow[1]);
}

/* ---- systemd's own tools ---------------------------------------------------------------------- */

static void test_socket_activate(const setting *s)
{
    child c = { 0 };
    char at[64];
    const int probe = listener(&c.port, SOCK_STREAM, false); /* a free port */
    close(probe);
    if (system("systemd-socket-activate --version >/dev/null 2>&1") != 0) {
        skip("systemd: under systemd-socket-activate", "it is not installed");
        return;
    }
    snprintf(at, sizeof at, "127.0.0.1:%d", c.port);
    int none[2];
    must(pipe2(none, O_CLOEXEC) == 0, "systemd: a pipe", NULL);
    c.errors = none[0];
    fcntl(none[0], F_SETFL, O_NONBLOCK);
    c.pid = fork();
    if (c.pid == 0) {
        dup2(none[1], STDERR_FILENO);
        unsetenv("NOTIFY_SOCKET");
        execlp("systemd-socket-activate", "systemd-socket-activate", "-l", at, s->weft, "serve",
               s->model, "--no-log", NULL);
        _exit(127);
    }
    close(none[1]);
    int status = 0;
    for (double until = now() + 30; now() < until && status != 200; pause_for(0.02))
        status = completion(&c); /* the first request starts it */
    check(status == 200, "systemd: a request to systemd-socket-activate is answered", "%d", status);
    check(server_stop(&c, SIGTERM, 30) == 0, "systemd: and stops with exit code 0", "no");
}

int main(int argc, char **argv)
{
    setting s = { 0 };
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    if (argc != 5) {
        fprintf(stderr, "usage: host_serve_systemd WEFT MODEL TEMPLATE HANG.so\n");
        return 2;
    }
    s.weft = argv[1];
    s.model = argv[2];
    s.template = argv[3];
    s.hang = argv[4];
    signal(SIGPIPE, SIG_IGN);
    snprintf(s.directory, sizeof s.directory, "/tmp/weft-systemd-XXXXXX");
    must(mkdtemp(s.directory) != NULL, "systemd: a directory", NULL);
    snprintf(s.notify, sizeof s.notify, "%s/notify", s.directory);
    snprintf(at.sun_path, sizeof at.sun_path, "%s", s.notify);
    s.heard = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    must(bind(s.heard, (struct sockaddr *)&at, sizeof at) == 0, "systemd: a socket", NULL);
    test_socket(&s);
    test_wrong_sockets(&s);
    test_open_socket(&s);
    test_reload(&s);
    test_watchdog(&s);
    test_socket_activate(&s);
    unlink(s.notify);
    rmdir(s.directory);
    return n_failed > 0;
}
