/* choose.h - the model and the adapter that a request names, and whether that model can answer it. */
#ifndef WEFT_SERVER_CHOOSE_H
#define WEFT_SERVER_CHOOSE_H

#include "job.h"

/* Has the model an answer there, and the chat template that conversations need? */
bool choose_answers(const serve_model *m, endpoint e);

/* The job holds what is found. False with why filled. */
bool choose_model(job *j, refusal *why);

#endif
