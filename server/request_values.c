/* request_values.c - prompts, messages, stop strings and the other values that are more than a
 * number; see request_values.h. */
#include "request_values.h"

#include "body.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *value_text(const json_t *value, char *text, size_t size)
{
    switch (json_typeof(value)) {
    case JSON_INTEGER:
        snprintf(text, size, "%lld", (long long)json_integer_value(value));
        return text;
    case JSON_REAL:
        snprintf(text, size, "%.10g", json_real_value(value));
        return text;
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        snprintf(text, size, "a list of %zu", json_array_size(value));
        return text;
    case JSON_STRING:
        snprintf(text, size, "a string of %zu bytes", json_string_length(value));
        return text;
    case JSON_TRUE:
        return "true";
    case JSON_FALSE:
        return "false";
    case JSON_NULL:
        break;
    }
    return "null";
}

bool refuse_value(const reading *r, const char *place, const json_t *found, const char *expected)
{
    char param[96], text[64];
    snprintf(param, sizeof param, "%s%s", r->name, place);
    return refuse(r->why, 400, INVALID_REQUEST, "invalid_value", param, "%s: found %s; expected %s",
                  param, found ? value_text(found, text, sizeof text) : "nothing", expected);
}

bool refuse_memory(const reading *r)
{
    return refuse(r->why, 503, "server_error", "no_memory", r->name, "%s: no memory for it",
                  r->name);
}

/* ---- prompts --------------------------------------------------------------------------------- */

/* "[3]" or "[3][5]" */
static const char *place_of(char *text, size_t size, int64_t outer, int64_t inner)
{
    if (outer < 0)
        snprintf(text, size, "[%lld]", (long long)inner);
    else
        snprintf(text, size, "[%lld][%lld]", (long long)outer, (long long)inner);
    return text;
}

/* A list of ids; `outer` is its place in a list of lists, or -1. */
static bool take_ids(const reading *r, const json_t *list, int64_t outer, const int32_t **ids,
                     int64_t *n)
{
    char place[48];
    const size_t count = json_array_size(list);
    int32_t *to = store_take(&r->to->store, count ? count : 1, sizeof *to);
    if (!to)
        return refuse_memory(r);
    for (size_t i = 0; i < count; i++) {
        const json_t *one = json_array_get(list, i);
        const json_int_t id = json_integer_value(one);
        if (!json_is_integer(one) || id < 0 || id > INT32_MAX)
            return refuse_value(r, place_of(place, sizeof place, outer, (int64_t)i), one,
                                "a token id");
        to[i] = (int32_t)id;
    }
    *ids = to;
    *n = (int64_t)count;
    return true;
}

static bool take_input(const reading *r, const json_t *value, int64_t at, input *to)
{
    char place[48];
    if (json_is_string(value)) {
        to->text = json_string_value(value);
        to->length = json_string_length(value);
        return true;
    }
    if (json_is_array(value) && json_array_size(value) > 0)
        return take_ids(r, value, at, &to->ids, &to->n);
    return refuse_value(r, at < 0 ? "" : place_of(place, sizeof place, -1, at), value,
                        "a string or a list of token ids");
}

/* One string, several, one list of ids, or several. */
static bool read_inputs(const reading *r, const json_t *value, size_t most)
{
    char expected[96];
    const bool many = json_is_array(value) && (json_is_string(json_array_get(value, 0)) ||
                                               json_is_array(json_array_get(value, 0)));
    const size_t n = many ? json_array_size(value) : 1;
    if (r->to->inputs)
        return refuse_value(r, "", value, "one of prompt and content");
    if (n > most) {
        snprintf(expected, sizeof expected, "at most %zu", most);
        return refuse_value(r, "", value, expected);
    }
    input *to = store_take(&r->to->store, n, sizeof *to);
    if (!to)
        return refuse_memory(r);
    for (size_t i = 0; i < n; i++) {
        const json_t *one = many ? json_array_get(value, i) : value;
        if (many && json_typeof(one) != json_typeof(json_array_get(value, 0)))
            return refuse_value(r, place_of(expected, sizeof expected, -1, (int64_t)i), one,
                                "the same kind as before it");
        if (!take_input(r, one, many ? (int64_t)i : -1, &to[i]))
            return false;
    }
    r->to->inputs = to;
    r->to->n_input = (int64_t)n;
    return true;
}

bool read_prompt(const reading *r, const json_t *value)
{
    return read_inputs(r, value, MAX_INPUT);
}

bool read_input(const reading *r, const json_t *value)
{
    return read_inputs(r, value, MAX_EMBED);
}

/* One text or several, never ids. */
static bool take_texts(const reading *r, const json_t *value, input **to, int64_t *n_text)
{
    char place[96];
    const bool many = json_is_array(value);
    const size_t n = many ? json_array_size(value) : 1;
    if (n < 1 || n > MAX_EMBED) {
        snprintf(place, sizeof place, "1 to %d texts", MAX_EMBED);
        return refuse_value(r, "", value, place);
    }
    *to = store_take(&r->to->store, n, sizeof **to);
    if (!*to)
        return refuse_memory(r);
    for (size_t i = 0; i < n; i++) {
        const json_t *one = many ? json_array_get(value, i) : value;
        const json_t *text = json_is_object(one) ? json_object_get(one, "text") : one;
        if (!json_is_string(text))
            return refuse_value(r, many ? place_of(place, sizeof place, -1, (int64_t)i) : "", one,
                                "a string");
        (*to)[i].text = json_string_value(text);
        (*to)[i].length = json_string_length(text);
    }
    *n_text = (int64_t)n;
    return true;
}

bool read_text_1(const reading *r, const json_t *value)
{
    return take_texts(r, value, &r->to->inputs, &r->to->n_input);
}

bool read_text_2(const reading *r, const json_t *value)
{
    return take_texts(r, value, &r->to->seconds, &r->to->n_second);
}

bool read_query(const reading *r, const json_t *value)
{
    return json_is_string(value) ? read_text_1(r, value) : refuse_value(r, "", value, "a string");
}

/* Cohere's documents may be objects. */
bool read_documents(const reading *r, const json_t *value)
{
    return json_is_array(value) ? read_text_2(r, value)
                                : refuse_value(r, "", value, "a list of strings");
}

bool read_text_prompt(const reading *r, const json_t *value)
{
    return json_is_string(value) ? read_inputs(r, value, 1)
                                 : refuse_value(r, "", value, "a string");
}

bool read_ids(const reading *r, const json_t *value)
{
    input *to = store_take(&r->to->store, 1, sizeof *to);
    if (!json_is_array(value))
        return refuse_value(r, "", value, "a list of token ids");
    if (!to)
        return refuse_memory(r);
    r->to->inputs = to;
    r->to->n_input = 1;
    return take_ids(r, value, -1, &to->ids, &to->n);
}

/* ---- messages -------------------------------------------------------------------------------- */

static bool one_of(const char *word, const char *const *words)
{
    for (; *words; words++)
        if (strcmp(word, *words) == 0)
            return true;
    return false;
}

bool value_is(const json_t *value, const char *text)
{
    return json_is_string(value) && strcmp(json_string_value(value), text) == 0;
}

static bool is_word(const json_t *value, const char *const *words)
{
    return json_is_string(value) && strlen(json_string_value(value)) == json_string_length(value) &&
           one_of(json_string_value(value), words);
}

/* Parts of a message: texts only. */
static bool check_parts(const reading *r, const json_t *parts, int64_t message)
{
    static const char *const kinds[] = { "text", NULL };
    char place[64];
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *part = json_array_get(parts, i);
        const json_t *type = json_object_get(part, "type"), *text = json_object_get(part, "text");
        snprintf(place, sizeof place, "[%lld].content[%zu]", (long long)message, i);
        if (!is_word(type, kinds) || !json_is_string(text) || json_object_size(part) != 2)
            return refuse_value(r, place, part, "{\"type\": \"text\", \"text\": \"...\"}");
    }
    return true;
}

static bool check_message(const reading *r, const json_t *message, int64_t i)
{
    static const char *const roles[] = { "system", "developer", "user", "assistant", "tool", NULL };
    static const char *const known[] = {
        "role",       "content",      "name", "refusal", "reasoning_content",
        "tool_calls", "tool_call_id", NULL
    };
    const json_t *role = json_object_get(message, "role");
    json_t *content = json_object_get(message, "content"), *value;
    const char *name;
    char place[96];
    snprintf(place, sizeof place, "[%lld]", (long long)i);
    if (!json_is_object(message))
        return refuse_value(r, place, message, "an object with role and content");
    json_object_foreach((json_t *)message, name, value)
    {
        if (!one_of(name, known)) {
            snprintf(place, sizeof place, "[%lld].%.60s", (long long)i, name);
            return refuse_value(r, place, value, "no such field in a message");
        }
    }
    snprintf(place, sizeof place, "[%lld].role", (long long)i);
    if (!is_word(role, roles))
        return refuse_value(r, place, role, "system, developer, user, assistant or tool");
    snprintf(place, sizeof place, "[%lld].content", (long long)i);
    const bool may_lack = json_object_get(message, "tool_calls") != NULL;
    if (!json_is_string(content) && !json_is_array(content) &&
        !(may_lack && (!content || json_is_null(content))))
        return refuse_value(r, place, content, "a string or a list of text parts");
    return !json_is_array(content) || check_parts(r, content, i);
}

bool read_messages(const reading *r, const json_t *value)
{
    const size_t n = json_array_size(value);
    char expected[96];
    snprintf(expected, sizeof expected, "a list of 1 to %d messages", MAX_MESSAGE);
    if (!json_is_array(value) || n == 0 || n > MAX_MESSAGE)
        return refuse_value(r, "", value, expected);
    for (size_t i = 0; i < n; i++)
        if (!check_message(r, json_array_get(value, i), (int64_t)i))
            return false;
    r->to->messages = body_write(&r->to->store, value, &r->to->n_messages);
    return r->to->messages || refuse_memory(r);
}

/* ---- the template ---------------------------------------------------------------------------- */

bool add_variables(const reading *r, const char *json)
{
    request *to = r->to;
    if (!to->variables || strcmp(to->variables, "{}") == 0) {
        to->variables = json;
        return true;
    }
    if (strcmp(json, "{}") == 0)
        return true;
    const size_t n = strlen(to->variables), more = strlen(json);
    char *both = store_take(&to->store, n + more, 1); /* bounded: BODY_MAX_MEMORY */
    if (!both)
        return refuse_memory(r);
    memcpy(both, to->variables, n - 1); /* without its bracket */
    both[n - 1] = ',';
    memcpy(&both[n], &json[1], more - 1);
    to->variables = both;
    return true;
}

bool read_template_variables(const reading *r, const json_t *value)
{
    size_t n;
    if (!json_is_object(value))
        return refuse_value(r, "", value, "an object");
    const char *json = body_write(&r->to->store, value, &n);
    return json ? add_variables(r, json) : refuse_memory(r);
}

bool read_effort(const reading *r, const json_t *value)
{
    static const char *const efforts[] = {
        "none", "minimal", "low", "medium", "high", "xhigh", NULL
    };
    char json[64];
    if (!is_word(value, efforts))
        return refuse_value(r, "", value, "none, minimal, low, medium, high or xhigh");
    snprintf(json, sizeof json, "{\"reasoning_effort\":\"%s\"}", json_string_value(value));
    const char *copy = store_text(&r->to->store, json, strlen(json));
    return copy ? add_variables(r, copy) : refuse_memory(r);
}

/* ---- generation ------------------------------------------------------------------------------ */

static bool add_stop(const reading *r, const json_t *value)
{
    const size_t n = json_string_length(value);
    if (!json_is_string(value) || n == 0 || n > MAX_STOP_BYTES ||
        strlen(json_string_value(value)) != n)
        return refuse_value(r, "", value, "strings of 1 to 256 bytes, none of them zero");
    r->to->stop[r->to->n_stop++] = json_string_value(value);
    return true;
}

bool read_stop(const reading *r, const json_t *value)
{
    if (!json_is_array(value))
        return add_stop(r, value);
    if (json_array_size(value) > MAX_STOP)
        return refuse_value(r, "", value, "at most 16 strings");
    for (size_t i = 0; i < json_array_size(value); i++)
        if (!add_stop(r, json_array_get(value, i)))
            return false;
    return true;
}

bool read_stop_ids(const reading *r, const json_t *value)
{
    const int32_t *ids;
    if (!json_is_array(value) || json_array_size(value) > MAX_STOP_ID)
        return refuse_value(r, "", value, "a list of at most 64 token ids");
    if (!take_ids(r, value, -1, &ids, &r->to->n_stop_id))
        return false;
    r->to->stop_ids = (int32_t *)ids;
    return true;
}

/* The id that a name of logit_bias is in decimal digits; -1: it is not one. */
static int64_t id_of(const char *name)
{
    char *end;
    const size_t n = strlen(name);
    if (n == 0 || n > 10 || strspn(name, "0123456789") != n)
        return -1;
    const long long id = strtoll(name, &end, 10);
    return id <= INT32_MAX ? id : -1;
}

bool read_bias(const reading *r, const json_t *value)
{
    const size_t n = json_object_size(value);
    const char *name;
    char place[96];
    json_t *one;
    if (!json_is_object(value) || n > MAX_BIAS)
        return refuse_value(r, "", value, "an object of at most 1024 token ids");
    weft_bias *bias = store_take(&r->to->store, n ? n : 1, sizeof *bias);
    if (!bias)
        return refuse_memory(r);
    json_object_foreach((json_t *)value, name, one)
    {
        const double x = json_number_value(one);
        const int64_t id = id_of(name);
        snprintf(place, sizeof place, ".%.40s", name);
        if (id < 0)
            return refuse_value(r, place, one, "a token id as its name");
        if (!json_is_number(one) || !(x >= -100 && x <= 100))
            return refuse_value(r, place, one, "a number from -100 to 100");
        bias[r->to->n_bias++] = (weft_bias){ (int32_t)id, (float)x };
    }
    r->to->bias = bias;
    return true;
}

bool read_seed(const reading *r, const json_t *value)
{
    if (!json_is_integer(value))
        return refuse_value(r, "", value, "an integer of 64 bits");
    r->to->seed = json_integer_value(value);
    r->to->has_seed = true;
    return true;
}

bool read_logprobs_flag(const reading *r, const json_t *value)
{
    if (!json_is_boolean(value))
        return refuse_value(r, "", value, "true or false");
    r->to->wants_logprobs = json_is_true(value);
    return true;
}

bool read_stream_options(const reading *r, const json_t *value)
{
    const json_t *usage = json_object_get(value, "include_usage");
    if (!json_is_object(value) || json_object_size(value) > (usage ? 1 : 0) ||
        (usage && !json_is_boolean(usage)))
        return refuse_value(r, "", value, "{\"include_usage\": true}");
    r->to->include_usage = json_is_true(usage);
    return true;
}

/* ---- fields of which weft has one value ------------------------------------------------------ */

static bool unsupported(const reading *r, const char *expected)
{
    return refuse(r->why, 400, INVALID_REQUEST, "unsupported_parameter", r->name,
                  "%s: this value is not supported; expected %s", r->name, expected);
}

/* A client's name for its own user: checked, and not used. */
bool read_user(const reading *r, const json_t *value)
{
    return json_is_string(value) || refuse_value(r, "", value, "a string");
}

bool read_no_store(const reading *r, const json_t *value)
{
    return json_is_false(value) || unsupported(r, "false, as nothing is stored");
}

bool read_service_tier(const reading *r, const json_t *value)
{
    static const char *const words[] = { "auto", "default", NULL };
    return is_word(value, words) || unsupported(r, "\"auto\" or \"default\"");
}

bool read_encoding(const reading *r, const json_t *value)
{
    static const char *const words[] = { "float", "base64", NULL };
    if (!is_word(value, words))
        return refuse_value(r, "", value, "\"float\" or \"base64\"");
    r->to->base64 = strcmp(json_string_value(value), "base64") == 0;
    return true;
}
