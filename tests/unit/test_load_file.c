/* test_load_file.c - traces and records of steps (cli/load_file.c). */
#include "support.h"

#include "load_file.h"

#include <math.h>

static const char *written(const char *text)
{
    return temp_file("load.txt", text, strlen(text));
}

static void traces_come_back(void **state)
{
    (void)state;
    load_trace t = { 0 }, again;
    weft_error err;
    for (int i = 0; i < 3000; i++) { /* parts and requests move as the lists grow */
        const weft_load_part parts[3] = { { 7, 64 },
                                          { 1000 + (uint64_t)i, 1 + i % 9 },
                                          { UINT64_MAX, 2 } };
        const weft_load_request q = { .at = 0.25 * i,
                                      .part = parts,
                                      .n_part = 1 + i % 3,
                                      .n_new = 1 + i,
                                      .key = i % 4 == 0   ? NULL
                                             : i % 4 == 1 ? "a"
                                                          : "bob" };
        assert_true(load_trace_add(&t, &q));
    }
    FILE *f = tmpfile();
    assert_true(load_trace_write(&t, f));
    char *text = calloc(1, 1 << 20);
    rewind(f);
    const size_t n = fread(text, 1, (1 << 20) - 1, f);
    fclose(f);
    assert_int_equal(load_trace_read(&again, temp_file("trace", text, n), &err), WEFT_OK);
    assert_int_equal(again.n, t.n);
    for (int64_t i = 0; i < t.n; i++) {
        const weft_load_request *a = &t.at[i], *b = &again.at[i];
        assert_true(a->at == b->at && a->n_new == b->n_new && a->n_part == b->n_part);
        assert_memory_equal(a->part, b->part, (size_t)a->n_part * sizeof *a->part);
        assert_true(!a->key == !b->key && (!a->key || strcmp(a->key, b->key) == 0));
    }
    assert_int_equal(again.n_key, 2);
    free(text);
    load_trace_free(&t);
    load_trace_free(&again);
}

static void refuse_trace(const char *text, const char *why)
{
    load_trace t;
    weft_error err = { 0 };
    assert_int_equal(load_trace_read(&t, written(text), &err), WEFT_EFORMAT);
    if (!strstr(err.message, why))
        fail_msg("\"%s\": %s", text, err.message);
    assert_null(t.at);
}

static void wrong_traces_are_refused(void **state)
{
    (void)state;
    load_trace t;
    weft_error err = { 0 };
    refuse_trace("", "without requests");
    refuse_trace("# nothing\n\n", "without requests");
    refuse_trace("0 1 - 1:1\nword\n", "line 2");
    static const char *const lines[] = { "-1 1 - 1:1", "nan 1 - 1:1", "inf 1 - 1:1", "0 0 - 1:1",
                                         "0 1 -",      "0 1 - 1",     "0 1 - 1:",    "0 1 - 1:0",
                                         "0 1 - :1",   "0 1 - 1:1x",  "0 1 - 1:-4",  "0 1 - 1:1 x",
                                         "0 x - 1:1" };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        refuse_trace(lines[i], "line 1 is no request");
    refuse_trace("2 1 - 1:1\n1 1 - 1:1\n", "line 2 is no request");
    assert_int_equal(load_trace_read(&t, "/nowhere/trace", &err), WEFT_EIO);
    assert_int_equal(load_trace_read(&t, written("1 2 k 3:4 5:6\r\n"), &err), WEFT_OK);
    assert_true(t.n == 1 && t.at[0].n_part == 2 && t.at[0].part[1].seed == 5 &&
                t.at[0].part[1].n == 6);
    load_trace_free(&t);
}

static void records_are_read(void **state)
{
    (void)state;
    step_record r = { 0 };
    weft_error err = { 0 };
    const weft_step s = { .struct_size = sizeof s,
                          .n_row = 37,
                          .n_draw = 5,
                          .prompt_context = 512,
                          .new_context = 1024.5,
                          .seconds = 0.0412,
                          .before = -1 };
    FILE *f = tmpfile();
    fprintf(f, "# a machine\n# more\n");
    step_record_write_step(f, &s);
    for (int i = 1; i <= 20; i++) /* 1 ms and 10 us a token */
        step_record_write_request(f, 10 * i, 1e-3 + 1e-5 * 10 * i);
    char text[4096] = "";
    rewind(f);
    const size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    const char *path = temp_file("record", text, n);
    assert_int_equal(step_record_read(&r, path, &err), WEFT_OK);
    assert_int_equal(step_record_read(&r, path, &err), WEFT_OK); /* twice: after each other */
    assert_int_equal(r.n, 2);
    for (int i = 0; i < 2; i++)
        assert_true(r.step[i].n_row == s.n_row && r.step[i].n_draw == s.n_draw &&
                    r.step[i].prompt_context == s.prompt_context &&
                    r.step[i].new_context == s.new_context && r.step[i].seconds == s.seconds &&
                    r.step[i].before == s.before);
    assert_string_equal(r.about, "a machine");
    assert_true(fabs(r.arrive_seconds / 1e-3 - 1) < 1e-6 &&
                fabs(r.token_seconds / 1e-5 - 1) < 1e-6);
    step_record_free(&r);
}

static void wrong_records_are_refused(void **state)
{
    (void)state;
    static const char *const texts[] = { "",
                                         "# nothing\n",
                                         "step 1 1 0 0 0.1\n",
                                         "step 1 1 0 0 -0.1 -1\n",
                                         "step 1 1 0 0 nan 0\n",
                                         "step 1 1 0 -1 0.1 0\n",
                                         "step 1 1 0 0 0.1 -2\n",
                                         "step 0 1 0 0 0.1 0\n",
                                         "step 1 1 0 0 0.1 0.04.5\n",
                                         "request 5 1 2\n",
                                         "request 5\n",
                                         "request 0 1\n",
                                         "request 5 -1\n",
                                         "step\n",
                                         "0 1 - 1:1\n" };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        step_record r = { 0 };
        weft_error err = { 0 };
        assert_int_equal(step_record_read(&r, written(texts[i]), &err), WEFT_EFORMAT);
        step_record_free(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("traces: what is written is read", traces_come_back),
        TEST("traces: a line that is no request is named", wrong_traces_are_refused),
        TEST("records: steps, requests, and where it was made", records_are_read),
        TEST("records: other files are refused", wrong_records_are_refused),
    };
    return RUN(tests);
}
