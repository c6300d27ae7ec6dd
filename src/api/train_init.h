/* train_init.h - creates the parts that a new run lacks. */
#ifndef WEFT_API_TRAIN_INIT_H
#define WEFT_API_TRAIN_INIT_H

#include "api/api.h"
#include "text/train/train.h"
#include "train/data.h"
#include "train/init_model.h"

/* Trains a tokenizer on the data of a run; t receives the options used. */
weft_status learn_tokenizer(trained *made, train_options *t, const weft_train_options *o, host *h,
                            weft_error *err);

/* Creates an untrained model in a directory of its own inside the run's. It may be interrupted at
 * any time: leftovers of an earlier attempt do no harm. Training it must fit under the cap before
 * it is written. *made: the directory now contains something. */
weft_status begin_new_model(const weft_train_options *o, const char *in, bool *made, host *h,
                            weft_error *err);

/* The requested shape of a new model, except for its vocabulary. */
weft_status train_shape(const weft_train_options *o, init_model_shape *s, weft_error *err);

/* Same as begin_new_model, for a trained model that gets a new head for the labels in the data; *made
 * false: it needs none. */
weft_status begin_new_head(const weft_train_options *o, const char *in, bool *made, host *h,
                           weft_error *err);

/* The largest batch of a run with this model, before its data has been read. d and `seen` are room that
 * data_room_free needs. */
weft_status train_largest_batch(batch *b, dataset *d, const weft_train_options *o, const model *m,
                                image_set *seen, host *h, weft_error *err);

/* The number of ids in a tokenizer, and the id that ends a text. */
weft_status read_vocabulary(init_model_shape *s, const char *tokenizer, host *h, weft_error *err);

/* Weights that are trained cannot be quantised. */
weft_status refuse_quantised(const model *m, weft_error *err);

weft_status make_directory(const char *path, host *h, weft_error *err);

#endif
