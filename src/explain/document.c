/* document.c - JSON by hand: a page of numbers is too large for a tree of them. */
#include "explain/document.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static void begin(document *d, const char *key)
{
    if (d->comma)
        buffer_put(d->b, ",", 1);
    if (key) {
        buffer_quote(d->b, key, strlen(key));
        buffer_put(d->b, ":", 1);
    }
    d->comma = true;
}

static void nest(document *d, const char *key, char opening, char closing)
{
    begin(d, key);
    assert(d->depth < DOCUMENT_DEPTH);
    buffer_put(d->b, &opening, 1);
    d->closing[d->depth++] = closing;
    d->comma = false;
}

void doc_object(document *d, const char *key)
{
    nest(d, key, '{', '}');
}

void doc_list(document *d, const char *key)
{
    nest(d, key, '[', ']');
}

void doc_end(document *d)
{
    assert(d->depth > 0);
    buffer_put(d->b, &d->closing[--d->depth], 1);
    d->comma = true;
}

static void real_digits(document *d, const char *key, double x, int digits)
{
    begin(d, key);
    if (x == 0 && signbit(x))
        buffer_text(d->b, "-0.0"); /* "-0" is an integer to many readers, and so 0 */
    else if (isfinite(x))
        buffer_format(d->b, "%.*g", digits, x);
    else
        buffer_text(d->b, "null");
}

void doc_real(document *d, const char *key, double x)
{
    real_digits(d, key, x, 17);
}

void doc_int(document *d, const char *key, int64_t x)
{
    begin(d, key);
    buffer_format(d->b, "%lld", (long long)x);
}

void doc_bool(document *d, const char *key, bool x)
{
    begin(d, key);
    buffer_text(d->b, x ? "true" : "false");
}

void doc_text(document *d, const char *key, const char *text)
{
    doc_bytes(d, key, text, strlen(text));
}

/* "</script>" in a text must not end the script that carries it: "<" is escaped. */
void doc_bytes(document *d, const char *key, const char *bytes, size_t n)
{
    begin(d, key);
    const size_t from = d->b->n;
    buffer_quote_any(d->b, bytes, n);
    if (d->b->failed || !memchr(d->b->at + from, '<', d->b->n - from))
        return;
    buffer escaped;
    buffer_begin(&escaped, d->b->mem, d->b->err);
    for (size_t i = from; i < d->b->n; i++)
        if (d->b->at[i] == '<')
            buffer_text(&escaped, "\\u003c");
        else
            buffer_put(&escaped, &d->b->at[i], 1);
    d->b->n = from;
    buffer_put(d->b, escaped.at, escaped.n);
    d->b->failed = d->b->failed || escaped.failed;
    buffer_end(&escaped);
}

void doc_reals(document *d, const char *key, const double *x, int64_t n)
{
    doc_list(d, key);
    for (int64_t i = 0; i < n; i++)
        doc_real(d, NULL, x[i]);
    doc_end(d);
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* Causal maps are triangles: row i H + h has i + 1 numbers, as later keys have none. */
static bool is_triangle(const seen *t)
{
    const int64_t H = t->attention.n_head;
    return H > 0 && t->attention.kind == ATTN_CAUSAL && t->rows == H * t->cols;
}

static int64_t row_length(const seen *t, int64_t i)
{
    return is_triangle(t) ? i / t->attention.n_head + 1 : t->cols;
}

static void put_shape(document *d, const seen *t)
{
    doc_text(d, "name", t->name);
    doc_int(d, "rows", t->rows);
    doc_int(d, "cols", t->cols);
    doc_int(d, "first", t->rows - t->n_kept);
    if (is_triangle(t))
        doc_int(d, "heads", t->attention.n_head);
}

static void put_decimals(document *d, const seen *t)
{
    doc_list(d, "data");
    for (int64_t i = 0; i < t->n_kept; i++) {
        doc_list(d, NULL);
        for (int64_t k = 0; k < row_length(t, i); k++)
            real_digits(d, NULL, (double)t->data[i * t->cols + k], 9);
        doc_end(d);
    }
    doc_end(d);
}

void doc_tensor(document *d, const char *key, const seen *t)
{
    if (!t || !t->data)
        return;
    if (d->page) {
        doc_text(d, key, t->name);
        d->used[t - d->seen->at] = true;
        return;
    }
    doc_object(d, key);
    put_shape(d, t);
    put_decimals(d, t);
    doc_end(d);
}

/* Base64 of a stream of bytes that arrives in pieces. */
typedef struct base64 {
    buffer *b;
    uint32_t bits;
    int n; /* bytes in bits */
    char text[4096];
    size_t n_text;
} base64;

static void base64_flush(base64 *e)
{
    buffer_put(e->b, e->text, e->n_text);
    e->n_text = 0;
}

static void base64_fit(base64 *e, size_t n)
{
    if (e->n_text + n > sizeof e->text)
        base64_flush(e);
}

static const char letter[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void base64_out(base64 *e, int n_letter)
{
    base64_fit(e, 4);
    for (int i = 0; i < 4; i++)
        e->text[e->n_text++] = i < n_letter ? letter[e->bits >> (18 - 6 * i) & 63] : '=';
    e->bits = 0;
    e->n = 0;
}

static void base64_put(base64 *e, uint8_t byte)
{
    e->bits |= (uint32_t)byte << (16 - 8 * e->n);
    if (++e->n == 3)
        base64_out(e, 4);
}

/* Three floats are sixteen letters. */
static void base64_three(base64 *e, const float *x)
{
    uint8_t bytes[12];
    for (int i = 0; i < 3; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        for (int k = 0; k < 4; k++)
            bytes[4 * i + k] = (uint8_t)(bits >> 8 * k);
    }
    base64_fit(e, 16);
    for (int i = 0; i < 12; i += 3) {
        const uint32_t three = (uint32_t)bytes[i] << 16 | (uint32_t)bytes[i + 1] << 8 |
                               bytes[i + 2];
        for (int k = 0; k < 4; k++)
            e->text[e->n_text++] = letter[three >> (18 - 6 * k) & 63];
    }
}

static void base64_floats(base64 *e, const float *x, int64_t n)
{
    int64_t i = 0;
    for (; e->n == 0 && i + 3 <= n; i += 3)
        base64_three(e, x + i);
    for (; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        for (int byte = 0; byte < 4; byte++)
            base64_put(e, (uint8_t)(bits >> 8 * byte));
    }
}

static void base64_begin(base64 *e, document *d, const char *key)
{
    begin(d, key);
    buffer_put(d->b, "\"", 1);
    *e = (base64){ .b = d->b };
}

static void base64_end(base64 *e)
{
    if (e->n > 0)
        base64_out(e, e->n + 1);
    base64_flush(e);
    buffer_put(e->b, "\"", 1);
}

static void put_base64(document *d, const seen *t)
{
    base64 e;
    base64_begin(&e, d, "data");
    for (int64_t i = 0; i < t->n_kept; i++)
        base64_floats(&e, t->data + i * t->cols, row_length(t, i));
    base64_end(&e);
}

void doc_floats(document *d, const char *key, const float *x, int64_t n)
{
    if (d->page) {
        base64 e;
        base64_begin(&e, d, key);
        base64_floats(&e, x, n);
        base64_end(&e);
        return;
    }
    doc_list(d, key);
    for (int64_t i = 0; i < n; i++)
        real_digits(d, NULL, (double)x[i], 9);
    doc_end(d);
}

void doc_rows(document *d, const char *key, const seen *t, int64_t first, int64_t n)
{
    seen part = *t;
    part.data = t->data + (first - (t->rows - t->n_kept)) * t->cols;
    part.n_kept = n;
    doc_object(d, key);
    doc_text(d, "name", t->name);
    doc_int(d, "rows", t->rows);
    doc_int(d, "cols", t->cols);
    doc_int(d, "first", first);
    if (d->page)
        put_base64(d, &part);
    else
        put_decimals(d, &part);
    doc_end(d);
}

void doc_tensors(document *d, const char *key)
{
    doc_list(d, key);
    for (int64_t i = 0; i < d->seen->n; i++)
        if (d->used[i]) {
            doc_object(d, NULL);
            put_shape(d, &d->seen->at[i]);
            put_base64(d, &d->seen->at[i]);
            doc_end(d);
        }
    doc_end(d);
}
