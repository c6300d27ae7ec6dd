/* run_options.c - RUN/options: the options of a `weft train` run, so that `--resume` needs no
 * others.
 *
 * One line per option, --name=value as typed, with line ends as \n and backslashes as \\. Paths
 * are absolute, so that a run resumes from any directory. Options that do not affect the result,
 * such as --threads, are not stored. */
#include "cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool is_kept(const option *o)
{
    static const char *const others[] = { "out",      "resume",     "threads", "ram-max", "show",
                                          "save-ids", "check-data", "no-mmap", "tensors", "json" };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(o->name, others[i]) == 0)
            return false;
    return true;
}

/* ---- writing -----------------------------------------------------------------------------------
 */

static void write_text(FILE *f, const char *text)
{
    for (const char *s = text; *s; s++)
        if (*s == '\n')
            fputs("\\n", f);
        else if (*s == '\\')
            fputs("\\\\", f);
        else
            fputc(*s, f);
}

static void write_one(FILE *f, const option *o, const char *value)
{
    char whole[4096];
    fprintf(f, "--%s=", o->name);
    write_text(f, option_is_path(o) && strlen(value) < sizeof whole && realpath(value, whole)
                      ? whole
                      : value);
    fputc('\n', f);
}

static void write_option(FILE *f, const option *o)
{
    const text_list *list = o->to;
    char number[64];
    switch (o->kind) {
    case OPT_FLAG:
        write_one(f, o, "1");
        break;
    case OPT_INT:
        snprintf(number, sizeof number, "%lld", (long long)*(int64_t *)o->to);
        write_one(f, o, number);
        break;
    case OPT_REAL:
        snprintf(number, sizeof number, "%.17g", *(double *)o->to);
        write_one(f, o, number);
        break;
    case OPT_CHOICE: {
        const char *word = o->value;
        for (int i = 1; i < *(int *)o->to; i++)
            word = strchr(word, '|') + 1;
        fprintf(f, "--%s=%.*s\n", o->name, (int)strcspn(word, "|"), word);
        break;
    }
    case OPT_LIST:
        for (int i = 0; i < list->n; i++)
            write_one(f, o, list->at[i]);
        break;
    case OPT_TEXT:
        write_one(f, o, *(const char **)o->to);
        break;
    case OPT_SIZE: /* memory is not kept */
        break;
    }
}

static bool options_path(const char *run, char *path, size_t size)
{
    const int n = snprintf(path, size, "%s/options", run);
    return n > 0 && (size_t)n < size;
}

bool run_options_write(const command *c, const char *run)
{
    char path[4096];
    out_file file;
    if (!options_path(run, path, sizeof path) || !out_begin(&file, path))
        return false;
    for (const option *o = NULL; (o = option_next(c, o));)
        if (is_kept(o) && option_given(o))
            write_option(file.f, o);
    return out_end(&file, !ferror(file.f));
}

/* ---- reading -----------------------------------------------------------------------------------
 */

/* A value as it was typed; in place. */
static void unescape(char *text)
{
    char *to = text;
    for (const char *s = text; *s; s++) {
        const bool escaped = *s == '\\' && s[1];
        s += escaped;
        *to++ = escaped && *s == 'n' ? '\n' : *s;
    }
    *to = '\0';
}

/* What the option is now, as text; a list cannot be compared in a line. */
static const char *value_of(const option *o, char *text, size_t size)
{
    FILE *f = o->kind == OPT_LIST ? NULL : fmemopen(text, size, "w");
    if (!f)
        return NULL;
    write_option(f, o);
    fclose(f);
    text[strcspn(text, "\n")] = '\0';
    return strchr(text, '=') + 1;
}

/* The options of the command that were in the file. */
static bool found[128];

/* What the command line names that the run did without. */
static void say_new(const command *c)
{
    char now[4200];
    for (const option *o = NULL; (o = option_next(c, o));)
        if (is_kept(o) && option_given(o) && !found[o - c->options] && value_of(o, now, sizeof now))
            fprintf(stderr, "weft: --%s is %s; it was not set when the run began\n", o->name,
                    value_of(o, now, sizeof now));
}

/* The command line overrides the stored value; a difference is printed. */
static int take_line(const command *c, char *line, const char *path)
{
    char now[4200];
    const size_t n = strcspn(line, "=");
    const option *o = strncmp(line, "--", 2) == 0 ? option_named(c, line + 2, n > 2 ? n - 2 : 0)
                                                  : NULL;
    if (!o || !line[n] || !is_kept(o)) {
        fprintf(stderr, "weft: %s: unknown option \"%.60s\"; was the file edited?\n", path, line);
        return 1;
    }
    char *value = line + n + 1;
    found[o - c->options] = true;
    if (option_given(o) && !option_kept(o)) {
        const char *given = value_of(o, now, sizeof now);
        if (given && strcmp(given, value) != 0)
            fprintf(stderr, "weft: --%s is %s; it was %s when the run began\n", o->name, given,
                    value);
        return 0;
    }
    unescape(value);
    if (!option_keep(o, value)) {
        fprintf(stderr, "weft: %s: --%s=%.60s is not a valid value; was the file edited?\n", path,
                o->name, value);
        return 1;
    }
    return 0;
}

int run_options_read(const command *c, const char *run)
{
    static char *text; /* values point into it */
    char path[4096];
    size_t n = 0;
    FILE *there = options_path(run, path, sizeof path) ? fopen(path, "rb") : NULL;
    if (!there)
        return 0; /* an older run, or a program's */
    fclose(there);
    int code = cli_read(path, (size_t)1 << 20, &text, &n);
    for (char *line = text, *end; !code && line && *line; line = end) {
        end = line + strcspn(line, "\n");
        if (*end)
            *end++ = '\0';
        code = take_line(c, line, path);
    }
    if (!code)
        say_new(c);
    return code;
}
