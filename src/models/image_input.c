/* image_input.c - finds the preprocessing recipe of a model's images, checks that its result fits the
 * model, and lays patches out as rows. */
#include "models/image_input.h"

#include "formats/kept.h"

#include <string.h>

weft_status image_input_recipe(image_recipe *to, const model *m, weft_error *err)
{
    static const char name[] = "preprocessor_config.json";
    container c;
    bool there;
    if (m->image.channels == 0)
        return weft_fail(err, WEFT_EUNSUPPORTED, "%s: %s models do not take images", m->file.path,
                         m->name);
    const bool in_config = container_meta(m->config, "image_mean.0") != NULL;
    weft_status status = kept_config(&c, &m->file, name, &there, err);
    if (status == WEFT_OK && !there && in_config) {
        container_close(&c);
        return recipe_read_config(to, m->config, m->image.channels, m->image.height, m->image.width,
                                  err);
    }
    if (status == WEFT_OK && !there)
        status = weft_fail(err, WEFT_EIO,
                           "%s: no %s beside it, which describes how images are preprocessed",
                           m->file.meta_path, name);
    if (status == WEFT_OK)
        status = recipe_read(to, &c, m->image.channels, err);
    container_close(&c);
    return status;
}

weft_status image_input_fit(image *im, const image_recipe *recipe, const image_shape *s,
                            const char *path, host *h, weft_error *err)
{
    const weft_status status = recipe_apply(recipe, im, s->channels, h, err);
    if (status != WEFT_OK || (im->height == s->height && im->width == s->width))
        return status;
    return weft_fail(
        err, WEFT_EFORMAT,
        "%s: preprocessor_config.json makes it %lld x %lld pixels; the model takes %lld x %lld",
        path, (long long)im->width, (long long)im->height, (long long)s->width,
        (long long)s->height);
}

void image_input_rows(const image *im, const image_recipe *recipe, const image_shape *s, real *to)
{
    const int64_t lead = s->n_lead * s->channels * s->patch * s->patch;
    memset(to, 0, (size_t)lead * sizeof *to);
    recipe_patches(recipe, im, s->patch, to + lead);
}
