/* request_format.c - the fields that say what form an answer has: response_format of OpenAI,
 * structured_outputs and guided_* of vLLM, and tools. */
#include "request_values.h"

#include "body.h"

#include <string.h>

/* An answer has one form. */
static bool set_form(const reading *r, weft_grammar_kind kind, const char *text, size_t n)
{
    form *f = &r->to->form;
    if (!text)
        return refuse_memory(r);
    if (f->text)
        return refuse(r->why, 400, INVALID_REQUEST, "invalid_value", r->name,
                      "%s: a second form of the answer; expected one of response_format, "
                      "structured_outputs and guided_*",
                      r->name);
    *f = (form){ .kind = kind, .text = text, .n = n, .param = r->name };
    return true;
}

static bool set_text(const reading *r, weft_grammar_kind kind, const json_t *value,
                     const char *place)
{
    if (!json_is_string(value))
        return refuse_value(r, place, value, "a string");
    const size_t n = json_string_length(value);
    return set_form(r, kind, store_text(&r->to->store, json_string_value(value), n), n);
}

/* A schema, or a schema as JSON in a string. */
static bool set_schema(const reading *r, const json_t *value, const char *place)
{
    size_t n = 0;
    if (json_is_string(value))
        return set_text(r, WEFT_GRAMMAR_SCHEMA, value, place);
    if (!json_is_object(value) && !json_is_boolean(value))
        return refuse_value(r, place, value, "a JSON Schema");
    const char *text = body_write(&r->to->store, value, &n);
    return set_form(r, WEFT_GRAMMAR_SCHEMA, text, n);
}

static bool set_object(const reading *r)
{
    static const char any[] = "{\"type\":\"object\"}";
    return set_form(r, WEFT_GRAMMAR_SCHEMA, any, strlen(any));
}

/* root ::= "one" | "two", in GBNF */
static bool set_choice(const reading *r, const json_t *value, const char *place)
{
    bytes b = { 0 };
    const size_t n = json_array_size(value);
    if (!json_is_array(value) || n == 0)
        return refuse_value(r, place, value, "a list of strings");
    bytes_text(&b, "root ::=");
    for (size_t i = 0; i < n; i++) {
        const json_t *x = json_array_get(value, i);
        if (!json_is_string(x)) {
            bytes_free(&b);
            return refuse_value(r, place, x, "a list of strings");
        }
        bytes_text(&b, i ? " | \"" : " \"");
        for (size_t k = 0; k < json_string_length(x); k++) {
            const unsigned char c = (unsigned char)json_string_value(x)[k];
            if (c < ' ' || c == '"' || c == '\\' || c == 0x7F)
                bytes_format(&b, "\\x%02X", c);
            else
                bytes_add(&b, &c, 1);
        }
        bytes_text(&b, "\"");
    }
    const char *text = b.failed ? NULL : store_text(&r->to->store, b.at, b.n);
    const size_t length = b.n;
    bytes_free(&b);
    return set_form(r, WEFT_GRAMMAR_GBNF, text, length);
}

/* {"type": "json_schema", "json_schema": {"name": "n", "schema": {...}, "strict": true}}; Responses
 * has what is inside beside the type. */
bool read_response_format(const reading *r, const json_t *value)
{
    const json_t *type = json_object_get(value, "type");
    const json_t *inner = json_object_get(value, "json_schema");
    if (value_is(type, "text"))
        return true;
    if (value_is(type, "json_object"))
        return set_object(r);
    if (!value_is(type, "json_schema"))
        return refuse_value(r, ".type", type, "text, json_object or json_schema");
    const bool flat = r->to->endpoint == ENDPOINT_RESPONSES;
    const json_t *from = flat ? value : inner;
    if (!json_is_object(from))
        return refuse_value(r, ".json_schema", inner, "an object with name and schema");
    if (!set_schema(r, json_object_get(from, "schema"), flat ? ".schema" : ".json_schema.schema"))
        return false;
    r->to->form.strict = json_is_true(json_object_get(from, "strict"));
    return true;
}

bool read_structured_outputs(const reading *r, const json_t *value)
{
    const json_t *x;
    if (!json_is_object(value) || json_object_size(value) != 1)
        return refuse_value(r, "", value,
                            "an object with json, regex, grammar, choice or json_object");
    if ((x = json_object_get(value, "json")))
        return set_schema(r, x, ".json");
    if ((x = json_object_get(value, "regex")))
        return set_text(r, WEFT_GRAMMAR_REGEX, x, ".regex");
    if ((x = json_object_get(value, "grammar")))
        return set_text(r, WEFT_GRAMMAR_GBNF, x, ".grammar");
    if ((x = json_object_get(value, "choice")))
        return set_choice(r, x, ".choice");
    if (json_is_true(json_object_get(value, "json_object")))
        return set_object(r);
    return refuse_value(r, "", value, "an object with json, regex, grammar, choice or json_object");
}

bool read_guided_json(const reading *r, const json_t *value)
{
    return set_schema(r, value, "");
}

bool read_guided_regex(const reading *r, const json_t *value)
{
    return set_text(r, WEFT_GRAMMAR_REGEX, value, "");
}

bool read_guided_grammar(const reading *r, const json_t *value)
{
    return set_text(r, WEFT_GRAMMAR_GBNF, value, "");
}

bool read_guided_choice(const reading *r, const json_t *value)
{
    return set_choice(r, value, "");
}

/* ---- tools ----------------------------------------------------------------------------------- */

bool read_tools(const reading *r, const json_t *value)
{
    request *to = r->to;
    if (!json_is_array(value))
        return refuse_value(r, "", value, "a list of tools");
    if (json_array_size(value) == 0)
        return true;
    to->tools = body_write(&to->store, value, &to->n_tools);
    return to->tools || refuse_memory(r);
}

/* "auto", "none", "required", or {"type": "function", "function": {"name": "n"}} */
bool read_tool_choice(const reading *r, const json_t *value)
{
    request *to = r->to;
    const json_t *name = json_object_get(json_object_get(value, "function"), "name");
    if (value_is(value, "auto"))
        return true;
    to->no_calls = value_is(value, "none");
    to->must_call = value_is(value, "required");
    if (to->no_calls || to->must_call)
        return true;
    if (!json_is_object(value) || !json_is_string(name))
        return refuse_value(r, "", value,
                            "auto, none, required or {\"type\": \"function\", \"function\": "
                            "{\"name\": \"...\"}}");
    to->must_call = true;
    to->only_tool = store_text(&to->store, json_string_value(name), json_string_length(name));
    return to->only_tool || refuse_memory(r);
}
