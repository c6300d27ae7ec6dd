/* trainer_save.c - the state of a run in its checkpoints. With several ranks, rank 0 writes the same
 * files as one process would, and asks the others for their moments. */
#include "train/labelled.h"
#include "train/trainer.h"

#include <stdio.h>
#include <string.h>

#define N_BLOCK       3
#define OPTIONS_BYTES 400

static real *moment(trainer *t, const char *name)
{
    return strcmp(name, "adamw.m") == 0 ? t->learner.adamw.m : t->learner.adamw.v;
}

/* What rank 0 tells the others while it writes a checkpoint. */
typedef struct saving {
    enum { WANTS_M, WANTS_V, HAS_SAVED } what;
    weft_status status;
} saving;

/* The moments of all ranks, in the block of gradients, which is free between steps. */
static weft_status collect(void *trainer_of, const char *name, weft_error *err)
{
    trainer *t = trainer_of;
    reduce *r = &t->learner.reduce;
    saving now = { strcmp(name, "adamw.m") == 0 ? WANTS_M : WANTS_V, WEFT_OK };
    weft_status status = ranks_tell(trainer_ranks(t), &now, sizeof now, true, err);
    if (status == WEFT_OK)
        status = reduce_collect(r, moment(t, name), t->learner.params.grad, err);
    t->cut_off |= status != WEFT_OK;
    return status;
}

static void pick(void *trainer_of, const char *name)
{
    trainer *t = trainer_of;
    reduce_pick(&t->learner.reduce, t->learner.params.grad, moment(t, name));
}

/* The other ranks, while rank 0 writes: they send what it asks for. */
static weft_status attend_saving(trainer *t, weft_error *err)
{
    const adamw *a = &t->learner.adamw;
    saving now;
    weft_status status = ranks_tell(trainer_ranks(t), &now, sizeof now, true, err);
    while (status == WEFT_OK && now.what != HAS_SAVED) {
        status = reduce_collect(&t->learner.reduce, now.what == WANTS_M ? a->m : a->v, NULL, err);
        if (status == WEFT_OK)
            status = ranks_tell(trainer_ranks(t), &now, sizeof now, true, err);
    }
    t->cut_off |= status != WEFT_OK;
    if (status == WEFT_OK && now.status != WEFT_OK)
        status = weft_fail(err, now.status, "rank 0 could not write a checkpoint");
    return status;
}

static void checkpoint_blocks(trainer *t, checkpoint_block b[N_BLOCK])
{
    const bool alone = n_rank(trainer_ranks(t)) == 1;
    const adamw *a = &t->learner.adamw;
    const checkpoint_block whole = { .data = t->learner.params.grad,
                                     .bytes = (size_t)t->learner.params.n * sizeof(real),
                                     .fill = alone ? NULL : collect,
                                     .take = alone ? NULL : pick,
                                     .ud = t };
    b[0] = b[1] = whole;
    b[0].name = "adamw.m";
    b[1].name = "adamw.v";
    if (alone) {
        b[0].data = a->m;
        b[1].data = a->v;
    }
    b[2] = (checkpoint_block){ .name = "trainer", .data = &t->state, .bytes = sizeof t->state };
}

static const char *const sample_names[][2] = {
    [WEFT_OBJECTIVE_BY_DATA] = { "packs", "windows" },
    [WEFT_OBJECTIVE_PAIRS] = { "packs of pairs", "pairs" },
    [WEFT_OBJECTIVE_SPANS] = { "packs without spans", "windows without spans" },
    [WEFT_OBJECTIVE_INFILL] = { "packs with masks", "windows with masks" },
};

/* The settings that must not change when a run resumes. */
static void describe_run(const trainer *t, char *text, size_t size)
{
    const dataset *d = t->data;
    const params *p = &t->learner.params;
    int64_t n_frozen = 0;
    char data[128];
    for (int64_t i = 0; i < p->n_tensor; i++)
        n_frozen += !p->tensor[i]->needs_grad;
    if (d->labels)
        snprintf(data, sizeof data,
                 "samples of %lld rows, %d x %d a step, from %lld packs of texts with %lld labels",
                 (long long)d->n_ctx, (int)t->opt.n_part, (int)t->opt.n_sample,
                 (long long)d->train.n_sample, (long long)d->labels->n);
    else if (d->images)
        snprintf(data, sizeof data, "%d x %d of %lld pictures a step, moved by %lld",
                 (int)t->opt.n_part, (int)t->opt.n_sample, (long long)d->train.n_sample,
                 (long long)d->images->shift);
    else
        snprintf(data, sizeof data,
                 "samples of %lld rows, %d x %d a step, from %lld %s of %lld ids",
                 (long long)d->n_ctx, (int)t->opt.n_part, (int)t->opt.n_sample,
                 (long long)d->train.n_sample, sample_names[d->pairing.objective][d->windows],
                 (long long)d->corpus.n_id);
    char own[128] = "", pairs[32] = "";
    const lora_params *trained = t->opt.learner.lora;
    if (trained)
        snprintf(own, sizeof own, "; adapter of %lld numbers, scale %.9g, dropout %g",
                 (long long)p->n, lora_spec_scale(&trained->spec), (double)trained->spec.dropout);
    if (t->batch.prefer)
        snprintf(pairs, sizeof pairs, "; beta %g", (double)t->batch.prefer->beta);
    char grouped[32] = ""; /* only if set: runs from before groups existed had one */
    if (trainer_groups(t) > 1)
        snprintf(grouped, sizeof grouped, " in %d groups", trainer_groups(t));
    snprintf(text, size, "%s%s; dropout %g, smoothing %g, %s, %lld of %lld weights frozen%s%s",
             data, grouped, (double)t->opt.learner.dropout, (double)t->opt.learner.smoothing,
             t->opt.learner.bf16 ? "bf16" : "f32", (long long)n_frozen, (long long)p->n_tensor, own,
             pairs);
}

static weft_status save_view(trainer *t, const hf_form *form, const float *const *value,
                             const peft_contents *own, weft_error *err)
{
    learner *l = &t->learner;
    checkpoint_block block[N_BLOCK];
    char options[OPTIONS_BYTES];
    checkpoint_blocks(t, block);
    describe_run(t, options, sizeof options);
    const checkpoint_view v = { .counters = { .step = t->state.step,
                                              .cursor = t->state.cursor,
                                              .n_backward = (int64_t)l->n_backward,
                                              .n_update = l->adamw.step,
                                              .seed = t->opt.seed },
                                .options = options,
                                .form = form,
                                .weight = value,
                                .adapter = own,
                                .block = block,
                                .n_block = N_BLOCK,
                                .spared = t->state.best_step };
    return checkpoint_write(t->opt.run, &v, t->opt.keep, l->model->host, err);
}

static weft_status save_adapter(trainer *t, const hf_form *form, weft_error *err)
{
    peft_contents c;
    const lora_params *p = t->opt.learner.lora;
    weft_status status = peft_contents_make(&c, &p->ready->from, t->learner.model, t->opt.base,
                                            err);
    if (status != WEFT_OK)
        return status;
    status = save_view(t, form, NULL, &c, err);
    peft_contents_free(&c);
    return status;
}

static weft_status save_model(trainer *t, const hf_form *form, weft_error *err)
{
    const learner *l = &t->learner;
    mem *from = l->params.mem;
    const float **value = mem_zalloc(from, (size_t)l->params.n_tensor, sizeof *value,
                                     "a checkpoint", err);
    if (!value)
        return WEFT_ENOMEM;
    for (int64_t i = 0; i < l->params.n_tensor; i++)
        value[i] = (const float *)l->params.value + l->params.at[i];
    const weft_status status = save_view(t, form, value, NULL, err);
    mem_free(from, value);
    return status;
}

weft_status trainer_save(trainer *t, const hf_form *form, weft_error *err)
{
    if (rank_of(trainer_ranks(t)) != 0)
        return attend_saving(t, err);
    saving now = { HAS_SAVED,
                   t->learner.opt.lora ? save_adapter(t, form, err) : save_model(t, form, err) };
    if (t->cut_off)
        return now.status;
    const weft_status status = ranks_tell(trainer_ranks(t), &now, sizeof now, false,
                                          now.status == WEFT_OK ? err : NULL);
    t->cut_off = status != WEFT_OK;
    return now.status == WEFT_OK ? status : now.status;
}

/* A checkpoint is untrusted: refuses counters that no run can reach, so that none overflows. */
static weft_status check_counters(const trainer *t, const manifest_counters *n, const char *path,
                                  weft_error *err)
{
    const int64_t each = trainer_samples(t);
    if (n->step > MAX_SAMPLE / each || n->cursor != n->step * each)
        return weft_fail(err, WEFT_EFORMAT,
                         "%s: cursor is %lld; expected %lld samples for each of %lld steps", path,
                         (long long)n->cursor, (long long)each, (long long)n->step);
    if (n->n_backward > n->step * trainer_parts(t))
        return weft_fail(err, WEFT_EFORMAT,
                         "%s: n_backward is %lld; expected at most %lld for each of %lld steps",
                         path, (long long)n->n_backward, (long long)trainer_parts(t),
                         (long long)n->step);
    return WEFT_OK;
}

static weft_status check_state(const trainer *t, const char *path, weft_error *err)
{
    const trainer_state *s = &t->state;
    const struct {
        const char *name;
        int64_t n, most;
    } ranges[] = {
        { "n_skipped", s->n_skipped, s->step }, { "in_a_row", s->in_a_row, s->n_skipped },
        { "n_row", s->n_row, INT64_MAX / 2 }, /* a run of 2^40 samples of 2^22 rows */
        { "n_loss", s->n_loss, s->step },       { "n_worse", s->n_worse, MAX_SAMPLE },
        { "best_step", s->best_step, s->step },
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (ranges[i].n < 0 || ranges[i].n > ranges[i].most)
            return weft_fail(err, WEFT_EFORMAT, "%s: %s is %lld; expected 0 to %lld", path,
                             ranges[i].name, (long long)ranges[i].n, (long long)ranges[i].most);
    if (isnan(s->best) || !isfinite(s->faded))
        return weft_fail(err, WEFT_EFORMAT, "%s: losses are not finite", path);
    return WEFT_OK;
}

weft_status trainer_load(trainer *t, const checkpoint *c, weft_error *err)
{
    const manifest_counters *n = &c->manifest.counters;
    checkpoint_block block[N_BLOCK];
    char options[OPTIONS_BYTES];
    describe_run(t, options, sizeof options);
    if (n->seed != t->opt.seed || strcmp(options, c->manifest.options) != 0)
        return weft_fail(err, WEFT_EINVAL,
                         "%s: made with seed %llu, %.200s; this run has seed %llu, %s", c->path,
                         (unsigned long long)n->seed, c->manifest.options,
                         (unsigned long long)t->opt.seed, options);
    checkpoint_blocks(t, block);
    weft_status status = check_counters(t, n, c->path, err);
    if (status == WEFT_OK)
        status = checkpoint_read(c, block, N_BLOCK, t->learner.model->host, err);
    if (status != WEFT_OK)
        return status;
    t->learner.n_backward = (uint64_t)n->n_backward;
    t->learner.adamw.step = n->n_update;
    t->state.step = n->step;
    t->state.cursor = n->cursor;
    return check_state(t, c->path, err);
}
