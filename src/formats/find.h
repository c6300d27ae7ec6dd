/* find.h - finds a model by name in the stores of stores.h. */
#ifndef WEFT_FORMATS_FIND_H
#define WEFT_FORMATS_FIND_H

#include "formats/stores.h"

#define FIND_MAX_NAME 512

/* "NAME", "ORG/NAME", "hf.co/ORG/NAME", each with or without ":TAG". */
typedef struct wanted {
    bool hf; /* only models from Hugging Face */
    char name[FIND_MAX_NAME], tag[FIND_MAX_NAME];
} wanted;

/* False if the text cannot be a name: a path ("./x", "../x", "/x") or text with blanks. */
bool wanted_parse(wanted *w, const char *text);

/* How well a model of a store matches: 0 for no match; the highest wins. A model of that name with
 * another tag is 0 too, and sets *named. */
int wanted_fits(const wanted *w, const store *s, const store_model *m, bool *named);

/* Called for each store searched, if none has the model. */
typedef void find_note_fn(void *ud, const store *s, const char *result);

/* Searches the stores in order. The first that has a model of that name decides: the best match is
 * the result. Several equal ones are an error that names them, and a broken one is an error too. */
weft_status find_model(const char *text, const store *stores, int n_store, host *h, char *path,
                       size_t size, find_note_fn *note, void *ud, weft_error *err);

#endif
