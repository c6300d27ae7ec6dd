/* request_talk.c - conversations and tools as OpenAI's Responses and Anthropic's Messages have them,
 * written in the form of chat completions, which templates take. */
#include "request_values.h"

#include "body.h"
#include "wire.h"

#include <stdio.h>
#include <string.h>

typedef struct talk {
    const reading *r;
    bytes out;
    wire w;
} talk;

static bool has_type(const json_t *item, const char *type)
{
    return value_is(json_object_get(item, "type"), type);
}

static bool wrong(const talk *t, size_t i, const char *what, const json_t *found,
                  const char *expected)
{
    char place[96];
    snprintf(place, sizeof place, "[%zu]%s", i, what);
    return refuse_value(t->r, place, found, expected);
}

static bool put_json(talk *t, const char *key, const json_t *value)
{
    size_t n;
    const char *text = body_write(&t->r->to->store, value, &n);
    if (text)
        wire_raw(&t->w, key, text, n);
    return text || refuse_memory(t->r);
}

static void put_string(talk *t, const char *key, const json_t *value)
{
    wire_text(&t->w, key, json_string_value(value), json_string_length(value));
}

/* ---- text ------------------------------------------------------------------------------------ */

/* The text of a part; NULL if it has none. */
static const json_t *text_of(const json_t *part)
{
    const bool text = has_type(part, "text") || has_type(part, "input_text") ||
                      has_type(part, "output_text");
    const json_t *x = text ? json_object_get(part, "text") : NULL;
    return json_is_string(x) ? x : NULL;
}

/* Parts that are no text, but belong to a message of Anthropic's. */
static bool is_other(const json_t *part)
{
    static const char *const kinds[] = { "tool_use", "tool_result", "thinking",
                                         "redacted_thinking" };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (has_type(part, kinds[i]))
            return true;
    return false;
}

/* A string, or the parts of a list, one after the other; `others` may be among them. */
static bool put_content(talk *t, const char *key, const json_t *content, size_t i, bool others)
{
    bytes all = { 0 };
    const json_t *part;
    size_t k;
    if (json_is_string(content)) {
        put_string(t, key, content);
        return true;
    }
    if (!json_is_array(content))
        return wrong(t, i, ".content", content, "a string or a list of parts");
    json_array_foreach(content, k, part)
    {
        const json_t *text = text_of(part);
        if (!text && !(others && is_other(part))) {
            bytes_free(&all);
            return wrong(t, i, ".content", part, "parts of text");
        }
        if (text)
            bytes_add(&all, json_string_value(text), json_string_length(text));
    }
    wire_text(&t->w, key, all.at ? all.at : "", all.n);
    t->out.failed |= all.failed;
    bytes_free(&all);
    return true;
}

static bool put_message(talk *t, const char *role, const json_t *content, size_t i)
{
    wire_object(&t->w, NULL);
    wire_string(&t->w, "role", role);
    const bool good = put_content(t, "content", content, i, false);
    wire_end(&t->w);
    return good;
}

/* {"id":"c","type":"function","function":{"name":"f","arguments":{}}} */
static bool put_call(talk *t, const json_t *id, const json_t *name, const json_t *arguments,
                     size_t i)
{
    if (!json_is_string(id) || !json_is_string(name) || !arguments)
        return wrong(t, i, "", NULL, "a call with id, name and arguments");
    wire_object(&t->w, NULL);
    put_string(t, "id", id);
    wire_string(&t->w, "type", "function");
    wire_object(&t->w, "function");
    put_string(t, "name", name);
    const bool good = put_json(t, "arguments", arguments);
    wire_end(&t->w);
    wire_end(&t->w);
    return good;
}

static bool put_result(talk *t, const json_t *id, const json_t *content, size_t i)
{
    if (!json_is_string(id))
        return wrong(t, i, "", id, "the id of a call");
    wire_object(&t->w, NULL);
    wire_string(&t->w, "role", "tool");
    put_string(t, "tool_call_id", id);
    const bool good = content ? put_content(t, "content", content, i, false)
                              : (wire_string(&t->w, "content", ""), true);
    wire_end(&t->w);
    return good;
}

/* ---- Responses ------------------------------------------------------------------------------- */

static bool is_message(const json_t *item)
{
    return json_is_object(item) && (!json_object_get(item, "type") || has_type(item, "message"));
}

/* What the assistant said and called, items from *i on, is one message. */
static bool put_turn(talk *t, const json_t *items, size_t *i)
{
    const json_t *item = json_array_get(items, *i);
    bool good = true;
    wire_object(&t->w, NULL);
    wire_string(&t->w, "role", "assistant");
    if (is_message(item))
        good = put_content(t, "content", json_object_get(item, "content"), (*i)++, false);
    else
        wire_string(&t->w, "content", "");
    if (good && has_type(json_array_get(items, *i), "function_call")) {
        wire_list(&t->w, "tool_calls");
        for (; good && has_type(item = json_array_get(items, *i), "function_call"); ++*i)
            good = put_call(t, json_object_get(item, "call_id"), json_object_get(item, "name"),
                            json_object_get(item, "arguments"), *i);
        wire_end(&t->w);
    }
    wire_end(&t->w);
    return good;
}

static bool put_item(talk *t, const json_t *items, size_t *i)
{
    static const char *const roles[] = { "user", "system", "developer" };
    const json_t *item = json_array_get(items, *i), *role = json_object_get(item, "role");
    if (has_type(item, "function_call") || (is_message(item) && value_is(role, "assistant")))
        return put_turn(t, items, i);
    if (has_type(item, "function_call_output"))
        return put_result(t, json_object_get(item, "call_id"), json_object_get(item, "output"),
                          (*i)++);
    for (size_t k = 0; is_message(item) && k < sizeof roles / sizeof *roles; k++)
        if (value_is(role, roles[k]))
            return put_message(t, roles[k], json_object_get(item, "content"), (*i)++);
    if (has_type(item, "reasoning")) { /* the model's own, which templates leave out */
        ++*i;
        return true;
    }
    return wrong(t, *i, "", item, "a message, function_call, function_call_output or reasoning");
}

static bool put_responses(talk *t, const json_t *root)
{
    const json_t *items = json_object_get(root, "input");
    const json_t *first = json_object_get(root, "instructions");
    if (json_is_string(first))
        put_message(t, "system", first, 0);
    if (json_is_string(items))
        return put_message(t, "user", items, 0);
    const size_t n = json_array_size(items);
    if (!json_is_array(items) || n == 0 || n > MAX_MESSAGE)
        return refuse_value(t->r, "", items, "a string or a list of 1 to 4096 items");
    for (size_t i = 0; i < n;)
        if (!put_item(t, items, &i))
            return false;
    return true;
}

/* ---- Messages -------------------------------------------------------------------------------- */

/* Results of calls come first, each as a message of its own. */
static bool put_results(talk *t, const json_t *content, size_t i)
{
    const json_t *part;
    size_t k;
    json_array_foreach(content, k, part)
    {
        if (has_type(part, "tool_result") && !put_result(t, json_object_get(part, "tool_use_id"),
                                                         json_object_get(part, "content"), i))
            return false;
    }
    return true;
}

static size_t n_part(const json_t *content, const char *type)
{
    size_t n = 0, k;
    const json_t *part;
    json_array_foreach(content, k, part)
    {
        n += has_type(part, type);
    }
    return n;
}

static bool put_calls(talk *t, const json_t *content, size_t i)
{
    const json_t *part;
    size_t k;
    bool good = true;
    if (n_part(content, "tool_use") == 0)
        return true;
    wire_list(&t->w, "tool_calls");
    json_array_foreach(content, k, part)
    {
        if (good && has_type(part, "tool_use"))
            good = put_call(t, json_object_get(part, "id"), json_object_get(part, "name"),
                            json_object_get(part, "input"), i);
    }
    wire_end(&t->w);
    return good;
}

static bool put_anthropic(talk *t, const json_t *message, size_t i)
{
    const json_t *role = json_object_get(message, "role");
    const json_t *content = json_object_get(message, "content");
    const bool ours = value_is(role, "assistant");
    if (!ours && !value_is(role, "user"))
        return wrong(t, i, ".role", role, "user or assistant");
    if (!put_results(t, content, i))
        return false;
    if (!ours && json_is_array(content) && json_array_size(content) > 0 &&
        n_part(content, "tool_result") == json_array_size(content))
        return true;
    wire_object(&t->w, NULL);
    put_string(t, "role", role);
    const bool good = put_content(t, "content", content, i, true) && put_calls(t, content, i);
    wire_end(&t->w);
    return good;
}

/* Errors name it, not the messages. */
static bool put_system(talk *t, const json_t *content)
{
    const reading r = { .to = t->r->to, .name = "system", .why = t->r->why };
    const json_t *part;
    size_t k;
    if (!json_is_string(content) && !json_is_array(content))
        return refuse_value(&r, "", content, "a string or a list of parts of text");
    json_array_foreach(content, k, part)
    {
        char place[32];
        snprintf(place, sizeof place, "[%zu]", k);
        if (!text_of(part))
            return refuse_value(&r, place, part, "a part of text");
    }
    return put_message(t, "system", content, 0);
}

static bool put_messages(talk *t, const json_t *root)
{
    const json_t *list = json_object_get(root, "messages"),
                 *first = json_object_get(root, "system");
    const size_t n = json_array_size(list);
    if (first && !json_is_null(first) && !put_system(t, first))
        return false;
    if (!json_is_array(list) || n == 0 || n > MAX_MESSAGE)
        return refuse_value(t->r, "", list, "a list of 1 to 4096 messages");
    for (size_t i = 0; i < n; i++)
        if (!put_anthropic(t, json_array_get(list, i), i))
            return false;
    return true;
}

bool talk_translate(request *to, const json_t *root, refusal *why)
{
    const bool responses = to->endpoint == ENDPOINT_RESPONSES;
    const reading r = { .to = to, .name = responses ? "input" : "messages", .why = why };
    talk t = { .r = &r };
    t.w = wire_to(&t.out);
    wire_list(&t.w, NULL);
    bool good = responses ? put_responses(&t, root) : put_messages(&t, root);
    wire_end(&t.w);
    if (good) {
        to->messages = t.out.failed ? NULL : store_text(&to->store, t.out.at, t.out.n);
        to->n_messages = t.out.n;
        good = to->messages || refuse_memory(&r);
    }
    bytes_free(&t.out);
    return good;
}

/* ---- tools ----------------------------------------------------------------------------------- */

static bool put_tool(talk *t, const json_t *tool, size_t i)
{
    const bool responses = t->r->to->endpoint == ENDPOINT_RESPONSES;
    const json_t *name = json_object_get(tool, "name"), *type = json_object_get(tool, "type");
    const json_t *text = json_object_get(tool, "description");
    const json_t *schema = json_object_get(tool, responses ? "parameters" : "input_schema");
    const bool known = responses ? value_is(type, "function") : !type || value_is(type, "custom");
    if (!known || !json_is_string(name))
        return wrong(t, i, "", tool,
                     responses ? "{\"type\": \"function\", \"name\": \"...\"}"
                               : "{\"name\": \"...\", \"input_schema\": {...}}");
    wire_object(&t->w, NULL);
    wire_string(&t->w, "type", "function");
    wire_object(&t->w, "function");
    put_string(t, "name", name);
    if (json_is_string(text))
        put_string(t, "description", text);
    if (json_is_true(json_object_get(tool, "strict")))
        wire_bool(&t->w, "strict", true);
    const bool good = !schema || json_is_null(schema) || put_json(t, "parameters", schema);
    wire_end(&t->w);
    wire_end(&t->w);
    return good;
}

bool read_flat_tools(const reading *r, const json_t *value)
{
    talk t = { .r = r };
    bool good = true;
    t.w = wire_to(&t.out);
    if (!json_is_array(value))
        return refuse_value(r, "", value, "a list of tools");
    wire_list(&t.w, NULL);
    for (size_t i = 0; good && i < json_array_size(value); i++)
        good = put_tool(&t, json_array_get(value, i), i);
    wire_end(&t.w);
    if (good && json_array_size(value) > 0) {
        r->to->tools = t.out.failed ? NULL : store_text(&r->to->store, t.out.at, t.out.n);
        r->to->n_tools = t.out.n;
        good = r->to->tools || refuse_memory(r);
    }
    bytes_free(&t.out);
    return good;
}

static bool set_only(const reading *r, const json_t *value)
{
    const json_t *name = json_object_get(value, "name");
    if (!json_is_string(name))
        return refuse_value(r, ".name", name, "the name of a tool");
    r->to->must_call = true;
    r->to->only_tool = store_text(&r->to->store, json_string_value(name), json_string_length(name));
    return r->to->only_tool || refuse_memory(r);
}

/* "auto", "none", "required" or {"type": "function", "name": "f"} */
bool read_responses_choice(const reading *r, const json_t *value)
{
    if (json_is_string(value))
        return read_tool_choice(r, value);
    if (!has_type(value, "function"))
        return refuse_value(r, "", value,
                            "auto, none, required or {\"type\": \"function\", \"name\": \"...\"}");
    return set_only(r, value);
}

/* {"type": "auto", "any", "none" or "tool", "name": "f", "disable_parallel_tool_use": true} */
bool read_messages_choice(const reading *r, const json_t *value)
{
    request *to = r->to;
    to->single_call = json_is_true(json_object_get(value, "disable_parallel_tool_use"));
    to->no_calls = has_type(value, "none");
    to->must_call = has_type(value, "any");
    if (has_type(value, "tool"))
        return set_only(r, value);
    if (to->no_calls || to->must_call || has_type(value, "auto"))
        return true;
    return refuse_value(r, "", value, "an object of type auto, any, tool or none");
}

/* ---- other fields ---------------------------------------------------------------------------- */

/* {"format": {"type": "json_schema", "name": "n", "schema": {...}}, "verbosity": "low"} */
bool read_text_format(const reading *r, const json_t *value)
{
    const json_t *format = json_object_get(value, "format");
    const reading inner = { .to = r->to, .name = "text.format", .why = r->why };
    if (!json_is_object(value))
        return refuse_value(r, "", value, "an object with format");
    return !format || json_is_null(format) || read_response_format(&inner, format);
}

/* {"effort": "low"} */
bool read_reasoning(const reading *r, const json_t *value)
{
    const json_t *effort = json_object_get(value, "effort");
    const reading inner = { .to = r->to, .name = "reasoning.effort", .why = r->why };
    if (!json_is_object(value))
        return refuse_value(r, "", value, "an object with effort");
    return !effort || json_is_null(effort) || read_effort(&inner, effort);
}

/* {"type": "enabled", "budget_tokens": 1024}: whether the model thinks, where it has a switch. */
bool read_thinking(const reading *r, const json_t *value)
{
    const bool on = has_type(value, "enabled") || has_type(value, "adaptive");
    if (!on && !has_type(value, "disabled"))
        return refuse_value(r, ".type", json_object_get(value, "type"), "enabled or disabled");
    return add_variables(r, on ? "{\"enable_thinking\":true}" : "{\"enable_thinking\":false}");
}

/* Checked, and not used: what to include, and what clients write for themselves. */
bool read_list(const reading *r, const json_t *value)
{
    return json_is_array(value) || refuse_value(r, "", value, "a list");
}

bool read_object(const reading *r, const json_t *value)
{
    return json_is_object(value) || refuse_value(r, "", value, "an object");
}

/* Fields that are read later, with others. */
bool read_later(const reading *r, const json_t *value)
{
    (void)r, (void)value;
    return true;
}

bool read_truncation(const reading *r, const json_t *value)
{
    return value_is(value, "disabled") || refuse_value(r, "", value, "disabled");
}

/* Nothing is stored: the client sends the whole conversation. */
bool read_no_previous(const reading *r, const json_t *value)
{
    return refuse_value(r, "", value, "null: the server keeps no answers; send the conversation");
}
