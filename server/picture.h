/* picture.h - images in requests: PNG or JPEG as data URLs, "data:image/png;base64,iVBORw0...". */
#ifndef WEFT_SERVER_PICTURE_H
#define WEFT_SERVER_PICTURE_H

#include "refusal.h"
#include "request.h"

#define MAX_IMAGE 64           /* of one request */
#define MAX_PIXEL (1ull << 26) /* of all its images; one or two seconds */

/* A file that has not been decoded. */
typedef struct picture {
    const unsigned char *bytes; /* NULL: none */
    size_t n;
} picture;

/* Reads the files of one request, which takes milliseconds. */
typedef struct picture_reader {
    store *store;     /* where their bytes are */
    uint64_t n_pixel; /* so far; further scans of a JPEG count, too */
} picture_reader;

/* The file of image i. False with why filled. */
bool picture_read(picture_reader *r, const input *in, int64_t i, picture *to, refusal *why);

/* Image i, preprocessed for the model, which takes up to seconds. NULL with why filled. */
weft_image *picture_decode(const picture *p, int64_t i, weft_model *model, refusal *why);

#endif
