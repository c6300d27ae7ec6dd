/* The picture of where a decoder looked: its cells are the means of a trace's probabilities, what it
 * cannot draw is refused, and memory that ends at any place leaves nothing behind. */
#include "api/api.h"
#include "support.h"
#include "weft.h"

#include <math.h>

enum { N_SOURCE = 5, N_IDS = 7, N_BEGIN = 2, N_ROW = N_IDS - 1 };

static const int32_t source[N_SOURCE] = { 4, 9, 6, 3, 11 };
static const int32_t ids[N_IDS] = { 2, 5, 7, 8, 9, 12, 5 };

static const weft_alignment_options plain = { .struct_size = sizeof plain,
                                              .source = source,
                                              .n_source = N_SOURCE,
                                              .n_begin = N_BEGIN,
                                              .threads = 1,
                                              .kv_type = WEFT_KV_F32 };

static weft_model *open_model(const char *path)
{
    weft_error err = { 0 };
    weft_model *m = weft_model_open(fixture(path), NULL, &err);
    if (!m)
        fail_msg("%s", err.message);
    return m;
}

static bool take(void *ud, const char *bytes, size_t n, weft_error *err)
{
    (void)err;
    char **to = ud;
    *to = malloc(n + 1);
    assert_non_null(*to);
    memcpy(*to, bytes, n);
    (*to)[n] = '\0';
    return true;
}

/* ---- numbers --------------------------------------------------------------------------------- */

typedef struct seen_looks {
    double cell[N_ROW][N_SOURCE];
    int layer; /* wanted; -1: all */
    int n_head;
} seen_looks;

static void see(void *ud, const weft_trace_tensor *t)
{
    seen_looks *to = ud;
    char name[64];
    for (int l = 0; l < 8; l++) {
        snprintf(name, sizeof name, "dec.blk.%d.cross_attention.probs", l);
        if (strcmp(t->name, name) != 0 || (to->layer >= 0 && to->layer != l))
            continue;
        const int n_head = (int)(t->rows / N_ROW);
        assert_int_equal(t->cols, N_SOURCE);
        to->n_head += n_head;
        for (int i = 0; i < N_ROW; i++)
            for (int h = 0; h < n_head; h++)
                for (int k = 0; k < N_SOURCE; k++)
                    to->cell[i][k] += (double)t->data[(i * n_head + h) * t->stride + k];
    }
}

static void trace(weft_model *m, seen_looks *to)
{
    weft_error err = { 0 };
    const weft_engine_options o = {
        .struct_size = sizeof o, .threads = 1, .n_ctx = 16, .kv_type = WEFT_KV_F32
    };
    weft_engine *e = weft_engine_new(m, &o, &err);
    weft_session *s = weft_session_new(e, &err);
    assert_non_null(s);
    assert_int_equal(weft_engine_trace(e, see, to, true, &err), WEFT_OK);
    assert_int_equal(weft_session_source(s, source, N_SOURCE, &err), WEFT_OK);
    assert_int_equal(weft_session_eval(s, ids, N_ROW, &err), WEFT_OK);
    weft_session_free(s);
    weft_engine_free(e);
    assert_true(to->n_head > 0);
}

/* Row i is what the token after i was made from; the rows of given tokens are not drawn. */
static void compare(weft_model *m, int layer)
{
    weft_error err = { 0 };
    seen_looks want = { .layer = layer };
    char *svg = NULL;
    int n = 0;
    trace(m, &want);
    weft_alignment_options o = plain;
    o.layer = layer + 1;
    if (weft_alignment(m, ids, N_IDS, &o, take, &svg, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    for (const char *at = strstr(svg, "<title>"); at; at = strstr(at + 1, "<title>"), n++) {
        const int row = n / N_SOURCE, column = n % N_SOURCE;
        int to = 0, from = 0;
        double p = -1;
        assert_int_equal(sscanf(at, "<title>%d looks at %d: %lf<", &to, &from, &p), 3);
        assert_true(row < N_IDS - N_BEGIN);
        assert_int_equal(to, ids[N_BEGIN + row]);
        assert_int_equal(from, source[column]);
        assert_true(fabs(p - want.cell[N_BEGIN - 1 + row][column] / want.n_head) < 0.0006);
    }
    assert_int_equal(n, (N_IDS - N_BEGIN) * N_SOURCE);
    free(svg);
}

static void cells_are_means(void **state)
{
    (void)state;
    static const char *const path[] = { "golden/t5", "golden/transformer-2017", "golden/bahdanau" };
    for (int i = 0; i < 3; i++) {
        weft_model *m = open_model(path[i]);
        weft_model_info info = { .struct_size = sizeof info };
        weft_model_get_info(m, &info);
        for (int layer = -1; layer < info.n_layer; layer++)
            compare(m, layer);
        weft_model_close(m);
    }
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void refused_by(weft_model *m, int64_t n, weft_alignment_options o, const char *why)
{
    weft_error err = { 0 };
    char *svg = NULL;
    assert_int_equal(weft_alignment(m, ids, n, &o, take, &svg, &err), WEFT_EINVAL);
    assert_null(svg);
    if (!strstr(err.message, why))
        fail_msg("\"%s\" does not say \"%s\"", err.message, why);
}

static bool refuse(void *ud, const char *bytes, size_t n, weft_error *err)
{
    (void)ud;
    (void)bytes;
    (void)n;
    (void)err;
    return false;
}

static void refused(void **state)
{
    (void)state;
    weft_error err = { 0 };
    weft_model *m = open_model("golden/t5"), *alone = open_model("golden/gpt2");
    weft_alignment_options o = plain;
    refused_by(alone, N_IDS, o, "expected an encoder-decoder");
    refused_by(m, N_BEGIN, o, "2 tokens, the first 2 given; expected more");
    o.layer = 3;
    refused_by(m, N_IDS, o, "layer 3; expected 0 to 2");
    o.layer = -1;
    refused_by(m, N_IDS, o, "layer -1; expected");
    o = plain;
    o.n_source = 0;
    refused_by(m, N_IDS, o, "0 tokens of the source");
    o = plain;
    o.n_begin = -1;
    refused_by(m, N_IDS, o, "n_begin is -1");
    assert_int_equal(weft_alignment(m, ids, N_IDS, &plain, refuse, NULL, &err), WEFT_EIO);
    weft_model_close(m);
    weft_model_close(alone);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Allocation k of the call fails: an error, and nothing is left. */
static void memory_faults(void **state)
{
    (void)state;
    weft_model *m = open_model("golden/t5");
    const mem_hooks hooks = m->host.mem.hooks;
    const size_t used = m->host.mem.used;
    faults fault = { 0 };
    host faulty;
    host_faulty(&faulty, &fault, NULL);
    m->host.mem.hooks = faulty.mem.hooks;
    int64_t k = 1;
    for (bool done = false; !done; k++) {
        weft_error err = { 0 };
        char *svg = NULL;
        fault.fail_at = fault.calls + k;
        const weft_status status = weft_alignment(m, ids, N_IDS, &plain, take, &svg, &err);
        done = status == WEFT_OK;
        if (!done)
            assert_int_equal(status, WEFT_ENOMEM);
        assert_true(done == (svg != NULL));
        assert_int_equal(fault.live, 0);
        assert_int_equal(m->host.mem.used, used);
        free(svg);
    }
    assert_true(k > 4);
    m->host.mem.hooks = hooks;
    weft_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("alignment: cells are the means of a trace", cells_are_means),
        TEST("alignment: what cannot be drawn is refused", refused),
        TEST("alignment: every failed allocation is an error, and leaves nothing", memory_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
