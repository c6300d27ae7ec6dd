/* rx_class.h - what of a pattern matches one code point: rx_class.c reads it, rx_parse.c the rest. */
#ifndef WEFT_TEXT_CONSTRAIN_RX_CLASS_H
#define WEFT_TEXT_CONSTRAIN_RX_CLASS_H

#include "text/constrain/rx_points.h"

#define RX_SMALL_SET 8 /* ranges */

typedef struct rx_small_set {
    uint64_t range[RX_SMALL_SET];
    size_t n;
    rx made;
} rx_small_set;

typedef struct rx_source {
    rx_pool *pool;
    const char *text;
    size_t n, at;
    int flags;
    weft_error *err;
    bool refused; /* err says why */
    rx_ranges range;
    size_t n_range; /* that became expressions so far */
    rx_small_set recent[64];
    size_t n_recent;
} rx_source;

/* The byte at s->at + ahead, or 0. */
char rx_peek(const rx_source *s, size_t ahead);

/* Fills err: the place, the text from there on, and what it is. Returns false. */
bool rx_refuse(rx_source *s, size_t from, weft_status code, const char *what);

/* Reads a character, an escape or a class at s->at into s->range, tidy.
 * False if it was refused. */
bool rx_read_point(rx_source *s);

/* The expression of s->range; refused if there are too many. */
rx rx_of_source(rx_source *s);

#endif
