/* sines.h - a table of positions made of sines: neither stored nor trained. */
#ifndef WEFT_MODELS_SINES_H
#define WEFT_MODELS_SINES_H

#include "models/bind.h"

typedef enum position_kind {
    POSITION_LEARNED,     /* a table; its first two rows are unused */
    POSITION_INTERLEAVED, /* sin and cos interleaved, as in 2017 */
    POSITION_HALVES,      /* all sin before all cos, as in Marian */
    POSITION_FAIRSEQ,     /* the same with other frequencies, counted from after the padding */
} position_kind;

typedef struct sines {
    position_kind kind; /* not learned */
    int64_t first, D;   /* the position of row 0 */
} sines;

/* The table [T, D]. It costs memory and time that no file size bounds, so T has a limit. */
tensor *bind_sines(bind *b, const sines *of, int64_t T);

#endif
