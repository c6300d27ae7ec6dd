/* data.c - the public functions that inspect the data of a run before it starts. */
#include "api/train_init.h"
#include "api/train_options.h"
#include "formats/manifest.h"
#include "text/finish.h"
#include "text/sources/source.h"
#include "train/image_set.h"

struct weft_data {
    host host;
    tokenizer tokenizer;
    run_labels labels;
    run_template chat;
    dataset data;
    image_set images;    /* in place of a tokenizer and a dataset, */
    bool sees;           /* if this is true */
    weft_budget *budget; /* referenced; or NULL */
};

/* The block holds its own allocator. */
static void release(weft_data *d)
{
    host h = d->host;
    weft_budget *budget = d->budget;
    mem_free(&h.mem, d);
    weft_budget_free(budget);
}

/* Trains the tokenizer that the run would train, without writing a file. */
static weft_status make_tokenizer(weft_data *d, const weft_train_options *o, weft_error *err)
{
    trained made;
    train_options how;
    buffer json;
    weft_status status = learn_tokenizer(&made, &how, o, &d->host, err);
    if (status != WEFT_OK)
        return status;
    buffer_begin(&json, &d->host.mem, err);
    trained_put(&made, &how, &json);
    trained_free(&made);
    status = json.failed ? err->code
                         : tokenizer_begin(&d->tokenizer, "the data", "data", &d->host, err);
    if (status == WEFT_OK) {
        status = source_json(&d->tokenizer, json.at, json.n, err);
        if (status == WEFT_OK)
            status = tokenizer_finish(&d->tokenizer, err);
        d->tokenizer.eos = how.wordpiece ? -1 : 0; /* its first special token */
        if (status != WEFT_OK)
            tokenizer_free(&d->tokenizer);
    }
    buffer_end(&json);
    return status;
}

/* The sizes that matter for the data, from the existing model or from the one that would be
 * created. */
static weft_status find_sizes(weft_data *d, const weft_train_options *o, const char *from,
                              learned *of, weft_error *err)
{
    if (from) {
        model m;
        weft_status status = model_open(&m, from, WEFT_LOAD_MAP, &d->host, err);
        if (status == WEFT_OK) {
            *of = learned_of(&m);
            status = take_labels(&d->labels, o, &m, &d->host, err);
            model_close(&m);
        }
        return status;
    }
    init_model_shape s = { 0 };
    weft_status status = train_shape(o, &s, err);
    if (status == WEFT_OK)
        status = take_labels(&d->labels, o, NULL, &d->host, err);
    if (status != WEFT_OK)
        return status;
    const int64_t V = (int64_t)d->tokenizer.n_id;
    *of = (learned){ V,
                     s.n_ctx,
                     init_model_task(s.arch),
                     init_model_has_encoder(s.arch) ? V : 0,
                     d->tokenizer.eos,
                     NULL,
                     NULL };
    return WEFT_OK;
}

static weft_status open_data(weft_data *d, const weft_train_options *o, weft_error *err)
{
    const char *from = o->resume ? o->out : o->model, *text = o->tokenizer ? o->tokenizer : from;
    learned of;
    if (o->n_data > 0 && is_image_set(o->data[0], &d->host)) {
        d->sees = true;
        return image_set_list(&d->images, o->data, o->n_data, o->load, &d->host, err);
    }
    weft_status status = text ? tokenizer_load(&d->tokenizer, text, NULL, o->load, &d->host, err)
                              : make_tokenizer(d, o, err);
    if (status != WEFT_OK)
        return status;
    data_options how;
    status = find_sizes(d, o, from, &of, err);
    if (status == WEFT_OK)
        status = take_run_template(&d->chat, o, text, &d->host, err);
    of.labels = status == WEFT_OK && d->labels.used ? &d->labels : NULL;
    of.chat = &d->chat;
    if (status == WEFT_OK)
        status = data_of(o, &d->tokenizer, &of, &how, err);
    if (status == WEFT_OK)
        status = data_open(&d->data, o->data, o->n_data, &how, &d->host, err);
    if (status != WEFT_OK) {
        drop_run_template(&d->chat);
        drop_labels(&d->labels);
        tokenizer_free(&d->tokenizer);
    }
    return status;
}

weft_data *weft_data_open(const weft_train_options *options, weft_error *err)
{
    weft_train_options o;
    weft_error local;
    err = begin_call(err, &local);
    if (take_train_options(&o, options, err) != WEFT_OK)
        return NULL;
    if (o.resume && !o.out) {
        weft_fail(err, WEFT_EINVAL, "no directory for the run given");
        return NULL;
    }
    host h = { .io = io_system, .log = { o.log, o.log_ud } };
    take_memory(&h, o.ram_max, o.budget);
    weft_data *d = mem_zalloc(&h.mem, 1, sizeof *d, "data", err);
    if (!d)
        return NULL;
    d->host = h;
    d->budget = hold_budget(o.budget);
    if (open_data(d, &o, err) == WEFT_OK)
        return d;
    release(d);
    return NULL;
}

void weft_data_close(weft_data *d)
{
    if (!d)
        return;
    if (d->sees) {
        image_set_close(&d->images);
        release(d);
        return;
    }
    data_close(&d->data);
    drop_run_template(&d->chat);
    drop_labels(&d->labels);
    tokenizer_free(&d->tokenizer);
    release(d);
}

static weft_data_counts counts_of(const data_part *p)
{
    const data_counts *c = &p->counts;
    return (weft_data_counts){ .n_sample = c->n_sample,
                               .n_document = c->n_document,
                               .n_cut = c->n_cut,
                               .n_truncated = c->n_truncated,
                               .n_skipped = c->n_skipped,
                               .n_row = c->n_row,
                               .n_target = c->n_target,
                               .n_end = c->n_eos };
}

void weft_data_get_info(const weft_data *d, weft_data_info *info)
{
    if (!info)
        return;
    if (!d) {
        copy_result(info, info->struct_size, &(weft_data_info){ .end_id = -1 }, sizeof *info);
        return;
    }
    if (d->sees) {
        const image_set *p = &d->images;
        copy_result(info, info->struct_size,
                    &(weft_data_info){ .end_id = -1,
                                       .bytes = d->host.mem.used,
                                       .n_image = p->n,
                                       .n_class = p->n_class,
                                       .height = p->height,
                                       .width = p->width },
                    sizeof *info);
        return;
    }
    const corpus *c = &d->data.corpus;
    weft_data_info i = { .windows = d->data.windows,
                         .n_ctx = d->data.n_ctx,
                         .n_vocab = (int32_t)c->n_vocab,
                         .end_id = c->eos,
                         .n_token = c->n_id,
                         .n_document = c->n_document,
                         .n_empty = c->n_empty,
                         .n_prompt = c->n_prompt,
                         .n_straddling = c->n_straddling,
                         .train = counts_of(&d->data.train),
                         .validation = counts_of(&d->data.validation),
                         .bytes = d->host.mem.used,
                         .n_label = d->labels.set.n,
                         .n_conversation = c->chat.n_conversation,
                         .n_answer = c->chat.n_answer,
                         .n_unprompted = c->chat.n_unprompted,
                         .n_preference = c->n_preference,
                         .n_thought_dropped = c->chat.n_thought_dropped,
                         .n_endless = c->chat.n_endless };
    copy_result(info, info->struct_size, &i, sizeof i);
}

/* Converts the internal view of tokens to the caller's. */
typedef struct viewer {
    weft_data_fn *fn;
    void *ud;
} viewer;

static void pass_on(void *ud, const data_token *t)
{
    const viewer *v = ud;
    const weft_data_token k = { .struct_size = sizeof k,
                                .sequence = t->seq,
                                .id = t->id,
                                .text = t->length > 0 ? t->text : "",
                                .length = t->length,
                                .special = t->special,
                                .learned = t->target };
    v->fn(v->ud, &k);
}

weft_status weft_data_show(weft_data *d, uint64_t seed, int64_t sample, weft_data_fn *fn, void *ud,
                           weft_error *err)
{
    batch b;
    weft_error local;
    err = begin_call(err, &local);
    if (!d || !fn)
        return weft_fail(err, WEFT_EINVAL, "no %s given", d ? "callback" : "data");
    if (d->sees)
        return weft_fail(err, WEFT_EINVAL, "images have no tokens to show");
    if (sample < 0 || sample >= MAX_SAMPLE)
        return weft_fail(err, WEFT_EINVAL, "sample is %lld, expected 0 to %lld", (long long)sample,
                         (long long)MAX_SAMPLE - 1);
    weft_status status = data_room(&b, &d->data, 1, err);
    if (status != WEFT_OK)
        return status;
    status = data_fill(&b, &d->data.train, seed, sample, 1, err);
    if (status == WEFT_OK)
        status = data_show(&b, &d->data, &d->tokenizer, pass_on, &(viewer){ fn, ud }, err);
    data_room_free(&b, &d->data);
    return status;
}

weft_status weft_data_save(const weft_data *d, const char *path, weft_error *err)
{
    weft_error local;
    err = begin_call(err, &local);
    if (!d || !path)
        return weft_fail(err, WEFT_EINVAL, "no %s given", d ? "path" : "data");
    if (d->labels.used || d->sees)
        return weft_fail(err, WEFT_EINVAL, "%s: ids have no %s", path,
                         d->sees ? "pictures" : "labels");
    if (d->data.corpus.n_preference > 0)
        return weft_fail(err, WEFT_EINVAL, "%s: ids do not say which of two answers is preferred",
                         path);
    return corpus_save(&d->data.corpus, path, err);
}
