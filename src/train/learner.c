/* learner.c - one training step over a batch, and the evaluation of another. */
#include "train/learner.h"

#include "base/checked.h"
#include "base/rng.h"

#include <string.h>

static void learner_prepare(learner *l, run *r)
{
    r->kern = l->model->kern;
    r->pool = l->pool;
    r->training = true;
    r->dropout = l->opt.dropout;
    r->lora_dropout = l->opt.lora ? l->opt.lora->spec.dropout : 0;
    r->smoothing = l->opt.smoothing;
}

/* Gives all sequences of a batch, and of its sources, the adapter, or none. These fields are the
 * learner's, so that nobody who fills batches needs to know of adapters. */
static void adapt_batch(const learner *l, const batch *filled, bool on)
{
    batch *b = (batch *)filled;
    lora_params *p = l->opt.lora;
    if (!p)
        return;
    b->rank = p->ready->set.rank;
    for (int32_t i = 0; i < b->n_seq; i++)
        b->seq[i].adapted = on ? (adaption){ &p->ready->set, 1 } : (adaption){ 0 };
    if (b->src)
        adapt_batch(l, b->src, on);
}

static tensor *learner_record(learner *l, run *r, const batch *b)
{
    run_begin(r, b);
    tape_begin(r, &l->tape);
    return model_forward(r, l->model);
}

bool logits_score(const real *z, int64_t n, int32_t target, double *loss)
{
    double sum = 0;
    int64_t best = 0;
    for (int64_t k = 1; k < n; k++)
        best = z[k] > z[best] ? k : best;
    for (int64_t k = 0; k < n; k++)
        sum += exp((double)z[k] - (double)z[best]);
    *loss += log(sum) + (double)z[best] - (double)z[target];
    return best == target;
}

/* Consumes logits as they are produced, and finds the target of each. */
typedef struct scoring {
    const batch *batch;
    int32_t at; /* the next row to look at */
    double loss;
    int64_t n, n_right;
} scoring;

static const batch_row *next_wanted(scoring *s)
{
    while (!s->batch->row[s->at].wanted)
        s->at++;
    return &s->batch->row[s->at++];
}

static void score_rows(void *ud, const tensor *z, int64_t first)
{
    (void)first;
    scoring *s = ud;
    for (int64_t i = 0; i < rows(z); i++) {
        s->n_right += logits_score(row(z, i), cols(z), next_wanted(s)->target, &s->loss);
        s->n++;
    }
}

/* Forward pass for inference: logits and no loss. */
static void read_logits(learner *l, run *r, const batch *b, scoring *s)
{
    r->training = false;
    r->dropout = r->lora_dropout = 0;
    r->read = score_rows;
    r->read_ud = s;
    run_begin(r, b);
    model_forward(r, l->model);
    r->read = NULL;
    learner_prepare(l, r);
}

weft_status learner_predict(learner *l, const batch *b, learner_plan *plan, weft_error *err)
{
    run dry;
    const model *m = l->model;
    if (run_init_dry(&dry, &m->host->mem, (int)(m->n_layer + m->n_layer_src), err) != WEFT_OK)
        return WEFT_ENOMEM;
    learner_prepare(l, &dry);
    adapt_batch(l, b, true);
    if (m->task == WEFT_TASK_CLASSIFY)
        read_logits(l, &dry, b, NULL);
    tensor *loss = learner_record(l, &dry, b);
    tape_backward(&dry, loss, NULL);
    *plan = (learner_plan){ dry.meta.peak, dry.data.peak, dry.scratch_peak };
    run_free(&dry);
    return WEFT_OK;
}

static int ranks_of(const learner_options *o)
{
    return o->reduce.ranks ? n_rank(o->reduce.ranks) : 1;
}

/* Of this rank. */
static int groups(const learner_options *o)
{
    return o->n_group > 1 ? o->n_group / ranks_of(o) : 1;
}

weft_status learner_size(model *m, const learner_options *o, const batch *largest, uint64_t *bytes,
                         weft_error *err)
{
    learner l = { .model = m, .opt = *o, .tape = { .recompute = o->recompute } };
    learner_plan plan;
    const uint64_t numbers = (uint64_t)params_sketch(m, o->bf16);
    const uint64_t blocks = 1 + (uint64_t)params_blocks(groups(o)); /* w, dw */
    const uint64_t each = blocks * sizeof(real) + (o->bf16 ? sizeof(uint16_t) : 0);
    const uint64_t moments = 2 * (uint64_t)reduce_own(&o->reduce, (int64_t)numbers) * sizeof(real);
    const uint64_t moving = reduce_bytes(&o->reduce, (int64_t)numbers);
    l.params = (params){ .tensor = m->param, .n_tensor = m->n_param };
    for (int i = 0; i < o->n_frozen; i++)
        params_freeze(&l.params, o->frozen[i]);
    l.pool = pool_new(o->n_thread, &m->host->mem, err);
    if (!l.pool)
        return err->code;
    const weft_status status = learner_predict(&l, largest, &plan, err);
    pool_free(l.pool);
    if (status != WEFT_OK)
        return status;
    if (!checked_mul(numbers, each, bytes) || !checked_add(*bytes, moments, bytes) ||
        !checked_add(*bytes, moving, bytes) || !checked_add(*bytes, plan.meta, bytes) ||
        !checked_add(*bytes, plan.data, bytes) || !checked_add(*bytes, plan.scratch, bytes))
        *bytes = UINT64_MAX;
    return WEFT_OK;
}

static weft_status freeze(learner *l, weft_error *err)
{
    bool learns = false;
    for (int i = 0; i < l->opt.n_frozen; i++)
        if (params_freeze(&l->params, l->opt.frozen[i]) == 0)
            return weft_fail(err, WEFT_EINVAL, "\"%.60s\": no weight matches", l->opt.frozen[i]);
    for (int64_t i = 0; i < l->params.n_tensor; i++)
        learns |= l->params.tensor[i]->needs_grad;
    return learns ? WEFT_OK : weft_fail(err, WEFT_EINVAL, "all weights are frozen");
}

/* The model's weights, or A and B of the adapter. */
static weft_status take_params(learner *l, weft_error *err)
{
    model *m = l->model;
    lora_params *own = l->opt.lora;
    mem *from = &m->host->mem;
    const int n = groups(&l->opt);
    if (own) {
        const weft_status status = params_init(&l->params, own->list, own->n_tensor, from, false, n,
                                               err);
        if (status == WEFT_OK)
            lora_params_settle(own, m, l->opt.seed, l->pool);
        return status;
    }
    const weft_status status = params_init(&l->params, m->param, m->n_param, from, l->opt.bf16, n,
                                           err);
    if (status == WEFT_OK)
        container_release_pages(&m->file);
    return status;
}

static int64_t n_load(const learner *l)
{
    return l->model->n_layer * l->model->n_expert;
}

static weft_status take_loads(learner *l, weft_error *err)
{
    mem *m = &l->model->host->mem;
    const size_t n = (size_t)n_load(l), R = (size_t)ranks_of(&l->opt);
    l->load = mem_zalloc(m, n, sizeof *l->load, "loads of experts", err);
    if (l->load && R > 1)
        l->loads = mem_zalloc(m, R * n, sizeof *l->loads, "loads of experts", err);
    return l->load && (R == 1 || l->loads) ? WEFT_OK : WEFT_ENOMEM;
}

weft_status learner_init(learner *l, model *m, const learner_options *o, const batch *largest,
                         weft_error *err)
{
    *l = (learner){ .model = m, .opt = *o, .tape = { .recompute = o->recompute } };
    learner_plan plan;
    l->pool = pool_new(o->n_thread, &m->host->mem, err);
    weft_status status = l->pool ? take_params(l, err) : WEFT_ENOMEM;
    if (status == WEFT_OK)
        status = freeze(l, err);
    if (status == WEFT_OK)
        status = reduce_init(&l->reduce, &o->reduce, &l->params, l->pool, err);
    if (status == WEFT_OK)
        status = adamw_init(&l->adamw, &l->params, &o->adamw, err);
    if (status == WEFT_OK)
        status = learner_predict(l, largest, &plan, err);
    if (status == WEFT_OK)
        status = run_init(&l->run, &m->host->mem, plan.meta, plan.data, plan.scratch, err);
    if (status == WEFT_OK && m->n_expert > 0)
        status = take_loads(l, err);
    if (status == WEFT_OK)
        learner_prepare(l, &l->run);
    else
        learner_free(l);
    l->run.load = l->load;
    if (status == WEFT_OK && ranks_of(o) > 1) {
        l->tape.ready = reduce_ready;
        l->run.poll = reduce_poll;
        l->tape.ud = l->run.poll_ud = &l->reduce;
    }
    return status;
}

void learner_free(learner *l)
{
    run_free(&l->run);
    adamw_free(&l->adamw);
    reduce_free(&l->reduce);
    params_free(&l->params);
    pool_free(l->pool);
    if (l->load) {
        mem_free(&l->model->host->mem, l->load);
        mem_free(&l->model->host->mem, l->loads);
    }
    *l = (learner){ 0 };
}

weft_status learner_begin(learner *l, weft_error *err)
{
    params_begin(&l->params);
    for (int64_t i = 0; l->load && i < n_load(l); i++)
        l->load[i] = 0;
    return pool_ready(l->pool, err);
}

void learner_last(learner *l)
{
    reduce_arm(&l->reduce);
}

void learner_group_end(learner *l)
{
    params_group_end(&l->params, l->pool);
}

real learner_add(learner *l, const batch *b, double share)
{
    const real slope = (real)share;
    adapt_batch(l, b, true);
    const rng_block key = rng_draw(l->opt.seed, 0, l->n_backward++);
    l->run.key = (uint64_t)key.word[0] << 32 | key.word[1];
    tensor *loss = learner_record(l, &l->run, b);
    const real value = *row(loss, 0);
    tape_backward(&l->run, loss, &slope);
    return value;
}

real learner_backward(learner *l, const batch *b)
{
    return learner_add(l, b, 1);
}

/* Without dropout and label smoothing. */
static real plain_loss(learner *l, const batch *b)
{
    l->run.dropout = l->run.lora_dropout = l->run.smoothing = 0;
    run_begin(&l->run, b);
    const real value = *row(model_forward(&l->run, l->model), 0);
    learner_prepare(l, &l->run);
    return value;
}

real learner_loss(learner *l, const batch *b)
{
    adapt_batch(l, b, true);
    return plain_loss(l, b);
}

void learner_refer(learner *l, const batch *b)
{
    adapt_batch(l, b, false);
    plain_loss(l, b);
}

real learner_score(learner *l, const batch *b, int64_t *n_right)
{
    scoring s = { .batch = b };
    adapt_batch(l, b, true);
    read_logits(l, &l->run, b, &s);
    *n_right = s.n_right;
    return s.n > 0 ? (real)(s.loss / (double)s.n) : 0;
}

/* The mean load of a layer's experts. */
static double mean_load(const learner *l, int64_t layer)
{
    const int64_t E = l->model->n_expert;
    double sum = 0;
    for (int64_t e = 0; e < E; e++)
        sum += (double)l->load[layer * E + e];
    return sum / (double)E;
}

#define BALANCE (real)1e-3 /* what a step adds to a bias, as in DeepSeek-V3 */

static void balance(learner *l)
{
    const model *m = l->model;
    for (int64_t i = 0; l->load && i < m->n_layer; i++) {
        const tensor *bias = m->expert_bias[i];
        const double mean = mean_load(l, i);
        for (int64_t e = 0; bias && bias->needs_grad && e < m->n_expert; e++) {
            const double over = (double)l->load[i * m->n_expert + e] - mean;
            row(bias, 0)[e] += over > 0 ? -BALANCE : over < 0 ? BALANCE : 0;
        }
    }
}

/* Several ranks have gradients and norms from learner_reduce, also of weights that this one did not
 * use. */
double learner_update(learner *l, double lr)
{
    if (ranks_of(&l->opt) == 1) {
        params_end(&l->params);
        params_norm_own(&l->params, l->pool);
    }
    const double norm = params_norm_total(&l->params);
    adamw_step(&l->adamw, lr, norm, l->pool);
    if (isfinite(norm))
        balance(l);
    if (l->opt.lora && ranks_of(&l->opt) == 1)
        lora_params_renew(l->opt.lora, l->model, l->pool);
    return norm;
}

/* Rows of all ranks that each expert had. */
static weft_status share_loads(learner *l, weft_error *err)
{
    const int64_t n = n_load(l);
    ranks *r = l->opt.reduce.ranks;
    if (!l->load)
        return WEFT_OK;
    memcpy(l->loads + rank_of(r) * n, l->load,
           (size_t)n * sizeof *l->load); /* bounded: by the model */
    const weft_status status = ranks_share(r, l->loads, (size_t)n * sizeof *l->load, err);
    for (int64_t i = 0; i < n; i++) {
        l->load[i] = 0;
        for (int q = 0; q < n_rank(r); q++)
            l->load[i] += l->loads[q * n + i];
    }
    return status;
}

weft_status learner_reduce(learner *l, weft_error *err)
{
    if (ranks_of(&l->opt) == 1)
        return WEFT_OK;
    const weft_status status = reduce_finish(&l->reduce, err);
    return status == WEFT_OK ? share_loads(l, err) : status;
}

weft_status learner_share(learner *l, weft_error *err)
{
    const weft_status status = reduce_values(&l->reduce, err);
    if (status == WEFT_OK && l->opt.lora && ranks_of(&l->opt) > 1)
        lora_params_renew(l->opt.lora, l->model, l->pool);
    return status;
}

void learner_load(const learner *l, double *min, double *max)
{
    *min = *max = NAN;
    for (int64_t i = 0; l->load && i < n_load(l); i++) {
        const double mean = mean_load(l, i / l->model->n_expert), x = (double)l->load[i] / mean;
        if (mean > 0) {
            *min = x >= *min ? *min : x; /* also replaces the initial NaN */
            *max = x <= *max ? *max : x;
        }
    }
}
