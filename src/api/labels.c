/* labels.c - the labels of texts that a run trains on. */
#include "api/labels.h"
#include "train/new_head.h"

#include <string.h>

/* Without a type, one output is a value, as in transformers. */
weft_labels labels_kind(const model *m)
{
    const meta *type = container_meta(m->config, "problem_type");
    if (!type || type->type != META_TEXT)
        return m->n_out == 1 ? WEFT_LABELS_VALUE : WEFT_LABELS_ONE;
    return strcmp(type->text, "multi_label_classification") == 0 ? WEFT_LABELS_SEVERAL
           : strcmp(type->text, "regression") == 0               ? WEFT_LABELS_VALUE
                                                                 : WEFT_LABELS_ONE;
}

/* Cross-entropy needs exactly one label per text. */
static weft_status check_labels(const model *m, weft_error *err)
{
    if (m->n_out > 1 && labels_kind(m) == WEFT_LABELS_ONE)
        return WEFT_OK;
    return weft_fail(
        err, WEFT_EUNSUPPORTED,
        "%s: a regression or multi-label model; only single-label models can be trained",
        m->file.path);
}

weft_status take_labels(run_labels *l, const weft_train_options *o, const model *m, host *h,
                        weft_error *err)
{
    const bool knows = m && m->task == WEFT_TASK_CLASSIFY && m->image.channels == 0;
    const bool learns = m ? new_head_fits(m)
                          : o->arch && init_model_task(o->arch) == WEFT_TASK_FILL;
    *l = (run_labels){ 0 };
    weft_status status = columns_parse(&l->columns, o->columns, err);
    l->used = knows || (learns && labelled_is_here(o->data[0], (data_kind)o->data_kind, h));
    if (status == WEFT_OK && knows)
        status = check_labels(m, err);
    if (status == WEFT_OK && l->used)
        status = knows ? labels_of_model(&l->set, m, err)
                       : labels_list(&l->set, o->data, o->n_data, (data_kind)o->data_kind,
                                     &l->columns, o->load, h, err);
    if (status == WEFT_OK && o->columns && !l->used)
        status = weft_fail(err, WEFT_EINVAL, "%s: columns are for tables of texts with labels",
                           o->data[0]);
    l->used = l->used && status == WEFT_OK;
    return status;
}

void drop_labels(run_labels *l)
{
    labels_free(&l->set);
    l->used = false;
}
