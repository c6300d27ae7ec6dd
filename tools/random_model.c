/* random_model - writes a GGUF model of any shape with random weights, to measure with.
 *
 *     build/tools/random_model --shape 1b --type q8_0 1b-q8_0.gguf */
#include "args.h"
#include "bench.h"
#include "random_gguf.h"

#include <stdio.h>
#include <string.h>

static const char *path, *shape_name, *arch, *type_name = "bf16", *head_name, *mix_name;
static random_shape given; /* 0: not given */
static int64_t seed = 1;
static bool untied;

#define MAX_SIZE (1 << 24) /* of every size: their products stay far below 2^63 */

static const arg args[] = {
    { "shape", ARG_TEXT, &shape_name, "NAME", "1b, 135m (Llamas), 124m (GPT-2), 30b-a3b (experts)",
      0, 0 },
    { "type", ARG_TEXT, &type_name, "TYPE", "of the matrices: f32 f16 bf16 q8_0 ... (bf16)", 0, 0 },
    { "mix", ARG_TEXT, &mix_name, "MIX", "as weft quantize chooses types: q4_k_m q5_k_m ...", 0,
      0 },
    { "head-type", ARG_TEXT, &head_name, "TYPE", "of the matrix that makes the logits", 0, 0 },
    { "arch", ARG_TEXT, &arch, "NAME", "llama, gpt2 or qwen3moe", 0, 0 },
    { "layers", ARG_INT, &given.n_layer, "N", "blocks", 1, 4096 },
    { "width", ARG_INT, &given.d_model, "N", "of the stream", 1, MAX_SIZE },
    { "hidden", ARG_INT, &given.d_ff, "N", "width of the feed forward", 1, MAX_SIZE },
    { "heads", ARG_INT, &given.n_head, "N", "of attention", 1, 65536 },
    { "kv-heads", ARG_INT, &given.n_head_kv, "N", "that queries share (as many as heads)", 1,
      65536 },
    { "vocab", ARG_INT, &given.n_vocab, "N", "tokens", 1, MAX_SIZE },
    { "context", ARG_INT, &given.n_ctx, "N", "positions", 1, MAX_SIZE },
    { "theta", ARG_REAL, &given.theta, "X", "base of the rotary positions (10000)", 0, 0 },
    { "untied", ARG_FLAG, &untied, NULL, "the logits have a matrix of their own", 0, 0 },
    { "seed", ARG_INT, &seed, "N", "of the random numbers (1)", 0, 0 },
    { 0 },
};

static const program self = {
    "random_model",
    "FILE",
    "Writes a GGUF model with random weights that weft and llama.cpp load. A named shape gives\n"
    "all sizes; single ones can be changed. Without one, all sizes must be given.\n",
    args,
    1,
    &path
};

/* The named shape with what else was given put over it; a usage error where a size is missing. */
static int resolve(random_shape *s)
{
    const random_shape *named = shape_name ? random_shape_by_name(shape_name) : NULL;
    if (shape_name && !named)
        return args_usage(&self, "--shape is \"%s\", expected 1b, 135m, 124m or 30b-a3b",
                          shape_name);
    *s = named ? *named : (random_shape){ .arch = "llama", .theta = 10000 };
    s->arch = arch ? arch : s->arch;
    s->untied = s->untied || untied;
    s->theta = given.theta > 0 ? given.theta : s->theta;
    const struct {
        const char *option;
        int64_t from, *to;
    } sizes[] = {
        { "layers", given.n_layer, &s->n_layer }, { "width", given.d_model, &s->d_model },
        { "hidden", given.d_ff, &s->d_ff },       { "heads", given.n_head, &s->n_head },
        { "vocab", given.n_vocab, &s->n_vocab },  { "context", given.n_ctx, &s->n_ctx },
    };
    if (given.n_head_kv || given.n_head)
        s->n_head_kv = given.n_head_kv;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i].from)
            *sizes[i].to = sizes[i].from;
        if (*sizes[i].to == 0)
            return args_usage(&self, "--%s is missing, and no --shape gives it", sizes[i].option);
    }
    if (s->n_head_kv == 0)
        s->n_head_kv = s->n_head;
    return -1;
}

static int find_type(const char *option, const char *name, const dtype **type)
{
    *type = name ? dtype_by_name(name) : NULL;
    if (!name || *type)
        return -1;
    return args_usage(&self, "--%s is \"%s\", a type that weft does not know", option, name);
}

static int find_mix(const quant_target **mix)
{
    *mix = mix_name ? quant_target_by_name(mix_name) : NULL;
    if (!mix_name || *mix)
        return -1;
    return args_usage(&self, "--mix is \"%s\", a mix that weft does not know", mix_name);
}

int main(int argc, char **argv)
{
    random_shape s;
    const dtype *type, *head;
    const quant_target *mix;
    weft_error err = { 0 };
    uint64_t bytes;
    int code = args_parse(&self, argc, argv);
    if (code < 0)
        code = resolve(&s);
    if (code < 0)
        code = find_type("type", type_name, &type);
    if (code < 0)
        code = find_type("head-type", head_name, &head);
    if (code < 0)
        code = find_mix(&mix);
    if (code >= 0)
        return code;

    const double start = bench_now();
    const weft_status status = mix ? random_gguf_write_mix(path, &s, mix, (uint64_t)seed, &bytes,
                                                           &err)
                                   : random_gguf_write(path, &s, type, head, (uint64_t)seed, &bytes,
                                                       &err);
    if (status != WEFT_OK) {
        fprintf(stderr, "random_model: %s\n", err.message);
        return status == WEFT_EINVAL ? EXIT_USAGE : 1;
    }
    const double seconds = bench_now() - start;
    fprintf(stderr, "%s: %.1f MB in %.1f s\n", path, (double)bytes / 1e6, seconds);
    return 0;
}
