/* embed - a model that reads texts as wholes makes vectors of texts of random tokens, many at a time.
 *
 *     build/bench/embed MODEL [--length 32] [--texts 64] [--threads N] [--json]
 *
 * The limit: texts cannot be read faster than the multiply-adds of their products and of attention
 * take. Nothing is filled up, so texts of any lengths cost what their tokens cost. */
#include "args.h"
#include "bench.h"

#include "base/rng.h"
#include "engine/encode.h"

#include <stdio.h>
#include <stdlib.h>

static const char *path;
static int64_t n_thread, length = 32, n_text = 64, n_repeat = 3;
static bool json;

static const arg args[] = {
    { "threads", ARG_INT, &n_thread, "N", "threads (all processors)", 1, 1024 },
    { "length", ARG_INT, &length, "N", "tokens of a text (32)", 1, 65536 },
    { "texts", ARG_INT, &n_text, "N", "texts in one call (64)", 1, 1 << 20 },
    { "repeat", ARG_INT, &n_repeat, "N", "steady samples (3)", 1, 20 },
    { "smoke", ARG_FLAG, &bench_smoke, NULL, "see only that it runs: rough limits", 0, 0 },
    { "json", ARG_FLAG, &json, NULL, "one JSON object a line", 0, 0 },
    { 0 },
};

static const program self = {
    "embed",
    "MODEL",
    "Measures texts a second that become vectors, as a share of what the machine's multiply-adds\n"
    "allow in the same minutes.\n",
    args,
    1,
    &path
};

/* Multiply-adds of a text, counted as two: products of every row, scores and sums of attention. */
static demand demand_of(const model *m)
{
    double linear = 0;
    bool quantised = false;
    for (int64_t i = 0; i < m->n_param; i++) {
        const tensor *t = m->param[i];
        if (t->n_dim == 1 || t->name[0] != 'b') /* blk.0.attn_q ... */
            continue;
        linear += (double)(rows(t) * cols(t));
        quantised = t->type->block > 1;
    }
    const double T = (double)length, products = 2 * T * linear;
    const double attention = 4 * T * T * (double)(m->d_model * m->n_layer);
    return quantised ? (demand){ .int8 = products, .flops = attention }
                     : (demand){ .flops = products + attention };
}

/* ---- the work -------------------------------------------------------------------------------- */

typedef struct job {
    encode_engine *engine;
    weft_input *input;
    int32_t *ids;
    float *out;
    uint64_t draw;
} job;

static double read_texts(void *ud)
{
    job *j = ud;
    weft_error err = { 0 };
    const uint32_t V = (uint32_t)j->engine->model->n_vocab;
    for (int64_t i = 0; i < n_text * length; i++)
        j->ids[i] = (int32_t)(rng_draw(7, j->draw, (uint64_t)i).word[0] % V);
    j->draw++;
    const double began = bench_now();
    bench_check(encode_engine_eval(j->engine, j->input, n_text, &err), &err);
    return bench_now() - began;
}

static void prepare(job *j, const model *m)
{
    weft_error err = { .message = "out of memory" };
    const encode_engine_options o = { .n_thread = (int)n_thread, .what = WEFT_ENCODE_POOLED };
    j->engine = bench_must(encode_engine_new(m, &o, &err), &err);
    j->ids = bench_must(calloc((size_t)(n_text * length), sizeof *j->ids), &err);
    j->out = bench_must(calloc((size_t)(n_text * m->d_model), sizeof *j->out), &err);
    j->input = bench_must(calloc((size_t)n_text, sizeof *j->input), &err);
    for (int64_t i = 0; i < n_text; i++)
        j->input[i] = (weft_input){ .ids = j->ids + i * length,
                                    .n = length,
                                    .out = j->out + i * m->d_model };
}

static void report(const timings *t, const model *m)
{
    demand all = demand_of(m);
    all.flops *= (double)n_text;
    all.int8 *= (double)n_text;
    const double speed = (double)n_text / timings_seconds(t), share = timings_share(t, &all);
    printf(json ? "{\"work\":\"embed\",\"length\":%lld,\"texts\":%lld,\"texts_per_second\":%.4g,"
                  "\"tokens_per_second\":%.4g,\"share\":%.3f,\"spread\":%.3f,\"steady\":%d}\n"
                : "texts of %lld tokens, %lld at once: %.4g texts/s, %.4g tokens/s, %.3f of the "
                  "limit (spread %.3f, %d steady)\n",
           (long long)length, (long long)n_text, speed, speed * (double)length, share,
           timings_spread(t), t->steady);
}

int main(int argc, char **argv)
{
    const int code = args_parse(&self, argc, argv);
    if (code >= 0)
        return code;
    weft_error err = { 0 };
    host h = { .io = io_system };
    model m;
    job j = { 0 };
    timings t;
    mem_init(&h.mem, 0, NULL);
    bench_check(model_open(&m, path, WEFT_LOAD_MAP, &h, &err), &err);
    prepare(&j, &m);
    bench_print_machine(j.engine->pool, j.engine->run.kern->name, json);
    read_texts(&j); /* weights come into memory */
    bench_time(&t, j.engine->pool, read_texts, &j, (int)n_repeat);
    report(&t, &m);
    encode_engine_free(j.engine);
    free(j.input);
    free(j.out);
    free(j.ids);
    model_close(&m);
    return 0;
}
