/* scratch.h - growing arrays that are reused for the next text or document. */
#ifndef WEFT_TEXT_SCRATCH_H
#define WEFT_TEXT_SCRATCH_H

#include "base/mem.h"

typedef struct scratch {
    void *data;
    size_t room; /* bytes */
} scratch;

/* Grows to at least `bytes`, keeping the contents. On failure: NULL, err filled, s unchanged. */
void *scratch_grow(scratch *s, size_t bytes, mem *m, weft_error *err);
void scratch_free(scratch *s, mem *m);

/* Ids in order, and where each ends in its word if with_ends. */
typedef struct ids {
    scratch id_room, end_room;
    uint32_t *id;
    uint32_t *end; /* [n], bytes into the word; valid if with_ends */
    size_t n;
    bool with_ends;
    mem *mem;
    struct step_watch *steps; /* who watches how they come about; or NULL */
} ids;

/* Room for n more. */
bool ids_reserve(ids *o, size_t n, weft_error *err);
void ids_free(ids *o);

static inline void ids_put(ids *o, uint32_t id, size_t end)
{
    o->id[o->n] = id;
    if (o->with_ends)
        o->end[o->n] = (uint32_t)end;
    o->n++;
}

#endif
