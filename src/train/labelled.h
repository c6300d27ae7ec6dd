/* labelled.h - reads texts with their labels.
 *
 *     TSV, CSV    a record is a text; `columns` says what its fields are
 *     JSONL       { "text": ..., "label": ... }, and "text_pair" where two texts have one label. A label
 *                 may be a whole number
 *
 * If a field of the first record is the word "label", the record is the table's header, and is
 * skipped. */
#ifndef WEFT_TRAIN_LABELLED_H
#define WEFT_TRAIN_LABELLED_H

#include "formats/table.h"
#include "models/arch.h"
#include "train/corpus.h"

typedef enum column_kind { COLUMN_NONE, COLUMN_TEXT, COLUMN_PAIR, COLUMN_LABEL } column_kind;

/* The meaning of each field of a record. */
typedef struct columns {
    column_kind is[TABLE_FIELDS];
    int n;
} columns;

/* "label,text,text": fields called text are joined with spaces; "pair" is a second text, and "-"
 * skips a field. NULL: a text and its label. */
weft_status columns_parse(columns *c, const char *names, weft_error *err);

/* Valid until the next record is read. */
typedef struct labelled {
    const char *text, *pair, *label; /* pair NULL: no second text */
    size_t n, n_pair, n_label;
    int64_t line;
    uint64_t at; /* bytes of the file before it */
} labelled;

typedef weft_status labelled_fn(void *ud, const labelled *one, weft_error *err);

/* Calls fn for every text of a file of this kind, until fn fails. */
weft_status labelled_each(const file *f, data_kind kind, const columns *c, labelled_fn *fn,
                          void *ud, mem *m, weft_error *err);

/* Does the file have labels? Tables do, JSONL if its first line has one. */
bool labelled_is_here(const char *path, data_kind asked, host *h);

/* ---- names ----------------------------------------------------------------------------------- */

typedef struct label_name {
    const char *name;
    int32_t id;
} label_name;

typedef struct label_set {
    arena store;
    label_name **by_name; /* [n] sorted */
    const char **name;    /* [n] by id */
    int64_t n;
} label_set;

/* A growing set: names are added in any order, and get their ids at the end. */
weft_status labels_begin(label_set *l, mem *m, weft_error *err);
weft_status labels_add(label_set *l, const char *name, size_t n, weft_error *err);
void labels_number(label_set *l);

/* All names in these files, with ids in sorted order; at least two. */
weft_status labels_list(label_set *l, const char *const *path, int n_path, data_kind kind,
                        const columns *c, weft_load load, host *h, weft_error *err);

/* The labels of a model. Unnamed ones are LABEL_0 and so on, as in transformers. */
weft_status labels_of_model(label_set *l, const model *m, weft_error *err);
void labels_free(label_set *l);

/* -1: unknown. A number N stands for LABEL_N. */
int32_t labels_find(const label_set *l, const char *name, size_t n);

#endif
