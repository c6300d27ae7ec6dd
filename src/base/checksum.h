/* checksum.h - 64 bits that stand for bytes: whether a file is as it was written, whether a model is the
 * one it was. A change of any eight bytes that lie together at a multiple of eight always shows,
 * others all but always. No defence against those who mean it. */
#ifndef WEFT_BASE_CHECKSUM_H
#define WEFT_BASE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

#define LANES 4 /* words that are summed side by side: one alone waits for its products */

typedef struct checksum {
    uint64_t lane[LANES];
    uint64_t n; /* bytes so far */
    uint64_t rest[LANES];
} checksum;

void checksum_begin(checksum *s);

/* The same in one piece or in several. */
void checksum_add(checksum *s, const void *bytes, size_t n);
uint64_t checksum_end(const checksum *s);

#endif
