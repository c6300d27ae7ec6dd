/* picture.h - a picture becomes the rows that a model takes. */
#ifndef WEFT_MODELS_PICTURE_H
#define WEFT_MODELS_PICTURE_H

#include "formats/image.h"
#include "models/arch.h"

/* What the preprocessor_config.json beside the model's config.json says, or without one that
 * config.json itself, if it has image_mean. */
weft_status picture_recipe(image_recipe *to, const model *m, weft_error *err);

/* Resizes and crops, which must lead to the size that the model was made for. */
weft_status picture_fit(image *im, const image_recipe *recipe, const image_shape *s,
                        const char *path, host *h, weft_error *err);

/* The rows of a picture that fits; those that are learned come first and are zero here.
 * [n_ctx, d_feature] */
void picture_rows(const image *im, const image_recipe *recipe, const image_shape *s, real *to);

#endif
