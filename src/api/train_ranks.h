/* train_ranks.h - weft_train in a job of several processes: who begins the run, and how it ends. */
#ifndef WEFT_API_TRAIN_RANKS_H
#define WEFT_API_TRAIN_RANKS_H

#include "api/train_options.h"
#include "base/log.h"
#include "dist/ranks.h"

typedef struct train_job {
    ranks ranks;
    log_sink log; /* the caller's */
    bool over;    /* all ranks know that the run has not begun, and leave in order */
} train_job;

/* Joins the job that this process was started in, if any. From here on only rank 0 logs. */
weft_status train_job_begin(train_job *j, weft_train_options *o, weft_error *err);

/* How rank 0 has begun the run: its status, whether it made a model for it, and the checkpoint that
 * it resumes, "" for none, which has room for `size` bytes. If rank 0 failed, so do all others. */
weft_status train_job_start(train_job *j, weft_status status, bool *made, char *checkpoint,
                            size_t size, weft_error *err);

/* Whether each rank is ready to train. If some are not, no rank begins, and the first of those says
 * why. */
weft_status train_job_agree(train_job *j, weft_status status, weft_error *err);

/* If this rank failed after that, it says so and ends all of them. */
void train_job_end(train_job *j, weft_status status, const weft_error *err);

#endif
