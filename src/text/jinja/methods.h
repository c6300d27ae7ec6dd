/* methods.h - methods of str in files of their own, for the table of methods. */
#ifndef WEFT_TEXT_JINJA_METHODS_H
#define WEFT_TEXT_JINJA_METHODS_H

#include "text/jinja/value.h"

typedef jval method_fn(jrender *r, jval self, jval *arg);

method_fn jm_split, jm_rsplit, jm_splitlines, jm_partition, jm_rpartition, jm_join;

/* Checks of arguments; false, with the error, if they are something else. */
bool jm_want_str(jrender *r, const char *what, jval v);
bool jm_want_int(jrender *r, const char *what, jval v, int64_t *i);

/* A new str, markup if `self` is. */
jval jm_same_kind(jval self, const jstr *s);

#endif
