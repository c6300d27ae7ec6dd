/* test_metrics_log.c - RUN/metrics.jsonl: whole lines only, whatever the disk does. */
#include "support.h"

#include "train/metrics_log.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char run_dir[512], path[600];

/* ---- a disk that gets full ------------------------------------------------------------------- */

static size_t room; /* bytes that still fit */

static ssize_t write_some(void *ud, int fd, const void *from, size_t size)
{
    const size_t n = size < room ? size : room;
    if (n == 0)
        return errno = ENOSPC, -1;
    room -= n;
    return io_system.write(ud, fd, from, n);
}

static int no_append(void *ud, const char *at)
{
    (void)ud, (void)at;
    return errno = EACCES, -1;
}

static int no_truncate(void *ud, int fd, uint64_t size)
{
    (void)ud, (void)fd, (void)size;
    return errno = EIO, -1;
}

static int n_refused; /* truncations that will fail */

static int truncate_later(void *ud, int fd, uint64_t size)
{
    if (n_refused-- > 0)
        return errno = EIO, -1;
    return io_system.truncate(ud, fd, size);
}

static char said[256];

static void keep_warning(void *ud, weft_log_level level, const char *text)
{
    (void)ud, (void)level;
    snprintf(said, sizeof said, "%s", text);
}

static host host_with(const io_hooks *io)
{
    host h;
    host_plain(&h);
    h.io = *io;
    h.log = (log_sink){ keep_warning, NULL };
    said[0] = '\0';
    return h;
}

/* ---- lines ----------------------------------------------------------------------------------- */

static weft_train_progress step_of(int64_t step)
{
    return (weft_train_progress){ .step = step,
                                  .loss = 0.5,
                                  .smoothed = 0.25,
                                  .lr = 1e-3,
                                  .grad_norm = 2,
                                  .n_token = 64,
                                  .tokens_per_second = NAN,
                                  .share = NAN,
                                  .val_loss = NAN,
                                  .val_accuracy = NAN,
                                  .expert_least = NAN,
                                  .expert_most = NAN,
                                  .margin = NAN,
                                  .right = NAN,
                                  .logp_chosen = NAN,
                                  .logp_rejected = NAN };
}

static void put_steps(metrics_log *m, int64_t from, int64_t to)
{
    for (int64_t i = from; i <= to; i++) {
        const weft_train_progress p = step_of(i);
        metrics_log_put(m, &p, NULL, 0);
    }
}

static void file_is(const char *expected)
{
    char text[4096];
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    const size_t n = fread(text, 1, sizeof text - 1, f);
    text[n] = '\0';
    fclose(f);
    assert_string_equal(text, expected);
}

#define LINE(step)                                                                                 \
    "{\"step\":" #step                                                                             \
    ",\"loss\":0.5,\"smoothed\":0.25,\"lr\":0.001,\"grad_norm\":2,\"tokens\":64}\n"

/* ---- the tests ------------------------------------------------------------------------------- */

static void lines_are_json(void **state)
{
    (void)state;
    host h = host_with(&io_system);
    metrics_log m;
    weft_train_progress p = step_of(2);
    assert_int_equal(metrics_log_open(&m, run_dir, 0, &h, NULL), WEFT_OK);
    put_steps(&m, 1, 1);
    p.val_loss = 1.5;
    p.skipped = true;
    metrics_log_put(&m, &p, "a \"b\"\n\xFF\x7F", 8);
    p = step_of(3);
    p.margin = -0.5;
    p.right = 0.25;
    p.logp_chosen = -3;
    p.logp_rejected = -4;
    metrics_log_put(&m, &p, NULL, 0);
    metrics_log_close(&m);
    file_is(LINE(1) "{\"step\":2,\"loss\":0.5,\"smoothed\":0.25,\"lr\":0.001,\"grad_norm\":2,"
                    "\"tokens\":64,\"val_loss\":1.5,\"skipped\":true,"
                    "\"sample\":\"a \\\"b\\\"\\u000a\\ufffd\x7F\"}\n"
                    "{\"step\":3,\"loss\":0.5,\"smoothed\":0.25,\"lr\":0.001,\"grad_norm\":2,"
                    "\"tokens\":64,\"margin\":-0.5,\"right\":0.25,\"logp_chosen\":-3,"
                    "\"logp_rejected\":-4}\n");
}

static void a_new_run_begins_anew(void **state)
{
    (void)state;
    host h = host_with(&io_system);
    metrics_log m;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(metrics_log_open(&m, run_dir, 0, &h, NULL), WEFT_OK);
        put_steps(&m, 1, 2);
        metrics_log_close(&m);
    }
    file_is(LINE(1) LINE(2));
}

static void a_resumed_run_keeps_the_lines_of_its_checkpoint(void **state)
{
    (void)state;
    host h = host_with(&io_system);
    metrics_log m;
    assert_int_equal(metrics_log_open(&m, run_dir, 0, &h, NULL), WEFT_OK);
    put_steps(&m, 1, 5);
    metrics_log_close(&m);
    FILE *f = fopen(path, "ab"); /* as a crash leaves it */
    assert_non_null(f);
    fputs("{\"step\":2,\"lo", f);
    fclose(f);
    assert_int_equal(metrics_log_open(&m, run_dir, 3, &h, NULL), WEFT_OK);
    put_steps(&m, 4, 4);
    metrics_log_close(&m);
    file_is(LINE(1) LINE(2) LINE(3) LINE(4));
}

/* Wherever the disk becomes full, the file has whole lines, lost ones are counted, and later lines
 * that fit are written. */
static void a_full_disk_loses_whole_lines(void **state)
{
    (void)state;
    io_hooks io = io_system;
    io.write = write_some;
    const size_t line = strlen(LINE(1));
    for (size_t fits = 0; fits < 2 * line; fits++) {
        host h = host_with(&io);
        metrics_log m;
        room = fits;
        assert_int_equal(metrics_log_open(&m, run_dir, 0, &h, NULL), WEFT_OK);
        put_steps(&m, 1, 2);
        assert_int_equal(m.n_lost, fits < line ? 2 : 1);
        assert_non_null(strstr(said, "training continues"));
        room = 2 * line;
        put_steps(&m, 3, 3);
        metrics_log_close(&m);
        file_is(fits < line ? LINE(3) : LINE(1) LINE(3));
    }
}

/* Half a line that cannot be truncated at once is truncated before the next one is written. */
static void half_a_line_never_joins_the_next(void **state)
{
    (void)state;
    io_hooks io = io_system;
    io.write = write_some;
    io.truncate = truncate_later;
    const size_t line = strlen(LINE(1));
    host h = host_with(&io);
    metrics_log m;
    n_refused = 0;
    room = line + 10;
    assert_int_equal(metrics_log_open(&m, run_dir, 0, &h, NULL), WEFT_OK);
    n_refused = 2;
    put_steps(&m, 1, 2); /* the second is torn, and stays */
    room = 3 * line;
    put_steps(&m, 3, 5); /* truncation fails again */
    assert_int_equal(m.n_lost, 2);
    metrics_log_close(&m);
    assert_non_null(strstr(said, "2 lines are missing"));
    file_is(LINE(1) LINE(4) LINE(5));
}

static void a_file_that_cannot_be_written_is_an_error(void **state)
{
    (void)state;
    metrics_log m;
    weft_error err = { 0 };
    io_hooks io = io_system;
    io.append = no_append;
    host h = host_with(&io);
    assert_int_equal(metrics_log_open(&m, run_dir, 0, &h, &err), WEFT_EIO);
    assert_non_null(strstr(err.message, "metrics.jsonl: cannot write: Permission denied"));
    io = io_system;
    io.truncate = no_truncate;
    h = host_with(&io);
    assert_int_equal(metrics_log_open(&m, run_dir, 0, &h, &err), WEFT_EIO);
    metrics_log_close(&m); /* again, which does nothing */
}

static void what_is_not_a_file_is_refused_before_anything_is_written(void **state)
{
    (void)state;
    host h = host_with(&io_system);
    weft_error err = { 0 };
    assert_int_equal(metrics_log_check("/nonexistent", &h, &err), WEFT_OK);
    remove(path);
    assert_int_equal(metrics_log_check(run_dir, &h, &err), WEFT_OK);
    assert_int_equal(mkdir(path, 0777), 0);
    assert_int_equal(metrics_log_check(run_dir, &h, &err), WEFT_EIO);
    assert_non_null(strstr(err.message, "not a regular file; move it away"));
    rmdir(path);
}

int main(void)
{
    snprintf(run_dir, sizeof run_dir, "%s", temp_path("run"));
    if (mkdir(run_dir, 0777) != 0)
        return 1;
    snprintf(path, sizeof path, "%s/" METRICS_FILE, run_dir);
    const struct CMUnitTest tests[] = {
        TEST("metrics log: a line is JSON, whatever the sample", lines_are_json),
        TEST("metrics log: a new run starts a new file", a_new_run_begins_anew),
        TEST("metrics log: a resumed run keeps the lines of its checkpoint",
             a_resumed_run_keeps_the_lines_of_its_checkpoint),
        TEST("metrics log: a full disk loses whole lines", a_full_disk_loses_whole_lines),
        TEST("metrics log: half a line never joins the next", half_a_line_never_joins_the_next),
        TEST("metrics log: a file that cannot be written is an error",
             a_file_that_cannot_be_written_is_an_error),
        TEST("metrics log: refuses anything but a file before it writes",
             what_is_not_a_file_is_refused_before_anything_is_written),
    };
    const int failed = RUN(tests);
    remove(path);
    rmdir(run_dir);
    return failed;
}
