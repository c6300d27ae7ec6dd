/* rows.c - the row makers: ids or features, targets and weights of each row. */
#include "train/rows.h"

#include "train/data.h"

/* ---- reading ids ----------------------------------------------------------------------------- */

/* Reads ids in order, across sources. */
typedef struct cursor {
    const source *source;
    uint64_t at; /* in the source */
} cursor;

static cursor cursor_at(const corpus *c, int64_t at)
{
    const source *s = corpus_find(c, at);
    return (cursor){ s, (uint64_t)(at - s->first_id) };
}

static uint32_t cursor_next(cursor *c, bool *has_loss)
{
    if (c->at == c->source->shard.n_id) {
        c->source++;
        c->at = 0;
    }
    *has_loss = shard_has_loss(&c->source->shard, c->at);
    return shard_id(&c->source->shard, c->at++);
}

/* Reads and checks the next id: a mapped file may have been changed. */
static weft_status read_id(cursor *k, const corpus *c, int32_t *id, bool *has_loss, weft_error *err)
{
    const uint32_t u = cursor_next(k, has_loss);
    *id = (int32_t)u;
    if (u < c->n_vocab)
        return WEFT_OK;
    return weft_fail(err, WEFT_EFORMAT, "%s: changed while in use: id %u of %u",
                     k->source->file.path ? k->source->file.path : "memory", u, c->n_vocab);
}

/* ---- next-token targets ---------------------------------------------------------------------- */

/* Appends the ids of a piece; the last `ahead` of them are targets only. */
static weft_status read_piece(batch *b, const dataset *d, const data_piece *q, weft_error *err)
{
    const int32_t ahead = (int32_t)d->make->ahead, seq = b->n_seq++;
    batch_row *row = b->row + b->n_row;
    cursor k = cursor_at(&d->corpus, q->at);
    b->seq[seq] = (sequence){ .first = b->n_row, .n = q->n - ahead, .source = -1 };
    for (int32_t i = 0; i < q->n; i++) {
        int32_t id;
        bool has_loss;
        if (read_id(&k, &d->corpus, &id, &has_loss, err) != WEFT_OK)
            return err->code;
        if (i + ahead < q->n)
            row[i] = (batch_row){
                .id = id, .seq = seq, .pos = i, .target = NO_TARGET, .weight = 1
            };
        if (ahead && i > 0 && i >= q->n_prompt && has_loss) {
            row[i - 1].target = id;
            row[i - 1].wanted = true;
            b->n_wanted++;
        }
    }
    b->n_row += q->n - ahead;
    return WEFT_OK;
}

static weft_status fill_next(batch *b, const dataset *d, const data_piece *q, chance c,
                             weft_error *err)
{
    (void)c;
    return read_piece(b, d, q, err);
}

/* The first id is not a target, nor are the ids of the prompt. */
static int32_t first_target(const data_piece *q)
{
    return q->n_prompt > 1 ? q->n_prompt : 1;
}

static void count_next(data_counts *n, const dataset *d, const data_piece *q)
{
    const corpus *c = &d->corpus;
    n->n_row += q->n - 1;
    cursor k = cursor_at(c, q->at + first_target(q));
    for (int32_t i = first_target(q); i < q->n; i++) {
        bool has_loss;
        const uint32_t id = cursor_next(&k, &has_loss);
        n->n_target += has_loss;
        n->n_eos += has_loss && c->eos >= 0 && id == (uint32_t)c->eos;
    }
}

static int64_t targets_next(const dataset *d, const data_piece *q, chance c)
{
    data_counts n = { 0 };
    (void)c;
    count_next(&n, d, q);
    return n.n_target;
}

const row_maker rows_next = { 1, fill_next, targets_next, count_next };

/* ---- pairs of which one is preferred --------------------------------------------------------- */

static weft_status fill_preferred(batch *b, const dataset *d, const data_piece *q, chance c,
                                  weft_error *err)
{
    (void)c;
    b->prefer->document[b->n_seq] = q->label;
    return read_piece(b, d, q, err);
}

static int64_t targets_preferred(const dataset *d, const data_piece *q, chance c)
{
    (void)d;
    (void)c;
    return q->label % 2 == 0;
}

const row_maker rows_preferred = { 1, fill_preferred, targets_preferred, count_next };

/* ---- masks ----------------------------------------------------------------------------------- */

static weft_status fill_masked(batch *b, const dataset *d, const data_piece *q, chance c,
                               weft_error *err)
{
    const int32_t first = b->n_row;
    if (read_piece(b, d, q, err) != WEFT_OK)
        return err->code;
    mask_rows(b, first, &d->mask, c.key, c.number);
    return WEFT_OK;
}

static int64_t targets_masked(const dataset *d, const data_piece *q, chance c)
{
    cursor k = cursor_at(&d->corpus, q->at);
    int64_t n = 0;
    for (int32_t i = 0; i < q->n; i++) {
        bool has_loss;
        const int32_t id = (int32_t)cursor_next(&k, &has_loss);
        n += mask_chooses(&d->mask, c.key, c.number, (uint64_t)i, id);
    }
    return n;
}

/* Masks are drawn anew in every epoch, so this adds the expected count. */
static void count_masked(data_counts *n, const dataset *d, const data_piece *q)
{
    n->n_row += q->n;
    n->n_target = (int64_t)(d->mask.share * (double)n->n_row + 0.5);
}

const row_maker rows_masked = { 0, fill_masked, targets_masked, count_masked };

/* ---- pairs ----------------------------------------------------------------------------------- */

static weft_status fill_paired(batch *b, const dataset *d, const data_piece *q, chance c,
                               weft_error *err)
{
    pair_writer p;
    cursor k = cursor_at(&d->corpus, q->at);
    weft_status status = WEFT_OK;
    pair_begin(&p, &d->pairing, b, (batch *)b->src, q->n, q->n_prompt, c.key, c.number);
    for (int32_t i = 0; i < q->n && status == WEFT_OK; i++) {
        int32_t id;
        bool has_loss;
        status = read_id(&k, &d->corpus, &id, &has_loss, err);
        pair_add(&p, id);
    }
    pair_end(&p);
    return status;
}

static int64_t targets_paired(const dataset *d, const data_piece *q, chance c)
{
    (void)c;
    return pair_targets(&d->pairing, q->n, q->n_prompt);
}

/* Rows of the decoder, which all have targets. */
static void count_paired(data_counts *n, const dataset *d, const data_piece *q)
{
    const int64_t n_target = pair_targets(&d->pairing, q->n, q->n_prompt);
    n->n_row += n_target;
    n->n_target += n_target;
    n->n_eos += n_target > 0 && d->corpus.eos >= 0;
}

const row_maker rows_paired = { 1, fill_paired, targets_paired, count_paired };

/* ---- images -------------------------------------------------------------------------------- */

static weft_status fill_image(batch *b, const dataset *d, const data_piece *q, chance c,
                              weft_error *err)
{
    (void)err;
    image_set_add(d->images, q->at, c.learned, c.key, c.number, b,
                  (real *)b->features); /* the batch's buffer is ours to write */
    return WEFT_OK;
}

static int64_t image_targets(const dataset *d, const data_piece *q, chance c)
{
    (void)d, (void)q, (void)c;
    return 1;
}

static void count_image(data_counts *n, const dataset *d, const data_piece *q)
{
    (void)d;
    n->n_row += q->n;
    n->n_target++;
}

const row_maker rows_image = { 0, fill_image, image_targets, count_image };

/* ---- labels ---------------------------------------------------------------------------------- */

/* A text that is too long keeps its last id, which marks its end. */
static weft_status fill_labelled(batch *b, const dataset *d, const data_piece *q, chance c,
                                 weft_error *err)
{
    (void)c;
    batch_row *row = b->row + b->n_row;
    const data_piece part = { .at = q->at, .n = q->n - (q->left_out > 0) };
    if (read_piece(b, d, &part, err) != WEFT_OK)
        return err->code;
    if (part.n < q->n) {
        cursor k = cursor_at(&d->corpus, q->at + part.n + q->left_out);
        batch_row last = { .seq = b->n_seq - 1, .pos = part.n, .target = NO_TARGET, .weight = 1 };
        bool has_loss;
        if (read_id(&k, &d->corpus, &last.id, &has_loss, err) != WEFT_OK)
            return err->code;
        b->row[b->n_row++] = last;
        b->seq[last.seq].n++;
    }
    for (int32_t i = q->n_prompt; q->n_prompt > 0 && i < q->n; i++)
        row[i].type = 1;
    row->target = q->label;
    row->wanted = true;
    b->n_wanted++;
    return WEFT_OK;
}

static int64_t targets_labelled(const dataset *d, const data_piece *q, chance c)
{
    (void)d, (void)q, (void)c;
    return 1;
}

static void count_labelled(data_counts *n, const dataset *d, const data_piece *q)
{
    (void)d;
    n->n_row += q->n;
    n->n_target++;
}

const row_maker rows_labelled = { 0, fill_labelled, targets_labelled, count_labelled };
