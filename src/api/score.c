/* score.c - counts the texts of a table for which a model predicts the correct label. */
#include "api/train_options.h"
#include "engine/encode.h"
#include "train/learner.h"

typedef struct scoring {
    const model *model;
    encode_engine *engine;
    dataset data;
    batch batch;       /* scratch for a sample, */
    weft_input *input; /* its texts, */
    int32_t *id;       /* [n_ctx] their tokens */
    uint8_t *type;
    float *out; /* [most_seq, n_out] */
    weft_score score;
} scoring;

/* Scores the texts of the batch, which are stored one after the other. */
static weft_status score_batch(scoring *s, weft_error *err)
{
    const batch *b = &s->batch;
    const int64_t n = s->model->n_out;
    for (int32_t i = 0; i < b->n_row; i++) {
        s->id[i] = b->row[i].id;
        s->type[i] = (uint8_t)b->row[i].type;
    }
    for (int32_t k = 0; k < b->n_seq; k++) {
        const int32_t first = b->seq[k].first;
        s->input[k] = (weft_input){
            .ids = s->id + first, .types = s->type + first, .n = b->seq[k].n, .out = s->out + k * n
        };
    }
    const weft_status status = encode_engine_eval(s->engine, s->input, b->n_seq, err);
    for (int32_t k = 0; k < b->n_seq && status == WEFT_OK; k++) {
        const int32_t target = b->row[b->seq[k].first].target;
        s->score.n_right += logits_score(s->input[k].out, n, target, &s->score.loss);
        s->score.n++;
    }
    return status;
}

static bool score_room(scoring *s, weft_error *err)
{
    mem *from = &s->model->host->mem;
    const size_t T = (size_t)s->data.n_ctx, n = (size_t)s->data.train.most_seq;
    s->id = mem_zalloc(from, T, sizeof *s->id, "tokens", err);
    s->type = s->id ? mem_zalloc(from, T, 1, "tokens", err) : NULL;
    s->input = s->type ? mem_zalloc(from, n, sizeof *s->input, "texts", err) : NULL;
    s->out = s->input ? mem_zalloc(from, n, (size_t)s->model->n_out * sizeof *s->out, "logits", err)
                      : NULL;
    return s->out && data_room(&s->batch, &s->data, 1, err) == WEFT_OK;
}

static weft_status score_all(scoring *s, int threads, weft_error *err)
{
    const encode_engine_options o = { .n_thread = threads };
    mem *from = &s->model->host->mem;
    const data_part *p = &s->data.train;
    weft_status status = score_room(s, err) ? WEFT_OK : err->code;
    s->engine = status == WEFT_OK ? encode_engine_new(s->model, &o, err) : NULL;
    status = s->engine ? WEFT_OK : err->code;
    for (int64_t i = 0; i < p->n_in_order && status == WEFT_OK; i++) {
        status = data_fill_in_order(&s->batch, p, i, 1, err);
        if (status == WEFT_OK)
            status = score_batch(s, err);
    }
    s->score.loss /= (double)s->score.n;
    encode_engine_free(s->engine);
    data_room_free(&s->batch, &s->data);
    mem_free(from, s->out);
    mem_free(from, s->input);
    mem_free(from, s->type);
    mem_free(from, s->id);
    return status;
}

static weft_status score_texts(weft_model *w, const tokenizer *t, const weft_train_options *o,
                               weft_score *score, weft_error *err)
{
    scoring s = { .model = &w->model };
    run_labels l;
    data_options how;
    weft_status status = take_labels(&l, o, &w->model, &w->host, err);
    if (status != WEFT_OK)
        return status;
    learned of = learned_of(&w->model);
    of.labels = &l;
    status = data_of(o, t, &of, &how, err);
    how.validation = 0;
    if (status == WEFT_OK)
        status = data_open(&s.data, o->data, o->n_data, &how, &w->host, err);
    if (status == WEFT_OK) {
        status = score_all(&s, o->threads, err);
        data_close(&s.data);
    }
    drop_labels(&l);
    if (status == WEFT_OK)
        copy_result(score, score->struct_size, &s.score, sizeof s.score);
    return status;
}

weft_status weft_text_score(weft_model *w, const weft_tokenizer *t,
                            const weft_train_options *options, weft_score *score, weft_error *err)
{
    weft_train_options o;
    weft_error local;
    err = begin_call(err, &local);
    if (!w || !t)
        return weft_fail(err, WEFT_EINVAL, "no %s given", w ? "tokenizer" : "model");
    if (!result_fits(score, "weft_score", err) || take_train_options(&o, options, err) != WEFT_OK)
        return err->code;
    if (w->model.image.channels > 0 || w->model.task != WEFT_TASK_CLASSIFY)
        return weft_fail(err, WEFT_EUNSUPPORTED, "%s: does not classify texts", w->model.file.path);
    return score_texts(w, tokenizer_inside(t), &o, score, err);
}
