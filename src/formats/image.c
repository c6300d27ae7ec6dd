/* image.c - opens an image: its first bytes choose the decoder. */
#include "formats/image.h"

#include <string.h>
#include <strings.h>

#ifndef WEFT_PNG
#define png_decode NULL
#endif
#ifndef WEFT_JPEG
#define jpeg_decode NULL
#endif

typedef struct kind {
    const char *name, *library;
    uint8_t magic[8];
    size_t n_magic;
    image_decoder *decode; /* NULL: not in this build */
} kind;

static const kind kinds[] = {
    { "PNG", "libpng", { 0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n' }, 8, png_decode },
    { "JPEG", "libjpeg", { 0xFF, 0xD8, 0xFF }, 3, jpeg_decode },
};
#define N_KIND (sizeof kinds / sizeof *kinds)

bool image_is_name(const char *name)
{
    static const char *const ends[] = { ".png", ".jpg", ".jpeg" };
    const size_t n = strlen(name);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const size_t m = strlen(ends[i]);
        if (n > m && strcasecmp(&name[n - m], ends[i]) == 0)
            return true;
    }
    return false;
}

weft_status image_parse(image *im, const uint8_t *data, uint64_t size, const char *path, host *h,
                        weft_error *err)
{
    *im = (image){ 0 };
    for (const kind *k = kinds; k < &kinds[N_KIND]; k++) {
        if (size < k->n_magic || memcmp(data, k->magic, k->n_magic) != 0)
            continue;
        if (!k->decode)
            return weft_fail(err, WEFT_EUNSUPPORTED, "%s: a %s, but weft was built without %s",
                             path, k->name, k->library);
        const weft_status status = k->decode(im, data, size, path, h, err);
        if (status != WEFT_OK)
            image_free(im, h);
        return status;
    }
    return weft_fail(err, WEFT_EFORMAT, "%s: neither PNG nor JPEG", path);
}

weft_status image_open(image *im, const char *path, host *h, weft_error *err)
{
    file f;
    *im = (image){ 0 };
    weft_status status = file_open(&f, path, WEFT_LOAD_COPY, h, err);
    if (status != WEFT_OK)
        return status;
    status = image_parse(im, f.data, f.size, path, h, err);
    file_close(&f, h);
    return status;
}
