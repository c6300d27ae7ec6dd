/* page.c - the HTML around a document. */
#include "explain/page.h"

#include <string.h>

static void put_files(buffer *b, const char *suffix)
{
    for (const page_file *f = page_files; f->name; f++)
        if (strcmp(strrchr(f->name, '.'), suffix) == 0)
            buffer_put(b, f->bytes, f->n);
}

/* Text of the page; control characters have no business in a title. */
static void put_title(buffer *b, const char *text)
{
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c == '&' || c == '<' || c == '>' || c == '"')
            buffer_format(b, "&#%d;", c);
        else if (c >= 0x20 && c != 0x7F)
            buffer_put(b, &c, 1);
    }
}

void page_write(const subject *s, const char *only, document *d)
{
    buffer *b = d->b;
    buffer_text(b, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                   "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
                   "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                   "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n<title>");
    put_title(b, s->title);
    buffer_text(b, "</title>\n<style>\n");
    put_files(b, ".css");
    buffer_text(b, "</style></head><body>\n<noscript>This page draws its numbers with a script; "
                   "<code>weft explain --json</code> prints them.</noscript>\n"
                   "<script type=\"application/json\" id=\"weft\">");
    views_write(s, only, d);
    buffer_text(b, "</script>\n<script>\n\"use strict\";\n(() => {\n");
    put_files(b, ".js");
    buffer_text(b, "})();\n</script>\n</body></html>\n");
}
