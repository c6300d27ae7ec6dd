/* page.c - the HTML around a document. */
#include "explain/page.h"
#include "explain/squeeze.h"

#include <stdio.h>
#include <string.h>

static void put_styles(buffer *b)
{
    for (const page_file *f = page_files; f->name; f++)
        if (strcmp(strrchr(f->name, '.'), ".css") == 0)
            buffer_put(b, f->bytes, f->n);
}

/* Is this text in the script? */
static bool has_text(const page_file *f, const char *text)
{
    const size_t n = strlen(text);
    for (size_t i = 0; i + n <= f->n; i++)
        if (f->bytes[i] == (unsigned char)*text && memcmp(f->bytes + i, text, n) == 0)
            return true;
    return false;
}

/* It is where `views.NAME = ` is, or `views["NAME"] = `. */
static bool draws(const page_file *f, const page_view *v)
{
    char plain[64], quoted[64];
    snprintf(plain, sizeof plain, "\nviews.%s = ", v->name);
    snprintf(quoted, sizeof quoted, "\nviews[\"%s\"] = ", v->name);
    return has_text(f, plain) || has_text(f, quoted);
}

/* Without a subject, a page is about points. */
static bool is_needed(const page_file *f, const subject *s, const char *only)
{
    if (!s)
        return strstr(f->name, "-core.") || strstr(f->name, "-kernels.") ||
               strstr(f->name, "-begin.");
    if (strcmp(f->name, "60") < 0 || strcmp(f->name, "90") >= 0)
        return true;
    for (int i = 0; i < n_view; i++) {
        const page_view *v = &views[i];
        const bool shown = view_named(only, only ? strlen(only) : 0, v);
        if (shown && draws(f, v) && !(v->why_not && v->why_not(s)))
            return true;
    }
    return false;
}

void page_scripts(const subject *s, const char *only, buffer *b)
{
    for (const page_file *f = page_files; f->name; f++)
        if (strcmp(strrchr(f->name, '.'), ".js") == 0 && is_needed(f, s, only))
            squeeze_script(b, (const char *)f->bytes, f->n);
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

void page_begin(const char *title, document *d)
{
    buffer *b = d->b;
    buffer_text(b, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                   "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
                   "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                   "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n<title>");
    put_title(b, title);
    buffer_text(b, "</title>\n<style>\n");
    put_styles(b);
    buffer_text(b, "</style></head><body>\n<noscript>This page draws its numbers with a script; "
                   "<code>weft explain --json</code> prints them.</noscript>\n"
                   "<script type=\"application/json\" id=\"weft\">");
}

void page_end(const subject *s, const char *only, document *d)
{
    buffer *b = d->b;
    buffer_text(b, "</script>\n<script>\n\"use strict\";\n(() => {\n");
    page_scripts(s, only, b);
    buffer_text(b, "})();\n</script>\n</body></html>\n");
}

void page_write(const subject *s, const char *only, document *d)
{
    page_begin(s->title, d);
    views_write(s, only, d);
    page_end(s, only, d);
}
