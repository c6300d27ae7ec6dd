/* decode.c - ids to bytes, token by token, so that text can be shown while it is generated. */
#include "text/decode.h"

#include "base/utf8.h"

#include <string.h>

weft_status decode_begin(decode_stream *d, const tokenizer *t, bool keep_special, mem *m,
                         weft_error *err)
{
    *d = (decode_stream){ .t = t,
                          .keep_special = keep_special,
                          .last = NO_ID,
                          .strip = t->decoder.strip_start,
                          .mem = m };
    d->regex = regex_scratch_new(m, err);
    return d->regex ? WEFT_OK : WEFT_ENOMEM;
}

void decode_end(decode_stream *d)
{
    if (!d->mem)
        return;
    regex_scratch_free(d->regex);
    writer_free(&d->a, d->mem);
    writer_free(&d->b, d->mem);
    writer_free(&d->out, d->mem);
    *d = (decode_stream){ 0 };
}

/* ---- steps on one token ---------------------------------------------------------------------- */

static void replace_all(writer *w, const piece *p, const char *text, size_t n, const char *by,
                        size_t by_length)
{
    for (size_t at = 0; at < p->n;) {
        const char *hit = memmem(p->s + at, p->n - at, text, n);
        const size_t begin = hit ? (size_t)(hit - p->s) : p->n;
        writer_copy(w, p, at, begin);
        if (!hit)
            return;
        writer_put(w, by, by_length, 0, 0);
        at = begin + n;
    }
}

static bool replace_pattern(decode_stream *d, writer *w, const piece *p, const decoder_step *s,
                            weft_error *err)
{
    regex_walk walk = { 0 };
    size_t at = 0, begin, end;
    int found;
    while ((found = regex_next(s->pattern, d->regex, &walk, p->s, p->n, &begin, &end, err)) > 0) {
        writer_copy(w, p, at, begin);
        writer_put(w, s->content, s->content_length, 0, 0);
        at = end;
    }
    writer_copy(w, p, at, p->n);
    return found == 0 && !w->failed;
}

/* "<0x0A>" */
static bool hex_byte(const piece *p, char *byte)
{
    int value = 0;
    if (p->n != 6 || memcmp(p->s, "<0x", 3) != 0 || p->s[5] != '>')
        return false;
    for (int i = 3; i < 5; i++) {
        const char c = p->s[i];
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                                 : -1;
        if (digit < 0)
            return false;
        value = value << 4 | digit;
    }
    *byte = (char)value;
    return true;
}

/* Maps stand-in letters back to bytes; leaves a token with any other letter unchanged. */
static void stand_ins(writer *w, const piece *p)
{
    const size_t before = w->n;
    for (size_t at = 0, n; at < p->n; at += n) {
        uint32_t point;
        n = utf8_decode(p->s + at, p->n - at, &point);
        const int byte = n ? byte_of_stand_in(point) : -1;
        if (byte < 0) {
            w->n = before;
            writer_copy(w, p, 0, p->n);
            return;
        }
        writer_put(w, &(char){ (char)byte }, 1, 0, 0);
    }
}

static void metaspace(writer *w, const piece *p, const decoder_step *s, bool first)
{
    replace_all(w, p, s->text, s->text_length, " ", first && s->start ? 0 : 1);
}

/* Hugging Face's clean_up_tokenization_spaces: spaces before punctuation and in English
 * contractions. */
static void cleanup(writer *w, const piece *p)
{
    static const char *const rules[][2] = {
        { " .", "." },   { " ?", "?" },     { " !", "!" },     { " ,", "," },
        { " ' ", "'" },  { " n't", "n't" }, { " 'm", "'m" },   { " do not", " don't" },
        { " 's", "'s" }, { " 've", "'ve" }, { " 're", "'re" },
    };
    const size_t mark = w->n;
    writer_copy(w, p, 0, p->n);
    for (size_t r = 0; r < sizeof rules / sizeof *rules && !w->failed; r++) {
        const size_t length = strlen(rules[r][0]), by = strlen(rules[r][1]); /* by < length */
        size_t k = mark;
        for (size_t i = mark; i < w->n;) {
            const bool hit = w->n - i >= length && memcmp(w->s + i, rules[r][0], length) == 0;
            memmove(w->s + k, hit ? rules[r][1] : w->s + i, hit ? by : 1);
            k += hit ? by : 1;
            i += hit ? length : 1;
        }
        w->n = k;
    }
}

static void strip(writer *w, const piece *p, const decoder_step *s)
{
    char c[4];
    const size_t n = utf8_encode(s->point, c);
    size_t begin = 0, end = p->n;
    for (size_t i = 0; i < s->start && end - begin >= n && memcmp(p->s + begin, c, n) == 0; i++)
        begin += n;
    for (size_t i = 0; i < s->stop && end - begin >= n && memcmp(p->s + end - n, c, n) == 0; i++)
        end -= n;
    writer_copy(w, p, begin, end);
}

/* Drops the pad token; with cleanup, the word delimiter becomes a space. */
static void ctc(decode_stream *d, writer *w, const piece *p, const decoder_step *s)
{
    const size_t mark = d->out.n;
    replace_all(&d->out, p, s->text, s->text_length, "", 0);
    const size_t middle = d->out.n;
    piece q = { .s = d->out.s ? d->out.s + mark : "", .n = middle - mark };
    if (s->cleanup && !d->out.failed) {
        cleanup(&d->out, &q);
        q = (piece){ .s = d->out.s ? d->out.s + middle : "", .n = d->out.n - middle };
        replace_all(w, &q, s->content, s->content_length, " ", 1);
    } else {
        writer_copy(w, &q, 0, q.n);
    }
    w->failed |= d->out.failed;
    d->out.n = mark;
}

/* Puts a space before every token except the first and those that continue a word. */
static void wordpiece_step(decode_stream *d, writer *w, const piece *p, const decoder_step *s,
                           bool first, bool in_text)
{
    const bool joins = p->n >= s->text_length && memcmp(p->s, s->text, s->text_length) == 0 &&
                       !first;
    writer *spaced = s->cleanup ? &d->out : w;
    const size_t mark = spaced->n;
    if (!joins && !first && in_text)
        writer_put(spaced, " ", 1, 0, 0);
    writer_copy(spaced, p, joins ? s->text_length : 0, p->n);
    if (!s->cleanup || spaced->failed) {
        w->failed |= spaced->failed;
        return;
    }
    const piece dirty = { .s = spaced->s ? spaced->s + mark : "", .n = spaced->n - mark };
    spaced->n = mark;
    cleanup(w, &dirty);
}

static void suffix_step(decode_stream *d, writer *w, const piece *p, const decoder_step *s,
                        bool in_text)
{
    const bool ends = p->n >= s->text_length &&
                      memcmp(p->s + p->n - s->text_length, s->text, s->text_length) == 0;
    const piece body = piece_cut(p, 0, p->n - (ends ? s->text_length : 0));
    if (in_text && d->space_due)
        writer_put(w, " ", 1, 0, 0);
    d->space_due = in_text && ends;
    replace_all(w, &body, s->text, s->text_length, " ", 1);
}

static bool run_step(decode_stream *d, const decoder_step *s, const piece *p, writer *w,
                     bool in_text, weft_error *err)
{
    const bool first = in_text && !d->begun;
    char byte;
    switch (s->kind) {
    case DECODE_REPLACE:
        if (s->pattern)
            return replace_pattern(d, w, p, s, err);
        replace_all(w, p, s->text, s->text_length, s->content, s->content_length);
        break;
    case DECODE_BYTE_FALLBACK:
        if (hex_byte(p, &byte))
            writer_put(w, &byte, 1, 0, 0);
        else
            writer_copy(w, p, 0, p->n);
        break;
    case DECODE_BYTE_LEVEL:
        stand_ins(w, p);
        break;
    case DECODE_METASPACE:
        metaspace(w, p, s, first);
        break;
    case DECODE_WORDPIECE:
        wordpiece_step(d, w, p, s, first, in_text);
        break;
    case DECODE_SUFFIX:
        suffix_step(d, w, p, s, in_text);
        break;
    case DECODE_STRIP:
        strip(w, p, s);
        break;
    case DECODE_CTC:
        ctc(d, w, p, s);
        break;
    }
    return !w->failed;
}

/* ---- tokens ---------------------------------------------------------------------------------- */

/* Runs all steps over one token; in_text: its position in the text counts. */
static weft_status spell(decode_stream *d, uint32_t id, bool in_text, piece *p, weft_error *err)
{
    const tokenizer *t = d->t;
    *p = (piece){ .s = vocab_text(&t->vocab, id), .n = t->vocab.length[id] };
    if (t->shown && t->shown[id] != NO_ID) {
        const added *a = &t->added[t->shown[id]];
        *p = (piece){ .s = a->folded, .n = a->folded_length };
    }
    for (int i = 0; i < t->decoder.n; i++) {
        writer *w = i % 2 ? &d->b : &d->a;
        const piece in = *p;
        writer_begin(w, false, d->growth.left[i], d->mem, err);
        if (!run_step(d, &t->decoder.step[i], &in, w, in_text, err))
            return err->code;
        d->growth.left[i] -= w->n;
        *p = writer_piece(w);
    }
    return WEFT_OK;
}

weft_status decode_token(decode_stream *d, uint32_t id, piece *result, weft_error *err)
{
    writer_begin(&d->out, false, WRITER_FREE, d->mem, err);
    return spell(d, id, false, result, err);
}

static bool skipped(decode_stream *d, uint32_t id)
{
    const tokenizer *t = d->t;
    const bool ctc = t->decoder.n > 0 && t->decoder.step[0].kind == DECODE_CTC;
    const bool again = ctc && id == d->last;
    d->last = id;
    return again || (t->special[id] && !d->keep_special);
}

weft_status decode_push(decode_stream *d, uint32_t id, const char **bytes, size_t *n,
                        weft_error *err)
{
    weft_error local;
    const tokenizer *t = d->t;
    err = err ? err : &local;
    *n = 0;
    *bytes = "";
    if (!tokenizer_has(t, id))
        return weft_fail(err, WEFT_EINVAL, "%s: token %u is not in the vocabulary", t->path, id);
    if (d->out.mem) { /* drop the bytes returned by the last call, keep those held back */
        const size_t held = utf8_unfinished(d->out.s ? d->out.s : "", d->out.n);
        if (held)
            memmove(d->out.s, d->out.s + d->out.n - held, held);
        d->out.n = held;
        d->out.err = err;
        d->out.failed = false;
    } else {
        writer_begin(&d->out, false, WRITER_FREE, d->mem, err);
    }
    if (skipped(d, id))
        return WEFT_OK;
    growth_begin(&d->growth, t->decoder.n, t->vocab.length[id], GROWTH_TOKEN_TIMES,
                 GROWTH_TOKEN_MORE);
    regex_add(d->regex, t->vocab.length[id]);
    piece p;
    if (t->bpe.bytes && t->decoder.n == 1 && t->decoder.step[0].kind == DECODE_BYTE_LEVEL)
        p = (piece){ .s = vocab_text(&t->bytes, id), .n = t->bytes.length[id] };
    else if (spell(d, id, true, &p, err) != WEFT_OK)
        return err->code;
    if (t->decoder.spaced && d->begun)
        writer_put(&d->out, " ", 1, 0, 0);
    d->begun = true;
    char c[4];
    const size_t width = utf8_encode(t->decoder.strip_point, c);
    while (d->strip > 0 && p.n > 0) {
        const bool goes = p.n >= width && memcmp(p.s, c, width) == 0;
        d->strip = goes ? d->strip - 1 : 0;
        p = piece_cut(&p, goes ? width : 0, p.n);
    }
    writer_copy(&d->out, &p, 0, p.n);
    if (d->out.failed)
        return err->code;
    *bytes = d->out.s ? d->out.s : "";
    *n = d->out.n - utf8_unfinished(*bytes, d->out.n);
    return WEFT_OK;
}

void decode_flush(decode_stream *d, const char **bytes, size_t *n)
{
    const char *s = d->out.s ? d->out.s : "";
    *n = utf8_unfinished(s, d->out.n);
    *bytes = s + d->out.n - *n;
}
