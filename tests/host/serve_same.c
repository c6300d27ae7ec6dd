/* serve_same.c - the same answer under any load: random requests of two keys, alone at first, then
 * many at a time, in a cache that is too small for them, while other clients hang up. Texts and
 * log-probabilities must be the same bytes.
 *
 *     host_serve_same WEFT MODEL TEMPLATE [REQUESTS]
 *
 * A tenth of the requests are distinct, so that the others find cached prefixes, also of their own.
 * Some have a form to match, and some call tools. */
#include "serve_client.h"

#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#define N_CLIENT   24
#define BODY_BYTES 4096
#define MAX_CASE   400

typedef struct test_case {
    const char *path;
    char body[BODY_BYTES];
    char *alone; /* what it answers */
} test_case;

typedef struct common {
    child server;
    test_case cases[MAX_CASE];
    int n_case, n_request;
    pthread_mutex_t lock;
    int next, n_same, n_different, n_cut;
    char first[600]; /* the first difference */
} common;

static const char *const keys[] = { "Authorization: Bearer key-of-the-first-user\r\n",
                                    "Authorization: Bearer key-of-the-second-user\r\n" };

/* ---- requests -------------------------------------------------------------------------------- */

/* xorshift64*: the same requests in every run. */
static uint64_t draw(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 2685821657736338717u;
}

static int below(uint64_t *state, int n)
{
    return (int)(draw(state) >> 33) % n;
}

/* Words, of which the first are those of one of three beginnings. */
static void put_words(char *to, size_t room, uint64_t *r, int n)
{
    static const char *const words[] = { "the",  "king", "shall", "speak", "no",   "more", "of",
                                         "this", "good", "night", "my",    "lord", "and",  "thou" };
    uint64_t beginning = 77 + (uint64_t)below(r, 3);
    size_t k = 0;
    for (int i = 0; i < n && k + 16 < room; i++)
        k += (size_t)snprintf(to + k, room - k, "%s%s", i ? " " : "",
                              words[below(i < 40 ? &beginning : r, 14)]);
}

static void make_case(test_case *c, uint64_t *r, bool is_long)
{
    static const char *const drawing[] = {
        "\"temperature\":0",
        "\"temperature\":0.9,\"seed\":7",
        "\"temperature\":1.2,\"top_p\":0.8,\"seed\":11",
        "\"temperature\":0.7,\"top_k\":12,\"frequency_penalty\":0.5,\"seed\":3",
        "\"temperature\":1,\"min_p\":0.05,\"repetition_penalty\":1.1,\"seed\":9",
    };
    static const char *const forms[] = {
        "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"f\",\"schema\":{"
        "\"type\":"
        "\"object\",\"properties\":{\"who\":{\"type\":\"string\"},\"n\":{\"type\":\"integer\"}},"
        "\"required\":["
        "\"who\",\"n\"]}}}",
        "\"guided_regex\":\"([a-z]{2,5} ){3,9}[a-z]+\\\\.\"",
        "\"structured_outputs\":{\"choice\":[\"the king\",\"my lord\",\"no more\"]}",
    };
    static const char tools[] = ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":"
                                "\"speak\",\"parameters\":{\"type\":"
                                "\"object\",\"properties\":{\"to\":{\"type\":\"string\","
                                "\"maxLength\":12}},\"required\":[\"to\"],"
                                "\"additionalProperties\":false}}}],\"tool_choice\":\"%s\"";
    char text[2048];
    const bool chat = below(r, 3) == 0, stream = below(r, 2) == 0, echo = !chat && below(r, 5) == 0;
    put_words(text, sizeof text, r, 1 + below(r, 60));
    c->path = chat ? "/v1/chat/completions" : "/v1/completions";
    size_t n = (size_t)snprintf(c->body, sizeof c->body,
                                chat ? "{\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}]"
                                     : "{\"prompt\":\"%s\"",
                                text);
    n += (size_t)snprintf(c->body + n, sizeof c->body - n, ",%s", drawing[below(r, 5)]);
    if (is_long) /* more than a request claims before it starts: it may be preempted */
        n += (size_t)snprintf(c->body + n, sizeof c->body - n,
                              ",\"ignore_eos\":true,\"max_tokens\":%d", 400 + below(r, 400));
    else
        n += (size_t)snprintf(c->body + n, sizeof c->body - n, ",\"max_tokens\":%d",
                              1 + below(r, 60));
    const int form = is_long ? 9 : below(r, 6);
    if (form < 3)
        n += (size_t)snprintf(c->body + n, sizeof c->body - n, ",%s", forms[form]);
    else if (form < 5 && chat)
        n += (size_t)snprintf(c->body + n, sizeof c->body - n, tools,
                              form == 3 ? "required" : "auto");
    if (below(r, 2))
        n += (size_t)snprintf(c->body + n, sizeof c->body - n, "%s",
                              chat ? ",\"logprobs\":true,\"top_logprobs\":3" : ",\"logprobs\":2");
    if (below(r, 4) == 0)
        n += (size_t)snprintf(c->body + n, sizeof c->body - n, ",\"stop\":[\"sir\",\"\\n\"]");
    if (stream)
        n += (size_t)snprintf(c->body + n, sizeof c->body - n, ",\"stream\":true");
    else if (below(r, 4) == 0) /* choices of a stream come in any order */
        n += (size_t)snprintf(c->body + n, sizeof c->body - n, ",\"n\":2");
    if (echo)
        n += (size_t)snprintf(c->body + n, sizeof c->body - n, ",\"echo\":true");
    snprintf(c->body + n, sizeof c->body - n, "}");
}

/* ---- clients --------------------------------------------------------------------------------- */

static void compare(common *k, const test_case *c, const char *answer)
{
    char *found = choices_of(answer);
    pthread_mutex_lock(&k->lock);
    if (found && strcmp(found, c->alone) == 0)
        k->n_same++;
    else if (k->n_different++ == 0)
        snprintf(k->first, sizeof k->first, "%.200s: %.180s, alone %.180s", c->body,
                 found ? found : answer, c->alone);
    pthread_mutex_unlock(&k->lock);
    free(found);
}

/* Asks and hangs up somewhere on the way. */
static void cut_off(common *k, const test_case *c, double seconds)
{
    char request[BODY_BYTES + 512];
    const int fd = dial(&k->server);
    const int n = snprintf(
        request, sizeof request,
        "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Content-Length: %zu\r\n%s\r\n%s",
        c->path, strlen(c->body), keys[0], c->body);
    if (fd >= 0)
        put(fd, request, (size_t)n);
    pause_for(seconds);
    if (fd >= 0)
        close(fd);
    pthread_mutex_lock(&k->lock);
    k->n_cut++;
    pthread_mutex_unlock(&k->lock);
}

static void *client_main(void *ud)
{
    common *k = ud;
    for (;;) {
        pthread_mutex_lock(&k->lock);
        const int i = k->next++;
        pthread_mutex_unlock(&k->lock);
        if (i >= k->n_request)
            return NULL;
        uint64_t r = 1000003u * (uint64_t)(i + 1);
        const test_case *c = &k->cases[below(&r, k->n_case)];
        if (below(&r, 7) == 0) {
            cut_off(k, c, 0.0005 * below(&r, 200));
            continue;
        }
        const char *key = keys[below(&r, 2)];
        char *answer = ask(&k->server, c->path, key, c->body);
        while (status_of(answer) == 503 || status_of(answer) == 429) { /* the queue is full */
            free(answer);
            pause_for(0.02);
            answer = ask(&k->server, c->path, key, c->body);
        }
        compare(k, c, answer);
        free(answer);
    }
}

/* ---- the test -------------------------------------------------------------------------------- */

static void ask_alone(common *k)
{
    uint64_t r = 42;
    for (int i = 0; i < k->n_case; i++) {
        test_case *c = &k->cases[i];
        make_case(c, &r, i % 3 == 0);
        char *answer = ask(&k->server, c->path, keys[0], c->body);
        c->alone = choices_of(answer);
        if (!c->alone) {
            check(false, "serve: a request alone", "%s: %s", c->body, answer);
            exit(1);
        }
        free(answer);
    }
}

static void run_clients(common *k)
{
    pthread_t client[N_CLIENT];
    for (int i = 0; i < N_CLIENT; i++)
        must(pthread_create(&client[i], NULL, client_main, k) == 0, "a thread", NULL);
    for (int i = 0; i < N_CLIENT; i++)
        pthread_join(client[i], NULL);
}

/* A number of /metrics. */
static double number_of(const child *s, const char *name)
{
    char *answer = ask(s, "/metrics", keys[0], NULL);
    const char *at = answer;
    while ((at = strstr(at, name)) && at[-1] != '\n')
        at++;
    const double value = at ? strtod(strchr(at, ' ') + 1, NULL) : -1;
    free(answer);
    return value;
}

int main(int argc, char **argv)
{
    static common k = { .lock = PTHREAD_MUTEX_INITIALIZER };
    char file[] = "/tmp/weft-keys-XXXXXX";
    static const char lines[] = "first key-of-the-first-user\nsecond key-of-the-second-user\n";
    must(argc >= 4, "serve_same WEFT MODEL TEMPLATE [REQUESTS]", NULL);
    k.n_request = argc > 4 ? atoi(argv[4]) : SANITIZED ? 120 : 400;
    k.n_case = k.n_request / 10 < MAX_CASE ? k.n_request / 10 : MAX_CASE;
    const int fd = mkstemp(file);
    must(fd >= 0 && write(fd, lines, sizeof lines - 1) > 0 && fchmod(fd, 0600) == 0, "keys", NULL);
    const char *const alone[] = { "--template", argv[3],      "--api-key-file",
                                  file,         "--parallel", "1",
                                  "--no-log",   "-c",         "2048",
                                  argv[2],      NULL };
    k.server = server_start(argv[1], alone);
    ask_alone(&k);
    server_stop(&k.server, SIGTERM, 30);

    const char *const many[] = { "--template", argv[3], "--api-key-file", file,
                                 "--parallel", "12",    "--cache-tokens", "1536",
                                 "--no-log",   "-c",    "2048",           argv[2],
                                 NULL };
    k.server = server_start(argv[1], many);
    run_clients(&k);
    check(k.n_different == 0 && k.n_same > k.n_request / 2, "serve: the same answer under load",
          "%d the same, %d different: %s", k.n_same, k.n_different, k.first);
    const double n_preempted = number_of(&k.server, "vllm:num_preemptions_total");
    const double n_found = number_of(&k.server, "vllm:prefix_cache_hits_total");
    check((n_preempted > 0 || k.n_request < 400) && n_found > 0 && k.n_cut > 0,
          "serve: requests were preempted, cut off, and found prefixes",
          "%g preempted, %g tokens found, %d cut off", n_preempted, n_found, k.n_cut);
    printf("%d requests the same, %d cut off; %g preempted, %g tokens of prefixes found\n",
           k.n_same, k.n_cut, n_preempted, n_found);
    double used = 1;
    for (int i = 0; used > 0 && i < 500; i++, pause_for(0.02))
        used = number_of(&k.server, "vllm:kv_cache_usage_perc");
    check(used == 0, "serve: no page is left in use", "%g of all pages are", used);
    check(server_stop(&k.server, SIGTERM, 60) == 0, "serve: it ends after load", "no");
    for (int i = 0; i < k.n_case; i++)
        free(k.cases[i].alone);
    unlink(file);
    return n_failed > 0;
}
