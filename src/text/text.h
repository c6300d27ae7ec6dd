/* text.h - a stretch of text that knows where it came from, and a writer for new text with its
 * origin. */
#ifndef WEFT_TEXT_TEXT_H
#define WEFT_TEXT_TEXT_H

#include "base/utf8.h"
#include "text/scratch.h"

/* Bytes [s, s + n). If from is NULL they are the input's bytes from `shift` on; otherwise byte i
 * stands for the input's bytes [from[i], to[i]). If from is NULL and maps are off, no caller needs
 * origins: shift is then meaningless. */
typedef struct piece {
    const char *s;
    size_t n;
    const uint32_t *from, *to;
    uint32_t shift;
} piece;

static inline uint32_t piece_from(const piece *p, size_t i)
{
    return p->from ? p->from[i] : p->shift + (uint32_t)i;
}

/* The end of the input bytes that byte i stands for. */
static inline uint32_t piece_to(const piece *p, size_t i)
{
    return p->from ? p->to[i] : p->shift + (uint32_t)i + 1;
}

static inline piece piece_cut(const piece *p, size_t begin, size_t end)
{
    return (piece){ p->s + begin, end - begin, p->from ? p->from + begin : NULL,
                    p->from ? p->to + begin : NULL, p->shift + (uint32_t)begin };
}

/* The code point at a byte of valid text, and its length. */
static inline size_t piece_point(const piece *p, size_t at, uint32_t *point)
{
    *point = (uint8_t)p->s[at];
    if (*point < 0x80)
        return 1;
    const size_t n = utf8_decode(p->s + at, p->n - at, point);
    return n + !n; /* a bug must not become an endless loop */
}

/* ---- how much a step may write --------------------------------------------------------------- */

/* All pieces that a step makes of one text have at most TIMES bytes for each byte of the text, plus
 * MORE. Nothing in Unicode reaches this: NFKC turns the 3 bytes of U+FDFA into 33, and bytes as
 * letters take twice the bytes. */
#define GROWTH_TIMES 32
#define GROWTH_MORE  16384

/* A decoder runs on one token at a time. For a whole vocabulary the extra is GROWTH_MORE. */
#define GROWTH_TOKEN_TIMES 8
#define GROWTH_TOKEN_MORE  256

#define MAX_STEP 32 /* normalizers, pre-tokenizers or decoders of a file */

/* Bytes that each step may still write. */
typedef struct growth {
    size_t left[MAX_STEP];
} growth;

static inline void growth_begin(growth *g, int steps, size_t n, size_t times, size_t more)
{
    for (int i = 0; i < steps; i++)
        g->left[i] = n > (SIZE_MAX - more) / times ? SIZE_MAX : n * times + more;
}

#define WRITER_FREE SIZE_MAX /* limited by memory only */

typedef struct writer {
    scratch s_room, from_room, to_room;
    char *s;
    uint32_t *from, *to;
    size_t n, room; /* room: at most `most` */
    size_t held;    /* bytes allocated for all buffers */
    size_t most;    /* writing more is an error */
    bool maps;      /* origins are wanted */
    mem *mem;
    weft_error *err;
    bool failed; /* err is filled; further writes are dropped */
} writer;

void writer_begin(writer *w, bool maps, size_t most, mem *m, weft_error *err);
void writer_grow(writer *w, size_t n);
void writer_free(writer *w, mem *m);

/* Appends n bytes that stand for the input's [from, to). */
static inline void writer_put(writer *w, const char *s, size_t n, uint32_t from, uint32_t to)
{
    if (w->room - w->n < n)
        writer_grow(w, n);
    if (w->failed)
        return;
    for (size_t i = 0; i < n; i++)
        w->s[w->n + i] = s[i];
    for (size_t i = 0; w->maps && i < n; i++) {
        w->from[w->n + i] = from;
        w->to[w->n + i] = to;
    }
    w->n += n;
}

/* Appends bytes [begin, end) of p unchanged. */
void writer_copy(writer *w, const piece *p, size_t begin, size_t end);

/* Appends n bytes in place of p's [begin, end), which is not empty. */
static inline void writer_replace(writer *w, const char *s, size_t n, const piece *p, size_t begin,
                                  size_t end)
{
    writer_put(w, s, n, w->maps ? piece_from(p, begin) : 0, w->maps ? piece_to(p, end - 1) : 0);
}

void writer_point(writer *w, uint32_t point, const piece *p, size_t begin, size_t end);

/* The text written so far; valid until the writer begins again. */
piece writer_piece(const writer *w);

#endif
