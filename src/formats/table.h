/* table.h - reads TSV and CSV files.
 *
 *     TSV    a line is a record, tabs separate its fields; no quoting
 *     CSV    RFC 4180: commas separate the fields. A field in quotes may contain commas, line
 *            breaks and, doubled, quotes. In other fields a quote is an ordinary character
 *
 * Lines end with LF or CR LF, optional for the last one; empty lines are skipped. */
#ifndef WEFT_FORMATS_TABLE_H
#define WEFT_FORMATS_TABLE_H

#include "base/err.h"

#include <stdint.h>

#define TABLE_FIELDS 64

/* A field as written in the text; table_copy decodes it. */
typedef struct table_field {
    const char *text;
    size_t n;
    bool quoted; /* without the quotes around it; inner quotes are still doubled */
} table_field;

typedef struct table {
    const char *path;     /* for errors */
    const char *at, *end; /* the rest of the input */
    bool csv;
    int64_t next_line; /* counted from 1 */

    /* The last record read: */
    int64_t line; /* its first line */
    table_field field[TABLE_FIELDS];
    int n_field; /* 0: no more records */
} table;

/* Skips a byte order mark. */
void table_begin(table *t, const char *text, size_t size, bool csv, const char *path);
weft_status table_next(table *t, weft_error *err);

/* Writes at most f->n bytes; returns how many. */
size_t table_copy(const table_field *f, char *to);

#endif
