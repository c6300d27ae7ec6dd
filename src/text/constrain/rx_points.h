/* rx_points.h - sets of code points while an expression is built. */
#ifndef WEFT_TEXT_CONSTRAIN_RX_POINTS_H
#define WEFT_TEXT_CONSTRAIN_RX_POINTS_H

#include "text/constrain/rx_pool.h"

/* first << 32 | last. Memory that runs out is noted in the pool. */
typedef struct rx_ranges {
    uint64_t *at;
    size_t n, room;
} rx_ranges;

void ranges_add(rx_pool *p, rx_ranges *r, uint32_t first, uint32_t last);

/* Sorts them and joins what touches. */
void ranges_tidy(rx_ranges *r);

/* Adds all code points that are not in a tidy set. */
void ranges_add_others(rx_pool *p, rx_ranges *to, const rx_ranges *tidy);
void ranges_free(rx_pool *p, rx_ranges *r);

/* One code point of a tidy set, as UTF-8. */
rx rx_of_ranges(rx_pool *p, const rx_ranges *tidy);

/* The same as a JSON string spells it: " and \ with a backslash, controls as \n or \u000a, anything
 * else as itself. */
rx rx_json_of_ranges(rx_pool *p, const rx_ranges *tidy);

/* Any code point; made once. */
rx rx_any_point(rx_pool *p, bool json);

#endif
