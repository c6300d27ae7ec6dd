/* rx.h - regular expressions over bytes, matched by derivatives.
 *
 * An expression is a number in a pool that keeps every expression once, so equal expressions have
 * equal numbers and a lazily built automaton can use them as its states: the derivative of r by a
 * byte b matches exactly the strings s for which r matches b s.
 *
 *     nothing      no string at all
 *     empty        the empty string
 *     bytes S      one byte of a set
 *     a b          one after the other
 *     a | b        either (any number of operands, sorted, without duplicates)
 *     a & b        both
 *     !a           every string that a does not match
 *     a{m,n}       repeated; n RX_MANY: without end
 *
 * Text is UTF-8: sets of code points become alternatives of byte sequences, so an expression never
 * matches half a code point unless it was built from bytes. The pool refuses to grow beyond its
 * limit, which bounds both memory and time of everything built on it. */
#ifndef WEFT_TEXT_CONSTRAIN_RX_H
#define WEFT_TEXT_CONSTRAIN_RX_H

#include "base/mem.h"

typedef uint32_t rx;
typedef struct rx_pool rx_pool;

/* In every pool. */
#define RX_NOTHING ((rx)0)
#define RX_EMPTY   ((rx)1)
#define RX_ALL     ((rx)2) /* !nothing: every string of bytes */

#define RX_MANY UINT32_MAX

/* `limit`: expressions at most. */
rx_pool *rx_pool_new(mem *m, uint32_t limit, weft_error *err);
void rx_pool_free(rx_pool *p);

/* The constructors simplify. Once the limit is reached or memory is out they return RX_NOTHING and
 * rx_failed gives the reason; so a caller checks once, at the end. */
rx rx_bytes(rx_pool *p, const uint64_t set[4]);
rx rx_byte_range(rx_pool *p, uint8_t first, uint8_t last);
rx rx_points(rx_pool *p, const uint32_t (*range)[2],
             size_t n); /* code points, without surrogates */
rx rx_not_points(rx_pool *p, const uint32_t (*range)[2], size_t n);
rx rx_literal(rx_pool *p, const char *text, size_t n);
rx rx_seq(rx_pool *p, rx a, rx b);
rx rx_or(rx_pool *p, rx a, rx b);
rx rx_and(rx_pool *p, rx a, rx b);
rx rx_not(rx_pool *p, rx a);
rx rx_repeat(rx_pool *p, rx a, uint32_t min, uint32_t max);

/* Digits, perhaps with a point among them, whose value is a multiple of divisor / 10^decimals: the
 * states of this automaton are remainders. Also matches "", "." and the like; intersect it with a
 * form. The divisor is not 0. */
rx rx_multiple(rx_pool *p, uint32_t divisor, uint32_t decimals);

/* Of many at once, which takes linear time: any of them, all of them. A long sequence is built from
 * its end for the same reason. */
rx rx_any(rx_pool *p, const rx *a, size_t n);
rx rx_every(rx_pool *p, const rx *a, size_t n);

/* WEFT_OK, or why a constructor or a derivative gave up. */
weft_status rx_failed(const rx_pool *p, weft_error *err);

/* Byte sets in the expression, counts multiplied out, at most UINT32_MAX: how many states its
 * automaton may need. */
uint32_t rx_size(const rx_pool *p, rx a);

bool rx_matches_empty(const rx_pool *p, rx a);
rx rx_derive(rx_pool *p, rx a, uint8_t byte);

/* Bytes of one class have the same derivative: class_of[b] numbers them from 0, and the result is
 * how many there are. Saves the automaton 200 of 256 derivatives. */
int rx_classes(rx_pool *p, rx a, uint8_t class_of[256]);

/* Does `a` match any string? With & and ! that takes a search over derivatives, whose results the
 * pool remembers. False if it could not be decided within the limit: rx_failed then says so. */
bool rx_alive(rx_pool *p, rx a);

/* An expression as ECMA-262 writes it in JSON Schema's "pattern" and `--regex`, over code points:
 * alternation, groups (also (?:), classes with ranges and negation, \d \w \s \D \W \S, \xHH \uHHHH
 * \u{...}, \p{...} of the properties text/regex knows, greedy and lazy quantifiers, ^ and $.
 * By default the pattern is the whole text. err->code tells whether it was refused; look-around, back-references and \b are,
 * by name and with their place. */
enum {
    RX_SEARCH = 1, /* it may match anywhere unless anchored, as in JSON Schema */
    RX_JSON = 2    /* every code point as a JSON string spells it, without the quotes */
};
rx rx_parse(rx_pool *p, const char *pattern, size_t n, int flags, weft_error *err);

#endif
