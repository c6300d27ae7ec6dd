/* importance.h - the importance of a model's columns over a text, for weft_convert. */
#ifndef WEFT_API_IMPORTANCE_H
#define WEFT_API_IMPORTANCE_H

#include "engine/importance.h"
#include "models/convert.h"

typedef struct measured {
    model model; /* refers to itself: do not copy */
    bool open;
    importance importance;
} measured;

/* Runs the model at `from` over the text in `path`, with the threads and the loading of o. */
weft_status measure_importance(measured *to, const char *from, const char *path,
                               const convert_options *o, host *h, weft_error *err);
void measured_free(measured *m);

#endif
