/* grammars.h - grammars that requests use, compiled once: clients send the same schema again and
 * again. */
#ifndef WEFT_SERVER_GRAMMARS_H
#define WEFT_SERVER_GRAMMARS_H

#include "request.h"

#include <weft.h>

#define N_GRAMMAR 32 /* those that are kept; the one used longest ago goes */

typedef struct kept_grammar {
    char *key; /* all that it was made from */
    size_t n_key;
    weft_grammar *grammar;
    uint64_t used;
} kept_grammar;

/* Of the clerk alone. */
typedef struct grammars {
    kept_grammar at[N_GRAMMAR];
    uint64_t clock;
} grammars;

/* What a grammar is made for. */
typedef struct grammar_place {
    weft_model *model;
    weft_tokenizer *tokenizer;
    weft_template *template; /* or NULL */
    bool inside;             /* the prompt ends with the start of the model's thinking */
} grammar_place;

/* A constraint for the form or the tools of a request. NULL with why filled. */
weft_constraint *grammars_constraint(grammars *g, const request *r, const grammar_place *at,
                                     refusal *why);
void grammars_free(grammars *g);

#endif
