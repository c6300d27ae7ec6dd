/* image_recipe.c - reads preprocessor_config.json, which defines how images are resized, cropped
 * and normalised for a model; applies it, and cuts patches. Every value is checked, because the
 * file is not trusted. */
#include "formats/container.h"
#include "formats/image.h"

#include <stdio.h>
#include <string.h>

#define MAX_NUMBER 1e6 /* limit of the scale and the mean of pixels */

/* Errors stick, so that fields can be read one after the other. */
typedef struct parse {
    const container *c;
    weft_status status;
    weft_error *err;
} parse;

static void recipe_wrong(parse *p, weft_status code, const char *key, const char *what)
{
    if (p->status == WEFT_OK)
        p->status = weft_fail(p->err, code, "%s: %s %s", p->c->path, key, what);
}

static bool read_flag(parse *p, const char *key, bool otherwise)
{
    const meta *m = container_meta(p->c, key);
    if (m && m->type != META_BOOL)
        recipe_wrong(p, WEFT_EFORMAT, key, "is not true or false");
    return m && m->type == META_BOOL ? m->flag : otherwise;
}

static double read_recipe_number(parse *p, const char *key, double otherwise)
{
    const meta *m = container_meta(p->c, key);
    if (!m)
        return otherwise;
    if ((m->type != META_INT && m->type != META_REAL) || !(fabs(m->number) <= MAX_NUMBER))
        recipe_wrong(p, WEFT_EFORMAT, key, "is not a number between -1e6 and 1e6");
    return m->number;
}

static int64_t read_side(parse *p, const char *key, int64_t otherwise)
{
    const double side = read_recipe_number(p, key, (double)otherwise);
    if (side >= 1 && side <= IMAGE_MAX_SIDE && side == floor(side))
        return (int64_t)side;
    recipe_wrong(p, WEFT_EFORMAT, key, "is not a number of pixels");
    return 1;
}

/* "size": 224, or {"height": 224, "width": 224}. */
static void read_size(parse *p, const char *key, int64_t *height, int64_t *width, int64_t otherwise)
{
    char name[32];
    if (container_meta(p->c, key)) {
        *height = *width = read_side(p, key, otherwise);
        return;
    }
    static const char *const others[] = { "shortest_edge", "longest_edge", "max_height" };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        snprintf(name, sizeof name, "%s.%s", key, others[i]);
        if (container_meta(p->c, name))
            recipe_wrong(p, WEFT_EUNSUPPORTED, name, "is not supported; expected height and width");
    }
    snprintf(name, sizeof name, "%s.height", key);
    *height = read_side(p, name, otherwise);
    snprintf(name, sizeof name, "%s.width", key);
    *width = read_side(p, name, otherwise);
}

/* One number for all channels, or a list with one for each. */
static void read_channels(parse *p, const char *key, int64_t channels, double *to)
{
    char name[32];
    int64_t n = 0;
    for (; n < 4; n++) {
        snprintf(name, sizeof name, "%s.%d", key, (int)n);
        if (!container_meta(p->c, name))
            break;
        if (n < 3)
            to[n] = read_recipe_number(p, name, 0);
    }
    if (n > 0 && n != channels)
        recipe_wrong(p, WEFT_EFORMAT, key, "does not have one number per channel of the model");
    for (int64_t c = 0; n == 0 && c < channels; c++)
        to[c] = read_recipe_number(p, key, 0.5);
}

/* The processor's class decides the defaults. */
static bool is_deit(parse *p)
{
    const meta *kind = container_meta(p->c, "image_processor_type");
    if (!kind)
        kind = container_meta(p->c, "feature_extractor_type");
    if (kind && kind->type == META_TEXT && strncmp(kind->text, "DeiT", 4) == 0)
        return true;
    if (!kind || kind->type != META_TEXT || strncmp(kind->text, "ViT", 3) != 0)
        recipe_wrong(p, WEFT_EUNSUPPORTED, "image_processor_type", "is not that of ViT or DeiT");
    return false;
}

static void read_recipe_fields(parse *p, image_recipe *to, int64_t channels, bool deit)
{
    to->resize = read_flag(p, "do_resize", true);
    to->crop = read_flag(p, "do_center_crop", deit);
    to->rescale = read_flag(p, "do_rescale", true);
    to->normalize = read_flag(p, "do_normalize", true);
    if (read_flag(p, "do_pad", false))
        recipe_wrong(p, WEFT_EUNSUPPORTED, "do_pad", "is not known");
    read_size(p, "size", &to->height, &to->width, deit ? 256 : 224);
    read_size(p, "crop_size", &to->crop_height, &to->crop_width, 224);
    const double filter = read_recipe_number(p, "resample",
                                             deit ? FILTER_BICUBIC : FILTER_BILINEAR);
    if (filter != FILTER_LANCZOS && filter != FILTER_BILINEAR && filter != FILTER_BICUBIC)
        recipe_wrong(p, WEFT_EUNSUPPORTED, "resample",
                     "is not 1 (Lanczos), 2 (bilinear) or 3 (bicubic)");
    else
        to->filter = (image_filter)filter;
    to->factor = read_recipe_number(p, "rescale_factor", 1 / 255.0);
    read_channels(p, "image_mean", channels, to->mean);
    read_channels(p, "image_std", channels, to->std);
    for (int64_t c = 0; c < channels; c++)
        if (!(to->std[c] >= 1 / MAX_NUMBER))
            recipe_wrong(p, WEFT_EFORMAT, "image_std", "is not 1e-6 or more");
}

weft_status recipe_read(image_recipe *to, const container *c, int64_t channels, weft_error *err)
{
    parse p = { .c = c, .err = err };
    *to = (image_recipe){ 0 };
    read_recipe_fields(&p, to, channels, is_deit(&p));
    return p.status;
}

weft_status recipe_read_config(image_recipe *to, const container *c, int64_t channels,
                               int64_t height, int64_t width, weft_error *err)
{
    parse p = { .c = c, .err = err };
    *to = (image_recipe){ 0 };
    read_recipe_fields(&p, to, channels, false);
    to->height = height;
    to->width = width;
    return p.status;
}

/* Converts colour to grey first and grey to colour last, when there are fewer pixels: three equal
 * channels would be resized to equal bytes anyway. */
weft_status recipe_apply(const image_recipe *recipe, image *im, int64_t channels, host *h,
                         weft_error *err)
{
    weft_status status = channels == 1 ? image_to_channels(im, 1, h, err) : WEFT_OK;
    if (status == WEFT_OK && recipe->resize)
        status = image_resize(im, recipe->height, recipe->width, recipe->filter, h, err);
    if (status == WEFT_OK && recipe->crop)
        status = image_crop(im, recipe->crop_height, recipe->crop_width, h, err);
    return status == WEFT_OK ? image_to_channels(im, channels, h, err) : status;
}

/* Tabulates the value of each byte with numpy's rounding: a product in double, then float. */
static void tabulate(const image_recipe *recipe, int64_t c, float *to)
{
    for (int i = 0; i < 256; i++) {
        to[i] = (float)(recipe->rescale ? i * recipe->factor : i); /* bounded: numbers */
        if (recipe->normalize)
            to[i] = (to[i] - (float)recipe->mean[c]) / (float)recipe->std[c];
    }
}

void recipe_patches(const image_recipe *recipe, const image *im, int64_t patch, real *to)
{
    const int64_t down = im->height / patch, across = im->width / patch, C = im->channels;
    const int64_t row = im->width * C; /* bounded: by image_take */
    float value[256];
    for (int64_t c = 0; c < C; c++) {
        tabulate(recipe, c, value);
        for (int64_t y = 0; y < down * patch; y++)                   /* bounded: the image */
            for (int64_t x = 0; x < across * patch; x++) {           /* bounded: likewise */
                const int64_t p = y / patch * across + x / patch;    /* bounded: likewise */
                const int64_t in = (y % patch) * patch + x % patch;  /* bounded: likewise */
                const int64_t at = (p * C + c) * patch * patch + in; /* bounded: likewise */
                to[at] = value[im->pixel[y * row + x * C + c]];      /* bounded: likewise */
            }
    }
}
