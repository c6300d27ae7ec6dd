/* serve_reload.c - a model is loaded again under load: clients ask two models while SIGHUP finds new versions of one of
 * them, then a broken file. No request fails; each answer is one that a version gives alone; a stream that began before a
 * reload ends with the version that it began with, a later request gets the new one; and the old versions are freed.
 *
 *     host_serve_reload WEFT MODEL [ROUNDS] */
#include "serve_client.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

enum { N_CLIENT = 6, N_PROMPT = 4, N_VERSION = 2, N_STREAM = 3 };

static const char *const prompts[N_PROMPT] = { "ROMEO:", "The king", "JULIET: O", "Enter" };

static struct {
    const char *weft;
    child server;
    char *alone[N_VERSION][N_PROMPT],
        *steady[N_PROMPT]; /* of the model that changes, and of the other */
    atomic_bool stop;
    atomic_int n_same, n_wrong, n_of[N_VERSION];
} rig;

static void run(const char *command)
{
    must(system(command) == 0, command, NULL);
}

static void body_of_prompt(char to[300], const char *model, int prompt, bool stream)
{
    snprintf(to, 300,
             "{\"model\":\"%s\",\"prompt\":\"%s\",\"max_tokens\":%d,\"seed\":%d,\"stream\":%s}",
             model, prompts[prompt], stream ? 200 : 24, prompt, stream ? "true" : "false");
}

/* NULL: it failed. */
static char *text_for(const child *s, const char *model, int prompt)
{
    char body[300];
    body_of_prompt(body, model, prompt, false);
    char *answer = ask(s, "/v1/completions", "", body);
    char *text = status_of(answer) == 200 ? text_of(answer) : NULL;
    free(answer);
    return text;
}

/* Written beside its place and renamed, as a careful program does. */
static void become(const char *version)
{
    char command[100];
    snprintf(command, sizeof command, "cp %s new.gguf && mv new.gguf changing.gguf", version);
    run(command);
}

static child start(const char *more)
{
    const char *const args[] = { "-m",        "changing.gguf", "-m", "steady.gguf", "--no-log",
                                 "--no-mmap", "--allow-read",  ".",  more,          NULL };
    return server_start(rig.weft, args);
}

/* ---- clients --------------------------------------------------------------------------------- */

static int version_of(const char *text, int prompt)
{
    for (int v = 0; v < N_VERSION && text; v++)
        if (strcmp(text, rig.alone[v][prompt]) == 0)
            return v;
    return -1;
}

static void *ask_often(void *ud)
{
    const bool steady = (size_t)ud % 3 == 0;
    for (int i = 0; !atomic_load(&rig.stop); i++) {
        const int prompt = (int)((size_t)ud + (size_t)i) % N_PROMPT;
        char *text = text_for(&rig.server, steady ? "steady" : "changing", prompt);
        const int version = steady ? -1 : version_of(text, prompt);
        const bool good = steady ? text && strcmp(text, rig.steady[prompt]) == 0 : version >= 0;
        atomic_fetch_add(good ? &rig.n_same : &rig.n_wrong, 1);
        if (version >= 0)
            atomic_fetch_add(&rig.n_of[version], 1);
        free(text);
    }
    return NULL;
}

/* ---- reloads --------------------------------------------------------------------------------- */

#define LOADS  "weft_model_loads_total{model_name=\"changing\"}"
#define FAILED "weft_model_failed_loads_total{model_name=\"changing\"}"

static bool hang_up_and_wait(const child *s, const char *counter)
{
    const double before = metric(s, counter);
    kill(s->pid, SIGHUP);
    return metric_becomes(s, counter, before + 1, 60);
}

/* Streams that begin with version `from` run while version `to` is loaded. */
static bool change(int from, int to, char *long_text[N_VERSION])
{
    static const char *const files[] = { "first.gguf", "second.gguf" };
    char body[300];
    int fd[N_STREAM];
    bool good = true;
    body_of_prompt(body, "changing", 0, true);
    for (int i = 0; i < N_STREAM; i++) {
        fd[i] = begin_ask(&rig.server, "/v1/completions", body);
        good = take_until(fd[i], "data: ", 60) && good;
    }
    become(files[to]);
    good = hang_up_and_wait(&rig.server, LOADS) && good;
    for (int p = 0; p < N_PROMPT; p++) {
        char *text = text_for(&rig.server, "changing", p);
        good = text && strcmp(text, rig.alone[to][p]) == 0 && good;
        free(text);
    }
    for (int i = 0; i < N_STREAM; i++) {
        bool closed;
        char *rest = take_all(fd[i], 60, &closed), *text = text_of(rest);
        const size_t n = text ? strlen(text) : 0, whole = strlen(long_text[from]);
        good = n > 0 && n <= whole && strcmp(text, long_text[from] + whole - n) == 0 &&
               strstr(rest, "[DONE]") && good;
        free(text);
        free(rest);
        close(fd[i]);
    }
    return good;
}

static bool refuse_broken(int now)
{
    run("head -c 100000 first.gguf >broken && mv broken changing.gguf");
    const bool failed = hang_up_and_wait(&rig.server, FAILED);
    char *text = text_for(&rig.server, "changing", 0);
    const bool stays = text && strcmp(text, rig.alone[now][0]) == 0;
    free(text);
    return failed && stays;
}

/* What each version says alone; of the first prompt also at length. */
static void learn(char *long_text[N_VERSION])
{
    static const char *const files[] = { "first.gguf", "second.gguf" };
    for (int v = 0; v < N_VERSION; v++) {
        char body[300];
        become(files[v]);
        child s = start(NULL);
        for (int p = 0; p < N_PROMPT; p++) {
            rig.alone[v][p] = text_for(&s, "changing", p);
            free(rig.steady[p]);
            rig.steady[p] = text_for(&s, "steady", p);
            must(rig.alone[v][p] && rig.steady[p], "an answer", NULL);
        }
        body_of_prompt(body, "changing", 0, true);
        char *answer = ask(&s, "/v1/completions", "", body);
        long_text[v] = text_of(answer);
        free(answer);
        must(long_text[v] && server_stop(&s, SIGTERM, 20) == 0, "a version alone", NULL);
    }
    for (int p = 0; p < N_PROMPT; p++)
        must(strcmp(rig.alone[0][p], rig.alone[1][p]) != 0, "versions that differ", NULL);
}

static void under_load(int n_round)
{
    char *long_text[N_VERSION];
    pthread_t client[N_CLIENT];
    int n_good = 0, now = 1;
    size_t early = 0;
    learn(long_text);
    rig.server = start(NULL);
    const int descriptors = n_descriptor(rig.server.pid);
    for (size_t i = 0; i < N_CLIENT; i++)
        pthread_create(&client[i], NULL, ask_often, (void *)i);
    for (int round = 0; round < n_round && n_good == round; round++) {
        n_good += change(now, 1 - now, long_text) && refuse_broken(1 - now);
        now = 1 - now;
        if (round == n_round / 2)
            early = resident(rig.server.pid);
    }
    const size_t late = resident(rig.server.pid);
    atomic_store(&rig.stop, true);
    for (int i = 0; i < N_CLIENT; i++)
        pthread_join(client[i], NULL);
    check(n_good == n_round,
          "serve: SIGHUP loads a model anew; what has begun ends with the old one",
          "%d of %d rounds", n_good, n_round);
    check(atomic_load(&rig.n_wrong) == 0 && atomic_load(&rig.n_of[0]) > 0 &&
              atomic_load(&rig.n_of[1]) > 0,
          "serve: no request fails while models are loaded", "%d of %d; versions: %d, %d",
          atomic_load(&rig.n_wrong), atomic_load(&rig.n_wrong) + atomic_load(&rig.n_same),
          atomic_load(&rig.n_of[0]), atomic_load(&rig.n_of[1]));
    check(descriptors_become(&rig.server, descriptors, 10),
          "serve: models that went leave nothing open", "%d descriptors at first, %d now",
          descriptors, n_descriptor(rig.server.pid));
    printf("%d answers over %d loads, versions %d and %d; %zu KiB resident after half of them, %zu "
           "at the end\n",
           atomic_load(&rig.n_same), n_round, atomic_load(&rig.n_of[0]), atomic_load(&rig.n_of[1]),
           early / 1024, late / 1024);
    check(SANITIZED || late < early + early / 4, "serve: models that went leave no memory",
          "%zu KiB, %zu KiB", early / 1024, late / 1024);
    check(server_stop(&rig.server, SIGTERM, 20) == 0, "serve: it ends well after reloads", "no");
    for (int v = 0; v < N_VERSION; v++)
        free(long_text[v]);
}

/* ---- the cap --------------------------------------------------------------------------------- */

/* The least memory with which a server starts holds no second model. */
static void without_room(void)
{
    char cap[32], command[200];
    become("first.gguf");
    int mib = 8;
    for (bool starts = false; !starts && mib < 4096;) {
        mib += 1 + mib / 8;
        snprintf(command, sizeof command,
                 "timeout 2 %s serve changing.gguf --no-mmap --no-log --port 0 --ram-max %dM "
                 "2>&1 | grep -q 'serving changing'",
                 rig.weft, mib);
        starts = system(command) == 0;
    }
    snprintf(cap, sizeof cap, "%dM", mib + mib / 8);
    const char *const args[] = { "changing.gguf", "--no-mmap", "--no-log", "--allow-read", ".",
                                 "--ram-max",     cap,         NULL };
    child s = server_start(rig.weft, args);
    become("second.gguf");
    const bool refused = hang_up_and_wait(&s, FAILED);
    char *text = text_for(&s, "changing", 1);
    check(refused && text && strcmp(text, rig.alone[0][1]) == 0,
          "serve: a model that has no room beside the old one is not loaded", "--ram-max %s: %s",
          cap, text ? text : "no answer");
    free(text);
    check(server_stop(&s, SIGTERM, 20) == 0, "serve: it ends well after a reload that failed",
          "no");
}

int main(int argc, char **argv)
{
    char directory[] = "/tmp/weft-reload-XXXXXX", command[600];
    const int n_round = argc > 3 ? atoi(argv[3]) : getenv("WEFT_TEST_QUICK") ? 2 : 6;
    must(argc >= 3 && mkdtemp(directory) && chdir(directory) == 0, "serve_reload WEFT MODEL", NULL);
    rig.weft = argv[1];
    snprintf(command, sizeof command,
             "cp %s first.gguf && cp first.gguf steady.gguf && %s quantize first.gguf second.gguf "
             "q4_0 >/dev/null 2>&1",
             argv[2], argv[1]);
    run(command);
    under_load(n_round);
    without_room();
    for (int p = 0; p < N_PROMPT; p++) {
        free(rig.alone[0][p]);
        free(rig.alone[1][p]);
        free(rig.steady[p]);
    }
    must(chdir("/") == 0, "leaving", NULL);
    snprintf(command, sizeof command, "rm -rf %s", directory);
    run(command);
    return n_failed > 0;
}
