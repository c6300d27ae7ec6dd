/* embed - an encoder embeds texts, many at a time: random tokens, or the ids in a file, one text
 * per line.
 *
 *     build/bench/embed MODEL [--length 32] [--texts 64] [--ids FILE] [--threads N] [--json]
 *
 * The limit is the time of the multiply-adds of products and attention. There is no padding, so a
 * text costs what its tokens cost. */
#include "args.h"
#include "bench.h"

#include "base/rng.h"
#include "engine/encode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *path, *ids_path;
static int64_t n_thread, length = 32, n_text = 64, n_repeat = 3;
static bool json;

static const arg args[] = {
    { "threads", ARG_INT, &n_thread, "N", "threads (all processors)", 1, 1024 },
    { "length", ARG_INT, &length, "N", "tokens of a text (32)", 1, 65536 },
    { "texts", ARG_INT, &n_text, "N", "texts in one call (64)", 1, 1 << 20 },
    { "ids", ARG_TEXT, &ids_path, "FILE", "texts as ids, a line each; instead", 0, 0 },
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

/* ---- the work -------------------------------------------------------------------------------- */

typedef struct job {
    encode_engine *engine;
    weft_input *input; /* [n_text] */
    int32_t *ids;      /* of all texts */
    int64_t n_id;
    float *out;
    uint64_t draw;
    double cpu; /* the lowest CPU time of a call */
} job;

/* Multiply-adds of all texts, counted as two: products of every row, scores and sums of attention. */
static demand demand_of(const job *j)
{
    const model *m = j->engine->model;
    double linear = 0, squares = 0;
    bool quantised = false;
    for (int64_t i = 0; i < m->n_param; i++) {
        const tensor *t = m->param[i];
        if (t->n_dim == 1 || t->name[0] != 'b') /* blk.0.attn_q ... */
            continue;
        linear += (double)(rows(t) * cols(t));
        quantised = t->type->block > 1;
    }
    for (int64_t i = 0; i < n_text; i++)
        squares += (double)(j->input[i].n * j->input[i].n);
    const double products = 2 * (double)j->n_id * linear;
    const double attention = 4 * squares * (double)(m->d_model * m->n_layer);
    return quantised ? (demand){ .int8 = products, .flops = attention }
                     : (demand){ .flops = products + attention };
}

static double read_texts(void *ud)
{
    job *j = ud;
    weft_error err = { 0 };
    const uint32_t V = (uint32_t)j->engine->model->n_vocab;
    for (int64_t i = 0; i < j->n_id && !ids_path; i++)
        j->ids[i] = (int32_t)(rng_draw(7, j->draw, (uint64_t)i).word[0] % V);
    j->draw++;
    const double began = bench_now(), cpu_began = bench_cpu();
    bench_check(encode_engine_eval(j->engine, j->input, n_text, &err), &err);
    const double cpu = bench_cpu() - cpu_began;
    j->cpu = j->cpu > 0 && j->cpu < cpu ? j->cpu : cpu;
    return bench_now() - began;
}

/* Texts of one length, whose ids are drawn for every sample. */
static void prepare_random(job *j)
{
    weft_error err = { .message = "out of memory" };
    j->n_id = n_text * length;
    j->ids = bench_must(calloc((size_t)j->n_id, sizeof *j->ids), &err);
    j->input = bench_must(calloc((size_t)n_text, sizeof *j->input), &err);
    for (int64_t i = 0; i < n_text; i++)
        j->input[i] = (weft_input){ .ids = j->ids + i * length, .n = length };
}

/* Texts of the file. A text has at most as many ids as bytes, and the file at most as many
 * texts. */
static void prepare_given(job *j, host *h)
{
    weft_error err = { .message = "out of memory" };
    file f;
    bench_check(file_open(&f, ids_path, WEFT_LOAD_COPY, h, &err), &err);
    char *text = bench_must(strndup(file_text(&f), f.size), &err), *end;
    j->ids = bench_must(calloc(f.size + 1, sizeof *j->ids), &err);
    j->input = bench_must(calloc(f.size + 1, sizeof *j->input), &err);
    n_text = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        weft_input *in = &j->input[n_text++];
        *in = (weft_input){ .ids = j->ids + j->n_id };
        for (long id = strtol(line, &end, 10); end > line; id = strtol(line, &end, 10)) {
            j->ids[j->n_id++] = (int32_t)id;
            in->n++;
            line = end;
        }
    }
    free(text);
    file_close(&f, h);
}

static void prepare(job *j, const model *m, host *h)
{
    weft_error err = { .message = "out of memory" };
    const encode_engine_options o = { .n_thread = (int)n_thread, .output = WEFT_OUTPUT_POOLED };
    j->engine = bench_must(encode_engine_new(m, &o, &err), &err);
    if (ids_path)
        prepare_given(j, h);
    else
        prepare_random(j);
    j->out = bench_must(calloc((size_t)(n_text * m->d_model), sizeof *j->out), &err);
    for (int64_t i = 0; i < n_text; i++)
        j->input[i].out = j->out + i * m->d_model;
}

static void report(const timings *t, const job *j)
{
    const demand all = demand_of(j);
    const limits at = timings_limits(t);
    const double speed = (double)n_text / timings_seconds(t), share = timings_share(t, &all);
    const double mean = (double)j->n_id / (double)n_text;
    if (json)
        printf("{\"work\":\"embed\",\"length\":%.4g,\"texts\":%lld,\"texts_per_second\":%.4g,"
               "\"tokens_per_second\":%.4g,\"cpu_seconds\":%.4g,\"share\":%.3f,\"spread\":%.3f,"
               "\"steady\":%d,"
               "\"read_bytes_per_second\":%.4g,\"f32_flops_per_second\":%.4g}\n",
               mean, (long long)n_text, speed, speed * mean, j->cpu, share, timings_spread(t),
               t->steady, at.read, at.flops);
    else
        printf("texts of %.4g tokens, %lld at once: %.4g texts/s, %.4g tokens/s, %.3f of the "
               "limit (spread %.3f, %d steady)\n",
               mean, (long long)n_text, speed, speed * mean, share, timings_spread(t), t->steady);
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
    prepare(&j, &m, &h);
    bench_print_machine(j.engine->pool, j.engine->run.kern->name, json);
    read_texts(&j); /* loads the weights into memory */
    bench_time(&t, j.engine->pool, read_texts, &j, (int)n_repeat);
    report(&t, &j);
    encode_engine_free(j.engine);
    free(j.input);
    free(j.out);
    free(j.ids);
    model_close(&m);
    return 0;
}
