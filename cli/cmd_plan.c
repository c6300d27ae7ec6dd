/* weft plan - says in advance what training takes: hours, memory and bytes sent, for several numbers of
 * ranks; and what serving takes (plan_serve.c). */
#include "json.h"
#include "plan.h"
#include "train_result.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define UNSET     (-1) /* what the library's default stays in place of */
#define MOST_RANK 16   /* numbers of them */

static const char *positional[2]; /* train or serve, MODEL */
static const char *preset, *arch, *tokenizer, *ranks_text = "1,2,4,8";
static int64_t n_layer, d_model, n_head, n_head_kv, d_ff, n_ctx, threads;
static int64_t n_vocab = UNSET, n_sample = UNSET, n_part = UNSET, n_group = UNSET, n_step = UNSET;
static double bandwidth = 10, latency = 30, n_token;
static bool tied, untied, bf16, recompute, json;

static const option options[] = {
    { 'r', "ranks", OPT_TEXT, &ranks_text, "N,N,...", 0, "numbers of ranks (1,2,4,8)" },
    { 0, "bandwidth", OPT_REAL, &bandwidth, "GBIT", 0, "Gbit/s out of each rank (10)" },
    { 0, "latency", OPT_REAL, &latency, "US", 0, "microseconds of an empty message (30)" },
    { 'n', "steps", OPT_INT, &n_step, "N", 0, "number of optimizer steps (2000)" },
    { 0, "tokens", OPT_REAL, &n_token, "N", 0, "tokens to train on, instead of --steps" },
    { 0, "preset", OPT_TEXT, &preset, "NAME", 0,
      "size of a new model: tiny, mini, small, base (tiny)" },
    { 0, "arch", OPT_TEXT, &arch, "NAME", RARE,
      "architecture: gpt2, t5, bert, ... (the preset's)" },
    { 0, "layers", OPT_INT, &n_layer, "N", RARE, "number of layers (the preset's)" },
    { 0, "width", OPT_INT, &d_model, "N", RARE, "model dimension (the preset's)" },
    { 0, "heads", OPT_INT, &n_head, "N", RARE, "attention heads (the preset's)" },
    { 0, "kv-heads", OPT_INT, &n_head_kv, "N", RARE, "KV heads (as many as heads)" },
    { 0, "hidden", OPT_INT, &d_ff, "N", RARE, "feed-forward dimension (the preset's)" },
    { 0, "tied", OPT_FLAG, &tied, NULL, RARE, "share the output matrix with the embedding" },
    { 0, "untied", OPT_FLAG, &untied, NULL, RARE, "use a separate output matrix" },
    { 0, "tokenizer", OPT_TEXT, &tokenizer, "PATH", RARE, "vocabulary of a new model" },
    { 'v', "vocab-size", OPT_INT, &n_vocab, "N", RARE, "the same as a number (4096)" },
    { 'c', "ctx-size", OPT_INT, &n_ctx, "N", 0, "sequence length (the model's, up to 1024)" },
    { 'b', "batch-size", OPT_INT, &n_sample, "N", 0, "sequences per batch (12)" },
    { 0, "accumulate", OPT_INT, &n_part, "N", RARE, "gradient accumulation: batches per step (1)" },
    { 0, "groups", OPT_INT, &n_group, "N", RARE, "groups of sequences (the most ranks)" },
    { 0, "bf16", OPT_FLAG, &bf16, NULL, 0, "mixed precision: bf16 products, f32 weights" },
    { 0, "recompute", OPT_FLAG, &recompute, NULL, RARE,
      "recompute activations: less memory, a third more work" },
    OPTION_THREADS(threads),
    OPTION_RAM_MAX,
    OPTION_JSON(json, "print one JSON object per number of ranks"),
    { 0 },
};

static const char examples[] =
    "  weft plan train --preset base -c 1024 -b 16 --ranks 1,4,16 --tokens 1e9\n"
    "  weft plan train model-directory -b 8 --accumulate 8 --ranks 64 --bandwidth 100\n"
    "  weft plan serve model.gguf -c 2048 --users 100,10000 --prompt-tokens 500 --cached 0.6\n";

static const char about[] =
    "train: trains on made-up tokens for some seconds to measure this machine, and computes\n"
    "what `weft train` would take with these options, without evaluations and checkpoints.\n"
    "serve: measures forwards of this machine, or reads a record of them, and simulates the\n"
    "scheduler of `weft serve` under a load: machines for numbers of users, and waiting.\n";

static int plan_main(void);

const command command_plan = {
    .name = "plan",
    .arguments = "train|serve [MODEL]",
    .summary = "predict what a training run takes, or a service for many users",
    .examples = examples,
    .about = about,
    .options = options,
    .more = plan_serve_options,
    .n_positional = 2,
    .positional = positional,
    .main = plan_main,
};

/* ---- what is printed ------------------------------------------------------------------------- */

static double all_seconds(const weft_train_cost *c)
{
    return n_token > 0 ? n_token / (double)c->n_token * c->step_seconds : c->seconds;
}

static void print_json(const weft_train_cost *c)
{
    cli_json_object(NULL);
    cli_json_int("ranks", c->n_rank);
    cli_json_int("parameters", c->n_parameter);
    cli_json_int("tokens_per_step", c->n_token);
    cli_json_real("tokens_per_second", (double)c->n_token / c->step_seconds, 6);
    cli_json_real("step_seconds", c->step_seconds, 6);
    cli_json_real("compute_seconds", c->compute_seconds, 6);
    cli_json_real("exchange_hidden_seconds", c->reduce_hidden, 6);
    cli_json_real("exchange_exposed_seconds", c->reduce_exposed, 6);
    cli_json_real("hours", all_seconds(c) / 3600, 6);
    cli_json_int("bytes", (int64_t)c->bytes);
    cli_json_int("bytes_sent_per_step", (int64_t)c->bytes_sent);
    cli_json_end();
}

static void print_head(const weft_train_cost *c)
{
    char n[32];
    printf("a model of %s parameters, %lld tokens a step; one rank here: %.0f tokens/s\n",
           cli_count((double)c->n_parameter, n, sizeof n), (long long)c->n_token,
           1 / c->token_seconds);
    printf("%6s %10s %10s %10s %10s %10s %12s %12s\n", "ranks", "hours", "step", "computing",
           "exchange", "hidden", "memory each", "sent a step");
}

static void print_line(void *ud, const weft_train_cost *c)
{
    bool *begun = ud;
    char memory[32], sent[32];
    if (json) {
        print_json(c);
        return;
    }
    if (!*begun)
        print_head(c);
    *begun = true;
    printf("%6d %10.2f %8.3f s %8.3f s %8.3f s %8.3f s %12s %12s\n", c->n_rank,
           all_seconds(c) / 3600, c->step_seconds, c->compute_seconds,
           c->reduce_hidden + c->reduce_exposed, c->reduce_hidden,
           cli_bytes((size_t)c->bytes, memory, sizeof memory),
           cli_bytes((size_t)c->bytes_sent, sent, sizeof sent));
    fflush(stdout);
}

/* ---- options --------------------------------------------------------------------------- */

/* "1,2,4" */
static bool read_ranks(int *to, int *n)
{
    int64_t x;
    const char *rest = ranks_text;
    for (; rest && *n < MOST_RANK; to[(*n)++] = (int)x)
        if (!cli_next_number(&rest, 1, 1024, &x) || (x & (x - 1)) != 0)
            return false;
    return !rest;
}

static void over(int *to, int64_t given)
{
    if (given != UNSET)
        *to = given > INT_MAX ? INT_MAX : given < 0 ? -1 : (int)given;
}

static bool go_on(void *ud)
{
    (void)ud;
    return !cli_interrupted();
}

static void fill(weft_train_options *o, const int *n_rank, int n)
{
    o->model = positional[1];
    o->preset = preset;
    o->arch = arch;
    o->tokenizer = tokenizer;
    o->n_layer = n_layer;
    o->d_model = d_model;
    o->n_head = n_head;
    o->n_head_kv = n_head_kv;
    o->d_ff = d_ff;
    o->n_ctx = n_ctx;
    o->tied = tied ? 1 : untied ? 0 : -1;
    o->bf16 = bf16;
    o->recompute = recompute;
    o->budget = cli_budget();
    o->log = cli_log;
    o->waiting = go_on;
    over(&o->n_vocab, n_vocab);
    over(&o->n_sample, n_sample);
    over(&o->n_part, n_part);
    if (n_step != UNSET)
        o->n_step = n_step;
    for (int i = 0; i < n; i++)
        o->n_group = n_rank[i] > o->n_group ? n_rank[i] : o->n_group;
    over(&o->n_group, n_group);
}

/* What both plans take: each of the others is for one of them. */
static bool is_common(const option *o)
{
    return o->to == &n_ctx || o->to == &threads || o->to == &cli_ram_max || o->to == &json;
}

/* The first option of a table that was given though it is for the other plan; NULL: none. */
static const char *misplaced(const option *o)
{
    for (; o->name; o++)
        if (option_given(o) && !is_common(o))
            return o->name;
    return NULL;
}

static int check(const command *c)
{
    const char *wrong = misplaced(plan_serve_options);
    if (wrong)
        return cli_usage(c, "--%s is for weft plan serve", wrong);
    if (!positional[0] || strcmp(positional[0], "train") != 0)
        return cli_usage(c,
                         positional[0] ? "found %s; expected train or serve"
                                       : "nothing to plan; weft plan train, or weft plan serve",
                         positional[0]);
    if (tied && untied)
        return cli_usage(c, "--tied and --untied exclude each other");
    if (positional[1] && (preset || arch || n_layer || d_model || n_head || n_head_kv || d_ff))
        return cli_usage(c, "%s: the model's size is fixed; --preset and sizes are for new models",
                         positional[1]);
    if (!(bandwidth > 0))
        return cli_usage(c, "--bandwidth: %g is not above 0", bandwidth);
    if (!(latency >= 0))
        return cli_usage(c, "--latency: %g is below 0", latency);
    if (!(n_token >= 0))
        return cli_usage(c, "--tokens: %g is below 0", n_token);
    return 0;
}

static int plan_serving(void)
{
    weft_error err = { 0 };
    plan_common o = { .n_ctx = n_ctx, .threads = threads, .json = json };
    const char *wrong = misplaced(options);
    if (wrong)
        return cli_usage(&command_plan, "--%s is for weft plan train", wrong);
    if (positional[1] && !(o.model = cli_model_path(positional[1], &err)))
        return cli_fail(&err);
    return plan_serve(&command_plan, &o);
}

static int plan_main(void)
{
    const command *c = &command_plan;
    weft_train_options o;
    weft_error err = { 0 };
    int n_rank[MOST_RANK], n = 0;
    if (positional[0] && strcmp(positional[0], "serve") == 0)
        return plan_serving();
    weft_train_defaults(&o, sizeof o);
    int code = check(c);
    if (!code && !read_ranks(n_rank, &n))
        code = cli_usage(c, "--ranks: \"%s\"; expected powers of two up to 1024, as in 1,2,4",
                         ranks_text);
    if (!code)
        code = cli_threads(c, threads, &o.threads);
    if (!code && positional[1] && !(positional[1] = cli_model_path(positional[1], &err)))
        code = cli_fail(&err);
    if (code)
        return code;
    fill(&o, n_rank, n);
    const weft_train_network net = { .struct_size = sizeof net,
                                     .bandwidth = bandwidth * 1e9 / 8,
                                     .latency = latency * 1e-6 };
    bool begun = false;
    cli_catch_interrupt();
    const weft_status status = weft_train_plan(&o, &net, n_rank, n, print_line, &begun, &err);
    if (cli_interrupted())
        return cli_stopped();
    return status == WEFT_OK ? 0 : cli_fail(&err);
}
