/* labels.h - the labels of texts, if a run trains on them. */
#ifndef WEFT_API_LABELS_H
#define WEFT_API_LABELS_H

#include "api/api.h"
#include "train/labelled.h"

typedef struct run_labels {
    bool used;
    columns columns;
    label_set set;
} run_labels;

/* What the outputs of a classifier are. */
weft_labels labels_kind(const model *m);

/* The labels that the model has or, for a model without such a head, those in the data. m NULL: a
 * new model, of the architecture in o. Drop them after success. */
weft_status take_labels(run_labels *l, const weft_train_options *o, const model *m, host *h,
                        weft_error *err);
void drop_labels(run_labels *l);

#endif
