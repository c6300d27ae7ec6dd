/* serve_admin.c - the admin socket of weft serve: what its commands do, who may use it, what is left of its file, and that
 * nothing that comes through it delays a request or ends the server.
 *
 *     host_serve_admin WEFT MODEL TEMPLATE [LINES] */
#include "serve_client.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct setting {
    const char *weft, *model, *template;
    char directory[64], path[80];
} setting;

static child start(const setting *s)
{
    const char *const args[] = { s->model, "--template", s->template, "--admin", s->path, NULL };
    return server_start(s->weft, args);
}

static int dial_admin(const setting *s)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    snprintf(at.sun_path, sizeof at.sun_path, "%s", s->path);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&at, sizeof at) == 0)
        return fd;
    const int why = errno;
    if (fd >= 0)
        close(fd);
    errno = why;
    return -1;
}

/* The next line without its end; "" if the connection ends, or none comes within ten seconds. */
static const char *line_of(int fd)
{
    static char text[4096];
    size_t n = 0;
    for (;;) {
        struct pollfd p = { fd, POLLIN, 0 };
        if (n == sizeof text - 1 || poll(&p, 1, 10000) <= 0 || recv(fd, text + n, 1, 0) != 1)
            return "";
        if (text[n] == '\n') {
            text[n] = '\0';
            return text;
        }
        n++;
    }
}

/* One command on a connection of its own. */
static const char *command(const setting *s, const char *text)
{
    const int fd = dial_admin(s);
    if (fd < 0)
        return "";
    put(fd, text, strlen(text));
    const char *line = line_of(fd);
    close(fd);
    return line;
}

static int status_at(const child *c, const char *path)
{
    char *answer = ask(c, path, "", NULL);
    const int status = status_of(answer);
    free(answer);
    return status;
}

static int completion(const child *c)
{
    char *answer = ask(c, "/v1/completions", "", "{\"prompt\":\"To\",\"max_tokens\":2}");
    const int status = status_of(answer);
    free(answer);
    return status;
}

/* ---- commands -------------------------------------------------------------------------------- */

static void test_commands(const setting *s)
{
    child c = start(s);
    const char *line = command(s, "status\n");
    check(strstr(line, "\"phase\":\"ready\",\"ready\":true,\"models\":[{\"name\":\""),
          "admin: status", "%s", line);
    check(strcmp(command(s, "ready off\r\n"), "ok") == 0, "admin: ready off is answered", "no");
    const int ready = status_at(&c, "/ready"), health = status_at(&c, "/health");
    check(ready == 503 && health == 200 && completion(&c) == 200 && metric(&c, "weft_ready") == 0,
          "admin: after ready off, /ready is 503 and requests are served", "%d, %d", ready, health);
    check(strstr(command(s, "status\n"), "\"ready\":false"), "admin: status says so", "%s",
          command(s, "status\n"));
    command(s, "ready on\n");
    check(status_at(&c, "/ready") == 200, "admin: after ready on it is 200 again", "no");
    check(strcmp(command(s, "reload\n"), "ok") == 0, "admin: reload", "%s", command(s, "reload\n"));
    line = command(s, "help\n");
    check(strstr(line, "\"ready off\"") && strstr(line, "\"stop\""), "admin: help", "%s", line);
    const int fd = dial_admin(s);
    put(fd, "\n", 1);
    check(strstr(line_of(fd), "\"error\""), "admin: an empty line is an error", "no");
    put(fd, "sta", 3);
    pause_for(0.05);
    put(fd, "tus\nhelp\n", 9);
    check(strstr(line_of(fd), "\"phase\"") && strstr(line_of(fd), "\"commands\""),
          "admin: commands in pieces, and two at a time", "no");
    close(fd);
    check(strcmp(command(s, "stop\n"), "ok") == 0 && server_stop(&c, 0, 30) == 0,
          "admin: stop ends the server with exit code 0", "no");
    check(access(s->path, F_OK) != 0,
          "admin: the socket is removed at the end, by the sandbox's "
          "leave",
          "it is there");
}

static void test_reload(const setting *s)
{
    char list[80];
    snprintf(list, sizeof list, "%s/list", s->directory);
    FILE *f = fopen(list, "w");
    must(f && fclose(f) == 0, "admin: a list", NULL);
    const char *const args[] = { s->model, "--template",  s->template, "--admin",
                                 s->path,  "--lora-list", list,        NULL };
    child c = server_start(s->weft, args);
    const bool good = strcmp(command(s, "reload\n"), "ok") == 0;
    check(good && metric_becomes(&c, "weft_lora_loads_total", 2, 20),
          "admin: reload reads the list of adapters again", "%g",
          metric(&c, "weft_lora_loads_total"));
    server_stop(&c, SIGTERM, 30);
    unlink(list);
}

/* ---- the file -------------------------------------------------------------------------------- */

/* Ends at once with an error about the file. */
static void refused(const setting *s, const char *sentence)
{
    char text[512];
    int ends[2], status = 0;
    must(pipe(ends) == 0, "admin: a pipe", NULL);
    fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        alarm(60); /* if it serves after all */
        execl(s->weft, s->weft, "serve", s->model, "--port", "0", "--admin", s->path, NULL);
        _exit(127);
    }
    close(ends[1]);
    waitpid(pid, &status, 0);
    const ssize_t n = read(ends[0], text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    close(ends[0]);
    check(WIFEXITED(status) && WEXITSTATUS(status) == 1 && strstr(text, "already exists"), sentence,
          "%d: %s", status, text);
}

static void test_file(const setting *s)
{
    struct stat st;
    child c = start(s);
    check(stat(s->path, &st) == 0 && S_ISSOCK(st.st_mode) && (st.st_mode & 0777) == 0600,
          "admin: only its owner may open the socket", "%o", st.st_mode);
    refused(s, "admin: a second server does not take the socket of the first");
    server_stop(&c, SIGKILL, 30);
    check(access(s->path, F_OK) == 0, "admin: a killed server leaves its socket", "no");
    c = start(s);
    check(strstr(command(s, "status\n"), "\"phase\":\"ready\""),
          "admin: the next server replaces it", "no");
    server_stop(&c, SIGTERM, 30);
    FILE *f = fopen(s->path, "w");
    must(f && fclose(f) == 0, "admin: a file", NULL);
    refused(s, "admin: a file that is no socket stays");
    check(access(s->path, F_OK) == 0, "admin: and is there", "no");
    unlink(s->path);
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    snprintf(at.sun_path, sizeof at.sun_path, "%s", s->path);
    const int other = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    must(bind(other, (struct sockaddr *)&at, sizeof at) == 0, "admin: a socket", NULL);
    refused(s, "admin: another kind of socket stays, too");
    close(other);
    unlink(s->path);
}

/* The mode keeps others out; if somebody changes it, the server does. */
static void test_others(const setting *s)
{
    if (geteuid() != 0) {
        skip("admin: other users are refused", "needs root, to become another user");
        return;
    }
    child c = start(s);
    for (int open = 0; open < 2; open++) {
        int status = 0;
        chmod(s->directory, 0755);
        chmod(s->path, open ? 0666 : 0600);
        fflush(stdout);
        const pid_t pid = fork();
        if (pid == 0) {
            if (setgid(65534) != 0 || setuid(65534) != 0)
                _exit(9);
            const int fd = dial_admin(s);
            if (fd < 0)
                _exit(errno == EACCES ? 1 : 9);
            put(fd, "status\n", 7);
            _exit(*line_of(fd) ? 3 : 2);
        }
        waitpid(pid, &status, 0);
        check(WIFEXITED(status) && WEXITSTATUS(status) == open + 1,
              open ? "admin: another user gets no answer, whatever the file's mode"
                   : "admin: another user cannot connect",
              "%d", status);
    }
    server_stop(&c, SIGTERM, 30);
}

/* ---- hostile clients -------------------------------------------------------------------------- */

static uint64_t state = 1;

static unsigned below(unsigned n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % n;
}

/* Bytes of all kinds, words of commands among them, with few line ends; never "stop" and "ready". */
static size_t hostile(char *to, size_t room)
{
    static const char *const words[] = { "status", "help", "statu", "help help", "status\r",
                                         "\r",     "{}",   "\xff",  "HELP",      "reload " };
    size_t n = 0;
    const size_t most = below(4) == 0 ? room : 1 + below(200);
    while (n + 16 < most) {
        if (below(3) == 0) {
            const char *word = words[below(10)];
            memcpy(to + n, word, strlen(word));
            n += strlen(word);
        } else {
            to[n++] = (char)below(256);
        }
        if (below(20) == 0)
            to[n++] = '\n';
    }
    return n;
}

/* Each line that comes back is "ok" or JSON. */
static bool reads_well(int fd, int *n_line)
{
    static char text[65536];
    size_t n = 0;
    for (struct pollfd p = { fd, POLLIN, 0 }; n < sizeof text - 1 && poll(&p, 1, 0) > 0;) {
        const ssize_t more = recv(fd, text + n, sizeof text - 1 - n, 0);
        if (more <= 0)
            break;
        n += (size_t)more;
    }
    text[n] = '\0';
    for (const char *at = text; *at; at++) {
        const char *end = strchr(at, '\n');
        if (!end) /* cut here */
            return true;
        if (at[0] != '{' && strncmp(at, "ok\n", 3) != 0)
            return false;
        ++*n_line;
        at = end;
    }
    return true;
}

static void test_hostile(const setting *s, int n_send)
{
    enum { N = 24 }; /* more than it keeps */
    static char bytes[4096];
    int fd[N], n_line = 0;
    bool well = true;
    double worst = 0;
    child c = start(s);
    const int before = n_descriptor(c.pid);
    for (int i = 0; i < N; i++)
        fd[i] = dial_admin(s);
    for (int i = 0; i < n_send; i++) {
        const int k = (int)below(N);
        const size_t n = hostile(bytes, sizeof bytes);
        if (fd[k] >= 0 && send(fd[k], bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL) < (ssize_t)n) {
            close(fd[k]); /* it was ended, or is full */
            fd[k] = dial_admin(s);
        }
        if (fd[k] >= 0 && below(4) > 0) /* some never read */
            well = reads_well(fd[k], &n_line) && well;
        if (i % 100 == 0) {
            const double begun = now();
            well = status_at(&c, "/health") == 200 && well;
            worst = now() - begun > worst ? now() - begun : worst;
        }
    }
    printf("admin: %d pieces of hostile bytes, %d answers, the slowest /health %.1f ms\n", n_send,
           n_line, worst * 1e3);
    check(well && n_line > n_send / 100, "admin: each answer to hostile lines is JSON or ok", "%d",
          n_line);
    check(worst < 2, "admin: they do not delay requests", "%g s", worst);
    for (int i = 0; i < N; i++)
        if (fd[i] >= 0)
            close(fd[i]);
    check(descriptors_become(&c, before, 5), "admin: no descriptor is left", "%d, %d before",
          n_descriptor(c.pid), before);
    check(completion(&c) == 200 && strstr(command(s, "status\n"), "\"phase\":\"ready\""),
          "admin: the server and its socket live", "no");
    check(server_stop(&c, SIGTERM, 30) == 0, "admin: it stops", "no");
}

/* A client for whom there is no descriptor waits; the loop does not look for it all the time. */
static void test_no_descriptor(const setting *s)
{
    struct timespec used[2];
    struct rlimit before, few;
    clockid_t clock;
    child c = start(s);
    command(s, "status\n");
    must(prlimit(c.pid, RLIMIT_NOFILE, NULL, &before) == 0, "admin: a limit", NULL);
    few = before;
    few.rlim_cur = 3; /* below those that are open, which stay */
    must(prlimit(c.pid, RLIMIT_NOFILE, &few, NULL) == 0, "admin: a limit", NULL);
    must(clock_getcpuclockid(c.pid, &clock) == 0, "admin: a clock", NULL);
    const int fd = dial_admin(s);
    put(fd, "status\n", 7);
    clock_gettime(clock, &used[0]);
    pause_for(1);
    clock_gettime(clock, &used[1]);
    const double took = (double)(used[1].tv_sec - used[0].tv_sec) +
                        1e-9 * (double)(used[1].tv_nsec - used[0].tv_nsec);
    check(took < 0.15, "admin: without a descriptor for a client the server rests", "%g s", took);
    must(prlimit(c.pid, RLIMIT_NOFILE, &before, NULL) == 0, "admin: a limit", NULL);
    check(strstr(line_of(fd), "\"phase\":\"ready\""), "admin: later that client is answered", "no");
    close(fd);
    check(server_stop(&c, SIGTERM, 30) == 0, "admin: then it stops", "no");
}

int main(int argc, char **argv)
{
    setting s = { 0 };
    if (argc < 4) {
        fprintf(stderr, "usage: host_serve_admin WEFT MODEL TEMPLATE [LINES]\n");
        return 2;
    }
    s.weft = argv[1];
    s.model = argv[2];
    s.template = argv[3];
    signal(SIGPIPE, SIG_IGN);
    snprintf(s.directory, sizeof s.directory, "/tmp/weft-admin-XXXXXX");
    must(mkdtemp(s.directory) != NULL, "admin: a directory", NULL);
    snprintf(s.path, sizeof s.path, "%s/admin", s.directory);
    test_commands(&s);
    test_reload(&s);
    test_file(&s);
    test_others(&s);
    test_no_descriptor(&s);
    test_hostile(&s, argc > 4 ? atoi(argv[4]) : 5000);
    rmdir(s.directory);
    return n_failed > 0;
}
