#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>

weft_status weft_fail(weft_error *err, weft_status code, const char *format, ...)
{
    if (err) {
        va_list args;
        va_start(args, format);
        err->code = code;
        vsnprintf(err->message, sizeof err->message, format, args);
        va_end(args);
        for (char *s = err->message; *s; s++)
            if ((unsigned char)*s < 0x20 || *s == 0x7F)
                *s = '?'; /* names come from files, and messages go to terminals */
    }
    return code;
}
