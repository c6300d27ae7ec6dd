/* Encoders: the output of an input depends on that input alone. */
#include "engine/encode.h"
#include "engine/engine.h"
#include "golden.h"
#include "support.h"

typedef struct opened {
    host host;
    model model;
} opened;

static void open_golden(opened *o, const char *name)
{
    char path[256];
    weft_error err = { 0 };
    snprintf(path, sizeof path, "golden/%s", name);
    host_plain(&o->host);
    if (model_open(&o->model, fixture(path), WEFT_LOAD_COPY, &o->host, &err) != WEFT_OK)
        fail_msg("%s", err.message);
}

static void close_golden(opened *o)
{
    model_close(&o->model);
    assert_int_equal(o->host.mem.used, 0);
}

static encode_engine *make(opened *o, encode_engine_options opt)
{
    weft_error err = { 0 };
    encode_engine *e = encode_engine_new(&o->model, &opt, &err);
    if (!e)
        fail_msg("%s", err.message);
    return e;
}

/* ---- one by one and together ----------------------------------------------------------------- */

#define N_INPUT 23
#define MAX_OUT 67

typedef struct texts {
    int32_t ids[N_INPUT][32], at[N_INPUT][4];
    uint8_t types[N_INPUT][32];
    weft_input input[N_INPUT];
    float out[N_INPUT][32 * MAX_OUT];
} texts;

/* Lengths from 1 to the context, unordered; some want a few rows only, some none. */
static void write_texts(texts *t, const encode_engine *e)
{
    const int64_t most = e->opt.n_ctx;
    memset(t, 0, sizeof *t);
    for (int i = 0; i < N_INPUT; i++) {
        const int64_t n = i == 4 ? most : 1 + i * 7 % most;
        weft_input *in = &t->input[i];
        *in = (weft_input){ .ids = t->ids[i], .types = t->types[i], .n = n, .out = t->out[i] };
        for (int64_t k = 0; k < n; k++) {
            t->ids[i][k] = (int32_t)(2 + (i * 31 + k * 17) % 60);
            t->types[i][k] = e->model->n_type > 1 && k > n / 2;
        }
        if (i % 3 == 1) {
            in->at = t->at[i];
            in->n_at = i % 2 ? 0 : n > 2 ? 2 : 1;
            t->at[i][0] = (int32_t)(n > 2 ? 1 : 0);
            t->at[i][1] = (int32_t)(n - 1);
        }
    }
}

static void must_encode(encode_engine *e, const weft_input *in, int64_t n)
{
    weft_error err = { 0 };
    if (encode_engine_eval(e, in, n, &err) != WEFT_OK)
        fail_msg("%s", err.message);
}

static void same_together(opened *o, weft_encoder_output output)
{
    static texts alone, together;
    encode_engine *one = make(o, (encode_engine_options){ .n_thread = 1, .output = output });
    write_texts(&alone, one);
    for (int i = 0; i < N_INPUT; i++)
        must_encode(one, &alone.input[i], 1);
    const int rows_at_once[] = { (int)o->model.n_ctx, 41, 256 };
    for (int k = 0; k < 3; k++) {
        encode_engine *many = make(o, (encode_engine_options){ .n_thread = 1 + k,
                                                               .n_batch = rows_at_once[k],
                                                               .output = output });
        write_texts(&together, many);
        must_encode(many, together.input, N_INPUT);
        assert_memory_equal(alone.out, together.out, sizeof alone.out);
        encode_engine_free(many);
    }
    encode_engine_free(one);
}

static void batch_equals_one_by_one(void **state)
{
    (void)state;
    static const char *const names[] = {
        "bert-fill", "bert-classify", "roberta-tag",    "distilbert-classify", "bert-answer",
        "bert",      "mpnet",         "electra-detect", "nomic-fill",          "xlm-roberta-rank"
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        opened o;
        open_golden(&o, names[i]);
        for (weft_encoder_output output = WEFT_OUTPUT_HEAD; output <= WEFT_OUTPUT_POOLED; output++)
            same_together(&o, output);
        close_golden(&o);
    }
}

/* The comparison above can fail: seeing a row of another text changes the bits. */
static void other_texts_would_show(void **state)
{
    (void)state;
    static texts a, b;
    opened o;
    open_golden(&o, "bert");
    encode_engine *e = make(&o, (encode_engine_options){ .n_thread = 1 });
    write_texts(&a, e);
    write_texts(&b, e);
    b.ids[4][b.input[4].n - 1] ^= 1; /* the last token: the first row sees it too */
    must_encode(e, a.input, N_INPUT);
    must_encode(e, b.input, N_INPUT);
    assert_memory_not_equal(a.out[4], b.out[4], 24 * sizeof(float));
    assert_memory_equal(a.out[5], b.out[5], sizeof a.out[5]);
    encode_engine_free(e);
    close_golden(&o);
}

/* ---- output comes out -------------------------------------------------------------------------- */

/* The last states and logits of a golden trace, through the engine. */
static void equals_trace(void **state)
{
    (void)state;
    static const struct {
        const char *name, *states, *output;
    } cases[] = {
        { "bert-fill", "blk.1.layer_output_norm", "output" },
        { "bert-classify", "blk.1.layer_output_norm", "cls.output" },
        { "roberta-answer", "blk.1.layer_output_norm", "qa.output" },
        { "distilbert-tag", "blk.1.layer_output_norm", "tag.output" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (weft_encoder_output output = WEFT_OUTPUT_HEAD; output <= WEFT_OUTPUT_STATES;
             output++) {
            char path[256];
            opened o;
            golden g;
            float out[32 * MAX_OUT];
            uint8_t types[32];
            open_golden(&o, cases[i].name);
            snprintf(path, sizeof path, "golden/%s/trace.safetensors", cases[i].name);
            golden_open(&g, fixture(path), 1e-5);
            encode_engine *e = make(&o, (encode_engine_options){ .n_thread = 2, .output = output });
            const stored *ids = golden_tensor(&g, "ids"), *type = golden_tensor(&g, "types");
            const char *name = output == WEFT_OUTPUT_HEAD ? cases[i].output : cases[i].states;
            const stored *want = golden_tensor(&g, name);
            for (int64_t k = 0; k < ids->shape[0]; k++)
                types[k] = (uint8_t)((const int32_t *)type->data)[k];
            const weft_input in = {
                .ids = (const int32_t *)ids->data, .types = types, .n = ids->shape[0], .out = out
            };
            assert_int_equal(encode_engine_width(e), want->shape[1]);
            assert_int_equal(encode_engine_rows(e, &in), want->shape[0]);
            must_encode(e, &in, 1);
            golden_check(&g, name, out, want->shape[1], (const float *)want->data, want->shape[0],
                         want->shape[1]);
            if (g.first[0])
                fail_msg("%s: %s differs by %g", cases[i].name, g.first, g.first_error);
            encode_engine_free(e);
            golden_close(&g);
            close_golden(&o);
        }
}

/* The mean of the states, and the same with length 1. */
static void pools(void **state)
{
    (void)state;
    opened o;
    const int32_t ids[] = { 5, 9, 2, 60, 33 };
    float states[5 * 24], pooled[24], unit[24];
    open_golden(&o, "bert");
    encode_engine *rows = make(&o, (encode_engine_options){ .output = WEFT_OUTPUT_STATES });
    encode_engine *one = make(&o, (encode_engine_options){ .output = WEFT_OUTPUT_POOLED });
    must_encode(rows, &(weft_input){ .ids = ids, .n = 5, .out = states }, 1);
    must_encode(one, &(weft_input){ .ids = ids, .n = 5, .out = pooled }, 1);
    double length = 0;
    for (int k = 0; k < 24; k++) {
        double mean = 0;
        for (int i = 0; i < 5; i++)
            mean += (double)states[i * 24 + k] / 5;
        assert_true(fabs(mean - (double)pooled[k]) < 1e-6);
        length += mean * mean;
    }
    o.model.pool.normalize = true;
    encode_engine *normal = make(&o, (encode_engine_options){ .output = WEFT_OUTPUT_POOLED });
    must_encode(normal, &(weft_input){ .ids = ids, .n = 5, .out = unit }, 1);
    for (int k = 0; k < 24; k++)
        assert_true(fabs((double)pooled[k] / sqrt(length) - (double)unit[k]) < 1e-6);
    encode_engine_free(normal);
    encode_engine_free(one);
    encode_engine_free(rows);
    close_golden(&o);
}

/* ---- limits ---------------------------------------------------------------------------------- */

static void refuses(void **state)
{
    (void)state;
    opened o;
    weft_error err = { 0 };
    int32_t ids[32] = { 0 };
    uint8_t types[32] = { 0 };
    const float feature[8] = { 0 };
    const int32_t twice[] = { 1, 1 }, beyond[] = { 3 }, below[] = { -1 };
    float out[32 * 24];
    open_golden(&o, "bert");
    encode_engine *e = make(&o, (encode_engine_options){ .n_thread = 1 });
    const weft_input good = { .ids = ids, .types = types, .n = 3, .out = out };
    struct {
        weft_input in;
        weft_status status;
        const char *says;
    } cases[] = {
        { good, WEFT_EINVAL, "it is empty" },
        { good, WEFT_ECONTEXT, "30 tokens; expected at most 29" },
        { good, WEFT_EINVAL, "no output buffer" },
        { good, WEFT_EINVAL, "takes tokens" },
        { good, WEFT_EINVAL, "takes tokens" },
        { good, WEFT_EINVAL, "in ascending order" },
        { good, WEFT_EINVAL, "expected rows below 3" },
        { good, WEFT_EINVAL, "row -1" },
    };
    cases[0].in.n = 0;
    cases[1].in.n = 30;
    cases[2].in.out = NULL;
    cases[3].in.ids = NULL;
    cases[4].in.features = feature;
    cases[5].in.at = twice, cases[5].in.n_at = 2;
    cases[6].in.at = beyond, cases[6].in.n_at = 1;
    cases[7].in.at = below, cases[7].in.n_at = 1;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(encode_engine_eval(e, &cases[i].in, 1, &err), cases[i].status);
        assert_non_null(strstr(err.message, cases[i].says));
    }
    ids[2] = 67;
    assert_int_equal(encode_engine_eval(e, &good, 1, &err), WEFT_EINVAL);
    assert_non_null(strstr(err.message, "the vocabulary has 67"));
    ids[2] = 66;
    const int32_t kept = ids[0];
    ids[0] = -1;
    assert_int_equal(encode_engine_eval(e, &good, 1, &err), WEFT_EINVAL);
    assert_string_equal(err.message, "token 0 of input 0 is -1, the vocabulary has 67");
    ids[0] = kept;
    types[1] = 2;
    assert_int_equal(encode_engine_eval(e, &good, 1, &err), WEFT_EINVAL);
    assert_non_null(strstr(err.message, "the model has 2 types"));
    types[1] = 1;
    must_encode(e, &good, 1);
    encode_engine_free(e);

    encode_engine_options wrong[] = { { .n_ctx = 30 },
                                      { .n_ctx = -1 },
                                      { .n_batch = 28 },
                                      { .n_batch = 65537 },
                                      { .output = (weft_encoder_output)3 } };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(encode_engine_resolve(&o.model, &wrong[i], &err), WEFT_EINVAL);
    engine_options generating = { 0 };
    assert_int_equal(engine_resolve(&o.model, &generating, &err), WEFT_EUNSUPPORTED);
    assert_non_null(strstr(err.message, "is an encoder and cannot generate text"));
    close_golden(&o);

    open_golden(&o, "deepseek-v3");
    encode_engine_options reading = { 0 };
    assert_int_equal(encode_engine_resolve(&o.model, &reading, &err), WEFT_EUNSUPPORTED);
    close_golden(&o);
}

/* With a count out of range, the rows of the next input would go to the wrong place. */
static void counts_are_refused(void **state)
{
    (void)state;
    opened o;
    weft_error err = { 0 };
    const int32_t ids[] = { 5, 6, 7 }, at[] = { 0, 2 };
    const int64_t wrong[] = { -1, -5, 4, INT64_C(1) << 31, INT64_C(1) << 62, INT64_MAX, INT64_MIN };
    float out[4][3 * 67], untouched[4][3 * 67];
    open_golden(&o, "bert-fill");
    encode_engine *e = make(&o, (encode_engine_options){ .n_thread = 1 });
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        for (int with = 0; with < 2; with++) {
            memset(out, 0x55, sizeof out);
            memcpy(untouched, out, sizeof out);
            const weft_input in[] = {
                { .ids = ids, .n = 3, .at = with ? at : NULL, .n_at = wrong[i], .out = out[1] },
                { .ids = ids, .n = 3, .out = out[2] },
            };
            assert_int_equal(encode_engine_rows(e, &in[0]), 0);
            assert_int_equal(encode_engine_eval(e, in, 2, &err), WEFT_EINVAL);
            assert_non_null(strstr(err.message, "input 0: n_at is "));
            assert_memory_equal(out, untouched, sizeof out);
        }
    encode_engine_free(e);
    close_golden(&o);
}

/* ---- decoders ---------------------------------------------------------------------------------- */

static void keep_states(void *ud, const tensor *t, const op *by)
{
    (void)by;
    if (strcmp(t->name, "output_norm") == 0)
        for (int64_t k = 0; k < cols(t); k++)
            ((float *)ud)[k] = (float)row(t, rows(t) - 1)[k];
}

/* The last token's vector is the input of a session's head, and all poolings use such rows. */
static void decoders_give_their_states(void **state)
{
    (void)state;
    static const char *const names[] = { "llama-gqa",      "qwen2", "qwen3",
                                         "mistral-window", "gpt2",  "gpt2-rope" };
    enum { N = 11, D = 64 };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        opened o;
        weft_error err = { 0 };
        float want[D] = { 0 }, got[D], each[N * D];
        int32_t ids[N];
        open_golden(&o, names[i]);
        const int64_t d = o.model.d_model;
        assert_true(d <= D && o.model.pool.kind == POOL_LAST);
        for (int k = 0; k < N; k++)
            ids[k] = (k * 13 + 5) % (int32_t)o.model.n_vocab;
        engine *e = engine_new(&o.model, &(engine_options){ .n_thread = 1, .kv = &dtype_f32 },
                               &err);
        assert_non_null(e);
        session *s = session_new(e, &err);
        assert_int_equal(
            engine_trace(e, &(trace_spec){ .trace = keep_states, .trace_ud = want }, &err),
            WEFT_OK);
        assert_int_equal(engine_eval(e, &(work){ .session = s, .ids = ids, .n = N }, 1, &err),
                         WEFT_OK);
        session_free(s);
        engine_free(e);

        encode_engine *w = make(
            &o, (encode_engine_options){ .n_thread = 2, .output = WEFT_OUTPUT_STATES });
        weft_input in = { .ids = ids, .n = N, .out = each };
        must_encode(w, &in, 1);
        encode_engine_free(w);
        assert_memory_equal(each + (N - 1) * d, want, (size_t)d * sizeof *want);
        for (weft_pooling p = WEFT_POOLING_MODEL; p <= WEFT_POOLING_LAST; p++) {
            w = make(&o, (encode_engine_options){
                             .n_thread = 1, .output = WEFT_OUTPUT_POOLED, .pooling = p });
            in.out = got;
            must_encode(w, &in, 1);
            encode_engine_free(w);
            for (int64_t k = 0; k < d; k++) {
                double mean = 0, most = (double)each[k];
                for (int64_t t = 0; t < N; t++) {
                    mean += (double)each[t * d + k] / N;
                    most = fmax(most, (double)each[t * d + k]);
                }
                const double expected = p == WEFT_POOLING_MEAN    ? mean
                                        : p == WEFT_POOLING_MAX   ? most
                                        : p == WEFT_POOLING_FIRST ? (double)each[k]
                                                                  : (double)want[k];
                assert_true(fabs((double)got[k] - expected) <= 1e-6 * (1 + fabs(expected)));
            }
        }
        w = make(&o, (encode_engine_options){
                         .n_thread = 1, .output = WEFT_OUTPUT_POOLED, .normalize = true });
        must_encode(w, &in, 1);
        encode_engine_free(w);
        double length = 0;
        for (int64_t k = 0; k < d; k++)
            length += (double)got[k] * (double)got[k];
        assert_true(fabs(length - 1) < 1e-5);
        close_golden(&o);
    }
}

static void poolings_that_are_not(void **state)
{
    (void)state;
    opened o;
    weft_error err = { 0 };
    open_golden(&o, "llama-gqa");
    for (int p = -1; p <= WEFT_POOLING_LAST + 1; p += WEFT_POOLING_LAST + 2) {
        const encode_engine_options opt = { .n_thread = 1, .pooling = (weft_pooling)p };
        assert_null(encode_engine_new(&o.model, &opt, &err));
        assert_int_equal(err.code, WEFT_EINVAL);
    }
    close_golden(&o);
}

/* Allocates no more than predicted, and every allocation may fail. */
static void memory_is_predicted(void **state)
{
    (void)state;
    static texts t;
    opened o;
    weft_error err = { 0 };
    encode_engine_plan plan;
    open_golden(&o, "bert-fill");
    encode_engine_options opt = { .n_thread = 2, .n_batch = 64 };
    assert_int_equal(encode_engine_resolve(&o.model, &opt, &err), WEFT_OK);
    assert_int_equal(encode_engine_predict(&o.model, &opt, NULL, &plan, &err), WEFT_OK);
    const size_t before = o.host.mem.used;
    o.host.mem.peak = before;
    encode_engine *e = make(&o, opt);
    write_texts(&t, e);
    must_encode(e, t.input, N_INPUT);
    assert_in_range(o.host.mem.used - before, 1, plan.total);
    assert_true(e->run.data.peak <= plan.forward.data && e->run.meta.peak <= plan.forward.meta);
    encode_engine_free(e);
    const size_t kept = o.host.mem.used, own = plan.total - plan.panels;
    assert_true(kept - before <= plan.panels); /* packed weights are the model's */
    assert_int_equal(kept > before, plan.panels > 0);
    for (size_t cap = kept; cap < kept + own; cap += own / 40) {
        o.host.mem.cap = cap;
        encode_engine *poor = encode_engine_new(&o.model, &opt, &err);
        if (!poor)
            assert_true(err.code == WEFT_ELIMIT || err.code == WEFT_ENOMEM);
        encode_engine_free(poor);
        assert_int_equal(o.host.mem.used, kept);
    }
    o.host.mem.cap = 0;
    close_golden(&o);
}

static void names_what_is_not_a_number(void **state)
{
    (void)state;
    opened o;
    weft_error err = { 0 };
    const int32_t ids[] = { 5, 6 };
    float out[48];
    open_golden(&o, "bert");
    for (int64_t i = 0; i < o.model.n_param; i++)
        if (strcmp(o.model.param[i]->name, "blk.1.ffn_up.weight") == 0)
            ((float *)o.model.param[i]->data)[7] = NAN;
    encode_engine *e = make(&o, (encode_engine_options){ .n_thread = 1 });
    const weft_input in = { .ids = ids, .n = 2, .out = out };
    assert_int_equal(encode_engine_eval(e, &in, 1, &err), WEFT_ENUMERIC);
    assert_non_null(strstr(err.message, "first non-finite tensor: blk.1.ffn_up"));
    encode_engine_free(e);
    close_golden(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("encode: many texts together give the bits of each alone", batch_equals_one_by_one),
        TEST("encode: a text sees itself and no other", other_texts_would_show),
        TEST("encode: states and outputs are those of transformers", equals_trace),
        TEST("encode: the mean of states, and the normalised mean", pools),
        TEST("encode: inputs that do not fit are refused before anything is computed", refuses),
        TEST("encode: a count out of range is refused, and nothing is written", counts_are_refused),
        TEST("encode: a decoder's states are those of a session", decoders_give_their_states),
        TEST("encode: a pooling that does not exist is refused", poolings_that_are_not),
        TEST("encode: memory is predicted, and any allocation may fail", memory_is_predicted),
        TEST("encode: the error names the non-finite tensor", names_what_is_not_a_number),
    };
    return RUN(tests);
}
