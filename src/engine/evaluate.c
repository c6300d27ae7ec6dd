/* evaluate.c - the windows of evaluate.h, filled into steps of the engine, and sums over their
 * scores. */
#include "engine/evaluate.h"

#include "engine/session.h"

#include <math.h>
#include <string.h>

/* Reference logits kept until the model has computed its own: 64 MiB. */
#define KEPT_NUMBERS ((int64_t)1 << 24)

typedef struct row_score {
    double nll, against_nll, kl;
    bool same;
} row_score;

/* A model and its session. */
typedef struct side {
    engine *engine;
    session *session;
} side;

typedef struct evaluator {
    side model, against;   /* the reference is empty if a model is scored alone */
    int64_t n_ctx, stride; /* of windows */
    int64_t n_vocab;
    float *kept;            /* [rows of a step, V], the reference's logits of this step */
    row_score *scores;      /* [rows of a step] */
    double *kl;             /* [n_total], one per token, for the percentile */
    const int32_t *targets; /* targets of this step's wanted rows */
    evaluation *sum;
    mem *mem;
} evaluator;

/* ---- a row ----------------------------------------------------------------------------------- */

/* The most likely token of a distribution, and its log sum exp. */
typedef struct peak {
    int64_t at;
    double max, sum, lse;
} peak;

static peak find_peak(const float *z, int64_t V)
{
    peak p = { 0 };
    for (int64_t k = 1; k < V; k++)
        if (z[k] > z[p.at])
            p.at = k;
    p.max = (double)z[p.at];
    for (int64_t k = 0; k < V; k++)
        p.sum += exp((double)z[k] - p.max);
    p.lse = p.max + log(p.sum);
    return p;
}

/* KL(p || q) = sum_k p_k (log p_k - log q_k), with p the reference's. Rounding may leave it a little
 * below 0. */
static double divergence(const float *zp, const peak *p, const float *zq, const peak *q, int64_t V)
{
    double sum = 0;
    for (int64_t k = 0; k < V; k++)
        sum += exp((double)zp[k] - p->max) * ((double)zp[k] - (double)zq[k]);
    return fmax(sum / p->sum + (q->lse - p->lse), 0);
}

/* z: the model's logits, ref: the reference's or NULL. */
static row_score evaluate_row(const float *z, const float *ref, int32_t target, int64_t V)
{
    const peak q = find_peak(z, V);
    row_score s = { .nll = q.lse - (double)z[target] };
    if (!ref)
        return s;
    const peak p = find_peak(ref, V);
    s.against_nll = p.lse - (double)ref[target];
    s.kl = divergence(ref, &p, z, &q, V);
    s.same = p.at == q.at;
    return s;
}

/* ---- a step ---------------------------------------------------------------------------------- */

static void keep_logits(void *ud, const tensor *z, int64_t first)
{
    evaluator *e = ud;
    for (int64_t i = 0; i < rows(z); i++)
        memcpy(e->kept + (first + i) * e->n_vocab, row(z, i), (size_t)e->n_vocab * sizeof *e->kept);
}

/* Part of the model's logits, shared by the threads that score its rows. */
typedef struct part {
    evaluator *e;
    const tensor *z;
    int64_t first;
} part;

static void score_part(void *arg, int64_t i)
{
    const part *p = arg;
    evaluator *e = p->e;
    const int64_t at = p->first + i;
    const float *ref = e->kept ? e->kept + at * e->n_vocab : NULL;
    e->scores[at] = evaluate_row(row(p->z, i), ref, e->targets[at], e->n_vocab);
}

static void score_logits(void *ud, const tensor *z, int64_t first)
{
    evaluator *e = ud;
    part p = { e, z, first };
    pool_run(e->model.engine->pool, rows(z), score_part, &p);
}

/* Evaluates n tokens with both models; scores the last n_wanted of them. */
static weft_status evaluate_step(evaluator *e, const int32_t *ids, int64_t n, int64_t n_wanted,
                                 weft_error *err)
{
    evaluation *sum = e->sum;
    const side *sides[] = { &e->against, &e->model }; /* reference first: its logits are kept */
    e->targets = ids + n - n_wanted + 1;
    for (int i = 0; i < 2; i++) {
        const side *s = sides[i];
        if (!s->engine)
            continue;
        engine_read(s->engine, s == &e->against ? keep_logits : score_logits, e, n_wanted);
        work w = { .session = s->session, .ids = ids, .n = n };
        const weft_status status = engine_eval(s->engine, &w, 1, err);
        if (status != WEFT_OK)
            return status;
    }
    for (const row_score *s = e->scores; s < e->scores + n_wanted; s++) {
        if (e->kl)
            e->kl[sum->n_token] = s->kl;
        sum->n_token++;
        sum->nll += s->nll;
        sum->against_nll += s->against_nll;
        sum->kl += s->kl;
        sum->kl_max = fmax(sum->kl_max, s->kl);
        sum->n_same += s->same;
    }
    return WEFT_OK;
}

/* ---- a document ------------------------------------------------------------------------------ */

static weft_status empty(const side *s, weft_error *err)
{
    return s->session ? session_rewind(s->session, 0, err) : WEFT_OK;
}

/* Tokens [from, to) in one context; those before `scored` are context only. */
static weft_status window(evaluator *e, const evaluate_options *o, const int32_t *ids, int64_t from,
                          int64_t to, int64_t scored, weft_error *err)
{
    const int64_t most = e->model.engine->opt.n_batch;
    weft_status status = empty(&e->model, err);
    if (status == WEFT_OK)
        status = empty(&e->against, err);
    for (int64_t at = from, n; at < to && status == WEFT_OK && !e->sum->stopped; at += n) {
        n = to - at < most ? to - at : most;
        const int64_t known = scored <= at ? 0 : scored - at < n ? scored - at : n;
        status = evaluate_step(e, ids + at, n, n - known, err);
        if (status == WEFT_OK && o->progress)
            e->sum->stopped = !o->progress(o->ud, e->sum);
    }
    return status;
}

static weft_status read_document(evaluator *e, const evaluate_options *o, const document *d,
                                 weft_error *err)
{
    weft_status status = WEFT_OK;
    const int64_t last = d->n - 1; /* has no next token to predict */
    for (int64_t from = 0, scored = 0; scored < last && status == WEFT_OK && !e->sum->stopped;
         from += e->stride) {
        const int64_t to = last - from < e->n_ctx ? last : from + e->n_ctx;
        status = window(e, o, d->ids, from, to, scored, err);
        scored = to;
    }
    return status;
}

/* ---- all ------------------------------------------------------------------------------------- */

/* The k-th smallest value of x (from 0); reorders x. */
static double kth(double *x, int64_t n, int64_t k)
{
    for (int64_t lo = 0, hi = n - 1; lo < hi;) {
        const double pivot = x[lo + (hi - lo) / 2];
        int64_t i = lo, j = hi;
        while (i <= j) {
            while (x[i] < pivot)
                i++;
            while (x[j] > pivot)
                j--;
            if (i > j)
                break;
            const double t = x[i];
            x[i++] = x[j];
            x[j--] = t;
        }
        if (k <= j)
            hi = j;
        else if (k >= i)
            lo = i;
        else
            break;
    }
    return x[k];
}

static weft_status side_init(side *s, const model *m, const engine_options *o, weft_error *err)
{
    s->engine = engine_new(m, o, err);
    s->session = s->engine ? session_new(s->engine, err) : NULL;
    return s->session ? WEFT_OK : err->code;
}

static void side_free(side *s)
{
    session_free(s->session);
    engine_free(s->engine);
}

static weft_status evaluator_prepare(evaluator *e, const model *m, const model *against,
                                     const evaluate_options *o, weft_error *err)
{
    engine_options eo = o->engine;
    eo.n_session = 1;
    eo.all_rows = true;
    const model *shorter = against && against->n_ctx < m->n_ctx ? against : m;
    weft_status status = engine_resolve(shorter, &eo, err);
    if (status != WEFT_OK)
        return status;
    const int64_t V = e->n_vocab = m->n_vocab, fit = KEPT_NUMBERS / V > 1 ? KEPT_NUMBERS / V : 1;
    if (against && eo.n_batch > fit)
        eo.n_batch = (int)fit;
    e->n_ctx = eo.n_ctx;
    e->stride = o->stride ? o->stride : (eo.n_ctx + 1) / 2;
    if (e->stride < 1 || e->stride > eo.n_ctx)
        return weft_fail(err, WEFT_EINVAL, "stride is %lld, expected 1 to the %lld of a window",
                         (long long)o->stride, (long long)eo.n_ctx);
    eo.rank = o->adapted.set ? o->adapted.set->rank : 0;
    status = side_init(&e->model, m, &eo, err);
    if (status == WEFT_OK && o->adapted.set)
        status = session_adapt(e->model.session, o->adapted.set, o->adapted.strength, err);
    eo.rank = 0;
    if (o->against_kv)
        eo.kv = o->against_kv;
    if (status == WEFT_OK && against)
        status = side_init(&e->against, against, &eo, err);
    if (status != WEFT_OK)
        return status;
    e->model.engine->run.observe = o->observe;
    e->model.engine->run.observe_ud = o->observe_ud;
    if (o->loss_numbers) {
        e->model.engine->run.loss_numbers = o->loss_numbers;
        if (against)
            e->against.engine->run.loss_numbers = o->loss_numbers;
    }
    const size_t n_row = (size_t)eo.n_batch;
    e->scores = mem_zalloc(e->mem, n_row, sizeof *e->scores, "scores", err);
    if (!e->scores || !against)
        return e->scores ? WEFT_OK : err->code;
    e->kept = mem_zalloc(e->mem, n_row, (size_t)V * sizeof *e->kept, "logits", err);
    e->kl = mem_zalloc(e->mem, (size_t)e->sum->n_total, sizeof *e->kl, "divergences", err);
    return e->kept && e->kl ? WEFT_OK : err->code;
}

weft_status evaluate(const model *m, const model *against, const document *d, int64_t n,
                     const evaluate_options *o, evaluation *result, weft_error *err)
{
    evaluator e = { .mem = &m->host->mem, .sum = result };
    *result = (evaluation){ 0 };
    if (against && against->n_vocab != m->n_vocab)
        return weft_fail(err, WEFT_EINVAL,
                         "%s has a vocabulary of %lld, %s of %lld; expected the same", m->file.path,
                         (long long)m->n_vocab, against->file.path, (long long)against->n_vocab);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t k = 0; k < d[i].n; k++) /* the last ones are only predicted, never evaluated */
            if (d[i].ids[k] < 0 || d[i].ids[k] >= m->n_vocab)
                return weft_fail(
                    err, WEFT_EINVAL, "token %lld of document %lld is %d, the vocabulary has %lld",
                    (long long)k, (long long)i, (int)d[i].ids[k], (long long)m->n_vocab);
        result->n_total += d[i].n > 1 ? d[i].n - 1 : 0;
    }
    if (result->n_total == 0)
        return weft_fail(err, WEFT_EINVAL,
                         "no document has two tokens; expected at least one token to predict");
    weft_status status = evaluator_prepare(&e, m, against, o, err);
    for (int64_t i = 0; i < n && status == WEFT_OK && !result->stopped; i++)
        status = read_document(&e, o, &d[i], err);
    if (status == WEFT_OK && e.kl && result->n_token > 0)
        result->kl_p99 = kth(e.kl, result->n_token, (99 * result->n_token - 1) / 100);
    mem_free(e.mem, e.kl);
    mem_free(e.mem, e.kept);
    mem_free(e.mem, e.scores);
    side_free(&e.against);
    side_free(&e.model);
    return status;
}
