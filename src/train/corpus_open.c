/* corpus_open.c - opens the files of a corpus: chooses their kind by name or option, maps ids or
 * encodes text. */
#include "train/corpus_open.h"

#include "formats/recognise.h"
#include "formats/unpack.h"
#include "train/documents.h"

/* ---- files of ids ---------------------------------------------------------------------------- */

static weft_status add_ids(corpus *c, file *f, weft_error *err)
{
    source s = { .file = *f };
    *f = (file){ 0 };
    const char *path = s.file.path;
    weft_status status = shard_parse(&s.shard, s.file.data, s.file.size, path, err);
    if (status == WEFT_OK && s.shard.n_vocab > c->n_vocab)
        status = weft_fail(err, WEFT_EINVAL,
                           "%s: token ids for a vocabulary of %u, expected at most %u", path,
                           s.shard.n_vocab, c->n_vocab);
    for (uint64_t i = 0; status == WEFT_OK && i < s.shard.n_document; i++)
        c->n_prompt += s.shard.document[i].n_prompt > 0;
    if (status == WEFT_OK && s.shard.n_id > 0)
        return corpus_add(c, &s, err);
    source_free(&s, c->host);
    return status;
}

/* Two-byte ids are one document: the file does not say where one ends. */
static weft_status add_raw16(corpus *c, file *f, weft_error *err)
{
    source s = { .file = *f, .shard = { .ids = f->data, .width = 2, .n_vocab = c->n_vocab } };
    *f = (file){ 0 };
    s.shard.n_id = s.file.size / 2;
    const uint64_t unknown = shard_find_unknown_id(&s.shard, c->n_vocab);
    weft_status status = WEFT_OK;
    if (s.file.size % 2 != 0)
        status = weft_fail(err, WEFT_EFORMAT,
                           "%s: %zu bytes; expected an even number, as ids have two bytes",
                           s.file.path, s.file.size);
    else if (unknown < s.shard.n_id)
        status = weft_fail(err, WEFT_EFORMAT, "%s: id %llu is %u; the vocabulary has %u",
                           s.file.path, (unsigned long long)unknown, shard_id(&s.shard, unknown),
                           c->n_vocab);
    s.document = status == WEFT_OK
                     ? mem_zalloc(&c->host->mem, 1, sizeof *s.document, "documents", err)
                     : NULL;
    if (!s.document) {
        source_free(&s, c->host);
        return err->code;
    }
    s.document[0] = (document){ s.shard.n_id, 0 };
    s.shard.document = s.document;
    s.shard.n_document = 1;
    return corpus_add(c, &s, err);
}

/* ---- all files ------------------------------------------------------------------------------- */

static data_kind corpus_kind_of(const file *f, const corpus_options *o)
{
    if (o->kind != DATA_BY_NAME)
        return o->kind;
    if (shard_is(f->data, f->size))
        return DATA_IDS;
    const data_kind kind = kind_by_name(f->path);
    return kind == DATA_CSV && !o->labels ? DATA_TEXT : kind;
}

/* Adds the documents of a text file, according to its kind. */
static weft_status add_corpus_texts(documents *d, const file *f, data_kind kind, weft_error *err)
{
    if (d->o->labels)
        return documents_labelled(d, f, kind, err);
    if (kind == DATA_CSV)
        return weft_fail(err, WEFT_EINVAL, "%s: tables are for classifiers", f->path);
    return kind == DATA_JSONL ? documents_jsonl(d, f, err)
           : kind == DATA_TSV ? documents_tsv(d, f, err)
                              : documents_text(d, f, err);
}

/* Raw ids are never decompressed: the first may be 35615, which looks like gzip. */
static weft_status open_corpus_file(file *f, const char *path, const corpus_options *o, host *h,
                                    weft_error *err)
{
    return o->kind == DATA_RAW16 ? file_open(f, path, o->load, h, err)
                                 : file_open_unpacked(f, path, "text", o->load, h, err);
}

/* Reads one file; creates d at the first text. */
static weft_status add_corpus_file(corpus *c, documents *d, const char *path,
                                   const corpus_options *o, uint64_t *total, weft_error *err)
{
    file f;
    weft_status status = open_corpus_file(&f, path, o, c->host, err);
    if (status != WEFT_OK)
        return status;
    const uint64_t size = f.size;
    *total = d->total = *total + (f.packed ? size - f.packed : 0);
    const data_kind kind = corpus_kind_of(&f, o);
    if ((kind == DATA_IDS || kind == DATA_RAW16) && o->labels) {
        status = weft_fail(err, WEFT_EINVAL, "%s: token ids, which have no labels", path);
    } else if (kind == DATA_IDS || kind == DATA_RAW16) {
        status = kind == DATA_IDS ? add_ids(c, &f, err) : add_raw16(c, &f, err);
        d->done += size;
    } else if (recognise_known(path, f.data, f.size, "text", err) != WEFT_OK) {
        status = err->code;
    } else if (!o->tokenizer) {
        status = weft_fail(err, WEFT_EINVAL, "%s: text needs a tokenizer", path);
    } else {
        const uint64_t done = d->done;
        if (!d->pool)
            status = documents_begin(d, c, o, *total, err);
        d->done = done;
        if (status == WEFT_OK)
            status = add_corpus_texts(d, &f, kind, err);
    }
    file_close(&f, c->host);
    return status;
}

/* Total bytes of the files, for progress; add_file corrects it for compressed files. */
static uint64_t measure_corpus(const char *const *path, int n_path, host *h)
{
    uint64_t total = 0, size;
    for (int i = 0; i < n_path; i++) {
        const int fd = h->io.open(h->io.ud, path[i]);
        if (fd >= 0 && h->io.size(h->io.ud, fd, &size) == 0)
            total += size;
        if (fd >= 0)
            h->io.close(h->io.ud, fd);
    }
    return total;
}

weft_status corpus_open(corpus *c, const char *const *path, int n_path, const corpus_options *o,
                        host *h, weft_error *err)
{
    const uint32_t n_vocab = o->n_vocab ? o->n_vocab : o->tokenizer ? o->tokenizer->n_id : 0;
    *c = (corpus){ .host = h, .n_vocab = n_vocab, .eos = o->eos };
    documents d = { .mem = &h->mem };
    if (n_vocab == 0)
        return weft_fail(err, WEFT_EINVAL,
                         "token ids need a tokenizer, or the size of the vocabulary");
    const uint64_t apart = o->progress && o->apart ? measure_corpus(&o->apart, 1, h) : 0;
    uint64_t total = o->progress ? measure_corpus(path, n_path, h) + apart : 0;
    weft_status status = WEFT_OK;
    for (int i = 0; i < n_path && status == WEFT_OK; i++)
        status = add_corpus_file(c, &d, path[i], o, &total, err);
    c->id_apart = c->n_id;
    c->document_apart = c->n_document;
    if (status == WEFT_OK && o->apart)
        status = add_corpus_file(c, &d, o->apart, o, &total, err);
    documents_end(&d);
    if (status != WEFT_OK)
        corpus_close(c);
    return status;
}
