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

/* The scripts of a page, without what only their readers need. Those from 60 to 89 draw views, and no
 * other script uses them: a page has them if it shows one of these views. */
void page_scripts(const subject *s, const char *only, buffer *b);

/* What is before and after a document that has "model" with a title, "tokens" and "views". Without a
 * subject it is about points, and has the scripts for no other views. */
void page_begin(const char *title, document *d);
void page_end(const subject *s, const char *only, document *d);

void page_write(const subject *s, const char *only, document *d);

#endif
