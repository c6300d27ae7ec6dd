/* hf_write_steps.c - writes normalizer, pre_tokenizer and decoder of a tokenizer.json, step by
 * step; and the helpers that all of the writer shares. */
#include "base/utf8.h"
#include "text/sources/hf_write.h"
#include "text/sources/source.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define BAR "\xE2\x96\x81"

/* ---- texts, flags, refusals ------------------------------------------------------------------- */

void hf_refuse(hf_writer *w, const char *format, ...)
{
    char what[256];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    if (w->status == WEFT_OK)
        w->status = weft_fail(w->err, WEFT_EUNSUPPORTED, "%s: tokenizer.json cannot represent %s",
                              w->t->path, what);
}

void hf_quote(hf_writer *w, const char *text, size_t n)
{
    if (n > 0 && (memchr(text, '\0', n) || utf8_find_wrong(text, n) < n))
        hf_refuse(w, "text with NUL, or that is not UTF-8 (\"%.*s\")", (int)(n > 64 ? 64 : n),
                  text);
    buffer_quote(w->b, text, n);
}

void hf_flag(hf_writer *w, const char *name, bool on)
{
    buffer_format(w->b, ", \"%s\": %s", name, on ? "true" : "false");
}

static void text(hf_writer *w, const char *s)
{
    buffer_text(w->b, s);
}

/* Begins the next step of a list. */
static void step(hf_writer *w, const char *type)
{
    buffer_format(w->b, "%s{\"type\": \"%s\"", w->n++ ? ",\n      " : "\n      ", type);
}

static void end(hf_writer *w)
{
    text(w, "}");
}

static void plain(hf_writer *w, const char *type)
{
    step(w, type);
    end(w);
}

static void quoted(hf_writer *w, const char *name, const char *s, size_t n)
{
    buffer_format(w->b, ", \"%s\": ", name);
    hf_quote(w, s, n);
}

static void point(hf_writer *w, const char *name, uint32_t x)
{
    char s[4];
    quoted(w, name, s, utf8_encode(x, s));
}

static void pattern(hf_writer *w, bool regular, const char *s, size_t n)
{
    buffer_format(w->b, ", \"pattern\": {\"%s\": ", regular ? "Regex" : "String");
    hf_quote(w, s, n);
    text(w, "}");
}

static void replace(hf_writer *w, bool regular, const char *s, size_t n, const char *by, size_t m)
{
    step(w, "Replace");
    pattern(w, regular, s, n);
    quoted(w, "content", by, m);
    end(w);
}

/* Writes a list of steps, which may be empty. */
static void list(hf_writer *w, const char *part, const char *field, void (*put)(hf_writer *))
{
    const size_t before = w->b->n;
    buffer_format(w->b, "  \"%s\": {\"type\": \"Sequence\", \"%s\": [", part, field);
    w->n = 0;
    put(w);
    if (w->n == 0 && !w->b->failed) {
        w->b->n = before;
        buffer_format(w->b, "  \"%s\": null,\n", part);
    } else {
        text(w, "]},\n");
    }
}

/* ---- normalizers ----------------------------------------------------------------------------- */

static void put_base64(buffer *b, const uint8_t *data, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3) {
        const size_t some = n - i < 3 ? n - i : 3;
        uint32_t bits = 0;
        for (size_t k = 0; k < 3; k++)
            bits = bits << 8 | (k < some ? data[i + k] : 0);
        char four[4];
        for (size_t k = 0; k < 4; k++)
            four[k] = k <= some ? digits[bits >> (18 - 6 * k) & 63] : '=';
        buffer_put(b, four, 4);
    }
}

static void precompiled(hf_writer *w, const charsmap *map)
{
    buffer blob;
    buffer_begin(&blob, w->b->mem, w->err);
    charsmap_put(map, &blob);
    step(w, "Precompiled");
    text(w, ", \"precompiled_charsmap\": \"");
    put_base64(w->b, blob.at, blob.n);
    text(w, "\"");
    end(w);
    w->b->failed |= blob.failed;
    buffer_end(&blob);
}

/* SentencePiece: its table, runs of spaces collapsed and trimmed at both ends, a space before the
 * text, bars for spaces. Precompiled looks at clusters and takes the shortest key, while
 * SentencePiece takes the longest; Hugging Face's converter writes the same steps. */
static void sentencepiece(hf_writer *w, const normalizer_step *s)
{
    if (s->suffix)
        hf_refuse(w, "a space after the text instead of before it");
    if (s->map)
        precompiled(w, s->map);
    if (s->squeeze) {
        replace(w, true, SPACES_FIRST, sizeof SPACES_FIRST - 1, "", 0);
        replace(w, true, SPACES_RUN, sizeof SPACES_RUN - 1, " ", 1);
    }
    if (s->prefix) {
        step(w, "Prepend");
        quoted(w, "prepend", s->escape ? BAR : " ", s->escape ? 3 : 1);
        end(w);
    }
    if (s->escape)
        replace(w, false, " ", 1, BAR, 3);
    if (s->squeeze && s->escape)
        replace(w, true, BARS_LAST, sizeof BARS_LAST - 1, "", 0);
    else if (s->squeeze)
        hf_refuse(w, "collapsed spaces that are not escaped");
}

static void bert(hf_writer *w, const normalizer_step *s)
{
    step(w, "BertNormalizer");
    hf_flag(w, "clean_text", s->clean);
    hf_flag(w, "handle_chinese_chars", s->han);
    hf_flag(w, "strip_accents", s->strip_accents);
    hf_flag(w, "lowercase", s->lower);
    end(w);
}

static void put_normalizer(hf_writer *w, const normalizer_step *s)
{
    static const char *const forms[] = { [UNICODE_NFC] = "NFC",
                                         [UNICODE_NFD] = "NFD",
                                         [UNICODE_NFKC] = "NFKC",
                                         [UNICODE_NFKD] = "NFKD" };
    switch (s->kind) {
    case NORM_FORM:
        plain(w, forms[s->form]);
        return;
    case NORM_LOWERCASE:
        plain(w, "Lowercase");
        return;
    case NORM_STRIP_ACCENTS:
        plain(w, "StripAccents");
        return;
    case NORM_NMT:
        plain(w, "Nmt");
        return;
    case NORM_BYTE_LEVEL:
        plain(w, "ByteLevel");
        return;
    case NORM_STRIP:
        step(w, "Strip");
        hf_flag(w, "strip_left", s->left);
        hf_flag(w, "strip_right", s->right);
        end(w);
        return;
    case NORM_PREPEND:
        step(w, "Prepend");
        quoted(w, "prepend", s->text, s->text_length);
        end(w);
        return;
    case NORM_REPLACE:
        replace(w, s->pattern != NULL, s->text, s->text_length, s->content, s->content_length);
        return;
    case NORM_BERT:
        bert(w, s);
        return;
    case NORM_PRECOMPILED:
        precompiled(w, s->map);
        return;
    case NORM_SENTENCEPIECE:
        sentencepiece(w, s);
        return;
    }
}

static void put_normalizers(hf_writer *w)
{
    for (int i = 0; i < w->t->normalizer.n; i++)
        put_normalizer(w, &w->t->normalizer.step[i]);
}

void hf_write_normalizer(hf_writer *w)
{
    list(w, "normalizer", "normalizers", put_normalizers);
}

/* ---- pre-tokenizers -------------------------------------------------------------------------- */

static void behavior(hf_writer *w, split_behavior b)
{
    static const char *const names[] = { "Removed", "Isolated", "MergedWithPrevious",
                                         "MergedWithNext", "Contiguous" };
    buffer_format(w->b, ", \"behavior\": \"%s\"", names[b]);
}

static void metaspace(hf_writer *w, const char *s, size_t n, prepend_scheme prepend, bool cut)
{
    static const char *const schemes[] = { "always", "first", "never" };
    step(w, "Metaspace");
    quoted(w, "replacement", s, n);
    buffer_format(w->b, ", \"prepend_scheme\": \"%s\"", schemes[prepend]);
    hf_flag(w, "split", cut);
    end(w);
}

static void byte_level(hf_writer *w, bool prefix, bool regular)
{
    step(w, "ByteLevel");
    hf_flag(w, "add_prefix_space", prefix);
    hf_flag(w, "trim_offsets", true);
    hf_flag(w, "use_regex", regular);
    end(w);
}

static bool is_gpt2(const splitter *s)
{
    return s->kind == SPLIT_PATTERN && s->behavior == SPLIT_ISOLATED && !s->invert &&
           strcmp(s->text, pattern_gpt2) == 0;
}

/* Does splitter i write bytes? A byte-level model absorbs that step if it is the file's last. */
static bool makes_bytes(const tokenizer *t, int i)
{
    return i < t->splitters.n ? t->splitters.step[i].kind == SPLIT_BYTES : t->bpe.bytes;
}

/* One step of the file covers everything from the space before the text to the bytes. Returns how
 * many splitters that were. */
static int prefixed_bytes(hf_writer *w, int i)
{
    const tokenizer *t = w->t;
    const bool regular = i + 1 < t->splitters.n && is_gpt2(&t->splitters.step[i + 1]) &&
                         makes_bytes(t, i + 2);
    if (!regular && !makes_bytes(t, i + 1))
        hf_refuse(w, "a prefix space without ByteLevel");
    byte_level(w, true, regular);
    return 2 + regular;
}

static void split_by(hf_writer *w, const splitter *s)
{
    step(w, "Split");
    pattern(w, s->kind == SPLIT_PATTERN, s->text, s->text_length);
    behavior(w, s->behavior);
    hf_flag(w, "invert", s->invert);
    end(w);
}

static void put_splitter(hf_writer *w, const splitter *s)
{
    switch (s->kind) {
    case SPLIT_PATTERN:
    case SPLIT_TEXT:
        split_by(w, s);
        return;
    case SPLIT_SPACE:
        plain(w, "WhitespaceSplit");
        return;
    case SPLIT_WORDS:
        plain(w, "Whitespace");
        return;
    case SPLIT_BERT:
        plain(w, "BertPreTokenizer");
        return;
    case SPLIT_SCRIPTS:
        plain(w, "UnicodeScripts");
        return;
    case SPLIT_PUNCTUATION:
        step(w, "Punctuation");
        behavior(w, s->behavior);
        end(w);
        return;
    case SPLIT_NUMERIC:
        step(w, "Digits");
        hf_flag(w, "individual_digits", s->behavior == SPLIT_ISOLATED);
        end(w);
        return;
    case SPLIT_POINT:
        step(w, "CharDelimiterSplit");
        point(w, "delimiter", s->point);
        end(w);
        return;
    case SPLIT_METASPACE:
        metaspace(w, s->text, s->text_length, s->prepend, s->cut);
        return;
    case SPLIT_LENGTH:
        step(w, "FixedLength");
        buffer_format(w->b, ", \"length\": %zu", s->length);
        end(w);
        return;
    case SPLIT_PREFIX_SPACE: /* never alone */
    case SPLIT_BYTES:
        byte_level(w, false, false);
        return;
    }
}

static void put_splitters(hf_writer *w)
{
    const splitters *s = &w->t->splitters;
    int i = 0;
    while (i < s->n) {
        if (s->step[i].kind == SPLIT_PREFIX_SPACE)
            i += prefixed_bytes(w, i);
        else
            put_splitter(w, &s->step[i++]);
    }
    if (w->t->bpe.bytes && i == s->n)
        byte_level(w, false, false);
}

void hf_write_pre_tokenizer(hf_writer *w)
{
    list(w, "pre_tokenizer", "pretokenizers", put_splitters);
}

/* ---- decoders -------------------------------------------------------------------------------- */

static void strip(hf_writer *w, uint32_t x, size_t start, size_t stop)
{
    step(w, "Strip");
    point(w, "content", x);
    buffer_format(w->b, ", \"start\": %zu, \"stop\": %zu", start, stop);
    end(w);
}

static void put_decoder(hf_writer *w, const decoder_step *s)
{
    switch (s->kind) {
    case DECODE_REPLACE:
        replace(w, s->pattern != NULL, s->text, s->text_length, s->content, s->content_length);
        return;
    case DECODE_BYTE_FALLBACK:
        plain(w, "ByteFallback");
        return;
    case DECODE_BYTE_LEVEL:
        byte_level(w, true, true);
        return;
    case DECODE_METASPACE:
        metaspace(w, s->text, s->text_length, s->start ? PREPEND_ALWAYS : PREPEND_NEVER, true);
        return;
    case DECODE_WORDPIECE:
        step(w, "WordPiece");
        quoted(w, "prefix", s->text, s->text_length);
        hf_flag(w, "cleanup", s->cleanup);
        end(w);
        return;
    case DECODE_SUFFIX:
        step(w, "BPEDecoder");
        quoted(w, "suffix", s->text, s->text_length);
        end(w);
        return;
    case DECODE_STRIP:
        strip(w, s->point, s->start, s->stop);
        return;
    case DECODE_CTC:
        step(w, "CTC");
        quoted(w, "pad_token", s->text, s->text_length);
        quoted(w, "word_delimiter_token", s->content, s->content_length);
        hf_flag(w, "cleanup", s->cleanup);
        end(w);
        return;
    }
}

/* Without a decoder, tokens are joined by spaces; Fuse joins them without a separator. */
static void put_decoders(hf_writer *w)
{
    const decoder *d = &w->t->decoder;
    bool fused = false;
    for (int i = 0; i < d->n; i++) {
        put_decoder(w, &d->step[i]);
        fused = d->step[i].kind == DECODE_BYTE_LEVEL;
    }
    if (!fused && !d->spaced && (d->fused || d->strip_start > 0 || d->n == 0))
        plain(w, "Fuse");
    if (d->strip_start > 0)
        strip(w, d->strip_point, d->strip_start, 0);
}

void hf_write_decoder(hf_writer *w)
{
    list(w, "decoder", "decoders", put_decoders);
}
