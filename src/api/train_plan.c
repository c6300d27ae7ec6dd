/* train_plan.c - the public function that says what a run would take: a model without weights is designed
 * for its size, and smaller ones are trained for the time. */
#include "api/train_init.h"
#include "api/train_options.h"
#include "base/cpu.h"
#include "train/forecast.h"
#include "train/image_set.h"
#include "train/pace.h"

#include <string.h>

/* A model with more layers than MANY is measured on two with fewer: the difference is that of layers,
 * which are alike but for the first. */
#define FEW  2
#define MANY 6

/* Tokens of a batch that is measured: fewer would not show how fast products are. */
#define ENOUGH_TOKENS 2048

typedef struct planning {
    const weft_train_options *o;
    host *host;
    init_model_shape shape; /* of a new model */
    int n_thread;
    pace pace;
} planning;

/* What weft_train would refuse, too. */
static weft_status check_model(const weft_train_options *o, const model *m, weft_error *err)
{
    if (m->image.channels > 0)
        return weft_fail(err, WEFT_EUNSUPPORTED, "%s: plans are for models of text", o->model);
    if (m->task != WEFT_TASK_GENERATE && m->task != WEFT_TASK_FILL)
        return weft_fail(err, WEFT_EUNSUPPORTED,
                         "%s: needs labelled data; plans are for models that learn from text",
                         o->model);
    if (o->n_ctx > m->n_ctx)
        return weft_fail(err, WEFT_EINVAL, "n_ctx is %lld, expected 1 to %lld, the model's context",
                         (long long)o->n_ctx, (long long)m->n_ctx);
    return refuse_quantised(m, err);
}

static weft_status open_given(const planning *p, model *m, weft_error *err)
{
    weft_status status = model_plan(m, p->o->model, p->o->load, p->host, err);
    if (status != WEFT_OK)
        return status;
    status = check_model(p->o, m, err);
    if (status != WEFT_OK)
        model_close(m);
    return status;
}

/* With n_layer layers; 0: as many as it has. */
OWN_FRAME static weft_status design(const planning *p, model *m, int64_t n_layer, weft_error *err)
{
    buffer config;
    init_model_shape s = p->shape;
    if (p->o->model)
        return open_given(p, m, err);
    s.n_layer = n_layer > 0 ? n_layer : s.n_layer;
    buffer_begin(&config, &p->host->mem, err);
    init_model_config(&config, &s);
    const weft_status status = config.failed ? err->code
                                             : model_design(m, (const char *)config.at, config.n,
                                                            p->host, err);
    buffer_end(&config);
    return status;
}

static int64_t groups_of(const weft_train_options *o)
{
    return o->n_group > 1 ? o->n_group : 1;
}

static int64_t samples_of_group(const weft_train_options *o)
{
    return ((int64_t)o->n_sample * o->n_part + groups_of(o) - 1) / groups_of(o);
}

/* Sequences of a part. */
static int64_t samples_of_part(const weft_train_options *o)
{
    return samples_of_group(o) < o->n_sample ? samples_of_group(o) : o->n_sample;
}

OWN_FRAME static weft_status measure(planning *p, int64_t n_layer, pace *to, weft_error *err)
{
    model m;
    batch b;
    dataset d;
    image_set none;
    weft_train_options o = *p->o;
    learner_options l = learner_of(&o, p->n_thread);
    l.n_group = 1;
    weft_status status = design(p, &m, n_layer, err);
    if (status != WEFT_OK)
        return status;
    const int64_t most = ENOUGH_TOKENS / rows_of_sample(&o, m.n_ctx);
    o.n_sample = (int)(most < samples_of_part(&o) ? most : samples_of_part(&o));
    o.n_sample = o.n_sample > 0 ? o.n_sample : 1;
    status = train_largest_batch(&b, &d, &o, &m, &none, p->host, err);
    if (status == WEFT_OK) {
        status = pace_measure(to, &m, &l, &b, o.waiting, o.waiting_ud, err);
        data_room_free(&b, &d);
    }
    model_close(&m);
    return status;
}

/* The time of a layer, and of what is besides. */
static weft_status measure_layers(planning *p, weft_error *err)
{
    pace few, many;
    const int64_t n = p->shape.n_layer;
    if (p->o->model || n <= MANY)
        return measure(p, 0, &p->pace, err);
    weft_status status = measure(p, FEW, &few, err);
    if (status == WEFT_OK)
        status = measure(p, MANY, &many, err);
    if (status == WEFT_OK && many.sequence > 0)
        p->pace = (pace){ few.sequence + fmax(0, many.sequence - few.sequence) / (MANY - FEW) *
                                             (double)(n - FEW),
                          many.update };
    return status;
}

/* Memory, traffic and time of one rank of R. */
OWN_FRAME static weft_status cost_of(const planning *p, const weft_train_network *net, int R,
                                     weft_train_cost *to, weft_error *err)
{
    model m;
    batch b;
    dataset d;
    image_set none;
    uint64_t bytes = 0;
    comm job = { .size = R };
    ranks all = { .comm = R > 1 ? &job : NULL };
    const weft_train_options *o = p->o;
    learner_options l = learner_of(o, p->n_thread);
    l.reduce.ranks = &all;
    weft_status status = design(p, &m, 0, err);
    if (status != WEFT_OK)
        return status;
    status = train_largest_batch(&b, &d, o, &m, &none, p->host, err);
    if (status == WEFT_OK) {
        status = learner_size(&m, &l, &b, &bytes, err);
        data_room_free(&b, &d);
    }
    const int64_t samples = (int64_t)o->n_sample * o->n_part;
    const int64_t parts = groups_of(o) / R *
                          ((samples_of_group(o) + o->n_sample - 1) / o->n_sample);
    const forecast_run r = { .reduce = &l.reduce,
                             .n = params_sketch(&m, o->bf16),
                             .n_part = parts,
                             .n_group = (int)(groups_of(o) / R) };
    const forecast_pace speed = { p->pace.sequence * (double)samples / R / (double)parts,
                                  p->pace.update, net->bandwidth, net->latency };
    const forecast f = forecast_step(&r, &speed);
    const double rows = (double)rows_of_sample(o, m.n_ctx);
    *to = (weft_train_cost){ .struct_size = sizeof *to,
                             .n_rank = R,
                             .n_parameter = m.n_parameter,
                             .n_token = samples * (int64_t)rows,
                             .token_seconds = p->pace.sequence / rows,
                             .step_seconds = f.seconds,
                             .compute_seconds = f.compute,
                             .reduce_hidden = f.hidden,
                             .reduce_exposed = f.exposed,
                             .seconds = f.seconds * (double)o->n_step,
                             .bytes = bytes,
                             .bytes_sent = f.sent };
    model_close(&m);
    return status;
}

/* ---- checks --------------------------------------------------------------------------- */

static weft_status check_network(weft_train_network *to, const weft_train_network *from,
                                 weft_error *err)
{
    if (!from)
        return weft_fail(err, WEFT_EINVAL, "no network given");
    if (!read_options(to, sizeof *to, from, from->struct_size, "weft_train_network", err))
        return err->code;
    if (!(to->bandwidth > 0 && isfinite(to->bandwidth)))
        return weft_fail(err, WEFT_EINVAL, "bandwidth is %g bytes a second; expected more than 0",
                         to->bandwidth);
    if (!(to->latency >= 0 && isfinite(to->latency)))
        return weft_fail(err, WEFT_EINVAL, "latency is %g seconds; expected 0 or more",
                         to->latency);
    return WEFT_OK;
}

static weft_status check_ranks(const weft_train_options *o, const int *n_rank, int n,
                               weft_error *err)
{
    if (!n_rank || n < 1)
        return weft_fail(err, WEFT_EINVAL, "no numbers of ranks given");
    for (int i = 0; i < n; i++)
        if (n_rank[i] < 1 || n_rank[i] > groups_of(o) || (n_rank[i] & (n_rank[i] - 1)) != 0)
            return weft_fail(err, WEFT_EINVAL,
                             "%d ranks; expected a power of two, at most the %lld groups of a step",
                             n_rank[i], (long long)groups_of(o));
    return WEFT_OK;
}

static weft_status check_run(const weft_train_options *o, weft_error *err)
{
    if (o->lora)
        return weft_fail(err, WEFT_EUNSUPPORTED,
                         "an adapter sends too little to plan for; plans are for all weights");
    if (o->arch && strcmp(o->arch, "vit") == 0)
        return weft_fail(err, WEFT_EUNSUPPORTED, "vit: plans are for models of text");
    if (o->reduce_fast)
        return weft_fail(err, WEFT_EUNSUPPORTED,
                         "what MPI sends for reduce_fast depends on MPI; plans are for exact sums");
    return WEFT_OK;
}

static weft_status begin(planning *p, weft_error *err)
{
    if (p->o->model)
        return WEFT_OK;
    weft_status status = train_shape(p->o, &p->shape, err);
    p->shape.n_vocab = p->o->n_vocab;
    p->shape.eos_id = -1;
    if (status == WEFT_OK && p->o->tokenizer)
        status = read_vocabulary(&p->shape, p->o->tokenizer, p->host, err);
    return status;
}

weft_status weft_train_plan(const weft_train_options *options, const weft_train_network *network,
                            const int *n_rank, int n, weft_train_cost_fn *fn, void *ud,
                            weft_error *err)
{
    weft_train_options o;
    weft_train_network net;
    weft_error local;
    struct weft_budget whole;
    err = begin_call(err, &local);
    if (take_plan_options(&o, options, err) != WEFT_OK ||
        check_network(&net, network, err) != WEFT_OK ||
        check_ranks(&o, n_rank, n, err) != WEFT_OK || check_run(&o, err) != WEFT_OK)
        return err->code;
    if (!fn)
        return weft_fail(err, WEFT_EINVAL, "no callback given");
    host h = { .io = io_system, .log = { o.log, o.log_ud } };
    take_budget(&whole, o.ram_max, o.budget);
    take_memory(&h, 0, &whole);
    planning p = { .o = &o, .host = &h, .n_thread = o.threads ? o.threads : cpu_count() };
    weft_status status = begin(&p, err);
    if (status == WEFT_OK)
        status = measure_layers(&p, err);
    for (int i = 0; i < n && status == WEFT_OK && p.pace.sequence > 0; i++) {
        weft_train_cost c;
        status = cost_of(&p, &net, n_rank[i], &c, err);
        if (status == WEFT_OK)
            fn(ud, &c);
    }
    return status == WEFT_OK ? WEFT_OK : err->code;
}
