/* body.h - the body of a request as a tree of JSON, with limits.
 *
 * Jansson parses it: strictly, without duplicate names. It recurses and ignores some failed
 * allocations, so depth and number of values are counted before it runs, and its memory comes from
 * the request's store: a refused allocation leaves the parser by longjmp, and the tree is freed
 * with the store, never by json_decref. */
#ifndef WEFT_SERVER_BODY_H
#define WEFT_SERVER_BODY_H

#include "memory.h"

#include <jansson.h>

#define BODY_MAX_BYTES  ((size_t)4 << 20)
#define BODY_MAX_DEPTH  64
#define BODY_MAX_VALUES 262144 /* a prompt of ids is as long as the context */
#define BODY_MAX_MEMORY ((size_t)96 << 20)

/* Call once, before any thread of the server uses Jansson. Threads other than the one inside
 * body_parse or body_write keep the allocator that was there. */
void body_init(void);

typedef enum body_status { BODY_GOOD, BODY_BAD, BODY_NO_MEMORY } body_status;

/* The tree, in s. On failure, `why` says what is wrong, in at most `size` bytes. */
body_status body_parse(store *s, const char *text, size_t n, json_t **root, char *why, size_t size);

/* A tree as compact text, in s, with a '\0' after it; NULL without memory. */
char *body_write(store *s, const json_t *tree, size_t *n);

#endif
