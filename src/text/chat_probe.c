/* chat_probe.c - what a template accepts, found by rendering small conversations with it: a
 * placeholder that appears in the output was understood, one that does not, or an error, was not. */
#include "text/calls.h"

#include <string.h>

#define USER "{\"role\":\"user\",\"content\":\"WEFTUSER\"}"
#define CALLING                                                                                    \
    "{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":\"abcdefghi\",\"type\":"     \
    "\"function\",\"function\":{\"name\":\"WEFTNAME\",\"arguments\":"
#define TOOL                                                                                       \
    "[{\"type\":\"function\",\"function\":{\"name\":\"WEFTTOOL\",\"description\":\"d\","           \
    "\"parameters\":{\"type\":\"object\",\"properties\":{\"WEFTKEY\":{\"type\":\"string\","        \
    "\"description\":\"d\"}},\"required\":[\"WEFTKEY\"]}}}]"

/* Strings around thinking, as the templates of known models write them. */
static const char *const fences[][2] = {
    { "<think>", "</think>" },
    { "<seed:think>", "</seed:think>" },
    { "[THINK]", "[/THINK]" },
    { "<|START_THINKING|>", "<|END_THINKING|>" },
    { "<thinking>", "</thinking>" },
    { "<|inner_prefix|>", "<|inner_suffix|>" },
    { "<|channel>thought", "<channel|>" },
};

static bool contains(const char *text, size_t n, const char *what)
{
    return memmem(text, n, what, strlen(what)) != NULL;
}

/* Renders, and looks for one string that must be there and one that must not (NULL: any). An error
 * of memory or of a limit is the caller's; all others mean no. After one, err is set, and all
 * further answers are no. */
static bool writes(const chat *c, const char *messages, const char *tools, const char *must,
                   const char *must_not, weft_error *err)
{
    chat_text t;
    weft_error why = { 0 };
    const chat_options o = { .tools = tools, .bos = "", .eos = "", .now = 1, .as_given = true };
    if (err->code)
        return false;
    const bool good = chat_text_render(c, messages, strlen(messages), &o, &t, &why) == WEFT_OK &&
                      contains(t.out.text, t.out.n, must) &&
                      !(must_not && contains(t.out.text, t.out.n, must_not));
    chat_text_free(&t);
    if (why.code == WEFT_ENOMEM || why.code == WEFT_ELIMIT)
        *err = why;
    return good;
}

static void find_fence(chat *c)
{
    c->thinking = contains(c->source, c->n, "enable_thinking");
    for (size_t i = 0; i < sizeof fences / sizeof *fences && !c->think_begin; i++)
        if (contains(c->source, c->n, fences[i][0]) && contains(c->source, c->n, fences[i][1])) {
            c->think_begin = fences[i][0];
            c->think_end = fences[i][1];
        }
}

weft_status chat_open(chat *c, mem *m, weft_error *err)
{
    c->mem = m;
    c->program = jinja_compile(c->source, c->n, c->path, m, err);
    if (!c->program)
        return err->code;
    c->strings = writes(c, "[" USER "]", NULL, "WEFTUSER", NULL, err);
    c->parts = writes(
        c, "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"WEFTUSER\"}]}]", NULL,
        "WEFTUSER", "'type'", err);
    c->system = writes(c, "[{\"role\":\"system\",\"content\":\"WEFTSYSTEM\"}," USER "]", NULL,
                       "WEFTSYSTEM", NULL, err);
    c->tools = writes(c, "[" USER "]", TOOL, "WEFTTOOL", NULL, err);
    c->arguments = writes(c, "[" USER "," CALLING "{\"WEFTKEY\":\"WEFTVALUE\"}}}]}]", TOOL,
                          "WEFTVALUE", NULL, err);
    c->argument_strings = writes(
        c, "[" USER "," CALLING "\"{\\\"WEFTKEY\\\":\\\"WEFTVALUE\\\"}\"}}]}]", TOOL,
        "\"WEFTVALUE\"", NULL, err);
    find_fence(c);
    c->generation = contains(c->source, c->n, "endgeneration");
    if (!err->code && (c->arguments || c->argument_strings))
        calls_probe(c, err);
    if (err->code)
        chat_close(c);
    return err->code;
}

void chat_close(chat *c)
{
    jinja_free(c->program);
    c->program = NULL;
    arena_free(&c->literals);
}

/* ---- tokens that the template writes --------------------------------------------------------- */

/* Markup, not a run of spaces or a single letter that an innocent text also has. */
static bool is_markup(const char *s, size_t n)
{
    bool ink = false;
    for (size_t i = 0; i < n; i++)
        ink |= (uint8_t)s[i] > ' ';
    return n >= 3 && ink;
}

static bool add_gated(scratch *list, size_t *n, uint32_t id, mem *m, weft_error *err)
{
    int32_t *at = scratch_grow(list, (*n + 1) * sizeof *at, m, err);
    if (!at)
        return false;
    for (size_t i = 0; i < *n; i++)
        if (at[i] == (int32_t)id)
            return true;
    at[(*n)++] = (int32_t)id;
    return true;
}

static bool gate_added(const chat *c, const tokenizer *t, const added_set *set, scratch *list,
                       size_t *n, mem *m, weft_error *err)
{
    scratch room = { 0 };
    size_t at, length;
    uint32_t which;
    bool good = set->n == 0 || scratch_grow(&room, munch_room(&set->munch), m, err);
    munch_walk walk = munch_begin(&set->munch, c->source, c->n, room.data);
    while (good && set->n > 0 && munch_next(&walk, &at, &length, &which)) {
        const added *a = &t->added[which];
        if (!a->special && is_markup(a->content, a->length))
            good = add_gated(list, n, a->id, m, err);
    }
    scratch_free(&room, m);
    return good;
}

bool chat_gated(const chat *c, const tokenizer *t, scratch *list, size_t *n, mem *m,
                weft_error *err)
{
    bool good = gate_added(c, t, &t->plain, list, n, m, err) &&
                gate_added(c, t, &t->folded, list, n, m, err);
    for (size_t at = 0; t->has_user && at < c->n && good;) {
        uint32_t id = NO_ID;
        const size_t length = trie_longest(&t->user, 0, c->source + at, c->n - at, &id);
        if (length > 0 && is_markup(c->source + at, length) && !t->special[id])
            good = add_gated(list, n, id, m, err);
        at += length ? length : 1;
    }
    return good;
}
