#include "train/learner.h"

#include "base/rng.h"

static void prepare(learner *l, run *r)
{
    r->kern = kernels_select(&l->model->host->log);
    r->pool = l->pool;
    r->training = true;
    r->dropout = l->opt.dropout;
    r->smoothing = l->opt.smoothing;
}

static tensor *record(learner *l, run *r, const batch *b)
{
    run_begin(r, b);
    tape_begin(r, &l->tape);
    return l->model->arch->family->forward(r, l->model);
}

weft_status learner_predict(learner *l, const batch *b, learner_plan *plan, weft_error *err)
{
    run dry;
    if (run_init_dry(&dry, &l->model->host->mem, (int)l->model->n_layer, err) != WEFT_OK)
        return WEFT_ENOMEM;
    prepare(l, &dry);
    tensor *loss = record(l, &dry, b);
    tape_backward(&dry, loss, NULL);
    *plan = (learner_plan){ dry.meta.peak, dry.data.peak, dry.scratch_peak };
    run_free(&dry);
    return WEFT_OK;
}

weft_status learner_init(learner *l, model *m, const learner_options *o, const batch *largest,
                         weft_error *err)
{
    *l = (learner){ .model = m, .opt = *o, .tape = { .recompute = o->recompute } };
    learner_plan plan;
    l->pool = pool_new(o->n_thread, &m->host->mem, err);
    if (l->pool && params_init(&l->params, m, o->bf16, err) == WEFT_OK &&
        adamw_init(&l->adamw, &l->params, &o->adamw, err) == WEFT_OK &&
        learner_predict(l, largest, &plan, err) == WEFT_OK &&
        run_init(&l->run, &m->host->mem, plan.meta, plan.data, plan.scratch, err) == WEFT_OK) {
        prepare(l, &l->run);
        return WEFT_OK;
    }
    learner_free(l);
    return WEFT_ENOMEM;
}

void learner_free(learner *l)
{
    run_free(&l->run);
    adamw_free(&l->adamw);
    params_free(&l->params);
    pool_free(l->pool);
    *l = (learner){ 0 };
}

weft_status learner_begin(learner *l, weft_error *err)
{
    params_begin(&l->params);
    return pool_ready(l->pool, err);
}

real learner_backward(learner *l, const batch *b)
{
    const real one = 1;
    const rng_block key = rng_draw(l->opt.seed, 0, l->n_backward++);
    l->run.key = (uint64_t)key.word[0] << 32 | key.word[1];
    tensor *loss = record(l, &l->run, b);
    const real value = *row(loss, 0);
    tape_backward(&l->run, loss, &one);
    return value;
}

double learner_update(learner *l, double lr)
{
    params_end(&l->params);
    return adamw_step(&l->adamw, lr, l->pool);
}
