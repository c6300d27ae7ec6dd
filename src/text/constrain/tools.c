/* tools.c - reads a list of tools; see tools.h. */
#include "text/constrain/tools.h"

#include "formats/json.h"

#include <string.h>

typedef struct reading {
    tool_list *list;
    size_t at; /* the tool being read */
    weft_error *err;
} reading;

static bool fail(const reading *r, const char *place, const char *expected)
{
    weft_fail(r->err, WEFT_EINVAL, "tools[%zu]%s: expected %s", r->at, place, expected);
    return false;
}

static const char *keep(const reading *r, const char *text, size_t n)
{
    return arena_text(&r->list->store, text, n, r->err);
}

static const char *keep_json(const reading *r, const json_t *value, size_t *n)
{
    const char *text = json_write(value, JSON_COMPACT | JSON_ENCODE_ANY, "tools", r->err);
    *n = text ? strlen(text) : 0;
    return text ? keep(r, text, *n) : NULL;
}

/* ---- arguments ------------------------------------------------------------------------------- */

/* The values of `enum`, or the one of `const`. */
static bool read_values(const reading *r, const json_t *schema, tool_argument *to)
{
    const json_t *list = json_object_get(schema, "enum"), *only = json_object_get(schema, "const");
    const size_t n = only ? 1 : json_array_size(list);
    to->values = n ? arena_alloc(&r->list->store, n * sizeof *to->values, r->err) : NULL;
    for (size_t i = 0; to->values && i < n; i++) {
        const json_t *x = only ? only : json_array_get(list, i);
        if (!json_is_string(x))
            return fail(r, ".function.parameters",
                        only ? "a string as const of a string" : "strings in the enum of a string");
        to->values[i].n = json_string_length(x);
        to->values[i].at = keep(r, json_string_value(x), to->values[i].n);
        if (!to->values[i].at)
            return false;
        to->n_value++;
    }
    return n == to->n_value;
}

static bool has_string(const json_t *list)
{
    const json_t *x;
    size_t i;
    json_array_foreach(list, i, x)
    {
        if (json_is_string(x) && strcmp(json_string_value(x), "string") == 0)
            return true;
    }
    return false;
}

/* Anything may be a string, unless the schema says otherwise. */
static bool is_text(const json_t *schema)
{
    static const char *const others[] = { "const", "anyOf", "oneOf", "allOf", "$ref" };
    const json_t *type = json_object_get(schema, "type"), *list = json_object_get(schema, "enum"),
                 *x;
    size_t i;
    if (json_is_string(type))
        return strcmp(json_string_value(type), "string") == 0;
    if (type)
        return has_string(type);
    for (i = 0; i < sizeof others / sizeof *others; i++)
        if (json_object_get(schema, others[i]))
            return false;
    json_array_foreach(list, i, x)
    {
        if (!json_is_string(x))
            return false;
    }
    return true;
}

static bool is_required(const json_t *parameters, const char *key)
{
    const json_t *list = json_object_get(parameters, "required"), *x;
    size_t i;
    json_array_foreach(list, i, x)
    {
        if (json_is_string(x) && strcmp(json_string_value(x), key) == 0)
            return true;
    }
    return false;
}

static bool read_arguments(const reading *r, const json_t *parameters, tool *to)
{
    json_t *properties = json_object_get(parameters, "properties"), *schema;
    const size_t n = json_object_size(properties);
    const char *key;
    to->argument = n ? arena_alloc(&r->list->store, n * sizeof *to->argument, r->err) : NULL;
    if (n && !to->argument)
        return false;
    json_object_foreach(properties, key, schema)
    {
        tool_argument *a = &to->argument[to->n_argument++];
        *a = (tool_argument){ .string = is_text(schema), .required = is_required(parameters, key) };
        a->key = keep(r, key, strlen(key));
        a->schema = keep_json(r, schema, &a->n_schema);
        if (!a->key || !a->schema || (a->string && !read_values(r, schema, a)))
            return false;
    }
    return true;
}

/* ---- tools ----------------------------------------------------------------------------------- */

static bool is_name(const char *name, size_t n)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:-";
    return n > 0 && n < MAX_TOOL_NAME && strspn(name, letters) == n;
}

static bool read_tool(const reading *r, const json_t *value, tool *to)
{
    static const char nothing[] = "{\"type\":\"object\",\"properties\":{}}";
    const json_t *type = json_object_get(value, "type");
    const json_t *function = json_object_get(value, "function");
    const json_t *name = json_object_get(function, "name");
    const json_t *parameters = json_object_get(function, "parameters");
    if (!json_is_object(function) ||
        (type && (!json_is_string(type) || strcmp(json_string_value(type), "function") != 0)))
        return fail(r, "", "{\"type\": \"function\", \"function\": {...}}");
    if (!json_is_string(name) || !is_name(json_string_value(name), json_string_length(name)))
        return fail(r, ".function.name", "1 to 127 letters, digits, '_', '-', '.' or ':'");
    for (size_t i = 0; i < r->at; i++)
        if (strcmp(r->list->tool[i].name, json_string_value(name)) == 0)
            return fail(r, ".function.name", "a name that no other tool has");
    to->strict = json_is_true(json_object_get(function, "strict"));
    to->name = keep(r, json_string_value(name), json_string_length(name));
    if (!parameters || json_is_null(parameters)) {
        to->schema = nothing;
        to->n_schema = strlen(nothing);
        return to->name != NULL;
    }
    if (!json_is_object(parameters))
        return fail(r, ".function.parameters", "a JSON Schema");
    to->schema = keep_json(r, parameters, &to->n_schema);
    return to->name && to->schema && read_arguments(r, parameters, to);
}

static bool read_tool_list(tool_list *list, const char *text, size_t n, weft_error *err)
{
    reading r = { .list = list, .err = err };
    json_t *root = json_read_root((const uint8_t *)text, n, false, true, "tools", err);
    if (!root)
        return false;
    const size_t count = json_array_size(root);
    if (!json_is_array(root)) {
        weft_fail(err, WEFT_EINVAL, "tools: found an object, expected a list of 1 to %d tools",
                  MAX_TOOL);
        return false;
    }
    if (count == 0 || count > MAX_TOOL) {
        weft_fail(err, WEFT_EINVAL, "tools: found %zu, expected 1 to %d", count, MAX_TOOL);
        return false;
    }
    list->tool = arena_alloc(&list->store, count * sizeof *list->tool, err);
    if (!list->tool)
        return false;
    memset(list->tool, 0, count * sizeof *list->tool);
    for (r.at = 0; r.at < count; r.at++, list->n++)
        if (!read_tool(&r, json_array_get(root, r.at), &list->tool[r.at]))
            return false;
    return true;
}

weft_status tools_read(tool_list *list, const char *text, size_t n, mem *m, weft_error *err)
{
    *list = (tool_list){ 0 };
    if (n > MAX_TOOLS_TEXT)
        return weft_fail(err, WEFT_ELIMIT, "tools: %zu bytes, expected at most %zu", n,
                         MAX_TOOLS_TEXT);
    if (arena_init(&list->store, ARENA_GROWING, m, 0, "tools", err) != WEFT_OK)
        return err->code;
    json_section_begin(m);
    const bool good = read_tool_list(list, text, n, err);
    json_section_end();
    if (good)
        return WEFT_OK;
    tools_free(list);
    return err->code;
}

void tools_free(tool_list *list)
{
    arena_free(&list->store);
    *list = (tool_list){ 0 };
}

static const tool *find(const tool_list *list, const char *name)
{
    for (size_t i = 0; i < list->n; i++)
        if (strcmp(list->tool[i].name, name) == 0)
            return &list->tool[i];
    return NULL;
}

bool tools_is_string(const tool_list *list, const char *name, const char *key)
{
    const tool *t = find(list, name);
    for (size_t i = 0; t && i < t->n_argument; i++)
        if (strcmp(t->argument[i].key, key) == 0)
            return t->argument[i].string;
    return false;
}
