/* api_model.h - what the public functions know of a model and of an engine's options. */
#ifndef WEFT_API_MODEL_H
#define WEFT_API_MODEL_H

#include "api.h"
#include "engine/engine.h"
#include "models/ends.h"
#include "text/pieces.h"

struct weft_model {
    host host;
    model model;
    pieces pieces;
    ends ends;
};

/* Checks that the options exist; whether they fit the model is engine_resolve's business. */
bool take_engine_options(const weft_engine_options *from, engine_options *to, weft_error *err);

#endif
