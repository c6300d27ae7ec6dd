/* chat.c - renders a conversation; see chat.h. */
#include "text/chat.h"

#include "formats/json.h"

#include <string.h>

/* A tree from text that a caller passed, inside a section. */
static json_t *read_json(const char *text, size_t n, const char *what, weft_error *err)
{
    json_t *root = json_read_root((const uint8_t *)text, n, false, true, what, err);
    if (!root && err->code == WEFT_EFORMAT)
        err->code = WEFT_EINVAL;
    return root;
}

/* ---- the forms that a template wants --------------------------------------------------------- */

/* The whole string counts: one may have a zero byte, and more after it. */
static bool is_role(const json_t *role)
{
    static const char *const roles[] = { "system", "developer", "user", "assistant", "tool" };
    for (size_t i = 0; json_is_string(role) && i < sizeof roles / sizeof *roles; i++)
        if (json_string_length(role) == strlen(roles[i]) &&
            strcmp(json_string_value(role), roles[i]) == 0)
            return true;
    return false;
}

/* The text parts of a list, joined by line ends. NULL if a part is not text, or without memory. */
static json_t *join_parts(const json_t *parts, mem *m, weft_error *err)
{
    buffer b;
    json_t *text = NULL;
    buffer_begin(&b, m, err);
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *one = json_object_get(json_array_get(parts, i), "text");
        if (!json_is_string(one)) {
            weft_fail(err, WEFT_EUNSUPPORTED,
                      "content part %zu is not text; the template takes text only", i);
            buffer_end(&b);
            return NULL;
        }
        buffer_put(&b, "\n", i > 0);
        buffer_put(&b, json_string_value(one), json_string_length(one));
    }
    if (!b.failed)
        text = json_stringn(b.n ? (const char *)b.at : "", b.n);
    if (!text && !err->code)
        weft_fail(err, WEFT_ENOMEM, "no memory for a message");
    buffer_end(&b);
    return text;
}

static json_t *as_part(const json_t *text)
{
    return json_pack("[{s:s,s:O}]", "type", "text", "text", text);
}

/* Content as a string or a list, whichever the template takes. */
static weft_status fit_content(const chat *c, json_t *message, weft_error *err)
{
    json_t *content = json_object_get(message, "content"), *other = NULL;
    if (json_is_array(content) && !c->parts)
        other = join_parts(content, c->mem, err);
    else if (json_is_string(content) && !c->strings && c->parts)
        other = as_part(content);
    else
        return WEFT_OK;
    if (!other || json_object_set_new(message, "content", other) != 0)
        return err->code ? err->code : weft_fail(err, WEFT_ENOMEM, "no memory for a message");
    return WEFT_OK;
}

/* The arguments of a call as an object or a string, whichever the template takes. */
static weft_status fit_arguments(const chat *c, json_t *call, weft_error *err)
{
    json_t *function = json_object_get(call, "function");
    json_t *holder = function ? function : call, *given = json_object_get(holder, "arguments");
    json_t *other = NULL;
    if (json_is_string(given) && c->arguments) {
        other = read_json(json_string_value(given), json_string_length(given), "arguments", err);
        if (!other)
            return err->code;
    } else if (json_is_object(given) && !c->arguments && c->argument_strings) {
        const char *text = json_write(given, 0, "arguments", err);
        if (!text)
            return err->code;
        other = json_string(text);
    } else {
        return WEFT_OK;
    }
    if (!other || json_object_set_new(holder, "arguments", other) != 0)
        return weft_fail(err, WEFT_ENOMEM, "no memory for a tool call");
    return WEFT_OK;
}

/* Templates call thinking by two names; files have a third. As in transformers, a message has both
 * of the former if it has any. */
static weft_status fit_reasoning(json_t *message, weft_error *err)
{
    static const char *const names[] = { "reasoning_content", "thinking", "reasoning" };
    json_t *given = NULL;
    for (int i = 0; i < 3 && !given; i++)
        given = json_object_get(message, names[i]);
    if (!given)
        return WEFT_OK;
    if ((json_object_get(message, "thinking") ||
         json_object_set(message, "thinking", given) == 0) &&
        json_object_set(message, "reasoning_content", given) == 0)
        return WEFT_OK;
    return weft_fail(err, WEFT_ENOMEM, "no memory for a message");
}

/* OpenAI's servers write "content": null beside tool calls. Templates know missing fields better than
 * null ones, so that transformers drops the latter. */
static void drop_nulls(json_t *message)
{
    const char *name;
    json_t *value;
    void *next;
    json_object_foreach_safe(message, next, name, value)
    {
        if (json_is_null(value))
            json_object_del(message, name);
    }
}

static weft_status fit_message(const chat *c, json_t *message, size_t i, bool as_given,
                               weft_error *err)
{
    const json_t *role = json_object_get(message, "role");
    if (!json_is_object(message) || !is_role(role))
        return weft_fail(
            err, WEFT_EINVAL,
            "message %zu: %s%.40s; expected system, developer, user, assistant or tool", i,
            json_is_string(role) ? "role " : "no role",
            json_is_string(role) ? json_string_value(role) : "");
    if (as_given)
        return WEFT_OK;
    drop_nulls(message);
    weft_status status = fit_reasoning(message, err);
    if (status == WEFT_OK)
        status = fit_content(c, message, err);
    const json_t *calls = json_object_get(message, "tool_calls");
    for (size_t k = 0; k < json_array_size(calls) && status == WEFT_OK; k++)
        status = fit_arguments(c, json_array_get(calls, k), err);
    return status;
}

/* ---- origins --------------------------------------------------------------------------------- */

typedef struct naming {
    chat_text *to;
    bool messages; /* the tree is the list of messages; otherwise tools or a variable */
    bool failed;
    weft_error *err;
} naming;

static uint32_t add_origin(naming *n, chat_origin o)
{
    chat_text *t = n->to;
    for (uint32_t i = t->n_origin; i > 0 && t->n_origin - i < 7; i--) { /* one of the last ones? */
        const chat_origin *k = &t->origin[i - 1];
        if (k->message == o.message && k->trusted == o.trusted &&
            (k->field == o.field || (o.field && k->field && strcmp(k->field, o.field) == 0)))
            return i;
    }
    if (t->n_origin == t->room) {
        const uint32_t room = t->room ? 2 * t->room : 64;
        chat_origin *more = mem_alloc(t->mem, room * sizeof *more, "origins", n->err);
        if (!more) {
            n->failed = true;
            return 1;
        }
        if (t->n_origin)
            memcpy(more, t->origin, t->n_origin * sizeof *more);
        mem_free(t->mem, t->origin);
        t->origin = more;
        t->room = room;
    }
    if (o.field && !(o.field = arena_text(&t->store, o.field, strlen(o.field), n->err)))
        n->failed = true;
    t->origin[t->n_origin++] = o;
    return t->n_origin;
}

/* Of messages only the role is trusted: it is one of five words, which templates put between the
 * parts of a special token. */
static uint32_t name_origin(void *ud, const jinja_step *path, int n_path, bool is_key)
{
    naming *n = ud;
    if (!n->messages || n_path < 1)
        return add_origin(n, (chat_origin){ -2, NULL, false });
    const char *field = n_path > 1 && path[1].index < 0 ? path[1].key : "";
    return add_origin(n, (chat_origin){ .message = (int32_t)path[0].index,
                                        .field = field,
                                        .trusted = !is_key && strcmp(field, "role") == 0 });
}

chat_origin chat_origin_of(const chat_text *t, uint32_t origin)
{
    return origin == 0 ? (chat_origin){ -1, NULL, true } : t->origin[origin - 1];
}

/* ---- variables ------------------------------------------------------------------------------- */

static weft_status set_json(naming *n, const char *name, const json_t *value)
{
    jinja_put_json(n->to->input, value, name_origin, n);
    const weft_status status = jinja_set(n->to->input, name, n->err);
    return status == WEFT_OK && n->failed ? n->err->code : status;
}

static weft_status set_text(chat_text *t, const char *name, const char *text, size_t n,
                            weft_error *err)
{
    jinja_put_text(t->input, text, n, 0);
    return jinja_set(t->input, name, err);
}

static weft_status set_tokens(const chat *c, const chat_options *o, chat_text *t, weft_error *err)
{
    bool bos = false, eos = false;
    weft_status status = WEFT_OK;
    for (int i = 0; i < c->n_variable && status == WEFT_OK; i++) {
        bos |= strcmp(c->variable[i].name, "bos_token") == 0;
        eos |= strcmp(c->variable[i].name, "eos_token") == 0;
        status = set_text(t, c->variable[i].name, c->variable[i].text, strlen(c->variable[i].text),
                          err);
    }
    if (status == WEFT_OK && !bos && o->bos)
        status = set_text(t, "bos_token", o->bos, o->n_bos, err);
    if (status == WEFT_OK && !eos && o->eos)
        status = set_text(t, "eos_token", o->eos, o->n_eos, err);
    return status;
}

/* tools: those of the conversation, or NULL. The caller's own come first. */
static weft_status set_tools(const json_t *tools, const chat_options *o, naming *n)
{
    if (o->tools && !(tools = read_json(o->tools, strlen(o->tools), "tools", n->err)))
        return n->err->code;
    if (tools && !json_is_array(tools) && !json_is_null(tools))
        return weft_fail(n->err, WEFT_EINVAL, "tools: expected a list");
    if (tools)
        return set_json(n, "tools", tools);
    jinja_put_null(n->to->input);
    return jinja_set(n->to->input, "tools", n->err);
}

/* The caller's own variables. They may not replace the conversation. */
static weft_status set_variables(const chat_options *o, naming *n)
{
    if (!o->variables)
        return WEFT_OK;
    json_t *root = read_json(o->variables, strlen(o->variables), "variables", n->err);
    weft_status status = root ? WEFT_OK : n->err->code;
    if (json_is_array(root))
        return weft_fail(n->err, WEFT_EINVAL, "variables: a list; expected an object");
    const char *name;
    json_t *value;
    json_object_foreach(root, name, value)
    {
        if (status != WEFT_OK)
            break;
        if (strcmp(name, "messages") == 0 || strcmp(name, "tools") == 0)
            return weft_fail(n->err, WEFT_EINVAL, "variables: \"%s\" is not the caller's to set",
                             name);
        status = set_json(n, name, value);
    }
    return status;
}

static weft_status set_all(const chat *c, const json_t *messages, const json_t *tools,
                           const chat_options *o, chat_text *to, weft_error *err)
{
    naming n = { .to = to, .messages = true, .err = err };
    weft_status status = set_tokens(c, o, to, err);
    if (status == WEFT_OK)
        status = set_json(&n, "messages", messages);
    n.messages = false;
    if (status == WEFT_OK)
        status = set_tools(tools, o, &n);
    if (status == WEFT_OK) {
        jinja_put_null(to->input);
        status = jinja_set(to->input, "documents", err);
    }
    if (status == WEFT_OK) {
        jinja_put_bool(to->input, !o->no_generation_prompt);
        status = jinja_set(to->input, "add_generation_prompt", err);
    }
    return status == WEFT_OK ? set_variables(o, &n) : status;
}

/* ---- rendering ------------------------------------------------------------------------------- */

static weft_status render_messages(const chat *c, json_t *root, const chat_options *o,
                                   chat_text *to, weft_error *err)
{
    struct tm local;
    const time_t now = (time_t)o->now;
    const jinja_options how = { .now = o->now ? localtime_r(&now, &local) : NULL };
    const bool whole = json_is_object(root); /* a conversation with its tools */
    json_t *list = whole ? json_object_get(root, "messages") : root;
    weft_status status = json_is_array(list) ? WEFT_OK
                                             : weft_fail(err, WEFT_EINVAL, "no list of messages");
    to->n_message = json_array_size(list);
    for (size_t i = 0; i < to->n_message && status == WEFT_OK; i++)
        status = fit_message(c, json_array_get(list, i), i, o->as_given, err);
    if (status == WEFT_OK)
        status = set_all(c, list, whole ? json_object_get(root, "tools") : NULL, o, to, err);
    return status == WEFT_OK ? jinja_render(c->program, to->input, &how, &to->out, err) : status;
}

weft_status chat_tree_render(const chat *c, json_t *root, const chat_options *o, chat_text *to,
                             weft_error *err)
{
    *to = (chat_text){ .mem = c->mem };
    weft_status status = arena_init(&to->store, ARENA_GROWING, c->mem, 0, "a conversation", err);
    to->input = status == WEFT_OK ? jinja_input_new(c->mem, err) : NULL;
    return to->input ? render_messages(c, root, o, to, err) : err->code;
}

weft_status chat_text_render(const chat *c, const char *messages, size_t n, const chat_options *o,
                             chat_text *to, weft_error *err)
{
    *to = (chat_text){ .mem = c->mem };
    json_section_begin(c->mem);
    json_t *root = read_json(messages, n, "messages", err);
    const weft_status status = root ? chat_tree_render(c, root, o, to, err) : err->code;
    json_section_end();
    return status;
}

static bool is_last_content(const chat_text *t, const jinja_run *r)
{
    const chat_origin who = chat_origin_of(t, r->origin);
    return r->end > r->begin && who.message >= 0 && (size_t)who.message + 1 == t->n_message &&
           strcmp(who.field, "content") == 0;
}

bool chat_text_cut(chat_text *t)
{
    jinja_output *out = &t->out;
    size_t n = out->n_run;
    while (n > 0 && !is_last_content(t, &out->run[n - 1]))
        n--;
    if (n == 0)
        return false;
    out->n_run = n;
    out->n = out->run[n - 1].end;
    ((char *)out->text)[out->n] = '\0'; /* it is ours: const is for readers */
    while (out->n_generated > 0 && out->generated[out->n_generated - 1].begin >= out->n)
        out->n_generated--;
    return true;
}

size_t chat_trusted(const chat_text *t, weft_span *span)
{
    size_t n = 0;
    for (size_t i = 0; i < t->out.n_run; i++) {
        const jinja_run *r = &t->out.run[i];
        if (r->begin == r->end || !chat_origin_of(t, r->origin).trusted)
            continue;
        if (n > 0 && span[n - 1].to == r->begin)
            span[n - 1].to = (uint32_t)r->end;
        else
            span[n++] = (weft_span){ (uint32_t)r->begin, (uint32_t)r->end };
    }
    return n;
}

void chat_text_free(chat_text *t)
{
    jinja_input_free(t->input);
    mem_free(t->mem, t->origin);
    arena_free(&t->store);
    *t = (chat_text){ 0 };
}
