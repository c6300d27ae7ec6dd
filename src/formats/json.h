/* json.h - jansson with limits: sizes and depth bounded, duplicates refused, memory counted.
 *
 * jansson's allocator is a global of the process. A section borrows it: between begin and end, this
 * thread's jansson allocations are charged to the host's budget and pass its seam. Other threads
 * that use jansson in the meantime keep their own allocator. A tree lives until the section ends,
 * and needs no json_decref. */
#ifndef WEFT_FORMATS_JSON_H
#define WEFT_FORMATS_JSON_H

#include "base/host.h"

#include <jansson.h>

#define JSON_MAX_BYTES 100000000u
#define JSON_DEPTH     64

/* Limits of the tree of a document: TIMES for each byte plus MORE, and never above the last. A
 * tokenizer.json takes up to 15 bytes for each byte; lists of empty lists or objects take 45 and
 * 77. */
#define JSON_TREE_TIMES 32u
#define JSON_TREE_MORE  65536u
#define MAX_JSON_TREE   (1u << 31)

void json_section_begin(mem *m);
void json_section_end(void);

/* Parses one JSON document whose root is an object, or an array if `array` is set. NULL with err
 * filled on failure. Integers beyond 64 bits become reals if `big_integers` is set
 * (model_max_length = 1e30 exists). */
json_t *json_read(const uint8_t *data, uint64_t size, bool big_integers, const char *path,
                  weft_error *err);
json_t *json_read_root(const uint8_t *data, uint64_t size, bool big_integers, bool array,
                       const char *path, weft_error *err);

/* In a section: a value as text, with flags of json_dumps, which lives until its end. NULL with err
 * filled without memory; `what` is in its message. */
const char *json_write(const json_t *value, size_t flags, const char *what, weft_error *err);

/* Is a text one JSON value? Also false, with err filled, without memory to find out. */
bool json_is_value(const char *text, size_t n, mem *m, weft_error *err);

#endif
