/* Training over several ranks: the bits of one rank for every number of them, traffic as counted in
 * advance, checkpoints that any number of ranks reads, and a rank that is lost. Ranks are threads
 * here; tests/host/mpi.c has processes. */
#include "support.h"

#include "base/rng.h"
#include "loop_comm.h"
#include "train/forecast.h"
#include "train/init_model.h"
#include "train/trainer.h"

#include <sys/stat.h>

/* ---- material -------------------------------------------------------------------------------- */

/* Two-byte ids below n. */
static const char *some_ids(int n_vocab)
{
    static uint16_t numbers[6000];
    static char path[4096];
    char name[32];
    for (uint64_t i = 0; i < 6000; i++) {
        const uint32_t word = rng_draw(11, 3, i).word[0];
        numbers[i] = (uint16_t)(4 + (word % 5 == 0 ? word / 5 : i) % (uint64_t)(n_vocab - 4));
    }
    snprintf(name, sizeof name, "ids-%d", n_vocab);
    snprintf(path, sizeof path, "%s", temp_file(name, numbers, sizeof numbers));
    return path;
}

/* 13 chunks of parameters: each of 8 ranks has one or two. */
static const char *large_pupil(void)
{
    static char path[4096];
    const init_model_shape s = { .arch = "gpt2",
                                 .n_layer = 4,
                                 .d_model = 128,
                                 .n_head = 4,
                                 .n_head_kv = 4,
                                 .d_ff = 512,
                                 .n_ctx = 16,
                                 .n_vocab = 270,
                                 .tied = -1,
                                 .eos_id = -1 };
    host h;
    buffer config;
    weft_error err = { 0 };
    if (*path)
        return path;
    snprintf(path, sizeof path, "%s", temp_path("large"));
    host_plain(&h);
    buffer_begin(&config, &h.mem, &err);
    init_model_config(&config, &s);
    if (init_model_write(path, (const char *)config.at, config.n, &(init_model_source){ .seed = 5 },
                         &h, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    buffer_end(&config);
    return path;
}

typedef struct pupil {
    const char *path;
    int n_vocab, n_ctx;
    pairing pairing;
    int mask_id;
} pupil;

enum { LARGE, LLAMA, EXPERTS, BIASED_EXPERTS, PAIRS, SPANS, MASKS, N_PUPIL };

static pupil pupil_of(int i)
{
    static char path[4096];
    static const pupil golden[] = {
        [LLAMA] = { "llama-gqa", 61, 16, { 0 }, 0 },
        [EXPERTS] = { "mixtral", 67, 16, { 0 }, 0 },
        [BIASED_EXPERTS] = { "deepseek-v3", 67, 16, { 0 }, 0 },
        [PAIRS] = { "bart", 61, 16, { true, WEFT_OBJECTIVE_INFILL, 2, 2, 3, { 0 }, 0 }, 0 },
        [SPANS] = { "t5",
                    64,
                    16,
                    { true, WEFT_OBJECTIVE_SPANS, 0, 1, -1, { 63, 62, 61, 60 }, 4 },
                    0 },
        [MASKS] = { "bert-fill", 67, 4, { 0 }, 3 },
    };
    if (i == LARGE)
        return (pupil){ large_pupil(), 270, 16, { 0 }, 0 };
    pupil p = golden[i];
    char name[64];
    snprintf(name, sizeof name, "golden/%s", p.path);
    snprintf(path, sizeof path, "%s", fixture(name));
    p.path = path;
    return p;
}

/* ---- one rank --------------------------------------------------------------------------------- */

#define MOST_STEP 200

/* What a run is asked to do. */
typedef struct asked {
    pupil pupil;
    const char *ids;
    trainer_options options;
    int n_step;
    int64_t bucket_chunks;
    bool fast;
    double limit;
    int crossed[2];        /* ranks whose gradients change places; equal: none */
    int mute_tag;          /* a rank is mute from its first message with this tag on; -1: any */
    const char *run;       /* checkpoints; or NULL */
    const char *continued; /* the run that it continues */
} asked;

/* And what it came to, on each rank. */
typedef struct outcome {
    const asked *asked;
    weft_status status;
    weft_error err;
    double loss[MOST_STEP], norm[MOST_STEP], val_loss;
    real *value;
    int64_t n, n_own;
    int n_told; /* reports of a whole run */
    uint64_t sent;
    reduce_options cut;
} outcome;

typedef struct school {
    host h;
    model m;
    dataset d;
    hf_form form;
    trainer t;
    ranks ranks;
    checkpoint from;
    bool has_model, has_data, has_form, has_trainer;
} school;

static weft_status open_school(school *c, comm *with, const asked *a, weft_error *err)
{
    static const tokenizer no_tokens;
    trainer_options o = a->options;
    const data_options d = { .corpus = { .kind = DATA_RAW16,
                                         .eos = -1,
                                         .tokenizer = a->pupil.mask_id ? &no_tokens : NULL,
                                         .n_vocab = (uint32_t)a->pupil.n_vocab,
                                         .n_thread = 1 },
                             .n_ctx = a->pupil.n_ctx,
                             .pairing = a->pupil.pairing,
                             .mask_id = a->pupil.mask_id,
                             .validation = 0.05 };
    c->ranks = (ranks){ .comm = with, .limit = a->limit };
    o.learner.reduce = (reduce_options){ &c->ranks, a->fast, a->bucket_chunks };
    o.run = a->run;
    host_plain(&c->h);
    weft_status status = WEFT_OK;
    if (a->continued)
        status = checkpoint_find(&c->from, a->continued, &c->h, err);
    const char *path = a->continued ? c->from.path : a->pupil.path;
    if (status == WEFT_OK)
        status = model_open(&c->m, path, WEFT_LOAD_COPY, &c->h, err);
    c->has_model = status == WEFT_OK;
    if (status == WEFT_OK)
        status = data_open(&c->d, &a->ids, 1, &d, &c->h, err);
    c->has_data = status == WEFT_OK;
    if (status == WEFT_OK)
        status = hf_form_init(&c->form, path, WEFT_LOAD_COPY, &c->h, err);
    c->has_form = status == WEFT_OK;
    if (status == WEFT_OK)
        status = trainer_init(&c->t, &c->m, &c->d, &o, err);
    c->has_trainer = status == WEFT_OK;
    if (status == WEFT_OK)
        c->t.learner.run.fork_cost = 0;
    return status == WEFT_OK && a->continued ? trainer_load(&c->t, &c->from, err) : status;
}

static void close_school(school *c)
{
    if (c->has_trainer)
        trainer_free(&c->t);
    if (c->has_form)
        hf_form_free(&c->form);
    if (c->has_data)
        data_close(&c->d);
    if (c->has_model)
        model_close(&c->m);
    checkpoint_free(&c->from);
}

static weft_status run_steps(school *c, outcome *o)
{
    trainer_report r;
    double accuracy;
    weft_status status = WEFT_OK;
    for (int k = 0; k < o->asked->n_step && status == WEFT_OK; k++) {
        status = trainer_step(&c->t, &r, &o->err);
        o->loss[k] = r.loss;
        o->norm[k] = r.norm;
    }
    if (status == WEFT_OK && o->asked->run)
        status = trainer_save(&c->t, &c->form, &o->err);
    o->sent = c->ranks.comm ? c->ranks.comm->sent : 0;
    return status == WEFT_OK ? trainer_evaluate(&c->t, &o->val_loss, &accuracy, &o->err) : status;
}

static bool count(void *told, const trainer_report *r)
{
    (void)r;
    ++*(int *)told;
    return true;
}

/* The whole run, with its checkpoints. */
static weft_status run_whole(school *c, outcome *o)
{
    trainer_report r;
    bool stopped;
    c->t.opt.tell = count;
    c->t.opt.ud = &o->n_told;
    return trainer_run(&c->t, &c->form, &r, &stopped, &o->err);
}

/* Threads may not fail a test: the main one looks at `status`. */
static void one_rank(comm *with, void *ud)
{
    outcome *o = ud;
    school *c = calloc(1, sizeof *c);
    const asked *a = o->asked;
    o->status = open_school(c, with, a, &o->err);
    if (o->status == WEFT_OK) {
        o->status = a->options.save_every > 0 ? run_whole(c, o) : run_steps(c, o);
        const params *p = &c->t.learner.params;
        o->n = p->n;
        o->n_own = reduce_own(&c->t.learner.reduce.opt, p->n);
        o->value = malloc((size_t)p->n * sizeof *o->value);
        memcpy(o->value, p->value, (size_t)p->n * sizeof *o->value);
    }
    close_school(c);
    if (o->status == WEFT_OK && c->h.mem.used != 0)
        o->status = WEFT_ENOMEM;
    free(c);
}

/* `delay` makes messages late; `mute` is a rank that says nothing, or -1. */
static void run_ranks(const asked *a, int R, int delay, int mute, outcome *o)
{
    for (int i = 0; i < R; i++)
        o[i] = (outcome){ .asked = a };
    if (R == 1) {
        one_rank(NULL, o);
        return;
    }
    loop *l = loop_new(R);
    loop_delay(l, delay);
    if (mute >= 0)
        loop_mute(l, mute, a->mute_tag);
    loop_cross(l, a->crossed[0], a->crossed[1], TAG_GRADIENT);
    loop_run(l, one_rank, o, sizeof *o);
    loop_free(l);
}

static void drop(outcome *o, int R)
{
    for (int i = 0; i < R; i++)
        free(o[i].value);
}

static bool same(const outcome *a, const outcome *b)
{
    return a->n == b->n && memcmp(a->loss, b->loss, sizeof a->loss) == 0 &&
           memcmp(a->norm, b->norm, sizeof a->norm) == 0 &&
           memcmp(&a->val_loss, &b->val_loss, sizeof a->val_loss) == 0 &&
           memcmp(a->value, b->value, (size_t)a->n * sizeof *a->value) == 0;
}

static asked plain(int who, int n_step)
{
    asked a = { .pupil = pupil_of(who),
                .options = { .learner = { .n_thread = 1,
                                          .n_group = 8,
                                          .adamw = { 0.9, 0.95, 1e-8, 0.1, 1 } },
                             .schedule = { SCHEDULE_COSINE, 1e-3, 1e-4, 2, n_step, 0 },
                             .n_sample = 3,
                             .n_part = 3,
                             .seed = 7,
                             .max_skipped = 3 },
                .n_step = n_step,
                .limit = 60 };
    a.ids = some_ids(a.pupil.n_vocab);
    return a;
}

static void must_equal(const asked *a, int R, int delay, const outcome *one, const char *name)
{
    outcome all[8];
    run_ranks(a, R, delay, -1, all);
    for (int i = 0; i < R; i++) {
        if (all[i].status != WEFT_OK)
            fail_msg("%s: rank %d of %d: %s", name, i, R, all[i].err.message);
        if (!same(one, &all[i]))
            fail_msg("%s: rank %d of %d has other bits than one rank", name, i, R);
        assert_true(same(one, &all[i]));
    }
    drop(all, R);
}

/* ---- tests ------------------------------------------------------------------------------------ */

/* 9 samples a step in 8 groups of parts of at most 3: the first group has one more. Each variant is
 * trained by one rank and by 2, 4 and 8. */
static void ranks_have_the_bits_of_one(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int who, n_step, n_thread;
        bool bf16, recompute;
        real dropout;
        int64_t bucket_chunks;
        int delay;
    } cases[] = {
        { "one bucket", LARGE, 4, 1, false, false, 0, 0, 0 },
        { "small buckets, late messages", LARGE, 4, 2, false, false, 0.1f, 1, 3 },
        { "bf16, recomputed", LARGE, 3, 2, true, true, 0, 8, 1 },
        { "many steps", LLAMA, 200, 1, false, false, 0.1f, 0, 0 },
        { "Llama in bf16", LLAMA, 5, 2, true, false, 0, 0, 2 },
        { "experts", EXPERTS, 5, 1, false, false, 0, 0, 0 },
        { "experts with a bias", BIASED_EXPERTS, 5, 2, false, true, 0, 0, 1 },
        { "encoder-decoder", PAIRS, 5, 1, false, false, 0.1f, 0, 0 },
        { "spans", SPANS, 5, 2, true, false, 0, 0, 1 },
        { "masks, of which a rank may have none", MASKS, 20, 1, false, false, 0, 0, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        asked a = plain(cases[i].who, cases[i].n_step > 20 && quick() ? 20 : cases[i].n_step);
        learner_options *l = &a.options.learner;
        outcome one;
        l->n_thread = cases[i].n_thread;
        l->bf16 = cases[i].bf16;
        l->recompute = cases[i].recompute;
        l->dropout = cases[i].dropout;
        a.bucket_chunks = cases[i].bucket_chunks;
        run_ranks(&a, 1, 0, -1, &one);
        if (one.status != WEFT_OK)
            fail_msg("%s: %s", cases[i].name, one.err.message);
        for (int R = quick() ? 4 : 2; R <= (quick() ? 4 : 8); R *= 2)
            must_equal(&a, R, cases[i].delay, &one, cases[i].name);
        drop(&one, 1);
    }
}

/* Another number of groups is another tree, and the comparison sees it. */
static void another_tree_is_seen(void **state)
{
    (void)state;
    asked a = plain(LLAMA, 5);
    outcome eight, four[4];
    run_ranks(&a, 1, 0, -1, &eight);
    a.options.learner.n_group = 4;
    run_ranks(&a, 4, 0, -1, four);
    assert_false(same(&eight, &four[0]));
    assert_true(same(&four[0], &four[3]));
    drop(&eight, 1);
    drop(four, 4);
}

/* Gradients of two ranks change places on their way to a third. Of two that are added to each other
 * that does not matter; of two from different halves of the tree it is seen. */
static void swapped_nodes_are_seen(void **state)
{
    (void)state;
    static const struct {
        int crossed[2];
        bool seen;
    } swaps[] = {
        { { 0, 1 }, false }, { { 2, 3 }, false }, { { 1, 2 }, true }, { { 0, 3 }, true }
    };
    asked a = plain(LARGE, 2);
    outcome one, four[4];
    run_ranks(&a, 1, 0, -1, &one);
    for (size_t i = 0; i < sizeof swaps / sizeof *swaps; i++) {
        memcpy(a.crossed, swaps[i].crossed, sizeof a.crossed);
        run_ranks(&a, 4, 0, -1, four);
        assert_int_equal(four[0].status, WEFT_OK);
        assert_int_equal(same(&one, &four[0]), !swaps[i].seen);
        drop(four, 4);
    }
    drop(&one, 1);
}

/* What a forecast says that a rank sends in a step. */
static uint64_t forecast_of(const asked *a, int R, int rank, int64_t n)
{
    comm job = { .rank = rank, .size = R };
    ranks all = { .comm = &job };
    const reduce_options o = { .ranks = &all, .bucket_chunks = a->bucket_chunks };
    const forecast_run r = { &o, n, 1, a->options.learner.n_group / R, NULL, 0 };
    return forecast_step(&r, &(forecast_pace){ 1, 0, 1e9, 0 }).sent;
}

/* Twice (R - 1) / R of the block in a step, besides the sums. */
static void traffic_is_as_planned(void **state)
{
    (void)state;
    asked a = plain(LARGE, 3);
    a.bucket_chunks = 13;
    for (int R = 2; R <= 8; R *= 2) {
        outcome all[8];
        uint64_t sent = 0;
        int64_t own = 0, n = 0;
        run_ranks(&a, R, 0, -1, all);
        for (int i = 0; i < R; i++) {
            assert_int_equal(all[i].status, WEFT_OK);
            n = all[i].n;
            own += all[i].n_own;
            sent += all[i].sent;
            assert_int_equal(all[i].sent, 3 * forecast_of(&a, R, i, n));
            const double slices = 4.0 * (double)((n - all[i].n_own) + (R - 1) * all[i].n_own);
            const double small = (double)all[i].sent / 3 - slices;
            assert_true(small > 0 && small < 0.02 * slices);
        }
        const double formula = 3 * 2 * 4.0 * (double)(R - 1) * (double)n;
        assert_int_equal(own, n);
        assert_true(fabs((double)sent / formula - 1) < 0.02);
        print_message("%d ranks: %.3f of the formula's bytes\n", R, (double)sent / formula);
        drop(all, R);
    }
}

/* Sums in the order of the comm: nearly the same numbers, and the same on all ranks. */
static void fast_sums_are_close(void **state)
{
    (void)state;
    asked a = plain(LARGE, 5);
    outcome one, all[4];
    double worst = 0;
    run_ranks(&a, 1, 0, -1, &one);
    a.fast = true;
    a.bucket_chunks = 4;
    run_ranks(&a, 4, 1, -1, all);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(all[i].status, WEFT_OK);
        assert_true(same(&all[0], &all[i]));
        for (int k = 0; k < a.n_step; k++)
            worst = fmax(worst, fabs(all[i].loss[k] / one.loss[k] - 1));
    }
    assert_true(worst < 1e-5);
    print_message("5 steps with fast sums: losses within %.1e\n", worst);
    drop(&one, 1);
    drop(all, 4);
}

static void same_files(const char *a, const char *b, const char *name)
{
    char path[2][4200];
    size_t n[2];
    snprintf(path[0], sizeof path[0], "%s/%s", a, name);
    snprintf(path[1], sizeof path[1], "%s/%s", b, name);
    char *text[2] = { read_whole(path[0], &n[0]), read_whole(path[1], &n[1]) };
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(text[0], text[1], n[0]);
    free(text[0]);
    free(text[1]);
}

/* Any number of ranks writes the files of one, and any number resumes from them. */
static void checkpoints_are_those_of_one(void **state)
{
    (void)state;
    static char runs[3][4096];
    asked a = plain(LARGE, 3);
    outcome one, all[8];
    a.bucket_chunks = 4;
    for (int i = 0; i < 3; i++)
        snprintf(runs[i], sizeof runs[i], "%s",
                 temp_path(i == 0   ? "run-1"
                           : i == 1 ? "run-4"
                                    : "run-8"));
    a.run = runs[0];
    run_ranks(&a, 1, 0, -1, &one);
    drop(&one, 1);
    for (int R = 4; R <= 8; R *= 2) {
        a.run = runs[R / 4];
        run_ranks(&a, R, 0, -1, all);
        for (int i = 0; i < R; i++)
            if (all[i].status != WEFT_OK)
                fail_msg("%s", all[i].err.message);
        same_files(runs[0], runs[R / 4], "step-00000003/model.safetensors");
        same_files(runs[0], runs[R / 4], "step-00000003/state.weft");
        same_files(runs[0], runs[R / 4], "step-00000003/manifest.json");
        drop(all, R);
    }
    a.run = NULL;
    a.continued = runs[2];
    run_ranks(&a, 1, 0, -1, &one);
    if (one.status != WEFT_OK)
        fail_msg("%s", one.err.message);
    a.continued = runs[1];
    must_equal(&a, 2, 0, &one, "from 4 to 2");
    must_equal(&a, 8, 0, &one, "from 4 to 8");
    drop(&one, 1);
}

/* Rank 2 says nothing: the others end and name it. */
static void a_lost_rank_is_named(void **state)
{
    (void)state;
    asked a = plain(LLAMA, 3);
    outcome all[4];
    a.limit = 3;
    a.mute_tag = -1;
    run_ranks(&a, 4, 0, 2, all);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(all[i].status, WEFT_EIO);
        if (i != 2)
            assert_non_null(strstr(all[i].err.message, "no message from or to rank 2"));
    }
    drop(all, 4);
}

/* A checkpoint may be missed, but not a rank: without it the others would talk past each other. */
static void a_rank_lost_while_saving_ends_the_run(void **state)
{
    (void)state;
    asked a = plain(LLAMA, 3);
    outcome all[2];
    a.limit = 1;
    a.mute_tag = TAG_MOMENT;
    a.options.save_every = 1;
    a.run = temp_path("run-lost");
    run_ranks(&a, 2, 0, 1, all);
    assert_int_equal(all[0].status, WEFT_EIO);
    assert_non_null(strstr(all[0].err.message, "no message from or to rank 1"));
    assert_int_equal(all[1].status, WEFT_EIO);
    assert_int_equal(all[0].n_told, 1); /* the one before the first step */
    drop(all, 2);
}

static void numbers_of_ranks(void **state)
{
    (void)state;
    asked a = plain(LLAMA, 1);
    outcome all[8];
    run_ranks(&a, 3, 0, -1, all);
    assert_int_equal(all[0].status, WEFT_EINVAL);
    assert_non_null(strstr(all[0].err.message, "3 ranks; expected a power of two"));
    a.options.learner.n_group = 2;
    run_ranks(&a, 4, 0, -1, all);
    assert_int_equal(all[3].status, WEFT_EINVAL);
    assert_non_null(strstr(all[3].err.message, "give --groups 4"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("ranks: 2, 4 and 8 have the bits of one", ranks_have_the_bits_of_one),
        TEST("ranks: another tree of sums is seen", another_tree_is_seen),
        TEST("ranks: nodes of the tree that changed places are seen", swapped_nodes_are_seen),
        TEST("ranks: traffic is within 2 % of the formula", traffic_is_as_planned),
        TEST("ranks: fast sums are close, and the same on all ranks", fast_sums_are_close),
        TEST("ranks: any number writes and reads the checkpoint of one",
             checkpoints_are_those_of_one),
        TEST("ranks: one that is lost is named", a_lost_rank_is_named),
        TEST("ranks: one that is lost while rank 0 saves ends the run",
             a_rank_lost_while_saving_ends_the_run),
        TEST("ranks: numbers that cannot be", numbers_of_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
