/* schema_run.c - which texts obey a JSON Schema, for tools/schema_golden.py.
 *
 * Reads lines: "S" and a schema, then lines of "I" and a text. Answers each: "ok" or "refused" and why;
 * "1" or "0". */
#include "text/constrain/rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool accepts(earley *r, const char *text, size_t n)
{
    weft_error err = { 0 };
    rows_begin(r, &err);
    uint32_t at = FIRST_ROW;
    for (size_t i = 0; i < n && at != NO_ROW; i++)
        at = rows_step(r, at, (uint8_t)text[i]);
    if (err.code != WEFT_OK)
        fprintf(stderr, "%s\n", err.message);
    return at != NO_ROW && row_at(r, at)->accepts;
}

int main(void)
{
    mem m;
    mem_init(&m, 0, NULL);
    grammar *g = NULL;
    earley *r = calloc(1, sizeof *r);
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    while (r && (n = getline(&line, &room, stdin)) > 0) {
        weft_error err = { 0 };
        n -= line[n - 1] == '\n';
        if (line[0] == 'S') {
            if (g)
                rows_free(r);
            grammar_free(g);
            g = schema_read(&m, line + 1, (size_t)n - 1, NULL, NULL, &err);
            if (g && rows_init(r, &m, g, &err) != WEFT_OK) {
                grammar_free(g);
                g = NULL;
            }
            if (g)
                puts("ok");
            else
                printf("refused %s\n", err.message);
        } else {
            puts(g && accepts(r, line + 1, (size_t)n - 1) ? "1" : "0");
        }
        fflush(stdout);
    }
    if (g)
        rows_free(r);
    grammar_free(g);
    free(r);
    free(line);
    return 0;
}
