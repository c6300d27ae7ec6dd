/* schema_decimal.c - the digits of a JSON number. */
#include "text/constrain/schema_decimal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Digits whose first stands `exponent` places before the point: 12 and 1 are 12, 12 and -1 are
 * 0.12. */
static bool place(decimal *d, const char *digit, int n, int exponent)
{
    while (n > 0 && digit[n - 1] == '0')
        n--;
    if (n == 0)
        return true;
    d->huge = exponent + 1 > DECIMAL_DIGITS;
    if (d->huge)
        return true;
    const int zeros = exponent < -1 ? -exponent - 1 : 0;
    d->n_whole = exponent >= 0 ? exponent + 1 : 0;
    d->n_part = n > d->n_whole ? n - d->n_whole + zeros : 0;
    if (d->n_part > DECIMAL_DIGITS)
        return false;
    for (int i = 0; i < d->n_whole; i++)
        d->whole[i] = (char)(i < n ? digit[i] : '0');
    for (int i = 0; i < d->n_part; i++)
        d->part[i] = (char)(i < zeros ? '0' : digit[d->n_whole + i - zeros]);
    return true;
}

/* As many digits as it takes to read the same number again. The point is whatever the locale has. */
static bool read_real(decimal *d, double x)
{
    char text[40], digit[20];
    int n = 0, precision = 0;
    do
        snprintf(text, sizeof text, "%.*e", precision, fabs(x));
    while (strtod(text, NULL) != fabs(x) && ++precision < 17);
    const char *e = strchr(text, 'e');
    for (const char *c = text; c < e; c++)
        if (*c >= '0' && *c <= '9')
            digit[n++] = *c; /* 17 at most */
    return place(d, digit, n, atoi(e + 1));
}

bool decimal_read(const json_t *number, decimal *d)
{
    char text[24];
    *d = (decimal){ 0 };
    if (json_is_real(number)) {
        const double x = json_real_value(number);
        d->negative = x < 0;
        return read_real(d, x);
    }
    snprintf(text, sizeof text, "%lld", (long long)json_integer_value(number));
    d->negative = text[0] == '-';
    const char *digit = text + d->negative;
    const int n = (int)strlen(digit);
    return digit[0] == '0' || place(d, digit, n, n - 1);
}

bool decimal_is_zero(const decimal *d)
{
    return !d->huge && d->n_whole == 0 && d->n_part == 0;
}

static int compare_sizes(const decimal *a, const decimal *b)
{
    if (a->huge || b->huge)
        return a->huge - b->huge;
    if (a->n_whole != b->n_whole)
        return a->n_whole < b->n_whole ? -1 : 1;
    int order = memcmp(a->whole, b->whole, (size_t)a->n_whole);
    const int n = a->n_part < b->n_part ? a->n_part : b->n_part;
    order = order ? order : memcmp(a->part, b->part, (size_t)n);
    order = order ? order : a->n_part - b->n_part;
    return (order > 0) - (order < 0);
}

int decimal_compare(const decimal *a, const decimal *b)
{
    if (decimal_is_zero(a) && decimal_is_zero(b))
        return 0;
    const bool a_low = a->negative && !decimal_is_zero(a),
               b_low = b->negative && !decimal_is_zero(b);
    if (a_low != b_low)
        return a_low ? -1 : 1;
    return a_low ? compare_sizes(b, a) : compare_sizes(a, b);
}
