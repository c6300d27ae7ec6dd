/* number.c - Python's arithmetic on integers and floats, and numbers as text. An integer that Python
 * would let grow beyond 64 bits is refused. */
#include "text/jinja/value.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static jval too_large(jrender *r)
{
    return jfail(r, WEFT_EUNSUPPORTED, "an integer beyond 64 bits; weft computes with 64");
}

static jval by_zero(jrender *r)
{
    return jfail(r, WEFT_EINVAL, "division by zero");
}

/* ---- integers -------------------------------------------------------------------------------- */

static jval int_power(jrender *r, int64_t base, int64_t exponent)
{
    if (exponent < 0) {
        if (base == 0)
            return by_zero(r);
        return jfloat(pow((double)base, (double)exponent));
    }
    int64_t result = 1;
    if (base == 0 || base == 1 || base == -1)
        return jint(exponent == 0 ? 1 : base == -1 && exponent % 2 == 0 ? 1 : base);
    for (int64_t i = 0; i < exponent; i++) /* at most 64 times, or it overflows */
        if (__builtin_mul_overflow(result, base, &result))
            return too_large(r);
    return jint(result);
}

static uint64_t magnitude(int64_t i)
{
    return i < 0 ? -(uint64_t)i : (uint64_t)i;
}

/* The float nearest to a / b, also where a or b is none: the quotient with 65 bits and a sticky
 * one. */
static double int_quotient(int64_t a, int64_t b)
{
    const uint64_t x = magnitude(a), y = magnitude(b);
    if (x == 0)
        return b < 0 ? -0.0 : 0.0;
    const int shift = __builtin_clzll(x);
    const unsigned __int128 top = (unsigned __int128)(x << shift) << 64;
    unsigned __int128 q = top / y;
    if (q * y != top)
        q |= 1;
    const double f = ldexp((double)q, -64 - shift);
    return (a < 0) != (b < 0) ? -f : f;
}

jval jint_math(jrender *r, char op, int64_t a, int64_t b)
{
    int64_t c;
    bool over = false;
    switch (op) {
    case '+':
        over = __builtin_add_overflow(a, b, &c);
        break;
    case '-':
        over = __builtin_sub_overflow(a, b, &c);
        break;
    case '*':
        over = __builtin_mul_overflow(a, b, &c);
        break;
    case '^':
        return int_power(r, a, b);
    default:
        if (b == 0)
            return by_zero(r);
        if (op == '/')
            return jfloat(int_quotient(a, b));
        if (b == -1) { /* INT64_MIN / -1 does not fit */
            if (op == '%')
                return jint(0);
            return a == INT64_MIN ? too_large(r) : jint(-a);
        }
        const int64_t rest = a % b;
        const bool down = rest != 0 && (rest < 0) != (b < 0);
        c = op == '%' ? rest + (down ? b : 0) : a / b - down;
    }
    return over ? too_large(r) : jint(c);
}

/* ---- floats ---------------------------------------------------------------------------------- */

static double float_rest(double a, double b)
{
    const double rest = fmod(a, b);
    if (rest == 0)
        return copysign(0.0, b);
    return (b < 0) != (rest < 0) ? rest + b : rest;
}

static double float_floor(double a, double b)
{
    double rest = fmod(a, b), div = (a - rest) / b;
    if (rest != 0 && (b < 0) != (rest < 0))
        div -= 1;
    if (div == 0)
        return copysign(0.0, a / b);
    const double down = floor(div);
    return div - down > 0.5 ? down + 1 : down;
}

static jval float_power(jrender *r, double a, double b)
{
    if (a == 0 && b < 0)
        return by_zero(r);
    if (a < 0 && isfinite(a) && isfinite(b) && b != floor(b))
        return jfail(r, WEFT_EUNSUPPORTED, "a power that is complex; weft has real numbers");
    const double f = pow(a, b);
    if (isinf(f) && isfinite(a) && isfinite(b))
        return jfail(r, WEFT_EINVAL, "a power that is too large for a float");
    return jfloat(f);
}

jval jfloat_math(jrender *r, char op, double a, double b)
{
    switch (op) {
    case '+':
        return jfloat(a + b);
    case '-':
        return jfloat(a - b);
    case '*':
        return jfloat(a * b);
    case '^':
        return float_power(r, a, b);
    default:
        if (b == 0)
            return by_zero(r);
        return jfloat(op == '/' ? a / b : op == '%' ? float_rest(a, b) : float_floor(a, b));
    }
}

/* ---- numbers as text ------------------------------------------------------------------------- */

/* The digits of f, as few as give it back, and the exponent of the first. The point between them
 * depends on the locale and is skipped. */
static int shortest(double f, char digits[20], int *exponent)
{
    char text[64];
    for (int precision = 0; precision < 17; precision++) {
        snprintf(text, sizeof text, "%.*e", precision, f);
        if (precision == 16 || strtod(text, NULL) == f)
            break;
    }
    int n = 0;
    const char *at = text;
    for (; *at && *at != 'e'; at++)
        if (*at >= '0' && *at <= '9' && n < 19)
            digits[n++] = *at;
    *exponent = *at ? atoi(at + 1) : 0;
    while (n > 1 && digits[n - 1] == '0')
        n--;
    digits[n] = '\0';
    return n;
}

int jfloat_text(double f, char to[32])
{
    char digits[20];
    int exponent, at = 0;
    if (isnan(f))
        return snprintf(to, 32, "nan");
    if (signbit(f))
        to[at++] = '-';
    if (isinf(f))
        return at + snprintf(to + at, 28, "inf");
    const int n = shortest(fabs(f), digits, &exponent);
    if (exponent < -4 || exponent >= 16) {
        to[at++] = digits[0];
        if (n > 1)
            at += snprintf(to + at, 24, ".%s", digits + 1);
        return at + snprintf(to + at, 6, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
    }
    if (exponent < 0) {
        at += snprintf(to + at, 8, "0.%.*s", -exponent - 1, "000");
        return at + snprintf(to + at, 20, "%s", digits);
    }
    for (int i = 0; i <= exponent; i++)
        to[at++] = i < n ? digits[i] : '0';
    return at + snprintf(to + at, 20, ".%s", n > exponent + 1 ? digits + exponent + 1 : "0");
}

bool jint_parse(const char *text, size_t n, int base, int64_t *i)
{
    uint64_t value = 0;
    for (size_t k = 0; k < n; k++) {
        const char c = text[k];
        if (c == '_')
            continue;
        const int digit = c <= '9' ? c - '0' : (c | 32) - 'a' + 10;
        if (__builtin_mul_overflow(value, (uint64_t)base, &value) ||
            __builtin_add_overflow(value, (uint64_t)digit, &value))
            return false;
    }
    *i = (int64_t)value;
    return value <= INT64_MAX;
}

/* Digits without a point and an exponent that makes up for it: what strtod reads is the same in
 * every locale. */
bool jfloat_parse(const char *text, size_t n, double *f)
{
    char plain[800];
    size_t k = 0;
    long exponent = 0, shift = 0;
    bool point = false;
    size_t i = 0;
    for (; i < n && (text[i] | 32) != 'e'; i++) {
        if (text[i] == '.') {
            point = true;
            continue;
        }
        if (text[i] == '_')
            continue;
        if (k + 32 >= sizeof plain)
            return false;
        plain[k++] = text[i];
        shift += point;
    }
    if (i < n) {
        const bool minus = ++i < n && text[i] == '-';
        i += i < n && (text[i] == '-' || text[i] == '+');
        for (; i < n; i++)
            if (text[i] != '_' && exponent < 100000)
                exponent = exponent * 10 + (text[i] - '0');
        exponent = minus ? -exponent : exponent;
    }
    snprintf(plain + k, sizeof plain - k, "e%ld", exponent - shift);
    *f = strtod(plain, NULL);
    return true;
}
