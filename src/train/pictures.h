/* pictures.h - training data for image models: pictures and their classes.
 *
 *     a directory    every directory in it is a class, in the order of their names; the PNG and JPEG
 *                    files in it are its pictures
 *     IDX            pairs of files, pictures and their labels: MNIST and similar sets
 *
 * Pictures are listed first, because a new model takes its classes from the list. Then they are
 * loaded as bytes, in the size that the model takes. */
#ifndef WEFT_TRAIN_PICTURES_H
#define WEFT_TRAIN_PICTURES_H

#include "formats/idx.h"
#include "models/picture.h"

typedef struct picture_file {
    const char *path;
    int32_t label;
} picture_file;

/* A file of pictures and one of labels, as on disk. */
typedef struct idx_pair {
    file image_file, label_file;
    idx image, label;
} idx_pair;

typedef struct pictures {
    host *host;
    arena store; /* names and lists */
    int64_t n, n_class;
    const char **class_name; /* [n_class] */
    picture_file **file;     /* [n] paths, for a directory; or NULL, and */
    idx_pair *pair;
    int n_pair;
    int64_t height, width, channels; /* size of IDX pictures; 0: any size */

    /* Set by pictures_load: */
    image_shape shape;
    image_recipe recipe;
    uint8_t *pixel; /* [n, height, width, channels] as the model takes them */
    int32_t *label; /* [n] */
    uint8_t *moved; /* buffer for one picture */
    int64_t shift;  /* largest random shift in pixels during training */
} pictures;

/* Is the path a directory or an IDX file? */
bool pictures_are_here(const char *path, host *h);

weft_status pictures_list(pictures *p, const char *const *path, int n_path, weft_load load, host *h,
                          weft_error *err);

/* m must have the same number of classes; it defines the preprocessing. */
weft_status pictures_load(pictures *p, const model *m, weft_error *err);
void pictures_close(pictures *p);

/* Appends picture i to the batch, whose features are `features`: a sequence whose first row has the
 * target. In training the picture is shifted by an amount that the key determines. */
void pictures_add(const pictures *p, int64_t i, bool learned, uint64_t key, uint64_t number,
                  batch *b, real *features);

#endif
