/* image_cost.h - how long an image takes to decode, from its file, before anything is decoded.
 *
 *     PNG     89 'P' 'N' 'G' ... IHDR, whose width and height are at 16 and 20
 *     JPEG    FF D8, then FF marker length(2) segment; a frame (SOF) has height and width at 5 and 7
 *             of its marker, a scan (SOS) ends with data in which FF is followed by 0 */
#ifndef WEFT_SERVER_IMAGE_COST_H
#define WEFT_SERVER_IMAGE_COST_H

#include <stddef.h>
#include <stdint.h>

/* In pixels; a scan of a JPEG after its first counts as an eighth of its pixels. At least those of the image that
 * is decoded. 0: the file is neither PNG nor JPEG, which the decoder reports. */
uint64_t image_cost(const unsigned char *p, size_t n);

#endif
