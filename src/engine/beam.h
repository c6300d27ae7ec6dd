/* beam.h - the n_beam most likely texts after a prompt, step by step, as transformers searches them.
 *
 *     live texts      n_beam sessions that share the pages of what they have in common
 *       |  all their next tokens, by the sum of log p: the best (1 + ends) n_beam of them
 *       +-- those that end a text, if among the first n_beam: into the list of finished ones
 *       +-- the first n_beam others: the live texts of the next step, in one forward
 *
 * A finished text has the score sum / length^length_penalty, and the best n_beam of them are kept. */
#ifndef WEFT_ENGINE_BEAM_H
#define WEFT_ENGINE_BEAM_H

#include "engine/session.h"

/* o: defaults are filled in, `ends` is given. NULL with err filled on failure. */
weft_beams *beam_search(engine *e, const int32_t *ids, int64_t n, const weft_beam_options *o,
                        void *owner, weft_error *err);

/* Returns the owner that they were made for. */
void *beams_free(weft_beams *b);

#endif
