/* explain_train.c - takes the steps that a page shows: targets of the text, the learner that a run has
 * on a copy of the model, and what it did to each weight. */
#include "api/explain_train.h"
#include "api/api.h"
#include "api/train_options.h"
#include "base/cpu.h"

#include <limits.h>
#include <string.h>

#define FEW_SLOPES  (1 << 18) /* of all rows together: a page keeps them all */
#define FEW_NUMBERS (1 << 18) /* of all layers together: the same */
#define MOST_DRAWS  1000      /* of masks, until one is on a token */

/* ---- what can be learned --------------------------------------------------------------------- */

static weft_status refuse_weights(const model *m, weft_error *err)
{
    for (int64_t i = 0; i < m->n_param; i++)
        if (m->param[i]->type->block > 1)
            return weft_fail(err, WEFT_EUNSUPPORTED,
                             "%s: %s is %s; expected f32, f16 or bf16 weights to train; convert "
                             "the model to f32, or show it without training",
                             m->file.path, m->param[i]->name, m->param[i]->type->name);
    return WEFT_OK;
}

/* The id of the mask, or -1. */
static int32_t mask_of(const weft_explain_options *o)
{
    weft_tokenizer_info t = { .struct_size = sizeof t, .mask_id = -1 };
    if (o->tokenizer)
        weft_tokenizer_get_info(o->tokenizer, &t);
    return t.mask_id;
}

static int64_t count_masks(const int32_t *text, int64_t n, int32_t mask)
{
    int64_t found = 0;
    for (int64_t i = 0; i < n; i++)
        found += mask >= 0 && text[i] == mask;
    return found;
}

static weft_status check_masks(const model *m, const weft_explain_options *o, const int32_t *text,
                               int64_t n, weft_error *err)
{
    const int64_t n_mask = count_masks(text, n, mask_of(o)), want = n_mask > 0 ? n_mask : 1;
    if (o->n_target == want || (o->n_target == 0 && n_mask == 0))
        return WEFT_OK;
    return weft_fail(err, WEFT_EINVAL,
                     "%s: %lld masks in the text and %lld tokens as target; expected one for each "
                     "mask, or for the token that is shown; give as many",
                     m->file.path, (long long)n_mask, (long long)o->n_target);
}

static weft_status check_targets(const model *m, const weft_explain_options *o, const int32_t *text,
                                 int64_t n, weft_error *err)
{
    const int64_t n_row = n - 1 + o->n_target;
    for (int64_t i = 0; i < o->n_target; i++)
        if (o->target[i] < 0 || o->target[i] >= m->n_vocab)
            return weft_fail(err, WEFT_EINVAL, "target %lld is %d; expected 0 to %lld",
                             (long long)i, (int)o->target[i], (long long)m->n_vocab - 1);
    if (m->task == WEFT_TASK_FILL)
        return check_masks(m, o, text, n, err);
    if (n_row < 1)
        return weft_fail(err, WEFT_EINVAL,
                         "1 token and no target; expected a token to predict; give a longer text, "
                         "or a target");
    if (n_row > WEFT_EXPLAIN_TOKENS || n_row > m->n_ctx)
        return weft_fail(
            err, WEFT_EINVAL, "%lld tokens with the target; expected at most %lld",
            (long long)n_row + 1,
            (long long)(m->n_ctx < WEFT_EXPLAIN_TOKENS ? m->n_ctx : WEFT_EXPLAIN_TOKENS) + 1);
    return WEFT_OK;
}

weft_status check_lesson(const weft_model *w, const weft_explain_options *o, const int32_t *text,
                         int64_t n, weft_error *err)
{
    const model *m = &w->model;
    if (o->train < 0 || o->train > WEFT_EXPLAIN_STEPS)
        return weft_fail(err, WEFT_EINVAL, "%d steps of training; expected 0 to %d", o->train,
                         WEFT_EXPLAIN_STEPS);
    if (o->n_target < 0 || o->n_target > WEFT_EXPLAIN_TOKENS || (o->n_target > 0 && !o->target))
        return weft_fail(err, WEFT_EINVAL, "a target of %lld tokens; expected up to %d",
                         (long long)o->n_target, WEFT_EXPLAIN_TOKENS);
    if (o->train == 0)
        return WEFT_OK;
    if (!lesson_fits(m))
        return weft_fail(err, WEFT_EUNSUPPORTED,
                         "%s: is a model of %s; expected a decoder or a masked language model "
                         "to train on a text; show it without training",
                         m->file.path, m->name);
    const weft_status status = refuse_weights(m, err);
    return status == WEFT_OK ? check_targets(m, o, text, n, err) : status;
}

/* ---- the rows of a step ---------------------------------------------------------------------- */

typedef struct teaching {
    const weft_explain_options *o;
    host *host;
    model model; /* a copy */
    learner learner;
    batch batch;
    schedule schedule;
    lesson *to;
    weft_error seen; /* why the observer failed */
    bool has_model, has_learner;
} teaching;

static void want(batch *b, int64_t i, int32_t target)
{
    b->row[i].target = target;
    b->row[i].wanted = true;
    b->n_wanted++;
}

/* Every row predicts the id that follows it; with a target, only those before its ids do. */
static void shift(teaching *t, const int32_t *text, int64_t n)
{
    const weft_explain_options *o = t->o;
    const int64_t first = o->n_target > 0 ? n - 1 : 0;
    for (int64_t i = first; i < t->batch.n_row; i++)
        want(&t->batch, i, i + 1 < n ? text[i + 1] : o->target[i + 1 - n]);
}

/* As a run masks its first sample; the next ones, until a token is chosen. */
static bool draw_masks(teaching *t, int32_t mask)
{
    weft_train_options d = { .struct_size = sizeof d };
    weft_train_defaults(&d, sizeof d);
    const masking how = { .id = mask,
                          .tokenizer = tokenizer_inside(t->o->tokenizer),
                          .n_vocab = (uint32_t)t->model.n_vocab,
                          .share = MASKED_SHARE };
    for (int64_t i = 0; i < MOST_DRAWS && t->batch.n_wanted == 0; i++) {
        const chance c = data_chance(d.seed, i);
        mask_rows(&t->batch, 0, &how, c.key, c.number);
    }
    return t->batch.n_wanted > 0;
}

/* Masks of the text have their targets; without masks, `token` has one, or chance chooses. */
static void put_masks(teaching *t)
{
    const weft_explain_options *o = t->o;
    batch *b = &t->batch;
    const int32_t mask = mask_of(o);
    int64_t given = 0;
    for (int64_t i = 0; i < b->n_row && given < o->n_target; i++)
        if (mask >= 0 && b->row[i].id == mask)
            want(b, i, o->target[given++]);
    if (b->n_wanted > 0 || (o->n_target == 0 && mask >= 0 && draw_masks(t, mask)))
        return;
    want(b, o->token, o->n_target > 0 ? o->target[0] : b->row[o->token].id);
    b->row[o->token].id = mask >= 0 ? mask : b->row[o->token].id;
}

static weft_status fill_rows(teaching *t, const int32_t *text, int64_t n, weft_error *err)
{
    const weft_explain_options *o = t->o;
    lesson *to = t->to;
    const bool masked = t->model.task == WEFT_TASK_FILL;
    to->kind = masked ? LESSON_MASKED : LESSON_NEXT;
    to->continued = !masked && o->n_target > 0;
    to->mask = masked ? mask_of(o) : -1;
    to->n_row = masked ? n : n - 1 + o->n_target;
    to->row = mem_zalloc(to->mem, (size_t)to->n_row, sizeof *to->row, "rows", err);
    batch *b = &t->batch;
    if (!to->row || batch_init(b, to->n_row, 1, to->mem, err) != WEFT_OK)
        return err->code;
    b->n_row = (int32_t)to->n_row;
    b->n_seq = 1;
    b->seq[0] = (sequence){ .n = b->n_row, .source = -1 };
    for (int32_t i = 0; i < b->n_row; i++) {
        const int32_t id = i < n ? text[i] : o->target[i - n];
        b->row[i] = (batch_row){ .id = id, .pos = i, .target = NO_TARGET, .weight = 1 };
        to->row[i].given = id;
    }
    if (masked)
        put_masks(t);
    else
        shift(t, text, n);
    for (int64_t i = 0; i < to->n_row; i++) {
        to->row[i].id = b->row[i].id;
        to->row[i].target = b->row[i].target;
    }
    to->n_target = b->n_wanted;
    to->scale = 1 / (double)b->n_wanted;
    return WEFT_OK;
}

/* Slopes of all targets if they are few; otherwise those of the first one from `token` on. */
static weft_status choose_slopes(teaching *t, weft_error *err)
{
    lesson *to = t->to;
    const bool all = to->n_target * t->model.n_out <= FEW_SLOPES;
    to->slope_row = mem_zalloc(to->mem, (size_t)to->n_target, sizeof *to->slope_row, "rows", err);
    if (!to->slope_row)
        return err->code;
    int64_t k = 0;
    for (int64_t i = 0; i < to->n_row; i++) {
        if (to->row[i].target == NO_TARGET)
            continue;
        if (all)
            to->slope_row[to->n_slope++] = k;
        else if (i <= t->o->token || k == 0)
            to->slope_row[0] = k;
        k++;
    }
    to->n_slope = all ? to->n_slope : 1;
    return WEFT_OK;
}

/* ---- the copy -------------------------------------------------------------------------------- */

/* The path that the model was opened by: a file, or the directory of its config.json. */
static weft_status open_copy(teaching *t, const weft_model *w, weft_error *err)
{
    const container *c = &w->model.file;
    const char *config = strcmp(c->path, c->meta_path) == 0 ? NULL : strrchr(c->meta_path, '/');
    char path[4096];
    const size_t n = config ? (size_t)(config - c->meta_path) : strlen(c->path);
    if (n >= sizeof path)
        return weft_fail(err, WEFT_EINVAL, "%.200s...: the path is too long", c->path);
    memcpy(path, config ? c->meta_path : c->path, n);
    path[n] = '\0';
    const bool mapped = c->n_file > 0 && c->file[0].mapped;
    const weft_status status = model_open(&t->model, path, mapped ? WEFT_LOAD_MAP : WEFT_LOAD_COPY,
                                          t->host, err);
    t->has_model = status == WEFT_OK;
    return status == WEFT_OK ? refuse_weights(&t->model, err) : status;
}

static void describe_run(teaching *t, const weft_train_options *d)
{
    lesson *to = t->to;
    const adamw_options *a = &t->learner.adamw.opt;
    t->schedule = schedule_of(d, false);
    to->beta1 = a->beta1;
    to->beta2 = a->beta2;
    to->eps = a->eps;
    to->decay = a->decay;
    to->clip = a->clip;
    to->lr = t->schedule.lr;
    to->lr_min = t->schedule.lr_min;
    to->n_warmup = t->schedule.n_warmup;
    to->n_schedule = t->schedule.n_step;
    for (int i = 0; i < LESSON_RATES; i++) {
        to->rate_step[i] = 1 + (t->schedule.n_step - 1) * i / (LESSON_RATES - 1);
        to->rate[i] = schedule_lr(&t->schedule, to->rate_step[i]);
    }
}

static weft_status begin_learner(teaching *t, weft_error *err)
{
    weft_train_options d = { .struct_size = sizeof d };
    weft_train_defaults(&d, sizeof d);
    learner_options o = learner_of(&d, t->o->threads ? t->o->threads : cpu_count());
    o.seed = d.seed;
    const weft_status status = learner_init(&t->learner, &t->model, &o, &t->batch, err);
    t->has_learner = status == WEFT_OK;
    if (status == WEFT_OK)
        describe_run(t, &d);
    return status;
}

/* ---- the steps ------------------------------------------------------------------------------- */

/* After the first backward: the norm of each weight's gradient, and the number that is followed. */
static weft_status take_weights(teaching *t, weft_error *err)
{
    lesson *to = t->to;
    const params *p = &t->learner.params;
    to->weight = mem_zalloc(to->mem, (size_t)p->n_tensor, sizeof *to->weight, "weights", err);
    if (!to->weight)
        return err->code;
    to->n_weight = p->n_tensor;
    for (int64_t i = 0; i < p->n_tensor; i++) {
        const tensor *w = p->tensor[i];
        const real *g = p->grad + p->at[i];
        lesson_weight *o = &to->weight[i];
        double squares = 0;
        memcpy(o->name, w->name, NAME_BYTES);
        o->n_dim = w->n_dim;
        o->n = 1;
        for (int d = 0; d < w->n_dim; d++)
            o->n *= o->shape[d] = w->shape[d];
        for (int64_t k = 0; k < o->n; k++) {
            squares += (double)g[k] * (double)g[k];
            o->at = fabs((double)g[k]) > fabs((double)g[o->at]) ? k : o->at;
        }
        o->norm = sqrt(squares);
        o->decays = w->n_dim > 1;
        o->weight = (float)p->value[p->at[i] + o->at];
    }
    return WEFT_OK;
}

static void follow(teaching *t, int step)
{
    const params *p = &t->learner.params;
    const adamw *a = &t->learner.adamw;
    for (int64_t i = 0; i < t->to->n_weight; i++) {
        const int64_t at = p->at[i] + t->to->weight[i].at;
        t->to->weight[i].step[step] = (lesson_number){ (float)p->grad[at], (float)a->m[at],
                                                       (float)a->v[at], (float)p->value[at] };
    }
}

static weft_status take_step(teaching *t, int i, weft_error *err)
{
    learner *l = &t->learner;
    lesson *to = t->to;
    lesson_step *s = &to->step[i];
    weft_status status = learner_begin(l, err);
    if (status != WEFT_OK)
        return status;
    l->tape.observer = i == 0 ? lesson_see : NULL;
    l->tape.observer_ud = to;
    s->loss = (double)learner_add(l, &t->batch, 1);
    if (to->back.failed)
        return weft_fail(err, t->seen.code, "%s", t->seen.message);
    learner_group_end(l);
    params_end(&l->params);
    if (i == 0)
        status = take_weights(t, err);
    if (status != WEFT_OK)
        return status;
    s->lr = schedule_lr(&t->schedule, i + 1);
    s->norm = learner_update(l, s->lr);
    s->clip = adamw_clip(&l->adamw.opt, s->norm);
    if (!isfinite(s->norm))
        return weft_fail(err, WEFT_ENUMERIC,
                         "%s: step %d: the gradient's norm is %g; expected a "
                         "finite one; look for the first bad tensor with weft trace",
                         t->model.file.path, i + 1, s->norm);
    follow(t, i);
    return WEFT_OK;
}

weft_status take_lesson(weft_model *w, const weft_explain_options *o, const int32_t *text,
                        int64_t n, lesson *to, weft_error *err)
{
    teaching *t = mem_zalloc(&w->host.mem, 1, sizeof *t, "training",
                             err); /* too large for the stack */
    if (!t)
        return err->code;
    const model *m = &w->model;
    const double N = (double)(n + o->n_target),
                 numbers = (double)m->n_layer * N *
                           (3 * N * (double)m->n_head + 8 * (double)m->d_model);
    *to = (lesson){ .mem = &w->host.mem, .as_tape = true };
    t->o = o;
    t->host = &w->host;
    t->to = to;
    to->back = (record){ .mem = to->mem,
                         .err = &t->seen,
                         .n_layer = w->model.n_layer,
                         .keep_all = o->all || numbers < FEW_NUMBERS,
                         .keep_layer = o->layer };
    to->inside = to->back;
    weft_status status = open_copy(t, w, err);
    if (status == WEFT_OK)
        status = fill_rows(t, text, n, err);
    if (status == WEFT_OK)
        status = choose_slopes(t, err);
    if (status == WEFT_OK)
        status = begin_learner(t, err);
    for (; status == WEFT_OK && to->n_step < o->train; to->n_step++)
        status = take_step(t, to->n_step, err);
    if (status == WEFT_OK)
        to->loss_after = (double)learner_loss(&t->learner, &t->batch);
    if (t->has_learner)
        learner_free(&t->learner);
    batch_free(&t->batch, to->mem);
    if (t->has_model)
        model_close(&t->model);
    to->back.err = to->inside.err = NULL;
    mem_free(&w->host.mem, t);
    return status;
}
