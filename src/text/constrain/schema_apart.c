/* schema_apart.c - can it be shown that no value obeys both of two sets of schemas?
 *
 * oneOf asks this of every two of its schemas: then exactly one holds where any holds. The proof is by
 * types, by constants, by what strings and numbers have in common, or by a property that both require
 * and whose schemas are apart, or that one requires and the other forbids. Choices inside the sets are
 * left out, which can only make a set larger. */
#include "text/constrain/schema.h"

#define DEPTH 4 /* of properties inside each other */

static int apart(schema *s, const schema_set *a, const schema_set *b, int depth);

/* Of all constants of a, does none obey b? */
static int constants_apart(schema *s, const json_t *const *list, size_t n, const schema_set *a,
                           const schema_set *b)
{
    for (size_t i = 0; i < n; i++) {
        const int in_a = schema_obeys(s, list[i], a, false);
        const int in_b = in_a == 1 ? schema_obeys(s, list[i], b, false) : 0;
        if (in_a < 0 || in_b < 0)
            return -1;
        if (in_b)
            return 0;
    }
    return 1;
}

static int expressions_apart(schema *s, rx a, rx b)
{
    if (s->failed || !schema_spend(s, 10))
        return -1;
    const bool alive = rx_alive(s->pool, rx_and(s->pool, a, b));
    return rx_failed(s->pool, NULL) == WEFT_OK ? !alive : -1;
}

static int lists_apart(schema *s, const schema_set *a, const schema_set *b)
{
    schema_count x, y;
    if (!schema_counts(s, a, "minItems", "maxItems", &x) ||
        !schema_counts(s, b, "minItems", "maxItems", &y))
        return -1;
    return x.max < y.min || y.max < x.min;
}

/* A key that a requires: required by b too and apart, or forbidden by b. */
static int key_apart(schema *s, const char *key, const schema_set *a, const schema_set *b,
                     int depth)
{
    schema_set x, y;
    if (!schema_property(s, a, key, &x) || !schema_property(s, b, key, &y))
        return -1;
    if (y.never)
        return 1;
    return schema_requires(b, key) && depth < DEPTH ? apart(s, &x, &y, depth + 1) : 0;
}

static int objects_apart(schema *s, const schema_set *a, const schema_set *b, int depth)
{
    int found = 0;
    for (size_t i = 0; i < a->n && found == 0; i++) {
        const json_t *name;
        size_t k;
        json_array_foreach(json_object_get(a->at[i], "required"), k,
                           name) if (found == 0 && json_is_string(name))
            found = key_apart(s, json_string_value(name), a, b, depth);
    }
    return found;
}

static int kinds_apart(schema *s, const schema_set *a, const schema_set *b, unsigned both,
                       int depth)
{
    int good = !(both & (TYPE_NULL | TYPE_BOOLEAN));
    if (good == 1 && both & TYPE_STRING)
        good = expressions_apart(s, schema_string(s, a), schema_string(s, b));
    if (good == 1 && both & (TYPE_INTEGER | TYPE_NUMBER))
        good = expressions_apart(s, schema_number(s, a, !(both & TYPE_NUMBER)),
                                 schema_number(s, b, !(both & TYPE_NUMBER)));
    if (good == 1 && both & TYPE_ARRAY)
        good = lists_apart(s, a, b);
    if (good == 1 && both & TYPE_OBJECT) {
        good = objects_apart(s, a, b, depth);
        good = good == 0 ? objects_apart(s, b, a, depth) : good;
    }
    return good;
}

static int apart(schema *s, const schema_set *a, const schema_set *b, int depth)
{
    schema_view *x = schema_alloc(s, sizeof *x), *y = schema_alloc(s, sizeof *y);
    const json_t *const *list;
    unsigned in_a, in_b;
    size_t n;
    if (!x || !y || !schema_spend(s, 1) || !schema_look(s, a, x) || !schema_look(s, b, y) ||
        !schema_types(s, &x->set, &in_a) || !schema_types(s, &y->set, &in_b))
        return -1;
    if (!(in_a & in_b))
        return 1;
    if (!schema_enum(s, &x->set, &list, &n))
        return -1;
    if (list)
        return constants_apart(s, list, n, a, b);
    if (!schema_enum(s, &y->set, &list, &n))
        return -1;
    if (list)
        return constants_apart(s, list, n, b, a);
    return kinds_apart(s, &x->set, &y->set, in_a & in_b, depth);
}

int schema_apart(schema *s, const schema_set *a, const schema_set *b)
{
    const arena_mark mark = arena_at(&s->arena);
    const int good = apart(s, a, b, 0);
    arena_reset(&s->arena, mark);
    return good;
}
