/* serve_fuzz.c - raw bytes at weft serve: whole requests, changed at random, on sockets. No answer
 * may be outside of the statuses that docs/SERVE.md lists, a good request in between is always
 * answered, and afterwards nothing is left.
 *
 * serve_fuzz WEFT MODEL TEMPLATE [N [SEED]]: N inputs (20000). */
#include "serve_client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#define JSON_HEAD "Host: localhost\r\nContent-Type: application/json\r\n"

static const char *const seeds[] = {
    "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAuthorization: Bearer key-of-alice\r\n\r\n",
    "GET /v1/models/shakespeare?x=%41&y HTTP/1.1\r\nHost: [::1]\r\nx-request-id: a-1_2.z\r\n\r\n",
    "HEAD /ready HTTP/1.0\r\n\r\n",
    "OPTIONS /v1/completions HTTP/1.1\r\nHost: localhost\r\nOrigin: https://a.example\r\n"
    "Access-Control-Request-Method: POST\r\n\r\n",
    "POST /v1/completions HTTP/1.1\r\n" JSON_HEAD
    "Content-Length: 33\r\n\r\n{\"prompt\":\"ROMEO\",\"max_tokens\":1}",
    "POST /v1/completions HTTP/1.1\r\n" JSON_HEAD "Content-Length: 47\r\n\r\n"
    "{\"prompt\":[[1,2]],\"max_tokens\":2,\"stream\":true}",
    "POST /v1/chat/completions HTTP/1.1\r\n" JSON_HEAD "Content-Length: 66\r\n\r\n"
    "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"max_tokens\":1,\"n\":2}",
    "POST /v1/embeddings HTTP/1.1\r\n" JSON_HEAD "Content-Length: 43\r\n\r\n"
    "{\"input\":\"Thou\",\"encoding_format\":\"base64\"}",
    "POST /v1/rerank HTTP/1.1\r\n" JSON_HEAD "Content-Length: 47\r\n\r\n"
    "{\"query\":\"my lord\",\"documents\":[\"a\",\"no more\"]}",
    "POST /v1/score HTTP/1.1\r\n" JSON_HEAD "Content-Length: 35\r\n\r\n"
    "{\"text_1\":[\"a\",\"b\"],\"text_2\":\"c d\"}",
    "POST /v1/fill-mask HTTP/1.1\r\n" JSON_HEAD "Content-Length: 18\r\n\r\n"
    "{\"input\":\"[MASK]\"}",
    "POST /tokenize HTTP/1.1\r\n" JSON_HEAD "Transfer-Encoding: chunked\r\n\r\n"
    "8\r\n{\"prompt\r\n9;a=b\r\n\":\"\xc3\xa4\\u00e4\r\n2\r\n\"}\r\n0\r\nX: y\r\n\r\n",
    "POST /detokenize HTTP/1.1\r\n" JSON_HEAD "Expect: 100-continue\r\nContent-Length: 16\r\n\r\n"
    "{\"tokens\":[1,2]}GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    "POST /apply-template HTTP/1.1\r\n" JSON_HEAD
    "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\nContent-Length: 45\r\n"
    "\r\n{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}",
};

static const char *const words[] = {
    "\r\n",
    "\r\n\r\n",
    "\n",
    "\0",
    " ",
    "\t",
    ":",
    "Content-Length: 0\r\n",
    "Content-Length: -1\r\n",
    "Content-Length: 18446744073709551616\r\n",
    "Content-Length: 67108864\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: gzip, chunked\r\n",
    "Host: localhost\r\n",
    "Connection: close\r\n",
    "Connection: Upgrade\r\nUpgrade: h2c\r\n",
    "Expect: 100-continue\r\n",
    "Content-Encoding: gzip\r\n",
    "Authorization: Bearer \r\n",
    "ffffffffffffffff\r\n",
    "0\r\n\r\n",
    "HTTP/1.0",
    "HTTP/2.0",
    "/../",
    "%00",
    "%",
    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
    "\xff\xfe",
    "\xed\xa0\x80",
    "\\ud800",
    "1e999",
    "null",
    "{}",
};

#define COUNT(list) (sizeof(list) / sizeof *(list))
#define MAX_BYTES   ((size_t)4096)
#define N_SOCKET    64
#define PATIENCE    (SANITIZED ? 0.2 : 0.02) /* seconds for an answer */

static uint64_t state;

static size_t below(size_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return n ? (size_t)(state >> 33) % n : 0;
}

typedef struct raw {
    char at[MAX_BYTES];
    size_t n;
} raw;

/* Puts `add` bytes at `where` in place of `cut` ones. */
static void change(raw *r, size_t where, size_t cut, const char *with, size_t add)
{
    if (r->n - cut + add > MAX_BYTES)
        return;
    memmove(r->at + where + add, r->at + where + cut, r->n - where - cut);
    memcpy(r->at + where, with, add);
    r->n = r->n - cut + add;
}

static void mutate(raw *r)
{
    char part[256];
    const size_t where = below(r->n + 1), rest = r->n - where;
    const size_t some = below((rest < sizeof part ? rest : sizeof part) + 1);
    const char *word = words[below(COUNT(words))];
    switch (below(8)) {
    case 0: /* a bit */
        if (rest)
            r->at[where] = (char)(r->at[where] ^ (1 << below(8)));
        break;
    case 1: /* a byte */
        if (rest)
            r->at[where] = (char)below(256);
        break;
    case 2: /* a piece is lost */
        change(r, where, below(4) ? some % 8 : some, "", 0);
        break;
    case 3: /* doubled */
        memcpy(part, r->at + where, some);
        change(r, where, 0, part, some);
        break;
    case 4: /* the rest is lost */
        if (below(4) == 0)
            r->n = where;
        break;
    case 5: { /* the end of another request */
        const char *other = seeds[below(COUNT(seeds))];
        const size_t from = below(strlen(other));
        if (below(4) == 0)
            change(r, where, rest, other + from, strlen(other) - from);
        break;
    }
    default:
        change(r, where, below(2) ? some % 8 : 0, word, *word ? strlen(word) : 1);
        break;
    }
}

static void make(raw *r)
{
    const char *seed = seeds[below(COUNT(seeds))];
    r->n = strlen(seed);
    memcpy(r->at, seed, r->n);
    for (size_t n = below(6); n > 0; n--)
        mutate(r);
}

/* ---- sockets ------------------------------------------------------------------------------------ */

typedef struct slot {
    int fd;
    double until;
    raw sent;
    char answer[32]; /* its beginning */
    size_t n_answer;
} slot;

static slot slots[N_SOCKET];
static int64_t n_status[600], n_silent;

static void begin(const child *s, slot *t)
{
    make(&t->sent);
    t->fd = dial(s);
    must(t->fd >= 0, "serve: a connection is accepted", NULL);
    fcntl(t->fd, F_SETFL, O_NONBLOCK);
    put(t->fd, t->sent.at, t->sent.n); /* below what a socket buffers */
    if (below(4) == 0)
        shutdown(t->fd, SHUT_WR);
    t->until = now() + PATIENCE;
    t->n_answer = 0;
}

/* The input is over: its answer is looked at, and the connection reset, as it need not be complete. */
static void end(slot *t)
{
    const struct linger at_once = { 1, 0 };
    int status = 0;
    t->answer[t->n_answer] = '\0';
    const bool begun = t->n_answer >= 12;
    if (begun)
        status = sscanf(t->answer, "HTTP/1.%*1[01] %3d ", &status) == 1 ? status : -1;
    n_silent += !begun;
    if (begun && status > 0)
        n_status[status % 600]++;
    static const int known[] = { 100, 200, 204, 400, 401, 403, 404, 405, 408, 411,
                                 413, 414, 415, 417, 429, 431, 501, 503, 505 };
    bool good = !begun;
    for (size_t i = 0; i < COUNT(known); i++)
        good |= status == known[i];
    if (!good)
        check(false, "serve: every answer has a status that is documented", "%s to %.*s", t->answer,
              (int)t->sent.n, t->sent.at);
    setsockopt(t->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(t->fd);
    t->fd = -1;
}

/* False once the server has closed, or its answer has begun and nothing more comes for a while. */
static bool goes_on(slot *t)
{
    char more[4096];
    ssize_t n;
    while ((n = recv(t->fd, more, sizeof more, 0)) > 0) {
        const size_t room = sizeof t->answer - 1 - t->n_answer;
        const size_t take = (size_t)n < room ? (size_t)n : room;
        memcpy(t->answer + t->n_answer, more, take);
        t->n_answer += take;
    }
    return n < 0 && errno == EAGAIN && now() < t->until;
}

static bool is_well(const child *s)
{
    char *answer = ask(s, "/v1/completions", "", "{\"prompt\":\"ROMEO:\",\"max_tokens\":1}");
    const bool good = status_of(answer) == 200;
    if (!good)
        printf("%s\n", answer);
    free(answer);
    return good;
}

static void run(const child *s, int64_t n)
{
    struct pollfd wait[N_SOCKET];
    int64_t begun = 0, ended = 0;
    while (ended < n && n_failed == 0) {
        for (int i = 0; i < N_SOCKET; i++) {
            if (slots[i].fd < 0 && begun < n) {
                begin(s, &slots[i]);
                begun++;
                if (begun % 10000 == 0)
                    check(is_well(s), "serve: between hostile requests a good one is answered",
                          "after %lld inputs", (long long)begun);
            }
            wait[i] = (struct pollfd){ .fd = slots[i].fd, .events = POLLIN };
        }
        poll(wait, N_SOCKET, 2);
        for (int i = 0; i < N_SOCKET; i++)
            if (slots[i].fd >= 0 && !goes_on(&slots[i])) {
                end(&slots[i]);
                ended++;
            }
    }
}

int main(int argc, char **argv)
{
    must(argc >= 4, "serve_fuzz WEFT MODEL TEMPLATE [N [SEED]]", NULL);
    const int64_t n = argc > 4 ? atoll(argv[4]) : SANITIZED ? 5000 : 20000;
    state = argc > 5 ? (uint64_t)atoll(argv[5]) : 1;
    const char *const args[] = { argv[2],   "--template", argv[3],    "--parallel", "8",
                                 "--queue", "256",        "--no-log", NULL };
    child s = server_start(argv[1], args);
    must(is_well(&s), "serve: a request is answered", NULL);
    pause_for(0.1);
    const int before = n_descriptor(s.pid);
    for (int i = 0; i < N_SOCKET; i++)
        slots[i].fd = -1;
    run(&s, n);
    for (int i = 0; i < 600; i++)
        if (n_status[i] > 0)
            printf("%3d: %lld\n", i, (long long)n_status[i]);
    printf("no answer within %g ms: %lld of %lld; %zu KiB resident\n", PATIENCE * 1e3,
           (long long)n_silent, (long long)n, resident(s.pid) >> 10);
    const int64_t n_answered = n - n_silent; /* the fewer, the busier the machine */
    check(n_answered > n / 5 && n_status[200] > n_answered / 50 && n_status[400] > n_answered / 20,
          "serve: many inputs are good, and many are not", "see above");
    check(metric_becomes(&s, "weft_requests", 0, 20) &&
              metric_becomes(&s, "vllm:kv_cache_usage_perc", 0, 5) &&
              metric_becomes(&s, "weft_http_connections", 1, 30),
          "serve: hostile requests leave nothing", "%g requests, %g connections",
          metric(&s, "weft_requests"), metric(&s, "weft_http_connections"));
    check(descriptors_become(&s, before, 5), "serve: no descriptor is left", "%d, %d before",
          n_descriptor(s.pid), before);
    check(server_stop(&s, SIGTERM, 30) == 0, "serve: after them it ends well", "it does not");
    return n_failed > 0;
}
