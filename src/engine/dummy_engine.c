/* dummy_engine.c - the model of dummy_engine.h: one layer that caches one value for each position. */
#include "engine/dummy_engine.h"

#include <string.h>

static step_shape forward_shape(const batch *b)
{
    step_shape s = { .n_row = b->n_row };
    for (int32_t i = 0; i < b->n_seq; i++) {
        const sequence *q = &b->seq[i];
        for (int32_t k = q->first; k < q->first + q->n; k++)
            *(q->n > 1 ? &s.prompt : &s.fresh) += b->row[k].pos + 1;
    }
    return s;
}

static tensor *dummy_body(run *r, const model *m)
{
    const dummy_engine *d = m->self;
    const batch *b = r->at.batch;
    const step_shape shape = forward_shape(b);
    if (!is_dry(r))
        d->forward(d->forward_ud, &shape, b->n_wanted);
    return tensor_new(r, b->n_row, 1);
}

static tensor *dummy_end(run *r, const model *m, tensor *x)
{
    (void)x;
    const int64_t n = r->at.batch->n_wanted;
    if (n == 0)
        return NULL;
    tensor *z = tensor_new(r, n, m->n_vocab);
    for (int64_t i = 0; i < n && !is_dry(r); i++)
        memset(row(z, i), 0, (size_t)m->n_vocab * sizeof(real));
    if (!is_dry(r))
        r->read(r->read_ud, z, 0);
    return z;
}

static const family dummy_family = { .name = "dummy", .body = dummy_body, .end = dummy_end };
static const arch dummy_arch = { .family = &dummy_family };

weft_status dummy_engine_init(dummy_engine *d, const engine_options *options, mem *within,
                              dummy_forward_fn *fn, void *ud, weft_error *err)
{
    engine_options o = *options;
    *d = (dummy_engine){ .host = { .io = io_system }, .forward = fn, .forward_ud = ud };
    mem_init(&d->host.mem, 0, NULL);
    d->host.mem.within = within;
    d->model = (model){ .host = &d->host,
                        .arch = &dummy_arch,
                        .name = "dummy",
                        .file = { .path = "simulation" },
                        .n_layer = 1,
                        .n_vocab = DUMMY_VOCAB,
                        .n_ctx = o.n_ctx,
                        .stream = { { "x", 1 } },
                        .n_stream = 1,
                        .task = WEFT_TASK_GENERATE,
                        .n_out = DUMMY_VOCAB,
                        .self = d };
    o.n_thread = 1;
    d->engine = engine_new(&d->model, &o, err);
    return d->engine ? WEFT_OK : err->code;
}

void dummy_engine_free(dummy_engine *d)
{
    engine_free(d->engine);
    d->engine = NULL;
}
