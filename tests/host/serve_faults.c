/* serve_faults.c - weft serve and clients that misbehave: slow ones, those that hang up at every
 * stage, floods; a full queue; signals in the middle of streams. After each, no request, page,
 * connection or descriptor is left. */
#include "serve_client.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

static const char *weft, *model, *template;

#define COMPLETE "/v1/completions"

#define MEMORY "64M"

#define LONG_TOKENS (THREAD_SANITIZED ? 60 : 240)

/* Of a request that runs to its end; a sanitizer makes it long enough. */
#define WHOLE_TOKENS (SANITIZED ? 60 : 240)

static const char *body_of_texts(int n_prompt, int n_token, bool stream)
{
    static char body[8192];
    char *to = body + sprintf(body,
                              "{\"max_tokens\":%d,\"n\":8,\"ignore_eos\":true,\"stream\":%s,"
                              "\"prompt\":[",
                              n_token, stream ? "true" : "false");
    for (int i = 0; i < n_prompt; i++)
        to += sprintf(to, "%s\"ROMEO:\"", i ? "," : "");
    strcpy(to, "]}");
    return body;
}

/* A request that takes long on a small model: many texts, one after another with --parallel 1. */
static const char *long_body(int n_prompt, bool stream)
{
    return body_of_texts(n_prompt, LONG_TOKENS, stream);
}

/* Nothing is left of clients that are gone: requests, pages, memory, connections. */
static bool is_clean(const child *s, double seconds)
{
    return metric_becomes(s, "weft_requests", 0, seconds) &&
           metric_becomes(s, "vllm:num_requests_running", 0, 1) &&
           metric_becomes(s, "vllm:num_requests_waiting", 0, 1) &&
           metric_becomes(s, "vllm:kv_cache_usage_perc", 0, 1) &&
           metric_becomes(s, "weft_http_connections", 1, 5);
}

/* ---- clients that hang up --------------------------------------------------------------------- */

typedef enum moment { IN_HEAD, IN_BODY, AT_ONCE, IN_QUEUE, IN_STREAM, IN_WHOLE, N_MOMENT } moment;

static void hang_up(const child *s, moment m, int i)
{
    static const char head[] = "POST " COMPLETE " HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                               "application/json\r\nContent-Length: 400\r\n\r\n{\"prompt\"";
    int fd = -1;
    switch (m) {
    case IN_HEAD:
    case IN_BODY:
        fd = dial(s);
        put(fd, head, m == IN_HEAD ? 30 : sizeof head - 1);
        break;
    case AT_ONCE:
    case IN_QUEUE:
    case IN_WHOLE:
        fd = begin_ask(s, COMPLETE, long_body(2, false));
        if (m != AT_ONCE)
            pause_for(0.002 * (i % 5));
        break;
    case IN_STREAM:
        fd = begin_ask(s, COMPLETE, long_body(2, true));
        take_until(fd, "data: ", 10);
        break;
    case N_MOMENT:
        break;
    }
    if (i % 2) { /* the connection is reset, not ended */
        const struct linger now_ = { 1, 0 };
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &now_, sizeof now_);
    }
    close(fd);
}

static void hang_ups(const child *s)
{
    const int rounds = getenv("WEFT_TEST_LONG") ? 2000 : SANITIZED ? 20 : 100;
    double worst = 0;
    for (int m = 0; m < N_MOMENT; m++) {
        for (int i = 0; i < rounds; i++)
            hang_up(s, (moment)m, i);
        const double begin = now();
        const bool clean = is_clean(s, 20);
        worst = now() - begin > worst ? now() - begin : worst;
        check(clean, "serve: clients that hang up leave nothing",
              "moment %d: %g running, %g waiting", m, metric(s, "vllm:num_requests_running"),
              metric(s, "vllm:num_requests_waiting"));
    }
    printf("%d clients hung up; clean after %.3f s at most\n", rounds * N_MOMENT, worst);
}

/* A request that waits is dropped when its client hangs up, not when its turn comes. */
static void gone_while_waiting(const child *s)
{
    const int first = begin_ask(s, COMPLETE, long_body(30, true));
    take_until(first, "data: ", 10);
    const int second = begin_ask(s, COMPLETE, long_body(30, false));
    metric_becomes(s, "weft_requests", 2, 5);
    close(second);
    check(metric_becomes(s, "weft_requests", 1, 5) && !take_until(first, "[DONE]", 0.05),
          "serve: a request that waits is dropped with its client", "%g requests",
          metric(s, "weft_requests"));
    close(first);
    is_clean(s, 20);
}

/* One that stays gets its whole text while others come and go. */
static void *come_and_go(void *ud)
{
    for (int i = 0; i < 30; i++)
        hang_up(ud, (moment)(i % N_MOMENT), i);
    return NULL;
}

static void one_stays(child *s)
{
    static const char body[] =
        "{\"prompt\":\"First Citizen:\",\"max_tokens\":200,\"temperature\":0.9,"
        "\"seed\":3,\"ignore_eos\":true,\"stream\":true}";
    pthread_t other;
    char *answer = ask(s, COMPLETE, "", body), *text = text_of(answer);
    free(answer);
    int n_same = 0;
    must(pthread_create(&other, NULL, come_and_go, s) == 0, "serve: a thread", NULL);
    for (int i = 0; i < 10; i++) {
        answer = ask(s, COMPLETE, "", body);
        char *again = text_of(answer);
        n_same += strcmp(again, text) == 0;
        free(again);
        free(answer);
    }
    pthread_join(other, NULL);
    check(n_same == 10 && strlen(text) > 200, "serve: hang-ups of others do not change a text",
          "%d of 10 are the same", n_same);
    free(text);
    check(is_clean(s, 20), "serve: afterwards nothing is left", "%g running",
          metric(s, "vllm:num_requests_running"));
}

/* ---- slow clients ------------------------------------------------------------------------------ */

/* Sends a byte every tenth of a second, or nothing; returns the seconds until the server closes. */
static double until_closed(const child *s, const char *first, const char *bytes, double limit)
{
    const int fd = dial(s);
    const double begin = now();
    bool closed = false;
    put(fd, first, strlen(first));
    while (!closed && now() - begin < limit) {
        char c;
        if (*bytes && !put(fd, bytes++, 1))
            break;
        pause_for(0.1);
        closed = recv(fd, &c, 1, MSG_DONTWAIT) == 0;
    }
    close(fd);
    return now() - begin;
}

/* Asks for an answer of some megabytes, and reads nothing of it. */
static int big_answer(const child *s)
{
    static char body[65536];
    char *to = body + sprintf(body, "{\"max_tokens\":0,\"echo\":true,\"logprobs\":5,\"prompt\":[");
    for (int i = 0; i < 200; i++) {
        to += sprintf(to, "%s\"", i ? "," : "");
        for (int k = 0; k < 60; k++)
            to += sprintf(to, "%c ", 'a' + (i + k) % 26);
        *to++ = '"';
    }
    strcpy(to, "]}");
    const int fd = dial(s), small = 4096;
    char head[512];
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    put(fd, head,
        (size_t)snprintf(head, sizeof head,
                         "POST " COMPLETE " HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                         "application/json\r\nContent-Length: %zu\r\n\r\n",
                         strlen(body)));
    put(fd, body, strlen(body));
    return fd;
}

static void slow_clients(void)
{
    const char *const args[] = { model, "--header-seconds", "1", "--idle-seconds",
                                 "1",   "--stall-seconds",  "1", NULL };
    child s = server_start(weft, args);
    static const char crawl[] =
        "GET /health HTTP/1.1\r\nHost: localhost\r\nX: aaaaaaaaaaaaaaaaaaaaaaaaaa"
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    double t = until_closed(&s, "", crawl, 5);
    check(t > 0.8 && t < 3, "serve: a head that crawls is cut off in total time", "%g s", t);
    t = until_closed(&s, "", "", 5);
    check(t > 0.8 && t < 3, "serve: a connection without a request is closed", "%g s", t);
    t = until_closed(&s,
                     "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                     "application/json\r\nContent-Length: 1000\r\n\r\n{",
                     "", 16);
    check(t > 8 && t < 14, "serve: a body below 1 KiB/s is cut off", "%g s", t);
    const int fd = big_answer(&s);
    const double begin = now();
    const bool dropped = metric_becomes(&s, "weft_http_dropped_total", 4, SANITIZED ? 60 : 15);
    t = now() - begin;
    check(dropped && t > 0.5, "serve: a client that takes nothing of its answer is cut off",
          "%d after %g s", dropped, t);
    close(fd);
    check(metric(&s, "weft_http_dropped_total") == 4, "serve: and counted", "%g",
          metric(&s, "weft_http_dropped_total"));
    check(server_stop(&s, SIGTERM, 20) == 0, "serve: slow clients: it ends well", "it does not");
}

/* A client that is lost without a word: its host is switched off, or a cable is cut. A socket in
 * repair mode closes like that; it takes a privilege. */
static bool vanish(int fd)
{
    const int on = 1;
    const bool can = setsockopt(fd, IPPROTO_TCP, TCP_REPAIR, &on, sizeof on) == 0;
    close(fd);
    return can;
}

/* The connections are half open: only the deadlines end them, those of slow bodies last. */
static void vanished_clients(void)
{
    static const char *const parts[] = {
        "",
        "GET /health HT",
        ("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
         "application/json\r\nContent-Length: 1000\r\n\r\n{"),
    };
    const char *const args[] = { model, "--header-seconds", "1", "--idle-seconds",
                                 "1",   "--stall-seconds",  "1", NULL };
    enum { N = 60 };
    child s = server_start(weft, args);
    bool can = true;
    for (int i = 0; i < N && can; i++) {
        const bool asks = i % 4 == 3;
        const int fd = asks ? begin_ask(&s, COMPLETE, long_body(2, true)) : dial(&s);
        if (asks)
            take_until(fd, "data: ", 10);
        else
            put(fd, parts[i % 4], strlen(parts[i % 4]));
        can = vanish(fd);
    }
    if (can)
        check(metric_falls(&s, "weft_http_connections", 1 + N / 4, 6) &&
                  metric_becomes(&s, "weft_http_connections", 1, 12) && is_clean(&s, 1),
              "serve: clients that vanish leave nothing", "%g connections",
              metric(&s, "weft_http_connections"));
    else
        skip("serve: clients that vanish leave nothing", "no privilege for TCP_REPAIR");
    check(server_stop(&s, SIGTERM, 20) == 0, "serve: after them it ends well", "it does not");
}

/* Many slow heads at once do not harm a good client. */
static void slow_loris(const child *s)
{
    enum { N = 500 };
    static int fd[N];
    for (int i = 0; i < N; i++) {
        fd[i] = dial(s);
        put(fd[i], "GET /health HT", 14);
    }
    const double begin = now();
    char *answer = ask(s, COMPLETE, "", "{\"prompt\":\"ROMEO:\",\"max_tokens\":8}");
    const double t = now() - begin;
    check(status_of(answer) == 200 && t < 5, "serve: 500 slow heads do not harm a good client",
          "%d after %g s", status_of(answer), t);
    free(answer);
    for (int i = 0; i < N; i++)
        close(fd[i]);
    check(is_clean(s, 20), "serve: and leave nothing", "%g connections",
          metric(s, "weft_http_connections"));
}

/* A stream that nobody reads ends by itself: the server holds at most a part of it. */
static void stalled_reader(const child *s)
{
    const size_t before = resident(s->pid);
    const double n_before = metric(s, "vllm:generation_tokens_total");
    const int fd = dial(s), small = 4096;
    char head[512], body[8192]; /* log-probabilities fill the buffers sooner */
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    snprintf(body, sizeof body, "{\"logprobs\":5,%s", long_body(30, true) + 1);
    put(fd, head,
        (size_t)snprintf(head, sizeof head,
                         "POST " COMPLETE " HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                         "application/json\r\nContent-Length: %zu\r\n\r\n",
                         strlen(body)));
    put(fd, body, strlen(body));
    metric_becomes(s, "weft_requests", 1, 10);
    const bool ended = metric_becomes(s, "weft_requests", 0, 120);
    const double made = metric(s, "vllm:generation_tokens_total") - n_before;
    check(ended && made > 0 && made < 0.9 * 30 * 8 * LONG_TOKENS,
          "serve: a stream that nobody reads is cancelled", "%g tokens were generated", made);
    const size_t more = resident(s->pid) > before ? resident(s->pid) - before : 0;
    check(SANITIZED || more < (size_t)32 << 20, "serve: and takes little memory", "%zu bytes more",
          more);
    close(fd);
    check(is_clean(s, 20), "serve: and leaves nothing", "%g", metric(s, "weft_http_connections"));
}

/* ---- floods ------------------------------------------------------------------------------------ */

/* A length above the limit is refused before a byte of the body is read. */
static void large_body(const child *s)
{
    bool closed;
    const char head[] = "POST " COMPLETE " HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                        "application/json\r\nContent-Length: 67108864\r\n\r\n";
    const int fd = dial(s);
    put(fd, head, sizeof head - 1);
    char *answer = take_all(fd, 10, &closed);
    check(status_of(answer) == 413 && strstr(answer, "67108864"),
          "serve: a body of 64 MiB is refused by its length", "%s", answer);
    free(answer);
    close(fd);
}

/* A body without an end, in chunks. */
static void endless_body(const child *s)
{
    static char chunk[65536 + 16];
    bool closed = false;
    size_t sent = 0;
    const int fd = dial(s);
    const char head[] = "POST " COMPLETE " HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                        "application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    const size_t before = resident(s->pid);
    memset(chunk, 'a', sizeof chunk);
    memcpy(chunk, "10000\r\n", 7);
    memcpy(chunk + 7 + 65536, "\r\n", 2);
    put(fd, head, sizeof head - 1);
    while (!closed && sent < (size_t)64 << 20) {
        closed = !put(fd, chunk, 7 + 65536 + 2);
        sent += 65536;
    }
    close(fd);
    const size_t after = resident(s->pid);
    check(closed && sent < (size_t)16 << 20, "serve: a body without end is cut off",
          "%zu bytes were taken", sent);
    check(SANITIZED || after < before + ((size_t)24 << 20), "serve: and takes little memory",
          "%zu bytes before, %zu after", before, after);
}

/* Header fields without an end. */
static void endless_head(const child *s)
{
    bool closed = false;
    size_t sent = 0;
    const int fd = dial(s);
    put(fd, "GET /health HTTP/1.1\r\nHost: localhost\r\n", 39);
    while (!closed && sent < (size_t)8 << 20) {
        char line[64];
        const int n = snprintf(line, sizeof line, "X-%zu: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n",
                               sent);
        closed = !put(fd, line, (size_t)n);
        sent += (size_t)n;
    }
    close(fd);
    check(closed, "serve: a head without end is cut off", "%zu bytes were taken", sent);
    char many[8192], *to = many + sprintf(many, "GET /health HTTP/1.1\r\nHost: localhost\r\n");
    for (int i = 0; i < 64; i++)
        to += sprintf(to, "X-%d: a\r\n", i);
    strcpy(to, "\r\n");
    const int other = dial(s);
    put(other, many, strlen(many));
    char *answer = take_all(other, 10, &closed);
    check(status_of(answer) == 431, "serve: more than 64 header fields are refused", "%s", answer);
    free(answer);
    close(other);
}

/* ---- a full queue ------------------------------------------------------------------------------ */

static void full_queue(const child *s)
{
    enum { N = 12 };
    int fd[N], n_full = 0, n_good = 0;
    for (int i = 0; i < N; i++)
        fd[i] = begin_ask(s, COMPLETE, body_of_texts(1, WHOLE_TOKENS, false));
    for (int i = 0; i < N; i++) {
        bool closed;
        char *answer = take_all(fd[i], 60, &closed);
        n_good += status_of(answer) == 200;
        n_full += status_of(answer) == 503 && strstr(answer, "\r\nRetry-After: ") &&
                  strstr(answer, "queue_full");
        free(answer);
        close(fd[i]);
    }
    check(n_good + n_full == N && n_good >= 3 && n_full >= 1,
          "serve: a full queue is 503 with Retry-After, and others end well",
          "%d good, %d full of %d", n_good, n_full, N);
}

/* Streams of the first model fill its queue; the other model has one of its own. */
static void own_queue(void)
{
    enum { N = 12 };
    char other[512], body[8192];
    const char *const args[] = { model, "--parallel", "1",       "--queue", "4",
                                 "-m",  other,        "--drain", "0",       NULL };
    int fd[N], n_full = 0;
    snprintf(other, sizeof other, "other=%s", model);
    child s = server_start(weft, args);
    for (int i = 0; i < N; i++)
        fd[i] = begin_ask(&s, COMPLETE, long_body(8, true));
    snprintf(body, sizeof body, "{\"model\":\"other\",\"prompt\":\"ROMEO:\",\"max_tokens\":4}");
    pause_for(0.2);
    char *answer = ask(&s, COMPLETE, "", body);
    check(status_of(answer) == 200, "serve: a full queue of one model leaves another's alone", "%s",
          answer);
    free(answer);
    for (int i = 0; i < N; i++) {
        n_full += take_until(fd[i], "waiting; try again later", 0.1);
        close(fd[i]);
    }
    check(n_full == N - 5, "serve: requests that a model has no room for are refused", "%d of %d",
          n_full, N - 5);
    check(is_clean(&s, 20), "serve: and leave its queue empty", "%g", metric(&s, "weft_requests"));
    for (int i = 0; i < 6; i++) {
        answer = ask(&s, COMPLETE, "", "{\"prompt\":\"ROMEO:\",\"max_tokens\":4}");
        n_full += status_of(answer) == 200;
        free(answer);
    }
    check(n_full == N - 5 + 6, "serve: then there is room again", "%d", n_full - N + 5);
    check(server_stop(&s, SIGTERM, 20) == 0, "serve: two queues end well", "they do not");
}

/* Heads that come while there is room, and bodies afterwards. */
static void late_bodies(const child *s)
{
    enum { N = 60 };
    int fd[N], n_good = 0, n_full = 0;
    const char *body = body_of_texts(1, WHOLE_TOKENS, false);
    for (int i = 0; i < N; i++) {
        char head[512];
        fd[i] = dial(s);
        put(fd[i], head,
            (size_t)snprintf(head, sizeof head,
                             "POST " COMPLETE " HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                             "application/json\r\nContent-Length: %zu\r\n\r\n",
                             strlen(body)));
    }
    pause_for(0.2);
    for (int i = 0; i < N; i++)
        put(fd[i], body, strlen(body));
    for (int i = 0; i < N; i++) {
        bool closed;
        char *answer = take_all(fd[i], 120, &closed);
        n_good += status_of(answer) == 200;
        n_full += status_of(answer) == 503 && strstr(answer, "queue_full");
        free(answer);
        close(fd[i]);
    }
    check(n_good + n_full == N && n_good >= 5 && n_full >= 1,
          "serve: room is counted again when the body is there", "%d good, %d full of %d", n_good,
          n_full, N);
}

/* ---- stopping ---------------------------------------------------------------------------------- */

/* Two requests of many texts alternate; one of them that is silent when the server looks at its
 * deadlines, four times a second, gets a comment. A fast machine may end both between two looks. */
static void comment_while_waiting(const child *s)
{
    bool came = false;
    for (int i = 0; i < 8 && !came; i++) {
        const int first = begin_ask(s, COMPLETE, long_body(30, false));
        const int second = begin_ask(s, COMPLETE, long_body(30, true));
        came = take_until(second, ": waiting\n\n", 30);
        close(first);
        close(second);
        is_clean(s, 20);
    }
    check(came, "serve: a silent stream gets comments", "none came");
}

/* The listening socket is closed while streams still run. */
static bool lets_nobody_in(const child *s, double seconds)
{
    for (const double end = now() + seconds; now() < end; pause_for(0.01)) {
        const int fd = dial(s);
        if (fd < 0)
            return true;
        close(fd);
    }
    return false;
}

/* Streams that end in time are whole. */
static void drain(void)
{
    const char *const args[] = { model, "--drain", "60", "--parallel", "4", NULL };
    child s = server_start(weft, args);
    int fd[3], n_whole = 0;
    for (int i = 0; i < 3; i++) {
        fd[i] = begin_ask(&s, COMPLETE, body_of_texts(2, WHOLE_TOKENS, true));
        take_until(fd[i], "data: ", 20);
    }
    kill(s.pid, SIGTERM);
    const bool shut = lets_nobody_in(&s, 5);
    for (int i = 0; i < 3; i++) {
        n_whole += take_until(fd[i], "data: [DONE]", 60);
        close(fd[i]);
    }
    const int code = server_stop(&s, 0, 30);
    check(n_whole == 3, "serve: after SIGTERM streams end whole", "%d of 3", n_whole);
    check(shut, "serve: after SIGTERM nobody is let in", "a connection was accepted");
    check(code == 0, "serve: after SIGTERM it ends with 0", "%d", code);
}

/* A request that takes too long gets an error, and gives back what it had. */
static void too_long(void)
{
    const char *const args[] = { model, "--request-seconds", "0.2", "--parallel", "1", NULL };
    child s = server_start(weft, args);
    bool closed;
    int fd = begin_ask(&s, COMPLETE, long_body(30, true));
    check(take_until(fd, "data: {\"error\":{\"message\":\"not done after 0.2 seconds", 30),
          "serve: a stream that takes too long ends with an error", "it does not");
    close(fd);
    fd = begin_ask(&s, COMPLETE, long_body(30, false));
    char *answer = take_all(fd, 30, &closed);
    check(status_of(answer) == 504, "serve: a request that takes too long is 504", "%s", answer);
    free(answer);
    close(fd);
    check(is_clean(&s, 20), "serve: and leaves nothing", "%g", metric(&s, "weft_requests"));
    check(server_stop(&s, SIGTERM, 20) == 0, "serve: after it, it ends well", "it does not");
}

/* Streams that do not end in time get an error as their last event. */
static void no_drain(void)
{
    const char *const args[] = { model, "--drain", "0", "--parallel", "1", NULL };
    child s = server_start(weft, args);
    const int fd = begin_ask(&s, COMPLETE, long_body(30, true));
    take_until(fd, "data: ", 20);
    kill(s.pid, SIGTERM);
    check(take_until(fd, "data: {\"error\":{\"message\":\"the server was stopped\"", 20),
          "serve: a stream that is cut off says so", "it does not");
    close(fd);
    const double begin = now();
    const int code = server_stop(&s, 0, 20);
    check(code == 0 && now() - begin < 5, "serve: without time to drain it ends at once",
          "%d after %g s", code, now() - begin);
}

/* ---- without memory --------------------------------------------------------------------------- */

/* {"prompt": "a b a b ..."} and similar, of about n bytes. */
static char *body_of_bytes(const char *head, const char *repeated, const char *tail, size_t n)
{
    char *body = malloc(n + 512), *to = body;
    must(body, "memory", NULL);
    to += sprintf(to, "%s", head);
    while ((size_t)(to - body) < n)
        to += sprintf(to, "%s", repeated);
    strcpy(to, tail);
    return body;
}

/* An answer, or an error that is the request's fault, or that there was no memory. */
static bool is_sound(const char *answer)
{
    const int status = status_of(answer);
    return status == 200 || status == 400 ||
           (status == 503 && strstr(answer, "\"code\":\"no_memory\""));
}

/* A connection itself takes memory: one that finds none is closed, and the next one finds some. */
static char *ask_again(const child *s, const char *path, const char *body)
{
    char *answer = ask(s, path, "", body);
    for (int i = 0; i < 5 && status_of(answer) == 0; i++) {
        free(answer);
        pause_for(0.1);
        answer = ask(s, path, "", body);
    }
    return answer;
}

/* Bodies of all sizes under a small cap: memory is refused now here, now there. */
static void without_memory(void)
{
    static const char *const kinds[][4] = {
        { "/tokenize", "{\"prompt\":\"", "a b ", "\"}" },
        { "/v1/chat/completions",
          "{\"max_tokens\":3,\"messages\":[{\"role\":\"user\",\"content\":\"", "a b ", "\"}]}" },
        { "/detokenize", "{\"tokens\":[7", ",300", "]}" },
        { "/v1/embeddings", "{\"input\":[[5]", ",[7,8,9]", "]}" },
        { "/v1/embeddings", "{\"encoding_format\":\"base64\",\"input\":[\"a\"", ",\"b\"", "]}" },
        { COMPLETE, "{\"echo\":true,\"logprobs\":5,\"max_tokens\":0,\"prompt\":[[5]", ",[7,8,9]",
          "]}" },
        { COMPLETE, "{\"max_tokens\":3,\"stream\":true,\"n\":8,\"prompt\":\"", "a b ", "\"}" },
    };
    const char *const args[] = { model, "--template", template, "--ram-max", "5M", "--cache-tokens",
                                 "256", "--parallel", "1",      "-b",        "16", "--no-log",
                                 NULL };
    child s = server_start(weft, args);
    int n_refused = 0, n_wrong = 0;
    char first[400] = "";
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        for (size_t n = 64; n < (size_t)4 << 20; n += n / 6) {
            char *body = body_of_bytes(kinds[i][1], kinds[i][2], kinds[i][3], n);
            char *answer = ask_again(&s, kinds[i][0], body);
            n_refused += status_of(answer) == 503;
            if (!is_sound(answer) && n_wrong++ == 0)
                snprintf(first, sizeof first, "%s, %zu bytes: %.300s", kinds[i][0], n, answer);
            free(body);
            free(answer);
        }
    }
    check(n_wrong == 0 && n_refused > 50, "serve: without memory, errors say so",
          "%d refused, %d wrong: %s", n_refused, n_wrong, first);
    char *answer = ask(&s, "/tokenize", "", "{\"prompt\":\"a\"}");
    check(status_of(answer) == 200 && is_clean(&s, 5), "serve: and the next request is answered",
          "%.200s", answer);
    free(answer);
    check(server_stop(&s, SIGTERM, 10) == 0, "serve: a server without memory ends well",
          "it does not");
}

/* Killed and started again at once. */
static void killed(void)
{
    const char *const args[] = { model, NULL };
    child s = server_start(weft, args);
    const int fd = begin_ask(&s, COMPLETE, long_body(8, true));
    take_until(fd, "data: ", 20);
    check(server_stop(&s, SIGKILL, 20) == 128 + SIGKILL, "serve: it is killed", "it is not");
    close(fd);
    s = server_start(weft, args);
    check(server_stop(&s, SIGINT, 20) == 0, "serve: Ctrl-C ends it with 0", "it does not");
}

int main(int argc, char **argv)
{
    must(argc >= 4, "serve_faults WEFT MODEL TEMPLATE", NULL);
    weft = argv[1];
    model = argv[2];
    template = argv[3];
    const char *const args[] = { model,   "--parallel", "1", "--queue",   "4",    "--ping-seconds",
                                 "0.001", "--threads",  "1", "--ram-max", MEMORY, NULL };
    child s = server_start(weft, args);
    pause_for(0.1); /* until connections of the start are closed */
    const int before = n_descriptor(s.pid);
    hang_ups(&s);
    gone_while_waiting(&s);
    one_stays(&s);
    slow_loris(&s);
    large_body(&s);
    endless_body(&s);
    endless_head(&s);
    full_queue(&s);
    comment_while_waiting(&s);
    late_bodies(&s);
    if (!THREAD_SANITIZED) /* too slow to fill the buffers */
        stalled_reader(&s);
    check(descriptors_become(&s, before, 5), "serve: no descriptor is left", "%d, %d before",
          n_descriptor(s.pid), before);
    const size_t most = peak(s.pid);
    printf("at most %zu KiB resident of --ram-max " MEMORY "\n", most >> 10);
    check(SANITIZED || (most > 0 && most < (size_t)64 << 20), "serve: memory stays below the limit",
          "%zu bytes", most);
    check(server_stop(&s, SIGTERM, 30) == 0, "serve: after all of it, it ends well", "it does not");
    without_memory();
    slow_clients();
    vanished_clients();
    own_queue();
    too_long();
    drain();
    no_drain();
    killed();
    return n_failed > 0;
}
