/* Calls of tools: the syntax that templates of real models write is learned, what they write is read
 * back, in pieces of any length, and the grammar of tools matches it and nothing else. */
#include "base/rng.h"
#include "support.h"
#include "text/calls.h"
#include "text/constrain/rows.h"
#include "text/constrain/tools.h"
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
    ("{\"s\": \"a \\\"quote\\\", a } brace,\\nline \\u00fc \\\\\", \"list\": [1, {\"s\": \"]\"}], "
     "\"n\": 3}"),
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

/* ---- grammars -------------------------------------------------------------------------------- */

/* A tool get_N for each of `arguments`. */
static const char *tool_list_text(void)
{
    static char text[8192];
    size_t n = 0;
    n += (size_t)snprintf(text + n, sizeof text - n, "[");
    for (int i = 0; i < N_ARGUMENTS; i++)
        n += (size_t)snprintf(text + n, sizeof text - n,
                              "%s{\"type\": \"function\", \"function\": {\"name\": \"get_%d\", "
                              "\"parameters\": {\"type\": "
                              "\"object\", \"properties\": {\"s2\": {\"type\": \"string\"}, \"s\": "
                              "{\"type\": \"string\"}, "
                              "\"list\": {\"type\": \"array\"}, \"n\": {\"type\": \"number\"}}, "
                              "\"additionalProperties\": "
                              "false}}}",
                              i ? ", " : "", i);
    snprintf(text + n, sizeof text - n, "]");
    return text;
}

typedef struct judge {
    mem mem;
    earley rows;
    grammar *grammar;
    weft_error err;
} judge;

/* A vocabulary without special tokens: everything is spelled. thinks: between <t> and </t>, first. */
static void judge_begin(judge *j, const call_syntax *s, const char *tools, const tool_rules *o,
                        bool thinks)
{
    static const tokenizer plain;
    tool_list tools_in;
    *j = (judge){ 0 };
    mem_init(&j->mem, 0, NULL);
    if (tools_read(&tools_in, tools, strlen(tools), &j->mem, &j->err) != WEFT_OK)
        fail_msg("%s", j->err.message);
    j->grammar = tools_grammar(&tools_in, s, &plain, o, &j->mem, &j->err);
    tools_free(&tools_in);
    if (!j->grammar || (thinks && grammar_think(j->grammar, "<t>", "</t>", false, &plain, &j->err)))
        fail_msg("%s", j->err.message);
    assert_int_equal(rows_init(&j->rows, &j->mem, j->grammar, &j->err), WEFT_OK);
}

static void judge_end(judge *j)
{
    rows_free(&j->rows);
    grammar_free(j->grammar);
    assert_int_equal(j->mem.used, 0);
}

/* How many bytes are matched; *whole: and the text may end there. */
static size_t matched(judge *j, const char *text, size_t n, bool *whole)
{
    uint32_t row = FIRST_ROW;
    for (size_t i = 0; i < n; i++) {
        const uint32_t next = rows_step(&j->rows, row, (uint8_t)text[i]);
        if (next == NO_ROW)
            return i;
        row = next;
    }
    *whole = row_at(&j->rows, row)->accepts;
    return n;
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

/* Bytes that the grammar matches from the start of the calls on. All but the end of the turn must
 * be. */
static size_t judge_calls(judge *j, const call_syntax *s, const char *own, const char *name)
{
    bool whole = false;
    const char *from = own;
    while (call_match(&s->begin, from, strlen(from)) == CALL_NO_MATCH)
        from++;
    const size_t n = strlen(from), good = matched(j, from, n, &whole);
    if (!whole) { /* then what is left is the end of the turn: the calls were complete before */
        size_t k = good;
        while (k > 0 && !whole && k + 8 > good)
            matched(j, from, k--, &whole);
    }
    if (!whole)
        fail_msg("%s: the grammar stops at \"%.60s\" in %s", name, from + good, from);
    return good;
}

/* What the reader tells of the assistant's message; false if the template cannot write it. The
 * grammar, if any, must match it from the first literal to the last. */
static bool round_trip(const loaded *l, const char *said, int first, int second, uint32_t longest,
                       told *t, judge *j, const char *name)
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
        if (j)
            judge_calls(j, &l->chat.calls, own, name);
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

static int check_template(const char *path, const char *name, int *n_several)
{
    int n = 0;
    loaded l;
    load(&l, path);
    const call_syntax *s = &l.chat.calls;
    *n_several += s->several;
    if ((s->form == CALLS_NONE) != is_unknown(name))
        fail_msg("%s: form %d", name, (int)s->form);
    /* It escapes letters beyond ASCII, which the grammar never does. */
    const bool escapes = strncmp(name, "Reka", 4) == 0;
    judge j;
    if (s->form != CALLS_NONE)
        judge_begin(&j, s, tool_list_text(), &(tool_rules){ .required = true }, false);
    for (int i = 0; s->form != CALLS_NONE && i < N_ARGUMENTS * (N_ARGUMENTS + 1); i++) {
        const int first = i % N_ARGUMENTS, second = i / N_ARGUMENTS - 1;
        told t = { 0 };
        if (garbles(name, first) || garbles(name, second))
            continue;
        if ((second >= 0 && !s->several) ||
            !round_trip(&l, "", first, second, 1 + i % 7, &t, escapes ? NULL : &j, name))
            continue;
        check_calls(name, t.calls, first, second);
        n++;
    }
    if (s->form != CALLS_NONE && n < 4)
        fail_msg("%s: %d conversations", name, n);
    if (s->form != CALLS_NONE)
        judge_end(&j);
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
    int n_known = 0, n_several = 0, n_talk = 0;
    for (int i = 0; i < n; i++) {
        if (strstr(entry[i]->d_name, ".jinja")) {
            snprintf(path, sizeof path, "%s/%s", directory, entry[i]->d_name);
            const int talks = check_template(path, entry[i]->d_name, &n_several);
            n_known += talks > 0;
            n_talk += talks;
        }
        free(entry[i]);
    }
    free(entry);
    print_message("%d templates, %d with several calls, %d conversations\n", n_known, n_several,
                  n_talk);
    assert_int_equal(n_known, 47);
    assert_int_equal(n_several, 41);
}

/* ---- a syntax of our own --------------------------------------------------------------------- */

#define LITERAL(text)                                                                              \
    {                                                                                              \
        text, sizeof text - 1                                                                      \
    }

static const call_syntax hermes = {
    .form = CALLS_JSON,
    .several = true,
    .begin = LITERAL("<call>{\"name\": \""),
    .start = LITERAL("<call>"),
    .middle = LITERAL("\", \"arguments\": "),
    .between = LITERAL("}</call><call>{\"name\": \""),
    .end = LITERAL("}</call>"),
};

static const call_syntax coder = {
    .form = CALLS_PAIRS,
    .several = true,
    .begin = LITERAL("<call><f="),
    .start = LITERAL("<call>"),
    .middle = LITERAL("><p="),
    .between = LITERAL("</p></f><f="),
    .end = LITERAL("</p></f></call>"),
    .value = { LITERAL(">"), LITERAL(">") },
    .next = LITERAL("</p><p="),
    .close = LITERAL("</p>"),
    .none_between = LITERAL("></f><f="),
    .none_end = LITERAL("></f></call>"),
};

static const struct {
    const call_syntax *syntax;
    const char *in, *text, *calls;
} readings[] = {
    { &hermes, "just text", "just text", "" },
    { &hermes, "a < b <cal", "a < b <cal", "" },
    { &hermes, "one \n<call>{\"name\": \"f\", \"arguments\": {}}</call>", "one", "f{};" },
    { &hermes, "<call>{\"name\": \"f\", \"arguments\": {\"a\": \"}\"}}</call>more", "more",
      "f{\"a\": \"}\"};" },
    { &hermes, "a \n<call>no <call>{\"name\": \"f\", \"arguments\": {}}</call>", "a \n<call>no",
      "f{};" },
    { &hermes, "<call>{\"name\": \"f\", \"arguments\": {}}</call><call>{\"na", "<call>{\"na",
      "f{};" },
    { &hermes, "<call>{\"name\": \"f\", \"arguments\": {}}</ca", "", "f{};" },
    { &hermes, "<call>{\"name\": \"f\", \"arguments\": {}} then", "} then", "f{};" },
    { &hermes, "<call>{\"no\": 1}", "<call>{\"no\": 1}", "" },
    { &hermes, "<call>{\"name\": \"f\", \"arguments\": [1]", "[1]", "f;" },
    { &hermes, "<call>{\"name\": \"f\", \"arguments\": {\"a\": 1", "", "f{\"a\": 1;" },
    { &hermes, "<call>{\"name\": \"f\", \"arguments\": {\"a\": \"\\\"}\"}}</call>", "",
      "f{\"a\": \"\\\"}\"};" },
    { &coder, "<call><f=g><p=s>17</p><p=n>17</p></f></call>", "", "g{\"s\": \"17\", \"n\": 17};" },
    { &coder, "<call><f=g></f><f=h><p=n>x</p></f></call>", "", "g{};h{\"n\": \"x\"};" },
    { &coder, "<call><f=g><p=s>a</p></f></call> b", " b", "g{\"s\": \"a\"};" },
    { &coder, "<call><f=g><p=s>a</p", "a</p", "g;" },
    { &coder, "<call><f=", "<call><f=", "" },
    { &coder, "<call><f=g><p=s>a</p>b</p></f></call>", "a</p>b</p></f></call>", "g;" },
};

static void own_syntax(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof readings / sizeof *readings; i++)
        for (uint32_t longest = 1; longest < 9; longest++) {
            const told t = read_text(readings[i].syntax, readings[i].in, strlen(readings[i].in),
                                     longest);
            assert_string_equal(t.text, readings[i].text);
            assert_string_equal(t.calls, readings[i].calls);
        }
}

static const char two_tools[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"strict\": true, \"parameters\": "
    "{\"type\": \"object\", \"properties\": {\"n\": {\"type\": \"integer\", \"maximum\": 9}}, "
    "\"required\": [\"n\"], \"additionalProperties\": false}}}, {\"type\": \"function\", "
    "\"function\": {\"name\": \"g\", \"parameters\": {\"type\": \"object\", \"properties\": "
    "{\"s\": "
    "{\"type\": \"string\", \"enum\": [\"a\", \"b\"]}, \"n\": {\"type\": \"integer\"}, "
    "\"c\": {\"type\": \"string\", \"const\": \"k\"}}, "
    "\"additionalProperties\": false}}}]";

static const struct {
    const call_syntax *syntax;
    tool_rules rules;
    const char *text;
    bool good;
} judged[] = {
    { &hermes, { 0 }, "text", true },
    { &hermes, { 0 }, "a <b> <cal", true },
    { &hermes, { 0 }, "<call>", false },
    { &hermes, { 0 }, "x <call>{\"name\": \"f\", \"arguments\": {\"n\":9}}</call>", true },
    { &hermes, { 0 }, "<call>{\"name\": \"f\", \"arguments\": {\"n\":10}}</call>", false },
    { &hermes, { 0 }, "<call>{\"name\": \"f\", \"arguments\": {}}</call>", false },
    { &hermes, { 0 }, "<call>{\"name\": \"g\", \"arguments\": {}}</call>", true },
    { &hermes, { 0 }, "<call>{\"name\": \"h\", \"arguments\": {}}</call>", false },
    { &hermes, { 0 }, "<call>{\"name\": \"g\", \"arguments\": {}}</call> and", false },
    { &hermes, { .required = true }, "text", false },
    { &hermes, { .required = true }, "\n<call>{\"name\": \"g\", \"arguments\": {}}</call>", true },
    { &hermes, { .only = "f" }, "<call>{\"name\": \"g\", \"arguments\": {}}</call>", false },
    { &hermes,
      { 0 },
      "<call>{\"name\": \"g\", \"arguments\": {}}</call><call>{\"name\": \"g\", \"arguments\": "
      "{}}</call>",
      true },
    { &hermes,
      { .single = true },
      "<call>{\"name\": \"g\", \"arguments\": {}}</call><call>{\"name\": \"g\", \"arguments\": "
      "{}}</call>",
      false },
    { &coder, { 0 }, "<call><f=f><p=n>9</p></f></call>", true },
    { &coder, { 0 }, "<call><f=f></f></call>", false },
    { &coder, { 0 }, "<call><f=g></f><f=g><p=s>a</p></f></call>", true },
    { &coder, { 0 }, "<call><f=g><p=s>c</p></f></call>", false },
    { &coder, { 0 }, "<call><f=g><p=s>b</p><p=n>12</p></f></call>", true },
    { &coder, { 0 }, "<call><f=g><p=n>12</p><p=s>b</p></f></call>", false },
    { &coder, { 0 }, "<call><f=g><p=c>k</p></f></call>", true },
    { &coder, { 0 }, "<call><f=g><p=c>l</p></f></call>", false },
    { &coder, { .required = true }, "<call><f=g></f></call>", true },
};

static void check_judged(size_t i, bool thinks)
{
    judge j;
    bool whole = false;
    char text[256];
    judge_begin(&j, judged[i].syntax, two_tools, &judged[i].rules, thinks);
    const int n = snprintf(text, sizeof text, "%s%s", thinks ? "<t>hm</t>" : "", judged[i].text);
    if ((matched(&j, text, (size_t)n, &whole) == (size_t)n && whole) != judged[i].good)
        fail_msg("%s is %s", text, judged[i].good ? "refused" : "accepted");
    judge_end(&j);
}

static void own_grammar(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof judged / sizeof *judged; i++) {
        check_judged(i, false);
        check_judged(i, true);
    }
}

static const struct {
    const char *text, *why;
} bad_tools[] = {
    { "", "tools" },
    { "{}", "tools" },
    { "[]", "tools: found 0, expected 1 to 256" },
    { "[1]", "tools[0]: expected {\"type\"" },
    { "[{\"type\": \"retrieval\", \"function\": {\"name\": \"f\"}}]", "tools[0]: expected" },
    { "[{\"type\": \"function\", \"function\": {}}]", "tools[0].function.name: expected" },
    { "[{\"type\": \"function\", \"function\": {\"name\": \"\"}}]", "tools[0].function.name" },
    { "[{\"type\": \"function\", \"function\": {\"name\": \"a b\"}}]", "tools[0].function.name" },
    { "[{\"function\": {\"name\": \"f\"}}, {\"function\": {\"name\": \"f\"}}]",
      "tools[1].function.name: expected a name that no other tool has" },
    { "[{\"function\": {\"name\": \"f\", \"parameters\": 3}}]", "tools[0].function.parameters" },
    { "[{\"function\": {\"name\": \"f\", \"parameters\": {\"properties\": {\"s\": {\"type\": "
      "\"string\", \"enum\": "
      "[1]}}}}}]",
      "strings in the enum" },
};

static void lists(void **state)
{
    (void)state;
    mem m;
    tool_list tools_in;
    mem_init(&m, 0, NULL);
    for (size_t i = 0; i < sizeof bad_tools / sizeof *bad_tools; i++) {
        weft_error err = { 0 };
        assert_int_not_equal(
            tools_read(&tools_in, bad_tools[i].text, strlen(bad_tools[i].text), &m, &err), WEFT_OK);
        if (!strstr(err.message, bad_tools[i].why))
            fail_msg("%s: \"%s\" does not say \"%s\"", bad_tools[i].text, err.message,
                     bad_tools[i].why);
    }
    for (size_t n = 0; n + 1 < sizeof two_tools - 1; n++) {
        weft_error err = { 0 };
        assert_int_not_equal(tools_read(&tools_in, two_tools, n, &m, &err), WEFT_OK);
    }
    assert_int_equal(m.used, 0);
}

/* Every allocation fails once. */
static void without_memory(void **state)
{
    (void)state;
    const size_t n = strlen(two_tools);
    bool done = false;
    for (size_t most = 64; !done; most += most / 16 + 64) {
        static const tokenizer plain;
        weft_error err = { 0 };
        mem m;
        tool_list tools_in;
        mem_init(&m, most, NULL);
        grammar *g = NULL;
        if (tools_read(&tools_in, two_tools, n, &m, &err) == WEFT_OK) {
            g = tools_grammar(&tools_in, &coder, &plain, &(tool_rules){ 0 }, &m, &err);
            tools_free(&tools_in);
        }
        done = g != NULL;
        if (!g && err.code != WEFT_ELIMIT && err.code != WEFT_ENOMEM)
            fail_msg("%d: %s", (int)err.code, err.message);
        grammar_free(g);
        assert_int_equal(m.used, 0);
        assert_true(most < 1u << 24);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("calls: what templates of real models write is read back, and matched",
             real_templates),
        TEST("calls: text around calls, and what only looks like one, is text", own_syntax),
        TEST("calls: a grammar has the tools' names and arguments, and nothing else", own_grammar),
        TEST("calls: a list of tools that is wrong says where", lists),
        TEST("calls: tools without memory are an error", without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
