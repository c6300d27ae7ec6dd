/* trainer.c - the loop of trainer.h, and the handling of non-finite losses. */
#include "train/trainer.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>

#define FADE 0.95

static weft_status pairs_init(trainer *t, weft_error *err)
{
    const int64_t n = t->data->corpus.n_document;
    t->batch.prefer->beta = (real)(t->opt.beta > 0 ? t->opt.beta : 0.1);
    t->reference = mem_alloc(&t->data->corpus.host->mem, (size_t)n * sizeof *t->reference,
                             "log-probabilities of the reference", err);
    for (int64_t i = 0; t->reference && i < n; i++)
        t->reference[i] = NAN;
    return t->reference ? WEFT_OK : WEFT_ENOMEM;
}

/* Parts in which the validation split is evaluated. */
static int64_t validation_parts(const trainer *t)
{
    return (t->data->validation.n_in_order + t->opt.n_sample - 1) / t->opt.n_sample;
}

/* n things that ranks share evenly: as many for each, so that all blocks have one size. */
static int64_t each_of(const trainer *t, int64_t n)
{
    return (n + n_rank(trainer_ranks(t)) - 1) / n_rank(trainer_ranks(t));
}

static weft_status take_sums(trainer *t, weft_error *err)
{
    const int64_t parts = validation_parts(t),
                  most = parts > trainer_groups(t) ? parts : trainer_groups(t);
    const size_t n = (size_t)(each_of(t, most) * n_rank(trainer_ranks(t)));
    t->sums = mem_zalloc(&t->data->corpus.host->mem, n, sizeof *t->sums, "sums", err);
    return t->sums ? WEFT_OK : WEFT_ENOMEM;
}

static weft_status check_ranks(const trainer *t, weft_error *err)
{
    const int R = n_rank(trainer_ranks(t)), G = trainer_groups(t);
    if (R > MAX_RANK || (R & (R - 1)) != 0)
        return weft_fail(err, WEFT_EINVAL, "%d ranks; expected a power of two up to %d", R,
                         MAX_RANK);
    if (R > G)
        return weft_fail(
            err, WEFT_EINVAL,
            "%d ranks, but %d group%s a step; give --groups %d, or a larger power of two "
            "if more ranks may continue this run: the groups decide the order of "
            "sums, and cannot change later",
            R, G, G > 1 ? "s" : "", R);
    return WEFT_OK;
}

weft_status trainer_init(trainer *t, model *m, const dataset *d, const trainer_options *o,
                         weft_error *err)
{
    *t = (trainer){ .opt = *o, .data = d, .state = { .best = INFINITY } };
    t->opt.learner.seed = o->seed;
    if (!t->opt.learner.reduce.ranks)
        t->opt.learner.reduce.ranks = &t->alone;
    if (d->n_ctx > m->n_ctx)
        return weft_fail(err, WEFT_EINVAL, "sequences of %lld tokens; the model's context is %lld",
                         (long long)d->n_ctx, (long long)m->n_ctx);
    if (d->train.n_sample == 0)
        return weft_fail(err, WEFT_EINVAL, "no training data");
    if (d->corpus.n_preference > 0 && !o->learner.lora)
        return weft_fail(err, WEFT_EINVAL, "preferences train an adapter; add --lora r=16");
    weft_status status = check_ranks(t, err);
    if (status == WEFT_OK)
        status = data_room(&t->batch, d, o->n_sample, err);
    if (status != WEFT_OK)
        return status;
    status = t->batch.prefer ? pairs_init(t, err) : WEFT_OK;
    if (status == WEFT_OK)
        status = take_sums(t, err);
    if (status == WEFT_OK)
        status = learner_init(&t->learner, m, &t->opt.learner, &t->batch, err);
    if (status != WEFT_OK) {
        mem_free(&d->corpus.host->mem, t->reference);
        mem_free(&d->corpus.host->mem, t->sums);
        data_room_free(&t->batch, d);
    }
    return status;
}

void trainer_free(trainer *t)
{
    mem_free(&t->data->corpus.host->mem, t->reference);
    mem_free(&t->data->corpus.host->mem, t->sums);
    learner_free(&t->learner);
    data_room_free(&t->batch, t->data);
}

/* ---- one step -------------------------------------------------------------------------------- */

/* What the mean of a loss is over. */
static int64_t n_counted(const batch *b)
{
    return b->prefer ? b->n_seq / 2 : b->n_wanted;
}

/* Gives the batch's pairs the log-probabilities of the model without its adapter. They are computed
 * when a pair is first used: a step of the first epoch has one more forward. */
static void refer(trainer *t)
{
    preference *p = t->batch.prefer;
    bool known = true;
    for (int32_t s = 0; p && s < t->batch.n_seq; s++) {
        p->reference[s] = t->reference[p->document[s]];
        known &= !isnan(p->reference[s]);
    }
    if (!p || known)
        return;
    learner_refer(&t->learner, &t->batch);
    for (int32_t s = 0; s < t->batch.n_seq; s++)
        p->reference[s] = t->reference[p->document[s]] = p->logp[s];
}

/* Adds the batch's pairs, after a forward. */
static void count_pairs(pair_means *m, const batch *b)
{
    const preference *p = b->prefer;
    for (int32_t s = 0; p && s + 1 < b->n_seq; s += 2) {
        const double margin = (double)p->beta * ((p->logp[s] - p->reference[s]) -
                                                 (p->logp[s + 1] - p->reference[s + 1]));
        m->n++;
        m->margin += margin;
        m->accuracy += margin > 0;
        m->chosen += p->logp[s];
        m->rejected += p->logp[s + 1];
    }
}

/* Sums over n groups or parts, in their order. */
static sample_sums add_sums(const sample_sums *s, int64_t n)
{
    sample_sums all = { 0 };
    for (int64_t i = 0; i < n; i++) {
        all.loss += s[i].loss;
        all.n_target += s[i].n_target;
        all.n_right += s[i].n_right;
        all.n_row += s[i].n_row;
        all.pairs.n += s[i].pairs.n;
        all.pairs.margin += s[i].pairs.margin;
        all.pairs.accuracy += s[i].pairs.accuracy;
        all.pairs.chosen += s[i].pairs.chosen;
        all.pairs.rejected += s[i].pairs.rejected;
    }
    return all;
}

static pair_means means_of(pair_means sum)
{
    const double n = sum.n > 0 ? (double)sum.n : 1;
    return (pair_means){ sum.n, sum.margin / n, sum.accuracy / n, sum.chosen / n,
                         sum.rejected / n };
}

/* Adds the gradients of samples [first, end) of the step, one group. A part without a target still
 * has a number, which keys random numbers: other ranks count it without seeing it. */
static weft_status add_group(trainer *t, int64_t first, int64_t end, bool is_last, double n_target,
                             sample_sums *sums, weft_error *err)
{
    const trainer_options *o = &t->opt;
    *sums = (sample_sums){ 0 };
    for (int64_t i = first; i < end; i += o->n_sample) {
        const int64_t count = end - i < o->n_sample ? end - i : o->n_sample;
        const weft_status status = data_fill(&t->batch, &t->data->train, o->seed,
                                             t->state.cursor + i, (int32_t)count, err);
        if (status != WEFT_OK)
            return status;
        sums->n_row += t->batch.n_row;
        if (is_last && i + count == end)
            learner_last(&t->learner);
        if (t->batch.n_wanted == 0) { /* masks are rare, and texts short */
            t->learner.n_backward++;
            continue;
        }
        const double share = (double)n_counted(&t->batch) / n_target;
        refer(t);
        sums->loss += share * (double)learner_add(&t->learner, &t->batch, share);
        count_pairs(&sums->pairs, &t->batch);
    }
    learner_group_end(&t->learner);
    return WEFT_OK;
}

/* Adds the gradients of this rank's groups. */
static weft_status add_own_groups(trainer *t, weft_error *err)
{
    const int64_t each = trainer_groups(t) / n_rank(trainer_ranks(t)),
                  g0 = rank_of(trainer_ranks(t)) * each;
    const uint64_t before = t->learner.n_backward;
    const double all = (double)data_targets(&t->data->train, t->opt.seed, t->state.cursor,
                                            trainer_samples(t));
    weft_status status = learner_begin(&t->learner, err);
    t->learner.n_backward += (uint64_t)trainer_parts_before(t, g0);
    for (int64_t g = g0; g < g0 + each && status == WEFT_OK; g++)
        status = add_group(t, trainer_group_start(t, g), trainer_group_start(t, g + 1),
                           g == g0 + each - 1, all, &t->sums[g], err);
    t->learner.n_backward = before + (uint64_t)trainer_parts(t);
    return status;
}

/* The gradients of all groups, and their sums in their order. */
static weft_status add_groups(trainer *t, trainer_report *r, weft_error *err)
{
    const size_t each = (size_t)(trainer_groups(t) / n_rank(trainer_ranks(t)));
    weft_status status = add_own_groups(t, err);
    if (status == WEFT_OK)
        status = learner_reduce(&t->learner, err);
    if (status == WEFT_OK)
        status = ranks_share(trainer_ranks(t), t->sums, each * sizeof *t->sums, err);
    const sample_sums all = add_sums(t->sums, trainer_groups(t));
    r->loss = all.loss;
    r->n_row = all.n_row;
    r->pairs = means_of(all.pairs);
    return status;
}

static void remember_loss(trainer_state *s, trainer_report *r)
{
    r->skipped = !isfinite(r->loss) || !isfinite(r->norm);
    s->in_a_row = r->skipped ? s->in_a_row + 1 : 0;
    s->n_skipped += r->skipped;
    if (!r->skipped) {
        s->faded = FADE * s->faded + r->loss;
        s->n_loss++;
    }
    s->n_row += r->n_row;
}

/* Copies the state into the report. */
static void report_state(const trainer *t, trainer_report *r)
{
    const trainer_state *s = &t->state;
    r->step = s->step;
    r->n_step = t->opt.schedule.n_step;
    r->smoothed = s->n_loss ? s->faded * (1 - FADE) / (1 - pow(FADE, (double)s->n_loss)) : NAN;
    r->n_skipped = s->n_skipped;
    r->n_row_all = s->n_row;
    r->best = s->best;
    r->best_step = s->best_step;
    if (s->step > t->first)
        r->left = (clock_seconds() - t->began) / (double)(s->step - t->first) *
                  (double)(r->n_step - s->step);
}

weft_status trainer_step(trainer *t, trainer_report *r, weft_error *err)
{
    trainer_state *s = &t->state;
    const double began = clock_seconds();
    *r = (trainer_report){ .lr = schedule_lr(&t->opt.schedule, s->step + 1) };
    weft_status status = add_groups(t, r, err);
    if (status != WEFT_OK)
        return status;
    r->norm = isfinite(r->loss) ? learner_update(&t->learner, r->lr) : NAN;
    if (isfinite(r->norm))
        status = learner_share(&t->learner, err);
    if (status != WEFT_OK)
        return status;
    learner_load(&t->learner, &r->load_least, &r->load_most);
    s->step++;
    s->cursor += trainer_samples(t);
    remember_loss(s, r);
    report_state(t, r);
    r->seconds = clock_seconds() - began;
    ranks_stepped(trainer_ranks(t), r->seconds);
    if (s->in_a_row < t->opt.max_skipped || s->in_a_row == 0)
        return WEFT_OK;
    return weft_fail(err, WEFT_ENUMERIC,
                     "step %lld: loss %g, gradient norm %g: non-finite %lld times in a row; try a "
                     "smaller learning rate",
                     (long long)s->step, r->loss, r->norm, (long long)s->in_a_row);
}

/* ---- evaluation ------------------------------------------------------------------------------ */

static weft_status evaluate_part(trainer *t, int64_t part, sample_sums *sums, weft_error *err)
{
    const data_part *p = &t->data->validation;
    const bool classifies = t->learner.model->task == WEFT_TASK_CLASSIFY;
    const int64_t most = t->opt.n_sample, left = p->n_in_order - part * most;
    *sums = (sample_sums){ 0 };
    const weft_status status = data_fill_in_order(&t->batch, p, part * most,
                                                  (int32_t)(left < most ? left : most), err);
    if (status != WEFT_OK || t->batch.n_wanted == 0)
        return status;
    int64_t n_right = 0;
    refer(t);
    const real mean = classifies ? learner_score(&t->learner, &t->batch, &n_right)
                                 : learner_loss(&t->learner, &t->batch);
    sums->n_target = (double)n_counted(&t->batch);
    sums->loss = sums->n_target * (double)mean;
    sums->n_right = (double)n_right;
    count_pairs(&sums->pairs, &t->batch);
    return WEFT_OK;
}

weft_status trainer_evaluate(trainer *t, double *loss, double *accuracy, weft_error *err)
{
    const int64_t n = validation_parts(t), each = each_of(t, n);
    const int64_t first = rank_of(trainer_ranks(t)) * each;
    weft_status status = pool_ready(t->learner.pool, err);
    for (int64_t i = first; i < first + each && i < n && status == WEFT_OK; i++)
        status = evaluate_part(t, i, &t->sums[i], err);
    if (status == WEFT_OK)
        status = ranks_share(trainer_ranks(t), t->sums, (size_t)each * sizeof *t->sums, err);
    const sample_sums all = add_sums(t->sums, n);
    *loss = all.n_target > 0 ? all.loss / all.n_target : NAN;
    *accuracy = t->learner.model->task == WEFT_TASK_CLASSIFY && all.n_target > 0
                    ? all.n_right / all.n_target
                : all.pairs.n > 0 ? means_of(all.pairs).accuracy
                                  : NAN;
    return status;
}

static weft_status validate(trainer *t, trainer_report *r, weft_error *err)
{
    trainer_state *s = &t->state;
    const weft_status status = trainer_evaluate(t, &r->val_loss, &r->val_accuracy, err);
    r->evaluated = status == WEFT_OK;
    s->n_worse++;
    if (r->val_loss < s->best) {
        s->best = r->val_loss;
        s->best_step = s->step;
        s->n_worse = 0;
    }
    report_state(t, r);
    return status;
}

/* ---- prediction ------------------------------------------------------------------------------ */

/* A norm reads a quarter of the memory that an update reads and writes. */
#define UPDATE_OVER_NORM 7

/* Polled before the first step, which has no report yet. Only rank 0 is asked. */
static bool stops(const trainer *t)
{
    return rank_of(trainer_ranks(t)) == 0 && t->opt.waiting && !t->opt.waiting(t->opt.ud);
}

/* Takes the faster of two trials, after one that touches memory for the first time. An evaluation
 * runs only forward, a third of the work. */
weft_status trainer_predict(trainer *t, double *seconds, weft_error *err)
{
    learner *l = &t->learner;
    const trainer_options *o = &t->opt;
    const uint64_t n_backward = l->n_backward;
    double part = 0;
    weft_status status = learner_begin(l, err);
    for (int trial = 0; trial < 3 && status == WEFT_OK && !stops(t); trial++) {
        const double began = clock_seconds();
        status = data_fill(&t->batch, &t->data->train, o->seed, t->state.cursor, o->n_sample, err);
        if (status == WEFT_OK)
            learner_backward(l, &t->batch);
        part = trial < 2 ? clock_seconds() - began : fmin(part, clock_seconds() - began);
    }
    l->n_backward = n_backward;
    const double began = clock_seconds();
    params_norm(&l->params, l->pool);
    const double update = UPDATE_OVER_NORM * (clock_seconds() - began);
    const double left = (double)(o->schedule.n_step - t->state.step);
    const double looks = o->eval_every ? left / (double)o->eval_every + 1 : 1;
    const double parts = (double)o->n_part * part +
                         looks / (left > 0 ? left : 1) * (double)validation_parts(t) * part / 3;
    *seconds = left * (parts / n_rank(trainer_ranks(t)) + update);
    return status;
}

/* ---- the loop -------------------------------------------------------------------------------- */

static bool due(const trainer *t, int64_t every, bool last)
{
    return last || (every > 0 && t->state.step % every == 0);
}

/* Before the first step: predicts the time, and evaluates a new run. */
static weft_status begin_run(trainer *t, trainer_report *r, weft_error *err)
{
    bool look_first = t->state.step == 0 && t->data->validation.n_sample > 0;
    *r = (trainer_report){ .loss = NAN, .lr = NAN, .norm = NAN };
    weft_status status = trainer_predict(t, &r->left, err);
    look_first = look_first && !stops(t);
    if (status == WEFT_OK)
        status = ranks_tell(trainer_ranks(t), &look_first, sizeof look_first, true, err);
    if (status == WEFT_OK && look_first)
        status = validate(t, r, err);
    report_state(t, r);
    return status;
}

/* A checkpoint that cannot be written, say because the disk is full, is no reason to lose the
 * training since the one before: the next may fit. Only the last one must succeed. A lost rank is one:
 * those that remain would wait for each other. */
static weft_status save_due(trainer *t, const hf_form *form, trainer_report *r, bool last,
                            weft_error *err)
{
    weft_error why = { 0 };
    const weft_status status = trainer_save(t, form, &why);
    r->saved = status == WEFT_OK;
    if (!r->saved && (last || t->cut_off))
        return weft_fail(err, status, "%s", why.message);
    if (!r->saved)
        log_write(&t->learner.model->host->log, WEFT_LOG_WARN,
                  "step %lld: checkpoint not saved: %s; training continues",
                  (long long)t->state.step, why.message);
    return WEFT_OK;
}

/* Evaluation, checkpoint and report after a step. */
static weft_status after(trainer *t, const hf_form *form, trainer_report *r, bool last,
                         weft_error *err)
{
    weft_status status = WEFT_OK;
    if (t->data->validation.n_sample > 0 && due(t, t->opt.eval_every, last))
        status = validate(t, r, err);
    if (status == WEFT_OK && t->opt.run && due(t, t->opt.save_every, last))
        status = save_due(t, form, r, last, err);
    return status;
}

/* Calls back, on rank 0, whose answer counts for all. It may evaluate, or sample a text, for long. */
static weft_status tell_and_ask(trainer *t, const trainer_report *r, bool *stopped, weft_error *err)
{
    *stopped = rank_of(trainer_ranks(t)) == 0 && t->opt.tell && !t->opt.tell(t->opt.ud, r);
    return ranks_tell(trainer_ranks(t), stopped, sizeof *stopped, true, err);
}

weft_status trainer_run(trainer *t, const hf_form *form, trainer_report *last, bool *stopped,
                        weft_error *err)
{
    const trainer_options *o = &t->opt;
    *stopped = false;
    t->first = t->state.step;
    weft_status status = begin_run(t, last, err);
    if (status == WEFT_OK)
        status = tell_and_ask(t, last, stopped, err);
    t->began = clock_seconds();
    bool patient = true;
    while (status == WEFT_OK && !*stopped && patient && t->state.step < o->schedule.n_step) {
        status = trainer_step(t, last, err);
        if (status == WEFT_OK)
            status = after(t, form, last, t->state.step == o->schedule.n_step, err);
        if (status != WEFT_OK)
            break;
        status = tell_and_ask(t, last, stopped, err);
        patient = o->patience == 0 || t->state.n_worse < o->patience;
    }
    if (status == WEFT_OK && o->run && !last->saved && t->state.step > t->first)
        status = trainer_save(t, form, err);
    return status;
}
