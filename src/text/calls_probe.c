/* calls_probe.c - learns how a template writes calls of tools; see calls.h. */
#include "text/calls.h"

#include <ctype.h>
#include <string.h>

#define USER        "{\"role\":\"user\",\"content\":\"WEFTUSER\"}"
#define CALLS(list) "[" USER ",{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[" list "]}]"
#define CALL(id, name, arguments)                                                                  \
    "{\"id\":\"" id "\",\"type\":\"function\",\"function\":{\"name\":\"" name "\",\"arguments\":"  \
    "{" arguments "}}}"
#define PAIR "\"WEFTKEY\":\"WEFTVALUE\",\"WEFTNUMBER\":17"
#define ID1  "weftcall1"
#define ID2  "weftcall2"
#define TOOLS                                                                                      \
    "[{\"type\":\"function\",\"function\":{\"name\":\"WEFTTOOL\",\"description\":\"d\","           \
    "\"parameters\":{\"type\":\"object\",\"properties\":{\"WEFTARG\":{\"type\":\"string\","        \
    "\"description\":\"d\"}},\"required\":[\"WEFTARG\"]}}}]"
#define LONGEST_START 60 /* of thinking, at the end of a generation prompt */

/* What is being cut; `at` comes after the generation prompt. */
typedef struct cut {
    chat *chat;
    const char *text;
    size_t n, at;
    weft_error *err;
} cut;

/* ---- rendering ------------------------------------------------------------------------------- */

/* An error of memory or of a limit is the caller's; all others mean that it cannot be rendered. */
static bool render(const chat *c, const char *messages, bool prompt, chat_text *t, weft_error *err)
{
    weft_error why = { 0 };
    const chat_options o = {
        .tools = TOOLS, .bos = "", .eos = "", .now = 1, .no_generation_prompt = !prompt
    };
    if (chat_text_render(c, messages, strlen(messages), &o, t, &why) == WEFT_OK)
        return true;
    chat_text_free(t);
    if (why.code == WEFT_ENOMEM || why.code == WEFT_ELIMIT)
        *err = why;
    return false;
}

static size_t find(const char *text, size_t n, size_t from, const char *what)
{
    const char *at = from <= n ? memmem(text + from, n - from, what, strlen(what)) : NULL;
    return at ? (size_t)(at - text) : SIZE_MAX;
}

/* If `at` is inside of a tag, where that begins. */
static size_t tag_begin(const char *text, size_t at)
{
    for (size_t i = at; i > 0 && text[i - 1] != '>' && at - i < 40; i--)
        if (text[i - 1] == '<')
            return i - 1;
    return at;
}

/* Where the assistant's own text begins: behind the generation prompt, and behind thinking. SIZE_MAX
 * if calls do not follow that prompt. */
static size_t own_text(const chat *c, const chat_text *t, const chat_text *prompt)
{
    size_t at = 0;
    while (at < t->out.n && at < prompt->out.n && t->out.text[at] == prompt->out.text[at])
        at++;
    if (prompt->out.n - at > LONGEST_START)
        return SIZE_MAX;
    if (at < prompt->out.n) /* it begins to think; tags may begin alike */
        at = tag_begin(t->out.text, at);
    const size_t user = find(t->out.text, t->out.n, 0, "WEFTUSER");
    const size_t name = find(t->out.text, t->out.n, user == SIZE_MAX ? 0 : user, "WEFTNAME");
    const size_t fence = c->think_end && user != SIZE_MAX
                             ? find(t->out.text, t->out.n, user, c->think_end)
                             : SIZE_MAX;
    if (fence != SIZE_MAX && fence < name && fence + strlen(c->think_end) > at)
        at = fence + strlen(c->think_end);
    while (at < t->out.n && isspace((unsigned char)t->out.text[at]))
        at++;
    return at;
}

/* ---- literals -------------------------------------------------------------------------------- */

/* A copy of text[from, to), with ids as holes; false if it cannot be a literal. */
static bool keep(cut *c, size_t from, size_t to, call_literal *l)
{
    char text[LONGEST_LITERAL];
    size_t n = 0;
    if (from > to || to - from > sizeof text)
        return false;
    for (size_t i = from; i < to;) {
        const bool id = to - i >= strlen(ID1) && (memcmp(c->text + i, ID1, strlen(ID1)) == 0 ||
                                                  memcmp(c->text + i, ID2, strlen(ID2)) == 0);
        text[n] = id ? CALL_ID : c->text[i];
        if (!id && (text[n] == CALL_ID || text[n] == CALL_NUMBER || text[n] == '\\'))
            return false; /* a backslash: JSON inside of JSON */
        n++;
        i += id ? strlen(ID1) : 1;
    }
    if (find(text, n, 0, "WEFT") != SIZE_MAX)
        return false; /* the name is there twice */
    l->at = arena_text(&c->chat->literals, text, n, c->err);
    l->n = n;
    return l->at != NULL;
}

/* The text up to `mark` as a literal, and behind the mark. */
static bool keep_to(cut *c, const char *mark, call_literal *l)
{
    const size_t to = find(c->text, c->n, c->at, mark);
    if (to == SIZE_MAX || !keep(c, c->at, to, l))
        return false;
    c->at = to + strlen(mark);
    return true;
}

static bool same(const call_literal *a, const call_literal *b)
{
    return a->n == b->n && memcmp(a->at, b->at, a->n) == 0;
}

/* Where two calls count, their literals differ in one digit, counted from the end: it becomes a
 * hole. Compares as much as both have. */
static void find_number(call_literal *a, call_literal *b)
{
    for (size_t i = 1; i <= a->n && i <= b->n; i++) {
        char *x = (char *)a->at + a->n - i, *y = (char *)b->at + b->n - i;
        if (*x == *y)
            continue;
        if (isdigit((unsigned char)*x) && *y == *x + 1)
            *x = *y = CALL_NUMBER;
        return;
    }
}

/* Where text[from, n) ends like `turn`: at the beginning of a tag, if that has any. */
static size_t turn_end(const char *text, size_t from, size_t n, const char *turn, size_t n_turn)
{
    size_t to = n, tag = n;
    for (size_t i = 1; i <= n_turn && n - i >= from && text[n - i] == turn[n_turn - i]; i++) {
        to = n - i;
        tag = strchr("<[", text[to]) ? to : tag;
    }
    return tag < n ? tag : n - to == n_turn ? to : n;
}

/* Behind the arguments of the last call, up to what ends every turn. */
static bool keep_end(cut *c, call_literal *l)
{
    static const char said[] = "[" USER ",{\"role\":\"assistant\",\"content\":\"WEFTSAID\"}]";
    chat_text t;
    if (!render(c->chat, said, false, &t, c->err))
        return false;
    size_t from = find(t.out.text, t.out.n, 0, "WEFTSAID"), to = c->n;
    if (from != SIZE_MAX) {
        from += strlen("WEFTSAID");
        to = turn_end(c->text, c->at, c->n, t.out.text + from, t.out.n - from);
    }
    chat_text_free(&t);
    while (to > c->at && isspace((unsigned char)c->text[to - 1]))
        to--;
    return from != SIZE_MAX && keep(c, c->at, to, l);
}

/* ---- the two forms --------------------------------------------------------------------------- */

/* Goes over {"WEFTKEY": "WEFTVALUE", "WEFTNUMBER": 17} in any spacing; what was before it is the
 * literal. */
static bool over_object(cut *c, call_literal *l)
{
    const size_t key = find(c->text, c->n, c->at, "\"WEFTKEY\"");
    size_t open = key;
    while (open != SIZE_MAX && open > c->at && isspace((unsigned char)c->text[open - 1]))
        open--;
    if (key == SIZE_MAX || open == c->at || c->text[open - 1] != '{' ||
        !keep(c, c->at, open - 1, l))
        return false;
    size_t at = find(c->text, c->n, key, "\"WEFTVALUE\"");
    at = at == SIZE_MAX ? at : find(c->text, c->n, at, "\"WEFTNUMBER\"");
    at = at == SIZE_MAX ? at : find(c->text, c->n, at, "17");
    if (at == SIZE_MAX)
        return false;
    for (at += 2; at < c->n && isspace((unsigned char)c->text[at]);)
        at++;
    if (at == c->n || c->text[at] != '}')
        return false;
    c->at = at + 1;
    return true;
}

static bool cut_json(cut *c, call_syntax *s)
{
    call_literal middle;
    if (!keep_to(c, "WEFTNAME", &s->begin) || !over_object(c, &s->middle))
        return false;
    s->several = find(c->text, c->n, c->at, "WEFTOTHER") != SIZE_MAX;
    if (s->several) {
        if (!keep_to(c, "WEFTOTHER", &s->between) || !over_object(c, &middle))
            return false;
        find_number(&s->begin, &s->between);
        find_number(&s->middle, &middle);
        if (!same(&s->middle, &middle))
            return false;
    }
    return keep_end(c, &s->end);
}

/* KEY value VALUE next KEY value NUMBER */
static bool over_pairs(cut *c, call_literal *middle, call_syntax *s)
{
    return keep_to(c, "WEFTKEY", middle) && keep_to(c, "WEFTVALUE", &s->value[0]) &&
           keep_to(c, "WEFTNUMBER", &s->next) && keep_to(c, "17", &s->value[1]);
}

/* value[0] and value[1] are the same, or say that one is a string and the other is not. */
static bool types_are_clear(const call_syntax *s)
{
    const call_literal *a = &s->value[0], *b = &s->value[1];
    const size_t yes = find(a->at, a->n, 0, "true"), no = find(b->at, b->n, 0, "false");
    if (same(a, b))
        return true;
    return yes != SIZE_MAX && yes == no && a->n + 1 == b->n && memcmp(a->at, b->at, yes) == 0 &&
           memcmp(a->at + yes + 4, b->at + yes + 5, a->n - yes - 4) == 0;
}

static size_t common(const call_literal *a, const call_literal *b)
{
    size_t n = 0;
    while (n < a->n && n < b->n && a->at[n] == b->at[n])
        n++;
    return n;
}

static bool cut_pairs(cut *c, call_syntax *s)
{
    call_syntax other = { 0 };
    if (!keep_to(c, "WEFTNAME", &s->begin) || !over_pairs(c, &s->middle, s))
        return false;
    s->several = find(c->text, c->n, c->at, "WEFTOTHER") != SIZE_MAX;
    if (!s->several || !keep_to(c, "WEFTOTHER", &s->between) ||
        !over_pairs(c, &other.middle, &other) || !keep_end(c, &s->end))
        return false;
    find_number(&s->begin, &s->between);
    find_number(&s->middle, &other.middle);
    size_t n = common(&s->next, &s->between), m = common(&s->next, &s->end);
    s->close = (call_literal){ s->next.at, n < m ? n : m };
    return same(&s->middle, &other.middle) && same(&s->next, &other.next) && types_are_clear(s) &&
           memchr(s->close.at, '<', s->close.n) != NULL;
}

/* Calls without arguments: from the name to the next, and to the end. */
static bool cut_none(cut *c, call_syntax *s)
{
    call_literal begin;
    return keep_to(c, "WEFTNAME", &begin) && keep_to(c, "WEFTOTHER", &s->none_between) &&
           keep_end(c, &s->none_end);
}

/* ---- all of it ------------------------------------------------------------------------------- */

typedef bool cut_fn(cut *c, call_syntax *s);

/* Renders and cuts; false, and s is as before, if that does not work. */
static bool try_form(chat *c, const char *messages, cut_fn *fn, call_syntax *s, weft_error *err)
{
    chat_text prompt, t;
    if (err->code || !render(c, "[" USER "]", true, &prompt, err))
        return false;
    bool good = render(c, messages, false, &t, err);
    if (good) {
        call_syntax more = *s;
        cut at = { c, t.out.text, t.out.n, own_text(c, &t, &prompt), err };
        good = at.at != SIZE_MAX && fn(&at, &more);
        *s = good ? more : *s;
        chat_text_free(&t);
    }
    chat_text_free(&prompt);
    return good;
}

/* The part of `begin` that is a tag, or all of it if it begins with none. */
static void find_start(call_syntax *s)
{
    const char first = s->begin.n > 0 ? s->begin.at[0] : 0;
    const char *end = first == '<'   ? memchr(s->begin.at, '>', s->begin.n)
                      : first == '[' ? memchr(s->begin.at, ']', s->begin.n)
                                     : NULL;
    s->start = s->begin;
    if (end)
        s->start.n = (size_t)(end - s->begin.at) + 1;
}

weft_status calls_probe(chat *c, weft_error *err)
{
    static const char one[] = CALLS(CALL(ID1, "WEFTNAME", PAIR));
    static const char two[] = CALLS(CALL(ID1, "WEFTNAME", PAIR) "," CALL(ID2, "WEFTOTHER", PAIR));
    static const char none[] = CALLS(CALL(ID1, "WEFTNAME", "") "," CALL(ID2, "WEFTOTHER", ""));
    call_syntax s = { 0 };
    if (arena_init(&c->literals, ARENA_GROWING, c->mem, 0, "a template", err) != WEFT_OK)
        return err->code;
    if (try_form(c, two, cut_json, &s, err) || try_form(c, one, cut_json, &s, err))
        s.form = CALLS_JSON;
    else if (try_form(c, two, cut_pairs, &s, err) && try_form(c, none, cut_none, &s, err))
        s.form = CALLS_PAIRS;
    find_start(&s);
    if (s.form != CALLS_NONE && s.start.n >= 2)
        c->calls = s;
    return err->code;
}
