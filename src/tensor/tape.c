/* tape.c - recording, and unwinding block by block.
 *
 * The data arena while block l is unwound with recomputation:
 *
 *     | x_0 | x_1 | ... | x_L | end | dx_L | ... | dx_l | block l again | its gradients |
 *     ^ kept by the forward         ^ one per block      ^ mark: from here on freed when it is done
 *
 * So the peak is the blocks' inputs plus one block; without recomputation all blocks stay. */
#include "tensor/tape.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* A block's call, to be unwound or repeated. */
typedef struct block_call {
    block_fn *fn;
    const void *model;
    int layer;
    const char *part;
    int64_t block; /* run.at.block when it ran: the key of its dropouts */
    node *inner;   /* its nodes, newest first; NULL if they must be recomputed */
} block_call;

static void block_backward(run *r, const node *n);

static const op block_op = { .name = "block", .backward = block_backward };

static void tape_append(run *r, const node *n)
{
    node *copy = arena_alloc(&r->meta, sizeof *copy, NULL);
    *copy = *n;
    copy->batch = r->at.batch;
    copy->before = r->tape->last;
    r->tape->last = copy;
}

void tape_begin(run *r, tape *t)
{
    t->last = NULL;
    t->block = 0;
    r->tape = t;
    r->counting = true;
}

void tape_count(const node *n)
{
    for (int64_t i = 0; i < n_input(n); i++)
        if (node_input(n, i) && node_input(n, i)->is_param)
            node_input(n, i)->uses++;
}

void tape_record(run *r, node *n)
{
    for (int64_t i = 0; i < n_input(n); i++) {
        tensor *t = node_input(n, i);
        if (!t)
            continue;
        for (int k = 0; k < MAX_INPUT && k < i; k++)
            assert(n->in[k] != t && "an op's inputs are distinct");
        n->out->needs_grad |= t->needs_grad;
    }
    if (!n->out->needs_grad)
        return; /* its parameters, if any, are frozen */
    assert(n->op->backward && "every op that learns has a backward");
    tape_append(r, n);
}

/* ---- unwinding ------------------------------------------------------------------------------- */

/* Allocates the gradient of t, once. A view's gradient lies inside that of its parent, which is
 * cleared because other parts of it may never be written. */
static void take_grad(run *r, tensor *t)
{
    if (t->grad_taken || !t->needs_grad)
        return;
    t->grad_taken = true;
    if (t->whole) {
        take_grad(r, t->whole);
        tensor *w = t->whole;
        if (!w->grad_written && !is_dry(r))
            for (int64_t i = 0; i < rows(w); i++)
                memset(grad_row(w, i), 0, (size_t)cols(w) * sizeof(real));
        w->grad_written = t->grad_written = true;
        t->grad = is_dry(r) ? NULL : w->grad + ((real *)t->data - (real *)w->data);
        return;
    }
    assert(!t->is_param && t->stride == cols(t));
    assert(t->born >= r->tape->block &&
           "a block reads nothing from outside but its x and the encoder's output");
    t->grad = arena_alloc(&r->data, (size_t)(rows(t) * cols(t)) * sizeof(real), NULL);
}

static void finish_uses(const run *r, const node *n)
{
    for (int64_t i = 0; i < n_input(n); i++) {
        tensor *t = node_input(n, i);
        if (t && t->is_param && --t->uses == 0 && t->needs_grad && r->tape->ready && !is_dry(r))
            r->tape->ready(r->tape->ud, t);
    }
}

void grad_clear(tensor *t)
{
    for (int64_t i = 0; t && t->needs_grad && !t->grad_written && i < (t->n_dim > 1 ? rows(t) : 1);
         i++)
        memset(grad_row(t, i), 0, (size_t)cols(t) * sizeof(real));
}

/* A dry run unwinds blocks too, to count their memory; an op allocates nothing. */
static void tape_step_back(run *r, const node *n)
{
    if (n->op == &block_op) {
        block_backward(r, n);
    } else if (!is_dry(r)) {
        const double began = profile_begin(r);
        const side_stack before = side_begin(r->side);
        mem_guard_begin();
        n->op->backward(r, n);
        mem_guard_end();
        side_end(before);
        profile_end(r, n, true, began);
        if (r->tape->observer)
            r->tape->observer(r->tape->observer_ud, r, n);
        if (r->poll)
            r->poll(r->poll_ud);
    }
}

static void unwind(run *r, node *last)
{
    for (node *n = last; n; n = n->before) {
        if (n->out->grad_taken) {
            for (int64_t i = 0; i < n_input(n); i++)
                if (node_input(n, i))
                    take_grad(r, node_input(n, i));
            r->at.batch = n->batch;
            tape_step_back(r, n);
            for (int64_t i = 0; i < n_input(n); i++) {
                tensor *t = node_input(n, i);
                if (t && t->needs_grad && !(is_dry(r) && t->is_param))
                    t->grad_written = true;
            }
        }
        if (n->op != &block_op)
            finish_uses(r, n);
    }
}

void tape_backward(run *r, tensor *y, const real *dy)
{
    take_grad(r, y);
    y->grad_written = true;
    if (!is_dry(r) && y->needs_grad)
        for (int64_t i = 0; i < rows(y); i++)
            memcpy(grad_row(y, i), dy + i * cols(y), (size_t)cols(y) * sizeof(real));
    r->counting = false;
    unwind(r, r->tape->last);
    r->tape->last = NULL;
    r->tape = NULL;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static tensor *enter(run *r, const block_call *c, tensor *x)
{
    r->at.name_prefix = c->part;
    snprintf(r->at.scope, sizeof r->at.scope, "%sblk.%d", c->part, c->layer);
    r->at.block = c->block;
    r->at.n_drop = 0;
    tensor *y = c->fn(r, c->model, c->layer, x);
    assert(rows(y) == rows(x) && cols(y) == cols(x) && y->stride == x->stride);
    r->at.scope[0] = '\0';
    return y;
}

/* Calls the block without recording; only a copy of the output survives. */
static tensor *call_and_forget(run *r, const block_call *c, tensor *x)
{
    tensor *y = tensor_new(r, rows(x), cols(x));
    const arena_mark meta = arena_at(&r->meta), data = arena_at(&r->data);
    tape *t = r->tape;
    r->tape = NULL;
    const tensor *inner = enter(r, c, x);
    r->tape = t;
    memcpy(y->name, inner->name, NAME_BYTES);
    if (!is_dry(r))
        memcpy(y->data, inner->data, (size_t)(rows(y) * cols(y)) * sizeof(real));
    arena_reset(&r->meta, meta);
    arena_reset(&r->data, data);
    y->needs_grad = true;
    return y;
}

static tensor *call_and_record(run *r, block_call *c, tensor *x)
{
    node *outer = r->tape->last;
    r->tape->last = NULL;
    tensor *y = enter(r, c, x);
    c->inner = r->tape->last;
    r->tape->last = outer;
    return y;
}

tensor *tape_block(run *r, block_fn *fn, const void *model, int layer, tensor *x)
{
    block_call *c = arena_alloc(&r->meta, sizeof *c, NULL);
    *c = (block_call){ fn, model, layer, r->at.name_prefix, r->at.block + 1, NULL };
    node n = { .op = &block_op, .in = { x, r->at.encoder_out }, .arg = c };
    n.out = r->tape->recompute ? call_and_forget(r, c, x) : call_and_record(r, c, x);
    tape_append(r, &n);
    return n.out;
}

static void block_backward(run *r, const node *n)
{
    block_call c = *(const block_call *)n->arg;
    const arena_mark meta = arena_at(&r->meta), data = arena_at(&r->data);
    if (!c.inner) {
        tensor *y = call_and_record(r, &c, n->in[0]);
        y->grad = n->out->grad;
        y->grad_taken = y->grad_written = true;
    }
    r->tape->block = c.block;
    unwind(r, c.inner);
    r->tape->block = 0;
    arena_reset(&r->meta, meta);
    arena_reset(&r->data, data);
}
