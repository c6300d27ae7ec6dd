/* apply.c - the only place where an op executes. */
#include "tensor/run.h"
#include "tensor/tape.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* Appends text after the first `at` characters of name, as much as fits; returns the new length. */
static size_t name_append(char *name, size_t at, const char *text, size_t length)
{
    const size_t room = NAME_BYTES - 1 - at, n = length < room ? length : room;
    memcpy(name + at, text, n);
    name[at + n] = '\0';
    return at + n;
}

/* Puts text before a name that does not begin with it. */
static void name_prepend(char *name, const char *text)
{
    char old[NAME_BYTES];
    const size_t length = strlen(text);
    if (strncmp(name, text, length) == 0)
        return;
    memcpy(old, name, sizeof old);
    name_append(name, name_append(name, 0, text, length), old, strlen(old));
}

/* A weight names the output it makes, with the part of the model if the parts do not share it.
 * Without a weight, the op gives a name inside the scope; without both, the output extends its
 * input's name. It does not use printf, because that would take half of an op's overhead. */
static void name_output(const run *r, const node *n)
{
    char *name = n->out->name;
    if (n->label) {
        const size_t length = strlen(n->label), suffix = sizeof ".weight" - 1;
        const bool full = length > suffix && strcmp(n->label + length - suffix, ".weight") == 0;
        const size_t part = strlen(r->at.name_prefix);
        const size_t at = strncmp(n->label, r->at.name_prefix, part)
                              ? name_append(name, 0, r->at.name_prefix, part)
                              : 0;
        name_append(name, at, n->label, full ? length - suffix : length);
        return;
    }
    const char *from = n->local ? r->at.scope : n->in[0]->name,
               *own = n->local ? n->local : n->op->name;
    const size_t length = strlen(from), most = NAME_BYTES - 16; /* leaves room for `own` */
    size_t at = name_append(name, 0, from, length < most ? length : most);
    if (at > 0)
        at = name_append(name, at, ".", 1);
    name_append(name, at, own, strlen(own));
}

static void hunt_nan(run *r, const tensor *t)
{
    for (int64_t i = 0; i < rows(t) && !r->at.first_nan[0]; i++)
        for (int64_t k = 0; k < cols(t); k++)
            if (!isfinite(row(t, i)[k])) {
                memcpy(r->at.first_nan, t->name, NAME_BYTES);
                return;
            }
}

/* Weights of the batch's adapter in place of the model's. */
static void replace_inputs(const run *r, node *n)
{
    const lora_set *s = r->at.batch ? r->at.batch->whole : NULL;
    for (int i = 0; s && i < MAX_INPUT; i++)
        if (n->in[i] && s->whole[n->in[i]->slot])
            n->in[i] = s->whole[n->in[i]->slot];
}

tensor *apply(run *r, node *n)
{
    name_output(r, n);
    replace_inputs(r, n);
    if (r->at.lens_name[0])
        name_prepend(n->out->name, r->at.lens_name);
    if (r->counting)
        tape_count(n);
    if (r->tape)
        tape_record(r, n);
    if (is_dry(r)) {
        if (r->tally)
            r->tally(r->tally_ud, r, n);
        return n->out;
    }

    const double began = profile_begin(r);
    const side_stack before = side_begin(r->side);
    mem_guard_begin();
    n->op->forward(r, n);
    mem_guard_end();
    side_end(before);
    profile_end(r, n, false, began);
    if (r->hook && !r->at.aside && rows(n->out) > 0)
        r->hook(r->hook_ud, n->out, n->op);
    if (r->hunt_nan)
        hunt_nan(r, n->out);
    if (r->trace && rows(n->out) > 0)
        r->trace(r->trace_ud, n->out, n->op);
    if (r->observe)
        r->observe(r->observe_ud, r, n);
    if (r->poll)
        r->poll(r->poll_ud);
    return n->out;
}

aside aside_begin(run *r)
{
    const aside was = { r->tape, r->counting, r->at.aside };
    r->tape = NULL;
    r->counting = false;
    r->at.aside = true;
    return was;
}

void aside_end(run *r, aside was)
{
    r->tape = was.tape;
    r->counting = was.counting;
    r->at.aside = was.before;
}

tensor *run_block(run *r, block_fn *fn, const void *model, int layer, tensor *x)
{
    if (r->tape)
        return tape_block(r, fn, model, layer, x);
    snprintf(r->at.scope, sizeof r->at.scope, "%sblk.%d", r->at.name_prefix, layer);
    r->at.block++;
    r->at.n_drop = 0;
    const arena_mark meta = arena_at(&r->meta), data = arena_at(&r->data);

    tensor *y = fn(r, model, layer, x);
    assert(rows(y) == rows(x) && cols(y) == cols(x) && y->stride == x->stride);

    memcpy(x->name, y->name, NAME_BYTES);
    x->id = y->id;
    if (!is_dry(r))
        memcpy(x->data, y->data, (size_t)(rows(x) * cols(x)) * sizeof(real));
    arena_reset(&r->meta, meta);
    arena_reset(&r->data, data);
    r->at.scope[0] = '\0';
    if (r->at.lens)
        r->at.lens(r, r->at.lens_model, layer, x);
    return x;
}
