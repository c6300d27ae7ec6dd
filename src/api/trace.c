/* trace.c - the caller's view of a forward: traces and hooks, for engines and encoders. */
#include "api/api.h"

#ifdef WEFT_REAL_DOUBLE
#error "the public library is built over float"
#endif

static weft_trace_tensor tensor_shown(const tensor *t, const op *by)
{
    return (weft_trace_tensor){ .struct_size = sizeof(weft_trace_tensor),
                                .name = t->name,
                                .op = by->name,
                                .rows = rows(t),
                                .cols = cols(t),
                                .stride = t->stride,
                                .data = t->data,
                                .formula = by->formula };
}

static void show(void *ud, const run *r, const node *n)
{
    const watcher *w = ud;
    const char *inputs[MAX_INPUT];
    weft_trace_tensor out = tensor_shown(n->out, n->op);
    if (out.rows == 0)
        return;
    for (int i = 0; i < MAX_INPUT; i++)
        if (n->in[i])
            inputs[out.n_input++] = n->in[i]->name;
    out.inputs = inputs;
    out.flops = n->op->cost(r, n).flops;
    w->trace(w->trace_ud, &out);
}

static void change(void *ud, tensor *t, const op *by)
{
    const watcher *w = ud;
    const weft_trace_tensor out = tensor_shown(t, by);
    w->hook(w->hook_ud, &out, t->data);
}

/* What nobody would see is not computed. */
bool take_trace_options(weft_trace_fn *fn, void *ud, const weft_trace_options *options, watcher *at,
                        watcher *w, trace_spec *to, weft_error *err)
{
    weft_trace_options o;
    if (!read_options(&o, sizeof o, options, options ? options->struct_size : 0,
                      "weft_trace_options", err))
        return false;
    *w = (watcher){ fn, ud, o.hook, o.hook_ud };
    *to = (trace_spec){ .observe = fn ? show : NULL,
                        .observe_ud = at,
                        .hook = o.hook ? change : NULL,
                        .hook_ud = at,
                        .show = { .maps = fn && o.attention_maps,
                                  .open = (fn || o.hook) && o.open,
                                  .lens = fn && o.lens,
                                  .all_logits = (fn || o.hook) && o.all_logits } };
    return true;
}
