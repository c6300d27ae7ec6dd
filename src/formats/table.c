/* table.c - one pass over the bytes of a TSV or CSV, record by record; fields point into the
 * text. */
#include "formats/table.h"

#include <string.h>

void table_begin(table *t, const char *text, size_t size, bool csv, const char *path)
{
    const bool mark = size >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0;
    *t = (table){ .path = path, .at = text, .end = &text[size], .csv = csv, .next_line = 1 };
    t->at = &text[mark ? 3 : 0];
}

/* Bytes of the line end here, or 0: CR LF, LF, or CR at the end of the text. */
static size_t break_length(const table *t, const char *at)
{
    const ptrdiff_t left = t->end - at;
    if (left > 0 && *at == '\n')
        return 1;
    if (left > 0 && *at == '\r')
        return left == 1 ? 1 : at[1] == '\n' ? 2 : 0;
    return 0;
}

static bool record_ends(const table *t, const char *at)
{
    return at == t->end || break_length(t, at) > 0;
}

/* The byte after the quote that ends the field that begins here; NULL if there is no such quote. */
static const char *quoted_end(table *t)
{
    for (const char *at = &t->at[1]; at < t->end; at++) {
        t->next_line += *at == '\n'; /* bounded: by the bytes of the text */
        if (*at != '"')
            continue;
        if (t->end - at == 1 || at[1] != '"')
            return &at[1];
        at++;
    }
    return NULL;
}

static weft_status read_quoted(table *t, table_field *f, weft_error *err)
{
    const char *end = quoted_end(t), *begin = &t->at[1];
    if (!end)
        return weft_fail(err, WEFT_EFORMAT, "%s:%lld: unterminated quoted field", t->path,
                         (long long)t->line);
    *f = (table_field){ begin, (size_t)(end - begin - 1), true };
    t->at = end;
    if (record_ends(t, end) || *end == ',')
        return WEFT_OK;
    return weft_fail(err, WEFT_EFORMAT,
                     "%s:%lld: expected a comma or the end of the line after a quoted field",
                     t->path, (long long)t->next_line);
}

static void read_plain(table *t, table_field *f)
{
    const char *begin = t->at, parts = t->csv ? ',' : '\t';
    while (!record_ends(t, t->at) && *t->at != parts)
        t->at++;
    *f = (table_field){ begin, (size_t)(t->at - begin), false };
}

/* Reads the fields of the line that begins here, at least one. */
static weft_status read_record(table *t, weft_error *err)
{
    for (t->line = t->next_line;; t->at++) { /* skips the separator */
        table_field *f = &t->field[t->n_field];
        if (t->n_field == TABLE_FIELDS)
            return weft_fail(err, WEFT_EFORMAT, "%s:%lld: more than %d fields", t->path,
                             (long long)t->line, TABLE_FIELDS);
        if (!t->csv || t->at == t->end || *t->at != '"')
            read_plain(t, f);
        else if (read_quoted(t, f, err) != WEFT_OK)
            return WEFT_EFORMAT;
        t->n_field++;
        if (record_ends(t, t->at))
            return WEFT_OK;
    }
}

weft_status table_next(table *t, weft_error *err)
{
    t->n_field = 0;
    while (t->at < t->end) {
        const bool empty = record_ends(t, t->at);
        const weft_status status = empty ? WEFT_OK : read_record(t, err);
        t->at = &t->at[break_length(t, t->at)];
        t->next_line++;
        if (!empty)
            return status;
    }
    return WEFT_OK;
}

size_t table_copy(const table_field *f, char *to)
{
    size_t n = 0;
    for (size_t i = 0; i < f->n; i++) {
        to[n++] = f->text[i];
        i += f->quoted && f->text[i] == '"'; /* bounded: the second of two quotes is inside */
    }
    return n;
}
