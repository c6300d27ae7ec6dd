/* corpus.c - access to the documents of a corpus, for every kind of file. */
#include "train/corpus.h"

#include "formats/unpack.h"

#include <string.h>

void source_free(source *s, host *h)
{
    mem_free(&h->mem, s->ids);
    mem_free(&h->mem, s->document);
    mem_free(&h->mem, s->label);
    file_close(&s->file, h);
}

weft_status corpus_add(corpus *c, source *s, weft_error *err)
{
    source *all = scratch_grow(&c->room, (size_t)(c->n_source + 1) * sizeof *all, &c->host->mem,
                               err);
    if (!all) {
        source_free(s, c->host);
        return err->code;
    }
    s->first_id = c->n_id;
    s->first_document = c->n_document;
    c->source = all;
    all[c->n_source++] = *s;
    c->n_id += (int64_t)s->shard.n_id;
    c->n_document += (int64_t)s->shard.n_document;
    return WEFT_OK;
}

const source *corpus_find(const corpus *c, int64_t at)
{
    int64_t low = 0, high = c->n_source; /* the answer is in [low, high) */
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (c->source[middle].first_id <= at)
            low = middle;
        else
            high = middle;
    }
    return &c->source[low];
}

/* "a.tsv.gz" counts as "a.tsv". */
static bool has_suffix(const char *path, const char *tail)
{
    const size_t n = unpacked_name(path), k = strlen(tail);
    return n >= k && memcmp(path + n - k, tail, k) == 0;
}

data_kind kind_by_name(const char *path)
{
    return has_suffix(path, ".jsonl") ? DATA_JSONL
           : has_suffix(path, ".tsv") ? DATA_TSV
           : has_suffix(path, ".csv") ? DATA_CSV
                                      : DATA_TEXT;
}

void corpus_close(corpus *c)
{
    for (int64_t i = 0; i < c->n_source; i++)
        source_free(&c->source[i], c->host);
    scratch_free(&c->room, &c->host->mem);
    *c = (corpus){ .host = c->host };
}

weft_status corpus_save(const corpus *c, const char *path, weft_error *err)
{
    mem *m = &c->host->mem;
    const shard **part = mem_alloc(m, ((size_t)c->n_source + 1) * sizeof *part, "sources", err);
    if (!part)
        return err->code;
    for (int64_t i = 0; i < c->n_source; i++)
        part[i] = &c->source[i].shard;
    const weft_status status = shard_save(part, c->n_source, c->n_vocab, path, c->host, err);
    mem_free(m, part);
    return status;
}
