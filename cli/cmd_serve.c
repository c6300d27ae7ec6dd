/* weft serve - models over HTTP, with OpenAI's API. The server is in server/; here are its options
 * and how a model is loaded. docs/SERVE.md describes it. */
#include "cli.h"
#include "load_file.h"
#include "messages.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#ifdef WEFT_SERVE
#include "serve.h"
#endif

static const char *positional[1]; /* MODEL */
static load_options load;
static shape_options shape;
static const char *host = "127.0.0.1", *key_file, *alias, *template_path, *cors, *log_path, *pre,
                  *record_path;
static int64_t port = 8080, parallel = 32, n_queue = 128, n_cache, n_connection = 10000,
               n_per_address = 64;
static double step_ms, drain = 30, drain_delay, header_s, idle_s, stall_s, ping_s, request_s = 3600;
static bool insecure, lenient, share_prefixes, no_log, no_echo, no_page;
static text_list hosts, loras, models, weights;
static const char *lora_list;
static int64_t lora_rank;
static bool lora_any_template;
static const char *sandbox, *admin;
static text_list readable;

static const option options[] = {
    { 'm', "model", OPT_LIST, &models, "PATH", SETTING,
      "also serve PATH, or NAME=PATH; may be repeated" },
    OPTION_HF,
    { 0, "weight", OPT_LIST, &weights, "NAME=X", SETTING | RARE,
      "share of the cores for a model, while others are busy (1)" },
    { 0, "host", OPT_TEXT, &host, "ADDRESS", SETTING, "address to listen on (127.0.0.1)" },
    { 0, "port", OPT_INT, &port, "N", SETTING, "port to listen on; 0: any (8080)" },
    { 0, "api-key-file", OPT_TEXT, &key_file, "FILE", SETTING,
      "file of keys, one per line, mode 0600 (no keys)" },
    { 0, "alias", OPT_TEXT, &alias, "NAME", SETTING | RARE,
      "name of MODEL for clients (its file)" },
    { 0, "parallel", OPT_INT, &parallel, "N", SETTING,
      "requests of a model that run at a time (32)" },
    { 0, "queue", OPT_INT, &n_queue, "N", SETTING | RARE,
      "requests of a model that may wait (128)" },
    { 0, "cache-tokens", OPT_INT, &n_cache, "N", SETTING,
      "tokens of KV cache for all requests (4 contexts)" },
    { 0, "drain", OPT_REAL, &drain, "SECONDS", SETTING | RARE,
      "time for running requests after SIGTERM (30)" },
    { 0, "drain-delay", OPT_REAL, &drain_delay, "SECONDS", SETTING | RARE,
      "after SIGTERM, still accept requests that long (0)" },
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
      "use this chat template for MODEL (its own)" },
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
    { 0, "sandbox", OPT_TEXT, &sandbox, "MODE", SETTING | RARE, "auto, required or off (auto)" },
    { 0, "allow-read", OPT_LIST, &readable, "PATH", SETTING | RARE,
      "the sandbox lets reloads read this, too; may be repeated" },
    { 0, "admin", OPT_TEXT, &admin, "PATH", SETTING | RARE, "Unix socket for admin commands" },
    { 0, "cors", OPT_TEXT, &cors, "ORIGIN", SETTING | RARE,
      "let web pages of ORIGIN call the server" },
    { 0, "no-page", OPT_FLAG, &no_page, NULL, SETTING | RARE, "no page at /" },
    { 0, "log", OPT_TEXT, &log_path, "FILE", SETTING | RARE, "append the access log (stderr)" },
    { 0, "no-log", OPT_FLAG, &no_log, NULL, SETTING | RARE, "no access log" },
    { 0, "record-steps", OPT_TEXT, &record_path, "FILE", RARE,
      "write how long each forward takes, for weft plan serve" },
    { 0, "connections", OPT_INT, &n_connection, "N", SETTING | RARE, "open connections (10000)" },
    { 0, "connections-per-address", OPT_INT, &n_per_address, "N", SETTING | RARE,
      "of one address, loopback excepted; 0: any number (64)" },
    { 0, "header-seconds", OPT_REAL, &header_s, "S", SETTING | RARE,
      "for the head of a request (10)" },
    { 0, "idle-seconds", OPT_REAL, &idle_s, "S", SETTING | RARE, "between requests (15)" },
    { 0, "stall-seconds", OPT_REAL, &stall_s, "S", SETTING | RARE,
      "time a client may go without reading (30)" },
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
                               "  weft serve model.gguf --lora poet=./poet --lora law=./law:0.5\n"
                               "  weft serve chat.gguf -m rank=./reranker -m embed=./minilm\n";

#ifdef WEFT_SERVE

/* ---- loading --------------------------------------------------------------------------------- */

#define MAX_PARALLEL  1024
#define N_CONTEXT     4 /* of the cache, if no number is given */
#define MAX_LORA_RANK 4096

#define MAX_MODELS   64
#define NAME_BYTES   256
#define NAME_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_."

static weft_engine_options engine_options;

/* ---- which models ---------------------------------------------------------------------------- */

static serve_spec specs[MAX_MODELS];
static char names[MAX_MODELS][NAME_BYTES];
static int n_spec;

/* "models/llama.gguf" -> "llama" */
static void name_of(const char *path, char name[NAME_BYTES])
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    size_t from = n;
    while (from > 0 && path[from - 1] != '/')
        from--;
    if (n - from > 5 && strncmp(path + n - 5, ".gguf", 5) == 0)
        n -= 5;
    snprintf(name, NAME_BYTES, "%.*s", (int)(n - from < NAME_BYTES ? n - from : NAME_BYTES - 1),
             path + from);
}

static serve_spec *find_spec(const char *name, size_t n)
{
    for (int i = 0; i < n_spec; i++)
        if (strlen(specs[i].name) == n && memcmp(specs[i].name, name, n) == 0)
            return &specs[i];
    return NULL;
}

/* name: NULL: that of the path. */
static int add_model(const char *name, const char *path)
{
    weft_error err = { 0 };
    serve_spec *s = &specs[n_spec];
    if (n_spec == MAX_MODELS)
        return cli_usage(&command_serve, "more than %d models", MAX_MODELS);
    path = cli_model_path(path, &err);
    if (!path)
        return cli_fail(&err);
    if (name)
        snprintf(names[n_spec], NAME_BYTES, "%s", name);
    else
        name_of(path, names[n_spec]);
    if (find_spec(names[n_spec], strlen(names[n_spec])))
        return cli_usage(&command_serve, "two models are called %s; name them: --model NAME=PATH",
                         names[n_spec]);
    *s = (serve_spec){ .name = names[n_spec], .path = path, .weight = 1 };
    n_spec++;
    return 0;
}

/* "NAME=PATH" or "PATH" */
static int add_listed(const char *given)
{
    char name[NAME_BYTES];
    const size_t n = strspn(given, NAME_LETTERS);
    if (n == 0 || n >= sizeof name || given[n] != '=')
        return add_model(NULL, given);
    if (!given[n + 1])
        return cli_usage(&command_serve, "--model: found %s; expected NAME=PATH", given);
    snprintf(name, sizeof name, "%.*s", (int)n, given);
    return add_model(name, given + n + 1);
}

/* "NAME=X" */
static int weigh(const char *given)
{
    const char *equals = strchr(given, '=');
    serve_spec *s = equals ? find_spec(given, (size_t)(equals - given)) : NULL;
    char *end = NULL;
    const double x = equals ? strtod(equals + 1, &end) : 0;
    if (!equals || end == equals + 1 || *end || !(x >= 0.01 && x <= 100))
        return cli_usage(&command_serve, "--weight: found %s; expected NAME=X, X from 0.01 to 100",
                         given);
    if (!s && weights.flagged)
        return cli_usage(&command_serve, "--weight: found %s; expected the name of a model", given);
    if (s) /* settings may weigh models that the command line has replaced */
        s->weight = x;
    return 0;
}

/* MODEL first, to which --alias, --tokenizer and --template belong; then those of --model. Models of the
 * settings count where the command names none. */
static int read_models(void)
{
    weft_error err = { 0 };
    int code = positional[0] ? add_model(alias, positional[0]) : 0;
    for (int i = 0; i < models.n && !code && (models.flagged || !positional[0]); i++)
        code = i == 0 && !positional[0] && alias ? add_model(alias, models.at[i])
                                                 : add_listed(models.at[i]);
    for (int i = 0; i < weights.n && !code; i++)
        code = weigh(weights.at[i]);
    if (!code && n_spec == 0)
        return cli_which_model(&command_serve);
    if (!code && n_spec > 1 && record_path)
        return cli_usage(&command_serve, "--record-steps: found %d models; expected one", n_spec);
    specs[0].template = template_path;
    if (!code && load.tokenizer)
        specs[0].tokenizer = cli_model_path(load.tokenizer, &err);
    return !code && load.tokenizer && !specs[0].tokenizer ? cli_fail(&err) : code;
}

/* ---- parts of a model ------------------------------------------------------------------------ */

/* The cache of all requests: pages go to those that run, so that it need not hold n_session full
 * contexts. */
static int make_engine(void *ud, serve_model *m, int64_t rank)
{
    (void)ud;
    weft_error err = { 0 };
    weft_memory_plan plan = { .struct_size = sizeof plan };
    weft_engine_options o = engine_options;
    o.all_logits = !no_echo;
    o.n_cache = n_cache;
    o.adapter_rank = rank;
    if (!n_cache && weft_engine_plan(m->model, &o, &plan, &err) == WEFT_OK)
        o.n_cache = N_CONTEXT * plan.n_ctx;
    m->engine = weft_engine_new(m->model, &o, &err);
    return m->engine ? 0 : cli_fail(&err);
}

/* A model without a template is served without chat. */
static int open_template(const serve_spec *spec, serve_model *m)
{
    weft_error err = { 0 };
    m->template = cli_template(spec->path, spec->template, NULL, &err);
    if (!m->template && err.code == WEFT_EUNSUPPORTED && !spec->template)
        fprintf(stderr, "weft: %s: served without chat: %s\n", spec->name, err.message);
    else if (!m->template)
        return cli_fail(&err);
    return 0;
}

/* An encoder-decoder may have one for what it reads, and one for what it writes. */
static bool open_tokenizers(const serve_spec *spec, serve_model *m, weft_error *err)
{
    const char *from = spec->tokenizer ? spec->tokenizer : spec->path;
    const char *how = spec == specs ? pre : NULL;
    if (m->info.images)
        return true;
    const bool two = m->info.n_layer_src > 0;
    if (two)
        m->source = cli_tokenizer_of(from, WEFT_SIDE_SOURCE, how, err);
    if (m->source || !two)
        m->tokenizer = cli_tokenizer_of(from, two ? WEFT_SIDE_TARGET : WEFT_SIDE_ANY, how, err);
    return m->tokenizer;
}

static int load_model(void *ud, const serve_spec *spec, serve_model *m)
{
    weft_error err = { 0 };
    weft_model_info *info = &m->info;
    load_options own = load;
    (void)ud;
    own.path = spec->path;
    *info = (weft_model_info){ .struct_size = sizeof *info };
    m->threads = engine_options.threads;
    m->model = cli_open(&own, &err);
    if (!m->model)
        return cli_fail(&err);
    weft_model_get_info(m->model, info);
    if (!open_tokenizers(spec, m, &err))
        return cli_fail(&err);
    m->generates = info->task == WEFT_TASK_GENERATE && !info->images;
    return m->generates && !m->source ? open_template(spec, m) : 0;
}

/* ---- a record of steps ----------------------------------------------------------------------- */

static FILE *record;

static void record_step(void *ud, const weft_step *s)
{
    (void)ud;
    step_record_write_step(record, s);
}

static void record_request(void *ud, int64_t n_prompt, double seconds)
{
    (void)ud;
    step_record_write_request(record, n_prompt, seconds);
}

static int begin_record(void *ud)
{
    (void)ud;
    record = fopen(record_path, "we");
    if (!record)
        return cli_cannot_write(record_path);
    fprintf(record, "# %s, %d running, batches of %d\n", specs[0].path, engine_options.n_session,
            engine_options.n_batch);
    return 0;
}

/* ---- running --------------------------------------------------------------------------------- */

static bool in_range(int64_t x, int64_t least, int64_t most)
{
    return x >= least && x <= most;
}

/* A forward has a row for each request that runs. */
static int check_batch(void)
{
    weft_engine_options *o = &engine_options;
    o->n_session = (int)parallel;
    if (!o->n_batch)
        o->n_batch = o->n_session > 256 ? o->n_session : 256;
    if (o->n_batch < parallel)
        return cli_usage(&command_serve, "--batch-size: found %d; expected --parallel (%d) or more",
                         o->n_batch, o->n_session);
    return 0;
}

/* What control groups say of processors is read before the sandbox begins. */
static int set_sandbox(serve_sandbox *o)
{
    static const char *const modes[] = { "auto", "required", "off" };
    int mode = 0;
    while (sandbox && mode < 3 && strcmp(sandbox, modes[mode]) != 0)
        mode++;
    if (mode == 3)
        return cli_usage(&command_serve, "--sandbox: found %.40s; expected auto, required or off",
                         sandbox);
    *o = (serve_sandbox){ .mode = (serve_sandbox_mode)mode,
                          .allowed = readable.at,
                          .n_allowed = readable.n };
    if (engine_options.threads == 0)
        engine_options.threads = weft_cpu_count();
    return 0;
}

/* 0: the server's usual number. */
static int check_seconds(void)
{
    static const struct {
        const char *name;
        const double *value;
    } times[] = { { "--step-ms", &step_ms },
                  { "--header-seconds", &header_s },
                  { "--idle-seconds", &idle_s },
                  { "--stall-seconds", &stall_s },
                  { "--ping-seconds", &ping_s } };
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        if (!(*times[i].value >= 0))
            return cli_usage(&command_serve, "%s: found %g; expected 0 or more", times[i].name,
                             *times[i].value);
    return 0;
}

/* What browsers and clients send is compared with these letter by letter: others would match nothing. */
static int check_names(void)
{
    const char *at = cors ? strstr(cors, "://") : NULL;
    if (cors && strcmp(cors, "null") != 0 && (!at || !at[3] || strchr(at + 3, '/')))
        return cli_usage(&command_serve,
                         "--cors: found %.200s; expected an origin, such as https://example.org",
                         cors);
    for (int i = 0; i < hosts.n; i++)
        if (!hosts.at[i][0] || strchr(hosts.at[i], '/'))
            return cli_usage(&command_serve,
                             "--allow-host: found \"%.200s\"; expected a name, such as example.org",
                             hosts.at[i]);
    return 0;
}

static int check_options(void)
{
    const command *c = &command_serve;
    if (!in_range(port, 0, 65535))
        return cli_usage(c, "--port: found %lld; expected 0 to 65535", (long long)port);
    if (!in_range(parallel, 1, MAX_PARALLEL))
        return cli_usage(c, "--parallel: found %lld; expected 1 to %d", (long long)parallel,
                         MAX_PARALLEL);
    if (!in_range(n_queue, 1, 65536))
        return cli_usage(c, "--queue: found %lld; expected 1 to 65536", (long long)n_queue);
    if (n_cache < 0)
        return cli_usage(c, "--cache-tokens: found %lld; expected a number of tokens",
                         (long long)n_cache);
    if (!in_range(n_connection, 1, 1 << 20))
        return cli_usage(c, "--connections: found %lld; expected 1 to %d", (long long)n_connection,
                         1 << 20);
    if (!in_range(n_per_address, 0, 1 << 20))
        return cli_usage(c, "--connections-per-address: found %lld; expected 0 to %d",
                         (long long)n_per_address, 1 << 20);
    if (!in_range(lora_rank, 0, MAX_LORA_RANK))
        return cli_usage(c, "--lora-rank: found %lld; expected 1 to %d", (long long)lora_rank,
                         MAX_LORA_RANK);
    if (!(drain >= 0 && drain <= 86400))
        return cli_usage(c, "--drain: found %g; expected 0 to 86400 seconds", drain);
    if (!(drain_delay >= 0 && drain_delay <= 3600))
        return cli_usage(c, "--drain-delay: found %g; expected 0 to 3600 seconds", drain_delay);
    if (!(request_s > 0))
        return cli_usage(c, "--request-seconds: found %g; expected more than 0", request_s);
    int code = check_seconds();
    code = code ? code : check_names();
    code = code ? code : cli_engine_options(c, &shape, &engine_options);
    return code ? code : check_batch();
}

static int serve_main(void)
{
    serve_options o = { .models = specs,
                        .host = host,
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
                        .drain_delay = drain_delay,
                        .header_seconds = header_s,
                        .idle_seconds = idle_s,
                        .stall_seconds = stall_s,
                        .ping_seconds = ping_s,
                        .request_seconds = request_s,
                        .admin = admin,
                        .no_page = no_page,
                        .lora = { .given = loras.at,
                                  .n_given = loras.n,
                                  .list = lora_list,
                                  .rank = lora_rank,
                                  .any_template = lora_any_template },
                        .load = load_model,
                        .make_engine = make_engine };
    int code = check_options();
    code = code ? code : read_models();
    code = code ? code : set_sandbox(&o.sandbox);
    if (code)
        return code;
    o.n_model = n_spec;
    o.budget = cli_budget();
    o.log = no_log ? NULL : log_path ? fopen(log_path, "ae") : stderr;
    if (!no_log && !o.log)
        return cli_cannot_write(log_path);
    if (record_path)
        o.record = (serve_record){ .begin = begin_record,
                                   .step = record_step,
                                   .taken = record_request };
    sigset_t stops;
    sigemptyset(&stops);
    sigaddset(&stops, SIGTERM);
    sigaddset(&stops, SIGINT);
    sigaddset(&stops, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &stops, NULL);
    signal(SIGPIPE, SIG_IGN);
    code = serve_run(&o);
    if (log_path && o.log)
        fclose(o.log);
    if (record && fclose(record) != 0)
        return cli_cannot_write(record_path);
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
    .summary = "serve models over HTTP with OpenAI's API",
    .examples = examples,
    .about = "SIGTERM or Ctrl-C stops it when running requests have ended, a second one at once.\n"
             "SIGHUP loads models and adapters again whose files have changed.\n",
    .options = options,
    .n_positional = 1,
    .positional = positional,
    .main = serve_main,
};
