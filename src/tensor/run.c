#include "tensor/run.h"

#include "tensor/tape.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Below about 16k numbers a fork costs more than it saves (0.15-1 us against 1 number a ns). */
#define FORK_COST 16384

/* A block's headers: some thirty tensors. Generous, because exceeding it is a bug that asserts. */
#define META_PER_BLOCK ((size_t)32 << 10)

weft_status run_init(run *r, mem *m, size_t meta, size_t data, weft_error *err)
{
    *r = (run){ .fork_cost = FORK_COST };
    if (arena_init(&r->meta, ARENA_FIXED, m, meta, "tensor headers of a step", err) != WEFT_OK)
        return WEFT_ENOMEM;
    if (arena_init(&r->data, ARENA_FIXED, m, data, "activations of a step", err) != WEFT_OK) {
        arena_free(&r->meta);
        return WEFT_ENOMEM;
    }
    return WEFT_OK;
}

weft_status run_init_dry(run *r, mem *m, int n_layer, weft_error *err)
{
    *r = (run){ .fork_cost = FORK_COST };
    const size_t meta = META_PER_BLOCK * ((size_t)n_layer + 1);
    if (arena_init(&r->meta, ARENA_FIXED, m, meta, "tensor headers of a dry run", err) != WEFT_OK)
        return WEFT_ENOMEM;
    return arena_init(&r->data, ARENA_COUNTING, m, 0, "", err);
}

void run_free(run *r)
{
    arena_free(&r->meta);
    arena_free(&r->data);
}

static void arena_clear(arena *a)
{
    arena_mark start = arena_at(a);
    start.at = start.used = 0;
    arena_reset(a, start);
    a->peak = 0;
}

void run_begin(run *r, const batch *b)
{
    arena_clear(&r->meta);
    arena_clear(&r->data);
    r->batch = b;
    r->block = r->n_drop = 0;
    r->scope[0] = '\0';
    r->first_nan[0] = '\0';
}

tensor *tensor_new(run *r, int64_t n_row, int64_t n_col)
{
    tensor *t = arena_alloc(&r->meta, sizeof *t, NULL);
    *t = (tensor){ .type = &dtype_real,
                   .n_dim = 2,
                   .shape = { n_row, n_col },
                   .stride = n_col,
                   .born = r->block };
    t->data = arena_alloc(&r->data, (size_t)(n_row * n_col) * sizeof(real), NULL);
    return t;
}

/* A weight gives its name to what it makes; else the op gives one inside the scope; else the output
 * continues its input's name. */
static void name_output(const run *r, const node *n)
{
    char *name = n->out->name;
    if (n->label) {
        const size_t length = strlen(n->label), suffix = sizeof ".weight" - 1;
        const bool full = length > suffix && strcmp(n->label + length - suffix, ".weight") == 0;
        snprintf(name, NAME_BYTES, "%.*s", (int)(full ? length - suffix : length), n->label);
    } else if (n->local) {
        snprintf(name, NAME_BYTES, "%s%s%s", r->scope, r->scope[0] ? "." : "", n->local);
    } else {
        snprintf(name, NAME_BYTES, "%.*s.%s", NAME_BYTES - 16, n->in[0]->name, n->op->name);
    }
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void note_profile(const run *r, const node *n, double seconds)
{
    profile *p = r->profile;
    int i = 0;
    while (i < p->n && p->entry[i].op != n->op)
        i++;
    if (i == MAX_PROFILE)
        return;
    if (i == p->n)
        p->entry[p->n++] = (op_profile){ .op = n->op };
    const cost c = n->op->cost(r, n);
    p->entry[i].calls++;
    p->entry[i].seconds += seconds;
    p->entry[i].flops += c.flops;
    p->entry[i].bytes += c.bytes;
}

static void hunt_nan(run *r, const tensor *t)
{
    for (int64_t i = 0; i < rows(t) && !r->first_nan[0]; i++)
        for (int64_t k = 0; k < cols(t); k++)
            if (!isfinite(row(t, i)[k])) {
                memcpy(r->first_nan, t->name, NAME_BYTES);
                return;
            }
}

tensor *apply(run *r, node *n)
{
    name_output(r, n);
    if (r->counting)
        tape_count(n);
    if (r->tape)
        tape_record(r, n);
    if (is_dry(r))
        return n->out;

    const double start = r->profile ? now() : 0;
    mem_guard_begin();
    n->op->forward(r, n);
    mem_guard_end();
    if (r->profile)
        note_profile(r, n, now() - start);
    if (r->hunt_nan)
        hunt_nan(r, n->out);
    if (r->trace)
        r->trace(r->trace_ud, n->out, n->op);
    return n->out;
}

tensor *run_block(run *r, block_fn *fn, const void *model, int layer, tensor *x)
{
    snprintf(r->scope, sizeof r->scope, "blk.%d", layer);
    if (r->tape) {
        tensor *out = tape_block(r, fn, model, layer, x);
        r->scope[0] = '\0';
        return out;
    }
    r->block++;
    r->n_drop = 0;
    const arena_mark meta = arena_at(&r->meta), data = arena_at(&r->data);

    tensor *y = fn(r, model, layer, x);
    assert(rows(y) == rows(x) && cols(y) == cols(x) && y->stride == x->stride);

    memcpy(x->name, y->name, NAME_BYTES);
    if (!is_dry(r))
        memcpy(x->data, y->data, (size_t)(rows(x) * cols(x)) * sizeof(real));
    arena_reset(&r->meta, meta);
    arena_reset(&r->data, data);
    r->scope[0] = '\0';
    return x;
}

typedef struct slices {
    const run *r;
    const node *n;
    range_fn *fn;
    int64_t items, n_chunk;
} slices;

static void run_slice(void *arg, int64_t chunk)
{
    const slices *s = arg;
    mem_guard_begin();
    s->fn(s->r, s->n, s->items * chunk / s->n_chunk, s->items * (chunk + 1) / s->n_chunk);
    mem_guard_end();
}

void parallel(const run *r, const node *n, int64_t items, int64_t each, range_fn *fn)
{
    const int64_t threads = r->pool ? pool_threads(r->pool) : 1;
    if (threads == 1 || items < 2 || items * each < r->fork_cost) {
        fn(r, n, 0, items);
        return;
    }
    /* Four chunks a thread: a thread that loses its processor for a moment loses little. */
    slices s = { r, n, fn, items, items < 4 * threads ? items : 4 * threads };
    pool_run(r->pool, s.n_chunk, run_slice, &s);
}
