/* near.c - a name that was misspelled is near the one that was meant. */
#include "cli.h"

#include <limits.h>
#include <string.h>

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
