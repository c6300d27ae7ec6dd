/* hostile.h - shared by the fuzz targets and the parsers' tests: extreme numbers, the fields of a
 * GGUF file, and the invariants of anything a parser accepts. */
#ifndef WEFT_TESTS_HOSTILE_H
#define WEFT_TESTS_HOSTILE_H

#include "base/mem.h"
#include "formats/container.h"

/* Around every width at which arithmetic wraps. */
#define N_HOSTILE 16
extern const uint64_t hostile[N_HOSTILE];

typedef struct field {
    size_t at;
    int width;      /* 4 or 8 bytes, or that of a number */
    uint64_t limit; /* the largest value that a reader accepts */
    bool dtype;     /* the type of a tensor */
} field;

#define MAX_FIELD 256

typedef struct fields {
    const uint8_t *data;
    size_t size, at;
    int n;
    field field[MAX_FIELD];
} fields;

/* Every count, length, type, dimension and offset of a GGUF file; of a broken file, those before
 * the error. */
void gguf_fields(fields *f, const uint8_t *data, size_t size);

typedef weft_status parser_fn(container *c, const uint8_t *data, uint64_t size, weft_error *err);

/* Parses. Returns NULL if that fails with a message, or gives a container whose tensors all lie
 * inside the bytes, have the size of their shape, do not overlap and are found by name; otherwise a
 * description of the fault. *status is the parser's result. */
const char *parse_and_check(parser_fn *parser, const uint8_t *data, size_t size,
                            weft_status *status, weft_error *err);

/* Runs the parser; aborts with a message on a fault, as a fuzz target does. */
void fuzz_parser(parser_fn *parser, const uint8_t *data, size_t size);

/* Aborts with what was found, unless it is good. */
void holds(bool good, const char *what);

/* malloc and free, so that a sanitizer sees every block. */
extern const mem_hooks plain_hooks;

/* Provided by libFuzzer and by replay.c. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed);

#endif
