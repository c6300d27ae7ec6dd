/* alignment.c - draws alignment.h's picture as SVG: a square per pair of tokens, its darkness the
 * probability. SVG because it scales, and needs no library. */
#include "explain/alignment.h"
#include "base/utf8.h"

#include <string.h>

#define CELL   24
#define LETTER 7.4  /* width of one, about */
#define MOST   16   /* letters of a token that are shown */
#define SLOPE  0.71 /* long names of columns are written at an angle of 45 degrees */

typedef char token_name[MOST * 4 + 1];

/* A token as letters, without blanks before it; a dot for what is no letter. */
static void name_token(const alignment_side *s, int64_t at, token_name name)
{
    static const char dot[] = "\xC2\xB7";
    char room[256];
    const char *from = room;
    size_t n = s->spell(s->speller, s->ids[at], room, sizeof room), to = 0;
    for (; n > 1 && *from == ' '; n--)
        from++;
    for (int i = 0; n > 0 && i < MOST; i++) {
        uint32_t point;
        const size_t one = utf8_decode(from, n, &point);
        const bool letter = one && (unsigned char)*from > ' ' && *from != 0x7F;
        const size_t width = letter ? one : sizeof dot - 1;
        memcpy(name + to, letter ? from : dot, width);
        to += width;
        from += one ? one : 1;
        n -= one ? one : 1;
    }
    name[to] = '\0';
}

static int letters_of(const char *name)
{
    int n = 0;
    for (; *name; name++)
        n += ((unsigned char)*name & 0xC0) != 0x80;
    return n;
}

static void put_escaped(buffer *b, const char *text)
{
    for (; *text; text++)
        if (*text == '<' || *text == '>' || *text == '&' || *text == '"')
            buffer_format(b, "&#%d;", *text);
        else
            buffer_put(b, text, 1);
}

static int longest(const alignment_side *s)
{
    int most = 1;
    for (int64_t i = 0; i < s->n; i++) {
        token_name name;
        name_token(s, i, name);
        const int letters = letters_of(name);
        most = letters > most ? letters : most;
    }
    return most;
}

static const char style_sheet[] =
    "<style>svg{color-scheme:light dark;background:#fff}text{fill:#1d1f24;font:13px "
    "ui-monospace,Menlo,Consolas,monospace}rect{fill:#2563c9}.frame{fill:none;stroke:#d4d0c8}"
    "@media(prefers-color-scheme:dark){svg{background:#14161a}text{fill:#eceef2}rect{fill:#6ea8ff}"
    ".frame{stroke:#3a3f49}}</style>\n";

/* Where the cells begin, and how large they are together. */
typedef struct frame {
    int left, top;
    int64_t width, height;
    bool upright; /* names of columns are so short that they need no slope */
} frame;

static void draw_columns(buffer *b, const alignment *a, const frame *at)
{
    for (int64_t k = 0; k < a->source.n; k++) {
        token_name name;
        const long long middle = at->left + k * CELL + CELL / 2;
        name_token(&a->source, k, name);
        if (at->upright)
            buffer_format(b, "<text x=\"%lld\" y=\"%d\" text-anchor=\"middle\">", middle,
                          at->top - 8);
        else
            buffer_format(b, "<text transform=\"translate(%lld %d) rotate(-45)\">", middle + 4,
                          at->top - 8);
        put_escaped(b, name);
        buffer_text(b, "</text>\n");
    }
}

static void draw_row(buffer *b, const alignment *a, const frame *at, int64_t i)
{
    token_name name, other;
    const int64_t y = at->top + i * CELL;
    name_token(&a->target, i, name);
    buffer_format(b, "<text x=\"%d\" y=\"%lld\" text-anchor=\"end\">", at->left - 8,
                  (long long)(y + CELL / 2 + 4));
    put_escaped(b, name);
    buffer_text(b, "</text>\n");
    for (int64_t k = 0; k < a->source.n; k++) {
        const double p = (double)a->sum[i * a->source.n + k] / (double)a->n_sum;
        name_token(&a->source, k, other);
        buffer_format(
            b,
            "<rect x=\"%lld\" y=\"%lld\" width=\"%d\" height=\"%d\" fill-opacity=\"%.3f\">"
            "<title>",
            (long long)(at->left + k * CELL), (long long)y, CELL - 1, CELL - 1, p);
        put_escaped(b, name);
        buffer_text(b, " looks at ");
        put_escaped(b, other);
        buffer_format(b, ": %.3f</title></rect>\n", p);
    }
}

void alignment_svg(const alignment *a, buffer *b)
{
    const int name = longest(&a->source);
    const frame at = {
        .left = (int)(longest(&a->target) * LETTER) + 20,
        .top = (int)(name * LETTER * SLOPE) + 24,
        .width = a->source.n * CELL,
        .height = a->target.n * CELL,
        .upright = name <= 2,
    };
    const long long W = at.left + at.width + at.top, H = at.top + at.height + 12;
    buffer_format(b,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%lld\" height=\"%lld\" "
                  "viewBox=\"0 0 %lld %lld\">\n%s",
                  W, H, W, H, style_sheet);
    draw_columns(b, a, &at);
    for (int64_t i = 0; i < a->target.n; i++)
        draw_row(b, a, &at, i);
    buffer_format(
        b, "<rect class=\"frame\" x=\"%d\" y=\"%d\" width=\"%lld\" height=\"%lld\"/>\n</svg>\n",
        at.left - 1, at.top - 1, (long long)at.width + 1, (long long)at.height + 1);
}
