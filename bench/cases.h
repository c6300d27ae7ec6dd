/* cases.h - JSON schemas with a text that fits each, for the benches of constraints.
 *
 * A file has two lines for each case: the schema, the text. */
#ifndef WEFT_BENCH_CASES_H
#define WEFT_BENCH_CASES_H

#define MAX_CASE 512

typedef struct cases {
    int n;
    char *schema[MAX_CASE], *text[MAX_CASE];
} cases;

/* Ends the program if the file is not in this form. */
cases cases_read(const char *path);
void cases_free(cases *c);

#endif
