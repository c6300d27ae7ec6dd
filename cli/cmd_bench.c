/* weft bench - how fast a model reads prompts and generates, on this machine.
 *
 * All tests are measured in turns, several times over, and their medians shown: a machine that gets
 * slower for a while makes all of them slower, and none alone. Prompts are random ids. */
#include "cli.h"
#include "json.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TEST  32
#define MAX_TURN  100
#define MAX_BATCH 256

static load_options load;
static shape_options shape;
static int64_t n_prompt = 512, n_generate = 32, turns = 5;
static const char *depths_text = "0", *batches_text = "4";
static bool json;

static const option options[] = {
    OPTION_MODEL(load),
    { 'p', "prompt", OPT_INT, &n_prompt, "N", 0, "tokens of the prompt that is read (512)" },
    { 'n', "predict", OPT_INT, &n_generate, "N", 0, "tokens that are generated (32)" },
    { 'd', "depth", OPT_TEXT, &depths_text, "N,N,...", 0, "generate behind so many tokens (0)" },
    { 0, "batch", OPT_TEXT, &batches_text, "N,N,...", 0, "so many contexts generate together (4)" },
    { 'r', "turns", OPT_INT, &turns, "N", 0, "times that each is measured (5)" },
    OPTION_THREADS(shape.threads),
    OPTION_KV_TYPE(shape),
    OPTION_RAM_MAX,
    OPTION_NO_MMAP(load.no_mmap),
    OPTION_NO_PACK(load.no_pack),
    OPTION_JSON(json, "print one JSON object"),
    { 0 },
};

static const char examples[] = "  weft bench model.gguf\n"
                               "  weft bench model.gguf --depth 0,1024,4096 --batch 1,4,16\n"
                               "  weft bench model.gguf -p 0 -n 64 --json\n";

static const char about[] =
    "Shown are the median of tokens a second and its range, then how fast generating\n"
    "reads the weights of the model, and which share that is of the rate at which this\n"
    "machine goes through such weights when it does nothing else, measured between the\n"
    "tests. Several contexts that generate together read the weights once for all.\n";

/* ---- the tests ------------------------------------------------------------------------------- */

typedef enum kind { PROMPT, GENERATE, BATCH } kind;
static const char *const kind_names[] = { "prompt", "generate", "batch" };

typedef struct test {
    kind kind;
    int64_t n;             /* tokens of a context that are measured */
    int64_t depth;         /* tokens before them */
    int64_t width;         /* contexts */
    double rate[MAX_TURN]; /* tokens a second, all contexts together */
} test;

typedef struct bench {
    weft_model *model;
    weft_model_info info;
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
    for (const char *s = text; !code;) {
        char *end;
        errno = 0;
        const long long x = strtoll(s, &end, 10);
        if (end == s || (*end && *end != ',') || errno || x < least || x > most)
            return cli_usage(&command_bench, "--%s: \"%s\" is not a list of %lld to %lld", name,
                             text, (long long)least, (long long)most);
        code = add_test(b, k == BATCH ? (test){ BATCH, n_generate, 0, x, { 0 } }
                                      : (test){ GENERATE, n_generate, x, 1, { 0 } });
        s = end + 1;
        if (!*end)
            break;
    }
    return code;
}

static int plan_tests(bench *b)
{
    const command *c = &command_bench;
    if (n_prompt < 0 || n_prompt > INT_MAX)
        return cli_usage(c, "--prompt: %lld is out of range", (long long)n_prompt);
    if (n_generate < 0 || n_generate > INT_MAX)
        return cli_usage(c, "--predict: %lld is out of range", (long long)n_generate);
    if (turns < 1 || turns > MAX_TURN)
        return cli_usage(c, "--turns: %lld is not in 1 to %d", (long long)turns, MAX_TURN);
    int code = n_prompt ? add_test(b, (test){ PROMPT, n_prompt, 0, 1, { 0 } }) : 0;
    if (!code && n_generate)
        code = add_list(b, GENERATE, "depth", depths_text, 0, INT_MAX);
    if (!code && n_generate)
        code = add_list(b, BATCH, "batch", batches_text, 1, MAX_BATCH);
    return code || b->n_test ? code : cli_usage(c, "nothing to measure: --prompt or --predict");
}

/* ---- measuring ------------------------------------------------------------------------------- */

/* One token for each of the first `width` sessions. */
static weft_status step(const bench *b, int64_t width, int64_t at, weft_error *err)
{
    weft_work work[MAX_BATCH];
    for (int64_t i = 0; i < width; i++)
        work[i] = (weft_work){ .session = b->session[i], .ids = b->ids + at, .n = 1 };
    return weft_engine_eval(b->engine, work, (int)width, err);
}

/* All sessions let go of their pages. What goes before is read in pieces, so that Ctrl-C does not
 * wait long. */
static weft_status read_depth(const bench *b, const test *t, weft_error *err)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < b->n_session && status == WEFT_OK; i++)
        status = weft_session_rewind(b->session[i], 0, err);
    for (int64_t at = 0, n; at < t->depth && status == WEFT_OK && !cli_interrupted(); at += n) {
        n = t->depth - at < 256 ? t->depth - at : 256;
        status = weft_session_eval(b->session[0], b->ids + at, n, err);
    }
    return status;
}

static weft_status measure(const bench *b, test *t, int64_t turn, weft_error *err)
{
    weft_status status = read_depth(b, t, err);
    const double start = cli_now();
    if (status == WEFT_OK && t->kind == PROMPT)
        status = weft_session_eval(b->session[0], b->ids, t->n, err);
    for (int64_t i = 0; t->kind != PROMPT && i < t->n && status == WEFT_OK; i++)
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

static void print_text(const bench *b)
{
    char a[32], z[32];
    printf("model    %s, %s parameters, %s\n", b->info.architecture,
           cli_count((double)b->info.n_parameter, a, sizeof a),
           cli_bytes((size_t)b->weights, z, sizeof z));
    printf("machine  %s, weights read at %sB/s\n\n", weft_kernels_name(),
           cli_count(median(b->read_rate), a, sizeof a));
    printf("%-28s %10s %21s %11s %6s\n", "", "tok/s", "range", "weights/s", "share");
    for (const test *t = b->test; t < b->test + b->n_test; t++) {
        char what[64], range[32];
        if (t->kind == PROMPT)
            snprintf(what, sizeof what, "prompt of %lld", (long long)t->n);
        else if (t->kind == BATCH)
            snprintf(what, sizeof what, "generate, %lld context%s", (long long)t->width,
                     t->width == 1 ? "" : "s");
        else if (t->depth == 0)
            snprintf(what, sizeof what, "generate");
        else
            snprintf(what, sizeof what, "generate behind %lld", (long long)t->depth);
        snprintf(range, sizeof range, "%.1f to %.1f", t->rate[0], t->rate[turns - 1]);
        printf("%-28s %10.1f %21s", what, median(t->rate), range);
        if (t->kind != PROMPT)
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
    if (t->kind != PROMPT) {
        cli_json_real("bytes_per_second", weight_rate(b, t), 4);
        cli_json_real("share", weight_rate(b, t) / median(b->read_rate), 4);
    }
    cli_json_list("turns");
    for (int64_t i = 0; i < turns; i++)
        cli_json_real(NULL, t->rate[i], 6);
    cli_json_end();
    cli_json_end();
}

static void print_json(const bench *b)
{
    cli_json_object(NULL);
    cli_json_string("architecture", b->info.architecture);
    cli_json_int("n_parameter", b->info.n_parameter);
    cli_json_fixed("weight_bytes", b->weights, 0);
    cli_json_string("kernels", weft_kernels_name());
    cli_json_real("bytes_per_second", median(b->read_rate), 4);
    cli_json_list("tests");
    for (const test *t = b->test; t < b->test + b->n_test; t++)
        json_test(b, t);
    cli_json_end();
    cli_json_end();
}

/* ---- the command ----------------------------------------------------------------------------- */

/* The same ids each time: what random text is made of has no bearing on speed. */
static bool make_ids(bench *b)
{
    uint64_t x = 1;
    b->ids = cli_alloc((size_t)b->n_id, sizeof *b->ids, "ids");
    for (int64_t i = 0; b->ids && i < b->n_id; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        b->ids[i] = (int32_t)((x >> 33) % (uint64_t)b->info.n_vocab);
    }
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

static int run_bench(bench *b, weft_engine_options *o)
{
    weft_error err = { 0 };
    o->n_session = b->n_session;
    o->n_ctx = b->n_id;
    o->n_cache = b->n_cache;
    b->model = cli_open(&load, &err);
    if (!b->model)
        return cli_fail(&err);
    weft_model_get_info(b->model, &b->info);
    if (!cli_weight_bytes(b->model, &b->weights) || !open_sessions(b, o, &err) || !make_ids(b))
        return err.code ? cli_fail(&err) : cli_no_memory();
    const int code = measure_all(b, o);
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
        code = plan_tests(b);
    cli_catch_interrupt();
    if (!code)
        code = run_bench(b, &o);
    for (int i = 0; b->session && i < b->n_session; i++)
        weft_session_free(b->session[i]);
    cli_free(b->session);
    cli_free(b->ids);
    weft_engine_free(b->engine);
    weft_model_close(b->model);
    cli_free(b);
    return code;
}

const command command_bench = {
    .name = "bench",
    .arguments = "MODEL",
    .summary = "measure how fast a model reads and generates",
    .examples = examples,
    .about = about,
    .options = options,
    .n_positional = 1,
    .positional = &load.path,
    .main = bench_main,
};
