/* image.h - pictures: PNG and JPEG through the libraries that browsers run, in bytes, and what is done
 * to them before a model sees them.
 *
 *     file -> pixels -> RGB or grey -> resize -> crop -> (x / 255 - mean) / std -> rows of patches
 *
 * Everything up to the bytes behind the crop equals PIL's, bit by bit. A picture is turned by no
 * EXIF tag, and colour profiles are not applied: PIL does neither when it opens a file. */
#ifndef WEFT_FORMATS_IMAGE_H
#define WEFT_FORMATS_IMAGE_H

#include "base/real.h"
#include "formats/container.h"

/* A file of some kilobytes may tell of a picture of any size. No camera that people carry makes more
 * pixels than this (192 MiB in colours), and no more bytes are taken to decode one: what a progressive
 * JPEG needs beside its pixels would be six for each. */
#define IMAGE_MAX_PIXEL ((uint64_t)1 << 26)
#define IMAGE_MAX_BYTES ((uint64_t)256 << 20)
#define IMAGE_MAX_SIDE  65535

/* What of it this build can read. */
#ifdef WEFT_PNG
#define IMAGE_PNG " png"
#else
#define IMAGE_PNG ""
#endif
#ifdef WEFT_JPEG
#define IMAGE_JPEG " jpeg"
#else
#define IMAGE_JPEG ""
#endif

typedef struct image {
    int64_t height, width, channels; /* 1: grey, 3: red, green, blue */
    uint8_t *pixel;                  /* [height, width, channels], counted */
} image;

/* A PNG or JPEG, as what its first bytes tell. Transparency is dropped; 16 bits become 8. */
weft_status image_parse(image *im, const uint8_t *data, uint64_t size, const char *path, host *h,
                        weft_error *err);
weft_status image_open(image *im, const char *path, host *h, weft_error *err);
void image_free(image *im, host *h);

/* Does a name end as those of such files do? */
bool image_is_name(const char *name);

/* Grey of colours, or the other way round, in the place of what was there. */
weft_status image_to_channels(image *im, int64_t channels, host *h, weft_error *err);

/* By PIL's numbers. */
typedef enum image_filter {
    FILTER_LANCZOS = 1,
    FILTER_BILINEAR = 2,
    FILTER_BICUBIC = 3,
} image_filter;

/* Smaller pictures are means over all pixels that fall into one (antialiasing). */
weft_status image_resize(image *im, int64_t height, int64_t width, image_filter filter, host *h,
                         weft_error *err);

/* The middle, which must lie inside. */
weft_status image_crop(image *im, int64_t height, int64_t width, host *h, weft_error *err);

/* For the decoders: a picture of this size, whose pixels nobody has written yet. The size is checked
 * before memory is taken. */
weft_status image_take(image *im, uint64_t height, uint64_t width, uint64_t channels,
                       const char *path, host *h, weft_error *err);

typedef weft_status image_decoder(image *im, const uint8_t *data, uint64_t size, const char *path,
                                  host *h, weft_error *err);
image_decoder png_decode, jpeg_decode;

/* ---- what a model wants ---------------------------------------------------------------------- */

/* preprocessor_config.json of ViT and DeiT. */
typedef struct image_recipe {
    bool resize, crop, rescale, normalize;
    int64_t height, width;
    image_filter filter;
    int64_t crop_height, crop_width;
    double factor;
    double mean[3], std[3];
} image_recipe;

/* Fields that are missing have transformers' defaults; what is unknown is an error. channels: of the
 * model, as many numbers mean and std must have. */
weft_status recipe_read(image_recipe *to, const container *c, int64_t channels, weft_error *err);

/* The same of a config.json that has image_mean and image_std itself, for pictures of this size. */
weft_status recipe_read_config(image_recipe *to, const container *c, int64_t channels,
                               int64_t height, int64_t width, weft_error *err);

/* Converts, resizes and crops. */
weft_status recipe_apply(const image_recipe *recipe, image *im, int64_t channels, host *h,
                         weft_error *err);

/* Rows of patches, from left to right and from top to bottom: row [channels, patch, patch], as a
 * convolution's weights lie. The picture is cut into whole patches: what is left over at its right
 * and bottom is not seen, as by the convolution.          [(height / patch) (width / patch), C P P] */
void recipe_patches(const image_recipe *recipe, const image *im, int64_t patch, real *to);

#endif
