/* config.json: flattening, notations of numbers, and errors. */
#include "formats/json.h"
#include "hostile.h"
#include "support.h"

#include <pthread.h>

static weft_status parse(const char *text, size_t size, weft_error *err)
{
    weft_status status;
    uint8_t *exact = malloc(size ? size : 1);
    assert_non_null(exact);
    memcpy(exact, text, size);
    const char *why = parse_and_check(config_parse, exact, size, &status, err);
    free(exact);
    assert_that(!why, "%s (status %d: %s)", why, (int)status, err->message);
    return status;
}

static void refused(const char *text, const char *says)
{
    weft_error err;
    parse(text, strlen(text), &err);
    assert_that(err.code == WEFT_EFORMAT && strstr(err.message, says),
                "%.40s: got %d \"%s\", expected \"%s\"", text, (int)err.code, err.message, says);
}

typedef struct opened {
    host host;
    container c;
} opened;

static void open_config(opened *o, const char *text)
{
    weft_error err = { 0 };
    host_plain(&o->host);
    assert_int_equal(container_begin(&o->c, "safetensors", "input", &o->host, &err), WEFT_OK);
    if (config_parse(&o->c, (const uint8_t *)text, strlen(text), &err) != WEFT_OK)
        fail_msg("%s", err.message);
    assert_int_equal(container_index(&o->c, &err), WEFT_OK);
}

static const meta *get(const opened *o, const char *key)
{
    const meta *m = container_meta(&o->c, key);
    if (!m)
        fail_msg("%s is missing", key);
    return m;
}

static void flattens(void **state)
{
    (void)state;
    opened o;
    open_config(
        &o, "{\"hidden_size\": 64, \"rope_scaling\": {\"factor\": 8.5, \"deep\": {\"er\": true}},"
            " \"architectures\": [\"LlamaForCausalLM\", [false]], \"none\": null, \"empty\": {},"
            " \"text\": \"\"}");
    assert_int_equal(o.c.n_entry, 6);
    assert_int_equal(get(&o, "hidden_size")->integer, 64);
    assert_int_equal(get(&o, "hidden_size")->type, META_INT);
    assert_true(get(&o, "rope_scaling.factor")->number == 8.5);
    assert_int_equal(get(&o, "rope_scaling.factor")->type, META_REAL);
    assert_true(get(&o, "rope_scaling.deep.er")->flag);
    assert_string_equal(get(&o, "architectures.0")->text, "LlamaForCausalLM");
    assert_false(get(&o, "architectures.1.0")->flag);
    assert_int_equal(get(&o, "architectures.1.0")->type, META_BOOL);
    assert_int_equal(get(&o, "text")->length, 0);
    assert_null(container_meta(&o.c, "none"));
    container_close(&o.c);
}

static void whole_reals(void **state)
{
    (void)state;
    opened o;
    open_config(&o, "{\"theta\": 10000.0, \"eps\": 1e-5, \"wide\": 1e300, \"low\": -1e300,"
                    " \"most\": 9007199254740992.0}");
    assert_int_equal(get(&o, "theta")->type, META_INT);
    assert_int_equal(get(&o, "theta")->integer, 10000);
    assert_int_equal(get(&o, "eps")->type, META_REAL);
    assert_int_equal(get(&o, "wide")->type, META_REAL);
    assert_int_equal(get(&o, "low")->type, META_REAL);
    assert_true(get(&o, "most")->integer == (int64_t)1 << 53);
    container_close(&o.c);
}

static void big_integers(void **state)
{
    (void)state;
    opened o;
    open_config(&o, "{\"model_max_length\": 1000000000000000019884624838656, \"hidden_size\": 64}");
    assert_int_equal(get(&o, "model_max_length")->type, META_REAL);
    assert_true(get(&o, "model_max_length")->number == 1e30);
    assert_int_equal(get(&o, "hidden_size")->type, META_INT);
    assert_int_equal(get(&o, "hidden_size")->integer, 64);
    container_close(&o.c);
}

static void nul_in_text(void **state)
{
    (void)state;
    opened o;
    open_config(&o, "{\"text\": \"a\\u0000b\"}");
    assert_int_equal(get(&o, "text")->length, 3);
    assert_memory_equal(get(&o, "text")->text, "a\0b", 4);
    container_close(&o.c);
    refused("{\"a\\u0000b\": 1}", "NUL");
}

static void malformed(void **state)
{
    (void)state;
    refused("", "line 1");
    refused("[1]", "JSON is not an object");
    refused("{\"a\": 1,}", "line 1 column 9");
    refused("{\"a\": 01}", "line 1");
    refused("{\"a\": NaN}", "line 1");
    refused("{\"a\": 1e400}", "real number overflow");
    refused("{\"a\": \"\xff\"}", "unable to decode byte 0xff");
    refused("{\"a\": 1} x", "end of file");
    refused("\n\n{\"a\"\n 1}", "line 4 column 2");
}

static void duplicates(void **state)
{
    (void)state;
    refused("{\"a\": 1, \"a\": 2}", "duplicate object key");
    refused("{\"a\": {\"b\": 1, \"b\": 2}}", "duplicate object key");
    refused("{\"a\": {\"b\": 1}, \"a.b\": 2}", "key a.b occurs twice");
}

static void empty_key(void **state)
{
    (void)state;
    refused("{\"\": 1}", "a key in \"\" is empty");
    refused("{\"\": {\"hidden_size\": 64}}", "a key in \"\" is empty");
    refused("{\"a\": [{\"\": 1}]}", "a key in \"a.0\" is empty");
}

static void depth(void **state)
{
    (void)state;
    char text[512] = "{\"a\":";
    for (int n = 63; n <= 64; n++) {
        weft_error err;
        size_t at = 5;
        for (int i = 0; i < n; i++)
            text[at++] = '[';
        for (int i = 0; i < n; i++)
            text[at++] = ']';
        text[at++] = '}';
        text[at] = '\0';
        if (n == 63)
            assert_int_equal(parse(text, at, &err), WEFT_OK);
        else
            refused(text, "JSON nested deeper than 64");
    }
    weft_error err;
    const char *quoted =
        "{\"\\\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\\\"[\": 1}";
    assert_int_equal(parse(quoted, strlen(quoted), &err), WEFT_OK);
}

static void depth_bomb(void **state)
{
    (void)state;
    const size_t n = 4 << 20;
    char *bomb = malloc(n + 1);
    assert_non_null(bomb);
    bomb[n] = '\0';
    memset(bomb, '[', n);
    refused(bomb, "JSON nested deeper than 64");
    for (size_t i = 0; i + 5 <= n; i += 5)
        memcpy(bomb + i, "{\"a\":", 5);
    refused(bomb, "JSON nested deeper than 64");
    free(bomb);
}

static void limits(void **state)
{
    (void)state;
    weft_error err;
    weft_status status;
    assert_null(
        parse_and_check(config_parse, (const uint8_t *)"{", JSON_MAX_BYTES + 1, &status, &err));
    assert_non_null(
        strstr(err.message, "JSON of 100000001 bytes, more than the 100000000 allowed"));

    char text[600];
    snprintf(text, sizeof text, "{\"%0255d\": 1}", 0);
    assert_int_equal(parse(text, strlen(text), &err), WEFT_OK);
    snprintf(text, sizeof text, "{\"%0256d\": 1}", 0);
    refused(text, "is longer than 255 bytes");
    snprintf(text, sizeof text, "{\"%0200d\": {\"%0100d\": 1}}", 0, 0);
    refused(text, "is longer than 255 bytes");

    const int n = 65537;
    char *many = malloc(2 * (size_t)n + 16), *at = many;
    assert_non_null(many);
    at += sprintf(at, "{\"a\":[1");
    for (int i = 1; i < n; i++)
        at += sprintf(at, ",1");
    sprintf(at, "]}");
    refused(many, "65537 values; expected at most 65536");
    free(many);
}

static void *use_jansson(void *arg)
{
    (void)arg;
    json_decref(json_pack("{s:[i,s]}", "a", 1, "b"));
    return NULL;
}

static void other_threads(void **state)
{
    (void)state;
    host h;
    pthread_t thread;
    host_plain(&h);
    json_section_begin(&h.mem);
    assert_int_equal(pthread_create(&thread, NULL, use_jansson, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(atomic_load(&h.mem.used), 0);
    use_jansson(NULL);
    assert_true(atomic_load(&h.mem.used) > 0);
    json_section_end();
    assert_int_equal(atomic_load(&h.mem.used), 0);
}

static const char seed[] =
    "{\"a\": [1, 2.5e-3, -7, \"\\u00e9\\n\"], \"b\": {\"c\": true, \"d\": null},"
    " \"e\": 123456789012345678901234567890}";

static void truncated(void **state)
{
    (void)state;
    for (size_t n = 0; n < sizeof seed - 1; n++) {
        weft_error err;
        assert_that(parse(seed, n, &err) != WEFT_OK, "%zu of %zu bytes were accepted", n,
                    sizeof seed - 1);
    }
    print_message("%zu truncations\n", sizeof seed - 1);
}

static void flipped(void **state)
{
    (void)state;
    char text[sizeof seed];
    memcpy(text, seed, sizeof seed);
    int harmless = 0;
    for (size_t bit = 0; bit < 8 * (sizeof seed - 1); bit++) {
        weft_error err;
        text[bit / 8] = (char)(seed[bit / 8] ^ (1 << bit % 8));
        harmless += parse(text, sizeof seed - 1, &err) == WEFT_OK;
        text[bit / 8] = seed[bit / 8];
    }
    print_message("%zu flips, %d of them harmless\n", 8 * (sizeof seed - 1), harmless);
}

static void numbers(void **state)
{
    (void)state;
    static const char *const around[] = { "%llu", "-%llu", "%llu.0", "%llue0", "[%llu]" };
    for (int i = 0; i < N_HOSTILE; i++)
        for (size_t k = 0; k < sizeof around / sizeof *around; k++) {
            weft_error err;
            char number[64], text[96];
            snprintf(number, sizeof number, "%llu", (unsigned long long)hostile[i]);
            const char *at = strstr(around[k], "%llu");
            snprintf(text, sizeof text, "{\"a\": %.*s%s%s}", (int)(at - around[k]), around[k],
                     number, at + 4);
            assert_that(parse(text, strlen(text), &err) == WEFT_OK, "%s: %s", text, err.message);
        }
}

/* An optional second file may be missing; if present it is read, or it is an error. */
static void beside(void **state)
{
    (void)state;
    host h;
    container c;
    bool there;
    weft_error err = { 0 };
    host_plain(&h);
    const char *of = temp_file("config.json", "{}", 2);
    char far[5000];
    memset(far, 'a', sizeof far - 1);
    far[sizeof far - 1] = '\0';
    const char *const none[] = { "missing.json", far, "config.json/x" };
    for (int i = 0; i < 3; i++) {
        assert_int_equal(config_beside(&c, of, none[i], &there, &h, &err), WEFT_OK);
        assert_false(there);
    }
    assert_int_equal(config_beside(&c, "config.json", "missing.json", &there, &h, &err), WEFT_OK);
    assert_false(there);
    temp_file("other.json", "{\"a\": [1, 2]}", 13);
    assert_int_equal(config_beside(&c, of, "other.json", &there, &h, &err), WEFT_OK);
    assert_true(there);
    assert_non_null(container_meta(&c, "a.1"));
    container_close(&c);
    temp_file("other.json", "{", 1);
    assert_int_equal(config_beside(&c, of, "other.json", &there, &h, &err), WEFT_EFORMAT);
    container_close(&c);
    for (int64_t k = 1; k <= 3; k++) {
        faults memory = { 0 }, io = { .fail_at = k, .sticky = true };
        host_faulty(&h, &memory, &io);
        assert_int_equal(config_beside(&c, of, "other.json", &there, &h, &err), WEFT_EIO);
        container_close(&c);
        assert_int_equal(io.live, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("config: objects and lists are flattened, a null is absent", flattens),
        TEST("config: an optional second file is read if it exists", beside),
        TEST("config: a whole real is also an integer", whole_reals),
        TEST("config: an integer beyond 64 bits becomes a real and affects no other", big_integers),
        TEST("config: a text may contain a NUL, a key may not", nul_in_text),
        TEST("config: malformed JSON is refused with line and column", malformed),
        TEST("config: duplicate keys are refused, also after flattening", duplicates),
        TEST("config: an empty key is refused, since it would hide where its values belong",
             empty_key),
        TEST("config: nesting is legal up to 64, brackets in strings do not count", depth),
        TEST("config: a depth bomb is refused before it is parsed", depth_bomb),
        TEST("config: size, keys and number of values are limited", limits),
        TEST("config: only the JSON of the reading thread is counted", other_threads),
        TEST("config: a file cut off at any byte is refused", truncated),
        TEST("config: any flipped bit gives an error or consistent metadata", flipped),
        TEST("config: hostile numbers are read, whatever their notation", numbers),
    };
    return RUN(tests);
}
