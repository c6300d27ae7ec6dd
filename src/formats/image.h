/* image.h - images: PNG and JPEG, decoded by the libraries that browsers use, and their
 * preprocessing for a model.
 *
 *     file -> pixels -> RGB or grey -> resize -> crop -> (x / 255 - mean) / std -> rows of patches
 *
 * All bytes up to and including the crop equal PIL's exactly. EXIF rotation and colour profiles are
 * not applied: PIL applies neither when it opens a file. */
#ifndef WEFT_FORMATS_IMAGE_H
#define WEFT_FORMATS_IMAGE_H

#include "base/real.h"
#include "formats/container.h"

/* A file of some kilobytes may declare an image of any size. No consumer camera makes more pixels
 * than this (192 MiB in colour). It also bounds the memory to decode one: a progressive JPEG would
 * need six bytes per pixel in addition to its pixels. */
#define IMAGE_MAX_PIXEL ((uint64_t)1 << 26)
#define IMAGE_MAX_BYTES ((uint64_t)256 << 20)
#define IMAGE_MAX_SIDE  65535

/* The formats that this build can read. */
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
    uint8_t *pixel;                  /* [height, width, channels], in counted memory */
} image;

/* Decodes a PNG or JPEG, recognised by its first bytes. Transparency is dropped; 16 bits become
 * 8. */
weft_status image_parse(image *im, const uint8_t *data, uint64_t size, const char *path, host *h,
                        weft_error *err);
weft_status image_open(image *im, const char *path, host *h, weft_error *err);
void image_free(image *im, host *h);

/* Does a name have the extension of such a file? */
bool image_is_name(const char *name);

/* Converts colour to grey or grey to colour, in place. */
weft_status image_to_channels(image *im, int64_t channels, host *h, weft_error *err);

/* PIL's numbering. */
typedef enum image_filter {
    FILTER_LANCZOS = 1,
    FILTER_BILINEAR = 2,
    FILTER_BICUBIC = 3,
} image_filter;

/* Downscaling averages over all pixels that fall into a new one (antialiasing). */
weft_status image_resize(image *im, int64_t height, int64_t width, image_filter filter, host *h,
                         weft_error *err);

/* Crops the centre, which must lie inside. */
weft_status image_crop(image *im, int64_t height, int64_t width, host *h, weft_error *err);

/* For the decoders: allocates an image of this size with uninitialised pixels. Checks the size
 * before it allocates. */
weft_status image_take(image *im, uint64_t height, uint64_t width, uint64_t channels,
                       const char *path, host *h, weft_error *err);

typedef weft_status image_decoder(image *im, const uint8_t *data, uint64_t size, const char *path,
                                  host *h, weft_error *err);
image_decoder png_decode, jpeg_decode;

/* ---- preprocessing --------------------------------------------------------------------------- */

/* preprocessor_config.json of ViT and DeiT. */
typedef struct image_recipe {
    bool resize, crop, rescale, normalize;
    int64_t height, width;
    image_filter filter;
    int64_t crop_height, crop_width;
    double factor;
    double mean[3], std[3];
} image_recipe;

/* Missing fields get transformers' defaults; an unknown value is an error. channels: of the model;
 * mean and std must have as many entries. */
weft_status recipe_read(image_recipe *to, const container *c, int64_t channels, weft_error *err);

/* The same for a config.json that has image_mean and image_std itself, for images of this size. */
weft_status recipe_read_config(image_recipe *to, const container *c, int64_t channels,
                               int64_t height, int64_t width, weft_error *err);

/* Converts, resizes and crops. */
weft_status recipe_apply(const image_recipe *recipe, image *im, int64_t channels, host *h,
                         weft_error *err);

/* Rows of patches, from left to right and from top to bottom: row [channels, patch, patch], the
 * layout of a convolution's weights. Partial patches at the right and bottom are dropped, as in the
 * convolution. [(height / patch) (width / patch), C P P] */
void recipe_patches(const image_recipe *recipe, const image *im, int64_t patch, real *to);

#endif
