/* unpack_zstd.c - zstd through libzstd.
 *
 * Only functions that libzstd does not promise to keep let a caller supply memory. So libzstd allocates,
 * and we reserve the same amount before: a fixed part, and the window that a frame's header declares.
 *
 *     28 B5 2F FD   descriptor   window   ...       bit 5 of the descriptor: no window byte,
 *                                                   the window is the whole content */
#ifdef WEFT_ZSTD
#include "formats/unpack.h"

#include <assert.h>
#include <zstd.h>
#include <zstd_errors.h>

#define FIXED      ((size_t)512 << 10) /* the tables, and a block of 128 KiB on either side */
#define MAX_WINDOW ((uint64_t)1 << UNPACK_WINDOW_LOG)
#define SINGLE     0x20

typedef struct zstd {
    ZSTD_DStream *stream;
    size_t counted;
} zstd;

/* The window of a frame; 0 if zstd will refuse the frame before it allocates (truncated header, window
 * above MAX_WINDOW) or skip it. */
static size_t window_of(const uint8_t *in, size_t n)
{
    if (n < 6 || in[0] != 0x28)
        return 0;
    const uint64_t base = (uint64_t)1 << (10 + (in[5] >> 3)); /* bounded: five bits */
    const uint64_t wide = base + base / 8 * (in[5] & 7);      /* bounded: below 2^42 */
    const uint64_t window = in[4] & SINGLE ? ZSTD_getFrameContentSize(in, n) : wide;
    return window <= MAX_WINDOW ? (size_t)window : 0;
}

/* Reserves the difference to `all`: zstd reuses its window. */
static weft_status count(zstd *z, const packed *p, size_t all, weft_error *err)
{
    if (all <= z->counted)
        return WEFT_OK;
    const weft_status status = mem_reserve(p->mem, all - z->counted, p->path, err);
    z->counted = status == WEFT_OK ? all : z->counted;
    return status;
}

static weft_status open_stream(zstd *z, weft_error *err)
{
    z->stream = ZSTD_createDStream();
    if (!z->stream ||
        ZSTD_isError(ZSTD_DCtx_setParameter(z->stream, ZSTD_d_windowLogMax, UNPACK_WINDOW_LOG)))
        return weft_fail(err, WEFT_ENOMEM, "zstd: cannot start");
    return WEFT_OK;
}

static weft_status zstd_begin(packed *p, weft_error *err)
{
    zstd *z = p->state;
    if (!z)
        z = p->state = mem_zalloc(p->mem, 1, sizeof *z, "zstd", err);
    if (!z)
        return err->code;
    const size_t all = FIXED + window_of(p->in, p->n_in); /* bounded: MAX_WINDOW */
    weft_status status = count(z, p, all, err);
    if (status == WEFT_OK && !z->stream)
        status = open_stream(z, err);
    return status;
}

static weft_status zstd_step(packed *p, bool *ended, weft_error *err)
{
    const zstd *z = p->state;
    ZSTD_inBuffer in = { p->in, p->n_in, 0 };
    ZSTD_outBuffer out = { p->out, p->room, 0 };
    const size_t rc = ZSTD_decompressStream(z->stream, &out, &in);
    assert(ZSTD_sizeof_DStream(z->stream) <= z->counted);
    p->in += in.pos; /* bounded: inside the input, as below */
    p->n_in -= in.pos;
    p->out += out.pos; /* bounded: inside the room */
    p->room -= out.pos;
    *ended = rc == 0;
    if (!ZSTD_isError(rc))
        return WEFT_OK;
    if (ZSTD_getErrorCode(rc) == ZSTD_error_memory_allocation)
        return weft_fail(err, WEFT_ENOMEM, "%s: no memory for zstd", p->path);
    p->why = ZSTD_getErrorName(rc);
    return WEFT_EFORMAT;
}

static void zstd_end(packed *p)
{
    zstd *z = p->state;
    if (!z)
        return;
    ZSTD_freeDStream(z->stream);
    mem_uncharge(p->mem, z->counted);
    mem_free(p->mem, z);
    p->state = NULL;
}

const unpacker unpack_zstd = { zstd_begin, zstd_step, zstd_end };
#endif
