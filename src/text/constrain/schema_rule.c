/* schema_rule.c - a rule for each set of schemas, made once. Its productions come later, from the queue
 * of schema.c, so that schemas may contain themselves. */
#include "text/constrain/schema.h"

#include <string.h>

static size_t slot_of(const schema_set *set)
{
    uint64_t h = set->n + set->settled;
    for (size_t i = 0; i < set->n; i++)
        h = (h ^ (uintptr_t)set->at[i]) * 0x9E3779B97F4A7C15u;
    return (size_t)(h >> 40) % SCHEMA_SLOTS;
}

symbol schema_rule(schema *s, const schema_set *set)
{
    if (s->failed)
        return NO_SYMBOL;
    const size_t slot = slot_of(set);
    for (schema_made *m = s->made[slot]; m; m = m->next)
        if (m->set.n == set->n && m->set.never == set->never && m->set.settled == set->settled &&
            (set->n == 0 || memcmp(m->set.at, set->at, set->n * sizeof *set->at) == 0))
            return m->rule;
    if (s->n_made++ == SCHEMA_SETS) {
        schema_refuse(s, WEFT_ELIMIT, NULL, NULL, "more than %d places; simplify it", SCHEMA_SETS);
        return NO_SYMBOL;
    }
    schema_made *m = schema_alloc(s, sizeof *m);
    if (!m)
        return NO_SYMBOL;
    *m = (schema_made){ *set, grammar_rule(s->grammar, "value"), s->made[slot], NULL };
    s->made[slot] = m;
    *(s->last ? &s->last->later : &s->first) = m;
    s->last = m;
    return m->rule;
}
