/* err.c - formats an error message into its fixed buffer. */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Keeps both ends of a message that is too long: it begins with a path and ends with the reason. */
static void __attribute__((format(printf, 2, 0)))
put_shortened(weft_error *err, const char *format, va_list args)
{
    char whole[6144];
    const size_t half = sizeof err->message / 2, room = sizeof err->message - half;
    vsnprintf(whole, sizeof whole, format, args);
    snprintf(err->message + half, room, "...%s", whole + strlen(whole) - (room - 4));
}

weft_status weft_fail(weft_error *err, weft_status code, const char *format, ...)
{
    if (err) {
        va_list args, again;
        va_start(args, format);
        va_copy(again, args);
        err->code = code;
        if (vsnprintf(err->message, sizeof err->message, format, args) >= (int)sizeof err->message)
            put_shortened(err, format, again);
        va_end(again);
        va_end(args);
        for (char *s = err->message; *s; s++)
            if ((unsigned char)*s < 0x20 || *s == 0x7F)
                *s = '?'; /* names come from files, and messages go to terminals: escape control
                           * characters */
    }
    return code;
}
