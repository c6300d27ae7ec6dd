/* log.c - the access log: a line of JSON for each request, without prompts, answers or keys. */
#include "http.h"

#include <arpa/inet.h>
#include <limits.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

static void put_time(wire *w)
{
    char text[40];
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    const size_t n = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(text + n, sizeof text - n, ".%03ldZ", now.tv_nsec / 1000000);
    wire_string(w, "time", text);
}

static void put_address(wire *w, const client *c)
{
    char text[INET6_ADDRSTRLEN] = "";
    inet_ntop(AF_INET6, c->address, text, sizeof text);
    wire_string(w, "address", text);
}

static void put_job(wire *w, job *j)
{
    pthread_mutex_lock(&j->lock);
    if (j->first > 0)
        wire_int(w, "first_ms", (int64_t)((j->first - j->began) * 1e3));
    wire_int(w, "prompt_tokens", j->n_prompt);
    wire_int(w, "cached_tokens", j->n_cached);
    wire_int(w, "new_tokens", j->n_new);
    pthread_mutex_unlock(&j->lock);
}

/* A log that nobody reads must not stop the server: where a pipe is full, the line is dropped and
 * counted. A line is shorter than PIPE_BUF, so that it fits or not as a whole. */
static void write_line(server *s, const bytes *line)
{
    const int fd = fileno(s->options.log);
    struct pollfd p = { .fd = fd, .events = POLLOUT };
    if (line->failed || line->n > PIPE_BUF || poll(&p, 1, 0) <= 0 || !(p.revents & POLLOUT) ||
        write(fd, line->at, line->n) != (ssize_t)line->n)
        atomic_fetch_add(&s->metrics.n_log_lost, 1);
}

void log_exchange(const client *c, const char *end)
{
    server *s = c->http->server;
    const struct exchange *x = &c->x;
    bytes line = { 0 };
    wire w = wire_to(&line);
    if (!s->options.log)
        return;
    wire_object(&w, NULL);
    put_time(&w);
    wire_string(&w, "id", x->id);
    if (x->key >= 0 && x->key < s->keys.n)
        wire_string(&w, "key", s->keys.at[x->key].name);
    put_address(&w, c);
    wire_string(&w, "method", x->method);
    wire_string(&w, "path", x->path);
    wire_int(&w, "status", x->status);
    wire_string(&w, "end", end);
    wire_int(&w, "ms", (int64_t)((server_now() - x->began) * 1e3));
    wire_int(&w, "received", (int64_t)x->received);
    wire_int(&w, "sent", (int64_t)x->sent);
    if (x->job)
        put_job(&w, x->job);
    wire_end(&w);
    bytes_text(&line, "\n");
    write_line(s, &line);
    bytes_free(&line);
}
