/* image_set.h - training data for image models: images and their classes.
 *
 *     a directory    every directory in it is a class, in the order of their names; the PNG and JPEG
 *                    files in it are its images
 *     IDX            pairs of files, images and their labels: MNIST and similar sets
 *
 * Images are listed first, because a new model takes its classes from the list. Then they are
 * loaded as bytes, in the size that the model takes. */
#ifndef WEFT_TRAIN_IMAGE_SET_H
#define WEFT_TRAIN_IMAGE_SET_H

#include "formats/idx.h"
#include "models/image_input.h"

typedef struct image_entry {
    const char *path;
    int32_t label;
} image_entry;

/* A file of images and one of labels, as on disk. */
typedef struct idx_pair {
    file image_file, label_file;
    idx image, label;
} idx_pair;

typedef struct image_set {
    host *host;
    arena store; /* names and lists */
    int64_t n, n_class;
    const char **class_name; /* [n_class] */
    image_entry **file;      /* [n] paths, for a directory; or NULL, and */
    idx_pair *pair;
    int n_pair;
    int64_t height, width, channels; /* size of IDX images; 0: any size */

    /* Set by image_set_load: */
    image_shape shape;
    image_recipe recipe;
    uint8_t *pixel; /* [n, height, width, channels] as the model takes them */
    int32_t *label; /* [n] */
    uint8_t *moved; /* buffer for one image */
    int64_t shift;  /* largest random shift in pixels during training */
} image_set;

/* Is the path a directory or an IDX file? */
bool is_image_set(const char *path, host *h);

weft_status image_set_list(image_set *p, const char *const *path, int n_path, weft_load load,
                           host *h, weft_error *err);

/* m must have the same number of classes; it defines the preprocessing. */
weft_status image_set_load(image_set *p, const model *m, weft_error *err);
void image_set_close(image_set *p);

/* Appends image i to the batch, whose features are `features`: a sequence whose first row has the
 * target. In training the image is shifted by an amount that the key determines. */
void image_set_add(const image_set *p, int64_t i, bool learned, uint64_t key, uint64_t number,
                   batch *b, real *features);

#endif
