/* serve_lora.c - adapters that are loaded and unloaded under load: clients ask the model and four
 * adapters that stay, while SIGHUP brings new versions of a fifth, takes it away while its streams
 * run, loads others again, and finds lists that are wrong. No request fails, and each answer is the
 * one that the same server gives alone.
 *
 *     host_serve_lora WEFT MODEL TEMPLATE [ROUNDS]
 *
 * MODEL is a Llama of two layers, whose widths are below. The adapters are written here. */
#include "serve_client.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

enum { D = 32, F = 64, N_LAYER = 2 }; /* widths of tests/golden/chat/chat.gguf */
enum { N_CLIENT = 8, N_PROMPT = 6, N_STREAM = 4 };

/* Names that stay, and the two versions of "x", which comes and goes. NULL: the model. */
static const char *const names[] = { NULL, "a", "b", "c", "w", "x0", "x1" };
enum { N_STAY = 5, X = N_STAY, N_NAME = 7 };

typedef struct common {
    char directory[64], list[128], *template;
    const char *weft, *model;
    child server;
    char *alone[N_NAME][N_PROMPT];
    pthread_mutex_t lock;
    bool stop;
    int n_same[N_NAME], n_wrong;
    char first[600]; /* the first wrong answer */
} common;

/* ---- adapters -------------------------------------------------------------------------------- */

/* A tensor of a safetensors file. */
typedef struct part {
    char name[128];
    int rows, cols;
} part;

static int list_parts(part *to, int rank, bool whole)
{
    static const struct {
        const char *module;
        int in, out;
    } of[] = { { "self_attn.q_proj", D, D },
               { "self_attn.v_proj", D, D },
               { "mlp.down_proj", F, D } };
    int n = 0;
    for (int l = 0; l < N_LAYER; l++)
        for (int i = 0; i < 3; i++) {
            part *p = &to[n];
            snprintf(p[0].name, sizeof p->name, "base_model.model.model.layers.%d.%s.lora_A.weight",
                     l, of[i].module);
            snprintf(p[1].name, sizeof p->name, "base_model.model.model.layers.%d.%s.lora_B.weight",
                     l, of[i].module);
            p[0].rows = p[1].cols = rank;
            p[0].cols = of[i].in;
            p[1].rows = of[i].out;
            n += 2;
        }
    if (whole)
        to[n++] = (part){ "base_model.model.model.norm.weight", D, 0 };
    return n;
}

static float number(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (float)(*state >> 40) / (float)(1 << 23) - 1;
}

/* Writes a file beside its place and renames it, as a careful program does. */
static void put_file(const char *path, const char *head, size_t n_head, const float *data, size_t n)
{
    char other[600];
    snprintf(other, sizeof other, "%s.new", path);
    FILE *f = fopen(other, "w");
    must(f && fwrite(head, 1, n_head, f) == n_head &&
             (n == 0 || fwrite(data, sizeof *data, n, f) == n) && fclose(f) == 0 &&
             rename(other, path) == 0,
         "a file of an adapter", NULL);
}

static void write_adapter(const common *k, const char *name, uint64_t seed, int rank, bool whole)
{
    static part parts[32];
    static float data[65536];
    char path[600], head[16384];
    const int n_part = list_parts(parts, rank, whole);
    size_t n = 8, at = 0;
    snprintf(path, sizeof path, "%s/%s", k->directory, name);
    mkdir(path, 0700);
    for (int i = 0; i < n_part; i++) {
        const part *p = &parts[i];
        const size_t size = (size_t)p->rows * (size_t)(p->cols ? p->cols : 1);
        n += (size_t)sprintf(head + n, "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%d", i ? "," : "{",
                             p->name, p->rows);
        n += (size_t)(p->cols ? sprintf(head + n, ",%d", p->cols) : 0);
        n += (size_t)sprintf(head + n, "],\"data_offsets\":[%zu,%zu]}", 4 * at, 4 * (at + size));
        for (size_t j = 0; j < size; j++)
            data[at++] = number(&seed);
    }
    n += (size_t)sprintf(head + n, "}");
    const uint64_t length = n - 8;
    memcpy(head, &length, 8);
    snprintf(path, sizeof path, "%s/%s/adapter_model.safetensors", k->directory, name);
    put_file(path, head, n, data, at);
    n = (size_t)sprintf(head,
                        "{\"peft_type\":\"LORA\",\"r\":%d,\"lora_alpha\":%d,\"target_modules\":["
                        "\"q_proj\",\"v_proj\",\"down_proj\"]%s}",
                        rank, rank, whole ? ",\"modules_to_save\":[\"norm\"]" : "");
    snprintf(path, sizeof path, "%s/%s/adapter_config.json", k->directory, name);
    put_file(path, head, n, data, 0);
}

/* Of "x": the version that x0 or x1 has, too. */
static void write_version(const common *k, const char *name, int version)
{
    write_adapter(k, name, version ? 77 : 66, 4, false);
}

static void write_adapters(const common *k)
{
    write_adapter(k, "a", 1, 2, false);
    write_adapter(k, "b", 2, 8, false);
    write_adapter(k, "c", 3, 3, false);
    write_adapter(k, "w", 4, 2, true);
    write_version(k, "x0", 0);
    write_version(k, "x1", 1);
    write_adapter(k, "large", 5, 80, false);
}

/* The list of those that stay, and `more`. */
static void write_list(const common *k, const char *more)
{
    char text[2048];
    const char *d = k->directory;
    const int n = snprintf(text, sizeof text,
                           "# adapters\n\na=%s/a\nb=%s/b\n  c=%s/c:0.5  \nw=%s/w\n%s", d, d, d, d,
                           more);
    put_file(k->list, text, (size_t)n, NULL, 0);
}

/* ---- requests -------------------------------------------------------------------------------- */

static const char *path_of(int prompt)
{
    return prompt % 3 == 2 ? "/v1/chat/completions" : "/v1/completions";
}

/* Prompts of two pages and more that begin alike, so that requests find pages of others. */
static void make_body(char *to, size_t room, const char *model, int prompt)
{
    static const char words[] = "the king shall speak no more of this good night my lord and thou "
                                "shall hear the queen";
    const bool chat = prompt % 3 == 2;
    size_t n = 0;
    n += (size_t)snprintf(to + n, room - n,
                          chat ? "{\"messages\":[{\"role\":\"user\",\"content\":\"%s %s %d\"}]"
                               : "{\"prompt\":\"%s %s %d\"",
                          words, words, prompt / 2);
    if (model)
        n += (size_t)snprintf(to + n, room - n, ",\"model\":\"%s\"", model);
    n += (size_t)snprintf(to + n, room - n, ",\"max_tokens\":%d,\"ignore_eos\":true",
                          SANITIZED ? 16 : 24 + 20 * prompt);
    n += (size_t)snprintf(to + n, room - n,
                          prompt % 2 ? ",\"temperature\":0" : ",\"temperature\":1,\"seed\":5");
    n += (size_t)snprintf(to + n, room - n,
                          chat ? ",\"logprobs\":true,\"top_logprobs\":2" : ",\"logprobs\":2");
    snprintf(to + n, room - n, prompt % 2 ? "}" : ",\"stream\":true}");
}

static char *ask_name(const common *k, const char *model, int prompt)
{
    char body[2048];
    make_body(body, sizeof body, model, prompt);
    return ask(&k->server, path_of(prompt), "", body);
}

static void compare(common *k, int name, int prompt, const char *answer)
{
    char *found = choices_of(answer);
    pthread_mutex_lock(&k->lock);
    if (found && strcmp(found, k->alone[name][prompt]) == 0)
        k->n_same[name]++;
    else if (k->n_wrong++ == 0)
        snprintf(k->first, sizeof k->first, "%s, prompt %d: %.220s; alone %.220s",
                 names[name] ? names[name] : "the model", prompt, found ? found : answer,
                 k->alone[name][prompt]);
    pthread_mutex_unlock(&k->lock);
    free(found);
}

/* Asks for names that stay, plain and with the model's, until the test stops it. */
static void *client_main(void *ud)
{
    common *k = ud;
    static atomic_uint_least64_t serial = 1;
    uint64_t r = 7919u * serial++;
    for (bool stop = false; !stop;) {
        r = r * 6364136223846793005u + 1442695040888963407u;
        const int name = (int)(r >> 33) % N_STAY, prompt = (int)(r >> 40) % N_PROMPT;
        char full[64] = "chat:";
        strcat(full, names[name] ? names[name] : "");
        char *answer = ask_name(k, !names[name] ? NULL : r & 1 << 20 ? full : names[name], prompt);
        compare(k, name, prompt, answer);
        free(answer);
        pthread_mutex_lock(&k->lock);
        stop = k->stop;
        pthread_mutex_unlock(&k->lock);
    }
    return NULL;
}

static void ask_alone(common *k)
{
    char lora[8][256];
    const char *args[32];
    int n = 0;
    for (int i = 1; i < N_NAME; i++) {
        snprintf(lora[i], sizeof lora[i], "%s=%s/%s%s", names[i], k->directory, names[i],
                 strcmp(names[i], "c") == 0 ? ":0.5" : "");
        args[n++] = "--lora";
        args[n++] = lora[i];
    }
    const char *const rest[] = { "--template", k->template, "--parallel", "1", "-c",
                                 "1024",       "--no-log",  k->model,     NULL };
    memcpy(args + n, rest, sizeof rest);
    k->server = server_start(k->weft, args);
    for (int i = 0; i < N_NAME; i++)
        for (int p = 0; p < N_PROMPT; p++) {
            char *answer = ask_name(k, names[i], p);
            k->alone[i][p] = choices_of(answer);
            check(k->alone[i][p] != NULL, "serve: an adapter alone", "%s", answer);
            must(k->alone[i][p], "an answer", NULL);
            free(answer);
        }
    check(server_stop(&k->server, SIGTERM, 30) == 0, "serve: it ends with adapters", "no");
    int n_equal = 0;
    for (int i = 0; i < N_NAME; i++)
        for (int j = 0; j < i; j++)
            for (int p = 0; p < N_PROMPT; p++)
                n_equal += strcmp(k->alone[i][p], k->alone[j][p]) == 0;
    check(n_equal == 0, "serve: each adapter has an answer of its own", "%d are equal", n_equal);
}

/* ---- reloads --------------------------------------------------------------------------------- */

static bool hang_up_and_wait(const common *k, const char *counter)
{
    const double before = metric(&k->server, counter);
    kill(k->server.pid, SIGHUP);
    return metric_becomes(&k->server, counter, before + 1, 60);
}

static bool reload(const common *k)
{
    return hang_up_and_wait(k, "weft_lora_loads_total");
}

/* Version v of x comes, answers, goes while its streams run, and is not found any more. */
static bool come_and_go(common *k, int v)
{
    char body[2048], line[256];
    int fd[N_STREAM];
    bool good = true;
    write_version(k, "x", v);
    write_adapter(k, "b", 2, 8, false); /* written again, with the same numbers */
    snprintf(line, sizeof line, "x=%s/x\n", k->directory);
    write_list(k, line);
    good = reload(k) && good;
    for (int i = 0; i < N_STREAM; i++) {
        make_body(body, sizeof body, i % 2 ? "x" : "chat:x", 2 * (i % 3));
        fd[i] = begin_ask(&k->server, path_of(2 * (i % 3)), body);
    }
    char *answer = ask_name(k, "x", 1);
    compare(k, X + v, 1, answer);
    free(answer);
    good = metric_becomes(&k->server, "weft_lora_requests_total{model_name=\"chat\",adapter=\"x\"}",
                          N_STREAM + 1, 60) &&
           good; /* all have begun */
    write_list(k, "");
    good = reload(k) && good;
    answer = ask_name(k, "x", 0);
    good = good && status_of(answer) == 404 && strstr(answer, "\"code\":\"model_not_found\"");
    free(answer);
    for (int i = 0; i < N_STREAM; i++) {
        bool closed;
        answer = take_all(fd[i], 60, &closed);
        compare(k, X + v, 2 * (i % 3), answer);
        free(answer);
        close(fd[i]);
    }
    return good;
}

/* Lists that are refused as a whole: the adapters of before stay. */
static bool wrong_list(const common *k, int which)
{
    char line[512];
    const char *d = k->directory;
    static const char *const seconds[][2] = {
        { "z=", "nothing" }, { "large=", "large" }, { "y=", "x1" }, { "z", "x1" }, { "chat=", "x1" }
    };
    const char *const *second = seconds[which % 5];
    snprintf(line, sizeof line, "y=%s/x0\n%s%s/%s\n", d, second[0], d, second[1]);
    write_list(k, line);
    const bool good = hang_up_and_wait(k, "weft_lora_failed_loads_total");
    char *answer = ask_name(k, "y", 0);
    const bool absent = status_of(answer) == 404;
    free(answer);
    return good && absent;
}

static void under_load(common *k, int rounds)
{
    pthread_t client[N_CLIENT];
    int n_good = 0;
    write_list(k, "");
    const char *const args[] = { "--lora-list", k->list,  "--template", k->template,
                                 "--parallel",  "8",      "-c",         "1024",
                                 "--no-log",    k->model, NULL };
    k->server = server_start(k->weft, args);
    for (int i = 0; i < N_CLIENT; i++)
        must(pthread_create(&client[i], NULL, client_main, k) == 0, "a thread", NULL);
    for (int i = 0; i < rounds && n_good == i; i++)
        n_good += come_and_go(k, i % 2) && wrong_list(k, i);
    pthread_mutex_lock(&k->lock);
    k->stop = true;
    pthread_mutex_unlock(&k->lock);
    for (int i = 0; i < N_CLIENT; i++)
        pthread_join(client[i], NULL);
    int n_same = 0, least = k->n_same[0];
    for (int i = 0; i < N_NAME; i++) {
        n_same += k->n_same[i];
        least = k->n_same[i] < least ? k->n_same[i] : least;
    }
    check(n_good == rounds, "serve: SIGHUP loads, unloads and refuses adapters", "%d of %d rounds",
          n_good, rounds);
    check(k->n_wrong == 0 && least > 0,
          "serve: no request fails while adapters come and go, and each answer is its own",
          "%d the same, %d wrong: %s", n_same, k->n_wrong, k->first);
    check(metric_becomes(&k->server, "vllm:kv_cache_usage_perc", 0, 20) &&
              metric(&k->server, "vllm:prefix_cache_hits_total") > 0,
          "serve: no page is left, and pages were shared", "%g in use",
          metric(&k->server, "vllm:kv_cache_usage_perc"));
    printf("%d answers the same over %d loads and %d refused lists; %g tokens from cached pages\n",
           n_same, 2 * rounds, rounds, metric(&k->server, "vllm:prefix_cache_hits_total"));
}

/* ---- what clients see ------------------------------------------------------------------------ */

static void names_of_models(const common *k)
{
    static const struct {
        const char *path, *part;
        int status;
    } tries[] = {
        { "/v1/models", "\"id\":\"chat\",", 200 },
        { "/v1/models", "\"id\":\"chat:c\",", 200 },
        { "/v1/models", "\"parent\":\"chat\"", 200 },
        { "/v1/models", "\"parent\":null", 200 },
        { "/v1/models/chat", "\"id\":\"chat\"", 200 },
        { "/v1/models/chat:a", "\"id\":\"chat:a\"", 200 },
        { "/v1/models/a", "\"id\":\"chat:a\"", 200 },
        { "/v1/models/x", "", 404 },
        { "/v1/models/chat:", "", 404 },
        { "/metrics", "weft_lora_requests_total{model_name=\"chat\",adapter=\"a\"} ", 200 },
    };
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        char *answer = ask(&k->server, tries[i].path, "", NULL);
        check(status_of(answer) == tries[i].status && strstr(answer, tries[i].part),
              "serve: adapters are models", "%s: %s", tries[i].path, answer);
        free(answer);
    }
}

/* Every endpoint that takes a model's name. */
static void all_endpoints(const common *k)
{
    static const struct {
        const char *path, *fields;
    } tries[] = {
        { "/v1/completions", "\"prompt\":\"my lord\",\"max_tokens\":1" },
        { "/v1/chat/completions",
          "\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"max_tokens\":1" },
        { "/v1/responses", "\"input\":\"a\",\"max_output_tokens\":1" },
        { "/v1/messages", "\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"max_tokens\":1" },
        { "/v1/embeddings", "\"input\":\"my lord\"" },
    };
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        char body[256];
        snprintf(body, sizeof body, "{\"model\":\"a\",%s}", tries[i].fields);
        char *with = ask(&k->server, tries[i].path, "", body);
        snprintf(body, sizeof body, "{\"model\":\"none\",%s}", tries[i].fields);
        char *none = ask(&k->server, tries[i].path, "", body);
        check(status_of(with) == 200 && strstr(with, "\"model\":\"chat:a\"") &&
                  status_of(none) == 404,
              "serve: every endpoint takes the name of an adapter", "%s: %s %s", tries[i].path,
              with, none);
        free(with);
        free(none);
    }
    char *base = ask(&k->server, "/v1/embeddings", "", "{\"input\":\"my lord\"}");
    char *with = ask(&k->server, "/v1/embeddings", "", "{\"input\":\"my lord\",\"model\":\"a\"}");
    char *again = ask(&k->server, "/v1/embeddings", "", "{\"input\":\"my lord\"}");
    const char *const at[] = { strstr(base, "\"embedding\":"), strstr(with, "\"embedding\":"),
                               strstr(again, "\"embedding\":") };
    check(at[0] && at[1] && at[2] && strncmp(at[0], at[1], 200) != 0 &&
              strncmp(at[0], at[2], 200) == 0,
          "serve: embeddings with an adapter are others, and those without stay", "%.300s", with);
    free(base);
    free(with);
    free(again);
}

/* ---- what is refused at the start ------------------------------------------------------------- */

/* Of `weft chat`, which only warns. */
static void chat_warns(const common *k, const char *adapter, bool warns)
{
    char command[2048];
    static char text[65536];
    snprintf(command, sizeof command,
             "%s chat '%s' --template '%s' --lora '%s' -p hi -n 4 -c 256 2>&1", k->weft, k->model,
             k->template, adapter);
    FILE *f = popen(command, "r");
    const size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    text[n] = '\0';
    const int code = f ? pclose(f) : -1;
    const bool warned = strstr(text, "warning: ") && strstr(text, "its chat template is not");
    check(code == 0 && warned == warns, "chat: an adapter with another template is a warning", "%s",
          text);
}

/* Does the server end with this sentence? */
static void refused(const common *k, const char *const *args, const char *says)
{
    char command[2048];
    static char text[65536];
    size_t n = (size_t)snprintf(command, sizeof command, "timeout 60 %s serve --port 0", k->weft);
    for (int i = 0; args[i]; i++)
        n += (size_t)snprintf(command + n, sizeof command - n, " '%s'", args[i]);
    snprintf(command + n, sizeof command - n, " 2>&1");
    FILE *f = popen(command, "r");
    n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    text[n] = '\0';
    const int code = f ? pclose(f) : -1;
    check(code != 0 && strstr(text, says), "serve: an adapter that does not fit is refused", "%s",
          text);
}

static void refusals(const common *k)
{
    char lora[256], path[256];
    static const char own[] = "{{ messages[0].content }}";
    write_adapter(k, "t", 9, 2, false);
    snprintf(path, sizeof path, "%s/t/chat_template.jinja", k->directory);
    put_file(path, own, sizeof own - 1, NULL, 0);
    snprintf(lora, sizeof lora, "t=%s/t", k->directory);
    const char *args[] = { k->model, "--template", k->template, "--lora", lora, NULL, NULL, NULL };
    refused(k, args, "its chat template is not the one of the model");
    chat_warns(k, lora + 2, true);
    args[5] = "--lora-any-template";
    child s = server_start(k->weft, args);
    check(server_stop(&s, SIGTERM, 30) == 0, "serve: --lora-any-template serves it", "no");
    args[5] = NULL;
    must(unlink(path) == 0 && symlink(k->template, path) == 0, "the model's template", NULL);
    chat_warns(k, lora + 2, false);
    s = server_start(k->weft, args);
    check(server_stop(&s, SIGTERM, 30) == 0,
          "serve: an adapter with the model's template is served", "no");
    args[5] = "--lora-rank";
    args[6] = "1";
    refused(k, args, "found rank 2; the server was started for ranks up to 1");
    args[5] = NULL;
    snprintf(lora, sizeof lora, "w=%s/w:0.5", k->directory);
    refused(k, args, "expected 0 or 1, as it has gains or whole weights");
    snprintf(lora, sizeof lora, "a b=%s/a", k->directory);
    refused(k, args, "found the name \"a b\"");
    snprintf(lora, sizeof lora, "%s/a", k->directory);
    refused(k, args, "expected NAME=DIR");
}

int main(int argc, char **argv)
{
    static common k = { .lock = PTHREAD_MUTEX_INITIALIZER, .directory = "/tmp/weft-lora-XXXXXX" };
    char command[128];
    must(argc >= 4 && mkdtemp(k.directory), "serve_lora WEFT MODEL TEMPLATE [ROUNDS]", NULL);
    k.weft = argv[1];
    k.model = argv[2];
    k.template = realpath(argv[3], NULL);
    snprintf(k.list, sizeof k.list, "%s/list", k.directory);
    write_adapters(&k);
    ask_alone(&k);
    under_load(&k, argc > 4 ? atoi(argv[4]) : SANITIZED ? 3 : 30);
    names_of_models(&k);
    all_endpoints(&k);
    check(server_stop(&k.server, SIGTERM, 60) == 0, "serve: it ends after adapters came and went",
          "no");
    refusals(&k);
    for (int i = 0; i < N_NAME; i++)
        for (int p = 0; p < N_PROMPT; p++)
            free(k.alone[i][p]);
    free(k.template);
    snprintf(command, sizeof command, "rm -r %s", k.directory);
    return system(command) != 0 || n_failed > 0;
}
