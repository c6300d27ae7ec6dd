/* beam.h - beam search: the n_beam most likely continuations of a prompt, as in transformers.
 *
 *     live texts      n_beam sessions that share the pages of their common prefix
 *       |  all their next tokens, by the sum of log p: the best (1 + ends) n_beam of them
 *       +-- those that end a text, if among the first n_beam: into the list of finished ones
 *       +-- the first n_beam others: the live texts of the next step, in one forward
 *
 * The score of a finished text is sum / length^length_penalty; the search keeps the best n_beam. */
#ifndef WEFT_ENGINE_BEAM_H
#define WEFT_ENGINE_BEAM_H

#include "engine/session.h"

/* o: with defaults filled in and `ends` set; a: the adapter that o names. begun: a session of the
 * engine that has evaluated the ids, whose pages the search shares and whose adapter it has, or
 * NULL. NULL with err filled on failure. */
weft_beams *beam_search(engine *e, const int32_t *ids, int64_t n, const weft_beam_options *o,
                        adaption a, const session *begun, void *owner, weft_error *err);

/* Returns the owner that was passed in. */
void *beams_free(weft_beams *b);

#endif
