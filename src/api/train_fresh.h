/* train_fresh.h - what a run begins with that has nothing, or not all it needs. */
#ifndef WEFT_API_TRAIN_FRESH_H
#define WEFT_API_TRAIN_FRESH_H

#include "api/api.h"
#include "text/train/train.h"
#include "train/fresh.h"

/* Learns a tokenizer from the data of a run; t gets how. */
weft_status learn_tokenizer(trained *made, train_options *t, const weft_train_options *o, host *h,
                            weft_error *err);

/* Makes a model that has learned nothing, in a directory of its own inside the run's, where it may
 * break off at any time: what an earlier one has left is no obstacle. What training it will take must
 * fit under the cap before it is written. *made: there is something in the directory now. */
weft_status begin_fresh(const weft_train_options *o, const char *in, bool *made, host *h,
                        weft_error *err);

/* The shape of a new model that was asked for, but for its vocabulary. */
weft_status shape_of(const weft_train_options *o, fresh_shape *s, weft_error *err);

/* As begin_fresh, of a model that has learned and gets a head for the labels in the data; *made false:
 * it needs none. */
weft_status begin_headed(const weft_train_options *o, const char *in, bool *made, host *h,
                         weft_error *err);

weft_status make_directory(const char *path, host *h, weft_error *err);

#endif
