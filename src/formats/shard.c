/* shard.c - the header of a token-id file: written once at the end, checked before the ids are
 * trusted. */
#include "formats/shard.h"

#include "base/checked.h"
#include "base/checksum.h"

#include <string.h>

/* A count beyond any disk's size is rejected before anything is multiplied. */
#define MAX_IDS ((uint64_t)1 << 48)

typedef struct head {
    char magic[8];
    uint32_t version, width, n_vocab, zero;
    uint64_t n_id, n_document, sum, zeros[2];
} head;

_Static_assert(sizeof(head) == SHARD_HEAD, "the head has no holes");

/* ---- reading --------------------------------------------------------------------------------- */

bool shard_is(const uint8_t *data, uint64_t size)
{
    return size >= 8 && memcmp(data, SHARD_MAGIC, 8) == 0;
}

/* The offset of the documents and the size of the file, computed from its header. */
static bool lay_out(const shard *s, uint64_t *documents, uint64_t *size)
{
    uint64_t ids, table;
    return s->n_id <= MAX_IDS && s->n_document <= MAX_IDS && checked_mul(s->n_id, s->width, &ids) &&
           checked_align(ids, 8, &ids) && checked_add(SHARD_HEAD, ids, documents) &&
           checked_mul(s->n_document, sizeof(document), &table) &&
           checked_add(*documents, table, size);
}

static weft_status read_head(head *h, const uint8_t *data, uint64_t size, const char *path,
                             weft_error *err)
{
    if (!shard_is(data, size))
        return weft_fail(err, WEFT_EFORMAT, "%s: does not begin with \"%s\"", path, SHARD_MAGIC);
    if (size < sizeof *h)
        return weft_fail(err, WEFT_EFORMAT, "%s: ends after %llu of the %zu bytes of its header",
                         path, (unsigned long long)size, sizeof *h);
    memcpy(h, data, sizeof *h);
    if (h->version < 1 || h->version > SHARD_VERSION)
        return weft_fail(err, WEFT_EUNSUPPORTED, "%s: token file version %u, expected 1 to %d",
                         path, h->version, SHARD_VERSION);
    if (h->width != 4 && (h->width != 2 || h->version > 1))
        return weft_fail(err, WEFT_EFORMAT, "%s: ids of %u bytes, expected %s", path, h->width,
                         h->version > 1 ? "4" : "2 or 4");
    if (h->zero || h->zeros[0] || h->zeros[1])
        return weft_fail(err, WEFT_EFORMAT, "%s: reserved header fields are not 0", path);
    return WEFT_OK;
}

/* Checks that documents are contiguous, and that prompts lie inside them. */
static weft_status check_documents(const shard *s, const char *path, weft_error *err)
{
    uint64_t begin = 0;
    for (uint64_t i = 0; i < s->n_document; i++) {
        const document *d = &s->document[i];
        if (d->end <= begin || d->end > s->n_id)
            return weft_fail(err, WEFT_EFORMAT, "%s: document %llu ends at id %llu of %llu", path,
                             (unsigned long long)i, (unsigned long long)d->end,
                             (unsigned long long)s->n_id);
        if (d->n_prompt > d->end - begin)
            return weft_fail(err, WEFT_EFORMAT,
                             "%s: document %llu has %llu ids, but a prompt of %llu", path,
                             (unsigned long long)i, (unsigned long long)(d->end - begin),
                             (unsigned long long)d->n_prompt);
        begin = d->end;
    }
    if (begin != s->n_id)
        return weft_fail(err, WEFT_EFORMAT, "%s: documents end at id %llu of %llu", path,
                         (unsigned long long)begin, (unsigned long long)s->n_id);
    return WEFT_OK;
}

uint64_t shard_find_unknown_id(const shard *s, uint32_t n_vocab)
{
    uint64_t i = 0;
    while (i < s->n_id && shard_id(s, i) < n_vocab)
        i++;
    return i;
}

uint64_t shard_sum(const uint8_t *data, uint64_t size)
{
    xxh64 x;
    head h;
    memcpy(&h, data, sizeof h);
    h.sum = 0;
    xxh64_begin(&x);
    xxh64_add(&x, &h, sizeof h);
    xxh64_add(&x, data + SHARD_HEAD, (size_t)(size - SHARD_HEAD)); /* bounded: by the caller */
    return xxh64_end(&x);
}

weft_status shard_parse(shard *s, const uint8_t *data, uint64_t size, const char *path,
                        weft_error *err)
{
    head h;
    uint64_t documents, whole;
    weft_status status = read_head(&h, data, size, path, err);
    if (status != WEFT_OK)
        return status;
    *s = (shard){ .width = h.width,
                  .marked = h.version > 1,
                  .n_vocab = h.n_vocab,
                  .n_id = h.n_id,
                  .n_document = h.n_document };
    if (!lay_out(s, &documents, &whole) || whole != size)
        return weft_fail(err, WEFT_EFORMAT,
                         "%s: %llu bytes do not match %llu ids of %u bytes and %llu documents",
                         path, (unsigned long long)size, (unsigned long long)h.n_id, h.width,
                         (unsigned long long)h.n_document);
    s->ids = data + SHARD_HEAD;                         /* bounded: by lay_out */
    s->document = (const document *)(data + documents); /* bounded: by lay_out */
    status = check_documents(s, path, err);
    if (status != WEFT_OK)
        return status;
    const uint64_t sum = shard_sum(data, size);
    if (sum != h.sum)
        return weft_fail(err, WEFT_EFORMAT, "%s: the checksum is %016llx, expected %016llx", path,
                         (unsigned long long)sum, (unsigned long long)h.sum);
    const uint64_t unknown = shard_find_unknown_id(s, s->n_vocab);
    if (unknown < s->n_id)
        return weft_fail(err, WEFT_EFORMAT, "%s: id %llu is %u; the vocabulary has %u", path,
                         (unsigned long long)unknown, shard_id(s, unknown), s->n_vocab);
    return WEFT_OK;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Every byte passes through here twice: first for the checksum, then for the file. */
typedef struct sink {
    save *file; /* NULL: checksum only */
    xxh64 sum;
    uint64_t n; /* bytes so far */
} sink;

static void sink_put(sink *to, const void *data, size_t size)
{
    to->n += size; /* bounded: in memory */
    if (to->file)
        save_put(to->file, data, size);
    else if (size > 0)
        xxh64_add(&to->sum, data, size);
}

/* Ids of two bytes, as four. */
static void put_widened(sink *to, const shard *s)
{
    uint32_t wide[1024];
    for (uint64_t i = 0, n; i < s->n_id; i += n) { /* bounded: by n_id */
        n = s->n_id - i < 1024 ? s->n_id - i : 1024;
        for (uint64_t k = 0; k < n; k++)
            wide[k] = shard_id(s, i + k);               /* bounded: in memory */
        sink_put(to, wide, (size_t)(n * sizeof *wide)); /* bounded: by the array */
    }
}

static void put_all(sink *to, const head *top, const shard *const *s, int64_t n)
{
    sink_put(to, top, sizeof *top);
    for (int64_t k = 0; k < n; k++)
        if (s[k]->width < top->width)
            put_widened(to, s[k]);
        else
            sink_put(to, s[k]->ids, (size_t)(s[k]->n_id * s[k]->width)); /* bounded: in memory */
    while (to->n % 8 != 0)
        sink_put(to, "", 1);
    uint64_t first = 0; /* offset of a part's ids in the whole */
    for (int64_t k = 0; k < n; k++) {
        for (uint64_t i = 0; i < s[k]->n_document; i++) {
            document d = s[k]->document[i];
            d.end += first; /* bounded: in memory */
            sink_put(to, &d, sizeof d);
        }
        first += s[k]->n_id; /* bounded: in memory */
    }
}

weft_status shard_save(const shard *const *s, int64_t n, uint32_t n_vocab, const char *path,
                       host *h, weft_error *err)
{
    head top = { .magic = SHARD_MAGIC, .version = 1, .width = 2, .n_vocab = n_vocab };
    for (int64_t k = 0; k < n; k++) {
        top.version = s[k]->marked ? 2 : top.version;
        top.width = s[k]->width > top.width ? s[k]->width : top.width;
        top.n_id += s[k]->n_id;             /* bounded: in memory */
        top.n_document += s[k]->n_document; /* bounded: in memory */
    }
    sink sum = { 0 };
    xxh64_begin(&sum.sum);
    put_all(&sum, &top, s, n);
    top.sum = xxh64_end(&sum.sum);

    save to;
    save_begin(&to, h, err);
    save_file(&to, path);
    put_all(&(sink){ .file = &to }, &top, s, n);
    return save_commit(&to);
}
