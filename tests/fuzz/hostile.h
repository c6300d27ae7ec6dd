/* hostile.h - what the fuzz targets and the tests of the parsers share: numbers that hurt, the
 * fields of a GGUF file, and what must hold of whatever a parser lets through. */
#ifndef WEFT_TESTS_HOSTILE_H
#define WEFT_TESTS_HOSTILE_H

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

/* Every count, length, type, dimension and offset of a GGUF file; of a broken one, those before the
 * break. */
void gguf_fields(fields *f, const uint8_t *data, size_t size);

typedef weft_status parser_fn(container *c, const uint8_t *data, uint64_t size, weft_error *err);

/* Parses; NULL where that ended in an error with a message, or in a container of which every tensor
 * lies inside the bytes, has the size of its shape, overlaps no other and is found by its name. A
 * sentence on what is wrong otherwise. *status is what the parser said. */
const char *parse_and_check(parser_fn *parser, const uint8_t *data, size_t size,
                            weft_status *status, weft_error *err);

/* Runs the parser, and ends the process with a message if something is wrong, as a fuzz target
 * does. */
void fuzz_parser(parser_fn *parser, const uint8_t *data, size_t size);

/* Known to libFuzzer and to replay.c. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed);

#endif
