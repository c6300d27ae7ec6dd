/* schema_number.c - numbers: bounds and steps, exact, by their digits.
 *
 * A number that is not bounded has at most 17 significant digits, as many as tell any two doubles
 * apart, and perhaps an exponent, below 290 so that the number is a double. With a bound or a step
 * there is no exponent, and the digits are compared with those of the bound from left to right:
 *
 *     >= 250     [0-9]{4,}, or 2 and then: 5 and then: [0-9], or [6-9][0-9]; or [3-9][0-9][0-9]
 *
 * With a step it has at most 15 digits: others read it as a double, where a multiple of 12 with 17
 * digits may be none. Zero has no sign. */
#include "text/constrain/schema.h"
#include "text/constrain/schema_decimal.h"

#define SIGNIFICANT 17
#define OF_A_STEP   15
#define STEPS       8

typedef struct bounds {
    bool has_min, has_max, min_open, max_open;
    decimal min, max;
    struct {
        uint32_t divisor, decimals;
    } step[STEPS];
    int n_step;
} bounds;

/* ---- keywords -------------------------------------------------------------------------------------- */

static bool read_decimal(schema *s, const json_t *one, const char *keyword, decimal *d)
{
    const json_t *v = json_object_get(one, keyword);
    if (!json_is_number(v))
        return schema_refuse(s, WEFT_EFORMAT, one, keyword, "expected a number");
    return decimal_read(v, d) || schema_refuse(s, WEFT_EUNSUPPORTED, one, keyword,
                                               "more than %d decimals", DECIMAL_DIGITS);
}

static void raise_min(bounds *b, const decimal *d, bool open)
{
    const int order = b->has_min ? decimal_compare(d, &b->min) : 1;
    if (order > 0)
        b->min = *d;
    b->min_open = order > 0 ? open : b->min_open || (order == 0 && open);
    b->has_min = true;
}

static void lower_max(bounds *b, const decimal *d, bool open)
{
    const int order = b->has_max ? decimal_compare(d, &b->max) : -1;
    if (order < 0)
        b->max = *d;
    b->max_open = order < 0 ? open : b->max_open || (order == 0 && open);
    b->has_max = true;
}

/* In draft 4 exclusiveMinimum is true or false, and changes what minimum means. */
static bool read_bound(schema *s, const json_t *one, bool max, bounds *b)
{
    const char *plain = max ? "maximum" : "minimum";
    const char *other = max ? "exclusiveMaximum" : "exclusiveMinimum";
    const json_t *open = json_object_get(one, other);
    decimal d;
    if (json_object_get(one, plain)) {
        if (!read_decimal(s, one, plain, &d))
            return false;
        (max ? lower_max : raise_min)(b, &d, json_is_true(open));
    }
    if (open && !json_is_boolean(open)) {
        if (!read_decimal(s, one, other, &d))
            return false;
        (max ? lower_max : raise_min)(b, &d, true);
    }
    return true;
}

static bool read_step(schema *s, const json_t *one, bounds *b)
{
    decimal d;
    uint64_t divisor = 0;
    if (!json_object_get(one, "multipleOf"))
        return true;
    if (!read_decimal(s, one, "multipleOf", &d))
        return false;
    if (d.negative || decimal_is_zero(&d))
        return schema_refuse(s, WEFT_EFORMAT, one, "multipleOf", "expected a number above 0");
    for (int i = 0; i < d.n_whole + d.n_part && divisor < UINT32_MAX; i++)
        divisor = divisor * 10 + (uint64_t)(i < d.n_whole ? d.whole[i] : d.part[i - d.n_whole]) -
                  '0';
    if (divisor >= UINT32_MAX || d.huge || b->n_step == STEPS)
        return schema_refuse(s, WEFT_EUNSUPPORTED, one, "multipleOf",
                             "a step of more than nine digits, or more than %d steps", STEPS);
    b->step[b->n_step].divisor = (uint32_t)divisor;
    b->step[b->n_step++].decimals = (uint32_t)d.n_part;
    return true;
}

/* ---- forms ------------------------------------------------------------------------------------------ */

static rx digits(rx_pool *p, uint32_t min, uint32_t max)
{
    return rx_repeat(p, rx_byte_range(p, '0', '9'), min, max);
}

static rx maybe(rx_pool *p, rx a)
{
    return rx_repeat(p, a, 0, 1);
}

static rx point_and(rx_pool *p, rx a)
{
    return rx_seq(p, rx_literal(p, ".", 1), a);
}

/* Up to n digits, the first of them not 0, and what may follow each number of them. */
static rx whole_and_part(rx_pool *p, uint32_t n, bool integer)
{
    const rx first = rx_byte_range(p, '1', '9');
    rx any[DECIMAL_DIGITS + 1];
    size_t n_any = 0;
    if (integer)
        return rx_seq(p, first, digits(p, 0, n - 1));
    any[n_any++] = rx_seq(p, first, digits(p, 0, n - 1));
    for (uint32_t i = 1; i <= n && i <= DECIMAL_DIGITS; i++) {
        const uint32_t most = n > i ? n - i : 1;
        any[n_any++] = rx_seq(p, first,
                              rx_seq(p, digits(p, i - 1, i - 1), point_and(p, digits(p, 1, most))));
    }
    return rx_any(p, any, n_any);
}

/* A number that is not negative, of n significant digits; with `zero` it may be 0. */
static rx number_form(rx_pool *p, uint32_t n, bool integer, bool zero)
{
    const rx nought = rx_literal(p, "0", 1);
    rx any[4] = { whole_and_part(p, n, integer) };
    if (!integer) {
        const rx rest = rx_seq(p, rx_byte_range(p, '1', '9'), digits(p, 0, n - 1));
        any[1] = rx_seq(p, nought, point_and(p, rx_seq(p, rx_repeat(p, nought, 0, n - 1), rest)));
    }
    if (zero) {
        any[2] = nought;
        any[3] = integer ? RX_NOTHING : rx_seq(p, nought, point_and(p, rx_repeat(p, nought, 1, n)));
    }
    return rx_any(p, any, 4);
}

/* ---- comparisons: of "12.5" with a bound, both without a sign ---------------------------------------- */

static rx between(rx_pool *p, int first, int last)
{
    return first > last ? RX_NOTHING : rx_byte_range(p, (uint8_t)first, (uint8_t)last);
}

/* What follows the point if the digits before it are those of the bound, point included. */
static rx part_above(rx_pool *p, const decimal *d, bool open)
{
    const rx some = rx_seq(p, digits(p, 0, RX_MANY),
                           rx_seq(p, rx_byte_range(p, '1', '9'), digits(p, 0, RX_MANY)));
    rx r = open ? some : digits(p, 0, RX_MANY);
    if (d->n_part == 0)
        return open ? point_and(p, r) : maybe(p, point_and(p, r));
    for (int i = d->n_part; i-- > 0;)
        r = rx_or(p, rx_seq(p, between(p, d->part[i] + 1, '9'), digits(p, 0, RX_MANY)),
                  rx_seq(p, between(p, d->part[i], d->part[i]), r));
    return point_and(p, r);
}

static rx part_below(rx_pool *p, const decimal *d, bool open)
{
    const rx zeros = rx_repeat(p, rx_literal(p, "0", 1), 0, RX_MANY);
    rx r = open ? RX_NOTHING : zeros;
    if (d->n_part == 0)
        return open ? RX_NOTHING : maybe(p, point_and(p, r));
    for (int i = d->n_part; i-- > 0;) {
        r = rx_or(p, rx_seq(p, between(p, '0', d->part[i] - 1), digits(p, 0, RX_MANY)),
                  rx_seq(p, between(p, d->part[i], d->part[i]), r));
        r = rx_or(p, r, RX_EMPTY); /* fewer digits: smaller */
    }
    return maybe(p, point_and(p, r));
}

/* Numbers above, or below, the bound without its sign. */
static rx compared(rx_pool *p, const decimal *d, bool above, bool open)
{
    static const char nought[] = { '0' };
    const int n = d->n_whole ? d->n_whole : 1;
    const char *whole = d->n_whole ? d->whole : nought;
    const rx any_part = maybe(p, point_and(p, digits(p, 1, RX_MANY)));
    if (d->huge)
        return above ? RX_NOTHING : RX_ALL;
    rx r = above ? part_above(p, d, open) : part_below(p, d, open);
    for (int i = n; i-- > 0;) {
        const uint32_t left = (uint32_t)(n - 1 - i);
        const rx other = above ? between(p, whole[i] + 1, '9') : between(p, '0', whole[i] - 1);
        r = rx_or(p, rx_seq(p, other, rx_seq(p, digits(p, left, left), any_part)),
                  rx_seq(p, between(p, whole[i], whole[i]), r));
    }
    const rx length = above ? digits(p, (uint32_t)n + 1, RX_MANY) : digits(p, 1, (uint32_t)n - 1);
    return rx_or(p, r, n == 1 && !above ? RX_NOTHING : rx_seq(p, length, any_part));
}

/* ---- all together -------------------------------------------------------------------------------------- */

/* The numbers of one sign, without it. */
static rx of_sign(rx_pool *p, const bounds *b, bool integer, bool negative)
{
    uint32_t n = b->n_step > 0 ? OF_A_STEP : SIGNIFICANT;
    const bool min_here = b->has_min && b->min.negative == negative;
    const bool max_here = b->has_max && b->max.negative == negative;
    if ((b->has_min && !min_here && negative) || (b->has_max && !max_here && !negative))
        return RX_NOTHING;
    if (min_here && (uint32_t)b->min.n_whole > n)
        n = (uint32_t)b->min.n_whole;
    if (max_here && (uint32_t)b->max.n_whole > n)
        n = (uint32_t)b->max.n_whole;
    rx r = number_form(p, n, integer, !negative);
    if (min_here)
        r = rx_and(p, r, compared(p, &b->min, !negative, b->min_open));
    if (max_here)
        r = rx_and(p, r, compared(p, &b->max, negative, b->max_open));
    for (int i = 0; i < b->n_step; i++)
        r = rx_and(p, r, rx_multiple(p, b->step[i].divisor, b->step[i].decimals));
    return r;
}

/* [eE][+-]?([0-9]{1,2}|[01][0-9]{2}|2[0-8][0-9]) */
static rx exponent(rx_pool *p)
{
    uint64_t e[4] = { 0, 1ull << ('e' - 64) | 1ull << ('E' - 64), 0, 0 };
    uint64_t sign[4] = { 1ull << '+' | 1ull << '-', 0, 0, 0 };
    const rx power[] = { digits(p, 1, 2), rx_seq(p, rx_byte_range(p, '0', '1'), digits(p, 2, 2)),
                         rx_seq(p, rx_literal(p, "2", 1),
                                rx_seq(p, rx_byte_range(p, '0', '8'), digits(p, 1, 1))) };
    return rx_seq(p, rx_bytes(p, e), rx_seq(p, maybe(p, rx_bytes(p, sign)), rx_any(p, power, 3)));
}

rx schema_number(schema *s, const schema_set *set, bool integer)
{
    rx_pool *p = s->pool;
    bounds b = { 0 };
    schema_recent *recent = integer ? &s->integer : &s->number;
    const rx known = schema_recall(recent, set);
    if (known != RX_NOTHING)
        return known;
    for (size_t i = 0; i < set->n; i++)
        if (!read_bound(s, set->at[i], false, &b) || !read_bound(s, set->at[i], true, &b) ||
            !read_step(s, set->at[i], &b))
            return RX_NOTHING;
    rx above = of_sign(p, &b, integer, false), below = of_sign(p, &b, integer, true);
    if (!integer && !b.has_min && !b.has_max && b.n_step == 0) {
        above = rx_seq(p, above, maybe(p, exponent(p)));
        below = rx_seq(p, below, maybe(p, exponent(p)));
    }
    return schema_remember(recent, set, rx_or(p, above, rx_seq(p, rx_literal(p, "-", 1), below)));
}
