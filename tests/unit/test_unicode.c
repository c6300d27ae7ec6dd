/* Code points: classes, lower case, clusters, normal forms. */
#include "support.h"

#include "base/clock.h"

#include "base/rng.h"
#include "base/utf8.h"
#include "text/unicode/tables.h"
#include "text/unicode/unicode.h"

#include <utf8proc.h>

/* ---- classes --------------------------------------------------------------------------------- */

static void ascii(void **state)
{
    (void)state;
    for (uint32_t c = 0; c < 0x80; c++) {
        const bool digit = c >= '0' && c <= '9';
        const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        const bool space = c == ' ' || (c >= 9 && c <= 13);
        const bool blank = c == '\t' || c == '\n' || c == '\r';
        assert_int_equal(unicode_is_numeric(c), digit);
        assert_int_equal(unicode_is_word(c), digit || letter || c == '_');
        assert_int_equal(unicode_is_space(c), space);
        assert_int_equal(unicode_is_control(c), (c < 0x20 || c == 0x7F) && !blank);
        assert_int_equal(unicode_is_punctuation(c), c > 0x20 && c < 0x7F && !digit && !letter);
        assert_false(unicode_is_accent(c) || unicode_is_mark(c) || unicode_is_han(c));
    }
}

typedef bool is_fn(uint32_t c);

static void edges(void **state)
{
    (void)state;
    static const struct {
        is_fn *is;
        uint32_t in, out;
    } cases[] = {
        { unicode_is_space, 0x85, 0x84 },           { unicode_is_space, 0x200A, 0x200B },
        { unicode_is_space, 0x3000, 0x180E },       { unicode_is_numeric, 0xBD, 0xBF },
        { unicode_is_numeric, 0x2167, 0x24B6 },     { unicode_is_word, 0x301, 0x2019 },
        { unicode_is_word, 0x200D, 0x200B },        { unicode_is_word, 0x4E00, 0x3000 },
        { unicode_is_control, 0xAD, '\n' },         { unicode_is_control, 0xE000, 0x20AC },
        { unicode_is_punctuation, 0x3001, 0x3000 }, { unicode_is_punctuation, '$', 0xA3 },
        { unicode_is_accent, 0x301, 0x903 },        { unicode_is_mark, 0x903, 0x904 },
        { unicode_is_han, 0x2A6DF, 0x2A6E0 },       { unicode_is_han, 0x3400, 0x3042 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!cases[i].is(cases[i].in) || cases[i].is(cases[i].out))
            fail_msg("row %zu: U+%04X in, U+%04X out", i, cases[i].in, cases[i].out);
    for (uint32_t c = 0x110000; c != 0; c <<= 1)
        assert_false(unicode_is_word(c) || unicode_is_control(c) || unicode_is_punctuation(c));
    assert_int_equal(unicode_script(UINT32_MAX), 0);
}

static bool in_ranges(const uint32_t (*r)[2], size_t n, uint32_t c)
{
    for (size_t i = 0; i < n; i++)
        if (c >= r[i][0] && c <= r[i][1])
            return true;
    return false;
}

static void spaces_and_han(void **state)
{
    (void)state;
    static const uint32_t space[][2] = { { 9, 13 },          { ' ', ' ' },       { 0x85, 0x85 },
                                         { 0xA0, 0xA0 },     { 0x1680, 0x1680 }, { 0x2000, 0x200A },
                                         { 0x2028, 0x2029 }, { 0x202F, 0x202F }, { 0x205F, 0x205F },
                                         { 0x3000, 0x3000 } };
    static const uint32_t han[][2] = { { 0x3400, 0x4DBF },   { 0x4E00, 0x9FFF },
                                       { 0xF900, 0xFAFF },   { 0x20000, 0x2A6DF },
                                       { 0x2A700, 0x2B81F }, { 0x2B920, 0x2CEAF },
                                       { 0x2F800, 0x2FA1F } };
    for (uint32_t c = 0; c < 0x111000; c++) {
        assert_int_equal(unicode_is_space(c), in_ranges(space, 10, c));
        assert_int_equal(unicode_is_han(c), in_ranges(han, 7, c));
    }
}

/* Numbers and lower case are from a newer Unicode version than utf8proc's: they agree on everything
 * utf8proc knows. Marks are from an older one: some that it knows are missing, and few were
 * removed. */
static void tables_beside_utf8proc(void **state)
{
    (void)state;
    int missing = 0, gone = 0, known = 0;
    for (uint32_t c = 0; c < 0x110000; c++) {
        const utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)c);
        if (k == UTF8PROC_CATEGORY_CN || k == UTF8PROC_CATEGORY_CS)
            continue;
        known++;
        const bool mark = k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_MC ||
                          k == UTF8PROC_CATEGORY_ME;
        const bool number = k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL ||
                            k == UTF8PROC_CATEGORY_NO;
        missing += unicode_is_mark(c) < mark;
        gone += unicode_is_mark(c) > mark;
        assert_int_equal(unicode_is_numeric(c), number);
        uint32_t lower[3];
        if (unicode_lower(c, lower) == 1)
            assert_int_equal(lower[0], utf8proc_tolower((utf8proc_int32_t)c));
    }
    assert_true(known > 280000);
    print_message("%d of the marks of Unicode %s are not yet there\n", missing,
                  utf8proc_unicode_version());
    assert_true(missing < 500 && gone < 10);
}

static void lower_case(void **state)
{
    (void)state;
    static const uint32_t pairs[][2] = {
        { 'A', 'a' },       { 'z', 'z' },     { 0xC9, 0xE9 },       { 0x3A3, 0x3C3 },
        { 0x1E9E, 0xDF },   { 0x212A, 'k' },  { 0x10400, 0x10428 }, { 0x1C5, 0x1C6 },
        { 0x13A0, 0xAB70 }, { 0x100, 0x101 }, { 0x101, 0x101 },     { 0x2C62, 0x26B }
    };
    uint32_t to[3];
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        assert_int_equal(unicode_lower(pairs[i][0], to), 1);
        assert_int_equal(to[0], pairs[i][1]);
    }
    assert_int_equal(unicode_lower(0x130, to), 2);
    assert_true(to[0] == 'i' && to[1] == 0x307);
}

static void scripts(void **state)
{
    (void)state;
    assert_int_equal(unicode_script(' '), 0);
    assert_int_equal(unicode_script(0x3042), unicode_script(0x4E00));
    assert_int_equal(unicode_script(0x30A2), unicode_script(0x30FC));
    assert_int_equal(unicode_script('a'), unicode_script(0xE9));
    assert_int_not_equal(unicode_script('a'), unicode_script(0x3B1));
    assert_int_not_equal(unicode_script('a'), unicode_script('1'));
}

static void clusters(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t n;
    } cases[] = { { "", 0 },
                  { "ab", 1 },
                  { "\r\nx", 2 },
                  { "e\314\201x", 3 },
                  { "\341\204\200\341\205\241x", 6 },
                  { "\360\237\221\251\342\200\215\360\237\222\273x", 11 },
                  { "\360\237\207\251\360\237\207\252\360\237\207\253", 8 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(unicode_grapheme(cases[i].text, strlen(cases[i].text)), cases[i].n);
}

/* ---- normal forms ---------------------------------------------------------------------------- */

static void expect(unicode_form form, const char *in, const char *out, const char *from)
{
    host h;
    host_plain(&h);
    weft_error err = { 0 };
    unicode_text t = { .mem = &h.mem };
    assert_int_equal(unicode_normalize(form, in, strlen(in), &t, &err), WEFT_OK);
    char origins[256] = "";
    size_t n = 0;
    for (size_t i = 0; i < t.n; i++)
        n += (size_t)snprintf(origins + n, sizeof origins - n, i ? " %u" : "%u", t.from[i]);
    if (t.n != strlen(out) || (t.n > 0 && memcmp(t.text, out, t.n) != 0) ||
        strcmp(origins, from) != 0)
        fail_msg("form %d of \"%s\": \"%.*s\" from %s, expected \"%s\" from %s", form, in, (int)t.n,
                 t.text, origins, out, from);
    unicode_text_free(&t);
    assert_int_equal(h.mem.used, 0);
}

static void forms(void **state)
{
    (void)state;
    expect(UNICODE_NFC, "", "", "");
    expect(UNICODE_NFC, "abc", "abc", "0 1 2");
    expect(UNICODE_NFC, "e\314\201x", "\303\251x", "0 0 3");
    expect(UNICODE_NFD, "\303\251x", "e\314\201x", "0 0 0 2");
    expect(UNICODE_NFD, "a\303\251", "ae\314\201", "0 1 1 1");
    expect(UNICODE_NFKC, "\357\254\201x", "fix", "0 0 3");
    expect(UNICODE_NFKD, "\302\275", "1\342\201\2042", "0 0 0 0 0");
    expect(UNICODE_NFC, "\341\204\200\341\205\241\341\206\250", "\352\260\201", "0 0 0");
    expect(UNICODE_NFD, "\352\260\201", "\341\204\200\341\205\241\341\206\250",
           "0 0 0 0 0 0 0 0 0");
    expect(UNICODE_NFD, "a\314\201\314\243", "a\314\243\314\201", "0 1 1 3 3");
    expect(UNICODE_NFC, "a\314\201\314\243", "\341\272\241\314\201", "0 0 0 3 3");
    expect(UNICODE_NFC, "\314\201a", "\314\201a", "0 0 2");
    expect(UNICODE_NFC, "\340\244\225\340\244\274", "\340\244\225\340\244\274", "0 0 0 3 3 3");
}

static size_t from_hex(char *text)
{
    size_t n = 0;
    for (unsigned byte; sscanf(text + 2 * n, "%2x", &byte) == 1; n++)
        text[n] = (char)byte;
    return n;
}

/* Each line as normalised by Hugging Face's tokenizers, with its offsets. */
static void forms_of_hugging_face(void **state)
{
    (void)state;
    FILE *f = fopen(fixture("golden/unicode/forms.txt"), "r");
    assert_non_null(f);
    host h;
    host_plain(&h);
    unicode_text t = { .mem = &h.mem };
    weft_error err = { 0 };
    char in[512], out[2048], from[4096];
    int form, line = 0;
    while (fscanf(f, "%d %511s %2047s %4095s", &form, in, out, from) == 4) {
        line++;
        const size_t n = from_hex(in), m = from_hex(out);
        assert_int_equal(unicode_normalize((unicode_form)form, in, n, &t, &err), WEFT_OK);
        if (t.n != m || memcmp(t.text, out, m) != 0)
            fail_msg("line %d: another normal form", line);
        char *rest = from;
        for (size_t i = 0; i < m; i++, rest += *rest == ',')
            if (strtoul(rest, &rest, 10) != t.from[i])
                fail_msg("line %d: byte %zu comes from %u", line, i, t.from[i]);
    }
    assert_int_equal(line, 320);
    fclose(f);
    unicode_text_free(&t);
}

/* The same bytes as utf8proc, on code points that both know. */
static void forms_beside_utf8proc(void **state)
{
    (void)state;
    static const utf8proc_option_t options[] = {
        [UNICODE_NFC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE,
        [UNICODE_NFD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE,
        [UNICODE_NFKC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
        [UNICODE_NFKD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT,
    };
    static const uint32_t blocks[][2] = {
        { 0x20, 0x7F },     { 0xA0, 0x250 },    { 0x300, 0x370 },    { 0x300, 0x346 },
        { 0x370, 0x400 },   { 0x591, 0x5F5 },   { 0x900, 0xE00 },    { 0x1100, 0x1200 },
        { 0x1E00, 0x2000 }, { 0x2000, 0x2200 }, { 0x3000, 0x3100 },  { 0xAC00, 0xD7A4 },
        { 0xF900, 0xFB00 }, { 0xFB00, 0xFFF0 }, { 0x1D100, 0x1D200 }
    };
    host h;
    host_plain(&h);
    unicode_text t = { .mem = &h.mem };
    weft_error err = { 0 };
    const uint64_t rounds = quick() ? 500 : 20000;
    for (uint64_t i = 0; i < rounds; i++) {
        char text[256] = "";
        size_t n = 0, k = 0;
        for (const size_t count = rng_draw(9, i, 0).word[0] % 24; k < count; k++) {
            const rng_block r = rng_draw(9, i, k + 1);
            const uint32_t *b = blocks[r.word[0] % (sizeof blocks / sizeof *blocks)];
            const uint32_t c = b[0] + r.word[1] % (b[1] - b[0]);
            if (!unicode_is_inert(c))
                n += utf8_encode(c, text + n);
        }
        for (unicode_form form = UNICODE_NFC; form <= UNICODE_NFKD; form++) {
            assert_int_equal(unicode_normalize(form, text, n, &t, &err), WEFT_OK);
            utf8proc_uint8_t *expected = NULL;
            const utf8proc_ssize_t m = utf8proc_map((utf8proc_uint8_t *)text, (utf8proc_ssize_t)n,
                                                    &expected, options[form]);
            assert_true(m >= 0);
            if ((size_t)m != t.n || (t.n > 0 && memcmp(expected, t.text, t.n) != 0))
                fail_msg("form %d of \"%.*s\": \"%.*s\", expected \"%s\"", form, (int)n, text,
                         (int)t.n, t.text, (char *)expected);
            if (unicode_is_normal(form, text, n))
                assert_true(t.n == n && (n == 0 || memcmp(t.text, text, n) == 0));
            for (size_t j = 0; j < t.n; j++)
                assert_true(t.from[j] < n && (text[t.from[j]] & 0xC0) != 0x80);
            free(expected);
        }
    }
    unicode_text_free(&t);
    assert_int_equal(h.mem.used, 0);
}

static void forms_of_each_point(void **state)
{
    (void)state;
    host h;
    host_plain(&h);
    unicode_text t = { .mem = &h.mem };
    weft_error err = { 0 };
    int settled = 0;
    for (uint32_t c = 0; c < 0x110000; c += quick() ? 7 : 1) {
        char text[4];
        const size_t n = utf8_encode(c, text);
        for (unicode_form form = UNICODE_NFC; form <= UNICODE_NFKD; form++) {
            if (n == 0 || !unicode_is_normal(form, text, n))
                continue;
            assert_int_equal(unicode_normalize(form, text, n, &t, &err), WEFT_OK);
            assert_true(t.n == n && memcmp(t.text, text, n) == 0);
            settled++;
        }
    }
    assert_true(settled > 10000);
    unicode_text_free(&t);
}

static void marks_without_end(void **state)
{
    (void)state;
    host h;
    host_plain(&h);
    weft_error err = { 0 };
    unicode_text t = { .mem = &h.mem };
    const size_t n = quick() ? 1 << 16 : 1 << 21;
    char *text = malloc(n + 1);
    double ratio = 1e9; /* the lowest of several tries, because of other load */
    for (int again = 0; again < 12 && ratio > 8; again++) {
        double seconds[2];
        for (int whole = 0; whole < 2; whole++) {
            const size_t length = whole ? n : n / 8;
            for (size_t i = 0; i < length; i += 4)
                memcpy(text + i, "\314\201\314\243", 4);
            const double began = clock_thread_seconds();
            assert_int_equal(unicode_normalize(UNICODE_NFC, text, length, &t, &err), WEFT_OK);
            seconds[whole] = clock_thread_seconds() - began;
            assert_int_equal(t.n, length);
            assert_memory_equal(t.text, "\314\243\314\243", 4);
        }
        ratio = fmin(ratio, seconds[1] / fmax(seconds[0], 1e-6));
    }
    assert_true(ratio < 20); /* 8 is linear, 64 quadratic */
    free(text);
    unicode_text_free(&t);
    assert_int_equal(h.mem.used, 0);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    char text[1200];
    memset(text, 'a', 600);
    for (size_t i = 600; i < 1200; i += 4)
        memcpy(text + i, "\314\201\314\243", 4);
    for (int64_t k = 1;; k++) {
        faults f = { .fail_at = k };
        host h;
        host_faulty(&h, &f, NULL);
        weft_error err = { 0 };
        unicode_text t = { .mem = &h.mem };
        const weft_status status = unicode_normalize(UNICODE_NFC, text, sizeof text, &t, &err);
        const bool failed = f.calls >= k;
        assert_int_equal(status, failed ? WEFT_ENOMEM : WEFT_OK);
        unicode_text_free(&t);
        assert_int_equal(f.live, 0);
        if (!failed)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("unicode: ASCII is classified correctly", ascii),
        TEST("unicode: classes have the right borders", edges),
        TEST("unicode: white space and Han are classified correctly", spaces_and_han),
        TEST("unicode: the tables agree with utf8proc's except for versions",
             tables_beside_utf8proc),
        TEST("unicode: lower case is one code point, with one exception", lower_case),
        TEST("unicode: kana and Han are one script, a space is any", scripts),
        TEST("unicode: grapheme clusters end correctly", clusters),
        TEST("unicode: normal forms track the origin of each byte", forms),
        TEST("unicode: normal forms equal Hugging Face's", forms_of_hugging_face),
        TEST("unicode: normal forms equal utf8proc's", forms_beside_utf8proc),
        TEST("unicode: the quick check has no false positives", forms_of_each_point),
        TEST("unicode: long runs of marks take linear time", marks_without_end),
        TEST("unicode: every allocation may fail", every_allocation_may_fail),
    };
    return RUN(tests);
}
