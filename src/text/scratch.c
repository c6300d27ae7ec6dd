/* scratch.c - doubles an array when it is full, within the memory cap. */
#include "text/scratch.h"

#include <stdint.h>
#include <string.h>

void *scratch_grow(scratch *s, size_t bytes, mem *m, weft_error *err)
{
    if (bytes <= s->room && s->data)
        return s->data;
    size_t room = s->room < 1024 ? 1024 : s->room;
    while (room < bytes)
        room = room > SIZE_MAX / 2 ? bytes : room * 2;
    void *data = mem_alloc(m, room, "a growing array", err);
    if (!data)
        return NULL;
    if (s->data)
        memcpy(data, s->data, s->room);
    mem_free(m, s->data);
    *s = (scratch){ data, room };
    return data;
}

void scratch_free(scratch *s, mem *m)
{
    mem_free(m, s->data);
    *s = (scratch){ 0 };
}

bool ids_reserve(ids *o, size_t n, weft_error *err)
{
    const size_t bytes = (o->n + n) * sizeof *o->id; /* bounded: encoder_encode limits texts */
    uint32_t *id = scratch_grow(&o->id_room, bytes, o->mem, err);
    if (!id)
        return false;
    o->id = id;
    if (!o->with_ends)
        return true;
    uint32_t *end = scratch_grow(&o->end_room, bytes, o->mem, err);
    if (!end)
        return false;
    o->end = end;
    return true;
}

void ids_free(ids *o)
{
    scratch_free(&o->id_room, o->mem);
    scratch_free(&o->end_room, o->mem);
    *o = (ids){ 0 };
}
