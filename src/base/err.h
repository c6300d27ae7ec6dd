/* err.h - error reports: a status and a message that names the file, the thing, what was found and
 * what was expected. No heap, no globals; err may be NULL. */
#ifndef WEFT_BASE_ERR_H
#define WEFT_BASE_ERR_H

#include "weft.h"

/* Fills err and returns code, so that a caller can write `return weft_fail(err, ...)`. */
weft_status weft_fail(weft_error *err, weft_status code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
