/* encode.c - runs whole sequences through a model without a cache: options, memory, filling a
 * forward, copying out its rows. */
#include "engine/encode.h"

#include "base/cpu.h"
#include "models/pack.h"

#include <string.h>

#define MIN_BATCH    256
#define MAX_BATCH    65536
/* Bound for an encoder, its list of threads, the calling thread's side stack, and allocator
 * overhead. */
#define ENGINE_BYTES (8192 + SIDE_BYTES)

/* Does the output have one row for the whole sequence? */
static bool one_row_per_text(const model *m, weft_encoder_output output)
{
    return output == WEFT_OUTPUT_POOLED ||
           (output == WEFT_OUTPUT_HEAD && m->task == WEFT_TASK_CLASSIFY);
}

weft_status encode_engine_resolve(const model *m, encode_engine_options *o, weft_error *err)
{
    if (!m->arch->family->states)
        return weft_fail(err, WEFT_EUNSUPPORTED, "%s: a %s cannot encode texts", m->file.path,
                         m->name);
    if (o->n_thread == 0)
        o->n_thread = cpu_count();
    if (o->n_ctx == 0)
        o->n_ctx = m->n_ctx < MAX_BATCH ? m->n_ctx : MAX_BATCH;
    if (o->n_batch == 0)
        o->n_batch = o->n_ctx > MIN_BATCH ? (int)o->n_ctx : MIN_BATCH;
    if (o->n_thread < 1 || o->n_thread > POOL_MAX_THREAD)
        return weft_fail(err, WEFT_EINVAL, "threads is %d, expected 1 to %d, or 0 for all",
                         o->n_thread, POOL_MAX_THREAD);
    if ((unsigned)o->output > WEFT_OUTPUT_POOLED)
        return weft_fail(err, WEFT_EINVAL, "unknown output %d", (int)o->output);
    if ((unsigned)o->pooling > WEFT_POOLING_LAST)
        return weft_fail(err, WEFT_EINVAL, "unknown pooling %d", (int)o->pooling);
    if (o->n_ctx < 1 || o->n_ctx > m->n_ctx)
        return weft_fail(err, WEFT_EINVAL, "n_ctx is %lld, expected 1 to %lld, the model's context",
                         (long long)o->n_ctx, (long long)m->n_ctx);
    if (o->n_batch < o->n_ctx || o->n_batch > MAX_BATCH)
        return weft_fail(err, WEFT_EINVAL, "n_batch is %d, expected %lld (the longest input) to %d",
                         o->n_batch, (long long)o->n_ctx, MAX_BATCH);
    return rank_check(o->rank, err);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* The largest possible batch: as many sequences as rows, each attending to a whole context, all
 * wanted. */
static void batch_largest(batch *b, const encode_engine_options *o)
{
    b->n_row = b->n_seq = b->n_wanted = o->n_batch;
    b->rank = o->rank;
    for (int i = 0; i < o->n_batch; i++) {
        b->row[i] = (batch_row){ .seq = i, .pos = (int32_t)(o->n_ctx - 1), .wanted = true };
        b->seq[i] = (sequence){ .first = i, .n = 1, .source = -1 };
    }
}

/* Computes the requested output. Heads pass their logits to the run's reader in parts; other
 * outputs are passed to it here. */
static void encode_forward(run *r, const model *m, const void *how)
{
    const encode_engine_options *o = how;
    const weft_encoder_output output = o->output;
    const family *f = m->arch->family;
    const pool_kind kind = o->pooling ? (pool_kind)(o->pooling - 1) : m->pool.kind;
    if (output == WEFT_OUTPUT_HEAD && m->task != WEFT_TASK_EMBED) {
        model_forward(r, m);
        return;
    }
    tensor *x = f->body(r, m);
    x = f->states(r, m, x);
    x = output == WEFT_OUTPUT_POOLED ? pool_rows(r, x, kind) : take_rows(r, x);
    if (output == WEFT_OUTPUT_POOLED && (m->pool.normalize || o->normalize))
        x = l2norm(r, x);
    if (!is_dry(r))
        r->read(r->read_ud, x, 0);
}

static void take_output(void *ud, const tensor *z, int64_t first);

weft_status encode_engine_predict(const model *m, const encode_engine_options *o,
                                  const trace_parts *show, encode_engine_plan *plan,
                                  weft_error *err)
{
    mem *from = &m->host->mem;
    batch b;
    weft_status status = batch_init(&b, o->n_batch, o->n_batch, from, err);
    if (status == WEFT_OK) {
        batch_largest(&b, o);
        status = forward_predict(m, &b, encode_forward, o, show, &plan->forward, err);
    }
    if (status == WEFT_OK) {
        const forward_plan *p = &plan->forward;
        const size_t lists = (size_t)o->n_batch * (sizeof(batch_row) + sizeof(sequence)) +
                             (size_t)(o->n_batch * m->d_feature) * sizeof(float) +
                             (size_t)o->n_thread * sizeof(uint64_t);
        plan->panels = pack_plan(m);
        plan->total = plan->panels + p->meta + p->data + p->scratch + lists + ENGINE_BYTES;
    }
    batch_free(&b, from);
    return status;
}

/* (Re)makes the arenas for forwards of which these parts are shown, or none if NULL. */
static weft_status encoder_make_run(encode_engine *e, const trace_parts *show, weft_error *err)
{
    encode_engine_plan plan;
    const weft_status status = encode_engine_predict(e->model, &e->opt, show, &plan, err);
    if (status != WEFT_OK)
        return status;
    const weft_status made = forward_make(&e->run, e->model, &plan.forward, show, e->pool,
                                          take_output, e, err);
    e->run.n_ctx = e->opt.n_ctx;
    return made;
}

encode_engine *encode_engine_new(const model *m, const encode_engine_options *o, weft_error *err)
{
    mem *from = &m->host->mem;
    encode_engine *e = mem_zalloc(from, 1, sizeof *e, "encoder", err);
    if (!e)
        return NULL;
    e->model = m;
    e->opt = *o;
    if (encode_engine_resolve(m, &e->opt, err) == WEFT_OK &&
        (e->pool = pool_new(e->opt.n_thread, from, err)) != NULL &&
        batch_init(&e->batch, e->opt.n_batch, e->opt.n_batch, from, err) == WEFT_OK &&
        (m->d_feature == 0 ||
         (e->features = mem_zalloc(from, (size_t)e->opt.n_batch,
                                   (size_t)m->d_feature * sizeof *e->features, "features", err))) &&
        encoder_make_run(e, NULL, err) == WEFT_OK) {
        pack_weights(m, e->pool, 0);
        return e;
    }
    encode_engine_free(e);
    return NULL;
}

void encode_engine_free(encode_engine *e)
{
    if (!e)
        return;
    mem *from = &e->model->host->mem;
    lora_set_drop(e->adapted.set);
    run_free(&e->run);
    mem_free(from, e->features);
    batch_free(&e->batch, from);
    pool_free(e->pool);
    mem_free(from, e);
}

weft_status encode_engine_adapt(encode_engine *e, adaption a, weft_error *err)
{
    const weft_status status = adaption_check(a, e->opt.rank, err);
    if (status != WEFT_OK)
        return status;
    lora_set_hold(a.set);
    lora_set_drop(e->adapted.set);
    e->adapted = a;
    return WEFT_OK;
}

weft_status encode_engine_trace(encode_engine *e, const trace_spec *w, weft_error *err)
{
    if (!forward_shows(&e->run, &w->show)) {
        const weft_status status = encoder_make_run(e, &w->show, err);
        if (status != WEFT_OK)
            return status;
    }
    forward_watch(&e->run, w);
    return WEFT_OK;
}

/* ---- what goes in ---------------------------------------------------------------------------- */

int64_t encode_engine_width(const encode_engine *e)
{
    return e->opt.output == WEFT_OUTPUT_HEAD ? e->model->n_out : e->model->d_model;
}

/* The caller supplies the counts. A negative count would match no output row, so rows of later
 * inputs would be written to this one. */
static bool counts_fit(const weft_input *in)
{
    return in->n >= 1 && in->n_at >= 0 && in->n_at <= (in->at ? in->n : 0);
}

int64_t encode_engine_rows(const encode_engine *e, const weft_input *in)
{
    if (!counts_fit(in) || in->n > e->opt.n_ctx)
        return 0;
    return one_row_per_text(e->model, e->opt.output) ? 1 : in->at ? in->n_at : in->n;
}

static weft_status check_rows(const encode_engine *e, const weft_input *in, int64_t i,
                              weft_error *err)
{
    const model *m = e->model;
    for (int64_t k = 0; k < in->n; k++) {
        if (in->ids && (in->ids[k] < 0 || in->ids[k] >= m->n_vocab))
            return weft_fail(err, WEFT_EINVAL,
                             "token %lld of input %lld is %d, the vocabulary has %lld",
                             (long long)k, (long long)i, (int)in->ids[k], (long long)m->n_vocab);
        if (in->types && m->n_type > 0 && in->types[k] >= m->n_type)
            return weft_fail(err, WEFT_EINVAL,
                             "token %lld of input %lld is of type %d, the model has %lld types",
                             (long long)k, (long long)i, in->types[k], (long long)m->n_type);
    }
    for (int64_t k = 0; in->at && k < in->n_at; k++)
        if (in->at[k] < (k > 0 ? in->at[k - 1] + 1 : 0) || in->at[k] >= in->n)
            return weft_fail(err, WEFT_EINVAL,
                             "row %d of input %lld; expected rows below %lld, in ascending order",
                             (int)in->at[k], (long long)i, (long long)in->n);
    return WEFT_OK;
}

static weft_status check_input(const encode_engine *e, const weft_input *in, int64_t i,
                               weft_error *err)
{
    const bool vectors = e->model->d_feature > 0;
    if (in->n < 1 || !in->out || (vectors ? !in->features || in->ids : !in->ids || in->features))
        return weft_fail(err, WEFT_EINVAL, "input %lld: %s", (long long)i,
                         in->n < 1  ? "it is empty"
                         : !in->out ? "no output buffer"
                         : vectors  ? "the model takes vectors, not tokens"
                                    : "the model takes tokens, not vectors");
    if (!counts_fit(in))
        return weft_fail(err, WEFT_EINVAL, "input %lld: n_at is %lld, expected 0%s", (long long)i,
                         (long long)in->n_at,
                         in->at ? " to n" : ", because `at` is NULL, which means all rows");
    if (in->n > e->opt.n_ctx)
        return weft_fail(err, WEFT_ECONTEXT, "input %lld has %lld tokens; expected at most %lld",
                         (long long)i, (long long)in->n, (long long)e->opt.n_ctx);
    return check_rows(e, in, i, err);
}

/* Appends a sequence to the batch. */
static void add_input(encode_engine *e, const weft_input *in)
{
    const model *m = e->model;
    batch *b = &e->batch;
    const bool whole = one_row_per_text(m, e->opt.output);
    int64_t asked = 0; /* index into in->at */
    b->seq[b->n_seq] = (sequence){
        .first = b->n_row, .n = (int32_t)in->n, .source = -1, .adapted = e->adapted
    };
    if (in->features)
        memcpy(e->features + b->n_row * m->d_feature, in->features,
               (size_t)(in->n * m->d_feature) * sizeof *e->features);
    for (int64_t k = 0; k < in->n; k++) {
        const bool wanted = whole ? k == 0 : in->at ? asked < in->n_at && in->at[asked] == k : true;
        asked += wanted;
        b->row[b->n_row++] = (batch_row){ .id = in->ids ? in->ids[k] : 0,
                                          .seq = b->n_seq,
                                          .pos = (int32_t)k,
                                          .type = in->types && m->n_type > 0 ? in->types[k] : 0,
                                          .target = NO_TARGET,
                                          .wanted = wanted };
        b->n_wanted += wanted;
    }
    b->n_seq++;
}

/* Adds as many inputs as fit into one forward. */
static int64_t fill_inputs(encode_engine *e, const weft_input *in, int64_t n)
{
    int64_t taken = 0;
    e->batch.n_row = e->batch.n_seq = e->batch.n_wanted = 0;
    e->batch.features = e->features;
    e->batch.rank = e->opt.rank;
    e->batch.whole = adaption_whole(e->adapted);
    while (taken < n && in[taken].n <= e->opt.n_batch - e->batch.n_row)
        add_input(e, &in[taken++]);
    return taken;
}

/* ---- the output ------------------------------------------------------------------------------- */

/* Rows arrive in the order of the inputs, in parts or all at once. */
static void take_output(void *ud, const tensor *z, int64_t first)
{
    (void)first;
    encode_engine *e = ud;
    for (int64_t i = 0; i < rows(z); i++) {
        while (e->at_row == encode_engine_rows(e, &e->input[e->at_input])) {
            e->at_input++;
            e->at_row = 0;
        }
        const weft_input *in = &e->input[e->at_input];
        float *to = in->out + e->at_row++ * cols(z);
        for (int64_t k = 0; k < cols(z); k++) {
            to[k] = (float)row(z, i)[k];
            e->finite = e->finite && isfinite(to[k]);
        }
    }
}

static void run_forward(encode_engine *e, const weft_input *in)
{
    e->input = in;
    e->at_input = e->at_row = 0;
    e->finite = true;
    run_begin(&e->run, &e->batch);
    encode_forward(&e->run, e->model, &e->opt);
}

/* Runs the same batch again and checks every tensor, to name the first non-finite one. */
static weft_status not_numbers(encode_engine *e, const weft_input *in, weft_error *err)
{
    e->run.hunt_nan = true;
    run_forward(e, in);
    e->run.hunt_nan = false;
    return weft_fail(err, WEFT_ENUMERIC, "%s: non-finite outputs; first non-finite tensor: %s",
                     e->model->file.path, e->run.at.first_nan);
}

weft_status encode_engine_eval(encode_engine *e, const weft_input *in, int64_t n, weft_error *err)
{
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < n && status == WEFT_OK; i++)
        status = check_input(e, &in[i], i, err);
    if (status == WEFT_OK)
        status = pool_ready(e->pool, err);
    for (int64_t at = 0, taken; at < n && status == WEFT_OK; at += taken) {
        taken = fill_inputs(e, in + at, n - at);
        if (e->batch.n_wanted == 0)
            continue;
        run_forward(e, in + at);
        if (!e->finite)
            status = not_numbers(e, in + at, err);
    }
    return status;
}
