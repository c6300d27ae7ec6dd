#define SET_UP
#include "small_model.h"

#include "base/rng.h"
#include "models/convert.h"

#include <string.h>

const llama_shape small_shape = { .n_layer = 2,
                                  .d_model = 64,
                                  .n_head = 4,
                                  .n_head_kv = 2,
                                  .d_ff = 96,
                                  .n_vocab = 61,
                                  .n_ctx = 320 };

void open_llama(fixture_model *f, llama_shape s)
{
    weft_error err = { 0 };
    bytes b = gguf_llama(&s);
    const char *path = temp_file("model.gguf", b.at, b.n);
    free(b.at);
    host_plain(&f->host);
    if (model_open(&f->model, path, WEFT_LOAD_COPY, &f->host, &err) != WEFT_OK)
        fail_msg("%s", err.message);
}

void open_typed(fixture_model *f, const dtype *type)
{
    llama_shape s = small_shape;
    s.type = type;
    open_llama(f, s);
}

/* Widths are multiples of a block of 32. */
static const char deepseek_config[] =
    "\"num_hidden_layers\": 3, \"hidden_size\": 64, \"num_attention_heads\": 4,"
    "\"intermediate_size\": 96, \"max_position_embeddings\": 320, \"vocab_size\": 61,"
    "\"kv_lora_rank\": 64, \"qk_nope_head_dim\": 16, \"qk_rope_head_dim\": 32,"
    "\"v_head_dim\": 24, \"q_lora_rank\": 32, \"first_k_dense_replace\": 1,"
    "\"n_routed_experts\": 8, \"num_experts_per_tok\": 3, \"n_shared_experts\": 1,"
    "\"moe_intermediate_size\": 32, \"routed_scaling_factor\": 1.5, \"n_group\": 4,"
    "\"topk_group\": 2, \"rope_theta\": 1000.0";

const char *open_deepseek(fixture_model *f, int v, const char *type)
{
    weft_error err = { 0 };
    char config[1024];
    static convert_report report;
    const int n = snprintf(config, sizeof config,
                           "{\"model_type\": \"deepseek_v%d\", %s, \"norm_topk_prob\": %s,"
                           "\"topk_method\": \"group_limited_greedy\"}",
                           v, deepseek_config, v == 3 ? "true" : "false");
    const char *directory = temp_path("deepseek"), *path = temp_path("deepseek.gguf");
    const convert_options o = { .force = true,
                                .n_thread = 1,
                                .target = quant_target_by_name(type) };
    host_plain(&f->host);
    if (init_model_write(directory, config, (size_t)n, &(init_model_source){ .seed = 7 }, &f->host,
                         &err) != WEFT_OK ||
        convert_model(directory, path, &o, &report, &f->host, &err) != WEFT_OK ||
        model_open(&f->model, path, WEFT_LOAD_COPY, &f->host, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    return path;
}

static const char small_decoder[] =
    "\"num_hidden_layers\": 3, \"hidden_size\": 64, \"intermediate_size\": 48, \"vocab_size\": 61,"
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 16,"
    "\"max_position_embeddings\": 320, \"rms_norm_eps\": 1e-6";

void open_decoder(fixture_model *f, const char *config)
{
    weft_error err = { 0 };
    char text[1024];
    const int n = snprintf(text, sizeof text, "{%s, %s}", config, small_decoder);
    const char *directory = temp_path("decoder");
    host_plain(&f->host);
    if (init_model_write(directory, text, (size_t)n, &(init_model_source){ .seed = 7 }, &f->host,
                         &err) != WEFT_OK ||
        model_open(&f->model, directory, WEFT_LOAD_COPY, &f->host, &err) != WEFT_OK)
        fail_msg("%s", err.message);
}

#define DESIGN(at, n, a, h)                                                                        \
    {                                                                                              \
        .arch = "gpt2", .design = { WEFT_POSITIONS_##at, n, a }, .attention = h                    \
    }

const init_model_shape designs[] = {
    DESIGN(LEARNED, NULL, NULL, NULL),
    DESIGN(SINUSOIDAL, NULL, NULL, NULL),
    DESIGN(ROTARY, NULL, NULL, NULL),
    DESIGN(NONE, NULL, NULL, NULL),
    DESIGN(OF_ARCH, "post", NULL, NULL),
    DESIGN(OF_ARCH, "pre-rms", NULL, NULL),
    DESIGN(OF_ARCH, "post-rms", NULL, NULL),
    DESIGN(OF_ARCH, NULL, "gelu", NULL),
    DESIGN(OF_ARCH, NULL, "relu", NULL),
    DESIGN(OF_ARCH, NULL, "silu", NULL),
    DESIGN(OF_ARCH, NULL, "swiglu", NULL),
    DESIGN(OF_ARCH, NULL, "geglu", NULL),
    DESIGN(OF_ARCH, NULL, NULL, "gqa:2"),
    DESIGN(OF_ARCH, NULL, NULL, "mqa"),
    DESIGN(OF_ARCH, NULL, NULL, "mla"),
    DESIGN(ROTARY, "pre-rms", "swiglu", "gqa:2"),
    DESIGN(ROTARY, "post", "geglu", "mla:24"),
    DESIGN(SINUSOIDAL, "post-rms", "relu", "mqa"),
    { .arch = NULL },
};

static const char *or_usual(const char *word)
{
    return word ? word : "-";
}

const char *design_name(const init_model_shape *words)
{
    static const char *const positions[] = { "-", "learned", "rope", "sinusoidal", "none" };
    static char name[80];
    snprintf(name, sizeof name, "%s, %s, %s, %s", positions[words->design.positions],
             or_usual(words->design.norm), or_usual(words->design.act), or_usual(words->attention));
    return name;
}

void open_design(fixture_model *f, const init_model_shape *words)
{
    weft_error err = { 0 };
    buffer config;
    init_model_shape shape, over = *words;
    over.n_layer = 2;
    over.d_model = 64;
    over.n_head = 4;
    over.d_ff = 96;
    over.n_ctx = 320;
    over.tied = -1;
    over.eos_id = -1;
    const char *directory = temp_path("design");
    host_plain(&f->host);
    if (init_model_resolve(NULL, &over, &shape, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    shape.n_vocab = 61;
    buffer_begin(&config, &f->host.mem, &err);
    init_model_config(&config, &shape);
    if (init_model_write(directory, (const char *)config.at, config.n,
                         &(init_model_source){ .seed = 7 }, &f->host, &err) != WEFT_OK ||
        model_open(&f->model, directory, WEFT_LOAD_COPY, &f->host, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    buffer_end(&config);
}

void open_golden(fixture_model *f, const char *name)
{
    char path[128];
    weft_error err = { 0 };
    snprintf(path, sizeof path, "golden/%s", name);
    host_plain(&f->host);
    if (model_open(&f->model, fixture(path), WEFT_LOAD_COPY, &f->host, &err) != WEFT_OK)
        fail_msg("%s", err.message);
}

void close_llama(fixture_model *f)
{
    model_close(&f->model);
    assert_int_equal(f->host.mem.used, 0);
}

engine *make_engine(fixture_model *f, engine_options o)
{
    weft_error err = { 0 };
    engine *e = engine_new(&f->model, &o, &err);
    if (!e)
        fail_msg("%s", err.message);
    return e;
}

session *make_session(engine *e)
{
    weft_error err = { 0 };
    session *s = session_new(e, &err);
    if (!s)
        fail_msg("%s", err.message);
    return s;
}

void must_eval(engine *e, work *w, int n)
{
    weft_error err = { 0 };
    if (engine_eval(e, w, n, &err) != WEFT_OK)
        fail_msg("%s", err.message);
}

void must_feed(session *s, const int32_t *ids, int64_t n)
{
    must_eval(s->engine, &(work){ .session = s, .ids = ids, .n = n }, 1);
}

void must_encode(engine *e, const source_text *s, int n)
{
    weft_error err = { 0 };
    if (engine_encode(e, s, n, &err) != WEFT_OK)
        fail_msg("%s", err.message);
}

typedef struct whole {
    batch_row row[MAX_RECOMPUTED], src_row[MAX_RECOMPUTED];
    sequence seq, src_seq;
    batch batch, src;
} whole;

static void lay_out(batch *b, batch_row *row_of, sequence *seq, const int32_t *ids, int n)
{
    *seq = (sequence){ .n = n, .source = -1 };
    *b = (batch){ .n_row = n, .n_seq = 1, .row = row_of, .seq = seq };
    for (int i = 0; i < n; i++)
        row_of[i] = (batch_row){ .id = ids[i], .pos = i };
}

void recompute(const model *m, const kernels *kern, const int32_t *source, int n_source,
               const int32_t *ids, int n, float *logits)
{
    static whole w;
    run dry, r;
    weft_error err = { 0 };
    lay_out(&w.src, w.src_row, &w.src_seq, source, n_source);
    lay_out(&w.batch, w.row, &w.seq, ids, n);
    w.batch.src = n_source > 0 ? &w.src : NULL;
    w.seq.source = n_source > 0 ? 0 : -1;
    w.row[n - 1].wanted = true;
    w.batch.n_wanted = 1;
    assert_int_equal(run_init_dry(&dry, &m->host->mem, 1, &err), WEFT_OK);
    run_begin(&dry, &w.batch);
    model_forward(&dry, m);
    assert_int_equal(
        run_init(&r, &m->host->mem, dry.meta.peak, dry.data.peak, dry.scratch_peak, &err), WEFT_OK);
    run_free(&dry);
    r.kern = kern;
    run_begin(&r, &w.batch);
    const tensor *z = model_forward(&r, m);
    memcpy(logits, row(z, 0), (size_t)m->n_vocab * sizeof *logits);
    run_free(&r);
}

uint32_t draw(uint64_t seed, uint64_t i)
{
    return rng_draw(77, seed, i).word[0];
}

void story(int32_t *ids, int n, uint64_t who)
{
    for (int i = 0; i < n; i++)
        ids[i] = (int32_t)(draw(1000 + who, (uint64_t)i) % (uint32_t)small_shape.n_vocab);
}
