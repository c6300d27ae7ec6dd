/* explain_train.h - a few steps of training for a page: what explain may not know, as it does not see
 * optimisers. */
#ifndef WEFT_API_EXPLAIN_TRAIN_H
#define WEFT_API_EXPLAIN_TRAIN_H

#include "explain/lesson.h"

/* Can this model be trained on these text, as the options ask? Before anything is computed. */
weft_status check_lesson(const weft_model *w, const weft_explain_options *o, const int32_t *text,
                         int64_t n, weft_error *err);

/* Takes the steps with a copy of the model, and fills the lesson, which lesson_free frees. */
weft_status take_lesson(weft_model *w, const weft_explain_options *o, const int32_t *text,
                        int64_t n, lesson *to, weft_error *err);

#endif
