/* worker.h - the worker's files: worker.c generates, embed.c embeds, loop.c is the thread. */
#ifndef WEFT_SERVER_WORKER_H
#define WEFT_SERVER_WORKER_H

#include "job.h"

/* Submits texts of a job that the scheduler has not got yet; room: for how many, which is counted
 * down. The first one decides about the answer's status. */
void worker_submit(job *j, int64_t *room);
bool worker_has_ended(const job *j);

/* Nobody waits for the job any more; its texts end at the next step. */
void worker_cancel(job *j);

/* Computes some embeddings of a job, with the encoder that *encoder is made into at first. True
 * once it has its answer. */
bool worker_embed(job *j, weft_encoder **encoder);

#endif
