/* test_cores.c - models take turns with the processor (server/cores.c), and changes of files are seen
 * (server/stamp.c). */
#include "support.h"

#include "cores.h"
#include "stamp.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- turns ----------------------------------------------------------------------------------- */

#define N_TURN 1200

/* A worker that says it has computed for `seconds` each time; nobody measures them. */
typedef struct worker {
    struct race *race;
    cores_share share;
    double seconds;
    int n_turn; /* before the first of all has had N_TURN */
} worker;

typedef struct race {
    cores cores;
    atomic_int n_inside, n_overlap, n_begun;
    atomic_bool over;
    int n_worker;
} race;

static void *compute(void *ud)
{
    worker *w = ud;
    race *r = w->race;
    cores_take(&r->cores, &w->share);
    atomic_fetch_add(&r->n_begun, 1);
    while (!atomic_load(&r->over)) {
        atomic_fetch_add(&r->n_overlap, atomic_fetch_add(&r->n_inside, 1) > 0);
        w->n_turn += atomic_load(&r->n_begun) == r->n_worker; /* since all want them */
        if (w->n_turn == N_TURN)
            atomic_store(&r->over, true);
        atomic_fetch_sub(&r->n_inside, 1);
        cores_pass(&r->cores, &w->share, w->seconds);
    }
    cores_give(&r->cores, &w->share, w->seconds);
    return NULL;
}

/* The first worker holds the cores until all others wait, so that the order does not depend on the system's. */
static void run_race(worker *w, int n)
{
    race r = { .n_worker = n };
    pthread_t thread[4];
    assert_true(cores_init(&r.cores));
    for (int i = 0; i < n; i++) {
        w[i].race = &r;
        assert_true(cores_share_init(&w[i].share, w[i].share.weight));
        assert_int_equal(pthread_create(&thread[i], NULL, compute, &w[i]), 0);
    }
    for (int i = 0; i < n; i++) {
        pthread_join(thread[i], NULL);
        cores_share_free(&w[i].share);
    }
    assert_int_equal(atomic_load(&r.n_overlap), 0);
    cores_free(&r.cores);
}

static void shares_by_weight(void **state)
{
    (void)state;
    worker w[3] = { { .share.weight = 3, .seconds = 0.01 },
                    { .share.weight = 1, .seconds = 0.01 },
                    { .share.weight = 1, .seconds = 0.01 } };
    run_race(w, 3);
    assert_int_equal(w[0].n_turn, N_TURN);
    for (int i = 1; i < 3; i++)
        assert_that(abs(w[i].n_turn - N_TURN / 3) <= 3, "%d turns of weight 1 beside %d of 3",
                    w[i].n_turn, N_TURN);
}

/* It is time that is shared, not turns. */
static void long_turns(void **state)
{
    (void)state;
    worker w[2] = { { .share.weight = 1, .seconds = 0.01 },
                    { .share.weight = 1, .seconds = 0.04 } };
    run_race(w, 2);
    assert_int_equal(w[0].n_turn, N_TURN);
    assert_that(abs(w[1].n_turn - N_TURN / 4) <= 3, "%d long turns beside %d short ones",
                w[1].n_turn, N_TURN);
}

/* Whoever sleeps while another computes for an hour does not compute for the next one alone. */
static void idle_saves_nothing(void **state)
{
    (void)state;
    cores c;
    cores_share a, b;
    assert_true(cores_init(&c) && cores_share_init(&a, 1) && cores_share_init(&b, 2));
    cores_take(&c, &b);
    cores_give(&c, &b, 1);
    for (int i = 0; i < 36; i++) {
        cores_take(&c, &a);
        cores_give(&c, &a, 100);
    }
    cores_take(&c, &b);
    assert_that(b.used >= a.used - 100.1, "b begins at %g, a is at %g", b.used, a.used);
    cores_give(&c, &b, 0);
    assert_null(c.waiting);
    assert_false(c.taken);
    cores_share_free(&a);
    cores_share_free(&b);
    cores_free(&c);
}

/* ---- files ----------------------------------------------------------------------------------- */

static void put_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void rename_onto(const char *path, const char *text)
{
    char other[700];
    snprintf(other, sizeof other, "%s.new", path);
    put_text(other, text);
    assert_int_equal(rename(other, path), 0);
}

static void changes_are_seen(void **state)
{
    (void)state;
    char directory[512], a[600], b[600], c[600];
    snprintf(directory, sizeof directory, "%s", temp_path("stamped"));
    assert_int_equal(mkdir(directory, 0700), 0);
    snprintf(a, sizeof a, "%s/a.json", directory);
    snprintf(b, sizeof b, "%s/b.json", directory);
    snprintf(c, sizeof c, "%s/c.json", directory);
    assert_true(stamp_path(a) == 0 && stamp_path(NULL) == 0 && stamp_path(directory) == 0);
    put_text(a, "one");
    put_text(b, "two");
    const uint64_t one = stamp_path(a), both = stamp_path(directory);
    assert_true(one != 0 && both != 0 && one == stamp_path(a) && both == stamp_path(directory));
    assert_int_equal(chmod(a, 0600), 0); /* the same file */
    assert_true(one == stamp_path(a) && both == stamp_path(directory));
    rename_onto(a, "one"); /* the same bytes, another file */
    assert_true(stamp_path(a) != one && stamp_path(directory) != both);
    const uint64_t next = stamp_path(directory);
    rename(a, c); /* two files change places */
    rename(b, a);
    rename(c, b);
    assert_true(stamp_path(directory) != next);
    const uint64_t last = stamp_path(directory);
    unlink(b);
    assert_true(stamp_path(directory) != last);
    unlink(a);
    assert_true(stamp_path(directory) == 0);
    rmdir(directory);
}

/* Parts of a GGUF file belong to it; notes in a directory do not belong to a model. */
static void only_what_is_read(void **state)
{
    (void)state;
    static const char *const others[] = { "notes.txt", ".hidden.json", "adapters", "README.md" };
    static const char *const read[] = { "config.json", "x-00002-of-00002.gguf", "vocab.txt" };
    char directory[512], first[600], path[600];
    snprintf(directory, sizeof directory, "%s", temp_path("read"));
    assert_int_equal(mkdir(directory, 0700), 0);
    snprintf(first, sizeof first, "%s/x-00001-of-00002.gguf", directory);
    put_text(first, "one");
    const uint64_t all = stamp_path(directory), one = stamp_path(first);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        snprintf(path, sizeof path, "%s/%s", directory, others[i]);
        put_text(path, "other");
        assert_true(stamp_path(directory) == all && stamp_path(first) == one);
        unlink(path);
    }
    for (size_t i = 0; i < sizeof read / sizeof *read; i++) {
        snprintf(path, sizeof path, "%s/%s", directory, read[i]);
        put_text(path, "read");
        assert_true(stamp_path(directory) != all);
        assert_int_equal(stamp_path(first) != one, i == 1); /* the other part */
        unlink(path);
    }
    unlink(first);
    rmdir(directory);
}

/* modules.json names directories whose config.json is read; without it, they are no part of the model. */
static void modules_are_read(void **state)
{
    (void)state;
    char directory[512], pooling[600], config[700], modules[600];
    snprintf(directory, sizeof directory, "%s", temp_path("modules"));
    snprintf(pooling, sizeof pooling, "%s/1_Pooling", directory);
    snprintf(config, sizeof config, "%s/config.json", pooling);
    snprintf(modules, sizeof modules, "%s/modules.json", directory);
    assert_int_equal(mkdir(directory, 0700), 0);
    assert_int_equal(mkdir(pooling, 0700), 0);
    put_text(config, "one");
    assert_true(stamp_path(directory) == 0);
    put_text(modules, "[]");
    const uint64_t one = stamp_path(directory);
    rename_onto(config, "two");
    const uint64_t two = stamp_path(directory);
    assert_true(one != 0 && two != one);
    unlink(modules);
    unlink(config);
    rmdir(pooling);
    rmdir(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("cores: busy models share the time by their weights, one at a time", shares_by_weight),
        TEST("cores: a model with long turns has fewer of them", long_turns),
        TEST("cores: a model that was idle has saved up nothing", idle_saves_nothing),
        TEST("stamp: a file that is replaced, renamed or gone changes the stamp", changes_are_seen),
        TEST("stamp: all parts of a file and what a model is read from count, and nothing else",
             only_what_is_read),
        TEST("stamp: the config.json of a module of sentence-transformers counts",
             modules_are_read),
    };
    return RUN(tests);
}
