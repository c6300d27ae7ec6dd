/* log.c - formats a line for the host's log, if it has one. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

void log_write(const log_sink *sink, weft_log_level level, const char *format, ...)
{
    if (!sink->fn)
        return;
    char line[512];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    sink->fn(sink->ud, level, line);
}
