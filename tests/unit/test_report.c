/* The report of a run: reading its metrics, drawing charts, and escaping all text. */
#include "support.h"

#include "base/save.h"
#include "explain/chart.h"
#include "explain/report.h"

#include <math.h>

/* ---- metrics --------------------------------------------------------------------------------- */

static weft_status parse(metrics *m, const char *text, size_t n, host *h, weft_error *err)
{
    uint8_t *exact = malloc(n ? n : 1); /* a sanitizer reports an overrun */
    assert_non_null(exact);
    memcpy(exact, text, n);
    *err = (weft_error){ 0 };
    const weft_status status = metrics_parse(m, exact, n, "metrics.jsonl", h, err);
    free(exact);
    return status;
}

static void open_metrics(metrics *m, const char *text, host *h)
{
    weft_error err;
    host_plain(h);
    if (parse(m, text, strlen(text), h, &err) != WEFT_OK)
        fail_msg("%s", err.message);
}

static const char run_text[] =
    "{\"step\":0,\"tokens\":0,\"val_loss\":4.25}\n"
    "{\"step\":1,\"loss\":4.5,\"smoothed\":4.5,\"lr\":0.001,\"grad_norm\":2.5,\"tokens\":1000,"
    "\"tokens_per_second\":100,\"share\":0.25,\"other\":[1]}\n"
    "\n"
    "{\"step\":2,\"loss\":3.5,\"smoothed\":4,\"lr\":0.0005,\"grad_norm\":1,\"tokens\":2000,"
    "\"tokens_per_second\":50,\"share\":0.75,\"val_loss\":3.75,"
    "\"sample\":\"\\n<b>&\\\"\\u0000\xc3\xa9\\n</pre>\"}\r\n"
    "{\"step\":3,\"loss\":1";

static void reads(void **state)
{
    (void)state;
    host h;
    metrics m;
    open_metrics(&m, run_text, &h);
    assert_int_equal(m.n, 3);
    assert_true(m.at[0].step == 0 && isnan(m.at[0].loss) && m.at[0].val_loss == 4.25);
    assert_true(m.at[1].loss == 4.5 && m.at[1].smoothed == 4.5 && m.at[1].lr == 0.001);
    assert_true(m.at[1].grad_norm == 2.5 && m.at[1].tokens == 1000 && m.at[1].share == 0.25);
    assert_true(m.at[1].tokens_per_second == 100 && isnan(m.at[1].val_loss) && !m.at[1].sample);
    assert_int_equal(m.at[2].sample_length, 16);
    metrics_free(&m);
    assert_int_equal(atomic_load(&h.mem.used), 0);
}

static void steps_go_back(void **state)
{
    (void)state;
    host h;
    metrics m;
    open_metrics(
        &m,
        "{\"step\":1,\"loss\":1}\n{\"step\":2,\"loss\":2}\n{\"step\":3,\"loss\":3}\n"
        "{\"step\":2,\"loss\":4}\n{\"step\":4,\"loss\":\"x\"}\n{\"step\":5,\"loss\":1e31}\n",
        &h);
    assert_int_equal(m.n, 4);
    assert_true(m.at[1].step == 2 && m.at[1].loss == 4);
    assert_true(isnan(m.at[2].loss) && isnan(m.at[3].loss));
    metrics_free(&m);
}

static void wrong_lines(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        { "{\"step\":1}\n{\"loss\":1}\n", "metrics.jsonl:2: \"step\" is missing" },
        { "{\"step\":-1}\n", "metrics.jsonl:1: \"step\" is missing" },
        { "{\"step\":1.5}\n", "metrics.jsonl:1: \"step\" is missing" },
        { "{\"step\":1000000000001}\n",
          "metrics.jsonl:1: \"step\" is missing, or not a step number" },
        { "{\"step\":1\n{\"step\":2}\n", "metrics.jsonl:1: line 1 column 9" },
        { "7\n", "metrics.jsonl:1: line 1" },
        { "[1]\n", "metrics.jsonl:1: JSON is not an object" },
        { "{\"step\":1,\"step\":2}\n", "duplicate object key" },
        { "{\"step\":1,\"sample\":\"\xff\"}\n", "unable to decode byte 0xff" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        host h;
        metrics m;
        weft_error err;
        host_plain(&h);
        if (parse(&m, cases[i].text, strlen(cases[i].text), &h, &err) != WEFT_EFORMAT ||
            !strstr(err.message, cases[i].says))
            fail_msg("%s: %d \"%s\"", cases[i].text, (int)err.code, err.message);
        assert_int_equal(atomic_load(&h.mem.used), 0);
    }
    host h;
    metrics m;
    weft_error err;
    const size_t n = (1 << 24) + 1;
    char *many = malloc(n);
    assert_non_null(many);
    memset(many, '\n', n);
    host_plain(&h);
    assert_int_equal(parse(&m, many, n, &h, &err), WEFT_EFORMAT);
    assert_non_null(strstr(err.message, "16777217 lines, at most 16777216 are read"));
    free(many);
}

/* Truncated anywhere, the complete lines are read. */
static void truncated(void **state)
{
    (void)state;
    for (size_t n = 0; n < sizeof run_text - 1; n++) {
        host h;
        metrics m;
        weft_error err;
        int64_t lines = 0;
        host_plain(&h);
        if (parse(&m, run_text, n, &h, &err) != WEFT_OK)
            fail_msg("%zu bytes: %s", n, err.message);
        for (size_t i = 0; i < n; i++)
            lines += run_text[i] == '\n' && i > 0 && run_text[i - 1] != '\n';
        assert_int_equal(m.n, lines);
        metrics_free(&m);
    }
}

/* ---- the page -------------------------------------------------------------------------------- */

/* The caller frees it. */
static char *page_of(const char *text, const char *title, const char *words)
{
    host h;
    metrics m;
    buffer b;
    open_metrics(&m, text, &h);
    buffer_begin(&b, &h.mem, NULL);
    report_html(&(report_facts){ .title = title, .model = words }, &m, &b);
    buffer_put(&b, "", 1);
    assert_false(b.failed);
    char *page = strdup((const char *)b.at);
    assert_int_equal(strlen(page), b.n - 1);
    buffer_end(&b);
    metrics_free(&m);
    assert_int_equal(atomic_load(&h.mem.used), 0);
    return page;
}

static void has(const char *page, const char *text)
{
    if (!strstr(page, text))
        fail_msg("\"%s\" is not in the page", text);
}

static void lacks(const char *page, const char *text)
{
    if (strstr(page, text))
        fail_msg("\"%s\" is in the page", text);
}

static void escapes(void **state)
{
    (void)state;
    char *page = page_of(run_text, "<i>a & \"b\"</i>\x1b", "<u>");
    has(page, "<h1>&lt;i&gt;a &amp; &quot;b&quot;&lt;/i&gt;\xEF\xBF\xBD</h1>");
    has(page, "<title>&lt;i&gt;");
    has(page, "<p>&lt;u&gt;</p>");
    has(page, "<pre>&lt;b&gt;&amp;&quot;\xEF\xBF\xBD\xc3\xa9\n&lt;/pre&gt;</pre>");
    lacks(page, "<i>");
    lacks(page, "<u>");
    lacks(page, "<script");
    lacks(page, "http:");
    lacks(page, "https:");
    free(page);
}

static void facts(void **state)
{
    (void)state;
    char *page = page_of(run_text, "t", NULL);
    has(page, "<b>4</b><span>loss, smoothed</span>");
    has(page, "<b>3.75</b><span>best validation, step 2</span>");
    has(page, "<b>2</b><span>steps</span>");
    has(page, "<b>2000</b><span>tokens</span>");
    has(page, "<b>66.67</b><span>tokens per second, 50&nbsp;% of peak</span>"); /* 10 s and 20 s */
    has(page, "<b>30 s</b><span>of learning</span>");
    has(page, ">3.75<tspan class=\"name\"> validation</tspan>");
    has(page, "<svg viewBox=\"0 0 1020 400\" role=\"img\" aria-label=\"");
    free(page);
}

static void durations(void **state)
{
    (void)state;
    static const struct {
        const char *speed, *says;
    } cases[] = { { "1000", "<b>1 s</b>" },
                  { "1", "<b>17 min</b>" },
                  { "0.1", "<b>2 h 47 min</b>" } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256];
        snprintf(text, sizeof text, "{\"step\":1,\"tokens\":1000,\"tokens_per_second\":%s}\n",
                 cases[i].speed);
        char *page = page_of(text, "t", NULL);
        has(page, cases[i].says);
        free(page);
    }
}

/* Whatever the values are, the chart contains only numbers. */
static void hard_numbers(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{\"step\":0}\n",
        "{\"step\":0,\"loss\":0}\n",
        "{\"step\":3,\"loss\":-5,\"lr\":-1}\n",
        "{\"step\":0,\"loss\":1e30}\n{\"step\":1,\"loss\":-1e30}\n",
        "{\"step\":0,\"loss\":0}\n{\"step\":1,\"loss\":5e-324}\n",
        "{\"step\":0,\"lr\":1e-300}\n{\"step\":1,\"lr\":2e-300}\n",
        "{\"step\":999999999999,\"loss\":1}\n{\"step\":1000000000000,\"loss\":2}\n",
        "{\"step\":1000000000000,\"loss\":1,\"grad_norm\":0,\"tokens_per_second\":0}\n",
        "{\"step\":0,\"loss\":1}\n{\"step\":1000000000000,\"loss\":1.0000000000000002}\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char *page = page_of(texts[i], "t", NULL);
        lacks(page, "nan");
        lacks(page, "inf");
        free(page);
    }
}

/* Many points on one pixel: bounded file size, extremes kept. */
static void many_points(void **state)
{
    (void)state;
    const int n = quick() ? 20000 : 200000;
    char *text = malloc((size_t)n * 64), *at = text;
    assert_non_null(text);
    for (int i = 0; i < n; i++)
        at += sprintf(at, "{\"step\":%d,\"loss\":%d,\"smoothed\":5,\"val_loss\":2}\n", i,
                      i == n / 2 ? 100 : i % 10);
    char *page = page_of(text, "t", NULL);
    assert_true(strlen(page) < 600000 || !quick());
    has(page, "<path class=\"cloud a\" d=\"M");
    has(page, " 25.4"); /* the outlier is at the edge of the frame, less the margin */
    lacks(page, "<circle");
    free(page);
    free(text);
}

/* A classifier has one more chart, and one more fact: the last validation. */
static void labels(void **state)
{
    (void)state;
    char *page = page_of("{\"step\":0,\"val_loss\":0.7,\"val_accuracy\":0.5}\n"
                         "{\"step\":1,\"loss\":0.6}\n"
                         "{\"step\":2,\"val_loss\":0.4,\"val_accuracy\":0.8125}\n",
                         "t", NULL);
    has(page, ">Right<");
    has(page, "81.2");
    free(page);
    page = page_of("{\"step\":0,\"val_loss\":0.7}\n", "t", NULL);
    lacks(page, ">Right<");
    free(page);
}

static void samples(void **state)
{
    (void)state;
    char *text = malloc(100000), *at = text;
    assert_non_null(text);
    for (int i = 0; i < 20; i++) {
        at += sprintf(at, "{\"step\":%d,\"sample\":\"%s", i, i == 19 ? "" : "short");
        for (int k = 0; i == 19 && k < 1000; k++)
            at += sprintf(at,
                          "\xe2\x82\xac"); /* three bytes: 1200 is not a multiple with a space */
        at += sprintf(at, "\"}\n");
    }
    char *page = page_of(text, "t", NULL);
    int n = 0;
    for (const char *s = page; (s = strstr(s, "<div class=\"sample\">")) != NULL; s++)
        n++;
    assert_int_equal(n, 6);
    has(page, "<span>step 0</span><pre>short</pre>");
    has(page, "<span>step 19</span>");
    has(page, "\xe2\x82\xac ...</pre>");
    free(page);
    free(text);
}

static void numbers(void **state)
{
    (void)state;
    static const struct {
        double x;
        const char *says;
    } cases[] = {
        { 0, "0" },        { 1.90912, "1.909" }, { 2208.4, "2208" }, { 9999, "9999" },
        { 10000, "10k" },  { 999499, "999k" },   { 1e6, "1M" },      { 1.536e6, "1.54M" },
        { 1e-3, "0.001" }, { 6e-5, "6e-05" },    { 1e15, "1e+03T" }, { -12345, "-12.3k" }
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[32];
        chart_number(cases[i].x, text, sizeof text);
        assert_string_equal(text, cases[i].says);
    }
}

/* ---- the public function --------------------------------------------------------------------- */

static void public_function(void **state)
{
    (void)state;
    host h;
    weft_error err;
    weft_report_info info = { .struct_size = sizeof info };
    char metrics_path[512];
    size_t n;
    const char *root = temp_path("run-of-tests/");
    host_plain(&h);
    assert_int_equal(weft_report(NULL, NULL, NULL, NULL, &err), WEFT_EINVAL);
    assert_int_equal(weft_report(root, NULL, NULL, NULL, &err), WEFT_EIO);
    assert_non_null(strstr(err.message, "metrics.jsonl: cannot open"));
    assert_int_equal(h.io.mkdir(NULL, root), 0);
    snprintf(metrics_path, sizeof metrics_path, "%smetrics.jsonl", root);
    assert_int_equal(save_whole(metrics_path, "{", 1, &h, &err), WEFT_OK);
    assert_int_equal(weft_report(root, NULL, NULL, NULL, &err), WEFT_EFORMAT);
    assert_non_null(strstr(err.message, "no step has been written yet"));
    assert_int_equal(save_whole(metrics_path, run_text, sizeof run_text - 1, &h, &err), WEFT_OK);
    assert_int_equal(weft_report(root, NULL, NULL, &info, &err), WEFT_OK);
    assert_true(info.step == 2 && info.n_point == 3 && info.n_sample == 1);
    char *page = read_whole(info.path, &n);
    assert_int_equal(n, info.bytes);
    has(page, "<h1>run-of-tests</h1>");
    free(page);
    const weft_report_options tight = { .struct_size = sizeof tight, .ram_max = 100 };
    assert_int_equal(weft_report(root, NULL, &tight, NULL, &err), WEFT_ELIMIT);
    const weft_report_options newer = { .struct_size = sizeof newer + 1 };
    assert_int_equal(weft_report(root, NULL, &newer, NULL, &err), WEFT_EINVAL);
    for (size_t cap = 1000; cap < 200000; cap += 1777) {
        const weft_report_options o = { .struct_size = sizeof o, .ram_max = cap };
        const weft_status status = weft_report(root, temp_path("capped.html"), &o, NULL, &err);
        assert_int_equal(status, err.code);
    }
}

static const char *say_hello(void *ud, weft_model *m, size_t *length)
{
    int *n = ud;
    assert_non_null(m);
    ++*n;
    *length = 5;
    return "hello";
}

static bool stop_at_three(void *ud, const weft_train_progress *p, weft_model *m)
{
    (void)m;
    return p->step < *(const int *)ud;
}

/* A run started by weft_train alone has metrics, and a sample for each evaluation; no sample is
 * requested after a stop. */
static void runs_of_programs_can_be_reported(void **state)
{
    (void)state;
    char words[2000];
    int n_asked = 0, last = 3;
    weft_error err = { 0 };
    weft_train_options o;
    weft_train_info trained = { .struct_size = sizeof trained };
    weft_report_info info = { .struct_size = sizeof info };
    for (size_t i = 0; i < sizeof words; i++)
        words[i] = (char)('a' + (i * i + i / 7) % 11);
    const char *text = temp_file("words.txt", words, sizeof words), *out = temp_path("reported");
    weft_train_defaults(&o, sizeof o);
    o.out = out;
    o.data = &text;
    o.n_data = 1;
    o.characters = true;
    o.n_layer = 1;
    o.d_model = 32;
    o.n_head = 2;
    o.n_ctx = 16;
    o.n_sample = 2;
    o.n_step = 5;
    o.eval_every = 1;
    o.threads = 1;
    o.sample = say_hello;
    o.sample_ud = &n_asked;
    o.progress = stop_at_three;
    o.progress_ud = &last;
    if (weft_train(&o, &trained, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    assert_true(trained.stopped && trained.step == 3 && trained.n_line_lost == 0);
    assert_int_equal(n_asked, 2);
    assert_int_equal(weft_report(out, NULL, NULL, &info, &err), WEFT_OK);
    assert_true(info.step == 3 && info.n_point == 4 && info.n_sample == 2);
}

/* With a model in the run's directory, the page describes it. */
static void tells_the_model(void **state)
{
    (void)state;
    host h;
    char words[256];
    host_plain(&h);
    assert_true(report_describe(fixture("golden/llama-gqa"), &h, words, sizeof words));
    assert_non_null(strstr(words, "llama, "));
    assert_non_null(strstr(words, " layers, "));
    assert_false(report_describe(fixture("golden"), &h, words, sizeof words));
    assert_int_equal(atomic_load(&h.mem.used), 0);
}

static void no_memory(void **state)
{
    (void)state;
    for (int64_t k = 1;; k++) {
        host h;
        metrics m;
        buffer b;
        weft_error err;
        faults memory = { .fail_at = k };
        host_faulty(&h, &memory, NULL);
        if (parse(&m, run_text, sizeof run_text - 1, &h, &err) == WEFT_OK) {
            buffer_begin(&b, &h.mem, &err);
            report_html(&(report_facts){ .title = "t" }, &m, &b);
            assert_true(!b.failed || err.code == WEFT_ENOMEM);
            buffer_end(&b);
            metrics_free(&m);
        } else {
            assert_int_equal(err.code, WEFT_ENOMEM);
        }
        assert_int_equal(memory.live, 0);
        if (memory.calls < k)
            break;
    }
}

static void tells_how_it_was_begun(void **state)
{
    (void)state;
    static const char options[] =
        "--data=/home/somebody/private/plays <&>.txt\n--lr=0.001\n--prompt=a/b\n--sample";
    host h;
    metrics m;
    buffer b;
    open_metrics(&m, "{\"step\":1,\"loss\":2}\n", &h);
    for (size_t n = 0; n < sizeof options; n++) { /* cut anywhere */
        char *cut = memcpy(malloc(n + 1), options, n);
        buffer_begin(&b, &h.mem, NULL);
        report_html(&(report_facts){ .title = "t", .options = cut, .n_options = n }, &m, &b);
        buffer_put(&b, "", 1);
        const char *page = (const char *)b.at;
        assert_int_equal(strstr(page, "How it was trained") != NULL, n > 0);
        if (n == sizeof options - 1) {
            assert_non_null(strstr(page, "weft train\n    --data=plays &lt;&amp;&gt;.txt\n"));
            assert_non_null(strstr(page, "    --lr=0.001\n    --prompt=a/b\n    --sample</pre>"));
            assert_null(strstr(page, "somebody"));
        }
        buffer_end(&b);
        free(cut);
    }
    metrics_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("report: shows how a run was started, with file names instead of paths",
             tells_how_it_was_begun),
        TEST("metrics: lines are read, a truncated last one is ignored", reads),
        TEST("metrics: repeated steps count once", steps_go_back),
        TEST("metrics: a wrong line is reported by its number", wrong_lines),
        TEST("metrics: truncated anywhere, complete lines are read", truncated),
        TEST("report: text from files is escaped", escapes),
        TEST("report: facts are those of the metrics", facts),
        TEST("report: times in words", durations),
        TEST("report: numbers that are hard to draw", hard_numbers),
        TEST("report: many points become few, the extremes stay", many_points),
        TEST("report: lists the labels", labels),
        TEST("report: samples are few, short and whole", samples),
        TEST("report: numbers are formatted for people", numbers),
        TEST("report: the public function", public_function),
        TEST("report: a run of a program that calls weft_train", runs_of_programs_can_be_reported),
        TEST("report: describes the model", tells_the_model),
        TEST("report: any allocation may fail", no_memory),
    };
    return RUN(tests);
}
