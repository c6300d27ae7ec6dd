/* labelled.c - reads labelled records, resolves labels to classes, and counts both. */
#include "train/labelled.h"

#include "base/sort.h"
#include "base/utf8.h"
#include "formats/json.h"
#include "formats/recognise.h"
#include "formats/unpack.h"

#include <stdio.h>
#include <string.h>

#define MAX_LABEL      10000
#define MAX_LABEL_NAME 200 /* config.json uses them as keys */

/* ---- columns --------------------------------------------------------------------------------- */

static bool column_by_name(const char *name, size_t n, column_kind *kind)
{
    static const char *const names[] = { [COLUMN_NONE] = "-",
                                         [COLUMN_TEXT] = "text",
                                         [COLUMN_PAIR] = "pair",
                                         [COLUMN_LABEL] = "label" };
    for (int i = 0; i < 4; i++)
        if (strlen(names[i]) == n && memcmp(names[i], name, n) == 0) {
            *kind = (column_kind)i;
            return true;
        }
    return false;
}

weft_status columns_parse(columns *c, const char *names, weft_error *err)
{
    int count[4] = { 0 };
    const char *at = names ? names : "text,label";
    *c = (columns){ 0 };
    for (bool more = true; more; c->n++) {
        const size_t n = strcspn(at, ",");
        if (c->n == TABLE_FIELDS)
            return weft_fail(err, WEFT_EINVAL, "more than %d columns", TABLE_FIELDS);
        if (!column_by_name(at, n, &c->is[c->n]))
            return weft_fail(err, WEFT_EINVAL,
                             "unknown column \"%.*s\"; expected text, pair, label or -",
                             (int)(n < 40 ? n : 40), at);
        count[c->is[c->n]]++;
        more = at[n] == ',';
        at += n + more;
    }
    if (count[COLUMN_TEXT] < 1 || count[COLUMN_LABEL] != 1)
        return weft_fail(err, WEFT_EINVAL, "columns \"%.60s\"; expected a text and one label",
                         names);
    return WEFT_OK;
}

/* ---- tables ---------------------------------------------------------------------------------- */

typedef struct reading {
    const file *file;
    const columns *columns;
    labelled_fn *fn;
    void *ud;
    mem *mem;
    scratch room; /* text of the current record */
} reading;

/* A buffer for one text, joined or copied. */
static char *room_for(reading *r, size_t n, weft_error *err)
{
    return scratch_grow(&r->room, n > 0 ? n : 1, r->mem, err);
}

static weft_status check_label(const reading *r, const labelled *one, weft_error *err)
{
    if (one->n_label > 0 && one->n_label <= MAX_LABEL_NAME &&
        !memchr(one->label, '\0', one->n_label))
        return WEFT_OK;
    return weft_fail(err, WEFT_EFORMAT,
                     "%s:%lld: a label of %zu bytes, expected 1 to %d, none of "
                     "them 0",
                     r->file->path, (long long)one->line, one->n_label, MAX_LABEL_NAME);
}

static weft_status deliver(const reading *r, const labelled *one, weft_error *err)
{
    const weft_status status = check_label(r, one, err);
    return status == WEFT_OK ? r->fn(r->ud, one, err) : status;
}

static bool is_heading(const table *t)
{
    for (int i = 0; i < t->n_field; i++)
        if (t->field[i].n == 5 && memcmp(t->field[i].text, "label", 5) == 0)
            return true;
    return false;
}

/* Joins the fields of one kind with spaces; returns the end. */
static char *join_fields(const table *t, const columns *c, column_kind kind, char *to)
{
    const char *begin = to;
    for (int i = 0; i < t->n_field; i++) {
        if (c->is[i] != kind)
            continue;
        if (to > begin)
            *to++ = ' ';
        to += table_copy(&t->field[i], to);
    }
    return to;
}

static bool has_pair(const columns *c)
{
    for (int i = 0; i < c->n; i++)
        if (c->is[i] == COLUMN_PAIR)
            return true;
    return false;
}

static weft_status read_labelled_record(reading *r, const table *t, uint64_t at, weft_error *err)
{
    const columns *c = r->columns;
    size_t n = 0;
    if (t->n_field != c->n)
        return weft_fail(err, WEFT_EFORMAT, "%s:%lld: %d fields; expected %d columns",
                         r->file->path, (long long)t->line, t->n_field, c->n);
    for (int i = 0; i < t->n_field; i++)
        n += t->field[i].n + 1;
    char *text = room_for(r, n, err);
    if (!text)
        return err->code;
    char *second = join_fields(t, c, COLUMN_TEXT, text);
    char *label = join_fields(t, c, COLUMN_PAIR, second);
    const char *end = join_fields(t, c, COLUMN_LABEL, label);
    const labelled one = { .text = text,
                           .pair = has_pair(c) ? second : NULL,
                           .label = label,
                           .n = (size_t)(second - text),
                           .n_pair = (size_t)(label - second),
                           .n_label = (size_t)(end - label),
                           .line = t->line,
                           .at = at };
    return deliver(r, &one, err);
}

static weft_status read_table(reading *r, bool csv, weft_error *err)
{
    table t;
    table_begin(&t, file_text(r->file), r->file->size, csv, r->file->path);
    for (bool first = true;; first = false) {
        const uint64_t at = (uint64_t)(t.at - file_text(r->file));
        weft_status status = table_next(&t, err);
        if (status == WEFT_OK && t.n_field == 0)
            return WEFT_OK;
        if (status == WEFT_OK && !(first && is_heading(&t)))
            status = read_labelled_record(r, &t, at, err);
        if (status != WEFT_OK)
            return status;
    }
}

/* ---- JSONL ----------------------------------------------------------------------------------- */

/* A string, or an integer as digits in `made`. */
static const char *label_text(const json_t *v, char made[24], size_t *n)
{
    if (json_is_string(v)) {
        *n = json_string_length(v);
        return json_string_value(v);
    }
    if (!json_is_integer(v))
        return NULL;
    *n = (size_t)snprintf(made, 24, "%lld", (long long)json_integer_value(v));
    return made;
}

/* Copies the text and label of the line: its JSON tree is freed before the callback runs. */
static weft_status read_row_object(reading *r, const json_t *root, const char *place, labelled *one,
                                   weft_error *err)
{
    const json_t *text = json_object_get(root, "text");
    const json_t *second = json_object_get(root, "text_pair");
    char made[24];
    const char *label = label_text(json_object_get(root, "label"), made, &one->n_label);
    if (!json_is_string(text) || (second && !json_is_string(second)) || !label)
        return weft_fail(err, WEFT_EFORMAT, "%s: \"%s\" is missing, or not %s", place,
                         !json_is_string(text) ? "text"
                         : label               ? "text_pair"
                                               : "label",
                         !json_is_string(text) || label ? "a string" : "a string or an integer");
    one->n = json_string_length(text);
    one->n_pair = second ? json_string_length(second) : 0;
    char *to = room_for(r, one->n + one->n_pair + one->n_label, err);
    if (!to)
        return err->code;
    memcpy(to, json_string_value(text), one->n);
    if (second)
        memcpy(to + one->n, json_string_value(second), one->n_pair);
    memcpy(to + one->n + one->n_pair, label, one->n_label);
    one->text = to;
    one->pair = second ? to + one->n : NULL;
    one->label = to + one->n + one->n_pair;
    return WEFT_OK;
}

static weft_status read_labelled_line(reading *r, const char *s, size_t n, labelled *one,
                                      weft_error *err)
{
    char place[600];
    snprintf(place, sizeof place, "%.500s:%lld", r->file->path, (long long)one->line);
    json_section_begin(r->mem);
    const json_t *root = json_read((const uint8_t *)s, n, true, place, err);
    const weft_status status = root ? read_row_object(r, root, place, one, err) : err->code;
    json_section_end();
    return status == WEFT_OK ? deliver(r, one, err) : status;
}

static bool is_blank(const char *s, size_t n)
{
    while (n > 0 && strchr(" \t\r", s[n - 1]) && s[n - 1])
        n--;
    return n == 0;
}

static weft_status read_labelled_lines(reading *r, weft_error *err)
{
    const file *f = r->file;
    const size_t mark = f->size >= 3 && memcmp(f->data, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    weft_status status = WEFT_OK;
    int64_t line = 1;
    for (size_t at = mark, n; at < f->size && status == WEFT_OK; at += n + 1, line++) {
        const char *s = file_text(f) + at, *end = memchr(s, '\n', f->size - at);
        n = end ? (size_t)(end - s) : f->size - at;
        if (!is_blank(s, n))
            status = read_labelled_line(r, s, n, &(labelled){ .line = line, .at = at }, err);
    }
    return status;
}

/* ---- files ----------------------------------------------------------------------------------- */

weft_status labelled_each(const file *f, data_kind kind, const columns *c, labelled_fn *fn,
                          void *ud, mem *m, weft_error *err)
{
    weft_error local;
    reading r = { .file = f, .columns = c, .fn = fn, .ud = ud, .mem = m };
    err = err ? err : &local;
    const size_t bad = utf8_find_wrong(file_text(f), f->size);
    if (kind != DATA_TSV && kind != DATA_CSV && kind != DATA_JSONL)
        return weft_fail(err, WEFT_EINVAL, "%s: labels need TSV, CSV or JSONL", f->path);
    if (bad < f->size)
        return weft_fail(err, WEFT_EFORMAT, "%s: byte %zu is not UTF-8", f->path, bad);
    const weft_status status = kind == DATA_JSONL ? read_labelled_lines(&r, err)
                                                  : read_table(&r, kind == DATA_CSV, err);
    scratch_free(&r.room, m);
    return status;
}

/* Stops at the first record that has a label. */
static weft_status see_one(void *ud, const labelled *one, weft_error *err)
{
    (void)one;
    *(bool *)ud = true;
    return weft_fail(err, WEFT_ESTOPPED, "one is enough");
}

bool labelled_is_here(const char *path, data_kind asked, host *h)
{
    const data_kind kind = asked != DATA_BY_NAME ? asked : kind_by_name(path);
    file f;
    weft_error none = { 0 };
    bool seen = false;
    if (kind != DATA_JSONL)
        return kind == DATA_TSV || kind == DATA_CSV;
    if (file_open_unpacked(&f, path, "JSONL", WEFT_LOAD_MAP, h, &none) != WEFT_OK)
        return false;
    labelled_each(&f, kind, NULL, see_one, &seen, &h->mem, &none);
    file_close(&f, h);
    return seen;
}

/* ---- names ----------------------------------------------------------------------------------- */

static int label_by_name(const void *a, const void *b)
{
    return strcmp(((const label_name *)a)->name, ((const label_name *)b)->name);
}

/* The index of the name among the sorted names, or where to insert it. */
static int64_t place_of(const label_set *l, const char *name, size_t n, bool *there)
{
    int64_t low = 0, high = l->n;
    *there = false;
    while (low < high && !*there) {
        const int64_t middle = low + (high - low) / 2;
        const char *other = l->by_name[middle]->name;
        const int before = strncmp(other, name, n);
        *there = before == 0 && strlen(other) == n;
        if (*there || before > 0 || (before == 0 && strlen(other) > n))
            high = middle;
        else
            low = middle + 1;
    }
    return high;
}

static bool is_number(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n && s[i] >= '0' && s[i] <= '9')
        i++;
    return n > 0 && n < 20 && i == n;
}

int32_t labels_find(const label_set *l, const char *name, size_t n)
{
    char longer[40];
    bool there;
    int64_t at = place_of(l, name, n, &there);
    if (!there && is_number(name, n)) {
        const int k = snprintf(longer, sizeof longer, "LABEL_%.*s", (int)n, name);
        at = place_of(l, longer, (size_t)k, &there);
    }
    return there ? l->by_name[at]->id : -1;
}

static label_name *new_label(label_set *l, const char *name, size_t n, weft_error *err)
{
    label_name *made = arena_alloc(&l->store, sizeof *made, err);
    const char *text = made ? arena_text(&l->store, name, n, err) : NULL;
    if (text)
        *made = (label_name){ .name = text };
    return text ? made : NULL;
}

static weft_status begin_labels(label_set *l, int64_t most, mem *m, weft_error *err)
{
    *l = (label_set){ 0 };
    const weft_status status = arena_init(&l->store, ARENA_GROWING, m, 0, "labels", err);
    if (status != WEFT_OK)
        return status;
    l->by_name = arena_alloc(&l->store, (size_t)most * sizeof *l->by_name, err);
    l->name = l->by_name ? arena_alloc(&l->store, (size_t)most * sizeof *l->name, err) : NULL;
    return l->name ? WEFT_OK : err->code;
}

weft_status labels_begin(label_set *l, mem *m, weft_error *err)
{
    return begin_labels(l, MAX_LABEL, m, err);
}

weft_status labels_add(label_set *l, const char *name, size_t n, weft_error *err)
{
    bool there;
    const int64_t at = place_of(l, name, n, &there);
    if (there)
        return WEFT_OK;
    if (l->n == MAX_LABEL)
        return weft_fail(err, WEFT_EINVAL, "more than %d labels", MAX_LABEL);
    label_name *made = new_label(l, name, n, err);
    if (!made)
        return err->code;
    memmove(&l->by_name[at + 1], &l->by_name[at], (size_t)(l->n - at) * sizeof *l->by_name);
    l->by_name[at] = made;
    l->n++;
    return WEFT_OK;
}

void labels_number(label_set *l)
{
    for (int64_t i = 0; i < l->n; i++) {
        l->by_name[i]->id = (int32_t)i;
        l->name[i] = l->by_name[i]->name;
    }
}

static weft_status keep_label(void *ud, const labelled *one, weft_error *err)
{
    return labels_add(ud, one->label, one->n_label, err);
}

static weft_status list_file(label_set *l, const char *path, data_kind kind, const columns *c,
                             weft_load load, host *h, weft_error *err)
{
    file f;
    weft_status status = file_open_unpacked(&f, path, "a table or JSONL", load, h, err);
    if (status != WEFT_OK)
        return status;
    status = recognise_known(path, f.data, f.size, "a table or JSONL", err);
    if (status == WEFT_OK)
        status = labelled_each(&f, kind != DATA_BY_NAME ? kind : kind_by_name(path), c, keep_label,
                               l, &h->mem, err);
    file_close(&f, h);
    return status;
}

weft_status labels_list(label_set *l, const char *const *path, int n_path, data_kind kind,
                        const columns *c, weft_load load, host *h, weft_error *err)
{
    weft_status status = labels_begin(l, &h->mem, err);
    for (int i = 0; i < n_path && status == WEFT_OK; i++)
        status = list_file(l, path[i], kind, c, load, h, err);
    labels_number(l);
    if (status == WEFT_OK && l->n < 2)
        status = weft_fail(err, WEFT_EFORMAT, "%s: %s; nothing to train on", path[0],
                           l->n ? "one label only" : "no labels");
    if (status != WEFT_OK)
        labels_free(l);
    return status;
}

weft_status labels_of_model(label_set *l, const model *m, weft_error *err)
{
    weft_status status = begin_labels(l, m->n_out, &m->host->mem, err);
    for (int64_t i = 0; i < m->n_out && status == WEFT_OK; i++) {
        char made[40];
        snprintf(made, sizeof made, "LABEL_%lld", (long long)i);
        const char *name = m->label ? m->label[i] : made;
        label_name *one = new_label(l, name, strlen(name), err);
        if (!one) {
            status = err->code;
            break;
        }
        one->id = (int32_t)i;
        l->name[i] = one->name;
        l->by_name[l->n++] = one;
    }
    if (status == WEFT_OK)
        sort_pointers((void **)l->by_name, l->n, label_by_name);
    else
        labels_free(l);
    return status;
}

void labels_free(label_set *l)
{
    if (l->store.mem)
        arena_free(&l->store);
    *l = (label_set){ 0 };
}
