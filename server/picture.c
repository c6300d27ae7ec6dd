/* picture.c - reads images of requests; see picture.h. No other URL is read: the server opens no connections. */
#include "picture.h"

#include "image_cost.h"

#include <string.h>

/* The six bits of a letter; -1: it is no letter of base64. */
static int bits_of(char letter)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = letter ? strchr(letters, letter) : NULL;
    return at ? (int)(at - letters) : -1;
}

/* The bytes that base64 stands for (RFC 4648, 4: padded, without line ends, and the bits that are left over are 0);
 * `to` has room for 3 bytes for each 4 letters. -1: it is not base64. */
static int64_t base64_decode(const char *text, size_t n, unsigned char *to)
{
    int64_t n_byte = 0;
    uint32_t bits = 0;
    int n_bit = 0;
    const size_t n_pad = n > 1 && text[n - 1] == '=' ? 1 + (text[n - 2] == '=') : 0;
    if (n % 4 != 0)
        return -1;
    for (size_t i = 0; i < n - n_pad; i++) {
        const int six = bits_of(text[i]);
        if (six < 0)
            return -1;
        bits = bits << 6 | (uint32_t)six;
        n_bit += 6;
        if (n_bit >= 8) {
            n_bit -= 8;
            to[n_byte++] = (unsigned char)(bits >> n_bit);
        }
    }
    return (bits & ((1u << n_bit) - 1)) == 0 ? n_byte : -1;
}

/* What follows the comma of "data:image/...;base64,"; NULL: it is another URL. */
static const char *data_of(const input *in)
{
    static const char *const heads[] = { "data:image/png;base64,", "data:image/jpeg;base64," };
    for (size_t k = 0; in->text && k < sizeof heads / sizeof *heads; k++) {
        const size_t n = strlen(heads[k]);
        if (in->length >= n && memcmp(in->text, heads[k], n) == 0)
            return in->text + n;
    }
    return NULL;
}

/* ---- images ---------------------------------------------------------------------------------- */

static bool check_cost(picture_reader *r, const unsigned char *file, size_t n, int64_t i,
                       refusal *why)
{
    const uint64_t cost = image_cost(file, n), left = MAX_PIXEL - r->n_pixel;
    if (cost > left)
        return refuse(why, 400, INVALID_REQUEST, "invalid_value", "input",
                      "input %lld: the images of a request have more than %llu pixels, a further "
                      "scan of a JPEG counted as an eighth; send smaller ones, or fewer",
                      (long long)i, MAX_PIXEL);
    r->n_pixel += cost;
    return true;
}

bool picture_read(picture_reader *r, const input *in, int64_t i, picture *to, refusal *why)
{
    const char *data = data_of(in);
    if (!data)
        return refuse(why, 400, INVALID_REQUEST, "invalid_value", "input",
                      "input %lld is not an image; expected a PNG or JPEG as "
                      "data:image/png;base64,... or data:image/jpeg;base64,...",
                      (long long)i);
    const size_t n = (size_t)(in->text + in->length - data);
    unsigned char *file = store_take(r->store, n / 4 + 1, 3);
    if (!file)
        return refuse(why, 503, "server_error", "no_memory", NULL, "no memory for the request");
    const int64_t size = base64_decode(data, n, file);
    if (size < 0)
        return refuse(why, 400, INVALID_REQUEST, "invalid_value", "input",
                      "input %lld is not base64", (long long)i);
    *to = (picture){ file, (size_t)size };
    return check_cost(r, file, (size_t)size, i, why);
}

weft_image *picture_decode(const picture *p, int64_t i, weft_model *model, refusal *why)
{
    weft_error err;
    weft_image *image = weft_image_decode(model, p->bytes, p->n, &err);
    const bool ours = err.code == WEFT_ENOMEM || err.code == WEFT_ELIMIT;
    if (!image)
        refuse(why, ours ? 503 : 400, ours ? "server_error" : INVALID_REQUEST,
               ours ? "no_memory" : NULL, ours ? NULL : "input", "input %lld: %s", (long long)i,
               err.message);
    return image;
}
