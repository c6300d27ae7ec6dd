/* text.c - appends text together with the origin of each byte. */
#include "text/text.h"

#include "base/utf8.h"

#include <string.h>

void writer_begin(writer *w, bool maps, size_t most, mem *m, weft_error *err)
{
    if (maps != w->maps)
        w->held = 0; /* the buffers stay, and are counted again */
    w->n = 0;
    w->most = most;
    w->room = w->held < most ? w->held : most;
    w->maps = maps;
    w->mem = m;
    w->err = err;
    w->failed = false;
}

void writer_grow(writer *w, size_t n)
{
    if (n > w->most - w->n) {
        weft_fail(w->err, WEFT_EUNSUPPORTED,
                  "a step of the tokenizer grows the text far beyond its length; refused");
        w->failed = true;
        return;
    }
    size_t room = w->held < 256 ? 256 : w->held;
    while (room < w->n + n)
        room *= 2;
    char *s = scratch_grow(&w->s_room, room, w->mem, w->err);
    w->failed |= !s;
    w->s = s ? s : w->s;
    if (w->maps && !w->failed) {
        uint32_t *from = scratch_grow(&w->from_room, room * sizeof *from, w->mem, w->err);
        uint32_t *to = from ? scratch_grow(&w->to_room, room * sizeof *to, w->mem, w->err) : NULL;
        w->failed |= !to;
        w->from = from ? from : w->from;
        w->to = to ? to : w->to;
    }
    if (w->failed)
        return;
    w->held = room;
    w->room = room < w->most ? room : w->most;
}

void writer_free(writer *w, mem *m)
{
    scratch_free(&w->s_room, m);
    scratch_free(&w->from_room, m);
    scratch_free(&w->to_room, m);
    *w = (writer){ 0 };
}

void writer_copy(writer *w, const piece *p, size_t begin, size_t end)
{
    const size_t n = end - begin;
    if (w->room - w->n < n)
        writer_grow(w, n);
    if (w->failed || n == 0)
        return;
    memcpy(w->s + w->n, p->s + begin, n);
    for (size_t i = 0; w->maps && i < n; i++) {
        w->from[w->n + i] = piece_from(p, begin + i);
        w->to[w->n + i] = piece_to(p, begin + i);
    }
    w->n += n;
}

void writer_point(writer *w, uint32_t point, const piece *p, size_t begin, size_t end)
{
    char bytes[4];
    writer_replace(w, bytes, utf8_encode(point, bytes), p, begin, end);
}

piece writer_piece(const writer *w)
{
    return (piece){ w->s ? w->s : "", w->n, w->maps ? w->from : NULL, w->maps ? w->to : NULL, 0 };
}
