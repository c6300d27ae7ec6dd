/* api_image.c - the public functions of pictures: check, translate, delegate. */
#include "api.h"

#include "models/picture.h"

typedef struct image_block {
    mem *mem;
    weft_image image;
    float features[];
} image_block;

static weft_image *make(weft_model *w, image *im, const char *path, weft_error *err)
{
    const model *m = &w->model;
    image_recipe recipe;
    image_block *b = NULL;
    if (picture_recipe(&recipe, m, err) == WEFT_OK &&
        picture_fit(im, &recipe, &m->image, path, &w->host, err) == WEFT_OK)
        b = mem_alloc(&w->host.mem,
                      sizeof *b + (size_t)(m->n_ctx * m->d_feature) * sizeof *b->features,
                      "rows of a picture", err);
    if (b) {
        b->mem = &w->host.mem;
        b->image = (weft_image){ m->n_ctx, b->features };
        picture_rows(im, &recipe, &m->image, b->features);
    }
    image_free(im, &w->host);
    return b ? &b->image : NULL;
}

weft_image *weft_image_open(weft_model *m, const char *path, weft_error *err)
{
    weft_error local;
    image im;
    err = err ? err : &local;
    *err = (weft_error){ 0 };
    if (!m || !path) {
        weft_fail(err, WEFT_EINVAL, m ? "no path given" : "no model given");
        return NULL;
    }
    return image_open(&im, path, &m->host, err) == WEFT_OK ? make(m, &im, path, err) : NULL;
}

weft_image *weft_image_decode(weft_model *m, const void *data, size_t size, weft_error *err)
{
    weft_error local;
    image im;
    err = err ? err : &local;
    *err = (weft_error){ 0 };
    if (!m || !data) {
        weft_fail(err, WEFT_EINVAL, m ? "no picture given" : "no model given");
        return NULL;
    }
    return image_parse(&im, data, size, "picture", &m->host, err) == WEFT_OK
               ? make(m, &im, "picture", err)
               : NULL;
}

void weft_image_free(weft_image *im)
{
    if (!im)
        return;
    image_block *b = (image_block *)((char *)im - offsetof(image_block, image));
    mem_free(b->mem, b);
}
