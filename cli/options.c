/* options.c - reads a command line by a command's table. */
#include "cli.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

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

static bool parse_choice(const char *words, const char *text, int *to)
{
    const size_t n = strlen(text);
    int i = 1;
    for (const char *word = words;; word++, i++) {
        const size_t length = strcspn(word, "|");
        if (length == n && memcmp(word, text, n) == 0) {
            *to = i;
            return true;
        }
        word += length;
        if (!*word)
            return false;
    }
}

static bool add_to(text_list *list, const char *text, bool flag)
{
    if (list->flagged != flag)
        list->n = 0;
    list->flagged = flag;
    if (list->n == MAX_LIST)
        return false;
    list->at[list->n++] = text;
    return true;
}

bool option_store(const option *o, const char *text, bool flag)
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
    case OPT_CHOICE:
        return parse_choice(o->value, text, o->to);
    case OPT_TEXT:
        *(const char **)o->to = text;
        return true;
    case OPT_LIST:
        return add_to(o->to, text, flag);
    }
    return false;
}

/* "f32|f16" -> "one of f32, f16" */
static void list_choices(const char *words, char *text, size_t size)
{
    size_t n = (size_t)snprintf(text, size, "one of ");
    for (const char *s = words; *s && n + 3 < size; s++) {
        text[n++] = *s == '|' ? ',' : *s;
        if (*s == '|')
            text[n++] = ' ';
    }
    text[n] = '\0';
}

const char *option_takes(const option *o, char *text, size_t size)
{
    static const char *const kinds[] = { "0 or 1", "an integer", "a number", "text",
                                         "a size such as 512M" };
    if (o->kind == OPT_CHOICE)
        list_choices(o->value, text, size);
    else if (o->kind == OPT_LIST)
        snprintf(text, size, "taken: there are %d before it", MAX_LIST);
    else
        return kinds[o->kind];
    return text;
}

/* ---- names ----------------------------------------------------------------------------------- */

const option *option_next(const command *c, const option *o)
{
    const option *end = c->options, *next = o ? o + 1 : c->options;
    while (end->name)
        end++;
    if (next == end)
        next = c->more;
    return next && next->name ? next : NULL;
}

const option *option_named(const command *c, const char *name, size_t length)
{
    for (const option *o = NULL; (o = option_next(c, o));)
        if (strlen(o->name) == length && memcmp(o->name, name, length) == 0)
            return o;
    return NULL;
}

static const option *by_letter(const command *c, char letter)
{
    for (const option *o = NULL; (o = option_next(c, o));)
        if (o->letter == letter)
            return o;
    return NULL;
}

/* What other programs call these options. */
static const char *const foreign[][2] = {
    { "n-predict", "predict" },     { "max-tokens", "predict" },   { "ctk", "kv-type" },
    { "ctv", "kv-type" },           { "cache-type-k", "kv-type" }, { "cache-type-v", "kv-type" },
    { "mem", "ram-max" },           { "tokens", "ids" },           { "reverse-prompt", "stop" },
    { "sampling-seq", "samplers" },
};

static int unknown(const command *c, const char *given)
{
    const char *name = given + strspn(given, "-"), *best = NULL;
    const int length = (int)strcspn(given, "=");
    char stem[64];
    snprintf(stem, sizeof stem, "%.*s", (int)strcspn(name, "="), name);
    int least = INT_MAX;
    for (const option *o = NULL; (o = option_next(c, o));)
        if (cli_resembles(stem, o->name, &least))
            best = o->name;
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (strcmp(stem, foreign[i][0]) == 0 &&
            option_named(c, foreign[i][1], strlen(foreign[i][1])))
            best = foreign[i][1];
    if (stem[0] && !stem[1] && by_letter(c, stem[0]))
        return cli_usage(c, "unknown option %.*s; did you mean -%s?", length, given, stem);
    if (best)
        return cli_usage(c, "unknown option %.*s; did you mean --%s?", length, given, best);
    return cli_usage(c, "unknown option %.*s", length, given);
}

/* ---- the command line ------------------------------------------------------------------------ */

/* Habit of those who have a GPU: -ngl 99. */
static bool for_gpu(const char *arg)
{
    return strcmp(arg, "-ngl") == 0 || strcmp(arg, "--n-gpu-layers") == 0 ||
           strcmp(arg, "--gpu-layers") == 0;
}

/* "-ctk": one dash and several letters, none of which can be a number that belongs to the first. */
static bool is_word(const char *arg)
{
    return arg[1] != '-' && arg[1] && arg[2] >= 'a' && arg[2] <= 'z';
}

/* Takes the option at argv[*i] and, if it has one, its value. */
static int take_option(const command *c, int argc, char **argv, int *i)
{
    const char *arg = argv[*i];
    const bool lengthy = arg[1] == '-';
    const size_t length = lengthy ? strcspn(arg + 2, "=") : 0;
    const option *o = lengthy ? option_named(c, arg + 2, length) : by_letter(c, arg[1]);
    const char *attached = lengthy && arg[2 + length] ? arg + 3 + length /* --predict=5 */
                           : !lengthy && arg[2]       ? arg + 2          /* -n5 */
                                                      : NULL;
    if (!o ||
        (!lengthy && attached && (o->kind == OPT_FLAG || (o->kind == OPT_INT && is_word(arg)))))
        return unknown(c, arg);
    const char *value = attached              ? attached
                        : o->kind == OPT_FLAG ? "1"
                        : *i + 1 < argc       ? argv[++*i]
                                              : NULL;
    char takes[128];
    if (!value)
        return cli_usage(c, "%s needs a value: %s", arg, o->value);
    if (!option_store(o, value, true))
        return cli_usage(c, "--%s: \"%s\" is not %s", o->name, value,
                         option_takes(o, takes, sizeof takes));
    return 0;
}

int options_parse(const command *c, int argc, char **argv)
{
    int n_positional = 0, bad = 0;
    bool only_positional = false;
    for (int i = 0; i < argc && !bad; i++) {
        const char *arg = argv[i];
        if (!only_positional && strcmp(arg, "--") == 0)
            only_positional = true;
        else if (!only_positional && for_gpu(arg)) {
            fprintf(stderr, "weft: %s is left aside: weft runs on processors\n", arg);
            i += i + 1 < argc;
        } else if (!only_positional && arg[0] == '-' && arg[1])
            bad = take_option(c, argc, argv, &i);
        else if (n_positional < c->n_positional)
            c->positional[n_positional++] = arg;
        else
            bad = cli_usage(c, "unexpected argument \"%s\"%s", arg,
                            by_letter(c, 'p') ? "; a text is given with -p" : "");
    }
    return bad;
}
