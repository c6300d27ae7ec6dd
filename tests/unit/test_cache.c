/* The cache: every family gives the same logits with it as without, and a smaller format stays
 * close. */
#include "small_model.h"

/* ---- cached is recomputed -------------------------------------------------------------------- */

/* Families without an encoder, with every kind of positions; test_encdec.c has the others. */
static const char *const decoders[] = { "llama-gqa",
                                        "llama-linear",
                                        "llama-mqa",
                                        "llama-yarn",
                                        "mistral-window",
                                        "qwen2",
                                        "qwen3",
                                        "gpt2",
                                        "gpt2-rope",
                                        "deepseek-v2",
                                        "deepseek-v2-lite",
                                        "deepseek-v3",
                                        "deepseek-v3-dense" };
#define N_DECODER (sizeof decoders / sizeof *decoders)

/* Calls of several rows begin at any position: one row, three, nine and the rest. */
static void cached_is_recomputed(void **state)
{
    (void)state;
    enum { N = 27, MAX_VOCAB = 128 };
    static const int calls[] = { 1, 3, 9, N - 13 };
    int32_t ids[N];
    float want[MAX_VOCAB];
    story(ids, N, 31);
    for (size_t k = 0; k < N_DECODER; k++) {
        fixture_model f;
        open_golden(&f, decoders[k]);
        assert_true(f.model.n_vocab <= MAX_VOCAB);
        engine *e = make_engine(&f, (engine_options){ .n_thread = 1 });
        session *s = make_session(e);
        for (int i = 0, n = 0; i < 4; i++) {
            must_feed(s, ids + n, calls[i]);
            n += calls[i];
            recompute(&f.model, e->model->kern, NULL, 0, ids, n, want);
            assert_that(memcmp(s->logits, want, (size_t)f.model.n_vocab * sizeof *want) == 0,
                        "%s: after %d tokens the cache gives other logits", decoders[k], n);
        }
        session_free(s);
        engine_free(e);
        close_llama(&f);
    }
}

/* ---- formats --------------------------------------------------------------------------------- */

enum { ROWS = 150, V = 61 };

/* The precision of a format: half its last digit is `own` of the value, and half a step of q8_0 is
 * `block` of the largest of the 32 that share a scale (an f16). The bounds for attention's outputs
 * and the logits are twice the measured values. */
typedef struct nearness {
    const dtype *type;
    double own, block;     /* of what is stored */
    double output, logits; /* max|a - b| / max|b| against the cache in f32 */
} nearness;

static const nearness formats[] = {
    { &dtype_f16, 0x1p-11, 0, 1e-3, 2e-4 },
    { &dtype_bf16, 0x1p-8, 0, 8e-3, 2e-3 },
    { &dtype_q8_0, 0x1p-11, 1.0 / 254, 15e-3, 5e-3 },
};

typedef struct remembered {
    fixture_model f;
    engine *e;
    session *s;
    real output[ROWS * 64]; /* of the first layer's attention */
} remembered;

static void keep_output(void *ud, const tensor *t, const op *by)
{
    (void)by;
    remembered *m = ud;
    if (strcmp(t->name, "blk.0.attention") == 0) {
        assert_int_equal(rows(t) * cols(t), ROWS * 64);
        memcpy(m->output, t->data, sizeof m->output);
    }
}

static void remember(remembered *m, const llama_shape *shape, const dtype *kv)
{
    weft_error err = { 0 };
    int32_t ids[ROWS];
    story(ids, ROWS, 32);
    open_llama(&m->f, *shape);
    m->e = make_engine(&m->f, (engine_options){ .n_thread = 2, .kv = kv });
    assert_int_equal(engine_trace(m->e, &(trace_spec){ .trace = keep_output, .trace_ud = m }, &err),
                     WEFT_OK);
    m->s = make_session(m->e);
    must_feed(m->s, ids, ROWS);
}

static void forget(remembered *m)
{
    session_free(m->s);
    engine_free(m->e);
    close_llama(&m->f);
}

static void read_row(const remembered *m, int which, int64_t pos, real *x, int64_t width)
{
    const view v = cache_view(&m->s->cache, 0, which, ROWS);
    v.type->decode(x, view_row(&v, pos), 0, width);
}

/* The first layer stores the same rows in every format: each value must be close. */
static void rows_are_near(const remembered *exact, const remembered *m, const nearness *how)
{
    real want[64], got[64];
    for (int which = 0; which < 2; which++)
        for (int64_t pos = 0; pos < ROWS; pos++) {
            const int64_t width = cache_stream(m->s->cache.layout, 0, which)->width;
            read_row(exact, which, pos, want, width);
            read_row(m, which, pos, got, width);
            for (int64_t k = 0; k < width; k++) {
                real largest = 0;
                for (int64_t j = k / 32 * 32; j < width && j < k / 32 * 32 + 32; j++)
                    largest = fmax(largest, fabs(want[j]));
                const double allowed = how->own * fabs(want[k]) + how->block * largest + 1e-7;
                if (!(fabs(got[k] - want[k]) <= allowed))
                    fail_msg("%s: number %lld of row %lld is %g, expected %g within %g",
                             how->type->name, (long long)k, (long long)pos, (double)got[k],
                             (double)want[k], allowed);
            }
        }
}

/* Heads of 16 numbers begin inside a block of q8_0, those of 32 with one. */
static void formats_are_near(void **state)
{
    (void)state;
    for (int n_head = 2; n_head <= 4; n_head += 2) {
        static remembered exact, m;
        llama_shape shape = small_shape;
        shape.type = &dtype_f32;
        shape.n_head = n_head;
        remember(&exact, &shape, &dtype_f32);
        for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
            const nearness *how = &formats[i];
            remember(&m, &shape, how->type);
            rows_are_near(&exact, &m, how);
            const double output = assert_close("attention", m.output, exact.output, ROWS * 64,
                                               how->output);
            const double logits = assert_close("logits", m.s->logits, exact.s->logits, V,
                                               how->logits);
            print_message("%-5s heads of %d: outputs of attention within %.1e, logits %.1e\n",
                          how->type->name, 64 / n_head, output, logits);
            assert_true(output > 0);
            forget(&m);
        }
        forget(&exact);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("cache: every decoder's logits equal those of a forward without one",
             cached_is_recomputed),
        TEST("cache: f16, bf16 and q8_0 are close to f32, by rows, attention and logits",
             formats_are_near),
    };
    return RUN(tests);
}
