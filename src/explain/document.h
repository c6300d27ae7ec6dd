/* document.h - writes what a page or a program gets to see, as JSON.
 *
 * In a page, a tensor is its name, and all tensors that were named follow once at the end, their
 * numbers as base64 of little-endian f32. For programs, each is written where it is used, its
 * numbers as decimals that read back to the same bits. */
#ifndef WEFT_EXPLAIN_DOCUMENT_H
#define WEFT_EXPLAIN_DOCUMENT_H

#include "base/buffer.h"
#include "explain/record.h"

#define DOCUMENT_DEPTH 16

typedef struct document {
    buffer *b;
    bool page;
    const record *seen;
    bool *used; /* [seen->n] tensors that the page needs */
    bool comma;
    int depth;
    char closing[DOCUMENT_DEPTH];
} document;

/* Values of an object have a key, those of a list NULL. */
void doc_object(document *d, const char *key);
void doc_list(document *d, const char *key);
void doc_end(document *d);

/* Not a number becomes null. */
void doc_real(document *d, const char *key, double x);
void doc_int(document *d, const char *key, int64_t x);
void doc_bool(document *d, const char *key, bool x);
void doc_text(document *d, const char *key, const char *text);
void doc_bytes(document *d, const char *key, const char *bytes, size_t n);
void doc_reals(document *d, const char *key, const double *x, int64_t n);

/* Many numbers that no tensor of the record has: base64 in a page, decimals for programs. */
void doc_floats(document *d, const char *key, const float *x, int64_t n);

/* A tensor of the record with the numbers that were kept; nothing if t is NULL or none were. */
void doc_tensor(document *d, const char *key, const seen *t);

/* Rows of a large tensor, for one view alone. */
void doc_rows(document *d, const char *key, const seen *t, int64_t first, int64_t n);

/* The numbers of the tensors that were used, for a page. */
void doc_tensors(document *d, const char *key);

#endif
