/* refusal.h - why a request is refused: the status of HTTP and the fields of OpenAI's error
 * object. */
#ifndef WEFT_SERVER_REFUSAL_H
#define WEFT_SERVER_REFUSAL_H

#include <stdbool.h>

typedef struct refusal {
    int status;
    const char *type; /* "invalid_request_error" */
    const char *code; /* or NULL */
    char param[96];   /* "": none */
    char message[512];
} refusal;

#define INVALID_REQUEST "invalid_request_error"

/* Fills it; returns false. code and param may be NULL. */
bool refuse(refusal *why, int status, const char *type, const char *code, const char *param,
            const char *format, ...) __attribute__((format(printf, 6, 7)));

#endif
