/* options.c - reads environment and command line by a command's table, and prints it as help. */
#include "cli.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

int cli_usage(const command *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "weft %s: ", c->name);
    vfprintf(stderr, format, args);
    fprintf(stderr, "\nTry 'weft help %s'.\n", c->name);
    va_end(args);
    return EXIT_USAGE;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* "512M" -> bytes; K, M, G, T are powers of 1024. */
static bool parse_size(const char *text, size_t *size)
{
    char *end;
    errno = 0;
    const double n = strtod(text, &end);
    static const char units[] = "KMGT";
    const char *unit = *end ? strchr(units, *end & ~0x20) : NULL;
    double scale = 1;
    for (ptrdiff_t i = unit ? unit - units + 1 : 0; i > 0; i--)
        scale *= 1024;
    if (unit && *unit)
        end++;
    if (strcasecmp(end, "iB") == 0)
        end += 2;
    else if (strcasecmp(end, "B") == 0)
        end++;
    if (end == text || *end || errno || !(n >= 0) || n * scale >= 0x1p63)
        return false;
    *size = (size_t)(n * scale);
    return true;
}

/* Stores a value; false if it is not of the option's kind. */
static bool store(const option *o, const char *text)
{
    char *end;
    errno = 0;
    switch (o->kind) {
    case OPT_FLAG:
        *(bool *)o->to = text[0] == '1';
        return (text[0] == '0' || text[0] == '1') && !text[1];
    case OPT_INT:
        *(int64_t *)o->to = strtoll(text, &end, 10);
        return end != text && !*end && !errno;
    case OPT_REAL:
        *(double *)o->to = strtod(text, &end);
        return end != text && !*end && !errno;
    case OPT_SIZE:
        return parse_size(text, o->to);
    case OPT_TEXT:
        *(const char **)o->to = text;
        return true;
    case OPT_LIST: {
        text_list *list = o->to;
        if (list->n == MAX_LIST)
            return false;
        list->at[list->n++] = text;
        return true;
    }
    }
    return false;
}

static const char *const kinds[] = { "0 or 1", "an integer",          "a number",
                                     "text",   "a size such as 512M", "one of at most 256" };

/* ---- names ----------------------------------------------------------------------------------- */

static const option *by_name(const command *c, const char *name, size_t length)
{
    for (const option *o = c->options; o->name; o++)
        if (strlen(o->name) == length && memcmp(o->name, name, length) == 0)
            return o;
    return NULL;
}

static const option *by_letter(const command *c, char letter)
{
    for (const option *o = c->options; o->name; o++)
        if (o->letter == letter)
            return o;
    return NULL;
}

/* Insertions, deletions and replacements that lead from a to b. */
static int distance(const char *a, const char *b)
{
    int row[64];
    const int n = (int)strlen(b);
    if (n >= 64)
        return INT_MAX;
    for (int j = 0; j <= n; j++)
        row[j] = j;
    for (int i = 0; a[i]; i++) {
        int corner = row[0];
        row[0] = i + 1;
        for (int j = 1; j <= n; j++) {
            const int replace = corner + (a[i] != b[j - 1]);
            corner = row[j];
            const int other = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            row[j] = replace < other ? replace : other;
        }
    }
    return row[n];
}

/* A beginning of the other counts as near ("--ctx", "--temperature"), as does a slip in two
 * letters. */
bool cli_resembles(const char *given, const char *name, int *least)
{
    const size_t n = strlen(given), k = strlen(name), shorter = n < k ? n : k;
    int d = distance(given, name);
    if (shorter >= 3 && strncmp(given, name, shorter) == 0)
        d = 1;
    if (d >= *least || d > (int)(shorter + 1) / 2)
        return false;
    *least = d;
    return true;
}

static int unknown(const command *c, const char *given)
{
    const char *name = given + strspn(given, "-"), *best = NULL;
    const int length = (int)strcspn(given, "=");
    char stem[64];
    snprintf(stem, sizeof stem, "%.*s", (int)strcspn(name, "="), name);
    int least = INT_MAX;
    for (const option *o = c->options; o->name; o++)
        if (cli_resembles(stem, o->name, &least))
            best = o->name;
    if (best)
        return cli_usage(c, "unknown option %.*s; did you mean --%s?", length, given, best);
    return cli_usage(c, "unknown option %.*s", length, given);
}

/* ---- the two readers ------------------------------------------------------------------------- */

static int read_environment(const command *c)
{
    for (const option *o = c->options; o->name; o++) {
        const char *value = o->env ? getenv(o->env) : NULL;
        if (value && *value && !store(o, value))
            return cli_usage(c, "%s=%s: expected %s", o->env, value, kinds[o->kind]);
    }
    return 0;
}

/* Takes the option at argv[*i] and, if it has one, its value. */
static int take_option(const command *c, int argc, char **argv, int *i)
{
    const char *arg = argv[*i];
    const bool lengthy = arg[1] == '-';
    const size_t length = lengthy ? strcspn(arg + 2, "=") : 0;
    const option *o = lengthy ? by_name(c, arg + 2, length) : by_letter(c, arg[1]);
    const char *attached = lengthy && arg[2 + length] ? arg + 3 + length /* --predict=5 */
                           : !lengthy && arg[2]       ? arg + 2          /* -n5 */
                                                      : NULL;
    if (!o || (!lengthy && attached && o->kind == OPT_FLAG))
        return unknown(c, arg);
    const char *value = attached              ? attached
                        : o->kind == OPT_FLAG ? "1"
                        : *i + 1 < argc       ? argv[++*i]
                                              : NULL;
    if (!value)
        return cli_usage(c, "%s needs a value: %s", arg, o->value);
    if (!store(o, value))
        return cli_usage(c, "--%s: \"%s\" is not %s", o->name, value, kinds[o->kind]);
    return 0;
}

int options_parse(const command *c, int argc, char **argv)
{
    int n_positional = 0;
    bool only_positional = false;
    int bad = read_environment(c);
    for (int i = 0; i < argc && !bad; i++) {
        const char *arg = argv[i];
        if (!only_positional && strcmp(arg, "--") == 0)
            only_positional = true;
        else if (!only_positional && arg[0] == '-' && arg[1])
            bad = take_option(c, argc, argv, &i);
        else if (n_positional < c->n_positional)
            c->positional[n_positional++] = arg;
        else
            bad = cli_usage(c, "unexpected argument \"%s\"", arg);
    }
    return bad;
}

/* ---- help ------------------------------------------------------------------------------------ */

void help_command(const command *c)
{
    printf("weft %s - %s\n\nExamples:\n%s\nUsage: weft %s%s%s [options]\n\nOptions:\n", c->name,
           c->summary, c->examples, c->name, *c->arguments ? " " : "", c->arguments);
    for (const option *o = c->options; o->name; o++) {
        char left[64];
        snprintf(left, sizeof left, "%c%c%s --%s%s%s", o->letter ? '-' : ' ',
                 o->letter ? o->letter : ' ', o->letter ? "," : " ", o->name, o->value ? " " : "",
                 o->value ? o->value : "");
        printf("  %-22s %s", left, o->help);
        if (o->env)
            printf(" [%s]", o->env);
        putchar('\n');
    }
}
