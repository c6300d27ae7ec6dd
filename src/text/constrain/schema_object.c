/* schema_object.c - objects: named properties in the schema's order, then others.
 *
 * at(i, c) is what may follow when properties before i are decided and c of them are there. A
 * property that is not required can be left out, so at(i, c) leads to at(i + 1, c) as well:
 *
 *     at(i, c) ::= "," pair(i) at(i+1, c+1) | at(i+1, c)
 *
 * Without minProperties and maxProperties c only says whether a comma is needed, 0 or 1, so that n
 * properties take 2 n rules.
 *
 * Other properties have keys that are none of the names. A text could repeat such a key, so they
 * count once for minProperties, however many there are. */
#include "text/constrain/rx_points.h"
#include "text/constrain/schema.h"

#include <string.h>

#define PATTERNS 5     /* patternProperties at one place: each doubles the kinds of keys */
#define PLACES   50000 /* pairs of i and c */

typedef struct named {
    const char *key;
    symbol pair; /* NO_SYMBOL: it cannot be there */
    bool required;
} named;

typedef struct pattern {
    const json_t *owner, *schema;
    rx keys;
} pattern;

typedef struct object {
    schema *s;
    const schema_set *set;
    named *name;
    size_t n, room;
    pattern pattern[PATTERNS];
    int n_pattern;
    symbol others; /* one other property; NO_SYMBOL: there is none */
    schema_count count;
    uint32_t cap; /* c stops here */
    symbol *at;   /* [i][c] */
} object;

/* ---- keys ------------------------------------------------------------------------------------------ */

bool schema_requires(const schema_set *set, const char *key)
{
    for (size_t i = 0; i < set->n; i++) {
        const json_t *list = json_object_get(set->at[i], "required"), *name;
        size_t k;
        json_array_foreach(list, k,
                           name) if (json_is_string(name) &&
                                     strcmp(json_string_value(name), key) == 0) return true;
    }
    return false;
}

/* What one member says of a key. */
static bool add_member(schema *s, const json_t *one, const char *key, schema_set *value)
{
    const json_t *own = json_object_get(json_object_get(one, "properties"), key);
    const json_t *patterns = json_object_get(one, "patternProperties");
    const json_t *additional = json_object_get(one, "additionalProperties");
    bool found = own != NULL;
    const char *text;
    json_t *child;
    if (own && !schema_add_to(s, value, own))
        return false;
    json_object_foreach((json_t *)patterns, text, child)
    {
        if (!schema_finds(s, one, "patternProperties", text, key, strlen(key)))
            continue;
        found = true;
        if (!schema_add_to(s, value, child))
            return false;
    }
    return found || !additional || schema_add_to(s, value, additional);
}

bool schema_property(schema *s, const schema_set *set, const char *key, schema_set *value)
{
    *value = (schema_set){ 0 };
    for (size_t i = 0; i < set->n; i++)
        if (!add_member(s, set->at[i], key, value))
            return false;
    return !s->failed;
}

static rx key_lexeme(schema *s, rx key)
{
    rx_pool *p = s->pool;
    const rx quote = rx_literal(p, "\"", 1);
    return rx_seq(p, quote, rx_seq(p, key, rx_seq(p, quote, s->colon)));
}

static symbol pair_rule(schema *s, rx key, const schema_set *value)
{
    grammar *g = s->grammar;
    const symbol rule = grammar_rule(g, "property");
    grammar_add(g, rule,
                (const symbol[]){ grammar_lexeme(g, key_lexeme(s, key)), schema_rule(s, value) },
                2);
    return rule;
}

/* ---- named properties -------------------------------------------------------------------------------- */

static bool add_name(object *o, const char *key)
{
    schema *s = o->s;
    schema_set value;
    for (size_t i = 0; i < o->n; i++)
        if (strcmp(o->name[i].key, key) == 0)
            return true;
    if (!schema_spend(s, 1 + o->n / 64) || !schema_property(s, o->set, key, &value))
        return false;
    if (o->n == o->room) {
        const size_t room = o->room ? o->room * 2 : 8;
        named *more = schema_alloc(s, room * sizeof *more);
        if (!more)
            return false;
        if (o->n)
            memcpy(more, o->name, o->n * sizeof *more);
        o->name = more;
        o->room = room;
    }
    const symbol pair = value.never ? NO_SYMBOL
                                    : pair_rule(s, schema_text(s, key, strlen(key)), &value);
    o->name[o->n++] = (named){ key, pair, schema_requires(o->set, key) };
    return !s->failed;
}

static bool add_properties(object *o, const json_t *one)
{
    const json_t *properties = json_object_get(one, "properties");
    const char *key;
    json_t *child;
    if (properties && !json_is_object(properties))
        return schema_refuse(o->s, WEFT_EFORMAT, one, "properties", "expected an object");
    json_object_foreach((json_t *)properties, key, child) if (!add_name(o, key)) return false;
    return true;
}

static bool add_required(object *o, const json_t *one)
{
    const json_t *required = json_object_get(one, "required"), *name;
    size_t i;
    /* draft 3 had true and false here, in the schema of the property itself */
    if (required && !json_is_array(required))
        return schema_refuse(o->s, WEFT_EFORMAT, one, "required", "expected a list of names");
    json_array_foreach(required, i, name)
    {
        if (!json_is_string(name) || strlen(json_string_value(name)) != json_string_length(name))
            return schema_refuse(o->s, WEFT_EFORMAT, one, "required", "expected a list of names");
        if (!add_name(o, json_string_value(name)))
            return false;
    }
    return true;
}

/* OpenAI's strict mode: what it demands of an object. */
static bool check_openai(object *o, const json_t *one)
{
    const char *key;
    json_t *child;
    if (!json_object_get(one, "properties"))
        return true;
    if (!json_is_false(json_object_get(one, "additionalProperties")))
        return schema_refuse(o->s, WEFT_EINVAL, one, "additionalProperties",
                             "must be false with strict");
    json_object_foreach(
        json_object_get(one, "properties"), key,
        child) if (!schema_requires(&(schema_set){ .n = 1, .at = &one },
                                    key)) return schema_refuse(o->s, WEFT_EINVAL, one, "required",
                                                               "\"%.80s\" must be in it with "
                                                               "strict",
                                                               key);
    return true;
}

/* ---- other properties --------------------------------------------------------------------------------- */

static bool add_patterns(object *o, const json_t *one)
{
    const json_t *patterns = json_object_get(one, "patternProperties");
    const char *text;
    json_t *child;
    if (patterns && !json_is_object(patterns))
        return schema_refuse(o->s, WEFT_EFORMAT, one, "patternProperties", "expected an object");
    json_object_foreach((json_t *)patterns, text, child)
    {
        if (o->n_pattern == PATTERNS)
            return schema_refuse(o->s, WEFT_ELIMIT, one, "patternProperties",
                                 "more than %d patterns at one place", PATTERNS);
        const rx keys = schema_pattern(o->s, one, "patternProperties", text, strlen(text));
        if (o->s->failed)
            return false;
        o->pattern[o->n_pattern++] = (pattern){ one, child, keys };
    }
    return true;
}

/* Keys that are no names, and what the members without a matching pattern say of them. */
static rx unnamed_keys(object *o)
{
    schema *s = o->s;
    rx_pool *p = s->pool;
    rx *names = schema_alloc(s, o->n * sizeof *names);
    if (!names)
        return RX_NOTHING;
    for (size_t i = 0; i < o->n; i++)
        names[i] = schema_text(s, o->name[i].key, strlen(o->name[i].key));
    return rx_and(p, rx_repeat(p, rx_any_point(p, true), 0, RX_MANY),
                  rx_not(p, rx_any(p, names, o->n)));
}

/* The keys that match exactly the patterns of `mask`. */
static bool add_kind(object *o, rx keys, unsigned mask, symbol to)
{
    schema *s = o->s;
    schema_set value = { 0 };
    for (int i = 0; i < o->n_pattern; i++) {
        const bool in = mask >> i & 1;
        keys = rx_and(s->pool, keys, in ? o->pattern[i].keys : rx_not(s->pool, o->pattern[i].keys));
        if (in && !schema_add_to(s, &value, o->pattern[i].schema))
            return false;
    }
    for (size_t k = 0; k < o->set->n; k++) {
        const json_t *one = o->set->at[k];
        const json_t *additional = json_object_get(one, "additionalProperties");
        bool found = !additional;
        for (int i = 0; i < o->n_pattern; i++)
            found = found || (o->pattern[i].owner == one && mask >> i & 1);
        if (!found && !schema_add_to(s, &value, additional))
            return false;
    }
    if (value.never || !rx_alive(s->pool, keys))
        return true;
    o->others = to;
    grammar_add(s->grammar, to, (const symbol[]){ pair_rule(s, keys, &value) }, 1);
    return true;
}

static bool add_others(object *o)
{
    const rx keys = unnamed_keys(o);
    const symbol to = grammar_rule(o->s->grammar, "other property");
    o->others = NO_SYMBOL;
    for (unsigned mask = 0; mask < 1u << o->n_pattern; mask++)
        if (!add_kind(o, keys, mask, to))
            return false;
    return true;
}

/* ---- the order ------------------------------------------------------------------------------------------ */

static symbol *place(object *o, size_t i, uint32_t c)
{
    return &o->at[i * ((size_t)o->cap + 1) + c];
}

static symbol more_others(object *o, uint32_t min, uint32_t max)
{
    grammar *g = o->s->grammar;
    const symbol one = grammar_rule(g, "other property");
    grammar_add(g, one, (const symbol[]){ o->s->comma, o->others }, 2);
    return grammar_repeat(g, one, min, max);
}

/* After all names, c properties are there. */
static void end_names(object *o, uint32_t c, symbol to)
{
    grammar *g = o->s->grammar;
    const uint32_t max = o->count.max == RX_MANY ? RX_MANY : o->count.max - c;
    const uint32_t missing = o->count.min > c ? o->count.min - c : 0;
    if (c > 0 && missing == 0)
        grammar_add(g, to, NULL, 0);
    if (o->others == NO_SYMBOL || max == 0 || missing > 1)
        return;
    if (c > 0)
        grammar_add(g, to, (const symbol[]){ more_others(o, 1, max) }, 1);
    else
        grammar_add(
            g, to,
            (const symbol[]){ o->others, more_others(o, 0, max == RX_MANY ? RX_MANY : max - 1) },
            2);
}

static void add_place(object *o, size_t i, uint32_t c)
{
    grammar *g = o->s->grammar;
    const symbol to = *place(o, i, c);
    if (i == o->n) {
        end_names(o, c, to);
        return;
    }
    const named *name = &o->name[i];
    const uint32_t next = c < o->cap ? c + 1 : c;
    if (name->pair != NO_SYMBOL && c < o->count.max) {
        const symbol right[] = { o->s->comma, name->pair, *place(o, i + 1, next) };
        grammar_add(g, to, right + (c == 0), c == 0 ? 2 : 3);
    }
    if (!name->required)
        grammar_add(g, to, (const symbol[]){ *place(o, i + 1, c) }, 1);
}

static bool add_order(object *o, symbol to)
{
    schema *s = o->s;
    grammar *g = s->grammar;
    const uint32_t min = o->count.min > 1 ? o->count.min : 1;
    o->cap = o->count.max == RX_MANY ? min : o->count.max;
    o->cap = o->cap > o->n + 1 ? (uint32_t)o->n + 1 : o->cap;
    const size_t places = (o->n + 1) * ((size_t)o->cap + 1);
    if (places > PLACES)
        return schema_refuse(s, WEFT_ELIMIT, o->set->at[0], NULL,
                             "too many properties for minProperties or maxProperties");
    o->at = schema_alloc(s, places * sizeof *o->at);
    for (size_t i = 0; o->at && i < places; i++)
        o->at[i] = grammar_rule(g, "properties");
    for (size_t i = 0; o->at && i <= o->n; i++)
        for (uint32_t c = 0; c <= o->cap; c++)
            add_place(o, i, c);
    if (o->at)
        grammar_add(g, to, (const symbol[]){ s->open_object, *place(o, 0, 0), s->close_object }, 3);
    return !s->failed;
}

/* Could minProperties only be reached by counting other properties more than once? */
static bool check_min(const object *o)
{
    const json_t *owner = NULL;
    for (size_t i = 0; i < o->set->n; i++)
        if (json_object_get(o->set->at[i], "minProperties"))
            owner = o->set->at[i];
    return o->others == NO_SYMBOL || o->count.min <= o->n + 1 ||
           schema_refuse(o->s, WEFT_EUNSUPPORTED, owner, "minProperties",
                         "more than one unnamed property would have to be there; not supported");
}

void schema_object(schema *s, const schema_set *set, symbol to)
{
    object o = { .s = s, .set = set };
    bool good = schema_counts(s, set, "minProperties", "maxProperties", &o.count);
    for (size_t i = 0; good && i < set->n; i++)
        good = (!s->options->openai_strict || check_openai(&o, set->at[i])) &&
               add_properties(&o, set->at[i]) && add_patterns(&o, set->at[i]);
    for (size_t i = 0; good && i < set->n; i++)
        good = add_required(&o, set->at[i]);
    if (!good || !add_others(&o) || !check_min(&o) || o.count.min > o.count.max)
        return;
    bool may_be_empty = o.count.min == 0;
    for (size_t i = 0; i < o.n; i++)
        may_be_empty = may_be_empty && !o.name[i].required;
    if (may_be_empty)
        grammar_add(s->grammar, to,
                    (const symbol[]){ grammar_lexeme(s->grammar, rx_literal(s->pool, "{}", 2)) },
                    1);
    if (o.count.max > 0)
        add_order(&o, to);
}
