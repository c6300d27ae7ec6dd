/* weft bench - speed of prompts, generation, encoding and images on this machine; what a cache
 * saves.
 *
 * Tests are interleaved and repeated, and medians are shown, so that a machine that slows down for
 * a while slows down all of them. Prompts are random ids. */
#include "bench_cache.h"
#include "bench_wholes.h"
#include "json.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TEST  32
#define MAX_TURN  CACHE_TURNS
#define MAX_BATCH 256

static load_options load;
static shape_options shape;
#define UNSAID INT64_MIN /* what fits the model */

static int64_t n_prompt = UNSAID, n_generate = UNSAID, turns = 5;
static const char *depths_text = "0", *batches_text, *cache_text, *lengths_text;
static bool json;

static const option options[] = {
    OPTION_MODEL(load),
    { 'p', "prompt", OPT_INT, &n_prompt, "N", 0,
      "prompt length (512); encoders: text length (128)" },
    { 'n', "predict", OPT_INT, &n_generate, "N", 0, "tokens to generate (32)" },
    { 'd', "depth", OPT_TEXT, &depths_text, "N,N,...", 0,
      "generate after N tokens of context (0)" },
    { 0, "batch", OPT_TEXT, &batches_text, "N,N,...", 0,
      "sequences, texts or images per batch (4; 1,8)" },
    { 0, "cache", OPT_TEXT, &cache_text, "on,off", 0,
      "one more token with the KV cache, without it, or both" },
    { 0, "lengths", OPT_TEXT, &lengths_text, "N,N,...", 0,
      "for --cache: after N tokens (32,64,128,256)" },
    { 'r', "turns", OPT_INT, &turns, "N", 0, "repetitions of each test (5)" },
    OPTION_THREADS(shape.threads),
    OPTION_KV_TYPE(shape),
    OPTION_RAM_MAX,
    OPTION_NO_MMAP(load.no_mmap),
    OPTION_NO_PACK(load.no_pack),
    OPTION_COMPUTE(load),
    OPTION_JSON(json, "print one JSON object"),
    { 0 },
};

static const char examples[] =
    "  weft bench models/shakespeare.gguf\n"
    "  weft bench model.gguf --depth 0,1024,4096 --batch 1,4,16\n"
    "  weft bench model.gguf -p 0 -n 64 --json\n"
    "  weft bench ./all-MiniLM-L6-v2 -p 64 --batch 1,16\n"
    "  weft bench model.gguf --cache on,off --lengths 64,256,1024,4096\n";

static const char about[] =
    "Prints the median and the range of tokens per second. For generation it also prints\n"
    "how fast the weights are read, and that rate as a share of the bandwidth of this\n"
    "machine, which is measured between the tests. Sequences of a batch share one pass\n"
    "over the weights. Encoders are measured in texts per second, vision models in\n"
    "images per second, encoder-decoders by encoding a source and then generating.\n"
    "Default lengths are reduced to the model's context.\n"
    "--cache measures nothing else: the milliseconds and FLOPs of one more token, and of\n"
    "a whole text, with the keys and values of earlier tokens kept, and with all of them\n"
    "computed again.\n";

/* ---- the tests ------------------------------------------------------------------------------- */

typedef enum kind { PROMPT, SOURCE, GENERATE, BATCH, WHOLE } kind;
static const char *const kind_names[] = { "prompt", "source", "generate", "batch", "encode" };

typedef struct test {
    kind kind;
    int64_t n;             /* tokens of a context that are measured */
    int64_t depth;         /* tokens before them */
    int64_t width;         /* contexts, texts, pictures */
    double rate[MAX_TURN]; /* tokens a second, all contexts together; of wholes: how many */
} test;

static bool generates(const test *t)
{
    return t->kind == GENERATE || t->kind == BATCH;
}

typedef struct bench {
    cache_work work; /* of --cache, which measures only this table */
    cache_table table;
    weft_model *model;
    weft_model_info info;
    whole_bench wholes; /* of an encoder, instead of what follows */
    int64_t n_source;   /* tokens of a source; 0: the model reads none */
    weft_engine *engine;
    weft_session **session; /* as many as the widest test has */
    int n_session;
    int32_t *ids; /* as many as the longest test has */
    int64_t n_id;
    int64_t n_cache; /* positions that the hungriest test needs at once, in whole pages */
    test test[MAX_TEST];
    int n_test;
    double read_rate[MAX_TURN]; /* bytes of weights a second */
    double weights;             /* bytes that a forward reads */
} bench;

static int add_test(bench *b, test t)
{
    if (b->n_test == MAX_TEST)
        return cli_usage(&command_bench, "more than %d tests", MAX_TEST);
    b->test[b->n_test++] = t;
    const int64_t length = t.depth + t.n;
    b->n_id = length > b->n_id ? length : b->n_id;
    b->n_session = (int)(t.width > b->n_session ? t.width : b->n_session);
    const int64_t cache = t.width * ((length + 63) / 64 * 64);
    b->n_cache = cache > b->n_cache ? cache : b->n_cache;
    return 0;
}

/* A test for each number of a list. */
static int add_list(bench *b, kind k, const char *name, const char *text, int64_t least,
                    int64_t most)
{
    int code = 0;
    for (const char *rest = text; rest && !code;) {
        int64_t x;
        if (!cli_next_number(&rest, least, most, &x))
            return cli_usage(&command_bench, "--%s: \"%s\" is not a list of %lld to %lld", name,
                             text, (long long)least, (long long)most);
        code = add_test(b, k == WHOLE   ? (test){ WHOLE, n_prompt, 0, x, { 0 } }
                           : k == BATCH ? (test){ BATCH, n_generate, 0, x, { 0 } }
                                        : (test){ GENERATE, n_generate, x, 1, { 0 } });
    }
    return code;
}

static bool out_of_range(int64_t n)
{
    return n != UNSAID && (n < 0 || n > INT_MAX);
}

/* --cache measures what its own two options say. */
static int check_cache(bench *b)
{
    static const char *const others[] = { "prompt", "predict", "depth", "batch" };
    const command *c = &command_bench;
    if (!cache_text)
        return lengths_text ? cli_usage(c, "--lengths: only for --cache; add --cache on,off") : 0;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (option_given(option_named(c, others[i], strlen(others[i]))))
            return cli_usage(c, "--cache measures nothing else: --%s needs a run without it",
                             others[i]);
    return bench_cache_ways(c, cache_text, &b->work);
}

static int check_options(bench *b)
{
    const command *c = &command_bench;
    if (out_of_range(n_prompt))
        return cli_usage(c, "--prompt: %lld is out of range", (long long)n_prompt);
    if (out_of_range(n_generate))
        return cli_usage(c, "--predict: %lld is out of range", (long long)n_generate);
    if (turns < 1 || turns > MAX_TURN)
        return cli_usage(c, "--turns: %lld is not in 1 to %d", (long long)turns, MAX_TURN);
    return n_prompt || n_generate
               ? check_cache(b)
               : cli_usage(c, "nothing to measure: set --prompt or --predict above 0");
}

/* What was given, or the usual, cut to the context. */
static int64_t fitting(const bench *b, int64_t given, int64_t usual)
{
    const int64_t most = b->info.n_ctx;
    return given != UNSAID ? given : usual < most ? usual : most;
}

static int plan_wholes(bench *b)
{
    if (n_prompt == 0)
        return cli_usage(&command_bench, "nothing to measure: --prompt is 0");
    if (b->info.images && n_prompt != UNSAID)
        return cli_usage(&command_bench,
                         "%s takes images, which have no length: --prompt is for text models",
                         load.path);
    n_prompt = b->info.images ? b->info.n_ctx : fitting(b, n_prompt, 128);
    return add_list(b, WHOLE, "batch", batches_text ? batches_text : "1,8", 1, MAX_BATCH);
}

static int plan_tests(bench *b)
{
    if (b->info.task != WEFT_TASK_GENERATE)
        return plan_wholes(b);
    const bool source = b->info.n_layer_src > 0;
    n_prompt = fitting(b, n_prompt, source ? 128 : 512);
    n_generate = fitting(b, n_generate, 32);
    b->n_source = source ? (n_prompt ? n_prompt : 1) : 0;
    int code = n_prompt ? add_test(b, (test){ source ? SOURCE : PROMPT, n_prompt, 0, 1, { 0 } })
                        : 0;
    if (!code && n_generate)
        code = add_list(b, GENERATE, "depth", depths_text, 0, INT_MAX);
    if (!code && n_generate)
        code = add_list(b, BATCH, "batch", batches_text ? batches_text : "4", 1, MAX_BATCH);
    return code;
}

/* ---- measuring ------------------------------------------------------------------------------- */

/* One token for each of the first `width` sessions. */
static weft_status step(const bench *b, int64_t width, int64_t at, weft_error *err)
{
    weft_eval_request work[MAX_BATCH];
    for (int64_t i = 0; i < width; i++)
        work[i] = (weft_eval_request){ .session = b->session[i], .ids = b->ids + at, .n = 1 };
    return weft_engine_eval(b->engine, work, (int)width, err);
}

/* Resets all sessions; encoder-decoders get a source. The context is evaluated in pieces, so that
 * Ctrl-C does not wait long. */
static weft_status read_depth(const bench *b, const test *t, weft_error *err)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < b->n_session && status == WEFT_OK; i++)
        status = weft_session_rewind(b->session[i], 0, err);
    for (int64_t i = 0; b->n_source && generates(t) && i < t->width && status == WEFT_OK; i++)
        status = weft_session_source(b->session[i], b->ids, b->n_source, err);
    for (int64_t at = 0, n; at < t->depth && status == WEFT_OK && !cli_interrupted(); at += n) {
        n = t->depth - at < 256 ? t->depth - at : 256;
        status = weft_session_eval(b->session[0], b->ids + at, n, err);
    }
    return status;
}

static weft_status measure(const bench *b, test *t, int64_t turn, weft_error *err)
{
    if (t->kind == WHOLE)
        return bench_whole(&b->wholes, t->width, &t->rate[turn], err);
    weft_status status = read_depth(b, t, err);
    const double start = cli_now();
    if (status == WEFT_OK && t->kind == SOURCE)
        status = weft_session_source(b->session[0], b->ids, t->n, err);
    if (status == WEFT_OK && t->kind == PROMPT)
        status = weft_session_eval(b->session[0], b->ids, t->n, err);
    for (int64_t i = 0; generates(t) && i < t->n && status == WEFT_OK; i++)
        status = cli_interrupted() ? WEFT_OK : step(b, t->width, t->depth + i, err);
    t->rate[turn] = (double)(t->n * t->width) / (cli_now() - start);
    return status;
}

static int measure_all(bench *b, const weft_engine_options *o)
{
    weft_error err = { 0 };
    cli_progress_begin("bench", "tests");
    weft_status status = WEFT_OK;
    for (int64_t turn = 0; turn < turns && status == WEFT_OK; turn++) {
        weft_speed speed = { .struct_size = sizeof speed };
        if (b->engine)
            status = weft_engine_estimate(b->model, o, &speed, &err);
        b->read_rate[turn] = speed.read_rate;
        for (int i = 0; i < b->n_test && status == WEFT_OK && !cli_interrupted(); i++) {
            cli_progress_set((uint64_t)(turn * b->n_test + i), (uint64_t)(turns * b->n_test));
            status = measure(b, &b->test[i], turn, &err);
        }
    }
    cli_progress_end();
    return cli_interrupted() ? cli_stopped() : status == WEFT_OK ? 0 : cli_fail(&err);
}

/* ---- the result ------------------------------------------------------------------------------ */

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of values that have been sorted. */
static double median(const double *x)
{
    return (x[(turns - 1) / 2] + x[turns / 2]) / 2;
}

static void sort_all(bench *b)
{
    qsort(b->read_rate, (size_t)turns, sizeof *b->read_rate, ascending);
    for (int i = 0; i < b->n_test; i++)
        qsort(b->test[i].rate, (size_t)turns, sizeof *b->test[i].rate, ascending);
}

/* Bytes of weights a second: a forward of all contexts reads them once. */
static double weight_rate(const bench *b, const test *t)
{
    return b->weights * median(t->rate) / (double)t->width;
}

static void name_test(const bench *b, const test *t, char *to, size_t size)
{
    const char *many = t->width == 1 ? "" : "s";
    if (t->kind == PROMPT || t->kind == SOURCE)
        snprintf(to, size, "%s of %lld", kind_names[t->kind], (long long)t->n);
    else if (t->kind == WHOLE && b->info.images)
        snprintf(to, size, "%lld image%s", (long long)t->width, many);
    else if (t->kind == WHOLE)
        snprintf(to, size, "%lld text%s of %lld tokens", (long long)t->width, many,
                 (long long)t->n);
    else if (t->kind == BATCH)
        snprintf(to, size, "generate, %lld context%s", (long long)t->width, many);
    else if (t->depth == 0)
        snprintf(to, size, "generate");
    else
        snprintf(to, size, "generate after %lld", (long long)t->depth);
}

static void print_model(const bench *b)
{
    char a[32], z[32];
    printf("model    %s, %s parameters, %s\n", b->info.architecture,
           cli_count((double)b->info.n_parameter, a, sizeof a),
           cli_bytes((size_t)b->weights, z, sizeof z));
}

static void print_text(const bench *b)
{
    char a[32];
    print_model(b);
    if (b->engine)
        printf("machine  %s, weights read at %sB/s\n\n%-28s %10s %21s %11s %6s\n",
               weft_kernels_name(), cli_count(median(b->read_rate), a, sizeof a), "", "tok/s",
               "range", "weights/s", "share");
    else
        printf("machine  %s\n\n%-28s %10s %21s\n", weft_kernels_name(), "",
               b->info.images ? "images/s" : "texts/s", "range");
    for (const test *t = b->test; t < b->test + b->n_test; t++) {
        char what[64], range[32];
        name_test(b, t, what, sizeof what);
        snprintf(range, sizeof range, "%.1f to %.1f", t->rate[0], t->rate[turns - 1]);
        printf("%-28s %10.1f %21s", what, median(t->rate), range);
        if (generates(t))
            printf(" %9sB %4.0f %%", cli_count(weight_rate(b, t), a, sizeof a),
                   100 * weight_rate(b, t) / median(b->read_rate));
        putchar('\n');
    }
}

static void json_test(const bench *b, const test *t)
{
    cli_json_object(NULL);
    cli_json_string("test", kind_names[t->kind]);
    cli_json_int("n", t->n);
    cli_json_int("depth", t->depth);
    cli_json_int("contexts", t->width);
    cli_json_real("median", median(t->rate), 6);
    if (generates(t)) {
        cli_json_real("bytes_per_second", weight_rate(b, t), 4);
        cli_json_real("share", weight_rate(b, t) / median(b->read_rate), 4);
    }
    cli_json_list("turns");
    for (int64_t i = 0; i < turns; i++)
        cli_json_real(NULL, t->rate[i], 6);
    cli_json_end();
    cli_json_end();
}

static void json_model(const bench *b)
{
    cli_json_string("architecture", b->info.architecture);
    cli_json_int("n_parameter", b->info.n_parameter);
    cli_json_fixed("weight_bytes", b->weights, 0);
    cli_json_string("kernels", weft_kernels_name());
}

static void print_json(const bench *b)
{
    cli_json_object(NULL);
    json_model(b);
    if (b->engine)
        cli_json_real("bytes_per_second", median(b->read_rate), 4);
    cli_json_list("tests");
    for (const test *t = b->test; t < b->test + b->n_test; t++)
        json_test(b, t);
    cli_json_end();
    cli_json_end();
}

/* ---- the command ----------------------------------------------------------------------------- */

static bool make_ids(bench *b)
{
    const bool fewer = b->n_source && b->info.n_vocab_src < b->info.n_vocab;
    b->ids = cli_any_ids(b->n_id, fewer ? b->info.n_vocab_src : b->info.n_vocab);
    return b->ids != NULL;
}

static bool open_sessions(bench *b, const weft_engine_options *o, weft_error *err)
{
    b->engine = weft_engine_new(b->model, o, err);
    b->session = cli_zalloc((size_t)b->n_session, sizeof *b->session, "sessions");
    bool good = b->engine && b->session;
    for (int i = 0; i < b->n_session && good; i++)
        good = (b->session[i] = weft_session_new(b->engine, err)) != NULL;
    return good;
}

/* An encoder, or an engine with its sessions. */
static bool prepare(bench *b, weft_engine_options *o, weft_error *err)
{
    if (!cli_weight_bytes(b->model, &b->weights))
        return false;
    if (b->info.task != WEFT_TASK_GENERATE)
        return bench_whole_begin(&b->wholes, b->model, &b->info, o->threads, n_prompt, b->n_session,
                                 err);
    b->n_id = b->n_source > b->n_id ? b->n_source : b->n_id;
    o->n_session = b->n_session;
    o->n_ctx = b->n_id;
    o->n_cache = b->n_source ? 0 : b->n_cache; /* sources take pages too */
    return open_sessions(b, o, err) && make_ids(b);
}

static int run_cache(bench *b, const weft_engine_options *o)
{
    weft_error err = { 0 };
    const int code = bench_cache_lengths(&command_bench, load.path, &b->info, lengths_text,
                                         &b->work);
    if (code)
        return code;
    b->work.engine = *o;
    b->work.n_turn = (int)turns;
    if (!cli_weight_bytes(b->model, &b->weights))
        return cli_no_memory();
    if (cache_measure(b->model, &b->work, &b->table, &err) != WEFT_OK)
        return cli_interrupted() ? cli_stopped() : cli_fail(&err);
    if (json) {
        cli_json_object(NULL);
        json_model(b);
        bench_cache_json(&b->work, &b->table);
        cli_json_end();
        return 0;
    }
    print_model(b);
    printf("machine  %s\n", weft_kernels_name());
    bench_cache_text(&b->work, &b->table);
    return 0;
}

static int run_bench(bench *b, weft_engine_options *o)
{
    weft_error err = { 0 };
    b->model = cli_open(&load, &err);
    if (!b->model)
        return cli_fail(&err);
    weft_model_get_info(b->model, &b->info);
    if (cache_text)
        return run_cache(b, o);
    int code = plan_tests(b);
    if (code)
        return code;
    if (!prepare(b, o, &err))
        return err.code ? cli_fail(&err) : cli_no_memory();
    code = measure_all(b, o);
    if (code)
        return code;
    sort_all(b);
    (json ? print_json : print_text)(b);
    return 0;
}

static int bench_main(void)
{
    weft_engine_options o;
    if (!load.path)
        return cli_which_model(&command_bench);
    bench *b = cli_zalloc(1, sizeof *b, "measurements");
    if (!b)
        return cli_no_memory();
    b->info.struct_size = sizeof b->info;
    int code = cli_engine_options(&command_bench, &shape, &o);
    if (!code)
        code = check_options(b);
    cli_catch_interrupt();
    if (!code)
        code = run_bench(b, &o);
    for (int i = 0; b->session && i < b->n_session; i++)
        weft_session_free(b->session[i]);
    cli_free(b->session);
    cli_free(b->ids);
    bench_whole_end(&b->wholes);
    weft_engine_free(b->engine);
    weft_model_close(b->model);
    cli_free(b);
    return code;
}

const command command_bench = {
    .name = "bench",
    .arguments = "MODEL",
    .summary = "measure prompt, generation, encoding and image speed",
    .examples = examples,
    .about = about,
    .options = options,
    .n_positional = 1,
    .positional = &load.path,
    .main = bench_main,
};
