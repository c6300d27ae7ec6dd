#include "args.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int args_usage(const program *p, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "%s: ", p->name);
    vfprintf(stderr, format, args);
    fprintf(stderr, "\nTry '%s --help'.\n", p->name);
    va_end(args);
    return EXIT_USAGE;
}

static int help(const program *p)
{
    printf("usage: %s%s%s [OPTIONS]\n\n%s\n", p->name, p->arguments ? " " : "",
           p->arguments ? p->arguments : "", p->summary);
    for (const arg *a = p->args; a->name; a++) {
        char left[64];
        snprintf(left, sizeof left, "--%s %s", a->name, a->value ? a->value : "");
        printf("  %-18s %s\n", left, a->help);
    }
    puts("  --help             show this");
    return 0;
}

static const arg *by_name(const program *p, const char *name, size_t length)
{
    for (const arg *a = p->args; a->name; a++)
        if (strlen(a->name) == length && memcmp(a->name, name, length) == 0)
            return a;
    return NULL;
}

/* -1, or the code to exit with. */
static int store(const program *p, const arg *a, const char *text)
{
    char *end = NULL;
    errno = 0;
    if (a->kind == ARG_TEXT) {
        *(const char **)a->to = text;
        return -1;
    }
    if (a->kind == ARG_REAL) {
        *(double *)a->to = strtod(text, &end);
        if (end == text || *end || errno)
            return args_usage(p, "--%s is \"%s\", expected a number", a->name, text);
        return -1;
    }
    const int64_t x = strtoll(text, &end, 10);
    const bool bounded = a->lo != 0 || a->hi != 0;
    if (end == text || *end || errno)
        return args_usage(p, "--%s is \"%s\", expected an integer", a->name, text);
    if (bounded && (x < a->lo || x > a->hi))
        return args_usage(p, "--%s is %lld, expected %lld to %lld", a->name, (long long)x,
                          (long long)a->lo, (long long)a->hi);
    *(int64_t *)a->to = x;
    return -1;
}

/* Reads the option at argv[*i], and its value, which may follow after "=" or as the next word. */
static int option(const program *p, int argc, char **argv, int *i)
{
    const char *name = argv[*i] + 2;
    const size_t length = strcspn(name, "=");
    const arg *a = by_name(p, name, length);
    if (!a)
        return args_usage(p, "unknown option --%.*s", (int)length, name);
    if (a->kind == ARG_FLAG) {
        if (name[length])
            return args_usage(p, "--%s takes no value", a->name);
        *(bool *)a->to = true;
        return -1;
    }
    if (!name[length] && *i + 1 == argc)
        return args_usage(p, "--%s needs a value: %s", a->name, a->value);
    return store(p, a, name[length] ? name + length + 1 : argv[++*i]);
}

int args_parse(const program *p, int argc, char **argv)
{
    int n = 0;
    for (int i = 1; i < argc; i++) {
        int code = -1;
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return help(p);
        if (strncmp(argv[i], "--", 2) == 0)
            code = option(p, argc, argv, &i);
        else if (argv[i][0] == '-' && argv[i][1])
            code = args_usage(p, "unknown option %s", argv[i]);
        else if (n == p->n_positional)
            code = args_usage(p, "\"%s\" is one argument too many", argv[i]);
        else
            p->positional[n++] = argv[i];
        if (code >= 0)
            return code;
    }
    if (n < p->n_positional)
        return args_usage(p, "expected %s", p->arguments);
    return -1;
}
