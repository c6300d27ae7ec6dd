/* train_options.c - checks the options of a run, and translates them for its parts. */
#include "api/train_options.h"

#include "train/init_model.h"
#include "train/trainer.h"

#include <stdio.h>
#include <string.h>

void weft_train_defaults(weft_train_options *options, size_t struct_size)
{
    weft_train_options o = { .tied = -1,
                             .n_vocab = 4096,
                             .validation = 0.1,
                             .n_sample = 12,
                             .n_part = 1,
                             .n_step = 2000,
                             .lr = -1,
                             .lr_min = -1,
                             .n_warmup = -1,
                             .n_decay = -1,
                             .beta1 = 0.9,
                             .beta2 = 0.99,
                             .eps = 1e-8,
                             .weight_decay = -1,
                             .clip = 1,
                             .eval_every = 250,
                             .save_every = 250,
                             .keep = 2,
                             .max_skipped = 10,
                             .seed = 1337 };
    if (options)
        copy_result(options, struct_size, &o, sizeof o);
}

/* ---- checks ---------------------------------------------------------------------------------- */

static weft_status check_numbers(const weft_train_options *o, weft_error *err)
{
    const struct {
        const char *what;
        double x, lo, hi;
    } ranges[] = {
        { "n_layer", (double)o->n_layer, 0, 1 << 24 },
        { "d_model", (double)o->d_model, 0, 1 << 24 },
        { "n_head", (double)o->n_head, 0, 1 << 24 },
        { "n_head_kv", (double)o->n_head_kv, 0, 1 << 24 },
        { "d_ff", (double)o->d_ff, 0, 1 << 24 },
        { "tied", o->tied, -1, 1 },
        { "n_step", (double)o->n_step, 1, 1e12 },
        { "n_sample", o->n_sample, 1, 1 << 20 },
        { "n_part", o->n_part, 1, 1 << 20 },
        { "n_group", o->n_group, 0, MAX_GROUP },
        { "n_ctx", (double)o->n_ctx, 0, 1 << 24 },
        { "n_vocab", o->n_vocab, 0, 1 << 24 },
        { "validation", o->validation, 0, 0.9 },
        { "lr", o->lr, -1, 10 },
        { "lr_min", o->lr_min, -1, 10 },
        { "n_warmup", (double)o->n_warmup, -1, (double)o->n_step },
        { "n_decay", (double)o->n_decay, -1, (double)o->n_step },
        { "beta1", o->beta1, 0, 0.999999 },
        { "beta2", o->beta2, 0, 0.999999 },
        { "eps", o->eps, 0, 1 },
        { "weight_decay", o->weight_decay, -1, 10 },
        { "clip", o->clip, 0, 1e9 },
        { "dropout", o->dropout, 0, 0.99 },
        { "smoothing", o->smoothing, 0, 0.99 },
        { "eval_every", (double)o->eval_every, 0, 1e12 },
        { "save_every", (double)o->save_every, 0, 1e12 },
        { "keep", o->keep, 0, 1e6 },
        { "patience", o->patience, 0, 1e6 },
        { "max_skipped", o->max_skipped, 1, 1e9 },
        { "threads", o->threads, 0, 1024 },
        { "image_size", (double)o->image_size, 0, 65535 },
        { "patch_size", (double)o->patch_size, 0, 65535 },
        { "dpo_beta", o->dpo_beta, 0, 1000 },
        { "rank_limit", o->rank_limit, 0, 1e6 },
        { "shift", (double)o->shift, 0, 65535 },
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (!(ranges[i].x >= ranges[i].lo && ranges[i].x <= ranges[i].hi))
            return weft_fail(err, WEFT_EINVAL, "%s is %g, expected %g to %g", ranges[i].what,
                             ranges[i].x, ranges[i].lo, ranges[i].hi);
    return WEFT_OK;
}

/* What an adapter is trained with. */
static weft_status check_lora(const weft_train_options *o, weft_error *err)
{
    if (!o->model)
        return weft_fail(err, WEFT_EINVAL, "lora: no model given; expected one to adapt");
    if (o->n_frozen > 0)
        return weft_fail(err, WEFT_EINVAL,
                         "lora: all weights of the model are frozen; choose the adapted ones with "
                         "targets, and leave out frozen");
    if (o->bf16)
        return weft_fail(err, WEFT_EINVAL,
                         "lora: products are computed as the model's format is served; convert the "
                         "model to bf16, and leave out bf16");
    return WEFT_OK;
}

static weft_status check_data(const weft_train_options *o, weft_error *err)
{
    if (!o->data || o->n_data < 1)
        return weft_fail(err, WEFT_EINVAL, "no data given");
    for (int i = 0; i < o->n_data; i++)
        if (!o->data[i])
            return weft_fail(err, WEFT_EINVAL, "path %d is NULL", i);
    return WEFT_OK;
}

static weft_status check(const weft_train_options *o, weft_error *err)
{
    if (o->n_frozen < 0 || (o->n_frozen > 0 && !o->frozen))
        return weft_fail(err, WEFT_EINVAL, "no patterns of names given");
    for (int i = 0; i < o->n_frozen; i++)
        if (!o->frozen[i])
            return weft_fail(err, WEFT_EINVAL, "pattern %d is NULL", i);
    if (!load_exists(o->load, err))
        return err->code;
    if ((unsigned)o->schedule >= N_SCHEDULE || (unsigned)o->data_kind > WEFT_DATA_CSV)
        return weft_fail(err, WEFT_EINVAL, "unknown schedule or data format %d",
                         (unsigned)o->schedule >= N_SCHEDULE ? (int)o->schedule
                                                             : (int)o->data_kind);
    if ((unsigned)o->objective > WEFT_OBJECTIVE_INFILL)
        return weft_fail(err, WEFT_EINVAL, "unknown objective %d", (int)o->objective);
    if ((unsigned)o->positions > WEFT_POSITIONS_NONE)
        return weft_fail(err, WEFT_EINVAL, "unknown position encoding %d", (int)o->positions);
    if (o->preset && !init_model_preset(o->preset))
        return weft_fail(err, WEFT_EINVAL, "unknown preset \"%.40s\"; expected one of %s",
                         o->preset, INIT_MODEL_PRESETS);
    if (o->lora && check_lora(o, err) != WEFT_OK)
        return err->code;
    const weft_status status = check_numbers(o, err);
    if (status == WEFT_OK && (double)o->n_step * o->n_sample * o->n_part > (double)MAX_SAMPLE)
        return weft_fail(err, WEFT_EINVAL,
                         "n_step x n_sample x n_part is %g samples; expected at most %lld",
                         (double)o->n_step * o->n_sample * o->n_part, (long long)MAX_SAMPLE);
    if (status == WEFT_OK && o->n_group > 0 &&
        ((o->n_group & (o->n_group - 1)) != 0 || o->n_group > (int64_t)o->n_sample * o->n_part))
        return weft_fail(
            err, WEFT_EINVAL,
            "n_group is %d; expected a power of two, at most the %lld samples of a step",
            o->n_group, (long long)o->n_sample * o->n_part);
    return status;
}

weft_status take_train_options(weft_train_options *to, const weft_train_options *from,
                               weft_error *err)
{
    const weft_status status = take_plan_options(to, from, err);
    return status == WEFT_OK ? check_data(to, err) : status;
}

weft_status take_plan_options(weft_train_options *to, const weft_train_options *from,
                              weft_error *err)
{
    if (!from)
        return weft_fail(err, WEFT_EINVAL, "no options given");
    return read_options(to, sizeof *to, from, from->struct_size, "weft_train_options", err)
               ? check(to, err)
               : err->code;
}

/* ---- for the parts of a run ------------------------------------------------------------------ */

learner_options learner_of(const weft_train_options *o, int n_thread)
{
    const double decay = o->weight_decay >= 0 ? o->weight_decay : o->lora ? 0 : 0.1;
    return (learner_options){ .n_thread = n_thread,
                              .n_group = o->n_group,
                              .recompute = o->recompute,
                              .bf16 = o->bf16,
                              .dropout = (real)o->dropout,
                              .smoothing = (real)o->smoothing,
                              .adamw = { o->beta1, o->beta2, o->eps, decay, o->clip },
                              .frozen = o->frozen,
                              .n_frozen = o->n_frozen };
}

schedule schedule_of(const weft_train_options *o, bool is_new)
{
    const int64_t n = o->n_step, tenth = n / 10 < 100 ? n / 10 : 100;
    const double lr = o->lr >= 0 ? o->lr : is_new ? 1e-3 : o->lora ? 2e-4 : 1e-4;
    return (schedule){ .kind = (schedule_kind)o->schedule,
                       .lr = lr,
                       .lr_min = o->lr_min >= 0 ? o->lr_min : lr / 10,
                       .n_warmup = o->n_warmup >= 0 ? o->n_warmup : tenth,
                       .n_step = n,
                       .n_decay = o->n_decay >= 0 ? o->n_decay : n / 5 };
}

int64_t rows_of_sample(const weft_train_options *o, int64_t n_ctx)
{
    return o->n_ctx ? o->n_ctx : n_ctx < 1024 ? n_ctx : 1024;
}

learned learned_of(const model *m)
{
    return (
        learned){ m->n_vocab, m->n_ctx, m->task, m->n_vocab_src, (int32_t)m->start, NULL, NULL };
}

static int32_t find_token(const tokenizer *t, const char *text)
{
    return (int32_t)tokenizer_find(t, text, strlen(text)); /* NO_ID is -1 */
}

static pairing pairing_of(const weft_train_options *o, const tokenizer *t, const learned *of)
{
    pairing p = { .encodes = of->n_vocab_src > 0,
                  .objective = o->objective,
                  .start = of->start,
                  .eos = t->eos,
                  .mask = (int32_t)tokenizer_mask(t) };
    for (char name[32]; p.n_sentinel < MAX_SENTINEL; p.n_sentinel++) {
        snprintf(name, sizeof name, "<extra_id_%d>", p.n_sentinel);
        p.sentinel[p.n_sentinel] = find_token(t, name);
        if (p.sentinel[p.n_sentinel] < 0)
            break;
    }
    return p;
}

/* Can such a model train on plain texts? */
static weft_status check_learned(const weft_train_options *o, const tokenizer *t, const learned *of,
                                 weft_error *err)
{
    const bool fills = of->task == WEFT_TASK_FILL;
    const char *from = o->model ? o->model : o->out;
    if (of->labels)
        return WEFT_OK;
    if (of->task != WEFT_TASK_GENERATE && !fills)
        return weft_fail(err, WEFT_EUNSUPPORTED,
                         "%s: text without labels; a classifier needs labelled data", from);
    const int32_t mask = (int32_t)tokenizer_mask(t);
    if (fills && (mask < 1 || mask >= of->n_vocab))
        return weft_fail(err, WEFT_EUNSUPPORTED,
                         "%s: the tokenizer has neither [MASK] nor <mask>, or the model has no row "
                         "for it",
                         t->path);
    if ((of->n_vocab_src > 0 && of->n_vocab_src < of->n_vocab) || strcmp(t->source, "marian") == 0)
        return weft_fail(
            err, WEFT_EUNSUPPORTED,
            "%s: separate source and target vocabularies; training needs one shared tokenizer",
            from);
    return WEFT_OK;
}

weft_status data_of(const weft_train_options *o, const tokenizer *t, const learned *of,
                    data_options *to, weft_error *err)
{
    *to = (data_options){ .corpus = { .tokenizer = t,
                                      .kind = (data_kind)o->data_kind,
                                      .separator = o->separator,
                                      .parse_special = o->parse_special,
                                      .pairs = of->n_vocab_src > 0,
                                      .labels = of->labels ? &of->labels->set : NULL,
                                      .columns = of->labels ? &of->labels->columns : NULL,
                                      .chat = of->chat && of->chat->found ? &of->chat->chat : NULL,
                                      .no_chat = of->chat && of->chat->why.code ? &of->chat->why
                                                                                : NULL,
                                      .apart = o->validation_data,
                                      .eos = t->eos,
                                      .n_vocab = (uint32_t)of->n_vocab,
                                      .n_thread = o->threads,
                                      .load = o->load,
                                      .progress = o->reading,
                                      .progress_ud = o->reading_ud },
                          .n_ctx = rows_of_sample(o, of->n_ctx),
                          .pairing = pairing_of(o, t, of),
                          .validation = o->validation,
                          .mask_id = of->task == WEFT_TASK_FILL ? (int32_t)tokenizer_mask(t) : 0 };
    return check_learned(o, t, of, err);
}
