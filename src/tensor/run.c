/* run.c - arenas of a run, activations, the profile, and the split of work among threads. */
#include "tensor/run.h"

#include "base/clock.h"

#include <assert.h>

/* Below about 16k values a fork costs more than it saves (0.15-1 us, at 1 value per ns). */
#define FORK_COST 16384

/* A block's headers: some thirty tensors. Generous, because exceeding it is a bug that asserts. */
#define META_PER_BLOCK ((size_t)32 << 10)

weft_status run_init(run *r, mem *m, size_t meta, size_t data, size_t scratch, weft_error *err)
{
    *r = (run){ .fork_cost = FORK_COST, .at.name_prefix = "" };
    if (arena_init(&r->meta, ARENA_FIXED, m, meta, "tensor headers of a step", err) != WEFT_OK ||
        arena_init(&r->data, ARENA_FIXED, m, data, "activations of a step", err) != WEFT_OK ||
        !(r->work = mem_alloc(m, scratch, "scratch of a step", err)) ||
        !(r->side = mem_alloc(m, SIDE_BYTES, "scratch of a thread", err))) {
        run_free(r);
        return WEFT_ENOMEM;
    }
    r->work_bytes = scratch;
    return WEFT_OK;
}

weft_status run_init_dry(run *r, mem *m, int n_block, weft_error *err)
{
    *r = (run){ .fork_cost = FORK_COST, .at.name_prefix = "" };
    const size_t meta = META_PER_BLOCK * ((size_t)n_block + 1);
    if (arena_init(&r->meta, ARENA_FIXED, m, meta, "tensor headers of a dry run", err) != WEFT_OK)
        return WEFT_ENOMEM;
    return arena_init(&r->data, ARENA_COUNTING, m, 0, "", err);
}

void run_free(run *r)
{
    if (r->work)
        mem_free(r->meta.mem, r->work);
    if (r->side)
        mem_free(r->meta.mem, r->side);
    r->work = r->side = NULL;
    arena_free(&r->meta);
    arena_free(&r->data);
}

void scratch_need(run *r, size_t bytes)
{
    if (bytes > r->scratch_peak)
        r->scratch_peak = bytes;
    assert(is_dry(r) || bytes <= r->work_bytes);
}

static void arena_clear(arena *a)
{
    arena_mark start = arena_at(a);
    start.at = start.used = 0;
    arena_reset(a, start);
}

void run_begin(run *r, const batch *b)
{
    arena_clear(&r->meta);
    arena_clear(&r->data);
    r->at = (run_place){ .batch = b, .src = b ? b->src : NULL, .name_prefix = "" };
    r->packed = (packed_rows){ 0 };
}

void run_part(run *r, const batch *b, const char *part)
{
    r->at.batch = b;
    r->at.name_prefix = part;
}

tensor *tensor_new(run *r, int64_t n_row, int64_t n_col)
{
    const batch *b = r->at.batch;
    tensor *t = arena_alloc(&r->meta, sizeof *t, NULL);
    *t = (tensor){ .type = &dtype_real,
                   .n_dim = 2,
                   .shape = { n_row, n_col },
                   .stride = n_col,
                   .id = ++r->n_tensor,
                   .born = r->at.block,
                   .of = { .batch = b, .wanted = b && n_row != b->n_row } };
    t->data = arena_alloc(&r->data, (size_t)(n_row * n_col) * sizeof(real), NULL);
    return t;
}

double profile_begin(const run *r)
{
    return r->profile ? clock_seconds() : 0;
}

void profile_end(const run *r, const node *n, bool backward, double began)
{
    profile *p = r->profile;
    if (!p)
        return;
    const double seconds = clock_seconds() - began, times = backward ? 2 : 1;
    int i = 0;
    while (i < p->n && (p->entry[i].op != n->op || p->entry[i].backward != backward))
        i++;
    if (i == MAX_PROFILE)
        return;
    if (i == p->n)
        p->entry[p->n++] = (op_profile){ .op = n->op, .backward = backward };
    const cost c = n->op->cost(r, n);
    p->entry[i].calls++;
    p->entry[i].seconds += seconds;
    p->entry[i].flops += times * c.flops;
    p->entry[i].bytes += times * c.bytes;
}

typedef struct slices {
    const run *r;
    range_fn *fn;
    const void *ctx;
    int64_t items, n_chunk;
} slices;

static void run_slice(void *arg, int64_t chunk)
{
    const slices *s = arg;
    mem_guard_begin();
    s->fn(s->r, s->ctx, s->items * chunk / s->n_chunk, s->items * (chunk + 1) / s->n_chunk);
    mem_guard_end();
}

void parallel(const run *r, int64_t items, int64_t each, range_fn *fn, const void *ctx)
{
    const int64_t threads = r->pool ? pool_threads(r->pool) : 1;
    if (threads == 1 || items < 2 || items * each < r->fork_cost) {
        fn(r, ctx, 0, items);
        return;
    }
    /* Four chunks per thread: a thread that is preempted for a moment delays little. */
    slices s = { r, fn, ctx, items, items < 4 * threads ? items : 4 * threads };
    pool_run(r->pool, s.n_chunk, run_slice, &s);
}
