/* log.h - the library's log callback. Without one, the library prints nothing. */
#ifndef WEFT_BASE_LOG_H
#define WEFT_BASE_LOG_H

#include "weft.h"

typedef struct log_sink {
    weft_log_fn *fn; /* NULL: no log */
    void *ud;
} log_sink;

void log_write(const log_sink *sink, weft_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
