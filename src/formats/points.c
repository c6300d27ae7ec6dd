/* points.c - points of a CSV (table.c), checked number by number and sorted by x. */
#include "formats/points.h"

#include "formats/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST 64 /* bytes of a number, blanks around it included */
#define SHOWN   32 /* of another field, in an error */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* A decimal number with nothing but blanks around it. strtod alone would also take names and
 * hexadecimals. */
static bool read_number(const table_field *f, double *to)
{
    char text[65], *end;
    _Static_assert(sizeof text > LONGEST, "there is room for the end");
    size_t n = f->n <= LONGEST ? table_copy(f, text) : 0, from = 0;
    while (from < n && is_blank(text[from]))
        from++;
    while (n > from && is_blank(text[n - 1])) /* bounded: n is above 0 */
        n--;
    text[n] = '\0';
    if (from == n || strlen(text) != n)
        return false;
    if (strspn(&text[from], "0123456789+-.eE") != strlen(&text[from]))
        return false;
    *to = strtod(&text[from], &end);
    return end == &text[n];
}

static weft_status fail_field(const table *t, int i, weft_error *err)
{
    char shown[33];
    _Static_assert(sizeof shown > SHOWN, "there is room for the end");
    const table_field *f = &t->field[i];
    size_t n = 0;
    for (; n < f->n && n < SHOWN; n++)
        shown[n] = f->text[n];
    for (size_t k = 0; k < n; k++)
        if ((unsigned char)shown[k] < 0x20 || (unsigned char)shown[k] > 0x7E)
            shown[k] = '?';
    shown[n] = '\0';
    return weft_fail(err, WEFT_EFORMAT,
                     "%s:%lld: column %d is \"%s%s\"; expected a number from -1e9 to 1e9; write it "
                     "in digits, such as 2.5",
                     t->path, (long long)t->line, i ? 2 : 1, shown, n < f->n ? "..." : "");
}

static weft_status take_point(points *p, const table *t, weft_error *err)
{
    double at[2];
    for (int i = 0; i < 2; i++)
        if (!read_number(&t->field[i], &at[i]) || !(fabs(at[i]) <= POINTS_REACH))
            return fail_field(t, i, err);
    if (p->n == POINTS_MOST)
        return weft_fail(err, WEFT_EFORMAT,
                         "%s:%lld: another point; expected at most %d; leave some out", t->path,
                         (long long)t->line, POINTS_MOST);
    int64_t k = p->n++;
    for (; k > 0 && (double)p->x[k - 1] > at[0]; k--) {
        p->x[k] = p->x[k - 1];
        p->y[k] = p->y[k - 1];
    }
    p->x[k] = (float)at[0];
    p->y[k] = (float)at[1];
    return WEFT_OK;
}

/* A first line without any number has the names of the columns. */
static bool take_names(points *p, const table *t)
{
    double ignored;
    if (read_number(&t->field[0], &ignored) || read_number(&t->field[1], &ignored))
        return false;
    for (int i = 0; i < 2; i++) {
        const table_field *f = &t->field[i];
        if (f->n >= sizeof p->name[i] || f->n == 0)
            return false;
        p->name[i][table_copy(f, p->name[i])] = '\0';
        if (strlen(p->name[i]) == 0)
            return false;
    }
    return true;
}

weft_status points_parse(points *p, const char *text, size_t size, const char *path,
                         weft_error *err)
{
    table t;
    table_begin(&t, text, size, true, path);
    *p = (points){ .name = { "x", "y" } };
    for (bool first = true;; first = false) {
        if (table_next(&t, err) != WEFT_OK)
            return err->code;
        if (t.n_field == 0)
            break;
        if (t.n_field < 2)
            return weft_fail(err, WEFT_EFORMAT,
                             "%s:%lld: one column; expected two, x and y, with a comma between",
                             path, (long long)t.line);
        if (t.n_field > 2)
            return weft_fail(err, WEFT_EFORMAT,
                             "%s:%lld: %d columns; expected two, x and y; leave out the others",
                             path, (long long)t.line, t.n_field);
        if (first && take_names(p, &t))
            continue;
        if (take_point(p, &t, err) != WEFT_OK)
            return err->code;
    }
    if (p->n < POINTS_LEAST)
        return weft_fail(err, WEFT_EFORMAT,
                         "%s: %lld %s; expected at least %d; write a line x,y for each", path,
                         (long long)p->n, p->n == 1 ? "point" : "points", POINTS_LEAST);
    if (p->x[0] == p->x[p->n - 1])
        return weft_fail(err, WEFT_EFORMAT,
                         "%s: every x is %g; expected at least two places; give others", path,
                         (double)p->x[0]);
    return WEFT_OK;
}
