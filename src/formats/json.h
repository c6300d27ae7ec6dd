/* json.h - jansson, kept on a leash: sizes and depth limited, duplicates refused, memory counted.
 *
 * jansson's allocator is a global of the process. A section borrows it: between begin and end, what
 * this thread allocates through jansson is charged to the host's budget and passes its seam; other
 * threads that use jansson meanwhile get their memory from where they would have. A tree
 * lives until the section ends, and needs no json_decref. */
#ifndef WEFT_FORMATS_JSON_H
#define WEFT_FORMATS_JSON_H

#include "base/host.h"

#include <jansson.h>

#define JSON_MAX_BYTES 100000000u
#define JSON_DEPTH     64

/* What the tree of a text may take: so much for each byte of it and a little more, and never more
 * than the last. A tokenizer.json takes up to 15 for each byte; lists of empty lists or objects take
 * 45 and 77. */
#define JSON_TREE_TIMES 32u
#define JSON_TREE_MORE  65536u
#define JSON_TREE_MOST  (1u << 31)

void json_section_begin(mem *m);
void json_section_end(void);

/* Parses one JSON document whose root is an object, or an array where `array` says so. NULL with err filled on failure. Integers
 * beyond 64 bits become reals where `big_integers` allows them (model_max_length = 1e30 is
 * real). */
json_t *json_read(const uint8_t *data, uint64_t size, bool big_integers, const char *path,
                  weft_error *err);
json_t *json_read_root(const uint8_t *data, uint64_t size, bool big_integers, bool array,
                       const char *path, weft_error *err);

#endif
