/* schema_set.c - sets of schemas that hold together: $ref and allOf followed, anyOf and oneOf
 * collected, keywords that are not supported refused. */
#include "text/constrain/schema.h"

#include <string.h>

void *schema_alloc(schema *s, size_t size)
{
    if (s->failed)
        return NULL;
    void *block = arena_alloc(&s->arena, size ? size : 1, s->err);
    if (!block)
        s->failed = true;
    return block;
}

bool schema_spend(schema *s, uint64_t effort)
{
    enum { MOST = 100000 };
    s->effort += effort;
    return s->effort <= MOST ||
           schema_refuse(s, WEFT_ELIMIT, NULL, NULL,
                         "its anyOf, oneOf and enum take too long to compare; simplify them");
}

static bool append(schema *s, schema_set *set, const json_t *one)
{
    if (set->n == set->room) {
        const size_t room = set->room ? set->room * 2 : 4;
        const json_t **at = schema_alloc(s, room * sizeof *at);
        if (!at)
            return false;
        if (set->n)
            memcpy(at, set->at, set->n * sizeof *at);
        set->at = at;
        set->room = room;
    }
    set->at[set->n++] = one;
    return true;
}

bool schema_add_to(schema *s, schema_set *set, const json_t *one)
{
    if (json_is_true(one))
        return true;
    if (json_is_false(one)) {
        set->never = true;
        return true;
    }
    if (!json_is_object(one))
        return schema_refuse(s, WEFT_EFORMAT, one, NULL, "a schema is an object, true or false");
    for (size_t i = 0; i < set->n; i++)
        if (set->at[i] == one)
            return true;
    if (set->n == SCHEMA_MEMBERS)
        return schema_refuse(s, WEFT_ELIMIT, one, NULL, "more than %d schemas hold at one place",
                             SCHEMA_MEMBERS);
    return append(s, set, one);
}

/* ---- expressions of sets ------------------------------------------------------------------------- */

/* RX_NOTHING if it is not the one. */
rx schema_recall(const schema_recent *r, const schema_set *set)
{
    const bool same = r->n > 0 && r->n == set->n &&
                      memcmp(r->at, set->at, r->n * sizeof *r->at) == 0;
    return same ? r->made : RX_NOTHING;
}

rx schema_remember(schema_recent *r, const schema_set *set, rx made)
{
    r->n = set->n <= sizeof r->at / sizeof *r->at ? set->n : 0;
    if (r->n)
        memcpy(r->at, set->at, r->n * sizeof *r->at);
    return r->made = made;
}

/* ---- keywords that are not supported ----------------------------------------------------------- */

static const char *const unsupported[] = {
    "not",
    "if",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "contains",
    "minContains",
    "maxContains",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
    "$dynamicRef",
    "$recursiveRef",
};

static bool screen(schema *s, const json_t *one)
{
    for (size_t i = 0; i < sizeof unsupported / sizeof *unsupported; i++)
        if (json_object_get(one, unsupported[i]) &&
            !schema_unsupported(s, one, unsupported[i], "not supported"))
            return false;
    const json_t *unique = json_object_get(one, "uniqueItems");
    return !unique || json_is_false(unique) ||
           schema_unsupported(s, one, "uniqueItems", "not supported");
}

/* ---- following --------------------------------------------------------------------------------- */

/* The schemas on the way to this one, each of which holds at the same place. */
typedef struct trail {
    const struct trail *before;
    const json_t *at;
    int depth;
} trail;

static bool follow(schema *s, const json_t *one, const trail *before, schema_view *v);

static bool is_on(const trail *t, const json_t *one)
{
    for (; t; t = t->before)
        if (t->at == one)
            return true;
    return false;
}

static bool add_choice(schema *s, const json_t *one, const char *keyword, schema_view *v)
{
    const json_t *list = json_object_get(one, keyword);
    if (!list)
        return true;
    if (json_array_size(list) == 0)
        return schema_refuse(s, WEFT_EFORMAT, one, keyword, "expected a list of schemas");
    if (v->n_choice == SCHEMA_MEMBERS)
        return schema_refuse(s, WEFT_ELIMIT, one, keyword, "more than %d choices at one place",
                             SCHEMA_MEMBERS);
    for (size_t i = 0; i < v->n_choice; i++)
        if (v->choice[i].list == list)
            return true;
    v->choice[v->n_choice++] = (schema_choice){ one, list, keyword[0] == 'o' };
    return true;
}

static bool follow_ref(schema *s, const json_t *one, const trail *t, schema_view *v)
{
    const json_t *ref = json_object_get(one, "$ref");
    if (!ref)
        return true;
    if (!json_is_string(ref))
        return schema_refuse(s, WEFT_EFORMAT, one, "$ref", "expected a string");
    const json_t *to = schema_target(s, one, json_string_value(ref));
    if (!to)
        return false;
    if (is_on(t, to))
        return schema_refuse(s, WEFT_EFORMAT, one, "$ref", "it leads to itself");
    return follow(s, to, t, v);
}

static bool follow_all(schema *s, const json_t *one, const trail *t, schema_view *v)
{
    const json_t *all = json_object_get(one, "allOf"), *part;
    size_t i;
    if (!all)
        return true;
    if (json_array_size(all) == 0)
        return schema_refuse(s, WEFT_EFORMAT, one, "allOf", "expected a list of schemas");
    json_array_foreach(all, i, part) if (!follow(s, part, t, v)) return false;
    return true;
}

/* Recurses at most SCHEMA_DEPTH times. */
static bool follow(schema *s, const json_t *one, const trail *before, schema_view *v)
{
    const trail t = { before, one, before ? before->depth + 1 : 1 };
    const size_t n = v->set.n;
    if (!schema_add_to(s, &v->set, one))
        return false;
    if (!json_is_object(one) || v->set.n == n)
        return true; /* was here already */
    if (t.depth > SCHEMA_DEPTH)
        return schema_refuse(s, WEFT_ELIMIT, one, NULL, "more than %d $ref and allOf deep",
                             SCHEMA_DEPTH);
    return schema_spend(s, 1) && screen(s, one) && follow_ref(s, one, &t, v) &&
           follow_all(s, one, &t, v) && add_choice(s, one, "anyOf", v) &&
           add_choice(s, one, "oneOf", v);
}

bool schema_look(schema *s, const schema_set *set, schema_view *v)
{
    v->set = (schema_set){ .never = set->never, .settled = true };
    v->n_choice = 0;
    for (size_t i = 0; i < set->n; i++)
        if (!follow(s, set->at[i], NULL, v))
            return false;
    return true;
}
