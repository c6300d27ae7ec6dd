/* Chat templates against jinja2 in the environment of transformers: those of real models, small ones
 * of our own, and made-up ones. tools/template_golden.py and tools/jinja_diff.py wrote what is
 * expected. */
#include "base/clock.h"
#include "formats/json.h"
#include "sha256.h"
#include "support.h"
#include "text/jinja/jinja.h"

/* As in tools/template_golden.py. */
static const struct tm now = { .tm_year = 126,
                               .tm_mon = 2,
                               .tm_mday = 7,
                               .tm_hour = 15,
                               .tm_min = 4,
                               .tm_sec = 5,
                               .tm_wday = 6,
                               .tm_yday = 65 };

static void set_json(jinja_input *in, const char *name, const json_t *v)
{
    weft_error err = { 0 };
    jinja_put_json(in, v, NULL, NULL);
    assert_int_equal(jinja_set(in, name, &err), WEFT_OK);
}

static void set_all(jinja_input *in, json_t *context)
{
    const char *key;
    json_t *value;
    json_object_foreach(context, key, value) set_json(in, key, value);
}

/* ---- conversations --------------------------------------------------------------------------- */

/* What transformers passes besides the messages. */
static void set_common(jinja_input *in, json_t *context, int mode)
{
    static const char *const none[] = { "tools", "documents" };
    for (int i = 0; i < 2; i++)
        if (!json_object_get(context, none[i]))
            set_json(in, none[i], json_null());
    jinja_put_text(in, "<s>", 3, 0);
    assert_int_equal(jinja_set(in, "bos_token", NULL), WEFT_OK);
    jinja_put_text(in, "</s>", 4, 0);
    assert_int_equal(jinja_set(in, "eos_token", NULL), WEFT_OK);
    set_json(in, "add_generation_prompt", mode & 2 ? json_true() : json_false());
    set_json(in, "enable_thinking", mode & 1 ? json_true() : json_false());
}

/* Four renderings as in a golden line: 16 digits of a hash, and a letter for each. */
static void four_modes(const jinja_template *t, json_t *context, mem *m, char to[21])
{
    char hex[65], *all = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&all, &n);
    for (int mode = 0; mode < 4; mode++) {
        weft_error err = { 0 };
        jinja_output out = { 0 };
        jinja_input *in = jinja_input_new(m, &err);
        assert_non_null(in);
        set_all(in, context);
        set_common(in, context, mode);
        const bool good = jinja_render(t, in, &(jinja_options){ .now = &now }, &out, &err) ==
                          WEFT_OK;
        to[16 + mode] = good ? '.' : 'F';
        fputc(to[16 + mode], f);
        fwrite(good ? out.text : "", 1, good ? out.n : 0, f);
        fputc(0, f);
        jinja_input_free(in);
    }
    fclose(f);
    sha256_hex(all, n, hex);
    memcpy(to, hex, 16);
    to[20] = '\0';
    free(all);
}

static json_t *read_json(const char *path)
{
    json_error_t why;
    json_t *v = json_load_file(path, JSON_ALLOW_NUL, &why);
    if (!v)
        fail_msg("%s: %s", path, why.text);
    return v;
}

/* One line: the template's name, and what each conversation should give. */
static int check_line(char *line, const char *directory, json_t *talks, int *n_fail)
{
    char path[4096], got[21];
    const char *name = strtok(line, " \n"), *want;
    size_t size, i = 0;
    mem m;
    weft_error err = { 0 };
    mem_init(&m, 0, NULL);
    snprintf(path, sizeof path, "%s/%s.jinja", directory, name);
    char *source = read_whole(path, &size);
    jinja_template *t = jinja_compile(source, size, name, &m, &err);
    if (!t)
        fail_msg("%s", err.message);
    for (; (want = strtok(NULL, " \n")); i++) {
        json_t *talk = json_array_get(talks, i);
        four_modes(t, json_object_get(talk, "context"), &m, got);
        assert_that(strcmp(got, want) == 0, "%s: %s: %s, expected %s", name,
                    json_string_value(json_object_get(talk, "name")), got, want);
        for (int k = 16; k < 20; k++)
            *n_fail += got[k] == 'F';
    }
    assert_int_equal(i, json_array_size(talks));
    jinja_free(t);
    free(source);
    assert_int_equal(atomic_load(&m.used), 0);
    return 4 * (int)i;
}

static void check_golden(const char *golden, const char *directory, int least)
{
    json_t *talks = read_json(fixture("golden/templates/conversations.json"));
    FILE *f = fopen(fixture(golden), "r");
    char *line = NULL;
    size_t room = 0;
    int n = 0, n_fail = 0, n_template = 0;
    assert_non_null(f);
    for (; getline(&line, &room, f) > 0; n_template++)
        n += check_line(line, directory, talks, &n_fail);
    fclose(f);
    free(line);
    json_decref(talks);
    print_message("%d templates, %d renderings, %d of them errors in both\n", n_template, n,
                  n_fail);
    assert_in_range(n_template, least, 1000);
    assert_true(n_fail < n / 4);
}

static void real_templates(void **state)
{
    (void)state;
    char directory[4000];
    snprintf(directory, sizeof directory, "%s", asset("templates"));
    check_golden("golden/templates/assets.hash", directory, 68);
}

static void own_templates(void **state)
{
    (void)state;
    char directory[4000];
    snprintf(directory, sizeof directory, "%s", fixture("golden/templates"));
    check_golden("golden/templates/own.hash", directory, 9);
}

/* ---- made-up templates ----------------------------------------------------------------------- */

static void check_sample(const json_t *row, int n)
{
    const char *source = json_string_value(json_array_get(row, 0));
    const json_t *want = json_array_get(row, 2);
    mem m;
    weft_error err = { 0 };
    jinja_output out = { 0 };
    mem_init(&m, 0, NULL);
    jinja_template *t = jinja_compile(source, strlen(source), "sample", &m, &err);
    jinja_input *in = jinja_input_new(&m, NULL);
    assert_non_null(in);
    set_all(in, json_array_get(row, 1));
    const bool good = t &&
                      jinja_render(t, in, &(jinja_options){ .now = &now }, &out, &err) == WEFT_OK;
    assert_that(good == (want != NULL), "line %d, %s: %s", n, source,
                good ? out.text : err.message);
    if (good)
        assert_that(out.n == json_string_length(want) &&
                        memcmp(out.text, json_string_value(want), out.n) == 0,
                    "line %d, %s: %s, expected %s", n, source, out.text, json_string_value(want));
    jinja_input_free(in);
    jinja_free(t);
    assert_int_equal(atomic_load(&m.used), 0);
}

static void made_up_templates(void **state)
{
    (void)state;
    FILE *f = fopen(fixture("golden/templates/sample.jsonl"), "r");
    char *line = NULL;
    size_t room = 0;
    int n = 0;
    assert_non_null(f);
    while (getline(&line, &room, f) > 0) {
        json_t *row = json_loads(line, JSON_ALLOW_NUL, NULL);
        assert_non_null(row);
        check_sample(row, ++n);
        json_decref(row);
    }
    fclose(f);
    free(line);
    assert_in_range(n, 1500, 10000);
}

/* ---- speed ----------------------------------------------------------------------------------- */

/* A conversation of 100 messages, 200 bytes each. */
static void hundred_messages(void **state)
{
    (void)state;
    char content[201];
    double best = 1;
    mem m;
    weft_error err = { 0 };
    size_t size;
    memset(content, 'x', 200);
    content[200] = '\0';
    char *source = read_whole(fixture("golden/templates/chatml.jinja"), &size);
    mem_init(&m, 0, NULL);
    jinja_template *t = jinja_compile(source, size, "chatml", &m, &err);
    assert_non_null(t);
    json_t *messages = json_array();
    for (int i = 0; i < 100; i++)
        json_array_append_new(
            messages,
            json_pack("{s:s, s:s}", "role", i % 2 ? "assistant" : "user", "content", content));
    for (int i = 0; i < 20; i++) {
        jinja_output out;
        const double start = clock_thread_seconds();
        jinja_input *in = jinja_input_new(&m, NULL);
        set_json(in, "messages", messages);
        assert_int_equal(jinja_render(t, in, NULL, &out, &err), WEFT_OK);
        const double took = clock_thread_seconds() - start;
        best = took < best ? took : best;
        assert_in_range(out.n, 20000, 30000);
        jinja_input_free(in);
    }
    print_message("100 messages in %.3f ms\n", 1e3 * best);
    assert_true(best < (quick() ? 0.1 : 0.001));
    json_decref(messages);
    jinja_free(t);
    free(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("templates: those of real models give the bytes of transformers", real_templates),
        TEST("templates: our own give the bytes of transformers", own_templates),
        TEST("templates: made-up ones give the bytes of jinja2", made_up_templates),
        TEST("templates: a hundred messages take less than a millisecond", hundred_messages),
    };
    return RUN(tests);
}
