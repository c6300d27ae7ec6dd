/* attention_map.c - draws attention_map.h's picture as SVG: a square per pair of tokens, its
 * darkness the probability. SVG because it scales, and needs no library. */
#include "attention_map.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- during the forward ---------------------------------------------------------------------- */

typedef struct looks {
    float *sum; /* [n, n_source] over heads and layers; for the rows after the start tokens */
    int64_t n_begin, n, n_source;
    int64_t layer;   /* wanted; 0: all */
    int64_t n_sum;   /* heads that were added */
    int64_t n_layer; /* layers there are */
} looks;

/* "dec.blk.3.cross_attention.probs" has a row for each head of each token. */
static void add(void *ud, const weft_trace_tensor *t)
{
    looks *l = ud;
    int64_t layer;
    if (sscanf(t->name, "dec.blk.%" SCNd64 ".cross_attention.probs", &layer) != 1 ||
        strcmp(t->op, "probs") != 0 || t->cols != l->n_source)
        return;
    const int64_t n_row = l->n_begin + l->n - 1, n_head = t->rows / n_row;
    l->n_layer = layer + 1;
    if (n_head == 0 || (l->layer && l->layer != layer + 1))
        return;
    l->n_sum += n_head;
    for (int64_t i = 0; i < n_row * n_head; i++) {
        const int64_t row = i / n_head - (l->n_begin - 1);
        for (int64_t k = 0; row >= 0 && k < t->cols; k++)
            l->sum[row * t->cols + k] += t->data[i * t->stride + k];
    }
}

/* Token i follows from all tokens before it, so the last one is not evaluated. */
static weft_status evaluate(const attention_map *m, const int32_t *text, looks *l, weft_error *err)
{
    const int64_t n_row = m->n_begin + m->n - 1;
    weft_engine_options o = m->options;
    o.n_session = 1;
    o.n_ctx = n_row > m->n_source ? n_row : m->n_source;
    o.n_batch = (int)o.n_ctx;
    weft_engine *engine = weft_engine_new(m->model, &o, err);
    weft_session *session = engine ? weft_session_new(engine, err) : NULL;
    weft_status status = session ? weft_engine_trace(engine, add, l, true, err) : err->code;
    if (status == WEFT_OK)
        status = weft_session_source(session, m->source_ids, m->n_source, err);
    if (status == WEFT_OK)
        status = weft_session_eval(session, text, n_row, err);
    weft_session_free(session);
    weft_engine_free(engine);
    return status;
}

/* ---- the picture ----------------------------------------------------------------------------- */

#define CELL   24
#define LETTER 7.4  /* width of one, about */
#define MOST   16   /* letters of a token that are shown */
#define SLOPE  0.71 /* long names of columns are written at an angle of 45 degrees */

/* The bytes of a token: its text, the spelling of a special one, or its number. */
static const char *token_bytes(const weft_tokenizer *t, int32_t id, char *room, size_t size,
                               size_t *n)
{
    const int64_t length = t ? weft_tokenizer_piece(t, id, room, size) : 0;
    *n = (size_t)length;
    if (length > 0 && length <= (int64_t)size)
        return room;
    const char *spelled = t ? weft_tokenizer_token(t, id, n) : NULL;
    if (spelled)
        return spelled;
    *n = (size_t)snprintf(room, size, "%d", (int)id);
    return room;
}

typedef char token_name[MOST * 4 + 1];

/* A token as letters, without blanks before it; a dot for what is no letter. */
static void name_token(const weft_tokenizer *t, int32_t id, token_name name)
{
    static const char dot[] = "\xC2\xB7";
    char room[256];
    size_t n, to = 0;
    const char *from = token_bytes(t, id, room, sizeof room, &n);
    for (; n > 1 && *from == ' '; n--)
        from++;
    for (int i = 0; n > 0 && i < MOST; i++) {
        const size_t one = cli_utf8(from, n);
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

static void put_escaped(FILE *f, const char *text)
{
    for (; *text; text++)
        if (*text == '<' || *text == '>' || *text == '&' || *text == '"')
            fprintf(f, "&#%d;", *text);
        else
            fputc(*text, f);
}

static int longest(const weft_tokenizer *t, const int32_t *ids, int64_t n)
{
    int most = 1;
    for (int64_t i = 0; i < n; i++) {
        token_name name;
        name_token(t, ids[i], name);
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

static void draw_columns(FILE *f, const attention_map *m, const frame *at)
{
    for (int64_t k = 0; k < m->n_source; k++) {
        token_name name;
        const long long middle = at->left + k * CELL + CELL / 2;
        name_token(m->source, m->source_ids[k], name);
        if (at->upright)
            fprintf(f, "<text x=\"%lld\" y=\"%d\" text-anchor=\"middle\">", middle, at->top - 8);
        else
            fprintf(f, "<text transform=\"translate(%lld %d) rotate(-45)\">", middle + 4,
                    at->top - 8);
        put_escaped(f, name);
        fputs("</text>\n", f);
    }
}

static void draw_row(FILE *f, const attention_map *m, const looks *l, const frame *at, int64_t i)
{
    token_name name, other;
    const int64_t y = at->top + i * CELL;
    name_token(m->target, m->ids[i], name);
    fprintf(f, "<text x=\"%d\" y=\"%lld\" text-anchor=\"end\">", at->left - 8,
            (long long)(y + CELL / 2 + 4));
    put_escaped(f, name);
    fputs("</text>\n", f);
    for (int64_t k = 0; k < m->n_source; k++) {
        const double p = (double)l->sum[i * m->n_source + k] / (double)l->n_sum;
        name_token(m->source, m->source_ids[k], other);
        fprintf(f,
                "<rect x=\"%lld\" y=\"%lld\" width=\"%d\" height=\"%d\" fill-opacity=\"%.3f\">"
                "<title>",
                (long long)(at->left + k * CELL), (long long)y, CELL - 1, CELL - 1, p);
        put_escaped(f, name);
        fputs(" looks at ", f);
        put_escaped(f, other);
        fprintf(f, ": %.3f</title></rect>\n", p);
    }
}

static void draw(FILE *f, const attention_map *m, const looks *l)
{
    const int name = longest(m->source, m->source_ids, m->n_source);
    const frame at = {
        .left = (int)(longest(m->target, m->ids, m->n) * LETTER) + 20,
        .top = (int)(name * LETTER * SLOPE) + 24,
        .width = m->n_source * CELL,
        .height = m->n * CELL,
        .upright = name <= 2,
    };
    const long long W = at.left + at.width + at.top, H = at.top + at.height + 12;
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%lld\" height=\"%lld\" "
            "viewBox=\"0 0 %lld %lld\">\n%s",
            W, H, W, H, style_sheet);
    draw_columns(f, m, &at);
    for (int64_t i = 0; i < m->n; i++)
        draw_row(f, m, l, &at, i);
    fprintf(f, "<rect class=\"frame\" x=\"%d\" y=\"%d\" width=\"%lld\" height=\"%lld\"/>\n</svg>\n",
            at.left - 1, at.top - 1, (long long)at.width + 1, (long long)at.height + 1);
}

static int write_picture(const char *path, const attention_map *m, const looks *l)
{
    out_file o;
    if (!out_begin(&o, path))
        return cli_cannot_write(path);
    draw(o.f, m, l);
    return out_end(&o, true) ? 0 : cli_cannot_write(path);
}

int attention_map_write(const command *c, const char *path, const attention_map *m)
{
    weft_error err = { 0 };
    const int64_t n_text = m->n_begin + m->n;
    looks l = { .n_begin = m->n_begin, .n = m->n, .n_source = m->n_source, .layer = m->layer };
    int32_t *text = cli_alloc((size_t)n_text, sizeof *text, "ids");
    l.sum = cli_zalloc((size_t)(m->n * m->n_source + 1), sizeof *l.sum, "the map");
    int code = text && l.sum ? 0 : cli_no_memory();
    if (!code) {
        memcpy(text, m->begin, (size_t)m->n_begin * sizeof *text);
        memcpy(text + m->n_begin, m->ids, (size_t)m->n * sizeof *text);
        code = evaluate(m, text, &l, &err) == WEFT_OK ? 0 : cli_fail(&err);
    }
    if (!code && m->layer > l.n_layer)
        code = cli_usage(c, "--attention-layer: %lld is not in 1 to %lld", (long long)m->layer,
                         (long long)l.n_layer);
    if (!code)
        code = write_picture(path, m, &l);
    cli_free(text);
    cli_free(l.sum);
    return code;
}
