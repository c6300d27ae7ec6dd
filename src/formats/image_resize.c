/* image_resize.c - PIL's resize of byte images, bit for bit.
 *
 * First along rows, then along columns. A new pixel is a weighted sum of the old ones around it:
 * the filter, stretched to the width of a new pixel if the image shrinks. Weights are integers of
 * 22 bits that sum to one, and each of the two sums is rounded to a byte.
 *
 * Pillow 13 begins with columns if that is less work, and differs by one in some bytes of images
 * that become much flatter and wider. Models were trained with rows first. */
#include "formats/image.h"

#include <string.h>

/* The other 10 of 32 bits: 8 for the pixel, one for the sign, one for filters that overshoot. */
#define BITS 22

static double bilinear(double x)
{
    x = fabs(x);
    return x < 1 ? 1 - x : 0;
}

static double bicubic(double x)
{
    const double a = -0.5;
    x = fabs(x);
    if (x < 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;     /* bounded: x < 2, of a filter */
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0; /* bounded: likewise */
}

static double sinc(double x)
{
    x *= 3.14159265358979323846; /* bounded: x < 3, of a filter */
    return x == 0 ? 1 : sin(x) / x;
}

static double lanczos(double x)
{
    return x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0; /* bounded: at most 1 */
}

static const struct {
    double (*at)(double x);
    double reach;
} filters[] = {
    [FILTER_LANCZOS] = { lanczos, 3 },
    [FILTER_BILINEAR] = { bilinear, 1 },
    [FILTER_BICUBIC] = { bicubic, 2 },
};

/* For every new pixel of a line: the old pixels it depends on, and their weights. */
typedef struct taps {
    int64_t most;
    int64_t *first, *n; /* [size] */
    int32_t *weight;    /* [size, most] */
} taps;

static void taps_free(taps *t, host *h)
{
    mem_free(&h->mem, t->first);
    mem_free(&h->mem, t->n);
    mem_free(&h->mem, t->weight);
}

/* Weights of one new pixel around `centre`. */
static void resize_weights(taps *t, int64_t i, double centre, double stretch, int64_t from,
                           image_filter f)
{
    const double reach = filters[f].reach * stretch; /* bounded: 3 times a side */
    const double low = centre - reach + 0.5, high = centre + reach + 0.5; /* bounded: likewise */
    const int64_t first = low < 0 ? 0 : (int64_t)low;
    const int64_t end = high > (double)from ? from : (int64_t)high;
    int32_t *weight = &t->weight[i * t->most]; /* bounded: allocated so */
    double sum = 0;
    t->first[i] = first;
    t->n[i] = end - first;
    for (int64_t j = first; j < end; j++)
        sum += filters[f].at(((double)j - centre + 0.5) * (1 / stretch)); /* bounded: weights */
    for (int64_t j = first; j < end; j++) {
        double w = filters[f].at(((double)j - centre + 0.5) * (1 / stretch)); /* bounded: weights */
        if (sum != 0)
            w /= sum;
        w *= 1 << BITS;                                           /* bounded: |w| < 2 */
        weight[j - first] = (int32_t)(w < 0 ? w - 0.5 : w + 0.5); /* bounded: likewise */
    }
}

static weft_status taps_make(taps *t, int64_t from, int64_t to, image_filter f, host *h,
                             weft_error *err)
{
    static const char what[] = "weights of pixels";
    const double scale = (double)from / (double)to, stretch = scale < 1 ? 1 : scale;
    *t = (taps){ .most = (int64_t)ceil(filters[f].reach * stretch) * 2 + 1 }; /* bounded: 6 sides */
    const size_t n = (size_t)to, n_weight = n * (size_t)t->most; /* bounded: 6 sides squared */
    t->first = mem_zalloc(&h->mem, n, sizeof *t->first, what, err);
    t->n = t->first ? mem_zalloc(&h->mem, n, sizeof *t->n, what, err) : NULL;
    t->weight = t->n ? mem_zalloc(&h->mem, n_weight, sizeof *t->weight, what, err) : NULL;
    if (!t->weight)
        return WEFT_ENOMEM;
    for (int64_t i = 0; i < to; i++)
        resize_weights(t, i, ((double)i + 0.5) * scale, stretch, from, f); /* bounded: a side */
    return WEFT_OK;
}

/* One new byte from old bytes that are `step` apart. */
static uint8_t mix(const uint8_t *from, int64_t step, const int32_t *weight, int64_t n)
{
    int32_t sum = 1 << (BITS - 1);
    for (int64_t j = 0; j < n; j++)
        sum += from[j * step] * weight[j]; /* bounded: weights sum to 2^22 */
    sum >>= BITS;
    return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

static void rows_pass(const image *from, image *to, const taps *t)
{
    const int64_t C = from->channels;
    for (int64_t y = 0; y < to->height; y++) {
        const uint8_t *in = &from->pixel[y * from->width * C]; /* bounded: inside */
        uint8_t *out = &to->pixel[y * to->width * C];          /* bounded: inside */
        for (int64_t x = 0; x < to->width; x++) {
            const int32_t *weight = &t->weight[x * t->most]; /* bounded: allocated so */
            for (int64_t c = 0; c < C; c++, out++)
                *out = mix(&in[t->first[x] * C + c], C, weight, t->n[x]); /* bounded: inside */
        }
    }
}

static void columns_pass(const image *from, image *to, const taps *t)
{
    const int64_t row = from->width * from->channels; /* bounded: by image_take */
    for (int64_t y = 0; y < to->height; y++) {
        const uint8_t *in = &from->pixel[t->first[y] * row]; /* bounded: inside */
        uint8_t *out = &to->pixel[y * row];                  /* bounded: inside */
        for (int64_t i = 0; i < row; i++)
            out[i] = mix(&in[i], row, &t->weight[y * t->most], t->n[y]); /* bounded: inside */
    }
}

typedef void pass_fn(const image *from, image *to, const taps *t);

static weft_status resize_pass(image *im, int64_t height, int64_t width, pass_fn *fn,
                               image_filter f, host *h, weft_error *err)
{
    taps t;
    image to = { 0 };
    const bool rows = fn == rows_pass;
    weft_status status = taps_make(&t, rows ? im->width : im->height, rows ? width : height, f, h,
                                   err);
    if (status == WEFT_OK)
        status = image_take(&to, (uint64_t)height, (uint64_t)width, (uint64_t)im->channels,
                            "a resized image", h, err);
    if (status == WEFT_OK) {
        fn(im, &to, &t);
        image_free(im, h);
        *im = to;
    }
    taps_free(&t, h);
    return status;
}

weft_status image_resize(image *im, int64_t height, int64_t width, image_filter filter, host *h,
                         weft_error *err)
{
    weft_status status = WEFT_OK;
    if (width != im->width)
        status = resize_pass(im, im->height, width, rows_pass, filter, h, err);
    if (status == WEFT_OK && height != im->height)
        status = resize_pass(im, height, width, columns_pass, filter, h, err);
    return status;
}
