/* image_input.h - turns an image into the rows that a model takes. */
#ifndef WEFT_MODELS_IMAGE_INPUT_H
#define WEFT_MODELS_IMAGE_INPUT_H

#include "formats/image.h"
#include "models/arch.h"

/* Reads the preprocessor_config.json next to the model's config.json or, without one, that
 * config.json itself, if it has image_mean. */
weft_status image_input_recipe(image_recipe *to, const model *m, weft_error *err);

/* Resizes and crops. The result must have the model's image size. */
weft_status image_input_fit(image *im, const image_recipe *recipe, const image_shape *s,
                            const char *path, host *h, weft_error *err);

/* The rows of an image of the right size; learned rows come first and are zero here. [n_ctx,
 * d_feature] */
void image_input_rows(const image *im, const image_recipe *recipe, const image_shape *s, real *to);

#endif
