/* table.h - texts of records and fields.
 *
 *     TSV    a line is a record, tabs part its fields; nothing is quoted
 *     CSV    as RFC 4180 has it: commas part the fields, of which one in quotes may hold commas, line
 *            breaks and, doubled, quotes. A quote inside a field that does not begin with one is a quote
 *
 * Lines end with LF or CR LF, the last one need not; empty lines are no records. */
#ifndef WEFT_FORMATS_TABLE_H
#define WEFT_FORMATS_TABLE_H

#include "base/err.h"

#include <stdint.h>

#define TABLE_FIELDS 64

/* As it stands in the text; table_copy gives what it means. */
typedef struct table_field {
    const char *text;
    size_t n;
    bool quoted; /* without the quotes around it, but those inside are doubled */
} table_field;

typedef struct table {
    const char *path;     /* for errors */
    const char *at, *end; /* what is still to be read */
    bool csv;
    int64_t next_line; /* counted from 1 */

    /* The record that was read last: */
    int64_t line; /* its first */
    table_field field[TABLE_FIELDS];
    int n_field; /* 0: there are no more */
} table;

/* The mark that some editors put before UTF-8 is no text. */
void table_begin(table *t, const char *text, size_t size, bool csv, const char *path);
weft_status table_next(table *t, weft_error *err);

/* Puts at most f->n bytes; returns how many. */
size_t table_copy(const table_field *f, char *to);

#endif
