/* trace.c - the caller's view of a forward: traces and hooks, for engines and encoders. */
#include "api/api.h"

#ifdef WEFT_REAL_DOUBLE
#error "the public library is built over float"
#endif

static weft_trace_tensor tensor_shown(const tensor *t, const op *by)
{
    return (weft_trace_tensor){ sizeof(weft_trace_tensor),
                                t->name,
                                by->name,
                                rows(t),
                                cols(t),
                                t->stride,
                                t->data,
                                by->formula };
}

static void show(void *ud, const tensor *t, const op *by)
{
    const watcher *w = ud;
    const weft_trace_tensor out = tensor_shown(t, by);
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
    *to = (trace_spec){ .trace = fn ? show : NULL,
                        .trace_ud = at,
                        .hook = o.hook ? change : NULL,
                        .hook_ud = at,
                        .show = { .maps = fn && o.attention_maps,
                                  .open = (fn || o.hook) && o.open,
                                  .lens = fn && o.lens,
                                  .all_logits = (fn || o.hook) && o.all_logits } };
    return true;
}
