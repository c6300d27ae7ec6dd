/* wire.h - JSON as the server writes it, into memory.
 *
 *     wire w = wire_to(&b);
 *     wire_object(&w, NULL);
 *     wire_int(&w, "index", 0);
 *     wire_end(&w);                        {"index":0}
 *
 * The writer puts commas and escapes. Bytes that are not UTF-8 become U+FFFD, so that every answer
 * is valid whatever a model generates. */
#ifndef WEFT_SERVER_WIRE_H
#define WEFT_SERVER_WIRE_H

#include "memory.h"

#define WIRE_DEPTH 12

typedef struct wire {
    bytes *to;
    int depth;
    char end[WIRE_DEPTH];  /* '}' or ']' */
    bool more[WIRE_DEPTH]; /* it has an element, so that a comma goes before the next */
} wire;

wire wire_to(bytes *to);

/* key: the name of a member; NULL for an element of a list and for the outermost value. */
void wire_object(wire *w, const char *key);
void wire_list(wire *w, const char *key);
void wire_end(wire *w);
void wire_text(wire *w, const char *key, const char *text, size_t n);
void wire_string(wire *w, const char *key, const char *text); /* NULL: null */
void wire_bytes(wire *w, const char *key, const bytes *text);
void wire_int(wire *w, const char *key, int64_t x);
void wire_real(wire *w, const char *key, double x); /* nine digits; -9999 if it is not finite */
void wire_bool(wire *w, const char *key, bool x);
void wire_null(wire *w, const char *key);
void wire_raw(wire *w, const char *key, const char *json, size_t n);

/* Length of the UTF-8 sequence that text begins with, or 0 if it begins with none. */
size_t wire_utf8(const char *text, size_t n);
bool wire_is_utf8(const char *text, size_t n);

/* The text between quotes alone. */
void wire_quote(bytes *to, const char *text, size_t n);

#endif
