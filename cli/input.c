/* input.c - what commands read: files, lists of ids. */
#include "cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool slurp(FILE *f, char **text, size_t *n)
{
    size_t room = 1 << 16;
    *n = 0;
    *text = malloc(room);
    while (*text) {
        *n += fread(*text + *n, 1, room - *n, f);
        if (*n < room)
            return !ferror(f);
        char *longer = realloc(*text, room *= 2);
        if (!longer)
            free(*text);
        *text = longer;
    }
    return false;
}

int cli_read(const char *path, char **text, size_t *n)
{
    const bool standard = strcmp(path, "-") == 0;
    FILE *f = standard ? stdin : fopen(path, "rb");
    if (!f) {
        fprintf(stderr, "weft: %s: %s\n", path, strerror(errno));
        return 1;
    }
    const bool got = slurp(f, text, n);
    if (!standard)
        fclose(f);
    if (got)
        return 0;
    fprintf(stderr, "weft: cannot read %s\n", standard ? "standard input" : path);
    free(*text);
    *text = NULL;
    return 1;
}

/* One id of a list, up to the comma or the end; NULL if there is none. */
static const char *parse_id(const char *text, int32_t *id)
{
    char *end;
    errno = 0;
    const long n = strtol(text, &end, 10);
    *id = (int32_t)n;
    return end != text && !errno && n >= 0 && n <= INT32_MAX && (!*end || *end == ',') ? end : NULL;
}

int cli_parse_ids(const command *c, const char *text, int32_t **ids, int64_t *n)
{
    size_t room = 1;
    for (const char *s = text; *s; s++)
        room += *s == ',';
    *ids = malloc(room * sizeof **ids);
    if (!*ids)
        return cli_no_memory();
    *n = 0;
    const char *s = text;
    do {
        s = parse_id(*n ? s + 1 : s, &(*ids)[*n]);
        ++*n;
    } while (s && *s);
    if (s)
        return 0;
    free(*ids);
    *ids = NULL;
    return cli_usage(c, "--ids: \"%s\" is not a list such as 1,403,407", text);
}
