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

/* Of the places of spans: those of validation are always the same. */
#define NOISE_KEY 0x7765667420737061u

/* Targets of ids [at, at + n) that are the end of a text; the first of them is none, nor are those
 * before quiet. */
static int64_t count_eos(const corpus *c, int64_t at, int64_t n, int64_t quiet)
{
    const int64_t from = quiet > 1 ? quiet : 1;
    int64_t n_eos = 0;
    if (c->eos < 0 || from >= n)
        return 0;
    cursor k = cursor_at(c, at + from);
    for (int64_t i = from; i < n; i++)
        n_eos += cursor_next(&k) == (uint32_t)c->eos;
    return n_eos;
}

/* Targets of a piece, by whatever task. */
static int64_t targets_of(const dataset *d, const data_piece *q)
{
    return d->pairing.task == TASK_NEXT ? piece_targets(q)
                                        : pair_targets(&d->pairing, q->n, q->quiet);
}

/* What the samples of a part have for an encoder-decoder: rows of the decoder are targets. */
static void count_pair(data_part *p, const data_piece *q)
{
    const int64_t n = targets_of(p->set, q);
    p->counts.n_row += n;
    p->counts.n_target += n;
    p->counts.n_eos += n > 0 && p->set->corpus.eos >= 0;
}

static void stream_init(data_part *p, int64_t begin, int64_t end)
{
    const corpus *c = &p->set->corpus;
    const int64_t T = p->set->n_ctx, n = end - begin;
    p->begin = begin;
    p->end = end;
    p->n_sample = n < 2 ? 0 : n > T ? n - T : 1;
    p->n_in_order = n < 2 ? 0 : (n - 2) / T + 1;
    p->most_seq = 1;
    p->counts = (data_counts){ .n_sample = p->n_sample, .n_document = c->n_document };
    for (int64_t i = 0; p->set->pairing.task != TASK_NEXT && i < p->n_in_order; i++) {
        const int64_t left = n - i * T;
        count_pair(p, &(data_piece){ .n = (int32_t)(left > T ? T + 1 : left) });
    }
    if (n < 2 || p->set->pairing.task != TASK_NEXT)
        return;
    p->counts.n_row = p->counts.n_target = n - 1;
    p->counts.n_eos = count_eos(c, begin, n, 0);
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
        if (p->set->pairing.task != TASK_NEXT) {
            count_pair(p, q);
            continue;
        }
        p->counts.n_row += q->n - 1;
        p->counts.n_target += piece_targets(q);
        p->counts.n_eos += count_eos(&p->set->corpus, q->at, q->n, q->quiet);
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

/* What is not asked for follows from the data and from what the vocabulary has. */
static weft_status choose_task(dataset *d, weft_error *err)
{
    pairing *p = &d->pairing;
    const corpus *c = &d->corpus;
    if (!p->encodes)
        return p->task == TASK_NEXT
                   ? WEFT_OK
                   : weft_fail(err, WEFT_EINVAL, "sources are for models with an encoder");
    if (p->task == TASK_NEXT)
        p->task = c->n_prompt > 0 ? TASK_PAIRS : p->n_sentinel > 0 ? TASK_SPANS : TASK_INFILL;
    if (p->task == TASK_PAIRS && c->n_prompt < c->n_document)
        return weft_fail(err, WEFT_EINVAL, "%lld of %lld documents are no pairs",
                         (long long)(c->n_document - c->n_prompt), (long long)c->n_document);
    if (p->task != TASK_PAIRS && c->n_prompt > 0)
        return weft_fail(err, WEFT_EINVAL, "pairs are learned as pairs, and not cut into spans");
    if (p->task == TASK_SPANS && p->n_sentinel == 0)
        return weft_fail(err, WEFT_EINVAL, "the vocabulary has no <extra_id_0> for spans");
    if (p->task == TASK_INFILL && p->mask < 0)
        return weft_fail(err, WEFT_EINVAL, "the vocabulary has no <mask> for spans");
    return WEFT_OK;
}

weft_status data_open(dataset *d, const char *const *path, int n_path, const data_options *o,
                      host *h, weft_error *err)
{
    *d = (dataset){ .n_ctx = o->n_ctx, .train = { .set = d }, .validation = { .set = d } };
    d->pairing = o->pairing;
    weft_status status = check_options(o, n_path, err);
    if (status == WEFT_OK)
        status = corpus_open(&d->corpus, path, n_path, &o->corpus, h, err);
    if (status != WEFT_OK)
        return status;
    const corpus *c = &d->corpus;
    d->windows = o->style == DATA_WINDOWS ||
                 (o->style == DATA_STYLE_BY_KIND && c->n_prompt == 0 && c->n_document <= n_path);
    if (c->n_document == 0)
        status = weft_fail(err, WEFT_EFORMAT, "%s: no text in %s", path[0],
                           n_path > 1 ? "this and the other files" : "it");
    else if (choose_task(d, err) != WEFT_OK)
        status = err->code;
    else if (d->windows && c->n_prompt > 0)
        status = weft_fail(err, WEFT_EINVAL, "prompts are learned too where samples are windows");
    else
        status = d->windows ? split_stream(d, o->validation, err)
                            : pack_documents(d, o->validation, err);
    if (status != WEFT_OK)
        data_close(d);
    return status;
}

static void part_free(data_part *p, mem *m)
{
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
        *window = (data_piece){ .at = at, .n = (int32_t)(left > T ? T + 1 : left) };
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

/* The next id, if it is one: a mapped file may have been changed. */
static weft_status read_id(cursor *k, const corpus *c, uint32_t *id, weft_error *err)
{
    *id = cursor_next(k);
    if (*id < c->n_vocab)
        return WEFT_OK;
    return weft_fail(err, WEFT_EFORMAT, "%s: changed while it was used: id %u of %u",
                     k->source->file.path ? k->source->file.path : "memory", *id, c->n_vocab);
}

static weft_status fill_pair(batch *b, const dataset *d, const data_piece *q, uint64_t key,
                             uint64_t number, weft_error *err)
{
    pair_writer p;
    cursor k = cursor_at(&d->corpus, q->at);
    weft_status status = WEFT_OK;
    pair_begin(&p, &d->pairing, b, (batch *)b->src, q->n, q->quiet, key, number);
    for (int32_t i = 0; i < q->n && status == WEFT_OK; i++) {
        uint32_t id;
        status = read_id(&k, &d->corpus, &id, err);
        pair_add(&p, (int32_t)id);
    }
    pair_end(&p);
    return status;
}

static weft_status fill_piece(batch *b, const corpus *c, const data_piece *p, weft_error *err)
{
    const int32_t first = b->n_row, seq = b->n_seq++;
    batch_row *row = b->row + first;
    cursor k = cursor_at(c, p->at);
    b->seq[seq] = (sequence){ .first = first, .n = p->n - 1, .source = -1 };
    for (int32_t i = 0; i < p->n; i++) {
        uint32_t id;
        if (read_id(&k, c, &id, err) != WEFT_OK)
            return err->code;
        if (i + 1 < p->n)
            row[i] = (batch_row){
                .id = (int32_t)id, .seq = seq, .pos = i, .target = NO_TARGET, .weight = 1
            };
        if (i > 0 && i >= p->quiet) {
            row[i - 1].target = (int32_t)id;
            row[i - 1].wanted = true;
            b->n_wanted++;
        }
    }
    b->n_row += p->n - 1;
    return WEFT_OK;
}

/* Sample k, the i-th that is drawn with this key. */
static weft_status fill_sample(batch *b, const data_part *p, int64_t k, int64_t at, uint64_t key,
                               int64_t i_drawn, weft_error *err)
{
    data_piece window;
    int64_t n;
    const data_piece *q = sample_pieces(p, k, at, &window, &n);
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < n && status == WEFT_OK; i++)
        status = p->set->pairing.task == TASK_NEXT
                     ? fill_piece(b, &p->set->corpus, &q[i], err)
                     : fill_pair(b, p->set, &q[i], key, (uint64_t)i_drawn << 24 | (uint64_t)i, err);
    return status;
}

static void empty_batch(batch *b)
{
    batch *src = (batch *)b->src;
    *b = (batch){ .row = b->row, .seq = b->seq, .src = src };
    if (src)
        *src = (batch){ .row = src->row, .seq = src->seq };
}

weft_status data_fill(batch *b, const data_part *p, uint64_t seed, int64_t i, int32_t n,
                      weft_error *err)
{
    weft_status status = WEFT_OK;
    empty_batch(b);
    for (int64_t end = i + n; i < end && status == WEFT_OK; i++) {
        const int64_t k = shuffled(p, seed, i);
        status = fill_sample(b, p, k, p->begin + k, seed ^ NOISE_KEY, i, err);
    }
    return status;
}

weft_status data_fill_in_order(batch *b, const data_part *p, int64_t i, int32_t n, weft_error *err)
{
    weft_status status = WEFT_OK;
    empty_batch(b);
    for (int64_t end = i + n; i < end && status == WEFT_OK; i++)
        status = fill_sample(b, p, i, p->begin + i * p->set->n_ctx, NOISE_KEY, i, err);
    return status;
}

int64_t data_targets(const data_part *p, uint64_t seed, int64_t i, int64_t n)
{
    int64_t n_target = 0;
    for (const int64_t end = i + n; i < end; i++) {
        data_piece window;
        int64_t n_piece;
        const int64_t k = shuffled(p, seed, i);
        const data_piece *q = sample_pieces(p, k, p->begin + k, &window, &n_piece);
        for (int64_t j = 0; j < n_piece; j++)
            n_target += targets_of(p->set, &q[j]);
    }
    return n_target;
}

/* ---- batches --------------------------------------------------------------------------------- */

/* Rows that are all there and all learned from: nothing can be larger. */
static void fill_largest(batch *b, int32_t n, int32_t n_ctx)
{
    *b = (batch){ .row = b->row,
                  .seq = b->seq,
                  .src = b->src,
                  .n_seq = n,
                  .n_row = n * n_ctx,
                  .n_wanted = n * n_ctx };
    for (int32_t s = 0; s < n; s++)
        b->seq[s] = (sequence){ .first = s * n_ctx, .n = n_ctx, .source = -1 };
    for (int32_t i = 0; i < b->n_row; i++)
        b->row[i] = (batch_row){ .seq = i / n_ctx, .pos = i % n_ctx, .weight = 1, .wanted = true };
    if (!b->src)
        return;
    fill_largest((batch *)b->src, n, n_ctx);
    for (int32_t s = 0; s < n; s++)
        b->seq[s].source = s;
}

static bool take_room(batch *b, mem *m, size_t n_row, size_t n_seq, weft_error *err)
{
    b->row = mem_zalloc(m, n_row, sizeof *b->row, "rows of samples", err);
    b->seq = b->row ? mem_zalloc(m, n_seq, sizeof *b->seq, "sequences", err) : NULL;
    return b->seq != NULL;
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
    const size_t n_row = (size_t)n * (size_t)d->n_ctx, n_seq = (size_t)n * (size_t)most;
    bool good = take_room(b, m, n_row, n_seq, err);
    if (good && d->pairing.task != TASK_NEXT) {
        batch *src = mem_zalloc(m, 1, sizeof *src, "sources", err);
        b->src = src;
        good = src && take_room(src, m, n_row, n_seq, err);
    }
    if (!good) {
        data_room_free(b, d);
        return err->code;
    }
    fill_largest(b, n, (int32_t)d->n_ctx);
    return WEFT_OK;
}

void data_room_free(batch *b, const dataset *d)
{
    mem *m = &d->corpus.host->mem;
    batch *src = (batch *)b->src;
    if (src) {
        mem_free(m, src->row);
        mem_free(m, src->seq);
        mem_free(m, src);
    }
    mem_free(m, b->row);
    mem_free(m, b->seq);
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

void data_show(const batch *b, const tokenizer *t, data_token_fn *fn, void *ud)
{
    for (int32_t s = 0; s < b->n_seq; s++) {
        const batch_row *row = b->row + b->seq[s].first;
        bool target = false;
        const sequence *from = b->src ? &b->src->seq[b->seq[s].source] : NULL;
        for (int32_t i = 0; from && i < from->n; i++)
            show_token(t, s, b->src->row[from->first + i].id, false, fn, ud);
        for (int32_t i = 0; i < b->seq[s].n; i++) {
            show_token(t, s, row[i].id, target, fn, ud);
            target = row[i].target != NO_TARGET;
        }
        if (target)
            show_token(t, s, row[b->seq[s].n - 1].target, true, fn, ud);
    }
}
