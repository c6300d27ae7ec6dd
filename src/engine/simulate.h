/* simulate.h - the scheduler on a clock of its own, under a load that is written down: how long would
 * requests take? scheduler*.c, schedule.c, prefix.c and pages.c are those of a server; forwards are
 * dummy_engine.h's, and take the time that step_times.h finds for them.
 *
 *     arrival --- head, JSON, tokenizer ---> queue --- steps ---> token --- to the client --->
 *             at most n_running + n_waiting requests may be between arrival and end, or 503
 *
 * The work of one thread of the server (the clerk) lies between arrival and queue: requests pass it
 * one after the other, while forwards go on. */
#ifndef WEFT_ENGINE_SIMULATE_H
#define WEFT_ENGINE_SIMULATE_H

#include "base/mem.h"

/* options: with defaults filled in, checked. */
weft_status simulate(const weft_simulation_options *options, const weft_load_request *load,
                     int64_t n, weft_load_result *result, weft_simulation_info *info, mem *m,
                     weft_error *err);

/* Token i of the part `seed`, below n_vocab. */
int32_t load_token(uint64_t seed, int64_t i, int32_t n_vocab);

#endif
