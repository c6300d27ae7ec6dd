/* sha256.h - for comparing long results with a published hash. */
#ifndef WEFT_TESTS_SHA256_H
#define WEFT_TESTS_SHA256_H

#include <stddef.h>

/* 64 hexadecimal digits and a NUL. */
void sha256_hex(const void *data, size_t n, char hex[65]);

#endif
