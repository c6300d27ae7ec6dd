/* unpack_gzip.c - gzip through zlib, which allocates from our budget. */
#ifdef WEFT_ZLIB
#include "formats/unpack.h"

#include <zlib.h>

#define GZIP_ONLY (16 + MAX_WBITS)  /* bounded: two constants; a gzip header, any window */
#define MAX_CHUNK ((size_t)1 << 30) /* zlib counts in unsigned int */

typedef struct gzip {
    z_stream z;
    mem *mem;
    weft_error *err;
} gzip;

static void *gzip_alloc(void *opaque, uInt n, uInt size)
{
    gzip *g = opaque;
    return mem_alloc(g->mem, (size_t)n * size, "zlib", g->err); /* bounded: zlib's, 32 bits each */
}

static void gzip_free(void *opaque, void *block)
{
    gzip *g = opaque;
    mem_free(g->mem, block);
}

/* zlib reports a failed allocation; mem_alloc has filled err. */
static weft_status no_memory(weft_error *err)
{
    return err->code ? err->code : weft_fail(err, WEFT_ENOMEM, "zlib: cannot start");
}

static void gzip_end(packed *p)
{
    gzip *g = p->state;
    if (!g)
        return;
    inflateEnd(&g->z);
    mem_free(p->mem, g);
    p->state = NULL;
}

static weft_status gzip_begin(packed *p, weft_error *err)
{
    gzip *g = p->state;
    if (g) {
        inflateReset(&g->z); /* cannot fail on a stream that zlib initialised */
        return WEFT_OK;
    }
    g = p->state = mem_zalloc(p->mem, 1, sizeof *g, "zlib", err);
    if (!g)
        return err->code;
    g->mem = p->mem;
    g->err = err;
    g->z.zalloc = gzip_alloc;
    g->z.zfree = gzip_free;
    g->z.opaque = g;
    return inflateInit2(&g->z, GZIP_ONLY) == Z_OK ? WEFT_OK : no_memory(err);
}

static uInt at_most(size_t n)
{
    return (uInt)(n < MAX_CHUNK ? n : MAX_CHUNK);
}

static weft_status gzip_step(packed *p, bool *ended, weft_error *err)
{
    gzip *g = p->state;
    g->err = err;
    g->z.next_in = (Bytef *)p->in;
    g->z.avail_in = at_most(p->n_in);
    g->z.next_out = p->out;
    g->z.avail_out = at_most(p->room);
    const int rc = inflate(&g->z, Z_NO_FLUSH);
    p->n_in -= (size_t)(g->z.next_in - p->in);
    p->room -= (size_t)(g->z.next_out - p->out);
    p->in = g->z.next_in;
    p->out = g->z.next_out;
    *ended = rc == Z_STREAM_END;
    if (*ended || rc == Z_OK || rc == Z_BUF_ERROR)
        return WEFT_OK;
    if (rc == Z_MEM_ERROR)
        return no_memory(err);
    p->why = g->z.msg ? g->z.msg : "not gzip";
    return WEFT_EFORMAT;
}

const unpacker unpack_gzip = { gzip_begin, gzip_step, gzip_end };
#endif
