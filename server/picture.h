/* picture.h - images in requests: PNG or JPEG as data URLs, "data:image/png;base64,iVBORw0...". */
#ifndef WEFT_SERVER_PICTURE_H
#define WEFT_SERVER_PICTURE_H

#include "refusal.h"
#include "request.h"

#define MAX_IMAGE 64           /* of one request */
#define MAX_PIXEL (1ull << 26) /* of all its images; one or two seconds */

/* Of one request. */
typedef struct picture_reader {
    weft_model *model;
    store *store;     /* where the bytes of the files are */
    uint64_t n_pixel; /* so far; further scans of a JPEG count, too */
} picture_reader;

/* Image i of the request, preprocessed for the model. NULL with why filled. */
weft_image *picture_read(picture_reader *r, const input *in, int64_t i, refusal *why);

#endif
