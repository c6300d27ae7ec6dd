/* image_png.c - PNG through libpng, with its memory counted like ours and its errors returned. */
#ifdef WEFT_PNG

#include "base/checked.h"
#include "formats/image.h"

#include <png.h>
#include <string.h>

#define MAX_CHUNK (1u << 20) /* bytes that a text or a colour profile may decompress to */

typedef struct reading {
    const uint8_t *data;
    uint64_t size, at;
    host *host;
    image *to;
    png_infop info;
    const char *path;
    weft_status status; /* of the first error */
    weft_error *err;
} reading;

static void *png_alloc(png_structp png, png_alloc_size_t size)
{
    reading *r = png_get_mem_ptr(png);
    weft_error why = { 0 };
    void *block = mem_alloc(&r->host->mem, size, r->path, &why);
    if (!block)
        r->status = weft_fail(r->err, why.code, "%s", why.message);
    return block;
}

static void png_release(png_structp png, void *block)
{
    reading *r = png_get_mem_ptr(png);
    mem_free(&r->host->mem, block);
}

static _Noreturn void png_on_error(png_structp png, const char *message)
{
    reading *r = png_get_error_ptr(png);
    if (r->status == WEFT_OK)
        r->status = weft_fail(r->err, WEFT_EFORMAT, "%s: broken PNG: %s", r->path, message);
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, const char *message)
{
    (void)png;
    (void)message; /* about data that no pixel depends on */
}

static void next_bytes(png_structp png, png_bytep to, size_t n)
{
    reading *r = png_get_io_ptr(png);
    if (!checked_range(r->at, n, r->size))
        png_error(png, "it ends too early");
    memcpy(to, &r->data[r->at], n);
    r->at += n; /* bounded: inside the file */
}

/* Requests rows of eight bits, grey or RGB, whatever the file has. */
static void ask_for_bytes(png_structp png)
{
    png_set_palette_to_rgb(png);
    png_set_expand_gray_1_2_4_to_8(png);
    png_set_strip_16(png);
    png_set_strip_alpha(png);
}

/* Leaves by longjmp on any error. */
static void png_decode_rows(png_structp png, reading *r)
{
    png_set_read_fn(png, r, next_bytes);
    png_set_chunk_malloc_max(png, MAX_CHUNK);
    png_set_crc_action(png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
    png_set_user_limits(png, IMAGE_MAX_SIDE, IMAGE_MAX_SIDE);
    png_read_info(png, r->info);
    ask_for_bytes(png);
    const int passes = png_set_interlace_handling(png);
    const uint8_t channels = png_get_color_type(png, r->info) & PNG_COLOR_MASK_COLOR ? 3 : 1;
    if (r->status == WEFT_OK)
        r->status = image_take(r->to, png_get_image_height(png, r->info),
                               png_get_image_width(png, r->info), channels, r->path, r->host,
                               r->err);
    if (r->status != WEFT_OK)
        png_longjmp(png, 1);

    png_read_update_info(png, r->info);
    const size_t bytes = png_get_rowbytes(png, r->info);
    if (bytes != (size_t)(r->to->width * channels)) /* bounded: by image_take */
        png_error(png, "row length does not match the width");
    for (int pass = 0; pass < passes; pass++)
        for (size_t y = 0; y < (size_t)r->to->height; y++)
            png_read_row(png, &r->to->pixel[y * bytes], NULL); /* bounded: inside the image */
    png_read_end(png, NULL);
}

/* State that changes before a longjmp must not be local to this function. */
static void png_attempt(png_structp png, reading *r)
{
    if (setjmp(png_jmpbuf(png)) == 0)
        png_decode_rows(png, r);
}

weft_status png_decode(image *im, const uint8_t *data, uint64_t size, const char *path, host *h,
                       weft_error *err)
{
    reading r = { data, size, 0, h, im, NULL, path, WEFT_OK, err };
    png_structp png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &r, png_on_error, on_warning,
                                               &r, png_alloc, png_release);
    r.info = png ? png_create_info_struct(png) : NULL;
    if (!r.info)
        r.status = r.status != WEFT_OK
                       ? r.status
                       : weft_fail(err, WEFT_ESYSTEM, "%s: libpng cannot start", path);
    else
        png_attempt(png, &r);
    if (png)
        png_destroy_read_struct(&png, &r.info, NULL);
    return r.status;
}

#endif
