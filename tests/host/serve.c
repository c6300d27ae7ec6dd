/* serve.c - weft serve on a loopback port: requests and their answers, errors, keys, the same text
 * alone and under load, no descriptors left. serve_faults.c has clients that misbehave. */
#include "serve_client.h"

#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *weft, *model;

#define COMPLETE "/v1/completions"

static char *post(const child *s, const char *path, const char *body)
{
    return ask(s, path, "", body);
}

/* ---- answers --------------------------------------------------------------------------------- */

static void check_answer(const child *s, const char *path, const char *body, int status,
                         const char *says, const char *sentence)
{
    char *answer = post(s, path, body);
    check(status_of(answer) == status && strstr(answer, says), sentence, "%s: %s", path, answer);
    free(answer);
}

/* Choice i has seed + i. */
static void seeds_of_choices(const child *s)
{
    char *text[2];
    for (int i = 0; i < 2; i++) {
        char body[256];
        snprintf(body, sizeof body,
                 "{\"prompt\":\"ROMEO:\",\"max_tokens\":24,\"seed\":%d,\"n\":%d}", 5 + i, 2 - i);
        char *answer = ask(s, COMPLETE, "", body);
        text[i] = text_of(answer); /* all choices, joined */
        free(answer);
    }
    const size_t n = strlen(text[0]), last = strlen(text[1]);
    check(last > 10 && n > last && strcmp(text[0] + n - last, text[1]) == 0 &&
              strncmp(text[0], text[1], last) != 0,
          "serve: each choice has a seed of its own", "%s and %s", text[0], text[1]);
    free(text[0]);
    free(text[1]);
}

static void answers(const child *s)
{
    check_answer(s, "/health", NULL, 200, "{\"status\":\"ok\"}", "serve: /health");
    check_answer(s, "/v1/models", NULL, 200, "\"id\":\"shakespeare\"", "serve: /v1/models");
    check_answer(s, "/v1/models/shakespeare", NULL, 200, "\"object\":\"model\"",
                 "serve: /v1/models/NAME");
    check_answer(s, "/tokenizer_info", NULL, 200, "\"eos_token\":\"<|endoftext|>\"",
                 "serve: /tokenizer_info");
    check_answer(s, "/tokenize", "{\"prompt\":\"Hello there\"}", 200, "\"tokens\":[40,409,79,503]",
                 "serve: /tokenize");
    check_answer(s, "/detokenize", "{\"tokens\":[40,409,79,503]}", 200, "\"Hello there\"",
                 "serve: /detokenize");
    check_answer(s, COMPLETE, "{\"prompt\":\"First Citizen:\",\"max_tokens\":5,\"temperature\":0}",
                 200, "\"finish_reason\":\"length\"", "serve: a completion");
    check_answer(s, COMPLETE,
                 "{\"prompt\":[[40,409]],\"max_tokens\":0,\"echo\":true,\"logprobs\":1}", 200,
                 "\"token_logprobs\":[null,-", "serve: a prompt is scored");
    check_answer(s, COMPLETE,
                 "{\"prompt\":\"First Citizen:\",\"max_tokens\":50,\"stop\":[\"sir\"],"
                 "\"temperature\":0}",
                 200, "\"finish_reason\":\"stop\"", "serve: a stop string ends a text");
    check_answer(s, "/v1/embeddings", "{\"input\":[\"a\",\"b c d\"]}", 200, "\"index\":1",
                 "serve: embeddings");
    check_answer(s, "/apply-template", "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}",
                 200, "{\"prompt\":\"", "serve: /apply-template");
    check_answer(s, "/v1/chat/completions",
                 "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"max_tokens\":4,"
                 "\"logprobs\":true,\"top_logprobs\":2}",
                 200, "\"top_logprobs\":[{\"token\":", "serve: a chat completion");
    check_answer(s, "/v1/chat/completions",
                 "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"max_tokens\":4,"
                 "\"stream\":true}",
                 200, "data: [DONE]", "serve: a chat stream");
    check_answer(
        s, "/apply-template",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"Who?\"},"
        "{\"role\":\"assistant\",\"content\":\"The Ki\"}],\"continue_final_message\":true}",
        200, "The Ki\"}", "serve: a message is continued");
}

/* ---- errors ---------------------------------------------------------------------------------- */

static const struct {
    const char *request;
    int status;
    const char *says;
} errors[] = {
    { "GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n", 404, "no such path" },
    { "GET /v1/models/other HTTP/1.1\r\nHost: localhost\r\n\r\n", 404, "no such path" },
    { "GET /v1/completions HTTP/1.1\r\nHost: localhost\r\n\r\n", 405, "Allow: POST" },
    { "DELETE /health HTTP/1.1\r\nHost: localhost\r\n\r\n", 405, "Allow: GET" },
    { "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}", 415,
      "found nothing; expected application/json" },
    { "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/jsonx\r\n"
      "Content-Length: 2\r\n\r\n{}",
      415, "application/jsonx" },
    { "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
      415, "gzip" },
    { "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Length: 4194305\r\n\r\n",
      413, "expected at most 4194304" },
    { "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
      400, "" },
    { "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
      400, "" },
    { "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Transfer-Encoding: gzip\r\n\r\n",
      400, "" },
    { "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json; "
      "charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n",
      400, "prompt: missing" },
    { "GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403, "evil.example" },
    { "GET /health HTTP/1.1\r\nHost: localhost.evil.example\r\n\r\n", 403, "evil.example" },
    { "GET /health HTTP/1.1\r\nHost: 127.0.0.1:99\r\n\r\n", 200, "ok" },
    { "GET /health HTTP/1.1\r\nHost: [::1]\r\n\r\n", 200, "ok" },
    { "GET /health HTTP/1.1\r\nHost: a\r\nHost: localhost\r\n\r\n", 400, "" },
    { "GET /health HTTP/1.1\r\n\r\n", 400, "" },
    { "GET /health?x=1 HTTP/1.1\r\nHost: localhost\r\nx-request-id: abc-1.2_Z\r\n\r\n", 200,
      "x-request-id: abc-1.2_Z\r\n" },
    { "nonsense\r\n\r\n", 400, "" },
};

static void raw_errors(const child *s)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        bool closed;
        const int fd = dial(s);
        put(fd, errors[i].request, strlen(errors[i].request));
        char *answer = take_all(fd, 10, &closed);
        const int status = status_of(answer);
        check((status == errors[i].status || (errors[i].status == 400 && closed)) &&
                  strstr(answer, errors[i].says),
              "serve: a request is refused by name", "%.200s: %d, expected %d %s: %s",
              errors[i].request, status, errors[i].status, errors[i].says, answer);
        free(answer);
        close(fd);
    }
}

static void body_errors(const child *s)
{
    check_answer(s, COMPLETE, "{\"prompt\":\"a\",\"tools\":[]}", 400, "unknown_parameter",
                 "serve: an unknown field is refused");
    check_answer(s, COMPLETE, "{\"prompt\":\"a\",\"model\":\"other\"}", 404, "model_not_found",
                 "serve: another model is not found");
    check_answer(s, COMPLETE, "{\"prompt\":[[1024]]}", 400, "expected one below 1024",
                 "serve: a token that the model does not have");
    check_answer(s, COMPLETE, "{\"prompt\":\"\"}", 400, "no tokens", "serve: an empty prompt");
    check_answer(s, COMPLETE, "{\"prompt\":\"a\",\"logit_bias\":{\"1024\":1}}", 400,
                 "\"param\":\"logit_bias\"",
                 "serve: a bias of a token that the model does not have");
    check_answer(s, COMPLETE, "{\"prompt\":\"a\",\"stop_token_ids\":[3,1024]}", 400,
                 "stop_token_ids: found token id 1024; expected one below 1024",
                 "serve: a stop at a token that the model does not have");
    check_answer(s, "/detokenize", "{\"tokens\":[1024]}", 400, "\"param\":\"tokens\"",
                 "serve: no text of a token that the model does not have");
    check_answer(s, "/v1/embeddings", "{\"input\":[1024]}", 400, "\"param\":\"input\"",
                 "serve: no vector of a token that the model does not have");
    check_answer(s, "/v1/embeddings", "{\"input\":\"a\",\"dimensions\":3}", 400,
                 "expected 128, which", "serve: other dimensions");
    char *body = malloc(20000), *to = body;
    must(body, "serve: memory", NULL);
    to += sprintf(to, "{\"prompt\":[[1");
    for (int i = 1; i < 256; i++)
        to += sprintf(to, ",%d", i);
    strcpy(to, "]]}");
    check_answer(s, COMPLETE, body, 400, "has 256 tokens; expected at most 255",
                 "serve: a prompt that is too long is refused with both counts");
    strcpy(to, "]],\"max_tokens\":0}");
    check_answer(s, COMPLETE, body, 200, "\"prompt_tokens\":256",
                 "serve: a prompt may fill the context if nothing is generated");
    free(body);
}

/* A body cut at every byte: the client hangs up, and nothing is left. */
static void cut_bodies(const child *s)
{
    const char body[] = "{\"prompt\":\"First Citizen:\",\"max_tokens\":2}";
    for (size_t n = 0; n < sizeof body - 1; n++) {
        char text[512];
        const int fd = dial(s);
        const int length = snprintf(text, sizeof text,
                                    "POST " COMPLETE
                                    " HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                                    "application/json\r\nContent-Length: %zu\r\n\r\n%.*s",
                                    sizeof body - 1, (int)n, body);
        put(fd, text, (size_t)length);
        close(fd);
    }
    check(metric_becomes(s, "weft_http_connections", 1, 10), "serve: bodies cut at every byte",
          "%g connections are left", metric(s, "weft_http_connections"));
}

/* ---- the same text ----------------------------------------------------------------------------- */

#define N_CLIENT 16
#define ROUNDS   (SANITIZED ? 3 : 12)

static char *alone[N_CLIENT];

static void body_of_client(int i, bool stream, char *to, size_t size)
{
    static const char *const prompts[] = { "First Citizen:", "ROMEO:\\nO", "What, ho!", "KING" };
    snprintf(to, size,
             "{\"prompt\":\"%s %d\",\"max_tokens\":%d,\"temperature\":%g,\"seed\":%d,\"stream\":%s,"
             "\"ignore_eos\":true}",
             prompts[i % 4], i / 4, 20 + 5 * i, i % 3 ? 0.8 : 0.0, i, stream ? "true" : "false");
}

typedef struct asker {
    const child *server;
    int index, n_wrong;
} asker;

static void *ask_often(void *ud)
{
    asker *a = ud;
    for (int r = 0; r < ROUNDS; r++) {
        char body[512];
        const int i = (a->index + r) % N_CLIENT;
        body_of_client(i, (r + a->index) % 2, body, sizeof body);
        char *answer = post(a->server, COMPLETE, body), *text = text_of(answer);
        a->n_wrong += status_of(answer) != 200 || strcmp(text, alone[i]) != 0;
        free(text);
        free(answer);
    }
    return NULL;
}

/* Many prompts in one request: each text is the one of its prompt alone, with the same seed. */
static void many_prompts(const child *s)
{
    char body[4096], *to = body + sprintf(body, "{\"max_tokens\":12,\"seed\":5,\"prompt\":[");
    char all[16384] = "";
    for (int i = 0; i < 100; i++) {
        char one[128];
        to += sprintf(to, "%s\"ROMEO: %d\"", i ? "," : "", i % 7);
        snprintf(one, sizeof one, "{\"max_tokens\":12,\"seed\":5,\"prompt\":\"ROMEO: %d\"}", i % 7);
        char *answer = post(s, COMPLETE, one), *text = text_of(answer);
        strncat(all, text, sizeof all - strlen(all) - 1);
        free(text);
        free(answer);
    }
    strcpy(to, "]}");
    char *answer = post(s, COMPLETE, body), *text = text_of(answer);
    check(status_of(answer) == 200 && strcmp(text, all) == 0 && strlen(all) > 1000,
          "serve: a hundred prompts in one request are as alone", "%s\n%s\n%s", answer, text, all);
    free(text);
    free(answer);
}

/* The log goes to a pipe that nobody empties meanwhile. */
static void unread_log(const child *s)
{
    int n_good = 0;
    for (int i = 0; i < 600; i++) {
        char *answer = ask(s, "/health", "", NULL);
        n_good += status_of(answer) == 200;
        free(answer);
    }
    const double lost = metric(s, "weft_log_lost_total");
    check(n_good == 600 && lost > 0, "serve: a log that nobody reads does not stop it",
          "%d of 600 answers, %g lines lost", n_good, lost);
}

static void same_text(const child *s)
{
    pthread_t thread[N_CLIENT];
    asker a[N_CLIENT];
    int n_wrong = 0;
    for (int i = 0; i < N_CLIENT; i++) {
        char body[512];
        body_of_client(i, false, body, sizeof body);
        char *answer = post(s, COMPLETE, body);
        alone[i] = text_of(answer);
        n_wrong += strlen(alone[i]) < 20;
        free(answer);
    }
    for (int i = 0; i < N_CLIENT; i++) {
        a[i] = (asker){ .server = s, .index = i };
        must(pthread_create(&thread[i], NULL, ask_often, &a[i]) == 0, "serve: a thread", NULL);
    }
    for (int i = 0; i < N_CLIENT; i++) {
        pthread_join(thread[i], NULL);
        n_wrong += a[i].n_wrong;
    }
    for (int i = 0; i < N_CLIENT; i++)
        free(alone[i]);
    check(n_wrong == 0, "serve: under load every text is the one it is alone", "%d of %d differ",
          n_wrong, N_CLIENT * ROUNDS);
}

/* ---- keys -------------------------------------------------------------------------------------- */

/* A key has half of the eight places; the other key finds room. */
static void share_of_a_key(const child *s)
{
    enum { N = 6 };
    char body[256];
    const int length = snprintf(body, sizeof body,
                                "{\"prompt\":[\"a\",\"b\",\"c\",\"d\"],\"n\":8,\"max_tokens\":%d,"
                                "\"ignore_eos\":true}",
                                SANITIZED ? 20 : 240);
    char head[512];
    int fd[N], n_refused = 0, n_good = 0;
    const int n = snprintf(head, sizeof head,
                           "POST " COMPLETE " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
                           "secret-of-alice\r\nContent-Type: application/json\r\nContent-Length: "
                           "%d\r\n\r\n",
                           length);
    for (int i = 0; i < N; i++) {
        fd[i] = dial(s);
        put(fd[i], head, (size_t)n);
        put(fd[i], body, (size_t)length);
        pause_for(0.01);
    }
    char *other = ask(s, COMPLETE, "Authorization: Bearer secret-of-none\r\n",
                      "{\"prompt\":\"a\",\"max_tokens\":1}");
    for (int i = 0; i < N; i++) {
        bool closed;
        char *answer = take_all(fd[i], 60, &closed);
        n_refused += status_of(answer) == 429 && strstr(answer, "\r\nRetry-After: ");
        n_good += status_of(answer) == 200;
        free(answer);
        close(fd[i]);
    }
    check(n_good == 4 && n_refused == 2, "serve: a key has half of the places",
          "%d good, %d refused of %d", n_good, n_refused, N);
    check(status_of(other) == 200, "serve: and another key finds room", "%s", other);
    free(other);
}

/* A browser asks without a key whether a page may call the server. */
static void preflight(const child *s)
{
    static const char *const origins[] = { "http://a.example", "http://b.example" };
    for (int i = 0; i < 2; i++) {
        char request[256];
        bool closed;
        const int fd = dial(s);
        const int n = snprintf(request, sizeof request,
                               "OPTIONS " COMPLETE " HTTP/1.1\r\nHost: localhost\r\nOrigin: "
                               "%s\r\nContent-Length: 0\r\n\r\n",
                               origins[i]);
        put(fd, request, (size_t)n);
        char *answer = take_all(fd, 1, &closed);
        const bool allowed = strstr(answer, "Access-Control-Allow-Origin: http://a.example\r\n");
        check(status_of(answer) == 204 && allowed == (i == 0),
              "serve: pages of the origin of --cors may call it, others may not", "%s", answer);
        free(answer);
        close(fd);
    }
}

static void with_keys(const char *directory)
{
    char path[512];
    snprintf(path, sizeof path, "%s/keys", directory);
    FILE *f = fopen(path, "w");
    must(f != NULL, "serve: a file of keys", NULL);
    fputs("# ours\nalice secret-of-alice\nsecret-of-none\n", f);
    fclose(f);
    chmod(path, 0600);
    const char *const args[] = {
        model,    "--api-key-file",   path, "--parallel", "1", "--queue", "7",
        "--cors", "http://a.example", NULL
    };
    child s = server_start(weft, args);
    static const struct {
        const char *path, *header;
        int status;
    } tries[] = {
        { "/v1/models", "", 401 },
        { "/v1/models", "Authorization: Bearer secret-of-alice\r\n", 200 },
        { "/v1/models", "Authorization: bearer secret-of-none\r\n", 200 },
        { "/v1/models", "Authorization: Bearer secret-of-alicf\r\n", 401 },
        { "/v1/models", "Authorization: Bearer secret-of-alic\r\n", 401 },
        { "/v1/models", "Authorization: Bearer secret-of-alicee\r\n", 401 },
        { "/v1/models", "Authorization: Bearer \r\n", 401 },
        { "/v1/models", "Authorization: Basic secret-of-alice\r\n", 401 },
        { "/health", "", 200 },
        { "/metrics", "", 401 },
    };
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        char *answer = ask(&s, tries[i].path, tries[i].header, NULL);
        check(status_of(answer) == tries[i].status, "serve: keys open the door, and nothing else",
              "%s with %s: %d, expected %d", tries[i].path, tries[i].header, status_of(answer),
              tries[i].status);
        free(answer);
    }
    share_of_a_key(&s);
    preflight(&s);
    check(server_stop(&s, SIGTERM, 20) == 0, "serve: with keys it ends well", "it does not");
    unlink(path);
}

/* ---- leaving --------------------------------------------------------------------------------- */

static bool not_ready(const child *s, double seconds)
{
    const double end = now() + seconds;
    int status = 200;
    while (status == 200 && now() < end) {
        char *answer = ask(s, "/ready", "", NULL);
        status = status_of(answer);
        free(answer);
    }
    return status == 503;
}

/* With --drain-delay only /ready changes at first. */
static void leaves(void)
{
    const char *const slow[] = { model, "--drain-delay", "60", "--parallel", "2", NULL };
    const char *const quick[] = { model, "--drain-delay", "0.6", NULL };
    child s = server_start(weft, slow);
    kill(s.pid, SIGTERM);
    check(not_ready(&s, 10), "serve: one that leaves is not ready", "it is");
    char *answer = post(&s, COMPLETE, "{\"prompt\":\"ROMEO:\",\"max_tokens\":4}");
    check(status_of(answer) == 200 && strcasestr(answer, "\r\nConnection: close\r\n"),
          "serve: one that leaves still answers, and closes each connection", "%s", answer);
    check(metric(&s, "weft_ready") == 0, "serve: weft_ready of one that leaves is 0", "%g",
          metric(&s, "weft_ready"));
    free(answer);
    const int fd = begin_ask(&s, COMPLETE,
                             "{\"prompt\":[[40],[41],[42],[43],[44],[45],[46],[47]],\"n\":8,"
                             "\"max_tokens\":240,\"ignore_eos\":true,\"stream\":true}");
    check(take_until(fd, "data: ", 20), "serve: one that leaves begins a stream", "it does not");
    kill(s.pid, SIGTERM);
    check(take_until(fd, "the server was stopped", 20) && server_stop(&s, 0, 20) == 0,
          "serve: a second signal ends it at once", "it does not");
    close(fd);
    s = server_start(weft, quick);
    const double began = now();
    check(server_stop(&s, SIGTERM, 20) == 0 && now() - began >= 0.6,
          "serve: one that leaves ends after --drain-delay", "after %g s", now() - began);
}

/* One request of 7 tokens for 5 new ones: its line, and forwards that draw 5 tokens. */
static void records_steps(const char *directory)
{
    char path[512], line[256];
    snprintf(path, sizeof path, "%s/steps", directory);
    const char *const args[] = { model, "--record-steps", path, "--no-log", NULL };
    child s = server_start(weft, args);
    char *answer = ask(&s, "/v1/completions", "",
                       "{\"prompt\":[3,1,4,1,5,9,2],\"max_tokens\":5,\"ignore_eos\":true}");
    check(status_of(answer) == 200, "serve: a server that records answers", "%d",
          status_of(answer));
    free(answer);
    check(server_stop(&s, SIGTERM, 20) == 0, "serve: a server that records ends well",
          "it does not");
    FILE *f = fopen(path, "r");
    must(f != NULL, "serve: a record of steps", NULL);
    long long rows, n_row = 0, draws, n_draw = 0, tokens, n_request = 0;
    double seconds, before = 0, first = 0;
    int n_step = 0;
    while (fgets(line, sizeof line, f)) {
        if (sscanf(line, "step %lld %lld %*f %*f %lf %lf", &rows, &draws, &seconds, &before) == 4) {
            first = n_step++ == 0 ? before : first;
            n_row += rows;
            n_draw += draws;
            check(seconds > 0 && seconds < 60, "serve: a recorded forward takes time", "%g s",
                  seconds);
        }
        n_request += sscanf(line, "request %lld %lf", &tokens, &seconds) == 2 && tokens == 7;
    }
    fclose(f);
    unlink(path);
    check(n_draw == 5 && n_row == 7 + 4 && n_request == 1,
          "serve: a record has each row, each draw and each request",
          "%lld rows, %lld draws, %lld requests", n_row, n_draw, n_request);
    check(first < 0 && before >= 0, "serve: a record has the time between forwards",
          "%g s before the first, %g s before the last", first, before);
}

int main(int argc, char **argv)
{
    char directory[] = "/tmp/weft-serve-XXXXXX", template[512];
    must(argc == 4 && mkdtemp(directory), "serve WEFT MODEL TEMPLATE", NULL);
    weft = argv[1];
    model = argv[2];
    snprintf(template, sizeof template, "%s", argv[3]);
    const char *const args[] = { model, "--template", template, NULL };
    child s = server_start(weft, args);
    seeds_of_choices(&s);
    answers(&s); /* makes the encoder, too */
    metric_becomes(&s, "weft_http_connections", 1, 10);
    pause_for(0.1); /* until connections of the start are closed */
    const int before = n_descriptor(s.pid);
    raw_errors(&s);
    body_errors(&s);
    cut_bodies(&s);
    same_text(&s);
    many_prompts(&s);
    unread_log(&s);
    check(metric_becomes(&s, "weft_http_connections", 1, 10), "serve: no connection is left", "%g",
          metric(&s, "weft_http_connections"));
    check(descriptors_become(&s, before, 5), "serve: no descriptor is left", "%d, %d before",
          n_descriptor(s.pid), before);
    const int code = server_stop(&s, SIGTERM, 20);
    check(code == 0, "serve: SIGTERM ends it with 0", "%d", code);
    with_keys(directory);
    leaves();
    records_steps(directory);
    rmdir(directory);
    return n_failed > 0;
}
