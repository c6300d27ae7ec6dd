/* generate.c - the public function that generates a text: check, translate, delegate. */
#include "engine/generate.h"

#include "api/api.h"

#define MAX_TOP 1000 /* alternatives per token */

weft_status take_generate_options(weft_generate_options *o, const weft_model *m, weft_error *err)
{
    if ((o->n_prompt > 0) != (o->prompt != NULL) || o->n_prompt < 0)
        return weft_fail(err, WEFT_EINVAL, "a prompt of %lld tokens, but prompt is %s",
                         (long long)o->n_prompt, o->prompt ? "set" : "NULL");
    if (o->n_new < -1)
        return weft_fail(err, WEFT_EINVAL, "n_new is %lld, expected -1 or more",
                         (long long)o->n_new);
    if (o->n_stop < 0 || (o->n_stop > 0 && !o->stop))
        return weft_fail(err, WEFT_EINVAL, "n_stop is %d, but stop is %s", o->n_stop,
                         o->stop ? "set" : "NULL");
    if (o->n_top < 0 || o->n_top > MAX_TOP)
        return weft_fail(err, WEFT_EINVAL, "n_top is %lld, expected 0 to %d", (long long)o->n_top,
                         MAX_TOP);
    if (!o->ends && o->n_end == 0) {
        o->ends = m->stop_ids.id;
        o->n_end = m->stop_ids.n;
    }
    if (o->n_end < 0 || o->n_end > WEFT_MAX_END || (o->n_end > 0 && !o->ends))
        return weft_fail(err, WEFT_EINVAL, "n_end is %d, expected 0 to %d%s", o->n_end,
                         WEFT_MAX_END, o->ends ? "" : ", and ends");
    if (o->n_stop_id < 0 || o->n_stop_id > WEFT_MAX_END || (o->n_stop_id > 0 && !o->stop_ids))
        return weft_fail(err, WEFT_EINVAL, "n_stop_id is %d, expected 0 to %d%s", o->n_stop_id,
                         WEFT_MAX_END, o->stop_ids ? "" : ", and stop_ids");
    if (o->n_min < 0)
        return weft_fail(err, WEFT_EINVAL, "n_min is %lld, expected 0 or more",
                         (long long)o->n_min);
    return WEFT_OK;
}

weft_status weft_generate(weft_session *s, weft_sampler *chain, const weft_tokenizer *t,
                          const weft_generate_options *options, weft_generate_fn *fn, void *ud,
                          weft_generation *info, weft_error *err)
{
    weft_generate_options o;
    weft_error local;
    err = begin_call(err, &local);
    if (!s)
        return weft_fail(err, WEFT_EINVAL, "no session given");
    if (!read_options(&o, sizeof o, options, options ? options->struct_size : 0,
                      "weft_generate_options", err) ||
        (info && !result_fits(info, "weft_generation", err)))
        return err->code;
    const weft_model *m = s->engine->model;
    struct sampler *draws = chain ? sampler_inside(chain) : NULL;
    if (draws && draws->n_vocab != m->model.n_vocab)
        return weft_fail(err, WEFT_EINVAL,
                         "the sampler's vocabulary has %lld tokens, the model's "
                         "%lld",
                         (long long)draws->n_vocab, (long long)m->model.n_vocab);
    if (take_generate_options(&o, m, err) != WEFT_OK)
        return err->code;
    generation g = { .mem = &s->inner->engine->model->host->mem,
                     .n_vocab = m->model.n_vocab,
                     .sampler = draws,
                     .tokenizer = t ? tokenizer_inside(t) : NULL,
                     .pieces = &m->pieces,
                     .opt = &o,
                     .constraint = o.constraint ? constraint_inside(o.constraint) : NULL,
                     .fn = fn,
                     .ud = ud,
                     .err = err };
    const weft_status status = generate(s->inner, &g);
    if (info)
        copy_result(info, info->struct_size, &g.to, sizeof g.to);
    return status;
}
