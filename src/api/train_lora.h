/* train_lora.h - the adapter of a run, if it trains one. */
#ifndef WEFT_API_TRAIN_LORA_H
#define WEFT_API_TRAIN_LORA_H

#include "api/api.h"
#include "train/lora_params.h"

typedef struct run_adapter {
    lora_params params;
    weft_adapter *lent; /* the same for callbacks */
} run_adapter;

/* spec: as in weft_train_options. directory: its checkpoint, or NULL. Drop it in any case, after the
 * learner. */
weft_status take_run_adapter(run_adapter *r, const char *spec, const char *directory, weft_model *m,
                             weft_error *err);
void drop_run_adapter(run_adapter *r);

#endif
