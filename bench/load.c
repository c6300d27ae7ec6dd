/* load - requests to a server with OpenAI's API, and how long their tokens take.
 *
 *     build/bench/load 127.0.0.1:8080 --streams 32 --requests 128 [--prompts 64:3,1024:1] [--json]
 *     build/bench/load 127.0.0.1:8080 --streams 32 --seconds 60 --rate 0.5 --arriving 4096
 *     build/bench/load 127.0.0.1:8080 --trace FILE
 *
 * Closed loop: `--streams` clients, each of which asks again as soon as it was answered. Open loop:
 * requests arrive at `--rate` a second, as a Poisson process, whatever the server does. Both may run at
 * the same time and are reported apart. Prompts are random ids, so that tokens are counted exactly, and
 * nothing but `--shared` leading ids is the same in two of them. All answers have `--generate` tokens.
 *
 * A trace (build/bench/trace, cli/load_file.h) says which request arrives when, and nothing else is sent;
 * build/bench/simulate takes the same files. A request counts from the time of its line, even if it was
 * sent late. One that the server refuses (429, 503) is counted apart.
 *
 * It speaks to any server that takes ids as a prompt: weft serve, llama-server, vLLM. */
#include "args.h"
#include "bench.h"
#include "load_file.h"
#include "load_report.h"
#include "load_stream.h"

#include "base/rng.h"

#include <errno.h>
#include <math.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#define MAX_STREAM 4096
#define MAX_MIX    8
#define MAX_KEY    16

static const char *address, *model, *prompts = "64", *arriving = "64", *key_list, *trace_path;
static int64_t n_stream = 1, n_request, n_generate = 64, n_shared, n_vocab = 30000, seed = 1;
static double seconds, rate;
static bool json;

static const arg args[] = {
    { "streams", ARG_INT, &n_stream, "N", "clients of the closed loop (1)", 0, MAX_STREAM / 2 },
    { "requests", ARG_INT, &n_request, "N", "requests of the closed loop (4 for each client)", 1,
      1 << 24 },
    { "seconds", ARG_REAL, &seconds, "S", "stop then, instead of after --requests", 0, 0 },
    { "prompts", ARG_TEXT, &prompts, "MIX", "tokens of prompts, with weights: 64:3,1024:1 (64)", 0,
      0 },
    { "generate", ARG_INT, &n_generate, "N", "tokens of an answer (64)", 1, 65536 },
    { "shared", ARG_INT, &n_shared, "N", "leading ids that all prompts share (0)", 0, 65536 },
    { "rate", ARG_REAL, &rate, "R", "requests a second that arrive besides (0)", 0, 0 },
    { "arriving", ARG_TEXT, &arriving, "MIX", "tokens of their prompts (64)", 0, 0 },
    { "keys", ARG_TEXT, &key_list, "KEYS",
      "API keys of the clients, with weights: secret-a:8,secret-b:8 (none)", 0, 0 },
    { "trace", ARG_TEXT, &trace_path, "FILE", "requests that arrive, instead of all others", 0, 0 },
    { "model", ARG_TEXT, &model, "NAME", "name of the model in requests (none)", 0, 0 },
    { "vocab", ARG_INT, &n_vocab, "N", "ids are below this (30000)", 200, 1 << 24 },
    { "seed", ARG_INT, &seed, "N", "of prompts and arrivals (1)", 0, 0 },
    { "json", ARG_FLAG, &json, NULL, "one JSON object a line", 0, 0 },
    { 0 },
};

static const program self = { "load",
                              "ADDRESS:PORT",
                              "Sends requests to a server with OpenAI's API and measures the time "
                              "to the first token (TTFT),\nthe time per further token (TPOT), and "
                              "tokens a second.\n",
                              args,
                              1,
                              &address };

/* ---- mixes ----------------------------------------------------------------------------------- */

/* "64:3,1024:1": values with weights. */
typedef struct mix {
    char text[1024];
    const char *name[MAX_MIX > MAX_KEY ? MAX_MIX : MAX_KEY];
    double weight[MAX_MIX > MAX_KEY ? MAX_MIX : MAX_KEY];
    int n;
} mix;

static bool mix_parse(mix *m, const char *text, int most)
{
    char *rest = NULL;
    *m = (mix){ .n = 0 };
    if (strlen(text) >= sizeof m->text)
        return false;
    snprintf(m->text, sizeof m->text, "%s", text);
    for (char *s = strtok_r(m->text, ",", &rest); s; s = strtok_r(NULL, ",", &rest)) {
        char *colon = strrchr(s, ':');
        if (m->n == most)
            return false;
        m->weight[m->n] = colon ? atof(colon + 1) : 1;
        if (colon)
            *colon = 0;
        if (!(m->weight[m->n] > 0) || !*s)
            return false;
        m->name[m->n++] = s;
    }
    return m->n > 0;
}

/* The one that a number in [0, 1) chooses. */
static int mix_choose(const mix *m, double u)
{
    double all = 0;
    for (int i = 0; i < m->n; i++)
        all += m->weight[i];
    for (int i = 0; i < m->n; i++) {
        u -= m->weight[i] / all;
        if (u < 0)
            return i;
    }
    return m->n - 1;
}

/* ---- the load -------------------------------------------------------------------------------- */

enum { CLOSED, OPEN, N_LOOP };

typedef struct client {
    load_stream stream;
    bool used;
    int loop, key;
    int64_t n_prompt;
} client;

typedef struct load {
    struct sockaddr_storage to;
    socklen_t n_to;
    int epoll;
    client *client; /* [MAX_STREAM], of which n_client were ever used */
    int n_client;
    mix prompt[N_LOOP], keys;
    load_trace trace;
    load_counts tally[N_LOOP];
    int64_t n_asked[N_LOOP], n_running[N_LOOP];
    double tokens_of_key[MAX_KEY];
    double start, next_arrival;
} load;

static double uniform(uint64_t which, uint64_t i)
{
    return rng_uniform((uint64_t)seed, which, i);
}

/* A request: n_prompt ids, which are those of the parts of a trace, or random. */
typedef struct question {
    const weft_load_request *of; /* or NULL */
    const char *key;
    uint64_t number;
    int64_t n_prompt, n_new;
} question;

static int32_t random_id(const question *q, int64_t i)
{
    const uint64_t which = i < n_shared ? 1 : 16 + q->number;
    return (int32_t)(uniform(which, (uint64_t)i) * (double)(n_vocab - 100));
}

/* Id number i, less 100. */
static int32_t id_of(const question *q, int64_t i)
{
    const weft_load_part *p = q->of ? q->of->part : NULL;
    if (!p)
        return random_id(q, i);
    for (; i >= p->n; p++)
        i -= p->n;
    return weft_load_token(p->seed, i, (int32_t)n_vocab - 100);
}

static char *make_request(const question *q, size_t *length)
{
    const size_t room = (size_t)q->n_prompt * 12 + 2048;
    char *body = malloc(room), *all = malloc(room + 1024);
    if (!body || !all)
        abort();
    size_t k = (size_t)snprintf(body, room, "{");
    if (model)
        k += (size_t)snprintf(body + k, room - k, "\"model\":\"%s\",", model);
    k += (size_t)snprintf(
        body + k, room - k,
        "\"max_tokens\":%lld,\"temperature\":0,\"ignore_eos\":true,\"stream\":true,"
        "\"stream_options\":{\"include_usage\":true},\"prompt\":[",
        (long long)q->n_new);
    for (int64_t i = 0; i < q->n_prompt; i++)
        k += (size_t)snprintf(body + k, room - k, "%s%d", i ? "," : "", 100 + (int)id_of(q, i));
    k += (size_t)snprintf(body + k, room - k, "]}");
    *length = (size_t)snprintf(all, room + 1024,
                               "POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: "
                               "application/json\r\nContent-Length: %zu\r\n%s%s%sConnection: "
                               "close\r\n\r\n%s",
                               k, q->key ? "Authorization: Bearer " : "", q->key ? q->key : "",
                               q->key ? "\r\n" : "", body);
    free(body);
    return all;
}

static client *take_client(load *l)
{
    client *c = l->client;
    while (c < l->client + MAX_STREAM && c->used)
        c++;
    if (c == l->client + MAX_STREAM) {
        fprintf(stderr, "load: more than %d requests at a time\n", MAX_STREAM);
        exit(1);
    }
    const int n = (int)(c - l->client) + 1;
    l->n_client = n > l->n_client ? n : l->n_client;
    return c;
}

static client *send_question(load *l, int loop, int key, const question *q)
{
    size_t n;
    client *c = take_client(l);
    *c = (client){ .used = true, .loop = loop, .key = key, .n_prompt = q->n_prompt };
    l->n_asked[loop]++;
    l->n_running[loop]++;
    char *request = make_request(q, &n);
    if (!load_stream_open(&c->stream, (struct sockaddr *)&l->to, l->n_to, request, n))
        return c;
    struct epoll_event e = { .events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = c };
    epoll_ctl(l->epoll, EPOLL_CTL_ADD, c->stream.fd, &e);
    return c;
}

static void ask(load *l, int loop, int key)
{
    const mix *m = &l->prompt[loop];
    const int which = mix_choose(m, uniform((uint64_t)(2 + loop), (uint64_t)l->n_asked[loop]));
    const question q = { .key = l->keys.n ? l->keys.name[key] : NULL,
                         .number = (uint64_t)(l->n_asked[CLOSED] + l->n_asked[OPEN]),
                         .n_prompt = atoll(m->name[which]),
                         .n_new = n_generate };
    send_question(l, loop, key, &q);
}

/* The requests of the trace whose time has come. */
static void ask_trace(load *l)
{
    const weft_load_request *t = l->trace.at;
    while (l->n_asked[OPEN] < l->trace.n && bench_now() >= l->start + t[l->n_asked[OPEN]].at) {
        question q = { .of = &t[l->n_asked[OPEN]] };
        q.key = q.of->key;
        q.n_new = q.of->n_new;
        for (int i = 0; i < q.of->n_part; i++)
            q.n_prompt += q.of->part[i].n;
        send_question(l, OPEN, 0, &q)->stream.asked = l->start + q.of->at;
    }
    l->next_arrival = l->n_asked[OPEN] < l->trace.n ? l->start + t[l->n_asked[OPEN]].at : INFINITY;
}

static void on_token(void *ud, load_stream *s, double gap, bool is_first)
{
    load *l = ud;
    client *c = (client *)s; /* its first member */
    list_add(is_first ? &l->tally[c->loop].ttft : &l->tally[c->loop].gap, gap);
    l->tokens_of_key[c->key]++;
}

static void finish(load *l, client *c)
{
    load_stream *s = &c->stream;
    load_counts *t = &l->tally[c->loop];
    const int64_t n = s->n_token > 0 ? s->n_token : s->n_event;
    t->n_request++;
    t->n_token += n;
    t->n_429 += s->status == 429;
    t->n_503 += s->status == 503;
    if (s->state == STREAM_FAILED && trace_path && (s->status == 429 || s->status == 503)) {
        /* refused: neither failed nor timed */
    } else if (s->state == STREAM_FAILED) {
        if (!*t->error)
            snprintf(t->error, sizeof t->error, "%s", s->error);
        t->n_failed++;
    } else {
        t->n_prompt += c->n_prompt;
        if (n > 1)
            list_add(&t->tpot, (s->last - s->first) / (double)(n - 1));
    }
    load_stream_close(s);
    c->used = false;
    l->n_running[c->loop]--;
}

static bool is_over(const load *l)
{
    if (trace_path)
        return l->n_asked[OPEN] == l->trace.n && l->n_running[OPEN] == 0;
    return seconds > 0 ? bench_now() - l->start >= seconds
                       : l->n_asked[CLOSED] >= n_request && l->n_running[CLOSED] == 0;
}

/* Every client has the same key all the time. */
static int key_of(const load *l, int64_t client_number)
{
    return l->keys.n ? mix_choose(&l->keys, ((double)client_number + 0.5) / (double)n_stream) : 0;
}

static void arrive(load *l)
{
    if (trace_path)
        ask_trace(l);
    while (rate > 0 && bench_now() >= l->next_arrival) {
        ask(l, OPEN, 0);
        l->next_arrival += -log(1 - uniform(4, (uint64_t)l->n_asked[OPEN])) / rate;
    }
}

static void serve_events(load *l, const struct epoll_event *e, int n)
{
    for (int i = 0; i < n; i++) {
        client *c = e[i].data.ptr;
        if (c->used)
            load_stream_advance(&c->stream, on_token, l);
    }
    for (client *c = l->client; c < l->client + l->n_client; c++) {
        if (!c->used || (c->stream.state != STREAM_DONE && c->stream.state != STREAM_FAILED))
            continue;
        const int loop = c->loop, key = c->key;
        finish(l, c);
        if (loop == CLOSED && (seconds > 0 || l->n_asked[CLOSED] < n_request))
            ask(l, CLOSED, key);
    }
}

static double run_load(load *l)
{
    struct epoll_event e[256];
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    l->start = l->next_arrival = bench_now();
    for (int64_t i = 0; i < n_stream && (seconds > 0 || i < n_request); i++)
        ask(l, CLOSED, key_of(l, i));
    while (!is_over(l)) {
        arrive(l);
        double wait = 0.2;
        if (rate > 0 || trace_path)
            wait = fmin(wait, fmax(0, l->next_arrival - bench_now()));
        const int n = epoll_wait(l->epoll, e, 256, (int)ceil(1e3 * wait));
        if (n < 0 && errno != EINTR)
            break;
        serve_events(l, e, n);
        if (l->tally[CLOSED].n_failed > 4 * n_stream + 100)
            break;
    }
    const double took = bench_now() - l->start;
    for (client *c = l->client; c < l->client + l->n_client; c++)
        if (c->used) { /* cut off by --seconds: its tokens count */
            l->tally[c->loop].n_token += c->stream.n_event;
            load_stream_close(&c->stream);
        }
    return took;
}

/* ---- the report ------------------------------------------------------------------------------ */

/* Jain's index of the tokens that each key got: 1 is equal, 1 / n is all to one. */
static void print_fairness(const load *l)
{
    double sum = 0, squares = 0;
    for (int i = 0; i < l->keys.n; i++) {
        sum += l->tokens_of_key[i];
        squares += l->tokens_of_key[i] * l->tokens_of_key[i];
    }
    const double jain = squares > 0 ? sum * sum / ((double)l->keys.n * squares) : NAN;
    printf(json ? "{\"keys\":%d,\"jain\":%.4f,\"tokens\":[" : "keys: %d, Jain's index %.4f, tokens",
           l->keys.n, jain);
    for (int i = 0; i < l->keys.n; i++)
        printf(json ? "%s%.0f" : "%s %.0f", json && i ? "," : "", l->tokens_of_key[i]);
    printf(json ? "]}\n" : "\n");
}

static bool find_server(load *l)
{
    char host[256];
    const char *colon = strrchr(address, ':');
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found = NULL;
    if (!colon || (size_t)(colon - address) >= sizeof host)
        return false;
    snprintf(host, sizeof host, "%.*s", (int)(colon - address), address);
    if (getaddrinfo(host, colon + 1, &hints, &found) != 0)
        return false;
    memcpy(&l->to, found->ai_addr, found->ai_addrlen);
    l->n_to = found->ai_addrlen;
    freeaddrinfo(found);
    return true;
}

int main(int argc, char **argv)
{
    static load l;
    const int code = args_parse(&self, argc, argv);
    if (code >= 0)
        return code;
    weft_error err = { 0 };
    if (trace_path) {
        bench_check(load_trace_read(&l.trace, trace_path, &err), &err);
        n_stream = 0;
        rate = 0;
    }
    n_request = n_request ? n_request : 4 * n_stream;
    if (!mix_parse(&l.prompt[CLOSED], prompts, MAX_MIX) ||
        !mix_parse(&l.prompt[OPEN], arriving, MAX_MIX))
        return args_usage(&self, "--prompts and --arriving are numbers of tokens with weights, as "
                                 "64:3,1024:1");
    if (key_list && !mix_parse(&l.keys, key_list, MAX_KEY))
        return args_usage(&self, "--keys has at most %d keys with weights", MAX_KEY);
    if (!find_server(&l))
        return args_usage(&self, "%s: no such address; expected one as 127.0.0.1:8080", address);
    l.client = calloc(MAX_STREAM, sizeof *l.client);
    if (!l.client)
        return 1;
    const double took = run_load(&l);
    if (n_stream > 0)
        print_tally("closed", &l.tally[CLOSED], n_stream, took, json);
    if (rate > 0 || trace_path)
        print_tally(trace_path ? "trace" : "open", &l.tally[OPEN], n_stream, took, json);
    if (l.keys.n > 1)
        print_fairness(&l);
    free(l.client);
    load_trace_free(&l.trace);
    return l.tally[CLOSED].n_failed + l.tally[OPEN].n_failed > 0;
}
