/* plan_serve.c - weft plan serve: machines, money and waiting for a number of users. The steps of a machine
 * are measured, or read from a record; the rest is the scheduler itself, simulated. */
#include "plan.h"

#include "json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_USERS  16  /* numbers of them */
#define N_SIMULATED 800 /* requests of a simulation */
#define N_TURN      12  /* of the search for a rate */
#define OVERLOAD    1.5 /* of what a machine can do, so that it always has work */

static const char *users_text = "100,1000,10000,100000,1000000", *trace_path, *save_path;
static text_list records;
static double per_hour = 12, cached, share = 0.6, ttft_ms, tpot_ms, price, measure_seconds = 30;
static int64_t n_prompt = 500, n_new = 200, parallel, n_queue, n_cache, n_core;

const option plan_serve_options[] = {
    { 'U', "users", OPT_TEXT, &users_text, "N,N,...", 0,
      "serve: numbers of users (100,1000,10000,100000,1000000)" },
    { 0, "requests", OPT_REAL, &per_hour, "N", 0, "serve: of a user in the busy hour (12)" },
    { 0, "prompt-tokens", OPT_INT, &n_prompt, "N", 0, "serve: tokens of a prompt (500)" },
    { 0, "cached", OPT_REAL, &cached, "SHARE", 0,
      "serve: share of each prompt that is cached (0)" },
    { 0, "new-tokens", OPT_INT, &n_new, "N", 0, "serve: tokens of an answer (200)" },
    { 0, "trace", OPT_TEXT, &trace_path, "FILE", RARE,
      "serve: requests from FILE instead of generated ones" },
    { 0, "load", OPT_REAL, &share, "SHARE", 0, "serve: of what a machine can do (0.6)" },
    { 0, "ttft", OPT_REAL, &ttft_ms, "MS", 0,
      "serve: 99 % have their first token within that (any)" },
    { 0, "tpot", OPT_REAL, &tpot_ms, "MS", 0,
      "serve: and each further one, on average, within that (any)" },
    { 0, "parallel", OPT_INT, &parallel, "N", 0, "serve: --parallel of weft serve (32)" },
    { 0, "queue", OPT_INT, &n_queue, "N", RARE, "serve: --queue of weft serve (128)" },
    { 0, "cache-tokens", OPT_INT, &n_cache, "N", RARE,
      "serve: --cache-tokens of weft serve (4 contexts)" },
    { 0, "cores", OPT_INT, &n_core, "N", 0, "serve: of a machine (those of this one)" },
    { 0, "price", OPT_REAL, &price, "MONEY", 0, "serve: of a core for an hour (not printed)" },
    { 0, "record", OPT_LIST, &records, "FILE", 0,
      "serve: steps of weft serve --record-steps or --save-record; may be repeated" },
    { 0, "save-record", OPT_TEXT, &save_path, "FILE", RARE, "serve: keep what is measured" },
    { 0, "measure", OPT_REAL, &measure_seconds, "SECONDS", RARE,
      "serve: to measure this machine with MODEL (30)" },
    { 0 },
};

typedef struct planning {
    const plan_common *common;
    step_record record;
    load_trace load; /* one request a second, or the trace as it is */
    double rate;     /* of the load as it is */
    double arrive_seconds, token_seconds;
    weft_simulation_options opt;
    weft_load_request *request; /* [load.n] at another rate */
    weft_load_result *result;   /* [load.n] */
    double *sorted;             /* [load.n] */
    weft_memory_plan memory;    /* of a machine; total_bytes 0: no model was given */
    size_t weights;             /* bytes that are mapped from files */
    double most;                /* requests a second that a machine can do */
} planning;

/* What a machine does at some rate of requests. */
typedef struct outcome {
    double rate, refused;    /* share */
    double ttft[2], tpot[2]; /* p50, p99; seconds */
    weft_simulation_info info;
} outcome;

/* ---- a machine ------------------------------------------------------------------------------- */

static void percentiles(planning *p, outcome *to)
{
    const int64_t n = p->load.n;
    int64_t first = 0, further = 0;
    for (int64_t i = 0; i < n; i++)
        if (p->result[i].status == 200)
            p->sorted[first++] = p->result[i].first - p->request[i].at;
    qsort(p->sorted, (size_t)first, sizeof *p->sorted, load_by_value);
    to->refused = 1 - (double)first / (double)n;
    to->ttft[0] = load_percentile(p->sorted, first, 0.5);
    to->ttft[1] = load_percentile(p->sorted, first, 0.99);
    for (int64_t i = 0; i < n; i++) {
        const weft_load_result *r = &p->result[i];
        if (r->status == 200 && r->n_new > 1)
            p->sorted[further++] = (r->last - r->first) / (double)(r->n_new - 1);
    }
    qsort(p->sorted, (size_t)further, sizeof *p->sorted, load_by_value);
    to->tpot[0] = load_percentile(p->sorted, further, 0.5);
    to->tpot[1] = load_percentile(p->sorted, further, 0.99);
}

/* rate 0: all requests at once. */
static weft_status simulate(planning *p, double rate, outcome *to, weft_error *err)
{
    weft_simulation_options o = p->opt;
    *to = (outcome){ .rate = rate, .info = { .struct_size = sizeof to->info } };
    if (cli_interrupted())
        return WEFT_ESTOPPED;
    for (int64_t i = 0; i < p->load.n; i++) {
        p->request[i] = p->load.at[i];
        p->request[i].at *= rate > 0 ? p->rate / rate : 0;
    }
    const weft_status status = weft_simulate(&o, p->request, p->load.n, p->result, &to->info, err);
    if (status == WEFT_OK)
        percentiles(p, to);
    return status;
}

/* Of Ctrl-C nothing is printed. */
static int simulation_failed(const weft_error *err)
{
    return cli_interrupted() ? cli_stopped() : cli_fail(err);
}

static bool is_within(const outcome *o)
{
    return o->refused == 0 && !(ttft_ms > 0 && 1e3 * o->ttft[1] > ttft_ms) &&
           !(tpot_ms > 0 && 1e3 * o->tpot[1] > tpot_ms);
}

/* What a machine can do at most, and the highest rate within the limits: 0 if there is none. */
static weft_status find_rate(planning *p, double *rate, weft_error *err)
{
    outcome o;
    double low = 0, high;
    weft_status status = simulate(p, 0, &o, err);
    if (status != WEFT_OK)
        return status;
    p->most = (1 - o.refused) * (double)p->load.n / o.info.seconds;
    status = simulate(p, OVERLOAD * p->most, &o, err); /* the queue may not hold them all */
    if (status != WEFT_OK)
        return status;
    p->most = (1 - o.refused) * (double)p->load.n / o.info.seconds;
    high = share * p->most;
    status = simulate(p, high, &o, err);
    if (status == WEFT_OK && is_within(&o))
        low = high;
    for (int turn = 0; status == WEFT_OK && turn < N_TURN && low < high; turn++) {
        const double middle = turn == 0 ? 0.01 * high : 0.5 * (low + high);
        status = simulate(p, middle, &o, err);
        *(is_within(&o) ? &low : &high) = middle;
        if (turn == 0 && low == 0)
            break; /* not even an idle machine */
    }
    *rate = low;
    return status;
}

/* ---- what is printed ------------------------------------------------------------------------- */

static void print_constants(const planning *p, const weft_simulation_info *i, double rate)
{
    char text[32];
    printf("steps: %s; %lld recorded, the fit explains %.3f of the variance\n  rows, ms:",
           p->record.about, (long long)p->record.n, i->step_variance);
    for (int k = 0; k < i->n_knot; k++)
        printf(" %.0f %.2f%s", i->knot_rows[k], 1e3 * i->knot_seconds[k],
               k + 1 < i->n_knot ? "," : "");
    printf("; a draw %.3f ms; a position %.2f us in a prompt, %.2f us in an answer\n",
           1e3 * i->draw_seconds, 1e6 * i->prompt_position_seconds, 1e6 * i->new_position_seconds);
    printf("a request, ms: %.3f and %.5f a token before the queue\n", 1e3 * p->arrive_seconds,
           1e3 * p->token_seconds);
    if (trace_path)
        printf("load: %s, %lld requests\n", trace_path, (long long)p->load.n);
    else
        printf("load: %g requests an hour and user, prompts of %lld tokens, %g of them cached, "
               "answers "
               "of %lld; each varies by half\n",
               per_hour, (long long)n_prompt, cached, (long long)n_new);
    printf("a machine: %lld cores, %d at a time; at most %.3f requests/s, %.3f of them used (load "
           "%.2f)\n",
           (long long)n_core, p->opt.n_running, p->most, rate, rate / p->most);
    if (p->memory.total_bytes > 0) {
        printf("  memory: %s", cli_bytes(p->memory.total_bytes, text, sizeof text));
        printf(", of which the cache %s", cli_bytes(p->memory.kv_bytes, text, sizeof text));
        printf("; besides, %s are mapped\n", cli_bytes(p->weights, text, sizeof text));
    }
    printf("\n%9s %10s %9s %9s %10s %12s %9s %9s %9s %9s %10s\n", "users", "requests/s", "machines",
           "cores", "live", "positions", "TTFT p50", "p99 ms", "TPOT p50", "p99 ms", "price/h");
}

static void print_line(const outcome *o, double users, double machines)
{
    const double live = o->info.running + o->info.waiting;
    printf("%9.0f %10.2f %9.0f %9.0f %10.1f %12.0f %9.0f %9.0f %9.1f %9.1f", users,
           users * per_hour / 3600, machines, machines * (double)n_core, machines * live,
           machines * o->info.cached, 1e3 * o->ttft[0], 1e3 * o->ttft[1], 1e3 * o->tpot[0],
           1e3 * o->tpot[1]);
    if (price > 0)
        printf(" %10.2f\n", machines * (double)n_core * price);
    else
        printf(" %10s\n", "-");
}

static void print_json(const planning *p, const outcome *o, double users, double machines)
{
    const weft_simulation_info *i = &o->info;
    cli_json_object(NULL);
    cli_json_real("users", users, 10);
    cli_json_real("requests_per_second", users * per_hour / 3600, 6);
    cli_json_real("machines", machines, 10);
    cli_json_real("cores", machines * (double)n_core, 10);
    cli_json_real("price_per_hour", machines * (double)n_core * price, 6);
    cli_json_real("live", machines * (i->running + i->waiting), 6);
    cli_json_real("cached_positions", machines * i->cached, 6);
    cli_json_int("most_cached_positions", i->most_cached);
    cli_json_real("refused", o->refused, 6);
    cli_json_real("busy", i->busy_seconds / i->seconds, 6);
    cli_json_real("ttft_p50_ms", 1e3 * o->ttft[0], 6);
    cli_json_real("ttft_p99_ms", 1e3 * o->ttft[1], 6);
    cli_json_real("tpot_p50_ms", 1e3 * o->tpot[0], 6);
    cli_json_real("tpot_p99_ms", 1e3 * o->tpot[1], 6);
    cli_json_object("machine");
    cli_json_int("cores", n_core);
    cli_json_real("most_requests_per_second", p->most, 6);
    cli_json_real("requests_per_second", o->rate, 6);
    cli_json_int("mapped_bytes", (int64_t)p->weights);
    cli_json_int("bytes", (int64_t)p->memory.total_bytes);
    cli_json_int("kv_bytes", (int64_t)p->memory.kv_bytes);
    cli_json_end();
    cli_json_object("steps");
    cli_json_string("record", p->record.about);
    cli_json_int("recorded", p->record.n);
    cli_json_real("variance_explained", i->step_variance, 6);
    cli_json_list("rows_and_seconds");
    for (int k = 0; k < i->n_knot; k++) {
        cli_json_real(NULL, i->knot_rows[k], 6);
        cli_json_real(NULL, i->knot_seconds[k], 6);
    }
    cli_json_end();
    cli_json_real("draw_seconds", i->draw_seconds, 6);
    cli_json_real("prompt_position_seconds", i->prompt_position_seconds, 6);
    cli_json_real("new_position_seconds", i->new_position_seconds, 6);
    cli_json_real("request_seconds", p->arrive_seconds, 6);
    cli_json_real("request_token_seconds", p->token_seconds, 6);
    cli_json_end();
    cli_json_end();
}

/* For each number of users: as many machines as keep each at or below the rate. */
static int print_all(planning *p, const int64_t *users, int n, double rate)
{
    weft_error err = { 0 };
    for (int i = 0; i < n; i++) {
        outcome o;
        const double all = (double)users[i] * per_hour / 3600, machines = ceil(all / rate - 1e-9);
        if (simulate(p, all / machines, &o, &err) != WEFT_OK)
            return simulation_failed(&err);
        if (p->common->json) {
            print_json(p, &o, (double)users[i], machines);
            continue;
        }
        if (i == 0)
            print_constants(p, &o.info, rate);
        print_line(&o, (double)users[i], machines);
    }
    return 0;
}

/* ---- what is known --------------------------------------------------------------------------- */

static int save_record(const step_record *r)
{
    FILE *f = fopen(save_path, "we");
    if (!f)
        return cli_cannot_write(save_path);
    fprintf(f, "# %s\n", r->about);
    for (int64_t i = 0; i < r->n; i++)
        step_record_write_step(f, &r->step[i]);
    return fclose(f) == 0 ? 0 : cli_cannot_write(save_path);
}

static weft_engine_options engine_of(const planning *p, int threads)
{
    const weft_engine_options o = { .struct_size = sizeof o,
                                    .threads = threads,
                                    .n_session = p->opt.n_running,
                                    .n_batch = p->opt.n_batch,
                                    .n_ctx = p->common->n_ctx,
                                    .n_cache = p->opt.n_cache };
    return o;
}

/* A longer prompt would be refused at any load, which is known before anything is measured. */
static int check_prompts(const planning *p)
{
    int64_t longest = 0;
    for (int64_t i = 0; i < p->load.n; i++) {
        int64_t n = 0;
        for (int k = 0; k < p->load.at[i].n_part; k++)
            n += p->load.at[i].part[k].n;
        longest = n > longest ? n : longest;
    }
    if (p->opt.n_ctx == 0 || longest <= p->opt.n_ctx)
        return 0;
    fprintf(stderr,
            "weft: %s: a prompt has %lld tokens; expected at most the context of %lld; give a "
            "larger --ctx-size%s\n",
            trace_path ? trace_path : "--prompt-tokens", (long long)longest,
            (long long)p->opt.n_ctx, trace_path ? "" : ", or fewer --prompt-tokens");
    return 1;
}

/* Memory, and unless there are records, steps. */
static int look_at_model(planning *p, const plan_load *l, const command *c)
{
    weft_error err = { 0 };
    load_options from = { .path = p->common->model };
    weft_model_info info = { .struct_size = sizeof info };
    int threads;
    int code = cli_threads(c, p->common->threads, &threads);
    if (code)
        return code;
    weft_model *m = cli_open(&from, &err);
    if (!m)
        return cli_fail(&err);
    weft_model_get_info(m, &info);
    weft_engine_options e = engine_of(p, threads);
    p->memory = (weft_memory_plan){ .struct_size = sizeof p->memory };
    p->weights = info.bytes_mapped;
    if (weft_engine_plan(m, &e, &p->memory, &err) != WEFT_OK)
        code = cli_fail(&err);
    p->opt.n_ctx = p->memory.n_ctx;
    p->opt.n_cache = n_cache ? n_cache : 4 * p->memory.n_ctx;
    e.n_cache = p->opt.n_cache;
    if (!code && weft_engine_plan(m, &e, &p->memory, &err) != WEFT_OK)
        code = cli_fail(&err);
    code = code ? code : check_prompts(p);
    if (!code && records.n == 0) {
        snprintf(p->record.about, sizeof p->record.about, "%.200s, %d running, measured here",
                 p->common->model, p->opt.n_running);
        code = plan_measure(m, &e, l, measure_seconds, &p->record);
        if (!code && save_path)
            code = save_record(&p->record);
    }
    weft_model_close(m);
    return code;
}

static weft_status read_load(planning *p, const plan_load *l, weft_error *err)
{
    weft_status status = WEFT_OK;
    p->rate = 1;
    if (trace_path)
        status = load_trace_read(&p->load, trace_path, err);
    else if (!plan_requests(&p->load, l, N_SIMULATED))
        status = err->code = WEFT_ENOMEM;
    if (status == WEFT_OK && trace_path && p->load.n > 1)
        p->rate = (double)(p->load.n - 1) / fmax(p->load.at[p->load.n - 1].at, 1e-9);
    return status;
}

static weft_status read_records(planning *p, weft_error *err)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < records.n && status == WEFT_OK; i++)
        status = step_record_read(&p->record, records.at[i], err);
    return status;
}

static int plan_with(planning *p, const plan_load *l, const int64_t *users, int n, const command *c)
{
    weft_error err = { 0 };
    double rate = 0;
    if (read_load(p, l, &err) != WEFT_OK)
        return cli_fail(&err);
    const int code = p->common->model ? look_at_model(p, l, c) : check_prompts(p);
    if (code)
        return code;
    if (read_records(p, &err) != WEFT_OK)
        return cli_fail(&err);
    p->arrive_seconds = p->opt.arrive_seconds = p->record.arrive_seconds;
    p->token_seconds = p->opt.token_seconds = p->record.token_seconds;
    p->opt.steps = p->record.step;
    p->opt.n_steps = p->record.n;
    p->request = cli_zalloc((size_t)p->load.n, sizeof *p->request, "a plan");
    p->result = cli_zalloc((size_t)p->load.n, sizeof *p->result, "a plan");
    p->sorted = cli_zalloc((size_t)p->load.n, sizeof *p->sorted, "a plan");
    if (!p->request || !p->result || !p->sorted)
        return cli_no_memory();
    if (find_rate(p, &rate, &err) != WEFT_OK)
        return simulation_failed(&err);
    if (rate > 0)
        return print_all(p, users, n, rate);
    fprintf(stderr,
            "weft: even at 1 %% load a machine misses --ttft or --tpot, or refuses requests; "
            "expected a higher --ttft or --tpot, or a larger --ctx-size\n");
    return 1;
}

/* ---- options --------------------------------------------------------------------------------- */

static bool is_count(int64_t x, int64_t least, int64_t most)
{
    return x >= least && x <= most;
}

static int check(const command *c, const plan_common *o)
{
    if (!o->model && records.n == 0)
        return cli_usage(c,
                         "no machine to plan with; expected a MODEL to measure, or --record FILE");
    if (save_path && records.n > 0)
        return cli_usage(c, "--save-record is for what is measured; --record has measured it");
    if (!(per_hour > 0))
        return cli_usage(c, "--requests: %g is not above 0", per_hour);
    if (!is_count(n_prompt, 1, 1 << 20) || !is_count(n_new, 1, 1 << 20))
        return cli_usage(c, "--prompt-tokens and --new-tokens: expected 1 to %d", 1 << 20);
    if (!(cached >= 0 && cached < 1))
        return cli_usage(c, "--cached: %g is not a share; expected 0 to less than 1", cached);
    if (!(share > 0 && share <= 1))
        return cli_usage(c, "--load: %g is not a share; expected more than 0, at most 1", share);
    if (!(ttft_ms >= 0 && tpot_ms >= 0 && price >= 0))
        return cli_usage(c, "--ttft, --tpot and --price must not be negative");
    if (!is_count(parallel, 0, 1024) || !is_count(n_queue, 0, 65536) || n_cache < 0)
        return cli_usage(c, "--parallel, --queue or --cache-tokens is out of range");
    if (!is_count(n_core, 0, 1 << 20))
        return cli_usage(c, "--cores: found %lld; expected 1 or more", (long long)n_core);
    if (!(measure_seconds > 0 && measure_seconds <= 86400))
        return cli_usage(c, "--measure: %g; expected seconds, up to 86400", measure_seconds);
    return 0;
}

/* "100,1000" */
static bool read_users(int64_t *to, int *n)
{
    const char *rest = users_text;
    for (; rest && *n < MOST_USERS; ++*n)
        if (!cli_next_number(&rest, 1, (int64_t)1 << 40, &to[*n]))
            return false;
    return !rest;
}

int plan_serve(const command *c, const plan_common *o)
{
    int64_t users[MOST_USERS];
    int n = 0, threads;
    const plan_load l = { n_prompt, n_new, cached };
    planning p = { .common = o,
                   .opt = { .struct_size = sizeof p.opt,
                            .n_running = (int)(parallel ? parallel : 32),
                            .n_batch = parallel > 256 ? (int)parallel : 256, /* as weft serve */
                            .n_waiting = (int)n_queue,
                            .n_ctx = o->n_ctx,
                            .n_cache = n_cache,
                            .seed = 1,
                            .budget = cli_budget() } };
    int code = check(c, o);
    if (!code && !read_users(users, &n))
        code = cli_usage(c, "--users: \"%s\"; expected numbers, as in 100,1000,10000", users_text);
    if (!code)
        code = cli_threads(c, o->threads, &threads);
    if (code)
        return code;
    n_core = n_core ? n_core : threads ? threads : weft_cpu_count();
    cli_catch_interrupt();
    code = plan_with(&p, &l, users, n, c);
    cli_free(p.sorted);
    cli_free(p.result);
    cli_free(p.request);
    load_trace_free(&p.load);
    step_record_free(&p.record);
    return code;
}
