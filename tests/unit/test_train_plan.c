/* What weft_train_plan says, against a run: memory as the run takes it, time as it takes, for models that are
 * measured whole and in part; and what it refuses. */
#include "support.h"
#include "weft.h"

#include <math.h>

#define MOST 8

typedef struct answers {
    weft_train_cost at[MOST];
    int n;
} answers;

static void keep(void *ud, const weft_train_cost *c)
{
    answers *a = ud;
    assert_true(a->n < MOST);
    assert_int_equal(c->struct_size, sizeof *c);
    a->at[a->n++] = *c;
}

static const weft_train_network ten_gbit = { .struct_size = sizeof ten_gbit,
                                             .bandwidth = 1.25e9,
                                             .latency = 3e-5 };

static weft_train_options plain(void)
{
    weft_train_options o;
    weft_train_defaults(&o, sizeof o);
    o.n_sample = 4;
    o.n_ctx = 64;
    o.n_vocab = 300;
    o.threads = 1;
    o.load = WEFT_LOAD_MAP; /* the copy of a file would count until its weights have moved */
    return o;
}

static weft_status ask(const weft_train_options *o, const weft_train_network *net, const int *ranks,
                       int n, answers *to, weft_error *err)
{
    *to = (answers){ .n = 0 };
    return weft_train_plan(o, net, ranks, n, keep, to, err);
}

/* ---- as a run takes it ----------------------------------------------------------------------- */

typedef struct run_seen {
    size_t bytes;
    double step; /* seconds of the fastest */
} run_seen;

static bool look(void *ud, const weft_train_progress *p, weft_model *m)
{
    (void)m;
    run_seen *s = ud;
    s->bytes = p->bytes;
    if (p->n_token > 0 && p->tokens_per_second > 0) {
        const double step = 4 * 64 / p->tokens_per_second;
        s->step = s->step > 0 ? fmin(s->step, step) : step;
    }
    return true;
}

/* Of eight layers, two and six are measured. The run has its data besides. */
static void as_a_run(void **state)
{
    (void)state;
    static const int alone = 1;
    const char *data = WEFT_TESTS_DIR "/golden/train-tokenizer/corpus.txt",
               *run = temp_path("planned");
    weft_train_options o = plain();
    weft_error err = { 0 };
    answers a;
    run_seen seen = { 0 };
    char tokenizer[4096];
    o.arch = "llama";
    o.n_layer = 8;
    o.d_model = 128;
    o.n_head = 4;
    o.d_ff = 512;
    o.data = &data;
    o.n_data = 1;
    o.n_step = 6;
    o.out = run;
    o.progress = look;
    o.progress_ud = &seen;
    if (weft_train(&o, NULL, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    snprintf(tokenizer, sizeof tokenizer, "%s/tokenizer.json", run);
    o.tokenizer = tokenizer;
    if (ask(&o, &ten_gbit, &alone, 1, &a, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    const weft_train_cost *c = &a.at[0];
    const double memory = (double)c->bytes / (double)seen.bytes, time = c->step_seconds / seen.step;
    print_message("of a run: memory %.3f, time %.2f\n", memory, time);
    assert_true(memory > 0.9 && memory < 1);
    assert_true(time > 0.2 && time < 5); /* other programs may disturb either */
    assert_int_equal(c->n_token, 4 * 64);
    assert_true(fabs(c->seconds / c->step_seconds - 6) < 1e-9);

    o.model = run; /* and the same model from a file */
    o.arch = o.tokenizer = NULL;
    o.n_layer = o.d_model = o.n_head = o.d_ff = 0;
    answers b;
    if (ask(&o, &ten_gbit, &alone, 1, &b, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    assert_int_equal(b.at[0].n_parameter, c->n_parameter);
    assert_int_equal(b.at[0].bytes, c->bytes);
}

/* ---- several ranks --------------------------------------------------------------------------- */

static void several_ranks(void **state)
{
    (void)state;
    static const int ranks[] = { 1, 2, 4 };
    static const char *const archs[] = { "gpt2", "llama", "bert", "t5", "deepseek_v3" };
    weft_error err = { 0 };
    for (size_t k = 0; k < (quick() ? 2 : sizeof archs / sizeof *archs); k++) {
        weft_train_options o = plain();
        answers a;
        o.arch = archs[k];
        o.n_layer = 2;
        o.d_model = 64;
        o.n_head = 4;
        o.d_ff = 256;
        o.n_group = 4;
        o.bf16 = k == 1;
        if (ask(&o, &ten_gbit, ranks, 3, &a, &err) != WEFT_OK)
            fail_msg("%s: %s", archs[k], err.message);
        assert_int_equal(a.n, 3);
        for (int i = 0; i < 3; i++) {
            const weft_train_cost *c = &a.at[i];
            const double R = ranks[i], twice = 2 * 4 * (R - 1) / R * (double)c->n_parameter;
            assert_int_equal(c->n_rank, ranks[i]);
            assert_true(c->n_parameter > 0 && c->compute_seconds > 0);
            assert_true(fabs(c->step_seconds - c->compute_seconds - c->reduce_exposed) < 1e-12);
            assert_true(i == 0 || c->compute_seconds < a.at[i - 1].compute_seconds);
            const double parts = c->token_seconds * (double)c->n_token / R;
            assert_true(c->compute_seconds > parts && c->compute_seconds < 1.9 * parts);
            assert_true((double)c->bytes > (8 + 8 / R) * (double)c->n_parameter);
            /* slices are whole chunks, and such a small model has few */
            assert_true(i == 0 ? c->bytes_sent == 0 : (double)c->bytes_sent > 0.3 * twice);
        }
    }
}

/* Everything waits for the network: buckets hide from when the first of four is complete to the end of the
 * last backward, which is two thirds of a part; that is one sequence of the four. */
static void slow_network(void **state)
{
    (void)state;
    static const int two[] = { 2, 2 };
    weft_train_options o = plain();
    weft_train_network slow = { .struct_size = sizeof slow, .bandwidth = 1e3, .latency = 0 };
    weft_error err = { 0 };
    answers a;
    o.n_group = 4;
    assert_int_equal(ask(&o, &slow, two, 2, &a, &err), WEFT_OK);
    const weft_train_cost *c = &a.at[0];
    const double line = (double)c->bytes_sent / slow.bandwidth;
    assert_int_equal(a.n, 2);
    assert_int_equal(a.at[1].bytes, c->bytes);
    assert_int_equal(a.at[1].bytes_sent, c->bytes_sent);
    assert_true(a.at[1].step_seconds == c->step_seconds && a.at[1].seconds == c->seconds);
    assert_true(a.at[1].reduce_hidden == c->reduce_hidden);
    assert_true(a.at[1].reduce_exposed == c->reduce_exposed);
    assert_true(fabs((c->reduce_hidden + c->reduce_exposed) / line - 1) < 0.01);
    assert_true(fabs(c->reduce_hidden / (0.75 * 2 / 3 * 64 * c->token_seconds) - 1) < 1e-6);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static bool never(void *ud)
{
    (void)ud;
    return false;
}

static void must_refuse(const weft_train_options *o, const weft_train_network *net,
                        const int *ranks, int n, weft_status status, const char *why)
{
    answers a;
    weft_error err = { 0 };
    assert_int_equal(ask(o, net, ranks, n, &a, &err), status);
    assert_string_equal(err.message, why);
    assert_int_equal(a.n, 0);
}

static void refused(void **state)
{
    (void)state;
    static const int two = 2, three = 3, none = 0;
    weft_train_options o = plain();
    weft_train_network net = ten_gbit;
    o.n_group = 4;
    must_refuse(NULL, &net, &two, 1, WEFT_EINVAL, "no options given");
    must_refuse(&o, NULL, &two, 1, WEFT_EINVAL, "no network given");
    must_refuse(&o, &net, NULL, 1, WEFT_EINVAL, "no numbers of ranks given");
    must_refuse(&o, &net, &two, 0, WEFT_EINVAL, "no numbers of ranks given");
    must_refuse(&o, &net, &three, 1, WEFT_EINVAL,
                "3 ranks; expected a power of two, at most the 4 groups of a step");
    must_refuse(&o, &net, &none, 1, WEFT_EINVAL,
                "0 ranks; expected a power of two, at most the 4 groups of a step");
    net.bandwidth = 0;
    must_refuse(&o, &net, &two, 1, WEFT_EINVAL,
                "bandwidth is 0 bytes a second; expected more than 0");
    net = ten_gbit;
    net.latency = -1;
    must_refuse(&o, &net, &two, 1, WEFT_EINVAL, "latency is -1 seconds; expected 0 or more");
    net = ten_gbit;
    o.arch = "vit";
    must_refuse(&o, &net, &two, 1, WEFT_EUNSUPPORTED, "vit: plans are for models of text");
    o.arch = NULL;
    o.reduce_fast = true;
    must_refuse(&o, &net, &two, 1, WEFT_EUNSUPPORTED,
                "what MPI sends for reduce_fast depends on MPI; plans are for exact sums");
    o.reduce_fast = false;
    o.model = WEFT_TESTS_DIR "/golden/vit";
    must_refuse(&o, &net, &two, 1, WEFT_EUNSUPPORTED,
                WEFT_TESTS_DIR "/golden/vit: plans are for models of text");
    o.model = WEFT_TESTS_DIR "/golden/bert-classify";
    must_refuse(&o, &net, &two, 1, WEFT_EUNSUPPORTED,
                WEFT_TESTS_DIR "/golden/bert-classify: needs labelled data; plans are for models "
                               "that learn from text");
    o.model = WEFT_TESTS_DIR "/golden/gpt2";
    o.n_ctx = 1 << 20;
    must_refuse(&o, &net, &two, 1, WEFT_EINVAL,
                "n_ctx is 1048576, expected 1 to 29, the model's context");
    o.model = NULL;
    o.n_ctx = 64;
    answers a;
    o.waiting = never;
    assert_int_equal(ask(&o, &net, &two, 1, &a, NULL), WEFT_OK);
    assert_int_equal(a.n, 0);
    weft_error err = { 0 };
    o.waiting = NULL;
    o.ram_max = 1 << 20;
    assert_int_equal(ask(&o, &net, &two, 1, &a, &err), WEFT_ELIMIT);
    assert_int_equal(weft_train_plan(&o, &net, &two, 1, NULL, NULL, &err), WEFT_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("plan: memory and time of a run", as_a_run),
        TEST("plan: several ranks of each family", several_ranks),
        TEST("plan: a slow network", slow_network),
        TEST("plan: what is refused", refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
