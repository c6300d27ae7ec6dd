/* data.c - samples by number: permutations of an epoch, windows, packs, and the split for
 * validation. */
#include "train/data.h"

#include "base/rng.h"
#include "text/decode.h"
#include "train/corpus_open.h"
#include "train/labelled.h"
#include "train/pack.h"

#include <limits.h>
#include <string.h>

/* The split does not depend on the seed: a run may resume with another seed. */
#define SPLIT_KEY 0x776566742073706Cu

/* Key of the random changes to samples; constant for validation. */
#define NOISE_KEY 0x7765667420737061u

/* ---- pieces ---------------------------------------------------------------------------------- */

/* The pieces of sample k: from the list, or as a window at id `at`, stored in `window`. */
static const data_piece *sample_pieces(const data_part *p, int64_t k, int64_t at,
                                       data_piece *window, int64_t *n)
{
    const int64_t T = p->set->n_ctx, left = p->end - at;
    *n = 1;
    if (p->image_index) {
        *window = (data_piece){ .at = p->image_index[k], .n = (int32_t)T };
        return window;
    }
    if (p->set->windows) {
        *window = (data_piece){ .at = at,
                                .n = (int32_t)(left > T ? T + p->set->make->ahead : left) };
        return window;
    }
    *n = p->first[k + 1] - p->first[k];
    return p->piece + p->first[k];
}

/* Pieces of sample i, unshuffled. */
static const data_piece *pieces_in_order(const data_part *p, int64_t i, data_piece *window,
                                         int64_t *n)
{
    return sample_pieces(p, i, p->begin + i * p->set->n_ctx, window, n);
}

static void count_samples(data_part *p)
{
    p->counts.n_sample = p->n_sample;
    for (int64_t i = 0; i < p->n_in_order; i++) {
        data_piece window;
        int64_t n;
        const data_piece *q = pieces_in_order(p, i, &window, &n);
        p->most_seq = n > p->most_seq ? (int32_t)n : p->most_seq;
        for (int64_t k = 0; k < n; k++)
            p->set->make->count(&p->counts, p->set, &q[k]);
    }
}

/* ---- parts ----------------------------------------------------------------------------------- */

static void stream_init(data_part *p, int64_t begin, int64_t end)
{
    const int64_t T = p->set->n_ctx, n = end - begin;
    p->begin = begin;
    p->end = end;
    p->n_sample = n < 2 ? 0 : n > T ? n - T : 1;
    p->n_in_order = n < 2 ? 0 : (n - p->set->make->ahead - 1) / T + 1;
    p->counts.n_document = p->set->corpus.n_document;
    count_samples(p);
}

/* Validation takes the end of the stream. */
static weft_status split_stream(dataset *d, double share, weft_error *err)
{
    const corpus *c = &d->corpus;
    const int64_t n = c->n_id;
    const int64_t n_train = c->id_apart < n ? c->id_apart : (int64_t)((double)n * (1 - share));
    stream_init(&d->train, 0, n_train);
    stream_init(&d->validation, n_train, n);
    if (d->train.n_sample == 0 || (share > 0 && d->validation.n_sample == 0))
        return weft_fail(
            err, WEFT_EINVAL,
            "too little data: %lld ids, of which %lld for training, %lld for validation",
            (long long)n, (long long)n_train, (long long)(n - n_train));
    return WEFT_OK;
}

/* The piece of document i of a source, whose number in the corpus is its label. */
static data_piece preferred_piece(const source *s, uint64_t i)
{
    const uint64_t begin = shard_begin(&s->shard, i), n = s->shard.document[i].end - begin;
    const uint64_t n_prompt = s->shard.document[i].n_prompt;
    return (data_piece){ .at = s->first_id + (int64_t)begin,
                         .n = (int32_t)(n < INT32_MAX ? n : INT32_MAX), /* skipped */
                         .n_prompt = (int32_t)(n_prompt < INT32_MAX ? n_prompt : INT32_MAX),
                         .label = (int32_t)(s->first_document + (int64_t)i) };
}

/* The same for pairs of documents. */
static weft_status split_pairs(dataset *d, packer *train, packer *validation, uint64_t n_kept,
                               weft_error *err)
{
    const corpus *c = &d->corpus;
    const uint64_t n = (uint64_t)c->n_preference, apart = (uint64_t)c->document_apart / 2;
    uint64_t number = 0;
    for (int64_t k = 0; k < c->n_source; k++) {
        const source *s = &c->source[k];
        for (uint64_t i = 0; i + 1 < s->shard.n_document; i += 2, number++) {
            const data_piece both[2] = { preferred_piece(s, i), preferred_piece(s, i + 1) };
            const bool kept = apart < n
                                  ? number >= apart
                                  : n_kept > 0 && rng_permute(SPLIT_KEY, 0, n, number) < n_kept;
            if (!packer_add_pair(kept ? validation : train, both, err))
                return err->code;
        }
    }
    return WEFT_OK;
}

/* Every document goes to one of the two packers. */
static weft_status split_documents(dataset *d, packer *train, packer *validation, uint64_t n_kept,
                                   weft_error *err)
{
    const corpus *c = &d->corpus;
    const uint64_t n = (uint64_t)c->n_document, apart = (uint64_t)c->document_apart;
    uint64_t number = 0;
    for (int64_t k = 0; k < c->n_source; k++) {
        const source *s = &c->source[k];
        for (uint64_t i = 0; i < s->shard.n_document; i++) {
            const uint64_t begin = shard_begin(&s->shard, i), end = s->shard.document[i].end;
            const bool kept = apart < n
                                  ? number >= apart
                                  : n_kept > 0 && rng_permute(SPLIT_KEY, 0, n, number) < n_kept;
            number++;
            if (!packer_add(kept ? validation : train, s->first_id + (int64_t)begin,
                            (int64_t)(end - begin), (int64_t)s->shard.document[i].n_prompt,
                            s->label ? s->label[i] : -1, err))
                return err->code;
        }
    }
    return WEFT_OK;
}

static weft_status pack_documents(dataset *d, double share, weft_error *err)
{
    const bool pairs = d->make == &rows_preferred;
    const int64_t n = pairs ? d->corpus.n_preference : d->corpus.n_document;
    int64_t n_kept = (int64_t)((double)n * share + 0.5);
    n_kept = share > 0 && n_kept == 0 ? 1 : n_kept;
    packer train, validation;
    packer_begin(&train, &d->train, &d->corpus.host->mem);
    packer_begin(&validation, &d->validation, &d->corpus.host->mem);
    weft_status status = (pairs ? split_pairs : split_documents)(d, &train, &validation,
                                                                 (uint64_t)n_kept, err);
    if (status == WEFT_OK && (!packer_finish(&train, err) || !packer_finish(&validation, err)))
        status = err->code;
    packer_end(&train);
    packer_end(&validation);
    if (status != WEFT_OK)
        return status;
    data_part *const parts[] = { &d->train, &d->validation };
    for (int i = 0; i < 2; i++) {
        parts[i]->n_in_order = parts[i]->n_sample;
        count_samples(parts[i]);
    }
    if (d->train.n_sample == 0 || (share > 0 && d->validation.n_sample == 0))
        return weft_fail(
            err, WEFT_EINVAL,
            "too little data: %lld %s, %lld sequences for training, %lld for validation",
            (long long)n, pairs ? "pairs" : "documents", (long long)d->train.n_sample,
            (long long)d->validation.n_sample);
    return WEFT_OK;
}

/* ---- opening --------------------------------------------------------------------------------- */

static weft_status data_check_options(const data_options *o, int n_path, weft_error *err)
{
    if (n_path < 1)
        return weft_fail(err, WEFT_EINVAL, "no data to train on");
    if (o->n_ctx < 1 || o->n_ctx > INT32_MAX / 2)
        return weft_fail(err, WEFT_EINVAL, "sequences of %lld tokens", (long long)o->n_ctx);
    if (!(o->validation >= 0 && o->validation < 1))
        return weft_fail(err, WEFT_EINVAL, "a share of %g for validation, expected 0 to below 1",
                         o->validation);
    return WEFT_OK;
}

static weft_status choose_preferred(dataset *d, weft_error *err)
{
    const corpus *c = &d->corpus;
    if (d->make != &rows_next)
        return weft_fail(err, WEFT_EINVAL, "preferences train decoders; this model is none");
    if (c->n_document != 2 * c->n_preference || c->n_document > INT32_MAX)
        return weft_fail(err, WEFT_EINVAL,
                         "%lld pairs of chosen and rejected answers in %lld documents; expected "
                         "only pairs",
                         (long long)c->n_preference, (long long)c->n_document);
    d->make = &rows_preferred;
    return WEFT_OK;
}

/* Chooses the row maker. Without an explicit objective, it follows from the data and the
 * vocabulary. */
static weft_status choose_rows(dataset *d, weft_error *err)
{
    pairing *p = &d->pairing;
    const corpus *c = &d->corpus;
    d->make = p->encodes       ? &rows_paired
              : d->labels      ? &rows_labelled
              : d->mask.id > 0 ? &rows_masked
                               : &rows_next;
    if (c->n_preference > 0)
        return choose_preferred(d, err);
    if (c->chat.n_conversation > 0 && d->make != &rows_next)
        return weft_fail(err, WEFT_EINVAL, "conversations train decoders; this model is none");
    if (!p->encodes)
        return p->objective == WEFT_OBJECTIVE_BY_DATA
                   ? WEFT_OK
                   : weft_fail(err, WEFT_EINVAL, "sources are for encoder-decoders");
    if (p->objective == WEFT_OBJECTIVE_BY_DATA)
        p->objective = c->n_prompt > 0     ? WEFT_OBJECTIVE_PAIRS
                       : p->n_sentinel > 0 ? WEFT_OBJECTIVE_SPANS
                                           : WEFT_OBJECTIVE_INFILL;
    if (p->objective == WEFT_OBJECTIVE_PAIRS && c->n_prompt < c->n_document)
        return weft_fail(err, WEFT_EINVAL, "%lld of %lld documents are not pairs",
                         (long long)(c->n_document - c->n_prompt), (long long)c->n_document);
    if (p->objective != WEFT_OBJECTIVE_PAIRS && c->n_prompt > 0)
        return weft_fail(err, WEFT_EINVAL,
                         "pairs cannot be trained with spans; use the objective pairs");
    if (p->objective == WEFT_OBJECTIVE_SPANS && p->n_sentinel == 0)
        return weft_fail(err, WEFT_EINVAL, "the vocabulary has no <extra_id_0> for spans");
    if (p->objective == WEFT_OBJECTIVE_INFILL && p->mask < 0)
        return weft_fail(err, WEFT_EINVAL, "the vocabulary has no <mask> for spans");
    return WEFT_OK;
}

weft_status data_open(dataset *d, const char *const *path, int n_path, const data_options *o,
                      host *h, weft_error *err)
{
    *d = (dataset){ .n_ctx = o->n_ctx, .train = { .set = d }, .validation = { .set = d } };
    d->pairing = o->pairing;
    d->labels = o->corpus.labels;
    d->mask = (masking){ .id = o->mask_id,
                         .tokenizer = o->corpus.tokenizer,
                         .share = MASKED_SHARE };
    weft_status status = data_check_options(o, n_path, err);
    if (status == WEFT_OK)
        status = corpus_open(&d->corpus, path, n_path, &o->corpus, h, err);
    if (status != WEFT_OK)
        return status;
    const corpus *c = &d->corpus;
    d->mask.n_vocab = c->n_vocab;
    d->windows = o->style == DATA_WINDOWS ||
                 (o->style == DATA_STYLE_BY_KIND && c->n_prompt == 0 && !d->labels &&
                  c->n_document <= n_path + (o->corpus.apart != NULL));
    if (c->n_document == 0)
        status = weft_fail(err, WEFT_EFORMAT, "%s: no text in %s", path[0],
                           n_path > 1 ? "this and the other files" : "it");
    else if (choose_rows(d, err) != WEFT_OK)
        status = err->code;
    else if (d->windows && c->n_prompt > 0)
        status = weft_fail(err, WEFT_EINVAL, "windows do not mask prompts; use packed documents");
    else
        status = d->windows ? split_stream(d, o->validation, err)
                            : pack_documents(d, o->validation, err);
    if (status != WEFT_OK)
        data_close(d);
    return status;
}

/* Holds out images spread over the data set, the same ones for every seed. */
static weft_status split_images(dataset *d, double share, weft_error *err)
{
    mem *m = &d->corpus.host->mem;
    const uint64_t n = (uint64_t)d->images->n;
    const uint64_t n_kept = (uint64_t)((double)n * share + 0.5);
    data_part *part[] = { &d->train, &d->validation };
    d->train.n_sample = (int64_t)(n - n_kept);
    d->validation.n_sample = (int64_t)n_kept;
    if (d->train.n_sample == 0 || (share > 0 && n_kept == 0))
        return weft_fail(err, WEFT_EINVAL, "too little data: %llu images", (unsigned long long)n);
    for (int k = 0; k < 2; k++) {
        data_part *p = part[k];
        p->image_index = mem_zalloc(m, (size_t)p->n_sample + 1, sizeof *p->image_index, "a list",
                                    err);
        if (!p->image_index)
            return err->code;
    }
    for (uint64_t i = 0; i < n; i++) {
        data_part *p = part[rng_permute(SPLIT_KEY, 0, n, i) < n_kept];
        p->image_index[p->n_in_order++] = (int64_t)i;
    }
    count_samples(&d->train);
    count_samples(&d->validation);
    return WEFT_OK;
}

weft_status data_open_images(dataset *d, image_set *p, const model *m, double validation,
                             weft_error *err)
{
    *d = (dataset){ .n_ctx = m->n_ctx,
                    .d_feature = m->d_feature,
                    .images = p,
                    .make = &rows_image,
                    .corpus = { .host = p->host },
                    .train = { .set = d },
                    .validation = { .set = d } };
    const weft_status status = split_images(d, validation, err);
    if (status != WEFT_OK)
        data_close(d);
    return status;
}

static void part_free(data_part *p, mem *m)
{
    mem_free(m, p->image_index);
    mem_free(m, p->piece);
    mem_free(m, p->first);
}

void data_close(dataset *d)
{
    part_free(&d->train, &d->corpus.host->mem);
    part_free(&d->validation, &d->corpus.host->mem);
    corpus_close(&d->corpus);
    *d = (dataset){ .corpus = d->corpus };
}

/* ---- samples --------------------------------------------------------------------------------- */

/* The pieces of sample i in the seed's order. */
static const data_piece *drawn_pieces(const data_part *p, uint64_t seed, int64_t i,
                                      data_piece *window, int64_t *n)
{
    const uint64_t epoch = (uint64_t)(i / p->n_sample), k = (uint64_t)(i % p->n_sample);
    const rng_block b = rng_draw(seed, SPLIT_KEY, epoch);
    const uint64_t key = (uint64_t)b.word[0] << 32 | b.word[1];
    const int64_t which = (int64_t)rng_permute(key, 0, (uint64_t)p->n_sample, k);
    return sample_pieces(p, which, p->begin + which, window, n);
}

/* Random changes in training have their own stream. */
static uint64_t noise_key(uint64_t seed)
{
    const rng_block b = rng_draw(seed, NOISE_KEY, 0);
    return (uint64_t)b.word[0] << 32 | b.word[1];
}

/* The random stream of piece k of sample i. */
static chance chance_of(uint64_t key, int64_t i, int64_t k, bool learned)
{
    return (chance){ key, (uint64_t)i << 24 | (uint64_t)k, learned };
}

chance data_chance(uint64_t seed, int64_t i)
{
    return chance_of(noise_key(seed), i, 0, true);
}

static void empty_batch(batch *b)
{
    batch *src = (batch *)b->src;
    *b = (batch){
        .row = b->row, .seq = b->seq, .features = b->features, .src = src, .prefer = b->prefer
    };
    if (src)
        *src = (batch){ .row = src->row, .seq = src->seq };
}

weft_status data_fill(batch *b, const data_part *p, uint64_t seed, int64_t i, int32_t n,
                      weft_error *err)
{
    const uint64_t key = noise_key(seed);
    weft_status status = WEFT_OK;
    empty_batch(b);
    for (const int64_t end = i + n; i < end; i++) {
        data_piece window;
        int64_t n_piece;
        const data_piece *q = drawn_pieces(p, seed, i, &window, &n_piece);
        for (int64_t k = 0; k < n_piece && status == WEFT_OK; k++)
            status = p->set->make->fill(b, p->set, &q[k], chance_of(key, i, k, true), err);
    }
    return status;
}

weft_status data_fill_in_order(batch *b, const data_part *p, int64_t i, int32_t n, weft_error *err)
{
    weft_status status = WEFT_OK;
    empty_batch(b);
    for (const int64_t end = i + n; i < end; i++) {
        data_piece window;
        int64_t n_piece;
        const data_piece *q = pieces_in_order(p, i, &window, &n_piece);
        for (int64_t k = 0; k < n_piece && status == WEFT_OK; k++)
            status = p->set->make->fill(b, p->set, &q[k], chance_of(NOISE_KEY, i, k, false), err);
    }
    return status;
}

int64_t data_targets(const data_part *p, uint64_t seed, int64_t i, int64_t n)
{
    const uint64_t key = noise_key(seed);
    int64_t n_target = 0;
    for (const int64_t end = i + n; i < end; i++) {
        data_piece window;
        int64_t n_piece;
        const data_piece *q = drawn_pieces(p, seed, i, &window, &n_piece);
        for (int64_t k = 0; k < n_piece; k++)
            n_target += p->set->make->targets(p->set, &q[k], chance_of(key, i, k, true));
    }
    return n_target;
}

/* ---- batches --------------------------------------------------------------------------------- */

/* Fills the batch with full rows that all have a target, or with the first images: the largest
 * possible batch. */
static void fill_largest(batch *b, int32_t n, int32_t n_ctx, bool first_only)
{
    batch *src = (batch *)b->src;
    empty_batch(b);
    b->n_seq = n;
    b->n_row = n * n_ctx;
    b->n_wanted = first_only ? n : b->n_row;
    for (int32_t s = 0; s < n; s++)
        b->seq[s] = (sequence){ .first = s * n_ctx, .n = n_ctx, .source = src ? s : -1 };
    for (int32_t i = 0; i < b->n_row; i++)
        b->row[i] = (batch_row){
            .seq = i / n_ctx, .pos = i % n_ctx, .weight = 1, .wanted = !first_only || i % n_ctx == 0
        };
    if (src)
        fill_largest(src, n, n_ctx, false);
}

static weft_status pairs_room(batch *b, int64_t n_seq, mem *m, weft_error *err)
{
    preference *p = mem_zalloc(m, 1, sizeof *p, "preferences", err);
    b->prefer = p;
    if (!p)
        return WEFT_ENOMEM;
    const size_t n = (size_t)n_seq;
    p->document = mem_zalloc(m, n, sizeof *p->document, "preferences", err);
    p->reference = mem_zalloc(m, 3 * n, sizeof *p->reference, "preferences", err);
    p->logp = p->reference + n;
    p->slope = p->logp + n;
    return p->document && p->reference ? WEFT_OK : WEFT_ENOMEM;
}

/* In addition to the rows: feature vectors for images, a batch for sources, numbers of pairs. */
static weft_status more_room(batch *b, const dataset *d, int64_t n_row, int64_t n_seq,
                             weft_error *err)
{
    mem *m = &d->corpus.host->mem;
    if (d->images)
        b->features = mem_zalloc(m, (size_t)n_row, (size_t)d->d_feature * sizeof *b->features,
                                 "features", err);
    if (d->make == &rows_preferred)
        return pairs_room(b, n_seq, m, err);
    if (d->make != &rows_paired)
        return d->images && !b->features ? WEFT_ENOMEM : WEFT_OK;
    batch *src = mem_zalloc(m, 1, sizeof *src, "sources", err);
    b->src = src;
    return src ? batch_init(src, n_row, n_seq, m, err) : WEFT_ENOMEM;
}

weft_status data_room(batch *b, const dataset *d, int32_t n, weft_error *err)
{
    const int32_t most = d->train.most_seq > d->validation.most_seq ? d->train.most_seq
                                                                    : d->validation.most_seq;
    const int64_t n_row = n * d->n_ctx, n_seq = (int64_t)n * most;
    *b = (batch){ 0 };
    if (n < 1 || n > INT32_MAX / d->n_ctx)
        return weft_fail(err, WEFT_EINVAL, "a batch of %d samples of %lld rows", n,
                         (long long)d->n_ctx);
    weft_status status = batch_init(b, n_row, n_seq, &d->corpus.host->mem, err);
    if (status == WEFT_OK)
        status = more_room(b, d, n_row, n_seq, err);
    if (status != WEFT_OK) {
        data_room_free(b, d);
        return status;
    }
    fill_largest(b, n, (int32_t)d->n_ctx, d->images != NULL);
    return WEFT_OK;
}

void data_room_free(batch *b, const dataset *d)
{
    mem *m = &d->corpus.host->mem;
    batch *src = (batch *)b->src;
    if (src)
        batch_free(src, m);
    mem_free(m, src);
    if (b->prefer) {
        mem_free(m, b->prefer->document);
        mem_free(m, b->prefer->reference);
        mem_free(m, b->prefer);
    }
    mem_free(m, (void *)b->features);
    batch_free(b, m);
}

/* ---- printing -------------------------------------------------------------------------------- */

/* The callback, and the position in the current text. */
typedef struct viewer {
    data_token_fn *fn;
    void *ud;
    mem *mem;
    decode_stream text;
} viewer;

/* Starts a new text. */
static weft_status data_begin_text(viewer *v, const tokenizer *t, weft_error *err)
{
    decode_end(&v->text);
    return decode_begin(&v->text, t, true, v->mem, err);
}

static weft_status show_token(viewer *v, int32_t seq, int32_t id, bool target, weft_error *err)
{
    const tokenizer *t = v->text.t;
    const uint32_t u = (uint32_t)id;
    const bool known = tokenizer_has(t, u);
    data_token k = { .seq = seq, .id = id, .target = target, .special = known && t->special[u] };
    if (k.special) {
        k.text = vocab_text(&t->vocab, u);
        k.length = t->vocab.length[u];
        if (data_begin_text(v, t, err) != WEFT_OK)
            return err->code;
    } else if (known && decode_push(&v->text, u, &k.text, &k.length, err) != WEFT_OK) {
        return err->code;
    }
    v->fn(v->ud, &k);
    return WEFT_OK;
}

static void show_label(const viewer *v, const char *name, int32_t seq)
{
    v->fn(v->ud, &(data_token){ .seq = seq,
                                .id = -1,
                                .text = name,
                                .length = strlen(name),
                                .special = true,
                                .target = true });
}

static weft_status show_sequence(viewer *v, const batch *b, const dataset *d, int32_t s,
                                 weft_error *err)
{
    const batch_row *row = b->row + b->seq[s].first;
    const sequence *from = b->src ? &b->src->seq[b->seq[s].source] : NULL;
    weft_status status = WEFT_OK;
    bool target = false;
    for (int32_t i = 0; from && i < from->n && status == WEFT_OK; i++)
        status = show_token(v, s, b->src->row[from->first + i].id, false, err);
    if (from && status == WEFT_OK)
        status = data_begin_text(v, v->text.t, err);
    for (int32_t i = 0; i < b->seq[s].n && status == WEFT_OK; i++) {
        const bool next = row[i].target != NO_TARGET && !d->labels;
        status = show_token(v, s, row[i].id, d->make->ahead ? target : next, err);
        target = next;
    }
    if (status == WEFT_OK && target && d->make->ahead)
        status = show_token(v, s, row[b->seq[s].n - 1].target, true, err);
    if (status == WEFT_OK && d->labels)
        show_label(v, d->labels->name[row->target], s);
    return status;
}

weft_status data_show(const batch *b, const dataset *d, const tokenizer *t, data_token_fn *fn,
                      void *ud, weft_error *err)
{
    weft_status status = WEFT_OK;
    for (int32_t s = 0; s < b->n_seq && status == WEFT_OK; s++) {
        viewer v = { .fn = fn, .ud = ud, .mem = &d->corpus.host->mem };
        status = data_begin_text(&v, t, err);
        if (status == WEFT_OK)
            status = show_sequence(&v, b, d, s, err);
        decode_end(&v.text);
    }
    return status;
}
