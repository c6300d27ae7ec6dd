/* weft serve - a model over HTTP, with OpenAI's API. The server is in server/; here are its options
 * and how its model is loaded. docs/SERVE.md describes it. */
#include "cli.h"
#include "messages.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <string.h>

#ifdef WEFT_SERVE
#include "serve.h"
#endif

static const char *positional[1]; /* MODEL */
static load_options load;
static shape_options shape;
static const char *host = "127.0.0.1", *key_file, *alias, *template_path, *cors, *log_path, *pre;
static int64_t port = 8080, parallel, n_queue, n_cache, n_connection, n_per_address = 64;
static double step_ms, drain = 30, header_s, idle_s, stall_s, ping_s, request_s = 3600;
static bool insecure, lenient, share_prefixes, no_log, no_echo;
static text_list hosts, loras;
static const char *lora_list;
static int64_t lora_rank;
static bool lora_any_template;

static const option options[] = {
    OPTION_MODEL(load),
    { 0, "host", OPT_TEXT, &host, "ADDRESS", SETTING, "address to listen on (127.0.0.1)" },
    { 0, "port", OPT_INT, &port, "N", SETTING, "port to listen on; 0: any (8080)" },
    { 0, "api-key-file", OPT_TEXT, &key_file, "FILE", SETTING,
      "file of keys, one per line, mode 0600 (no keys)" },
    { 0, "alias", OPT_TEXT, &alias, "NAME", SETTING, "name of the model for clients (its file)" },
    { 0, "parallel", OPT_INT, &parallel, "N", SETTING, "requests that run at a time (32)" },
    { 0, "queue", OPT_INT, &n_queue, "N", SETTING | RARE, "requests that may wait (128)" },
    { 0, "cache-tokens", OPT_INT, &n_cache, "N", SETTING,
      "tokens of KV cache for all requests (4 contexts)" },
    { 0, "drain", OPT_REAL, &drain, "SECONDS", SETTING,
      "time for running requests after SIGTERM (30)" },
    { 0, "lenient", OPT_FLAG, &lenient, NULL, SETTING | RARE,
      "ignore unknown fields of requests, and list them" },
    { 0, "lora", OPT_LIST, &loras, "NAME=DIR", SETTING,
      "serve an adapter as MODEL:NAME; may be repeated" },
    { 0, "lora-list", OPT_TEXT, &lora_list, "FILE", SETTING | RARE,
      "adapters, a NAME=DIR per line; SIGHUP reads it again" },
    { 0, "lora-rank", OPT_INT, &lora_rank, "N", SETTING | RARE,
      "largest rank of adapters (as at the start; with a list, 64)" },
    { 0, "lora-any-template", OPT_FLAG, &lora_any_template, NULL, SETTING | RARE,
      "serve adapters whose chat template is not the model's" },
    { 0, "template", OPT_TEXT, &template_path, "FILE", RARE,
      "use this chat template (the model's)" },
    { 0, "share-prefixes", OPT_FLAG, &share_prefixes, NULL, SETTING | RARE,
      "all keys share cached prefixes" },
    { 0, "step-ms", OPT_REAL, &step_ms, "MS", SETTING | RARE,
      "target for a step of all requests (200)" },
    { 0, "no-echo", OPT_FLAG, &no_echo, NULL, SETTING | RARE,
      "no log-probabilities of prompts: less memory" },
    { 0, "insecure", OPT_FLAG, &insecure, NULL, RARE,
      "without keys, listen on addresses that others reach" },
    { 0, "allow-host", OPT_LIST, &hosts, "NAME", SETTING | RARE,
      "accept this name in the Host field; may be repeated" },
    { 0, "cors", OPT_TEXT, &cors, "ORIGIN", SETTING | RARE,
      "let web pages of ORIGIN call the server" },
    { 0, "log", OPT_TEXT, &log_path, "FILE", SETTING | RARE, "append the access log (stderr)" },
    { 0, "no-log", OPT_FLAG, &no_log, NULL, SETTING | RARE, "no access log" },
    { 0, "connections", OPT_INT, &n_connection, "N", SETTING | RARE, "open connections (10000)" },
    { 0, "connections-per-address", OPT_INT, &n_per_address, "N", SETTING | RARE,
      "of one address, loopback excepted; 0: any number (64)" },
    { 0, "header-seconds", OPT_REAL, &header_s, "S", SETTING | RARE,
      "for the head of a request (10)" },
    { 0, "idle-seconds", OPT_REAL, &idle_s, "S", SETTING | RARE, "between requests (15)" },
    { 0, "stall-seconds", OPT_REAL, &stall_s, "S", SETTING | RARE,
      "that a client may take no bytes (30)" },
    { 0, "ping-seconds", OPT_REAL, &ping_s, "S", SETTING | RARE,
      "between comments of a silent stream (15)" },
    { 0, "request-seconds", OPT_REAL, &request_s, "S", SETTING | RARE,
      "for the whole of a request (3600)" },
    OPTION_CTX_SIZE(shape),
    OPTION_BATCH_SIZE(shape),
    OPTION_THREADS(shape.threads),
    OPTION_KV_TYPE(shape),
    OPTION_RAM_MAX,
    OPTION_NO_MMAP(load.no_mmap),
    OPTION_NO_PACK(load.no_pack),
    OPTION_COMPUTE(load),
    OPTION_TOKENIZER(load),
    OPTION_PRE(pre),
    { 0 },
};

static const char examples[] = "  weft serve model.gguf --port 8080\n"
                               "  weft serve ./model-directory --api-key-file keys --parallel 64\n"
                               "  weft serve model.gguf --lora poet=./poet --lora law=./law:0.5\n";

#ifdef WEFT_SERVE

/* ---- loading --------------------------------------------------------------------------------- */

#define MAX_PARALLEL  1024
#define N_CONTEXT     4 /* of the cache, if no number is given */
#define MAX_LORA_RANK 4096

static weft_engine_options engine_options;

/* "models/llama.gguf" -> "llama" */
static const char *name_of(const char *path)
{
    static char name[256];
    const char *slash = strrchr(path, '/');
    snprintf(name, sizeof name, "%s", slash && slash[1] ? slash + 1 : path);
    char *dot = strrchr(name, '.');
    if (dot && dot != name && strcmp(dot, ".gguf") == 0)
        *dot = '\0';
    return name;
}

/* The cache of all requests: pages go to those that run, so that it need not hold n_session full
 * contexts. */
static int make_engine(void *ud, serve_model *m, int64_t rank)
{
    (void)ud;
    weft_error err = { 0 };
    weft_memory_plan plan = { .struct_size = sizeof plan };
    engine_options.n_session = (int)(parallel ? parallel : 32);
    engine_options.all_logits = !no_echo;
    engine_options.n_cache = n_cache;
    engine_options.adapter_rank = rank;
    if (!n_cache && weft_engine_plan(m->model, &engine_options, &plan, &err) == WEFT_OK)
        engine_options.n_cache = N_CONTEXT * plan.n_ctx;
    m->engine = weft_engine_new(m->model, &engine_options, &err);
    return m->engine ? 0 : cli_fail(&err);
}

/* A model without a template is served without chat. */
static int open_template(serve_model *m)
{
    weft_error err = { 0 };
    m->template = cli_template(load.path, template_path, NULL, &err);
    if (!m->template && err.code == WEFT_EUNSUPPORTED && !template_path)
        fprintf(stderr, "weft: %s\n", err.message);
    else if (!m->template)
        return cli_fail(&err);
    return 0;
}

/* An encoder-decoder may have one for what it reads, and one for what it writes. */
static bool open_tokenizers(serve_model *m, weft_error *err)
{
    const char *from = load.tokenizer ? load.tokenizer : load.path;
    if (m->info.n_layer_src == 0) {
        m->tokenizer = cli_tokenizer(&load, pre, err);
        return m->tokenizer;
    }
    m->source = cli_tokenizer_of(from, WEFT_SIDE_SOURCE, pre, err);
    m->tokenizer = m->source ? cli_tokenizer_of(from, WEFT_SIDE_TARGET, pre, err) : NULL;
    return m->tokenizer;
}

static int load_model(void *ud, serve_model *m)
{
    weft_error err = { 0 };
    weft_model_info *info = &m->info;
    (void)ud;
    *info = (weft_model_info){ .struct_size = sizeof *info };
    m->name = alias ? alias : name_of(load.path);
    m->threads = engine_options.threads;
    m->model = cli_open(&load, &err);
    if (!m->model)
        return cli_fail(&err);
    weft_model_get_info(m->model, info);
    if (info->images)
        return cli_wrong_task(load.path, info);
    if (!open_tokenizers(m, &err))
        return cli_fail(&err);
    m->generates = info->task == WEFT_TASK_GENERATE;
    const int code = m->generates && !m->source ? open_template(m) : 0;
    if (!code)
        fprintf(stderr, "weft: serving %s\n", m->name);
    return code;
}

/* ---- running --------------------------------------------------------------------------------- */

static bool in_range(int64_t x, int64_t least, int64_t most)
{
    return x >= least && x <= most;
}

static int check_options(void)
{
    const command *c = &command_serve;
    if (!load.path)
        return cli_which_model(c);
    if (!in_range(port, 0, 65535))
        return cli_usage(c, "--port: found %lld; expected 0 to 65535", (long long)port);
    if (!in_range(parallel, 0, MAX_PARALLEL))
        return cli_usage(c, "--parallel: found %lld; expected 1 to %d", (long long)parallel,
                         MAX_PARALLEL);
    if (!in_range(n_queue, 0, 65536))
        return cli_usage(c, "--queue: found %lld; expected 1 to 65536", (long long)n_queue);
    if (n_cache < 0)
        return cli_usage(c, "--cache-tokens: found %lld; expected a number of tokens",
                         (long long)n_cache);
    if (!in_range(n_connection, 0, 1 << 20) || !in_range(n_per_address, 0, 1 << 20))
        return cli_usage(c, "--connections: expected 1 to %d", 1 << 20);
    if (!in_range(lora_rank, 0, MAX_LORA_RANK))
        return cli_usage(c, "--lora-rank: found %lld; expected 1 to %d", (long long)lora_rank,
                         MAX_LORA_RANK);
    if (!(drain >= 0 && drain <= 86400))
        return cli_usage(c, "--drain: found %g; expected 0 to 86400 seconds", drain);
    if (!(request_s > 0))
        return cli_usage(c, "--request-seconds: found %g; expected more than 0", request_s);
    if (!(step_ms >= 0 && header_s >= 0 && idle_s >= 0 && stall_s >= 0 && ping_s >= 0))
        return cli_usage(c, "a negative time; expected seconds, or milliseconds of --step-ms");
    return cli_engine_options(c, &shape, &engine_options);
}

static int serve_main(void)
{
    serve_options o = { .host = host,
                        .port = (int)port,
                        .key_file = key_file,
                        .hosts = hosts.at,
                        .n_host = hosts.n,
                        .cors = cors,
                        .insecure = insecure,
                        .lenient = lenient,
                        .share_prefixes = share_prefixes,
                        .n_running = (int)parallel,
                        .n_waiting = (int)n_queue,
                        .n_connection = (int)n_connection,
                        .n_per_address = (int)n_per_address,
                        .step_ms = step_ms,
                        .drain = drain,
                        .header_seconds = header_s,
                        .idle_seconds = idle_s,
                        .stall_seconds = stall_s,
                        .ping_seconds = ping_s,
                        .request_seconds = request_s,
                        .lora = { .given = loras.at,
                                  .n_given = loras.n,
                                  .list = lora_list,
                                  .rank = lora_rank,
                                  .any_template = lora_any_template },
                        .load = load_model,
                        .make_engine = make_engine };
    load.path = positional[0] ? positional[0] : load.path;
    int code = check_options();
    if (code)
        return code;
    o.budget = cli_budget();
    o.log = no_log ? NULL : log_path ? fopen(log_path, "ae") : stderr;
    if (!no_log && !o.log)
        return cli_cannot_write(log_path);
    sigset_t stops;
    sigemptyset(&stops);
    sigaddset(&stops, SIGTERM);
    sigaddset(&stops, SIGINT);
    if (loras.n || lora_list)
        sigaddset(&stops, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &stops, NULL);
    signal(SIGPIPE, SIG_IGN);
    code = serve_run(&o);
    if (log_path && o.log)
        fclose(o.log);
    return code;
}

#else

static int serve_main(void)
{
    return cli_usage(&command_serve,
                     "this build has no server; install libmicrohttpd and build weft again");
}

#endif

const command command_serve = {
    .name = "serve",
    .arguments = "MODEL",
    .summary = "serve a model over HTTP with OpenAI's API",
    .examples = examples,
    .about = "SIGTERM or Ctrl-C stops it when running requests have ended, a second one at once.\n",
    .options = options,
    .n_positional = 1,
    .positional = positional,
    .main = serve_main,
};
