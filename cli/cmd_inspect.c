/* weft inspect - what a model file holds, and what running it takes. */
#include "cli.h"
#include "json.h"

#include <stdlib.h>
#include <string.h>

static load_options load;
static shape_options shape;
static bool json, tensors, metadata, no_speed;

static const option options[] = {
    OPTION_MODEL(load),
    { 0, "tensors", OPT_FLAG, &tensors, NULL, 0, "list every tensor" },
    { 0, "metadata", OPT_FLAG, &metadata, NULL, 0, "list every metadata entry" },
    { 0, "no-speed", OPT_FLAG, &no_speed, NULL, 0, "do not measure the speed of this machine" },
    OPTION_CTX_SIZE(shape),
    OPTION_BATCH_SIZE(shape),
    OPTION_THREADS(shape.threads),
    OPTION_KV_TYPE(shape),
    OPTION_RAM_MAX,
    OPTION_JSON(json, "print one JSON object"),
    { 0 },
};

static const char examples[] = "  weft inspect models/shakespeare.gguf\n"
                               "  weft inspect ./model-directory --tensors -c 8192\n";

/* Types of a cache, in the order of weft_kv_type. */
static const char *const kv_names[] = { "f32", "f16", "bf16", "q8_0" };
#define N_KV (int)(sizeof kv_names / sizeof *kv_names)

typedef struct view {
    weft_model *model;
    weft_model_info info;
    weft_memory_plan plan;
    size_t position[N_KV]; /* bytes of a position in a cache of each type; 0: it cannot have that */
    weft_model_cost cost;
    weft_speed speed; /* prompt 0: not known */
} view;

static weft_tensor_info tensor_at(const view *v, int64_t i)
{
    weft_tensor_info t = { .struct_size = sizeof t };
    weft_model_get_tensor(v->model, i, &t);
    return t;
}

static size_t weight_bytes(const view *v)
{
    size_t bytes = 0;
    for (int64_t i = 0; i < v->info.n_tensor; i++)
        bytes += tensor_at(v, i).bytes;
    return bytes;
}

typedef struct type_total {
    const char *type;
    int64_t n_tensor;
    size_t bytes;
} type_total;

#define MAX_TYPE 16

/* Sums by type, in the order in which types appear; returns how many there are. */
static int by_type(const view *v, type_total total[MAX_TYPE])
{
    int n = 0;
    for (int64_t i = 0; i < v->info.n_tensor; i++) {
        const weft_tensor_info t = tensor_at(v, i);
        int at = 0;
        while (at < n && strcmp(total[at].type, t.type) != 0)
            at++;
        if (at == n && n == MAX_TYPE)
            continue; /* there are not so many */
        if (at == n)
            total[n++] = (type_total){ t.type, 0, 0 };
        total[at].n_tensor++;
        total[at].bytes += t.bytes;
    }
    return n;
}

typedef struct named_part {
    const char *label, *name;
    const weft_part *part;
} named_part;

#define N_PART 4

static void parts_of(const view *v, named_part part[N_PART])
{
    const weft_model_cost *c = &v->cost;
    part[0] = (named_part){ "embedding", "embedding", &c->embedding };
    part[1] = (named_part){ "attention", "attention", &c->attention };
    part[2] = (named_part){ "feed forward", "feed_forward", &c->feed_forward };
    part[3] = (named_part){ "head", "head", &c->head };
}

static void print_shape(const weft_tensor_info *t)
{
    putchar('[');
    for (int d = 0; d < t->n_dim; d++)
        printf("%s%lld", d ? ", " : "", (long long)t->shape[d]);
    putchar(']');
}

/* The whole value, which the caller frees; NULL without memory. */
static char *metadata_at(const view *v, int64_t i, const char **key)
{
    for (size_t size = 256;; size *= 2) {
        char *value = cli_alloc(size, 1, "a value");
        if (!value)
            return NULL;
        weft_model_get_metadata(v->model, i, key, value, size);
        if (strlen(value) + 1 < size)
            return value;
        cli_free(value);
    }
}

/* ---- for reading ----------------------------------------------------------------------------- */

static void print_costs(const view *v)
{
    named_part part[N_PART];
    type_total total[MAX_TYPE];
    const int n = by_type(v, total);
    char a[32], b[32];
    fputs("types        ", stdout);
    for (int i = 0; i < n; i++)
        printf("%s %s %s", i ? "," : "", total[i].type, cli_bytes(total[i].bytes, a, sizeof a));
    putchar('\n');
    parts_of(v, part);
    for (int i = 0; i < N_PART; i++)
        printf("%-13s %lld parameters, %s, %sflop per token\n", part[i].label,
               (long long)part[i].part->n_parameter, cli_bytes(part[i].part->bytes, a, sizeof a),
               cli_count(part[i].part->flops, b, sizeof b));
}

static void print_speed(const view *v)
{
    char a[32], b[32];
    if (v->speed.prompt > 0)
        printf(
            "speed         prompt of %lld %.1f tok/s, generation %.1f tok/s (predicted: %sflop/s, "
            "%sB/s)\n",
            (long long)v->speed.n_prompt, v->speed.prompt, v->speed.generate,
            cli_count(v->speed.product_rate, a, sizeof a),
            cli_count(v->speed.read_rate, b, sizeof b));
}

static const char *const tasks[] = {
    [WEFT_TASK_GENERATE] = "generate", [WEFT_TASK_FILL] = "fill",
    [WEFT_TASK_CLASSIFY] = "classify", [WEFT_TASK_TAG] = "tag",
    [WEFT_TASK_ANSWER] = "answer",     [WEFT_TASK_EMBED] = "embed",
};

static bool generates(const view *v)
{
    return v->info.task == WEFT_TASK_GENERATE;
}

static void print_memory(const view *v)
{
    const size_t weights = weight_bytes(v);
    char a[32], b[32], c[32], d[32];
    printf("memory        %s: weights %s, ",
           cli_bytes(weights + v->plan.kv_bytes + v->plan.step_bytes, a, sizeof a),
           cli_bytes(weights, b, sizeof b));
    if (generates(v))
        printf("KV cache of %lld tokens %s, ", (long long)v->plan.n_ctx,
               cli_bytes(v->plan.kv_bytes, c, sizeof c));
    printf("activations %s\n", cli_bytes(v->plan.step_bytes, d, sizeof d));
}

/* What one more position takes: the reason for sharing heads, for latents, for fewer bits. */
static void print_cache(const view *v)
{
    fputs("cache         bytes per token:", stdout);
    for (int i = 0; i < N_KV; i++)
        if (v->position[i] > 0)
            printf("%s %s %zu", i ? "," : "", kv_names[i], v->position[i]);
    putchar('\n');
}

static void print_text(const view *v)
{
    const weft_model_info *i = &v->info;
    char a[32];
    printf("architecture  %s (%s)\n", i->architecture, i->format);
    if (!generates(v))
        printf("task          %s, %lld outputs\n", tasks[i->task], (long long)i->n_out);
    printf("parameters    %lld in %lld tensors, %s\n", (long long)i->n_parameter,
           (long long)i->n_tensor, cli_bytes(weight_bytes(v), a, sizeof a));
    if (i->n_left_out > 0)
        printf("left out      %lld tensors that weft does not use\n", (long long)i->n_left_out);
    if (i->n_layer_src > 0)
        printf("encoder       %lld layers, vocabulary %lld\n", (long long)i->n_layer_src,
               (long long)i->n_vocab_src);
    printf("layers        %lld, d_model %lld, d_ff %lld\n", (long long)i->n_layer,
           (long long)i->d_model, (long long)i->d_ff);
    printf("heads         %lld of width %lld, %lld KV heads\n", (long long)i->n_head,
           (long long)i->d_head, (long long)i->n_head_kv);
    if (i->images)
        puts("takes         pictures");
    else
        printf("vocabulary    %lld\n", (long long)i->n_vocab);
    printf("context       %lld tokens\n", (long long)i->n_ctx);
    print_costs(v);
    print_memory(v);
    if (generates(v))
        print_cache(v);
    print_speed(v);
}

static void print_tensors(const view *v)
{
    puts("\ntensors");
    for (int64_t i = 0; i < v->info.n_tensor; i++) {
        const weft_tensor_info t = tensor_at(v, i);
        printf("  %-32s %-5s ", t.name, t.type);
        print_shape(&t);
        printf(" %zu bytes\n", t.bytes);
    }
}

/* At most `most` bytes, on one line: a template's line ends would break the list, an escape the
 * screen. Returns how many were shown. */
static int print_clean(const char *text, size_t most)
{
    const size_t length = strlen(text);
    size_t i = 0;
    while (i < length && i < most) {
        const size_t n = cli_utf8(text + i, length - i);
        const unsigned char c = (unsigned char)text[i], next = (unsigned char)text[i + (n > 1)];
        if (n == 0 || c < 0x20 || c == 0x7F || (c == 0xC2 && next < 0xA0))
            putchar(n && c == '\n' ? ' ' : '?');
        else
            fwrite(text + i, 1, n, stdout);
        i += n ? n : 1;
    }
    fputs(i < length ? "..." : "", stdout);
    return (int)i;
}

static bool print_metadata(const view *v)
{
    puts("\nmetadata");
    for (int64_t i = 0; i < v->info.n_metadata; i++) {
        const char *key;
        char *value = metadata_at(v, i, &key);
        if (!value)
            return false;
        fputs("  ", stdout);
        const int width = print_clean(key, 128);
        printf("%*s", width < 40 ? 41 - width : 1, "");
        print_clean(value, 160);
        putchar('\n');
        cli_free(value);
    }
    return true;
}

static bool print_all(const view *v)
{
    print_text(v);
    if (tensors)
        print_tensors(v);
    return !metadata || print_metadata(v);
}

/* ---- for programs ---------------------------------------------------------------------------- */

static void json_tensors(const view *v)
{
    cli_json_list("tensors");
    for (int64_t i = 0; i < v->info.n_tensor; i++) {
        const weft_tensor_info t = tensor_at(v, i);
        cli_json_object(NULL);
        cli_json_string("name", t.name);
        cli_json_string("type", t.type);
        cli_json_list("shape");
        for (int d = 0; d < t.n_dim; d++)
            cli_json_int(NULL, t.shape[d]);
        cli_json_end();
        cli_json_int("bytes", t.bytes);
        cli_json_end();
    }
    cli_json_end();
}

static bool json_metadata(const view *v)
{
    cli_json_object("metadata");
    for (int64_t i = 0; i < v->info.n_metadata; i++) {
        const char *key;
        char *value = metadata_at(v, i, &key);
        if (!value)
            return false;
        cli_json_string(key, value);
        cli_free(value);
    }
    cli_json_end();
    return true;
}

static void json_costs(const view *v)
{
    named_part part[N_PART];
    type_total total[MAX_TYPE];
    const int n = by_type(v, total);
    parts_of(v, part);
    cli_json_object("types");
    for (int i = 0; i < n; i++) {
        cli_json_object(total[i].type);
        cli_json_int("n_tensor", total[i].n_tensor);
        cli_json_int("bytes", total[i].bytes);
        cli_json_end();
    }
    cli_json_end();
    cli_json_object("parts");
    for (int i = 0; i < N_PART; i++) {
        cli_json_object(part[i].name);
        cli_json_int("n_parameter", part[i].part->n_parameter);
        cli_json_int("bytes", part[i].part->bytes);
        cli_json_fixed("flops", part[i].part->flops, 0);
        cli_json_end();
    }
    cli_json_end();
}

static void json_speed(const weft_speed *s)
{
    cli_json_object("speed");
    cli_json_int("n_prompt", s->n_prompt);
    cli_json_real("prompt", s->prompt, 4);
    cli_json_real("generate", s->generate, 4);
    cli_json_real("flops_per_second", s->product_rate, 4);
    cli_json_real("bytes_per_second", s->read_rate, 4);
    cli_json_fixed("seconds", s->seconds, 2);
    cli_json_end();
}

static void json_cache(const view *v)
{
    cli_json_object("position_bytes");
    for (int i = 0; i < N_KV; i++)
        if (v->position[i] > 0)
            cli_json_int(kv_names[i], v->position[i]);
    cli_json_end();
}

static void json_info(const view *v)
{
    const weft_model_info *i = &v->info;
    cli_json_string("architecture", i->architecture);
    cli_json_string("format", i->format);
    cli_json_int("n_parameter", i->n_parameter);
    if (i->n_left_out > 0)
        cli_json_int("n_left_out", i->n_left_out);
    cli_json_int("weight_bytes", weight_bytes(v));
    cli_json_int("n_layer", i->n_layer);
    cli_json_int("n_head", i->n_head);
    cli_json_int("n_head_kv", i->n_head_kv);
    cli_json_int("d_model", i->d_model);
    cli_json_int("d_head", i->d_head);
    cli_json_int("d_ff", i->d_ff);
    cli_json_int("n_vocab", i->n_vocab);
    cli_json_int("n_ctx", i->n_ctx);
    cli_json_int("eos_id", i->eos_id);
    cli_json_string("task", tasks[i->task]);
    cli_json_int("n_out", i->n_out);
    cli_json_object("plan");
    cli_json_int("n_ctx", v->plan.n_ctx);
    cli_json_int("kv_bytes", v->plan.kv_bytes);
    cli_json_int("step_bytes", v->plan.step_bytes);
    cli_json_end();
}

static bool print_json(const view *v)
{
    cli_json_object(NULL);
    json_info(v);
    if (generates(v))
        json_cache(v);
    json_costs(v);
    if (v->speed.prompt > 0)
        json_speed(&v->speed);
    if (tensors)
        json_tensors(v);
    if (metadata && !json_metadata(v))
        return false;
    cli_json_end();
    return true;
}

/* A type whose blocks do not fit the model's rows has no size. */
static void measure_cache(view *v, weft_engine_options o)
{
    for (int i = 0; i < N_KV; i++) {
        weft_memory_plan plan = { .struct_size = sizeof plan };
        o.kv_type = (weft_kv_type)(WEFT_KV_F32 + i);
        if (weft_engine_plan(v->model, &o, &plan, NULL) == WEFT_OK)
            v->position[i] = plan.position_bytes;
    }
}

/* Computes memory and speed. If the machine cannot be measured for lack of memory, that is a
 * warning, not an error of the file, and no speed is shown. */
static bool calculate(view *v, const weft_engine_options *o, weft_error *err)
{
    v->plan.struct_size = sizeof v->plan;
    v->cost.struct_size = sizeof v->cost;
    if (!generates(v)) {
        const weft_encoder_options e = {
            .struct_size = sizeof e, .threads = o->threads, .n_batch = o->n_batch, .n_ctx = o->n_ctx
        };
        return weft_encoder_plan(v->model, &e, &v->plan, err) == WEFT_OK &&
               weft_model_get_cost(v->model, v->plan.n_ctx, &v->cost, err) == WEFT_OK;
    }
    if (weft_engine_plan(v->model, o, &v->plan, err) != WEFT_OK ||
        weft_model_get_cost(v->model, v->plan.n_ctx, &v->cost, err) != WEFT_OK)
        return false;
    measure_cache(v, *o);
    v->speed.struct_size = sizeof v->speed;
    weft_error no_speed_because;
    if (!no_speed && weft_engine_estimate(v->model, o, &v->speed, &no_speed_because) != WEFT_OK) {
        v->speed.prompt = 0;
        fprintf(stderr, "weft: cannot predict the speed: %s\n", no_speed_because.message);
    }
    return true;
}

/* ---- the command ----------------------------------------------------------------------------- */

static int inspect_main(void)
{
    weft_error err = { 0 };
    weft_engine_options o;
    if (!load.path)
        return cli_which_model(&command_inspect);
    int code = cli_engine_options(&command_inspect, &shape, &o);
    if (code)
        return code;
    view v = { .model = cli_open(&load, &err), .info = { .struct_size = sizeof v.info } };
    if (!v.model)
        return cli_fail(&err);
    weft_model_get_info(v.model, &v.info);
    if (!calculate(&v, &o, &err))
        code = cli_fail(&err);
    else if (!(json ? print_json(&v) : print_all(&v)))
        code = cli_no_memory();
    weft_model_close(v.model);
    return code;
}

const command command_inspect = {
    .name = "inspect",
    .arguments = "MODEL",
    .summary = "show a model's shape, tensors, memory and speed",
    .examples = examples,
    .options = options,
    .n_positional = 1,
    .positional = &load.path,
    .main = inspect_main,
};
