/* Calls of tools: the syntax that templates of real models write is learned, and what they write is
 * read back, in pieces of any length. */
#include "base/rng.h"
#include "support.h"
#include "text/calls.h"
#include "text/sources/chat_file.h"

#include <dirent.h>
#include <jansson.h>

/* ---- what a reader tells --------------------------------------------------------------------- */

typedef struct told {
    char text[8192], calls[8192]; /* calls: name{...};name{...}; */
} told;

static void add(char *to, size_t size, const char *text, size_t n)
{
    const size_t at = strlen(to);
    assert_true(at + n < size);
    memcpy(to + at, text, n);
    to[at + n] = '\0';
}

static void hear(void *ud, call_event e, const char *text, size_t n)
{
    told *t = ud;
    if (e == CALL_TEXT)
        add(t->text, sizeof t->text, text, n);
    else
        add(t->calls, sizeof t->calls, e == CALL_ENDS ? ";" : text, e == CALL_ENDS ? 1 : n);
}

static bool is_string(void *ud, const char *name, const char *key)
{
    (void)ud, (void)name;
    return key[0] == 's';
}

/* Reads in pieces of 1 to `longest` bytes. */
static told read_text(const call_syntax *s, const char *text, size_t n, uint32_t longest)
{
    host h;
    weft_error err = { 0 };
    call_reader r;
    told t = { 0 };
    host_plain(&h);
    calls_read_begin(&r, s, hear, is_string, &t, &h.mem, &err);
    for (size_t i = 0; i < n;) {
        size_t step = 1 + rng_draw(n, longest, i).word[0] % longest;
        step = step > n - i ? n - i : step;
        assert_true(calls_read(&r, text + i, step));
        i += step;
    }
    assert_true(calls_read_end(&r));
    calls_read_free(&r);
    return t;
}

/* ---- templates ------------------------------------------------------------------------------- */

typedef struct loaded {
    host host;
    arena store;
    chat chat;
} loaded;

static void load(loaded *l, const char *path)
{
    weft_error err = { 0 };
    host_plain(&l->host);
    assert_int_equal(arena_init(&l->store, ARENA_GROWING, &l->host.mem, 0, "test", &err), WEFT_OK);
    l->chat = (chat){ 0 };
    if (chat_load(&l->chat, path, "default", &l->store, &l->host, &err) != WEFT_OK)
        fail_msg("%s", err.message);
}

static void unload(loaded *l)
{
    chat_close(&l->chat);
    arena_free(&l->store);
    assert_int_equal(atomic_load(&l->host.mem.used), 0);
}

static const char *const arguments[] = {
    "{\"s\": \"plain\", \"n\": -12.5}",
    "{\"s\": \"a \\\"quote\\\", a } brace,\\nline \\u00fc \\\\\", \"list\": [1, {\"s\": \"]\"}], "
    "\"n\": 3}",
    "{\"n\": 1}",
    "{\"s\": \"<tool> & </parameter \\u20ac\"}",
    "{\"s2\": \"17\", \"s\": \"x\"}",
    "{}",
};
#define N_ARGUMENTS (int)(sizeof arguments / sizeof *arguments)

/* The conversation in which the assistant says `said` and calls first and second. */
static json_t *conversation(const char *said, int first, int second)
{
    json_t *calls = json_array();
    const int which[2] = { first, second };
    for (int i = 0; i < 2 && which[i] >= 0; i++) {
        char name[32], id[32];
        snprintf(name, sizeof name, "get_%d", which[i]);
        snprintf(id, sizeof id, "abcdefgh%d", i);
        json_array_append_new(calls, json_pack("{s:s, s:s, s:{s:s, s:o}}", "id", id, "type",
                                               "function", "function", "name", name, "arguments",
                                               json_loads(arguments[which[i]], 0, NULL)));
    }
    return json_pack("[{s:s, s:s}, {s:s, s:s, s:o}]", "role", "user", "content", "WEFTUSER", "role",
                     "assistant", "content", said, "tool_calls", calls);
}

/* What the reader tells of the assistant's message; false if the template cannot write it. */
static bool round_trip(const loaded *l, const char *said, int first, int second, uint32_t longest,
                       told *t)
{
    weft_error err = { 0 };
    chat_text full;
    json_t *talk = conversation(said, first, second);
    char *text = json_dumps(talk, 0);
    json_decref(talk);
    const chat_options o = {
        .tools = "[]", .bos = "", .eos = "", .now = 1, .no_generation_prompt = true
    };
    const weft_status status = chat_text_render(&l->chat, text, strlen(text), &o, &full, &err);
    free(text);
    if (status == WEFT_OK) {
        const char *own = strstr(full.out.text, "WEFTUSER");
        assert_non_null(own);
        *t = read_text(&l->chat.calls, own, full.out.n - (size_t)(own - full.out.text), longest);
    }
    chat_text_free(&full);
    return status == WEFT_OK;
}

/* Templates that write a list as Python does, or text with markup in a way of their own. */
static bool garbles(const char *name, int which)
{
    return (which == 1 && strncmp(name, "ByteDance", 9) == 0) ||
           ((which == 1 || which == 3) && strncmp(name, "openbmb", 7) == 0);
}

/* Is `calls` what is expected, in any spelling of JSON? */
static void check_calls(const char *name, const char *calls, int first, int second)
{
    const int which[2] = { first, second };
    const char *at = calls;
    for (int i = 0; i < 2 && which[i] >= 0; i++) {
        char head[32];
        const int n = snprintf(head, sizeof head, "get_%d", which[i]);
        if (strncmp(at, head, (size_t)n) != 0)
            fail_msg("%s: read \"%s\", expected %s", name, calls, head);
        at += n;
        json_error_t why;
        json_t *got = json_loads(at, JSON_DISABLE_EOF_CHECK, &why);
        json_t *wanted = json_loads(arguments[which[i]], 0, NULL);
        if (!got || !json_equal(got, wanted))
            fail_msg("%s: read \"%s\", expected %s", name, calls, arguments[which[i]]);
        at += why.position;
        json_decref(got);
        json_decref(wanted);
        assert_int_equal(*at++, ';');
    }
    assert_string_equal(at, "");
}

/* Templates without a syntax, and why. */
static const char *const unknown[] = {
    /* write no calls, or not from this form */
    "HuggingFaceTB-SmolLM3-3B",
    "LFM2-8B-A1B",
    "LFM2.5-Instruct",
    "Kimi-K2-Instruct",
    "Kimi-K2-Thinking",
    "google-gemma-2-2b-it",
    "ibm-granite-granite-3.3-2B-Instruct",
    "llama-cpp-deepseek-r1",
    "llama-cpp-rwkv-world",
    "microsoft-Phi-3.5-mini-instruct",
    "fireworks-ai-llama-3-firefunction-v2",
    "deepseek-ai-DeepSeek-R1-Distill-Llama-8B",
    /* in a form of their own */
    "Kimi-K3",
    "LFM2.5-8B-A1B",
    "google-gemma-4-31B-it",
    "google-gemma-4-31B-it-interleaved",
    "muse-glimmer",
    "MiniMax-M3",
    "CohereForAI-c4ai-command-r-plus-tool_use",
    "meetkai-functionary-medium-v3.2",
    "NVIDIA-Nemotron-Nano-v2",
};

static bool is_unknown(const char *name)
{
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        if (strncmp(name, unknown[i], strlen(unknown[i])) == 0 &&
            strcmp(name + strlen(unknown[i]), ".jinja") == 0)
            return true;
    return false;
}

static int check_template(const char *path, const char *name)
{
    int n = 0;
    loaded l;
    load(&l, path);
    const call_syntax *s = &l.chat.calls;
    if ((s->form == CALLS_NONE) != is_unknown(name))
        fail_msg("%s: form %d", name, (int)s->form);
    for (int i = 0; s->form != CALLS_NONE && i < N_ARGUMENTS * (N_ARGUMENTS + 1); i++) {
        const int first = i % N_ARGUMENTS, second = i / N_ARGUMENTS - 1;
        told t = { 0 };
        if (garbles(name, first) || garbles(name, second))
            continue;
        if ((second >= 0 && !s->several) || !round_trip(&l, "", first, second, 1 + i % 7, &t))
            continue;
        check_calls(name, t.calls, first, second);
        n++;
    }
    if (s->form != CALLS_NONE && n < 4)
        fail_msg("%s: %d conversations", name, n);
    unload(&l);
    return n;
}

static void real_templates(void **state)
{
    (void)state;
    char directory[4096], path[4400];
    snprintf(directory, sizeof directory, "%s", asset("templates"));
    struct dirent **entry;
    const int n = scandir(directory, &entry, NULL, alphasort);
    int n_known = 0, n_talk = 0;
    for (int i = 0; i < n; i++) {
        if (strstr(entry[i]->d_name, ".jinja")) {
            snprintf(path, sizeof path, "%s/%s", directory, entry[i]->d_name);
            const int talks = check_template(path, entry[i]->d_name);
            n_known += talks > 0;
            n_talk += talks;
        }
        free(entry[i]);
    }
    free(entry);
    print_message("%d templates, %d conversations\n", n_known, n_talk);
    assert_true(n_known >= 45);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("calls: what templates of real models write is read back", real_templates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
