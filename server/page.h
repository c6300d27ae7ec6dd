/* page.h - the page at /: page.html, which cmake/page.cmake puts into the program. */
#ifndef WEFT_SERVER_PAGE_H
#define WEFT_SERVER_PAGE_H

#include <stddef.h>

#define PAGE_TYPE "text/html; charset=utf-8"

extern const unsigned char page_html[];
extern const size_t page_size;

/* Its Content-Security-Policy: only its own script and style, by their hashes, and requests to its own server. */
extern const char page_policy[];

#endif
