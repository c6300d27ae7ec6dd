/* cache_cost.h - measures what one more token costs with the KV cache and without one.
 *
 *     with      keys and values of t tokens are kept: 1 row is evaluated, at position t
 *     without   nothing is kept: t + 1 rows are evaluated, in one forward
 *
 * Both give the same logits. */
#ifndef WEFT_CLI_CACHE_COST_H
#define WEFT_CLI_CACHE_COST_H

#include "fit.h"

#include <weft.h>

#define CACHE_LENGTHS  32
#define CACHE_TURNS    100
#define CACHE_MAX_ROWS 65536 /* of a forward */

typedef enum cache_way { CACHE_ON, CACHE_OFF, N_CACHE_WAY } cache_way;

/* What to measure: the engine's n_ctx, n_batch, n_session and n_cache follow from the lengths. */
typedef struct cache_work {
    weft_engine_options engine;
    int64_t length[CACHE_LENGTHS]; /* each 1 or more, one less than the context at most */
    int n_length, n_turn;          /* at least 1 of both */
    bool way[N_CACHE_WAY];         /* at least one is true */
} cache_work;

typedef struct cache_cost {
    double seconds[CACHE_TURNS]; /* of the token, ascending */
    double median;
    int64_t rows;      /* that were evaluated for it, counted */
    double flops;      /* of it, by weft_model_get_cost */
    double text_flops; /* of a text of t tokens, each of them generated like this */
} cache_cost;

typedef struct cache_table {
    cache_cost cost[CACHE_LENGTHS][N_CACHE_WAY]; /* times and rows are 0 where a way was left out */
    bool window;            /* attention has a sliding window, and the longest text is longer */
    bool fits[N_CACHE_WAY]; /* false with too few different lengths: every curve fits those */
    polynomial seconds[N_CACHE_WAY], flops[N_CACHE_WAY]; /* of a token after t others: a + b t;
                                                            without a cache also + c t^2 */
} cache_table;

/* Measures a model that generates and reads no source. Ways and lengths take turns, so that a
 * machine that slows down for a while slows down all of them. WEFT_ESTOPPED after Ctrl-C. */
weft_status cache_measure(weft_model *model, const cache_work *w, cache_table *to, weft_error *err);

#endif
