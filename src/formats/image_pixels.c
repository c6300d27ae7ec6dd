/* image_pixels.c - the pixels of an image: allocation, colour conversion, cropping. */
#include "formats/image.h"

#include <string.h>

void image_free(image *im, host *h)
{
    mem_free(&h->mem, im->pixel);
    *im = (image){ 0 };
}

weft_status image_take(image *im, uint64_t height, uint64_t width, uint64_t channels,
                       const char *path, host *h, weft_error *err)
{
    if (height == 0 || width == 0 || height > IMAGE_MAX_SIDE || width > IMAGE_MAX_SIDE ||
        height > IMAGE_MAX_PIXEL / width)
        return weft_fail(err, WEFT_EUNSUPPORTED,
                         "%s: %llu x %llu pixels; expected sides up to %d and at most %llu pixels",
                         path, (unsigned long long)width, (unsigned long long)height,
                         IMAGE_MAX_SIDE, (unsigned long long)IMAGE_MAX_PIXEL);
    const uint64_t bytes = height * width * channels; /* bounded: 3 x 2^26 */
    weft_error why = { 0 };
    *im = (image){ (int64_t)height, (int64_t)width, (int64_t)channels, NULL };
    im->pixel = mem_alloc(&h->mem, (size_t)bytes, path, &why);
    return im->pixel ? WEFT_OK : weft_fail(err, why.code, "%s", why.message);
}

/* Replaces the old image by the new one. */
static weft_status replace(image *im, image *by, weft_status status, host *h)
{
    if (status != WEFT_OK)
        return status;
    image_free(im, h);
    *im = *by;
    return WEFT_OK;
}

/* Luma of ITU-R 601-2 in 16 bits, rounded. */
static uint8_t grey(const uint8_t *rgb)
{
    const uint32_t red = rgb[0] * 19595u, green = rgb[1] * 38470u; /* bounded: 24 bits */
    const uint32_t blue = rgb[2] * 7471u;                          /* bounded: 24 bits */
    return (uint8_t)((red + green + blue + 0x8000u) >> 16);        /* bounded: weights are 2^16 */
}

weft_status image_to_channels(image *im, int64_t channels, host *h, weft_error *err)
{
    image to;
    if (im->channels == channels)
        return WEFT_OK;
    const weft_status status = image_take(&to, (uint64_t)im->height, (uint64_t)im->width,
                                          (uint64_t)channels, "an image converted to other colours",
                                          h, err);
    const int64_t n = im->height * im->width; /* bounded: by image_take */
    for (int64_t i = 0; i < n && status == WEFT_OK; i++)
        if (channels == 1)
            to.pixel[i] = grey(&im->pixel[3 * i]); /* bounded: inside the image */
        else
            memset(&to.pixel[3 * i], im->pixel[i], 3); /* bounded: likewise */
    return replace(im, &to, status, h);
}

weft_status image_crop(image *im, int64_t height, int64_t width, host *h, weft_error *err)
{
    image to;
    if (height == im->height && width == im->width)
        return WEFT_OK;
    if (height > im->height || width > im->width)
        return weft_fail(
            err, WEFT_EUNSUPPORTED, "a crop of %lld x %lld pixels from an image of %lld x %lld",
            (long long)width, (long long)height, (long long)im->width, (long long)im->height);
    const weft_status status = image_take(&to, (uint64_t)height, (uint64_t)width,
                                          (uint64_t)im->channels, "a crop of an image", h, err);
    const int64_t top = (im->height - height) / 2, left = (im->width - width) / 2;
    const size_t bytes = (size_t)(width * im->channels); /* bounded: a row of an image */
    for (int64_t y = 0; y < height && status == WEFT_OK; y++) {
        const int64_t from = ((top + y) * im->width + left) * im->channels;   /* bounded: inside */
        memcpy(&to.pixel[y * width * im->channels], &im->pixel[from], bytes); /* bounded: inside */
    }
    return replace(im, &to, status, h);
}
