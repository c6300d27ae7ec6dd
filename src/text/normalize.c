/* normalize.c - each normalizer as one pass from text to text that carries origins along. */
#include "text/normalize.h"

#include "base/utf8.h"

#include <string.h>

#define BAR "\xE2\x96\x81" /* U+2581, which stands for a space */

/* ---- bytes as letters ------------------------------------------------------------------------ */

/* Printable bytes stand for themselves, the n-th other byte is U+0100 + n. */
static bool printable(uint32_t byte)
{
    return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

uint32_t byte_stand_in(uint8_t byte)
{
    if (printable(byte))
        return byte;
    return 0x100u + (byte <= 0x20 ? byte : byte <= 0xA0 ? byte - 0x7Fu + 0x21u : 0x43u);
}

int byte_of_stand_in(uint32_t point)
{
    if (point < 0x100)
        return printable(point) ? (int)point : -1;
    point -= 0x100;
    return point <= 0x20   ? (int)point
           : point <= 0x42 ? (int)(point - 0x21 + 0x7F)
           : point == 0x43 ? 0xAD
                           : -1;
}

/* ---- passes ---------------------------------------------------------------------------------- */

typedef struct pass {
    const normalizer_step *step;
    const piece *in;
    writer *out;
    normalize_scratch *scratch;
    weft_error *err;
} pass;

/* The end of the ASCII run that begins at a byte. */
static size_t ascii_run(const char *s, size_t n, size_t at)
{
    uint64_t x;
    for (; n - at >= 8; at += 8) {
        memcpy(&x, s + at, 8);
        if (x & 0x8080808080808080u)
            break;
    }
    while (at < n && (uint8_t)s[at] < 0x80)
        at++;
    return at;
}

/* Appends p[begin, end) in a normal form. */
static bool append_form(const pass *q, unicode_form form, const piece *p, size_t begin, size_t end)
{
    unicode_text *t = &q->scratch->form;
    if (unicode_is_normal(form, p->s + begin, end - begin)) {
        writer_copy(q->out, p, begin, end);
        return true;
    }
    if (unicode_normalize(form, p->s + begin, end - begin, t, q->err) != WEFT_OK)
        return false;
    for (size_t i = 0, next; i < t->n; i = next) {
        for (next = i + 1; next < t->n && t->from[next] == t->from[i]; next++) {}
        const bool more = next < t->n && t->from[next] > t->from[i];
        writer_replace(q->out, t->text + i, next - i, p, begin + t->from[i],
                       more ? begin + t->from[next] : end);
    }
    return true;
}

/* Only stretches with non-ASCII letters can change. Such a stretch begins with the ASCII letter
 * before it, because that may take accents, and ends before the next one: no ASCII letter composes
 * with the letter before it. */
static bool to_form(const pass *q, unicode_form form, const piece *p, piece *result)
{
    if (unicode_is_normal(form, p->s, p->n)) {
        *result = *p;
        return true;
    }
    for (size_t at = 0, end; at < p->n; at = end) {
        const size_t run = ascii_run(p->s, p->n, at);
        const size_t begin = run > at && run < p->n ? run - 1 : run;
        writer_copy(q->out, p, at, begin);
        for (end = run; end < p->n && (uint8_t)p->s[end] >= 0x80; end++) {}
        if (begin < end && !append_form(q, form, p, begin, end))
            return false;
    }
    *result = writer_piece(q->out);
    return !q->out->failed;
}

static void lowercase(const pass *q, const piece *p)
{
    for (size_t at = 0, n; at < p->n; at += n) {
        uint32_t point, lower[3];
        n = piece_point(p, at, &point);
        const int count = unicode_lower(point, lower);
        for (int i = 0; i < count; i++)
            writer_point(q->out, lower[i], p, at, at + n);
    }
}

static void strip(const pass *q)
{
    const piece *p = q->in;
    size_t begin = 0, end = 0;
    uint32_t point;
    bool found = false;
    for (size_t at = 0, n; at < p->n; at += n) {
        n = piece_point(p, at, &point);
        if (unicode_is_space(point))
            continue;
        begin = found ? begin : at;
        end = at + n;
        found = true;
    }
    begin = q->step->left ? (found ? begin : p->n) : 0;
    end = q->step->right ? (found ? end : begin) : p->n;
    writer_copy(q->out, p, begin, end);
}

static void strip_accents(const pass *q)
{
    for (size_t at = 0, n; at < q->in->n; at += n) {
        uint32_t point;
        n = piece_point(q->in, at, &point);
        if (!unicode_is_mark(point))
            writer_copy(q->out, q->in, at, at + n);
    }
}

static bool nmt_drops(uint32_t c)
{
    return (c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F ||
           c == 0x8F || c == 0x9F;
}

static bool nmt_is_space(uint32_t c)
{
    return c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 ||
           (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
           c == 0xFEFF || c == 0xFFFD;
}

static void nmt(const pass *q)
{
    for (size_t at = 0, n; at < q->in->n; at += n) {
        uint32_t point;
        n = piece_point(q->in, at, &point);
        if (nmt_is_space(point))
            writer_replace(q->out, " ", 1, q->in, at, at + n);
        else if (!nmt_drops(point))
            writer_copy(q->out, q->in, at, at + n);
    }
}

static void prepend(const pass *q)
{
    if (q->in->n > 0)
        writer_replace(q->out, q->step->text, q->step->text_length, q->in, 0, 1);
    writer_copy(q->out, q->in, 0, q->in->n);
}

static void replace_text(const pass *q)
{
    const normalizer_step *s = q->step;
    const piece *p = q->in;
    size_t at = 0;
    while (at < p->n) {
        const char *found = memmem(p->s + at, p->n - at, s->text, s->text_length);
        const size_t begin = found ? (size_t)(found - p->s) : p->n;
        writer_copy(q->out, p, at, begin);
        if (!found)
            break;
        at = begin + s->text_length;
        writer_replace(q->out, s->content, s->content_length, p, begin, at);
    }
}

static bool replace_pattern(const pass *q)
{
    const normalizer_step *s = q->step;
    const piece *p = q->in;
    regex_walk walk = { 0 };
    size_t at = 0, begin, end;
    int found;
    while ((found = regex_next(s->pattern, q->scratch->regex, &walk, p->s, p->n, &begin, &end,
                               q->err)) > 0) {
        writer_copy(q->out, p, at, begin);
        if (begin < end || p->n > 0)
            writer_replace(q->out, s->content, s->content_length, p,
                           begin < p->n ? begin : p->n - 1,
                           end > begin    ? end
                           : begin < p->n ? begin + 1
                                          : p->n);
        at = end;
    }
    writer_copy(q->out, p, at, p->n);
    return found == 0;
}

/* The four stages of BertNormalizer. ASCII needs only the first and the last, and can be cut
 * anywhere: no ASCII letter composes with the text before it. */
static void bert_clean(const pass *q, const piece *p)
{
    const normalizer_step *s = q->step;
    for (size_t at = 0, n; at < p->n; at += n) {
        uint32_t point;
        n = piece_point(p, at, &point);
        if (s->clean && (point == 0 || point == 0xFFFD || unicode_is_control(point)))
            continue;
        const bool space = s->clean && unicode_is_space(point),
                   han = s->han && unicode_is_han(point);
        if (han)
            writer_replace(q->out, " ", 1, p, at, at + n);
        if (space)
            writer_replace(q->out, " ", 1, p, at, at + n);
        else
            writer_copy(q->out, p, at, at + n);
        if (han)
            writer_replace(q->out, " ", 1, p, at, at + n);
    }
}

static void bert_strip(const pass *q, const piece *p)
{
    for (size_t at = 0, n; at < p->n; at += n) {
        uint32_t point, lower[3];
        n = piece_point(p, at, &point);
        if (q->step->strip_accents && unicode_is_accent(point))
            continue;
        if (!q->step->lower) {
            writer_copy(q->out, p, at, at + n);
            continue;
        }
        const int count = unicode_lower(point, lower);
        for (int i = 0; i < count; i++)
            writer_point(q->out, lower[i], p, at, at + n);
    }
}

static void bert_ascii(const pass *q, const piece *p, size_t begin, size_t end)
{
    const normalizer_step *s = q->step;
    writer *w = q->out;
    if (begin == end)
        return;
    if (w->room - w->n < end - begin)
        writer_grow(w, end - begin);
    if (w->failed)
        return;
    char *to = w->s + w->n;
    for (size_t i = begin; i < end; i++) {
        char c = p->s[i];
        if (s->clean && (uint8_t)c <= 0x20)
            c = c == ' ' || c == '\t' || c == '\n' || c == '\r' ? ' ' : 0;
        if (s->clean && (c == 0 || c == 0x7F))
            continue;
        if (w->maps) {
            w->from[to - w->s] = piece_from(p, i);
            w->to[to - w->s] = piece_to(p, i);
        }
        *to++ = s->lower && c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
    }
    w->n = (size_t)(to - w->s);
}

/* Runs a stretch without ASCII through the stages; the last one appends to the output. */
static bool bert_run(const pass *q, const piece *run)
{
    piece p = *run;
    pass stage = *q;
    for (int i = 0; i < 2; i++)
        writer_begin(&q->scratch->stage[i], q->out->maps, WRITER_FREE, q->out->mem, q->err);
    stage.out = &q->scratch->stage[0];
    bert_clean(&stage, &p);
    if (stage.out->failed)
        return false;
    p = writer_piece(stage.out);
    stage.out = &q->scratch->stage[1];
    if (q->step->strip_accents && !to_form(&stage, UNICODE_NFD, &p, &p))
        return false;
    bert_strip(q, &p);
    return !q->out->failed;
}

static bool bert(const pass *q)
{
    const piece *p = q->in;
    for (size_t at = 0, end; at < p->n; at = end) {
        end = ascii_run(p->s, p->n, at);
        bert_ascii(q, p, at, end);
        at = end;
        while (end < p->n && (uint8_t)p->s[end] >= 0x80)
            end++;
        const piece run = piece_cut(p, at, end);
        if (at < end && !bert_run(q, &run))
            return false;
    }
    return !q->out->failed;
}

/* Hugging Face's Precompiled: clusters of up to five bytes as one unit, then letter by letter. */
static void precompiled(const pass *q)
{
    const piece *p = q->in;
    const charsmap *map = q->step->map;
    for (size_t at = 0, n; at < p->n; at += n) {
        const char *to;
        size_t length;
        n = unicode_grapheme(p->s + at, p->n - at);
        n = n ? n : 1;
        if (n < 6 && charsmap_shortest(map, p->s + at, n, &to, &length)) {
            writer_replace(q->out, to, length, p, at, at + n);
            continue;
        }
        for (size_t i = at, k; i < at + n; i += k) {
            uint32_t point;
            k = piece_point(p, i, &point);
            if (charsmap_shortest(map, p->s + i, k, &to, &length))
                writer_replace(q->out, to, length, p, i, i + k);
            else
                writer_copy(q->out, p, i, i + k);
        }
    }
}

static void byte_level(const pass *q)
{
    for (size_t at = 0, n; at < q->in->n; at += n) {
        uint32_t point;
        n = piece_point(q->in, at, &point);
        for (size_t i = 0; i < n; i++)
            writer_point(q->out, byte_stand_in((uint8_t)q->in->s[at + i]), q->in, at, at + n);
    }
}

/* ---- SentencePiece --------------------------------------------------------------------------- */

/* The replacement for the text at a byte; returns how many bytes it replaces. */
static size_t spm_prefix(const normalizer_step *s, const piece *p, size_t at, const char **to,
                         size_t *length)
{
    uint32_t value, point;
    *to = p->s + at;
    size_t n = s->user ? trie_longest(s->user, 0, p->s + at, p->n - at, &value) : 0;
    if (n == 0 && s->map) {
        n = charsmap_longest(s->map, p->s + at, p->n - at, to, length);
        if (n > 0)
            return n;
    }
    *to = p->s + at;
    return *length = n > 0 ? n : piece_point(p, at, &point);
}

static void spm_space(const pass *q, size_t begin, size_t end)
{
    const bool escape = q->step->escape;
    writer_replace(q->out, escape ? BAR : " ", escape ? 3 : 1, q->in, begin, end);
}

static void spm_put(const pass *q, const char *to, size_t length, size_t begin, size_t end)
{
    for (size_t i = 0; i < length; i++)
        if (to[i] == ' ')
            spm_space(q, begin, end);
        else
            writer_replace(q->out, to + i, 1, q->in, begin, end);
}

static bool ends_in_space(const normalizer_step *s, const writer *w, size_t *n)
{
    *n = s->escape ? 3 : 1;
    return w->n >= *n && memcmp(w->s + w->n - *n, s->escape ? BAR : " ", *n) == 0;
}

static void sentencepiece(const pass *q)
{
    const normalizer_step *s = q->step;
    const piece *p = q->in;
    const char *to;
    size_t at = 0, length, n;
    while (s->squeeze && at < p->n) {
        n = spm_prefix(s, p, at, &to, &length);
        if (length != 1 || *to != ' ')
            break;
        at += n;
    }
    if (at == p->n)
        return;
    if (s->prefix)
        spm_space(q, at, at + 1);
    for (bool after_space = s->squeeze; at < p->n; at += n) {
        n = spm_prefix(s, p, at, &to, &length);
        for (; after_space && length > 0 && *to == ' '; length--)
            to++;
        if (length > 0) {
            spm_put(q, to, length, at, at + n);
            after_space = s->squeeze && to[length - 1] == ' ';
        }
    }
    while (s->squeeze && !q->out->failed && ends_in_space(s, q->out, &n))
        q->out->n -= n;
    if (s->suffix)
        spm_space(q, p->n - 1, p->n);
}

/* ---- all of them ----------------------------------------------------------------------------- */

static bool run(const pass *q, piece *p)
{
    switch (q->step->kind) {
    case NORM_FORM:
        return to_form(q, q->step->form, p, p);
    case NORM_BERT:
        if (!bert(q))
            return false;
        break;
    case NORM_LOWERCASE:
        lowercase(q, p);
        break;
    case NORM_STRIP:
        strip(q);
        break;
    case NORM_STRIP_ACCENTS:
        strip_accents(q);
        break;
    case NORM_NMT:
        nmt(q);
        break;
    case NORM_PREPEND:
        prepend(q);
        break;
    case NORM_REPLACE:
        if (!q->step->pattern)
            replace_text(q);
        else if (!replace_pattern(q))
            return false;
        break;
    case NORM_PRECOMPILED:
        precompiled(q);
        break;
    case NORM_BYTE_LEVEL:
        byte_level(q);
        break;
    case NORM_SENTENCEPIECE:
        sentencepiece(q);
        break;
    }
    *p = writer_piece(q->out);
    return !q->out->failed;
}

bool normalize(const normalizer *z, normalize_scratch *s, piece *p, bool maps, mem *m,
               weft_error *err)
{
    s->form.mem = m;
    for (int i = 0; i < z->n; i++) {
        const piece in = *p;
        const bool in_first = s->writer[0].s && in.s == s->writer[0].s;
        writer *out = &s->writer[in_first];
        writer_begin(out, maps, s->growth.left[i], m, err);
        const pass q = { &z->step[i], &in, out, s, err };
        if (!run(&q, p))
            return false;
        s->growth.left[i] -= out->n;
    }
    return true;
}

void normalize_scratch_free(normalize_scratch *s, mem *m)
{
    writer_free(&s->writer[0], m);
    writer_free(&s->writer[1], m);
    writer_free(&s->stage[0], m);
    writer_free(&s->stage[1], m);
    unicode_text_free(&s->form);
}
