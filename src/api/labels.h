/* labels.h - the labels of texts, where a run learns them. */
#ifndef WEFT_API_LABELS_H
#define WEFT_API_LABELS_H

#include "api/api.h"
#include "train/labelled.h"

typedef struct run_labels {
    bool used;
    columns columns;
    label_set set;
} run_labels;

/* Those that the model knows, or those in the data that one will which has no such head yet. m NULL: a
 * new model, of the architecture in o. To be dropped after success. */
weft_status take_labels(run_labels *l, const weft_train_options *o, const model *m, host *h,
                        weft_error *err);
void drop_labels(run_labels *l);

#endif
