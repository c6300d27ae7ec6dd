/* split.h - the pre-tokenizers: each cuts a stretch of text into smaller pieces and passes them on.
 *
 * Steps run depth first: a piece goes through all later steps before the next piece is cut. So no
 * list of pieces is ever stored, and the last step's pieces reach the model in order. */
#ifndef WEFT_TEXT_SPLIT_H
#define WEFT_TEXT_SPLIT_H

#include "text/normalize.h"

typedef enum splitter_kind {
    SPLIT_PATTERN, /* by a pattern */
    SPLIT_TEXT,    /* by a text */
    SPLIT_SPACE,   /* by white space */
    SPLIT_PUNCTUATION,
    SPLIT_NUMERIC,
    SPLIT_POINT,        /* by one code point */
    SPLIT_WORDS,        /* Whitespace: runs of \w, and runs of [^\w\s] */
    SPLIT_BERT,         /* drops white space, isolates punctuation */
    SPLIT_METASPACE,    /* spaces become `text`; cut before each */
    SPLIT_PREFIX_SPACE, /* first half of ByteLevel */
    SPLIT_BYTES,        /* second half of ByteLevel: bytes become letters */
    SPLIT_SCRIPTS,
    SPLIT_LENGTH,
} splitter_kind;

/* What to do with a match. */
typedef enum split_behavior {
    SPLIT_REMOVED,
    SPLIT_ISOLATED,
    SPLIT_MERGED_WITH_PREVIOUS,
    SPLIT_MERGED_WITH_NEXT,
    SPLIT_CONTIGUOUS,
} split_behavior;

typedef enum prepend_scheme { PREPEND_ALWAYS, PREPEND_FIRST, PREPEND_NEVER } prepend_scheme;

/* Finds the end of the piece that a well-known pattern cuts off at text[at], if only ASCII is
 * involved; 0 if the caller must run the pattern itself. Such a pattern leaves no gaps. */
typedef size_t scan_fn(const char *text, size_t n, size_t at);

/* NULL if the pattern is not one of those. */
scan_fn *scan_of_pattern(const char *pattern, size_t n);

extern const char pattern_gpt2[];

typedef struct splitter {
    splitter_kind kind;
    split_behavior behavior;
    bool invert;
    regex *pattern;
    scan_fn *scan;
    const char *text; /* TEXT, METASPACE; PATTERN: its source */
    size_t text_length;
    uint32_t point;
    prepend_scheme prepend;
    bool cut; /* METASPACE */
    size_t length;
} splitter;

typedef struct splitters {
    splitter step[MAX_STEP];
    int n;
} splitters;

/* Receives the pieces. False stops everything, with err filled. */
typedef bool split_fn(void *ud, const piece *p);

typedef struct split_run {
    const splitters *steps;
    regex_scratch *regex;
    writer *writer; /* [steps->n] */
    growth *growth; /* the caller begins it, once for each text */
    bool maps;
    mem *mem;
    split_fn *emit;
    void *ud;
    weft_error *err;
} split_run;

/* Passes every word of p to run->emit. p is not empty, and no word is. */
bool split_text(const split_run *run, const piece *p);

#endif
