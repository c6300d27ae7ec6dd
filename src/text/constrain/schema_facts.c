/* schema_facts.c - what all members of a set say together about types, counts and constants. */
#include "text/constrain/schema.h"

#include <math.h>
#include <string.h>

/* ---- types -------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    unsigned bits;
} types[] = {
    { "null", TYPE_NULL },       { "boolean", TYPE_BOOLEAN },
    { "integer", TYPE_INTEGER }, { "number", TYPE_INTEGER | TYPE_NUMBER },
    { "string", TYPE_STRING },   { "array", TYPE_ARRAY },
    { "object", TYPE_OBJECT },
};

static bool add_type(schema *s, const json_t *one, const json_t *name, unsigned *bits)
{
    for (size_t i = 0; json_is_string(name) && i < sizeof types / sizeof *types; i++)
        if (strcmp(json_string_value(name), types[i].name) == 0) {
            *bits |= types[i].bits;
            return true;
        }
    return schema_refuse(s, WEFT_EFORMAT, one, "type",
                         "expected null, boolean, integer, number, string, array or object");
}

bool schema_types(schema *s, const schema_set *set, unsigned *all)
{
    *all = set->never ? 0 : TYPE_ANY;
    for (size_t i = 0; i < set->n; i++) {
        const json_t *type = json_object_get(set->at[i], "type"), *name;
        unsigned bits = 0;
        size_t k;
        if (!type)
            continue;
        if (!json_is_array(type) && !add_type(s, set->at[i], type, &bits))
            return false;
        json_array_foreach(type, k, name) if (!add_type(s, set->at[i], name, &bits)) return false;
        *all &= bits;
    }
    return true;
}

/* ---- counts -------------------------------------------------------------------------------------- */

/* A whole number that is not negative; what is too large for a count is RX_MANY. */
static bool read_count(schema *s, const json_t *one, const char *keyword, uint32_t *count)
{
    const json_t *v = json_object_get(one, keyword);
    const double x = json_number_value(v);
    if (!json_is_number(v) || !(x >= 0) || (x < 1e15 && x != (double)(int64_t)x))
        return schema_refuse(s, WEFT_EFORMAT, one, keyword,
                             "expected a whole number that is not negative");
    *count = x < (double)RX_MANY ? (uint32_t)x : RX_MANY;
    return true;
}

bool schema_counts(schema *s, const schema_set *set, const char *min, const char *max,
                   schema_count *c)
{
    *c = (schema_count){ 0, RX_MANY };
    for (size_t i = 0; i < set->n; i++) {
        uint32_t count = 0;
        if (json_object_get(set->at[i], min)) {
            if (!read_count(s, set->at[i], min, &count))
                return false;
            if (count == RX_MANY)
                return schema_refuse(s, WEFT_ELIMIT, set->at[i], min, "too large");
            c->min = count > c->min ? count : c->min;
        }
        if (json_object_get(set->at[i], max)) {
            if (!read_count(s, set->at[i], max, &count))
                return false;
            c->max = count < c->max ? count : c->max;
        }
    }
    return true;
}

/* ---- constants ----------------------------------------------------------------------------------- */

bool schema_enum(schema *s, const schema_set *set, const json_t *const **list, size_t *n)
{
    *list = NULL;
    *n = 0;
    for (size_t i = 0; i < set->n && !*list; i++) {
        const json_t *one = json_object_get(set->at[i], "const"), *value;
        const json_t *all = json_object_get(set->at[i], "enum");
        size_t k;
        if (!one && !all)
            continue;
        if (!one && !json_is_array(all))
            return schema_refuse(s, WEFT_EFORMAT, set->at[i], "enum", "expected a list");
        const size_t count = one ? 1 : json_array_size(all);
        const json_t **values = schema_alloc(s, count * sizeof *values);
        if (!values)
            return false;
        if (one)
            values[0] = one;
        else
            json_array_foreach(all, k, value) values[k] = value;
        *list = values;
        *n = count;
    }
    return true;
}

unsigned schema_type_of(const json_t *value)
{
    static const unsigned bits[] = {
        [JSON_OBJECT] = TYPE_OBJECT,   [JSON_ARRAY] = TYPE_ARRAY, [JSON_STRING] = TYPE_STRING,
        [JSON_INTEGER] = TYPE_INTEGER, [JSON_REAL] = TYPE_NUMBER, [JSON_TRUE] = TYPE_BOOLEAN,
        [JSON_FALSE] = TYPE_BOOLEAN,   [JSON_NULL] = TYPE_NULL
    };
    if (json_is_real(value) && floor(json_real_value(value)) == json_real_value(value))
        return TYPE_INTEGER; /* 1.0 */
    return bits[json_typeof(value)];
}

const char *const schema_number_keywords[] = { "minimum",          "maximum",    "exclusiveMinimum",
                                               "exclusiveMaximum", "multipleOf", NULL };
const char *const schema_string_keywords[] = { "minLength", "maxLength", "pattern", "format",
                                               NULL };

bool schema_has(const schema_set *set, const char *const *keywords)
{
    for (size_t i = 0; i < set->n; i++)
        for (const char *const *k = keywords; *k; k++)
            if (json_object_get(set->at[i], *k))
                return true;
    return false;
}
