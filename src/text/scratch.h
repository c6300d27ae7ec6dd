/* scratch.h - arrays that grow while a text is encoded and are kept for the next text. */
#ifndef WEFT_TEXT_SCRATCH_H
#define WEFT_TEXT_SCRATCH_H

#include "base/mem.h"

typedef struct scratch {
    void *data;
    size_t room; /* bytes */
} scratch;

/* At least `bytes`, with what is there kept; NULL with err filled where memory is refused, and the
 * scratch as it was. */
void *scratch_grow(scratch *s, size_t bytes, mem *m, weft_error *err);
void scratch_free(scratch *s, mem *m);

/* Ids as they are found, and where in the text each of them ends, if anyone wants to know. */
typedef struct ids {
    scratch id_room, end_room;
    uint32_t *id;
    uint32_t *end; /* [n] bytes of the word, or NULL */
    size_t n, room;
    bool ends; /* wanted */
    mem *mem;
} ids;

/* Room for n more. */
bool ids_reserve(ids *o, size_t n, weft_error *err);
void ids_free(ids *o);

static inline void ids_put(ids *o, uint32_t id, size_t end)
{
    o->id[o->n] = id;
    if (o->ends)
        o->end[o->n] = (uint32_t)end;
    o->n++;
}

#endif
