/* find.h - a model by its name in the stores of stores.h. */
#ifndef WEFT_FORMATS_FIND_H
#define WEFT_FORMATS_FIND_H

#include "formats/stores.h"

#define FIND_MAX_NAME 512

/* "NAME", "ORG/NAME", "hf.co/ORG/NAME", each with ":TAG" or without. */
typedef struct wanted {
    bool hf; /* only what comes from Hugging Face */
    char name[FIND_MAX_NAME], tag[FIND_MAX_NAME];
} wanted;

/* False where the text cannot be a name: paths ("./x", "../x", "/x") and what has blanks. */
bool wanted_parse(wanted *w, const char *text);

/* How well a model of a store fits: 0, it does not; the highest is meant. A model of that name with
 * another tag is 0, too, and sets *named. */
int wanted_fits(const wanted *w, const store *s, const store_model *m, bool *named);

/* Told of each store that was looked into, where none has the model. */
typedef void find_note_fn(void *ud, const store *s, const char *result);

/* Looks into one store after the other. The first that has a model of that name decides: one that
 * fits best is the answer, several are an error that names them, and so is one that is broken. */
weft_status find_model(const char *text, const store *stores, int n_store, host *h, char *path,
                       size_t size, find_note_fn *note, void *ud, weft_error *err);

#endif
