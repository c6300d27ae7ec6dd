/* Calls of tools: the syntax that templates of real models write is learned, what they write is read
 * back, in pieces of any length, and the grammar of tools matches it and nothing else. */
#include "base/rng.h"
#include "support.h"
#include "text/calls.h"
#include "text/constrain/constraint.h"
#include "text/constrain/rows.h"
#include "text/constrain/token_trie.h"
#include "text/constrain/tools.h"
#include "text/sources/chat_file.h"
#include "text/sources/source.h"

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
    calls_read_begin(&r, s, hear, s->form == CALLS_JSON ? NULL : is_string, &t, &h.mem, &err);
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

/* ---- templates of our own -------------------------------------------------------------------- */

#define SAID       "[{{ m.role }}]{{ m.content }}"
#define EACH(call) "{% for c in m.tool_calls %}" call "{% endfor %}"
#define TURNS(turn)                                                                                \
    "{% for m in messages %}" turn                                                                 \
    "{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"
#define TALK(call)     TURNS(SAID EACH(call) "</s>")
#define NAME           "{{ c.function.name }}"
#define OBJECT         "{{ c.function.arguments | tojson }}"
#define ITEMS(one)     "{% for k, v in c.function.arguments.items() %}" one "{% endfor %}"
#define FIRST(yes, no) "{% if c == m.tool_calls[0] %}" yes "{% else %}" no "{% endif %}"
#define TYPE(yes, no)  "{% if v is string %}" yes "{% else %}" no "{% endif %}"
#define LONG           "{{ 'x' * 200 }}"
#define PAIRS          ITEMS("<p={{ k }}>{{ v }}</p>")
#define F(inside)      "<f=" NAME ">" inside "</f>"

/* What is learned from each: form, '+' if there may be several, and its literals: begin, start,
 * middle, between, end; of pairs also value[0], value[1], next, close, none_between, none_end. Ids
 * are $, numbers #. */
static const struct {
    const char *source, *syntax;
} probed[] = {
    { TALK("<call>" NAME ":" OBJECT "</call>"), "json+ <call>|<call>|:|</call><call>|</call>" },
    { TALK("<call {{ c.id }}>" NAME ":" OBJECT "</call>"),
      "json+ <call $>|<call $>|:|</call><call $>|</call>" },
    { TALK("<call {{ loop.index }}>" NAME ":" OBJECT "</call>"),
      "json+ <call #>|<call #>|:|</call><call #>|</call>" },
    { TALK("<call>" NAME " {{ loop.index0 }}=" OBJECT "</call>"),
      "json+ <call>|<call>| #=|</call><call>|</call>" },
    /* 2 and 4 do not count: only one call is understood */
    { TALK("<call>" NAME " {{ 2 * loop.index }}=" OBJECT "</call>"),
      "json <call>|<call>| 2=||</call>" },
    { TALK("<call>" NAME ":" FIRST(OBJECT, "") "</call>"), "json <call>|<call>|:||</call>" },
    { TURNS(SAID
            "{% if m.tool_calls %}<calls>" EACH("|" NAME ":" OBJECT) "</calls>{% endif %}</s>"),
      "json+ <calls>||<calls>|:|||</calls>" },
    /* the end of a turn: as a tag, as text, and longer than what is left */
    { TURNS(SAID EACH("<call>" NAME ":" OBJECT) "END<e>"), "json+ <call>|<call>|:|<call>|END" },
    { TURNS(SAID EACH("<call>" NAME ":" OBJECT) " END"), "json+ <call>|<call>|:|<call>|" },
    { TURNS(SAID "{% if not m.tool_calls %}<e>{% endif %}" EACH("<call>" NAME ":" OBJECT) "<e>"),
      "json+ <call>|<call>|:|<call>|" },
    /* the text of a model after another prompt, far from a tag */
    { TURNS("{{ 'a' * 50 }}{% if m.role == 'user' %}" SAID
            "{% else %}(model){{ m.content }}{% endif "
            "%}" EACH("<call>" NAME ":" OBJECT "</call>")),
      "json+ aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa(model)<call>|" },
    { TURNS("{% if m.role == 'user' %}" SAID
            "{{ 'a' * 50 }}{% else %}(model){{ m.content }}{% endif "
            "%}" EACH("<call>" NAME ":" OBJECT "</call>")),
      "json+ (model)<call>|(model)<call>|:|</call><call>|</call>" },
    /* thinking before and after calls, and without what the user said */
    { TURNS(SAID "{% if m.role == 'assistant' %}<think>\n</think>\n{% endif %}" EACH(
          "<call>" NAME ":" OBJECT "</call>") "</s>"),
      "json+ <call>|<call>|:|</call><call>|</call>" },
    { TURNS(SAID EACH("<call>" NAME ":" OBJECT "</call><think></think>") "</s>"),
      "json+ <call>|<call>|:|</call><think></think><call>|</call><think></think>" },
    { TURNS("{% if m.role != 'user' %}" SAID EACH("<call>" NAME ":" OBJECT
                                                  "</call>") "<think></think></s>{% endif %}"),
      "json+ <call>|<call>|:|</call><call>|</call>" },
    /* literals that cannot be: too long, JSON in JSON, marks of ours, the name again */
    { TALK("<call>{{ 'x' * 194 }}" NAME ":" OBJECT "</call>"), "json <call>xxx" },
    { TALK("<call>{{ 'x' * 195 }}" NAME ":" OBJECT "</call>"), "none" },
    { TALK("<call>" NAME LONG "x" OBJECT "</call>"), "none" },
    { TALK("<call>" NAME ":" OBJECT "</call>" LONG), "none" },
    { TALK("<call>" NAME ":" OBJECT FIRST("</call>" LONG, "</call>")), "none" },
    { TALK("<call>\\" NAME ":" OBJECT "</call>"), "none" },
    { TALK("<call>\1" NAME ":" OBJECT "</call>"), "none" },
    { TALK("<call>\2" NAME ":" OBJECT "</call>"), "none" },
    { TALK("<call>" NAME "=" NAME ":" OBJECT "</call>"), "none" },
    { TALK("|" NAME ":" OBJECT "|"), "none" }, /* too short to begin a call */
    /* objects that are none */
    { TALK("<call>" NAME ":" ITEMS(" \"{{ k }}\": {{ v | tojson }}") "</call>"), "none" },
    { TALK("<call>" NAME ITEMS(" \"{{ k }}\": {{ v | tojson }}") "</call>"), "none" },
    { TALK("<call>" NAME ":{ " ITEMS("\"{{ k }}\": {{ v }}, ") "}</call>"), "none" },
    { TALK("<call>" NAME ":{ " ITEMS(TYPE("\"{{ k }}\": {{ v | tojson }}", "")) "}</call>"),
      "none" },
    { TALK("<call>" NAME ":{ " ITEMS("\"{{ k }}\": " TYPE("{{ v | tojson }}, ", "1")) "}</call>"),
      "none" },
    { TALK("<call>" NAME ":{ " ITEMS("\"{{ k }}\": \"{{ v }}\", ") "}</call>"), "none" },
    { TURNS(SAID EACH("<call>" NAME
                      ":{ " ITEMS("\"{{ k }}\": " TYPE("{{ v | tojson }}, ", "{{ v }}")))),
      "none" },
    /* turns without calls that cannot be written, or not with their text */
    { TURNS("{% if m.role == 'assistant' and not m.tool_calls %}{{ raise_exception('no') }}{% "
            "endif %}" SAID EACH("<call>" NAME ":" OBJECT "</call>") "</s>"),
      "none" },
    { TURNS("{% if m.role == 'user' %}" SAID
            "{% endif %}" EACH("<call>" NAME ":" OBJECT "</call>")),
      "none" },
    { TURNS("{% if m.role == 'user' %}" SAID "\n{% elif m.tool_calls[0].id != 'weftcall1' %}" EACH(
          "<call>" NAME ":" OBJECT "</call>") "{% endif %}"),
      "none" },
    /* pairs */
    { TALK(F(PAIRS)), "pairs+ <f=|<f=|><p=|</p></f><f=|</p></f>|>|>|</p><p=|</p><|></f><f=|></f>" },
    { TALK("<f=" NAME ">" PAIRS), "pairs+ <f=|<f=|><p=|</p><f=|</p>|>|>|</p><p=|</p>|><f=|>" },
    { TALK("<f=" NAME ">" ITEMS("{{ k }}={{ v }}</p>") "</f>"),
      "pairs+ <f=|<f=|>|</p></f><f=|</p></f>|=|=|</p>|</p>|></f><f=|></f>" },
    { TURNS(SAID EACH("{% if not loop.first %}|{% endif %}<f=" NAME
                      ">" PAIRS) "{% if m.tool_calls %}</f>{% endif %}</s>"),
      "pairs+ <f=|<f=|><p=|</p>|<f=|</p></f>|>|>|</p><p=|</p>|>|<f=|></f>" },
    { TALK(F(ITEMS("<p={{ k }} s=" TYPE("true", "false") ">{{ v }}</p>"))),
      "pairs+ <f=|<f=|><p=|</p></f><f=|</p></f>| s=true>| s=false>|</p><p=|</p><|></f><f=|></f>" },
    { TALK(F(ITEMS("<p={{ k }} " TYPE("is true", "false") ">{{ v }}</p>"))), "none" },
    { TALK(F(ITEMS("<p={{ k }} " TYPE("true>", "false>>") "{{ v }}</p>"))), "none" },
    { TALK(F(ITEMS("<p={{ k }} " TYPE("a=true", "b=false") ">{{ v }}</p>"))), "none" },
    { TALK(F(ITEMS("<p={{ k }} " TYPE("true>", "false]") "{{ v }}</p>"))), "none" },
    { TALK(F(ITEMS("<p={{ k }} " TYPE("yes", "no") ">{{ v }}</p>"))), "none" },
    { TALK(FIRST(F(PAIRS), "")), "none" },
    { TALK(FIRST(F(PAIRS), F(""))), "none" },
    { TALK(FIRST(F(PAIRS) LONG, F(PAIRS))), "none" },
    { TALK(F(PAIRS) LONG), "none" },
    { TALK(F(ITEMS("<p={{ k }}>" LONG "{{ v }}</p>"))), "none" },
    { TALK(F(ITEMS("<p={{ k }}>" TYPE("{{ v }}", "") "</p>"))), "none" },
    { TALK("<f=" NAME " {{ 2 * loop.index }}>" PAIRS "</f>"), "none" },
    { TALK(F(ITEMS("<p={{ k }}>{{ v }}</p>" FIRST(".", ":")))), "none" },
    { TALK(F(ITEMS("{{ k }}={{ v }};"))), "none" },
    { TALK("{% if c.function.arguments %}" F(PAIRS) "{% endif %}"), "none" },
    { TALK("{% if c.function.arguments or c == m.tool_calls[0] %}" F(PAIRS) "{% endif %}"),
      "none" },
    { TALK(F(PAIRS) "{% if not c.function.arguments and c != m.tool_calls[0] %}" LONG
                    "{% endif %}"),
      "none" },
};

static void put_literal(char *to, const call_literal *l, bool first)
{
    size_t at = strlen(to);
    if (!first)
        to[at++] = '|';
    for (size_t i = 0; i < l->n; i++)
        to[at++] = (char)(l->at[i] == CALL_ID ? '$' : l->at[i] == CALL_NUMBER ? '#' : l->at[i]);
    to[at] = '\0';
}

static void describe_syntax(const call_syntax *s, char to[4096])
{
    const call_literal *const all[] = { &s->begin, &s->start,        &s->middle,   &s->between,
                                        &s->end,   &s->value[0],     &s->value[1], &s->next,
                                        &s->close, &s->none_between, &s->none_end };
    const bool json = s->form == CALLS_JSON;
    sprintf(to, "%s%s", json ? "json" : "pairs", s->several ? "+ " : " ");
    if (s->form == CALLS_NONE)
        strcpy(to, "none");
    for (size_t i = 0; s->form != CALLS_NONE && i < (json ? 5 : sizeof all / sizeof *all); i++)
        put_literal(to, all[i], i == 0);
}

static void own_templates(void **state)
{
    (void)state;
    int n_bad = 0;
    for (size_t i = 0; i < sizeof probed / sizeof *probed; i++) {
        host h;
        weft_error err = { 0 };
        char found[4096];
        host_plain(&h);
        chat c = { .path = "t", .source = probed[i].source, .n = strlen(probed[i].source) };
        if (chat_open(&c, &h.mem, &err) != WEFT_OK)
            fail_msg("%s: %s", probed[i].source, err.message);
        describe_syntax(&c.calls, found);
        chat_close(&c);
        if (strncmp(found, probed[i].syntax, strlen(probed[i].syntax)) != 0) {
            print_error("%s\nfound    %s\nexpected %s\n", probed[i].source, found,
                        probed[i].syntax);
            n_bad++;
        }
        assert_int_equal(h.mem.used, 0);
    }
    assert_int_equal(n_bad, 0);
}

/* A template that calls make endless is an error, and one without memory. */
static void probing_fails(void **state)
{
    (void)state;
    static const char endless[] = TALK(
        "{% if c.id == 'weftcall1' %}{% for i in range(100000) %}{% for j in range(100000) %}"
        "x{% endfor %}{% endfor %}{% endif %}<call>" NAME ":" OBJECT);
    host h;
    weft_error err = { 0 };
    host_plain(&h);
    chat c = { .path = "t", .source = endless, .n = strlen(endless) };
    assert_int_equal(chat_open(&c, &h.mem, &err), WEFT_ELIMIT);
    chat_close(&c);
    assert_int_equal(h.mem.used, 0);
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

/* With places that change, and words for types. */
static const call_syntax counted = {
    .form = CALLS_JSON,
    .begin = LITERAL("<call \1:\2>"),
    .start = LITERAL("<call "),
    .middle = LITERAL("="),
    .end = LITERAL("</call>"),
};

static const call_syntax typed = {
    .form = CALLS_PAIRS,
    .several = true,
    .begin = LITERAL("<f="),
    .start = LITERAL("<f="),
    .middle = LITERAL("><p="),
    .between = LITERAL("</p></f><f="),
    .end = LITERAL("</p></f>"),
    .value = { LITERAL(" string=true>"), LITERAL(" string=false>") },
    .next = LITERAL("</p><p="),
    .close = LITERAL("</p>"),
    .none_between = LITERAL("></f><f="),
    .none_end = LITERAL("></f>"),
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
    { &coder, "<call><f=g><p=s>a</p><p=", "", "g{\"s\": \"a\";" }, /* cut before a key, */
    { &coder, "<call><f=g><p=s", "s", "g;" },                      /* in it, */
    { &coder, "<call><f=g><p=s>", "", "g;" },                      /* and before a value */
    { &coder, "<call><f=g><p=>a</p></f></call>", ">a</p></f></call>", "g;" },
    { &coder, "<call><f=></f></call>", "<call><f=></f></call>", "" },
    { &hermes, "<call>{\"name\": \"\", \"arguments\": {}}</call>",
      "<call>{\"name\": \"\", \"arguments\": {}}</call>", "" },
    { &counted, "<call a-_9:12>f={}</call>", "", "f{};" },
    { &counted, "<call a:b>f={}</call>", "<call a:b>f={}</call>", "" },
    { &counted, "<call :1>f={}</call>", "<call :1>f={}</call>", "" },
    { &counted, "<call a:1>f={}</call><call b:2>g={}</call>", "", "f{};g{};" },
    { &typed, "<f=g><p=s string=false>17</p><p=n string=true>17</p></f>", "",
      "g{\"s\": 17, \"n\": \"17\"};" },
    { &typed, "<f=g><p=s string=maybe>17</p></f>", "s string=maybe>17</p></f>", "g;" },
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

/* `head`, n letters and `tail` */
static told read_long(const call_syntax *s, const char *head, size_t n, const char *tail)
{
    char text[1024];
    size_t at = (size_t)snprintf(text, sizeof text, "%s", head);
    memset(text + at, 'k', n);
    at += n;
    at += (size_t)snprintf(text + at, sizeof text - at, "%s", tail);
    return read_text(s, text, at, 7);
}

/* Names of 127 bytes and keys of 255 are read, longer ones are not, nor any with a zero byte. */
static void long_names(void **state)
{
    (void)state;
    static const char zero_name[] = "<call><f=a\0b></f></call>";
    static const char zero_key[] = "<call><f=a><p=b\0c>d</p></f></call>";
    told t = read_long(&coder, "<call><f=", 127, "></f></call>");
    assert_true(strlen(t.calls) == 127 + strlen("{};") && t.text[0] == '\0');
    t = read_long(&coder, "<call><f=", 128, "></f></call>");
    assert_true(t.calls[0] == '\0' && strlen(t.text) == 128 + strlen("<call><f=></f></call>"));
    t = read_long(&coder, "<call><f=g><p=", 255, ">a</p></f></call>");
    assert_true(strlen(t.calls) == 255 + strlen("g{\"\": \"a\"};") && t.text[0] == '\0');
    t = read_long(&coder, "<call><f=g><p=", 256, ">a</p></f></call>");
    assert_string_equal(t.calls, "g;");
    t = read_text(&coder, zero_name, sizeof zero_name - 1, 7);
    assert_string_equal(t.calls, "");
    t = read_text(&coder, zero_key, sizeof zero_key - 1, 7);
    assert_string_equal(t.calls, "a;");
}

/* Every allocation fails once: the reader says so, and tells nothing that is not so. */
static void reading_without_memory(void **state)
{
    (void)state;
    static const char text[] = "some text <call><f=g><p=s>a</p><p=n>[17, 18]</p></f></call>";
    static const char all[] = "g{\"s\": \"a\", \"n\": [17, 18]};";
    int64_t n = 0;
    for (bool good = false; !good; n++) {
        faults memory = { .fail_at = n + 1 };
        host h;
        weft_error err = { 0 };
        call_reader r;
        told t = { 0 };
        host_faulty(&h, &memory, NULL);
        calls_read_begin(&r, &coder, hear, is_string, &t, &h.mem, &err);
        good = calls_read(&r, text, 30) && calls_read(&r, text + 30, sizeof text - 1 - 30) &&
               calls_read_end(&r);
        calls_read_free(&r);
        assert_int_equal(good ? WEFT_OK : WEFT_ENOMEM, err.code);
        assert_int_equal(memory.live, 0);
        if (good)
            assert_string_equal(t.calls, all);
    }
    assert_true(n > 3);
}

/* Without types, a value that is JSON is what it is, and any other is a string. */
static void without_types(void **state)
{
    (void)state;
    static const char text[] = "<call><f=g><p=s>17</p><p=n>x</p></f></call>";
    host h;
    weft_error err = { 0 };
    call_reader r;
    told t = { 0 };
    host_plain(&h);
    calls_read_begin(&r, &coder, hear, NULL, &t, &h.mem, &err);
    assert_true(calls_read(&r, text, sizeof text - 1) && calls_read_end(&r));
    calls_read_free(&r);
    assert_string_equal(t.calls, "g{\"s\": 17, \"n\": \"x\"};");
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

/* Without parameters, and an argument of each kind. */
static const char all_kinds[] =
    "[{\"function\": {\"name\": \"now\"}}, {\"function\": {\"name\": \"nil\", \"parameters\": "
    "null}}, {\"function\": {\"name\": \"k\", \"parameters\": {\"type\": \"object\", "
    "\"properties\": {\"any\": {}, \"yes\": true, \"text\": {\"type\": \"string\"}, \"texts\": "
    "{\"type\": [\"null\", \"string\"]}, \"zero\": {\"enum\": [\"a\\u0000b\"]}, \"numbers\": "
    "{\"type\": [\"integer\", \"null\"]}, \"mixed\": {\"enum\": [\"a\", "
    "1]}, "
    "\"const\": {\"const\": 1}, \"either\": {\"anyOf\": [{\"type\": \"integer\"}]}, \"flag\": "
    "{\"type\": \"boolean\"}}, \"required\": [\"none\"]}}}]";

static void kinds(void **state)
{
    (void)state;
    static const char odd[] = "[{\"function\": {\"name\": \"k\", \"parameters\": {\"properties\": "
                              "{\"odd\": {\"type\": [1]}}}}}]";
    static const char *const strings[] = { "any", "yes", "text", "texts", "zero" };
    static const char *const others[] = { "numbers", "mixed", "const", "either", "flag", "none" };
    tool_list tools_in;
    mem m;
    weft_error err = { 0 };
    mem_init(&m, 0, NULL);
    assert_int_equal(tools_read(&tools_in, all_kinds, strlen(all_kinds), &m, &err), WEFT_OK);
    for (size_t i = 0; i < sizeof strings / sizeof *strings; i++)
        assert_that(tools_is_string(&tools_in, "k", strings[i]), "%s is no string", strings[i]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_that(!tools_is_string(&tools_in, "k", others[i]), "%s is a string", others[i]);
    assert_false(tools_is_string(&tools_in, "now", "text"));
    assert_false(tools_is_string(&tools_in, "unknown", "text"));
    tools_free(&tools_in);
    assert_int_equal(tools_read(&tools_in, odd, strlen(odd), &m, &err), WEFT_OK);
    assert_false(tools_is_string(&tools_in, "k", "odd"));
    tools_free(&tools_in);
    assert_int_equal(m.used, 0);
}

static const struct {
    const call_syntax *syntax;
    const char *text;
    size_t n; /* bytes, or 0: a string */
    bool good;
} kinds_judged[] = {
    { &coder, "<call><f=now></f></call>", 0, true },
    { &coder, "<call><f=now><p=", 0, false },
    { &coder, "<call><f=nil></f><f=now></f></call>", 0, true },
    { &hermes, "<call>{\"name\": \"now\", \"arguments\": {}}</call>", 0, true },
    { &hermes, "<call>{\"name\": \"now\", \"arguments\": []}</call>", 0, false },
    { &coder, "<call><f=k><p=texts>null and void</p></f></call>", 0, true },
    { &coder, "<call><f=k><p=numbers>5</p></f></call>", 0, true },
    { &coder, "<call><f=k><p=numbers>null</p></f></call>", 0, true },
    { &coder, "<call><f=k><p=numbers>five</p></f></call>", 0, false },
    { &coder, "<call><f=k><p=zero>a\0b</p></f></call>", 37, true },
    { &coder, "<call><f=k><p=zero>a</p></f></call>", 0, false },
    { &coder, "<call><f=k><p=flag>true</p></f></call>", 0, true },
    { &coder, "<call><f=k><p=flag>\"true\"</p></f></call>", 0, false },
    { &counted, "<call abcdefgh9:1234>now={}</call>", 0, true },
    { &counted, "<call abcdefgh:1>now={}</call>", 0, false },
    { &counted, "<call abcdefghij:1>now={}</call>", 0, false },
    { &counted, "<call abcdefgh_:1>now={}</call>", 0, false },
    { &counted, "<call abcdefgh9:12345>now={}</call>", 0, false },
    { &counted, "<call abcdefgh9:1>now={}</call><call abcdefgh9:2>now={}</call>", 0, false },
};

static void all_kinds_judged(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof kinds_judged / sizeof *kinds_judged; i++) {
        judge j;
        bool whole = false;
        const char *text = kinds_judged[i].text;
        const size_t n = kinds_judged[i].n ? kinds_judged[i].n : strlen(text);
        judge_begin(&j, kinds_judged[i].syntax, all_kinds, &(tool_rules){ 0 }, false);
        assert_that((matched(&j, text, n, &whole) == n && whole) == kinds_judged[i].good,
                    "%s is %s", text, kinds_judged[i].good ? "refused" : "accepted");
        judge_end(&j);
    }
}

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
    { "{\"a\":1}", "tools: found an object, expected a list of 1 to 256 tools" },
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

/* A list of n tools with names of `length` letters. */
static weft_status read_many(int n, int length, weft_error *err)
{
    mem m;
    tool_list tools_in;
    char *text = malloc((size_t)n * ((size_t)length + 40) + 8), *to = text;
    assert_non_null(text);
    mem_init(&m, 0, NULL);
    for (int i = 0; i < n; i++)
        to += sprintf(to, "%c{\"function\":{\"name\":\"%0*d\"}}", i ? ',' : '[', length, i);
    to += sprintf(to, "]");
    *err = (weft_error){ 0 };
    const weft_status status = tools_read(&tools_in, text, (size_t)(to - text), &m, err);
    if (status == WEFT_OK) {
        assert_int_equal(tools_in.n, n);
        tools_free(&tools_in);
    }
    free(text);
    assert_int_equal(m.used, 0);
    return status;
}

static void bounds_of_lists(void **state)
{
    (void)state;
    weft_error err;
    mem m;
    tool_list tools_in;
    assert_int_equal(read_many(256, 3, &err), WEFT_OK);
    assert_int_equal(read_many(257, 3, &err), WEFT_EINVAL);
    assert_string_equal(err.message, "tools: found 257, expected 1 to 256");
    assert_int_equal(read_many(2, 127, &err), WEFT_OK);
    assert_int_equal(read_many(2, 128, &err), WEFT_EINVAL);
    assert_string_equal(err.message, "tools[0].function.name: expected 1 to 127 letters, digits, "
                                     "'_', '-', '.' or ':'");
    char *text = malloc(MAX_TOOLS_TEXT + 1);
    assert_non_null(text);
    memset(text, ' ', MAX_TOOLS_TEXT + 1);
    memcpy(text, all_kinds, strlen(all_kinds));
    mem_init(&m, 0, NULL);
    assert_int_equal(tools_read(&tools_in, text, MAX_TOOLS_TEXT, &m, &err), WEFT_OK);
    tools_free(&tools_in);
    assert_int_equal(tools_read(&tools_in, text, MAX_TOOLS_TEXT + 1, &m, &err), WEFT_ELIMIT);
    assert_string_equal(err.message, "tools: 1048577 bytes, expected at most 1048576");
    free(text);
    assert_int_equal(m.used, 0);
}

/* Tools that are good, but of which no grammar can be made. */
static void no_grammar(void **state)
{
    (void)state;
    static const call_syntax none;
    static const struct {
        const call_syntax *syntax;
        const char *tools;
        tool_rules rules;
        weft_status code;
        const char *why;
    } bad[] = {
        { &none,
          all_kinds,
          { 0 },
          WEFT_EUNSUPPORTED,
          "this template writes calls of tools in a form that weft does not know" },
        { &hermes,
          all_kinds,
          { .only = "then" },
          WEFT_EINVAL,
          "tool_choice: no tool is called then" },
        { &hermes,
          "[{\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"widget\"}}}]",
          { 0 },
          WEFT_EFORMAT,
          "the parameters of f: schema: /type: " },
        { &coder,
          "[{\"function\":{\"name\":\"f\",\"strict\":true,\"parameters\":{\"properties\":{\"a\":{ "
          "\"not\":{},\"type\":\"number\"}}}}}]",
          { 0 },
          WEFT_EUNSUPPORTED,
          "the parameters of f: schema: /not: " },
        { &hermes,
          "[{\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"string\",\"enum\":[1]}}}]",
          { .required = true },
          WEFT_EINVAL,
          "no text" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        static const tokenizer plain;
        mem m;
        tool_list tools_in;
        weft_error err = { 0 };
        mem_init(&m, 0, NULL);
        assert_int_equal(tools_read(&tools_in, bad[i].tools, strlen(bad[i].tools), &m, &err),
                         WEFT_OK);
        assert_null(tools_grammar(&tools_in, bad[i].syntax, &plain, &bad[i].rules, &m, &err));
        tools_free(&tools_in);
        assert_that(err.code == bad[i].code && strstr(err.message, bad[i].why),
                    "%d %s; expected %s", (int)err.code, err.message, bad[i].why);
        assert_int_equal(m.used, 0);
    }
}

/* ---- special tokens -------------------------------------------------------------------------- */

/* Ids are places in the file. <c is special too, // is added and is not. */
static const char special_json[] =
    "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"<\":0,\"c\":1,\">\":2,\":\":3,\"{\":4,\"}\":5,\"f\":"
    "6,\"/\":7,\"<c\":8,\"<c>\":9,\"</c>\":10,\"//\":11},\"merges\":[]},\"added_tokens\":["
#define ADDED(id, content, special)                                                                \
    "{\"id\":" id ",\"content\":\"" content "\",\"special\":" special                              \
    ",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false}"
    ADDED("9", "<c>", "true") "," ADDED("8", "<c", "true") "," ADDED(
        "10", "</c>", "true") "," ADDED("11", "//", "false") "]}";

static void special_tokens(void **state)
{
    (void)state;
    static const call_syntax tags = {
        .form = CALLS_JSON,
        .several = true,
        .begin = LITERAL("<c>"),
        .start = LITERAL("<c>"),
        .middle = LITERAL(":"),
        .between = LITERAL("</c>//<c>"),
        .end = LITERAL("</c>"),
    };
    static const char one[] = "[{\"function\":{\"name\":\"f\"}}]";
    static const int32_t end = 10;
    /* a whole call; spelled; as pieces; with a further one; cut short where the end ends the text */
    static const struct {
        int32_t ids[13];
        int n, n_end, n_good;
        bool whole;
    } texts[] = {
        { { 9, 6, 3, 4, 5, 10 }, 6, 0, 6, true },
        { { 9, 6, 3, 4, 5, 0, 7 }, 7, 0, 5, false },
        { { 0, 1, 2 }, 3, 0, 2, true },
        { { 8, 2 }, 2, 0, 0, true },
        { { 9, 6, 3, 4, 5, 10, 7, 7, 9, 6, 3, 4, 5 }, 13, 0, 13, false },
        { { 9, 6, 3, 4, 5, 10 }, 6, 1, 6, true },
        { { 9, 6, 3, 4, 5 }, 5, 1, 5, true },
        { { 9, 6, 3, 4, 5, 7 }, 6, 1, 5, true },
    };
    const char *path = temp_file("tokenizer.json", special_json, strlen(special_json));
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        host h;
        tokenizer t;
        token_trie pieces;
        tool_list tools_in;
        weft_error err = { 0 };
        host_plain(&h);
        assert_int_equal(tokenizer_load(&t, path, NULL, WEFT_LOAD_COPY, &h, &err), WEFT_OK);
        assert_int_equal(token_trie_init(&pieces, &t, &h.mem, &err), WEFT_OK);
        assert_int_equal(tools_read(&tools_in, one, strlen(one), &h.mem, &err), WEFT_OK);
        const tool_rules rules = { .ends = &end, .n_end = texts[i].n_end };
        grammar *g = tools_grammar(&tools_in, &tags, &t, &rules, &h.mem, &err);
        constraint_set *set = constraint_set_new(&h.mem, g, &pieces, &end, texts[i].n_end, &err);
        constraint *c = constraint_new(set, &err);
        assert_non_null(c);
        int n = 0;
        while (n < texts[i].n && constraint_accept(c, texts[i].ids[n], &err) == WEFT_OK)
            n++;
        assert_that(n == texts[i].n_good && constraint_may_end(c) == texts[i].whole,
                    "text %zu: %d tokens, %s", i, n, constraint_may_end(c) ? "whole" : "open");
        constraint_free(c);
        constraint_set_free(set);
        tools_free(&tools_in);
        token_trie_free(&pieces);
        tokenizer_free(&t);
        assert_int_equal(h.mem.used, 0);
    }
}

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
    static const char *const texts[] = { two_tools, all_kinds };
    for (int which = 0; which < 4; which++) {
        const char *text = texts[which / 2];
        int64_t n = 0;
        for (bool good = false; !good; n++) {
            static const tokenizer plain;
            faults memory = { .fail_at = n + 1 };
            host h;
            weft_error err = { 0 };
            tool_list tools_in;
            grammar *g = NULL;
            host_faulty(&h, &memory, NULL);
            if (tools_read(&tools_in, text, strlen(text), &h.mem, &err) == WEFT_OK) {
                g = tools_grammar(&tools_in, which % 2 ? &coder : &hermes, &plain,
                                  &(tool_rules){ 0 }, &h.mem, &err);
                tools_free(&tools_in);
            }
            good = g != NULL;
            grammar_free(g);
            assert_that(err.code == (good ? WEFT_OK : WEFT_ENOMEM), "allocation %lld: %d: %s",
                        (long long)n, (int)err.code, err.message);
            assert_int_equal(memory.live, 0);
        }
        assert_true(n > 20);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("calls: what templates of real models write is read back, and matched",
             real_templates),
        TEST("calls: what is learned from templates, literal by literal", own_templates),
        TEST("calls: a template that calls make endless is an error", probing_fails),
        TEST("calls: text around calls, and what only looks like one, is text", own_syntax),
        TEST("calls: long names, and names with zero bytes", long_names),
        TEST("calls: values without types", without_types),
        TEST("calls: a reader without memory says so", reading_without_memory),
        TEST("calls: a grammar has the tools' names and arguments, and nothing else", own_grammar),
        TEST("calls: which arguments are strings", kinds),
        TEST("calls: arguments of every kind, and none", all_kinds_judged),
        TEST("calls: special tokens of a syntax are tokens, and may end the text", special_tokens),
        TEST("calls: tools without a grammar say why", no_grammar),
        TEST("calls: lists of tools at their bounds", bounds_of_lists),
        TEST("calls: a list of tools that is wrong says where", lists),
        TEST("calls: tools without memory are an error", without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
