/* image_cost.c - see image_cost.h. */
#include "image_cost.h"

#include <stdbool.h>
#include <string.h>

#define SCAN_SHARE 8 /* a scan after the first takes at most this part of decoding the pixels */

static uint64_t number_at(const unsigned char *p, int n)
{
    uint64_t x = 0;
    for (int i = 0; i < n; i++)
        x = x << 8 | p[i];
    return x;
}

static bool is_frame(int marker)
{
    return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}

/* Goes from marker to marker, FF and a byte that is neither 0 nor FF, as decoders do. */
static uint64_t cost_of_jpeg(const unsigned char *p, size_t n)
{
    uint64_t pixels = 0, n_scan = 0;
    for (size_t at = 2; at + 8 < n;) {
        const int marker = p[at] == 0xff ? p[at + 1] : 0;
        at += marker == 0 || marker == 0xff ? 1 : 2;
        if (marker == 0xd9) /* the end */
            break;
        if (marker <= 1 || marker == 0xff || (marker >= 0xd0 && marker <= 0xd8))
            continue; /* without a length */
        n_scan += marker == 0xda;
        if (is_frame(marker)) {
            const uint64_t found = number_at(p + at + 3, 2) * number_at(p + at + 5, 2);
            pixels = found > pixels ? found : pixels;
        }
        at += number_at(p + at, 2);
    }
    return pixels + (n_scan > 1 ? n_scan - 1 : 0) * (pixels / SCAN_SHARE);
}

uint64_t image_cost(const unsigned char *p, size_t n)
{
    if (n > 24 && memcmp(p, "\x89PNG", 4) == 0)
        return number_at(p + 16, 4) * number_at(p + 20, 4);
    return n > 2 && p[0] == 0xff && p[1] == 0xd8 ? cost_of_jpeg(p, n) : 0;
}
