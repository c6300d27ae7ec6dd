/* near.c - a name that was misspelled is near the one that was meant. */
#include "cli.h"

#include <limits.h>
#include <string.h>

/* Insertions, deletions, replacements and swaps of neighbours that lead from a to b. */
static int distance(const char *a, const char *b)
{
    int rows[3][64]; /* of the letters of a so far, those without the last one, without two */
    const int n = (int)strlen(b);
    if (n >= 64)
        return INT_MAX;
    int *row = rows[0], *before = rows[1], *earlier = rows[2];
    for (int j = 0; j <= n; j++)
        row[j] = j;
    for (int i = 0; a[i]; i++) {
        int *free = earlier;
        earlier = before, before = row, row = free;
        row[0] = i + 1;
        for (int j = 1; j <= n; j++) {
            const int replace = before[j - 1] + (a[i] != b[j - 1]);
            const int other = (before[j] < row[j - 1] ? before[j] : row[j - 1]) + 1;
            row[j] = replace < other ? replace : other;
            if (i > 0 && j > 1 && a[i] == b[j - 2] && a[i - 1] == b[j - 1] &&
                earlier[j - 2] + 1 < row[j])
                row[j] = earlier[j - 2] + 1;
        }
    }
    return row[n];
}

/* A beginning of the other counts as near ("--ctx", "--temperature"), as do one slip, and two in a
 * long name. */
bool cli_resembles(const char *given, const char *name, int *least)
{
    const size_t n = strlen(given), k = strlen(name), shorter = n < k ? n : k;
    int d = distance(given, name);
    if (shorter >= 3 && strncmp(given, name, shorter) == 0)
        d = 1;
    if (d >= *least || d > (shorter < 5 ? 1 : 2))
        return false;
    *least = d;
    return true;
}
