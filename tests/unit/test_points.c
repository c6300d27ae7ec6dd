/* Points of a CSV: what is read, what is refused and the message of the error; and the kernels of a page about
 * them, against the formulas. */
#include "support.h"

#include "formats/points.h"
#include "weft.h"

#include <jansson.h>

/* ---- the parser ------------------------------------------------------------------------------ */

/* The points as "x,y;x,y;", or the error. */
static void say(const char *text, size_t n, char *to, size_t room)
{
    static points p;
    weft_error err = { 0 };
    size_t at = 0;
    char *copy = malloc(n ? n : 1); /* exact size, so that a sanitizer reports an overrun */
    memcpy(copy, text, n);
    if (points_parse(&p, copy, n, "t", &err) != WEFT_OK)
        snprintf(to, room, "%s", err.message);
    for (int64_t i = 0; err.code == WEFT_OK && i < p.n && at < room; i++)
        at += (size_t)snprintf(to + at, room - at, "%g,%g;", (double)p.x[i], (double)p.y[i]);
    free(copy);
}

static const struct {
    const char *text, *says;
} cases[] = {
    { "1,2\n3,4\n", "1,2;3,4;" },
    { "x,y\n1,2\n3,4", "1,2;3,4;" },
    { "\xEF\xBB\xBFx,y\r\n3,4\r\n\r\n1,2\r\n", "1,2;3,4;" },
    { "\"x, in m\",\"say \"\"y\"\"\"\n\"1\",\"-2\"\n 3 ,\t4\t\n", "1,-2;3,4;" },
    { "2,1\n1,5\n2,0\n1,4\n", "1,5;1,4;2,1;2,0;" }, /* places may repeat, and keep their order */
    { "1e9,-1e9\n-1E9,+.5\n1.,1e-300\n", "-1e+09,0.5;1,0;1e+09,-1e+09;" },
    { "", "t: 0 points; expected at least 2; write a line x,y for each" },
    { "x,y\n", "t: 0 points; expected at least 2" },
    { "1,2\n", "t: 1 point; expected at least 2" },
    { "1,2\n1,3\n", "t: every x is 1; expected at least two places; give others" },
    { "1,2\nabc,3\n", "t:2: column 1 is \"abc\"; expected a number from -1e9 to 1e9; write it in" },
    { "1,2\n3,\n", "t:2: column 2 is \"\"; expected a number" },
    { "1,x\n3,4\n", "t:1: column 2 is \"x\"" }, /* one number: no line of names */
    { "1,2\n1.5e9,3\n", "t:2: column 1 is \"1.5e9\"; expected a number from -1e9 to 1e9" },
    { "1,2\n3,1e999\n", "t:2: column 2 is \"1e999\"" },
    { "1,2\n3,nan\n", "t:2: column 2 is \"nan\"" },
    { "1,2\n3,inf\n", "t:2: column 2 is \"inf\"" },
    { "1,2\n3,0x10\n", "t:2: column 2 is \"0x10\"" },
    { "1,2\n3,1e\n", "t:2: column 2 is \"1e\"" },
    { "1,2\n3,4 5\n", "t:2: column 2 is \"4 5\"" },
    { "1,2\n3,1-2\n", "t:2: column 2 is \"1-2\"" },
    { "1,2\n3,\x1b[31m\n", "t:2: column 2 is \"?[31m\"" },
    { "1,2\n3,00000000000000000000000000000000000000000000000000000000000000001\n",
      "t:2: column 2 is \"00000000000000000000000000000000...\"" },
    { "1,2\n3,4,5\n", "t:2: 3 columns; expected two, x and y; leave out the others" },
    { "1;2\n", "t:1: one column; expected two, x and y, with a comma between" },
    { "1,\"2\n", "t:1: unterminated quoted field" },
};

static void reads_points(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char got[512] = "";
        say(cases[i].text, strlen(cases[i].text), got, sizeof got);
        assert_that(strncmp(got, cases[i].says, strlen(cases[i].says)) == 0,
                    "%zu: \"%s\", expected \"%s\"", i, got, cases[i].says);
    }
}

/* As many as may be, and one more. */
static void counts_points(void **state)
{
    (void)state;
    static char text[(POINTS_MOST + 1) * 8], got[512];
    for (int more = 0; more < 2; more++) {
        size_t n = 0;
        for (int i = 0; i < POINTS_MOST + more; i++)
            n += (size_t)snprintf(text + n, sizeof text - n, "%d,1\n", i);
        say(text, n, got, sizeof got);
        assert_int_equal(!strcmp(got, "t:257: another point; expected at most 256; leave some out"),
                         more);
    }
}

/* Every beginning of a text is points or an error; a shorter one never has more points. */
static void truncated(void **state)
{
    (void)state;
    static const char text[] = "\"x\",y\r\n1,2.5\r\n\"-3\", 4e1 \r\n5,-6";
    int good = 0;
    for (size_t n = 0; n < sizeof text; n++) {
        char got[512] = "";
        say(text, n, got, sizeof got);
        good += got[0] != 't';
        assert_true(got[0] == 't' || strncmp(got, "-3,4", 4) == 0);
    }
    assert_int_equal(good, 6); /* "4", "4e1", with a blank, with CR, with LF, and the end */
}

/* ---- the page -------------------------------------------------------------------------------- */

enum { N = 40 };

typedef struct text_of {
    char *at;
    size_t n;
} text_of;

static bool keep(void *ud, const char *bytes, size_t n, weft_error *err)
{
    text_of *t = ud;
    (void)err;
    t->at = malloc(n + 1);
    memcpy(t->at, bytes, n);
    t->at[n] = '\0';
    t->n = n;
    return true;
}

static bool refuse(void *ud, const char *bytes, size_t n, weft_error *err)
{
    (void)ud, (void)bytes, (void)n, (void)err;
    return false;
}

static const char *some_points(float *x, float *y)
{
    static char text[N * 32];
    size_t n = 0;
    for (int i = 0; i < N; i++) {
        x[i] = (float)i / 8;
        y[i] = (float)(2 * sin((double)x[i]) + 0.4 * sin(77.0 * i));
        n += (size_t)snprintf(text + n, sizeof text - n, "%.9g,%.9g\n", (double)x[i], (double)y[i]);
    }
    return temp_file("points.csv", text, n);
}

static double real_of(const json_t *o, const char *key)
{
    return json_number_value(json_object_get(o, key));
}

static double at_of(const json_t *o, const char *key, size_t i)
{
    return json_number_value(json_array_get(json_object_get(o, key), i));
}

static double weight_of(int kind, double u)
{
    return kind == WEFT_KERNEL_GAUSSIAN   ? exp(-u * u / 2)
           : kind == WEFT_KERNEL_BOXCAR   ? u * u <= 1
           : kind == WEFT_KERNEL_CONSTANT ? 1
           : u * u < 1                    ? 1 - u * u
                                          : 0;
}

/* The root mean square error of each point predicted from the others. */
static double error_at(int kind, double width, const float *x, const float *y)
{
    double error = 0;
    for (int i = 0; i < N; i++) {
        double all = 0, told = 0;
        for (int j = 0; j < N; j++) {
            const double k = i == j ? 0 : weight_of(kind, ((double)x[i] - (double)x[j]) / width);
            all += k;
            told += k * (double)y[j];
        }
        told = all > 0 ? told / all : 0;
        error += (told - (double)y[i]) * (told - (double)y[i]) / N;
    }
    return sqrt(error);
}

static void check_kernel(const json_t *view, int kind, const float *x, const float *y)
{
    const json_t *k = json_array_get(json_object_get(view, "kernels"), (size_t)kind);
    const double w = real_of(k, "width"), error = real_of(k, "rms_error");
    float curve, place;
    weft_error err = { 0 };
    assert_that(fabs(error - error_at(kind, w, x, y)) < 1e-4, "%d: rms error %g, expected %g", kind,
                error, error_at(kind, w, x, y));
    for (size_t i = 0; i < 161; i += 20) {
        place = (float)at_of(view, "at", i);
        assert_int_equal(weft_kernel_pool((weft_kernel)kind, w, &place, 1, x, y, N, &curve, &err),
                         WEFT_OK);
        assert_that(fabs(at_of(k, "curve", i) - (double)curve) < 1e-5, "%d: the curve at %g is %g",
                    kind, (double)place, at_of(k, "curve", i));
    }
    for (size_t i = 0; i < N; i++) {
        double all = 0;
        for (size_t j = 0; j < N; j++)
            all += weight_of(kind, ((double)x[i] - (double)x[j]) / w);
        for (size_t j = 0; j < N; j++) {
            const double want = weight_of(kind, ((double)x[i] - (double)x[j]) / w) / all;
            assert_true(fabs(at_of(k, "weights", i * N + j) - want) < 1e-5);
        }
    }
    if (kind == WEFT_KERNEL_CONSTANT)
        return;
    for (double by = 0.9; by < 1.2; by += 0.2) /* 0.9 and 1.1 */
        assert_that(error <= error_at(kind, by * w, x, y) + 1e-3, "%d: width %g is better", kind,
                    by * w);
    assert_true(error < 0.7 * error_at(WEFT_KERNEL_CONSTANT, 1, x, y));
}

static void shows_kernels(void **state)
{
    (void)state;
    float x[N], y[N];
    text_of t;
    weft_error err = { 0 };
    const char *path = some_points(x, y);
    weft_explain_kernels_options o = { .struct_size = sizeof o, .json = true, .title = "<Sines>" };
    if (weft_explain_kernels(path, &o, keep, &t, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    json_t *root = json_loadb(t.at, t.n, 0, NULL);
    assert_non_null(root);
    const json_t *view = json_array_get(json_object_get(root, "views"), 0);
    assert_int_equal(real_of(view, "number"), 19);
    for (int kind = 0; kind <= WEFT_KERNEL_CONSTANT; kind++)
        check_kernel(view, kind, x, y);
    json_decref(root);
    free(t.at);

    o.json = false;
    assert_int_equal(weft_explain_kernels(path, &o, keep, &t, &err), WEFT_OK);
    assert_non_null(strstr(t.at, "views.kernels="));
    assert_null(strstr(t.at, "views.heads="));
    assert_non_null(strstr(t.at, "<title>&#60;Sines&#62;</title>"));
    free(t.at);
    assert_int_equal(weft_explain_kernels(path, &o, refuse, &t, &err), WEFT_EIO);
    o.ram_max = 1 << 16;
    assert_int_equal(weft_explain_kernels(path, &o, keep, &t, &err), WEFT_ELIMIT);
    assert_int_equal(weft_explain_kernels(temp_path("none.csv"), NULL, keep, &t, &err), WEFT_EIO);
    assert_int_equal(weft_explain_kernels(NULL, NULL, keep, &t, &err), WEFT_EINVAL);
    assert_int_equal(weft_explain_kernels(path, NULL, NULL, NULL, &err), WEFT_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("points: numbers are read, and all else is refused by line", reads_points),
        TEST("points: 256 are the most", counts_points),
        TEST("points: a truncated file is points or an error", truncated),
        TEST("points: the kernels of a page are the formulas, at the best widths", shows_kernels),
    };
    return RUN(tests);
}
