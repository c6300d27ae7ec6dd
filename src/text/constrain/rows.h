/* rows.h - Earley's recogniser with rows that are kept once.
 *
 * After each byte a row says what may come next. Its items are productions with a dot and the row in
 * which the production began:
 *
 *     scan    the dot is before a lexeme, whose automaton is in `state`
 *     token   the dot is before a token
 *     wait    the dot is before a rule, which completes in a later row
 *
 * Those who wait are apart, in a set of their own that a row refers to: it is all that later rows ask
 * of an origin.
 *
 * A lexeme is not greedy: on a byte every scan item steps, and where its state accepts, the dot also
 * moves on. So all ambiguity stays in the row.
 *
 * Rows are kept once: two rows with the same items, origins included, are the same row, and have the
 * same future. A text inside a string or after the n-th element of a list is in the same row again
 * and again, so (row, byte) -> row is a table that is soon full, and a state of generation is one
 * number. Items that begin in their own row have the origin ORIGIN_SELF, which makes equal rows at
 * different places equal.
 *
 * (Earley 1970; rules that may be empty are stepped over when predicted: Aycock, Horspool 2002.) */
#ifndef WEFT_TEXT_CONSTRAIN_ROWS_H
#define WEFT_TEXT_CONSTRAIN_ROWS_H

#include "text/constrain/dfa.h"

typedef struct item {
    uint32_t dot;
    uint32_t origin; /* those who wait where it began */
    uint32_t state;
} item;

#define NO_ROW      UINT32_MAX /* no text continues so */
#define ORIGIN_SELF UINT32_MAX
#define FIRST_ROW   ((uint32_t)1) /* after the set of those who wait in it */

typedef struct row_head {
    uint32_t at; /* items: scan, then token; or wait alone, in a set of those who wait */
    uint32_t n_scan, n_token, n_wait;
    uint32_t waits; /* such a set, which has NO_ROW here */
    uint32_t hash;
    bool accepts; /* the text may end here */
} row_head;

typedef struct step_entry {
    uint32_t row, to; /* row NO_ROW: free */
    uint32_t byte;
} step_entry;

typedef struct earley {
    mem *mem;
    grammar *grammar;
    dfa dfa;
    uint32_t *initial; /* [lexemes] states, DFA_UNKNOWN until used */
    list row, item;
    uint32_t *slot; /* rows by their items, hashed; NO_ROW: free */
    uint32_t n_slot;
    step_entry *step; /* transitions, hashed */
    uint32_t n_step, step_room;

    list work;      /* item: the row that is being made */
    uint32_t *seen; /* its items by hash: index + 1 */
    uint32_t n_seen;
    bool accepts;
    uint64_t effort; /* items made in this call */
    uint64_t effort_most;
    weft_error *err; /* of the current call */
} earley;

weft_status rows_init(earley *r, mem *m, grammar *g, weft_error *err);
void rows_free(earley *r);

/* Before each call of a caller: where errors go. */
void rows_begin(earley *r, weft_error *err);

static inline const row_head *row_at(const earley *r, uint32_t index)
{
    return (const row_head *)r->row.room.data + index;
}

static inline const item *row_items(const earley *r, uint32_t index)
{
    return (const item *)r->item.room.data + row_at(r, index)->at;
}

/* The row after one more byte, or NO_ROW. On failure NO_ROW with err filled. */
uint32_t rows_step(earley *r, uint32_t from, uint8_t byte);

/* Those who wait in a row. */
static inline uint32_t row_waits(const earley *r, uint32_t index)
{
    return row_at(r, index)->waits;
}

/* The row after the lexemes of all scan items in this state end here. */
uint32_t rows_end_lexemes(earley *r, uint32_t from, uint32_t state);

/* The row after a token: what its bytes lead to (`by_bytes`, or NO_ROW) and what token items say. */
uint32_t rows_token(earley *r, uint32_t from, uint32_t id, uint32_t by_bytes);

/* The bytes that can come next. */
void rows_next_bytes(earley *r, uint32_t from, uint64_t bytes[4]);

/* Bytes that rows take. */
size_t rows_size(const earley *r);

/* Forgets all rows but the first and those marked in keep[rows], with their origins; map[row]
 * becomes the new number or NO_ROW. */
void rows_compact(earley *r, uint32_t *map, const bool *keep);

#endif
