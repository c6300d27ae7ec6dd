/* cases.c - reads cases of schemas and texts; see cases.h. */
#include "cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LINE 65536

static char *read_line(FILE *f)
{
    static char text[MAX_LINE];
    if (!f || !fgets(text, sizeof text, f))
        return NULL;
    text[strcspn(text, "\n")] = 0;
    return strdup(text);
}

cases cases_read(const char *path)
{
    cases c = { 0 };
    FILE *f = fopen(path, "r");
    while (c.n < MAX_CASE && (c.schema[c.n] = read_line(f))) {
        c.text[c.n] = read_line(f);
        if (!c.text[c.n++])
            break;
    }
    if (c.n == 0 || !c.text[c.n - 1]) {
        fprintf(stderr, "%s: expected two lines for each case: a schema, a text\n", path);
        exit(1);
    }
    fclose(f);
    return c;
}

void cases_free(cases *c)
{
    for (int i = 0; i < c->n; i++) {
        free(c->schema[i]);
        free(c->text[i]);
    }
}
