/* schema_check.c - does a constant obey a set of schemas? For enum and const with other keywords beside
 * them, and for discriminators of oneOf. */
#include "text/constrain/schema.h"

#include <string.h>

#define DEPTH 64 /* of values and choices inside each other */

static int obeys(schema *s, const json_t *value, const schema_set *set, int depth, bool listed);

/* ---- equality ------------------------------------------------------------------------------------------- */

/* As JSON Schema has it: 1 and 1.0 are equal. Recurses as deep as the document is. */
static bool is_equal(const json_t *a, const json_t *b)
{
    const char *key;
    json_t *child;
    if (json_is_number(a) && json_is_number(b))
        return json_is_integer(a) && json_is_integer(b)
                   ? json_integer_value(a) == json_integer_value(b)
                   : json_number_value(a) == json_number_value(b);
    if (json_typeof(a) != json_typeof(b))
        return false;
    if (json_is_array(a)) {
        if (json_array_size(a) != json_array_size(b))
            return false;
        for (size_t i = 0; i < json_array_size(a); i++)
            if (!is_equal(json_array_get(a, i), json_array_get(b, i)))
                return false;
        return true;
    }
    if (!json_is_object(a))
        return json_equal(a, b);
    if (json_object_size(a) != json_object_size(b))
        return false;
    json_object_foreach((json_t *)a, key, child)
    {
        const json_t *other = json_object_get(b, key);
        if (!other || !is_equal(child, other))
            return false;
    }
    return true;
}

static int in_constants(schema *s, const json_t *value, const schema_set *set)
{
    for (size_t i = 0; i < set->n; i++) {
        const json_t *one = json_object_get(set->at[i], "const"), *other;
        const json_t *all = json_object_get(set->at[i], "enum");
        bool found = !all;
        size_t k;
        if (one && !is_equal(value, one))
            return 0;
        if (!schema_spend(s, 1 + json_array_size(all) / 8))
            return -1;
        json_array_foreach(all, k, other) found = found || is_equal(value, other);
        if (!found)
            return 0;
    }
    return 1;
}

/* ---- kinds of values ---------------------------------------------------------------------------------------- */

static int is_in(schema *s, const json_t *value, rx expression)
{
    if (s->failed || !schema_spend(s, 50))
        return -1;
    const bool whole = schema_type_of(value) == TYPE_INTEGER;
    const bool in = rx_alive(s->pool,
                             rx_and(s->pool, schema_constant(s, value, whole), expression));
    return rx_failed(s->pool, NULL) == WEFT_OK ? in : -1;
}

static int list_obeys(schema *s, const json_t *list, const schema_set *set, int depth)
{
    schema_count c;
    schema_set item;
    const size_t n = json_array_size(list);
    if (!schema_counts(s, set, "minItems", "maxItems", &c))
        return -1;
    int good = n >= c.min && n <= c.max;
    for (size_t i = 0; i < n && good == 1; i++)
        good = schema_item(s, set, i, &item)
                   ? obeys(s, json_array_get(list, i), &item, depth + 1, false)
                   : -1;
    return good;
}

static int object_obeys(schema *s, const json_t *object, const schema_set *set, int depth)
{
    schema_count c;
    schema_set value;
    const char *key;
    json_t *child, *name;
    size_t k;
    if (!schema_counts(s, set, "minProperties", "maxProperties", &c))
        return -1;
    int good = json_object_size(object) >= c.min && json_object_size(object) <= c.max;
    for (size_t i = 0; i < set->n; i++)
        json_array_foreach(json_object_get(set->at[i], "required"), k, name)
            good = good && json_is_string(name) && json_object_get(object, json_string_value(name));
    json_object_foreach((json_t *)object, key, child)
    {
        if (good == 1)
            good = schema_property(s, set, key, &value) ? obeys(s, child, &value, depth + 1, false)
                                                        : -1;
    }
    return good;
}

static int kind_obeys(schema *s, const json_t *value, const schema_set *set, int depth)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return object_obeys(s, value, set, depth);
    case JSON_ARRAY:
        return list_obeys(s, value, set, depth);
    case JSON_STRING:
        return schema_has(set, schema_string_keywords) ? is_in(s, value, schema_string(s, set)) : 1;
    case JSON_INTEGER:
    case JSON_REAL:
        return schema_has(set, schema_number_keywords)
                   ? is_in(s, value, schema_number(s, set, false))
                   : 1;
    case JSON_TRUE:
    case JSON_FALSE:
    case JSON_NULL:
        break;
    }
    return 1;
}

/* ---- choices -------------------------------------------------------------------------------------------------- */

static int choice_obeys(schema *s, const json_t *value, const schema_choice *c, int depth)
{
    int n = 0;
    const json_t *one;
    size_t i;
    json_array_foreach(c->list, i, one)
    {
        schema_set set = { 0 };
        const int good = schema_add_to(s, &set, one) ? obeys(s, value, &set, depth + 1, false) : -1;
        if (good < 0)
            return -1;
        n += good;
        if (n > c->exclusive)
            break;
    }
    return c->exclusive ? n == 1 : n > 0;
}

static int obeys(schema *s, const json_t *value, const schema_set *set, int depth, bool listed)
{
    unsigned types;
    if (set->never)
        return 0;
    if (depth > DEPTH) {
        schema_refuse(s, WEFT_ELIMIT, set->at[0], NULL, "schemas lead to each other too deep");
        return -1;
    }
    schema_view *v = schema_alloc(s, sizeof *v);
    if (!v || !schema_spend(s, 1) || !schema_look(s, set, v) || !schema_types(s, &v->set, &types))
        return -1;
    if (!(types & schema_type_of(value)))
        return 0;
    int good = listed ? 1 : in_constants(s, value, &v->set);
    if (good == 1)
        good = kind_obeys(s, value, &v->set, depth);
    for (size_t i = 0; i < v->n_choice && good == 1; i++)
        good = choice_obeys(s, value, &v->choice[i], depth);
    return good;
}

int schema_obeys(schema *s, const json_t *value, const schema_set *set, bool listed)
{
    const arena_mark mark = arena_at(&s->arena);
    const int good = obeys(s, value, set, 0, listed);
    arena_reset(&s->arena, mark);
    return good;
}
