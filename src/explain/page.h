/* page.h - a document as one self-contained HTML file: nothing is fetched, by policy of the page
 * itself. The script and the style sheet are the files of page/. */
#ifndef WEFT_EXPLAIN_PAGE_H
#define WEFT_EXPLAIN_PAGE_H

#include "explain/views.h"

typedef struct page_file {
    const char *name;
    const unsigned char *bytes;
    size_t n;
} page_file;

/* Made from page/ by the build; they end with a NULL name. */
extern const page_file page_files[];

void page_write(const subject *s, const char *only, document *d);

#endif
