/* worker.h - the worker's files: worker.c generates, encode.c and encoded.c encode texts and images, loop.c is the
 * thread. */
#ifndef WEFT_SERVER_WORKER_H
#define WEFT_SERVER_WORKER_H

#include "job.h"
#include "service.h"

/* Submits texts of a job that the scheduler has not got yet; room: for how many, which is counted
 * down. The first one decides about the answer's status. */
void worker_submit(job *j, int64_t *room);
bool worker_has_ended(const job *j);

/* Nobody waits for the job any more; its texts end at the next step. */
void worker_cancel(job *j);

/* Each is made when it is needed first, or by encoders_begin. */
typedef struct encoders {
    weft_encoder *pooled; /* one vector a text */
    weft_encoder *head;
} encoders;

/* While the model is loaded: makes the one that most requests of an encoder need, so that a model without room for it
 * is not served. */
bool encoders_begin(const instance *i, encoders *e, weft_error *err);
void encoders_free(encoders *e);

/* Are images to be decoded before some more of the job can be computed? Decodes one of them, with one thread. */
bool worker_decodes(const job *j);
void worker_decode(job *j);

/* Computes some texts or images of a job for an encoder. True once it has its answer. */
bool worker_encode(job *j, encoders *e);

/* Writes the answer of such a job. */
void encoded_write(const job *j, bytes *to);

#endif
