/* train_lora.c - makes the adapter of a run, or reads it from a checkpoint. */
#include "api/train_lora.h"

/* Models whose products with weights are inside recurrent ops. */
static weft_status refuse_family(const model *m, weft_error *err)
{
    if (m->arch->family != &bahdanau_family)
        return WEFT_OK;
    return weft_fail(err, WEFT_EUNSUPPORTED,
                     "%s: a recurrent model; expected a transformer to adapt; train all of its "
                     "weights instead",
                     m->file.path);
}

weft_status take_run_adapter(run_adapter *r, const char *spec, const char *directory, weft_model *m,
                             weft_error *err)
{
    *r = (run_adapter){ 0 };
    weft_status status = refuse_family(&m->model, err);
    if (status == WEFT_OK)
        status = lora_spec_parse(&r->params.spec, spec, err);
    if (status == WEFT_OK && !(r->lent = adapter_new(m, err)))
        status = WEFT_ENOMEM;
    if (status != WEFT_OK)
        return status;
    const char *from = directory ? directory : r->params.spec.init;
    return lora_params_make(&r->params, adapter_ready(r->lent), &m->model, from, err);
}

void drop_run_adapter(run_adapter *r)
{
    lora_params_free(&r->params);
    weft_adapter_close(r->lent);
    *r = (run_adapter){ 0 };
}
