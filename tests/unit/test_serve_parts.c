/* test_serve_parts.c - the small parts of the server: keys, rings, metrics, memory, grammars
 * (server/). */
#include "support.h"

#include "grammars.h"
#include "keys.h"
#include "memory.h"
#include "metrics.h"
#include "ring.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- keys ------------------------------------------------------------------------------------ */

static bool parse(keys *k, const char *text, char why[256])
{
    return keys_parse(k, "keys", text, strlen(text), why, 256);
}

static int find(const keys *k, const char *given)
{
    return keys_find(k, given, strlen(given));
}

static void known_keys(void **state)
{
    (void)state;
    keys k;
    char why[256];
    assert_true(
        parse(&k, "# ours\n\nalice  key-of-alice \r\n\tkey-of-none\nbob key-of-bob-1", why));
    assert_int_equal(k.n, 3);
    assert_string_equal(k.at[0].name, "alice");
    assert_string_equal(k.at[1].name, "key2");
    assert_int_equal(find(&k, "key-of-alice"), 0);
    assert_int_equal(find(&k, "key-of-none"), 1);
    assert_int_equal(find(&k, "key-of-bob-1"), 2);
    assert_int_equal(find(&k, "key-of-bob-"), -1);
    assert_int_equal(find(&k, "key-of-bob-11"), -1);
    assert_int_equal(find(&k, "key-of-bob-2"), -1);
    assert_int_equal(find(&k, ""), -1);
    assert_int_equal(keys_find(&k, "key-of-bob-1\0", 13), -1);
    keys_free(&k);
    assert_int_equal(atomic_load(&memory_used), 0);
}

/* Keys of the greatest length, and one that is too long. */
static void long_keys(void **state)
{
    (void)state;
    keys k;
    char why[256], text[MAX_KEY_BYTES + 2] = "";
    memset(text, 'k', MAX_KEY_BYTES);
    assert_true(parse(&k, text, why));
    assert_int_equal(find(&k, text), 0);
    strcat(text, "k");
    assert_int_equal(find(&k, text), -1);
    keys_free(&k);
    assert_false(parse(&k, text, why));
    keys_free(&k);
}

static void bad_keys(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } bad[] = {
        { "", "no keys" },
        { "# a\n", "no keys" },
        { "short12", "line 1" },
        { "good-key-1\nname short12\n", "line 2" },
        { "name key with-blanks", "line 1" },
        { "name key-\x80-letters", "line 1" },
        { "a 12345678\na 87654321", "a is there twice" },
        { "a 12345678\nb 12345678", "b is there twice" },
        { "an-extremely-long-name-that-is-longer-than-sixty-three-letters-in-all 12345678",
          "line 1" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        keys k;
        char why[256] = "";
        assert_that(!parse(&k, bad[i].text, why), "%s is good", bad[i].text);
        assert_that(strstr(why, bad[i].says) != NULL, "%s: %s", bad[i].text, why);
        keys_free(&k);
    }
}

static void private_file(void **state)
{
    (void)state;
    keys k;
    char why[256];
    const char *path = temp_file("keys", "key-of-none\n", 12);
    chmod(path, 0640);
    assert_false(keys_read(&k, path, why, sizeof why));
    assert_non_null(strstr(why, "chmod 600"));
    chmod(path, 0600);
    assert_true(keys_read(&k, path, why, sizeof why));
    assert_int_equal(find(&k, "key-of-none"), 0);
    keys_free(&k);
    assert_false(keys_read(&k, temp_path("none"), why, sizeof why));
    assert_non_null(strstr(why, "No such file"));
    keys_free(&k);
    assert_int_equal(atomic_load(&memory_used), 0);
}

/* Nanoseconds of four look-ups. */
/* As another user, who is in the group of the file. */
static void keys_of_root(void **state)
{
    static const struct {
        mode_t mode;
        bool good;
    } cases[] = { { 0440, true }, { 0640, true }, { 0460, false }, { 0444, false } };
    (void)state;
    if (geteuid() != 0)
        skip(); /* only root may become another user */
    char path[] = "/tmp/weft-keys-XXXXXX";
    const gid_t before = getegid();
    const int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, "key-of-none\n", 12) == 12 && fchown(fd, 0, 65534) == 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        keys k;
        char why[256] = "";
        assert_int_equal(fchmod(fd, cases[i].mode), 0);
        assert_true(setegid(65534) == 0 && seteuid(65534) == 0);
        const bool good = keys_read(&k, path, why, sizeof why);
        assert_true(seteuid(0) == 0 && setegid(before) == 0);
        assert_that(good == cases[i].good, "mode %o: %s", cases[i].mode, why);
        keys_free(&k);
    }
    close(fd);
    unlink(path);
}

static double look_up_time(const keys *k, const char *given)
{
    struct timespec a, b;
    volatile int found = 0;
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (int r = 0; r < 4; r++)
        found = found + find(k, given);
    clock_gettime(CLOCK_MONOTONIC, &b);
    return (double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec);
}

enum { FIRST, LAST, RIGHT, N_GIVEN };

static bool alike(const double *least)
{
    bool all = true;
    for (int i = 0; i < N_GIVEN; i++)
        for (int j = 0; j < N_GIVEN; j++)
            all = all && least[i] < 1.2 * least[j];
    return all;
}

/* The first letter wrong, the last letter wrong, and right: the same time. A compare that stops at
 * the first difference takes a tenth. The three take turns, the shortest time of each counts, and there
 * are pauses, so that neither another process nor a change of the clock's rate falls on one of them alone. */
static void constant_time(void **state)
{
    (void)state;
    static const char *const given[N_GIVEN] = { "X00-secret-of-a-client-of-ours",
                                                "k15-secret-of-a-client-of-ourX",
                                                "k00-secret-of-a-client-of-ours" };
    double least[N_GIVEN] = { HUGE_VAL, HUGE_VAL, HUGE_VAL };
    keys k;
    char why[256], text[1024] = "";
    for (int i = 0; i < 16; i++)
        sprintf(text + strlen(text), "k%02d-secret-of-a-client-of-ours\n", i);
    assert_true(parse(&k, text, why));
    for (int round = 0; round < 40000 && (round < 2000 || !alike(least)); round++) {
        for (int i = 0; i < N_GIVEN; i++)
            least[i] = fmin(least[i], look_up_time(&k, given[i]));
        if (round % 1000 == 999)
            nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
    }
    keys_free(&k);
    print_message("first letter wrong %.0f ns, last %.0f ns, right %.0f ns\n", least[FIRST],
                  least[LAST], least[RIGHT]);
    assert_true(alike(least));
}

/* ---- rings ----------------------------------------------------------------------------------- */

static void bounded(void **state)
{
    (void)state;
    ring r;
    int x[5];
    assert_true(ring_init(&r, 4));
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 4; i++)
            assert_true(ring_push(&r, &x[i]));
        assert_false(ring_push(&r, &x[4]));
        for (int i = 0; i < 4; i++)
            assert_ptr_equal(ring_pop(&r), &x[i]);
        assert_true(ring_pop(&r) == NULL);
        ring_push(&r, &x[0]); /* the next round begins elsewhere in the ring */
        ring_pop(&r);
    }
    ring_free(&r);
    assert_int_equal(atomic_load(&memory_used), 0);
}

#define N_ITEM 20000

static void *push_all(void *ud)
{
    static int x[N_ITEM];
    for (int i = 0; i < N_ITEM;)
        if (ring_push(ud, &x[i]))
            x[i++] = 1;
    return NULL;
}

/* Nothing is lost or doubled between two threads, and the waiting one wakes. */
static void two_threads(void **state)
{
    (void)state;
    ring r;
    pthread_t other;
    int n = 0;
    const int *last = NULL;
    assert_true(ring_init(&r, 64));
    assert_int_equal(pthread_create(&other, NULL, push_all, &r), 0);
    while (n < N_ITEM) {
        for (const int *x; (x = ring_pop(&r)); n++) {
            assert_true(!last || x == last + 1);
            last = x;
        }
        if (n < N_ITEM)
            ring_wait(&r, 10000);
    }
    pthread_join(other, NULL);
    ring_free(&r);
}

/* ---- metrics --------------------------------------------------------------------------------- */

/* 100 tokens of prompts, and 3 requests of 20 new tokens, at 500 tokens a second without the reused ones. */
static void queue_seconds(void **state)
{
    weft_scheduler_info i = { .struct_size = sizeof i };
    (void)state;
    i.n_waiting = 3;
    i.n_waiting_tokens = 100;
    assert_true(metrics_queue_seconds(&i) == 0); /* no step yet: nothing is known */
    i.step_seconds = 2;
    i.n_prompt = 1000;
    i.n_reused = 200;
    i.n_new = 200;
    i.n_done = 10;
    assert_true(fabs(metrics_queue_seconds(&i) - 160.0 / 500) < 1e-12);
    i.n_waiting = i.n_waiting_tokens = 0;
    assert_true(metrics_queue_seconds(&i) == 0);
}

static void text_format(void **state)
{
    (void)state;
    static metrics m;
    static model_metrics of_model, others;
    bytes to = { 0 };
    weft_scheduler_info info = { .struct_size = sizeof info, .n_page = 8, .n_page_used = 2 };
    metrics_time(&of_model.first_token, 0.001);
    metrics_time(&of_model.first_token, 0.0011);
    metrics_time(&of_model.first_token, 1000);
    atomic_store(&of_model.n_new, 7);
    const metered models[] = { { .name = "a\"b\\c\n", .metrics = &of_model, .info = info },
                               { .name = "other", .metrics = &others } };
    metrics_write(&m, models, 2, true, &to);
    const char *const lines[] = {
        "weft_ready 1\n",
        "vllm:kv_cache_usage_perc{model_name=\"a\\\"b\\\\c\\n\"} 0.25\n",
        "vllm:time_to_first_token_seconds_bucket{model_name=\"a\\\"b\\\\c\\n\",le=\"0.001\"} 1\n",
        "le=\"0.005\"} 2\n",
        "le=\"60\"} 2\n",
        "le=\"+Inf\"} 3\n",
        "vllm:time_to_first_token_seconds_count{model_name=\"a\\\"b\\\\c\\n\"} 3\n",
        "vllm:time_to_first_token_seconds_sum{model_name=\"a\\\"b\\\\c\\n\"} 1000.002100\n",
        "# TYPE vllm:generation_tokens_total counter\n"
        "vllm:generation_tokens_total{model_name=\"a\\\"b\\\\c\\n\"} 7\n"
        "vllm:generation_tokens_total{model_name=\"other\"} 0\n",
        "vllm:request_success_total{model_name=\"other\",finished_reason=\"error\"} 0\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_that(strstr(to.at, lines[i]) != NULL, "no line %s in\n%s", lines[i], to.at);
    assert_null(strstr(to.at, "kv_cache_usage_perc{model_name=\"other\""));
    bytes_free(&to);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void stores(void **state)
{
    (void)state;
    store s = { .most = (size_t)1 << 20 };
    char *before = NULL;
    for (size_t n = 1; n < 3000; n += 7) {
        char *at = store_take(&s, n, 1);
        assert_true(at && (uintptr_t)at % 16 == 0 && at != before);
        for (size_t i = 0; i < n; i++)
            assert_that(at[i] == 0, "byte %zu of %zu is not zero", i, n);
        memset(at, 0xFF, n);
        before = at;
    }
    assert_true(store_take(&s, (size_t)2 << 20, 1) == NULL);
    assert_true(store_take(&s, SIZE_MAX / 2, 4) == NULL);
    assert_true(store_take(&s, 16, 1) != NULL); /* a refusal harms nothing */
    store_free(&s);
    assert_int_equal(atomic_load(&memory_used), 0);
}

static void growing(void **state)
{
    (void)state;
    bytes b = { 0 };
    for (int i = 0; i < 3000; i++)
        bytes_format(&b, "%d,", i);
    assert_int_equal(b.n, 10 * 2 + 90 * 3 + 900 * 4 + 2000 * 5);
    assert_string_equal(b.at + b.n - 5, "2999,");
    bytes_drop(&b, b.n - 5);
    assert_string_equal(b.at, "2999,");
    atomic_store(&memory_fail_at, 1);
    bytes_add(&b, NULL, 0); /* needs none */
    assert_false(b.failed);
    for (int i = 0; i < 20000 && !b.failed; i++)
        bytes_text(&b, "more");
    atomic_store(&memory_fail_at, 0);
    assert_true(b.failed);
    const size_t n = b.n;
    bytes_text(&b, "x"); /* stays failed */
    assert_int_equal(b.n, n);
    bytes_free(&b);
    assert_int_equal(atomic_load(&memory_used), 0);
}

/* ---- grammars -------------------------------------------------------------------------------- */

static const char thinks[] =
    "{% for m in messages %}[{{ m.role }}]{% if m.role == 'assistant' %}<think>\n</think>\n{% "
    "endif %}"
    "{{ m.content }}{% for c in m.tool_calls %}<call>{{ c.function.name }}:"
    "{{ c.function.arguments | tojson }}</call>{% endfor %}</s>{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}";

typedef struct office {
    weft_tokenizer *tokenizer;
    weft_template *template;
    grammars grammars;
} office;

static void open_office(office *o)
{
    weft_error err;
    *o = (office){ 0 };
    o->tokenizer = weft_tokenizer_load(fixture("../models/shakespeare.gguf"), NULL, &err);
    assert_that(o->tokenizer != NULL, "%s", err.message);
    o->template = weft_template_load(temp_file("t.jinja", thinks, strlen(thinks)), NULL, &err);
    assert_that(o->template != NULL, "%s", err.message);
}

static void close_office(office *o)
{
    grammars_free(&o->grammars);
    weft_template_free(o->template);
    weft_tokenizer_free(o->tokenizer);
    assert_int_equal(atomic_load(&memory_used), 0);
}

static int n_kept(const office *o)
{
    int n = 0;
    for (int i = 0; i < N_GRAMMAR; i++)
        n += o->grammars.at[i].grammar != NULL;
    return n;
}

/* The bytes with which an answer must begin; "!param: message" if the request is refused. */
static const char *begins(office *o, const request *r, bool inside)
{
    static char text[1200];
    const grammar_place at = { NULL, o->tokenizer, o->template, inside };
    refusal why;
    weft_constraint *c = grammars_constraint(&o->grammars, r, &at, &why);
    if (!c) {
        assert_int_equal(why.status, strstr(why.message, "memory") ? 503 : 400);
        snprintf(text, sizeof text, "!%s %s", why.param, why.message);
        return text;
    }
    text[weft_constraint_forced(c, text, 64)] = '\0';
    weft_constraint_free(c);
    return text;
}

static request asks(endpoint e, weft_grammar_kind kind, const char *text)
{
    return (request){
        .endpoint = e,
        .form = { .kind = kind, .text = text, .n = text ? strlen(text) : 0, .param = "guided_json" }
    };
}

#define TOOLS "[{\"function\":{\"name\":\"add\"}},{\"function\":{\"name\":\"sub\"}}]"

/* Each is compiled once, and never taken for another. */
static void one_of_each(void **state)
{
    (void)state;
    office o;
    open_office(&o);
    static const char one[] = "{\"const\":12}";
    const request tools = { .endpoint = ENDPOINT_CHAT, .tools = TOOLS, .n_tools = strlen(TOOLS) };
    struct {
        request r;
        bool inside;
        const char *begins;
    } all[] = {
        { asks(ENDPOINT_COMPLETIONS, WEFT_GRAMMAR_SCHEMA, one), false, "12" },
        { asks(ENDPOINT_CHAT, WEFT_GRAMMAR_SCHEMA, one), false, "" }, /* it may think */
        { asks(ENDPOINT_CHAT, WEFT_GRAMMAR_SCHEMA, one), true, "" },  /* it thinks already */
        { asks(ENDPOINT_COMPLETIONS, WEFT_GRAMMAR_REGEX, "12+"), false, "12" },
        { asks(ENDPOINT_COMPLETIONS, WEFT_GRAMMAR_REGEX, "13+"), false, "13" },
        { tools, false, "" },
        { tools, true, "" },
        { tools, true, "" }, /* of which it must call one, */
        { tools, true, "" }, /* only one, */
        { tools, true, "" }, /* or only add */
    };
    all[7].r.must_call = true;
    all[8].r.single_call = true;
    all[9].r.only_tool = "add";
    const int n = (int)(sizeof all / sizeof *all);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < n; i++) {
            assert_string_equal(begins(&o, &all[i].r, all[i].inside), all[i].begins);
            assert_int_equal(n_kept(&o), round ? n : i + 1);
        }
    request strict = asks(ENDPOINT_COMPLETIONS, WEFT_GRAMMAR_SCHEMA,
                          "{\"type\":\"object\",\"properties\":{\"a\":{}}}");
    begins(&o, &strict, false);
    strict.form.strict = true; /* not the one that was kept without it */
    assert_string_equal(
        begins(&o, &strict, false),
        "!guided_json guided_json: schema: /additionalProperties: must be false with strict");
    close_office(&o);
}

/* Of more than can be kept, the one used longest ago goes. */
static void oldest_goes(void **state)
{
    (void)state;
    office o;
    char text[16];
    open_office(&o);
    for (int i = 0; i < N_GRAMMAR + 1; i++) {
        request r = asks(ENDPOINT_COMPLETIONS, WEFT_GRAMMAR_REGEX, "a");
        assert_string_equal(begins(&o, &r, false), "a"); /* used again and again */
        snprintf(text, sizeof text, "b%d", i);
        r = asks(ENDPOINT_COMPLETIONS, WEFT_GRAMMAR_REGEX, text);
        assert_string_equal(begins(&o, &r, false), text);
    }
    assert_int_equal(n_kept(&o), N_GRAMMAR);
    bool a = false, b1 = false, b2 = false;
    for (int i = 0; i < N_GRAMMAR; i++) {
        const kept_grammar *k = &o.grammars.at[i];
        a |= k->key[k->n_key - 1] == 'a';
        b1 |= memcmp(k->key + k->n_key - 2, "b1", 2) == 0;
        b2 |= memcmp(k->key + k->n_key - 2, "b2", 2) == 0;
    }
    assert_true(a && b2 && !b1);
    close_office(&o);
}

static void refused_grammars(void **state)
{
    (void)state;
    office o;
    open_office(&o);
    request r = asks(ENDPOINT_CHAT, WEFT_GRAMMAR_SCHEMA, "{\"type\":\"widget\"}");
    assert_string_equal(begins(&o, &r, false),
                        "!guided_json guided_json: schema: /type: expected null, boolean, integer, "
                        "number, string, array or object");
    r = (request){ .endpoint = ENDPOINT_CHAT, .tools = "[1]", .n_tools = 3 };
    assert_string_equal(begins(&o, &r, false),
                        "!tools tools: tools[0]: expected {\"type\": \"function\", \"function\": "
                        "{...}}");
    r = asks(ENDPOINT_CHAT, WEFT_GRAMMAR_REGEX, "a");
    atomic_store(&memory_fail_at, 1);
    assert_string_equal(begins(&o, &r, false), "! no memory for the request");
    atomic_store(&memory_fail_at, 0);
    assert_int_equal(n_kept(&o), 0);
    close_office(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("keys: known ones are found, others are not", known_keys),
        TEST("keys: of the greatest length", long_keys),
        TEST("keys: bad lines are named", bad_keys),
        TEST("keys: a file that others can read is refused", private_file),
        TEST("keys: a file of root may be readable for its group", keys_of_root),
        TEST("keys: the time does not tell how much of a key is right", constant_time),
        TEST("ring: it is bounded, and first in is first out", bounded),
        TEST("ring: between two threads nothing is lost", two_threads),
        TEST("metrics: Prometheus' text", text_format),
        TEST("metrics: the time that those that wait will take", queue_seconds),
        TEST("store: blocks are aligned, zeroed and limited", stores),
        TEST("bytes: they grow, and stay failed", growing),
        TEST("grammars: each is compiled once, and never taken for another", one_of_each),
        TEST("grammars: the one used longest ago goes", oldest_goes),
        TEST("grammars: what is wrong is refused by the name of its field", refused_grammars),
    };
    return RUN(tests);
}
