/* image_jpeg.c - JPEG through libjpeg, which allocates its own memory: its need follows from the
 * size, is charged to the cap in advance, and libjpeg is limited to that. */
#ifdef WEFT_JPEG

#include "base/checked.h"
#include "formats/image.h"

#include <setjmp.h>
#include <stdio.h> /* must come before jpeglib.h */

#include <jerror.h>
#include <jpeglib.h>

#define MAX_SCAN 100        /* of a progressive file; each costs a pass over the image */
#define TABLES   (1u << 20) /* bytes that decoding needs for any size */

typedef struct reading {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    jmp_buf back;
    host *host;
    image *to;
    const char *path;
    uint64_t charged;
    weft_status status; /* of the first error */
    weft_error *err;
} reading;

static _Noreturn void leave(reading *r, weft_status code, const char *why)
{
    r->status = weft_fail(r->err, code, "%s: %s", r->path, why);
    longjmp(r->back, 1);
}

static _Noreturn void jpeg_on_error(j_common_ptr jpeg)
{
    char why[JMSG_LENGTH_MAX];
    jpeg->err->format_message(jpeg, why);
    leave(jpeg->client_data, jpeg->err->msg_code == JERR_OUT_OF_MEMORY ? WEFT_ENOMEM : WEFT_EFORMAT,
          why);
}

/* A warning is damage that libjpeg would hide, except if nothing is lost. */
static void on_message(j_common_ptr jpeg, int level)
{
    const int code = jpeg->err->msg_code;
    if (level < 0 && code != JWRN_EXTRANEOUS_DATA && code != JWRN_ADOBE_XFORM &&
        code != JWRN_JFIF_MAJOR)
        jpeg_on_error(jpeg);
}

static void on_progress(j_common_ptr jpeg)
{
    reading *r = jpeg->client_data;
    if (r->jpeg.input_scan_number > MAX_SCAN)
        leave(r, WEFT_EUNSUPPORTED, "a JPEG of more than 100 scans");
}

/* The whole file is in memory from the start. */
static void begin_source(j_decompress_ptr jpeg)
{
    (void)jpeg;
}

static boolean no_more(j_decompress_ptr jpeg)
{
    leave(jpeg->client_data, WEFT_EFORMAT, "broken JPEG: it ends too early");
}

static void skip(j_decompress_ptr jpeg, long n)
{
    struct jpeg_source_mgr *s = jpeg->src;
    if (n <= 0)
        return;
    if ((size_t)n > s->bytes_in_buffer)
        no_more(jpeg);
    s->next_input_byte += n; /* bounded: by what is left */
    s->bytes_in_buffer -= (size_t)n;
}

/* Charges the rows of blocks during upsampling, plus the coefficients of all blocks if there are
 * several scans. A block is 8 x 8, and a component has up to 4 x 4 of them in a unit. */
static void charge(reading *r)
{
    const uint64_t width = r->jpeg.image_width + 64u;              /* bounded: JPEG has 16 bits */
    const uint64_t height = r->jpeg.image_height + 64u;            /* bounded: likewise */
    const uint64_t row = width * (uint64_t)r->jpeg.num_components; /* bounded: 10 components */
    uint64_t bytes = TABLES + 256 * row;                           /* bounded: likewise */
    if (jpeg_has_multiple_scans(&r->jpeg))
        bytes += 2 * row * height;             /* bounded: less than 2^40 */
    const uint64_t all = bytes + row * height; /* bounded: likewise */
    if (all > IMAGE_MAX_BYTES) {
        r->status = weft_fail(
            r->err, WEFT_EUNSUPPORTED,
            "%s: a JPEG of %u x %u pixels that needs %llu bytes to decode; the limit is %llu",
            r->path, r->jpeg.image_width, r->jpeg.image_height, (unsigned long long)all,
            (unsigned long long)IMAGE_MAX_BYTES);
        longjmp(r->back, 1);
    }
    if (!mem_charge(&r->host->mem, bytes)) {
        r->status = weft_fail(r->err, WEFT_ELIMIT,
                              "%s: decoding needs %llu bytes, more than the memory limit", r->path,
                              (unsigned long long)bytes);
        longjmp(r->back, 1);
    }
    r->charged = bytes;
    r->jpeg.mem->max_memory_to_use = (long)bytes;
}

/* Leaves by longjmp on any error. */
static void jpeg_decode_rows(reading *r)
{
    struct jpeg_decompress_struct *jpeg = &r->jpeg;
    jpeg_create_decompress(jpeg);
    jpeg->client_data = r;
    jpeg->src = &r->source;
    jpeg->progress = &r->progress;
    jpeg_read_header(jpeg, TRUE);
    const J_COLOR_SPACE in = jpeg->jpeg_color_space;
    if (in != JCS_GRAYSCALE && in != JCS_YCbCr && in != JCS_RGB)
        leave(r, WEFT_EUNSUPPORTED, "a JPEG in CMYK or an unknown colour space");
    jpeg->out_color_space = in == JCS_GRAYSCALE ? JCS_GRAYSCALE : JCS_RGB;
    charge(r);
    r->status = image_take(r->to, jpeg->image_height, jpeg->image_width,
                           in == JCS_GRAYSCALE ? 1 : 3, r->path, r->host, r->err);
    if (r->status != WEFT_OK)
        longjmp(r->back, 1);

    jpeg_start_decompress(jpeg);
    const size_t bytes = (size_t)(r->to->width * r->to->channels); /* bounded: by image_take */
    while (jpeg->output_scanline < jpeg->output_height) {
        JSAMPROW row = &r->to->pixel[jpeg->output_scanline * bytes]; /* bounded: inside */
        jpeg_read_scanlines(jpeg, &row, 1);
    }
    jpeg_finish_decompress(jpeg);
}

/* State that changes before a longjmp must not be local to this function. */
static void jpeg_attempt(reading *r)
{
    if (setjmp(r->back) == 0)
        jpeg_decode_rows(r);
}

weft_status jpeg_decode(image *im, const uint8_t *data, uint64_t size, const char *path, host *h,
                        weft_error *err)
{
    reading r = { .host = h, .to = im, .path = path, .err = err };
    r.source = (struct jpeg_source_mgr){ .next_input_byte = data,
                                         .bytes_in_buffer = (size_t)size,
                                         .init_source = begin_source,
                                         .fill_input_buffer = no_more,
                                         .skip_input_data = skip,
                                         .resync_to_restart = jpeg_resync_to_restart,
                                         .term_source = begin_source };
    r.progress.progress_monitor = on_progress;
    r.jpeg.err = jpeg_std_error(&r.errors);
    r.jpeg.client_data = &r;
    r.errors.error_exit = jpeg_on_error;
    r.errors.emit_message = on_message;
    jpeg_attempt(&r);
    jpeg_destroy_decompress(&r.jpeg);
    mem_uncharge(&h->mem, (size_t)r.charged);
    return r.status;
}

#endif
