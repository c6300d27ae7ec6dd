/* Checkpoints: what was written is read back bit by bit, after any failure of the disk, memory or
 * machine. */
#include "support.h"

#include "base/rng.h"
#include "crash_disk.h"
#include "models/convert.h"
#include "train/checkpoint.h"
#include "train/learner.h"
#include "train/run_lock.h"

#include <errno.h>
#include <unistd.h>

#define N_ROW   40
#define N_COL   64
#define N       (N_ROW * N_COL)
#define N_STATE 2600

/* ---- a model that is nothing but numbers of its step ----------------------------------------- */

typedef struct numbers {
    float weight[N], gain[N_COL];
    float m[N_STATE], v[N_STATE];
    int64_t count;
} numbers;

#define N_STEP 64

/* The contents of a step; made once. */
static numbers *numbers_of(int64_t step)
{
    static numbers all[N_STEP];
    static bool made[N_STEP];
    numbers *x = &all[step];
    const uint64_t key = (uint64_t)step;
    for (uint64_t i = 0; !made[step] && i < N_STATE; i++) {
        x->weight[i % N] = rng_uniform(key, 1, i);
        x->gain[i % N_COL] = rng_uniform(key, 2, i);
        x->m[i] = rng_uniform(key, 3, i);
        x->v[i] = rng_uniform(key, 4, i);
    }
    x->count = step * 3;
    made[step] = true;
    return x;
}

static const stored matrix = {
    .name = "w", .type = &dtype_f32, .n_dim = 2, .shape = { N_ROW, N_COL }
};
static const stored vector = { .name = "g", .type = &dtype_f32, .n_dim = 1, .shape = { N_COL } };
static outgoing tensors[] = {
    { .name = "w",
      .from = &matrix,
      .type = &dtype_f32,
      .n_dim = 2,
      .shape = { N_ROW, N_COL },
      .hf_dim = 2,
      .hf_shape = { N_ROW, N_COL } },
    { .name = "g",
      .from = &vector,
      .type = &dtype_f32,
      .n_dim = 1,
      .shape = { N_COL },
      .hf_dim = 1,
      .hf_shape = { N_COL } },
};
static const hf_form form = {
    .tensor = tensors,
    .n_tensor = 2,
    .text = { [TEXT_CONFIG] = { "{\"a\": 1}\n", 9 }, [TEXT_TOKENIZER] = { "{\"b\": 2}\n", 9 } }
};

#define N_BLOCK 3

static void blocks_of(numbers *x, checkpoint_block *b)
{
    b[0] = (checkpoint_block){ .name = "adamw.m", .data = x->m, .bytes = sizeof x->m };
    b[1] = (checkpoint_block){ .name = "adamw.v", .data = x->v, .bytes = sizeof x->v };
    b[2] = (checkpoint_block){ .name = "trainer", .data = &x->count, .bytes = sizeof x->count };
}

static weft_status write_spared(const char *root, int64_t step, int keep, int64_t spared, host *h,
                                weft_error *err)
{
    numbers *x = numbers_of(step);
    checkpoint_block b[N_BLOCK];
    blocks_of(x, b);
    const float *const values[] = { x->weight, x->gain };
    const checkpoint_view v = { .counters = { .step = step,
                                              .cursor = 12 * step,
                                              .n_backward = 2 * step,
                                              .n_update = step,
                                              .seed = UINT64_MAX - (uint64_t)step },
                                .options = "{\"lr\": 0.001, \"name\": \"\xc3\xa9\\\n\"}",
                                .form = &form,
                                .weight = values,
                                .block = b,
                                .n_block = N_BLOCK,
                                .spared = spared };
    *err = (weft_error){ 0 };
    return checkpoint_write(root, &v, keep, h, err);
}

static weft_status write_step(const char *root, int64_t step, int keep, host *h, weft_error *err)
{
    return write_spared(root, step, keep, 0, h, err);
}

/* The bytes of a file on the host's disk; NULL if there is none. */
static uint8_t *bytes_at(const char *path, size_t *n, host *h)
{
    file f;
    uint8_t *copy = NULL;
    if (file_open(&f, path, WEFT_LOAD_COPY, h, NULL) != WEFT_OK)
        return NULL;
    copy = malloc(f.size);
    assert_non_null(copy);
    memcpy(copy, f.data, f.size);
    *n = f.size;
    file_close(&f, h);
    return copy;
}

/* The step whose weights a model.safetensors holds; -1: broken, -2: missing. */
static int64_t step_of_model(const char *directory, int64_t most, host *h)
{
    char path[512];
    size_t n;
    container c;
    int64_t found = -1;
    snprintf(path, sizeof path, "%s/model.safetensors", directory);
    uint8_t *data = bytes_at(path, &n, h);
    if (!data)
        return -2;
    if (container_begin(&c, "safetensors", path, h, NULL) == WEFT_OK &&
        safetensors_parse(&c, data, n, NULL) == WEFT_OK && container_index(&c, NULL) == WEFT_OK) {
        const stored *w = container_tensor(&c, "w"), *g = container_tensor(&c, "g");
        for (int64_t step = 0; w && g && step <= most && found < 0; step++) {
            const numbers *x = numbers_of(step);
            if (memcmp(w->data, x->weight, sizeof x->weight) == 0 &&
                memcmp(g->data, x->gain, sizeof x->gain) == 0)
                found = step;
        }
    }
    container_close(&c);
    free(data);
    return found;
}

/* The newest checkpoint's step, or -1. If it is not what was written, *why describes the
 * difference. */
static int64_t newest(const char *root, host *h, const char **why)
{
    checkpoint c;
    weft_error err = { 0 };
    static numbers got;
    checkpoint_block b[N_BLOCK];
    *why = NULL;
    if (checkpoint_find(&c, root, h, &err) != WEFT_OK) {
        *why = "a run without a checkpoint that is whole";
        return -1;
    }
    if (!c.path[0])
        return -1;
    const int64_t step = c.manifest.counters.step;
    const numbers *expected = numbers_of(step);
    blocks_of(&got, b);
    if (checkpoint_read(&c, b, N_BLOCK, h, &err) != WEFT_OK)
        *why = "state that cannot be read";
    else if (memcmp(got.m, expected->m, sizeof got.m) != 0 ||
             memcmp(got.v, expected->v, sizeof got.v) != 0 || got.count != expected->count)
        *why = "another state than was written";
    else if (c.manifest.counters.cursor != 12 * step ||
             c.manifest.counters.n_backward != 2 * step || c.manifest.counters.n_update != step ||
             c.manifest.counters.seed != UINT64_MAX - (uint64_t)step)
        *why = "other counters than were written";
    else if (step_of_model(c.path, step, h) != step)
        *why = "other weights than were written";
    checkpoint_free(&c);
    return step;
}

static int64_t newest_is_whole(const char *root, host *h)
{
    const char *why;
    const int64_t step = newest(root, h, &why);
    if (why)
        fail_msg("step %lld: %s", (long long)step, why);
    return step;
}

/* ---- the plain way --------------------------------------------------------------------------- */

static void written_and_found(void **state)
{
    (void)state;
    host h;
    weft_error err;
    const char *root = temp_path("plain");
    host_plain(&h);
    assert_int_equal(newest_is_whole(root, &h), -1);
    for (int64_t step = 0; step <= 60; step += 10) {
        if (write_step(root, step, 3, &h, &err) != WEFT_OK)
            fail_msg("%s", err.message);
        assert_int_equal(newest_is_whole(root, &h), step);
        assert_int_equal(step_of_model(root, step, &h), step);
    }
    assert_int_equal(atomic_load(&h.mem.used), 0);
    for (int64_t step = 0; step <= 60; step += 10) {
        char path[512];
        snprintf(path, sizeof path, "%s/step-%08lld", root, (long long)step);
        assert_int_equal(access(path, F_OK), step >= 40 ? 0 : -1);
    }
}

typedef struct listing {
    char text[1024];
} listing;

static void note(void *ud, const char *name)
{
    listing *l = ud;
    strcat(strcat(l->text, name), " ");
}

/* The directory contains each of these names, in any order, and nothing else. */
static void holds(const char *directory, const char *const *word, host *h)
{
    listing l = { "" };
    size_t n = 0;
    assert_int_equal(h->io.list(h->io.ud, directory, note, &l), 0);
    for (; *word; word++) {
        char with[64];
        snprintf(with, sizeof with, "%s ", *word);
        if (!strstr(l.text, with))
            fail_msg("%s: %s is not in \"%s\"", directory, *word, l.text);
        n += strlen(with);
    }
    if (n != strlen(l.text))
        fail_msg("%s holds \"%s\"", directory, l.text);
}

/* After damage or a crash the run's directory may hold another model than the newest valid
 * checkpoint. */
static void published_again(void **state)
{
    (void)state;
    host h;
    weft_error err;
    checkpoint c;
    char path[512];
    const char *root = temp_path("again");
    host_plain(&h);
    assert_int_equal(write_step(root, 1, 2, &h, &err), WEFT_OK);
    assert_int_equal(write_step(root, 2, 2, &h, &err), WEFT_OK);
    snprintf(path, sizeof path, "%s/step-00000002/manifest.json", root);
    assert_int_equal(unlink(path), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(checkpoint_find(&c, root, &h, &err), WEFT_OK);
        checkpoint_publish(&c, root, &h);
        checkpoint_free(&c);
        assert_int_equal(step_of_model(root, 2, &h), 1);
    }
    holds(root,
          (const char *const[]){ "step-00000001", "step-00000002", "config.json", "tokenizer.json",
                                 "model.safetensors", NULL },
          &h);
}

/* Two trainers on one run would remove each other's checkpoints. */
static void one_process_a_run(void **state)
{
    (void)state;
    host h;
    run_lock a, b;
    weft_error err = { 0 };
    const char *root = temp_path("locked");
    host_plain(&h);
    assert_int_equal(run_lock_take(&a, root, &h, &err), WEFT_OK);
    assert_int_equal(run_lock_take(&b, root, &h, &err), WEFT_EIO);
    assert_non_null(strstr(err.message, "another process is training here"));
    run_lock_drop(&b);
    assert_int_equal(run_lock_take(&b, root, &h, &err), WEFT_EIO); /* the first still has it */
    run_lock_drop(&b);
    run_lock_drop(&a);
    assert_false(path_exists(root, &h)); /* nothing came into it */

    assert_int_equal(write_step(root, 1, 2, &h, &err), WEFT_OK);
    char link_part[600], weights[512];
    snprintf(weights, sizeof weights, "%s/model.safetensors", root);
    assert_true(part_name(link_part, sizeof link_part, weights, 7));
    assert_int_equal(h.io.link(NULL, weights, link_part), 0); /* killed before the rename */
    assert_int_equal(run_lock_take(&a, root, &h, &err), WEFT_OK);
    assert_false(path_exists(link_part, &h));
    run_lock_drop(&a);
    assert_int_equal(newest_is_whole(root, &h), 1);
}

static int no_locks(void *ud, int fd)
{
    (void)ud, (void)fd;
    return errno = ENOLCK, -1;
}

static void count_lines(void *ud, weft_log_level level, const char *line)
{
    *(int *)ud += level == WEFT_LOG_WARN && strstr(line, "cannot lock") != NULL;
}

static void runs_without_locks(void **state)
{
    (void)state;
    host h;
    run_lock l;
    int n_warned = 0;
    weft_error err = { 0 };
    host_plain(&h);
    h.io.lock = no_locks;
    h.log = (log_sink){ count_lines, &n_warned };
    assert_int_equal(run_lock_take(&l, temp_path("unlocked"), &h, &err), WEFT_OK);
    assert_int_equal(n_warned, 1);
    run_lock_drop(&l);
    assert_int_equal(run_lock_take(&l, temp_path("no/where"), &h, &err), WEFT_EIO);
    run_lock_drop(&l);
    assert_int_equal(run_lock_take(&l, temp_file("a-file", "x", 1), &h, &err), WEFT_EIO);
    run_lock_drop(&l);
}

/* A crashed run leaves temporary files, which are removed; other files stay. */
static void leftovers(void **state)
{
    (void)state;
    host h;
    weft_error err;
    const char *root = temp_path("rest");
    char path[512];
    host_plain(&h);
    assert_int_equal(write_step(root, 1, 2, &h, &err), WEFT_OK);
    static const char *const rest[] = { "model.safetensors.weft-0000000000000011.part",
                                        "config.json.weft-0000000000000001.part", "mine.part",
                                        "config.json.x.part", "notes" };
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) {
        snprintf(path, sizeof path, "%s/%s", root, rest[i]);
        assert_int_equal(save_whole(path, "x", 1, &h, &err), WEFT_OK);
    }
    snprintf(path, sizeof path, "%s/step-00000002", root);
    assert_int_equal(h.io.mkdir(NULL, path), 0);
    strcat(path, "/model.safetensors");
    assert_int_equal(save_whole(path, "x", 1, &h, &err), WEFT_OK);
    strcat(path, ".weft-0000000000000004.part");
    assert_int_equal(save_whole(path, "x", 1, &h, &err), WEFT_OK);
    snprintf(path, sizeof path, "%s/step-00000001/notes", root);
    assert_int_equal(save_whole(path, "x", 1, &h, &err), WEFT_OK);

    assert_int_equal(newest_is_whole(root, &h), 1);
    assert_int_equal(write_step(root, 2, 1, &h, &err), WEFT_OK);
    assert_int_equal(newest_is_whole(root, &h), 2);
    holds(root,
          (const char *const[]){ "mine.part", "config.json.x.part", "notes", "step-00000001",
                                 "step-00000002-2", "config.json", "tokenizer.json",
                                 "model.safetensors", NULL },
          &h);
    snprintf(path, sizeof path, "%s/step-00000001", root);
    holds(path, (const char *const[]){ "notes", NULL }, &h);
    snprintf(path, sizeof path, "%s/step-00000002-2", root);
    holds(path,
          (const char *const[]){ "config.json", "tokenizer.json", "model.safetensors", "state.weft",
                                 "manifest.json", NULL },
          &h);
}

/* An existing step is not overwritten; with keep 0 all stay. */
static void same_step(void **state)
{
    (void)state;
    host h;
    weft_error err;
    const char *root = temp_path("same");
    host_plain(&h);
    for (int i = 0; i < 3; i++)
        assert_int_equal(write_step(root, 7, 0, &h, &err), WEFT_OK);
    holds(root,
          (const char *const[]){ "step-00000007", "step-00000007-2", "step-00000007-3",
                                 "config.json", "tokenizer.json", "model.safetensors", NULL },
          &h);
    assert_int_equal(write_step(root, 8, 2, &h, &err), WEFT_OK);
    holds(root,
          (const char *const[]){ "step-00000007-3", "step-00000008", "config.json",
                                 "tokenizer.json", "model.safetensors", NULL },
          &h);
}

/* The best checkpoint stays while others are removed, until there is a better one. */
static void best_stays(void **state)
{
    (void)state;
    host h;
    weft_error err;
    const char *root = temp_path("best");
    host_plain(&h);
    for (int step = 1; step <= 5; step++)
        assert_int_equal(write_spared(root, step, 2, step < 2 ? step : 2, &h, &err), WEFT_OK);
    holds(root,
          (const char *const[]){ "step-00000002", "step-00000004", "step-00000005", "config.json",
                                 "tokenizer.json", "model.safetensors", NULL },
          &h);
    assert_int_equal(write_spared(root, 6, 1, 6, &h, &err), WEFT_OK);
    holds(root,
          (const char *const[]){ "step-00000006", "config.json", "tokenizer.json",
                                 "model.safetensors", NULL },
          &h);
}

static void names_of_others(void **state)
{
    (void)state;
    host h;
    weft_error err;
    char path[512];
    const char *root = temp_path("others");
    static const char *const no[] = { "step-",
                                      "step-1x",
                                      "step-1-",
                                      "step-1-0",
                                      "step-1-2-3",
                                      "steps-9",
                                      "step--9",
                                      "step-+9",
                                      "step- 9",
                                      "step-9 ",
                                      "Step-9",
                                      "step-1-2x",
                                      "step-0x9",
                                      "step-9",
                                      "step-000000009",
                                      "step-00000009-1",
                                      "step-00000009-0",
                                      "step-00000009-02",
                                      "step-99999999999999999999" };
    host_plain(&h);
    assert_int_equal(write_step(root, 3, 1, &h, &err), WEFT_OK);
    for (size_t i = 0; i < sizeof no / sizeof *no; i++) {
        snprintf(path, sizeof path, "%s/%s", root, no[i]);
        assert_int_equal(h.io.mkdir(NULL, path), 0);
        strcat(path, "/manifest.json");
        assert_int_equal(save_whole(path, "x", 1, &h, &err), WEFT_OK);
    }
    assert_int_equal(newest_is_whole(root, &h), 3);
    assert_int_equal(write_step(root, 4, 1, &h, &err), WEFT_OK);
    for (size_t i = 0; i < sizeof no / sizeof *no; i++) {
        snprintf(path, sizeof path, "%s/%s", root, no[i]);
        assert_int_equal(access(path, F_OK), 0);
    }
}

/* State that could not be read back is refused before it is written. */
static void wrong_options(void **state)
{
    (void)state;
    host h;
    weft_error err = { 0 };
    const char *root = temp_path("wrong");
    host_plain(&h);
    const float *const values[] = { (const float[N]){ 0 }, (const float[N_COL]){ 0 } };
    const checkpoint_view v = { .options = "\xff", .form = &form, .weight = values };
    assert_int_equal(checkpoint_write(root, &v, 1, &h, &err), WEFT_EFORMAT);
    assert_non_null(strstr(err.message, "manifest.json: line "));
    assert_int_equal(newest_is_whole(root, &h), -1);
    const checkpoint_view none = { .options = "", .form = &form, .weight = values };
    assert_int_equal(checkpoint_write(root, &none, 1, &h, &err), WEFT_OK);
    checkpoint c;
    assert_int_equal(checkpoint_find(&c, root, &h, &err), WEFT_OK);
    assert_int_equal(checkpoint_read(&c, NULL, 0, &h, &err), WEFT_OK);
    assert_int_equal(
        checkpoint_read(&c, (checkpoint_block[]){ { .name = "x", .data = NULL, .bytes = 1 } }, 1,
                        &h, &err),
        WEFT_EFORMAT);
    assert_non_null(strstr(err.message, "0 blocks of state, expected 1"));
    checkpoint_free(&c);
}

/* ---- models ---------------------------------------------------------------------------------- */

static void open_learner(learner *l, model *m, const char *path, host *h)
{
    weft_error err = { 0 };
    batch_row row = { .target = 1, .wanted = true, .weight = 1 };
    sequence seq = { .n = 1, .source = -1 };
    const batch one = { .n_row = 1, .n_seq = 1, .n_wanted = 1, .row = &row, .seq = &seq };
    if (model_open(m, path, WEFT_LOAD_COPY, h, &err) != WEFT_OK ||
        learner_init(l, m, &(learner_options){ .n_thread = 1 }, &one, &err) != WEFT_OK)
        fail_msg("%s: %s", path, err.message);
}

/* Weights in memory, written and opened again, equal those of the original directory. */
static void comes_back(const char *from, const char *original)
{
    host h;
    model m, again, as_stored;
    learner l, other, stored_one;
    hf_form f;
    weft_error err = { 0 };
    const float *values[64];
    const char *root = temp_path("model");
    host_plain(&h);
    open_learner(&l, &m, from, &h);
    if (hf_form_init(&f, from, WEFT_LOAD_COPY, &h, &err) != WEFT_OK)
        fail_msg("%s: %s", from, err.message);
    assert_int_equal(f.n_tensor, l.params.n_tensor);
    for (int64_t i = 0; i < f.n_tensor; i++)
        values[i] = l.params.value + l.params.at[i];
    const checkpoint_view v = { .options = "", .form = &f, .weight = values };
    if (checkpoint_write(root, &v, 1, &h, &err) != WEFT_OK)
        fail_msg("%s: %s", from, err.message);
    open_learner(&other, &again, root, &h);
    open_learner(&stored_one, &as_stored, original, &h);
    assert_int_equal(other.params.n, stored_one.params.n);
    if (memcmp(other.params.value, stored_one.params.value,
               (size_t)other.params.n * sizeof(real)) != 0)
        fail_msg("%s: other weights than in %s", from, original);
    learner_free(&stored_one);
    learner_free(&other);
    learner_free(&l);
    model_close(&as_stored);
    model_close(&again);
    model_close(&m);
    hf_form_free(&f);
    assert_int_equal(atomic_load(&h.mem.used), 0);
}

static void models_come_back(void **state)
{
    (void)state;
    static const char *const lines[] = { "gpt2",           "gpt2-rope", "llama-gqa",
                                         "llama-linear",   "llama-mqa", "llama-yarn",
                                         "mistral-window", "qwen2",     "qwen3" };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        host h;
        convert_report r;
        weft_error err = { 0 };
        char name[64];
        snprintf(name, sizeof name, "golden/%s", lines[i]);
        const char *from = fixture(name), *gguf = temp_path("model.gguf");
        comes_back(from, from);
        host_plain(&h);
        if (convert_model(from, gguf, &(convert_options){ .force = true }, &r, &h, &err) != WEFT_OK)
            fail_msg("%s: %s", from, err.message);
        comes_back(gguf, from);
    }
}

/* Every call that can fail while a model's form is determined. */
static void faults_of_forms(void **state)
{
    (void)state;
    const char *from = fixture("golden/gpt2");
    for (int files = 0; files < 2; files++)
        for (int64_t k = 1;; k++) {
            host h;
            hf_form f;
            weft_error err = { 0 };
            faults memory = { 0 }, io = { 0 }, *chosen = files ? &io : &memory;
            chosen->fail_at = k;
            host_faulty(&h, &memory, &io);
            const weft_status status = hf_form_init(&f, from, WEFT_LOAD_COPY, &h, &err);
            if (status == WEFT_OK)
                hf_form_free(&f);
            assert_that(memory.live == 0 && io.live == 0 && (status == WEFT_OK || err.code),
                        "call %lld: status %d, \"%s\"", (long long)k, (int)status, err.message);
            if (chosen->calls < k) {
                assert_int_equal(status, WEFT_OK);
                break;
            }
        }
}

/* Checkpoints of older versions load: one written by version 1 is stored here permanently. */
static void old_version(void **state)
{
    (void)state;
    host h;
    host_plain(&h);
    assert_int_equal(newest_is_whole(fixture("golden/checkpoint-v1"), &h), 9);
}

/* ---- damage ---------------------------------------------------------------------------------- */

typedef struct heard {
    char text[1024];
} heard;

static void hear(void *ud, weft_log_level level, const char *line)
{
    heard *to = ud;
    if (level == WEFT_LOG_WARN)
        snprintf(to->text, sizeof to->text, "%s", line);
}

static void host_heard(host *h, heard *to)
{
    host_plain(h);
    to->text[0] = '\0';
    h->log = (log_sink){ hear, to };
}

/* Changes one byte of a file. */
static void flip(const char *path, long at)
{
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, at, at < 0 ? SEEK_END : SEEK_SET), 0);
    const long where = ftell(f);
    const int c = fgetc(f);
    assert_int_equal(fseek(f, where, SEEK_SET), 0);
    fputc(c ^ 16, f);
    assert_int_equal(fclose(f), 0);
}

static void flipped_byte(void **state)
{
    (void)state;
    static const char *const files[] = { "model.safetensors", "state.weft", "config.json",
                                         "tokenizer.json", "manifest.json" };
    const char *root = temp_path("flipped");
    host h;
    heard warning;
    weft_error err;
    host_heard(&h, &warning);
    assert_int_equal(write_step(root, 1, 0, &h, &err), WEFT_OK);
    assert_int_equal(write_step(root, 2, 0, &h, &err), WEFT_OK);
    int n = 0;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[512];
        size_t size;
        snprintf(path, sizeof path, "%s/step-00000002/%s", root, files[i]);
        free(read_whole(path, &size));
        for (long at = 0; at<(long)size; at += size> 4000 ? 997 : 1, n++) {
            flip(path, at);
            warning.text[0] = '\0';
            assert_int_equal(newest_is_whole(root, &h), 1);
            if (!strstr(warning.text, path) || (i < 4 && !strstr(warning.text, "chunk 1 of 1")))
                fail_msg("%s, byte %ld: \"%s\"", files[i], at, warning.text);
            flip(path, at);
        }
    }
    assert_int_equal(newest_is_whole(root, &h), 2);
    print_message("%d flipped bytes, each named by its file\n", n);
}

/* The third of four chunks. */
static void flipped_chunk(void **state)
{
    (void)state;
    const size_t n = 3 * CHUNK_BYTES + 5;
    uint8_t *large = malloc(n);
    assert_non_null(large);
    memset(large, 7, n);
    host h;
    heard warning;
    weft_error err = { 0 };
    checkpoint c;
    char path[512];
    const char *root = temp_path("large");
    const float *const values[] = { (const float[N]){ 0 }, (const float[N_COL]){ 0 } };
    const checkpoint_block block = { .name = "large", .data = large, .bytes = n };
    const checkpoint_view v = {
        .options = "", .form = &form, .weight = values, .block = &block, .n_block = 1
    };
    host_heard(&h, &warning);
    assert_int_equal(checkpoint_write(root, &v, 1, &h, &err), WEFT_OK);
    assert_int_equal(checkpoint_find(&c, root, &h, &err), WEFT_OK);
    memset(large, 0, n);
    assert_int_equal(checkpoint_read(&c, &block, 1, &h, &err), WEFT_OK);
    for (size_t i = 0; i < n; i++)
        assert_true(large[i] == 7);
    snprintf(path, sizeof path, "%s/step-00000000/state.weft", root);
    flip(path, 2 * (long)CHUNK_BYTES + 17);
    assert_int_equal(checkpoint_read(&c, &block, 1, &h, &err), WEFT_EFORMAT);
    assert_non_null(strstr(err.message, "state.weft: chunk 3 of 4 (bytes from 8388608 on) is not"));
    checkpoint_free(&c);
    assert_int_equal(checkpoint_find(&c, root, &h, &err), WEFT_EFORMAT);
    assert_non_null(strstr(err.message, "state.weft: chunk 3 of 4"));
    assert_string_equal(c.path, "");
    free(large);
}

static void cut_or_missing(void **state)
{
    (void)state;
    host h;
    heard warning;
    weft_error err;
    char path[512];
    const char *root = temp_path("cut");
    host_heard(&h, &warning);
    assert_int_equal(write_step(root, 1, 0, &h, &err), WEFT_OK);
    for (int64_t step = 2; step < 5; step++)
        assert_int_equal(write_step(root, step, 0, &h, &err), WEFT_OK);
    snprintf(path, sizeof path, "%s/step-00000004/state.weft", root);
    assert_int_equal(truncate(path, 100), 0);
    assert_int_equal(newest_is_whole(root, &h), 3);
    assert_non_null(strstr(warning.text, "state.weft: 100 bytes, but 20808 were written"));
    snprintf(path, sizeof path, "%s/step-00000003/config.json", root);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(newest_is_whole(root, &h), 2);
    snprintf(path, sizeof path, "%s/step-00000002/manifest.json", root);
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(newest_is_whole(root, &h), 1);
    assert_non_null(strstr(warning.text, "manifest.json: the file is empty"));
}

/* ---- faults ---------------------------------------------------------------------------------- */

/* Other tests cover syncs: here they would take minutes. */
static int no_sync(void *ud, int fd)
{
    (void)ud, (void)fd;
    return 0;
}

static int faulty_no_sync(void *ud, int fd)
{
    faults *f = ud;
    (void)fd;
    f->calls++;
    const bool fails = f->fail_at && (f->sticky ? f->calls >= f->fail_at : f->calls == f->fail_at);
    return fails ? (errno = EIO, -1) : 0;
}

/* Every call of a checkpoint fails, once or permanently: afterwards the previous one is found, or
 * the new one. When the disk works again, so does the run. */
static void every_fault(void **state)
{
    (void)state;
    int n = 0;
    for (int kind = 0; kind < 4; kind++) {
        const bool files = kind & 1, sticky = kind & 2;
        for (int64_t k = 1;; k++, n++) {
            host h, well;
            weft_error err;
            faults memory = { 0 }, io = { 0 }, *chosen = files ? &io : &memory;
            char name[64];
            snprintf(name, sizeof name, "fault-%d-%lld", kind, (long long)k);
            const char *root = temp_path(name);
            host_plain(&well);
            well.io.sync = no_sync;
            assert_int_equal(write_step(root, 1, 2, &well, &err), WEFT_OK);
            assert_int_equal(write_step(root, 2, 2, &well, &err), WEFT_OK);
            chosen->fail_at = k;
            chosen->sticky = sticky;
            host_faulty(&h, &memory, &io);
            h.io.sync = faulty_no_sync;
            const weft_status status = write_step(root, 3, 2, &h, &err);
            if (memory.live != 0 || io.live != 0)
                fail_msg("fault %d of kind %d: %d blocks and %d descriptors are left", (int)k, kind,
                         (int)memory.live, (int)io.live);
            const int64_t now = newest_is_whole(root, &well);
            if (now != (status == WEFT_OK ? 3 : 2) || (status != WEFT_OK && err.code != status))
                fail_msg("fault %d of kind %d: status %d (%s), but the newest is %d", (int)k, kind,
                         (int)status, err.message, (int)now);
            assert_int_equal(write_step(root, 4, 2, &well, &err), WEFT_OK);
            assert_int_equal(newest_is_whole(root, &well), 4);
            assert_int_equal(step_of_model(root, 4, &well), 4);
            if (chosen->calls < k)
                break;
        }
    }
    print_message("%d faults\n", n);
}

static void every_fault_of_reading(void **state)
{
    (void)state;
    host well;
    weft_error err;
    const char *root = temp_path("reading");
    host_plain(&well);
    assert_int_equal(write_step(root, 1, 2, &well, &err), WEFT_OK);
    assert_int_equal(write_step(root, 2, 2, &well, &err), WEFT_OK);
    for (int files = 0; files < 2; files++)
        for (int64_t k = 1;; k++) {
            host h;
            checkpoint c;
            static numbers x;
            checkpoint_block b[N_BLOCK];
            faults memory = { 0 }, io = { 0 }, *chosen = files ? &io : &memory;
            chosen->fail_at = k;
            host_faulty(&h, &memory, &io);
            err = (weft_error){ 0 };
            blocks_of(&x, b);
            weft_status status = checkpoint_find(&c, root, &h, &err);
            if (status == WEFT_OK && c.path[0])
                status = checkpoint_read(&c, b, N_BLOCK, &h, &err);
            checkpoint_free(&c);
            assert_true(memory.live == 0 && io.live == 0);
            if (chosen->calls < k) {
                assert_int_equal(status, WEFT_OK);
                break;
            }
            if (status != WEFT_OK && err.code != status)
                fail_msg("call %lld: %d \"%s\"", (long long)k, (int)status, err.message);
        }
    assert_int_equal(newest_is_whole(root, &well), 2);
}

static int no_link(void *ud, const char *from, const char *to)
{
    (void)ud, (void)from, (void)to;
    return errno = EPERM, -1;
}

static int full_link(void *ud, const char *from, const char *to)
{
    (void)ud, (void)from, (void)to;
    return errno = ENOSPC, -1;
}

/* A file system without hard links gets copies; a checkpoint is valid even if the run's directory
 * cannot be updated. */
static void without_links(void **state)
{
    (void)state;
    host h;
    heard warning;
    weft_error err;
    const char *root = temp_path("no-links");
    host_heard(&h, &warning);
    h.io.link = no_link;
    assert_int_equal(write_step(root, 1, 1, &h, &err), WEFT_OK);
    assert_int_equal(write_step(root, 2, 1, &h, &err), WEFT_OK);
    assert_string_equal(warning.text, "");
    assert_int_equal(step_of_model(root, 2, &h), 2);
    h.io.link = full_link;
    assert_int_equal(write_step(root, 3, 1, &h, &err), WEFT_OK);
    assert_non_null(strstr(warning.text, "the model was not updated: "));
    assert_int_equal(step_of_model(root, 3, &h), 2);
    assert_int_equal(newest_is_whole(root, &h), 3);
    assert_int_equal(atomic_load(&h.mem.used), 0);
}

/* ---- the machine stops ----------------------------------------------------------------------- */

typedef struct crashes {
    int64_t done, begun; /* steps */
    uint64_t n, seeds;
    uint64_t n_lost; /* number of violations */
    char first[1024];
} crashes;

static void lost(crashes *c, uint64_t seed, const char *why, int64_t step)
{
    if (c->n_lost++ == 0)
        snprintf(c->first, sizeof c->first,
                 "crash %llu (seed %llu), step %lld under way, %lld done: %s (found %lld)",
                 (unsigned long long)c->n, (unsigned long long)seed, (long long)c->begun,
                 (long long)c->done, why, (long long)step);
}

static void start_again(crashes *c, crash_disk *after, uint64_t seed)
{
    host h;
    weft_error err;
    const char *why;
    host_crash_disk(&h, after);
    const int64_t step = newest("run", &h, &why);
    const int64_t here = step_of_model("run", c->begun, &h);
    if (why)
        lost(c, seed, why, step);
    else if (step != c->begun && step != c->done)
        lost(c, seed, "an older checkpoint than was promised", step);
    else if (here == -1 || (c->done > 0 && here != c->done && here != c->begun))
        lost(c, seed, "the run's directory is not the model that it was or will be", here);
    else if (write_step("run", c->begun, 2, &h, &err) != WEFT_OK)
        lost(c, seed, err.message, step);
    else if (newest("run", &h, &why) != c->begun || why ||
             step_of_model("run", c->begun, &h) != c->begun)
        lost(c, seed, "the next checkpoint is not found", step);
}

static void crash_here(void *ud, crash_disk *d)
{
    crashes *c = ud;
    for (uint64_t i = 0; i < c->seeds; i++, c->n++) {
        const uint64_t seed = i < 2 ? i : 2 + c->n;
        crash_disk *after = crash_disk_crash(d, seed);
        start_again(c, after, seed);
        crash_disk_free(after);
    }
}

/* Six checkpoints, the fourth step twice; a crash before every call that changes the disk. */
static void crash_often(crashes *c, bool lies)
{
    static const int64_t steps[] = { 1, 2, 3, 4, 4, 5 };
    crash_disk *d = crash_disk_new();
    host h;
    weft_error err;
    host_crash_disk(&h, d);
    crash_disk_lie(d, lies);
    crash_disk_watch(d, crash_here, c);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        c->begun = steps[i];
        if (write_step("run", steps[i], 2, &h, &err) != WEFT_OK)
            fail_msg("%s", err.message);
        c->done = steps[i];
    }
    assert_int_equal(atomic_load(&h.mem.used), 0);
    crash_disk_free(d);
}

static void crash_states(void **state)
{
    (void)state;
    crashes c = { .done = -1, .seeds = quick() ? 3 : 20 };
    crash_often(&c, false);
    print_message("%llu crashes\n", (unsigned long long)c.n);
    if (c.n_lost)
        fail_msg("%llu times: %s", (unsigned long long)c.n_lost, c.first);
    assert_true(c.n >= (quick() ? 500 : 5000));
}

/* The test can fail: a disk that only claims to sync loses checkpoints. */
static void crash_states_without_sync(void **state)
{
    (void)state;
    crashes c = { .done = -1, .seeds = 3 };
    crash_often(&c, true);
    print_message("%llu of %llu crashes lost something: %s\n", (unsigned long long)c.n_lost,
                  (unsigned long long)c.n, c.first);
    assert_true(c.n_lost > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("run: only one process at a time holds it", one_process_a_run),
        TEST("run: a file system without locks is a warning, a missing directory an error",
             runs_without_locks),
        TEST("checkpoint: finds what it wrote, and keeps the newest few", written_and_found),
        TEST("checkpoint: the run's directory follows the newest valid one", published_again),
        TEST("checkpoint: leftovers of a crash are removed, other files stay", leftovers),
        TEST("checkpoint: none is overwritten", same_step),
        TEST("checkpoint: the best one stays", best_stays),
        TEST("checkpoint: directories with other names are not touched", names_of_others),
        TEST("checkpoint: never writes what it could not read", wrong_options),
        TEST("checkpoint: a model is restored bit by bit, whatever it was made from",
             models_come_back),
        TEST("checkpoint: any call may fail while a model's form is determined", faults_of_forms),
        TEST("checkpoint: version 1 loads", old_version),
        TEST("checkpoint: a flipped byte is reported, and the previous one is used", flipped_byte),
        TEST("checkpoint: a flipped byte is reported by its chunk", flipped_chunk),
        TEST("checkpoint: truncated or missing files", cut_or_missing),
        TEST("checkpoint: any call may fail, once or permanently", every_fault),
        TEST("checkpoint: any call may fail while searching for one", every_fault_of_reading),
        TEST("checkpoint: a file system without hard links", without_links),
        TEST("checkpoint: the machine may crash at any call", crash_states),
        TEST("checkpoint: without syncs the crash test fails", crash_states_without_sync),
    };
    return RUN(tests);
}
