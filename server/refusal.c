/* refusal.c - see refusal.h. */
#include "refusal.h"

#include <stdarg.h>
#include <stdio.h>

bool refuse(refusal *why, int status, const char *type, const char *code, const char *param,
            const char *format, ...)
{
    va_list args;
    *why = (refusal){ .status = status, .type = type, .code = code };
    snprintf(why->param, sizeof why->param, "%s", param ? param : "");
    va_start(args, format);
    vsnprintf(why->message, sizeof why->message, format, args);
    va_end(args);
    return false;
}
