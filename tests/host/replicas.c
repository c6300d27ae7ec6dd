/* replicas.c - the clients of replicas.sh: conversations through a proxy, and what happens to them when a replica is
 * killed.
 *
 *     host_replicas get ADDRESS:PORT PATH               the body of the answer; exit code 0 if it is 200
 *     host_replicas talk ADDRESS:PORT CLIENTS N         N conversations of six turns; 0: until SIGTERM
 *     host_replicas whole ADDRESS:PORT REPLICA:PORT...  is an event delivered while the text is still generated?
 *     host_replicas stay ADDRESS:PORT METRICS:PORT REPLICA:PORT...
 *                                                       does each conversation stay with one replica?
 *     host_replicas kill ADDRESS:PORT REPLICA:PORT PID  streams, kill -9, new requests
 *
 * Prints a line of figures; the exit code is 1 if a request failed. */
#include "serve_client.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#define N_TURN   6
#define N_STREAM 12
#define BUFFER   100000
#define WATCHED  3.0 /* seconds of new requests after a kill */
#define PATIENCE 60.0

static child proxy, numbers; /* where clients ask, and its metrics */
static atomic_bool stopping;

static void stop(int sent)
{
    (void)sent;
    atomic_store(&stopping, true);
}

static child server_at(const char *text)
{
    char host[64];
    const char *colon = strrchr(text, ':');
    child s = { .errors = -1 };
    snprintf(host, sizeof host, "%.*s", colon ? (int)(colon - text) : 0, text);
    must(colon && inet_pton(AF_INET, host, &s.address) == 1, "ADDRESS:PORT", NULL);
    s.port = atoi(colon + 1);
    return s;
}

/* ---- one request ----------------------------------------------------------------------------- */

/* A stream is good if it came to its end, any other answer if it has a finish. */
static bool is_good(const char *answer, bool stream)
{
    return status_of(answer) == 200 && !strstr(answer, "{\"error\"") &&
           (stream ? strstr(answer, "data: [DONE]") : strstr(answer, "\"finish_reason\":\"")) !=
               NULL;
}

/* ---- conversations --------------------------------------------------------------------------- */

typedef struct tally {
    pthread_mutex_t lock;
    int first, n_conversation, n_client; /* conversations from `first` on; 0: until SIGTERM */
    int n_good, n_bad;
    double slowest;
    char why[512];
} tally;

static void count(tally *t, bool good, double seconds, const char *answer)
{
    pthread_mutex_lock(&t->lock);
    t->n_good += good;
    t->n_bad += !good;
    t->slowest = seconds > t->slowest ? seconds : t->slowest;
    if (!good && t->n_bad == 1)
        snprintf(t->why, sizeof t->why, "%.500s", answer ? answer : "no memory");
    pthread_mutex_unlock(&t->lock);
}

/* Conversations say where they belong with a header, a field, or only by their first message. Some requests are larger
 * than HAProxy's buffer: it cannot send those again. */
static char *ask_turn(int conversation, int turn, const char *messages)
{
    char more[64] = "", key[64] = "", *body, *answer;
    const int way = conversation % 3, padding = conversation % 5 == 2 ? BUFFER : 0;
    if (way == 0)
        snprintf(more, sizeof more, "x-session-id: talk-%d\r\n", conversation);
    if (way == 1)
        snprintf(key, sizeof key, "\"prompt_cache_key\":\"talk-%d\",", conversation);
    const int n = asprintf(&body,
                           "{%s\"temperature\":0,\"max_tokens\":%d,\"ignore_eos\":true,"
                           "\"stream\":%s,\"messages\":[{\"role\":\"system\",\"content\":\"You are "
                           "a player of the King's Men.\"}%s]%*s}",
                           key, 20 + conversation % 5 * 30, turn % 2 ? "true" : "false", messages,
                           padding, "");
    must(n > 0, "replicas: memory", NULL);
    answer = ask(&proxy, "/v1/chat/completions", more, body);
    free(body);
    return answer;
}

static void talk(tally *t, int conversation)
{
    char *messages = strdup("");
    for (int turn = 0; turn < N_TURN && !atomic_load(&stopping); turn++) {
        char *longer;
        const double began = now();
        must(asprintf(&longer,
                      "%s,{\"role\":\"user\",\"content\":\"In scene %d of play %d, the %d lords "
                      "come from the north with news of the king's ships; what do you say?\"}",
                      messages, turn, conversation, conversation * 7 % 31) > 0,
             "replicas: memory", NULL);
        char *answer = ask_turn(conversation, turn, longer);
        const bool good = is_good(answer, turn % 2);
        count(t, good, now() - began, answer);
        char *text = answer ? text_of(answer) : strdup("");
        free(messages);
        must(asprintf(&messages, "%s,{\"role\":\"assistant\",\"content\":\"%s\"}", longer, text) >
                 0,
             "replicas: memory", NULL);
        free(longer);
        free(text);
        free(answer);
    }
    free(messages);
}

static void *client(void *ud)
{
    tally *t = ud;
    for (;;) {
        pthread_mutex_lock(&t->lock);
        const int conversation = t->first++;
        pthread_mutex_unlock(&t->lock);
        if (atomic_load(&stopping) || (t->n_conversation && conversation >= t->n_conversation))
            return NULL;
        talk(t, conversation);
    }
}

static int run_talk(int n_client, int n_conversation)
{
    tally t = { .lock = PTHREAD_MUTEX_INITIALIZER, .n_conversation = n_conversation };
    pthread_t threads[64];
    n_client = n_client > 64 ? 64 : n_client;
    signal(SIGTERM, stop);
    for (int i = 0; i < n_client; i++)
        must(pthread_create(&threads[i], NULL, client, &t) == 0, "replicas: a thread", NULL);
    for (int i = 0; i < n_client; i++)
        pthread_join(threads[i], NULL);
    printf("%d requests, %d failed, slowest %.2f s\n", t.n_good + t.n_bad, t.n_bad, t.slowest);
    if (t.n_bad)
        printf("the first failure: %s\n", t.why);
    return t.n_bad > 0 || t.n_good == 0;
}

/* ---- is a stream buffered? -------------------------------------------------------------------- */

static const char long_story[] = "{\"stream\":true,\"ignore_eos\":true,\"temperature\":0,"
                                 "\"max_tokens\":%d,\"messages\":[{\"role\":\"user\","
                                 "\"content\":\"Tell me story %d.\"}]}";

static int begin_story(int which, int n_token)
{
    char body[512];
    snprintf(body, sizeof body, long_story, n_token, which);
    return begin_ask(&proxy, "/v1/chat/completions", body);
}

static int run_whole(char **replicas)
{
    bool closed;
    double running = 0;
    const int fd = begin_story(0, 4000);
    const double began = now();
    const bool came = take_until(fd, "\"content\":\"", PATIENCE);
    const double first = now() - began;
    for (; *replicas; replicas++) {
        const child one = server_at(*replicas);
        running += metric(&one, "vllm:num_requests_running");
    }
    char *rest = take_all(fd, PATIENCE, &closed);
    const bool ended = rest && strstr(rest, "data: [DONE]");
    printf("first event after %.3f s, when %g requests ran; the last after %.3f s\n", first,
           running, now() - began);
    free(rest);
    close(fd);
    return !(came && running == 1 && ended);
}

/* ---- where a conversation goes ----------------------------------------------------------------- */

#define N_TALK      8
#define MAX_REPLICA 8

#define CHAT   "/v1/chat/completions"
#define OPTION "{\"max_tokens\":2,\"ignore_eos\":true,"
#define SAYS   "{\"role\":\"%s\",\"content\":\"%s\"}"

/* A request of a conversation that is known by one thing only; it grows from turn to turn. */
typedef struct asked {
    const char *path;
    char header[64], body[8192];
} asked;

static asked by_header(int talk, const char *said)
{
    asked a = { .path = CHAT };
    snprintf(a.header, sizeof a.header, "x-session-id: way-%d\r\n", talk);
    snprintf(a.body, sizeof a.body, OPTION "\"messages\":[" SAYS "]}", "user", said);
    return a;
}

static asked by_key(int talk, const char *said)
{
    asked a = { .path = CHAT };
    snprintf(a.body, sizeof a.body,
             OPTION "\"messages\":[" SAYS "],\"prompt_cache_key\":\"way-%d\"}", "user", said, talk);
    return a;
}

static asked by_first_message(int talk, const char *said)
{
    asked a = { .path = CHAT };
    snprintf(a.body, sizeof a.body,
             OPTION "\"messages\":[{\"role\":\"user\",\"content\":\"I am %d.\"}," SAYS "]}", talk,
             "assistant", said);
    return a;
}

static asked by_message_after_system(int talk, const char *said)
{
    asked a = { .path = CHAT };
    snprintf(a.body, sizeof a.body,
             OPTION "\"messages\":[" SAYS ",{\"role\":\"user\",\"content\":[{\"type\":\"text\","
                    "\"text\":\"I am %d.\"}]}," SAYS "]}",
             "system", "Be short.", talk, "assistant", said);
    return a;
}

static asked by_beginning(int talk, const char *said)
{
    asked a = { .path = "/v1/completions" };
    snprintf(a.body, sizeof a.body, OPTION "\"prompt\":\"%d%2100s%s\"}", talk, ".", said);
    return a;
}

/* The replica that generated since the last call; -1: none, or several. */
static int who_answered(char **replicas, double *before)
{
    int found = -1, n = 0;
    for (int i = 0; replicas[i] && i < MAX_REPLICA; i++) {
        const child one = server_at(replicas[i]);
        const double tokens = metric(&one, "vllm:generation_tokens_total");
        if (tokens > before[i]) {
            found = i;
            n++;
        }
        before[i] = tokens;
    }
    return n == 1 ? found : -1;
}

/* The replica of all turns of a conversation, or -1. */
static int replica_of(asked (*way)(int, const char *), int talk, char **replicas, double *before)
{
    int found = -1;
    char said[64] = "";
    for (int turn = 0; turn < 4; turn++) {
        snprintf(said + strlen(said), sizeof said - strlen(said), "Turn %d. ", turn);
        const asked a = way(talk, said);
        /* One that HAProxy has not forgotten yet counts for its bound. */
        metric_becomes(&numbers, "haproxy_backend_current_sessions", 0, 10);
        char *answer = ask(&proxy, a.path, a.header, a.body);
        const bool good = is_good(answer, false);
        const int who = who_answered(replicas, before);
        free(answer);
        if (!good || who < 0 || (turn > 0 && who != found))
            return -1;
        found = who;
    }
    return found;
}

static int run_stay(char **replicas)
{
    static const struct {
        const char *what;
        asked (*way)(int, const char *);
    } ways[] = {
        { "x-session-id", by_header },
        { "prompt_cache_key", by_key },
        { "the first message", by_first_message },
        { "the first message after the system prompt", by_message_after_system },
        { "the first 2 KiB", by_beginning },
    };
    double before[MAX_REPLICA] = { 0 };
    int n_bad = 0;
    numbers = server_at(*replicas++);
    who_answered(replicas, before);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        unsigned used = 0;
        int n_stayed = 0;
        for (int talk = 0; talk < N_TALK; talk++) {
            const int who = replica_of(ways[i].way, talk, replicas, before);
            n_stayed += who >= 0;
            used |= who >= 0 ? 1u << who : 0;
        }
        printf("by %s: %d of %d conversations stayed with one of %d replicas\n", ways[i].what,
               n_stayed, N_TALK, __builtin_popcount(used));
        n_bad += n_stayed < N_TALK || __builtin_popcount(used) < 2;
    }
    return n_bad > 0;
}

/* ---- a replica is killed ---------------------------------------------------------------------- */

typedef struct killed {
    pthread_mutex_t lock;
    double at;
    int n_new, n_bad, next;
    double first_good, last_bad, slowest; /* seconds after the kill; the time of a request */
} killed;

static void *ask_anew(void *ud)
{
    killed *k = ud;
    while (now() < k->at + WATCHED) {
        pthread_mutex_lock(&k->lock);
        const int which = k->next++;
        pthread_mutex_unlock(&k->lock);
        char body[512];
        snprintf(body, sizeof body, long_story, 16, 1000 + which);
        const double began = now();
        char *answer = ask(&proxy, "/v1/chat/completions", "", body);
        const bool good = is_good(answer, true);
        const double ended = now();
        pthread_mutex_lock(&k->lock);
        k->n_new++;
        k->n_bad += !good;
        if (good && (k->first_good == 0 || ended - k->at < k->first_good))
            k->first_good = ended - k->at;
        if (!good)
            k->last_bad = ended - k->at;
        k->slowest = ended - began > k->slowest ? ended - began : k->slowest;
        pthread_mutex_unlock(&k->lock);
        free(answer);
    }
    return NULL;
}

static void ask_for_a_while(killed *k)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        must(pthread_create(&threads[i], NULL, ask_anew, k) == 0, "replicas: a thread", NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

/* A stream that was cut is one whose connection ends before its last chunk. */
static void count_streams(const int *fd, int *n_cut, int *n_whole, int *n_silent)
{
    for (int i = 0; i < N_STREAM; i++) {
        bool closed;
        char *rest = take_all(fd[i], PATIENCE, &closed);
        const bool done = rest && strstr(rest, "data: [DONE]");
        *n_whole += done;
        *n_cut += !done && closed;
        *n_silent += !done && !closed;
        free(rest);
        close(fd[i]);
    }
}

static int run_kill(const child *replica, pid_t pid)
{
    killed k = { .lock = PTHREAD_MUTEX_INITIALIZER };
    int fd[N_STREAM], n_cut = 0, n_whole = 0, n_silent = 0;
    for (int i = 0; i < N_STREAM; i++) {
        fd[i] = begin_story(i, 6000);
        must(take_until(fd[i], "\"content\":\"", PATIENCE), "replicas: a stream begins", NULL);
    }
    const double running = metric(replica, "weft_requests"); /* or not sent in full yet */
    kill(pid, SIGKILL);
    k.at = now();
    ask_for_a_while(&k);
    count_streams(fd, &n_cut, &n_whole, &n_silent);
    printf("%d streams: %g ran on the killed replica, %d were cut, %d came to their end, %d ended "
           "silently\n",
           N_STREAM, running, n_cut, n_whole, n_silent);
    printf("%d new requests: first answer %.3f s after the kill, %d failed, the last of them after "
           "%.3f s, slowest %.3f s\n",
           k.n_new, k.first_good, k.n_bad, k.last_bad, k.slowest);
    /* One may have ended between the count and the kill. */
    return !(n_cut > 0 && n_cut <= (int)running && n_whole == N_STREAM - n_cut &&
             k.first_good > 0 && k.first_good < 2 && k.last_bad < 2 && k.n_new > 8);
}

static int run_get(const char *path)
{
    char *answer = ask(&proxy, path, "", NULL);
    const int status = status_of(answer);
    fputs(body_of(answer), stdout);
    free(answer);
    return status != 200;
}

int main(int argc, char **argv)
{
    must(argc >= 4, "host_replicas MODE ADDRESS:PORT ...", NULL);
    signal(SIGPIPE, SIG_IGN);
    proxy = server_at(argv[2]);
    if (strcmp(argv[1], "get") == 0)
        return run_get(argv[3]);
    const child replica = strchr(argv[3], ':') ? server_at(argv[3]) : proxy;
    if (strcmp(argv[1], "talk") == 0 && argc == 5)
        return run_talk(atoi(argv[3]), atoi(argv[4]));
    if (strcmp(argv[1], "whole") == 0)
        return run_whole(argv + 3);
    if (strcmp(argv[1], "stay") == 0)
        return run_stay(argv + 3);
    must(strcmp(argv[1], "kill") == 0 && argc == 5, "get, talk, whole, stay or kill", NULL);
    return run_kill(&replica, atoi(argv[4]));
}
