/* preference.h - training data for DPO: an answer that is preferred to another.
 *
 *     { "prompt": ..., "chosen": ..., "rejected": ... }      texts
 *     { "prompt": [...], "chosen": [...], "rejected": [...] }      messages; or the whole
 *         conversation in both, whose common prefix is then the prompt
 *
 * A line becomes two documents, one after the other: the prompt with the preferred answer, and with
 * the other. Only the answers have a loss. */
#ifndef WEFT_TRAIN_PREFERENCE_H
#define WEFT_TRAIN_PREFERENCE_H

#include "base/mem.h"

#include <jansson.h>

/* Is a line a preference? */
bool preference_is(const json_t *line);

/* The document of side 0, the preferred one, or 1: { "prompt", "completion" } or { "messages" }, in a
 * section of jansson. */
json_t *preference_side(const json_t *line, int side, weft_error *err);

#endif
