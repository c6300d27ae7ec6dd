/* choose.h - the model and the adapter that a request names, and whether that model can answer it. */
#ifndef WEFT_SERVER_CHOOSE_H
#define WEFT_SERVER_CHOOSE_H

#include "job.h"

/* Why the model has no answer there; NULL: it has. */
const char *choose_lacks(const serve_model *m, endpoint e);

/* Has the model an answer there, and the chat template that conversations need? */
bool choose_answers(const serve_model *m, endpoint e);

/* The job holds what is found. False with why filled. */
bool choose_model(job *j, refusal *why);

#endif
