/* unpack.c - decompresses all members of a file within the limits of unpack.h. */
#include "formats/unpack.h"

#include "base/checked.h"
#include "base/utf8.h"
#include "formats/recognise.h"

#include <string.h>

#define PART ((size_t)64 << 10) /* buffer of the counting pass */

#ifdef WEFT_ZLIB
#define GZIP &unpack_gzip
#else
#define GZIP NULL
#endif
#ifdef WEFT_ZSTD
#define ZSTD &unpack_zstd
#else
#define ZSTD NULL
#endif

static bool is_gzip(const uint8_t *data, size_t size)
{
    return size >= 2 && data[0] == 0x1F && data[1] == 0x8B;
}

/* A frame, or a skippable frame, with which pzstd files begin. */
static bool is_zstd(const uint8_t *data, size_t size)
{
    return size >= 4 && (memcmp(data, "\x28\xB5\x2F\xFD", 4) == 0 ||
                         (data[0] >> 4 == 5 && memcmp(&data[1], "\x2A\x4D\x18", 3) == 0));
}

typedef struct kind {
    const char *name, *library, *program;
    bool (*is)(const uint8_t *data, size_t size);
    const unpacker *by; /* NULL: not in this build */
} kind;

static const kind kinds[] = {
    { "gzip", "zlib", "gunzip", is_gzip, GZIP },
    { "zstd", "libzstd", "unzstd", is_zstd, ZSTD },
};

static const kind *unpack_kind_of(const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].is(data, size))
            return &kinds[i];
    return NULL;
}

bool is_packed(const uint8_t *data, size_t size)
{
    return unpack_kind_of(data, size) != NULL;
}

/* ---- limits ---------------------------------------------------------------------------------- */

/* The destination of the output. */
typedef struct sink {
    uint8_t *to; /* NULL: only counts; each part overwrites the previous one */
    uint64_t room;
    uint64_t made;
    uint64_t enough; /* stop after this many bytes */
    uint8_t *part;   /* [n_part]; with `to`, takes output that exceeds `room` */
    size_t n_part;
    const char *expected; /* checks the first part for archives; or NULL */
} sink;

static void unpack_offer(const sink *s, packed *p)
{
    const bool fits = s->to && s->made < s->room;
    p->out = fits ? &s->to[s->made] : s->part;
    p->room = fits ? (size_t)(s->room - s->made) : s->n_part;
}

static weft_status check_amount(const sink *s, const packed *p, const kind *k, size_t size,
                                weft_error *err)
{
    uint64_t most;
    if (s->to && s->made > s->room)
        return weft_fail(err, WEFT_EINVAL,
                         "%s: decompresses to more than the %llu bytes that there is room for",
                         p->path, (unsigned long long)s->room);
    if (!s->to && s->made > mem_room(p->mem))
        return weft_fail(err, WEFT_ELIMIT,
                         "%s: %s data that decompresses to more than the %zu bytes left under the "
                         "memory cap; expected less; raise the cap, or split the file",
                         p->path, k->name, mem_room(p->mem));
    if (s->made > UNPACK_FREE && checked_mul(size, UNPACK_RATIO, &most) && s->made > most)
        return weft_fail(err, WEFT_EFORMAT,
                         "%s: %s data that decompresses to more than %d times its size; expected "
                         "text, which compresses less; if it is text, decompress it first (%s)",
                         p->path, k->name, UNPACK_RATIO, k->program);
    return WEFT_OK;
}

/* ---- the stream ------------------------------------------------------------------------------ */

static weft_status begin_member(packed *p, const kind *k, weft_error *err)
{
    if (!k->is(p->in, p->n_in))
        return weft_fail(err, WEFT_EFORMAT,
                         "%s: %zu bytes after the end of its %s data; expected nothing, or more %s "
                         "data; download or copy the file again",
                         p->path, p->n_in, k->name, k->name);
    return k->by->begin(p, err);
}

/* One call of the decoder; *ended: the member is complete. */
static weft_status unpack_step(packed *p, const kind *k, sink *s, size_t size, bool *ended,
                               weft_error *err)
{
    unpack_offer(s, p);
    const size_t before = p->n_in, room = p->room;
    const uint8_t *from = p->out;
    weft_status status = k->by->step(p, ended, err);
    if (p->why)
        return weft_fail(err, WEFT_EFORMAT,
                         "%s: damaged %s data (%s); expected an intact file; download or copy it "
                         "again",
                         p->path, k->name, p->why);
    if (status == WEFT_OK && !*ended && p->n_in == before && p->room == room)
        return weft_fail(
            err, WEFT_EFORMAT,
            "%s: truncated %s data; expected the whole file; download or copy it again", p->path,
            k->name);
    if (status == WEFT_OK && s->expected && s->made == 0)
        status = recognise_known(p->path, from, room - p->room, s->expected, err);
    s->made += room - p->room; /* bounded: what lies in memory, or is counted in 64 bits */
    return status == WEFT_OK ? check_amount(s, p, k, size, err) : status;
}

static weft_status unpack_all(packed *p, const kind *k, sink *s, weft_error *err)
{
    const size_t size = p->n_in;
    weft_status status = WEFT_OK;
    bool ended = true;
    while (status == WEFT_OK && (p->n_in > 0 || !ended) && s->made < s->enough) {
        if (ended)
            status = begin_member(p, k, err);
        if (status == WEFT_OK)
            status = unpack_step(p, k, s, size, &ended, err);
    }
    k->by->end(p);
    return status;
}

static weft_status find_kind(const char *path, const uint8_t *data, size_t size, const kind **k,
                             weft_error *err)
{
    *k = unpack_kind_of(data, size);
    if (!*k)
        return weft_fail(err, WEFT_EFORMAT, "%s: starts like neither gzip nor zstd", path);
    if (!(*k)->by)
        return weft_fail(
            err, WEFT_EUNSUPPORTED,
            "%s: %s data, but this weft was built without %s; expected an uncompressed "
            "file; decompress it first (%s)",
            path, (*k)->name, (*k)->library, (*k)->program);
    return WEFT_OK;
}

/* ---- in memory -------------------------------------------------------------------------------- */

weft_status unpack_count(const char *path, const uint8_t *data, size_t size, const char *expected,
                         mem *m, uint64_t *n, weft_error *err)
{
    const kind *k;
    packed p = { .path = path, .mem = m, .in = data, .n_in = size };
    sink s = { .enough = UINT64_MAX, .n_part = PART, .expected = expected };
    weft_status status = find_kind(path, data, size, &k, err);
    if (status != WEFT_OK)
        return status;
    s.part = mem_alloc(m, PART, path, err);
    if (!s.part)
        return err->code;
    status = unpack_all(&p, k, &s, err);
    mem_free(m, s.part);
    *n = s.made;
    return status;
}

weft_status unpack_into(const char *path, const uint8_t *data, size_t size, uint8_t *to,
                        uint64_t *n, mem *m, weft_error *err)
{
    uint8_t over;
    const kind *k;
    packed p = { .path = path, .mem = m, .in = data, .n_in = size };
    sink s = { .to = to, .room = *n, .enough = UINT64_MAX, .part = &over, .n_part = 1 };
    weft_status status = find_kind(path, data, size, &k, err);
    if (status == WEFT_OK)
        status = unpack_all(&p, k, &s, err);
    *n = s.made;
    return status;
}

size_t unpack_head(const uint8_t *data, size_t size, uint8_t *to, size_t room, mem *m)
{
    uint8_t over;
    weft_error none = { 0 };
    const kind *k = unpack_kind_of(data, size);
    packed p = { .path = "", .mem = m, .in = data, .n_in = size };
    sink s = { .to = to, .room = room, .enough = room, .part = &over, .n_part = 1 };
    if (!k) {
        s.made = size < room ? size : room;
        memcpy(to, data, s.made);
    } else if (!k->by || unpack_all(&p, k, &s, &none) != WEFT_OK) {
        return 0;
    }
    return (size_t)s.made;
}

/* ---- files ----------------------------------------------------------------------------------- */

static weft_status unpack_file(file *f, const char *expected, host *h, weft_error *err)
{
    uint64_t n, again;
    weft_status status = unpack_count(f->path, f->data, f->size, expected, &h->mem, &n, err);
    if (status != WEFT_OK)
        return status;
    if (n == 0)
        return weft_fail(err, WEFT_EFORMAT, "%s: the decompressed file is empty; expected data",
                         f->path);
    if (n > SIZE_MAX)
        return weft_fail(err, WEFT_ENOMEM, "%s: too large for this address space", f->path);
    uint8_t *data = mem_alloc(&h->mem, (size_t)n, f->path, err);
    if (!data)
        return err->code;
    again = n;
    status = unpack_into(f->path, f->data, f->size, data, &again, &h->mem, err);
    if (status == WEFT_OK && again < n) /* another process is writing to the mapped file */
        status = weft_fail(err, WEFT_EIO, "%s: changed while it was being decompressed", f->path);
    if (status != WEFT_OK) {
        mem_free(&h->mem, data);
        return status;
    }
    file was = *f;
    was.path = NULL;
    *f = (file){ data, (size_t)n, f->path, false, was.size };
    file_close(&was, h);
    return WEFT_OK;
}

weft_status file_open_unpacked(file *f, const char *path, const char *expected, weft_load load,
                               host *h, weft_error *err)
{
    weft_status status = file_open(f, path, load, h, err);
    if (status != WEFT_OK || !is_packed(f->data, f->size))
        return status;
    status = unpack_file(f, expected, h, err);
    if (status != WEFT_OK)
        file_close(f, h);
    return status;
}

size_t unpacked_name(const char *path)
{
    static const char *const ends[] = { ".gz", ".zst", ".zstd" };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (text_ends_with(path, ends[i]))
            return strlen(path) - strlen(ends[i]);
    return strlen(path);
}
