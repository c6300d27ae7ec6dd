#include "train/data.h"

#include "base/rng.h"
#include "train/pack.h"

#include <limits.h>

/* ---- reading ids ----------------------------------------------------------------------------- */

/* Ids one after the other, over the borders of sources. */
typedef struct cursor {
    const source *source;
    uint64_t at; /* in the source */
} cursor;

static cursor cursor_at(const corpus *c, int64_t at)
{
    const source *s = corpus_find(c, at);
    return (cursor){ s, (uint64_t)(at - s->first_id) };
}

static uint32_t cursor_next(cursor *c)
{
    if (c->at == c->source->shard.n_id) {
        c->source++;
        c->at = 0;
    }
    return shard_id(&c->source->shard, c->at++);
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* The split is the same for every seed: a run may go on with another. */
#define SPLIT_KEY 0x776566742073706Cu

/* Targets of ids [at, at + n) that are the end of a text; the first of them is none, nor are those
 * before quiet. */
static int64_t count_eos(const dataset *d, int64_t at, int64_t n, int64_t quiet)
{
    const corpus *c = &d->corpus;
    const int64_t from = quiet > d->ahead ? quiet : d->ahead;
    int64_t n_eos = 0;
    if (c->eos < 0 || from >= n)
        return 0;
    cursor k = cursor_at(c, at + from);
    for (int64_t i = from; i < n; i++)
        n_eos += cursor_next(&k) == (uint32_t)c->eos;
    return n_eos;
}

static void stream_init(data_part *p, int64_t begin, int64_t end)
{
    const corpus *c = &p->set->corpus;
    const int64_t T = p->set->n_ctx, n = end - begin, n_row = n - p->set->ahead;
    p->begin = begin;
    p->end = end;
    p->n_sample = n < 2 ? 0 : n > T ? n - T : 1;
    p->n_in_order = n < 2 ? 0 : (n_row - 1) / T + 1;
    p->most_seq = 1;
    p->counts = (data_counts){ .n_sample = p->n_sample, .n_document = c->n_document };
    if (n < 2)
        return;
    p->counts.n_row = p->counts.n_target = n_row;
    p->counts.n_eos = count_eos(p->set, begin, n, 0);
}

/* What is kept for validation is the end of the stream. */
static weft_status split_stream(dataset *d, double share, weft_error *err)
{
    const int64_t n = d->corpus.n_id, n_train = (int64_t)((double)n * (1 - share));
    stream_init(&d->train, 0, n_train);
    stream_init(&d->validation, n_train, n);
    if (d->train.n_sample == 0 || (share > 0 && d->validation.n_sample == 0))
        return weft_fail(err, WEFT_EINVAL,
                         "%lld ids are too few: %lld are for training, %lld for validation",
                         (long long)n, (long long)n_train, (long long)(n - n_train));
    return WEFT_OK;
}

/* Every document goes to one of the two packers. */
static weft_status split_documents(dataset *d, packer *train, packer *validation, uint64_t n_kept,
                                   weft_error *err)
{
    const corpus *c = &d->corpus;
    const uint64_t n = (uint64_t)c->n_document;
    uint64_t number = 0;
    for (int64_t k = 0; k < c->n_source; k++) {
        const source *s = &c->source[k];
        for (uint64_t i = 0; i < s->shard.n_document; i++) {
            const uint64_t begin = shard_begin(&s->shard, i), end = s->shard.document[i].end;
            const bool kept = n_kept > 0 && rng_permute(SPLIT_KEY, 0, n, number++) < n_kept;
            if (!packer_add(kept ? validation : train, s->first_id + (int64_t)begin,
                            (int64_t)(end - begin), (int64_t)s->shard.document[i].quiet, err))
                return err->code;
        }
    }
    return WEFT_OK;
}

static void count_pieces(data_part *p)
{
    p->n_in_order = p->n_sample;
    p->counts.n_sample = p->n_sample;
    for (int64_t i = 0; i < p->n_sample; i++) {
        const int64_t n_seq = p->first[i + 1] - p->first[i];
        p->most_seq = n_seq > p->most_seq ? (int32_t)n_seq : p->most_seq;
    }
    for (int64_t i = 0; p->n_sample > 0 && i < p->first[p->n_sample]; i++) {
        const data_piece *q = &p->piece[i];
        p->counts.n_row += q->n - p->set->ahead;
        p->counts.n_target += piece_targets(q, p->set->ahead);
        p->counts.n_eos += count_eos(p->set, q->at, q->n, q->quiet);
    }
}

static weft_status pack_documents(dataset *d, double share, weft_error *err)
{
    const int64_t n = d->corpus.n_document;
    int64_t n_kept = (int64_t)((double)n * share + 0.5);
    n_kept = share > 0 && n_kept == 0 ? 1 : n_kept;
    packer train, validation;
    packer_begin(&train, &d->train, &d->corpus.host->mem);
    packer_begin(&validation, &d->validation, &d->corpus.host->mem);
    weft_status status = split_documents(d, &train, &validation, (uint64_t)n_kept, err);
    if (status == WEFT_OK && (!packer_finish(&train, err) || !packer_finish(&validation, err)))
        status = err->code;
    packer_end(&train);
    packer_end(&validation);
    if (status != WEFT_OK)
        return status;
    count_pieces(&d->train);
    count_pieces(&d->validation);
    if (d->train.n_sample == 0 || (share > 0 && d->validation.n_sample == 0))
        return weft_fail(err, WEFT_EINVAL,
                         "%lld documents are too few: %lld samples are for training, %lld for "
                         "validation",
                         (long long)n, (long long)d->train.n_sample,
                         (long long)d->validation.n_sample);
    return WEFT_OK;
}

/* ---- opening --------------------------------------------------------------------------------- */

static weft_status check_options(const data_options *o, int n_path, weft_error *err)
{
    if (n_path < 1)
        return weft_fail(err, WEFT_EINVAL, "no data to train on");
    if (o->n_ctx < 1 || o->n_ctx > INT32_MAX / 2)
        return weft_fail(err, WEFT_EINVAL, "samples of %lld rows", (long long)o->n_ctx);
    if (!(o->validation >= 0 && o->validation < 1))
        return weft_fail(err, WEFT_EINVAL, "a share of %g for validation, expected 0 to below 1",
                         o->validation);
    return WEFT_OK;
}

/* Masks are drawn anew in every epoch: what is counted of them is what to expect. */
static void expect_masks(dataset *d)
{
    data_part *const parts[] = { &d->train, &d->validation };
    for (int i = 0; i < 2; i++) {
        parts[i]->counts.n_target = (int64_t)(d->mask.share * (double)parts[i]->counts.n_row + 0.5);
        parts[i]->counts.n_eos = 0;
    }
}

weft_status data_open(dataset *d, const char *const *path, int n_path, const data_options *o,
                      host *h, weft_error *err)
{
    *d = (dataset){ .n_ctx = o->n_ctx, .train = { .set = d }, .validation = { .set = d } };
    d->ahead = o->mask_id <= 0;
    d->mask = (masking){ .id = o->mask_id > 0 ? o->mask_id : -1,
                         .tokenizer = o->corpus.tokenizer,
                         .share = MASKED_SHARE };
    weft_status status = check_options(o, n_path, err);
    if (status == WEFT_OK)
        status = corpus_open(&d->corpus, path, n_path, &o->corpus, h, err);
    if (status != WEFT_OK)
        return status;
    const corpus *c = &d->corpus;
    d->mask.n_vocab = c->n_vocab;
    d->windows = o->style == DATA_WINDOWS ||
                 (o->style == DATA_STYLE_BY_KIND && c->n_prompt == 0 && c->n_document <= n_path);
    if (c->n_document == 0)
        status = weft_fail(err, WEFT_EFORMAT, "%s: no text in %s", path[0],
                           n_path > 1 ? "this and the other files" : "it");
    else if (d->windows && c->n_prompt > 0)
        status = weft_fail(err, WEFT_EINVAL, "prompts are learned too where samples are windows");
    else
        status = d->windows ? split_stream(d, o->validation, err)
                            : pack_documents(d, o->validation, err);
    if (status != WEFT_OK)
        data_close(d);
    else if (d->mask.id >= 0)
        expect_masks(d);
    return status;
}

/* Pictures here and there are kept apart, the same whatever the seed. */
static weft_status split_pictures(dataset *d, double share, weft_error *err)
{
    mem *m = &d->corpus.host->mem;
    const uint64_t n = (uint64_t)d->pictures->n;
    const uint64_t n_kept = (uint64_t)((double)n * share + 0.5);
    data_part *part[] = { &d->train, &d->validation };
    d->train.n_sample = (int64_t)(n - n_kept);
    d->validation.n_sample = (int64_t)n_kept;
    if (d->train.n_sample == 0 || (share > 0 && n_kept == 0))
        return weft_fail(err, WEFT_EINVAL, "%llu pictures are too few", (unsigned long long)n);
    for (int k = 0; k < 2; k++) {
        data_part *p = part[k];
        p->picture = mem_zalloc(m, (size_t)p->n_sample + 1, sizeof *p->picture, "a list", err);
        if (!p->picture)
            return err->code;
        p->most_seq = 1;
        p->counts.n_sample = p->counts.n_target = p->n_sample;
    }
    for (uint64_t i = 0; i < n; i++) {
        data_part *p = part[rng_permute(SPLIT_KEY, 0, n, i) < n_kept];
        p->picture[p->n_in_order++] = (int64_t)i;
    }
    return WEFT_OK;
}

weft_status data_open_pictures(dataset *d, pictures *p, const model *m, double validation,
                               weft_error *err)
{
    *d = (dataset){ .n_ctx = m->n_ctx,
                    .d_feature = m->d_feature,
                    .pictures = p,
                    .corpus = { .host = p->host },
                    .train = { .set = d },
                    .validation = { .set = d } };
    const weft_status status = split_pictures(d, validation, err);
    if (status != WEFT_OK)
        data_close(d);
    return status;
}

static void part_free(data_part *p, mem *m)
{
    mem_free(m, p->picture);
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

/* The pieces of sample k: at `window`, or in the list. */
static const data_piece *sample_pieces(const data_part *p, int64_t k, int64_t at,
                                       data_piece *window, int64_t *n)
{
    if (p->set->windows) {
        const int64_t left = p->end - at, T = p->set->n_ctx;
        *window = (data_piece){ .at = at, .n = (int32_t)(left > T ? T + p->set->ahead : left) };
        *n = 1;
        return window;
    }
    *n = p->first[k + 1] - p->first[k];
    return p->piece + p->first[k];
}

/* Which of the n samples is number i in the seed's order. */
static int64_t shuffled(const data_part *p, uint64_t seed, int64_t i)
{
    const uint64_t epoch = (uint64_t)(i / p->n_sample), k = (uint64_t)(i % p->n_sample);
    const rng_block b = rng_draw(seed, SPLIT_KEY, epoch);
    const uint64_t key = (uint64_t)b.word[0] << 32 | b.word[1];
    return (int64_t)rng_permute(key, 0, (uint64_t)p->n_sample, k);
}

/* Masks of training have a stream of their own; those of validation are always the same. */
static uint64_t mask_key(uint64_t seed)
{
    const rng_block b = rng_draw(seed, SPLIT_KEY, UINT64_MAX);
    return (uint64_t)b.word[0] << 32 | b.word[1];
}

static weft_status fill_piece(batch *b, const dataset *d, const data_piece *p, weft_error *err)
{
    const corpus *c = &d->corpus;
    const int32_t first = b->n_row, seq = b->n_seq++, ahead = (int32_t)d->ahead;
    batch_row *row = b->row + first;
    cursor k = cursor_at(c, p->at);
    b->seq[seq] = (sequence){ .first = first, .n = p->n - ahead, .source = -1 };
    for (int32_t i = 0; i < p->n; i++) {
        const uint32_t id = cursor_next(&k);
        if (id >= c->n_vocab) /* was not so when the file was opened */
            return weft_fail(err, WEFT_EFORMAT, "%s: changed while it was used: id %u of %u",
                             k.source->file.path ? k.source->file.path : "memory", id, c->n_vocab);
        if (i + ahead < p->n)
            row[i] = (batch_row){
                .id = (int32_t)id, .seq = seq, .pos = i, .target = NO_TARGET, .weight = 1
            };
        if (ahead && i > 0 && i >= p->quiet) {
            row[i - 1].target = (int32_t)id;
            row[i - 1].wanted = true;
            b->n_wanted++;
        }
    }
    b->n_row += p->n - ahead;
    return WEFT_OK;
}

/* key and number are those of its masks, if there are any. */
static weft_status fill_sample(batch *b, const data_part *p, int64_t k, int64_t at, uint64_t key,
                               int64_t number, weft_error *err)
{
    data_piece window;
    int64_t n;
    const data_piece *q = sample_pieces(p, k, at, &window, &n);
    const int32_t first = b->n_row;
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < n && status == WEFT_OK; i++)
        status = fill_piece(b, p->set, &q[i], err);
    if (status == WEFT_OK && p->set->mask.id >= 0)
        mask_rows(b, first, &p->set->mask, key, (uint64_t)number);
    return status;
}

static void empty_batch(batch *b)
{
    *b = (batch){ .row = b->row, .seq = b->seq, .features = b->features };
}

/* Sample k of a part; its number is that of the seed's order. */
static void fill_picture(batch *b, const data_part *p, int64_t k, bool learned, uint64_t seed,
                         int64_t number)
{
    pictures_add(p->set->pictures, p->picture[k], learned, seed, (uint64_t)number, b,
                 (real *)b->features); /* the room is ours */
}

weft_status data_fill(batch *b, const data_part *p, uint64_t seed, int64_t i, int32_t n,
                      weft_error *err)
{
    weft_status status = WEFT_OK;
    empty_batch(b);
    for (int64_t end = i + n; i < end && status == WEFT_OK; i++) {
        const int64_t k = shuffled(p, seed, i);
        if (p->picture)
            fill_picture(b, p, k, true, seed, i);
        else
            status = fill_sample(b, p, k, p->begin + k, mask_key(seed), i, err);
    }
    return status;
}

weft_status data_fill_in_order(batch *b, const data_part *p, int64_t i, int32_t n, weft_error *err)
{
    weft_status status = WEFT_OK;
    empty_batch(b);
    for (int64_t end = i + n; i < end && status == WEFT_OK; i++)
        if (p->picture)
            fill_picture(b, p, i, false, 0, i);
        else
            status = fill_sample(b, p, i, p->begin + i * p->set->n_ctx, SPLIT_KEY, i, err);
    return status;
}

/* Those of sample `number` that masks choose. */
static int64_t count_chosen(const data_part *p, const data_piece *q, int64_t n_piece, uint64_t seed,
                            int64_t number)
{
    const uint64_t key = mask_key(seed);
    int64_t n = 0;
    uint64_t at = 0;
    for (int64_t j = 0; j < n_piece; j++) {
        cursor c = cursor_at(&p->set->corpus, q[j].at);
        for (int32_t i = 0; i < q[j].n; i++)
            n += mask_chooses(&p->set->mask, key, (uint64_t)number, at++, (int32_t)cursor_next(&c));
    }
    return n;
}

int64_t data_targets(const data_part *p, uint64_t seed, int64_t i, int64_t n)
{
    int64_t n_target = 0;
    if (p->picture)
        return n;
    for (const int64_t end = i + n; i < end; i++) {
        data_piece window;
        int64_t n_piece;
        const int64_t k = shuffled(p, seed, i);
        const data_piece *q = sample_pieces(p, k, p->begin + k, &window, &n_piece);
        if (p->set->mask.id >= 0)
            n_target += count_chosen(p, q, n_piece, seed, i);
        for (int64_t j = 0; p->set->mask.id < 0 && j < n_piece; j++)
            n_target += piece_targets(&q[j], p->set->ahead);
    }
    return n_target;
}

/* ---- batches --------------------------------------------------------------------------------- */

/* Rows that are all there and all learned from, or of pictures the first: nothing can be larger. */
static void fill_largest(batch *b, int32_t n, int32_t n_ctx, bool first_only)
{
    empty_batch(b);
    b->n_seq = n;
    b->n_row = n * n_ctx;
    b->n_wanted = first_only ? n : b->n_row;
    for (int32_t s = 0; s < n; s++)
        b->seq[s] = (sequence){ .first = s * n_ctx, .n = n_ctx, .source = -1 };
    for (int32_t i = 0; i < b->n_row; i++)
        b->row[i] = (batch_row){
            .seq = i / n_ctx, .pos = i % n_ctx, .weight = 1, .wanted = !first_only || i % n_ctx == 0
        };
}

weft_status data_room(batch *b, const dataset *d, int32_t n, weft_error *err)
{
    mem *m = &d->corpus.host->mem;
    const int32_t most = d->train.most_seq > d->validation.most_seq ? d->train.most_seq
                                                                    : d->validation.most_seq;
    *b = (batch){ 0 };
    if (n < 1 || n > INT32_MAX / d->n_ctx)
        return weft_fail(err, WEFT_EINVAL, "a batch of %d samples of %lld rows", n,
                         (long long)d->n_ctx);
    b->row = mem_zalloc(m, (size_t)n * (size_t)d->n_ctx, sizeof *b->row, "rows of samples", err);
    b->seq = b->row ? mem_zalloc(m, (size_t)n * (size_t)most, sizeof *b->seq, "sequences", err)
                    : NULL;
    if (b->seq && d->pictures)
        b->features = mem_zalloc(m, (size_t)n * (size_t)d->n_ctx,
                                 (size_t)d->d_feature * sizeof *b->features, "features", err);
    if (!b->seq || (d->pictures && !b->features)) {
        data_room_free(b, d);
        return err->code;
    }
    fill_largest(b, n, (int32_t)d->n_ctx, d->pictures != NULL);
    return WEFT_OK;
}

void data_room_free(batch *b, const dataset *d)
{
    mem_free(&d->corpus.host->mem, b->row);
    mem_free(&d->corpus.host->mem, b->seq);
    mem_free(&d->corpus.host->mem, (void *)b->features);
    *b = (batch){ 0 };
}

/* ---- for eyes -------------------------------------------------------------------------------- */

static void show_token(const tokenizer *t, int32_t seq, int32_t id, bool target, data_token_fn *fn,
                       void *ud)
{
    const uint32_t u = (uint32_t)id;
    data_token k = {
        .seq = seq, .id = id, .target = target, .special = u < t->n_id && t->special[u]
    };
    const int64_t n = tokenizer_piece(t, u, &k.text);
    if (k.special && vocab_has(&t->vocab, u)) {
        k.text = vocab_text(&t->vocab, u);
        k.length = t->vocab.length[u];
    } else {
        k.length = n > 0 ? (size_t)n : 0;
    }
    fn(ud, &k);
}

void data_show(const batch *b, const dataset *d, const tokenizer *t, data_token_fn *fn, void *ud)
{
    for (int32_t s = 0; s < b->n_seq; s++) {
        const batch_row *row = b->row + b->seq[s].first;
        bool target = false;
        for (int32_t i = 0; i < b->seq[s].n; i++) {
            const bool next = row[i].target != NO_TARGET;
            show_token(t, s, row[i].id, d->ahead ? target : next, fn, ud);
            target = next;
        }
        if (target && d->ahead)
            show_token(t, s, row[b->seq[s].n - 1].target, true, fn, ud);
    }
}
