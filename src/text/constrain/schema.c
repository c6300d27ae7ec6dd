/* schema.c - JSON Schema to grammar: a queue of places, each a set of schemas that becomes a rule.
 *
 * docs/CONSTRAIN.md says which keywords are supported and how a text is to be written: properties in
 * the schema's order, white space only where it is bounded. */
#include "text/constrain/schema.h"

#include <string.h>

/* ---- one place ---------------------------------------------------------------------------------------------- */

static void add_lexeme(schema *s, symbol to, rx a)
{
    if (a != RX_NOTHING && !s->failed && rx_alive(s->pool, a))
        grammar_add(s->grammar, to, (const symbol[]){ grammar_lexeme(s->grammar, a) }, 1);
}

static void add_constants(schema *s, const schema_set *set, const json_t *const *list, size_t n,
                          unsigned types, symbol to)
{
    rx *any = schema_alloc(s, n * sizeof *any);
    size_t n_any = 0, n_list = 0;
    for (size_t i = 0; i < set->n; i++)
        n_list += !!json_object_get(set->at[i], "const") + !!json_object_get(set->at[i], "enum");
    const bool whole = types & TYPE_INTEGER && !(types & TYPE_NUMBER);
    for (size_t i = 0; any && i < n; i++) {
        const int good = schema_obeys(s, list[i], set, n_list == 1);
        if (good < 0)
            return;
        if (good)
            any[n_any++] = schema_constant(s, list[i], whole);
    }
    if (any)
        add_lexeme(s, to, rx_any(s->pool, any, n_any));
}

/* A set without choices. */
static void add_settled(schema *s, const schema_set *set, symbol to)
{
    rx_pool *p = s->pool;
    const json_t *const *list;
    unsigned types;
    size_t n;
    if (set->never || !schema_types(s, set, &types) || !schema_enum(s, set, &list, &n))
        return;
    if (list) {
        add_constants(s, set, list, n, types, to);
        return;
    }
    rx any[4] = { RX_NOTHING };
    if (types & TYPE_NULL)
        any[0] = rx_literal(p, "null", 4);
    if (types & TYPE_BOOLEAN)
        any[1] = rx_or(p, rx_literal(p, "true", 4), rx_literal(p, "false", 5));
    if (types & TYPE_INTEGER)
        any[2] = schema_number(s, set, !(types & TYPE_NUMBER));
    if (types & TYPE_STRING)
        any[3] = schema_string(s, set);
    add_lexeme(s, to, rx_any(p, any, 4));
    if (types & TYPE_ARRAY)
        schema_list(s, set, to);
    if (types & TYPE_OBJECT)
        schema_object(s, set, to);
}

/* ---- choices --------------------------------------------------------------------------------------------------- */

/* A set on the way to being settled: some of its choices are made. */
typedef struct attempt {
    schema_set set;
    size_t n_done;
    const json_t **done; /* lists that were chosen from */
    struct attempt *next;
} attempt;

static bool is_done(const attempt *a, const json_t *list)
{
    for (size_t i = 0; i < a->n_done; i++)
        if (a->done[i] == list)
            return true;
    return false;
}

static attempt *choose(schema *s, const attempt *from, const schema_choice *c, const json_t *one)
{
    attempt *to = schema_alloc(s, sizeof *to);
    const json_t **done = schema_alloc(s, (from->n_done + 1) * sizeof *done);
    if (!to || !done)
        return NULL;
    *to = (attempt){ .n_done = from->n_done + 1, .done = done };
    to->set.never = from->set.never;
    if (from->n_done)
        memcpy(done, from->done, from->n_done * sizeof *done);
    done[from->n_done] = c->list;
    for (size_t i = 0; i < from->set.n; i++)
        if (!schema_add_to(s, &to->set, from->set.at[i]))
            return NULL;
    return schema_add_to(s, &to->set, one) ? to : NULL;
}

/* Each two schemas of a oneOf must be apart. */
static bool check_exclusive(schema *s, attempt *const *option, size_t n, const schema_choice *c)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = i + 1; k < n; k++) {
            const int good = schema_apart(s, &option[i]->set, &option[k]->set);
            if (good < 0)
                return false;
            if (good == 0)
                return schema_unsupported(s, c->owner, "oneOf",
                                          "two of its schemas may hold at once; not supported");
        }
    return true;
}

/* Puts an attempt for each schema of a choice before *list. */
static bool branch(schema *s, const attempt *a, const schema_choice *c, attempt **list,
                   size_t *total)
{
    const size_t n = json_array_size(c->list);
    attempt **option = schema_alloc(s, n * sizeof *option);
    *total += n;
    if (*total > SCHEMA_CHOICES)
        return schema_refuse(s, WEFT_ELIMIT, c->owner, c->exclusive ? "oneOf" : "anyOf",
                             "more than %d combinations of choices", SCHEMA_CHOICES);
    for (size_t i = 0; option && i < n; i++)
        if (!(option[i] = choose(s, a, c, json_array_get(c->list, i))))
            return false;
    if (!option || (c->exclusive && !check_exclusive(s, option, n, c)))
        return false;
    for (size_t i = n; i-- > 0;) {
        option[i]->next = *list;
        *list = option[i];
    }
    return true;
}

static void add_place(schema *s, const schema_made *m)
{
    attempt *list = schema_alloc(s, sizeof *list);
    schema_view *v = schema_alloc(s, sizeof *v);
    size_t total = 0;
    if (!list || !v)
        return;
    *list = (attempt){ .set = m->set };
    while (list) {
        attempt *a = list;
        list = a->next;
        if (!schema_look(s, &a->set, v))
            return;
        size_t i = 0;
        while (i < v->n_choice && is_done(a, v->choice[i].list))
            i++;
        if (i < v->n_choice) {
            if (!branch(s, a, &v->choice[i], &list, &total))
                return;
        } else if (a->n_done == 0) {
            add_settled(s, &v->set, m->rule);
        } else if (!v->set.never) {
            const symbol rule = schema_rule(s, &v->set);
            grammar_add(s->grammar, m->rule, &rule, 1);
        }
    }
}

/* ---- the whole ---------------------------------------------------------------------------------------------------- */

static void set_white_space(schema *s)
{
    grammar *g = s->grammar;
    rx_pool *p = s->pool;
    const rx blank = rx_repeat(p, rx_literal(p, " ", 1), 0, 1);
    const rx line = rx_seq(p, rx_literal(p, "\n", 1), rx_repeat(p, rx_literal(p, " ", 1), 0, 8));
    const bool indent = s->options->indent;
    s->colon = rx_seq(p, rx_literal(p, ":", 1), blank);
    s->after_comma = indent ? rx_or(p, blank, line) : blank;
    s->after_open = s->before_close = indent ? rx_repeat(p, line, 0, 1) : RX_EMPTY;
    s->comma = grammar_lexeme(g, rx_seq(p, rx_literal(p, ",", 1), s->after_comma));
    s->open_list = grammar_lexeme(g, rx_seq(p, rx_literal(p, "[", 1), s->after_open));
    s->close_list = grammar_lexeme(g, rx_seq(p, s->before_close, rx_literal(p, "]", 1)));
    s->open_object = grammar_lexeme(g, rx_seq(p, rx_literal(p, "{", 1), s->after_open));
    s->close_object = grammar_lexeme(g, rx_seq(p, s->before_close, rx_literal(p, "}", 1)));
}

static symbol read_root(schema *s)
{
    schema_set set = { 0 };
    if (!schema_add_to(s, &set, s->root))
        return NO_SYMBOL;
    set_white_space(s);
    const symbol root = schema_rule(s, &set);
    for (schema_made *m = s->first; m && !s->failed; m = m->later) {
        if (m->set.settled)
            add_settled(s, &m->set, m->rule);
        else
            add_place(s, m);
        if (!s->failed &&
            (rx_failed(s->pool, s->err) != WEFT_OK || grammar_check(s->grammar, s->err) != WEFT_OK))
            s->failed = true;
    }
    return s->failed ? NO_SYMBOL : root;
}

/* true and false are schemas as well, but no documents to a reader of objects. */
static json_t *read_document(const char *text, size_t n, weft_error *err)
{
    while (n > 0 && strchr(" \t\r\n", *text))
        text++, n--;
    while (n > 0 && strchr(" \t\r\n", text[n - 1]))
        n--;
    if (n == 4 && memcmp(text, "true", 4) == 0)
        return json_true();
    if (n == 5 && memcmp(text, "false", 5) == 0)
        return json_false();
    return json_read((const uint8_t *)text, n, true, "schema", err);
}

symbol schema_add(grammar *g, const char *text, size_t n, const schema_options *o, weft_error *err)
{
    static const schema_options plain = { 0 };
    weft_error why = { 0 };
    symbol root = NO_SYMBOL;
    if (n > grammar_bounds(g)->text) {
        weft_fail(err, WEFT_ELIMIT, "schema: %zu bytes, the limit is %zu", n,
                  grammar_bounds(g)->text);
        return NO_SYMBOL;
    }
    mem *m = grammar_mem(g);
    schema *s = mem_zalloc(m, 1, sizeof *s, "a schema", err);
    if (!s)
        return NO_SYMBOL;
    s->mem = m;
    s->grammar = g;
    s->pool = grammar_pool(g);
    s->options = o ? o : &plain;
    s->err = &why;
    json_section_begin(m);
    if (arena_init(&s->arena, ARENA_GROWING, m, 0, "a schema", &why) == WEFT_OK &&
        (s->root = read_document(text, n, &why)))
        root = read_root(s);
    json_section_end();
    arena_free(&s->arena);
    mem_free(m, s);
    if (root == NO_SYMBOL)
        weft_fail(err, why.code, "%s", why.message);
    return root;
}

grammar *schema_read(mem *m, const char *text, size_t n, const schema_options *o,
                     const grammar_limits *limits, weft_error *err)
{
    grammar *g = grammar_new(m, limits, err);
    if (!g)
        return NULL;
    const symbol start = schema_add(g, text, n, o, err);
    if (start != NO_SYMBOL && grammar_finish(g, start, err) == WEFT_OK)
        return g;
    grammar_free(g);
    return NULL;
}
