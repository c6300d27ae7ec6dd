/* schema_list.c - arrays: schemas of the first items, one for all others, and how many there are.
 *
 *     list    ::= "[" "]" | "[" item0 after1 "]"
 *     after1  ::= | "," item1 after2           empty if one item is enough
 *     after2  ::= ("," rest){...}              once the items with their own schemas are used up */
#include "text/constrain/schema.h"

/* "items" was a list until 2020, and "additionalItems" came after it. */
static const json_t *first_items(const json_t *one)
{
    const json_t *items = json_object_get(one, "items"),
                 *prefix = json_object_get(one, "prefixItems");
    return prefix ? prefix : json_is_array(items) ? items : NULL;
}

static const json_t *other_items(const json_t *one)
{
    const json_t *items = json_object_get(one, "items");
    return json_is_array(items) ? json_object_get(one, "additionalItems") : items;
}

size_t schema_prefix(const schema_set *set)
{
    size_t most = 0;
    for (size_t i = 0; i < set->n; i++) {
        const size_t n = json_array_size(first_items(set->at[i]));
        most = n > most ? n : most;
    }
    return most;
}

bool schema_item(schema *s, const schema_set *set, size_t index, schema_set *item)
{
    *item = (schema_set){ 0 };
    for (size_t i = 0; i < set->n; i++) {
        const json_t *prefix = first_items(set->at[i]), *others = other_items(set->at[i]);
        if (prefix && !json_is_array(prefix))
            return schema_refuse(s, WEFT_EFORMAT, set->at[i], "prefixItems", "expected a list");
        const json_t *one = index < json_array_size(prefix) ? json_array_get(prefix, index)
                                                            : others;
        if (one && !schema_add_to(s, item, one))
            return false;
    }
    return true;
}

/* ("," item){min,max} */
static symbol more_items(schema *s, symbol item, uint32_t min, uint32_t max)
{
    const symbol one = grammar_rule(s->grammar, "item");
    grammar_add(s->grammar, one, (const symbol[]){ s->comma, item }, 2);
    return grammar_repeat(s->grammar, one, min, max);
}

static uint32_t less(uint32_t count, uint32_t by)
{
    return count == RX_MANY ? RX_MANY : count > by ? count - by : 0;
}

static symbol item_rule(schema *s, const schema_set *set, size_t index)
{
    schema_set item;
    return schema_item(s, set, index, &item) ? schema_rule(s, &item) : NO_SYMBOL;
}

/* What follows n items, if fewer than max are there. */
static symbol after(schema *s, const schema_set *set, uint32_t n, size_t prefix, schema_count c,
                    symbol next)
{
    grammar *g = s->grammar;
    if (n >= prefix)
        return more_items(s, item_rule(s, set, prefix), less(c.min, n), less(c.max, n));
    const symbol rule = grammar_rule(g, "items");
    if (n >= c.min)
        grammar_add(g, rule, NULL, 0);
    if (n < c.max)
        grammar_add(g, rule, (const symbol[]){ s->comma, item_rule(s, set, n), next }, 3);
    return rule;
}

void schema_list(schema *s, const schema_set *set, symbol to)
{
    grammar *g = s->grammar;
    schema_count c;
    if (!schema_counts(s, set, "minItems", "maxItems", &c) || c.min > c.max)
        return;
    if (c.min == 0)
        grammar_add(g, to, (const symbol[]){ grammar_lexeme(g, rx_literal(s->pool, "[]", 2)) }, 1);
    if (c.max == 0)
        return;
    const size_t prefix = schema_prefix(set);
    const size_t last = prefix < c.max ? prefix : c.max;
    symbol next = NO_SYMBOL;
    for (size_t n = last > 0 ? last : 1; n > 0 && !s->failed; n--)
        next = after(s, set, (uint32_t)n, prefix, c, next);
    if (!s->failed)
        grammar_add(g, to,
                    (const symbol[]){ s->open_list, item_rule(s, set, 0), next, s->close_list }, 4);
}
