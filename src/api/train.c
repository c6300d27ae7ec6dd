/* train.c - the public function that trains: check, translate, delegate. Here training and the
 * engine meet: the callback gets the model being trained, and may run it. */
#include "api/train_init.h"
#include "api/train_lora.h"
#include "api/train_options.h"
#include "api/train_ranks.h"
#include "base/cpu.h"
#include "engine/estimate.h"
#include "text/sources/source.h"
#include "train/image_set.h"
#include "train/init_model.h"
#include "train/metrics_log.h"
#include "train/run_lock.h"
#include "train/trainer.h"

#include <stdio.h>
#include <string.h>

/* The parts of a run; zeroed until they are set up. */
typedef struct training {
    const weft_train_options *o;
    train_job *job;
    weft_model *model; /* all parts share its host */
    tokenizer tokenizer;
    image_set images; /* for an image model, which has no tokenizer */
    run_labels labels;
    run_template chat;
    run_adapter own; /* with options.lora */
    dataset data;
    hf_form form;
    trainer trainer;
    metrics_log metrics;
    bool has_tokenizer, has_images, has_data, has_form, has_trainer;
    double flops;        /* per token, forward and backward */
    double product_rate; /* of this machine */
    double predicted;    /* seconds for all steps */
    trainer_report last;
} training;

static void training_end(training *t)
{
    metrics_log_close(&t->metrics);
    if (t->has_trainer)
        trainer_free(&t->trainer);
    if (t->has_form)
        hf_form_free(&t->form);
    if (t->has_data)
        data_close(&t->data);
    if (t->has_images)
        image_set_close(&t->images);
    if (t->has_tokenizer)
        tokenizer_free(&t->tokenizer);
    drop_labels(&t->labels);
    drop_run_template(&t->chat);
    drop_run_adapter(&t->own);
    weft_model_close(t->model);
}

static weft_status open_model(training *t, const char *from, weft_error *err)
{
    const weft_model_options o = { .struct_size = sizeof o,
                                   .load = t->o->load,
                                   .budget = t->o->budget,
                                   .log = t->o->log,
                                   .log_ud = t->o->log_ud };
    t->model = weft_model_open(from, &o, err);
    if (!t->model)
        return err->code;
    return t->o->lora ? WEFT_OK : refuse_quantised(&t->model->model, err);
}

static weft_status open_images(training *t, weft_error *err)
{
    const weft_train_options *o = t->o;
    const model *m = &t->model->model;
    weft_status status = image_set_list(&t->images, o->data, o->n_data, o->load, &t->model->host,
                                        err);
    t->has_images = status == WEFT_OK;
    t->images.shift = o->shift;
    if (status == WEFT_OK)
        status = image_set_load(&t->images, m, err);
    if (status == WEFT_OK)
        status = data_open_images(&t->data, &t->images, m, o->validation, err);
    t->has_data = status == WEFT_OK;
    return status;
}

OWN_FRAME static weft_status open_data(training *t, const char *from, weft_error *err)
{
    const weft_train_options *o = t->o;
    host *h = &t->model->host;
    if (t->model->model.image.channels > 0)
        return open_images(t, err);
    const char *text = !o->model ? from : o->tokenizer ? o->tokenizer : o->model;
    weft_status status = tokenizer_load(&t->tokenizer, text, NULL, o->load, h, err);
    t->has_tokenizer = status == WEFT_OK;
    if (status != WEFT_OK)
        return status;
    learned of = learned_of(&t->model->model);
    data_options d;
    status = take_labels(&t->labels, o, &t->model->model, h, err);
    of.labels = t->labels.used ? &t->labels : NULL;
    of.chat = &t->chat;
    if (status == WEFT_OK)
        status = take_run_template(&t->chat, o, text, h, err);
    if (status == WEFT_OK)
        status = data_of(o, &t->tokenizer, &of, &d, err);
    if (status == WEFT_OK)
        status = data_open(&t->data, o->data, o->n_data, &d, h, err);
    t->has_data = status == WEFT_OK;
    return status;
}

/* ---- reports to the callback ----------------------------------------------------------------- */

static double rate(double n, double seconds)
{
    return seconds > 0 ? n / seconds : NAN;
}

static weft_train_progress progress_of(const training *t, const trainer_report *r)
{
    const bool begun = r->n_row > 0;
    const double fast = begun ? rate((double)r->n_row, r->seconds) : NAN;
    return (weft_train_progress){
        .struct_size = sizeof(weft_train_progress),
        .step = r->step,
        .n_step = r->n_step,
        .loss = r->loss,
        .smoothed = r->smoothed,
        .lr = r->lr,
        .grad_norm = r->norm,
        .val_loss = r->evaluated ? r->val_loss : NAN,
        .best_val_loss = isfinite(r->best) ? r->best : NAN,
        .best_step = r->best_step,
        .n_token = r->n_row_all,
        .tokens_per_second = fast,
        .share = rate(t->flops * fast, t->product_rate),
        .seconds_left = r->left,
        .skipped = r->skipped,
        .n_skipped = r->n_skipped,
        .saved = r->saved,
        .bytes = t->model->host.mem.peak,
        .val_accuracy = r->evaluated ? r->val_accuracy : NAN,
        .expert_least = begun ? r->load_least : NAN,
        .expert_most = begun ? r->load_most : NAN,
        .margin = r->pairs.n > 0 ? r->pairs.margin : NAN,
        .right = r->pairs.n > 0 ? r->pairs.accuracy : NAN,
        .logp_chosen = r->pairs.n > 0 ? r->pairs.chosen : NAN,
        .logp_rejected = r->pairs.n > 0 ? r->pairs.rejected : NAN,
        .adapter = t->own.lent,
    };
}

/* Gradients and moments lie in flat blocks, at the same offsets as the weights. */
static void show_tensors(const training *t, const trainer_report *r)
{
    const adamw *a = &t->trainer.learner.adamw;
    const params *p = a->p;
    for (int64_t i = 0; i < p->n_tensor; i++) {
        const tensor *w = p->tensor[i];
        const int64_t at = p->at[i];
        weft_train_tensor out = { .struct_size = sizeof out,
                                  .name = w->name,
                                  .step = r->step,
                                  .n_dim = w->n_dim,
                                  .n = 1,
                                  .weight = p->value + at,
                                  .grad = w->needs_grad ? p->grad + at : NULL,
                                  .m = w->needs_grad ? a->m + at : NULL,
                                  .v = w->needs_grad ? a->v + at : NULL,
                                  .clip = adamw_clip(&a->opt, r->norm) };
        for (int d = 0; d < w->n_dim; d++)
            out.n *= out.shape[d] = w->shape[d];
        t->o->tensor(t->o->tensor_ud, &out);
    }
}

static bool tell(void *ud, const trainer_report *r)
{
    training *t = ud;
    if (t->own.lent) /* no session takes rows of an earlier step for the adapter's */
        ready_renew(adapter_ready(t->own.lent));
    if (r->n_row > 0) /* the measured rate is too low if the machine was busy then */
        t->product_rate = fmax(t->product_rate, rate(t->flops * (double)r->n_row, r->seconds));
    const weft_train_progress p = progress_of(t, r);
    if (r->n_row == 0)
        t->predicted = r->left;
    if (t->o->tensor && r->n_row > 0 && !r->skipped)
        show_tensors(t, r);
    const bool goes_on = !t->o->progress || t->o->progress(t->o->progress_ud, &p, t->model);
    size_t n_sample = 0;
    const char *sample = NULL;
    if (goes_on && r->n_row > 0 && isfinite(p.val_loss) && t->o->sample)
        sample = t->o->sample(t->o->sample_ud, t->model, &n_sample);
    if (r->n_row > 0 || isfinite(p.val_loss))
        metrics_log_put(&t->metrics, &p, sample, n_sample);
    return goes_on;
}

static bool go_on(void *ud)
{
    const weft_train_options *o = ((training *)ud)->o;
    return o->waiting(o->waiting_ud);
}

/* Measures the peak rate of the machine, for the threads that training gets. */
OWN_FRAME static weft_status measure(training *t, int n_thread, weft_error *err)
{
    part_cost part[N_PART];
    speed s;
    const model *m = &t->model->model;
    if (m->image.channels > 0) /* images have no tokens, in which costs are counted */
        return WEFT_OK;
    const engine_options e = { .n_thread = n_thread,
                               .n_ctx = t->data.n_ctx,
                               .n_batch = t->data.n_ctx < 256 ? (int)t->data.n_ctx : 256 };
    if (e.n_ctx > m->n_ctx)
        return weft_fail(err, WEFT_EINVAL, "n_ctx is %lld, expected 1 to %lld, the model's context",
                         (long long)e.n_ctx, (long long)m->n_ctx);
    weft_status status = model_cost(m, (t->data.n_ctx + 1) / 2, part, err);
    if (status == WEFT_OK)
        status = engine_estimate(m, &e, &s, err);
    if (status != WEFT_OK)
        return status;
    for (int i = 0; i < N_PART; i++)
        t->flops += (t->o->lora ? 2 : 3) * part[i].flops; /* frozen weights need no gradient */
    t->product_rate = s.products;
    return WEFT_OK;
}

/* ---- the run --------------------------------------------------------------------------------- */

static weft_status resume(training *t, const checkpoint *c, weft_error *err)
{
    const weft_status status = trainer_load(&t->trainer, c, err);
    if (status == WEFT_OK && rank_of(&t->job->ranks) == 0)
        checkpoint_publish(c, t->o->out, &t->model->host);
    return status;
}

/* An adapter's run only needs the small files, and does without if there is no form. */
static weft_status take_form(training *t, const char *from, weft_error *err)
{
    weft_error why = { 0 };
    const weft_status status = hf_form_init(&t->form, from, t->o->load, &t->model->host, &why);
    t->has_form = status == WEFT_OK;
    if (status == WEFT_OK)
        return WEFT_OK;
    if (!t->o->lora || status != WEFT_EUNSUPPORTED)
        return weft_fail(err, status, "%s", why.message);
    log_write(&t->model->host.log, WEFT_LOG_WARN,
              "%s; the run keeps neither tokenizer nor chat template", why.message);
    return WEFT_OK;
}

/* `made`: the model at `from` was created for the run, and is deleted once the first checkpoint
 * exists. */
OWN_FRAME static weft_status prepare(training *t, const char *from, bool made, const checkpoint *c,
                                     weft_error *err)
{
    const weft_train_options *o = t->o;
    const int n_thread = o->threads ? o->threads : cpu_count();
    trainer_options inner = {
        .learner = learner_of(o, n_thread),
        .schedule = schedule_of(o, !o->model),
        .n_sample = o->n_sample,
        .n_part = o->n_part,
        .beta = o->dpo_beta,
        .seed = o->seed,
        .eval_every = o->eval_every,
        .save_every = o->save_every,
        .patience = o->patience,
        .max_skipped = o->max_skipped,
        .run = o->out,
        .base = o->model,
        .keep = o->keep,
        .tell = tell,
        .waiting = o->waiting ? go_on : NULL,
        .ud = t,
    };
    weft_status status = open_model(t, from, err);
    if (status == WEFT_OK)
        status = open_data(t, from, err);
    if (status == WEFT_OK)
        status = measure(t, n_thread, err);
    if (status == WEFT_OK)
        status = take_form(t, from, err);
    if (status == WEFT_OK && t->o->model && t->o->tokenizer && t->has_tokenizer)
        status = hf_form_take_tokenizer(&t->form, &t->tokenizer, err);
    if (status == WEFT_OK && t->o->chat_template && t->has_tokenizer)
        status = hf_form_take_template(&t->form, t->chat.chat.source, t->chat.chat.n, err);
    if (status == WEFT_OK && !t->form.text[TEXT_TOKENIZER].text && !t->has_images)
        log_write(&t->model->host.log, WEFT_LOG_WARN,
                  "%s: no tokenizer.json; the run will have no tokenizer", from);
    if (status == WEFT_OK && o->lora)
        status = take_run_adapter(&t->own, o->lora, *c->path ? c->path : NULL, t->model, err);
    inner.learner.lora = o->lora ? &t->own.params : NULL;
    inner.learner.reduce = (reduce_options){ .ranks = &t->job->ranks, .fast = o->reduce_fast };
    if (status == WEFT_OK)
        status = trainer_init(&t->trainer, &t->model->model, &t->data, &inner, err);
    t->has_trainer = status == WEFT_OK;
    status = train_job_agree(t->job, status, err);
    if (status == WEFT_OK && *c->path)
        status = resume(t, c, err);
    else if (status == WEFT_OK)
        status = trainer_save(&t->trainer, &t->form, err);
    if (status == WEFT_OK && made && !*c->path && rank_of(&t->job->ranks) == 0)
        checkpoint_remove(from, &t->model->host);
    return status;
}

static weft_train_info info_of(const training *t, int64_t from_step, bool stopped)
{
    const weft_train_progress p = progress_of(t, &t->last);
    return (weft_train_info){ .step = p.step,
                              .from_step = from_step,
                              .n_parameter = t->model->model.n_parameter,
                              .loss = p.loss,
                              .smoothed = p.smoothed,
                              .val_loss = p.val_loss,
                              .best_val_loss = p.best_val_loss,
                              .best_step = p.best_step,
                              .n_skipped = p.n_skipped,
                              .n_token = p.n_token,
                              .stopped = stopped,
                              .seconds = t->predicted,
                              .bytes_peak = t->model->host.mem.peak,
                              .val_accuracy = p.val_accuracy,
                              .n_line_lost = t->metrics.n_lost,
                              .rank = rank_of(&t->job->ranks),
                              .n_rank = n_rank(&t->job->ranks),
                              .bytes_sent = t->job->ranks.comm ? t->job->ranks.comm->sent : 0,
                              .reduce_hidden = t->trainer.learner.reduce.hidden,
                              .reduce_exposed = t->trainer.learner.reduce.exposed };
}

static weft_status train(const weft_train_options *o, train_job *job, const char *from, bool made,
                         const checkpoint *c, weft_train_info *info, host *h, weft_error *err)
{
    training *t = mem_zalloc(&h->mem, 1, sizeof *t, "a run", err); /* too large for the stack */
    bool stopped = false;
    if (!t)
        return err->code;
    t->o = o;
    t->job = job;
    weft_status status = prepare(t, from, made, c, err);
    const int64_t from_step = status == WEFT_OK ? t->trainer.state.step : 0;
    if (status == WEFT_OK && rank_of(&job->ranks) == 0)
        status = metrics_log_open(&t->metrics, o->out, from_step, &t->model->host, err);
    if (status == WEFT_OK)
        status = trainer_run(&t->trainer, &t->form, &t->last, &stopped, err);
    if (status == WEFT_OK && info) {
        weft_train_info i = info_of(t, from_step, stopped);
        copy_result(info, info->struct_size, &i, sizeof i);
    }
    training_end(t);
    mem_free(&h->mem, t);
    return status;
}

/* Refuses to overwrite a directory that has a model or an adapter but is not a run of weft's. */
OWN_FRAME static weft_status refuse_model(const char *out, host *h, weft_error *err)
{
    static const char *const names[][2] = { { "config.json", "a model" },
                                            { PEFT_CONFIG, "an adapter" } };
    char path[4096];
    for (int i = 0; i < 2; i++) {
        if (!path_join(path, sizeof path, out, names[i][0]))
            return weft_fail(err, WEFT_EINVAL, "%.200s...: the path is too long", out);
        if (path_exists(path, h))
            return weft_fail(err, WEFT_EINVAL,
                             "%s: holds %s but no checkpoint; give another directory", out,
                             names[i][1]);
    }
    return WEFT_OK;
}

/* A run continues as what it is. */
OWN_FRAME static weft_status check_kind(const weft_train_options *o, const checkpoint *c,
                                        weft_error *err)
{
    const bool adapts = manifest_find(&c->manifest, PEFT_CONFIG) != NULL;
    if (adapts == (o->lora != NULL))
        return WEFT_OK;
    return weft_fail(err, WEFT_EINVAL, "%s: a run that trains %s; resume it %s --lora", o->out,
                     adapts ? "an adapter" : "a model", adapts ? "with" : "without");
}

/* The start of the run: its newest checkpoint, the given model, or one that is created for it in
 * `start_dir` (*made). */
OWN_FRAME static weft_status find_start(const weft_train_options *o, checkpoint *c,
                                        const char *start_dir, bool *made, host *h, weft_error *err)
{
    weft_status status = checkpoint_find(c, o->out, h, err);
    if (status != WEFT_OK)
        return status;
    if (*c->path && !o->resume)
        return weft_fail(err, WEFT_EINVAL,
                         "%s: has a checkpoint of step %lld; resume it, or give another directory",
                         o->out, (long long)c->manifest.counters.step);
    if (*c->path)
        return check_kind(o, c, err);
    status = refuse_model(o->out, h, err);
    if (status != WEFT_OK || o->lora)
        return status;
    return o->model ? begin_new_head(o, start_dir, made, h, err)
                    : begin_new_model(o, start_dir, made, h, err);
}

/* Rank 0, or the only process: takes the directory, and finds the run's start. */
static weft_status begin_run(const weft_train_options *o, run_lock *held, checkpoint *c,
                             const char *start_dir, bool *made, host *h, weft_error *err)
{
    weft_status status = run_lock_take(held, o->out, h, err);
    if (status == WEFT_OK)
        status = metrics_log_check(o->out, h, err);
    return status == WEFT_OK ? find_start(o, c, start_dir, made, h, err) : status;
}

/* All ranks begin as rank 0 does. */
static weft_status begin_ranks(const weft_train_options *o, train_job *job, run_lock *held,
                               checkpoint *c, const char *start_dir, bool *made, host *h,
                               weft_error *err)
{
    if (rank_of(&job->ranks) == 0) {
        const weft_status status = begin_run(o, held, c, start_dir, made, h, err);
        const weft_status told = train_job_start(job, status, made, c->path, sizeof c->path,
                                                 status == WEFT_OK ? err : NULL);
        return status == WEFT_OK ? told : status;
    }
    weft_status status = train_job_start(job, WEFT_OK, made, c->path, sizeof c->path, err);
    if (status != WEFT_OK || !*c->path)
        return status;
    status = checkpoint_open(c, h, err);
    return status == WEFT_OK ? WEFT_OK : train_job_agree(job, status, err);
}

static weft_status train_in_job(const weft_train_options *o, train_job *job, weft_train_info *info,
                                host *h, weft_error *err)
{
    checkpoint c = { 0 };
    run_lock held = { .root = o->out, .fd = -1, .host = h };
    char start_dir[4096];
    bool made = false;
    if (!path_join(start_dir, sizeof start_dir, o->out, "start"))
        return weft_fail(err, WEFT_EINVAL, "%.200s...: the path is too long", o->out);
    weft_status status = begin_ranks(o, job, &held, &c, start_dir, &made, h, err);
    const char *from = *c.path && !o->lora ? c.path : made ? start_dir : o->model;
    if (status == WEFT_OK) {
        status = train(o, job, from, made, &c, info, h, err);
        train_job_end(job, status, err);
    }
    /* A run that fails before its first checkpoint leaves nothing behind. */
    if (status != WEFT_OK && made && rank_of(&job->ranks) == 0)
        checkpoint_remove(start_dir, h);
    checkpoint_free(&c);
    run_lock_drop(&held);
    return status;
}

weft_status weft_train(const weft_train_options *options, weft_train_info *info, weft_error *err)
{
    weft_train_options o;
    weft_error local;
    train_job job;
    err = begin_call(err, &local);
    if (take_train_options(&o, options, err) != WEFT_OK)
        return err->code;
    if (info && !result_fits(info, "weft_train_info", err))
        return err->code;
    if (!o.out || !*o.out)
        return weft_fail(err, WEFT_EINVAL, "no directory for the run given");
    weft_status status = train_job_begin(&job, &o, err);
    weft_train_info own = { .rank = rank_of(&job.ranks), .n_rank = n_rank(&job.ranks) };
    if (info)
        copy_result(info, info->struct_size, &own, sizeof own);
    if (status != WEFT_OK)
        return status;
    host h = { .io = io_system, .log = { o.log, o.log_ud } };
    struct weft_budget whole; /* one cap for finding the start and for training */
    take_budget(&whole, o.ram_max, o.budget);
    o.budget = &whole;
    take_memory(&h, 0, &whole);
    status = train_in_job(&o, &job, info, &h, err);
    return status == WEFT_OK ? WEFT_OK : err->code; /* a failed allocation has two codes */
}
