/* serve_client.c - see serve_client.h. */
#include "serve_client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_ANSWER ((size_t)64 << 20)

double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void pause_for(double seconds)
{
    const struct timespec t = { (time_t)seconds,
                                (long)((seconds - (double)(time_t)seconds) * 1e9) };
    nanosleep(&t, NULL);
}

/* ---- the server ------------------------------------------------------------------------------ */

static void run_server(const char *weft, const char *const *args, int errors)
{
    const char *argv[64] = { weft, "serve" };
    int n = 2;
    while (args[n - 2] && n < 60) {
        argv[n] = args[n - 2];
        n++;
    }
    argv[n++] = "--port";
    argv[n++] = "0";
    if (SANITIZED) { /* they make calls of their own */
        argv[n++] = "--sandbox";
        argv[n++] = "off";
    }
    dup2(errors, STDERR_FILENO);
    execv(weft, (char *const *)argv);
    _exit(127);
}

/* Reads standard error up to the line about the port. */
static int read_port(int fd)
{
    char line[4096];
    size_t n = 0;
    const double end = now() + 60;
    while (n < sizeof line - 1 && now() < end) {
        struct pollfd p = { fd, POLLIN, 0 };
        if (poll(&p, 1, 1000) <= 0)
            continue;
        const ssize_t more = read(fd, line + n, sizeof line - 1 - n);
        if (more <= 0)
            break;
        n += (size_t)more;
        line[n] = '\0';
        const char *at = strstr(line, "http://127.0.0.1:");
        if (at && strchr(at, '\n'))
            return atoi(at + strlen("http://127.0.0.1:"));
    }
    return 0;
}

child server_begin(const char *weft, const char *const *args)
{
    child s = { 0 };
    int errors[2];
    must(pipe2(errors, O_CLOEXEC) == 0, "serve: a pipe", NULL);
    s.pid = fork();
    if (s.pid == 0)
        run_server(weft, args, errors[1]);
    close(errors[1]);
    s.errors = errors[0];
    s.port = read_port(s.errors);
    fcntl(s.errors, F_SETFL, O_NONBLOCK);
    return s;
}

child server_start(const char *weft, const char *const *args)
{
    child s = server_begin(weft, args);
    const double end = now() + 60;
    bool ready = false;
    while (s.port && !ready && now() < end) {
        char *answer = ask(&s, "/ready", "", NULL);
        ready = status_of(answer) == 200;
        free(answer);
        if (!ready)
            pause_for(0.02);
    }
    must(ready, "serve: it starts", NULL);
    return s;
}

/* The log must not fill its pipe. */
static void drain_log(const child *s)
{
    char some[65536];
    while (read(s->errors, some, sizeof some) > 0)
        ;
}

int server_stop(child *s, int sent, double seconds)
{
    const double end = now() + seconds;
    int status = 0;
    if (sent)
        kill(s->pid, sent);
    while (waitpid(s->pid, &status, WNOHANG) == 0) {
        drain_log(s);
        if (now() > end) {
            kill(s->pid, SIGKILL);
            waitpid(s->pid, &status, 0);
            close(s->errors);
            return -1;
        }
        pause_for(0.005);
    }
    close(s->errors);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int n_descriptor(pid_t pid)
{
    char path[64];
    int n = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *d = opendir(path);
    if (!d) /* a sandboxed process shows them to root only */
        skip("serve: descriptors are counted", strerror(errno));
    for (struct dirent *e; d && (e = readdir(d));)
        n += e->d_name[0] != '.';
    if (d)
        closedir(d);
    return n;
}

bool descriptors_become(const child *s, int n, double seconds)
{
    const double end = now() + seconds;
    while (n_descriptor(s->pid) > n && now() < end)
        pause_for(0.01);
    return n_descriptor(s->pid) <= n;
}

size_t resident(pid_t pid)
{
    char path[64];
    size_t all = 0, pages = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
    FILE *f = fopen(path, "r");
    if (f && fscanf(f, "%zu %zu", &all, &pages) != 2)
        pages = 0;
    if (f)
        fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

size_t peak(pid_t pid)
{
    char path[64], line[256];
    size_t kib = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "r");
    while (f && kib == 0 && fgets(line, sizeof line, f))
        if (sscanf(line, "VmHWM: %zu kB", &kib) != 1)
            kib = 0;
    if (f)
        fclose(f);
    return kib << 10;
}

/* ---- requests -------------------------------------------------------------------------------- */

int dial(const child *s)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)s->port) };
    to.sin_addr.s_addr = s->address ? s->address : htonl(INADDR_LOOPBACK);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

bool put(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        const ssize_t sent = send(fd, bytes, n, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        bytes += sent;
        n -= (size_t)sent;
    }
    return true;
}

/* The length of the body is known, and it is there; or its last chunk is. */
static bool is_complete(const char *answer, size_t n)
{
    const char *body = strstr(answer, "\r\n\r\n");
    const char *length = body ? strcasestr(answer, "\r\nContent-Length:") : NULL;
    if (!body)
        return false;
    if (length && length < body)
        return n >= (size_t)(body + 4 - answer) + strtoull(length + 17, NULL, 10);
    return n >= 5 && memcmp(answer + n - 5, "0\r\n\r\n", 5) == 0;
}

/* A body of chunks becomes one piece, in place. */
static void join_chunks(char *answer)
{
    char *body = strstr(answer, "\r\n\r\n"), *to = body ? body + 4 : NULL;
    const char *chunked = strcasestr(answer, "\r\nTransfer-Encoding: chunked");
    if (!body || !chunked || chunked > body)
        return;
    for (const char *from = to; *from;) {
        char *digits;
        const size_t n = strtoull(from, &digits, 16);
        if (n == 0 || strlen(digits) < n + 4)
            break;
        memmove(to, digits + 2, n);
        to += n;
        from = digits + 2 + n + 2;
    }
    *to = '\0';
}

char *take_all(int fd, double seconds, bool *closed)
{
    size_t n = 0, room = 65536;
    char *text = calloc(1, room);
    const double end = now() + seconds;
    *closed = false;
    while (text && n < MAX_ANSWER && now() < end && !is_complete(text, n)) {
        struct pollfd p = { fd, POLLIN, 0 };
        if (poll(&p, 1, (int)((end - now()) * 1e3) + 1) <= 0)
            break;
        if (room - n < 32768)
            text = realloc(text, room *= 2);
        const ssize_t more = recv(fd, text + n, room - n - 1, 0);
        if (more <= 0) {
            *closed = true;
            break;
        }
        n += (size_t)more;
        text[n] = '\0';
    }
    if (text)
        join_chunks(text);
    return text;
}

bool take_until(int fd, const char *mark, double seconds)
{
    char text[65536];
    size_t n = 0;
    const double end = now() + seconds;
    while (now() < end) {
        struct pollfd p = { fd, POLLIN, 0 };
        if (poll(&p, 1, 50) <= 0)
            continue;
        if (n > sizeof text / 2) {
            memmove(text, text + n - 256, 256);
            n = 256;
        }
        const ssize_t more = recv(fd, text + n, sizeof text - n - 1, 0);
        if (more <= 0)
            return false;
        n += (size_t)more;
        text[n] = '\0';
        if (strstr(text, mark))
            return true;
    }
    return false;
}

static bool send_request(int fd, const char *path, const char *more, const char *body)
{
    char head[2048];
    const int n = body ? snprintf(head, sizeof head,
                                  "POST %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Type: "
                                  "application/json\r\nContent-Length: %zu\r\n\r\n",
                                  path, more, strlen(body))
                       : snprintf(head, sizeof head, "GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n",
                                  path, more);
    return put(fd, head, (size_t)n) && (!body || put(fd, body, strlen(body)));
}

#define PATIENCE (SANITIZED ? 120 : 30) /* seconds for an answer */

char *ask(const child *s, const char *path, const char *more, const char *body)
{
    bool closed;
    const int fd = dial(s);
    char *answer = fd >= 0 && send_request(fd, path, more, body) ? take_all(fd, PATIENCE, &closed)
                                                                 : calloc(1, 1);
    if (fd >= 0)
        close(fd);
    return answer;
}

int begin_ask(const child *s, const char *path, const char *body)
{
    const int fd = dial(s);
    if (fd >= 0)
        send_request(fd, path, "", body);
    return fd;
}

int status_of(const char *answer)
{
    return answer && strncmp(answer, "HTTP/1.1 ", 9) == 0 ? atoi(answer + 9) : 0;
}

const char *body_of(const char *answer)
{
    const char *body = answer ? strstr(answer, "\r\n\r\n") : NULL;
    return body ? body + 4 : "";
}

/* ---- what is in them ------------------------------------------------------------------------- */

/* Joins the values of all members of this name, escapes as they are. */
static void join(const char *answer, const char *name, char *to)
{
    const size_t n = strlen(name);
    for (const char *at = answer; (at = strstr(at, name));) {
        at += n;
        while (*at && *at != '"') {
            if (*at == '\\')
                *to++ = *at++;
            *to++ = *at++;
        }
    }
    *to = '\0';
}

char *text_of(const char *answer)
{
    char *text = calloc(1, strlen(answer) + 1);
    const bool chat = strstr(answer, "\"object\":\"chat.completion") != NULL;
    if (text)
        join(answer, chat ? "\"content\":\"" : "\"text\":\"", text);
    return text;
}

/* Ids of calls are new in every answer. */
static void drop_ids(char *text)
{
    for (char *at = strstr(text, "\"call_"); at; at = strstr(at + 1, "\"call_")) {
        char *end = strchr(at + 1, '"');
        memmove(at + 1, end, strlen(end) + 1);
    }
}

char *choices_of(const char *answer)
{
    char *all = malloc(strlen(answer) + 1);
    size_t n = 0;
    if (status_of(answer) != 200) {
        free(all);
        return NULL;
    }
    for (const char *at = strstr(answer, "\"choices\":"); at; at = strstr(at, "\"choices\":")) {
        const char *end = strstr(at, ",\"usage\"");
        const char *line = strchr(at, '\n');
        end = end && (!line || end < line) ? end : line ? line : at + strlen(at);
        memcpy(all + n, at, (size_t)(end - at));
        n += (size_t)(end - at);
        at = end;
    }
    all[n] = 0;
    drop_ids(all);
    return all;
}

double metric(const child *s, const char *name)
{
    char *answer = ask(s, "/metrics", "", NULL);
    double value = -1;
    for (const char *at = answer; (at = strstr(at, name)); at++)
        if (at > answer && at[-1] == '\n' && strchr(" {", at[strlen(name)])) {
            value = strtod(strchr(at, ' ') + 1, NULL);
            break;
        }
    free(answer);
    drain_log(s);
    return value;
}

bool metric_becomes(const child *s, const char *name, double value, double seconds)
{
    const double end = now() + seconds;
    double last = metric(s, name);
    while (last != value && now() < end) {
        pause_for(0.01);
        last = metric(s, name);
    }
    return last == value;
}

bool metric_falls(const child *s, const char *name, double value, double seconds)
{
    const double end = now() + seconds;
    double last = metric(s, name);
    while (last > value && now() < end) {
        pause_for(0.01);
        last = metric(s, name);
    }
    return last >= 0 && last <= value;
}
