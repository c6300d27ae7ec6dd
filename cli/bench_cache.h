/* bench_cache.h - `weft bench --cache`: what to measure, and the table of cache_cost.h, printed. */
#ifndef WEFT_CLI_BENCH_CACHE_H
#define WEFT_CLI_BENCH_CACHE_H

#include "cache_cost.h"
#include "cli.h"

/* Of --cache: "on", "off" or both. Of --lengths: "64,256", or NULL for lengths that fit the model.
 * Return 0, or EXIT_USAGE after printing an error. */
int bench_cache_ways(const command *c, const char *text, cache_work *w);
int bench_cache_lengths(const command *c, const char *path, const weft_model_info *info,
                        const char *text, cache_work *w);

void bench_cache_text(const cache_work *w, const cache_table *t);

/* Members of the object that is open. */
void bench_cache_json(const cache_work *w, const cache_table *t);

#endif
