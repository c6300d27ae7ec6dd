/* load_stream.c - reads an answer as it arrives: head, chunks, events. It expects a server that keeps
 * to HTTP/1.1; what it does not understand is a failed request. */
#include "load_stream.h"

#include "bench.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static void stream_fail(load_stream *s, const char *why)
{
    if (s->state != STREAM_FAILED)
        snprintf(s->error, sizeof s->error, "%.190s", why);
    s->state = STREAM_FAILED;
}

bool load_stream_open(load_stream *s, const struct sockaddr *to, socklen_t n_to, char *request,
                      size_t n_request)
{
    *s = (load_stream){ .request = request, .n_request = n_request, .chunk = -1 };
    s->asked = bench_now();
    s->fd = socket(to->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (s->fd < 0) {
        stream_fail(s, strerror(errno));
        return false;
    }
    setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
    if (connect(s->fd, to, n_to) != 0 && errno != EINPROGRESS)
        stream_fail(s, strerror(errno));
    return true;
}

void load_stream_close(load_stream *s)
{
    if (s->fd >= 0)
        close(s->fd);
    free(s->request);
    s->request = NULL;
    s->fd = -1;
}

/* ---- events ---------------------------------------------------------------------------------- */

/* The integer after a name in an event of JSON; 0 if there is none. */
static int64_t number_after(const char *line, const char *name)
{
    const char *at = strstr(line, name);
    at = at ? strchr(at, ':') : NULL;
    return at ? strtoll(at + 1, NULL, 10) : 0;
}

/* Does the event have text? */
static bool has_text(const char *line)
{
    const char *at = strstr(line, "\"text\"");
    at = at ? at : strstr(line, "\"content\"");
    at = at ? strchr(at, ':') : NULL;
    while (at && *++at == ' ')
        ;
    return at && at[0] == '"' && at[1] != '"';
}

static void take_event(load_stream *s, const char *data, stream_token_fn *fn, void *ud)
{
    if (strcmp(data, "[DONE]") == 0) {
        s->state = STREAM_DONE;
        return;
    }
    if (strstr(data, "\"error\"")) {
        stream_fail(s, data);
        return;
    }
    const int64_t n = number_after(data, "\"completion_tokens\"");
    s->n_token = n > 0 ? n : s->n_token;
    if (!has_text(data))
        return;
    const double now = bench_now();
    const bool is_first = s->n_event++ == 0;
    fn(ud, s, now - (is_first ? s->asked : s->last), is_first);
    s->first = is_first ? now : s->first;
    s->last = now;
}

/* A line of the head, or of the body. */
static void take_line(load_stream *s, stream_token_fn *fn, void *ud)
{
    char *line = s->line;
    while (s->n_line > 0 && line[s->n_line - 1] == '\r')
        s->n_line--;
    line[s->n_line] = 0;
    if (s->in_body) {
        if (s->status != 200 && s->n_line > 0)
            stream_fail(s, line);
        else if (strncmp(line, "data: ", 6) == 0)
            take_event(s, line + 6, fn, ud);
    } else if (s->n_line == 0) {
        s->in_body = true;
    } else if (s->status == 0) {
        s->status = strncmp(line, "HTTP/1.1 ", 9) == 0 ? atoi(line + 9) : -1;
    } else if (strncasecmp(line, "transfer-encoding:", 18) == 0) {
        s->chunked = strstr(line, "chunked");
    }
    s->n_line = 0;
}

static void take_byte(load_stream *s, char c, stream_token_fn *fn, void *ud)
{
    if (c == '\n')
        take_line(s, fn, ud);
    else if (s->n_line + 1 < sizeof s->line)
        s->line[s->n_line++] = c;
}

/* A byte of a chunked body: of a length line, of the data, or of the line end after them. */
static void take_chunked(load_stream *s, char c, stream_token_fn *fn, void *ud)
{
    if (s->chunk > 0) {
        s->chunk--;
        take_byte(s, c, fn, ud);
        if (s->chunk == 0)
            s->chunk = -1;
    } else if (c == '\n' && s->n_size > 0) {
        s->size_line[s->n_size] = 0;
        s->chunk = strtoll(s->size_line, NULL, 16);
        s->n_size = 0;
        if (s->chunk == 0 && s->state == STREAM_READING)
            stream_fail(s, s->n_line > 0 ? s->line : "the stream ended without [DONE]");
    } else if (c != '\n' && c != '\r' && s->n_size + 1 < sizeof s->size_line) {
        s->size_line[s->n_size++] = c;
    }
}

/* ---- the socket ------------------------------------------------------------------------------ */

static void send_more(load_stream *s)
{
    while (s->n_sent < s->n_request) {
        const ssize_t n = send(s->fd, s->request + s->n_sent, s->n_request - s->n_sent,
                               MSG_NOSIGNAL);
        if (n < 0 && (errno == EAGAIN || errno == ENOTCONN || errno == EINTR))
            return;
        if (n < 0) {
            stream_fail(s, strerror(errno));
            return;
        }
        s->n_sent += (size_t)n;
    }
    s->state = STREAM_READING;
}

void load_stream_advance(load_stream *s, stream_token_fn *fn, void *ud)
{
    char bytes[16384];
    if (s->state == STREAM_CONNECTING)
        send_more(s);
    while (s->state == STREAM_READING) {
        const ssize_t n = recv(s->fd, bytes, sizeof bytes, 0);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0) {
            s->line[s->n_line] = 0;
            stream_fail(s, n < 0 ? strerror(errno) : s->n_line > 0 ? s->line : "closed early");
            return;
        }
        for (ssize_t i = 0; i < n && s->state == STREAM_READING; i++)
            if (s->in_body && s->chunked)
                take_chunked(s, bytes[i], fn, ud);
            else
                take_byte(s, bytes[i], fn, ud);
    }
}
