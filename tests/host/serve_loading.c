/* serve_loading.c - weft serve, requests and signals while a model loads: its list of adapters is a
 * pipe that nobody writes yet. */
#include "serve_client.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *weft, *model, *list;

static child start(const char *more)
{
    const char *const args[] = { model, "--lora-list",      list, "--sandbox",
                                 "off", more ? "-m" : NULL, more, NULL };
    child s = server_begin(weft, args);
    must(s.port > 0, "loading: the server listens", NULL);
    return s;
}

/* The head has come, the body has not: the answer is made later. */
static int begin_get(const child *s, const char *path)
{
    char head[256];
    const int fd = dial(s);
    put(fd, head,
        (size_t)snprintf(head, sizeof head,
                         "GET %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n", path));
    return fd;
}

/* A server that stops while it loads has no names and no sizes to give. */
static void asked_while_stopping(void)
{
    static const char *const paths[] = { "/v1/models", "/tokenizer_info", "/metrics" };
    static const int expected[] = { 503, 503, 200 };
    enum { N = 3 };
    child s = start(NULL);
    int fd[N];
    for (int i = 0; i < N; i++)
        fd[i] = begin_get(&s, paths[i]);
    pause_for(0.3);
    kill(s.pid, SIGTERM);
    pause_for(0.3);
    for (int i = 0; i < N; i++) {
        bool closed;
        put(fd[i], "{}", 2);
        char *answer = take_all(fd[i], 10, &closed);
        check(status_of(answer) == expected[i], "loading: a request while it stops has an answer",
              "%s: found %d, expected %d", paths[i], status_of(answer), expected[i]);
        free(answer);
        close(fd[i]);
    }
    pause_for(0.5);
    const double begin = now();
    const int code = server_stop(&s, SIGTERM, 20);
    check(code == 0 && now() - begin < 5, "loading: a second signal ends it at once",
          "%d after %g s", code, now() - begin);
}

/* How often a text is in what the server has printed. */
static int n_printed(const child *s, const char *text)
{
    char line[8192];
    int n = 0;
    const ssize_t size = read(s->errors, line, sizeof line - 1);
    line[size > 0 ? size : 0] = '\0';
    for (const char *at = line; (at = strstr(at, text)); at++)
        n++;
    return n;
}

/* The one that is being loaded is waited for; the next one does not begin. */
static void loads_no_more(void)
{
    char other[512];
    snprintf(other, sizeof other, "other=%s", model);
    child s = start(other);
    pause_for(0.5);
    kill(s.pid, SIGTERM);
    pause_for(0.5);
    const int writer = open(list, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    check(writer >= 0, "loading: a model is being loaded", "nobody reads the list");
    if (writer >= 0)
        close(writer);
    pause_for(1);
    const int n = n_printed(&s, "weft: serving ");
    const int code = server_stop(&s, 0, 10);
    check(code == 0, "loading: a signal ends it with the model that is being loaded", "%d", code);
    check(n <= 1, "loading: after a signal no further model is loaded", "%d were", n);
}

int main(int argc, char **argv)
{
    char directory[] = "/tmp/weft-loading-XXXXXX", path[64];
    must(argc >= 3, "serve_loading WEFT MODEL", NULL);
    weft = argv[1];
    model = argv[2];
    must(mkdtemp(directory) != NULL, "loading: a directory", NULL);
    snprintf(path, sizeof path, "%s/list", directory);
    must(mkfifo(path, 0600) == 0, "loading: a pipe", NULL);
    list = path;
    asked_while_stopping();
    loads_no_more();
    unlink(path);
    rmdir(directory);
    return n_failed > 0;
}
