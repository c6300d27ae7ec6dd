/* estimate.c - measures a few ops and divides: seconds = costs of a dry run / rates of this machine. */
#include "engine/estimate.h"

#include "base/clock.h"
#include "models/pack.h"

#include <string.h>

/* ---- costs ----------------------------------------------------------------------------------- */

static model_part model_part_of(const char *name)
{
    if (strstr(name, "attn") || strstr(name, "attention"))
        return PART_ATTENTION;
    if (strstr(name, "blk."))
        return PART_FEED_FORWARD;
    return strstr(name, "embd") || strstr(name, "types") ? PART_EMBEDDING : PART_HEAD;
}

static void add_flops(void *ud, const run *r, const node *n)
{
    part_cost *to = ud;
    to[model_part_of(n->out->name)].flops += n->op->cost(r, n).flops;
}

static int64_t numbers(const tensor *t)
{
    return (t->n_dim > 1 ? rows(t) : 1) * cols(t);
}

static size_t bytes_of(const tensor *t)
{
    return dtype_row_bytes(t->type, cols(t)) * (size_t)(t->n_dim > 1 ? rows(t) : 1);
}

weft_status model_cost(const model *m, int64_t n_ctx, part_cost to[N_PART], weft_error *err)
{
    memset(to, 0, N_PART * sizeof *to);
    for (int64_t i = 0; i < m->n_param; i++) {
        part_cost *c = &to[model_part_of(m->param[i]->name)];
        c->n_parameter += numbers(m->param[i]);
        c->bytes += bytes_of(m->param[i]);
    }
    return engine_tally(m, 1, n_ctx - 1, 1, add_flops, to, err);
}

/* ---- rates of this machine ------------------------------------------------------------------- */

#define MANY     256                 /* rows that stand for a prompt */
#define WORKING  ((size_t)128 << 20) /* bytes of weights for one row: more than caches hold */
#define FEW_ROWS 1024                /* bytes of weights for many rows */
#define MOMENT   0.06                /* measuring time per rate, in seconds */
#define MAX_TYPE 8

/* Seconds per unit of work, for products with weights of one format. */
typedef struct rate {
    const dtype *type;
    double one;  /* one row: seconds per byte of weights */
    double many; /* many rows: seconds per flop */
} rate;

typedef struct probe {
    const model *model;
    mem *mem;
    pool *pool;
    const kernels *kern;
    run run;
    batch batch; /* MANY rows of one sequence */
    batch_row row[MANY];
    sequence seq;
    void *weights; /* zeros: the time of a product does not depend on its values */
    size_t size;
} probe;

/* One op over zeros. */
typedef struct trial {
    enum { PRODUCT, ATTEND, STREAM } what;
    const dtype *type; /* of a product's weights ... */
    int64_t n_row, n_out;
} trial;

/* The model's width, or one near it that is a multiple of the format's block. */
static int64_t probe_cols(const model *m, const dtype *type)
{
    const int64_t D = m->d_model, block = type ? type->block : 1, near = D / block * block;
    return near > 0 ? near : block;
}

static tensor *zeros(run *r, int64_t n_row, int64_t n_col)
{
    tensor *t = tensor_new(r, n_row, n_col);
    if (!is_dry(r))
        memset(t->data, 0, (size_t)(n_row * n_col) * sizeof(real));
    return t;
}

static void run_trial(const probe *p, run *r, const trial *t)
{
    const model *m = p->model;
    const int64_t C = probe_cols(m, t->type);
    tensor w = { .type = t->type, .n_dim = 2, .shape = { t->n_out, C }, .data = p->weights };
    w.panels = pack_expected(m) ? p->weights : NULL; /* zeros in any order */
    const attn a = attn_of(ATTN_CAUSAL, m->n_head, m->n_head_kv, m->d_head);
    run_begin(r, &p->batch);
    tensor *x = zeros(r, t->n_row, t->what == ATTEND ? m->n_head * m->d_head : C);
    if (t->what == PRODUCT) {
        linear(r, x, &(weight){ "probe", &w, NULL });
    } else if (t->what == ATTEND) {
        tensor *k = zeros(r, t->n_row, m->n_head_kv * m->d_head);
        tensor *v = zeros(r, t->n_row, m->n_head_kv * m->d_head);
        attention(r, x, k, v, &a, 0);
    } else {
        act(r, x, ACT_RELU);
    }
}

/* Seconds per execution, averaged over a short interval: a CPU shared with others is slower for the
 * model as well. 0 on an error. */
static double time_trial(probe *p, const trial *t, weft_error *err)
{
    profile of = { 0 };
    run dry, r;
    if (run_init_dry(&dry, p->mem, 1, err) != WEFT_OK)
        return 0;
    run_trial(p, &dry, t);
    const weft_status status = run_init(&r, p->mem, dry.meta.peak, dry.data.peak, dry.scratch_peak,
                                        err);
    run_free(&dry);
    if (status != WEFT_OK)
        return 0;
    r.kern = p->kern;
    r.pool = p->pool;
    run_trial(p, &r, t); /* touch the memory once */
    r.profile = &of;
    do
        run_trial(p, &r, t);
    while (of.entry[0].calls < 2 || of.entry[0].seconds < MOMENT);
    run_free(&r);
    return of.entry[0].seconds / (double)of.entry[0].calls;
}

static weft_status rate_of(probe *p, const dtype *type, rate *to, weft_error *err)
{
    const size_t row_bytes = dtype_row_bytes(type, probe_cols(p->model, type));
    const int64_t all = (int64_t)(p->size / row_bytes) / PANEL_ROWS * PANEL_ROWS,
                  some = all < FEW_ROWS ? all : FEW_ROWS;
    const double one = time_trial(p, &(trial){ PRODUCT, type, 1, all }, err);
    const double many = one > 0 ? time_trial(p, &(trial){ PRODUCT, type, MANY, some }, err) : 0;
    *to = (rate){ type, one / ((double)all * (double)row_bytes),
                  many / (2.0 * MANY * (double)some * (double)probe_cols(p->model, type)) };
    return many > 0 ? WEFT_OK : err->code;
}

/* ---- speed ----------------------------------------------------------------------------------- */

typedef struct estimate {
    probe probe;
    rate product[MAX_TYPE];
    int n_product;
    double attention;  /* seconds per flop */
    double stream;     /* seconds per byte of rows in elementwise ops */
    double begin;      /* seconds to start and finish an op */
    double seconds;    /* so far */
    double read, flop; /* bytes of weights for single rows, flops of many rows; ... */
    double read_seconds, flop_seconds; /* ... and their time */
    weft_status status;
    weft_error *err;
} estimate;

static const rate *find_rate(estimate *e, const dtype *type)
{
    for (int i = 0; i < e->n_product; i++)
        if (e->product[i].type == type)
            return &e->product[i];
    rate *r = &e->product[e->n_product < MAX_TYPE - 1 ? e->n_product++ : MAX_TYPE - 1];
    e->status = rate_of(&e->probe, type, r, e->err);
    return r;
}

static void add_product(estimate *e, const dtype *type, double bytes, double flops, int64_t n_row)
{
    if (e->status != WEFT_OK)
        return;
    const rate *r = find_rate(e, type);
    const double alone = bytes * r->one, together = flops * r->many;
    if (n_row == 1) {
        e->read += bytes;
        e->read_seconds += alone;
    } else {
        e->flop += flops;
        e->flop_seconds += together;
    }
    e->seconds += n_row == 1 || alone > together ? alone : together;
}

static void add_seconds(void *ud, const run *r, const node *n)
{
    estimate *e = ud;
    const cost c = n->op->cost(r, n);
    const int64_t n_row = rows(n->out);
    double rest = c.flops;
    bool product = c.type;
    for (int i = 1; i < MAX_INPUT; i++) {
        const tensor *w = n->in[i];
        if (!w || w->id != 0 || w->n_dim < 2)
            continue; /* not a weight matrix */
        const double flops = 2 * (double)n_row * (double)numbers(w);
        add_product(e, w->type, (double)bytes_of(w), flops, n_row);
        rest -= flops;
        product = true;
    }
    if (c.type)
        add_product(e, c.type, c.read, rest, n_row);
    e->seconds += e->begin;
    if (strcmp(n->op->name, "attention") == 0)
        e->seconds += c.flops * e->attention;
    else if (!product)
        e->seconds += c.bytes * e->stream;
}

/* Seconds of n rows that end at position `last`; only the last one's logits are wanted. */
static double step_seconds(estimate *e, int n, int64_t last)
{
    e->seconds = 0;
    if (e->status == WEFT_OK) {
        const weft_status status = engine_tally(e->probe.model, n, last, 1, add_seconds, e, e->err);
        e->status = e->status == WEFT_OK ? status : e->status;
    }
    return e->seconds;
}

static weft_status probe_init(probe *p, const model *m, const engine_options *o, weft_error *err)
{
    size_t all = 0;
    *p = (probe){ .model = m, .mem = &m->host->mem, .kern = m->kern };
    for (int i = 0; i < MANY; i++)
        p->row[i] = (batch_row){ .pos = i };
    p->seq = (sequence){ .n = MANY, .source = -1 };
    p->batch = (batch){ .n_row = MANY, .n_seq = 1, .row = p->row, .seq = &p->seq };
    for (int64_t i = 0; i < m->n_param; i++)
        all += bytes_of(m->param[i]);
    const size_t min_bytes = (size_t)(m->d_model + 256) * sizeof(float) * 256;
    p->size = all > WORKING ? WORKING : all < min_bytes ? min_bytes : all;
    p->pool = pool_new(o->n_thread, p->mem, err);
    p->weights = p->pool ? mem_alloc(p->mem, p->size, "weights to measure with", err) : NULL;
    if (!p->weights)
        return err->code;
    memset(p->weights, 0, p->size);
    return WEFT_OK;
}

static weft_status measure_ops(estimate *e, weft_error *err)
{
    probe *p = &e->probe;
    const model *m = p->model;
    const double flops = 4.0 * (double)(m->n_head * m->d_head) * MANY * (MANY + 1) / 2;
    const double bytes = 2.0 * MANY * (double)m->d_model * sizeof(real);
    const double attend = time_trial(p, &(trial){ ATTEND, NULL, MANY, 0 }, err);
    const double pass = attend > 0 ? time_trial(p, &(trial){ STREAM, NULL, MANY, 0 }, err) : 0;
    const double little = pass > 0 ? time_trial(p, &(trial){ STREAM, NULL, 1, 0 }, err) : 0;
    e->attention = attend / flops;
    e->stream = pass / bytes;
    e->begin = little;
    return little > 0 ? WEFT_OK : err->code;
}

#define PROMPT   512
#define GENERATE 32 /* positions over which generation is averaged */

weft_status engine_estimate(const model *m, const engine_options *o, speed *s, weft_error *err)
{
    const double began = clock_seconds();
    estimate e = { .err = err };
    *s = (speed){ .n_prompt = o->n_ctx < PROMPT ? o->n_ctx : PROMPT };
    e.status = probe_init(&e.probe, m, o, err);
    if (e.status == WEFT_OK)
        e.status = measure_ops(&e, err);
    double prompt = 0;
    for (int64_t at = 0, n; at < s->n_prompt && e.status == WEFT_OK; at += n) {
        n = s->n_prompt - at < o->n_batch ? s->n_prompt - at : o->n_batch;
        prompt += step_seconds(&e, (int)n, at + n - 1);
    }
    const int64_t middle = (o->n_ctx < GENERATE ? o->n_ctx : GENERATE) / 2;
    const double token = step_seconds(&e, 1, middle);
    if (e.status == WEFT_OK) {
        s->prompt = (double)s->n_prompt / prompt;
        s->generate = 1 / token;
        s->read = e.read / e.read_seconds;
        s->products = e.flop_seconds > 0 ? e.flop / e.flop_seconds : 0;
        s->seconds = clock_seconds() - began;
    }
    mem_free(e.probe.mem, e.probe.weights);
    if (e.probe.pool)
        pool_free(e.probe.pool);
    return e.status;
}
