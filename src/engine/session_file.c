/* session_file.c - sessions on disk. All numbers are little-endian.
 *
 *     +----------------------------------------------------------------------+
 *     | "WEFTSESS"   version 1 or 2   has logits: 0 or 1             8 4 4   |
 *     | model   n tokens   V tokens of the vocabulary   B bytes a    8 8 8 8 |
 *     |   position has in all streams                                        |
 *     | format of keys and values, kernels that made them: names      16 16  |
 *     +----------------------------------------------------------------------+
 *     | version 2: fingerprint of the adapter, its strength         8 8      |
 *     +----------------------------------------------------------------------+
 *     | tokens                                                         4 n   |
 *     | logits after the last one, if any                              4 V   |
 *     | pages: of each stream the rows in use                          B n   |
 *     +----------------------------------------------------------------------+
 *     | checksum of everything above (XXH64)                          8    |
 *     +----------------------------------------------------------------------+
 *
 * `model` is a hash of the configuration and of every weight's name, type, shape and bytes: weights
 * that differ anywhere, even only in format, make another model. An engine computes it once. A
 * session without an adapter, or with one at strength 0, is written as version 1. */
#include "engine/session.h"

#include "base/checked.h"
#include "base/checksum.h"
#include "base/save.h"

#include <string.h>

#define VERSION         1
#define VERSION_ADAPTED 2

static const char magic[8] = { 'W', 'E', 'F', 'T', 'S', 'E', 'S', 'S' };

typedef struct header {
    char magic[8];
    uint32_t version, has_logits;
    uint64_t model, n_token, n_vocab, row_bytes;
    char cache[16], kernels[16];
} header;

typedef struct adapted_header {
    uint64_t adapter;
    double strength;
} adapted_header;

_Static_assert(sizeof(header) == 80 && sizeof(adapted_header) == 16,
               "written as they lie in memory");

/* ---- which model ----------------------------------------------------------------------------- */

static void hash_text(xxh64 *s, const char *text)
{
    xxh64_add(s, text, strlen(text) + 1); /* bounded: a string */
}

/* General metadata and the vocabulary do not change logits. */
static bool is_configuration(const meta *m)
{
    return strncmp(m->key, "general.", 8) != 0 && strncmp(m->key, "tokenizer.", 10) != 0;
}

static void add_configuration(xxh64 *s, const model *m)
{
    hash_text(s, m->arch->family->name);
    for (int64_t i = 0; i < m->file.n_entry; i++) {
        const meta *e = &m->file.entry[i];
        if (!is_configuration(e))
            continue;
        hash_text(s, e->key);
        xxh64_add(s, &e->flag, sizeof e->flag);
        xxh64_add(s, &e->number, sizeof e->number);
        if (e->type == META_TEXT)
            xxh64_add(s, e->text, e->length);
    }
}

typedef struct weights {
    const model *model;
    uint64_t *sum; /* of each */
} weights;

static void sum_weight(void *arg, int64_t i)
{
    const weights *w = arg;
    const tensor *t = w->model->param[i];
    size_t bytes = dtype_row_bytes(t->type, cols(t));
    for (int d = 0; d < t->n_dim - 1; d++)
        bytes *= (size_t)t->shape[d]; /* bounded: it lies in memory */
    xxh64 s;
    xxh64_begin(&s);
    hash_text(&s, t->name);
    hash_text(&s, t->type->name);
    xxh64_add(&s, t->shape, (size_t)t->n_dim * sizeof *t->shape); /* bounded: MAX_DIM */
    xxh64_add(&s, t->data, bytes);
    w->sum[i] = xxh64_end(&s);
}

/* Are keys rotated by a long table's second list of frequencies? Those of the first are of no use to
 * them. */
static bool is_far(const engine *e)
{
    const rope_spec *s = &e->model->rope;
    return s->far_divisor && e->opt.n_ctx > (int64_t)s->old_ctx;
}

/* The fingerprint of an engine's model, cached in the engine. */
static weft_status fingerprint(engine *e, uint64_t *print, weft_error *err)
{
    const model *m = e->model;
    if (e->fingerprint == 0) {
        weights w = { m,
                      mem_zalloc(&m->host->mem, (size_t)m->n_param, sizeof *w.sum, "sums", err) };
        if (!w.sum)
            return WEFT_ENOMEM;
        const weft_status status = pool_ready(e->pool, err);
        if (status == WEFT_OK) {
            xxh64 s;
            pool_run(e->pool, m->n_param, sum_weight, &w);
            xxh64_begin(&s);
            add_configuration(&s, m);
            if (is_far(e))
                xxh64_add(&s, "far", 3);
            if (m->bf16)
                xxh64_add(&s, "bf16", 4);
            xxh64_add(&s, w.sum, (size_t)m->n_param * sizeof *w.sum); /* bounded: allocated so */
            e->fingerprint = xxh64_end(&s) | 1;
        }
        mem_free(&m->host->mem, w.sum);
        if (status != WEFT_OK)
            return status;
    }
    *print = e->fingerprint;
    return WEFT_OK;
}

/* ---- both ways ------------------------------------------------------------------------------- */

/* What changes the rows: all 0 for no adapter, and for one at strength 0. */
static adapted_header describe_adapter(adaption a)
{
    const bool any = a.set && a.strength != 0;
    return (adapted_header){ any ? a.set->fingerprint : 0, any ? (double)a.strength : 0 };
}

/* The header for a session of n tokens. */
static weft_status session_describe(engine *e, uint64_t n, bool has_logits, header *h,
                                    weft_error *err)
{
    *h = (header){ .version = VERSION,
                   .has_logits = has_logits,
                   .n_token = n,
                   .n_vocab = (uint64_t)e->model->n_vocab };
    memcpy(h->magic, magic, sizeof magic);
    strncpy(h->cache, e->opt.kv->name, sizeof h->cache - 1);
    strncpy(h->kernels, e->model->kern->name, sizeof h->kernels - 1);
    const cache_layout *l = &e->pages.layout;
    for (int i = 0; i < l->n_layer * l->n_stream; i++) /* bounded: the layout is in memory */
        h->row_bytes += l->stream[i].row_bytes;        /* bounded: by a page */
    return fingerprint(e, &h->model, err);
}

/* The rows in use of one stream in one page. */
static char *rows_of(const cache *c, int64_t page, int stream_of, size_t *bytes)
{
    const stream *s = &c->layout->stream[stream_of];
    const int64_t rest = c->length - page * PAGE_ROWS; /* bounded: inside the session */
    *bytes = (size_t)(rest < PAGE_ROWS ? rest : PAGE_ROWS) * s->row_bytes; /* bounded: by a page */
    return c->page[page] + s->offset; /* bounded: inside the page */
}

static int n_stream(const cache *c)
{
    return c->layout->n_layer * c->layout->n_stream; /* bounded: the layout is in memory */
}

/* ---- to disk --------------------------------------------------------------------------------- */

typedef struct writer {
    save save;
    xxh64 sum;
} writer;

static void session_put(writer *w, const void *bytes, size_t n)
{
    xxh64_add(&w->sum, bytes, n);
    save_put(&w->save, bytes, n);
}

weft_status session_save(const session *s, const char *path, weft_error *err)
{
    const cache *c = &s->cache;
    writer w;
    header h;
    const adapted_header with = describe_adapter(s->adapted);
    if (model_has_source(s->engine->model))
        return weft_fail(err, WEFT_EUNSUPPORTED, "a session with a source cannot be saved");
    const weft_status status = session_describe(s->engine, (uint64_t)c->length, s->has_logits, &h,
                                                err);
    if (status != WEFT_OK)
        return status;
    if (with.strength != 0 && with.adapter == 0)
        return weft_fail(err, WEFT_EUNSUPPORTED,
                         "a session cannot be saved with an adapter that is being trained");
    if (with.strength != 0)
        h.version = VERSION_ADAPTED;
    xxh64_begin(&w.sum);
    save_begin(&w.save, s->engine->model->host, err);
    save_file(&w.save, path);
    session_put(&w, &h, sizeof h);
    if (with.strength != 0)
        session_put(&w, &with, sizeof with);
    session_put(&w, s->ids, (size_t)c->length * sizeof *s->ids); /* bounded: in memory */
    if (s->has_logits)
        session_put(&w, s->logits, (size_t)h.n_vocab * sizeof *s->logits); /* bounded: in memory */
    for (int64_t p = 0; p < c->n_page; p++)
        for (int i = 0; i < n_stream(c); i++) {
            size_t bytes;
            const char *rows_at = rows_of(c, p, i, &bytes);
            session_put(&w, rows_at, bytes);
        }
    const uint64_t end = xxh64_end(&w.sum);
    save_put(&w.save, &end, sizeof end);
    return save_commit(&w.save);
}

/* ---- and back -------------------------------------------------------------------------------- */

typedef struct source {
    reader reader;
    xxh64 sum;
    weft_error *err;
} source;

static weft_status session_get(source *s, void *to, size_t n)
{
    const weft_status status = reader_get(&s->reader, to, n, s->err);
    if (status == WEFT_OK)
        xxh64_add(&s->sum, to, n);
    return status;
}

/* Bytes after the header; false if they overflow 64 bits. */
static bool body_bytes(const header *h, uint64_t *bytes)
{
    uint64_t ids, rows_all, logits = 0;
    return checked_mul(h->n_token, sizeof(int32_t), &ids) &&
           checked_mul(h->n_token, h->row_bytes, &rows_all) &&
           (!h->has_logits || checked_mul(h->n_vocab, sizeof(float), &logits)) &&
           checked_add(ids, rows_all, bytes) && checked_add(*bytes, logits, bytes) &&
           checked_add(*bytes, sizeof(uint64_t), bytes);
}

/* Sums have one order in every table but the scalar one. */
static bool is_scalar(const header *h)
{
    return strncmp(h->kernels, "scalar", sizeof h->kernels) == 0;
}

/* Compares the header found, h, with the one this engine would write, own. */
static weft_status check_header(const source *s, const engine *e, const header *h,
                                const header *own)
{
    const char *path = s->reader.path;
    if (memcmp(h->cache, own->cache, sizeof h->cache) != 0)
        return weft_fail(s->err, WEFT_EINVAL, "%s: its KV cache is %.15s, that of this engine %s",
                         path, h->cache, own->cache);
    if (h->model != own->model)
        return weft_fail(
            s->err, WEFT_EINVAL, "%s: saved from another model (%016llx) than %s (%016llx)", path,
            (unsigned long long)h->model, e->model->file.path, (unsigned long long)own->model);
    if (h->n_vocab != own->n_vocab || h->row_bytes != own->row_bytes ||
        h->has_logits > (h->n_token > 0))
        return weft_fail(s->err, WEFT_EFORMAT, "%s: the header contradicts itself", path);
    if (h->n_token > (uint64_t)e->opt.n_ctx)
        return weft_fail(s->err, WEFT_ECONTEXT,
                         "%s: has %llu tokens; the context of this engine is %lld", path,
                         (unsigned long long)h->n_token, (long long)e->opt.n_ctx);
    uint64_t want;
    if (!body_bytes(h, &want) || want != s->reader.left)
        return weft_fail(s->err, WEFT_EFORMAT,
                         "%s: %llu bytes after the header do not match %llu tokens", path,
                         (unsigned long long)s->reader.left, (unsigned long long)h->n_token);
    if (is_scalar(h) != is_scalar(own))
        log_write(
            &e->model->host->log, WEFT_LOG_WARN,
            "%s: computed by %.15s kernels; continuing with %s kernels may change the last bits",
            path, h->kernels, own->kernels);
    return WEFT_OK;
}

/* Compares the adapter that the file was saved with and the one that was given. */
static weft_status check_adapter_of(const source *s, const adapted_header *found,
                                    const adapted_header *given)
{
    const char *path = s->reader.path;
    if (found->strength == 0 && given->strength == 0)
        return WEFT_OK;
    if (found->strength == 0 || given->strength == 0)
        return weft_fail(s->err, WEFT_EINVAL, "%s: saved with%s an adapter; restore it with%s",
                         path, found->strength == 0 ? "out" : "",
                         found->strength == 0 ? "out one" : " the same");
    if (found->adapter != given->adapter)
        return weft_fail(s->err, WEFT_EINVAL,
                         "%s: saved with another adapter (%016llx) than the one given (%016llx)",
                         path, (unsigned long long)found->adapter,
                         (unsigned long long)given->adapter);
    if (found->strength != given->strength)
        return weft_fail(s->err, WEFT_EINVAL,
                         "%s: saved with its adapter at strength %g; found strength %g", path,
                         found->strength, given->strength);
    return WEFT_OK;
}

static weft_status too_short(const source *s, uint64_t size)
{
    return weft_fail(s->err, WEFT_EFORMAT, "%s: %llu bytes; too short for a saved session",
                     s->reader.path, (unsigned long long)size);
}

static weft_status read_session_header(source *s, engine *e, header *h, adapted_header *with)
{
    const char *path = s->reader.path;
    const uint64_t size = s->reader.left;
    header own;
    if (size < sizeof *h)
        return too_short(s, size);
    weft_status status = session_get(s, h, sizeof *h);
    if (status != WEFT_OK)
        return status;
    if (memcmp(h->magic, magic, sizeof magic) != 0)
        return weft_fail(s->err, WEFT_EFORMAT, "%s: not a saved session", path);
    if (h->version != VERSION && h->version != VERSION_ADAPTED)
        return weft_fail(s->err, WEFT_EUNSUPPORTED,
                         "%s: session format version %u; expected version %d or %d", path,
                         (unsigned)h->version, VERSION, VERSION_ADAPTED);
    if (h->version == VERSION_ADAPTED && s->reader.left < sizeof *with)
        return too_short(s, size);
    if (h->version == VERSION_ADAPTED)
        status = session_get(s, with, sizeof *with);
    if (status == WEFT_OK)
        status = session_describe(e, h->n_token, h->has_logits, &own, s->err);
    return status == WEFT_OK ? check_header(s, e, h, &own) : status;
}

static weft_status check_numbers(const source *s, const session *t, const header *h)
{
    for (uint64_t i = 0; i < h->n_token; i++)
        if (t->ids[i] < 0 || (uint64_t)t->ids[i] >= h->n_vocab)
            return weft_fail(s->err, WEFT_EFORMAT, "%s: token %llu is %d, the vocabulary has %llu",
                             s->reader.path, (unsigned long long)i, (int)t->ids[i],
                             (unsigned long long)h->n_vocab);
    for (uint64_t i = 0; h->has_logits && i < h->n_vocab; i++)
        if (!isfinite(t->logits[i]))
            return weft_fail(s->err, WEFT_EFORMAT, "%s: non-finite logits", s->reader.path);
    return WEFT_OK;
}

static weft_status read_pages(source *s, session *t, int64_t n)
{
    cache *c = &t->cache;
    pages *pool_of = &t->engine->pages;
    if (pages_for(n) > pages_available(pool_of))
        return weft_fail(s->err, WEFT_ECONTEXT,
                         "%s: %lld cache pages are needed, but %lld of %lld are free",
                         s->reader.path, (long long)pages_for(n),
                         (long long)pages_available(pool_of), (long long)pool_of->n_page);
    c->length = n;
    while (c->n_page < pages_for(n))
        c->page[c->n_page++] = pages_take(pool_of);
    weft_status status = WEFT_OK;
    for (int64_t p = 0; p < c->n_page; p++)
        for (int i = 0; i < n_stream(c) && status == WEFT_OK; i++) {
            size_t bytes;
            char *rows_at = rows_of(c, p, i, &bytes);
            status = session_get(s, rows_at, bytes);
        }
    return status;
}

static weft_status read_body(source *s, session *t, const header *h)
{
    weft_status status = session_get(s, t->ids,
                                     (size_t)h->n_token * sizeof *t->ids); /* bounded: n_ctx */
    if (status == WEFT_OK && h->has_logits)
        status = session_get(s, t->logits, (size_t)h->n_vocab * sizeof *t->logits); /* bounded: V */
    if (status == WEFT_OK)
        status = check_numbers(s, t, h);
    if (status == WEFT_OK)
        status = read_pages(s, t, (int64_t)h->n_token);
    uint64_t end;
    if (status == WEFT_OK)
        status = reader_get(&s->reader, &end, sizeof end, s->err);
    if (status == WEFT_OK && end != xxh64_end(&s->sum))
        status = weft_fail(s->err, WEFT_EFORMAT, "%s: damaged: checksum mismatch", s->reader.path);
    t->has_logits = h->has_logits;
    return status;
}

session *session_restore(engine *e, const char *path, adaption a, weft_error *err)
{
    source s = { .err = err };
    header h;
    adapted_header found = { 0 };
    const adapted_header given = describe_adapter(a);
    if (reader_open(&s.reader, path, e->model->host, err) != WEFT_OK)
        return NULL;
    xxh64_begin(&s.sum);
    session *t = NULL;
    if (read_session_header(&s, e, &h, &found) == WEFT_OK &&
        check_adapter_of(&s, &found, &given) == WEFT_OK)
        t = session_new(e, err);
    if (t &&
        (session_adapt(t, a.set, a.strength, err) != WEFT_OK || read_body(&s, t, &h) != WEFT_OK)) {
        session_free(t);
        t = NULL;
    }
    reader_close(&s.reader);
    return t;
}
