/* constraint.h - one text under a grammar: which token may come next.
 *
 * A constraint_set is a compiled grammar with a vocabulary, shared by any number of texts and
 * threads behind a lock. A constraint is the list of its rows, one for each token, so that going
 * back costs nothing and a copy little. */
#ifndef WEFT_TEXT_CONSTRAIN_CONSTRAINT_H
#define WEFT_TEXT_CONSTRAIN_CONSTRAINT_H

#include "base/mem.h"

struct grammar;
struct token_trie;

typedef struct constraint_set constraint_set;
typedef struct constraint constraint;

/* Takes the grammar, also on failure. */
constraint_set *constraint_set_new(mem *m, struct grammar *g, const struct token_trie *tokens,
                                   const int32_t *ends, int n_end, weft_error *err);

/* After all its constraints were freed. */
void constraint_set_free(constraint_set *s);

/* Ids that masks know. */
int64_t constraint_ids(const constraint_set *s);

constraint *constraint_new(constraint_set *s, weft_error *err);
constraint *constraint_clone(const constraint *c, weft_error *err);
void constraint_free(constraint *c);

/* May this token come next? A token that ends the text may, if the text may end. */
bool constraint_allows(constraint *c, int32_t id, weft_error *err);

/* A bit for each of n tokens, in (n + 63) / 64 words. */
weft_status constraint_mask(constraint *c, uint64_t *bits, int64_t n, weft_error *err);

/* WEFT_EINVAL, and nothing changes, if the token is not allowed. */
weft_status constraint_accept(constraint *c, int32_t id, weft_error *err);

/* Tokens accepted, and back to an earlier number of them. */
int64_t constraint_length(const constraint *c);
void constraint_rewind(constraint *c, int64_t n);

/* Bytes that every continuation begins with: writes at most `size`, returns how many. */
size_t constraint_forced(constraint *c, char *bytes, size_t size, weft_error *err);

/* May the text end here? And: can nothing else follow, or has it ended? */
bool constraint_may_end(const constraint *c);
bool constraint_done(const constraint *c);

#endif
