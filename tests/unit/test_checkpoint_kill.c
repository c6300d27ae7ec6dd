/* kill -9 during training and checkpointing: the resumed run is identical to one that was never
 * killed. Each process opens the newest checkpoint and resumes from it. */
#include "support.h"

#include "base/rng.h"
#include "train/checkpoint.h"
#include "train/learner.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define N_STEP  24
#define N_SEQ   2
#define N_TOKEN 8
#define N_BLOCK 2

/* ---- a run ----------------------------------------------------------------------------------- */

typedef struct pupil {
    host host;
    model model;
    learner learner;
    hf_form form;
    batch_row row[N_SEQ * N_TOKEN];
    sequence seq[N_SEQ];
    batch batch;
} pupil;

static void must(weft_status status, const weft_error *err)
{
    if (status != WEFT_OK) {
        fprintf(stderr, "%s\n", err->message);
        _exit(3);
    }
}

/* The batch of a step depends only on the step. */
static void fill(pupil *p, int64_t step)
{
    p->batch = (batch){ .n_row = N_SEQ * N_TOKEN, .n_seq = N_SEQ, .row = p->row, .seq = p->seq };
    for (int i = 0; i < N_SEQ * N_TOKEN; i++) {
        const rng_block r = rng_draw(99, (uint64_t)step, (uint64_t)i);
        p->row[i] = (batch_row){ .seq = i / N_TOKEN,
                                 .pos = i % N_TOKEN,
                                 .id = (int32_t)(r.word[0] % (uint32_t)p->model.n_vocab),
                                 .target = (int32_t)(r.word[1] % (uint32_t)p->model.n_vocab),
                                 .weight = 1,
                                 .wanted = true };
    }
    for (int s = 0; s < N_SEQ; s++)
        p->seq[s] = (sequence){ .first = s * N_TOKEN, .n = N_TOKEN, .source = -1 };
    p->batch.n_wanted = p->batch.n_row;
}

static void blocks_of(pupil *p, checkpoint_block *b)
{
    const size_t size = (size_t)p->learner.params.n * sizeof(real);
    b[0] = (checkpoint_block){ .name = "adamw.m", .data = p->learner.adamw.m, .bytes = size };
    b[1] = (checkpoint_block){ .name = "adamw.v", .data = p->learner.adamw.v, .bytes = size };
}

/* From the newest checkpoint of a run, or from the start; root may be NULL. With `forgets` the
 * counter of random numbers is not restored. */
static void enrol(pupil *p, const char *root, const io_hooks *io, bool forgets)
{
    weft_error err = { 0 };
    checkpoint c = { 0 };
    checkpoint_block b[N_BLOCK];
    const char *from = fixture("golden/train-llama");
    const learner_options o = {
        .n_thread = 1, .dropout = (real)0.1, .seed = 5, .adamw = { 0.9, 0.95, 1e-8, 0.1, 1.0 }
    };
    memset(p, 0, sizeof *p);
    host_plain(&p->host);
    if (io)
        p->host.io = *io;
    if (root)
        must(checkpoint_find(&c, root, &p->host, &err), &err);
    from = c.path[0] ? c.path : from;
    must(model_open(&p->model, from, WEFT_LOAD_COPY, &p->host, &err), &err);
    must(hf_form_init(&p->form, from, WEFT_LOAD_COPY, &p->host, &err), &err);
    fill(p, 0);
    must(learner_init(&p->learner, &p->model, &o, &p->batch, &err), &err);
    if (c.path[0]) {
        blocks_of(p, b);
        must(checkpoint_read(&c, b, N_BLOCK, &p->host, &err), &err);
        p->learner.adamw.step = c.manifest.counters.n_update;
        p->learner.n_backward = forgets ? 0 : (uint64_t)c.manifest.counters.n_backward;
    }
    checkpoint_free(&c);
}

static void leave(pupil *p)
{
    learner_free(&p->learner);
    hf_form_free(&p->form);
    model_close(&p->model);
}

static void learn(pupil *p)
{
    fill(p, p->learner.adamw.step);
    must(learner_begin(&p->learner, NULL), &(weft_error){ 0 });
    learner_backward(&p->learner, &p->batch);
    learner_update(&p->learner, 0.01);
}

static void keep(pupil *p, const char *root)
{
    weft_error err = { 0 };
    checkpoint_block b[N_BLOCK];
    const learner *l = &p->learner;
    const float *values[64];
    for (int64_t i = 0; i < l->params.n_tensor; i++)
        values[i] = l->params.value + l->params.at[i];
    blocks_of(p, b);
    const checkpoint_view v = { .counters = { .step = l->adamw.step,
                                              .cursor = (int64_t)l->n_backward,
                                              .n_backward = (int64_t)l->n_backward,
                                              .n_update = l->adamw.step },
                                .options = "",
                                .form = &p->form,
                                .weight = values,
                                .block = b,
                                .n_block = N_BLOCK };
    must(checkpoint_write(root, &v, 2, &p->host, &err), &err);
}

/* A hash of everything that a step leaves. */
static uint64_t hash_of(const pupil *p)
{
    const size_t size = (size_t)p->learner.params.n * sizeof(real);
    xxh64 x;
    xxh64_begin(&x);
    xxh64_add(&x, p->learner.params.value, size);
    xxh64_add(&x, p->learner.adamw.m, size);
    xxh64_add(&x, p->learner.adamw.v, size);
    return xxh64_end(&x);
}

/* For every step of an uninterrupted run. */
static const uint64_t *never_killed(void)
{
    static uint64_t hash[N_STEP + 1];
    pupil p;
    if (hash[0])
        return hash;
    enrol(&p, NULL, NULL, false);
    hash[0] = hash_of(&p);
    for (int i = 1; i <= N_STEP; i++) {
        learn(&p);
        hash[i] = hash_of(&p);
    }
    leave(&p);
    return hash;
}

/* ---- processes ------------------------------------------------------------------------------- */

/* What a child reports before it dies. */
typedef struct told {
    volatile int64_t step; /* of the last checkpoint written */
    volatile int64_t calls;
} told;

static told *shared(void)
{
    static told *t;
    if (!t)
        t = mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(t != MAP_FAILED);
    return t;
}

/* Inspects the run as the next process will: its step, and whether the state is correct. */
static int64_t inspect(const char *root, const uint64_t *expected)
{
    pupil p;
    enrol(&p, root, NULL, false);
    const int64_t step = p.learner.adamw.step;
    const uint64_t hash = hash_of(&p);
    leave(&p);
    if (hash != expected[step])
        fail_msg("step %lld of the run is not step %lld of one that was not killed",
                 (long long)step, (long long)step);
    return step;
}

static int remove_all(const char *root)
{
    char command[512];
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command);
}

/* Continues to the last step. */
static void go_on(const char *root, const io_hooks *io)
{
    pupil p;
    enrol(&p, root, io, false);
    while (p.learner.adamw.step < N_STEP) {
        learn(&p);
        keep(&p, root);
        shared()->step = p.learner.adamw.step;
    }
    _exit(0);
}

static void sleep_microseconds(int64_t n)
{
    nanosleep(&(struct timespec){ .tv_sec = n / 1000000, .tv_nsec = n % 1000000 * 1000 }, NULL);
}

/* ---- at any time ----------------------------------------------------------------------------- */

static int64_t microseconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* Time of a process from its start to the last step. */
static int64_t time_of_run(const char *root)
{
    const int64_t start = microseconds_now();
    const pid_t child = fork();
    if (child == 0)
        go_on(root, NULL);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    return microseconds_now() - start;
}

static void killed_at_any_time(void **state)
{
    (void)state;
    const uint64_t *expected = never_killed();
    const char *root = temp_path("any");
    int64_t whole = time_of_run(root);
    assert_int_equal(inspect(root, expected), N_STEP);
    assert_int_equal(remove_all(root), 0);
    const int wanted = quick() ? 30 : 300;
    int n_kill = 0, n_end = 0, n_part = 0, n_idle = 0;
    for (uint64_t i = 0; n_kill < wanted || n_end == 0; i++) {
        const int64_t before = shared()->step = inspect(root, expected);
        const pid_t child = fork();
        if (child == 0)
            go_on(root, NULL);
        sleep_microseconds((int64_t)(rng_uniform(3, 0, i) * (float)whole / 6));
        kill(child, SIGKILL);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
            fail_msg("a process ended with %d", WEXITSTATUS(status));
        const int64_t step = inspect(root, expected);
        if (step < shared()->step)
            fail_msg("step %lld was written, %lld is found", (long long)shared()->step,
                     (long long)step);
        n_kill += WIFSIGNALED(status);
        n_part += WIFSIGNALED(status) && step > before;
        n_idle = step > before ? 0 : n_idle + 1;
        if (n_idle == 40) { /* the machine has become slower */
            whole *= 2;
            n_idle = 0;
        }
        if (step == N_STEP) {
            n_end++;
            assert_int_equal(remove_all(root), 0);
        }
    }
    print_message("%d processes killed, %d of them after a checkpoint; %d runs reached the end\n",
                  n_kill, n_part, n_end);
    assert_true(n_part > 0);
}

/* ---- at every edge of a system call ---------------------------------------------------------- */

/* The process kills itself before or after the call k / 2 through the seam. */
static int64_t die_at;

static void edge(void)
{
    if (++shared()->calls == die_at)
        kill(getpid(), SIGKILL);
}

#define WITH_EDGES(type, call)                                                                     \
    do {                                                                                           \
        edge();                                                                                    \
        const type result = call;                                                                  \
        edge();                                                                                    \
        return result;                                                                             \
    } while (0)

static int edge_open(void *ud, const char *path)
{
    WITH_EDGES(int, io_system.open(ud, path));
}

static int edge_create(void *ud, const char *path, const char *like)
{
    WITH_EDGES(int, io_system.create(ud, path, like));
}

static ssize_t edge_write(void *ud, int fd, const void *from, size_t size)
{
    WITH_EDGES(ssize_t, io_system.write(ud, fd, from, size < 4096 ? size : 4096));
}

static int edge_sync(void *ud, int fd)
{
    WITH_EDGES(int, io_system.sync(ud, fd));
}

static int edge_rename(void *ud, const char *from, const char *to)
{
    WITH_EDGES(int, io_system.rename(ud, from, to));
}

static int edge_remove(void *ud, const char *path)
{
    WITH_EDGES(int, io_system.remove(ud, path));
}

static int edge_mkdir(void *ud, const char *path)
{
    WITH_EDGES(int, io_system.mkdir(ud, path));
}

static int edge_link(void *ud, const char *from, const char *to)
{
    WITH_EDGES(int, io_system.link(ud, from, to));
}

static int edge_list(void *ud, const char *path, io_name_fn *name, void *name_ud)
{
    WITH_EDGES(int, io_system.list(ud, path, name, name_ud));
}

static void edge_close(void *ud, int fd)
{
    edge();
    io_system.close(ud, fd);
    edge();
}

/* One step and its checkpoint, after three existing ones: one is removed. */
static void one_more(const char *root)
{
    io_hooks io = io_system;
    pupil p;
    io.open = edge_open;
    io.create = edge_create;
    io.write = edge_write;
    io.sync = edge_sync;
    io.rename = edge_rename;
    io.remove = edge_remove;
    io.mkdir = edge_mkdir;
    io.link = edge_link;
    io.list = edge_list;
    io.close = edge_close;
    enrol(&p, root, NULL, false);
    learn(&p);
    p.host.io = io;
    keep(&p, root);
    _exit(0);
}

static void killed_at_every_edge(void **state)
{
    (void)state;
    const uint64_t *expected = never_killed();
    const char *root = temp_path("edge");
    int64_t n_old = 0, n_new = 0;
    for (die_at = 1;; die_at += quick() ? 7 : 1) {
        if (inspect(root, expected) >= N_STEP - 1)
            assert_int_equal(remove_all(root), 0);
        const int64_t before = inspect(root, expected);
        shared()->calls = 0;
        const pid_t child = fork();
        if (child == 0)
            one_more(root);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        const int64_t step = inspect(root, expected);
        if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
            fail_msg("edge %lld: ended with %d", (long long)die_at, WEXITSTATUS(status));
        if (step != before && step != before + 1)
            fail_msg("edge %lld: step %lld after %lld", (long long)die_at, (long long)step,
                     (long long)before);
        n_old += step == before;
        n_new += step > before;
        if (WIFEXITED(status) && before >= 3)
            break;
    }
    print_message("%lld edges: %lld times the checkpoint before, %lld times the new one\n",
                  (long long)die_at, (long long)n_old, (long long)n_new);
    assert_true(n_old > 0 && n_new > 0);
}

/* ---- the test can fail ----------------------------------------------------------------------- */

static void forgotten_counter(void **state)
{
    (void)state;
    const uint64_t *expected = never_killed();
    const char *root = temp_path("forgets");
    for (int forgets = 0; forgets < 2; forgets++) {
        pupil p;
        enrol(&p, root, NULL, false);
        if (p.learner.adamw.step == 0) {
            learn(&p);
            keep(&p, root);
        }
        leave(&p);
        enrol(&p, root, NULL, forgets);
        learn(&p);
        assert_int_equal(hash_of(&p) == expected[2], !forgets);
        leave(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("kill: a run killed at any time resumes exactly", killed_at_any_time),
        TEST("kill: the same before and after every call of a checkpoint", killed_at_every_edge),
        TEST("kill: a counter that is not restored is detected", forgotten_counter),
    };
    return RUN(tests);
}
