/* train_step - one step of training: forward, backward, AdamW.
 *
 *     build/bench/train_step [--shape 124m] [--sequences 4] [--tokens 256] [--threads N] [--json]
 *     build/bench/train_step --model FILE.gguf --rank 16 [--dora]
 *
 * The limit: 6 flops a parameter and token (2 forward, 4 backward) at the speed of multiply-adds in
 * registers, then 28 bytes a parameter of AdamW's traffic at the speed of memory. With an adapter
 * (--rank) 4 flops, because the weights have no gradient, and 6 for each of its own parameters; the
 * profile still counts backward as two forwards, so its GFLOP/s are too high there. The weights are
 * random and come from a temporary file, or from the model that is given. */
#include "args.h"
#include "bench.h"
#include "random_gguf.h"

#include "base/cpu.h"
#include "train/learner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *shape_name = "124m", *path, *type = "f32";
static int64_t n_thread, n_sequence = 4, n_token = 256, n_repeat = 3, rank;
static bool json, recompute, dora;

static const arg args[] = {
    { "shape", ARG_TEXT, &shape_name, "NAME", "1b, 135m or 124m (124m)", 0, 0 },
    { "model", ARG_TEXT, &path, "PATH", "a model file or directory instead of a shape", 0, 0 },
    { "sequences", ARG_INT, &n_sequence, "N", "of a batch (4)", 1, 4096 },
    { "tokens", ARG_INT, &n_token, "N", "of a sequence (256)", 1, 1 << 20 },
    { "type", ARG_TEXT, &type, "TYPE", "that products are computed in: f32 or bf16 (f32)", 0, 0 },
    { "rank", ARG_INT, &rank, "N", "train an adapter of this rank on all linear layers", 1, 4096 },
    { "dora", ARG_FLAG, &dora, NULL, "with --rank: its gains, too", 0, 0 },
    { "recompute", ARG_FLAG, &recompute, NULL, "blocks are computed again in backward", 0, 0 },
    { "threads", ARG_INT, &n_thread, "N", "threads (all processors)", 1, 1024 },
    { "repeat", ARG_INT, &n_repeat, "N", "steady samples (3)", 1, 20 },
    { "smoke", ARG_FLAG, &bench_smoke, NULL, "see only that it runs: rough limits", 0, 0 },
    { "json", ARG_FLAG, &json, NULL, "one JSON object a line", 0, 0 },
    { 0 },
};

static const program self = {
    "train_step",
    NULL,
    "Measures a step of training (forward, backward, AdamW): seconds, share of what the\n"
    "machine's multiply-adds and memory allow in the same minutes, and time by op.\n",
    args,
    0,
    NULL
};

/* ---- the model ------------------------------------------------------------------------------- */

/* An adapter as `weft train --lora r=RANK,alpha=2*RANK` makes it. */
static void adapter_make(lora_params *p, ready_adapter *ready, const model *m)
{
    char spec[64];
    weft_error err = { 0 };
    snprintf(spec, sizeof spec, "r=%lld,alpha=%lld%s", (long long)rank, (long long)(2 * rank),
             dora ? ",dora" : "");
    bench_check(lora_spec_parse(&p->spec, spec, &err), &err);
    bench_check(lora_params_make(p, ready, m, NULL, &err), &err);
}

/* ---- the work -------------------------------------------------------------------------------- */

typedef struct job {
    learner learner;
    batch batch;
    profile profile;
    int n_step;
    double seconds, update; /* of all steps, and of AdamW alone */
    double loss;
    samples copied; /* share of the speed of copying that AdamW had in each step */
} job;

/* Bytes that AdamW moves per parameter: the norm reads g; the step reads w, g, m, v and writes w,
 * m, v; and the bf16 copy. */
static double adamw_bytes(const job *j)
{
    return (32 + 2 * j->learner.opt.bf16) * (double)j->learner.params.n;
}

static double step(void *ud)
{
    job *j = ud;
    weft_error err = { 0 };
    const double start = bench_now();
    bench_check(learner_begin(&j->learner, &err), &err);
    j->loss = (double)learner_backward(&j->learner, &j->batch);
    const double before = bench_now();
    learner_update(&j->learner, 1e-4);
    const double end = bench_now();
    samples_add(&j->copied, adamw_bytes(j) / (end - before) / limit_copy(j->learner.pool));
    j->update += end - before;
    j->seconds += end - start;
    j->n_step++;
    return end - start;
}

/* Averages the sums over all steps; AdamW counts as an op. */
static void print_profile(job *j)
{
    static const op update = { .name = "adamw" };
    profile *p = &j->profile;
    for (int i = 0; i < p->n; i++) {
        op_profile *e = &p->entry[i];
        e->calls /= j->n_step;
        e->seconds /= j->n_step;
        e->flops /= j->n_step;
        e->bytes /= j->n_step;
    }
    if (p->n < MAX_PROFILE)
        p->entry[p->n++] = (op_profile){
            .op = &update, .calls = 1, .seconds = j->update / j->n_step, .bytes = adamw_bytes(j)
        };
    bench_print_profile(p, "step", j->seconds / j->n_step, json);
}

/* The step in three parts: products (the loss of the head is one), AdamW, and all the rest. */
static void print_parts(job *j)
{
    const double whole = j->seconds / j->n_step, update = j->update / j->n_step;
    double products = 0;
    for (int i = 0; i < j->profile.n; i++) {
        const char *name = j->profile.entry[i].op->name;
        if (strcmp(name, "linear") == 0 || strcmp(name, "glu") == 0 ||
            strcmp(name, "linear_cross_entropy") == 0)
            products += j->profile.entry[i].seconds;
    }
    printf(
        json ? "{\"products\":%.4f,\"adamw\":%.4f,\"rest\":%.4f,\"adamw_of_copying\":%.4f}\n"
             : "  products %.3f, AdamW %.3f, the rest %.3f of the step; AdamW at %.2f of the speed "
               "of copying\n",
        products / whole, update / whole, 1 - (products + update) / whole,
        samples_median(&j->copied));
}

static void report(job *j, const timings *t, const demand *d)
{
    const double seconds = timings_seconds(t), share = timings_share(t, d);
    const limits at = timings_limits(t);
    const double tokens = (double)(n_sequence * n_token);
    if (json)
        printf("{\"work\":\"train_step\",\"type\":\"%s\",\"sequences\":%lld,\"tokens\":%lld,"
               "\"seconds\":%.4g,\"tokens_per_second\":%.4g,\"spread\":%.3f,\"samples\":%d,"
               "\"steady\":%d,\"thrown\":%d,\"share\":%.4f,\"loss\":%.5g,"
               "\"read_bytes_per_second\":%.4g,\"f32_flops_per_second\":%.4g}\n",
               type, (long long)n_sequence, (long long)n_token, seconds, tokens / seconds,
               timings_spread(t), t->n, t->steady, t->thrown, share, j->loss, at.read, at.flops);
    else
        printf("%s step of %lld x %lld tokens  %.3f s  %.1f tok/s  %.1f %% of the limit "
               "(%.2f s)  loss %.4f  spread %.0f %%%s\n",
               type, (long long)n_sequence, (long long)n_token, seconds, tokens / seconds,
               100 * share, demand_seconds(d, &at), j->loss, 100 * timings_spread(t),
               t->steady ? "" : "  (unsteady machine)");
}

int main(int argc, char **argv)
{
    const int code = args_parse(&self, argc, argv);
    if (code >= 0)
        return code;
    const random_shape *s = random_shape_by_name(shape_name);
    if (!s && !path)
        return args_usage(&self, "--shape is \"%s\", expected 1b, 135m or 124m", shape_name);
    if (strcmp(type, "f32") != 0 && strcmp(type, "bf16") != 0)
        return args_usage(&self, "--type is \"%s\", expected f32 or bf16", type);
    if (rank && strcmp(type, "bf16") == 0)
        return args_usage(&self,
                          "--rank: products are computed as the model is served; leave out --type");
    if (dora && !rank)
        return args_usage(&self, "--dora: gains of an adapter; add --rank 16");
    weft_error err = { 0 };
    host h = { .io = io_system };
    mem_init(&h.mem, 0, NULL);
    static model m;
    if (path)
        bench_check(model_open(&m, path, WEFT_LOAD_MAP, &h, &err), &err);
    else
        random_gguf_open(&m, s, &dtype_f32, WEFT_LOAD_MAP, &h);
    if (n_token > m.n_ctx)
        return args_usage(&self, "--tokens is %lld, the model has %lld positions",
                          (long long)n_token, (long long)m.n_ctx);

    const bool bf16 = strcmp(type, "bf16") == 0;
    static job j;
    static lora_params trained;
    static ready_adapter ready;
    if (rank)
        adapter_make(&trained, &ready, &m);
    const learner_options o = {
        .n_thread = n_thread ? (int)n_thread : cpu_count(),
        .recompute = recompute,
        .bf16 = bf16,
        .lora = rank ? &trained : NULL,
        .adamw = { .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .decay = 0.1, .clip = 1 },
    };
    j.batch = bench_train_batch(n_sequence, n_token, m.n_vocab, 0);
    bench_check(learner_init(&j.learner, &m, &o, &j.batch, &err), &err);
    const double n = (double)j.learner.params.n, frozen = rank ? (double)m.n_parameter : 0;
    const double products = (6 * n + 4 * frozen) * (double)(n_sequence * n_token);
    const demand d = { .flops = bf16 ? 0 : products, .bf16 = bf16 ? products : 0, .bytes = 28 * n };
    bench_print_machine(j.learner.pool, j.learner.run.kern->name, json);
    step(&j); /* touches the memory; not counted */
    j.seconds = j.update = j.n_step = j.copied.n = 0;
    j.learner.run.profile = &j.profile;
    timings t;
    bench_time(&t, j.learner.pool, step, &j, (int)n_repeat);
    report(&j, &t, &d);
    print_profile(&j);
    print_parts(&j);

    learner_free(&j.learner);
    lora_params_free(&trained);
    ready_close(&ready);
    model_close(&m);
    bench_batch_free(&j.batch);
    return 0;
}
