/* schema_value.c - constants of enum and const, with every spelling that a text may choose: one blank
 * after a comma or colon, zeros behind the point of a number. */
#include "text/constrain/schema.h"
#include "text/constrain/schema_decimal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Very large and very small numbers, with an exponent. */
static rx shortest(rx_pool *p, double x)
{
    char text[40];
    int precision = 1;
    do
        snprintf(text, sizeof text, "%.*g", precision, x);
    while (strtod(text, NULL) != x && ++precision <= 17);
    for (char *c = text; *c; c++)
        if (*c == ',')
            *c = '.'; /* of a locale */
    return rx_literal(p, text, strlen(text));
}

static rx number(schema *s, const json_t *value, bool whole)
{
    rx_pool *p = s->pool;
    decimal d;
    if (!decimal_read(value, &d) || d.huge || d.n_whole + d.n_part > 20)
        return shortest(p, json_number_value(value));
    const int n = d.n_whole + d.n_part;
    const rx zeros = rx_repeat(p, rx_literal(p, "0", 1), d.n_part == 0,
                               n < 17 ? 17 - (uint32_t)n : 1);
    rx r = RX_EMPTY;
    if (d.n_part > 0)
        r = rx_seq(p, rx_literal(p, ".", 1),
                   rx_seq(p, rx_literal(p, d.part, (size_t)d.n_part), zeros));
    else if (!whole && n < 17)
        r = rx_repeat(p, rx_seq(p, rx_literal(p, ".", 1), zeros), 0, 1);
    r = rx_seq(p, d.n_whole ? rx_literal(p, d.whole, (size_t)d.n_whole) : rx_literal(p, "0", 1), r);
    return d.negative && !decimal_is_zero(&d) ? rx_seq(p, rx_literal(p, "-", 1), r) : r;
}

static rx string(schema *s, const char *text, size_t n)
{
    rx_pool *p = s->pool;
    const rx quote = rx_literal(p, "\"", 1);
    return rx_seq(p, quote, rx_seq(p, schema_text(s, text, n), quote));
}

/* Between two elements, from the end: the last has no comma after it. */
static rx before(schema *s, rx one, rx rest, bool last)
{
    rx_pool *p = s->pool;
    if (!last)
        rest = rx_seq(p, rx_seq(p, rx_literal(p, ",", 1), s->after_comma), rest);
    return rx_seq(p, one, rest);
}

static rx enclose(schema *s, char open, rx inside, char close, bool empty)
{
    rx_pool *p = s->pool;
    const rx first = rx_literal(p, &open, 1), last = rx_literal(p, &close, 1);
    if (empty)
        return rx_seq(p, first, last);
    return rx_seq(p, rx_seq(p, first, s->after_open),
                  rx_seq(p, inside, rx_seq(p, s->before_close, last)));
}

static rx object(schema *s, const json_t *value)
{
    rx_pool *p = s->pool;
    const size_t n = json_object_size(value);
    rx *pair = schema_alloc(s, n * sizeof *pair), r = RX_EMPTY;
    const char *key;
    json_t *child;
    size_t i = 0;
    if (!pair)
        return RX_NOTHING;
    json_object_foreach((json_t *)value, key, child) pair[i++] = rx_seq(
        p, rx_seq(p, string(s, key, strlen(key)), s->colon), schema_constant(s, child, false));
    for (i = n; i-- > 0;)
        r = before(s, pair[i], r, i + 1 == n);
    return enclose(s, '{', r, '}', n == 0);
}

/* Recurses as deep as the document is. */
rx schema_constant(schema *s, const json_t *value, bool whole)
{
    rx r = RX_EMPTY;
    const size_t n = json_array_size(value);
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return object(s, value);
    case JSON_ARRAY:
        for (size_t i = n; i-- > 0;)
            r = before(s, schema_constant(s, json_array_get(value, i), false), r, i + 1 == n);
        return enclose(s, '[', r, ']', n == 0);
    case JSON_STRING:
        return string(s, json_string_value(value), json_string_length(value));
    case JSON_INTEGER:
    case JSON_REAL:
        return number(s, value, whole);
    case JSON_TRUE:
        return rx_literal(s->pool, "true", 4);
    case JSON_FALSE:
        return rx_literal(s->pool, "false", 5);
    case JSON_NULL:
        return rx_literal(s->pool, "null", 4);
    }
    return RX_NOTHING;
}
